use super::placement::{UtopiaPlacementCounters, UtopiaUse};
use super::rows::VALID;
use super::table::RECENT;
use super::walker::UtopiaWalkerCounters;
use super::*;
use ambulator_base::{
    AccessKind, Advice, Counters, Cycle, FRAME_BYTES, Invalid, MapKind, Page, Pfn, PhysAddr, Protection, Random,
    VirtAddr, VmEvent,
};
use ambulator_conformance::{TestBed, TestPort};
use ambulator_memory::{BuddySpec, PhysicalMemory};
use ambulator_mmu::{FinishedWalk, Lookaside, TableRegisters, Translation};
use ambulator_os::{
    CostTable, Kernel, KernelSpec, Mapping, OsError, PageSizePolicy, PteFlags, Translations, TranslationsFactory,
};
use std::collections::BTreeMap;

const MEMORY: u64 = 128 << 20;
pub(super) const START: u64 = 0x5555_4000_0000;
const LEN: u64 = 24 << 20;

/// A RestSeg of 2 MiB for 4 KiB pages, and one of 16 MiB for huge pages.
pub(super) fn small() -> UtopiaSpec {
    let segments = vec![
        RestSegSpec { bytes: 2 << 20, page_bytes: 4096, ways: 8 },
        RestSegSpec { bytes: 16 << 20, page_bytes: 2 << 20, ways: 4 },
    ];
    UtopiaSpec { segments, ..UtopiaSpec::default() }
}

/// Radix tables with tag arrays.
fn radix_with_tags(segments: &Arc<Mutex<Segments>>) -> TranslationsFactory {
    let companions: Vec<Box<dyn CompanionFactory>> = vec![Box::new(TagArraysFactory::new(Arc::clone(segments)))];
    let radix = crate::catalogue().build(&crate::catalogue().choice("radix")).translations;
    TranslationsFactory { companions, ..radix }
}

pub(super) struct Rig {
    pub(super) kernel: Kernel,
    pub(super) segments: Arc<Mutex<Segments>>,
    random: Random,
}

impl Rig {
    pub(super) fn new(spec: &UtopiaSpec, policy: PageSizePolicy, swap: u64, seed: u64) -> Rig {
        assert_eq!(spec.invalid("u"), vec![]);
        let segments = Arc::new(Mutex::new(Segments::new(spec, 48)));
        let translations = radix_with_tags(&segments);
        let placement = UtopiaPlacement::new(spec, Arc::clone(&segments));
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
        assert!(segments.lock().unwrap().reserve(&mut frames));
        let kernel_spec = KernelSpec { page_size_policy: policy, swap_bytes: swap, ..KernelSpec::default() };
        let memory = PhysicalMemory::new(MEMORY).unwrap();
        let kernel = Kernel::new(&kernel_spec, CostTable::default(), memory, frames, translations, Box::new(placement));
        Rig { kernel, segments, random: Random::new(seed) }
    }

    /// Every page is in one segment. Counters, tags, the global tag array and the kernel's page state agree.
    /// No frame has two owners that do not share it.
    pub(super) fn check(&self) {
        // The kernel's check: every page's entry matches its page state, the table has as many entries as
        // pages (a page in two segments would count twice), each frame's owners are counted.
        self.kernel.check().unwrap();
        let segments = self.segments.lock().unwrap();
        let mut in_use: BTreeMap<(usize, u64, u32), u64> = BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        for process in self.kernel.live_processes() {
            let mut homes = 0;
            self.kernel.for_each_page(process, |page, state| {
                for i in 0..page.size.frames() {
                    let frame = Pfn(state.frame().0 + i);
                    if let Some((at, set, way, _)) = segments.locate(frame)
                        && seen.insert(frame)
                    {
                        *in_use.entry((at, set, way)).or_default() += 1;
                    }
                }
                if let Some((at, set, way, 0)) = segments.locate(state.frame()) {
                    let shape = segments.list[at].shape;
                    let (own_set, tag) = shape.set_and_tag(page.start);
                    if shape.page == page.size && own_set == set {
                        homes += 1;
                        let row = self.kernel.memory.line(segments.arrays[&process][at].tar.offset(set * LINE_BYTES));
                        assert_eq!(shape.row.find(&row, tag), Some(way), "{page:?} of {process}");
                    }
                }
            });
            let mut valid = 0;
            for (at, segment) in segments.list.iter().enumerate() {
                let (shape, arrays) = (segment.shape, segments.arrays[&process][at]);
                for set in 0..shape.sets {
                    let row = self.kernel.memory.line(arrays.tar.offset(set * LINE_BYTES));
                    let ways = (0..shape.ways).filter(|&way| shape.row.metadata(&row, way) & VALID != 0).count() as u64;
                    let filter = self.kernel.memory.line(shape.filter.line(arrays.sf, set));
                    assert_eq!(shape.filter.count(&filter, set), ways, "{process}, RestSeg {at}, set {set}");
                    valid += ways;
                }
            }
            assert_eq!(valid, homes, "tags and pages of {process}");
        }
        for (at, segment) in segments.list.iter().enumerate() {
            let used = in_use.keys().filter(|(own, ..)| *own == at).count() as u64;
            assert_eq!(segment.taken, used, "ways in use of RestSeg {at}");
        }
    }

    /// The pages in frames that several processes have.
    fn shared(&self, live: &[ProcessId]) -> Vec<(ProcessId, VirtAddr, Pfn)> {
        let mut owners: BTreeMap<Pfn, Vec<(ProcessId, VirtAddr, Pfn)>> = BTreeMap::new();
        for &process in live.iter().filter(|_| live.len() > 1) {
            self.kernel.for_each_page(process, |page, state| {
                owners.entry(state.frame()).or_default().push((process, page.start, state.frame()));
            });
        }
        owners.into_values().filter(|owners| owners.len() > 1).flatten().collect()
    }

    pub(super) fn event(&mut self, process: ProcessId, event: VmEvent) {
        match self.kernel.event(process, &event) {
            Ok(()) | Err(OsError::BadCall(_) | OsError::Segfault { .. }) => {}
            Err(error) => assert!(error.is_outcome(), "{error}"),
        }
    }

    fn at(&mut self) -> VirtAddr {
        VirtAddr(START + self.random.below(LEN))
    }

    fn step(&mut self, live: &mut Vec<ProcessId>) {
        let process = live[self.random.below(live.len() as u64) as usize];
        let start = self.at().align_down(PageSize::SIZE_4K);
        let len = if self.random.chance(0.3) { 2 << 20 } else { 4096 * (1 + self.random.below(64)) };
        let protection = if self.random.chance(0.2) { Protection::READ } else { Protection::READ_WRITE };
        match self.random.below(20) {
            0 | 1 => self.event(process, VmEvent::Map { start, len, protection, kind: MapKind::Anonymous }),
            2 => self.event(process, VmEvent::Unmap { start, len }),
            3 => self.event(process, VmEvent::Protect { start, len, protection }),
            4 => {
                let new = self.at().align_down(PageSize::SIZE_4K);
                self.event(process, VmEvent::Remap { old: start, old_len: len, new, new_len: len });
            }
            5 => self.event(process, VmEvent::Advise { start, len, advice: Advice::DontNeed }),
            6 | 7 => self.event(process, VmEvent::Touch { start, len, write: true }),
            8 if live.len() < 4 => {
                if let Ok(child) = self.kernel.fork(process) {
                    live.push(child);
                }
            }
            9 if live.len() > 1 => {
                self.event(process, VmEvent::Exit { process });
                live.retain(|own| *own != process);
            }
            10..=14 => {
                // An address with a page, if one of 30 attempts finds one.
                let near: Vec<VirtAddr> = (0..30).map(|_| self.at()).collect();
                let present = near.iter().copied().find(|va| self.kernel.page_state(process, *va).present());
                let va = present.unwrap_or(near[0]);
                let (shared, free) = (self.shared(live), self.kernel.frames.free_frames());
                let evicted = self.kernel.counters.migrations_out;
                let moved = self.kernel.migration_hint(process, va).unwrap_or_else(|error| panic!("{error}"));
                let state = self.kernel.page_state(process, va);
                assert!(!moved || self.segments.lock().unwrap().locate(state.frame()).is_some());
                if moved && self.kernel.counters.migrations_out == evicted {
                    // The table may lose a node, too.
                    let freed = self.kernel.frames.free_frames() - free;
                    assert!(freed >= state.size().frames(), "the frames that {va:?} leaves are free: {freed}");
                }
                for (process, page, frame) in shared {
                    assert_eq!(self.kernel.page_state(process, page).frame(), frame, "a shared page stays");
                }
            }
            _ => {
                let (va, store) = (self.at(), self.random.chance(0.5));
                let access = if store { AccessKind::Store } else { AccessKind::Load };
                match self.kernel.fault(process, va, access) {
                    Ok(_) | Err(OsError::Segfault { .. }) => {}
                    Err(error) => assert!(error.is_outcome(), "{error}"),
                }
            }
        }
        self.kernel.take_shootdowns(&mut Vec::new());
    }
}

#[test]
fn a_page_is_in_one_segment_whatever_happens() {
    let restrictive = UtopiaSpec { restrictive_only: true, migration: false, ..small() };
    let hashed = |hash| UtopiaSpec { hash, ..small() };
    let lazy = UtopiaSpec { fault_allocation: false, ..small() };
    let cases = [
        (small(), PageSizePolicy::Never, 0),
        (small(), PageSizePolicy::Always, 0),
        (small(), PageSizePolicy::Khugepaged, 0),
        (small(), PageSizePolicy::Reservation, 8 << 20),
        (lazy, PageSizePolicy::Always, 0),
        (hashed(SetHash::Mersenne), PageSizePolicy::Always, 0),
        (hashed(SetHash::PrimeDisplacement), PageSizePolicy::Never, 8 << 20),
        (UtopiaSpec { frame_order: FrameOrder::WayMajor, ..hashed(SetHash::Xor) }, PageSizePolicy::Always, 0),
        (restrictive, PageSizePolicy::Never, 64 << 20),
    ];
    for (number, (spec, policy, swap)) in cases.into_iter().enumerate() {
        for seed in 0..3 {
            let mut rig = Rig::new(&spec, policy, swap, 31 * number as u64 + seed);
            let mut live = vec![rig.kernel.spawn().unwrap()];
            let map = VmEvent::Map {
                start: VirtAddr(START),
                len: LEN,
                protection: Protection::READ_WRITE,
                kind: MapKind::Anonymous,
            };
            rig.event(live[0], map);
            for step in 0..600 {
                rig.step(&mut live);
                if step % 20 == 0 {
                    rig.check();
                }
            }
            rig.check();
            let (moved_in, moved_out) = (rig.kernel.counters.migrations_in, rig.kernel.counters.migrations_out);
            if policy == PageSizePolicy::Never && !spec.restrictive_only {
                assert!(moved_in > 0 && moved_out > 10, "case {number}: {moved_in} in, {moved_out} out");
            }
            for process in live {
                rig.event(process, VmEvent::Exit { process });
            }
            assert!(rig.segments.lock().unwrap().list.iter().all(|segment| segment.taken == 0), "case {number}");
        }
    }
}

#[test]
fn segments_without_enough_memory_reserve_none() {
    // Memory for both RestSegs, or only for the first.
    for (bytes, enough) in [(32 << 20, true), (8 << 20, false)] {
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES);
        let (mut segments, free) = (Segments::new(&small(), 48), frames.free_frames());
        for _ in 0..2 {
            assert_eq!(segments.reserve(&mut frames), enough);
            assert_eq!((frames.free_frames() == free, segments.list.is_empty()), (!enough, !enough));
        }
    }
}

fn registers(table: &Translations) -> TableRegisters {
    TableRegisters(table.companion_registers())
}

/// A table with one page in a RestSeg at `page`, and a walker with its registers.
fn one_page(spec: &UtopiaSpec, page: u64) -> (TestBed, Translations, RestSegWalker, Mapping) {
    one_page_in(spec, page, &Arc::new(Mutex::new(Segments::new(spec, 48))))
}

/// As [`one_page`], in these RestSegs; the page has migrated there.
fn one_page_in(
    spec: &UtopiaSpec,
    page: u64,
    segments: &Arc<Mutex<Segments>>,
) -> (TestBed, Translations, RestSegWalker, Mapping) {
    let mut bed = TestBed::new(1 << 30).unwrap();
    let mut table = radix_with_tags(segments).new_process(ProcessId(0), Asid(1), &mut bed.os()).unwrap();
    let page = Page { start: VirtAddr(page << 12), size: PageSize::SIZE_4K };
    let frame = segments.lock().unwrap().take(ProcessId(0), page, true, &mut bed.memory).unwrap();
    let flags = PteFlags { writable: true, user: true, ..PteFlags::default() };
    let mapping = Mapping { page, frame, flags };
    table.map(mapping, &mut bed.os()).unwrap();
    let mut walker = RestSegWalker::new(spec, 48, segments.lock().unwrap().uses());
    walker.load_registers(Asid(1), &registers(&table));
    (bed, table, walker, mapping)
}

#[test]
fn a_walk_of_each_rest_seg_is_two_parallel_loads_and_then_none() {
    let spec = small();
    let (mut bed, table, mut walker, mapping) = one_page(&spec, 700);
    let probe = |walker: &mut RestSegWalker, va: VirtAddr, now: u64, bed: &mut TestBed| {
        let mut port = TestPort::new(&mut bed.memory, 100);
        let answer = walker.probe(va, AccessKind::Store, Cycle(now), &mut port);
        (answer, port.loads.len())
    };
    let va = mapping.page.start.offset(5);
    let (cold, loads) = probe(&mut walker, va, 0, &mut bed);
    let found = cold.found.unwrap();
    assert_eq!((found.frame, found.dirty, cold.ready, cold.holds_walk), (mapping.frame, true, Cycle(102), true));
    // Two of each RestSeg: both are walked at once.
    assert_eq!(loads, 4);
    let (warm, loads) = probe(&mut walker, va, 1000, &mut bed);
    assert_eq!((warm.ready, loads), (Cycle(1002), 0));
    // The accessed and dirty bits are in the row, where the kernel reads them.
    let seen = table.lookup(va, &bed.memory).unwrap().flags;
    assert!(seen.accessed && seen.dirty);
    // An empty set in a cached line: no tags are loaded.
    let before = walker.counters.clone();
    let (none, _) = probe(&mut walker, VirtAddr(701 << 12), 2000, &mut bed);
    assert_eq!(none.found, None);
    assert_eq!(walker.counters.filtered - before.filtered, 2, "both RestSegs");
    assert_eq!(walker.counters.tar_hits + walker.counters.tar_misses, 2);
}

#[test]
fn loads_are_abandoned_when_the_l2_tlb_hits() {
    let spec = small();
    let (mut bed, _, mut walker, mapping) = one_page(&spec, 700);
    let beside = |walker: &mut RestSegWalker, now: u64, bed: &mut TestBed| {
        let mut port = TestPort::new(&mut bed.memory, 100);
        let answer = walker.probe_beside_hit(mapping.page.start, AccessKind::Store, Cycle(now), &mut port);
        (answer.found.map(|found| found.frame), answer.ready.0 - now, port.loads.len() + port.updates.len())
    };
    // Neither sent, nor cached, nor counted as cycles of a walk.
    assert_eq!(beside(&mut walker, 0, &mut bed), (None, 2, 0));
    assert_eq!(beside(&mut walker, 1000, &mut bed), (None, 2, 0));
    let counters = &walker.counters;
    assert_eq!((counters.walks, counters.hits, counters.walk_cycles), (2, 0, 0));
    assert_eq!((counters.sf_misses, counters.tar_misses, counters.abandoned), (4, 0, 4), "of both RestSegs");
    // What the caches have is found in them.
    let mut port = TestPort::new(&mut bed.memory, 100);
    walker.probe(mapping.page.start, AccessKind::Store, Cycle(2000), &mut port).found.unwrap();
    assert_eq!(port.loads.len(), 4);
    assert_eq!(beside(&mut walker, 3000, &mut bed), (Some(mapping.frame), 2, 0));
}

#[test]
fn a_perfect_walk_takes_no_time_and_finds_what_a_walk_finds() {
    let spec = UtopiaSpec { perfect_walks: true, ..small() };
    let (mut bed, table, mut walker, mapping) = one_page(&spec, 700);
    for number in [700, 701] {
        let va = VirtAddr(number << 12);
        let mut port = TestPort::new(&mut bed.memory, 100);
        let answer = walker.probe(va, AccessKind::Store, Cycle(5), &mut port);
        let expected = (number == 700).then_some(mapping.frame);
        assert_eq!((answer.found.map(|found| found.frame), answer.ready), (expected, Cycle(5)));
        let beside = walker.probe_beside_hit(va, AccessKind::Load, Cycle(5), &mut port);
        assert_eq!((beside.found.map(|found| found.frame), beside.ready), (expected, Cycle(5)));
    }
    assert!(table.lookup(mapping.page.start, &bed.memory).unwrap().flags.dirty);
    assert_eq!((walker.counters.walk_cycles, walker.counters.tar_hits + walker.counters.tar_misses), (0, 0));
}

/// What software and hardware say about a page; they agree.
fn frame_of(page: u64, table: &Translations, walker: &mut RestSegWalker, bed: &mut TestBed) -> Option<Pfn> {
    let va = VirtAddr(page << 12);
    let said = table.lookup(va, &bed.memory).map(|found| found.frame);
    walker.load_registers(Asid(1), &registers(table));
    let mut port = TestPort::new(&mut bed.memory, 100);
    let found = walker.probe(va, AccessKind::Load, Cycle(0), &mut port).found.map(|found| found.frame);
    assert_eq!(found, said, "page {page:#x}");
    found
}

/// The paper's shape, whose tags are compared all at once, and another.
fn shapes() -> [UtopiaSpec; 2] {
    [RestSegSpec::default(), RestSegSpec { bytes: 2 << 20, page_bytes: 4096, ways: 8 }]
        .map(|segment| UtopiaSpec { segments: vec![segment], ..UtopiaSpec::default() })
}

#[test]
fn pages_of_a_set_are_told_apart_by_every_bit_of_their_tags() {
    for spec in shapes() {
        let Shape { sets, row, .. } = spec.shapes(48)[0];
        for tag in [0, 0x2_a5a5 & ((1 << row.tag_bits) - 1), (1 << row.tag_bits) - 1] {
            let there = tag * sets + 5;
            let (mut bed, table, mut walker, mapping) = one_page(&spec, there);
            assert_eq!(frame_of(there, &table, &mut walker, &mut bed), Some(mapping.frame));
            for bit in 0..row.tag_bits {
                let other = (tag ^ 1 << bit) * sets + 5;
                assert_eq!(frame_of(other, &table, &mut walker, &mut bed), None, "tag {tag:#x}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_way_that_is_not_valid_holds_no_page() {
    for spec in shapes() {
        let sets = spec.shapes(48)[0].sets;
        let segments = Arc::new(Mutex::new(Segments::new(&spec, 48)));
        // A page of the same set, so that the set filter lets all walks through.
        let (mut bed, mut table, mut walker, _) = one_page_in(&spec, 7 * sets + 5, &segments);
        // The page whose tag is 0, as those of empty ways are: never there, there, and gone.
        let page = Page { start: VirtAddr(5 << 12), size: PageSize::SIZE_4K };
        assert_eq!(frame_of(5, &table, &mut walker, &mut bed), None);
        let frame = segments.lock().unwrap().take(ProcessId(0), page, false, &mut bed.memory).unwrap();
        let flags = PteFlags { writable: true, user: true, ..PteFlags::default() };
        table.map(Mapping { page, frame, flags }, &mut bed.os()).unwrap();
        assert_eq!(frame_of(5, &table, &mut walker, &mut bed), Some(frame));
        assert!(table.unmap(page, &mut bed.os()).is_some());
        assert_eq!(frame_of(5, &table, &mut walker, &mut bed), None);
        assert!(frame_of(7 * sets + 5, &table, &mut walker, &mut bed).is_some());
    }
}

#[test]
fn the_reuse_of_a_migrated_page_is_counted_when_it_leaves() {
    let spec = small();
    for (finds, expected) in [(0, [1, 0, 0, 0]), (5, [0, 1, 0, 0]), (6, [0, 0, 1, 0]), (21, [0, 0, 0, 1])] {
        let segments = Arc::new(Mutex::new(Segments::new(&spec, 48)));
        let (mut bed, mut table, mut walker, mapping) = one_page_in(&spec, 700, &segments);
        for at in 0..finds {
            let mut port = TestPort::new(&mut bed.memory, 100);
            walker.probe(mapping.page.start, AccessKind::Load, Cycle(1000 * at), &mut port).found.unwrap();
        }
        table.unmap(mapping.page, &mut bed.os()).unwrap();
        let mut segments = segments.lock().unwrap();
        assert!(segments.give_back(mapping.frame, mapping.page.size));
        let counts = |segments: &Segments| {
            let reuse = &segments.reuse;
            [reuse.none, reuse.up_to_5, reuse.up_to_20, reuse.above_20]
        };
        assert_eq!(counts(&segments), expected, "{finds} finds");
        // A page placed there by a fault is not counted.
        segments.take(ProcessId(0), mapping.page, false, &mut bed.memory).unwrap();
        assert!(segments.give_back(mapping.frame, mapping.page.size));
        assert_eq!(counts(&segments), expected);
    }
}

#[test]
fn lines_that_the_kernel_changes_are_dropped_from_the_caches() {
    let spec = small();
    let (mut bed, mut table, mut walker, mapping) = one_page(&spec, 700);
    let found = |walker: &mut RestSegWalker, bed: &mut TestBed, now: u64| {
        let mut port = TestPort::new(&mut bed.memory, 100);
        walker.probe(mapping.page.start, AccessKind::Load, Cycle(now), &mut port).found
    };
    assert!(found(&mut walker, &mut bed, 0).unwrap().writable);
    table.set_flags(mapping.page, PteFlags { writable: false, ..mapping.flags }, &mut bed.os());
    walker.load_registers(Asid(1), &registers(&table));
    assert!(!found(&mut walker, &mut bed, 1000).unwrap().writable);
    // A context switch; the page is unmapped; then many lines change at once.
    walker.load_registers(Asid(2), &TableRegisters(vec![0; 1 + 2 * super::table::RECENT + 1]));
    table.unmap(mapping.page, &mut bed.os()).unwrap();
    walker.load_registers(Asid(1), &registers(&table));
    assert_eq!(found(&mut walker, &mut bed, 2000), None);
    for _ in 0..3 {
        table.map(mapping, &mut bed.os()).unwrap();
        table.unmap(mapping.page, &mut bed.os()).unwrap();
    }
    table.map(mapping, &mut bed.os()).unwrap();
    walker.load_registers(Asid(1), &registers(&table));
    assert!(found(&mut walker, &mut bed, 3000).is_some());
}

#[test]
fn lines_leave_the_caches_however_many_others_have_changed_since() {
    // Of 2048 sets, whose counters are in several lines.
    let segment = RestSegSpec { bytes: 64 << 20, page_bytes: 4096, ways: 8 };
    let spec = UtopiaSpec { segments: vec![segment], ..UtopiaSpec::default() };
    let segments = Arc::new(Mutex::new(Segments::new(&spec, 48)));
    let (mut bed, mut table, mut walker, mapping) = one_page_in(&spec, 700, &segments);
    assert_eq!(frame_of(700, &table, &mut walker, &mut bed), Some(mapping.frame));
    table.unmap(mapping.page, &mut bed.os()).unwrap();
    // The registers name the latest changes, and these are of sets in other lines.
    let others: Vec<u64> = {
        let segments = segments.lock().unwrap();
        let (shape, arrays) = (segments.list[0].shape, segments.arrays[&ProcessId(0)][0]);
        let line = |number: u64| shape.filter.line(arrays.sf, shape.set_and_tag(VirtAddr(number << 12)).0);
        (701..1 << 20).filter(|number| line(*number) != line(700)).take(RECENT).collect()
    };
    assert_eq!(others.len(), RECENT);
    for number in &others {
        let page = Page { start: VirtAddr(number << 12), size: PageSize::SIZE_4K };
        let frame = segments.lock().unwrap().take(ProcessId(0), page, false, &mut bed.memory).unwrap();
        table.map(Mapping { page, frame, ..mapping }, &mut bed.os()).unwrap();
    }
    assert_eq!(frame_of(700, &table, &mut walker, &mut bed), None);
    assert!(frame_of(others[0], &table, &mut walker, &mut bed).is_some());
}

#[test]
fn frequent_and_costly_walks_hint_their_page_for_migration() {
    let spec = UtopiaSpec { frequency_threshold: 3, cost_threshold: 4, ..small() };
    let mut bed = TestBed::new(MEMORY).unwrap();
    let mut walker = RestSegWalker::new(&spec, 48, Vec::new());
    let at = PhysAddr(0x3008);
    let flags = PteFlags { writable: true, user: true, ..PteFlags::default() };
    let pte = ambulator_structures::pte::Pte::leaf(Pfn(77), flags, false);
    bed.memory.write(at, pte.0);
    let found: Translation = pte.translation(PageSize::SIZE_4K);
    let va = VirtAddr(0x1000);
    let mut walk = |dram_loads: u32| {
        let walk = FinishedWalk { found, entry: Some(at), dram_loads, ready: Cycle(0) };
        walker.refill(va, &walk, &mut TestPort::new(&mut bed.memory, 100));
        walker.take_migration_hint()
    };
    // Frequent enough but not yet costly enough; then both.
    assert_eq!([walk(1), walk(1), walk(1), walk(0)], [None; 4]);
    assert_eq!(walk(1), Some(va));
    assert_eq!(bed.memory.read(at) & !(0x7f << 52), pte.0, "only counters have changed");
}

#[test]
fn pages_above_the_largest_that_migrate_are_not_counted() {
    let segment = |page_bytes| RestSegSpec { bytes: 64 << 20, page_bytes, ways: 8 };
    let hints = |largest_migration| {
        let segments = vec![segment(4096), segment(2 << 20)];
        let spec = UtopiaSpec { segments, largest_migration, ..UtopiaSpec::default() };
        let mut bed = TestBed::new(MEMORY).unwrap();
        let mut walker = RestSegWalker::new(&spec, 48, Vec::new());
        [PageSize::SIZE_4K, PageSize::SIZE_2M].map(|size| {
            let at = PhysAddr(0x3000 + size.bytes() / 512);
            let pte = ambulator_structures::pte::Pte::leaf(Pfn(512), PteFlags::default(), false);
            bed.memory.write(at, pte.0);
            let walk = FinishedWalk { found: pte.translation(size), entry: Some(at), dram_loads: 4, ready: Cycle(0) };
            (0..7).for_each(|_| walker.refill(VirtAddr(0), &walk, &mut TestPort::new(&mut bed.memory, 100)));
            (walker.take_migration_hint().is_some(), bed.memory.read(at) != pte.0)
        })
    };
    assert_eq!(hints(1 << 30), [(true, true); 2]);
    assert_eq!(hints((2 << 20) - 1), [(true, true), (false, false)]);
}

/// A machine with that address width.
fn site(va_bits: u32) -> Site {
    Site {
        va_bits,
        pwc: ambulator_mmu::PwcSpec::default(),
        stage: ambulator_sockets::Stage::Native,
        design: ambulator_sockets::DesignSpec::with_table("radix"),
        takes_nodes: true,
        nodes: None,
    }
}

#[test]
fn each_error_of_a_spec_is_reported_with_what_would_fit() {
    let with = |segment| UtopiaSpec { segments: vec![segment], ..UtopiaSpec::default() };
    let errors = |segment| Invalid::lines(&with(segment).invalid("u"));
    let errors_on = |segment| Invalid::lines(&with(segment).validate_on("u", &site(48)));
    let wide = errors_on(RestSegSpec { bytes: 512 << 20, page_bytes: 4096, ways: 32 });
    assert!(wide.contains("take 1024 bits, and a line has 512; 16 ways would fit"), "{wide}");
    let odd = errors(RestSegSpec { bytes: 300 << 20, page_bytes: 4096, ways: 16 });
    assert!(odd.contains("268435456 or 536870912 bytes would be"), "{odd}");
    assert!(errors(RestSegSpec { page_bytes: 5000, ..RestSegSpec::default() }).contains("`page_bytes` is 5000"));
    assert!(errors(RestSegSpec { ways: 0, ..RestSegSpec::default() }).contains("`u.segments`, number 1: `ways` is 0"));
    // The paper's example: 2 GB, 4 ways, 57 bits of address: tags of 28 bits (Sec. 5.2).
    let paper = with(RestSegSpec { bytes: 2 << 30, page_bytes: 4096, ways: 4 });
    assert_eq!((paper.validate_on("u", &site(57)), paper.shapes(57)[0].row.tag_bits), (vec![], 28));
    for (text, segment) in [
        ("512MiB/4KiB/16", RestSegSpec::default()),
        ("3GiB/2MiB/4", RestSegSpec { bytes: 3 << 30, page_bytes: 2 << 20, ways: 4 }),
        ("1000/4097/1", RestSegSpec { bytes: 1000, page_bytes: 4097, ways: 1 }),
    ] {
        assert_eq!((RestSegSpec::try_from(text.to_owned()), String::from(segment)), (Ok(segment), text.to_owned()));
    }
    for text in ["512MiB/4KiB", "x/4KiB/16", "512MiB/4KiB/16/1", "99999999999999999999/4KiB/1", "17179869184GiB/1/1"] {
        assert!(RestSegSpec::try_from(text.to_owned()).unwrap_err().contains("such as 512MiB/4KiB/16"), "{text}");
    }
    let wrong = UtopiaSpec {
        segments: vec![],
        sf_cache_bytes: 100,
        tar_cache_bytes: 100,
        restrictive_only: true,
        fault_allocation: false,
        ..UtopiaSpec::default()
    };
    assert_eq!(wrong.invalid("u").len(), 4, "{:?}", wrong.invalid("u"));
    let beyond =
        UtopiaSpec { frequency_threshold: 8, cost_threshold: 16, tar_cache_bytes: 1 << 20, ..UtopiaSpec::default() };
    assert_eq!(beyond.invalid("u").len(), 3, "{:?}", beyond.invalid("u"));
    for def in UtopiaWalkerCounters::DEFS.iter().chain(UtopiaPlacementCounters::DEFS).chain(UtopiaUse::DEFS) {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
    }
}
