//! DRAM against the datasheet's numbers: DDR4-3200AA (22-22-22) at a 2 GHz core, where a DRAM clock is 1.25
//! core cycles.

use ambulator_hardware::{AddressMapping, Dram, DramModel, DramSpec, PagePolicy};

/// Core cycles of `n` DRAM clocks, rounded up as results are.
fn clocks(n: u64) -> u64 {
    (n * 5).div_ceil(4)
}

const HIT: u64 = 22 + 4; // tCL, burst
const MISS: u64 = 22 + HIT; // tRCD first
const CONFLICT: u64 = 22 + MISS; // tRP before that

/// One channel, no controller latency, no refresh.
fn plain() -> DramSpec {
    DramSpec { channels: 1, controller_ns: 0.0, t_refi_ns: 0.0, ..DramSpec::default() }
}

fn dram(spec: &DramSpec) -> Dram {
    assert_eq!(spec.validate("dram"), vec![]);
    Dram::new(spec, 2000, true)
}

/// First line of a row of bank 0 with one channel: 128 columns, then 8 banks.
fn row(n: u64) -> u64 {
    n << 10
}

#[test]
fn row_hits_misses_and_conflicts_take_the_times_of_the_datasheet() {
    let mut dram = dram(&plain());
    assert_eq!(dram.read(row(0), false, 1000), 1000 + clocks(MISS));
    assert_eq!(dram.read(row(0) + 1, false, 2000), 2000 + clocks(HIT));
    assert_eq!(dram.read(row(1), true, 3000), 3000 + clocks(CONFLICT));
    assert_eq!(dram.read(row(1) + 9, true, 4000), 4000 + clocks(HIT));
    assert_eq!(dram.read(128, false, 5000), 5000 + clocks(MISS), "another bank");
    let counters = dram.counters();
    assert_eq!((counters.data_row_hits, counters.data_row_misses, counters.data_row_conflicts), (1, 2, 0));
    assert_eq!((counters.table_row_hits, counters.table_row_misses, counters.table_row_conflicts), (1, 0, 1));
    assert_eq!((counters.data_reads, counters.table_reads, counters.activates), (3, 2, 3));
    assert_eq!(counters.data_read_cycles, clocks(MISS) + clocks(HIT) + clocks(MISS));
}

#[test]
fn a_row_stays_open_for_t_ras_before_another_is_opened() {
    let mut dram = dram(&plain());
    dram.read(row(0), false, 1000);
    assert_eq!(dram.read(row(1), false, 1000), 1000 + clocks(52 + CONFLICT));
}

#[test]
fn a_closed_page_is_always_a_miss() {
    let mut dram = dram(&DramSpec { page_policy: PagePolicy::Closed, ..plain() });
    for now in [1000, 2000, 3000] {
        assert_eq!(dram.read(row(0), false, now), now + clocks(MISS));
    }
    assert_eq!(dram.counters().data_row_misses, 3);
}

/// Reads `n` lines at cycle `now`, all at once; returns the cycles from `now` until all have arrived.
fn burst(dram: &mut Dram, now: u64, lines: impl Iterator<Item = u64>) -> u64 {
    lines.map(|line| dram.read(line, false, now)).max().unwrap_or(now) - now
}

#[test]
fn data_transfer_at_the_data_rate() {
    // Adjacent lines in adjacent banks: only the bus limits. 64 bytes at 3200 MT/s of 8 bytes take 5 cycles.
    let mut spread = dram(&DramSpec { mapping: AddressMapping::RoCoRaBaCh, t_faw_ns: 0.0, ..plain() });
    let cycles = burst(&mut spread, 0, 0..400);
    assert!((2000..2000 + clocks(MISS) + 10).contains(&cycles), "400 lines took {cycles} cycles");
    spread.drain();
    assert_eq!(spread.counters().bus_busy, 2000);
    // At half the data rate (and the same nanoseconds elsewhere, more or less) they take twice as long.
    let mut slow = dram(&DramSpec { mapping: AddressMapping::RoCoRaBaCh, data_rate: 1600, ..plain() });
    let cycles = burst(&mut slow, 0, 0..400);
    assert!((4000..4300).contains(&cycles), "{cycles}");
    // All in one row: column commands of one bank group are tCCD_L = 8 clocks = 10 cycles apart.
    let mut one_bank = dram(&plain());
    let cycles = burst(&mut one_bank, 0, 0..128);
    assert!((1270..1290 + clocks(MISS)).contains(&cycles), "128 lines of a row took {cycles} cycles");
}

#[test]
fn four_channels_serve_requests_that_one_channel_queues() {
    let lines = || (0..2000u64).map(|i| (i * 2_654_435_761) % (1 << 27));
    let time = |channels| burst(&mut dram(&DramSpec { channels, ..plain() }), 0, lines());
    let (one, four) = (time(1), time(4));
    assert!(one > 3 * four, "one channel {one} cycles, four {four}");
}

#[test]
fn order_of_calls_does_not_matter_where_times_do_not_overlap() {
    let requests: Vec<(u64, u64)> =
        (0..24).map(|i| (1000 + i * 400, row(i / 8) + (i % 8) * 128)).filter(|r| r.1 < row(3)).collect();
    let mut in_order = dram(&plain());
    let expected: Vec<u64> = requests[..8].iter().map(|&(now, line)| in_order.read(line, false, now)).collect();
    let mut reversed = dram(&plain());
    let mut found: Vec<u64> = requests[..8].iter().rev().map(|&(now, line)| reversed.read(line, false, now)).collect();
    found.reverse();
    assert_eq!(found, expected);
    // In one bank too, the earlier request does not wait for the later one.
    let mut dram = dram(&plain());
    assert_eq!(dram.read(row(5), false, 50_000), 50_000 + clocks(MISS));
    assert_eq!(dram.read(row(6), false, 1000), 1000 + clocks(MISS));
    assert_eq!(dram.read(row(6), false, 2000), 2000 + clocks(HIT));
    // There is no room before the later one, and the two were in the queue together: the row that opens first
    // delays the other.
    assert_eq!(dram.read(row(7), false, 49_990), 49_990 + clocks(CONFLICT));
}

#[test]
fn a_queue_longer_than_a_banks_history_still_delays() {
    let mut dram = dram(&DramSpec { t_faw_ns: 0.0, ..plain() });
    let n = 40;
    let cycles = burst(&mut dram, 0, (0..n).map(row));
    // Each but the first waits for tRAS of the one before (65 cycles), then tRP: 92.5 cycles from one to the
    // next.
    let expected = (n - 1) * 185 / 2 + clocks(MISS);
    assert!(cycles.abs_diff(expected) <= 40, "{n} conflicts took {cycles} cycles, expected {expected}");
}

#[test]
fn mappings_place_strides_as_they_should() {
    // A stride of one row in one bank conflicts every time, but for the permuted banks.
    let conflicts = |mapping| {
        let mut dram = dram(&DramSpec { mapping, ..plain() });
        (0..64).for_each(|i| {
            dram.read(row(i), false, 1000 * (i + 1));
        });
        dram.counters().data_row_conflicts
    };
    assert_eq!(conflicts(AddressMapping::RoBaRaCoCh), 63);
    assert_eq!(conflicts(AddressMapping::XorBank), 56);
    assert_eq!(conflicts(AddressMapping::HashBank), 56);
    // Arrays that begin 2 MiB apart, read together: one bank, unless all bits of the row choose it.
    let together = |mapping| {
        let mut dram = dram(&DramSpec { mapping, ..plain() });
        for line in 0..32 {
            (0..6).for_each(|array| {
                dram.read(array * (2 << 20) / 64 + line, false, 1000 * (6 * line + array + 1));
            });
        }
        dram.counters().data_row_hits
    };
    assert_eq!(together(AddressMapping::RoBaRaCoCh), 0);
    assert_eq!(together(AddressMapping::XorBank), 0);
    assert_eq!(together(AddressMapping::HashBank), 31 * 6);
    // Eight adjacent lines: one bank, or eight.
    let misses = |mapping| {
        let mut dram = dram(&DramSpec { mapping, ..plain() });
        burst(&mut dram, 1000, 0..8);
        dram.counters().data_row_misses
    };
    assert_eq!(misses(AddressMapping::RoBaRaCoCh), 1);
    assert_eq!(misses(AddressMapping::RoRaBaChCo), 1);
    assert_eq!(misses(AddressMapping::RoCoRaBaCh), 8);
}

#[test]
fn every_line_has_its_own_place_in_every_mapping() {
    // Over a memory of 4 rows, each bank's row is filled once: lines of one row hit, and there are as many
    // misses and conflicts as rows over all banks.
    for mapping in [
        AddressMapping::RoBaRaCoCh,
        AddressMapping::RoRaBaChCo,
        AddressMapping::RoCoRaBaCh,
        AddressMapping::XorBank,
        AddressMapping::HashBank,
    ] {
        let spec = DramSpec { mapping, channels: 2, ranks: 2, ..plain() };
        let mut dram = dram(&spec);
        // One row over all banks, channels and ranks, then the next: 128 columns, 8 banks, 2 ranks, 2
        // channels.
        let lines = 128 * 8 * 2 * 2;
        for line in 0..4 * lines {
            dram.read(line, false, 1000 + 200 * line);
        }
        let counters = dram.counters();
        assert_eq!(counters.data_row_misses, 32, "{mapping:?}");
        assert_eq!(counters.data_row_conflicts, 3 * 32, "{mapping:?}");
    }
}

#[test]
fn fixed_latency_is_fixed() {
    let mut dram = dram(&DramSpec { model: DramModel::Fixed, fixed_ns: 60.0, ..DramSpec::default() });
    for line in 0..100 {
        assert_eq!(dram.read(line << 20, false, 7), 7 + 120);
    }
}

#[test]
fn defaults_add_the_controller() {
    let mut dram = dram(&DramSpec::default());
    assert_eq!(dram.read(0, false, 1000), 1000 + 20 + clocks(MISS));
}
