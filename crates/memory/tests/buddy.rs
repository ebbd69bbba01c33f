//! The buddy allocator against a reference model: one flag per frame, and everything else computed from its
//! definition.

use ambulator_base::{Pfn, Random};
use ambulator_memory::{BlockOrder, BuddyAllocator, BuddySpec, FragmentSpec, PressureSpec, fragment, press};
use proptest::prelude::*;

/// One flag per frame: free or not.
struct Model {
    free: Vec<bool>,
    reserved: u64,
    max_block: u32,
}

impl Model {
    fn new(spec: &BuddySpec, total: u64) -> Model {
        let reserved = spec.reserve_low.min(total);
        Model { free: (0..total).map(|f| f >= reserved).collect(), reserved, max_block: spec.max_order - 1 }
    }

    fn block_free(&self, at: u64, order: u32) -> bool {
        order <= self.max_block
            && at + (1 << order) <= self.free.len() as u64
            && (at..at + (1 << order)).all(|f| self.free[f as usize])
    }

    fn set(&mut self, at: u64, order: u32, free: bool) {
        self.free[at as usize..(at + (1 << order)) as usize].fill(free);
    }

    fn starts(&self, order: u32) -> impl Iterator<Item = u64> {
        (0..self.free.len() as u64).step_by(1 << order)
    }

    /// The free blocks that are not part of a larger one.
    fn maximal(&self, order: u32) -> Vec<u64> {
        let parent = |at: u64| at & !((2 << order) - 1);
        self.starts(order).filter(|&at| self.block_free(at, order) && !self.block_free(parent(at), order + 1)).collect()
    }

    /// The choice of the policy: the lowest block of the smallest sufficient order.
    fn choice(&self, order: u32) -> Option<u64> {
        (order..=self.max_block).find_map(|o| self.maximal(o).first().copied())
    }

    /// Compares every query with its answer from the flags.
    fn check(&self, frames: &BuddyAllocator) -> Result<(), TestCaseError> {
        let free = self.free.iter().filter(|f| **f).count() as u64;
        prop_assert_eq!(frames.free_frames(), free);
        for (f, &is) in self.free.iter().enumerate() {
            prop_assert_eq!(frames.is_free(Pfn(f as u64)), is, "frame {}", f);
        }
        let mut largest = None;
        let mut usable_from = vec![0; self.max_block as usize + 2];
        for order in 0..=self.max_block {
            let blocks = self.maximal(order).len() as u64;
            prop_assert_eq!(frames.free_blocks(order), blocks, "blocks of order {}", order);
            if blocks > 0 {
                largest = Some(order);
            }
            for at in self.starts(order) {
                prop_assert_eq!(frames.is_block_free(Pfn(at), order), self.block_free(at, order), "{} {}", at, order);
            }
            usable_from[order as usize] = self.starts(order).filter(|&at| self.block_free(at, order)).count() as u64;
        }
        prop_assert_eq!(frames.largest_free_order(), largest);
        for order in 0..=self.max_block + 1 {
            let usable = usable_from[order as usize] << order;
            let index = if free == 0 { 1.0 } else { 1.0 - usable as f64 / free as f64 };
            prop_assert!(
                (frames.fmfi(order) - index).abs() < 1e-12,
                "order {}: {} {}",
                order,
                frames.fmfi(order),
                index
            );
            prop_assert_eq!(frames.fragmentation_index(order).is_none(), usable > 0);
        }
        let runs: Vec<u64> = self.free.chunk_by(|a, b| a == b).filter(|r| r[0]).map(|r| r.len() as u64).collect();
        let found = frames.contiguity();
        prop_assert_eq!(found.largest, runs.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(found.frames.iter().sum::<u64>(), free);
        for (class, &n) in found.runs.iter().enumerate() {
            prop_assert_eq!(n, runs.iter().filter(|r| r.ilog2() as usize == class).count() as u64);
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Op {
    Allocate(u32),
    AllocateAt(u64, u32),
    /// Frees the n-th allocation entirely.
    Free(usize),
    /// Frees one half of the n-th allocation.
    FreeHalf(usize, bool),
    FreeAll,
    Press(u64),
    /// Number of frames, and the order to which the first is aligned.
    AllocateRun(u64, u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u32..9).prop_map(Op::Allocate),
        3 => Just(Op::Allocate(0)),
        4 => (any::<u64>(), 0u32..9).prop_map(|(at, order)| Op::AllocateAt(at, order)),
        6 => any::<usize>().prop_map(Op::Free),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(n, high)| Op::FreeHalf(n, high)),
        1 => Just(Op::FreeAll),
        1 => any::<u64>().prop_map(Op::Press),
        2 => (1u64..600, 0u32..8).prop_map(|(frames, align)| Op::AllocateRun(frames, align)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn agrees_with_one_flag_per_frame(
        total in 1u64..1500,
        max_order in 1u32..=12,
        reserve_low in prop_oneof![Just(0u64), Just(256), 0u64..300],
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let spec = BuddySpec { max_order, reserve_low, ..BuddySpec::default() };
        let mut frames = BuddyAllocator::new(&spec, total);
        let mut model = Model::new(&spec, total);
        let fresh: Vec<u64> = (0..max_order).map(|o| frames.free_blocks(o)).collect();
        let mut held: Vec<(u64, u32)> = Vec::new();
        model.check(&frames)?;
        for op in ops {
            match op {
                Op::Allocate(order) => {
                    let got = frames.allocate(order);
                    prop_assert_eq!(got.map(|p| p.0), model.choice(order));
                    if let Some(at) = got {
                        model.set(at.0, order, false);
                        held.push((at.0, order));
                    }
                }
                Op::AllocateAt(at, order) => {
                    let at = (at % total) & !((1 << order) - 1);
                    let can = model.block_free(at, order);
                    prop_assert_eq!(frames.allocate_at(Pfn(at), order), can);
                    if can {
                        model.set(at, order, false);
                        held.push((at, order));
                    }
                }
                Op::Free(n) if !held.is_empty() => {
                    let (at, order) = held.swap_remove(n % held.len());
                    frames.free(Pfn(at), order);
                    model.set(at, order, true);
                }
                Op::FreeHalf(n, high) if !held.is_empty() => {
                    let (at, order) = held.swap_remove(n % held.len());
                    if order == 0 {
                        held.push((at, order));
                        continue;
                    }
                    let (low, up) = ((at, order - 1), (at + (1 << (order - 1)), order - 1));
                    let (free, keep) = if high { (up, low) } else { (low, up) };
                    frames.free(Pfn(free.0), free.1);
                    model.set(free.0, free.1, true);
                    held.push(keep);
                }
                Op::FreeAll => {
                    for (at, order) in held.drain(..) {
                        frames.free_range(Pfn(at), 1 << order);
                        model.set(at, order, true);
                    }
                    let now: Vec<u64> = (0..max_order).map(|o| frames.free_blocks(o)).collect();
                    prop_assert_eq!(&now, &fresh, "free blocks have not been merged");
                }
                Op::Press(seed) => {
                    // The bulk path takes; single frees give back.
                    press(&mut frames, &PressureSpec { pressure: 0.3 }, &mut Random::new(seed));
                    for f in model.reserved..total {
                        if model.free[f as usize] && !frames.is_free(Pfn(f)) {
                            model.set(f, 0, false);
                            held.push((f, 0));
                        }
                    }
                }
                Op::AllocateRun(n, align) => {
                    let fits = |at: u64| at + n <= total && (at..at + n).all(|f| model.free[f as usize]);
                    let lowest = model.starts(align).find(|at| fits(*at));
                    prop_assert_eq!(frames.allocate_run(n, align).map(|p| p.0), lowest);
                    for f in lowest.into_iter().flat_map(|at| at..at + n) {
                        model.set(f, 0, false);
                        held.push((f, 0));
                    }
                }
                Op::Free(_) | Op::FreeHalf(..) => {}
            }
            model.check(&frames)?;
        }
        for (at, order) in held {
            frames.free(Pfn(at), order);
        }
        let now: Vec<u64> = (0..max_order).map(|o| frames.free_blocks(o)).collect();
        prop_assert_eq!(now, fresh);
    }
}

/// Linux's lists: by order, free blocks in the order of their frees, the last one at the end.
struct Lists(Vec<Vec<u64>>);

impl Lists {
    fn new(max_order: u32, reserved: u64, total: u64) -> Lists {
        let mut lists = Lists(vec![Vec::new(); max_order as usize]);
        let mut at = reserved;
        while at < total {
            let order = at.trailing_zeros().min((total - at).ilog2()).min(max_order - 1);
            lists.free(at, order);
            at += 1 << order;
        }
        lists
    }

    fn free(&mut self, at: u64, order: u32) {
        let largest = self.0.len() - 1;
        let list = &mut self.0[order as usize];
        match list.iter().position(|block| *block == at ^ 1 << order) {
            Some(buddy) if (order as usize) < largest => {
                list.remove(buddy);
                self.free(at & !(1 << order), order + 1);
            }
            _ => list.push(at),
        }
    }

    /// Takes `order` frames at `at` from the free block around them.
    fn take(&mut self, at: u64, order: u32) -> bool {
        let found = (order as usize..self.0.len()).find_map(|from| {
            let index = self.0[from].iter().position(|block| *block == at >> from << from)?;
            Some((from, index))
        });
        let Some((from, index)) = found else { return false };
        self.0[from].remove(index);
        (order as usize..from).rev().for_each(|half| self.0[half].push((at >> half ^ 1) << half));
        true
    }

    fn allocate(&mut self, order: u32) -> Option<u64> {
        let at = *self.0.iter().skip(order as usize).find_map(|list| list.last())?;
        assert!(self.take(at, order));
        Some(at)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn lists_give_the_block_that_was_freed_last(
        total in 1u64..1500,
        max_order in 1u32..=10,
        reserve_low in 0u64..300,
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let spec = BuddySpec { max_order, reserve_low, block_order: BlockOrder::Lifo };
        let mut frames = BuddyAllocator::new(&spec, total);
        let mut lists = Lists::new(max_order, reserve_low.min(total), total);
        let mut held: Vec<(u64, u32)> = Vec::new();
        for op in ops {
            match op {
                Op::Allocate(order) => {
                    let got = frames.allocate(order).map(|frame| frame.0);
                    prop_assert_eq!(got, lists.allocate(order), "order {}", order);
                    held.extend(got.map(|at| (at, order)));
                }
                Op::AllocateAt(at, order) => {
                    let at = (at % total) & !((1 << order) - 1);
                    let got = frames.allocate_at(Pfn(at), order);
                    prop_assert_eq!(got, lists.take(at, order));
                    held.extend(got.then_some((at, order)));
                }
                Op::Free(n) | Op::FreeHalf(n, _) if !held.is_empty() => {
                    let (at, order) = held.swap_remove(n % held.len());
                    frames.free(Pfn(at), order);
                    lists.free(at, order);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn the_frees_of_other_programs_leave_lists_in_random_order() {
    let spec = BuddySpec { block_order: BlockOrder::Lifo, ..BuddySpec::default() };
    let mut frames = BuddyAllocator::new(&spec, 1 << 18);
    let top = frames.allocate(10).unwrap();
    assert_eq!((top, frames.allocate(10)), (Pfn((1 << 18) - 1024), Some(Pfn((1 << 18) - 2048))), "from the top");
    let fragmented = |block_order| {
        let mut frames = BuddyAllocator::new(&BuddySpec { block_order, ..BuddySpec::default() }, 1 << 18);
        fragment(
            &mut frames,
            &FragmentSpec { fmfi: 0.25, free_share: 0.95, ..FragmentSpec::default() },
            &mut Random::new(3),
        );
        let given: Vec<u64> = (0..2000).map(|_| frames.allocate(0).unwrap().0).collect();
        (frames.free_frames(), given)
    };
    let (left, scattered) = fragmented(BlockOrder::Lifo);
    let (same, ascending) = fragmented(BlockOrder::Address);
    assert_eq!(left, same, "the same frames are free");
    assert!(ascending.is_sorted());
    let mean = scattered.iter().sum::<u64>() / scattered.len() as u64;
    assert!(mean.abs_diff(1 << 17) < 1 << 14, "frames of all memory: {mean}");
    let up = scattered.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((900..1100).contains(&up), "{up} of 2000 frames are above the one before");
    assert_eq!(fragmented(BlockOrder::Lifo).1, scattered);
}

#[test]
fn orders_have_the_block_sizes_of_linux() {
    let gib_8 = (8 << 30) / 4096;
    let spec = |max_order| BuddySpec { max_order, reserve_low: 0, ..BuddySpec::default() };
    assert_eq!(BuddyAllocator::new(&spec(11), gib_8).free_blocks(10), 2048, "blocks of 4 MiB");
    assert_eq!(BuddyAllocator::new(&spec(20), gib_8).free_blocks(19), 4, "blocks of 2 GiB");
    let mut frames = BuddyAllocator::new(&spec(20), gib_8);
    assert_eq!(frames.allocate_bytes(1 << 30), Some(Pfn(0)));
    assert_eq!(frames.allocate_bytes((1 << 30) + 1), Some(Pfn((2 << 30) / 4096)), "rounded up to 2 GiB");
    assert_eq!(frames.allocate_bytes((2 << 30) + 1), None, "larger than the largest block");
    assert_eq!(frames.allocate(31), None);
    assert_eq!(frames.allocate(32), None);
    assert_eq!(frames.allocate(u32::MAX), None);
    frames.free_range(Pfn(0), (1 << 30) / 4096);
    frames.free_range(Pfn((2 << 30) / 4096), (2 << 30) / 4096);
    assert_eq!((frames.free_blocks(19), frames.free_frames()), (4, gib_8));
}

#[test]
fn a_run_may_exceed_the_largest_block() {
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), 1 << 16);
    let free = frames.free_frames();
    // 64 MiB + 4 KiB at a multiple of 64 MiB. The first such range begins with reserved frames.
    assert_eq!(frames.allocate_run((1 << 14) + 1, 14), Some(Pfn(1 << 14)));
    assert_eq!(frames.free_frames(), free - (1 << 14) - 1);
    assert!(!frames.allocate_range(Pfn(1 << 15), 2) && frames.allocate_range(Pfn((1 << 15) + 1), 2));
    assert_eq!(frames.allocate_run(1 << 16, 0), None);
    assert_eq!(frames.allocate_run(1, 64), None);
    assert!(!frames.is_range_free(Pfn((1 << 16) - 1), 2), "the second frame is past the end");
    frames.free_range(Pfn(1 << 14), (1 << 14) + 1 + 2);
    assert_eq!((frames.free_frames(), frames.contiguity().largest), (free, free));
}

#[test]
fn the_lowest_frames_are_never_allocated() {
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), 1 << 16);
    assert!(!frames.allocate_at(Pfn(255), 0));
    let given: Vec<Pfn> = std::iter::from_fn(|| frames.allocate(0)).collect();
    assert_eq!((given.len(), given.iter().min()), ((1 << 16) - 256, Some(&Pfn(256))));
}

#[test]
fn the_two_indices_of_a_known_memory() {
    // Of 1024 frames every even one is taken: 512 free blocks of order 0.
    let mut frames = BuddyAllocator::new(&BuddySpec { reserve_low: 0, ..BuddySpec::default() }, 1024);
    for f in (0..1024).step_by(2) {
        assert!(frames.allocate_at(Pfn(f), 0));
    }
    assert_eq!((frames.fmfi(0), frames.fmfi(1)), (0.0, 1.0));
    assert_eq!(frames.fragmentation_index(0), None);
    // 1 - (1 + 512 / 2) / 512
    assert!((frames.fragmentation_index(1).unwrap() - (1.0 - 257.0 / 512.0)).abs() < 1e-12);
    // An eighth is freed: frames 0..128 are one block, of 576 free frames in all.
    frames.allocate_at(Pfn(1), 0);
    for f in (0..128).step_by(2).chain([1]) {
        frames.free(Pfn(f), 0);
    }
    assert_eq!(frames.free_blocks(7), 1);
    assert!((frames.unusable_index(7) - 448.0 / 576.0).abs() < 1e-12);
    assert_eq!(frames.fragmentation_index(7), None);
}

fn one_page() -> BuddyAllocator {
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), 4096);
    assert!(frames.allocate_at(Pfn(512), 9));
    frames
}

#[test]
fn single_frames_of_a_huge_page_are_merged_again() {
    let mut frames = one_page();
    let whole = frames.free_frames();
    for f in (512..1024).rev() {
        frames.free(Pfn(f), 0);
    }
    assert_eq!(frames.free_frames(), whole + 512);
    assert!(frames.is_block_free(Pfn(512), 9));
}

#[test]
#[should_panic(expected = "freed twice")]
fn freeing_a_frame_twice_panics() {
    let mut frames = one_page();
    frames.free(Pfn(700), 0);
    frames.free(Pfn(700), 0);
}

#[test]
#[should_panic(expected = "freed twice")]
fn freeing_a_partly_free_block_panics() {
    let mut frames = one_page();
    frames.free(Pfn(1000), 0);
    frames.free(Pfn(512), 9);
}

#[test]
#[should_panic(expected = "never allocated")]
fn freeing_a_reserved_frame_panics() {
    one_page().free(Pfn(3), 0);
}

#[test]
#[should_panic(expected = "never allocated")]
fn freeing_past_the_end_panics() {
    one_page().free(Pfn(4096), 0);
}

#[test]
fn fragmented_memory_serves_requests_according_to_its_index() {
    let mut frames = BuddyAllocator::new(&BuddySpec { max_order: 20, ..BuddySpec::default() }, 1 << 20);
    let spec = FragmentSpec { fmfi: 1.0, free_share: 0.5, ..FragmentSpec::default() };
    fragment(&mut frames, &spec, &mut Random::new(9));
    assert_eq!(frames.allocate(9), None);
    assert!(frames.allocate(0).is_some());
    let mut frames = BuddyAllocator::new(&BuddySpec { max_order: 20, ..BuddySpec::default() }, 1 << 20);
    let spec = FragmentSpec { fmfi: 0.7, free_share: 0.5, ..FragmentSpec::default() };
    fragment(&mut frames, &spec, &mut Random::new(9));
    // 0.3 of half of 2048 blocks.
    assert_eq!(std::iter::from_fn(|| frames.allocate(9)).count(), 307);
}

#[test]
fn invalid_specs_are_reported_by_key() {
    for max_order in [0, 31, u32::MAX] {
        let wrong = BuddySpec { max_order, ..BuddySpec::default() }.validate("os.buddy");
        assert!(wrong[0].to_string().starts_with(&format!("`os.buddy.max_order` is {max_order}")), "{wrong:?}");
        // An invalid spec is clamped and does not panic.
        BuddyAllocator::new(&BuddySpec { max_order, ..BuddySpec::default() }, 4096);
    }
    assert!(BuddySpec::default().validate("os.buddy").is_empty());
}

#[test]
fn refused_allocations_change_nothing_and_are_counted() {
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), 4096);
    let free = frames.free_frames();
    assert_eq!(frames.refuse(1, 4), 0);
    let first = frames.allocate(0).unwrap();
    assert_eq!((frames.allocate(3), frames.allocate_at(Pfn(1024), 2)), (None, false));
    assert_eq!((frames.allocate_range(Pfn(1024), 5), frames.allocate_run(5, 0)), (false, None));
    assert_eq!(frames.free_frames(), free - 1);
    // Enough have failed.
    assert!(frames.allocate_range(Pfn(1024), 5) && frames.allocate_at(Pfn(2048), 2));
    assert_eq!(frames.refuse(0, 1), 4);
    assert_eq!(frames.allocate_bytes(4096), None);
    assert_eq!((frames.refuse(2, 9), frames.refuse(0, 0)), (1, 0));
    assert!(frames.allocate_run(5, 0).is_some());
    frames.free(first, 0);
}

#[test]
fn frames_of_the_kernel_come_from_blocks_of_their_own_if_pages_are_grouped() {
    let new = || BuddyAllocator::new(&BuddySpec::default(), 8 << 10);
    let mut plain = new();
    let first = plain.allocate(0).unwrap();
    assert_eq!(plain.allocate_unmovable(), Some(Pfn(first.0 + 1)), "the smallest free block");
    let mut grouped = new();
    grouped.group_by_mobility();
    // A page in a cluster of its own, as a placement would allocate it.
    assert!(grouped.allocate_at(Pfn(4096), 0));
    let kernel: Vec<u64> = (0..600).map(|_| grouped.allocate_unmovable().unwrap().0).collect();
    // 512 frames of one block of 2 MiB, and then of the next free one.
    assert!(kernel[..512].iter().all(|frame| frame >> 9 == kernel[0] >> 9));
    assert!(kernel[512..].iter().all(|frame| frame >> 9 == kernel[512] >> 9 && frame >> 9 != kernel[0] >> 9));
    assert!((4097..4608).all(|frame| grouped.is_free(Pfn(frame))), "those behind the page stay free");
    grouped.free(Pfn(kernel[3]), 0);
    grouped.free(Pfn(kernel[520]), 0);
    assert_eq!(grouped.allocate_unmovable(), Some(Pfn(kernel[520])), "within the current block first");
    // Without a free block of 2 MiB, any frame.
    while grouped.allocate(9).is_some() {}
    let left = grouped.free_frames();
    assert!((0..left).all(|_| grouped.allocate_unmovable().is_some()));
    assert_eq!((grouped.free_frames(), grouped.allocate_unmovable()), (0, None));
}
