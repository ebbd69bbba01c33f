//! Ranges alongside page tables: always the maximal runs, always consistent with the page table.

use super::*;
use crate::catalogue;
use ambulator_base::{AccessKind, Asid, Cycle, Page, PageSize, Pfn, ProcessId, VirtAddr, Vpn};
use ambulator_conformance::{Options, TestBed, TestPort, scatter};
use ambulator_mmu::{Invalidation, Lookaside, TableRegisters, WalkOutcome};
use ambulator_os::{EagerRange, Mapping, PlaceContext, Placement, PteFlags, Translations};
use ambulator_sockets::Choice;
use ambulator_structures::ranges::Node;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn page_tables() -> Vec<&'static str> {
    catalogue().filling(Socket::PageTable).map(|design| design.name).collect()
}

fn with_ranges(page_table: &str) -> Choice {
    catalogue().choice(page_table).with(Socket::Lookaside, "rmm")
}

fn new_table(page_table: &str, bed: &mut TestBed) -> Translations {
    catalogue().build(&with_ranges(page_table)).translations.new_process(ProcessId(0), Asid(1), &mut bed.os()).unwrap()
}

/// The pages of the reference model: frame, writable, pages of its size.
type Model = BTreeMap<u64, (u64, bool, u64)>;

/// The maximal runs of the model that are long enough.
fn runs(model: &Model, threshold: u64) -> Vec<(u64, u64, u64, bool)> {
    let mut runs: Vec<(u64, u64, u64, bool)> = Vec::new();
    for (&page, &(frame, writable, pages)) in model {
        match runs.last_mut() {
            Some((base, limit, first, rights))
                if *limit == page && *first + (page - *base) == frame && *rights == writable =>
            {
                *limit += pages;
            }
            _ => runs.push((page, page + pages, frame, writable)),
        }
    }
    runs.retain(|run| run.1 - run.0 >= threshold);
    runs
}

fn flags(writable: bool) -> PteFlags {
    PteFlags { writable, user: true, ..PteFlags::default() }
}

fn page(number: u64, pages: u64) -> Page {
    Page { start: Vpn(number).start(), size: if pages == 512 { PageSize::SIZE_2M } else { PageSize::SIZE_4K } }
}

/// The ranges of the tree at the root register.
fn ranges_of(table: &Translations, bed: &TestBed) -> Vec<(u64, u64, u64, bool)> {
    fn gather(at: ambulator_base::PhysAddr, bed: &TestBed, all: &mut Vec<(u64, u64, u64, bool)>) {
        let node = Node::read(at, 36, &bed.memory);
        for (i, range) in node.ranges.iter().enumerate() {
            if let Some(child) = node.children.get(i) {
                gather(*child, bed, all);
            }
            all.push((range.base.0, range.limit.0, range.frame.0, range.writable));
        }
        if let Some(child) = node.children.get(node.ranges.len()) {
            gather(*child, bed, all);
        }
    }
    let mut all = Vec::new();
    gather(ambulator_base::PhysAddr(table.companion_registers()[0] & !1), bed, &mut all);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn ranges_are_the_maximal_runs_after_any_operations(
        page_table in prop::sample::select(page_tables()),
        steps in prop::collection::vec((0u64..96, 0u8..9, 1u64..24), 1..160),
    ) {
        let mut bed = TestBed::new(256 << 20).unwrap();
        let mut parts = catalogue().build(&with_ranges(page_table));
        let mut walker = (parts.new_walker)(0);
        let mut table = parts.translations.new_process(ProcessId(0), Asid(1), &mut bed.os()).unwrap();
        let mut tlb = RangeTlb::new(&RmmSpec { entries: 4, ..RmmSpec::default() }, 36, false);
        let mut model = Model::new();
        let mut now = 0;
        for (at, what, count) in steps {
            let mut gone: Vec<Page> = Vec::new();
            match what {
                // A run of pages whose frames may be contiguous with those of other runs.
                0..=3 => {
                    let (shift, writable) = (u64::from(what % 2) * 1000, what < 3);
                    for number in at..at + count {
                        let mapped =  model.range(..=number).next_back().is_some_and(|(p, v)| p + v.2 > number);
                        if !mapped {
                            let frame = 40_000 + shift + number;
                            let mapping = Mapping { page: page(number, 1), frame: Pfn(frame), flags: flags(writable) };
                            table.map(mapping, &mut bed.os()).unwrap();
                            model.insert(number, (frame, writable, 1));
                        }
                    }
                }
                // A large page among the others.
                4 => {
                    let number = 512 * (1 + at % 3);
                    if let std::collections::btree_map::Entry::Vacant(free) = model.entry(number) {
                        let frame = 40_960 + number;
                        let mapping = Mapping { page: page(number, 512), frame: Pfn(frame), flags: flags(true) };
                        table.map(mapping, &mut bed.os()).unwrap();
                        free.insert((frame, true, 512));
                    }
                }
                5 | 6 => {
                    let keys: Vec<u64> = model.range(at..at + count).map(|(p, _)| *p).collect();
                    for number in keys {
                        let (frame, writable, pages) = model.remove(&number).unwrap();
                        let entry = table.unmap(page(number, pages), &mut bed.os()).unwrap();
                        let found = (entry.frame.0, entry.flags.writable, entry.flags.ranged);
                        prop_assert_eq!(found, (frame, writable, false));
                        gone.push(page(number, pages));
                    }
                }
                7 => {
                    let keys: Vec<u64> = model.range(at..at + count).map(|(p, _)| *p).collect();
                    for number in keys {
                        let value = model.get_mut(&number).unwrap();
                        value.1 = !value.1;
                        let (writable, pages) = (value.1, value.2);
                        let entry = table.lookup(Vpn(number).start(), &bed.memory).unwrap();
                        let flags = PteFlags { writable, ..entry.flags };
                        let done = table.set_flags(page(number, pages), flags, &mut bed.os());
                        prop_assert!(done);
                        gone.push(page(number, pages));
                    }
                }
                _ => {}
            }
            for page in gone {
                tlb.invalidate(Invalidation::Page { asid: Asid(1), page });
            }
            prop_assert_eq!(ranges_of(&table, &bed), runs(&model, 8));
            // The hardware: a range that it returns agrees with the page table at every page, and only pages
            // of ranges have the bit.
            tlb.load_registers(Asid(1), &TableRegisters(table.companion_registers()));
            now += 1000;
            for (&number, &(frame, writable, pages)) in model.iter().step_by(3) {
                for number in [number, number + pages - 1] {
                    let va = Vpn(number).start();
                    let found = ambulator_structures::pte::Pte(0).translation(PageSize::SIZE_4K);
                    let in_range = runs(&model, 8).iter().any(|run| run.0 <= number && number < run.1);
                    walker.invalidate(Invalidation::All);
                    walker.load_registers(Asid(1), &TableRegisters(table.registers()));
                    let mut port = TestPort::new(&mut bed.memory, 10);
                    let walk = walker.walk(va, AccessKind::Load, Cycle(now), &mut port);
                    let marked = matches!(&walk.outcome, WalkOutcome::Mapped(found) if found.ranged);
                    prop_assert_eq!(marked, in_range, "the bit of page {}", number);
                    let mut port = TestPort::new(&mut bed.memory, 10);
                    let found = ambulator_mmu::Translation { ranged: in_range, ..found };
                    tlb.refill(va, &finished(found, now), &mut port);
                    now += 1000;
                    let answer = tlb.probe(va, AccessKind::Load, Cycle(now), &mut port).found;
                    prop_assert_eq!(answer.is_some(), in_range);
                    if let Some(answer) = answer {
                        let first = model.range(..=number).next_back().map(|(p, _)| *p).unwrap();
                        prop_assert_eq!((answer.frame.0, answer.writable), (frame + number - first, writable));
                    }
                }
            }
        }
        for (number, (_, _, pages)) in model.clone() {
            table.unmap(page(number, pages), &mut bed.os()).unwrap();
        }
        prop_assert_eq!(ranges_of(&table, &bed), vec![]);
    }
}

#[test]
fn the_mru_pointer_avoids_the_search() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let mut table = new_table("radix", &mut bed);
    for number in 0..64 {
        let frame = Pfn(5000 + number + number / 16 * 100);
        table.map(Mapping { page: page(number, 1), frame, flags: flags(true) }, &mut bed.os()).unwrap();
    }
    let run = |mru_pointer: bool, bed: &mut TestBed| {
        let mut tlb = RangeTlb::new(&RmmSpec { mru_pointer, ..RmmSpec::default() }, 36, false);
        tlb.load_registers(Asid(1), &TableRegisters(table.companion_registers()));
        let mut port = TestPort::new(&mut bed.memory, 10);
        let ranged = ambulator_mmu::Translation {
            ranged: true,
            ..ambulator_structures::pte::Pte(0).translation(PageSize::SIZE_4K)
        };
        for number in [0, 16, 32, 48] {
            tlb.refill(Vpn(number).start(), &finished(ranged, 1000 * (number + 1)), &mut port);
        }
        for i in 0..100 {
            let answer = tlb.probe(Vpn(i % 10).start(), AccessKind::Load, Cycle(1_000_000 + i), &mut port);
            assert_eq!(answer.found.unwrap().frame, Pfn(5000 + i % 10));
            assert_eq!(answer.ready, Cycle(1_000_000 + i + 7));
        }
        let mut seen = BTreeMap::new();
        struct Sink<'a>(&'a mut BTreeMap<&'static str, u64>);
        impl ambulator_base::CounterSink for Sink<'_> {
            fn counter(&mut self, _prefix: &str, def: &'static ambulator_base::CounterDef, value: u64) {
                self.0.insert(def.name, value);
            }
        }
        tlb.report("", &mut Sink(&mut seen));
        (seen["hits"], seen["mru_hits"], seen["comparisons"], seen["walks"])
    };
    assert_eq!(run(false, &mut bed), (100, 0, 100 * 2 * 4, 4));
    assert_eq!(run(true, &mut bed), (100, 100, 100 * 2, 4));
}

#[test]
fn a_range_that_is_walked_again_stays_usable() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let mut table = new_table("radix", &mut bed);
    let map = |table: &mut Translations, bed: &mut TestBed, number: u64| {
        table
            .map(Mapping { page: page(number, 1), frame: Pfn(5000 + number), flags: flags(true) }, &mut bed.os())
            .unwrap();
    };
    (0..16).for_each(|number| map(&mut table, &mut bed, number));
    let mut tlb = RangeTlb::new(&RmmSpec::default(), 36, false);
    let ranged =
        ambulator_mmu::Translation { ranged: true, ..ambulator_structures::pte::Pte(0).translation(PageSize::SIZE_4K) };
    let walk = |tlb: &mut RangeTlb, table: &Translations, bed: &mut TestBed, now: u64| {
        tlb.load_registers(Asid(1), &TableRegisters(table.companion_registers()));
        tlb.refill(Vpn(0).start(), &finished(ranged, now), &mut TestPort::new(&mut bed.memory, 100));
    };
    let is_there = |tlb: &mut RangeTlb, bed: &mut TestBed, now: u64| {
        let mut port = TestPort::new(&mut bed.memory, 100);
        tlb.probe(Vpn(3).start(), AccessKind::Load, Cycle(now), &mut port).found.is_some()
    };
    walk(&mut tlb, &table, &mut bed, 1000);
    assert!(!is_there(&mut tlb, &mut bed, 1050) && is_there(&mut tlb, &mut bed, 1100));
    walk(&mut tlb, &table, &mut bed, 2000);
    assert!(is_there(&mut tlb, &mut bed, 2050), "the same range");
    map(&mut table, &mut bed, 16);
    walk(&mut tlb, &table, &mut bed, 3000);
    assert!(!is_there(&mut tlb, &mut bed, 3050) && is_there(&mut tlb, &mut bed, 3100), "another one in its place");
}

fn eager(spec: &RmmSpec, bed: &mut TestBed, pages: u64) -> Vec<EagerRange> {
    place(&mut EagerPlacement::new(spec, Arc::default()), bed, pages)
}

fn place(placement: &mut EagerPlacement, bed: &mut TestBed, pages: u64) -> Vec<EagerRange> {
    let mut os =
        PlaceContext { memory: &mut bed.memory, frames: &mut bed.frames, ledger: &mut bed.ledger, costs: &bed.costs };
    placement.vma_added(ProcessId(0), VirtAddr(0x1000_0000), VirtAddr(0x1000_0000 + pages * 4096), &mut os)
}

#[test]
fn requests_are_placed_as_in_figure_5() {
    let mut bed = TestBed::new(256 << 20).unwrap();
    // 1000 pages: blocks of 512, 256, 128, 64, 32 and 8.
    let sizes = |ranges: &[EagerRange]| ranges.iter().map(|range| range.pages).collect::<Vec<_>>();
    let ranges = eager(&RmmSpec::default(), &mut bed, 1000);
    assert_eq!(sizes(&ranges), [512, 256, 128, 64, 32, 8]);
    let mut at = 0x1000_0000;
    for range in &ranges {
        assert_eq!(range.start.0, at);
        at += range.pages * 4096;
    }
    assert!(eager(&RmmSpec::default(), &mut bed, 7).is_empty(), "below the threshold");
    // The two optimizations that are not in the prototype.
    let cut = RmmSpec { cut_blocks: true, ..RmmSpec::default() };
    let free = bed.frames.free_frames();
    assert_eq!(sizes(&eager(&cut, &mut bed, 1000)), [1000]);
    assert_eq!(bed.frames.free_frames(), free - 1000, "the rest was freed");
    let mut bed = TestBed::new(256 << 20).unwrap();
    let join = RmmSpec { join_blocks: true, ..RmmSpec::default() };
    let ranges = eager(&join, &mut bed, 3000);
    assert!(ranges.windows(2).all(|pair| pair[0].frame.0 + pair[0].pages == pair[1].frame.0), "{ranges:?}");
}

#[test]
fn memory_that_was_set_aside_is_given_to_requests_in_order() {
    let mut bed = TestBed::new(256 << 20).unwrap();
    let reserve = Arc::new(Mutex::new(Reserve::default()));
    let free = bed.frames.free_frames();
    assert!(lock(&reserve).fill(4096, &mut bed.frames) && bed.frames.free_frames() == free - 4096);
    assert!(!lock(&reserve).fill(1 << 20, &mut bed.frames), "there is not that much");
    // Memory counts as too fragmented for eager paging, whatever it is.
    let spec = RmmSpec { fragmentation_limit: -1.0, ..RmmSpec::default() };
    let mut placement = EagerPlacement::new(&spec, Arc::clone(&reserve));
    let first = place(&mut placement, &mut bed, 33);
    let second = place(&mut placement, &mut bed, 3000);
    assert_eq!((first.len(), first[0].pages, second.len(), second[0].pages), (1, 33, 1, 3000));
    assert_eq!(second[0].frame, first[0].frame.offset(33), "pieces of a heap become one range");
    // The last request that it serves gets the rest, and blocks as before.
    let last = place(&mut placement, &mut bed, 1200);
    assert_eq!((last[0].frame, last[0].pages), (second[0].frame.offset(3000), 4096 - 3033));
    assert_eq!(last.iter().map(|range| range.pages).sum::<u64>(), 1200);
    assert!(place(&mut placement, &mut bed, 33).is_empty(), "none is left, and memory is too fragmented");
}

#[test]
fn fragmented_memory_is_left_to_demand_paging() {
    let mut bed = TestBed::new(256 << 20).unwrap();
    scatter(&mut bed.frames, 6);
    assert!(eager(&RmmSpec::default(), &mut bed, 1000).is_empty());
    let stubborn = RmmSpec { fragmentation_limit: 1.0, ..RmmSpec::default() };
    assert_eq!(eager(&stubborn, &mut bed, 1000).iter().map(|range| range.pages).sum::<u64>(), 1000);
}

#[test]
fn any_page_table_with_ranges_still_conforms() {
    for design in catalogue().filling(Socket::PageTable) {
        for eager_bits in [false, true] {
            let mut choice = with_ranges(design.name);
            choice.settings.put("rmm", &RmmSpec { eager_bits, ..RmmSpec::default() });
            let options = Options { ops: 600, ..Options::of(design.claims.clone()) };
            // Eager bits are set without accesses, so the suite's check of accessed and dirty bits holds only
            // without them.
            let done = ambulator_conformance::check(|| catalogue().build(&choice), &options);
            assert_eq!(done.is_ok(), !eager_bits, "{}: {done:?}", design.name);
        }
    }
}

#[test]
fn each_error_of_a_spec_is_reported() {
    let spec = RmmSpec { entries: 0, threshold: 1, fragmentation_limit: 2.0, ..RmmSpec::default() };
    let wrong: Vec<String> = spec.invalid("rmm").iter().map(|error| error.key.clone()).collect();
    assert_eq!(wrong, ["rmm.entries", "rmm.threshold", "rmm.fragmentation_limit"]);
    assert_eq!(RmmSpec::default().invalid("rmm"), vec![]);
}

fn finished(found: ambulator_mmu::Translation, now: u64) -> ambulator_mmu::FinishedWalk {
    ambulator_mmu::FinishedWalk { found, entry: None, dram_loads: 0, ready: Cycle(now) }
}
