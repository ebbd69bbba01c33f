//! The controller of one channel: two queues, and at most one command each clock.

use super::super::events::Writer;
use super::bank::{Command, Devices};
use super::rules::{Place, Rules};
use std::collections::VecDeque;

/// A request that waits for its column command.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    line: u64,
    write: bool,
    at: Place,
    /// The clock at which it arrived or was released.
    since: u64,
    /// Its row was activated for it.
    opened: bool,
}

/// A command that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A row is activated or precharged.
    Row(Command, Place),
    /// A line is read or written; its data end at that clock.
    Line { line: u64, write: bool, end: u64 },
    /// All open rows of a rank are precharged for its refresh.
    PrechargeAll(usize),
    /// A rank is refreshed.
    Refresh(usize),
}

/// A rank's refresh.
#[derive(Clone, Copy, Debug)]
struct Refresh {
    /// The clock at which the next one is due.
    due: u64,
    /// It is due: the rank gets no other commands.
    pending: bool,
}

/// What the candidates before one want of its bank.
#[derive(Clone, Copy, Default)]
struct Older {
    open_row: bool,
    other_row: bool,
}

/// A channel and its controller.
pub struct Channel {
    rules: Rules,
    devices: Devices,
    /// Reads and released writes, the oldest first: an arrival or a release makes the youngest.
    candidates: Vec<Waiting>,
    /// Reads among them; the others are writes of the batch.
    reads: usize,
    /// Writes that have not been released.
    gathered: VecDeque<Waiting>,
    /// Writes for which there was no room, first come, first served.
    outside: VecDeque<(u64, Writer)>,
    refresh: Vec<Refresh>,
    /// The rank and the direction of the last column command, and how many in a row had them.
    run: (Option<(usize, bool)>, u64),
    /// No command can be sent before this clock.
    quiet: u64,
    older: Vec<Older>,
}

impl Channel {
    /// An idle channel, whose ranks are refreshed for the first time at `first_refresh`, by rank.
    pub fn new(rules: &Rules, first_refresh: impl Fn(usize) -> u64) -> Channel {
        let (ranks, _, banks) = rules.parts();
        Channel {
            devices: Devices::new(rules),
            candidates: Vec::new(),
            reads: 0,
            gathered: VecDeque::new(),
            outside: VecDeque::new(),
            refresh: (0..ranks).map(|rank| Refresh { due: first_refresh(rank), pending: false }).collect(),
            run: (None, 0),
            quiet: 0,
            older: vec![Older::default(); banks],
            rules: rules.clone(),
        }
    }

    /// A request arrives. Returns whether a waiting write serves it: it merges with a write of its line, or
    /// reads its data.
    pub fn arrive(&mut self, line: u64, write: bool, at: Place, now: u64) -> bool {
        let mut writes = self.gathered.iter().chain(self.candidates.iter().filter(|other| other.write));
        if writes.any(|other| other.line == line) {
            return true;
        }
        let waiting = Waiting { line, write, at, since: now, opened: false };
        self.quiet = 0;
        if write {
            self.gathered.push_back(waiting);
        } else {
            self.reads += 1;
            self.candidates.push(waiting);
        }
        self.release(now);
        false
    }

    /// A line is to be written. Returns whether it has not to wait for room in the queue.
    pub fn write(&mut self, line: u64, writer: Writer, at: Place, now: u64) -> bool {
        let has_room = self.outside.is_empty() && self.has_room();
        if has_room {
            self.arrive(line, true, at, now);
        } else {
            self.outside.push_back((line, writer));
        }
        has_room
    }

    fn has_room(&self) -> bool {
        self.gathered.len() + self.candidates.len() - self.reads < self.rules.write_queue
    }

    /// Lets a write in that waits for room, if there is some.
    pub fn let_in(&mut self, now: u64) -> Option<Writer> {
        if self.outside.is_empty() || !self.has_room() {
            return None;
        }
        let (line, writer) = self.outside.pop_front()?;
        self.arrive(line, true, self.rules.place(line), now);
        Some(writer)
    }

    /// Releases the oldest writes, if the queue is full, or if nothing else waits and there are enough.
    fn release(&mut self, now: u64) {
        let waiting = self.gathered.len();
        let released = if !self.rules.choices.batches {
            waiting
        } else if waiting >= self.rules.write_high || (self.candidates.is_empty() && waiting > self.rules.write_idle) {
            waiting.saturating_sub(self.rules.write_low)
        } else {
            0
        };
        self.candidates.extend(self.gathered.drain(..released).map(|write| Waiting { since: now, ..write }));
    }

    /// The command of this clock, if one can be sent.
    pub fn step(&mut self, now: u64) -> Option<Sent> {
        let due = self.rules.refi > 0 && self.refresh.iter().any(|refresh| refresh.due <= now);
        if now < self.quiet && !due {
            return None;
        }
        self.quiet = u64::MAX;
        let sent = self.refresh(now).or_else(|| self.column(now)).or_else(|| self.row(now));
        if sent.is_some() {
            self.quiet = now + 1;
            self.release(now);
        }
        sent
    }

    /// Whether a command allowed from `from` on can be sent now; otherwise it is tried again then.
    fn can(&mut self, from: u64, now: u64) -> bool {
        if from > now {
            self.quiet = self.quiet.min(from);
        }
        from <= now
    }

    fn refresh(&mut self, now: u64) -> Option<Sent> {
        if self.rules.refi == 0 {
            return None;
        }
        for rank in 0..self.refresh.len() {
            let Refresh { due, .. } = self.refresh[rank];
            if due > now {
                self.quiet = self.quiet.min(due);
                continue;
            }
            self.refresh[rank].pending = true;
            if let Some(from) = self.devices.precharge_all(rank) {
                if self.can(from, now) {
                    self.devices.send_precharge_all(rank, now);
                    return Some(Sent::PrechargeAll(rank));
                }
                continue;
            }
            let from = self.devices.refresh(rank);
            if self.can(from, now) {
                self.devices.send_refresh(rank, now);
                self.refresh[rank] = Refresh { due: due + self.rules.refi, pending: false };
                return Some(Sent::Refresh(rank));
            }
        }
        None
    }

    /// Calls `choose` with each candidate of the window, the oldest first, and with what older ones want of
    /// its bank; ends with the first for which it returns `true`.
    fn find(&mut self, mut choose: impl FnMut(&mut Channel, Waiting, Older) -> bool) -> Option<usize> {
        self.older.fill(Older::default());
        let mut reads = 0;
        for position in 0..self.candidates.len() {
            let waiting = self.candidates[position];
            reads += usize::from(!waiting.write);
            if !waiting.write && reads > self.rules.window {
                continue;
            }
            let older = self.older[waiting.at.bank];
            if !self.refresh[waiting.at.rank].pending && choose(self, waiting, older) {
                return Some(position);
            }
            let hits = self.devices.open(waiting.at.bank).is_some_and(|open| open.row == waiting.at.row);
            let older = &mut self.older[waiting.at.bank];
            *older = Older { open_row: older.open_row || hits, other_row: older.other_row || !hits };
        }
        None
    }

    /// A column command of the oldest candidate whose own is allowed now.
    fn column(&mut self, now: u64) -> Option<Sent> {
        // The places of older writes, and when their column commands are allowed at the earliest; and when that of
        // an older read is, which goes before writes.
        let mut writes: Vec<(Place, u64)> = Vec::new();
        let mut read = u64::MAX;
        let turns = self.turns(now);
        let mut visited = 0;
        let position = self.find(|channel, waiting, older| {
            visited += 1;
            if turns && visited > 1 {
                return false;
            }
            let first = !(older.open_row || older.other_row);
            if first && waiting.write {
                writes.push((waiting.at, channel.earliest_column(&waiting, now)));
            }
            let Some(open) = channel.devices.open(waiting.at.bank).filter(|open| open.row == waiting.at.row) else {
                if first && !waiting.write {
                    read = read.min(channel.earliest_column(&waiting, now));
                }
                return false;
            };
            if !channel.rules.choices.first_ready && !first {
                return false;
            }
            let passes_older = older.other_row;
            let precharge = channel.devices.precharge(waiting.at.bank);
            if passes_older && (precharge <= now || open.columns >= channel.rules.row_hit_cap) {
                return false;
            }
            let from = channel.devices.column(waiting.at, waiting.write);
            let gap = |write: Place| channel.rules.column_to_write(waiting.write, waiting.at, write);
            let sent = from.max(now);
            // What waits for an older read anyhow is not delayed.
            let delays = |&(write, earliest): &(Place, u64)| {
                write != waiting.at && earliest < sent + gap(write) && earliest <= read
            };
            let may_go_between = waiting.opened || waiting.write || !channel.rules.choices.batches;
            if !may_go_between && writes.iter().any(delays) {
                channel.quiet = channel.quiet.min(from.max(now + 1));
                return false;
            }
            if !waiting.write {
                read = read.min(from);
            }
            channel.can(from, now)
        })?;
        let Waiting { line, write, at, .. } = self.candidates.remove(position);
        self.reads -= usize::from(!write);
        let kind = Some((at.rank, write));
        self.run = (kind, if self.run.0 == kind { self.run.1 + 1 } else { 1 });
        let end = self.devices.send(if write { Command::Write } else { Command::Read }, at, now);
        Some(Sent::Line { line, write, end })
    }

    /// Whether the oldest request is next, because the bus has served others for long that need not turn it around.
    fn turns(&self, now: u64) -> bool {
        let Some(Waiting { at, write, since, .. }) = self.candidates.first() else { return false };
        let refreshes = self.refresh[at.rank].pending || self.devices.refreshed(at.rank) > now;
        let cap = self.rules.turn_cap;
        self.run.1 >= cap
            && now >= since + cap * self.rules.burst
            && self.run.0 != Some((at.rank, *write))
            && !refreshes
    }

    /// When the column command of the oldest request of a bank is allowed at the earliest.
    fn earliest_column(&self, &Waiting { at, write, .. }: &Waiting, now: u64) -> u64 {
        let (devices, rules) = (&self.devices, &self.rules);
        match devices.open(at.bank) {
            Some(open) if open.row == at.row => devices.column(at, write),
            Some(_) => devices.precharge(at.bank).max(now) + rules.rp + rules.rcd,
            None => devices.activate(at).max(now) + rules.rcd,
        }
    }

    /// A row is activated, or precharged for the oldest candidate that needs another of its bank.
    fn row(&mut self, now: u64) -> Option<Sent> {
        let mut command = Command::Activate;
        let position = self.find(|channel, waiting, older| {
            let from = match channel.devices.open(waiting.at.bank) {
                _ if older.other_row || older.open_row => return false,
                Some(open) if open.row == waiting.at.row => return false,
                Some(_) => {
                    command = Command::Precharge;
                    channel.devices.precharge(waiting.at.bank)
                }
                None => {
                    command = Command::Activate;
                    channel.devices.activate(waiting.at)
                }
            };
            channel.can(from, now)
        })?;
        let waiting = &mut self.candidates[position];
        waiting.opened |= command == Command::Activate;
        let at = waiting.at;
        self.devices.send(command, at, now);
        Some(Sent::Row(command, at))
    }
}
