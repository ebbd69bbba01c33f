//! The commands that a memory controller has decided on, and what each changed, so that the last can be taken
//! back.

use crate::channel::{Bank, Group, NO_ROW, Outcome, Request, Rules, Shared};
use ambulator_base::State;

/// Commands that can be taken back, at most: more than a channel's queues hold when four cores with 32 MSHRs each at
/// the L2 fill them beside a batch of writes.
const MOST: usize = 256;
/// And at least. In between, as many as there are in the span of [`Plan::new`]: a small ring stays in the sim
/// host's first-level cache.
const LEAST: usize = 16;
/// How often the ring may shrink, in commands.
const SHRINKS: u64 = 1024;
/// Refreshes that can be taken back.
const REFRESHES: usize = 4;

/// A column command, and the state before it.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(64))]
pub(crate) struct Command {
    pub request: Request,
    pub column: u64,
    /// The end of tFAW of the rank's oldest activation, and when it took another one.
    pub activation: u64,
    pub activate: u64,
    /// When the rank took a read.
    pub read: u64,
    pub shared: Shared,
    pub group: Group,
    pub bank: Bank,
    pub outcome: Outcome,
    /// A refresh held it.
    pub held: bool,
    /// A refresh came between the command before and this one.
    pub after_refresh: bool,
    /// The write that had waited for room in the write queue and enters it when this one leaves.
    pub entrant: Entrant,
}

/// A write that had to wait for room in the write queue.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Entrant {
    /// No write has number 0.
    pub number: u32,
    pub line: u64,
    /// When it came.
    pub asked: u64,
}

/// What was decided last.
pub(crate) enum Step<'a> {
    Command(&'a Command),
    /// The refresh of a rank: what was due, and its banks, before it.
    Refresh {
        rank: usize,
        due: u64,
        refreshed: u64,
        banks: &'a [Bank],
    },
}

#[derive(Clone, Debug, Default, State)]
struct Refresh {
    /// The number of commands before it.
    after: u64,
    rank: usize,
    begun: u64,
    due: u64,
    refreshed: u64,
    banks: Vec<Bank>,
}

/// The last commands and refreshes of a channel.
#[derive(Clone, Debug, State)]
pub(crate) struct Plan {
    /// A ring: command `n` at `n & mask`, from `first` to `end`.
    commands: Vec<Command>,
    mask: usize,
    /// Ticks for which commands are kept.
    #[state(skip)]
    span: u64,
    first: u64,
    end: u64,
    /// A ring of refreshes, from `first_refresh` to `end_refresh`.
    refreshes: Vec<Refresh>,
    first_refresh: usize,
    end_refresh: usize,
    /// The number of commands before the last refresh; `NEVER` if none is kept.
    refreshed: u64,
}

const NEVER: u64 = u64::MAX;

impl Plan {
    /// An empty plan for ranks of that many banks. Calls come up to `span` clocks out of the order of time.
    pub fn new(banks: usize, span: u64) -> Plan {
        let refresh =
            || Refresh { after: 0, rank: 0, begun: 0, due: 0, refreshed: 0, banks: Vec::with_capacity(banks) };
        Plan {
            commands: vec![Command::default(); LEAST],
            mask: LEAST - 1,
            span,
            first: 0,
            end: 0,
            refreshes: (0..REFRESHES).map(|_| refresh()).collect(),
            first_refresh: 0,
            end_refresh: 0,
            refreshed: NEVER,
        }
    }

    /// The number of commands so far.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many commands it keeps now.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Commands and refreshes that can be taken back.
    pub fn len(&self) -> usize {
        (self.end - self.first) as usize + self.end_refresh - self.first_refresh
    }

    /// The clock of the last command; 0 if none is kept.
    #[inline(always)]
    pub fn last_column(&self) -> u64 {
        if self.end > self.first { self.at(self.end - 1).column } else { 0 }
    }

    /// When the refresh after the last command became due; 0 if there is none.
    #[inline(always)]
    pub fn refresh_due(&self) -> u64 {
        if !self.ends_with_refresh() {
            return 0;
        }
        self.last_refresh().map_or(0, |refresh| refresh.begun)
    }

    /// The number of the first command that a read which comes now may precede or change. `bank` is the state
    /// of its bank after all commands. `None` if a write of its line is sent after it arrives: it takes its data from
    /// the queue.
    ///
    /// The scan goes back in time and keeps the row that was open in the bank. The answer may be too early,
    /// never too late.
    #[inline]
    pub fn first_after(&self, request: &Request, bank: &Bank, rules: &Rules) -> Option<u64> {
        let Rules { rp, rcd, turn, turn_cap, .. } = *rules;
        let mut first = self.end;
        let (mut row, mut precharge) = (bank.row, bank.precharge);
        // Older requests of its bank wait for other rows: only a row hit can pass them.
        let mut blocked = false;
        let mut unknown = self.ends_with_refresh();
        for at in (self.first..self.end).rev() {
            let command = self.at(at);
            if command.column <= request.arrival {
                break;
            }
            if command.request.line == request.line && command.request.write {
                return None;
            }
            let older = request.precedes(&command.request);
            let same_bank = command.request.bank == request.bank;
            if older && (same_bank || command.shared.run >= turn_cap) {
                first = at;
            }
            if same_bank {
                row = command.bank.row;
                precharge = 0;
                blocked |= command.outcome != Outcome::Hit && !older;
            }
            let hits = !unknown && row == request.row;
            let ready = if unknown || hits {
                request.arrival
            } else if blocked {
                continue;
            } else {
                let same = command.request.rank == request.rank;
                let floor = if same { command.activation.max(command.activate) } else { 0 };
                let closed = if row == NO_ROW { request.arrival } else { request.arrival.max(precharge) + rp };
                closed.max(floor) + rcd
            };
            unknown |= command.after_refresh;
            let same = command.request.group == request.group;
            let group = if same { command.group.column.max(command.group.read) } else { 0 };
            let earliest = ready.max(command.shared.read_floor).max(group);
            // A later row hit does not delay a write of a batch.
            let delays = if command.request.write && hits && !older { turn } else { 0 };
            if earliest + delays < command.column + u64::from(older || delays > 0) {
                first = at;
            }
        }
        Some(first)
    }

    /// The last write that has `later` writes after it, if it is sent after clock `at`.
    pub fn write_before(&mut self, later: usize, at: u64) -> Option<&mut Command> {
        let after = (self.first..self.end).rev().take_while(|number| self.at(*number).column > at);
        let number = after.filter(|number| self.at(*number).request.write).nth(later)?;
        Some(&mut self.commands[number as usize & self.mask])
    }

    /// When a write of `line` entered the write queue that had waited for room, if that is kept.
    pub fn entry(&self, line: u64) -> Option<u64> {
        let mut commands = (self.first..self.end).rev().map(|number| self.at(number));
        let left = commands.find(|command| command.entrant.number != 0 && command.entrant.line == line)?;
        Some(left.entrant.asked.max(left.column))
    }

    /// The number of the first command that is sent after clock `arrival`.
    #[cfg(test)]
    pub fn first_from(&self, arrival: u64) -> u64 {
        (self.first..self.end).find(|at| self.at(*at).column > arrival).unwrap_or(self.end)
    }

    /// Whether a refresh came after the last command.
    #[inline(always)]
    pub fn ends_with_refresh(&self) -> bool {
        self.refreshed == self.end
    }

    /// The last refresh, if one is kept.
    fn last_refresh(&self) -> Option<&Refresh> {
        (self.end_refresh > self.first_refresh).then(|| &self.refreshes[(self.end_refresh - 1) % REFRESHES])
    }

    /// Appends a command whose request arrived at `arrival`: its place, to be filled.
    #[inline(always)]
    pub fn push(&mut self, arrival: u64) -> &mut Command {
        if self.end - self.first > self.mask as u64 {
            let needed = arrival.saturating_sub(self.span);
            if self.at(self.first).column > needed || self.end.is_multiple_of(SHRINKS) {
                self.make_room(needed);
            } else {
                self.first += 1;
            }
        }
        let place = self.end as usize & self.mask;
        self.end += 1;
        &mut self.commands[place]
    }

    #[inline(always)]
    fn at(&self, number: u64) -> &Command {
        &self.commands[number as usize & self.mask]
    }

    /// Makes room for a command in a full ring: it grows if all of it is later than clock `needed`, shrinks if
    /// much of it is not, or forgets its oldest command.
    #[inline]
    fn make_room(&mut self, needed: u64) {
        let len = self.mask as u64 + 1;
        if self.mask + 1 < MOST && self.at(self.first).column > needed {
            self.resize(self.first, 2 * len);
        } else if self.mask + 1 > LEAST && self.end.is_multiple_of(SHRINKS) {
            // The later half less one, so that the new ring has room.
            let kept = self.end - len / 2 + 1;
            if self.at(kept - 1).column <= needed {
                self.resize(kept, len / 2);
            }
        }
        if self.end - self.first > self.mask as u64 {
            self.first += 1;
        }
    }

    /// Moves the commands from number `first` on to a ring of that length.
    #[cold]
    fn resize(&mut self, first: u64, len: u64) {
        let kept: Vec<Command> = (first..self.end).map(|number| *self.at(number)).collect();
        self.first = first;
        self.mask = len as usize - 1;
        self.commands.resize(len as usize, Command::default());
        for (number, command) in (first..).zip(kept) {
            self.commands[number as usize & self.mask] = command;
        }
    }

    /// Appends a refresh; forgets the oldest, and what was before it, if there are too many.
    pub fn push_refresh(
        &mut self,
        rank: usize,
        begun: u64,
        due: u64,
        refreshed: u64,
        banks: impl Iterator<Item = Bank>,
    ) {
        if self.end_refresh - self.first_refresh == REFRESHES {
            self.first = self.first.max(self.refreshes[self.first_refresh % REFRESHES].after);
            self.first_refresh += 1;
        }
        let refresh = &mut self.refreshes[self.end_refresh % REFRESHES];
        refresh.banks.clear();
        refresh.banks.extend(banks);
        *refresh = Refresh { after: self.end, rank, begun, due, refreshed, banks: std::mem::take(&mut refresh.banks) };
        self.end_refresh += 1;
        self.refreshed = self.end;
    }

    /// Removes what was decided last.
    #[inline]
    pub fn pop(&mut self) -> Option<Step<'_>> {
        if self.ends_with_refresh() {
            self.end_refresh -= 1;
            self.refreshed = self.last_refresh().map_or(NEVER, |refresh| refresh.after);
            let Refresh { rank, due, refreshed, ref banks, .. } = self.refreshes[self.end_refresh % REFRESHES];
            return Some(Step::Refresh { rank, due, refreshed, banks });
        }
        if self.end == self.first {
            return None;
        }
        self.end -= 1;
        Some(Step::Command(self.at(self.end)))
    }
}
