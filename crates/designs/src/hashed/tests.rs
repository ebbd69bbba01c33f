use super::table::HashedTableCounters;
use super::walker::HashedCounters;
use super::*;
use ambulator_base::{AccessKind, Asid, Counters, Cycle, Page, Pfn, Protection};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_mmu::{TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{LedgerCause, Mapping, PageTable, PteFlags};
use proptest::prelude::*;

const LATENCY: u64 = 100;

fn mapping(va: u64, size: PageSize) -> Mapping {
    Mapping {
        page: Page::containing(VirtAddr(va), size),
        frame: Pfn(1 << 20),
        flags: PteFlags::user(Protection::READ_WRITE),
    }
}

/// A table and a walker with its registers.
struct Rig {
    bed: TestBed,
    table: HashedTable,
    walker: HashedWalker,
}

impl Rig {
    fn new(spec: &HashedSpec) -> Rig {
        let mut bed = TestBed::new(64 << 20).unwrap();
        let table = HashedTable::new(spec, &mut bed.os()).unwrap();
        Rig { bed, table, walker: HashedWalker::new(spec) }
    }

    fn map(&mut self, va: u64, size: PageSize) {
        self.table.map(mapping(va, size), &mut self.bed.os()).unwrap();
    }

    fn walk(&mut self, va: u64) -> Walk {
        self.walker.load_registers(Asid(1), &TableRegisters(self.table.registers()));
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        self.walker.walk(VirtAddr(va), AccessKind::Load, Cycle(0), &mut port)
    }
}

// ANCHOR: known
#[test]
fn a_walk_is_one_load_for_each_page_size_in_use() {
    let mut rig = Rig::new(&HashedSpec::default());
    assert_eq!(rig.walk(0x5000).accesses, 0, "nothing is mapped, as the registers show");
    rig.map(0x5000, PageSize::SIZE_4K);
    let walk = rig.walk(0x5000);
    assert_eq!((walk.accesses, walk.ready), (1, Cycle(2 + LATENCY)));
    // All sizes are searched at once: more loads, but the same time.
    rig.map(0x4020_0000, PageSize::SIZE_2M);
    rig.map(0x8000_0000, PageSize::SIZE_1G);
    for (va, size) in [(0x5000, PageSize::SIZE_4K), (0x4020_1000, PageSize::SIZE_2M), (0x8123_4000, PageSize::SIZE_1G)]
    {
        let walk = rig.walk(va);
        assert_eq!((walk.accesses, walk.ready), (3, Cycle(2 + LATENCY)));
        assert!(matches!(walk.outcome, WalkOutcome::Mapped(found) if found.size == size));
    }
    assert_eq!(rig.walk(0x6000).outcome, WalkOutcome::NotMapped);
}
// ANCHOR_END: known

/// Pages whose search begins at the same line of a table of one frame.
fn pages_of_one_line(count: usize) -> Vec<u64> {
    let lines = Lines { base: PhysAddr(0), mask: 63 };
    let at_home = |va: &u64| lines.home(tag(VirtAddr(*va), PageSize::SIZE_4K)) == PhysAddr(0);
    (0..).map(|i| i << 12).filter(at_home).take(count).collect()
}

#[test]
fn a_full_line_overflows_into_the_next_and_a_removed_entry_does_not_hide_it() {
    let mut rig = Rig::new(&HashedSpec::default());
    let pages = pages_of_one_line(6);
    for &va in &pages[..5] {
        rig.map(va, PageSize::SIZE_4K);
    }
    assert_eq!(rig.walk(pages[3]).accesses, 1);
    let walk = rig.walk(pages[4]);
    assert_eq!((walk.accesses, walk.ready), (2, Cycle(2 + 2 * LATENCY)), "one load after the other");
    assert_eq!(rig.walker.counters.overflow_loads, 1);
    let gone = Page::containing(VirtAddr(pages[0]), PageSize::SIZE_4K);
    assert!(rig.table.unmap(gone, &mut rig.bed.os()).is_some());
    assert!(matches!(rig.walk(pages[4]).outcome, WalkOutcome::Mapped(_)));
    // The tombstone's slot is reused.
    rig.map(pages[5], PageSize::SIZE_4K);
    assert_eq!(rig.walk(pages[5]).accesses, 1);
}

#[test]
fn a_resize_moves_all_entries_charges_it_and_needs_contiguous_memory() {
    let mut rig = Rig::new(&HashedSpec::default());
    let limit = (0.6 * 256.0) as u64;
    for page in 0..limit {
        rig.map(page << 12, PageSize::SIZE_4K);
    }
    assert_eq!((rig.table.footprint().bytes, rig.bed.ledger.total(LedgerCause::Table)), (4096, 0));
    rig.map(limit << 12, PageSize::SIZE_4K);
    let footprint = rig.table.footprint();
    assert_eq!((footprint.bytes, footprint.peak_bytes, footprint.largest_contiguous), (8192, 12288, 8192));
    assert_eq!(rig.bed.ledger.total(LedgerCause::Table), limit * rig.bed.costs.table_entry);
    for page in 0..=limit {
        assert!(matches!(rig.walk(page << 12).outcome, WalkOutcome::Mapped(_)));
    }
}

#[test]
fn tombstones_are_removed_without_growing() {
    let mut rig = Rig::new(&HashedSpec::default());
    for round in 0..10_000_u64 {
        for page in 0..4 {
            rig.map((round * 4 + page) << 12, PageSize::SIZE_4K);
        }
        for page in 0..4 {
            let page = Page { start: VirtAddr((round * 4 + page) << 12), size: PageSize::SIZE_4K };
            assert!(rig.table.unmap(page, &mut rig.bed.os()).is_some());
        }
    }
    // Four pages need only one frame, however many were mapped and unmapped.
    assert_eq!(rig.table.footprint().bytes, 4096);
}

#[test]
fn every_counter_has_a_meaning() {
    for def in HashedCounters::DEFS.iter().chain(HashedTableCounters::DEFS) {
        assert!(def.meaning.ends_with('.'), "{}: {}", def.name, def.meaning);
    }
}

#[test]
fn each_error_of_a_spec_is_reported() {
    for (initial_bytes, load_limit, keys) in [
        (5000, 0.0, ["`t.initial_bytes` is 5000:", "`t.load_limit` is 0:"]),
        (1, 1.0, ["`t.initial_bytes` is 1; it must be from 4KiB", "`t.load_limit` is 1.0; it must be from 0.0 to 0.9"]),
    ] {
        let wrong = HashedSpec { initial_bytes, load_limit, ..HashedSpec::default() }.invalid("t");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        for key in keys {
            assert!(wrong.iter().any(|error| error.to_string().contains(key)), "{key}: {wrong:?}");
        }
    }
    assert_eq!(HashedSpec::default().invalid("t"), vec![]);
}

// ANCHOR: conforms
proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), load_limit in 0.3..0.9, scatter in any::<bool>()) {
        let mut choice = crate::catalogue().choice("hashed");
        choice.settings.put("hashed", &HashedSpec { load_limit, ..HashedSpec::default() });
        let scatter = scatter.then_some(9);
        // At nine tenths, a search for three sizes is long.
        let options = Options { seed, ops: 800, scatter, max_loads: 256, ..Options::default() };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
// ANCHOR_END: conforms
