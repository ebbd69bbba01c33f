//! One thread of the program: the state that other threads may read, and its private state.
//!
//! A thread's records are private: no other thread accesses them, not even at the end of the process. A
//! thread that needs them increments the epoch (`Capture::gather`), and each running thread submits its
//! records from its own next callback. The state that others may read at any time (state, epoch, instructions
//! not yet accounted for) is atomic.

use crate::thread::Tracer;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The states of a thread.
pub mod state {
    /// No such thread exists.
    pub const ABSENT: u8 = 0;
    /// It runs the program and will reach a callback soon.
    pub const RUNNING: u8 = 1;
    /// It is in a system call and has submitted all of its records.
    pub const BLOCKED: u8 = 2;
}

/// A thread's entry.
pub struct Slot {
    /// One of [`state`].
    pub state: AtomicU8,
    /// The last epoch at which it submitted its records.
    pub epoch: AtomicU64,
    /// Executed instructions not accounted for yet. Only the thread writes it.
    pub pending: AtomicU64,
    /// The mode in which they were executed. Only the thread writes it.
    pub mode: AtomicU8,
    own: UnsafeCell<Option<Box<Own>>>,
}

/// A thread's private state.
pub struct Own {
    pub tracer: Tracer,
    /// The value of `Slot::pending` at which it accounts for them.
    pub limit: u64,
    /// The arguments of its current system call.
    pub arguments: [u64; 6],
}

// SAFETY: all fields but `own` are atomic, and `own` is reached through `Slot::own` and `Slot::clear` alone,
// whose callers promise to be the slot's thread. The contents pass in order from one thread to the next with
// the same number: the first clears them and stores `ABSENT` (sequentially consistent) before the emulator
// frees the number under its lock.
unsafe impl Sync for Slot {}

impl Slot {
    /// The entry of no thread.
    pub fn new() -> Slot {
        Slot {
            state: AtomicU8::new(state::ABSENT),
            epoch: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            mode: AtomicU8::new(0),
            own: UnsafeCell::new(None),
        }
    }

    /// The calling thread's private state; `None` before its first callback.
    ///
    /// # Safety
    /// The caller must be the thread that has the slot's number, and hold no other reference from here. The
    /// emulator calls a virtual CPU's callbacks sequentially on that CPU's thread, so it suffices to be in a
    /// callback for this number and to call this once.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn own(&self) -> &mut Option<Box<Own>> {
        // SAFETY: the caller's promise: no other thread and no other reference.
        unsafe { &mut *self.own.get() }
    }

    /// Clears the entry at the end of the thread.
    ///
    /// # Safety
    /// As for [`Slot::own`].
    pub unsafe fn clear(&self) {
        // SAFETY: the caller's promise.
        unsafe { *self.own.get() = None };
        self.state.store(state::ABSENT, Ordering::SeqCst);
    }

    /// Adds executed instructions, and returns those not accounted for. Only the slot's thread calls it, so a
    /// load and a store suffice.
    #[inline(always)]
    pub fn executed(&self, instructions: u64) -> u64 {
        let pending = self.pending.load(Ordering::Relaxed) + instructions;
        self.pending.store(pending, Ordering::Relaxed);
        pending
    }
}
