//! A memory controller's channel: its queues, banks and bus, and the order in which it serves requests.
//!
//! The caller learns a read's time when it asks, and it may ask out of the order of time. So the channel keeps
//! a *plan*: the activations and column commands that it has decided on, in the order of their times, each with what it
//! changed. A read that arrives before the end of the plan takes back the commands that it may precede; they
//! are then planned again beside it, by the rules of `DramSpec`. A write takes back what is planned after the
//! batch that begins with it. So each request meets the queue of its own time. Who was told the time of a read
//! that was taken back asks again when that time has come ([`Channel::arrival`]).
//!
//! Writes gather until a batch is *released*: from then on they are candidates as reads are. Row hits that came
//! later go before them only where that does not delay them.

mod choice;
mod state;
mod writes;

use crate::awaited::{Awaited, Told};
use crate::dram_log::{Logged, Opened, Sent};
use crate::plan::{Command, Entrant, Plan, Sends, Step};
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
    /// Reads that were asked for ahead and are not sent yet, and the caller's cycles of their arrivals.
    ahead: Vec<(Request, u64)>,
    /// How many of the candidates are writes, and when the last batch was released, and its number.
    released: usize,
    release: u64,
    batch: u8,
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
    log: Option<Vec<Logged>>,
    /// The rows that were opened in it and have not been used, by bank.
    #[state(skip)]
    opened: Box<[Option<Opened>]>,
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
        let bank = Bank { row: NO_ROW, ..Bank::default() };
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
            ahead: Vec::new(),
            released: 0,
            release: 0,
            batch: 0,
            writes: Vec::with_capacity(2 * rules.write_high + 2),
            outside: VecDeque::new(),
            quiet: rules.quiet(),
            filter: vec![0; FILTER].into(),
            plan: Plan::new(banks, rules.write_queue, 8 * (rules.rp + rules.rcd + rules.cl)),
            awaited: Awaited::new(),
            number: 0,
            scan: 0,
            tally: Tally::default(),
            log: None,
            opened: vec![None; ranks * banks].into(),
            #[cfg(test)]
            exhaustive: false,
        }
    }

    /// Serves a read; returns the clock at which the last of its data has passed.
    #[inline]
    pub fn read(&mut self, mut request: Request) -> u64 {
        self.count_in(&mut request);
        if !self.enters(&request) {
            return self.forward(&request);
        }
        let latency = self.rules.cl + self.rules.burst;
        // If nothing else waits, or what waits arrives only then.
        let next = self.candidates.last().map_or(u64::MAX, |oldest| oldest.arrival);
        if request.arrival < next && self.writes.len() <= self.quiet {
            let choice = self.alone(&request);
            if choice.clock <= next && choice.clock < self.ranks[request.rank as usize].due {
                self.send(Some(&request), &choice);
                return self.tell(&request, choice.clock + latency);
            }
        }
        insert_late(&mut self.candidates, &request);
        loop {
            let (number, column) = self.serve();
            if number == request.number {
                return self.tell(&request, column + latency);
            }
        }
    }

    #[inline(always)]
    fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// A request has come: it gets its number.
    #[inline(always)]
    fn count_in(&mut self, request: &mut Request) {
        request.number = self.next_number();
        request.sent = request.number;
    }

    /// A read that is to arrive in `cycle` of the caller at the earliest, and is sent only later ([`Channel::send_ahead`]).
    /// Returns the earliest clock at which the last of its data can have passed.
    pub fn read_ahead(&mut self, mut request: Request, cycle: u64) -> u64 {
        self.count_in(&mut request);
        let told = request.arrival + self.rules.cl + self.rules.burst;
        self.awaited.tell_open(request.line, told);
        self.ahead.push((request, cycle));
        told
    }

    /// Whether a read was asked for ahead and is not sent yet.
    pub fn is_ahead(&self, line: u64) -> bool {
        self.ahead.iter().any(|(request, _)| request.line == line)
    }

    /// A read that was asked for ahead is sent, if it has not been yet: it arrives at the clock that `arrival` makes of its
    /// cycle, which is not before the one that was said. Returns that clock.
    pub fn send_ahead(&mut self, line: u64, arrival: impl FnOnce(u64) -> u64) -> Option<u64> {
        let (mut request, cycle) = self.take_ahead(line)?;
        let arrival = arrival(cycle);
        self.awaited.put_off(line, arrival - request.arrival);
        // Of those that arrive in the same clock, it is the last now.
        (request.arrival, request.sent) = (arrival, self.next_number());
        self.admit(&request);
        Some(arrival)
    }

    fn take_ahead(&mut self, line: u64) -> Option<(Request, u64)> {
        let at = self.ahead.iter().position(|(request, _)| request.line == line)?;
        Some(self.ahead.remove(at))
    }

    /// A read that was asked for ahead is a candidate from now on.
    fn admit(&mut self, request: &Request) {
        if self.enters(request) {
            insert_late(&mut self.candidates, request);
        } else {
            let there = self.forward(request);
            self.awaited.plan(request.line, there);
        }
    }

    /// What is planned and a read may precede is taken back. Returns false if it takes its data from a write that waits.
    #[inline(always)]
    fn enters(&mut self, request: &Request) -> bool {
        if self.filter[Self::filter_of(request.line)] > 0 && self.waits_to_be_written(request) {
            return false;
        }
        let bank = &self.banks[request.bank as usize].bank;
        let activate = self.ranks[request.rank as usize].activates();
        let Some(first) = self.plan.first_after(request, bank, activate, &self.rules) else { return false };
        #[cfg(test)]
        let first = if self.exhaustive { first.min(self.plan.first_from(request.arrival)) } else { first };
        if self.plan.goes_beyond(first, request.arrival, true) {
            self.take_back(first, request.arrival, true);
        }
        true
    }

    /// Who reads is told when the data are there. Behind a batch that begins because nothing else waits, that is the
    /// earliest time that there can be: reads that are asked for later, but arrive before the batch, put it off. Who was told
    /// too late would not ask before.
    #[inline(always)]
    fn tell(&mut self, request: &Request, planned: u64) -> u64 {
        let told = if self.plan.may_put_off(request.arrival) {
            request.arrival + self.rules.cl + self.rules.burst
        } else {
            planned
        };
        self.awaited.tell(request.line, told, planned);
        told
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
            // Somebody else needs it at the time that was said.
            match self.take_ahead(line) {
                Some((request, _)) => self.admit(&request),
                None => _ = self.serve(),
            }
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
        let open = if all { 0 } else { self.plan.logged() };
        let Some(log) = &mut self.log else { return };
        let taken = log.len().saturating_sub(open);
        let per_rank = self.banks.len() / self.ranks.len();
        for logged in log.drain(..taken) {
            match logged {
                Logged::Row(bank, opened) => {
                    let unused = self.opened[usize::from(bank)].replace(opened);
                    to.extend(unused.map(|unused| Sent::Unused(bank, unused)));
                }
                Logged::Sent(Sent::Column { request, column, row, closed }) => {
                    let opened = self.opened[usize::from(request.bank)].take();
                    let unused = opened.filter(|_| row.is_some());
                    to.extend(unused.map(|unused| Sent::Unused(request.bank, unused)));
                    to.push(Sent::Column { request, column, row: row.or(opened), closed });
                }
                Logged::Sent(sent) => {
                    if let Sent::Refresh { rank, .. } = sent {
                        let first = rank * per_rank;
                        let banks = (first..).zip(&mut self.opened[first..][..per_rank]);
                        to.extend(banks.filter_map(|(bank, row)| Some(Sent::Unused(bank as u16, row.take()?))));
                    }
                    to.push(sent);
                }
            }
        }
    }

    /// The number of the latest request.
    pub fn latest_request(&self) -> u32 {
        self.number
    }

    /// Serves all that waits.
    pub fn drain(&mut self) {
        while let Some((request, _)) = self.ahead.pop() {
            self.admit(&request);
        }
        while !self.candidates.is_empty() || !self.writes.is_empty() {
            if self.candidates.is_empty() {
                self.release(self.writes.len(), self.plan.last_column(), false);
            }
            self.serve();
        }
    }

    /// Takes back what [`Plan::goes_beyond`] command number `first` and clock `at`, for a read or a write that comes then.
    fn take_back(&mut self, first: u64, at: u64, read: bool) {
        self.awaited.reserve(self.plan.capacity());
        while self.plan.goes_beyond(first, at, read) {
            let step = self.plan.pop();
            if let (Some(log), Some(Step::Command(_) | Step::Refresh { .. })) = (&mut self.log, &step) {
                // Commands from before the log are not in it.
                log.pop();
            }
            match step {
                Some(Step::Command(command)) => {
                    let request = &command.request;
                    self.banks[request.bank as usize].bank = command.bank;
                    self.groups[request.group as usize] = command.group;
                    let rank = &mut self.ranks[request.rank as usize];
                    if command.sends != Sends::Column {
                        let [first, second, third, _] = rank.activations;
                        rank.activations = [command.activation, first, second, third];
                        rank.activate = command.activate;
                        self.tally.activates -= 1;
                    }
                    if command.sends == Sends::Row {
                        continue;
                    }
                    self.shared = command.shared;
                    self.tally.count(request.table, command.outcome, command.held, -1);
                    let entrant = command.entrant;
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
                Some(Step::Release { writes, before }) => {
                    self.tally.batches -= 1;
                    let batch = self.batch;
                    self.candidates.retain(|other| !other.write || other.batch != batch);
                    self.released -= writes.len();
                    self.release = before;
                    self.batch = batch.wrapping_sub(1);
                    writes.iter().for_each(|write| writes::insert(&mut self.writes, write));
                }
                None => return,
            }
        }
    }

    /// Plans up to the next column command; returns the number of its request, and its clock.
    #[inline(never)]
    fn serve(&mut self) -> (u32, u64) {
        loop {
            let best = self.choose();
            #[cfg(test)]
            self.check_choice(best.as_ref());
            if self.writes.len() > self.quiet && self.releases(best.as_ref()) {
                continue;
            }
            let Some(best) = best else { unreachable!("a request waits") };
            let &Request { rank, arrival, number, .. } = &self.candidates[best.at];
            if best.clock >= self.ranks[rank as usize].due {
                self.refresh(rank as usize, arrival);
            } else if best.sends == Sends::Row {
                self.open(&best);
            } else {
                self.send(None, &best);
                return (number, best.clock);
            }
        }
    }

    /// What is sent next, unless a batch of writes or a refresh comes before.
    #[inline(always)]
    fn choose(&mut self) -> Option<Choice> {
        if let [only] = self.candidates.as_slice()
            && !only.write
        {
            let alone = self.alone(only);
            if alone.clock < self.ranks[only.rank as usize].due {
                return Some(alone);
            }
        }
        self.best()
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
            slot.bank = Bank { row: NO_ROW, activate: begin + rfc, ..slot.bank };
        }
        self.tally.refreshes += ((due + refi - rank.due) / refi) as i64;
        rank.due = due + refi;
        rank.refreshed = begin + rfc;
        if let Some(log) = &mut self.log {
            log.push(Logged::Sent(Sent::Refresh { rank: number, due, begin }));
        }
    }

    /// Opens the row of the candidate of `choice`.
    #[inline(always)]
    fn open(&mut self, choice: &Choice) {
        let request = &self.candidates[choice.at];
        let after_refresh = self.plan.ends_with_refresh();
        let command = self.plan.push(request.arrival);
        command.request = *request;
        (command.clock, command.sends, command.after_refresh) = (choice.clock, Sends::Row, after_refresh);
        command.entrant.number = 0;
        command.shared = self.shared;
        let opened = activate(&self.rules, (&mut self.banks, &mut self.groups, &mut self.ranks), command, choice.clock);
        self.tally.activates += 1;
        if let Some(log) = &mut self.log {
            log.push(Logged::Row(request.bank, opened));
        }
    }

    /// Sends the column command of a request that does not wait, or of the candidate of `choice`.
    #[inline(always)]
    fn send(&mut self, alone: Option<&Request>, choice: &Choice) {
        let Choice { at, clock: column, activate: activated, sends } = *choice;
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
        (command.clock, command.sends, command.after_refresh) = (column, sends, after_refresh);
        command.entrant.number = 0;
        command.shared = self.shared;
        let mut row = None;
        if sends == Sends::Both {
            let parts = (&mut *self.banks, &mut *self.groups, &mut *self.ranks);
            row = Some(activate(&self.rules, parts, command, activated));
            self.tally.activates += 1;
        } else {
            command.bank = self.banks[command.request.bank as usize].bank;
            command.group = self.groups[command.request.group as usize];
        }
        let rules = &self.rules;
        let request = &command.request;
        let bank = &mut self.banks[request.bank as usize].bank;
        let group = &mut self.groups[request.group as usize];
        let rank = &mut self.ranks[request.rank as usize];
        let outcome = if bank.hits == 0 { bank.outcome } else { Outcome::Hit };
        let held = outcome == Outcome::Miss && request.arrival < rank.refreshed && column >= rank.refreshed;
        command.outcome = outcome;
        command.held = held;
        command.read = rank.read;
        bank.hits += 1;
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
            log.push(Logged::Sent(Sent::Column { request: *request, column, row, closed }));
        }
        self.tally.count(request.table, outcome, held, 1);
    }
}

/// Activates the row of a command's request at clock `at`; fills in what the command keeps of the state before.
#[inline(always)]
fn activate(
    rules: &Rules,
    (banks, groups, ranks): (&mut [BankQueue], &mut [Group], &mut [Rank]),
    command: &mut Command,
    at: u64,
) -> Opened {
    let request = &command.request;
    let bank = &mut banks[request.bank as usize].bank;
    let group = &mut groups[request.group as usize];
    let rank = &mut ranks[request.rank as usize];
    let [oldest, second, third, fourth] = rank.activations;
    (command.bank, command.group) = (*bank, *group);
    (command.activation, command.activate) = (oldest, rank.activate);
    rank.activations = [second, third, fourth, at + rules.faw];
    rank.activate = at + rules.rrd_s;
    group.activate = at + rules.rrd_l;
    let precharge = (bank.row != NO_ROW).then(|| request.arrival.max(bank.precharge));
    *bank = Bank {
        row: request.row,
        hits: 0,
        opener: request.number,
        outcome: if precharge.is_some() { Outcome::Conflict } else { Outcome::Miss },
        activate: bank.activate,
        column: at + rules.rcd,
        precharge: at + rules.ras,
    };
    Opened {
        row: request.row,
        #[cfg(test)]
        arrival: request.arrival,
        activate: at,
        precharge,
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
