//! A core's own clock, and the walks in flight on it.
//!
//! The simulator around the machine tells only afterwards when a walk has ended. Until then what the walk
//! fills must not be usable. The clock stands for that: a walk's loads end far in its future
//! ([`ACCESS_SPAN`]), and it jumps past them when the simulator says that the walk is complete. Walks end on
//! this clock in the order in which they began: what a walk fills that overtakes an older one of its core
//! becomes usable with the older one. The walk itself, and whoever joined it, do not wait for that.

use ambulator_base::Cycle;
use ambulator_mmu::ACCESS_SPAN;
use std::collections::VecDeque;

/// Walks of a core that may be in flight at once.
pub const MOST_IN_FLIGHT: usize = 4096;

/// A walk in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub id: u64,
    /// Its loads end after this cycle and up to `end`, on the core's own clock.
    begin: Cycle,
    end: Cycle,
    /// When it began, for the simulator around it.
    pub began: u64,
    /// When it has ended, for the simulator around it, if it has said so.
    pub completed: Option<u64>,
}

/// A core's own clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Its time when the simulator around it was at `origin`.
    base: u64,
    origin: u64,
    /// Oldest first.
    in_flight: VecDeque<InFlight>,
}

impl Clock {
    /// The core's time when the simulator around it is at `now`. Walks that have ended by then are over.
    pub fn advance(&mut self, now: u64) -> Cycle {
        while let Some(walk) = self.in_flight.front()
            && walk.completed.is_some_and(|at| at <= now)
        {
            self.base = self.at(now).0.max(walk.end.0 + 1);
            self.origin = now;
            self.in_flight.pop_front();
        }
        self.at(now)
    }

    fn at(&self, now: u64) -> Cycle {
        let at = self.base.saturating_add(now.saturating_sub(self.origin));
        // Nothing of the oldest walk in flight may be over.
        Cycle(self.in_flight.front().map_or(at, |walk| at.min(walk.begin.0 + ACCESS_SPAN / 2)))
    }

    /// After this cycle ends what begins now.
    pub fn horizon(&self, now: Cycle) -> Cycle {
        self.in_flight.back().map_or(now, |walk| walk.end.max(now))
    }

    /// A walk whose loads end after `begin` and up to `end`.
    pub fn add(&mut self, id: u64, begin: Cycle, end: Cycle, began: u64) {
        self.in_flight.push_back(InFlight { id, begin, end, began, completed: None });
    }

    /// Whether another walk may begin.
    pub fn has_room(&self) -> bool {
        self.in_flight.len() < MOST_IN_FLIGHT
    }

    /// The walk in flight that a time of the future belongs to.
    pub fn owner(&self, time: Cycle) -> Option<InFlight> {
        self.in_flight.iter().find(|walk| walk.begin < time && time <= walk.end).copied()
    }

    /// A walk that is not over yet.
    pub fn walk(&mut self, id: u64) -> Option<&mut InFlight> {
        let at = self.in_flight.binary_search_by_key(&id, |walk| walk.id).ok()?;
        self.in_flight.get_mut(at)
    }

    /// Walks that are not complete.
    pub fn incomplete(&self) -> usize {
        self.in_flight.iter().filter(|walk| walk.completed.is_none()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_walk_fills_is_in_the_future_until_the_walk_is_complete() {
        let mut clock = Clock::default();
        let began = clock.advance(100);
        let end = began.after(3 * ACCESS_SPAN);
        clock.add(1, clock.horizon(began), end, 100);
        assert!(clock.advance(1 << 40) < began.after(ACCESS_SPAN), "however late the answer is");
        clock.walk(1).unwrap().completed = Some(5000);
        assert!(clock.advance(4999) < end, "it has not ended yet");
        assert!(clock.advance(5000) > end);
        assert!(clock.walk(1).is_none());
        assert!(clock.advance(4000) > end, "the clock never goes back");
    }

    #[test]
    fn a_walk_that_overtakes_is_over_with_the_older_one() {
        let mut clock = Clock::default();
        let mut ends = Vec::new();
        for id in [1, 2] {
            let now = clock.advance(10 * id);
            let begin = clock.horizon(now);
            let end = begin.after(ACCESS_SPAN + 7);
            clock.add(id, begin, end, 10 * id);
            ends.push(end);
        }
        assert_eq!(clock.owner(ends[1]).map(|walk| walk.id), Some(2));
        clock.walk(2).unwrap().completed = Some(50);
        assert!(clock.advance(60) < ends[0], "the older one is in flight");
        assert_eq!(clock.incomplete(), 1);
        clock.walk(1).unwrap().completed = Some(70);
        assert!(clock.advance(70) > ends[1]);
        assert!(clock.has_room());
    }
}
