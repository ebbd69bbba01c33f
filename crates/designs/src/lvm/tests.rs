use super::train::least_slope;
use super::*;
use crate::conformance::{self, Options, TestBed, TestPort};
use crate::{DesignSpec, TableKind, build};
use ambulator_base::{AccessKind, Counters, Cycle, Page, PageSize, Pfn, Random, VirtAddr};
use ambulator_mmu::{TableRegisters, WalkOutcome};
use ambulator_os::{Mapping, PteFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LATENCY: u64 = 100;
/// Accessed from the start, so that walks change nothing.
const ACCESSED: PteFlags =
    PteFlags { writable: true, executable: false, user: true, accessed: true, dirty: false, ranged: false };

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
            table: LvmTable::new(spec),
            walker: LvmWalker::new(spec),
            model: BTreeMap::new(),
            now: 0,
        }
    }

    /// Maps a page, by the number of its first 4 KiB page, unless something is there.
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
        let truth = before.filter(|mapping| mapping.page.end() > va);
        assert_eq!(self.table.lookup(va, &self.bed.memory), truth, "{va}");
        self.now += 10_000;
        self.walker.load_registers(Asid(1), &TableRegisters(self.table.registers()));
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        let walk = self.walker.walk(va, AccessKind::Fetch, Cycle(self.now), &mut port);
        assert!(walk.accesses <= (LEVELS + 4) as u32, "{va}: {} loads", walk.accesses);
        match (walk.outcome, truth) {
            (WalkOutcome::Mapped(found), Some(truth)) => {
                assert_eq!((found.frame, found.size), (truth.frame, truth.page.size), "{va}");
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

    /// Bytes of the whole table for each page.
    fn bytes_a_page(&self) -> u64 {
        self.table.footprint().bytes / self.model.len().max(1) as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), small in any::<bool>(), max_extra in 1u32..4) {
        let mut spec = DesignSpec::default();
        spec.page_table.kind = TableKind::Lvm;
        spec.page_table.lvm.max_extra = max_extra;
        if small {
            spec.page_table.lvm.insertion_pages = 512;
            spec.page_table.lvm.max_table_bytes = 65536;
        }
        let options = Options { seed, ops: 800, ..Options::default() };
        let summary = conformance::check(|| build(&spec), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }

    #[test]
    fn seven_page_sizes_in_one_index_behave_as_a_map(seed in any::<u64>(), extra in 1u32..4) {
        let mut rig = Rig::new(&LvmSpec { max_extra: extra, insertion_pages: 512, ..LvmSpec::default() });
        let mut random = Random::new(seed);
        // 4 KiB, 8 KiB, 64 KiB, 256 KiB, 2 MiB, 32 MiB, 1 GiB, side by side in 8 GiB.
        let orders = [0, 1, 4, 6, 9, 13, 18];
        let mut used = [0; 7];
        for step in 0..1200 {
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
            if step % 300 == 299 {
                rig.check();
            }
        }
        prop_assert!(used.iter().filter(|&&n| n > 0).count() >= 5, "{:?}", used);
    }
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
    // 1.3 slots a page, and a quarter to grow.
    assert!(rig.bytes_a_page() <= 15, "{}", rig.bytes_a_page());
}

#[test]
fn a_walk_waits_for_models_and_then_for_the_line() {
    let mut rig = Rig::new(&LvmSpec::default());
    for page in 0..5000 {
        rig.map(512 + page, 0);
    }
    rig.walker.load_registers(Asid(1), &TableRegisters(rig.table.registers()));
    let mut walk = |now: u64| {
        let mut port = TestPort::new(&mut rig.bed.memory, LATENCY);
        rig.walker.walk(VirtAddr(700 << 12), AccessKind::Load, Cycle(now), &mut port)
    };
    let levels = {
        let cold = walk(0);
        // Each level: the walk cache, the load, the model; then the line of entries.
        let levels = u64::from(cold.accesses) - 1;
        assert_eq!(cold.ready, Cycle(levels * (2 + LATENCY + 2) + LATENCY));
        levels
    };
    assert_eq!(walk(10_000).ready, Cycle(10_000 + levels * (2 + 2) + LATENCY));
}

#[test]
fn pages_with_the_same_tag_are_never_taken_for_each_other() {
    // Every 4096th page has the same tag: only a slope that keeps them lines apart tells them apart.
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
    let apart = (4095 * least_slope(0, 3) as u64) >> 20;
    assert!(
        apart >= 2 * 4 * 8,
        "{apart} slots between pages of one tag, and a search reaches four lines to either side of an entry's"
    );
}

/// Address spaces as no program should have them: correct, and bounded in what they take.
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
        // A radix tree takes two frames for each of these.
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
        assert!(rig.bytes_a_page() <= bound, "{name}: {} bytes a page", rig.bytes_a_page());
    }
}

#[test]
fn what_shrinks_and_grows_again_finds_its_places() {
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
    // 2^14 pages a leaf need 170 KiB, 2^15 more than there is.
    assert_eq!(rig.table.footprint().largest_contiguous, 168 << 10);
}

#[test]
fn every_counter_has_a_meaning() {
    for def in LvmWalkerCounters::DEFS.iter().chain(LvmTableCounters::DEFS).chain(LvmTableState::DEFS) {
        assert!(def.meaning.ends_with('.'), "{}: {}", def.name, def.meaning);
    }
}

#[test]
fn what_is_wrong_with_a_spec_is_said() {
    let spec = LvmSpec {
        va_bits: 39,
        gap_permille: 900,
        max_extra: 4,
        insertion_pages: 1,
        segment_gap_pages: 1 << 40,
        max_table_bytes: 1,
        max_level_bytes: 1,
        lwc_entries: 4096,
        ..LvmSpec::default()
    };
    assert_eq!(spec.validate("t").len(), 8, "{:?}", spec.validate("t"));
    assert_eq!(LvmSpec::default().validate("t"), Vec::<String>::new());
}
