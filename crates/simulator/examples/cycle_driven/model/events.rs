//! The events of each cycle.

use ambulator_base::PhysAddr;
use std::collections::VecDeque;

/// The receiver of a line.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    /// A load or a store of the core, by its number.
    Core(u64),
    /// A page walker, by its number.
    Walker(usize),
    /// The cache above, by its level.
    Cache(usize),
    /// None: a page-table bit is set.
    None,
}

/// A request for a line.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The line's number.
    pub line: u64,
    /// Whether the cache that it enters at is to mark the line dirty.
    pub write: bool,
    /// The receiver.
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
    /// A line reaches its receiver.
    Ready(Waiter),
    /// A branch is resolved.
    Resolved(u64),
    /// The L1 TLB's result for an access.
    Translated(u64, PhysAddr),
    /// The L2 TLB's result for a page, by its 4 KiB page number.
    SecondTlb(u64),
    /// The page-walk caches' result for a walker.
    WalkCaches(usize),
}

/// Maximum delay of an event, in cycles.
const AHEAD: u64 = 1 << 14;

/// The events of future cycles; the events of one cycle are in the order in which they were scheduled.
pub struct Events {
    /// The current cycle.
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
