//! A memory controller's channel: its queues, banks and bus, and the order in which it serves requests.
//!
//! The caller learns a read's time when it asks, and it may ask out of the order of time. So the channel keeps
//! a *plan*: the column commands that it has decided on, in the order of their times, each with what it
//! changed. A read that arrives before the end of the plan takes back the commands that it may precede; they
//! are then planned again beside it, by the rules of `DramSpec`. So each request meets the queue of its own
//! time. Who was told the time of a read that was taken back asks again when that time has come
//! ([`Channel::arrival`]).
//!
//! Writes gather until a batch is *released*: from then on they are candidates as reads are. Row hits that came
//! later go before them only where that does not delay them.

mod choice;
mod state;
mod writes;

use crate::awaited::{Awaited, Told};
use crate::dram_log::{Opened, Sent};
use crate::plan::{Entrant, Plan, Step};
use ambulator_base::State;
use choice::Choice;
pub(crate) use state::{Bank, Group, NO_ROW, Outcome, Request, Rules, Shared, Tally};
use state::{BankQueue, Rank};
use std::collections::VecDeque;
use writes::FILTER;

#[derive(Clone, Debug, State)]
pub(crate) struct Channel {
    #[state(skip)]
    rules: Rules,
    banks: Box<[BankQueue]>,
    groups: Box<[Group]>,
    ranks: Box<[Rank]>,
    shared: Shared,
    /// Reads and released writes that are not in the plan, by arrival, the oldest last: it is the first to go,
    /// and what is taken back or comes late is older than most.
    candidates: Vec<Request>,
    /// How many of them are writes, and when the last batch was released.
    released: usize,
    release: u64,
    /// Writes that are not released, by arrival.
    writes: Vec<Request>,
    /// Writes that wait for room in the write queue, first come, first served.
    outside: VecDeque<Request>,
    /// [`Rules::quiet`].
    #[state(skip)]
    quiet: usize,
    filter: Box<[u8]>,
    plan: Plan,
    awaited: Awaited,
    number: u32,
    scan: u64,
    pub tally: Tally,
    /// If somebody wants them: the commands that stay, as far as they have not been taken.
    #[state(skip)]
    log: Option<Vec<Sent>>,
    /// Takes back all commands after the arrival of a read, without a search.
    #[cfg(test)]
    #[state(skip)]
    exhaustive: bool,
}

impl Channel {
    /// An idle channel of `ranks` ranks with `groups` bank groups and `banks` banks each. `first_refresh` says
    /// when a rank's first refresh is due.
    pub fn new(
        rules: Rules,
        ranks: usize,
        groups: usize,
        banks: usize,
        first_refresh: impl Fn(usize) -> u64,
    ) -> Channel {
        let bank = Bank { row: NO_ROW, hits: 0, activate: 0, column: 0, precharge: 0 };
        let rank = |rank| Rank {
            activations: [0; 4],
            activate: 0,
            read: 0,
            due: if rules.refi == 0 { u64::MAX } else { first_refresh(rank) },
            refreshed: 0,
        };
        Channel {
            rules,
            banks: vec![BankQueue { bank, scan: 0, blocked: 0 }; ranks * banks].into(),
            groups: vec![Group::default(); ranks * groups].into(),
            ranks: (0..ranks).map(rank).collect(),
            shared: Shared::default(),
            candidates: Vec::with_capacity(256),
            released: 0,
            release: 0,
            writes: Vec::with_capacity(2 * rules.write_high + 2),
            outside: VecDeque::new(),
            quiet: rules.quiet(),
            filter: vec![0; FILTER].into(),
            plan: Plan::new(banks, 8 * (rules.rp + rules.rcd + rules.cl)),
            awaited: Awaited::new(),
            number: 0,
            scan: 0,
            tally: Tally::default(),
            log: None,
            #[cfg(test)]
            exhaustive: false,
        }
    }

    /// Serves a read; returns the clock at which the last of its data has passed.
    #[inline]
    pub fn read(&mut self, mut request: Request) -> u64 {
        if self.filter[Self::filter_of(request.line)] > 0 && self.waits_to_be_written(&request) {
            return self.forward(&request);
        }
        self.number = self.number.wrapping_add(1);
        request.number = self.number;
        let bank = &self.banks[request.bank as usize].bank;
        let Some(first) = self.plan.first_after(&request, bank, &self.rules) else {
            return self.forward(&request);
        };
        #[cfg(test)]
        let first = if self.exhaustive { self.plan.first_from(request.arrival) } else { first };
        if self.plan.end() > first || self.plan.refresh_due() > request.arrival {
            self.take_back(first, request.arrival);
        }
        let latency = self.rules.cl + self.rules.burst;
        // If nothing else waits, or what waits arrives only then.
        let next = self.candidates.last().map_or(u64::MAX, |oldest| oldest.arrival);
        if request.arrival < next && self.writes.len() <= self.quiet {
            let choice = self.alone(&request);
            if choice.column <= next && choice.column < self.ranks[request.rank as usize].due {
                self.send(Some(&request), &choice);
                self.awaited.tell(request.line, choice.column + latency);
                return choice.column + latency;
            }
        }
        insert_late(&mut self.candidates, &request);
        loop {
            let (number, column) = self.serve();
            if number == request.number {
                self.awaited.tell(request.line, column + latency);
                return column + latency;
            }
        }
    }

    /// [`Told::way`] of the line that has just been read.
    pub fn set_way(&mut self, line: u64, way: u64) {
        self.awaited.set_way(line, way);
    }

    /// What was told last of the read of a line, and is planned as far as the requests say that have come so far; `None`
    /// for a read of long ago.
    #[inline]
    pub fn arrival(&mut self, line: u64) -> Option<Told> {
        while self.awaited.is_open(line) {
            self.serve();
        }
        self.awaited.retell(line)
    }

    /// From now on commands are kept until they are taken, or no longer.
    pub fn keep_log(&mut self, keep: bool) {
        self.log = keep.then(Vec::new);
    }

    /// Refreshes that were due by `clock` and that no request has met yet: they came while their ranks were idle.
    pub fn idle_refreshes(&self, clock: u64) -> i64 {
        let of_rank = |rank: &Rank| clock.checked_sub(rank.due).map_or(0, |late| late / self.rules.refi + 1);
        self.ranks.iter().map(of_rank).sum::<u64>() as i64
    }

    /// Time goes on `clocks` later, without the refreshes in between.
    pub fn skip(&mut self, clocks: u64) {
        if let Some(intervals) = clocks.checked_div(self.rules.refi) {
            self.ranks.iter_mut().for_each(|rank| rank.due += intervals * self.rules.refi);
        }
    }

    /// Moves the commands that can no longer be taken back to `to`; with `all`, also the others.
    pub fn take_log(&mut self, all: bool, to: &mut Vec<Sent>) {
        let open = if all { 0 } else { self.plan.len() };
        if let Some(log) = &mut self.log {
            let taken = log.len().saturating_sub(open);
            to.extend(log.drain(..taken));
        }
    }

    /// The number of the latest request.
    pub fn latest_request(&self) -> u32 {
        self.number
    }

    /// Serves all that waits.
    pub fn drain(&mut self) {
        while !self.candidates.is_empty() || !self.writes.is_empty() {
            if self.candidates.is_empty() {
                self.release(self.writes.len(), self.plan.last_column());
            }
            self.serve();
        }
    }

    /// Takes back the commands of the plan from number `first` on, and refreshes after clock `arrival`.
    fn take_back(&mut self, first: u64, arrival: u64) {
        self.awaited.reserve(self.plan.capacity());
        while self.plan.end() > first || self.plan.refresh_due() > arrival {
            if let Some(log) = &mut self.log {
                // Commands from before the log are not in it.
                log.pop();
            }
            match self.plan.pop() {
                Some(Step::Command(command)) => {
                    let entrant = command.entrant;
                    let request = &command.request;
                    self.banks[request.bank as usize].bank = command.bank;
                    self.groups[request.group as usize] = command.group;
                    let rank = &mut self.ranks[request.rank as usize];
                    if command.outcome != Outcome::Hit {
                        let [first, second, third, _] = rank.activations;
                        rank.activations = [command.activation, first, second, third];
                        rank.activate = command.activate;
                    }
                    self.shared = command.shared;
                    self.tally.count(request.table, command.outcome, command.held, -1);
                    if request.write {
                        rank.read = command.read;
                        self.released += 1;
                        writes::count_in(&mut self.filter, request.line);
                    } else {
                        self.awaited.take_back(request.line);
                    }
                    insert_late(&mut self.candidates, request);
                    if entrant.number != 0 {
                        self.leave(entrant);
                    }
                }
                Some(Step::Refresh { rank, due, refreshed, banks }) => {
                    self.tally.refreshes -= ((self.ranks[rank].due - due) / self.rules.refi) as i64;
                    self.ranks[rank].due = due;
                    self.ranks[rank].refreshed = refreshed;
                    let first = rank * banks.len();
                    self.banks[first..].iter_mut().zip(banks).for_each(|(slot, bank)| slot.bank = *bank);
                }
                None => {}
            }
        }
    }

    /// Plans the next command; returns the number of its request, and its clock.
    #[inline(never)]
    fn serve(&mut self) -> (u32, u64) {
        loop {
            let best = match self.candidates.as_slice() {
                [only] if !only.write => Some(self.alone(only)),
                _ => self.best(),
            };
            #[cfg(test)]
            assert_eq!(best.as_ref().map(|best| (best.at, best.column)), self.plain_choice());
            if self.writes.len() > self.quiet && self.releases(best.as_ref()) {
                continue;
            }
            let Some(best) = best else { unreachable!("a request waits") };
            let &Request { rank, arrival, number, .. } = &self.candidates[best.at];
            if best.column >= self.ranks[rank as usize].due {
                self.refresh(rank as usize, arrival);
                continue;
            }
            self.send(None, &best);
            return (number, best.column);
        }
    }

    /// Refreshes a rank, which the request that arrived at clock `arrival` meets.
    #[cold]
    fn refresh(&mut self, number: usize, arrival: u64) {
        let per_rank = self.banks.len() / self.ranks.len();
        let Rules { refi, rfc, rp, .. } = self.rules;
        let rank = &mut self.ranks[number];
        let banks = &mut self.banks[number * per_rank..][..per_rank];
        let states = || banks.iter().map(|slot| slot.bank);
        // Of those in a time without requests, only the last counts.
        let due = rank.due + arrival.saturating_sub(rank.due) / refi * refi;
        self.plan.push_refresh(number, due, rank.due, rank.refreshed, states());
        let ready = |bank: Bank| if bank.row == NO_ROW { bank.activate } else { bank.precharge.max(due) + rp };
        let begin = states().map(ready).max().unwrap_or(0).max(due);
        for slot in banks {
            slot.bank = Bank { row: NO_ROW, hits: 0, activate: begin + rfc, ..slot.bank };
        }
        self.tally.refreshes += ((due + refi - rank.due) / refi) as i64;
        rank.due = due + refi;
        rank.refreshed = begin + rfc;
        if let Some(log) = &mut self.log {
            log.push(Sent::Refresh { rank: number, due, begin });
        }
    }

    /// Sends the command of a request that does not wait, or of the candidate of `choice`.
    #[inline(always)]
    fn send(&mut self, alone: Option<&Request>, choice: &Choice) {
        let rules = &self.rules;
        let Choice { at, column, activate, outcome } = *choice;
        let request = alone.unwrap_or_else(|| &self.candidates[at]);
        let after_refresh = self.plan.ends_with_refresh();
        // Field by field: a whole command would be made elsewhere and copied.
        let command = self.plan.push(request.arrival);
        command.request = *request;
        if alone.is_none() {
            if at + 1 == self.candidates.len() {
                self.candidates.pop();
            } else {
                self.candidates.remove(at);
            }
        }
        let request = &command.request;
        let bank = &mut self.banks[request.bank as usize].bank;
        let group = &mut self.groups[request.group as usize];
        let rank = &mut self.ranks[request.rank as usize];
        let held = outcome == Outcome::Miss && request.arrival < rank.refreshed && column >= rank.refreshed;
        command.column = column;
        command.outcome = outcome;
        command.held = held;
        command.after_refresh = after_refresh;
        command.entrant.number = 0;
        command.activation = rank.activations[0];
        command.activate = rank.activate;
        command.read = rank.read;
        command.bank = *bank;
        command.group = *group;
        command.shared = self.shared;
        if outcome == Outcome::Hit {
            bank.hits += 1;
        } else {
            let [_, second, third, fourth] = rank.activations;
            rank.activations = [second, third, fourth, activate + rules.faw];
            rank.activate = activate + rules.rrd_s;
            group.activate = activate + rules.rrd_l;
            bank.row = request.row;
            bank.hits = 1;
            bank.column = activate + rules.rcd;
            bank.precharge = activate + rules.ras;
        }
        group.column = column + rules.ccd_l;
        let shared = &mut self.shared;
        let run = if shared.goes_on_with(request) { shared.run.saturating_add(1) } else { 1 };
        if request.write {
            let end = column + rules.cwl + rules.burst;
            bank.precharge = bank.precharge.max(end + rules.wr);
            group.read = end + rules.wtr_l;
            rank.read = end + rules.wtr_s;
            *shared = Shared {
                read_floor: if self.ranks.len() == 1 { end + rules.wtr_s } else { end.saturating_sub(rules.cl) },
                write_floor: column + rules.burst,
                bus: end,
                rank: request.rank,
                write: true,
                run,
            };
            self.released -= 1;
            writes::count_out(&mut self.filter, request.line);
            if let Some(mut next) = self.outside.pop_front() {
                command.entrant = Entrant { number: next.number, line: next.line, asked: next.arrival };
                next.arrival = next.arrival.max(column);
                writes::enter(&mut self.filter, &mut self.writes, &next);
            }
        } else {
            bank.precharge = bank.precharge.max(column + rules.rtp);
            *shared = Shared {
                read_floor: column + rules.burst,
                write_floor: column + rules.turn,
                bus: column + rules.cl + rules.burst,
                rank: request.rank,
                write: false,
                run,
            };
            if alone.is_none() {
                self.awaited.plan(request.line, column + rules.cl + rules.burst);
            }
        }
        if rules.closed {
            bank.row = NO_ROW;
            bank.activate = bank.precharge + rules.rp;
        }
        if let Some(log) = &mut self.log {
            let closed = if rules.closed { Some(bank.precharge) } else { None };
            let precharge = (outcome == Outcome::Conflict).then(|| request.arrival.max(command.bank.precharge));
            let row = (outcome != Outcome::Hit).then_some(Opened { activate, precharge });
            log.push(Sent::Column { request: *request, column, row, closed });
        }
        self.tally.count(request.table, outcome, held, 1);
    }
}

/// The same for a list with the oldest last.
#[inline(always)]
fn insert_late(list: &mut Vec<Request>, request: &Request) {
    let mut place = list.len();
    while place > 0 && list[place - 1].arrival <= request.arrival {
        place -= 1;
    }
    while place < list.len() && request.precedes(&list[place]) {
        place += 1;
    }
    list.insert(place, *request);
}

#[cfg(test)]
mod tests;
