//! Whatever comes: the commands that a channel sends obey the device's rules.
//! The checker knows the rules of the data sheet and a list of commands, nothing of the channel's state.

mod order;

use super::*;
use crate::plan::Sends;
use ambulator_base::Random;

const GROUPS: usize = 4;
const BANKS: usize = 16;

/// DDR4-3200 in DRAM clocks.
fn rules() -> Rules {
    Rules {
        cl: 22,
        cwl: 16,
        rcd: 22,
        rp: 22,
        ras: 52,
        ccd_l: 8,
        rtp: 12,
        wr: 24,
        wtr_s: 4,
        wtr_l: 12,
        rrd_s: 4,
        rrd_l: 8,
        rtrs: 2,
        faw: 34,
        burst: 4,
        refi: 12480,
        rfc: 560,
        closed: false,
        read_queue: 64,
        write_queue: 40,
        write_high: 32,
        write_low: 8,
        write_idle: 16,
        row_hit_cap: 16,
        turn_cap: 64,
        turn: 22 + 4 + 2 - 16,
    }
}

impl Channel {
    /// Writes that wait in the queue.
    pub(crate) fn queued_writes(&self) -> u64 {
        (self.writes.len() + self.released) as u64
    }

    /// Every choice of every test is compared with [`Channel::plain_choice`].
    pub(super) fn check_choice(&self, choice: Option<&Choice>) {
        let found = choice.map(|Choice { at, sends, clock, activate }| match sends {
            Sends::Column => (*at, *clock, false),
            Sends::Row => (*at, *clock, true),
            Sends::Both => (*at, *activate, true),
        });
        assert_eq!(found, self.plain_choice());
    }

    /// What [`Channel::serve`] is to choose, by a scan without short cuts: a candidate's place, its command's clock, and
    /// whether it opens its row.
    fn plain_choice(&self) -> Option<(usize, u64, bool)> {
        let Channel { rules, candidates, shared, .. } = self;
        let mut reads = 0;
        let is_seen = |request: &&Request| {
            reads += usize::from(!request.write);
            request.write || reads <= rules.read_queue
        };
        let window: Vec<&Request> = candidates.iter().rev().filter(is_seen).collect();
        let bank_of = |request: &Request| self.banks[request.bank as usize].bank;
        let is_open = |request: &Request| bank_of(request).row == request.row;
        let opens = |request: &Request| {
            let bank = bank_of(request);
            let (group, rank) = (&self.groups[request.group as usize], &self.ranks[request.rank as usize]);
            let closed = match bank.row {
                NO_ROW => request.arrival.max(bank.activate),
                _ => request.arrival.max(bank.precharge) + rules.rp,
            };
            closed.max(group.activate).max(rank.activate).max(rank.activations[0])
        };
        let column = |request: &Request| {
            let (group, rank) = (&self.groups[request.group as usize], &self.ranks[request.rank as usize]);
            let (floor, latency) = match request.write {
                true => (shared.write_floor, rules.cwl),
                false => (shared.read_floor.max(group.read).max(rank.read), rules.cl),
            };
            let other_rank = if request.rank == shared.rank { 0 } else { shared.bus + rules.rtrs };
            let free = group.column.max(floor).max(other_rank.saturating_sub(latency));
            request.arrival.max(bank_of(request).column).max(free)
        };
        let is_forced = |at: u64| {
            let oldest = window[0];
            shared.run >= rules.turn_cap
                && (oldest.rank, oldest.write) != (shared.rank, shared.write)
                && at >= oldest.arrival + u64::from(rules.turn_cap) * rules.burst
                && at >= self.ranks[oldest.rank as usize].refreshed
        };
        let place = |request: &Request| candidates.iter().position(|other| other.number == request.number);
        let mut best: Option<(u64, bool, usize)> = None;
        let mut take = |at: u64, opens: bool, age: usize| {
            if best.is_none_or(|best| (at, opens) < (best.0, best.1)) {
                best = Some((at, opens, age));
            }
        };
        // When older requests can be sent, by whether they write.
        let mut older = [Vec::new(), Vec::new()];
        for (age, &request) in window.iter().enumerate() {
            let bank = bank_of(request);
            let ahead: Vec<&&Request> = window[..age].iter().filter(|other| other.bank == request.bank).collect();
            if !is_open(request) {
                // For the oldest request of each bank.
                if ahead.is_empty() {
                    take(opens(request), true, age);
                    older[usize::from(request.write)].push(opens(request) + rules.rcd);
                }
                continue;
            }
            let at = column(request);
            let others: Vec<_> = ahead.iter().filter(|other| !is_open(other)).collect();
            if others.iter().any(|other| at >= other.arrival.max(bank.precharge))
                || (!others.is_empty() && bank.hits >= rules.row_hit_cap)
                || (age > 0 && is_forced(at))
            {
                continue;
            }
            let [reads, writes] = &older;
            let delays = writes.iter().any(|&write| at + rules.turn > write && reads.iter().all(|&read| write <= read));
            if !request.write && bank.opener != request.number && delays {
                continue;
            }
            if !request.write || ahead.is_empty() {
                older[usize::from(request.write)].push(at);
            }
            take(at, false, age);
        }
        best.and_then(|(at, opens, age)| Some((place(window[age])?, at, opens)))
    }
}

fn channel(rules: Rules, ranks: usize) -> Channel {
    let mut channel = Channel::new(rules, ranks, GROUPS, BANKS, |rank| rules.refi - rank as u64 * rules.refi / 2);
    channel.keep_log(true);
    channel
}

/// Every command that stays.
fn sent(mut channel: Channel) -> Vec<Sent> {
    let mut sent = Vec::new();
    channel.take_log(true, &mut sent);
    sent
}

/// A request for column `column` of a row.
fn request(arrival: u64, bank: usize, row: u32, column: u64, write: bool) -> Request {
    Request {
        arrival,
        line: (u64::from(row) << 10 | bank as u64) << 7 | column,
        row,
        number: 0,
        sent: 0,
        bank: bank as u16,
        group: (bank / BANKS * GROUPS + bank % GROUPS) as u16,
        rank: (bank / BANKS) as u8,
        write,
        table: false,
        batch: 0,
    }
}

/// The first rule that the commands break.
fn broken(rules: &Rules, sent: &[Sent]) -> Option<String> {
    let latency = |write| if write { rules.cwl } else { rules.cl };
    let columns: Vec<(Request, u64)> = sent
        .iter()
        .filter_map(|sent| match *sent {
            Sent::Column { request, column, .. } => Some((request, column)),
            Sent::Unused(..) | Sent::Refresh { .. } => None,
        })
        .collect();
    // Pairs of column commands.
    for (at, &(a, from)) in columns.iter().enumerate() {
        for &(b, to) in columns[at + 1..].iter().take(40) {
            let (end, start) = (from + latency(a.write) + rules.burst, to + latency(b.write));
            let gap = if a.rank != b.rank || (!a.write && b.write) { rules.rtrs } else { 0 };
            if to < from || start < end + gap {
                return Some(format!("data overlap: {a:?} at {from}, {b:?} at {to}"));
            }
            if a.group == b.group && to < from + rules.ccd_l {
                return Some(format!("tCCD_L: {from}, {to}"));
            }
            let wtr = if a.group == b.group { rules.wtr_l } else { rules.wtr_s };
            if a.write && !b.write && a.rank == b.rank && to < end + wtr {
                return Some(format!("tWTR: {a:?} at {from}, {b:?} at {to}"));
            }
        }
    }
    // Activations of each rank, in order.
    for rank in 0..4u8 {
        let mut acts: Vec<(u64, u16)> = sent
            .iter()
            .filter_map(|sent| match *sent {
                Sent::Column { request, row, .. } => Some((row?.activate, request.group, request.rank)),
                Sent::Unused(bank, row) => {
                    let bank = usize::from(bank);
                    Some((row.activate, (bank / BANKS * GROUPS + bank % GROUPS) as u16, (bank / BANKS) as u8))
                }
                Sent::Refresh { .. } => None,
            })
            .filter_map(|(at, group, of)| (of == rank).then_some((at, group)))
            .collect();
        acts.sort_unstable();
        for pair in acts.windows(2) {
            let least = if pair[0].1 == pair[1].1 { rules.rrd_l } else { rules.rrd_s };
            if pair[1].0 < pair[0].0 + least {
                return Some(format!("tRRD: {pair:?}"));
            }
        }
        if let Some(five) = acts.windows(5).find(|five| five[4].0 < five[0].0 + rules.faw) {
            return Some(format!("tFAW: {five:?}"));
        }
        for (at, act) in acts.iter().enumerate() {
            if let Some(near) =
                acts[at + 1..].iter().take(4).find(|next| next.1 == act.1 && next.0 < act.0 + rules.rrd_l)
            {
                return Some(format!("tRRD_L: {act:?}, {near:?}"));
            }
        }
    }
    // Each bank's life: the open row, its activation, and when it can be precharged.
    let mut banks: std::collections::HashMap<u16, (Option<u32>, u64, u64)> = Default::default();
    let mut busy: std::collections::HashMap<usize, u64> = Default::default();
    let mut closed_until: std::collections::HashMap<u16, u64> = Default::default();
    let opens = |state: &mut (Option<u32>, u64, u64), opened: &Opened, free: u64| {
        let Opened { row, arrival, activate, precharge } = *opened;
        let closes = precharge.is_some_and(|at| state.2 <= at && at + rules.rp <= activate);
        if closes != state.0.is_some() || closes != precharge.is_some() {
            return Some(format!("precharge at {precharge:?}, not from {} on: {opened:?}", state.2));
        }
        let earliest = free.max(if state.0.is_some() { state.2.max(arrival) + rules.rp } else { arrival });
        *state = (Some(row), activate, activate + rules.ras);
        (activate < earliest).then(|| format!("activation at {activate}, not before {earliest}: {opened:?}"))
    };
    for one in sent {
        let free =
            |bank: u16, busy: &std::collections::HashMap<usize, u64>, closed: &std::collections::HashMap<u16, u64>| {
                let rank = busy.get(&(usize::from(bank) / BANKS)).copied().unwrap_or(0);
                rank.max(closed.get(&bank).copied().unwrap_or(0))
            };
        match *one {
            Sent::Unused(bank, ref opened) => {
                let state = banks.entry(bank).or_insert((None, 0, 0));
                if let Some(broken) = opens(state, opened, free(bank, &busy, &closed_until)) {
                    return Some(broken);
                }
            }
            Sent::Refresh { rank, due, begin } => {
                let mut earliest = due;
                for (&bank, state) in banks.iter_mut().filter(|(bank, _)| **bank as usize / BANKS == rank) {
                    if state.0.take().is_some() {
                        earliest = earliest.max(state.2.max(due) + rules.rp);
                    }
                    closed_until.insert(bank, begin + rules.rfc);
                }
                if begin < earliest {
                    return Some(format!("a refresh at {begin}, not before {earliest}"));
                }
                busy.insert(rank, begin + rules.rfc);
            }
            Sent::Column { request, column, row, .. } => {
                let state = banks.entry(request.bank).or_insert((None, 0, 0));
                if let Some(opened) = &row
                    && let Some(broken) = opens(state, opened, free(request.bank, &busy, &closed_until))
                {
                    return Some(broken);
                }
                if state.0 != Some(request.row) {
                    return Some(format!("{request:?}: its row is not open"));
                }
                if column < state.1 + rules.rcd {
                    return Some(format!("tRCD: {request:?} at {column}"));
                }
                if column < request.arrival {
                    return Some(format!("{request:?} was served at {column}, before it came"));
                }
                let recovered =
                    if request.write { column + rules.cwl + rules.burst + rules.wr } else { column + rules.rtp };
                state.2 = state.2.max(recovered);
                if rules.closed {
                    closed_until.insert(request.bank, state.2 + rules.rp);
                    state.0 = None;
                }
            }
        }
    }
    None
}

/// A random stream; calls come up to `late` clocks out of the order of time.
fn stream(seed: u64, requests: usize, gap: u64, late: u64, ranks: usize, writes: u64) -> Vec<Request> {
    let mut random = Random::new(seed);
    let mut now = 0;
    let mut list: Vec<(u64, Request)> = (0..requests)
        .map(|_| {
            now += random.below(2 * gap + 1);
            let bank =
                random.below((ranks * BANKS) as u64) as usize & if random.below(2) == 0 { 3 } else { usize::MAX };
            let row = random.below(4) as u32;
            let request = request(now, bank, row, random.below(128), random.below(100) < writes);
            (now + random.below(late + 1), request)
        })
        .collect();
    list.sort_by_key(|(called, _)| *called);
    list.into_iter().map(|(_, request)| request).collect()
}

#[test]
fn the_commands_obey_the_devices_rules_and_each_request_is_served_once() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let ranks = 1 << random.below(2);
        let rules = Rules {
            closed: random.below(4) == 0,
            row_hit_cap: 1 + random.below(8) as u32,
            turn_cap: 1 + random.below(80) as u32,
            read_queue: 1 + random.below(64) as usize,
            write_low: random.below(31) as usize,
            write_idle: random.below(32) as usize,
            refi: if random.below(4) == 0 { 0 } else { 2000 },
            rfc: 300,
            ..rules()
        };
        let (gap, late, writes) = (1 + random.below(40), random.below(400), random.below(60));
        let mut channel = channel(rules, ranks);
        let (mut reads, mut log) = (0, Vec::new());
        let requests = stream(seed, 1500, gap, late, ranks, writes);
        for one in &requests {
            if one.write {
                channel.write(*one);
            } else {
                reads += 1;
                let done = channel.read(*one);
                assert!(done > one.arrival);
            }
            // What is taken stays.
            channel.take_log(false, &mut log);
        }
        channel.drain();
        channel.take_log(true, &mut log);
        assert_eq!(broken(&rules, &log), None, "seed {seed}: {rules:?}");
        let served = log.iter().filter(|sent| matches!(sent, Sent::Column { .. })).count() as i64;
        let Tally { forwarded, merged, .. } = channel.tally;
        let bursts = channel.tally.bursts();
        assert_eq!((served, served + forwarded + merged), (bursts, requests.len() as i64), "seed {seed}");
        let sent = log.iter().filter(|sent| matches!(sent, Sent::Column { request, .. } if !request.write)).count();
        assert_eq!(sent as i64 + forwarded, reads, "seed {seed}");
        let numbers: std::collections::HashSet<u32> = log
            .iter()
            .filter_map(|sent| match sent {
                Sent::Column { request, .. } => Some(request.number),
                Sent::Unused(..) | Sent::Refresh { .. } => None,
            })
            .collect();
        assert_eq!(numbers.len() as i64, served, "seed {seed}: each once");
        assert!(channel.filter.iter().all(|count| *count == 0));
    }
}

#[test]
fn refreshes_come_once_in_each_interval_while_requests_come() {
    let rules = rules();
    let mut channel = channel(rules, 2);
    for one in stream(3, 20_000, 8, 200, 2, 30) {
        if one.write {
            channel.write(one);
        } else {
            channel.read(one);
        }
    }
    let log = sent(channel);
    for rank in 0..2 {
        let dues: Vec<u64> = log
            .iter()
            .filter_map(|sent| match sent {
                Sent::Refresh { rank: of, due, .. } if *of == rank => Some(*due),
                _ => None,
            })
            .collect();
        assert!(dues.len() >= 12, "{dues:?}");
        assert!(dues.windows(2).all(|pair| pair[1] == pair[0] + rules.refi), "{dues:?}");
    }
}

#[test]
fn reads_that_open_rows_do_not_starve_a_batch_of_writes() {
    // 48 reads of random rows under way all the time, and a write after every second one.
    for refi in [0, 12480] {
        let rules = Rules { refi, write_high: 54, write_low: 16, write_idle: 32, ..rules() };
        let mut channel = channel(rules, 1);
        let mut random = Random::new(7);
        let mut line = |arrival, write| {
            request(
                arrival,
                random.below(BANKS as u64) as usize,
                random.below(1 << 16) as u32,
                random.below(128),
                write,
            )
        };
        let mut agents = [0u64; 48];
        for step in 0..20_000u64 {
            let agent = (0..agents.len()).min_by_key(|&agent| agents[agent]).unwrap_or(0);
            let now = agents[agent];
            agents[agent] = channel.read(line(now, false));
            if step.is_multiple_of(2) {
                channel.write(line(now, true));
            }
        }
        let waits = sent(channel).into_iter().filter_map(|sent| match sent {
            Sent::Column { request, column, .. } if request.write => Some(column - request.arrival),
            _ => None,
        });
        let longest = waits.max().unwrap_or(0);
        assert!(longest < 38 * (rules.rp + rules.rcd + rules.ras), "{longest} clocks after its batch began");
    }
}

#[test]
fn a_full_write_queue_has_room_when_a_write_leaves() {
    let rules = Rules { refi: 0, write_queue: 6, write_high: 4, write_low: 1, write_idle: 4, ..rules() };
    let mut channel = channel(rules, 1);
    // Rows of one bank: an activation, its write, and a precharge each.
    let apart = rules.rcd + rules.cwl + rules.burst + rules.wr + rules.rp;
    let sent = |number: u64| rules.rcd + number * apart;
    // Who is told a time asks again when it has come.
    let write = |channel: &mut Channel, at: u64, row: u32| {
        let write = request(at, 0, row, 0, true);
        let mut told = channel.write(write);
        while channel.outside.iter().any(|other| other.line == write.line) {
            told = channel.entry(write.line, told);
        }
        told
    };
    // Four wait, and a batch of three begins. Two more fit.
    for row in 0..6 {
        assert_eq!(write(&mut channel, 0, row), 0, "row {row}");
    }
    let mut beside = channel.clone();
    assert_eq!(write(&mut channel, 0, 6), sent(0));
    assert_eq!(write(&mut channel, 0, 7), sent(1));
    // There is room from the clock on at which one has left.
    assert_eq!(write(&mut beside.clone(), sent(0) - 1, 6), sent(0));
    assert_eq!(write(&mut beside, sent(0) + 1, 6), sent(0) + 1);
    // A write of a line that waits needs none.
    assert_eq!(write(&mut beside, sent(0) + 1, 5), sent(0) + 1);
}

#[test]
fn the_write_queue_holds_no_more_than_it_has_room_for() {
    // Reads and writes in the order of time, more than the channel serves. A write that waits for room asks again when
    // it was said to enter. Reads come in between, and delay the writes before it.
    let (mut entries, mut later, mut over) = (0, 0, 0);
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let rules = Rules { refi: 3000, rfc: 300, ..rules() };
        let mut requests = stream(seed, 2500, 4 + random.below(6), 0, 1, 30 + random.below(20));
        (1..).zip(&mut requests).for_each(|(number, one)| one.line = number);
        let mut channel = channel(rules, 1);
        channel.keep_log(true);
        // Told clocks and lines of writes that wait, the earliest first; and by line, when they enter.
        let mut waiting = std::collections::BTreeSet::new();
        let mut entered: Vec<u64> = vec![0; requests.len() + 1];
        for one in &requests {
            while let Some((clock, line)) = waiting.pop_first() {
                if clock > one.arrival {
                    waiting.insert((clock, line));
                    break;
                }
                let enters = channel.entry(line, clock);
                later += usize::from(enters > clock);
                entered[line as usize] = enters;
                if enters > clock {
                    waiting.insert((enters, line));
                }
            }
            if one.write {
                let enters = channel.write(*one);
                entered[one.line as usize] = enters;
                if enters > one.arrival {
                    waiting.insert((enters, one.line));
                }
            } else {
                channel.read(*one);
            }
        }
        let last = requests.last().map_or(0, |one| one.arrival);
        channel.drain();
        let mut log = Vec::new();
        channel.take_log(true, &mut log);
        let writes: Vec<(u64, u64)> = log
            .iter()
            .filter_map(|sent| match sent {
                Sent::Column { request, column, .. } if request.write => {
                    Some((entered[request.line as usize], *column))
                }
                _ => None,
            })
            .collect();
        for (entry, _) in writes.iter().filter(|(entry, _)| *entry <= last) {
            let queued = writes.iter().filter(|(enters, leaves)| enters <= entry && leaves > entry).count();
            entries += 1;
            over += usize::from(queued > rules.write_queue);
        }
    }
    assert!(entries > 5000 && later * 4 > entries, "{later} of {entries} entries came later than was said");
    assert!(over * 50 < entries, "at {over} of {entries} entries more wait than there is room for");
}
