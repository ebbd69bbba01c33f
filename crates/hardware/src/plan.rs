//! The commands that a memory controller has decided on, and what each changed, so that the last can be taken
//! back.

use crate::channel::{Bank, Group, NO_ROW, Outcome, Request, Rules, Shared};
use ambulator_base::State;

/// Commands that can be taken back, at most: more than the rows and columns of what a channel's queues hold when four
/// cores with 32 MSHRs each at the L2 fill them beside a batch of writes.
const MOST: usize = 512;
/// And at least. In between, as many as there are in the span of [`Plan::new`]: a small ring stays in the sim
/// host's first-level cache.
const LEAST: usize = 16;
/// How often the ring may shrink, in commands.
const SHRINKS: u64 = 1024;
/// Refreshes and releases that can be taken back.
const MARKS: usize = 16;

/// What a step of the plan sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) enum Sends {
    /// An activation, with the precharge before it.
    Row,
    /// A column command to an open row.
    #[default]
    Column,
    /// An activation, and the column command for which it is.
    Both,
}

/// An activation or a column command of a request, and the state before it.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(64))]
pub(crate) struct Command {
    pub request: Request,
    /// Its clock; of both, the column command's.
    pub clock: u64,
    /// Of an activation: the end of tFAW of the rank's oldest one, and when it took another one.
    pub activation: u64,
    pub activate: u64,
    pub shared: Shared,
    pub group: Group,
    pub bank: Bank,
    pub sends: Sends,
    /// What a column command has met.
    pub outcome: Outcome,
    /// A refresh held it.
    pub held: bool,
    /// A refresh came between the command before and this one.
    pub after_refresh: bool,
    /// Of a write: when the rank took a read.
    pub read: u64,
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
    /// The release of a batch: its writes, and the clock of the release before it.
    Release {
        writes: &'a [Request],
        before: u64,
    },
}

/// What is decided between two commands: a refresh of a rank, or the release of a batch of writes.
#[derive(Clone, Debug, Default, State)]
struct Mark {
    /// The number of commands before it.
    after: u64,
    /// When the refresh became due, or the writes were released.
    at: u64,
    /// A release: because nothing else waited, or because there were so many.
    release: bool,
    idle: bool,
    /// Before a refresh: its rank, what was due, and the rank's banks.
    rank: usize,
    due: u64,
    refreshed: u64,
    banks: Vec<Bank>,
    /// Of a release: the clock of the one before it, and the writes as they were.
    before: u64,
    writes: Vec<Request>,
}

/// The last commands of a channel, and the refreshes and releases between them.
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
    /// A ring of refreshes and releases, from `first_mark` to `end_mark`.
    marks: Vec<Mark>,
    first_mark: usize,
    end_mark: usize,
    /// The number of commands before the last refresh and before the last of either; `NEVER` if none is kept.
    refreshed: u64,
    marked: u64,
    /// The clock of the last release that is kept; 0 if none is. The same if that was because nothing else waited, or `NEVER`.
    released: u64,
    idle: u64,
}

const NEVER: u64 = u64::MAX;

impl Plan {
    /// An empty plan for ranks of that many banks, and batches of that many writes. Calls come up to `span` clocks out of
    /// the order of time.
    pub fn new(banks: usize, writes: usize, span: u64) -> Plan {
        let mark = || Mark { banks: Vec::with_capacity(banks), writes: Vec::with_capacity(writes), ..Mark::default() };
        Plan {
            commands: vec![Command::default(); LEAST],
            mask: LEAST - 1,
            span,
            first: 0,
            end: 0,
            marks: (0..MARKS).map(|_| mark()).collect(),
            first_mark: 0,
            end_mark: 0,
            refreshed: NEVER,
            marked: NEVER,
            released: 0,
            idle: NEVER,
        }
    }

    /// How many commands it keeps now.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// The number of commands so far.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Commands that can be taken back.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.end - self.first) as usize
    }

    /// Commands and refreshes that can be taken back.
    pub fn logged(&self) -> usize {
        let marks = (self.first_mark..self.end_mark).map(|number| self.mark(number));
        self.len() + marks.filter(|mark| !mark.release && mark.after >= self.first).count()
    }

    /// The clock of the last column command; 0 if none is kept.
    #[inline(always)]
    pub fn last_column(&self) -> u64 {
        self.columns().next().map_or(0, |number| self.at(number).clock)
    }

    /// The numbers of the column commands that are kept, the last first.
    #[inline(always)]
    fn columns(&self) -> impl Iterator<Item = u64> + use<'_> {
        (self.first..self.end).rev().filter(|number| self.at(*number).sends != Sends::Row)
    }

    /// The clock of the last release that can be taken back; 0 if there is none.
    #[inline(always)]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Whether the last batch began not long before clock `at`, because nothing else waited.
    #[inline(always)]
    pub fn may_put_off(&self, at: u64) -> bool {
        self.idle < at && at - self.idle < self.span
    }

    /// Whether something has been decided after command number `first`: that command, a refresh that became due after clock
    /// `at`, or a release then (for a `read` only one because nothing else waited, which a read at that clock prevents).
    #[inline(always)]
    pub fn goes_beyond(&self, first: u64, at: u64, read: bool) -> bool {
        self.end > first || (self.marked == self.end && self.ends_beyond(at, read))
    }

    /// The same of what comes after the last command.
    #[cold]
    fn ends_beyond(&self, at: u64, read: bool) -> bool {
        let last = (self.first_mark..self.end_mark).rev().map(|number| self.mark(number));
        let beyond = |mark: &Mark| match mark {
            Mark { release: true, .. } if read => mark.idle && mark.at >= at,
            _ => mark.at > at,
        };
        last.take_while(|mark| mark.after == self.end).any(beyond)
    }

    /// The number of commands before the first release at clock `at` or later that there was because nothing else waited,
    /// or `first` if that is less.
    #[cold]
    fn first_idle(&self, first: u64, at: u64) -> u64 {
        let last = (self.first_mark..self.end_mark).rev().map(|number| self.mark(number));
        let idle = last.filter(|mark| mark.after >= self.first && mark.release && mark.idle && mark.at >= at);
        idle.map(|mark| mark.after).min().map_or(first, |after| first.min(after))
    }

    /// The number of the first command that a read which comes now may precede or change. `bank` is the state
    /// of its bank after all commands, and `activate` says when its rank takes an activation then. `None` if a write of its
    /// line is sent after it arrives: it takes its data from the queue.
    ///
    /// The scan goes back in time and keeps the row that was open in the bank. The answer may be too early,
    /// never too late.
    #[inline]
    pub fn first_after(&self, request: &Request, bank: &Bank, activate: u64, rules: &Rules) -> Option<u64> {
        let Rules { rp, rcd, turn, turn_cap, .. } = *rules;
        let arrival = request.arrival;
        let mut first = self.end;
        let (mut row, mut precharge, mut activate) = (bank.row, bank.precharge, activate);
        // An older request of its bank waits: only a row hit can pass it.
        let mut blocked = false;
        let mut unknown = self.ends_with_refresh();
        for at in (self.first..self.end).rev() {
            let command = self.at(at);
            let (opens, is_column) = (command.sends != Sends::Column, command.sends != Sends::Row);
            if command.clock <= arrival && is_column {
                break;
            }
            if is_column && command.request.line == request.line && command.request.write {
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
                blocked |= !older;
            }
            if opens && command.request.rank == request.rank {
                activate = command.activation.max(command.activate);
            }
            let hits = !unknown && row == request.row;
            // When its row can be opened, and when it can be read then.
            let (opened, ready) = if unknown || hits {
                (arrival, arrival)
            } else if blocked {
                continue;
            } else {
                let closed = if row == NO_ROW { arrival } else { arrival.max(precharge) + rp };
                let opened = closed.max(activate);
                (opened, opened + rcd)
            };
            unknown |= command.after_refresh;
            let since = command.clock + u64::from(older);
            let ready = ready.max(command.shared.read_floor);
            if !is_column {
                if (if hits { ready } else { opened }) < since {
                    first = at;
                }
                continue;
            }
            let same = command.request.group == request.group;
            let group = if same { command.group.column.max(command.group.read) } else { 0 };
            let earliest = ready.max(group);
            // A later row hit does not delay a write of a batch.
            let delays = if command.request.write && hits && !older { turn } else { 0 };
            if earliest + delays < since + u64::from(!older && delays > 0) || (opens && !hits && opened + rcd < since) {
                first = at;
            }
        }
        if self.released >= arrival {
            first = self.first_idle(first, arrival);
        }
        Some(first)
    }

    /// The last write that has `later` writes after it, if it is sent after clock `at`.
    pub fn write_before(&mut self, later: usize, at: u64) -> Option<&mut Command> {
        let after = self.columns().take_while(|number| self.at(*number).clock > at);
        let number = after.filter(|number| self.at(*number).request.write).nth(later)?;
        Some(&mut self.commands[number as usize & self.mask])
    }

    /// When a write of `line` entered the write queue that had waited for room, if that is kept.
    pub fn entry(&self, line: u64) -> Option<u64> {
        let mut columns = self.columns().map(|number| self.at(number));
        let left = columns.find(|command| command.entrant.number != 0 && command.entrant.line == line)?;
        Some(left.entrant.asked.max(left.clock))
    }

    /// The number of the first command that is sent after clock `at`.
    pub fn first_from(&self, at: u64) -> u64 {
        let mut first = self.end;
        for number in (self.first..self.end).rev() {
            let command = self.at(number);
            if command.clock > at {
                first = number;
            } else if command.sends != Sends::Row {
                break;
            }
        }
        first
    }

    /// The number of the first command before which the channel was idle at clock `at` or later, if `oldest` is when
    /// the first request arrived that is not in the plan.
    pub fn first_idle_from(&self, at: u64, oldest: u64) -> Option<u64> {
        let mut arrival = oldest;
        let mut first = None;
        for number in self.columns() {
            let command = self.at(number);
            if number + 1 < self.end && arrival > at.max(command.clock) {
                first = Some(number + 1);
            }
            if command.clock <= at {
                break;
            }
            arrival = arrival.min(command.request.arrival);
        }
        first
    }

    /// Whether a refresh came after the last command.
    #[inline(always)]
    pub fn ends_with_refresh(&self) -> bool {
        self.refreshed == self.end
    }

    fn mark(&self, number: usize) -> &Mark {
        &self.marks[number % MARKS]
    }

    /// Appends a command whose request arrived at `arrival`: its place, to be filled.
    #[inline(always)]
    pub fn push(&mut self, arrival: u64) -> &mut Command {
        if self.end - self.first > self.mask as u64 {
            let needed = arrival.saturating_sub(self.span);
            if self.at(self.first).clock > needed || self.end.is_multiple_of(SHRINKS) {
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
        if self.mask + 1 < MOST && self.at(self.first).clock > needed {
            self.resize(self.first, 2 * len);
        } else if self.mask + 1 > LEAST && self.end.is_multiple_of(SHRINKS) {
            // The later half less one, so that the new ring has room.
            let kept = self.end - len / 2 + 1;
            if self.at(kept - 1).clock <= needed {
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

    /// Appends a mark; forgets those before the first command, or the oldest and what was before it, if there are too many.
    fn push_mark(&mut self) -> &mut Mark {
        while self.first_mark < self.end_mark && self.mark(self.first_mark).after < self.first {
            self.first_mark += 1;
        }
        if self.end_mark - self.first_mark == MARKS {
            self.first = self.first.max(self.mark(self.first_mark).after);
            self.first_mark += 1;
        }
        self.marked = self.end;
        let mark = &mut self.marks[self.end_mark % MARKS];
        self.end_mark += 1;
        mark.after = self.end;
        mark
    }

    /// Appends a refresh of a rank, which became due at clock `begun`.
    pub fn push_refresh(
        &mut self,
        rank: usize,
        begun: u64,
        due: u64,
        refreshed: u64,
        banks: impl Iterator<Item = Bank>,
    ) {
        let mark = self.push_mark();
        (mark.release, mark.at, mark.rank, mark.due, mark.refreshed) = (false, begun, rank, due, refreshed);
        mark.banks.clear();
        mark.banks.extend(banks);
        self.refreshed = self.end;
    }

    /// Appends the release of a batch of writes at clock `at`, because nothing else waited or because there were so many.
    /// The release before was at clock `before`.
    pub fn push_release(&mut self, at: u64, idle: bool, before: u64, writes: &[Request]) {
        let mark = self.push_mark();
        (mark.release, mark.at, mark.idle, mark.before) = (true, at, idle, before);
        mark.writes.clear();
        mark.writes.extend_from_slice(writes);
        self.released = at;
        self.idle = if idle { at } else { NEVER };
    }

    /// Removes what was decided last.
    #[inline]
    pub fn pop(&mut self) -> Option<Step<'_>> {
        if self.marked == self.end {
            return Some(self.pop_mark());
        }
        if self.end == self.first {
            return None;
        }
        self.end -= 1;
        Some(Step::Command(self.at(self.end)))
    }

    #[cold]
    fn pop_mark(&mut self) -> Step<'_> {
        self.end_mark -= 1;
        let kept = || (self.first_mark..self.end_mark).rev().map(|number| self.mark(number));
        let marked = kept().next().map_or(NEVER, |mark| mark.after);
        let refreshed = kept().find(|mark| !mark.release).map_or(NEVER, |mark| mark.after);
        let release = kept().find(|mark| mark.release).map(|mark| (mark.at, if mark.idle { mark.at } else { NEVER }));
        (self.marked, self.refreshed) = (marked, refreshed);
        (self.released, self.idle) = release.unwrap_or((0, NEVER));
        let Mark { release, rank, due, refreshed, ref banks, before, ref writes, .. } =
            self.marks[self.end_mark % MARKS];
        if release { Step::Release { writes, before } } else { Step::Refresh { rank, due, refreshed, banks } }
    }
}
