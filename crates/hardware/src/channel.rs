//! A memory controller's channel: its queues, banks, buses, and the order in which requests are served.
//!
//! First ready, first come, first served: of the oldest requests of the queue the one whose column command can
//! be sent first is served first; a row hit passes older requests of its bank, up to a limit. Writes gather and
//! are drained in batches between watermarks. Refresh closes rows and holds what has not sent its command.
//!
//! The caller learns a read's time when it asks, and may ask out of the order of time. So the channel keeps a
//! *plan*: the requests that it has served so far, in order, each with what it changed. A read that arrives
//! before the end of the plan takes back what was planned after its arrival, and the requests that it took
//! back are planned again, with it. Only times that were already returned stay as they are.

use std::collections::VecDeque;

/// Timing rules, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub clock: u64,
    pub cl: u64,
    pub cwl: u64,
    pub rcd: u64,
    pub rp: u64,
    pub ras: u64,
    pub ccd_s: u64,
    pub ccd_l: u64,
    pub rtp: u64,
    pub wr: u64,
    pub wtr_s: u64,
    pub wtr_l: u64,
    pub rrd_s: u64,
    pub rrd_l: u64,
    pub rtrs: u64,
    pub faw: u64,
    pub burst: u64,
    pub refi: u64,
    pub rfc: u64,
    pub closed: bool,
    /// Requests that the scheduler considers, oldest first.
    pub window: usize,
    /// Writes at which a drain begins, whatever else waits; where it ends; and where an idle channel begins.
    pub high: usize,
    pub low: usize,
    pub idle: usize,
    /// Row hits that may pass an older request of their bank.
    pub passes: u32,
}

pub(crate) const NO_ROW: u32 = u32::MAX;
/// Served requests that can be taken back.
const PLAN: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub arrival: u64,
    pub line: u64,
    pub row: u32,
    pub bank: u16,
    pub group: u16,
    pub rank: u16,
    pub write: bool,
    pub table: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Hit,
    Miss,
    Conflict,
}

#[derive(Clone, Copy, Debug)]
struct Bank {
    row: u32,
    hits: u32,
    activate: u64,
    column: u64,
    precharge: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    column: u64,
    read: u64,
    activate: u64,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    /// Its last four activations, a ring.
    activations: [u64; 4],
    oldest: usize,
    activate: u64,
    refresh: u64,
}

/// What all requests of the channel share.
#[derive(Clone, Copy, Debug, Default)]
struct Common {
    column: u64,
    bus: u64,
    rank: u16,
    read: u64,
    write: u64,
    draining: usize,
    /// Nothing of the batch is sent before.
    drain_from: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pick {
    request: Request,
    column: u64,
    outcome: Outcome,
    bank: Bank,
    group: Group,
    rank: Rank,
    common: Common,
}

#[derive(Clone, Debug)]
pub(crate) struct Channel {
    rules: Rules,
    banks: Box<[Bank]>,
    groups: Box<[Group]>,
    ranks: Box<[Rank]>,
    common: Common,
    /// Requests that are not in the plan, by arrival.
    reads: Vec<Request>,
    writes: Vec<Request>,
    plan: VecDeque<Pick>,
    /// By bank: the stamp of the scan, and when the oldest request for another row precharges.
    scan: u64,
    conflicts: Box<[(u64, u64)]>,
    pub served: u64,
}

#[derive(Clone, Copy)]
struct Best {
    at: usize,
    column: u64,
    activate: u64,
    outcome: Outcome,
}

impl Channel {
    pub fn new(rules: Rules, ranks: usize, groups: usize, banks: usize, offset: impl Fn(usize) -> u64) -> Channel {
        let bank = Bank { row: NO_ROW, hits: 0, activate: 0, column: 0, precharge: 0 };
        let rank = |rank| Rank { activations: [0; 4], oldest: 0, activate: 0, refresh: offset(rank) };
        Channel {
            rules,
            banks: vec![bank; ranks * banks].into(),
            groups: vec![Group::default(); ranks * groups].into(),
            ranks: (0..ranks).map(rank).collect(),
            common: Common::default(),
            reads: Vec::new(),
            writes: Vec::new(),
            plan: VecDeque::with_capacity(PLAN + 1),
            scan: 0,
            conflicts: vec![(0, 0); ranks * banks].into(),
            served: 0,
        }
    }

    /// Serves a read; returns the tick at which the last of its data has passed.
    pub fn read(&mut self, request: Request) -> u64 {
        let arrival = request.arrival;
        if self.writes.iter().any(|write| write.line == request.line && write.arrival <= arrival) {
            return arrival + self.rules.clock;
        }
        while self.plan.back().is_some_and(|last| last.column > arrival) {
            self.take_back();
        }
        let place = self.reads.partition_point(|other| other.arrival <= arrival);
        self.reads.insert(place, request);
        loop {
            let pick = self.serve();
            if !pick.request.write && pick.request.line == request.line && pick.request.arrival == arrival {
                return pick.column + self.rules.cl + self.rules.burst;
            }
        }
    }

    /// Queues a write.
    pub fn write(&mut self, request: Request) {
        if self.writes.iter().any(|write| write.line == request.line) {
            return;
        }
        let place = self.writes.partition_point(|other| other.arrival <= request.arrival);
        self.writes.insert(place, request);
        if self.writes.len() > 2 * self.rules.high {
            self.serve();
        }
    }

    /// Serves all that wait.
    pub fn drain(&mut self) {
        while !self.reads.is_empty() || !self.writes.is_empty() {
            if self.reads.is_empty() && self.common.draining == 0 {
                self.common.draining = self.writes.len();
            }
            self.serve();
        }
    }

    fn take_back(&mut self) {
        let Some(pick) = self.plan.pop_back() else { return };
        let request = pick.request;
        self.banks[request.bank as usize] = pick.bank;
        self.groups[request.group as usize] = pick.group;
        // A refresh that was done stays done.
        let refresh = self.ranks[request.rank as usize].refresh;
        if refresh == pick.rank.refresh {
            self.ranks[request.rank as usize] = pick.rank;
        }
        self.common = pick.common;
        let list = if request.write { &mut self.writes } else { &mut self.reads };
        let place = list.partition_point(|other| other.arrival <= request.arrival);
        list.insert(place, request);
        self.served -= 1;
    }

    /// Serves the next request.
    fn serve(&mut self) -> Pick {
        loop {
            let write = self.turns_to_writes();
            let Some(best) = self.best(write) else { unreachable!("nothing waits") };
            let request = if write { self.writes[best.at] } else { self.reads[best.at] };
            let rank = &mut self.ranks[request.rank as usize];
            if self.rules.refi > 0 && best.column >= rank.refresh {
                self.refresh(request.rank as usize, request.arrival);
                continue;
            }
            if !write && self.begins_drain(best.column) {
                continue;
            }
            return self.apply(write, best);
        }
    }

    fn turns_to_writes(&self) -> bool {
        self.common.draining > 0 && !self.writes.is_empty()
    }

    /// Whether a batch of writes goes before a read whose command could be sent at `column`.
    fn begins_drain(&mut self, column: u64) -> bool {
        let Rules { high, low, idle, .. } = self.rules;
        let full = self.writes.get(high - 1).map(|write| write.arrival);
        let waiting = self.writes.get(idle).map(|write| write.arrival.max(self.common.column));
        let first = self.reads.first().map_or(u64::MAX, |read| read.arrival);
        let from = match (full, waiting) {
            (Some(full), _) if full <= column => full,
            (_, Some(waiting)) if waiting < first => waiting,
            _ => return false,
        };
        let from = from.max(self.common.column);
        let arrived = self.writes.partition_point(|write| write.arrival <= from);
        self.common.draining = arrived.saturating_sub(low);
        self.common.drain_from = from;
        self.common.draining > 0
    }

    /// The request whose column command can be sent first.
    #[inline]
    fn best(&mut self, write: bool) -> Option<Best> {
        let Channel { rules, banks, groups, ranks, common, conflicts, .. } = self;
        self.scan += 1;
        let scan = self.scan;
        let (list, count) = if write {
            (&self.writes, common.draining.min(self.writes.len()).min(rules.window))
        } else {
            (&self.reads, self.reads.len().min(rules.window))
        };
        let floor = if write { common.drain_from } else { 0 };
        let latency = if write { rules.cwl } else { rules.cl };
        let turned = if write { common.write } else { common.read };
        let mut best: Option<Best> = None;
        for (at, request) in list[..count].iter().enumerate() {
            let arrival = request.arrival.max(floor);
            if best.is_some_and(|best| arrival >= best.column) {
                break;
            }
            let bank = &banks[request.bank as usize];
            let group = &groups[request.group as usize];
            let conflict = &mut conflicts[request.bank as usize];
            let blocked = conflict.0 == scan;
            let rank = &ranks[request.rank as usize];
            let mut activate = 0;
            let (ready, outcome) = if bank.row == request.row {
                if blocked && (arrival > conflict.1 || bank.hits >= rules.passes) {
                    continue;
                }
                (arrival.max(bank.column), Outcome::Hit)
            } else {
                if blocked {
                    continue;
                }
                let (from, outcome) = if bank.row == NO_ROW {
                    *conflict = (scan, arrival.max(bank.activate));
                    (arrival.max(bank.activate), Outcome::Miss)
                } else {
                    let precharge = arrival.max(bank.precharge);
                    *conflict = (scan, precharge);
                    (bank.activate.max(precharge + rules.rp), Outcome::Conflict)
                };
                activate = from
                    .max(group.activate)
                    .max(rank.activate)
                    .max(rank.activations[rank.oldest] + rules.faw);
                (activate + rules.rcd, outcome)
            };
            let bus = common.bus + if request.rank == common.rank { 0 } else { rules.rtrs };
            let mut column = ready.max(group.column).max(turned).max(bus.saturating_sub(latency)).max(common.column);
            if !write {
                column = column.max(group.read);
            }
            if best.is_none_or(|best| column < best.column) {
                best = Some(Best { at, column, activate, outcome });
            }
        }
        best
    }

    fn refresh(&mut self, number: usize, arrival: u64) {
        let rules = &self.rules;
        let per_rank = self.banks.len() / self.ranks.len();
        let rank = &mut self.ranks[number];
        // Refreshes of a time without requests.
        let due = rank.refresh + arrival.saturating_sub(rank.refresh) / rules.refi * rules.refi;
        let banks = &mut self.banks[number * per_rank..][..per_rank];
        let ready = |bank: &Bank| if bank.row == NO_ROW { bank.activate } else { bank.precharge.max(due) + rules.rp };
        let begin = banks.iter().map(ready).max().unwrap_or(0).max(due);
        for bank in banks {
            *bank = Bank { row: NO_ROW, hits: 0, activate: begin + rules.rfc, ..*bank };
        }
        rank.refresh = due + rules.refi;
        // What was served before it cannot be taken back.
        self.plan.clear();
    }

    fn apply(&mut self, write: bool, best: Best) -> Pick {
        let request = if write { self.writes.remove(best.at) } else { self.reads.remove(best.at) };
        let rules = &self.rules;
        let Best { column, activate, outcome, .. } = best;
        let bank = &mut self.banks[request.bank as usize];
        let group = &mut self.groups[request.group as usize];
        let rank = &mut self.ranks[request.rank as usize];
        let common = &mut self.common;
        let pick = Pick { request, column, outcome, bank: *bank, group: *group, rank: *rank, common: *common };
        if outcome == Outcome::Hit {
            bank.hits += 1;
        } else {
            rank.activations[rank.oldest] = activate;
            rank.oldest = (rank.oldest + 1) % 4;
            rank.activate = activate + rules.rrd_s;
            group.activate = activate + rules.rrd_l;
            *bank = Bank {
                row: request.row,
                hits: 1,
                activate: 0,
                column: activate + rules.rcd,
                precharge: activate + rules.ras,
            };
        }
        let latency = if write { rules.cwl } else { rules.cl };
        let end = column + latency + rules.burst;
        let recovered = if write { end + rules.wr } else { column + rules.rtp };
        bank.precharge = bank.precharge.max(recovered);
        group.column = column + rules.ccd_l;
        common.column = column;
        common.bus = end;
        common.rank = request.rank;
        if write {
            common.read = end + rules.wtr_s;
            group.read = end + rules.wtr_l;
            common.draining -= 1;
        } else {
            common.write = (end + rules.rtrs).saturating_sub(rules.cwl);
        }
        if rules.closed {
            *bank = Bank { row: NO_ROW, hits: 0, activate: bank.precharge + rules.rp, ..*bank };
        }
        self.served += 1;
        if self.plan.len() == PLAN {
            self.plan.pop_front();
        }
        self.plan.push_back(pick);
        pick
    }
}
