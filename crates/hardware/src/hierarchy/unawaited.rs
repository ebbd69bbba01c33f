//! Lines on their way that no instruction waits for: prefetches and speculative fetches from main memory, and evicted lines
//! whose successors are on their way, or that wait for room in main memory's write queues.
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

/// A dirty line that the last level has evicted, whose successor is on its way.
#[derive(Clone, Copy, Debug, Default, State)]
pub(super) struct Leaving {
    pub line: u64,
    pub is_table: bool,
    pub socket: u8,
    pub by: UnderWay,
}

/// Such lines of a core or of the last level, by when they are due.
#[derive(Clone, Debug, State)]
#[state(timed)]
pub(super) struct Due<T: Clone + Default + State> {
    /// The latest first.
    lines: Vec<(u64, T)>,
    /// The earliest of their times; `u64::MAX` if there are none.
    next: u64,
}

impl<T: Copy + Default + State> Due<T> {
    pub fn new() -> Due<T> {
        Due { lines: Vec::new(), next: u64::MAX }
    }

    /// Whether one of them is due by cycle `now`.
    #[inline(always)]
    pub fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }

    pub fn push(&mut self, at: u64, line: T) {
        let place = self.lines.partition_point(|(other, _)| *other > at);
        self.lines.insert(place, (at, line));
        self.next = self.next.min(at);
    }

    /// Asks when each line is there that is due by cycle `now`: later, and what is then due; or it is no longer on its way.
    pub fn ask(&mut self, now: u64, mut when: impl FnMut(T) -> Option<(u64, T)>) {
        while self.is_due(now)
            && let Some((_, first)) = self.lines.pop()
        {
            self.next = self.lines.last().map_or(u64::MAX, |(at, _)| *at);
            if let Some((at, line)) = when(first) {
                self.push(at, line);
            }
        }
    }

    /// Time goes on after all of them have arrived.
    pub fn clear(&mut self) {
        *self = Due::new();
    }
}
