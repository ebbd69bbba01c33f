use super::table::{LvmTableCounters, LvmTableState, Segment};
use super::walker::LvmWalkerCounters;
use super::*;
use ambulator_base::{AccessKind, Asid, Counters, Cycle, Page, PageSize, Pfn, ProcessId, Random, VirtAddr};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_mmu::{Invalidation, TableRegisters, WalkOutcome, Walker};
use ambulator_os::{Mapping, PageTable, PteFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LATENCY: u64 = 100;
/// Accessed from the start, so that walks change nothing.
const ACCESSED: PteFlags =
    PteFlags { writable: true, executable: false, user: true, accessed: true, dirty: false, ranged: false };

/// The registers of a process with an empty kernel range.
fn registers(table: &LvmTable) -> TableRegisters {
    let own = table.registers();
    TableRegisters([vec![own.len() as u64], own].concat())
}

struct Rig {
    bed: TestBed,
    table: LvmTable,
    walker: LvmWalker,
    model: BTreeMap<u64, Mapping>,
    now: u64,
}

impl Rig {
    fn new(spec: &LvmSpec) -> Rig {
        Rig {
            bed: TestBed::new(2 << 30).unwrap(),
            table: LvmTable::new(spec, 48),
            walker: LvmWalker::new(spec, 48),
            model: BTreeMap::new(),
            now: 0,
        }
    }

    /// Maps a page, by the number of its first 4 KiB page, unless it overlaps a mapped page.
    fn map(&mut self, number: u64, order: u32) -> bool {
        let end = number + (1 << order);
        let before = self.model.range(..end).next_back();
        if before.is_some_and(|(at, there)| at + there.page.size.frames() > number) {
            return false;
        }
        let page = Page { start: VirtAddr(number << 12), size: PageSize::from_shift(12 + order) };
        let mapping = Mapping { page, frame: Pfn(number & 0x3_ffff_ffff), flags: ACCESSED };
        self.table.map(mapping, &mut self.bed.os()).unwrap();
        self.model.insert(number, mapping);
        true
    }

    fn unmap(&mut self, number: u64) {
        let mapping = self.model.remove(&number).unwrap();
        assert_eq!(self.table.unmap(mapping.page, &mut self.bed.os()), Some(mapping));
    }

    fn check_page(&mut self, number: u64) {
        let va = VirtAddr(number << 12);
        let before = self.model.range(..=number).next_back().map(|(_, mapping)| *mapping);
        let expected = before.filter(|mapping| mapping.page.end() > va);
        assert_eq!(self.table.lookup(va, &self.bed.memory), expected, "{va}");
        self.now += 10_000;
        self.walker.load_registers(Asid(1), &registers(&self.table));
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        let walk = self.walker.walk(va, AccessKind::Fetch, Cycle(self.now), &mut port);
        assert!(walk.accesses <= (LEVELS + 4) as u32, "{va}: {} loads", walk.accesses);
        match (walk.outcome, expected) {
            (WalkOutcome::Mapped(found), Some(expected)) => {
                assert_eq!((found.frame, found.size), (expected.frame, expected.page.size), "{va}");
            }
            (WalkOutcome::NotMapped, None) => {}
            different => panic!("{va}: {different:?}"),
        }
    }

    fn check(&mut self) {
        let pages: Vec<(u64, u64)> = self.model.iter().map(|(at, mapping)| (*at, mapping.page.size.frames())).collect();
        for (at, frames) in pages {
            for page in [at, at + frames / 2, at + frames - 1, at + frames] {
                self.check_page(page);
            }
            self.check_page(at.saturating_sub(1));
        }
    }

    /// Bytes of the table per page.
    fn bytes_per_page(&self) -> u64 {
        self.table.footprint().bytes / self.model.len().max(1) as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), small in any::<bool>(), max_extra in 1u32..4) {
        let mut choice = crate::catalogue().choice("lvm");
        let mut spec = LvmSpec { max_extra, ..LvmSpec::default() };
        if small {
            (spec.insertion_pages, spec.max_table_bytes) = (512, 65536);
        }
        choice.settings.put("lvm", &spec);
        let options = Options { seed, ops: 800, ..Options::default() };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }

    #[test]
    fn seven_page_sizes_in_one_index_behave_as_a_map(seed in any::<u64>(), extra in 1u32..4) {
        let mut rig = Rig::new(&LvmSpec { max_extra: extra, insertion_pages: 512, ..LvmSpec::default() });
        let mut random = Random::new(seed);
        // 4 KiB, 8 KiB, 64 KiB, 256 KiB, 2 MiB, 32 MiB and 1 GiB, mixed in 8 GiB.
        let orders = [0, 1, 4, 6, 9, 13, 18];
        let mut used = [0; 7];
        for step in 0..700 {
            if random.chance(0.75) || rig.model.is_empty() {
                let kind = random.below(7) as usize;
                let order = orders[kind];
                let near = random.below(1 << 21);
                used[kind] += u64::from(rig.map((1 << 30) + (near >> order << order), order));
            } else {
                let at = random.below(1 << 21) + (1 << 30);
                let page = rig.model.range(..at).next_back().or(rig.model.iter().next()).map(|(page, _)| *page);
                rig.unmap(page.unwrap());
            }
            if step % 350 == 349 {
                rig.check();
            }
        }
        prop_assert!(used.iter().filter(|&&n| n > 0).count() >= 5, "{:?}", used);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Clusters of one page size next to clusters of another, as heaps under transparent huge pages have
    /// them, that grow, get holes and change their page size.
    #[test]
    fn clusters_of_two_page_sizes_behave_as_a_map(
        seed in any::<u64>(), extra in 1u32..4, wide in any::<bool>(), divide_by_page_size in any::<bool>(),
    ) {
        let spec = LvmSpec { max_extra: extra, insertion_pages: 512, divide_by_page_size, ..LvmSpec::default() };
        let mut rig = Rig::new(&spec);
        let mut random = Random::new(seed);
        let mut at = 1 << 30;
        for _ in 0..24 {
            let order = if random.chance(0.5) { 9 } else { 0 };
            at = (at >> order << order) + if at % (1 << order) == 0 { 0 } else { 1 << order };
            let (from, count) = (at, 1 + random.below(if wide { 700 } else { 12 }));
            for _ in 0..count {
                rig.map(at, order);
                at += 1 << order;
            }
            at += random.below(3) * random.below(40);
            if random.chance(0.3) {
                // The cluster's last page goes, and comes back in the other size.
                let last = at.min(*rig.model.range(from..).next_back().unwrap().0);
                rig.unmap(last);
                let small = last + random.below(8);
                if order == 9 {
                    (0..random.below(8)).for_each(|i| { rig.map(small + i, 0); });
                }
            }
        }
        rig.check();
        prop_assert!(divide_by_page_size || rig.table.segments.len() == 1, "page sizes share a segment");
    }
}

#[test]
fn page_sizes_share_a_leaf_where_the_error_bound_holds() {
    let mut rig = Rig::new(&LvmSpec::default());
    // Twenty small pages before and twelve after two hundred large ones.
    let base = 1 << 30;
    (0..20).for_each(|i| assert!(rig.map(base - 20 + i, 0)));
    (0..200).for_each(|i| assert!(rig.map(base + (i << 9), 9)));
    (0..12).for_each(|i| assert!(rig.map(base + (200 << 9) + i, 0)));
    rig.check();
    assert_eq!((rig.table.segments.len(), rig.table.tables.len()), (1, 1), "one root, which is a leaf");
    let sizes: Vec<u32> = {
        let (start, table) = rig.table.tables.first_key_value().unwrap();
        let (node, _) = rig.table.node(0, 0, &rig.bed.memory);
        rig.table.pages_of(*start, node, *table, &rig.bed.memory).iter().map(|(_, order, _)| *order).collect()
    };
    assert!(sizes.contains(&0) && sizes.contains(&9) && sizes.len() == 232, "{} pages", sizes.len());
    // A thousand small pages after them are beyond the bound: more leaves, in segments of their own only if
    // that is permitted.
    for divide_by_page_size in [false, true] {
        rig.table.spec.divide_by_page_size = divide_by_page_size;
        for i in 12..1012 {
            rig.map(base + (200 << 9) + i, 0);
        }
        rig.check();
        let (leaves, segments) = (rig.table.tables.len(), rig.table.segments.len());
        assert!(leaves > 1 && (segments > 1) == divide_by_page_size, "{leaves} leaves, {segments} segments");
        (12..1012).for_each(|i| rig.unmap(base + (200 << 9) + i));
        // Another page beyond the segment: the index is built anew.
        rig.map(base << 1, 0);
        rig.unmap(base << 1);
    }
}

#[test]
fn no_look_up_within_a_leaf_of_large_pages_collides() {
    let mut rig = Rig::new(&LvmSpec::default());
    let base = (1 << 30) + (3 << 9);
    let of_thirds = |remainders: &'static [u64]| (0..300).filter(|i| remainders.contains(&(i % 3)));
    of_thirds(&[0, 2]).for_each(|i| assert!(rig.map(base + (i << 9), 9)));
    // Pages within bounds, and some that are freed and mapped again, find their own slots.
    let before = rig.table.counters.clone();
    of_thirds(&[1]).for_each(|i| assert!(rig.map(base + (i << 9), 9)));
    (100..140).for_each(|i| rig.unmap(base + (i << 9)));
    (100..140).for_each(|i| assert!(rig.map(base + (i << 9), 9)));
    let counters = &rig.table.counters;
    assert_eq!((counters.retrains, counters.rebuilds), (before.retrains, before.rebuilds));
    assert_eq!((counters.plain_inserts - before.plain_inserts, counters.collisions), (140, 0));
    assert_eq!(rig.table.tables.len(), 1, "one leaf");
    (base..base + (300 << 9)).for_each(|page| rig.check_page(page));
    let LvmWalkerCounters { collisions, table_loads, .. } = rig.walker.counters;
    assert_eq!((collisions, table_loads), (0, 300 << 9));
}

#[test]
fn segments_divide_at_wide_gaps_only() {
    let mut rig = Rig::new(&LvmSpec { divide_by_page_size: false, ..LvmSpec::default() });
    let gap = LvmSpec::default().segment_gap_pages;
    // Three clusters: the second one is as far from the first as a segment may reach, the third one further.
    let first = (1 << 30) - 40;
    let second = first + 40 + gap;
    for (cluster, order) in [(first, 0), (second, 9), (second + (40 << 9) + gap + 1, 0)] {
        (0..40).for_each(|i| assert!(rig.map(cluster + (i << order), order)));
    }
    rig.check();
    let starts: Vec<u64> = rig.table.segments.iter().map(|segment| segment.start).collect();
    assert_eq!(starts.len(), 2, "{starts:x?}");
}

#[test]
fn a_segment_grows_by_the_minimum_insertion_distance() {
    let mut rig = Rig::new(&LvmSpec::default());
    let distance = LvmSpec::default().insertion_pages;
    let pages = 400_000;
    for page in 0..pages {
        rig.map((1 << 30) + page, 0);
    }
    let Segment { start, pages: covered } = rig.table.segments[0];
    let end = start + covered - (1 << 30);
    assert!((pages..=pages + distance).contains(&end), "{end} for {pages}");
    assert!(rig.table.tables.len() == 1 && rig.table.counters.rebuilds < 10, "{:?}", rig.table.counters);
    // Each growth is announced by its distance, but the table moves only when it is a quarter larger.
    let (rescales, moves) = (rig.table.counters.rescales, rig.table.counters.moves);
    assert!(rescales >= pages / distance - 1 && moves < rescales, "{rescales} growths, {moves} moves");
}

#[test]
fn a_regular_address_space_is_one_model_and_one_load() {
    let mut rig = Rig::new(&LvmSpec::default());
    for page in 0..100_000 {
        rig.map((1 << 30) + page, 0);
    }
    let before = rig.walker.counters.clone();
    for page in (0..100_000).step_by(7) {
        rig.check_page((1 << 30) + page);
    }
    let counters = &rig.walker.counters;
    assert!(counters.extra_loads - before.extra_loads < 200, "{counters:?}");
    assert!(counters.lwc_hits > 14_000 && counters.lwc_misses < 20, "{counters:?}");
    assert!(rig.table.registers().len() == 3 + LEVELS + 2, "one segment");
    // 1.3 slots per page, and a quarter to grow.
    assert!(rig.bytes_per_page() <= 15, "{}", rig.bytes_per_page());
}

#[test]
fn a_walk_waits_for_models_and_then_for_the_line() {
    let mut rig = Rig::new(&LvmSpec::default());
    for page in 0..5000 {
        rig.map(512 + page, 0);
    }
    rig.walker.load_registers(Asid(1), &registers(&rig.table));
    let mut walk = |now: u64| {
        let mut port = TestPort::new(&mut rig.bed.memory, LATENCY);
        rig.walker.walk(VirtAddr(700 << 12), AccessKind::Load, Cycle(now), &mut port)
    };
    let levels = {
        let cold = walk(0);
        // Each level: the walk cache, the load, the model; then the line of entries.
        let levels = u64::from(cold.accesses) - 1;
        assert_eq!(cold.ready, Cycle(levels * (1 + LATENCY + 1) + LATENCY));
        levels
    };
    // A cached level takes 2 cycles, look-up and calculation together (Sec. 7.4).
    assert_eq!(walk(10_000).ready, Cycle(10_000 + levels * 2 + LATENCY));
}

#[test]
fn the_walk_cache_keeps_only_the_models_that_walks_use() {
    // Leaves of 2 MiB, four nodes to a line: a leaf's neighbours come with its line, and are not kept.
    let mut rig = Rig::new(&LvmSpec { max_table_bytes: 8 << 10, ..LvmSpec::default() });
    for page in 0..4096 {
        rig.map((1 << 30) + page, 0);
    }
    assert!(rig.table.tables.len() >= 4, "{} leaves", rig.table.tables.len());
    let leaves: Vec<u64> = rig.table.tables.keys().map(|leaf| (*leaf).max(1 << 30)).collect();
    rig.walker.load_registers(Asid(1), &registers(&rig.table));
    rig.walker.reset_counters();
    let mut walk = |page: u64, now: u64| {
        let mut port = TestPort::new(&mut rig.bed.memory, LATENCY);
        rig.walker.walk(VirtAddr(page << 12), AccessKind::Load, Cycle(now), &mut port).accesses
    };
    let upper = walk(leaves[0], 0) - 2;
    for (i, &leaf) in leaves.iter().enumerate().skip(1) {
        assert_eq!(walk(leaf, 10_000 * i as u64), 2, "the leaf's model and its entry; {upper} upper levels are cached");
    }
}

#[test]
fn pages_with_the_same_tag_are_never_confused() {
    // Every 4096th page has the same tag: only a slope that keeps them some lines apart distinguishes them.
    for order in [0, 9] {
        let mut rig = Rig::new(&LvmSpec::default());
        let mut random = Random::new(5);
        let at = |i: u64| (1 << 30) + (i << (12 + order));
        for i in 0..600 {
            if random.chance(0.6) {
                rig.map(at(i), order);
            }
        }
        for i in 0..700 {
            rig.check_page(at(i));
            rig.check_page(at(i) + (2048 << order));
        }
    }
}

/// Pathological address spaces: translations are correct, and the memory is bounded.
#[test]
fn pathological_address_spaces_stay_bounded() {
    let base = 1 << 30;
    let mut random = Random::new(9);
    let every_second = (0..20_000).map(|i| base + 2 * i).collect();
    let one_a_gigabyte = (0..200).map(|i| base + (i << 18)).collect();
    let anywhere = (0..150).map(|_| random.below(1 << 35)).collect();
    let comb = (0..10_000).map(|i| base + i / 3 * 100 + i % 3).collect();
    let downwards = (0..20_000).map(|i| base - i).collect();
    let areas = (0..60_000).map(|i| base + i / 2 * 5 + i % 2).collect();
    let spaces: [(&str, Vec<u64>, u64); 6] = [
        ("every second page", every_second, 64),
        // A radix tree needs two frames for each of these.
        ("one page a gigabyte", one_a_gigabyte, 16 << 10),
        ("random pages", anywhere, 32 << 10),
        ("a comb", comb, 600),
        ("growing down", downwards, 64),
        ("areas of two pages", areas, 100),
    ];
    for (name, pages, bound) in spaces {
        let mut rig = Rig::new(&LvmSpec::default());
        for page in pages {
            rig.map(page, 0);
        }
        rig.check();
        assert!(rig.bytes_per_page() <= bound, "{name}: {} bytes per page", rig.bytes_per_page());
    }
}

#[test]
fn an_area_that_shrinks_and_grows_again_reuses_its_slots() {
    let mut rig = Rig::new(&LvmSpec::default());
    for round in 0..4 {
        for page in 0..10_000 {
            rig.map(4096 + page, 0);
        }
        for page in 0..9_000 {
            rig.unmap(4096 + page);
        }
        rig.check_page(4096 + 100 * round);
        rig.check_page(4096 + 9_500);
    }
    rig.check();
}

#[test]
fn without_contiguity_there_are_more_leaves() {
    let mut rig = Rig::new(&LvmSpec { max_table_bytes: 256 << 10, ..LvmSpec::default() });
    for page in 0..200_000 {
        rig.map((1 << 30) + page, 0);
    }
    for page in (0..200_000).step_by(101) {
        rig.check_page((1 << 30) + page);
    }
    // 260,000 slots of 8 bytes: eight siblings at least.
    let (leaves, largest) = (rig.table.tables.len(), rig.table.footprint().largest_contiguous);
    assert!((8..=14).contains(&leaves) && (128 << 10..=256 << 10).contains(&largest), "{leaves} leaves, {largest}");
}

#[test]
fn processes_share_the_index_of_the_kernels_range() {
    let spec = LvmSpec::default();
    let mut bed = TestBed::new(1 << 30).unwrap();
    let mut factory = crate::catalogue().build(&crate::catalogue().choice("lvm")).translations.tables;
    let mut tables = [1, 2].map(|asid| factory.new_table(ProcessId(asid), Asid(asid as u16), &mut bed.os()).unwrap());
    let base = kernel_base(48);
    // The kernel's text in 2 MiB pages, the direct map in 1 GiB pages, and vmalloc's 4 KiB pages, mapped
    // alternately by both processes.
    let page = |at: u64, size| Page { start: VirtAddr(base + at), size };
    let pages: Vec<Page> = (0..8)
        .map(|i| page((1 << 46) + (i << 21), PageSize::SIZE_2M))
        .chain((0..64).map(|i| page(i << 30, PageSize::SIZE_1G)))
        .chain((0..500).map(|i| page((1 << 45) + (i << 12), PageSize::SIZE_4K)))
        .collect();
    for (i, &page) in pages.iter().enumerate() {
        let mapping = Mapping { page, frame: Pfn((i as u64) << 18), flags: ACCESSED };
        tables[i % 2].map(mapping, &mut bed.os()).unwrap();
        let user = Page { start: VirtAddr((1 << 30) + ((i as u64) << 12)), size: PageSize::SIZE_4K };
        tables[0].map(Mapping { page: user, ..mapping }, &mut bed.os()).unwrap();
    }
    let mut walker = LvmWalker::new(&spec, 48);
    let mut now = 0;
    let mut walk = |table: usize, asid: u16, va: VirtAddr, walker: &mut LvmWalker, bed: &mut TestBed| {
        now += 10_000;
        walker.load_registers(Asid(asid), &TableRegisters(tables[table].registers()));
        walker.walk(va, AccessKind::Load, Cycle(now), &mut TestPort::new(&mut bed.memory, LATENCY)).outcome
    };
    for _ in 0..2 {
        for (i, page) in pages.iter().enumerate() {
            let va = page.start.offset(page.size.bytes() / 2);
            for table in [0, 1] {
                let WalkOutcome::Mapped(found) = walk(table, table as u16 + 1, va, &mut walker, &mut bed) else {
                    panic!("{va} in {table}")
                };
                assert_eq!((found.frame, found.size), (Pfn((i as u64) << 18), page.size));
            }
            // A process's own pages are not mapped in the other.
            let user = VirtAddr((1 << 30) + ((i as u64) << 12));
            assert!(matches!(walk(0, 1, user, &mut walker, &mut bed), WalkOutcome::Mapped(_)));
            assert_eq!(walk(1, 2, user, &mut walker, &mut bed), WalkOutcome::NotMapped);
        }
    }
    // The end of a process keeps the kernel's range, and its models in the walk cache.
    let misses = walker.counters.lwc_misses;
    walker.invalidate(Invalidation::Asid(Asid(1)));
    assert!(matches!(walk(1, 2, pages[0].start, &mut walker, &mut bed), WalkOutcome::Mapped(_)));
    assert_eq!(walker.counters.lwc_misses, misses);
    tables[0].destroy(&mut bed.os());
    assert_eq!(tables[1].lookup(pages[9].start, &bed.memory).map(|found| found.page), Some(pages[9]));
    assert_eq!(tables[1].unmap(pages[9], &mut bed.os()).map(|found| found.page), Some(pages[9]));
    assert_eq!(tables[1].lookup(pages[9].start, &bed.memory), None);
}

#[test]
fn every_counter_has_a_meaning() {
    for def in LvmWalkerCounters::DEFS.iter().chain(LvmTableCounters::DEFS).chain(LvmTableState::DEFS) {
        assert!(def.meaning.ends_with('.'), "{}: {}", def.name, def.meaning);
    }
}

#[test]
fn each_error_of_a_spec_is_reported() {
    let spec = LvmSpec {
        gap_permille: 900,
        max_extra: 4,
        insertion_pages: 1,
        segment_gap_pages: 1 << 40,
        max_table_bytes: 1,
        max_level_bytes: 1,
        lwc_entries: 4096,
        ..LvmSpec::default()
    };
    assert_eq!(spec.invalid("t").len(), 7, "{:?}", spec.invalid("t"));
    assert_eq!(LvmSpec::default().invalid("t"), vec![]);
}
