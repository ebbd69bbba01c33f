//! Known answers, in DRAM clocks, for each rule; and a check of random traffic against the rules of the
//! devices, command by command.

use super::super::events::Writer;
use super::bank::Command::{self, Activate, Precharge};
use super::controller::{Channel, Sent};
use super::rules::{DramChoices, Place, Rules};
use ambulator_base::Random;
use ambulator_hardware::DramSpec;

/// One channel of DDR4-3200 with 8 banks in 2 groups, without refresh. tRCD, tRP and tCL have 22 clocks, tRAS
/// 52, tCWL 16, a burst 4.
fn spec() -> DramSpec {
    DramSpec { channels: 1, t_refi_ns: 0.0, ..DramSpec::default() }
}

fn rules(spec: &DramSpec) -> Rules {
    Rules::new(spec, DramChoices { first_ready: true, batches: true, turn_around: true, rrd: true })
}

/// A line of a bank, row and column. Banks of even numbers are one group.
fn line(bank: u64, row: u64, column: u64) -> u64 {
    (row * 8 + bank) * 128 + column
}

type Log = Vec<(u64, Sent)>;

/// Feeds reads and writes, `(clock, line, write)`, until all are sent; returns commands with their clocks.
fn drive(rules: &Rules, first_refresh: u64, arrivals: &[(u64, u64, bool)]) -> Log {
    let mut channel = Channel::new(rules, |_| first_refresh);
    let mut log = Vec::new();
    let last = arrivals.last().map_or(0, |arrival| arrival.0);
    for now in 0..last + 5000 {
        for &(_, line, write) in arrivals.iter().filter(|arrival| arrival.0 == now) {
            channel.arrive(line, write, rules.place(line), now);
        }
        log.extend(channel.step(now).map(|sent| (now, sent)));
    }
    log
}

/// Clocks at which the data of lines end, in the order of the commands.
fn ends(log: &Log) -> Vec<u64> {
    log.iter().filter_map(|(_, sent)| if let Sent::Line { end, .. } = sent { Some(*end) } else { None }).collect()
}

/// Clocks of row commands.
fn rows(log: &Log, wanted: Command) -> Vec<u64> {
    log.iter().filter(|(_, sent)| matches!(sent, Sent::Row(command, _) if *command == wanted)).map(|at| at.0).collect()
}

const READ: bool = false;
const WRITE: bool = true;

#[test]
fn a_row_is_activated_read_and_precharged_for_another() {
    let log =
        drive(&rules(&spec()), 0, &[(0, line(0, 0, 0), READ), (0, line(0, 0, 1), READ), (0, line(0, 1, 0), READ)]);
    assert_eq!((rows(&log, Activate), rows(&log, Precharge)), (vec![0, 74], vec![52]), "tRAS, tRP");
    assert_eq!(ends(&log), [48, 56, 74 + 48], "tRCD + tCL + burst; tCCD_L");
}

#[test]
fn a_row_stays_open_while_seven_other_banks_are_read() {
    let others = (1..8).map(|bank| (100, line(bank, 3, 0), READ));
    let all: Vec<_> =
        [(0, line(0, 0, 0), READ)].into_iter().chain(others).chain([(400, line(0, 0, 9), READ)]).collect();
    let log = drive(&rules(&spec()), 0, &all);
    assert_eq!(ends(&log).last(), Some(&426));
    assert!(rows(&log, Precharge).is_empty());
}

#[test]
fn activations_keep_trrd_and_tfaw() {
    let reads: Vec<_> = (0..6).map(|bank| (0, line(bank, 0, 0), READ)).collect();
    // tFAW is 34 clocks. The fifth comes a clock late: the fourth read is sent at 34.
    assert_eq!(rows(&drive(&rules(&spec()), 0, &reads), Activate), [0, 4, 8, 12, 35, 39]);
    let one_group: Vec<_> = (0..4).map(|bank| (0, line(2 * bank, 0, 0), READ)).collect();
    assert_eq!(rows(&drive(&rules(&spec()), 0, &one_group), Activate), [0, 8, 16, 24]);
}

/// Writes are released as soon as no read waits.
fn eager() -> Rules {
    rules(&DramSpec { write_idle: 0, write_low: 0, ..spec() })
}

#[test]
fn the_bus_turns_around_between_writes_and_reads() {
    let after_write = |bank| ends(&drive(&eager(), 0, &[(0, line(0, 0, 0), WRITE), (1, line(bank, 0, 1), READ)]));
    let written = 22 + 16 + 4;
    assert_eq!(after_write(0), [written, written + 12 + 26], "tWTR_L");
    // The other bank is open from clock 26 on: it is read before the write, if that comes later.
    assert_eq!(after_write(1), [written, written + 4 + 26], "tWTR_S");
    let after_read = drive(&eager(), 0, &[(0, line(0, 0, 0), READ), (1, line(0, 0, 1), WRITE)]);
    assert_eq!(ends(&after_read), [48, 48 + 2 + 4], "read to write");
}

#[test]
fn a_written_row_recovers_before_its_precharge() {
    let log = drive(&eager(), 0, &[(0, line(0, 0, 0), WRITE), (1, line(0, 1, 0), READ)]);
    assert_eq!(rows(&log, Precharge), [22 + 16 + 4 + 24]);
}

#[test]
fn ranks_change_the_bus() {
    let rules = rules(&DramSpec { ranks: 2, ..spec() });
    let log = drive(&rules, 0, &[(0, 0, READ), (0, 128, READ)]);
    assert_eq!(ends(&log), [48, 48 + 2 + 4]);
}

#[test]
fn rows_are_closed_by_their_column_commands() {
    let rules = rules(&DramSpec { page_policy: ambulator_hardware::PagePolicy::Closed, ..spec() });
    let log = drive(&rules, 0, &[(0, line(0, 0, 0), READ), (0, line(0, 0, 1), READ)]);
    assert_eq!(ends(&log), [48, 74 + 48]);
}

/// A read, and `writes` to its row, all at clock 0.
fn batch(writes: u64) -> Vec<u64> {
    let writes = (1..=writes).map(|column| (0, line(0, 0, column), WRITE));
    ends(&drive(&rules(&spec()), 0, &[(0, line(0, 0, 0), READ)].into_iter().chain(writes).collect::<Vec<_>>()))
}

#[test]
fn writes_drain_in_batches() {
    assert_eq!(batch(32), [48], "32 writes wait for ever");
    // 54 writes: 38 are released although the read waits. 33: 17, when no read waits. Then 16 are left.
    for (writes, released) in [(54, 38), (33, 17)] {
        let expected: Vec<u64> = [48].into_iter().chain((0..released).map(|i| 54 + 8 * i)).collect();
        assert_eq!(batch(writes), expected);
    }
}

#[test]
fn reads_of_an_open_row_do_not_delay_an_older_write() {
    // A read opens the row of bank 1, and hits of it come every 4 clocks. The row of the write is open from
    // clock 23 on.
    let hits = (1..40).map(|i| (4 * i, line(1, 0, i), READ));
    let arrivals: Vec<_> = [(0, line(1, 0, 0), READ), (1, line(0, 0, 0), WRITE)].into_iter().chain(hits).collect();
    let rules = rules(&DramSpec { write_high: 1, write_low: 0, ..spec() });
    let log = drive(&rules, 0, &arrivals);
    let written = log.iter().find_map(|(at, sent)| matches!(sent, Sent::Line { write: true, .. }).then_some(*at));
    // Read at 22; its data end at 48, so the write is sent at 48 + 2 - 16.
    assert_eq!(written, Some(34));
}

#[test]
fn reads_of_an_open_row_pass_a_write_that_waits_for_an_older_read_anyhow() {
    // The row of bank 1 is open. A read's row is activated at 194, a write's at 200: their column commands are
    // allowed at 216, and at 222. A hit at 211 alone would delay the write, to 211 + 12; behind the read it is at
    // 216 + 12 anyhow.
    let rules = rules(&DramSpec { write_high: 1, write_low: 0, ..spec() });
    let (read, write) = ((194, line(2, 0, 0), READ), (200, line(3, 0, 0), WRITE));
    let arrivals = [(0, line(1, 0, 0), READ), read, write, (211, line(1, 0, 1), READ)];
    assert_eq!(ends(&drive(&rules, 0, &arrivals)), [48, 211 + 26, 216 + 26, 228 + 20]);
    let without = [arrivals[0], write, arrivals[3]];
    assert_eq!(ends(&drive(&rules, 0, &without)), [48, 222 + 20, 222 + 20 + 12 + 26], "it waits for the write");
}

#[test]
fn a_batch_waits_for_the_last_unless_the_queue_is_full() {
    // 33 writes to bank 0 release 17 at clock 0. Then come more to bank 1, behind the 16 that are left.
    let activated = |more: u64| {
        let first = (1..=33).map(|column| (0, line(0, 0, column), WRITE));
        let then = (1..=more).map(|column| (1, line(1, 0, column), WRITE));
        let log = drive(&rules(&spec()), 0, &first.chain(then).collect::<Vec<_>>());
        rows(&log, Activate)
    };
    // The last of the 17 writes is sent at 22 + 16 * 8.
    assert_eq!(activated(37), [0, 151], "36 and more wait, but 54 do not");
    assert_eq!(activated(38), [0, 4], "54 wait");
}

#[test]
fn waiting_writes_merge_and_serve_reads() {
    let rules = rules(&spec());
    let mut channel = Channel::new(&rules, |_| 0);
    let mut arrive = |line, write| channel.arrive(line, write, rules.place(line), 0);
    assert!(!arrive(7, WRITE) && arrive(7, WRITE) && arrive(7, READ));
    assert!(!arrive(8, READ) && !arrive(8, WRITE), "a read takes no data from a younger write");
}

#[test]
fn a_request_for_another_row_is_passed_until_the_cap() {
    // One hit every 8 clocks defers the precharge again and again: tRTP is 12.
    let hits = (1..40).map(|column| (0, line(0, 0, column), READ));
    let all: Vec<_> = [(0, line(0, 0, 0), READ), (0, line(0, 1, 0), READ)].into_iter().chain(hits).collect();
    let precharged = |row_hit_cap| rows(&drive(&rules(&DramSpec { row_hit_cap, ..spec() }), 0, &all), Precharge)[0];
    assert_eq!(precharged(16), 22 + 15 * 8 + 12);
    assert_eq!(precharged(4), 22 + 3 * 8 + 12);
    assert_eq!(precharged(1), 52, "not before tRAS");
    assert_eq!(precharged(100), 22 + 39 * 8 + 12);
}

#[test]
fn the_oldest_request_turns_the_bus_around_after_the_cap() {
    let end_of = |log: &[(u64, Sent)], wanted: u64| {
        log.iter().find_map(|(_, sent)| match sent {
            Sent::Line { line, end, .. } if *line == wanted => Some(*end),
            _ => None,
        })
    };
    // Rows 0 of banks 0 and 1 of rank 0 and of bank 0 of rank 1 are open. From 1000 on hits of rank 0 fill the bus.
    let hits = |from: u64| (0..400).map(move |i| (from + 4 * i, line(2 * (i % 2), 0, 1 + i / 2 % 127), READ));
    let hit_of_rank_1 = line(1, 0, 9);
    let opened = [(0, line(0, 0, 0), READ), (100, line(2, 0, 0), READ), (200, line(1, 0, 0), READ)];
    let mut all: Vec<_> = opened.into_iter().chain(hits(1000)).chain([(1161, hit_of_rank_1, READ)]).collect();
    all.sort_by_key(|(at, ..)| *at);
    let ends = |turn_cap| {
        let rules = rules(&DramSpec { ranks: 2, turn_cap, ..spec() });
        end_of(&drive(&rules, 0, &all), hit_of_rank_1)
    };
    // The one of rank 1 has waited for as long as so many hits take; the last before it was sent at that clock, or at
    // 2596, when no more come.
    let after = |sent: u64| Some(sent + 6 + 26);
    assert_eq!([ends(64), ends(100), ends(10), ends(60_000)], [1416, 1560, 1200, 2596].map(after));
}

#[test]
fn a_precharge_that_can_be_sent_is_not_deferred() {
    let reads = [(0, line(0, 0, 0), READ), (100, line(0, 1, 0), READ), (100, line(0, 0, 1), READ)];
    let log = drive(&rules(&spec()), 0, &reads);
    assert_eq!(rows(&log, Precharge)[0], 100, "the younger request hits the open row, but too late");
}

#[test]
fn a_refresh_closes_rows_and_holds_what_waits() {
    let rules = rules(&DramSpec { t_refi_ns: 6000.0, t_rfc_ns: 350.0, ..spec() });
    // Due at 100: the row read at 95 is precharged at 107 (tRTP), refreshed at 129 (tRP) until 689.
    let log = drive(&rules, 100, &[(0, line(0, 0, 0), READ), (95, line(0, 0, 1), READ), (99, line(0, 0, 2), READ)]);
    let refreshes: Vec<_> = log.iter().filter(|(_, sent)| !matches!(sent, Sent::Line { .. } | Sent::Row(..))).collect();
    assert_eq!(refreshes[..2], [&(107, Sent::PrechargeAll(0)), &(129, Sent::Refresh(0))]);
    assert_eq!(ends(&log), [48, 95 + 26, 689 + 48], "the third had not been sent");
    // A row that is closed already: tRP after its precharge at 99.
    let log = drive(&rules, 100, &[(0, line(0, 0, 0), READ), (99, line(0, 1, 0), READ)]);
    assert!(log.contains(&(121, Sent::Refresh(0))));
    assert_eq!(ends(&log), [48, 121 + 560 + 48]);
}

/// A command of a log with its place: what the rules of the devices are about.
#[derive(Clone, Copy)]
struct Logged {
    clock: u64,
    command: Command,
    at: Place,
}

/// The least distance of two commands on a channel, by JESD79-4; 0 if there is none.
fn least_distance(rules: &Rules, a: &Logged, b: &Logged) -> u64 {
    use Command::{Read, Write};
    let (same_bank, same_group, same_rank) = (a.at.bank == b.at.bank, a.at.group == b.at.group, a.at.rank == b.at.rank);
    let burst = rules.burst;
    match (a.command, b.command) {
        (Activate, Activate) if same_bank => rules.ras + rules.rp,
        (Activate, Activate) if same_rank => {
            if same_group {
                rules.rrd_l
            } else {
                rules.rrd_s
            }
        }
        (Activate, Precharge) if same_bank => rules.ras,
        (Activate, Read | Write) if same_bank => rules.rcd,
        (Precharge, Activate) if same_bank => rules.rp,
        (Read, Precharge) if same_bank => rules.rtp,
        (Write, Precharge) if same_bank => rules.cwl + burst + rules.wr,
        (Read, Read) | (Write, Write) if !same_rank => burst + rules.rtrs,
        (Read, Read) | (Write, Write) => {
            if same_group {
                rules.ccd_l
            } else {
                burst
            }
        }
        (Read, Write) => rules.cl + burst + rules.rtrs - rules.cwl,
        (Write, Read) if !same_rank => (rules.cwl + burst + rules.rtrs).saturating_sub(rules.cl),
        (Write, Read) => rules.cwl + burst + if same_group { rules.wtr_l } else { rules.wtr_s },
        _ => 0,
    }
}

#[test]
fn random_traffic_keeps_every_rule_and_loses_nothing() {
    for (seed, ranks) in [(1, 1), (2, 2)] {
        let rules = rules(&DramSpec { ranks, t_refi_ns: 2000.0, ..spec() });
        let mut random = Random::new(seed);
        let arrivals: Vec<(u64, u64, bool)> =
            (0..1500).map(|i| (i * 16, random.below(1 << 14), random.below(3) == 0)).collect();
        let log = drive(&rules, 500, &arrivals);
        let mut logged: Vec<Logged> = Vec::new();
        for &(clock, sent) in &log {
            match sent {
                Sent::Row(command, at) => logged.push(Logged { clock, command, at }),
                Sent::Line { line, write, .. } => {
                    let command = if write { Command::Write } else { Command::Read };
                    logged.push(Logged { clock, command, at: rules.place(line) });
                }
                Sent::Refresh(rank) => {
                    let near = logged.iter().rev().take(200).filter(|one| one.at.rank == rank);
                    assert!(near.clone().all(|one| one.command != Precharge || one.clock + rules.rp <= clock));
                    let later = log.iter().filter(|(at, _)| (clock + 1..clock + rules.rfc).contains(at));
                    let touches = |sent: &Sent| match sent {
                        Sent::Row(_, at) => at.rank == rank,
                        Sent::Line { line, .. } => rules.place(*line).rank == rank,
                        Sent::PrechargeAll(other) | Sent::Refresh(other) => *other == rank,
                    };
                    assert!(later.clone().all(|(_, sent)| !touches(sent)), "a command during the refresh at {clock}");
                }
                Sent::PrechargeAll(_) => {}
            }
        }
        for (i, b) in logged.iter().enumerate() {
            for a in logged[..i].iter().rev().take(100) {
                assert!(b.clock > a.clock, "two commands in clock {}", b.clock);
                let least = least_distance(&rules, a, b);
                assert!(b.clock - a.clock >= least, "{:?} {} after {:?}", b.command, b.clock - a.clock, a.command);
            }
            let rank = |one: &&Logged| one.command == Activate && one.at.rank == b.at.rank;
            if b.command == Activate
                && let Some(fourth) = logged[..i].iter().rev().filter(rank).nth(3)
            {
                assert!(b.clock - fourth.clock >= rules.faw, "tFAW at {}", b.clock);
            }
        }
        let count =
            |write| log.iter().filter(|(_, sent)| matches!(sent, Sent::Line { write: w, .. } if *w == write)).count();
        let (reads, writes) = (arrivals.iter().filter(|a| !a.2).count(), arrivals.iter().filter(|a| a.2).count());
        // Some reads are served by waiting writes, some writes merge, and 16 writes stay.
        assert!((reads - 30..=reads).contains(&count(READ)), "{} of {reads} reads", count(READ));
        assert!((writes - 70..=writes - 16).contains(&count(WRITE)), "{} of {writes} writes", count(WRITE));
    }
}

#[test]
fn a_write_waits_for_room_until_another_is_sent() {
    let rules = rules(&DramSpec { write_queue: 6, write_high: 4, write_low: 1, write_idle: 4, ..spec() });
    let mut channel = Channel::new(&rules, |_| 0);
    // Rows of one bank.
    let write = |channel: &mut Channel, row: u64| {
        let line = line(0, row, 0);
        channel.write(line, Writer::Llc, rules.place(line), 0)
    };
    assert!((0..6).all(|row| write(&mut channel, row)));
    assert!((6..8).all(|row| !write(&mut channel, row)));
    let (mut sent, mut let_in) = (Vec::new(), Vec::new());
    for now in 0..5000 {
        if let Some(Sent::Line { .. }) = channel.step(now) {
            sent.push(now);
        }
        let_in.extend(channel.let_in(now).map(|_| now));
    }
    // tRCD; then tCWL, a burst, tWR, tRP and tRCD each.
    assert_eq!(sent[..2], [22, 22 + 88]);
    assert_eq!(let_in, sent[..2]);
}
