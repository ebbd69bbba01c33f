//! The levels of the hierarchy: what an access does in each, what a miss fetches from the level below, and where
//! an evicted line goes.

use super::Access;
use super::unawaited::{Due, Leaving, UnderWay};
use crate::Served;
use crate::cache::{Cache, Class, DIRTY, PREFETCHED, Slot, TABLE, Victim};
use crate::copies::Copies;
use crate::intermediate_map::IntermediateMap;
use crate::main_memory::MainMemory;
use crate::prefetch::{Prefetcher, Suggestion};
use crate::zeroing::ZeroWrites;
use ambulator_base::{AccessKind, Cycle, LINE_BYTES, PhysAddr, State, VirtAddr};

#[derive(Clone, Debug, State)]
pub(super) struct FirstLevel {
    pub(super) cache: Cache,
    pub(super) prefetcher: Prefetcher,
}

#[derive(Clone, Debug, State)]
pub(super) struct SecondLevel {
    pub(super) cache: Cache,
    pub(super) prefetcher: Prefetcher,
    /// What the core's caches have fetched that nobody waits for.
    pub(super) unawaited: Due<UnderWay>,
    /// Of the core: where its requests to main memory come from.
    pub(super) socket: u8,
}

#[derive(Clone, Debug, State)]
pub(super) struct Shared {
    pub(super) llc: Cache,
    pub(super) dram: MainMemory,
    /// The LLC's arrays are larger than the sim host's private caches, so the sim host prefetches them during
    /// the look-ups of the levels above.
    #[state(skip)]
    pub(super) large: bool,
    /// Page copies and zeroing in the background, and whether there are any.
    pub(super) copies: Copies,
    pub(super) zeroing: ZeroWrites,
    pub(super) background: bool,
    /// Evicted dirty lines whose successors are on their way, and those that wait for room in a write queue.
    pub(super) leaving: Due<Leaving>,
    /// Evicted dirty lines whose successors have been asked for ahead and are not sent yet.
    pub(super) ahead: Vec<Leaving>,
    pub(super) evicting: Due<UnderWay>,
    /// Cycles after which an access is told that its line is there, if that comes from main memory, at least.
    #[state(skip)]
    pub(super) awaits_beyond: u64,
    /// Frames of intermediate addresses, if the caches are indexed by such.
    #[state(each)]
    pub(super) intermediate: Option<Box<IntermediateMap>>,
}

/// An access that descends the hierarchy.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) line: u64,
    pub(super) class: Class,
    /// Flags of the line wherever it is filled.
    pub(super) flags: u8,
    pub(super) pc: u64,
}

impl Request {
    /// A core's access, and the flags that it sets in the first level.
    #[inline(always)]
    pub(super) fn demand(at: PhysAddr, kind: AccessKind, pc: VirtAddr) -> (Request, u8) {
        let add = if kind == AccessKind::Store { DIRTY } else { 0 };
        (Request { line: at.line(), class: Class::Demand, flags: 0, pc: pc.0 }, add)
    }
}

impl Shared {
    /// `flags` are the line's here; of its arguments, six are as many as the sim host passes in registers.
    pub(super) fn access(&mut self, line: u64, class: Class, flags: u8, socket: u8, now: u64) -> (u64, Served) {
        let slot = match self.llc.find(line) {
            Ok(place) => return (self.llc.hit(place, class, flags, now), Served::Llc),
            Err(slot) => slot,
        };
        self.llc.missed(class);
        if self.evicting.is_due(now) {
            self.ask_for_evicted(now);
        }
        let admitted = self.llc.admit(now);
        let mut requested = admitted + self.llc.latency;
        let mut place = line;
        if let Some(map) = &mut self.intermediate {
            place = map.line(line).unwrap_or(line);
            if flags & TABLE == 0 {
                let known = map.take_known();
                if known == 0 && class == Class::Demand && self.llc.is_timed() {
                    return self.miss_unknown(slot, line, (flags, socket), now, admitted);
                }
                requested = requested.max(known);
            }
        }
        if self.background {
            self.advance(requested);
        }
        let ready = self.dram.read(place, flags & TABLE != 0, socket, requested);
        if let Some(victim) = self.llc.fill(slot, flags, now, admitted, ready) {
            self.evicted(victim, socket, UnderWay { line, is_table: flags & TABLE != 0, told: ready });
        }
        (ready, Served::Dram)
    }

    /// A load or a store misses all caches, and its page is walked only now.
    #[cold]
    fn miss_unknown(
        &mut self,
        slot: Slot,
        line: u64,
        (flags, socket): (u8, u8),
        now: u64,
        admitted: u64,
    ) -> (u64, Served) {
        let requested = admitted + self.llc.latency;
        let told = self.intermediate.as_mut().map_or(requested, |map| map.miss(line, socket, requested));
        if let Some(victim) = self.llc.fill(slot, flags, now, admitted, told) {
            self.evicted(victim, socket, UnderWay { line, is_table: false, told });
        }
        (told, Served::Dram)
    }

    /// Whether the page of a line that has missed all caches is not known yet.
    pub(super) fn is_unknown(&self, line: u64) -> bool {
        self.intermediate.as_ref().is_some_and(|map| map.unknown(line).is_some())
    }

    /// The line of main memory that holds a line of the caches.
    #[inline(always)]
    pub(super) fn place_of(&self, line: u64) -> u64 {
        self.intermediate.as_ref().and_then(|map| map.line(line)).unwrap_or(line)
    }

    /// Carries copies and zeroing on to cycle `now`.
    #[cold]
    pub(super) fn advance(&mut self, now: u64) {
        self.copies.advance(now, &mut self.dram);
        self.zeroing.advance(now, &mut self.dram);
        self.background = !(self.copies.idle() && self.zeroing.idle());
    }

    /// The last level evicted a line for another one, on its way from main memory: it leaves when that has come.
    #[inline(always)]
    fn evicted(&mut self, victim: Victim, socket: u8, by: UnderWay) {
        if victim.flags & DIRTY == 0 {
            return;
        }
        // An unmapped page has no frame to write to.
        let place = self.intermediate.as_ref().map_or(Some(victim.line), |map| map.line(victim.line));
        let Some(line) = place else { return };
        let is_table = victim.flags & TABLE != 0;
        self.dram.count_write(line, is_table, socket);
        if self.llc.is_timed() {
            self.leaving.push(by.told, Leaving { line, is_table, socket, by });
        }
    }

    /// Writes the evicted lines back whose places are taken by `now`.
    #[cold]
    pub(super) fn write_due(&mut self, now: u64) {
        let mut leaving = std::mem::replace(&mut self.leaving, Due::new());
        leaving.ask(now, |leaving| {
            let Leaving { line, is_table, socket, by } = leaving;
            let place = self.place_of(by.line);
            if by.is_table && now < u64::MAX && self.dram.is_ahead(place) {
                self.ahead.push(leaving);
                return None;
            }
            if now < u64::MAX && self.is_unknown(by.line) {
                return Some((now + super::behind::ASKS_AGAIN, leaving));
            }
            let at = self.dram.arrival(place, by.is_table, by.told);
            if at > now {
                return Some((at, Leaving { by: UnderWay { told: at, ..by }, ..leaving }));
            }
            let written = self.dram.send_write(line, is_table, socket, at);
            if written.waited > 0 {
                // It holds an MSHR until the write queue has room.
                self.llc.hold_mshr(at, at + written.waited);
                self.evicting.push(written.at, UnderWay { line, is_table: false, told: written.at });
            }
            None
        });
        self.leaving = leaving;
    }

    /// A line that was asked for ahead is sent: the line that leaves for it asks when it comes.
    pub(super) fn sent_ahead(&mut self, line: u64) {
        if let Some(at) = self.ahead.iter().position(|leaving| leaving.by.line == line) {
            let leaving = self.ahead.swap_remove(at);
            self.leaving.push(leaving.by.told, leaving);
        }
    }

    /// Asks whether the evicted lines that were to find room in a write queue by `now` have found it: they hold their
    /// MSHRs until then.
    #[cold]
    fn ask_for_evicted(&mut self, now: u64) {
        let Shared { evicting, dram, llc, .. } = self;
        evicting.ask(now, |evicted| {
            let UnderWay { line, told, .. } = evicted;
            let at = dram.entry(line, told);
            if at <= told {
                return None;
            }
            llc.hold_mshr(told, at);
            Some((at, UnderWay { told: at, ..evicted }))
        });
    }

    /// A second level evicted a dirty line.
    fn write_back(&mut self, victim: Victim, socket: u8, by: UnderWay) {
        if let Some(next) = self.llc.write_back(victim, by.told) {
            self.evicted(next, socket, by);
        }
    }
}

impl SecondLevel {
    /// `add` holds flags for this level only.
    #[inline(always)]
    pub(super) fn access(&mut self, shared: &mut Shared, request: Request, add: u8, now: u64) -> (u64, Served) {
        let Request { line, class, flags, pc } = request;
        let result = match self.cache.find(line) {
            Ok(place) => (self.cache.hit(place, class, (flags & TABLE) | (add & DIRTY), now), Served::L2),
            Err(slot) => {
                self.cache.missed(class);
                let admitted = self.cache.admit(now);
                self.fetch(shared, request, slot, add, now, admitted)
            }
        };
        if self.prefetcher.is_some() && matches!(class, Class::Demand | Class::Table) {
            self.train(shared, pc, line, now);
        }
        result
    }

    #[inline(never)]
    fn train(&mut self, shared: &mut Shared, pc: u64, line: u64, now: u64) {
        let suggestion = self.prefetcher.train(pc, line * LINE_BYTES);
        if suggestion.count > 0 {
            self.prefetch(shared, suggestion, now);
        }
    }

    #[inline(always)]
    fn fetch(
        &mut self,
        shared: &mut Shared,
        request: Request,
        slot: Slot,
        add: u8,
        now: u64,
        admitted: u64,
    ) -> (u64, Served) {
        let Request { line, class, flags, .. } = request;
        let (ready, served) = shared.access(line, class, flags & TABLE, self.socket, admitted);
        if let Some(victim) = self.cache.fill(slot, (flags & TABLE) | add, now, admitted, ready) {
            self.evicted(shared, victim, UnderWay { line, is_table: flags & TABLE != 0, told: ready });
        }
        (ready, served)
    }

    #[inline(always)]
    fn evicted(&mut self, shared: &mut Shared, victim: Victim, by: UnderWay) {
        if victim.flags & DIRTY != 0 {
            shared.write_back(victim, self.socket, by);
        }
    }

    /// A first level evicted a dirty line.
    fn write_back(&mut self, shared: &mut Shared, victim: Victim, by: UnderWay) {
        if let Some(next) = self.cache.write_back(victim, by.told) {
            self.evicted(shared, next, by);
        }
    }

    /// A line was fetched that nobody waits for, and is said to arrive at `ready`.
    pub(super) fn fetched(&mut self, request: Request, ready: u64, served: Served) {
        if served == Served::Dram && self.cache.is_timed() {
            self.unawaited
                .push(ready, UnderWay { line: request.line, is_table: request.flags & TABLE != 0, told: ready });
        }
    }

    #[cold]
    fn prefetch(&mut self, shared: &mut Shared, suggestion: Suggestion, now: u64) {
        for line in suggestion.lines() {
            if let Some(slot) = self.cache.begins_prefetch(line, now) {
                let request = Request { line, class: Class::Prefetch, flags: 0, pc: 0 };
                let (ready, served) = self.fetch(shared, request, slot, PREFETCHED, now, now);
                self.fetched(request, ready, served);
            }
        }
    }
}

impl FirstLevel {
    #[inline(never)]
    fn miss(
        &mut self,
        second: &mut SecondLevel,
        shared: &mut Shared,
        request: Request,
        add: u8,
        now: u64,
    ) -> (u64, Served) {
        if shared.large {
            shared.llc.prefetch_sim_host(request.line);
        }
        self.cache.missed(request.class);
        let admitted = self.cache.admit(now);
        self.fetch(second, shared, request, add, now, admitted)
    }

    #[inline(always)]
    fn fetch(
        &mut self,
        second: &mut SecondLevel,
        shared: &mut Shared,
        request: Request,
        add: u8,
        now: u64,
        admitted: u64,
    ) -> (u64, Served) {
        let slot = self.cache.slot(request.line);
        let (ready, served) = second.access(shared, request, 0, admitted);
        if let Some(victim) = self.cache.fill(slot, (request.flags & TABLE) | add, now, admitted, ready)
            && victim.flags & DIRTY != 0
        {
            let by = UnderWay { line: request.line, is_table: request.flags & TABLE != 0, told: ready };
            second.write_back(shared, victim, by);
        }
        (ready, served)
    }

    /// When the line of an access is here, and what served it. The prefetcher does not learn of it.
    #[inline(always)]
    pub(super) fn find_or_fetch(
        &mut self,
        second: &mut SecondLevel,
        shared: &mut Shared,
        request: Request,
        add: u8,
        now: u64,
    ) -> (u64, Served) {
        self.hit(request, add, now).unwrap_or_else(|| self.miss(second, shared, request, add, now))
    }

    #[inline(always)]
    pub(super) fn access(
        &mut self,
        second: &mut SecondLevel,
        shared: &mut Shared,
        request: Request,
        add: u8,
        at: PhysAddr,
        now: u64,
    ) -> Access {
        let (ready, served) = self.find_or_fetch(second, shared, request, add, now);
        self.learn(second, shared, request.pc, at, now);
        Access { ready: Cycle(ready), served }
    }

    /// An access whose line is here.
    #[inline(always)]
    fn hit(&mut self, request: Request, add: u8, now: u64) -> Option<(u64, Served)> {
        let place = self.cache.find(request.line).ok()?;
        Some((self.cache.hit(place, request.class, (request.flags & TABLE) | add, now), Served::L1))
    }

    /// The prefetcher, if there is one, learns of an access.
    #[inline(always)]
    pub(super) fn learn(&mut self, second: &mut SecondLevel, shared: &mut Shared, pc: u64, at: PhysAddr, now: u64) {
        if self.prefetcher.is_some() {
            self.train(second, shared, pc, at, now);
        }
    }

    /// [`FirstLevel::access`], if the line is here or an MSHR is free; else when one is said to be. The prefetcher
    /// does not learn of it.
    #[inline(always)]
    pub(super) fn try_access(
        &mut self,
        second: &mut SecondLevel,
        shared: &mut Shared,
        request: Request,
        add: u8,
        now: u64,
    ) -> Result<Access, Cycle> {
        let (ready, served) = match self.hit(request, add, now) {
            Some(found) => found,
            None => match self.cache.must_wait(now) {
                Some(free) => return Err(Cycle(free)),
                None => self.miss(second, shared, request, add, now),
            },
        };
        Ok(Access { ready: Cycle(ready), served })
    }

    #[inline(never)]
    fn train(&mut self, second: &mut SecondLevel, shared: &mut Shared, pc: u64, at: PhysAddr, now: u64) {
        let suggestion = self.prefetcher.train(pc, at.0);
        if suggestion.count > 0 {
            self.prefetch(second, shared, suggestion, now);
        }
    }

    #[cold]
    fn prefetch(&mut self, second: &mut SecondLevel, shared: &mut Shared, suggestion: Suggestion, now: u64) {
        for line in suggestion.lines() {
            if self.cache.begins_prefetch(line, now).is_some() {
                let request = Request { line, class: Class::Prefetch, flags: 0, pc: 0 };
                let (ready, served) = self.fetch(second, shared, request, PREFETCHED, now, now);
                second.fetched(request, ready, served);
            }
        }
    }
}
