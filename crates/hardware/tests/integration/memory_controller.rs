//! Known answers of the memory controller: one exact small case for each rule. The core runs at 1600 MHz, so
//! that a cycle is a clock of DDR4-3200 (22-22-22; tRAS 52, tCCD_L 8, tRTP 12, tWR 24, tWTR 4 and 12, tRRD 4
//! and 8, CWL 16, burst 4).

use ambulator_hardware::{Dram, DramSpec};

const HIT: u64 = 22 + 4; // tCL, burst
const MISS: u64 = 22 + HIT; // tRCD first
const CONFLICT: u64 = 22 + MISS; // tRP before that

/// One channel of two groups of four banks, no controller latency, no refresh, writes that wait for ever.
fn plain() -> DramSpec {
    DramSpec {
        channels: 1,
        controller_ns: 0.0,
        t_refi_ns: 0.0,
        write_queue: 1000,
        write_high: 1000,
        write_idle: 1000,
        write_low: 0,
        ..DramSpec::default()
    }
}

fn dram(spec: DramSpec) -> Dram {
    assert_eq!(spec.validate("dram"), vec![]);
    Dram::new(&spec, 1600, true)
}

/// A line: 128 columns, then 8 banks, of which the even ones are one group and the odd ones the other.
fn line(row: u64, bank: u64, column: u64) -> u64 {
    row << 10 | bank << 7 | column
}

#[test]
fn a_refresh_holds_a_request_that_is_queued_and_closes_rows_after_t_rp() {
    // A refresh is due at 12480 and takes 560.
    let mut dram = dram(DramSpec { t_refi_ns: 7800.0, t_rfc_ns: 350.0, ..plain() });
    assert_eq!(dram.read(line(0, 0, 0), false, 12_000), 12_000 + MISS);
    // Its column command would be sent at 12470 + tRP + tRCD, after the refresh is due: it waits for it. The
    // open row is precharged when the refresh is due, then the refresh begins.
    assert_eq!(dram.read(line(1, 0, 0), false, 12_470), 12_480 + 22 + 560 + MISS);
    // A request of another bank that came first is sent before the refresh.
    assert_eq!(dram.read(line(0, 1, 0), false, 12_440), 12_440 + MISS);
    // One that comes during the refresh finds its row closed. The bank above was activated at 12440, and can
    // be precharged at 12440 + tRAS; the request for row 1 activates before this one.
    assert_eq!(dram.read(line(0, 2, 0), false, 12_800), 12_440 + 52 + 22 + 560 + 8 + MISS);
    dram.drain();
    assert_eq!(dram.counters().refresh_waits, 2);
}

#[test]
fn a_refresh_of_an_idle_rank_begins_when_it_is_due() {
    let mut dram = dram(DramSpec { t_refi_ns: 7800.0, t_rfc_ns: 350.0, ..plain() });
    assert_eq!(dram.read(line(0, 0, 0), false, 12_500), 12_480 + 560 + MISS);
    // The second one finds the row open since then.
    assert_eq!(dram.read(line(0, 0, 1), false, 24_960), 24_960 + 22 + 560 + MISS);
}

#[test]
fn writes_wait_and_a_read_of_a_queued_line_takes_its_data_from_the_queue() {
    let mut dram = dram(plain());
    dram.write(line(5, 0, 0), false, 1000);
    assert_eq!(dram.read(line(5, 0, 0), false, 1001), 1002, "a clock later");
    assert_eq!(dram.read(line(5, 0, 1), false, 1001), 1001 + MISS, "the row is not open: the write waits");
    dram.write(line(5, 0, 0), false, 1010);
    dram.drain();
    let counters = dram.counters();
    assert_eq!((counters.reads_forwarded, counters.writes_merged, counters.bus_busy), (1, 1, 4 + 4));
}

#[test]
fn a_read_takes_its_data_from_a_write_that_is_decided_on_but_not_sent_yet() {
    let ready = |arrival| {
        let mut dram = dram(DramSpec { write_high: 2, ..plain() });
        dram.read(line(0, 1, 0), false, 500);
        // Their row opens at 1000, and their columns are at 1022 and 1030.
        dram.write(line(0, 0, 0), false, 1000);
        dram.write(line(0, 0, 1), false, 1000);
        // It waits for both: they are decided on.
        assert_eq!(dram.read(line(0, 1, 1), false, 1011), 1030 + 16 + 4 + 4 + HIT);
        dram.read(line(0, 0, 1), false, arrival)
    };
    assert_eq!(ready(1020), 1021);
    assert_eq!(ready(1029), 1030);
    assert_eq!(ready(1031), 1030 + 16 + 4 + 12 + HIT, "after tWTR_L");
}

#[test]
fn a_write_merges_with_one_of_its_line_in_a_batch() {
    let mut dram = dram(DramSpec { write_high: 2, ..plain() });
    dram.write(line(0, 0, 0), false, 1000);
    dram.write(line(0, 0, 1), false, 1000);
    // The batch begins before its column command, which is the first.
    assert_eq!(dram.read(line(0, 1, 0), false, 999), 999 + MISS);
    dram.write(line(0, 0, 1), false, 1001);
    assert_eq!(dram.read(line(0, 0, 0), false, 1001), 1002);
    dram.drain();
    let counters = dram.counters();
    assert_eq!((counters.writes_merged, counters.reads_forwarded, counters.bus_busy), (1, 1, 4 * 3));
}

#[test]
fn a_batch_of_four_writes_holds_a_read_for_its_length_and_the_turn_around() {
    let batch = |read| {
        let mut dram = dram(DramSpec { write_high: 4, ..plain() });
        // Opens the row of the writes, and the reads' row in the other group.
        dram.read(line(0, 0, 0), false, 500);
        dram.read(line(0, 1, 0), false, 500);
        (1..=4).for_each(|column| _ = dram.write(line(0, 0, column), false, 1000));
        let ready = dram.read(read, false, 1001);
        dram.drain();
        assert_eq!(dram.counters().write_batches, 1);
        ready
    };
    // Columns at 1000, 1008, 1016, 1024; the last data end at 1024 + 16 + 4.
    assert_eq!(batch(line(0, 1, 1)), 1024 + 20 + 4 + HIT, "tWTR_S, then a row hit in the other group");
    assert_eq!(batch(line(0, 0, 9)), 1024 + 20 + 12 + HIT, "tWTR_L, then a row hit in the same group");
    // The row that the batch used is precharged after write recovery.
    assert_eq!(batch(line(1, 0, 0)), 1024 + 20 + 24 + CONFLICT);
    // Three writes do not make a batch.
    let mut dram = dram(DramSpec { write_high: 4, ..plain() });
    dram.read(line(0, 1, 0), false, 500);
    (1..=3).for_each(|column| _ = dram.write(line(0, 0, column), false, 1000));
    assert_eq!(dram.read(line(0, 1, 1), false, 1001), 1001 + HIT);
}

#[test]
fn a_batch_leaves_the_low_watermark_and_an_idle_channel_begins_one_earlier() {
    let left = |spec: DramSpec, writes: u64| {
        let mut dram = dram(spec);
        (0..writes).for_each(|column| _ = dram.write(line(0, 0, column), false, 1000 + column));
        dram.read(line(0, 1, 0), false, 5000);
        writes - dram.counters().bus_busy / 4 + 1
    };
    assert_eq!(left(DramSpec { write_high: 8, write_low: 3, ..plain() }, 8), 3);
    assert_eq!(left(DramSpec { write_high: 8, write_low: 3, ..plain() }, 7), 7);
    let idle = || DramSpec { write_high: 8, write_low: 3, write_idle: 5, ..plain() };
    assert_eq!(left(idle(), 5), 5);
    assert_eq!(left(idle(), 6), 3, "more than five wait, and no read");
    let never_empty = || DramSpec { write_high: 8, write_low: 6, write_idle: 0, ..plain() };
    assert_eq!(left(never_empty(), 6), 6, "a batch would have no writes");
    assert_eq!(left(never_empty(), 7), 6);
    // More writes than any queue has, and never a read.
    let mut dram = dram(DramSpec { write_idle: 0, write_low: 6, write_high: 8, write_queue: 64, ..plain() });
    (0..500).for_each(|i| _ = dram.write(line(i, i % 8, 0), false, 1000));
    dram.drain();
    assert_eq!(dram.counters().bus_busy, 4 * 500);
}

#[test]
fn a_write_follows_a_reads_data_by_the_bubble() {
    let mut dram = dram(DramSpec { write_high: 1, ..plain() });
    dram.read(line(0, 0, 0), false, 500);
    dram.read(line(0, 1, 0), false, 500);
    assert_eq!(dram.read(line(0, 0, 1), false, 1000), 1000 + HIT);
    dram.write(line(0, 1, 1), false, 1000);
    // Read's data until 1026, two clocks, the write's column at 1028 - 16; a read of that group then.
    assert_eq!(dram.read(line(0, 1, 2), false, 1013), 1012 + 20 + 12 + HIT);
}

#[test]
fn a_request_is_passed_over_by_row_hits_up_to_the_cap() {
    // Row 0 is open since 1000. A request for row 1 waits for tRAS; row hits come after it.
    let hits = |cap, count: u64| {
        let mut dram = dram(DramSpec { row_hit_cap: cap, ..plain() });
        dram.read(line(0, 0, 0), false, 1000);
        assert_eq!(dram.read(line(1, 0, 0), false, 1001), 1000 + 52 + CONFLICT);
        (1..=count).map(|column| dram.read(line(0, 0, column), false, 1001 + column)).collect::<Vec<_>>()
    };
    assert_eq!(hits(16, 4), [1030, 1038, 1046, 1054].map(|column| column + HIT));
    // With a cap of four the row takes three more; then row 1 opens, and row 0 again after it has been open
    // for tRAS: precharges at 1046 + tRTP and at the activation + tRAS.
    let opened = 1046 + 12 + 22;
    assert_eq!(hits(4, 4)[..3], [1030, 1038, 1046].map(|column| column + HIT));
    assert_eq!(hits(4, 4)[3], opened + 52 + CONFLICT);
}

#[test]
fn a_row_hit_that_cannot_be_sent_before_the_precharge_does_not_pass() {
    // Rows 0 of two banks of a group are open. A read of one, and a clock later a request for row 1 of the other,
    // which is precharged for at once: a row hit of the same clock would have to wait for tCCD_L.
    let mut dram = dram(plain());
    dram.read(line(0, 0, 0), false, 1000);
    dram.read(line(0, 2, 0), false, 1000);
    assert_eq!(dram.read(line(0, 2, 1), false, 2000), 2000 + HIT);
    assert_eq!(dram.read(line(1, 0, 0), false, 2001), 2001 + CONFLICT);
    let opened = 2001 + 22;
    assert_eq!(dram.read(line(0, 0, 1), false, 2001), opened + 52 + CONFLICT);
    dram.drain();
    assert_eq!((dram.counters().data_row_hits, dram.counters().data_row_conflicts), (1, 2));
}

#[test]
fn a_stream_of_row_hits_starves_nobody() {
    let mut dram = dram(plain());
    dram.read(line(0, 0, 0), false, 1000);
    let mut waiting = None;
    for i in 1..200u64 {
        dram.read(line(0, 0, i % 128), false, 1000 + 8 * i);
        if i == 20 {
            let ready = dram.read(line(1, 0, 0), false, 1161);
            waiting = Some(ready - 1161);
        }
    }
    assert!(waiting.is_some_and(|cycles| cycles <= 16 * 8 + 12 + CONFLICT), "{waiting:?}");
}

#[test]
fn row_hits_of_one_rank_do_not_starve_another() {
    // From 1000 on hits of two groups of rank 0, as fast as the bus is. At 1161 one of rank 1, which needs two clocks
    // more than they.
    let waits = |turn_cap| {
        let mut dram = dram(DramSpec { ranks: 2, turn_cap, ..plain() });
        let waits = line_of_rank(1, 0, 0, 1);
        dram.read(line_of_rank(1, 0, 0, 0), false, 500);
        (0..2).for_each(|bank| _ = dram.read(line_of_rank(0, 0, bank, 0), false, 700));
        for i in 0..1000 {
            if i == 41 {
                dram.read(waits, false, 1161);
            }
            dram.read(line_of_rank(0, 0, i % 2, i / 2 % 128), false, 1000 + 4 * i);
        }
        dram.arrival(waits, false).unwrap_or(0)
    };
    // It has waited for as long as so many hits take; the last before it was sent at that clock.
    let after = |sent: u64| sent + 6 + HIT;
    assert_eq!([waits(64), waits(100), waits(10)], [1416, 1560, 1200].map(after));
    assert_eq!(waits(60_000), after(1000 + 4 * 999), "without the cap it is the last");
}

#[test]
fn batch_after_batch_does_not_starve_a_read() {
    // From 1000 on writes of two groups, as fast as the bus is. Eight are a batch; while it is sent eight more come.
    let waits = |turn_cap| {
        let mut dram = dram(DramSpec { write_high: 8, turn_cap, ..plain() });
        (0..3).for_each(|bank| _ = dram.read(line(0, bank, 127), false, 500));
        (0..248).for_each(|i| _ = dram.write(line(0, i % 2, i / 2), false, 1000 + 4 * i));
        dram.read(line(0, 2, 0), false, 1161)
    };
    // It has waited for as long as so many writes take. The last before it was sent at that clock; its data, and
    // tWTR_S, or tWTR_L where it is of the read's group.
    let after = |sent: u64, turn: u64| sent + 16 + 4 + turn + HIT;
    assert_eq!([waits(32), waits(47)], [after(1288, 8), after(1348, 12)]);
    assert_eq!(waits(60_000), after(1028 + 4 * 247, 8), "without the cap it is the last");
}

#[test]
fn a_bank_knows_its_open_row_whatever_was_called_before() {
    // Eight later requests were called first; the row that is open at 4000 is still known.
    let mut dram = dram(plain());
    dram.read(line(0, 0, 0), false, 1000);
    (0..8).for_each(|i| {
        dram.read(line(1 + i, 0, 0), false, 5000 + 200 * i);
    });
    assert_eq!(dram.read(line(0, 0, 1), false, 4000), 4000 + HIT);
    assert_eq!(dram.read(line(1, 0, 1), false, 5100), 5100 + HIT);
}

#[test]
fn a_row_stays_open_across_eight_other_banks() {
    let of = |row: u64, bank: u64, column: u64| row << 11 | bank << 7 | column;
    let mut dram = dram(DramSpec { bank_groups: 4, ..plain() });
    dram.read(of(5, 0, 0), false, 1000);
    (1..=8).for_each(|bank| {
        dram.read(of(9, bank, 0), false, 1000 + 200 * bank);
    });
    assert_eq!(dram.read(of(5, 0, 1), false, 4000), 4000 + HIT);
}

#[test]
fn a_row_hit_that_is_not_among_the_oldest_passes_nobody() {
    // Row 0 is open since 1000. Two requests for row 1 wait for tRAS; a row hit is the third.
    let hit = |read_queue| {
        let mut dram = dram(DramSpec { read_queue, ..plain() });
        dram.read(line(0, 0, 0), false, 1000);
        dram.read(line(1, 0, 0), false, 1001);
        dram.read(line(1, 0, 1), false, 1002);
        dram.read(line(0, 0, 1), false, 1003)
    };
    assert_eq!(hit(3), 1030 + HIT);
    // Row 1 opens at 1000 + tRAS + tRP, and row 0 again when it has been open for tRAS.
    assert_eq!(hit(2), 1000 + 52 + 22 + 52 + CONFLICT);
}

#[test]
fn the_writes_of_a_batch_take_no_place_from_the_oldest_reads() {
    // Row 0 of banks 0 and 1 is open. Two reads wait for other rows of bank 0; a third one would hit in bank 1. Then a
    // batch of two writes begins.
    let hit = |read_queue| {
        let mut dram = dram(DramSpec { read_queue, write_high: 2, ..plain() });
        dram.read(line(0, 1, 0), false, 500);
        dram.read(line(0, 0, 0), false, 800);
        dram.read(line(1, 0, 0), false, 1001);
        dram.read(line(2, 0, 0), false, 1002);
        dram.write(line(0, 2, 0), false, 1004);
        dram.write(line(0, 2, 1), false, 1004);
        dram.read(line(0, 1, 1), false, 1003)
    };
    assert_eq!(hit(3), 1003 + HIT);
    // The writes' columns are at 1026 and 1034, the first read's is tWTR_L after their data. Then the hit is one of the
    // two oldest.
    assert_eq!(hit(2), 1034 + 16 + 4 + 12 + 4 + HIT);
}

#[test]
fn a_later_row_hit_goes_before_the_writes_of_a_batch_if_it_does_not_delay_them() {
    let ready = |arrival| {
        let mut dram = dram(DramSpec { write_high: 2, ..plain() });
        dram.read(line(0, 1, 0), false, 500);
        // Their row opens at 1000, and their columns are at 1022 and 1030.
        dram.write(line(0, 0, 0), false, 1000);
        dram.write(line(0, 0, 1), false, 1000);
        dram.read(line(0, 1, 1), false, arrival)
    };
    // A write's column comes twelve clocks after a read's: its data, two clocks, less tCWL.
    assert_eq!(ready(1010), 1010 + HIT);
    assert_eq!(ready(1011), 1030 + 16 + 4 + 4 + HIT, "after both, and tWTR_S");
}

/// A line of two ranks: the bit above the columns.
fn line_of_rank(rank: u64, row: u64, bank: u64, column: u64) -> u64 {
    row << 11 | bank << 8 | rank << 7 | column
}

#[test]
fn data_of_two_ranks_are_t_rtrs_apart() {
    let second = |rank, bank| {
        let mut dram = dram(DramSpec { ranks: 2, ..plain() });
        dram.read(line_of_rank(0, 0, 0, 0), false, 500);
        dram.read(line_of_rank(rank, 0, bank, 0), false, 500);
        assert_eq!(dram.read(line_of_rank(0, 0, 0, 1), false, 1000), 1000 + HIT);
        dram.read(line_of_rank(rank, 0, bank, 1), false, 1000)
    };
    assert_eq!(second(0, 1), 1000 + 4 + HIT, "the other group of the same rank");
    assert_eq!(second(1, 0), 1000 + 4 + 2 + HIT, "the other rank");
}

#[test]
fn a_rank_is_refreshed_while_the_other_one_serves() {
    // Refreshes are evenly spread: rank 1 has its first one at 6240, rank 0 at 12480.
    let mut dram = dram(DramSpec { ranks: 2, t_refi_ns: 7800.0, t_rfc_ns: 350.0, ..plain() });
    assert_eq!(dram.read(line_of_rank(1, 0, 0, 0), false, 6_300), 6_240 + 560 + MISS);
    assert_eq!(dram.read(line_of_rank(0, 0, 0, 0), false, 6_300), 6_300 + MISS);
    assert_eq!(dram.read(line_of_rank(0, 1, 0, 0), false, 12_500), 12_480 + 22 + 560 + MISS);
    assert_eq!(dram.read(line_of_rank(1, 0, 0, 1), false, 12_500), 12_500 + HIT);
}

#[test]
fn refreshes_are_counted_as_they_are_due_also_while_nothing_is_asked_for() {
    // Rank 1 has its first one at 6240, rank 0 at 12480, and each one every 12480.
    let mut dram = dram(DramSpec { ranks: 2, t_refi_ns: 7800.0, t_rfc_ns: 350.0, ..plain() });
    dram.read(line_of_rank(1, 0, 0, 0), false, 6_300);
    assert_eq!(dram.counters().refreshes, 1);
    dram.read(line_of_rank(1, 0, 0, 0), false, 12_500);
    assert_eq!(dram.counters().refreshes, 2, "no request has met that of rank 0");
    dram.read(line_of_rank(0, 0, 0, 0), false, 1_000_000);
    assert_eq!(dram.counters().refreshes, 80 + 80);
    dram.reset_counters();
    assert_eq!(dram.counters().refreshes, 0);
    dram.read(line_of_rank(1, 0, 0, 0), false, 1_006_000);
    assert_eq!(dram.counters().refreshes, 1, "at 6240 + 80 * 12480");
    // A call that comes late takes the refresh of rank 0 at 1010880 back, and it is planned again.
    dram.read(line_of_rank(0, 1, 0, 0), false, 1_010_900);
    dram.read(line_of_rank(0, 0, 0, 0), false, 1_010_000);
    assert_eq!(dram.counters().refreshes, 2);
    // Time that is skipped has none: rank 1's next one, which was due at 1017120, is 79 intervals later.
    dram.set_timed(true, 2_000_000);
    assert_eq!(dram.counters().refreshes, 2);
    dram.read(line_of_rank(1, 0, 0, 0), false, 2_003_100);
    assert_eq!(dram.counters().refreshes, 3);
}

#[test]
fn activations_of_a_rank_are_t_rrd_apart_and_four_in_t_faw() {
    let done = |banks: &[u64]| {
        let mut dram = dram(DramSpec { t_faw_ns: 400.0, ..plain() });
        banks.iter().map(|&bank| dram.read(line(0, bank, 0), false, 1000) - 1000 - MISS).collect::<Vec<_>>()
    };
    assert_eq!(done(&[0, 1, 2, 3]), [0, 4, 8, 12], "the groups take turns: tRRD_S");
    assert_eq!(done(&[0, 2, 4]), [0, 8, 16], "one group: tRRD_L");
    // 400 ns are 640 clocks.
    assert_eq!(done(&[0, 1, 2, 3, 4, 5, 6, 7]), [0, 4, 8, 12, 640, 644, 648, 652]);
}

#[test]
fn random_reads_reach_the_bound_of_activations_and_do_not_exceed_it() {
    // Four lines in tFAW of 21 ns, less the time of refreshes (and their precharges).
    let spec = DramSpec { bank_groups: 4, t_refi_ns: 7800.0, ..plain() };
    let mut dram = dram(spec);
    let mut random = ambulator_base::Random::new(1);
    let mut agents = [0u64; 64];
    let reads = 40_000;
    for _ in 0..reads {
        let agent = (0..64).min_by_key(|&agent| agents[agent]).unwrap_or(0);
        agents[agent] = dram.read(random.below(1 << 26), false, agents[agent]);
    }
    let ns = agents.iter().max().map_or(0.0, |end| *end as f64 / 1.6);
    let bound = 4.0 * 64.0 / 21.0 * (1.0 - dram.counters().refreshes as f64 * 350.0 / ns);
    let reached = f64::from(reads) * 64.0 / ns;
    assert!(reached < bound && reached > 0.95 * bound, "{reached} of {bound} GB/s");
}

#[test]
fn triads_on_32_banks_stay_below_the_peak_by_their_refreshes_and_turns() {
    // Two loads and a store for each of four cores, rows apart; 64 clocks' worth of requests at once.
    let mut dram = dram(DramSpec {
        bank_groups: 4,
        banks: 8,
        t_refi_ns: 7800.0,
        write_high: 54,
        write_low: 16,
        write_idle: 32,
        ..plain()
    });
    let mut agents = [0u64; 16];
    let (mut next, mut lines) = ([0u64; 4], 0u64);
    while agents.iter().any(|at| *at < 200_000) {
        let agent = (0..16).min_by_key(|&agent| agents[agent]).unwrap_or(0);
        let (core, step) = (agent % 4, next[agent % 4]);
        next[core] += 1;
        let line = (core as u64 * 3 + step % 3) * 1_000_037 + step / 3;
        lines += 1;
        if step % 3 == 2 {
            dram.write(line, false, agents[agent]);
            agents[agent] += 1;
        } else {
            agents[agent] = dram.read(line, false, agents[agent]);
        }
    }
    dram.drain();
    let (counters, end) = (dram.counters(), agents.iter().max().copied().unwrap_or(0));
    assert!(counters.refreshes >= end / 12_480 - 1, "{counters:?}");
    // A burst is four clocks. A refresh takes tRFC of 560 from the bus, a batch's turn at least tWTR_S and the bubble.
    let lost = 560 * counters.refreshes + (4 + 2) * counters.write_batches;
    let share = 4.0 * lines as f64 / end as f64;
    let bound = 1.0 - lost as f64 / end as f64;
    assert!(share < bound && share > 0.7 * bound, "{share} of {bound}");
}

#[test]
fn a_late_call_waits_for_those_before_it_in_time_and_not_for_those_after() {
    let mut dram = dram(plain());
    // In one bank: rows 0, 1, 2 at 1000, 1001, 1002, called in the order 0, 2, 1.
    assert_eq!(dram.read(line(0, 0, 0), false, 1000), 1000 + MISS);
    let alone = dram.read(line(2, 0, 0), false, 1002);
    assert_eq!(dram.read(line(1, 0, 0), false, 1001), alone, "it comes first, and takes the place");
    // Row 3 waits for both.
    assert_eq!(dram.read(line(3, 0, 0), false, 1003), 1000 + 3 * (52 + 22) + MISS);
}
