//! Lines on their way between the caches and main memory, which may come and go later than was said.

use crate::hierarchy::{PC, build, load, spec, tiny};
use ambulator_base::{AccessKind, Cycle, PhysAddr};
use ambulator_hardware::{AddressMapping, CacheSpec, DramEvent, DramSpec, EntryLevel, Hierarchy, HierarchySpec};

/// When the last of these requests to one bank, each for another row, has its line: `reads` loads at cycle 0,
/// and then what `last` asks for.
fn behind_queued_reads(reads: u64, last: impl Fn(&mut Hierarchy, PhysAddr) -> u64) -> u64 {
    let mut banked = HierarchySpec::default();
    banked.dram.t_refi_ns = 0.0;
    banked.dram.mapping = AddressMapping::RoBaRaCoCh;
    let mut h = build(&banked);
    // Farther apart than all banks of all channels: the same bank.
    let row = |i: u64| PhysAddr(i << 24);
    for i in 0..reads {
        load(&mut h, row(i).0, 0);
    }
    last(&mut h, row(reads))
}

#[test]
fn walks_and_speculative_fetches_wait_behind_queued_data_reads() {
    let data = |h: &mut Hierarchy, at: PhysAddr| load(h, at.0, 0).ready.0;
    let (idle, queued) = (behind_queued_reads(0, data), behind_queued_reads(8, data));
    // A row is open for 52 DRAM clocks of 0.625 ns, and closes in 22: 92.5 cycles.
    assert!((740..752).contains(&(queued - idle)), "{idle} alone, {queued} behind eight reads");
    for entry in [EntryLevel::L1, EntryLevel::L2, EntryLevel::Llc] {
        let walk = |h: &mut Hierarchy, at| h.access_table(0, at, false, entry, Cycle(0)).ready.0;
        assert_eq!((behind_queued_reads(0, walk), behind_queued_reads(8, walk)), (idle, queued), "{entry:?}");
    }
    for is_table in [false, true] {
        let fetch = |h: &mut Hierarchy, at| h.fetch(0, at, is_table, Cycle(0)).ready.0;
        assert_eq!((behind_queued_reads(0, fetch), behind_queued_reads(8, fetch)), (idle, queued));
        // The line of a guess is there when a load that comes a cycle later gets it.
        let guess = |h: &mut Hierarchy, at: PhysAddr| {
            h.guess(0, at, is_table, Cycle(0));
            load(h, at.0, 1).ready.0
        };
        assert_eq!((behind_queued_reads(0, guess), behind_queued_reads(8, guess)), (idle, queued));
    }
    // So does the line of a copy, which asks main memory when the loads do: a load behind it waits for one row
    // more.
    let copy = |h: &mut Hierarchy, at: PhysAddr| {
        h.copy(at, PhysAddr(at.0 + (1 << 30) + 64), 64, Cycle(56));
        load(h, at.0 + (1 << 24), 0).ready.0
    };
    let found = behind_queued_reads(8, copy);
    assert!((92..=93).contains(&(found - queued)), "{found} behind eight reads and a copy, {queued} without it");
}

#[test]
fn a_line_that_is_asked_for_ahead_is_read_only_when_it_is_sent_also_if_a_dirty_line_leaves_for_it() {
    let mut h = build(&HierarchySpec { dram: DramSpec { t_refi_ns: 0.0, ..DramSpec::default() }, ..tiny() });
    let line = |number: u64| PhysAddr(number << 24);
    // The LLC's four lines; the least recently used is dirty, and above it are others.
    h.access(0, line(1), AccessKind::Store, PC, Cycle(0));
    (2..5).for_each(|number| _ = load(&mut h, line(number).0, number * 1000));
    let table = line(5);
    h.ask_ahead(true);
    let told = h.access_table(0, table, false, EntryLevel::Llc, Cycle(10_000)).ready;
    h.ask_ahead(false);
    h.keep_dram_log(true);
    // Long after it was to be there, others ask; the dirty line has not left.
    (6..12).for_each(|number| _ = load(&mut h, line(number).0, 5000 + number * 1000));
    let mut log = Vec::new();
    let mut sent = |h: &mut Hierarchy, sought: PhysAddr| {
        h.take_dram_log(true, &mut log);
        let of_line = |event: &&DramEvent| matches!(event, DramEvent::Access(access) if access.line == sought.line());
        log.iter().filter(of_line).count()
    };
    assert_eq!((sent(&mut h, table), sent(&mut h, line(1))), (0, 0));
    // It is sent 20,000 cycles later than was said. The row that it needs is as it was then, or another one is open.
    h.send_ahead(table, 20_000);
    let arrives = h.arrival(0, table, true, told);
    assert!((20_000..20_100).contains(&arrives.since(told)), "{arrives:?} after {told:?}");
    load(&mut h, line(12).0, arrives.0 + 1000);
    h.drain_writes();
    assert_eq!((sent(&mut h, table), sent(&mut h, line(1))), (1, 1));
}

#[test]
fn what_is_zeroed_without_time_is_written_before_time_goes_on() {
    let mut h = build(&HierarchySpec::default());
    h.set_timed(false, Cycle(0));
    // A thousand pages of 2 MiB, of which each takes longer than there is time.
    (0..1000).for_each(|page| h.zero(0, PhysAddr(page << 21), 2 << 20, Cycle(1000), 262_144));
    h.set_timed(true, Cycle(2000));
    assert_eq!(h.counters().zeroing.lines, 1000 << 15);
    load(&mut h, 1 << 35, 1_000_000);
    assert_eq!((h.counters().zeroing.lines, h.counters().dram.data_writes), (1000 << 15, 1000 << 15));
}

#[test]
fn zeroed_lines_are_written_when_they_are_due_and_the_rest_at_the_end() {
    let mut h = build(&spec());
    h.zero(0, PhysAddr(1 << 20), 4096, Cycle(1000), 640);
    let written = |h: &Hierarchy| (h.counters().zeroing.lines, h.counters().dram.data_writes);
    assert_eq!(written(&h), (0, 0));
    // A load that misses asks main memory 56 cycles later; a line is due every 10 cycles from cycle 1000 on.
    for (now, lines) in [(0, 0), (1100 - 56, 11), (1299 - 56, 30)] {
        load(&mut h, now * 64, now);
        assert_eq!(written(&h), (lines, lines), "at {now}");
    }
    h.drain_writes();
    assert_eq!(written(&h), (64, 64));
}

#[test]
fn lines_that_nobody_waits_for_hold_their_mshrs_until_they_are_there() {
    // One core fetches lines ahead, the other makes main memory serve them later than it said.
    let mshrs = 4;
    let spec = HierarchySpec {
        dram: DramSpec { channels: 1, ..DramSpec::default() },
        l2: CacheSpec::of(256 << 10, 8, 20, mshrs),
        ..HierarchySpec::default()
    };
    let mut h = Hierarchy::new(&spec, 2, 2000, 1 << 30, true);
    h.keep_dram_log(true);
    let mut random = ambulator_base::Random::new(3);
    let mut fetched = std::collections::BTreeMap::new();
    // The other core's loads: each follows when the one before is there.
    let mut loads: Vec<u64> = (0..mshrs.into()).collect();
    let mut dropped = 0;
    for _ in 0..6000 {
        let next = (0..loads.len()).min_by_key(|load| loads[*load]).unwrap_or(0);
        let now = loads[next];
        let at = PhysAddr((1 << 29) + random.below(1 << 22) * 64);
        loads[next] = h.access(1, at, AccessKind::Load, PC, Cycle(now)).ready.0;
        let line = random.below(1 << 22);
        h.guess(0, PhysAddr(line * 64), false, Cycle(now));
        let drops = h.counters().l2.speculations_dropped;
        if drops == dropped {
            fetched.entry(line).or_insert(now);
        }
        dropped = drops;
    }
    let mut log = Vec::new();
    h.take_dram_log(true, &mut log);
    let there = |event: &DramEvent| match event {
        DramEvent::Access(access) => Some((*fetched.get(&access.line)?, access.data.1 / 64)),
        DramEvent::Unused { .. } | DramEvent::Refresh { .. } => None,
    };
    let flights: Vec<(u64, u64)> = log.iter().filter_map(there).collect();
    let at_once = |at: u64| flights.iter().filter(|(from, until)| *from <= at && at < *until).count();
    let over = flights.iter().filter(|(from, _)| at_once(*from) > mshrs as usize).count();
    assert!(flights.len() > 500 && dropped > 1000, "{} lines, {dropped} dropped", flights.len());
    assert!(
        over * 100 < flights.len(),
        "at {over} of {} fetches ({dropped} dropped) more lines are under way than MSHRs",
        flights.len()
    );
}
