use super::slot::{Header, Headers};
use super::table::{CuckooTableCounters, CuckooTableState};
use super::walker::CuckooWalkerCounters;
use super::*;
use ambulator_base::{AccessKind, Asid, Counters, Cycle, Page, Pfn, Protection, Random};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_mmu::{TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{Mapping, PageTable, PteFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;

const LATENCY: u64 = 100;
/// Hashing and the walk caches.
const START: u64 = 2 + 4;

pub(crate) fn mapping(va: u64, size: PageSize) -> Mapping {
    let page = Page::containing(VirtAddr(va), size);
    Mapping { page, frame: Pfn(va >> 12 & 0x3_ffff_ffff), flags: PteFlags::user(Protection::READ_WRITE) }
}

struct Rig {
    bed: TestBed,
    table: CuckooPageTable<Contiguous>,
    walker: CuckooWalker,
    asid: Asid,
    now: u64,
}

impl Rig {
    fn new(spec: &EcptSpec) -> Rig {
        let mut bed = TestBed::new(1 << 30).unwrap();
        let table = CuckooPageTable::new(spec, Resizing::AllWays, 20, Contiguous, &mut bed.os()).unwrap();
        Rig { bed, table, walker: CuckooWalker::new(spec, 0), asid: Asid(1), now: 0 }
    }

    fn map(&mut self, va: u64, size: PageSize) {
        self.table.map(mapping(va, size), &mut self.bed.os()).unwrap();
    }

    fn unmap(&mut self, va: u64, size: PageSize) {
        let page = Page::containing(VirtAddr(va), size);
        assert!(self.table.unmap(page, &mut self.bed.os()).is_some());
    }

    fn walk_at(&mut self, va: u64, now: u64) -> Walk {
        self.walker.load_registers(self.asid, &TableRegisters(self.table.registers()));
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        self.walker.walk(VirtAddr(va), AccessKind::Load, Cycle(now), &mut port)
    }

    /// A walk after all earlier loads have completed. Its `ready` is relative to its start.
    fn walk(&mut self, va: u64) -> Walk {
        self.now += 1000;
        let walk = self.walk_at(va, self.now);
        Walk { ready: Cycle(walk.ready.0 - self.now), ..walk }
    }

    /// Complete, partial, size, direct and empty walks so far.
    fn kinds(&self) -> [u64; 5] {
        let c = &self.walker.counters;
        [c.complete_walks, c.partial_walks, c.size_walks, c.direct_walks, c.empty_walks]
    }
}

#[test]
fn walk_caches_trim_complete_walks_to_partial_size_and_direct_ones() {
    let mut rig = Rig::new(&EcptSpec::default());
    rig.map(0x5000, PageSize::SIZE_4K);
    rig.map(0x4020_0000, PageSize::SIZE_2M);
    rig.map(0x80_0000_0000, PageSize::SIZE_1G);
    // Nothing is cached: three ways of three tables at once, followed by two slots of each walk table.
    let walk = rig.walk(0x5000);
    assert_eq!((walk.accesses, walk.ready), (9 + 4, Cycle(START + LATENCY)));
    assert_eq!(rig.kinds(), [1, 0, 0, 0, 0]);
    // Now the section's header is cached: small pages. Three ways of one table.
    let walk = rig.walk(0x5000);
    assert_eq!((walk.accesses, walk.ready), (3, Cycle(START + LATENCY)));
    assert_eq!(rig.kinds(), [1, 0, 1, 0, 0]);
    // The same 64 GiB, another 128 MiB: the PUD header says large pages.
    let walk = rig.walk(0x4020_1000);
    assert!(matches!(walk.outcome, WalkOutcome::Mapped(found) if found.size == PageSize::SIZE_2M));
    assert_eq!((walk.accesses, rig.kinds()), (3 + 2, [1, 0, 2, 0, 0]));
    // And then the PMD header gives the way.
    assert_eq!(rig.walk(0x4030_0000).accesses, 1);
    assert_eq!(rig.kinds(), [1, 0, 2, 1, 0]);
    // A page of 1 GiB: complete, then direct by the PUD header alone.
    rig.walk(0x80_1234_5000);
    let walk = rig.walk(0x80_3333_3000);
    assert!(matches!(walk.outcome, WalkOutcome::Mapped(found) if found.size == PageSize::SIZE_1G));
    assert_eq!((walk.accesses, rig.kinds()), (1, [2, 0, 2, 2, 0]));
    // Small and large pages in one gigabyte: two tables.
    rig.map(0x4820_0000, PageSize::SIZE_4K);
    rig.map(0x5020_0000, PageSize::SIZE_2M);
    rig.walk(0x5000);
    assert_eq!(rig.walk(0x5020_0000).accesses, 6 + 2);
    assert_eq!(rig.kinds(), [3, 1, 2, 2, 0]);
    // Known to be empty: no probe at all.
    let walk = rig.walk(0x5040_0000);
    assert_eq!((walk.outcome, walk.accesses), (WalkOutcome::NotMapped, 0));
    assert_eq!(rig.kinds(), [3, 1, 2, 2, 1]);
}

#[test]
fn cached_headers_never_hide_a_page() {
    let mut rig = Rig::new(&EcptSpec::default());
    rig.map(0x20_0000, PageSize::SIZE_4K);
    rig.walk(0x20_0000);
    assert_eq!(rig.walk(0x40_0000).outcome, WalkOutcome::NotMapped);
    rig.map(0x40_0000, PageSize::SIZE_2M);
    assert!(matches!(rig.walk(0x40_0000).outcome, WalkOutcome::Mapped(_)));
    rig.unmap(0x40_0000, PageSize::SIZE_2M);
    rig.map(0x40_0000, PageSize::SIZE_4K);
    assert!(matches!(rig.walk(0x40_0000).outcome, WalkOutcome::Mapped(_)));
    // Large pages whose slots are displaced into other ways while a walk cache holds their old ways.
    for page in 16..4096_u64 {
        rig.map(page << 21, PageSize::SIZE_2M);
        for before in [16, page / 2 + 8, page] {
            assert!(matches!(rig.walk(before << 21).outcome, WalkOutcome::Mapped(_)), "{before} of {page}");
        }
    }
    assert!(rig.walker.counters.direct_walks > 100, "{:?}", rig.walker.counters);
}

#[test]
fn all_probes_of_a_walk_issue_together_and_a_context_switch_flushes_the_walk_caches() {
    let mut rig = Rig::new(&EcptSpec { cwc_latency: 40, hash_latency: 7, ..EcptSpec::default() });
    rig.map(0x5000, PageSize::SIZE_4K);
    assert_eq!(rig.walk_at(0x5000, 10).ready, Cycle(10 + 47 + LATENCY));
    // The refill of the walk cache is still in flight.
    assert_eq!((rig.walk_at(0x5000, 20).accesses, rig.kinds()[0]), (9 - 6 + 4, 2));
    rig.walk(0x5000);
    assert_eq!(rig.kinds(), [2, 0, 1, 0, 0]);
    rig.asid = Asid(2);
    rig.walk(0x5000);
    assert_eq!(rig.kinds(), [3, 0, 1, 0, 0]);
}

#[test]
fn a_resize_takes_half_as_much_memory_again_while_it_lasts() {
    let mut rig = Rig::new(&EcptSpec::default());
    let walk_tables = rig.table.footprint().bytes;
    assert_eq!(walk_tables, 4 * 4096);
    let mut page = 0;
    let mut peak = 0;
    while rig.table.table(0).elastic.ways()[0].slots < 2048 || rig.table.table(0).elastic.resizes() {
        rig.map(page << 15, PageSize::SIZE_4K);
        peak = peak.max(rig.table.footprint().bytes - walk_tables);
        page += 1;
    }
    let way = 2048 * 64;
    assert_eq!((peak, rig.table.footprint().bytes - walk_tables), (3 * way + 3 * way / 2, 3 * way));
    assert_eq!(rig.table.footprint().largest_contiguous, way);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), upsize_at in 0.3..0.7, rehash_slots in 1u32..5, small in any::<bool>()) {
        let mut choice = crate::catalogue().choice("ecpt");
        let mut spec = EcptSpec { upsize_at, downsize_at: 0.12, rehash_slots, ..EcptSpec::default() };
        if small {
            spec.initial_bytes = 4096;
        }
        choice.settings.put("ecpt", &spec);
        let options = Options { seed, ops: 800, resizes_on_failure: true, ..Options::default() };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}

/// Maps and unmaps pages of all sizes in waves, against a map as the model. From time to time all pages are
/// compared, by look-ups and by walks.
pub(crate) fn waves<B: Backing>(
    mut table: CuckooPageTable<B>,
    mut walker: CuckooWalker,
    mut bed: TestBed,
    seed: u64,
    operations: u64,
) -> CuckooPageTable<B> {
    let mut random = Random::new(seed);
    let mut model: BTreeMap<u64, Mapping> = BTreeMap::new();
    let mut pages: Vec<u64> = Vec::new();
    let mut grow = 0.9;
    for operation in 0..operations {
        if operation % 50_000 == 0 {
            grow = if random.chance(0.5) { 0.85 } else { 0.2 };
        }
        if pages.is_empty() || random.chance(grow) {
            // Each size has its own part of the address space, so that pages never overlap.
            let (size, va) = match random.below(20) {
                0 => (PageSize::SIZE_1G, (1 << 46) + (random.below(1 << 10) << 30)),
                1..=4 => (PageSize::SIZE_2M, (1 << 45) + (random.below(1 << 18) << 21)),
                _ => (PageSize::SIZE_4K, random.below(1 << 22) << 12),
            };
            let mapping = mapping(va, size);
            if model.contains_key(&va) {
                continue;
            }
            table.map(mapping, &mut bed.os()).unwrap();
            model.insert(va, mapping);
            pages.push(va);
        } else {
            let va = pages.swap_remove(random.below(pages.len() as u64) as usize);
            let mapping = model.remove(&va).unwrap();
            assert_eq!(table.unmap(mapping.page, &mut bed.os()), Some(mapping));
        }
        let (least, most) = SIZES.iter().enumerate().fold((true, true), |(least, most), (size, _)| {
            let sizes = table.table(size).elastic.ways().iter().map(ambulator_structures::elastic::Way::target);
            let (a, b) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
            (least && b <= 2 * a, most && b <= 1 << 20)
        });
        assert!(least && most, "ways are out of balance");
        if operation % 40_000 == 0 {
            walker.load_registers(Asid(1), &TableRegisters(table.registers()));
            for (va, mapping) in &model {
                let va = VirtAddr(va + mapping.page.size.bytes() / 2);
                assert_eq!(table.lookup(va, &bed.memory), Some(*mapping));
                let mut port = TestPort::new(&mut bed.memory, LATENCY);
                // A fetch sets the accessed bit; it is reset below.
                let walk = walker.walk(va, AccessKind::Fetch, Cycle(operation << 20), &mut port);
                assert!(walk.accesses <= 3 * 3 + 4, "more than a probe per way");
                let found = WalkOutcome::Mapped(
                    ambulator_structures::pte::Pte::leaf(mapping.frame, mapping.flags, false)
                        .translation(mapping.page.size),
                );
                assert_eq!(walk.outcome, found, "{va}");
                table.set_flags(mapping.page, mapping.flags, &mut bed.os());
            }
        }
    }
    table
}

#[test]
fn a_million_operations_lose_no_entry() {
    let mut bed = TestBed::new(4 << 30).unwrap();
    let spec = EcptSpec::default();
    let table = CuckooPageTable::new(&spec, Resizing::AllWays, 20, Contiguous, &mut bed.os()).unwrap();
    let table = waves(table, CuckooWalker::new(&spec, 0), bed, 3, 1_000_000);
    let counters = &table.table(0).elastic.counters;
    assert!(counters.upsizes[0] > 8 && counters.downsizes[0] > 1, "{counters:?}");
}

#[test]
fn keys_are_in_bits_that_the_architecture_does_not_use() {
    let key = (1 << 42) - 1 - 0x1234_5678;
    let mut words = Cluster::of_key(key);
    assert_eq!(Cluster::key(&words), None, "nothing is present");
    let pte = ambulator_structures::pte::Pte::leaf(Pfn((1 << 34) - 1), PteFlags::user(Protection::READ_WRITE), true);
    words[5] = Cluster::with_entry(words[5], pte);
    assert_eq!(
        (Cluster::key(&words), Cluster::entry(&words, 5), Cluster::entry(&words, 4)),
        (Some(key), Some(pte), None)
    );
    assert!(Cluster::is_of(&words, key) && !Cluster::is_of(&words, key ^ 1 << 41));
    let hardware = ambulator_structures::pte::Pte::FRAME | 0xfff | ambulator_structures::pte::Pte::NO_EXECUTE;
    assert!(Cluster::of_key(u64::MAX).iter().all(|word| word & hardware == 0));
}

#[test]
fn headers_of_64_sections_fit_32_bytes() {
    let mut words = Headers::of_key(7);
    let all: Vec<Header> = (0..HEADERS).map(|section| Header((section * 5 % 8) as u8)).collect();
    for (section, &header) in all.iter().enumerate() {
        Headers::set(&mut words, section as u64, header);
    }
    assert!((0..HEADERS).all(|section| Headers::get(&words, section) == all[section as usize]));
    assert_eq!((Headers::key(&words), Header::page_in(2).way(), Header(Header::LARGE).way()), (Some(7), Some(2), None));
}

#[test]
fn every_counter_has_a_meaning() {
    for def in CuckooWalkerCounters::DEFS.iter().chain(CuckooTableCounters::DEFS).chain(CuckooTableState::DEFS) {
        assert!(def.meaning.ends_with('.'), "{}: {}", def.name, def.meaning);
    }
}

#[test]
fn each_error_of_a_spec_is_reported() {
    let spec = EcptSpec {
        ways: 1,
        upsize_at: 0.95,
        cwt_ways: 9,
        cwt_entries: 100,
        pmd_cwc_entries: 4096,
        ..EcptSpec::default()
    };
    let wrong = spec.invalid("t");
    for key in ["`t.ways`", "`t.upsize_at`", "`t.cwt_ways`", "`t.cwt_entries`", "`t.pmd_cwc_entries`"] {
        assert!(wrong.iter().any(|error| error.to_string().contains(key)), "{key}: {wrong:?}");
    }
    assert_eq!(EcptSpec::default().invalid("t"), vec![]);
}
