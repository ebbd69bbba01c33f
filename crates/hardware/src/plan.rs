//! The commands that a memory controller has decided on, and what each changed, so that the last can be taken
//! back.

use crate::channel::{Bank, Group, Outcome, Request, Shared};

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
            first: 0,
            end: 0,
            refreshes: (0..REFRESHES).map(|_| refresh()).collect(),
            first_refresh: 0,
            end_refresh: 0,
        }
    }

    /// When the last step that can be taken back happened: a column command was sent, a refresh became due.
    #[inline(always)]
    pub fn last(&self) -> u64 {
        if let Some(refresh) = self.last_refresh() {
            refresh.begun
        } else if self.end > self.first {
            self.commands[(self.end - 1) as usize % DEPTH].column
        } else {
            0
        }
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
    pub fn push(&mut self, command: Command) {
        let place = self.end as usize % DEPTH;
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
