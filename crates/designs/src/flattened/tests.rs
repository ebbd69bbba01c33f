use super::*;
use ambulator_base::{AccessKind, Asid, Cycle, Page, Pfn, Protection, VirtAddr};
use ambulator_conformance::{Options, TestBed, TestPort, scatter};
use ambulator_mmu::{PwcSpec, TableRegisters, WalkOutcome, Walker};
use ambulator_os::{Mapping, PageTable, PteFlags};
use proptest::prelude::*;

const VA: VirtAddr = VirtAddr(0x5555_5555_5000);
const LATENCY: u64 = 100;

fn mapping(va: VirtAddr, size: PageSize) -> Mapping {
    Mapping { page: Page::containing(va, size), frame: Pfn(1 << 20), flags: PteFlags::user(Protection::READ_WRITE) }
}

fn table(spec: &FlattenedSpec, va_bits: u32, bed: &mut TestBed) -> Box<dyn PageTable> {
    Box::new(Tree::new(Flattened::new(spec), va_bits, &mut bed.os()).unwrap())
}

fn walker() -> TreeWalker {
    TreeWalker::new(&PwcSpec::default())
}

/// Loads of a cold walk for one page of a new four-level table in that memory, and the table's bytes.
fn cold(spec: &FlattenedSpec, bed: &mut TestBed, size: PageSize) -> (u32, u64) {
    cold_of(spec, 48, bed, size)
}

fn cold_of(spec: &FlattenedSpec, va_bits: u32, bed: &mut TestBed, size: PageSize) -> (u32, u64) {
    let mut table = table(spec, va_bits, bed);
    table.map(mapping(VA, size), &mut bed.os()).unwrap();
    let mut walker = walker();
    walker.load_registers(Asid(1), &TableRegisters(table.registers()));
    let mut port = TestPort::new(&mut bed.memory, LATENCY);
    let walk = walker.walk(VA, AccessKind::Load, Cycle(0), &mut port);
    let WalkOutcome::Mapped(found) = walk.outcome else {
        panic!("not mapped");
    };
    assert_eq!(found.size, size);
    let bytes = table.footprint().bytes;
    table.unmap(Page::containing(VA, size), &mut bed.os());
    table.destroy(&mut bed.os());
    (walk.accesses, bytes)
}

fn ample() -> TestBed {
    TestBed::new(64 << 20).unwrap()
}

const FLAT: u64 = 2 << 20;

#[test]
fn a_walk_is_two_loads_where_both_pairs_are_merged() {
    let spec = FlattenedSpec::default();
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_4K), (2, 2 * FLAT));
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_2M), (2, 2 * FLAT));
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_1G), (1, FLAT));
}

#[test]
fn each_pair_is_merged_independently() {
    let mut spec = FlattenedSpec { merge_lower: false, ..FlattenedSpec::default() };
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_4K), (3, FLAT + 2 * 4096));
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_2M).0, 2);
    spec.merge_lower = true;
    spec.merge_upper = false;
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_4K), (3, FLAT + 2 * 4096));
    spec.merge_lower = false;
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_4K), (4, 4 * 4096));
    let five = cold_of(&FlattenedSpec::default(), 57, &mut ample(), PageSize::SIZE_4K);
    assert_eq!(five, (3, 2 * FLAT + 4096));
}

#[test]
fn without_contiguity_the_table_is_radix() {
    let mut bed = ample();
    scatter(&mut bed.frames, 9);
    let spec = FlattenedSpec::default();
    assert_eq!(cold(&spec, &mut bed, PageSize::SIZE_4K), (4, 4 * 4096));
    // The root gets the only 2 MiB frame.
    bed.frames.free(Pfn(4096 + 256), 0);
    assert_eq!(cold(&spec, &mut bed, PageSize::SIZE_4K), (3, FLAT + 2 * 4096));
}

#[test]
fn a_repeated_large_page_is_one_page_to_the_kernel() {
    let mut bed = ample();
    let spec = FlattenedSpec::default();
    let mut table = table(&spec, 48, &mut bed);
    let size = PageSize::SIZE_2M;
    let page = Page::containing(VA, size);
    table.map(mapping(VA, size), &mut bed.os()).unwrap();
    assert_eq!(table.footprint().entries, 1);
    let mut walker = walker();
    walker.load_registers(Asid(1), &TableRegisters(table.registers()));
    let last = VirtAddr(page.end().0 - 8);
    let mut port = TestPort::new(&mut bed.memory, LATENCY);
    walker.walk(last, AccessKind::Store, Cycle(0), &mut port);
    assert_eq!(port.updates.len(), 1);
    // The store used the last copy; a look-up through the first one reports it.
    let found = table.lookup(page.start, &bed.memory).unwrap();
    assert!(found.flags.accessed && found.flags.dirty);
    let clean = PteFlags::user(Protection::READ_WRITE);
    assert!(table.set_flags(page, clean, &mut bed.os()));
    assert_eq!(table.lookup(last, &bed.memory).unwrap().flags, clean);
    // Its fragments are not pages.
    let fragment = Page::containing(last, PageSize::SIZE_4K);
    assert_eq!(table.unmap(fragment, &mut bed.os()), None);
    assert!(table.unmap(page, &mut bed.os()).is_some());
    assert_eq!(table.lookup(page.start, &bed.memory), None);
}

#[test]
fn a_region_that_begins_with_a_large_page_can_stay_unmerged() {
    let spec = FlattenedSpec { large_pages: LargePages::Unmerged, ..FlattenedSpec::default() };
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_2M), (2, FLAT + 4096));
    assert_eq!(cold(&spec, &mut ample(), PageSize::SIZE_4K), (2, 2 * FLAT));
}

#[test]
fn the_cached_upper_entry_leaves_one_load() {
    let mut bed = ample();
    let spec = FlattenedSpec::default();
    let mut table = table(&spec, 48, &mut bed);
    table.map(mapping(VA, PageSize::SIZE_4K), &mut bed.os()).unwrap();
    let mut walker = walker();
    walker.load_registers(Asid(1), &TableRegisters(table.registers()));
    let mut port = TestPort::new(&mut bed.memory, LATENCY);
    for (now, loads) in [(0, 2), (1000, 1)] {
        let walk = walker.walk(VA, AccessKind::Load, Cycle(now), &mut port);
        assert_eq!((walk.accesses, walk.ready.0 - now), (loads, u64::from(loads) * LATENCY + 2));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn conforms(
        seed in any::<u64>(),
        five in any::<bool>(),
        flags in any::<[bool; 3]>(),
        scatter in prop::option::of(6u32..10),
    ) {
        let mut choice = crate::catalogue().choice("flattened");
        choice.va_bits = if five { 57 } else { 48 };
        let mut spec = FlattenedSpec { merge_upper: flags[0], merge_lower: flags[1], ..FlattenedSpec::default() };
        if flags[2] {
            spec.large_pages = LargePages::Unmerged;
        }
        choice.settings.put("flattened", &spec);
        let options = Options {
            seed,
            ops: 500,
            va_bits: choice.va_bits,
            max_loads: if five { 5 } else { 4 },
            scatter,
            copied_entries: true,
            ..Options::default()
        };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }

    #[test]
    fn conforms_where_some_nodes_merge_and_some_do_not(seed in any::<u64>()) {
        let choice = crate::catalogue().choice("flattened");
        // There is memory for some merged nodes, but not for all.
        let options = Options {
            seed,
            ops: 500,
            memory: 16 << 20,
            max_loads: 4,
            copied_entries: true,
            ..Options::default()
        };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
