use ambulator_base::{AccessKind, Asid, CounterDef, CounterSink, Cycle, Page, PageSize, Pfn, Protection, VirtAddr};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_mmu::{Invalidation, PwcSpec, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{MapError, Mapping, PageTable, PteFlags};
use ambulator_structures::tree::{Plain, Tree, TreeWalker};
use proptest::prelude::*;

const LATENCY: u64 = 100;
const VA: VirtAddr = VirtAddr(0x5555_5555_5000);

/// A table with a walker.
struct Pair {
    bed: TestBed,
    table: Box<dyn PageTable>,
    walker: TreeWalker,
}

fn pair(va_bits: u32, pwc: &PwcSpec) -> Pair {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let table: Box<dyn PageTable> = Box::new(Tree::new(Plain, va_bits, &mut bed.os()).unwrap());
    let mut walker = TreeWalker::new(pwc);
    walker.load_registers(Asid(1), &TableRegisters(table.registers()));
    Pair { bed, table, walker }
}

impl Pair {
    fn map(&mut self, va: VirtAddr, size: PageSize) {
        let mapping = Mapping {
            page: Page::containing(va, size),
            frame: Pfn(1 << 20),
            flags: PteFlags::user(Protection::READ_WRITE),
        };
        self.table.map(mapping, &mut self.bed.os()).unwrap();
    }

    fn walk_as(&mut self, va: VirtAddr, access: AccessKind, now: u64) -> (Walk, Vec<u64>) {
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        let walk = self.walker.walk(va, access, Cycle(now), &mut port);
        let updates = port.updates.iter().map(|(_, bits)| *bits).collect();
        (walk, updates)
    }

    /// Loads and cycles of a walk for a load, long after all others.
    fn walk(&mut self, va: VirtAddr) -> (u32, u64) {
        let (walk, _) = self.walk_as(va, AccessKind::Load, 1 << 40);
        assert!(matches!(walk.outcome, WalkOutcome::Mapped(_)), "{va:?}");
        (walk.accesses, walk.ready.0 - (1 << 40))
    }

    /// A walk at time zero, which warms the caches.
    fn warm(&mut self, va: VirtAddr) -> u32 {
        self.walk_as(va, AccessKind::Load, 0).0.accesses
    }

    fn drop_page(&mut self, va: VirtAddr, size: PageSize) {
        self.walker.invalidate(Invalidation::Page { asid: Asid(1), page: Page::containing(va, size) });
    }
}

#[test]
fn a_cold_walk_loads_an_entry_of_every_level_and_pays_the_probe() {
    for (va_bits, size, loads) in [
        (48, PageSize::SIZE_4K, 4),
        (48, PageSize::SIZE_2M, 3),
        (48, PageSize::SIZE_1G, 2),
        (57, PageSize::SIZE_4K, 5),
        (57, PageSize::SIZE_2M, 4),
        (57, PageSize::SIZE_1G, 3),
    ] {
        let mut cached = pair(va_bits, &PwcSpec::default());
        cached.map(VA, size);
        let cycles = u64::from(loads) * LATENCY;
        assert_eq!(cached.walk(VA), (loads, cycles + 2), "{va_bits} {size}");
        let mut bare = pair(va_bits, &PwcSpec::none());
        bare.map(VA, size);
        for _ in 0..2 {
            assert_eq!(bare.walk(VA), (loads, cycles), "{va_bits} {size}, no caches");
        }
    }
}

#[test]
fn a_walk_begins_below_the_deepest_entry_that_is_cached() {
    let mut pair = pair(57, &PwcSpec::default());
    // The other pages share 4, 3, 2, 1 of the five tables.
    let near = [
        (VA.0 + 4096, 1),
        (VA.0 + (2 << 20), 2),
        (VA.0 + (1 << 30), 3),
        (VA.0 + (512 << 30), 4),
        (VA.0 + (1 << 48), 5),
    ];
    pair.map(VA, PageSize::SIZE_4K);
    for (va, _) in near {
        pair.map(VirtAddr(va), PageSize::SIZE_4K);
    }
    for (va, loads) in near {
        pair.walker.invalidate(Invalidation::All);
        assert_eq!(pair.warm(VA), 5);
        let cycles = u64::from(loads) * LATENCY + 2;
        assert_eq!(pair.walk(VirtAddr(va)), (loads, cycles), "{va:#x}");
    }
}

#[test]
fn each_level_is_cached_separately() {
    for (keep, loads) in [(0, 1), (1, 2), (2, 3)] {
        let mut pwc = PwcSpec::none();
        match keep {
            0 => pwc.pde_entries = 4,
            1 => pwc.pdpte_entries = 4,
            _ => pwc.pml4e_entries = 4,
        }
        let mut pair = pair(48, &pwc);
        pair.map(VA, PageSize::SIZE_4K);
        assert_eq!(pair.warm(VA), 4);
        assert_eq!(pair.walk(VA), (loads, u64::from(loads) * LATENCY + 2));
    }
}

#[test]
fn an_entry_does_not_hit_before_its_load_completes() {
    let mut pair = pair(48, &PwcSpec::default());
    pair.map(VA, PageSize::SIZE_4K);
    pair.warm(VA); // loads end at 102, 202, 302, 402
    for (now, loads) in [(0, 4), (101, 3), (201, 2), (301, 1)] {
        let (walk, _) = pair.walk_as(VA, AccessKind::Load, now);
        assert_eq!(walk.accesses, loads, "at {now}");
    }
}

#[test]
fn capacity_and_associativity_follow_the_spec() {
    // Five tables of the last level, one after the other, through four entries.
    let mut full = PwcSpec::none();
    full.pde_entries = 4;
    let mut two_sets = full.clone();
    two_sets.ways = 2;
    for (pwc, second_round) in [(full, [4, 4, 4, 4, 4]), (two_sets, [4, 1, 4, 1, 4])] {
        let mut pair = pair(48, &pwc);
        let pages: Vec<VirtAddr> = (0..5).map(|i| VirtAddr(i << 21)).collect();
        for &va in &pages {
            pair.map(va, PageSize::SIZE_4K);
            assert_eq!(pair.warm(va), 4);
        }
        let loads: Vec<u32> = pages.iter().map(|&va| pair.walk_as(va, AccessKind::Load, 10_000).0.accesses).collect();
        assert_eq!(loads, second_round);
    }
}

#[test]
fn a_page_invalidates_the_entries_that_lead_to_it_and_no_others() {
    let mut pair = pair(48, &PwcSpec::default());
    let (other, far) = (VirtAddr(VA.0 + (2 << 20)), VirtAddr(VA.0 + (512 << 30)));
    for va in [VA, other, far] {
        pair.map(va, PageSize::SIZE_4K);
    }
    let warm = |pair: &mut Pair| {
        pair.walker.invalidate(Invalidation::All);
        for va in [VA, other, far] {
            pair.warm(va);
        }
    };
    for size in [PageSize::SIZE_4K, PageSize::SIZE_2M] {
        warm(&mut pair);
        pair.drop_page(VA, size);
        assert_eq!(pair.walk(VA).0, 4);
        assert_eq!(pair.walk(far).0, 1);
        warm(&mut pair);
        pair.drop_page(VA, size);
        assert_eq!(pair.walk(other).0, 1);
    }
    warm(&mut pair);
    pair.drop_page(VA, PageSize::SIZE_1G);
    assert_eq!(pair.walk(other).0, 4, "the 1 GiB around it was invalidated");
    assert_eq!(pair.walk(far).0, 1);
    warm(&mut pair);
    pair.walker.invalidate(Invalidation::Asid(Asid(2)));
    assert_eq!(pair.walk(VA).0, 1, "another address space");
    pair.walker.invalidate(Invalidation::Asid(Asid(1)));
    assert_eq!(pair.walk(VA).0, 4);
}

#[test]
fn accessed_and_dirty_bits_are_set_once_as_the_access_requires() {
    let mut pair = pair(48, &PwcSpec::default());
    pair.map(VA, PageSize::SIZE_4K);
    let (accessed, dirty) = (1 << 5, 1 << 6);
    assert_eq!(pair.walk_as(VA, AccessKind::Load, 0).1, [accessed]);
    assert!(pair.walk_as(VA, AccessKind::Load, 0).1.is_empty());
    assert_eq!(pair.walk_as(VA, AccessKind::Store, 0).1, [dirty]);
    assert!(pair.walk_as(VA, AccessKind::Store, 0).1.is_empty());
    let page = Page::containing(VA, PageSize::SIZE_4K);
    let read_only = PteFlags::user(Protection::READ);
    pair.table.set_flags(page, read_only, &mut pair.bed.os());
    assert_eq!(pair.walk_as(VA, AccessKind::Store, 0).1, [accessed]);
}

#[derive(Default)]
struct Names(Vec<(String, u64)>);

impl CounterSink for Names {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        self.0.push((format!("{prefix}.{}", def.name), value));
    }
}

#[test]
fn hits_are_counted_by_level() {
    let mut pair = pair(48, &PwcSpec::default());
    pair.map(VA, PageSize::SIZE_4K);
    pair.warm(VA);
    pair.walk(VA);
    pair.walk(VA);
    let mut names = Names::default();
    pair.walker.report("walker", &mut names);
    for counted in
        [("walker.pwc_pde_hits", 2), ("walker.pwc_misses", 1), ("walker.loads", 6), ("walker.bit_updates", 1)]
    {
        assert!(names.0.contains(&(counted.0.to_string(), counted.1)), "{counted:?}: {:?}", names.0);
    }
    pair.walker.reset_counters();
    let mut names = Names::default();
    pair.walker.report("walker", &mut names);
    assert!(names.0.iter().all(|(_, value)| *value == 0));
}

#[test]
fn tables_are_allocated_with_the_first_page_and_freed_with_the_last() {
    let mut pair = pair(48, &PwcSpec::default());
    let bytes = |pair: &Pair| pair.table.footprint().bytes;
    assert_eq!(bytes(&pair), 4096);
    pair.map(VA, PageSize::SIZE_4K);
    pair.map(VirtAddr(VA.0 + 4096), PageSize::SIZE_4K);
    assert_eq!(bytes(&pair), 4 * 4096);
    let page = |va: u64| Page::containing(VirtAddr(va), PageSize::SIZE_4K);
    pair.table.unmap(page(VA.0), &mut pair.bed.os()).unwrap();
    assert_eq!(bytes(&pair), 4 * 4096);
    pair.table.unmap(page(VA.0 + 4096), &mut pair.bed.os()).unwrap();
    let footprint = pair.table.footprint();
    assert_eq!((footprint.bytes, footprint.peak_bytes), (4096, 4 * 4096));
    assert_eq!((footprint.entries, footprint.largest_contiguous), (0, 4096));
    assert_eq!(pair.bed.memory.touched_bytes(), 4096);
}

#[test]
fn mapping_a_mapped_page_is_refused_for_every_size() {
    let mut pair = pair(48, &PwcSpec::default());
    let sizes = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];
    for there in sizes {
        let at = VirtAddr(1 << 40);
        pair.map(at, there);
        let free = pair.bed.frames.free_frames();
        for size in sizes {
            let mapping = Mapping { page: Page::containing(at, size), frame: Pfn(1 << 20), flags: PteFlags::default() };
            let result = pair.table.map(mapping, &mut pair.bed.os());
            assert_eq!(result, Err(MapError::Occupied), "{size} over {there}");
        }
        assert_eq!(pair.bed.frames.free_frames(), free);
        let page = Page::containing(at, there);
        pair.table.unmap(page, &mut pair.bed.os()).unwrap();
    }
    let odd = Mapping {
        page: Page::containing(VA, PageSize::from_shift(16)),
        frame: Pfn(1 << 20),
        flags: PteFlags::default(),
    };
    let result = pair.table.map(odd, &mut pair.bed.os());
    assert_eq!(result, Err(MapError::PageSize));
}

#[test]
fn addresses_beyond_the_width_are_not_mapped() {
    let mut pair = pair(48, &PwcSpec::default());
    pair.map(VirtAddr(0), PageSize::SIZE_4K);
    let beyond = VirtAddr(1 << 48);
    assert_eq!(pair.table.lookup(beyond, &pair.bed.memory), None);
    let (walk, _) = pair.walk_as(beyond, AccessKind::Load, 0);
    assert_eq!((walk.outcome, walk.accesses), (WalkOutcome::NotMapped, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn conforms(
        seed in any::<u64>(),
        five in any::<bool>(),
        small in any::<bool>(),
        scatter in prop::option::of(0u32..6),
    ) {
        let mut choice = crate::catalogue().choice("radix");
        choice.va_bits = if five { 57 } else { 48 };
        if small {
            // Two entries per level: constant evictions.
            choice.pwc = PwcSpec {
                pde_entries: 2,
                pdpte_entries: 2,
                pml4e_entries: 2,
                pml5e_entries: 2,
                ways: 1,
                latency: 1,
            };
        }
        let options = Options {
            seed,
            ops: 800,
            va_bits: choice.va_bits,
            max_loads: if five { 5 } else { 4 },
            scatter: scatter.map(|order| order + 1),
            ..Options::default()
        };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
