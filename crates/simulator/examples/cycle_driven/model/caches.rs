//! L1D, L2 and LLC: tags that change in the order of time, MSHRs with merging, dirty write-backs.
//!
//! A level's latency is the round trip from the requester to it and back, so a request reaches level `n + 1`
//! when the round trip of level `n` is over, and a hit there responds when its own is.

use super::events::{Event, Events, Request, Waiter};
use ambulator_hardware::{CacheSpec, HierarchySpec, SetArray};
use std::collections::{HashMap, VecDeque};

/// Levels that are caches.
const LEVELS: usize = 3;

/// An outstanding miss: the requests that wait for it, and since when.
type Mshr = Vec<(Request, u64)>;

struct Level {
    /// Lines, and whether they are dirty.
    lines: SetArray<bool>,
    mshrs: HashMap<u64, Mshr>,
    limit: usize,
    /// Misses that wait for an MSHR, first come, first served.
    stalled: VecDeque<Request>,
    /// Cycles from the requester until a request arrives here.
    reach: u64,
    /// Cycles from here to the response of a hit.
    answer: u64,
}

impl Level {
    fn new(spec: &CacheSpec, reach: u64, seed: u64) -> Level {
        let ways = spec.ways as usize;
        let sets = spec.bytes as usize / 64 / ways;
        Level {
            lines: SetArray::with_seed(sets, ways, spec.replacement, seed),
            mshrs: HashMap::new(),
            limit: spec.mshrs as usize,
            stalled: VecDeque::new(),
            reach,
            answer: spec.latency - reach,
        }
    }

    fn set(&self, line: u64) -> usize {
        line as usize % self.lines.sets()
    }
}

/// The caches of one core.
pub struct Caches {
    levels: [Level; LEVELS],
    /// Cycles from the LLC to the memory controller's queues: the rest of its round trip, and the controller.
    to_memory: u64,
    controller: u64,
}

impl Caches {
    /// Empty caches; `controller` is the latency, in cycles, that the path to main memory adds.
    pub fn new(spec: &HierarchySpec, controller: u64) -> Caches {
        let levels = [
            Level::new(&spec.l1d, 0, 1),
            Level::new(&spec.l2, spec.l1d.latency, 2),
            Level::new(&spec.llc, spec.l2.latency, 3),
        ];
        Caches { levels, to_memory: spec.llc.latency - spec.l2.latency + controller, controller }
    }

    /// A requester next to the core requests a line at level `entry`.
    pub fn request(&mut self, entry: usize, request: Request, events: &mut Events) {
        match self.levels[entry].reach {
            0 => self.arrive(entry, request, events),
            reach => events.after(reach, Event::Arrive(entry, request)),
        }
    }

    /// A request has reached a level.
    pub fn arrive(&mut self, number: usize, request: Request, events: &mut Events) {
        let to_memory = self.to_memory;
        let below = self.levels.get(number + 1).map(|below| below.reach);
        let level = &mut self.levels[number];
        let set = level.set(request.line);
        if let Some(dirty) = level.lines.lookup(set, request.line) {
            *dirty |= request.write;
            respond(request, level.answer, events);
        } else if let Some(mshr) = level.mshrs.get_mut(&request.line) {
            mshr.push((request, events.now));
        } else if level.mshrs.len() == level.limit {
            level.stalled.push_back(request);
        } else {
            level.mshrs.insert(request.line, vec![(request, events.now)]);
            match below {
                Some(reach) => {
                    let next = Request { line: request.line, write: false, waiter: Waiter::Cache(number) };
                    events.after(reach - level.reach, Event::Arrive(number + 1, next));
                }
                None => events.after(to_memory, Event::Memory(request.line, false)),
            }
        }
    }

    /// A line arrives from below: the waiting requests get it, and the MSHR is free.
    pub fn fill(&mut self, number: usize, line: u64, events: &mut Events) {
        let level = &mut self.levels[number];
        let waiting = level.mshrs.remove(&line).expect("a line that was requested");
        for &(request, since) in &waiting {
            // A request that came just before the line pays for a hit.
            respond(request, (since + level.answer).saturating_sub(events.now), events);
        }
        self.place(number, line, waiting.iter().any(|(request, _)| request.write), events);
        while self.levels[number].mshrs.len() < self.levels[number].limit {
            let Some(request) = self.levels[number].stalled.pop_front() else { break };
            self.arrive(number, request, events);
        }
    }

    /// Inserts a line; an evicted dirty line is written to the level below at once.
    fn place(&mut self, number: usize, line: u64, dirty: bool, events: &mut Events) {
        let Some(level) = self.levels.get_mut(number) else {
            events.after(self.controller, Event::Memory(line, true));
            return;
        };
        let set = level.set(line);
        if let Some(held) = level.lines.peek_mut(set, line) {
            *held |= dirty;
        } else if let Some((victim, true)) = level.lines.insert(set, line, dirty) {
            self.place(number + 1, victim, true, events);
        }
    }
}

fn respond(request: Request, delay: u64, events: &mut Events) {
    match request.waiter {
        Waiter::Cache(above) => events.after(delay, Event::Fill(above, request.line)),
        Waiter::None => {}
        waiter => events.after(delay, Event::Ready(waiter)),
    }
}
