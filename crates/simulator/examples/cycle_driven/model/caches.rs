//! L1I, L1D and L2 of each core, and the LLC: tags that change in the order of time, MSHRs with merging,
//! prefetchers, dirty write-backs.
//!
//! A level's latency is the round trip from the requester to it and back, so a request reaches level `n + 1`
//! when the round trip of level `n` is over, and a hit there responds when its own is. An MSHR is held from
//! the arrival of the request at its level.

use super::events::{Event, Events, Request, Waiter, Writer};
use super::lru::LruSets;
use super::predictors::Prefetcher;
use super::sides::Sides;
use ambulator_hardware::{CacheSpec, HierarchySpec, Replacement};
use std::collections::{HashMap, VecDeque};

/// The private caches of a core, by their place in the numbering of all caches.
pub const L1I: usize = 0;
pub const L1D: usize = 1;
pub const L2: usize = 2;
const OF_CORE: usize = 3;

/// An outstanding miss: the requests that wait for it, and since when.
type Mshr = Vec<(Request, u64)>;

struct Cache {
    /// Lines, and whether they are dirty.
    lines: LruSets<bool>,
    mshrs: HashMap<u64, Mshr>,
    /// MSHRs of evicted lines, which wait for room in memory's queues.
    evicting: usize,
    limit: usize,
    /// Misses that wait for an MSHR, first come, first served.
    stalled: VecDeque<Request>,
    prefetcher: Prefetcher,
    /// The cache below; the last has none.
    below: Option<usize>,
    /// Cycles from the requester until a request arrives here.
    reach: u64,
    /// Cycles from here to the response of a hit.
    answer: u64,
}

impl Cache {
    fn new(spec: &CacheSpec, shares: usize, reach: u64, below: Option<usize>) -> Cache {
        assert!(spec.replacement == Replacement::Lru, "the reference's caches are LRU");
        Cache {
            lines: LruSets::new(spec.bytes as usize / 64 * shares, spec.ways as usize),
            mshrs: HashMap::new(),
            evicting: 0,
            limit: spec.mshrs as usize * shares,
            stalled: VecDeque::new(),
            prefetcher: Prefetcher::new(spec),
            below,
            reach,
            answer: spec.latency - reach,
        }
    }

    fn has_mshr(&self) -> bool {
        self.mshrs.len() + self.evicting < self.limit
    }
}

/// The caches of all cores.
pub struct Caches {
    caches: Vec<Cache>,
    /// Cycles from the LLC to the memory controller's queues: the rest of its round trip, and the controller.
    to_memory: u64,
    controller: u64,
}

impl Caches {
    /// Empty caches; `controller` is the latency, in cycles, that the path to main memory adds.
    pub fn new(spec: &HierarchySpec, cores: usize, controller: u64) -> Caches {
        let mut caches = Vec::new();
        for core in 0..cores {
            let second = Some(core * OF_CORE + L2);
            caches.push(Cache::new(&spec.l1i, 1, 0, second));
            caches.push(Cache::new(&spec.l1d, 1, 0, second));
            caches.push(Cache::new(&spec.l2, 1, spec.l1d.latency, Some(cores * OF_CORE)));
        }
        caches.push(Cache::new(&spec.llc, cores, spec.l2.latency, None));
        Caches { caches, to_memory: spec.llc.latency - spec.l2.latency + controller, controller }
    }

    /// The number of a private cache of a core.
    pub fn of_core(core: usize, which: usize) -> usize {
        core * OF_CORE + which
    }

    /// The number of the LLC.
    pub fn llc(&self) -> usize {
        self.caches.len() - 1
    }

    /// Whether a cache has a line, and its round trip is a single cycle: a fetch of it costs nothing more.
    pub fn uses_at_once(&mut self, cache: usize, line: u64) -> bool {
        let cache = &mut self.caches[cache];
        cache.answer <= 1 && cache.lines.lookup(line, line).is_some()
    }

    /// A requester next to a core requests a line of a cache.
    pub fn request(&mut self, cache: usize, request: Request, events: &mut Events) {
        match self.caches[cache].reach {
            0 => self.arrive(cache, request, events),
            reach => events.after(reach, Event::Arrive(cache, request)),
        }
    }

    /// A request has reached a cache.
    pub fn arrive(&mut self, number: usize, request: Request, events: &mut Events) {
        self.serve(number, request, events);
        if request.prefetch {
            return;
        }
        let cache = &mut self.caches[number];
        for line in cache.prefetcher.learn(request.pc, request.at) {
            let cache = &mut self.caches[number];
            let free = cache.has_mshr() && !cache.mshrs.contains_key(&line);
            if free && cache.lines.peek(line, line).is_none() {
                self.miss(number, line, Vec::new(), events);
            }
        }
    }

    /// A speculative fetch has reached a cache: it is dropped if no MSHR is free.
    pub fn speculate(&mut self, number: usize, line: u64, events: &mut Events) {
        let cache = &mut self.caches[number];
        let held = cache.lines.lookup(line, line).is_some() || cache.mshrs.contains_key(&line);
        if !held && cache.has_mshr() {
            self.miss(number, line, Vec::new(), events);
        }
    }

    /// A core fetches a line speculatively into a cache.
    pub fn send_speculation(&self, cache: usize, line: u64, events: &mut Events) {
        events.after(self.caches[cache].reach, Event::Speculate(cache, line));
    }

    fn serve(&mut self, number: usize, request: Request, events: &mut Events) {
        let cache = &mut self.caches[number];
        if let Some(dirty) = cache.lines.lookup(request.line, request.line) {
            *dirty |= request.write;
            respond(request, cache.answer, events);
        } else if let Some(mshr) = cache.mshrs.get_mut(&request.line) {
            mshr.push((request, events.now));
        } else if !cache.has_mshr() {
            cache.stalled.push_back(request);
        } else {
            self.miss(number, request.line, vec![(request, events.now)], events);
        }
    }

    /// Takes an MSHR and requests the line from below.
    fn miss(&mut self, number: usize, line: u64, waiting: Mshr, events: &mut Events) {
        let cache = &mut self.caches[number];
        let (pc, prefetch) = waiting.first().map_or((0, true), |(request, _)| (request.pc, request.prefetch));
        let reach = cache.reach;
        cache.mshrs.insert(line, waiting);
        match cache.below {
            Some(below) => {
                let waiter = Waiter::Cache(number);
                let next = Request { line, write: false, pc, at: line * 64, prefetch, waiter };
                events.after(self.caches[below].reach - reach, Event::Arrive(below, next));
            }
            None if Sides::is_intermediate(line) => {
                events.after(self.to_memory - self.controller, Event::BackSide(line));
            }
            None => events.after(self.to_memory, Event::Read(line)),
        }
    }

    /// A requester `nearer` to a cache than a core requests a line of it.
    pub fn request_nearer(&mut self, cache: usize, request: Request, nearer: u64, events: &mut Events) {
        events.after(self.caches[cache].reach - nearer, Event::Arrive(cache, request));
    }

    /// A line arrives from below: the waiting requests get it, and the MSHR is free.
    pub fn fill(&mut self, number: usize, line: u64, events: &mut Events) {
        let cache = &mut self.caches[number];
        let waiting = cache.mshrs.remove(&line).expect("a line that was requested");
        for &(request, since) in &waiting {
            // A request that came just before the line pays for a hit.
            respond(request, (since + cache.answer).saturating_sub(events.now), events);
        }
        self.place(number, line, waiting.iter().any(|(request, _)| request.write), events);
        self.serve_stalled(number, events);
    }

    fn serve_stalled(&mut self, number: usize, events: &mut Events) {
        while self.caches[number].has_mshr() {
            let Some(request) = self.caches[number].stalled.pop_front() else { break };
            self.serve(number, request, events);
        }
    }

    /// A line that the LLC evicted waits for room in memory's queues: it holds an MSHR.
    pub fn evicted_waits(&mut self) {
        let llc = self.llc();
        self.caches[llc].evicting += 1;
    }

    /// It has room.
    pub fn evicted_is_queued(&mut self, events: &mut Events) {
        let llc = self.llc();
        self.caches[llc].evicting -= 1;
        self.serve_stalled(llc, events);
    }

    /// Inserts a line; an evicted dirty line is written to the cache below at once.
    fn place(&mut self, number: usize, line: u64, dirty: bool, events: &mut Events) {
        let cache = &mut self.caches[number];
        if let Some(held) = cache.lines.peek(line, line) {
            *held |= dirty;
        } else if let Some((victim, true)) = cache.lines.insert(line, line, dirty) {
            match cache.below {
                Some(below) => self.place(below, victim, true, events),
                None => events.after(self.controller, Event::Write(victim, Writer::Llc)),
            }
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
