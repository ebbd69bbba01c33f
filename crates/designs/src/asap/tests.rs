use super::*;
use ambulator_base::{AccessKind, Asid, Cycle, Page, PageSize, Pfn, PhysAddr, Protection, VirtAddr};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_mmu::{PwcSpec, TableRegisters, Walk, Walker};
use ambulator_os::{Mapping, PageTable, PteFlags};
use proptest::prelude::*;

const START: VirtAddr = VirtAddr(0x5555_5540_0000);
const LEN: u64 = 3 << 30;

struct Pair {
    bed: TestBed,
    table: Box<dyn PageTable>,
    walker: AsapWalker,
}

fn pair(spec: &AsapSpec, scatter: bool) -> Pair {
    let mut bed = TestBed::new(256 << 20).unwrap();
    if scatter {
        ambulator_conformance::scatter(&mut bed.frames, 8);
    }
    let table = Tree::new(Asap::new(spec), 48, &mut bed.os()).unwrap();
    Pair { bed, table: Box::new(table), walker: walker(spec) }
}

fn walker(spec: &AsapSpec) -> AsapWalker {
    AsapWalker::new(spec, &PwcSpec::default())
}

impl Pair {
    fn map(&mut self, va: u64) {
        let mapping = Mapping {
            page: Page::containing(VirtAddr(va), PageSize::SIZE_4K),
            frame: Pfn(1 << 20),
            flags: PteFlags::user(Protection::READ_WRITE),
        };
        self.table.map(mapping, &mut self.bed.os()).unwrap();
    }

    /// A walk; its loads and its prefetches.
    fn walk(&mut self, va: u64, now: u64) -> (Walk, Vec<PhysAddr>, Vec<PhysAddr>) {
        let registers = TableRegisters(self.table.registers());
        self.walker.load_registers(Asid(1), &registers);
        let mut port = TestPort::new(&mut self.bed.memory, 100);
        let walk = self.walker.walk(VirtAddr(va), AccessKind::Load, Cycle(now), &mut port);
        (walk, port.loads, port.fetches)
    }
}

#[test]
fn the_walk_loads_the_prefetched_entries() {
    let mut pair = pair(&AsapSpec::default(), false);
    pair.table.vma_added(START, LEN, &mut pair.bed.os());
    // Not in address order.
    let pages = [2 * (1 << 30) + 0x5000, 0, LEN - 4096, 1 << 30, 0x20_0000];
    for offset in pages {
        pair.map(START.0 + offset);
    }
    for offset in pages {
        let mut cold = walker(&AsapSpec::default());
        std::mem::swap(&mut cold, &mut pair.walker);
        let (walk, loads, fetches) = pair.walk(START.0 + offset, 0);
        assert_eq!((walk.accesses, loads.len()), (4, 4));
        assert_eq!(fetches, [loads[2], loads[3]], "{offset:#x}");
    }
}

#[test]
fn the_run_is_allocated_at_once_and_freed_with_the_vma() {
    let mut pair = pair(&AsapSpec::default(), false);
    let free = pair.bed.frames.free_frames();
    pair.table.vma_added(START, LEN, &mut pair.bed.os());
    // START is aligned to 2 MiB but not to 1 GiB: 3 GiB need 1536 PL1 tables and 4 PL2 tables.
    assert_eq!(free - pair.bed.frames.free_frames(), 1536 + 4);
    assert_eq!(pair.table.footprint().largest_contiguous, 1536 * 4096);
    let generation = pair.table.registers_generation();
    pair.map(START.0);
    assert_eq!(free - pair.bed.frames.free_frames(), 1536 + 4 + 1, "only the third level needs a frame more");
    // The page keeps its table in use: the run stays until the page is unmapped too.
    pair.table.vma_removed(START, LEN, &mut pair.bed.os());
    assert_eq!(pair.table.registers_generation(), generation);
    let page = Page::containing(START, PageSize::SIZE_4K);
    pair.table.unmap(page, &mut pair.bed.os()).unwrap();
    assert_eq!(pair.bed.frames.free_frames(), free);
    assert_ne!(pair.table.registers_generation(), generation);
    assert_eq!(pair.table.registers().len(), 2);
}

#[test]
fn without_a_run_it_is_radix() {
    let mut pair = pair(&AsapSpec::default(), true);
    pair.table.vma_added(START, LEN, &mut pair.bed.os());
    pair.map(START.0);
    let (walk, _, fetches) = pair.walk(START.0, 0);
    assert_eq!((walk.accesses, fetches.len()), (4, 0));
    assert_eq!(pair.table.footprint().bytes, 4 * 4096);
}

#[test]
fn small_vmas_get_no_run_and_registers_go_to_the_largest() {
    let spec = AsapSpec { range_registers: 1, ..AsapSpec::default() };
    let mut pair = pair(&spec, false);
    let bytes = pair.table.footprint().bytes;
    let small = VirtAddr(1 << 30);
    pair.table.vma_added(small, 1 << 20, &mut pair.bed.os());
    assert_eq!(pair.table.footprint().bytes, bytes);
    let second = VirtAddr(1 << 40);
    pair.table.vma_added(second, 8 << 20, &mut pair.bed.os());
    pair.table.vma_added(START, LEN, &mut pair.bed.os());
    assert_eq!(pair.table.registers()[2..4], [START.0, START.0 + LEN]);
    assert_eq!(pair.table.registers().len(), 6);
    pair.map(second.0);
    assert_eq!(pair.walk(second.0, 0).2, []);
}

#[test]
fn the_filter_omits_the_entries_that_the_caches_skip() {
    for filter in [false, true] {
        let spec = AsapSpec { filter, ..AsapSpec::default() };
        let mut pair = pair(&spec, false);
        pair.table.vma_added(START, LEN, &mut pair.bed.os());
        let near = START.0 + (2 << 20);
        pair.map(START.0);
        pair.map(near);
        assert_eq!(pair.walk(START.0, 0).2.len(), 2, "cold");
        let (walk, loads, fetches) = pair.walk(near, 10_000);
        assert_eq!(walk.accesses, 2, "below the cached PDPTE");
        if filter {
            assert_eq!(fetches, [loads[1]], "the walk loads the first at once");
        } else {
            assert_eq!(fetches, loads);
        }
        let (walk, _, fetches) = pair.walk(near, 20_000);
        assert_eq!((walk.accesses, fetches.len()), (1, if filter { 0 } else { 2 }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn conforms(
        seed in any::<u64>(),
        five in any::<bool>(),
        filter in any::<bool>(),
        min_vma in prop_oneof![Just(4096u64), Just(4 << 20)],
        scatter in prop::option::of(3u32..12),
    ) {
        let mut choice = crate::catalogue().choice("asap");
        choice.va_bits = if five { 57 } else { 48 };
        choice.settings.put("asap", &AsapSpec { filter, min_vma, ..AsapSpec::default() });
        let options = Options {
            seed,
            ops: 500,
            va_bits: choice.va_bits,
            max_loads: if five { 5 } else { 4 },
            scatter,
            ..Options::default()
        };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
