use super::l2p::Row;
use super::*;
use crate::ecpt::{Cluster, SIZES};
use ambulator_base::{Page, PageSize, Pfn, VirtAddr};
use ambulator_conformance::{Options, TestBed};
use ambulator_os::{MapError, Mapping, PageTable, PteFlags};
use proptest::prelude::*;

/// Each size has its own part of the address space.
fn page(number: u64, size: PageSize) -> Page {
    let part = SIZES.iter().position(|known| *known == size).unwrap() as u64;
    Page { start: VirtAddr((part << 45) + (number << size.shift())), size }
}

struct Rig {
    bed: TestBed,
    table: CuckooPageTable<L2p>,
    share: u32,
}

impl Rig {
    fn new(spec: &MeHptSpec, memory: u64) -> Rig {
        let mut bed = TestBed::new(memory).unwrap();
        let table = table(spec, &mut bed.os()).unwrap();
        Rig { bed, table, share: spec.l2p_entries }
    }

    fn try_map(&mut self, number: u64, size: PageSize) -> Result<(), MapError> {
        let page = page(number, size);
        let mapping = Mapping { page, frame: Pfn(512 << 9), flags: PteFlags::default() };
        self.table.map(mapping, &mut self.bed.os())
    }

    /// Maps one page in each of these slots.
    fn map_slots(&mut self, numbers: std::ops::Range<u64>, size: PageSize) {
        numbers.for_each(|number| self.try_map(number * Cluster::PAGES, size).unwrap());
    }

    fn unmap(&mut self, slot: u64) {
        let page = page(slot * Cluster::PAGES, PageSize::SIZE_4K);
        assert!(PageTable::unmap(&mut self.table, page, &mut self.bed.os()).is_some());
    }

    fn way_bytes(&self, size: usize) -> Vec<u64> {
        self.table.table(size).elastic.ways().iter().map(|way| way.target() * Cluster::BYTES).collect()
    }

    /// Chunks of a way's tables, old and new, and their sizes.
    fn chunks(&self, size: usize, way: usize) -> Vec<(usize, u64)> {
        let spaces = &self.table.table(size).spaces()[way];
        spaces.iter().map(|space| (space.chunks.len(), space.chunk_bytes)).collect()
    }

    /// Entries that each page size has in a way's row, in the order of the row.
    fn layout(&self, way: usize) -> String {
        let row = self.table.backing().rows()[way].layout(self.share);
        row.iter().map(|entry| entry.map_or('.', |size| ['4', '2', '1'][size])).collect()
    }
}

use crate::ecpt::Slot;

#[test]
fn a_way_grows_through_the_chunk_sizes() {
    // Sec. V-B: 64 chunks of 8 KiB are 512 KiB; then one of 1 MiB; 64 of those; then 16 of 8 MiB.
    let mut rig = Rig::new(&MeHptSpec::default(), 8 << 30);
    rig.map_slots(0..10, PageSize::SIZE_4K);
    assert_eq!((rig.way_bytes(0), rig.chunks(0, 0)), (vec![8192; 3], vec![(1, 8192), (0, 0)]));
    let mut slot = 10;
    let mut seen = Vec::new();
    while rig.way_bytes(0)[0] < 128 << 20 {
        rig.map_slots(slot..slot + 1, PageSize::SIZE_4K);
        slot += 1;
        let state = (rig.way_bytes(0)[0], rig.chunks(0, 0));
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    let steady = |bytes: u64, count: usize, chunk: u64| (bytes, vec![(count, chunk), (0, 0)]);
    assert!(seen.contains(&steady(256 << 10, 32, 8 << 10)), "{seen:?}");
    assert!(seen.contains(&steady(512 << 10, 64, 8 << 10)));
    assert!(seen.contains(&(1 << 20, vec![(64, 8 << 10), (1, 1 << 20)])), "the switch is out of place");
    assert!(seen.contains(&steady(1 << 20, 1, 1 << 20)));
    assert!(seen.contains(&steady(64 << 20, 64, 1 << 20)));
    assert!(seen.contains(&(128 << 20, vec![(64, 1 << 20), (16, 8 << 20)])));
    assert_eq!(rig.table.footprint().largest_contiguous, 8 << 20);
}

#[test]
fn table_ii_is_what_a_table_holds_before_its_chunks_change() {
    // By calculation: 64 chunks a way, three ways, 64-byte slots of eight pages.
    let mapped = |chunk: u64, page: u64| 64 * chunk * 3 / Cluster::BYTES * Cluster::PAGES * page;
    let published = [
        (8 << 10, 768 << 20, 384 << 30),
        (1 << 20, 96 << 30, 48 << 40),
        (8 << 20, 768 << 30, 384 << 40),
        (64 << 20, 6 << 40, 3 << 50_u64),
    ];
    for (chunk, small, large) in published {
        assert_eq!((mapped(chunk, 4096), mapped(chunk, 2 << 20)), (small, large));
    }
    // By filling one until it changes: what is mapped then is the threshold's share of that, up to the
    // imbalance of the ways.
    for size in [0, 1] {
        let mut rig = Rig::new(&MeHptSpec::default(), 2 << 30);
        let mut slot = 0;
        while rig.table.backing().counters().chunk_upsizes == 0 {
            rig.map_slots(slot..slot + 1, SIZES[size]);
            slot += 1;
        }
        assert!(rig.way_bytes(size).iter().all(|&bytes| bytes >= 512 << 10));
        let share = (slot * Cluster::PAGES * SIZES[size].bytes()) as f64 / mapped(8 << 10, SIZES[size].bytes()) as f64;
        assert!((0.5..0.62).contains(&share), "{share}");
    }
}

#[test]
fn subtables_grow_towards_each_other_and_steal() {
    // Fig. 6, with rows of 3 x 4 entries and chunks of 4 KiB. All rows are alike once all ways have grown.
    let mut spec = MeHptSpec { l2p_entries: 4, chunk_bytes: vec![4096, 1 << 20], ..MeHptSpec::default() };
    spec.cuckoo.initial_bytes = 4096;
    let mut rig = Rig::new(&spec, 1 << 30);
    let fill = |rig: &mut Rig, size: usize, bytes: u64| {
        let mut slot = rig.table.table(size).elastic.len();
        while !rig.table.table(size).elastic.exists() || rig.way_bytes(size)[0] < bytes {
            rig.map_slots(slot..slot + 1, SIZES[size]);
            slot += 1;
        }
    };
    fill(&mut rig, 0, 8192);
    fill(&mut rig, 1, 8192);
    assert_eq!(rig.layout(0), "44........22");
    // (b) The 4 KiB subtable takes all entries of the unused 1 GiB subtable.
    fill(&mut rig, 0, 32768);
    assert_eq!(rig.layout(0), "44444444..22");
    assert!(rig.table.backing().counters().steals >= 1);
    // (c) Then a 1 GiB page takes the most significant entry of the 2 MiB subtable.
    rig.map_slots(0..1, PageSize::SIZE_1G);
    assert_eq!(rig.layout(0), "444444441.22");
    // The 2 MiB subtable has three entries left: it changes its chunk size instead of growing to four.
    fill(&mut rig, 1, 16384);
    while rig.table.table(1).elastic.ways()[0].resize.is_some() {
        let slot = rig.table.table(1).elastic.len();
        rig.map_slots(slot..slot + 1, PageSize::SIZE_2M);
    }
    assert_eq!((rig.layout(0).as_str(), rig.chunks(1, 0)[0]), ("444444441..2", (1, 1 << 20)));

    // With a 1 GiB page first, nothing can be stolen.
    let mut rig = Rig::new(&spec, 1 << 30);
    rig.map_slots(0..1, PageSize::SIZE_1G);
    fill(&mut rig, 0, 16384);
    assert_eq!(rig.layout(0), "44441.......");
    fill(&mut rig, 0, 32768);
    assert_eq!(rig.chunks(0, 0)[1], (1, 1 << 20), "the chunk size changes at four entries");
    assert_eq!(rig.table.backing().counters().steals, 0);
    // And the 2 MiB subtable steals as the 4 KiB one does.
    let mut rig = Rig::new(&spec, 1 << 30);
    fill(&mut rig, 1, 32768);
    rig.map_slots(0..1, PageSize::SIZE_1G);
    assert_eq!(rig.layout(0), "...122222222");
}

#[test]
fn no_two_subtables_ever_share_an_entry() {
    let mut spec = MeHptSpec { l2p_entries: 4, chunk_bytes: vec![4096, 8192, 32768, 1 << 20], ..MeHptSpec::default() };
    spec.cuckoo.initial_bytes = 4096;
    let mut steals = 0;
    for seed in 0..20 {
        let mut rig = Rig::new(&spec, 1 << 30);
        let mut random = ambulator_base::Random::new(seed);
        let mut slots = [0; 3];
        let mut refused = 0;
        for round in 0..60 {
            // In half of the runs there is no page of 1 GiB at first.
            let size = random.below(if seed % 2 == 0 && round < 20 { 2 } else { 3 }) as usize;
            for _ in 0..random.below(600) {
                if rig.try_map(slots[size] * Cluster::PAGES, SIZES[size]).is_ok() {
                    slots[size] += 1;
                } else {
                    // The 1 GiB subtable has no entry left, or the new tables of resizes have the last ones
                    // of a row.
                    refused += 1;
                    let full = |row: &Row| row.in_use() == 12;
                    assert!(size == 2 || rig.table.backing().rows().iter().any(full), "{size} {slots:?}");
                }
                (0..3).for_each(|way| drop(rig.layout(way)));
            }
        }
        assert!(refused < 20_000);
        steals += rig.table.backing().counters().steals;
    }
    assert!(steals > 0);
}

#[test]
fn a_row_that_is_full_changes_its_chunks_at_once() {
    let mut spec = MeHptSpec { l2p_entries: 2, chunk_bytes: vec![4096, 1 << 20], ..MeHptSpec::default() };
    spec.cuckoo.initial_bytes = 4096;
    let mut rig = Rig::new(&spec, 1 << 30);
    let mut slot = 0;
    while rig.way_bytes(1).iter().any(|&bytes| bytes < 8192) || !rig.table.table(1).elastic.exists() {
        rig.map_slots(slot..slot + 1, PageSize::SIZE_2M);
        slot += 1;
    }
    let mut slot = 0;
    while rig.table.backing().counters().chunk_upsizes == 0 {
        rig.map_slots(slot..slot + 1, PageSize::SIZE_4K);
        slot += 1;
    }
    assert!(rig.table.backing().counters().switches_at_once > 0, "{:?}", rig.table.backing().counters());
    for number in 0..slot {
        let va = VirtAddr((number * Cluster::PAGES) << 12);
        assert!(PageTable::lookup(&rig.table, va, &rig.bed.memory).is_some());
    }
}

#[test]
fn a_way_that_shrinks_returns_to_small_chunks() {
    let mut rig = Rig::new(&MeHptSpec::default(), 1 << 30);
    rig.map_slots(0..30_000, PageSize::SIZE_4K);
    assert_eq!(rig.chunks(0, 0)[0], (1, 1 << 20));
    for number in 0..29_900 {
        rig.unmap(number);
    }
    // A resize advances only with insertions and removals.
    for _ in 0..30_000 {
        rig.map_slots(0..1, PageSize::SIZE_4K);
        rig.unmap(0);
    }
    assert_eq!(rig.chunks(0, 0)[0].1, 8192, "{:?}", rig.way_bytes(0));
    assert!(rig.table.backing().counters().chunk_downsizes > 0);
}

#[test]
fn a_context_switch_saves_the_entries_in_use() {
    let mut rig = Rig::new(&MeHptSpec::default(), 1 << 30);
    assert_eq!(PageTable::switch_cycles(&rig.table), 0);
    rig.map_slots(0..10, PageSize::SIZE_4K);
    assert_eq!(PageTable::switch_cycles(&rig.table), 3 * 2);
}

#[test]
fn each_technique_has_its_effect() {
    let run = |spec: &MeHptSpec| {
        let mut rig = Rig::new(spec, 1 << 30);
        let mut differed = false;
        for slot in 0..100_000 {
            rig.map_slots(slot..slot + 1, PageSize::SIZE_4K);
            let ways = rig.way_bytes(0);
            differed |= ways.iter().any(|&bytes| bytes != ways[0]);
        }
        let counters = rig.table.table(0).elastic.counters.clone();
        (rig.table.footprint(), differed, counters, rig.way_bytes(0)[0])
    };
    let all = MeHptSpec::default();
    let (full, differed, counters, _) = run(&all);
    assert_eq!((full.largest_contiguous, differed), (1 << 20, true));
    assert!(counters.upsize_stayed > 0);
    let (together, differed, ..) = run(&MeHptSpec { per_way: false, ..all.clone() });
    assert!(!differed && together.peak_bytes >= full.peak_bytes);
    let (copied, _, counters, _) = run(&MeHptSpec { in_place: false, per_way: false, ..all.clone() });
    assert!(counters.upsize_stayed == 0 && copied.peak_bytes > together.peak_bytes);
    let (fixed, ..) = run(&MeHptSpec { dynamic_chunks: false, fixed_chunk_bytes: 2 << 20, ..all.clone() });
    assert_eq!(fixed.largest_contiguous, 2 << 20);
    let ecpt = MeHptSpec { l2p: false, in_place: false, per_way: false, ..all };
    let (blocks, _, _, way) = run(&ecpt);
    assert_eq!(blocks.largest_contiguous, way);
}

#[test]
fn the_last_way_of_three_is_half_as_large_for_a_time() {
    // 2.3 times the slots of a way of 2 MiB: two ways have doubled, as those of most programs of Fig. 12.
    let ways = |one_way_at_a_time| {
        let mut rig = Rig::new(&MeHptSpec { one_way_at_a_time, ..MeHptSpec::default() }, 1 << 30);
        rig.map_slots(0..75_000, PageSize::SIZE_4K);
        let mut bytes = rig.way_bytes(0);
        bytes.sort_unstable();
        bytes
    };
    assert_eq!(ways(true), [2 << 20, 4 << 20, 4 << 20]);
    assert_eq!(ways(false), [4 << 20; 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn conforms(
        seed in any::<u64>(),
        techniques in 0u8..32,
        l2p_entries in prop_oneof![Just(2u32), Just(8), Just(32)],
        initial_bytes in prop_oneof![Just(4096u64), Just(8192)],
    ) {
        let mut me_hpt = MeHptSpec {
            l2p: techniques & 1 != 0,
            in_place: techniques & 3 == 3,
            dynamic_chunks: techniques & 4 != 0,
            per_way: techniques & 8 != 0,
            one_way_at_a_time: techniques & 16 != 0,
            // Small chunks and few entries: stealing and changes of chunk size come early.
            chunk_bytes: vec![4096, 16384, 65536, 1 << 20],
            fixed_chunk_bytes: 16384,
            l2p_entries,
            ..MeHptSpec::default()
        };
        me_hpt.cuckoo.initial_bytes = initial_bytes;
        let mut choice = crate::catalogue().choice("me-hpt");
        choice.settings.put("me_hpt", &me_hpt);
        prop_assert_eq!(crate::catalogue().validate("design", &choice), vec![]);
        let options = Options { seed, ops: 800, resizes_on_failure: true, ..Options::default() };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}

#[test]
fn millions_of_operations_lose_no_entry() {
    for (seed, l2p_entries) in [(1, 32), (2, 4)] {
        let mut spec = MeHptSpec { l2p_entries, ..MeHptSpec::default() };
        if l2p_entries == 4 {
            spec.chunk_bytes = vec![8 << 10, 64 << 10, 1 << 20, 8 << 20];
        }
        let mut bed = TestBed::new(4 << 30).unwrap();
        let table = table(&spec, &mut bed.os()).unwrap();
        let walker = CuckooWalker::new(&spec.cuckoo, spec.l2p_latency);
        let table = crate::ecpt::tests::waves(table, walker, bed, seed, 1_200_000);
        let (counters, l2p) = (&table.table(0).elastic.counters, table.backing().counters());
        assert!(counters.upsizes[0] > 8 && counters.downsizes.iter().sum::<u64>() > 4, "{counters:?}");
        assert!(l2p.chunk_upsizes > 2 && l2p.chunk_downsizes > 0, "{l2p:?}");
    }
}

#[test]
fn each_error_of_a_spec_is_reported() {
    let spec = MeHptSpec {
        l2p: false,
        chunk_bytes: vec![8192, 4096, 5000],
        fixed_chunk_bytes: 5000,
        l2p_entries: 33,
        ..MeHptSpec::default()
    };
    let wrong = spec.invalid("t");
    for key in ["`t.in_place`", "`t.chunk_bytes[2]`", "`t.chunk_bytes` is", "`t.fixed_chunk_bytes`", "`t.l2p_entries`"]
    {
        assert!(wrong.iter().any(|error| error.to_string().contains(key)), "{key}: {wrong:?}");
    }
    let listed = MeHptSpec { chunk_bytes: vec![8192, 1], ..MeHptSpec::default() }.invalid("t");
    assert_eq!(listed[0].to_string(), "`t.chunk_bytes[1]` is 1; it must be from 4KiB to 1GiB");
    assert_eq!(MeHptSpec::default().invalid("t"), vec![]);
}
