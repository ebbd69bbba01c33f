//! What happens in which cycle.

use ambulator_base::PhysAddr;
use std::collections::VecDeque;

/// Who waits for a line.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    /// A load or a store of the core, by its number.
    Core(u64),
    /// A page walker, by its number.
    Walker(usize),
    /// The cache above, by its level.
    Cache(usize),
    /// Nobody: a page-table bit that is set.
    Nobody,
}

/// A line that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The line's number.
    pub line: u64,
    /// Whether the cache that it enters at is to mark the line dirty.
    pub write: bool,
    /// Who is told.
    pub waiter: Waiter,
}

/// Something that happens at the beginning of a cycle.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A request reaches a cache.
    Arrive(usize, Request),
    /// A line reaches a cache from below.
    Fill(usize, u64),
    /// A read or a write of a line reaches the memory controller.
    Memory(u64, bool),
    /// A line reaches who asked for it.
    Ready(Waiter),
    /// A branch is resolved.
    Resolved(u64),
    /// The L1 TLB's answer for an access.
    Translated(u64, PhysAddr),
    /// The L2 TLB's answer for a page, by its 4 KiB page number.
    SecondTlb(u64),
    /// The page-walk caches' answer for a walker.
    WalkCaches(usize),
}

/// Cycles ahead that an event can lie.
const AHEAD: u64 = 1 << 14;

/// The events of the cycles to come, those of one cycle in the order in which they were scheduled.
pub struct Events {
    /// The cycle that it is.
    pub now: u64,
    cycles: Vec<VecDeque<Event>>,
}

impl Events {
    /// No events; cycle 0.
    pub fn new() -> Events {
        Events { now: 0, cycles: vec![VecDeque::new(); AHEAD as usize] }
    }

    /// `event` happens `delay` cycles from now.
    pub fn after(&mut self, delay: u64, event: Event) {
        assert!(delay < AHEAD, "an event {delay} cycles ahead: the reference looks {AHEAD} cycles ahead at most");
        self.cycles[((self.now + delay) % AHEAD) as usize].push_back(event);
    }

    /// The next event of this cycle.
    pub fn due(&mut self) -> Option<Event> {
        self.cycles[(self.now % AHEAD) as usize].pop_front()
    }
}
