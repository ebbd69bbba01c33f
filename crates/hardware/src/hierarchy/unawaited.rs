//! Lines on their way that no instruction waits for: prefetches and speculative fetches from main memory, and evicted lines
//! that wait for room in its write queues.
//!
//! Main memory may deliver or take a line later than it said ([`Hierarchy::arrival`]). Who waits for it asks when the time has
//! come; nobody asks for these. They hold their MSHRs until they are there, so the hierarchy asks itself, at the
//! next access of the core, or of the last level.
//!
//! [`Hierarchy::arrival`]: super::Hierarchy::arrival

use ambulator_base::State;

/// A line on its way.
#[derive(Clone, Copy, Debug, Default, State)]
pub(super) struct UnderWay {
    pub line: u64,
    pub is_table: bool,
    /// The cycle in which it was said to be there.
    pub told: u64,
}

/// Such lines of a core or of the last level.
#[derive(Clone, Debug, State)]
#[state(timed)]
pub(super) struct Unawaited {
    lines: Vec<UnderWay>,
    /// The earliest of their times; `u64::MAX` if there are none.
    next: u64,
}

impl Unawaited {
    pub fn new() -> Unawaited {
        Unawaited { lines: Vec::new(), next: u64::MAX }
    }

    /// Whether one of them was to arrive by cycle `now`.
    #[inline(always)]
    pub fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }

    pub fn push(&mut self, fetched: UnderWay) {
        self.next = self.next.min(fetched.told);
        self.lines.push(fetched);
    }

    /// Takes the line that was to arrive first, if that was by cycle `now`.
    pub fn pop_due(&mut self, now: u64) -> Option<UnderWay> {
        if !self.is_due(now) {
            return None;
        }
        let first = self.lines.iter().position(|fetched| fetched.told == self.next)?;
        let fetched = self.lines.swap_remove(first);
        self.next = self.lines.iter().map(|fetched| fetched.told).min().unwrap_or(u64::MAX);
        Some(fetched)
    }

    /// Time goes on after all of them have arrived.
    pub fn clear(&mut self) {
        *self = Unawaited::new();
    }
}
