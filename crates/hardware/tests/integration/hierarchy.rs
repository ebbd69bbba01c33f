//! The hierarchy: micro-programs with a known answer, and a comparison with a naive model.

use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};
use ambulator_hardware::{
    Access, CacheSpec, DramModel, DramSpec, EntryLevel, Hierarchy, HierarchySpec, PrefetcherKind, Replacement, Served,
};
use proptest::prelude::*;

pub(crate) const PC: VirtAddr = VirtAddr(0x40_0000);
/// Fixed DRAM: 50 ns = 100 cycles, so a cold load takes 156.
const DRAM: u64 = 100;
const COLD: u64 = 56 + DRAM;

pub(crate) fn spec() -> HierarchySpec {
    HierarchySpec {
        dram: DramSpec { model: DramModel::Fixed, fixed_ns: 50.0, ..DramSpec::default() },
        ..HierarchySpec::default()
    }
}

pub(crate) fn build(spec: &HierarchySpec) -> Hierarchy {
    assert_eq!(spec.validate(), vec![]);
    Hierarchy::new(spec, 1, 2000, 1 << 36, true)
}

pub(crate) fn load(h: &mut Hierarchy, at: u64, now: u64) -> Access {
    h.access(0, PhysAddr(at), AccessKind::Load, PC, Cycle(now))
}

/// Latency of a load and the level that served it.
fn timed(h: &mut Hierarchy, at: u64, now: u64) -> (u64, Served) {
    let access = load(h, at, now);
    (access.ready.since(Cycle(now)), access.served)
}

#[test]
fn each_level_responds_after_its_round_trip() {
    let mut h = build(&spec());
    assert_eq!(timed(&mut h, 0, 1000), (COLD, Served::Dram));
    assert_eq!(timed(&mut h, 8, 2000), (1, Served::L1));
    // Eight more lines of the same L1 set (4 KiB apart) evict it from L1 (8 ways), not from L2.
    (1..=8).for_each(|i| {
        load(&mut h, i * 4096, 3000 * i);
    });
    assert_eq!(timed(&mut h, 0, 100_000), (20, Served::L2));
    // Eight more of the same L2 set (128 KiB apart) evict it from L2 as well; the LLC has 16 ways.
    (1..=8).for_each(|i| {
        load(&mut h, i << 17, 200_000 + 1000 * i);
    });
    assert_eq!(timed(&mut h, 0, 300_000), (56, Served::Llc));
    let counters = h.counters();
    assert_eq!((counters.l1d.demand_hits, counters.l1d.demand_misses), (1, 19));
    assert_eq!(counters.dram.data_reads, 17);
}

#[test]
fn instructions_have_their_own_first_level() {
    let mut h = build(&spec());
    h.access(0, PhysAddr(0), AccessKind::Fetch, PC, Cycle(0));
    assert_eq!(timed(&mut h, 0, 1000), (20, Served::L2));
    let fetch = h.access(0, PhysAddr(0), AccessKind::Fetch, PC, Cycle(2000));
    assert_eq!((fetch.ready, fetch.served), (Cycle(2001), Served::L1));
}

#[test]
fn associativity_determines_conflict_misses() {
    for (ways, hits) in [(1, 0), (2, 0), (4, 36), (8, 36)] {
        let mut small = spec();
        small.l1d = CacheSpec { bytes: 64 * u64::from(ways) * 4, ways, ..small.l1d };
        let mut h = build(&small);
        // Four lines of one set (4 sets, 256 bytes), ten rounds.
        for round in 0..10 {
            (0..4).for_each(|i| {
                load(&mut h, i * 256, 1000 * (4 * round + i));
            });
        }
        assert_eq!(h.counters().l1d.demand_hits, hits, "{ways} ways");
    }
}

#[test]
fn a_hit_on_a_line_in_flight_waits_for_the_remainder_only() {
    let mut h = build(&spec());
    load(&mut h, 0, 1000);
    assert_eq!(timed(&mut h, 8, 1050), (COLD - 50, Served::L1));
    assert_eq!(timed(&mut h, 16, 1000 + COLD - 1), (1, Served::L1));
    assert_eq!(timed(&mut h, 16, 1000 + COLD + 5), (1, Served::L1));
    let counters = h.counters();
    assert_eq!((counters.l1d.merges, counters.l1d.merge_cycles), (1, COLD - 51));
    assert_eq!(counters.dram.data_reads, 1, "one miss, one read");
}

#[test]
fn the_access_that_is_first_in_time_fetches_whatever_the_program_order() {
    let mut h = build(&spec());
    load(&mut h, 0, 10_000);
    assert_eq!(timed(&mut h, 8, 1000), (COLD, Served::L1), "it does not wait for cycle 10,156");
    assert_eq!(timed(&mut h, 16, 10_000), (1, Served::L1), "and from then on the line is there");
}

#[test]
fn misses_beyond_the_mshrs_wait() {
    for (mshrs, rounds) in [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1)] {
        let mut narrow = spec();
        narrow.l1d.mshrs = mshrs;
        let mut h = build(&narrow);
        let last = (0..8).map(|i| load(&mut h, i * 64, 0).ready.0).max().unwrap_or(0);
        // Waits are accurate to 4 cycles.
        let expected = rounds * COLD;
        assert!(last.abs_diff(expected) < 4 * rounds, "{mshrs} MSHRs: {last} cycles, expected about {expected}");
        assert_eq!(h.counters().l1d.mshr_stalls, 8 - u64::from(mshrs.min(8)));
    }
}

#[test]
fn each_level_holds_its_mshrs_from_the_arrival_of_a_request_there() {
    // A request is with L2 after the round trip of L1, and with the LLC after that of L2.
    for (level, reach) in [(0, 16), (1, 20)] {
        let mut narrow = spec();
        narrow.l1d.latency = 16;
        if level == 0 {
            narrow.l2.mshrs = 2
        } else {
            narrow.llc.mshrs = 2
        }
        let mut h = build(&narrow);
        let last = (0..8).map(|i| load(&mut h, i * 64, 0).ready.0).max().unwrap_or(0);
        let expected = 3 * (COLD - reach) + COLD;
        assert!(last.abs_diff(expected) < 16, "{last} cycles, expected about {expected}");
        let counters = h.counters();
        assert_eq!((counters.l2.mshr_stalls, counters.llc.mshr_stalls), if level == 0 { (6, 0) } else { (0, 6) });
    }
}

#[test]
fn mshrs_taken_later_do_not_delay_an_access_now() {
    let mut narrow = spec();
    narrow.l1d.mshrs = 1;
    let mut h = build(&narrow);
    load(&mut h, 0, 10_000);
    assert_eq!(timed(&mut h, 64, 1000), (COLD, Served::Dram));
    assert!(timed(&mut h, 128, 10_000).0 > COLD);
}

/// One set per level: L1 of 1 line, L2 of 2, LLC of 4.
pub(crate) fn tiny() -> HierarchySpec {
    let cache = |ways: u32, latency| CacheSpec::of(64 * u64::from(ways), ways, latency, 8);
    HierarchySpec { l1i: cache(1, 1), l1d: cache(1, 1), l2: cache(2, 20), llc: cache(4, 56), ..spec() }
}

#[test]
fn dirty_lines_are_written_back_level_by_level_and_clean_lines_are_not() {
    let mut h = build(&tiny());
    let mut now = 0;
    let mut access = |h: &mut Hierarchy, line: u64, kind| {
        now += 1000;
        h.access(0, PhysAddr(line * 64), kind, PC, Cycle(now));
    };
    access(&mut h, 0, AccessKind::Store);
    access(&mut h, 1, AccessKind::Load); // L1 evicts 0 to L2
    let written = |h: &Hierarchy| {
        let c = h.counters();
        [c.l1d.writebacks, c.l2.writebacks, c.llc.writebacks, c.dram.data_writes]
    };
    assert_eq!(written(&h), [1, 0, 0, 0]);
    access(&mut h, 2, AccessKind::Load); // L2 evicts 0 to the LLC
    assert_eq!(written(&h), [1, 1, 0, 0]);
    access(&mut h, 3, AccessKind::Load);
    assert_eq!(written(&h), [1, 1, 0, 0]);
    access(&mut h, 4, AccessKind::Load); // the LLC evicts 0 to DRAM
    assert_eq!(written(&h), [1, 1, 1, 1]);
    (5..20).for_each(|line| access(&mut h, line, AccessKind::Load));
    assert_eq!(written(&h), [1, 1, 1, 1]);
}

#[test]
fn walkers_enter_at_the_given_level() {
    for (entry, served, latency) in
        [(EntryLevel::L1, Served::L1, 1), (EntryLevel::L2, Served::L2, 20), (EntryLevel::Llc, Served::Llc, 56)]
    {
        let mut h = build(&spec());
        let first = h.access_table(0, PhysAddr(4096), false, entry, Cycle(0));
        assert_eq!((first.ready.0, first.served), (COLD, Served::Dram));
        let second = h.access_table(0, PhysAddr(4096), false, entry, Cycle(1000));
        assert_eq!((second.ready.0, second.served), (1000 + latency, served));
        let counters = h.counters();
        assert_eq!(counters.dram.table_reads, 1);
        assert_eq!(counters.l1d.table_hits + counters.l2.table_hits + counters.llc.table_hits, 1);
        assert_eq!(counters.llc.demand_misses, 0);
    }
}

#[test]
fn the_share_of_translation_lines_is_tracked() {
    let mut h = build(&tiny());
    assert_eq!(h.translation_share(), (0.0, 0.0));
    h.access_table(0, PhysAddr(0), false, EntryLevel::L2, Cycle(0));
    assert_eq!(h.translation_share(), (1.0, 1.0));
    load(&mut h, 64, 1000);
    assert_eq!(h.translation_share(), (0.5, 0.5));
    load(&mut h, 128, 2000);
    assert_eq!(h.translation_share(), (0.0, 1.0 / 3.0));
    h.access_table(0, PhysAddr(64), true, EntryLevel::L2, Cycle(3000));
    assert_eq!(h.translation_share(), (0.5, 1.0 / 3.0), "a data line holds translations where a walker reads it");
    h.invalidate(PhysAddr(0), 128);
    assert_eq!(h.translation_share(), (0.0, 0.0));
    assert_eq!(h.counters().dram.table_writes, 0);
}

#[test]
fn table_lines_that_walkers_write_are_written_back_as_table_lines() {
    let mut h = build(&tiny());
    h.access_table(0, PhysAddr(0), true, EntryLevel::L2, Cycle(0));
    (1..10).for_each(|line| {
        load(&mut h, line * 64, line * 1000);
    });
    let dram = h.counters().dram;
    assert_eq!((dram.table_writes, dram.data_writes), (1, 0));
}

#[test]
fn a_speculative_fetch_has_its_own_counters_and_is_useful_or_not() {
    let mut h = build(&spec());
    let fetch = h.fetch(0, PhysAddr(0), false, Cycle(0));
    assert_eq!((fetch.ready.0, fetch.served), (COLD, Served::Dram));
    assert_eq!(timed(&mut h, 0, 100), (COLD - 100, Served::L2), "the demand access waits for the line in flight");
    let counters = h.counters();
    assert_eq!((counters.l2.speculative_misses, counters.l2.speculations_useful), (1, 1));
    assert_eq!((counters.l2.demand_hits, counters.l2.demand_misses), (1, 0));
    h.fetch(0, PhysAddr(1 << 20), true, Cycle(1000));
    assert!(h.translation_share().0 > 0.4);
    (1..=8).for_each(|i| {
        load(&mut h, (1 << 20) + (i << 17), 2000 * i);
    });
    assert_eq!(h.counters().l2.speculations_useless, 1);
}

#[test]
fn a_stream_prefetcher_runs_ahead_of_a_stream() {
    let run = |kind| {
        let mut with = spec();
        with.l2.prefetcher = kind;
        let mut h = build(&with);
        let mut now = 0;
        for line in 0..64 * 64 {
            now = load(&mut h, line * 64, now).ready.0 + 50;
        }
        (now, h.counters())
    };
    let (without, _) = run(PrefetcherKind::None);
    let (with, counters) = run(PrefetcherKind::Stream);
    assert!(with * 10 < without * 7, "{with} cycles against {without}");
    let l2 = &counters.l2;
    // Three lines of each of the 64 pages train it, the rest is covered; none leaves its page.
    assert_eq!(l2.prefetches, 64 * 61);
    assert_eq!(l2.prefetches_useful, 64 * 61);
    assert_eq!(l2.demand_misses, 64 * 3);
    assert_eq!(l2.prefetches_late, 0, "each has 50 cycles and a miss's latency of time");
    assert_eq!(counters.dram.data_reads, 64 * 64, "no line is read twice");
}

#[test]
fn a_late_prefetch_counts_as_useful_and_late() {
    let mut with = spec();
    with.l2.prefetcher = PrefetcherKind::Stream;
    let mut h = build(&with);
    (0..64).for_each(|line| {
        load(&mut h, line * 64, line * 10);
    });
    let l2 = h.counters().l2;
    assert_eq!((l2.prefetches_useful, l2.prefetches_late), (61, 61));
    assert!(l2.merge_cycles > 0 && l2.merge_cycles < 61 * COLD, "{l2:?}");
}

#[test]
fn an_ip_stride_prefetcher_fills_the_first_level() {
    let mut with = spec();
    with.l1d.prefetcher = PrefetcherKind::IpStride;
    with.l1d.prefetch_degree = 1;
    let mut h = build(&with);
    let mut now = 0;
    for i in 0..1000 {
        now = load(&mut h, i * 128, now).ready.0 + 30;
    }
    let l1d = h.counters().l1d;
    assert!(l1d.prefetches_useful > 600, "{l1d:?}");
    assert_eq!(l1d.demand_hits, l1d.prefetches_useful);
}

#[test]
fn prefetches_do_not_wait_for_mshrs() {
    let mut with = spec();
    with.l2.prefetcher = PrefetcherKind::Stream;
    with.l2.mshrs = 1;
    let mut h = build(&with);
    (0..64).for_each(|line| {
        load(&mut h, line * 64, line);
    });
    let l2 = h.counters().l2;
    assert!(l2.prefetches_dropped > 10 && l2.prefetches < 10, "{l2:?}");
}

#[test]
fn cores_share_only_the_last_level() {
    let mut h = Hierarchy::new(&spec(), 2, 2000, 1 << 36, true);
    h.access(0, PhysAddr(0), AccessKind::Load, PC, Cycle(0));
    let other = h.access(1, PhysAddr(0), AccessKind::Load, PC, Cycle(1000));
    assert_eq!((other.ready, other.served), (Cycle(1056), Served::Llc));
}

#[test]
fn any_number_of_cores_shares_a_cache_of_proportional_size() {
    for cores in [1usize, 3, 5, 6, 7, 16] {
        let mut h = Hierarchy::new(&spec(), cores, 2000, 1 << 36, true);
        // As many adjacent lines as the LLC holds, then all again: none was evicted.
        let lines = cores as u64 * (2 << 20) / 64;
        for round in 0..2 {
            for line in 0..lines {
                let at = PhysAddr(line * 64);
                h.access(0, at, AccessKind::Load, PC, Cycle((round * lines + line) * 300));
            }
        }
        assert_eq!(h.counters().dram.data_reads, lines, "{cores} cores");
        h.access(0, PhysAddr(lines * 64), AccessKind::Load, PC, Cycle(1 << 40));
        assert_eq!(h.counters().llc.evictions, 1);
    }
}

#[test]
fn dirty_victims_are_the_lines_that_were_written() {
    let mut small = spec();
    small.llc = CacheSpec { bytes: 64 * 64, ways: 1, ..small.llc };
    small.l1d = CacheSpec { bytes: 64, ways: 1, ..small.l1d };
    small.l2 = CacheSpec { bytes: 64, ways: 1, ..small.l2 };
    let mut h = Hierarchy::new(&small, 3, 2000, 1 << 36, true);
    // 192 sets: a line written, and read back after its eviction, is read from DRAM; the adjacent line is
    // not.
    h.access(0, PhysAddr(5 * 64), AccessKind::Store, PC, Cycle(0));
    h.access(0, PhysAddr(6 * 64), AccessKind::Load, PC, Cycle(1000));
    // The first line of the same set evicts the written one from L2 to the LLC, the second one from the LLC.
    h.access(0, PhysAddr((192 + 5) * 64), AccessKind::Load, PC, Cycle(2000));
    assert_eq!(h.counters().dram.data_writes, 0);
    h.access(0, PhysAddr((2 * 192 + 5) * 64), AccessKind::Load, PC, Cycle(2500));
    assert_eq!(h.counters().dram.data_writes, 1);
    assert_eq!(timed(&mut h, 5 * 64, 3000).1, Served::Dram);
    assert_eq!(timed(&mut h, 6 * 64, 4000).1, Served::Llc);
}

#[test]
fn the_report_names_every_level_and_two_runs_are_the_same() {
    #[derive(Default, PartialEq, Debug)]
    struct Sink(Vec<(String, u64)>);
    impl ambulator_base::CounterSink for Sink {
        fn counter(&mut self, prefix: &str, def: &'static ambulator_base::CounterDef, value: u64) {
            self.0.push((format!("{prefix}.{}", def.name), value));
        }
    }
    let run = || {
        let mut all = HierarchySpec::default();
        all.l1d.prefetcher = PrefetcherKind::IpStride;
        all.l2.prefetcher = PrefetcherKind::Stream;
        all.llc.replacement = Replacement::Random;
        let mut h = Hierarchy::new(&all, 2, 3300, 1 << 36, true);
        let mut random = ambulator_base::Random::new(3);
        let mut now = [0u64; 2];
        for i in 0..60_000u64 {
            let core = random.below(2) as usize;
            let at = PhysAddr(if i % 3 == 0 { i * 8 } else { random.below(1 << 32) });
            let kind = if i % 5 == 0 { AccessKind::Store } else { AccessKind::Load };
            let ready = match i % 7 {
                0 => h.access_table(core, at, false, EntryLevel::L2, Cycle(now[core])).ready,
                1 => h.fetch(core, at, i % 2 == 0, Cycle(now[core])).ready,
                _ => h.access(core, at, kind, VirtAddr(i % 3), Cycle(now[core])).ready,
            };
            now[core] += ready.since(Cycle(now[core])) / 8 + 1;
        }
        let mut sink = Sink::default();
        h.drain_writes();
        h.report("memory", &mut sink);
        (now, sink)
    };
    let (now, sink) = run();
    for name in [
        "memory.l1i.demand_hits",
        "memory.l1d.merges",
        "memory.l2.prefetches_useful",
        "memory.dram.table_row_conflicts",
    ] {
        assert!(sink.0.iter().any(|(n, _)| n == name), "{name} is not reported");
    }
    let value = |name: &str| sink.0.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
    let reads = value("memory.dram.data_reads") + value("memory.dram.table_reads");
    let writes = value("memory.dram.data_writes") + value("memory.dram.table_writes");
    let rows: u64 = ["data", "table"]
        .iter()
        .flat_map(|class| ["hits", "misses", "conflicts"].map(|what| value(&format!("memory.dram.{class}_row_{what}"))))
        .sum();
    let queued = value("memory.dram.reads_forwarded") + value("memory.dram.writes_merged");
    assert_eq!(rows + queued, reads + writes, "each access is a row hit, a miss, a conflict, or served by a queue");
    assert_eq!(
        reads,
        ["demand", "table", "speculative", "prefetch"]
            .iter()
            .map(|c| value(&format!("memory.llc.{c}_misses")))
            .sum::<u64>()
    );
    assert_eq!(run(), (now, sink));
}

/// The naive model of one level: sets of lines, most recent first, with a dirty mark.
#[derive(Clone)]
struct Level {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
}

impl Level {
    fn new(spec: &CacheSpec) -> Level {
        let sets = spec.bytes / 64 / u64::from(spec.ways);
        Level { sets: vec![Vec::new(); sets as usize], ways: spec.ways as usize }
    }

    fn set(&mut self, line: u64) -> &mut Vec<(u64, bool)> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn hit(&mut self, line: u64, dirty: bool) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|e| e.0 == line) else { return false };
        let entry = set.remove(at);
        set.insert(0, (line, entry.1 | dirty));
        true
    }

    fn fill(&mut self, line: u64, dirty: bool) -> Option<u64> {
        let ways = self.ways;
        let set = self.set(line);
        set.insert(0, (line, dirty));
        if set.len() <= ways { None } else { set.pop().filter(|e| e.1).map(|e| e.0) }
    }

    /// A write-back from above: marks, or fills; returns the evicted dirty line.
    fn write_back(&mut self, line: u64) -> Option<u64> {
        if let Some(entry) = self.set(line).iter_mut().find(|e| e.0 == line) {
            entry.1 = true;
            return None;
        }
        self.fill(line, true)
    }
}

struct Naive {
    levels: [Level; 3],
    dram_writes: u64,
}

impl Naive {
    fn write_back(&mut self, below: usize, line: Option<u64>) {
        let Some(line) = line else { return };
        if below == 3 {
            self.dram_writes += 1;
            return;
        }
        let next = self.levels[below].write_back(line);
        self.write_back(below + 1, next);
    }

    /// Returns the level that served the access.
    fn access(&mut self, level: usize, line: u64, dirty: bool) -> usize {
        if level == 3 || self.levels[level].hit(line, dirty) {
            return level;
        }
        let served = self.access(level + 1, line, false);
        let victim = self.levels[level].fill(line, dirty);
        self.write_back(level + 1, victim);
        served
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lru_caches_match_the_naive_model(
        ways in (1u32..10, 1u32..18, 1u32..33),
        sets in (0u32..3, 0u32..4, 0u32..4),
        steps in prop::collection::vec((0u64..300, any::<bool>(), 0u8..10), 1..1500),
    ) {
        let cache = |ways: u32, sets: u32, latency| CacheSpec::of((64 * u64::from(ways)) << sets, ways, latency, 8);
        let spec = HierarchySpec {
            l1d: cache(ways.0, sets.0, 1),
            l2: cache(ways.1, sets.1, 20),
            llc: cache(ways.2, sets.2, 56),
            ..spec()
        };
        let mut timing = Hierarchy::new(&spec, 1, 2000, 1 << 36, true);
        let mut functional = Hierarchy::new(&spec, 1, 2000, 1 << 36, false);
        let levels = [Level::new(&spec.l1d), Level::new(&spec.l2), Level::new(&spec.llc)];
        let mut naive = Naive { levels, dram_writes: 0 };
        let mut now = 0;
        for (line, write, who) in steps {
            now += 7;
            let expected = naive.access(usize::from(who == 0), line, write);
            for (h, now) in [(&mut timing, now), (&mut functional, 0)] {
                let at = PhysAddr(line * 64);
                let found = if who == 0 {
                    h.access_table(0, at, write, EntryLevel::L2, Cycle(now))
                } else {
                    let kind = if write { AccessKind::Store } else { AccessKind::Load };
                    h.access(0, at, kind, PC, Cycle(now))
                };
                prop_assert_eq!(found.served as usize, expected);
            }
        }
        for h in [&timing, &functional] {
            let dram = h.counters().dram;
            prop_assert_eq!(dram.data_writes + dram.table_writes, naive.dram_writes);
        }
    }

    #[test]
    fn functional_mode_counts_what_timing_counts(
        policy in prop::sample::select(vec![Replacement::TreePlru, Replacement::Srrip, Replacement::Drrip, Replacement::Random]),
        steps in prop::collection::vec((0u64..2000, any::<bool>()), 1..2000),
    ) {
        let mut spec = tiny();
        for cache in [&mut spec.l1d, &mut spec.l2, &mut spec.llc] {
            *cache = CacheSpec { bytes: cache.bytes * 32, replacement: policy, ..cache.clone() };
        }
        let mut timing = Hierarchy::new(&spec, 1, 2000, 1 << 36, true);
        let mut functional = Hierarchy::new(&spec, 1, 2000, 1 << 36, false);
        for (i, (line, write)) in steps.into_iter().enumerate() {
            let kind = if write { AccessKind::Store } else { AccessKind::Load };
            timing.access(0, PhysAddr(line * 64), kind, PC, Cycle(3 * i as u64));
            functional.access(0, PhysAddr(line * 64), kind, PC, Cycle(0));
        }
        let (a, b) = (timing.counters(), functional.counters());
        for (a, b) in [(&a.l1d, &b.l1d), (&a.l2, &b.l2), (&a.llc, &b.llc)] {
            prop_assert_eq!(
                (a.demand_hits, a.demand_misses, a.evictions, a.writebacks),
                (b.demand_hits, b.demand_misses, b.evictions, b.writebacks)
            );
        }
        prop_assert_eq!((a.dram.data_reads, a.dram.data_writes), (b.dram.data_reads, b.dram.data_writes));
    }
}
