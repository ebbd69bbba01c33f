//! One thread of the program as the others see it, and what is its own.
//!
//! A thread's records are its own: no other thread ever looks at them, not even as the process ends. Whoever needs them
//! raises the epoch (`Capture::gather`), and each running thread hands them over from its own next callback. What others
//! may read at any time (state, epoch, instructions not yet accounted for) is atomic.

use crate::thread::Tracer;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Where a thread is.
pub mod state {
    /// There is no such thread.
    pub const ABSENT: u8 = 0;
    /// It runs the program, and reaches a callback soon.
    pub const RUNNING: u8 = 1;
    /// It is in a system call, and has handed over all that it did.
    pub const BLOCKED: u8 = 2;
}

/// A thread's place.
pub struct Slot {
    /// One of [`state`].
    pub state: AtomicU8,
    /// The last epoch at which it handed over.
    pub epoch: AtomicU64,
    /// Instructions that it has executed and not accounted for. Only the thread writes it.
    pub pending: AtomicU64,
    /// The mode in which it executed them. Only the thread writes it.
    pub mode: AtomicU8,
    own: UnsafeCell<Option<Box<Own>>>,
}

/// What a thread alone touches.
pub struct Own {
    pub tracer: Tracer,
    /// `Slot::pending` at which it accounts for them.
    pub limit: u64,
    /// Of the system call that it is in.
    pub arguments: [u64; 6],
}

// SAFETY: all fields but `own` are atomic, and `own` is reached through `Slot::own` and `Slot::clear` alone, whose callers
// promise to be the slot's thread. From one thread to the next that is given the same number the contents pass in order: the
// first clears them and stores `ABSENT` (sequentially consistent) before the emulator frees the number under a lock of its own.
unsafe impl Sync for Slot {}

impl Slot {
    /// No thread.
    pub fn new() -> Slot {
        Slot {
            state: AtomicU8::new(state::ABSENT),
            epoch: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            mode: AtomicU8::new(0),
            own: UnsafeCell::new(None),
        }
    }

    /// What the calling thread owns; `None` before its first callback.
    ///
    /// # Safety
    /// The caller must be the thread that has the slot's number, and hold no other reference from here. The emulator calls
    /// a virtual CPU's callbacks on that CPU's thread, one after the other, so it is enough to be in a callback for
    /// this number and to call this once.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn own(&self) -> &mut Option<Box<Own>> {
        // SAFETY: the caller's promise: no other thread and no other reference.
        unsafe { &mut *self.own.get() }
    }

    /// The thread ends.
    ///
    /// # Safety
    /// As for [`Slot::own`].
    pub unsafe fn clear(&self) {
        // SAFETY: the caller's promise.
        unsafe { *self.own.get() = None };
        self.state.store(state::ABSENT, Ordering::SeqCst);
    }

    /// Adds executed instructions. Only the slot's thread calls it, so a load and a store do.
    #[inline(always)]
    pub fn executed(&self, instructions: u64) {
        self.pending.store(self.pending.load(Ordering::Relaxed) + instructions, Ordering::Relaxed);
    }
}
