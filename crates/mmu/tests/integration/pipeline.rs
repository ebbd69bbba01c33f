//! The pipeline: the order of its components, and which results may become translations.

use crate::support::{self, Bench, FakeLookaside, FakeSpeculator, Log, Parts, WALK};
use ambulator_base::{AccessKind, Asid, Cycle, Page, PageSize, Pfn, PhysAddr, VirtAddr};
use ambulator_mmu::{Begin, Translation, WaitingWalk};

const PAGE: u64 = 0x1234_5000;

fn bench(parts: impl FnOnce(&Log) -> Parts) -> Bench {
    let bench = Bench::new(parts);
    bench.table.map(1, PAGE, 77, PageSize::SIZE_4K, true);
    bench
}

fn lookaside(log: &Log, found: Option<Translation>, latency: u64, holds_walk: bool) -> Parts {
    let lookaside = FakeLookaside { found, latency, holds_walk, log: log.clone() };
    Parts { lookaside: Some(lookaside), ..Parts::default() }
}

#[test]
fn a_miss_joins_the_walk_of_its_page_that_is_in_flight() {
    let mut bench = bench(|_| Parts::default());
    let (at, ready) = bench.access(PAGE + 8, AccessKind::Load, 100).expect("mapped");
    assert_eq!(at, (77 << 12) + 8);
    assert!(ready >= 100 + WALK);
    // In the L1 TLB, and for a fetch, which misses its L1 TLB, in the L2 TLB.
    assert_eq!(bench.access(PAGE + 16, AccessKind::Load, 110), Some(((77 << 12) + 16, ready)));
    assert_eq!(bench.access(PAGE, AccessKind::Fetch, 110), Some((77 << 12, ready)));
    let counters = &bench.mmu.counters;
    assert_eq!((counters.walks, counters.joined, counters.l1d_tlb_hits), (1, 2, 0));
    // The recent translation is not used before the walk has ended, either.
    assert_eq!(bench.mmu.recall(VirtAddr(PAGE), AccessKind::Load, Cycle(110)), None);
    assert_eq!(bench.access(PAGE, AccessKind::Load, ready + 10).map(|(_, ready)| ready), Some(ready + 10));
}

#[test]
fn who_joins_a_walk_waits_for_its_end_also_if_that_is_later_than_was_said() {
    for size in [PageSize::SIZE_4K, PageSize::SIZE_2M] {
        let mut bench = Bench::new(|_| Parts::default());
        let page = VirtAddr(PAGE).align_down(size).0;
        bench.table.map(1, page, 512, size, true);
        bench.table.map(1, page + size.bytes(), 1024, size, true);
        let (_, told) = bench.access(page + 8, AccessKind::Load, 100).expect("mapped");
        let (_, others) = bench.access(page + size.bytes(), AccessKind::Load, 110).expect("mapped");
        let (first, joiner) = (VirtAddr(page + 8), VirtAddr(page + 16));
        assert_eq!(bench.mmu.joined_late(joiner, Cycle(told)), Some(0), "on time so far");
        // The first walk has number 1. It is late, and later once more.
        for (before, late) in [(told, 50), (told + 50, 7)] {
            bench.mmu.delay_walk(Some(1), first, Cycle(before), late);
            assert_eq!(bench.mmu.joined_late(joiner, Cycle(before)), Some(late));
            assert_eq!(bench.mmu.joined_late(joiner, Cycle(before + late)), Some(0));
        }
        let ready = |found: Option<(u64, u64)>| found.expect("mapped").1;
        // In the L1 TLB, by its recent translation, and for a fetch, which misses its L1 TLB, in the L2 TLB.
        assert_eq!(bench.mmu.recall(joiner, AccessKind::Load, Cycle(told + 10)), None);
        assert_eq!(ready(bench.access(joiner.0, AccessKind::Load, told + 10)), told + 57);
        assert_eq!(ready(bench.access(joiner.0, AccessKind::Fetch, told + 10)), told + 57);
        assert_eq!(bench.mmu.joined_late(VirtAddr(page + size.bytes()), Cycle(others)), Some(0), "another page's walk");
    }
}

#[test]
fn who_joins_a_walk_that_waits_for_a_walker_waits_until_that_has_begun() {
    for size in [PageSize::SIZE_4K, PageSize::SIZE_2M] {
        let mut bench = Bench::new(|_| Parts::default());
        let page = VirtAddr(PAGE).align_down(size).0;
        let others = 1..=256;
        bench.table.map(1, page, 512, size, true);
        others.clone().for_each(|other| bench.table.map(1, page + other * size.bytes(), 512 * (1 + other), size, true));
        let (_, told) = bench.access(page + 8, AccessKind::Load, 100).expect("mapped");
        let (first, joiner) = (VirtAddr(page + 8), VirtAddr(page + 16));
        let begins = Cycle(told - WALK);
        let walk =
            WaitingWalk { number: 1, place: 3, va: first, begins, translated: Cycle(told), ..WaitingWalk::default() };
        let asks = bench.mmu.wait_for_walker(walk).expect("it is the first");
        let ready = |found: Option<(u64, u64)>| found.expect("mapped").1;
        // Long after that it has not begun.
        let now = told + 1000;
        let looks_up = |bench: &mut Bench| {
            assert_eq!(bench.mmu.recall(joiner, AccessKind::Load, Cycle(now)), None);
            assert!(ready(bench.access(joiner.0, AccessKind::Load, now)) > now);
            assert_eq!(bench.mmu.joined_late(joiner, Cycle(now)), None);
        };
        looks_up(&mut bench);
        // Nor if the entry is in the L2 TLB alone.
        others.for_each(|other| _ = bench.access(page + other * size.bytes(), AccessKind::Load, 110));
        looks_up(&mut bench);
        // It begins 1100 cycles later than was said, and main memory serves it 30 cycles later.
        assert!(matches!(bench.mmu.begin_walk(2, asks), Begin::No));
        let Begin::Now(begun, _) = bench.mmu.begin_walk(3, asks) else { panic!("there is a walker for it") };
        assert_eq!(begun.va, first);
        assert_eq!(bench.mmu.has_begun(&begun, 1100, 30), Cycle(told + 1130));
        assert_eq!(bench.mmu.joined_late(joiner, Cycle(now)), Some(130));
        assert_eq!(ready(bench.access(joiner.0, AccessKind::Load, now + 10)), told + 1130);
        assert_eq!(ready(bench.access(joiner.0, AccessKind::Fetch, now + 10)), told + 1130);
        assert_eq!(ready(bench.access(joiner.0, AccessKind::Load, told + 1200)), told + 1200);
    }
}

#[test]
fn only_a_lookaside_that_holds_the_walk_delays_it() {
    for (holds, start) in [(true, 1000), (false, 0)] {
        let mut bench = bench(|log| lookaside(log, None, 1000, holds));
        let (_, ready) = bench.access(PAGE, AccessKind::Load, 0).expect("mapped");
        assert!((start + WALK..start + WALK + 50).contains(&ready), "holds {holds}: {ready}");
    }
}

#[test]
fn the_sockets_are_called_in_order_and_the_refill_follows_the_walk() {
    let mut bench = bench(|log| Parts {
        speculator: Some(FakeSpeculator { guess: PhysAddr(0x9000), computes: None, log: log.clone() }),
        ..lookaside(log, None, 10, false)
    });
    bench.load(PAGE);
    assert_eq!(bench.log.take(), ["probe", "speculate", "walk", "learn", "learn latency", "refill"]);
    // A TLB hit calls no socket.
    bench.load(PAGE);
    assert!(bench.log.take().is_empty());
    // A walk that finds no page neither trains nor refills.
    assert_eq!(bench.load(PAGE + 4096), None);
    assert_eq!(bench.log.take(), ["probe", "speculate", "walk"]);
}

#[test]
fn a_lookaside_beside_an_l2_tlb_hit_is_told_so() {
    let mut bench = bench(|log| lookaside(log, None, 500, true));
    bench.load(PAGE);
    assert_eq!(bench.log.take(), ["probe", "walk", "refill"]);
    // A fetch misses its L1 TLB and hits in the L2 TLB, which does not wait for the lookaside.
    let now = 1 << 41;
    let (_, ready) = bench.access(PAGE, AccessKind::Fetch, now).expect("mapped");
    assert!(ready < now + 100, "{}", ready - now);
    assert_eq!(bench.log.take(), ["probe beside a hit"]);
    assert_eq!((bench.mmu.counters.lookaside_probes, bench.mmu.counters.l2_tlb_hits), (2, 1));
}

#[test]
fn a_lookaside_hit_replaces_a_walk_but_respects_protection() {
    let page = Translation {
        frame: Pfn(5),
        size: PageSize::SIZE_4K,
        writable: false,
        executable: false,
        dirty: false,
        ranged: false,
    };
    let mut bench = bench(|log| lookaside(log, Some(page), 3, true));
    assert_eq!(bench.access(PAGE, AccessKind::Load, 0).map(|(at, _)| at), Some(5 << 12));
    assert_eq!(bench.access(PAGE, AccessKind::Store, 500), None);
    assert_eq!(bench.access(PAGE, AccessKind::Fetch, 500), None);
    assert_eq!((bench.mmu.counters.walks, bench.log.take()), (0, vec!["probe", "probe"]));
}

/// The translation and the copy take their time side by side: what translates the page is not late for others.
#[test]
fn an_access_to_a_page_that_is_copied_is_translated_meanwhile() {
    let page = Page::containing(VirtAddr(PAGE), PageSize::SIZE_4K);
    let found = Translation {
        frame: Pfn(5),
        size: PageSize::SIZE_4K,
        writable: true,
        executable: false,
        dirty: true,
        ranged: false,
    };
    for (latency, found) in [(500, Some(found)), (40_000, Some(found)), (0, None)] {
        let mut bench = bench(|log| lookaside(log, found, latency, true));
        let (from, to) = (PhysAddr(1 << 22), PhysAddr(1 << 23));
        let copy = bench.hierarchy.copy(from, to, 64 << 10, Cycle(0));
        bench.mmu.hold(Asid(1), page, copy);
        // At the rate of the lines so far.
        let copied = bench.hierarchy.copy_end(copy, Cycle(1000)).expect("remembered").0;
        let (_, ready) = bench.access(PAGE, AccessKind::Load, 1000).expect("mapped");
        let translated = 1000 + latency + if found.is_none() { WALK } else { 0 };
        if latency < 40_000 {
            assert!(ready > 5000 && ready.abs_diff(copied) < 30, "{ready}, the copy ends at {copied}");
            assert!(
                bench.mmu.counters.hold_cycles.abs_diff(ready - translated) < 50,
                "{}",
                bench.mmu.counters.hold_cycles
            );
        } else {
            assert!((translated..translated + 50).contains(&ready), "{ready}");
            assert_eq!(bench.mmu.counters.hold_cycles, 0);
        }
        assert_eq!(bench.mmu.counters.mmu_cycles, ready - 1000);
        // Another page does not wait.
        bench.table.map(1, PAGE + 4096, 78, PageSize::SIZE_4K, true);
        let (_, ready) = bench.access(PAGE + 4096, AccessKind::Load, 1100).expect("mapped");
        assert!(ready <= 1100 + latency + WALK + 50, "{ready}");
    }
}

#[test]
fn a_guess_never_becomes_a_translation() {
    let guessed = 0x77_7000;
    let mut bench = bench(|log| Parts {
        speculator: Some(FakeSpeculator { guess: PhysAddr(guessed), computes: None, log: log.clone() }),
        ..Parts::default()
    });
    let (at, ready) = bench.access(PAGE, AccessKind::Load, 0).expect("mapped");
    assert_eq!(at, 77 << 12, "the guess was wrong, and the walk's result is used");
    assert!(ready >= WALK, "a guess provides no address before the walk ends: {ready}");
    assert_eq!(bench.load(PAGE), Some(77 << 12));
    assert_eq!(bench.load(PAGE + 4096), None, "a page that is not mapped faults whatever is guessed");
    // Even a correct guess is used only after the walk.
    bench.table.map(1, PAGE + 8192, guessed >> 12, PageSize::SIZE_4K, true);
    let (at, ready) = bench.access(PAGE + 8192, AccessKind::Load, 10_000).expect("mapped");
    assert!(at == guessed && ready >= 10_000 + WALK);
}

#[test]
fn a_load_computes_with_a_guess_while_the_walk_verifies_it() {
    let guessed = 77 << 12;
    let mut bench = bench(|log| Parts {
        speculator: Some(FakeSpeculator { guess: PhysAddr(guessed), computes: Some(20), log: log.clone() }),
        ..Parts::default()
    });
    // Right: the load asks for its data at once, and commits when the walk has ended.
    let (at, ready) = bench.access(PAGE, AccessKind::Load, 0).expect("mapped");
    assert!(at == guessed && ready < WALK, "{ready}");
    let verification = bench.mmu.verification();
    assert!(!verification.flush && verification.at.0 >= WALK, "{verification:?}");
    // The MMU's time is what the load waited for.
    assert_eq!(bench.mmu.counters.mmu_cycles, ready);
    // Until then the page's next access has the translation too.
    let (_, second) = bench.access(PAGE, AccessKind::Load, ready + 1).expect("mapped");
    assert!(second < WALK, "{second}");
    // Wrong: after the walk and the flush.
    bench.table.map(1, PAGE + 8192, 99, PageSize::SIZE_4K, true);
    let began = 10_000;
    let (at, ready) = bench.access(PAGE + 8192, AccessKind::Load, began).expect("mapped");
    assert!(at == 99 << 12 && ready >= began + WALK + 20, "{ready}");
    let verification = bench.mmu.verification();
    assert_eq!((verification.flush, verification.at.0), (true, ready));
    // A store waits for the walk, and nothing waits for a store.
    bench.table.map(1, PAGE + 16384, 77, PageSize::SIZE_4K, true);
    let (_, ready) = bench.access(PAGE + 16384, AccessKind::Store, 20_000).expect("mapped");
    assert!(ready >= 20_000 + WALK);
    assert_eq!(bench.mmu.verification(), Default::default());
    // Nor does a guess hide a fault.
    assert_eq!(bench.access(PAGE + 4096, AccessKind::Load, 30_000), None);
}

#[test]
fn a_store_to_a_clean_page_walks_until_the_entry_is_dirty() {
    for first in [AccessKind::Load, AccessKind::Fetch] {
        let mut bench = bench(|_| Parts::default());
        bench.table.map_clean(1, PAGE, 77);
        // After a load, the store finds the clean entry in the L1 TLB; after a fetch, in the L2 TLB.
        bench.access(PAGE, first, 0).expect("mapped");
        let store = |bench: &mut Bench, now: u64| {
            bench.log.take();
            bench.access(PAGE, AccessKind::Store, now).expect("mapped");
            bench.log.take().len()
        };
        // The walk of a store sets the dirty bit; until then each store walks.
        assert_eq!((store(&mut bench, 10_000), store(&mut bench, 20_000)), (1, 1), "{first:?}");
        bench.table.map(1, PAGE, 77, PageSize::SIZE_4K, true);
        assert_eq!((store(&mut bench, 30_000), store(&mut bench, 40_000)), (1, 0), "{first:?}");
        assert_eq!(bench.mmu.counters.dirty_assists, 3, "{first:?}");
    }
}

#[test]
fn a_large_page_has_all_of_its_offsets() {
    let mut bench = bench(|_| Parts::default());
    let (page, frame) = (0x4000_0000_u64, 0x400_u64);
    bench.table.map(1, page, frame, PageSize::SIZE_2M, true);
    for bit in 0..21 {
        assert_eq!(bench.load(page + (1 << bit)), Some((frame << 12) + (1 << bit)), "bit {bit}");
    }
    assert_eq!(bench.mmu.counters.walks, 1);
}

/// A virtual machine whose hypervisor maps the guest's page table, and the guest's 2 MiB at [`GUEST`] as `map`
/// does. The guest maps [`LARGE`] there, as one large page.
fn virtual_machine(map: impl FnOnce(&support::Table)) -> Bench {
    let bench = Bench::new(|_| Parts { nested: true, ..Parts::default() });
    bench.hypervisor.map(9, support::ENTRY.0, support::ENTRY.0 >> 12, PageSize::SIZE_4K, true);
    bench.table.map(1, LARGE, GUEST >> 12, PageSize::SIZE_2M, true);
    map(&bench.hypervisor);
    bench
}

const LARGE: u64 = 0x4000_0000;
const GUEST: u64 = 0x20_0000;

#[test]
fn combined_translations_have_the_smaller_page_and_begin_where_it_begins() {
    // Over pages of 4 KiB in any order.
    let mut bench = virtual_machine(|hypervisor| {
        hypervisor.map(9, GUEST, 900, PageSize::SIZE_4K, true);
        hypervisor.map(9, GUEST + 0x5000, 300, PageSize::SIZE_4K, true);
    });
    assert_eq!(bench.load(LARGE + 8), Some((900 << 12) + 8));
    assert_eq!(bench.load(LARGE + 0x5010), Some((300 << 12) + 0x10));
    // Over a large page, by an address in its middle.
    let mut bench = virtual_machine(|hypervisor| hypervisor.map(9, GUEST, 0x600, PageSize::SIZE_2M, true));
    assert_eq!(bench.load(LARGE + 0x12_3456), Some((0x600 << 12) + 0x12_3456));
    assert_eq!(bench.load(LARGE + 0x5010), Some((0x600 << 12) + 0x5010));
    assert_eq!(bench.mmu.counters.walks, 1, "one entry covers the whole page");
}

#[test]
fn a_guests_store_sets_the_dirty_bit_of_the_hypervisors_entry() {
    let mut bench = Bench::new(|_| Parts { nested: true, ..Parts::default() });
    bench.hypervisor.map(9, support::ENTRY.0, support::ENTRY.0 >> 12, PageSize::SIZE_4K, true);
    bench.hypervisor.map_clean(9, GUEST, 300);
    bench.table.map(1, PAGE, GUEST >> 12, PageSize::SIZE_4K, true);
    bench.load(PAGE);
    bench.log.take();
    // The guest's walk, and one of the hypervisor's table although the nested TLB has the page: it is clean.
    bench.access(PAGE, AccessKind::Store, 1 << 41).expect("mapped");
    assert_eq!(bench.log.take(), ["walk", "walk"]);
}
