//! What operating-system actions cost: cycles by cause, and the locks that they hold.

/// Why the operating system spent cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LedgerCause {
    /// Entry, exit and book-keeping of page faults.
    Fault = 0,
    /// Zeroing frames.
    Zero,
    /// Finding frames, by contiguity and fragmentation.
    Allocate,
    /// Copying pages (copy-on-write, promotion, migration).
    Copy,
    /// Page-table upkeep: entries moved, tables resized, models trained.
    Table,
    /// Shootdowns: sender and receivers.
    Shootdown,
    /// Swap traffic.
    Swap,
    /// System calls.
    Syscall,
    /// Context switches.
    Switch,
}

impl LedgerCause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [LedgerCause; 9] = [
        LedgerCause::Fault,
        LedgerCause::Zero,
        LedgerCause::Allocate,
        LedgerCause::Copy,
        LedgerCause::Table,
        LedgerCause::Shootdown,
        LedgerCause::Swap,
        LedgerCause::Syscall,
        LedgerCause::Switch,
    ];
}

/// A lock that an action on a page table holds: actions of other cores that need the same wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableLock {
    /// That of the part of the table that holds an entry, by a number of the table's own.
    Part(u64),
    /// The whole table's.
    Whole,
}

/// Cycles that operating-system actions charge to the run, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    cycles: [u64; LedgerCause::ALL.len()],
    since_taken: u64,
    /// Locks held since they were last taken, none twice in a row.
    locks: Vec<TableLock>,
}

impl Ledger {
    /// Charges `cycles` for `cause`.
    #[inline]
    pub fn charge(&mut self, cause: LedgerCause, cycles: u64) {
        self.cycles[cause as usize] += cycles;
        self.since_taken += cycles;
    }

    /// Total charged for `cause` since the last reset.
    pub fn total(&self, cause: LedgerCause) -> u64 {
        self.cycles[cause as usize]
    }

    /// What was charged since the last call: what the current action costs the core that called for it. Locks
    /// that nobody has asked for are forgotten.
    #[inline]
    pub fn take(&mut self) -> u64 {
        self.locks.clear();
        std::mem::take(&mut self.since_taken)
    }

    /// The current action holds a lock of a page table.
    pub fn hold(&mut self, lock: TableLock) {
        if self.locks.last() != Some(&lock) {
            self.locks.push(lock);
        }
    }

    /// The locks that were held since the last call, into `into`.
    pub fn take_locks(&mut self, into: &mut Vec<TableLock>) {
        into.append(&mut self.locks);
    }

    /// Forgets all totals (the end of warm-up).
    pub fn reset(&mut self) {
        *self = Ledger::default();
    }
}
