//! The events of each cycle.

use ambulator_base::{PhysAddr, VirtAddr};
use std::collections::VecDeque;

/// The receiver of a line.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    /// A load or a store of a core, by its number.
    Core(usize, u64),
    /// A core's front end.
    Front(usize),
    /// A page walker of a core, by its number.
    Walker(usize, usize),
    /// The search of a core for a page in a TLB in memory, by its 4 KiB page number.
    MemoryTlb(usize, u64),
    /// A core's RestSeg walker, by the line's number.
    RestSegs(usize, u64),
    /// A core's walker of the range table.
    Ranges(usize),
    /// A cache above, by its number.
    Cache(usize),
    /// None: a page-table bit is set.
    None,
}

/// Who writes a line to memory.
#[derive(Clone, Copy, Debug)]
pub enum Writer {
    /// The LLC, which evicted it.
    Llc,
    /// A core's kernel, which zeroes it.
    Zeroing(usize),
}

/// A request for a line.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The line's number.
    pub line: u64,
    /// Whether the cache that it enters at is to mark the line dirty.
    pub write: bool,
    /// The instruction and the byte, which prefetchers learn from.
    pub pc: u64,
    pub at: u64,
    /// A prefetcher's: others do not learn from it.
    pub prefetch: bool,
    /// The receiver.
    pub waiter: Waiter,
}

/// A part of an access: its number, and which of its lines.
pub type Part = (u64, usize);

/// Something that happens at the beginning of a cycle.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A request reaches a cache.
    Arrive(usize, Request),
    /// A line reaches a cache from below.
    Fill(usize, u64),
    /// A line is read or written by memory.
    Read(u64),
    Write(u64, Writer),
    /// A write that had to wait is in the queue of its channel.
    Queued(Writer),
    /// A line reaches its receiver.
    Ready(Waiter),
    /// An older store gives a load of a core its value.
    Forwarded(usize, u64),
    /// A branch of a core is resolved.
    Resolved(usize, u64),
    /// The L1 TLB's result for a part of an access of a core.
    Translated(usize, Part, PhysAddr),
    /// The L2 TLB's result for a page of a core, by its 4 KiB page number.
    SecondTlb(usize, u64),
    /// A core begins to look a page up in RestSegs, and the walker's caches answer.
    RestSegs(usize, u64),
    RestSegsLooked(usize, u64),
    /// The range TLB's result for a page of a core.
    Ranges(usize, u64),
    /// Midgard's second-level look-aside buffer has looked a page of a core up.
    FrontSide(usize, u64),
    /// A line that has missed all caches: its page is to be walked.
    BackSide(u64),
    /// A walker of a core has evaluated a model.
    Evaluated(usize, usize),
    /// A walker of a core begins a walk that prefetches.
    WalkBegins(usize, usize),
    /// The lines that a core predicts for an address are fetched.
    Predicted(usize, VirtAddr),
    /// A predicted line's fetch reaches a cache.
    Speculate(usize, u64),
    /// The page-walk caches' result for a walker of a core.
    WalkCaches(usize, usize),
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
