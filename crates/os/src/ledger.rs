//! The ledger of operating-system actions: their cycles by cause, the locks that they hold, and their calls to
//! the hypervisor.

use crate::Hypercall;
use ambulator_base::State;

/// The cause of cycles in the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LedgerCause {
    /// Entry, exit and bookkeeping of page faults.
    Fault = 0,
    /// Zeroing frames.
    Zero,
    /// Allocating frames, depending on contiguity and fragmentation.
    Allocate,
    /// Copying pages (copy-on-write, promotion, migration).
    Copy,
    /// Page-table maintenance: moving entries, resizing tables, training models.
    Table,
    /// TLB shootdowns: initiator and other cores.
    Shootdown,
    /// Swap traffic.
    Swap,
    /// System calls.
    Syscall,
    /// Context switches.
    Switch,
}

impl LedgerCause {
    /// All causes, in numeric order.
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

/// A lock that an action on a page table holds. Actions of other cores that need it wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, State)]
pub enum TableLock {
    /// The lock of one part of the table, by a number that the table assigns.
    Part(u64),
    /// The lock of the entire table.
    #[default]
    Whole,
}

/// Cycles of operating-system actions by cause, and the locks of the current action.
#[derive(Clone, Debug, Default, PartialEq, Eq, State)]
pub struct Ledger {
    cycles: [u64; LedgerCause::ALL.len()],
    since_taken: u64,
    /// Locks held since the last [`Ledger::take_locks`], without immediate repetitions.
    locks: Vec<TableLock>,
    /// Calls to the hypervisor since the last [`Ledger::take_hypercalls`]: none between two actions.
    #[state(skip)]
    hypercalls: Vec<Hypercall>,
}

impl Ledger {
    /// Charges `cycles` for `cause`.
    #[inline]
    pub fn charge(&mut self, cause: LedgerCause, cycles: u64) {
        self.cycles[cause as usize] += cycles;
        self.since_taken += cycles;
    }

    /// Cycles charged for `cause` since the last reset.
    pub fn total(&self, cause: LedgerCause) -> u64 {
        self.cycles[cause as usize]
    }

    /// The cycles charged since the last call: the cost of the current action for the requesting core.
    /// Discards the locks held.
    #[inline]
    pub fn take(&mut self) -> u64 {
        self.locks.clear();
        std::mem::take(&mut self.since_taken)
    }

    /// Records that the current action holds a lock.
    pub fn hold(&mut self, lock: TableLock) {
        if self.locks.last() != Some(&lock) {
            self.locks.push(lock);
        }
    }

    /// Moves the locks held since the last call to `into`.
    pub fn take_locks(&mut self, into: &mut Vec<TableLock>) {
        into.append(&mut self.locks);
    }

    /// Calls the hypervisor: the machine serves the call at the end of the current action.
    pub fn call_hypervisor(&mut self, call: Hypercall) {
        self.hypercalls.push(call);
    }

    /// Whether calls to the hypervisor wait to be served.
    #[inline]
    pub fn has_hypercalls(&self) -> bool {
        !self.hypercalls.is_empty()
    }

    /// The calls to the hypervisor since the last time, in order.
    pub fn take_hypercalls(&mut self) -> Vec<Hypercall> {
        std::mem::take(&mut self.hypercalls)
    }

    /// Sets all totals to zero (at the end of warm-up).
    pub fn reset(&mut self) {
        *self = Ledger::default();
    }
}
