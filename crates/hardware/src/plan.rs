//! The commands that a memory controller has decided on, and what each changed, so that the last can be taken
//! back.

use crate::channel::{Bank, Group, NO_ROW, Outcome, Request, Rules, Shared};

/// Commands that can be taken back: more than are ever under way at once.
const DEPTH: usize = 64;
/// Refreshes that can be taken back.
const REFRESHES: usize = 4;

/// A column command, and the state before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub request: Request,
    pub column: u64,
    pub outcome: Outcome,
    /// A refresh held it.
    pub held: bool,
    /// The end of tFAW of the rank's oldest activation, and when it took another one.
    pub activation: u64,
    pub activate: u64,
    pub bank: Bank,
    pub group: Group,
    pub shared: Shared,
}

/// What decides whether a later call may precede a command: kept apart, so that a search touches little.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    column: u64,
    /// No read could be sent before, none of its group could, and no row of the rank could be activated.
    read_floor: u64,
    group_floor: u64,
    activate_floor: u64,
    arrival: u64,
    number: u32,
    /// Of its bank, before it.
    row: u32,
    bank: u16,
    group: u16,
    rank: u8,
    write: bool,
    /// It activated a row.
    activates: bool,
    /// A refresh came before it.
    after_refresh: bool,
}

/// What was decided last.
pub(crate) enum Step<'a> {
    Command(Command),
    /// The refresh of a rank: what was due, and its banks, before it.
    Refresh {
        rank: usize,
        due: u64,
        refreshed: u64,
        banks: &'a [Bank],
    },
}

#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// A ring: command `n` at `n % DEPTH`, from `first` to `end`.
    commands: Vec<Command>,
    marks: Box<[Mark]>,
    first: u64,
    end: u64,
    /// A ring of refreshes, from `first_refresh` to `end_refresh`.
    refreshes: Vec<Refresh>,
    first_refresh: usize,
    end_refresh: usize,
}

impl Plan {
    /// An empty plan for ranks of that many banks.
    pub fn new(banks: usize) -> Plan {
        let refresh =
            || Refresh { after: 0, rank: 0, begun: 0, due: 0, refreshed: 0, banks: Vec::with_capacity(banks) };
        Plan {
            commands: Vec::with_capacity(DEPTH),
            marks: vec![Mark::default(); DEPTH].into(),
            first: 0,
            end: 0,
            refreshes: (0..REFRESHES).map(|_| refresh()).collect(),
            first_refresh: 0,
            end_refresh: 0,
        }
    }

    /// The number of commands so far.
    #[inline(always)]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// When the refresh after the last command became due; 0 if there is none.
    #[inline(always)]
    pub fn refresh_due(&self) -> u64 {
        self.last_refresh().map_or(0, |refresh| refresh.begun)
    }

    /// The number of the first command that a read which comes now may precede or change. `bank` is the state
    /// of its bank after all commands.
    ///
    /// The scan goes back in time and keeps the row that was open in the bank. The answer may be too early,
    /// never too late.
    #[inline]
    pub fn first_after(&self, request: &Request, bank: &Bank, rules: &Rules) -> u64 {
        let Rules { rp, rcd, cl, burst, rtrs, cwl, .. } = *rules;
        let turn = (cl + burst + rtrs).saturating_sub(cwl);
        let mut first = self.end;
        let (mut row, mut precharge) = (bank.row, bank.precharge);
        // Older requests of its bank wait for other rows: only a row hit can pass them.
        let mut blocked = false;
        let mut unknown = self.last_refresh().is_some();
        for at in (self.first..self.end).rev() {
            let mark = &self.marks[at as usize % DEPTH];
            if mark.column <= request.arrival {
                break;
            }
            let older = request.arrival < mark.arrival
                || (request.arrival == mark.arrival && (request.number.wrapping_sub(mark.number) as i32) < 0);
            if mark.bank == request.bank {
                if older {
                    first = at;
                }
                row = mark.row;
                precharge = 0;
                blocked |= mark.activates && !older;
            }
            let hits = !unknown && row == request.row;
            let ready = if unknown || hits {
                request.arrival
            } else if blocked {
                continue;
            } else {
                let floor = if mark.rank == request.rank { mark.activate_floor } else { 0 };
                let closed = if row == NO_ROW { request.arrival } else { request.arrival.max(precharge) + rp };
                closed.max(floor) + rcd
            };
            unknown |= mark.after_refresh;
            let group_floor = if mark.group == request.group { mark.group_floor } else { 0 };
            let earliest = ready.max(mark.read_floor).max(group_floor);
            // A later row hit does not delay a write of a batch.
            let delays = if mark.write && hits && !older { turn } else { 0 };
            if earliest + delays < mark.column || (older && earliest == mark.column) {
                first = at;
            }
        }
        first
    }

    /// The number of the first command that is sent after tick `arrival`.
    #[cfg(test)]
    pub fn first_from(&self, arrival: u64) -> u64 {
        (self.first..self.end).find(|at| self.marks[*at as usize % DEPTH].column > arrival).unwrap_or(self.end)
    }

    /// The refresh after the last command.
    #[inline(always)]
    fn last_refresh(&self) -> Option<&Refresh> {
        if self.end_refresh == self.first_refresh {
            return None;
        }
        let last = &self.refreshes[(self.end_refresh - 1) % REFRESHES];
        (last.after == self.end).then_some(last)
    }

    /// Appends a command; forgets the oldest if there are too many.
    #[inline(always)]
    pub fn push(&mut self, command: Command, read_floor: u64) {
        let place = self.end as usize % DEPTH;
        self.marks[place] = Mark {
            column: command.column,
            read_floor,
            group_floor: command.group.column.max(command.group.read),
            activate_floor: command.activation.max(command.activate),
            arrival: command.request.arrival,
            number: command.request.number,
            row: command.bank.row,
            bank: command.request.bank,
            group: command.request.group,
            rank: command.request.rank,
            write: command.request.write,
            activates: command.outcome != Outcome::Hit,
            after_refresh: self.last_refresh().is_some(),
        };
        if let Some(old) = self.commands.get_mut(place) {
            *old = command;
        } else {
            self.commands.push(command);
        }
        self.end += 1;
        if self.end - self.first > DEPTH as u64 {
            self.first += 1;
        }
    }

    /// Appends a refresh; forgets the oldest, and what was before it, if there are too many.
    pub fn push_refresh(&mut self, rank: usize, begun: u64, due: u64, refreshed: u64, banks: &[Bank]) {
        if self.end_refresh - self.first_refresh == REFRESHES {
            self.first = self.first.max(self.refreshes[self.first_refresh % REFRESHES].after);
            self.first_refresh += 1;
        }
        let refresh = &mut self.refreshes[self.end_refresh % REFRESHES];
        refresh.banks.clear();
        refresh.banks.extend_from_slice(banks);
        *refresh = Refresh { after: self.end, rank, begun, due, refreshed, banks: std::mem::take(&mut refresh.banks) };
        self.end_refresh += 1;
    }

    /// Removes what was decided last.
    #[inline]
    pub fn pop(&mut self) -> Option<Step<'_>> {
        if self.last_refresh().is_some() {
            self.end_refresh -= 1;
            let Refresh { rank, due, refreshed, ref banks, .. } = self.refreshes[self.end_refresh % REFRESHES];
            return Some(Step::Refresh { rank, due, refreshed, banks });
        }
        if self.end == self.first {
            return None;
        }
        self.end -= 1;
        Some(Step::Command(self.commands[self.end as usize % DEPTH]))
    }
}
