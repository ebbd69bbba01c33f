//! Page walks behind the caches: of loads and stores that have missed all of them by intermediate address.
//!
//! Whether an access misses is known when it asks for its line. The miss then waits for a walker, first come, first served;
//! the walk begins when one is free, and reads its lines then. When these have come, the page is known, and main memory is
//! read. Who waits for the line is told an earlier time, and asks again until then.

use crate::core::Core;
use crate::error::Stop;
use crate::hardware::Hardware;
use crate::machine::Machine;
use crate::oracle;
use crate::path::tell_missed;
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, PhysAddr, State, VirtAddr};
use ambulator_hardware::{AwaitedWalk, Event, EventKind, Hierarchy, InFlightAccess};
use ambulator_mmu::{AwaitedTable, Translated};
use std::collections::VecDeque;

/// The place in the window of an access of which it is not known.
const UNKNOWN: u32 = u32::MAX;

/// A miss that waits for a walker.
#[derive(Clone, Copy, Debug, Default, State)]
struct Waiting {
    at: PhysAddr,
    /// When it was known to miss.
    missed: Cycle,
    /// The place in the window of the access that asked, or `UNKNOWN`.
    place: u32,
}

/// A walk.
#[derive(Clone, Copy, Debug, Default, State)]
struct Walking {
    /// Those that have begun before have lower numbers, which are those of events.
    number: u32,
    at: PhysAddr,
    place: u32,
    /// What it waits for.
    walk: AwaitedWalk,
    /// What served its slowest load, as [`Core::slowest_walk_load`] has it.
    slowest: u8,
}

/// Numbers of walks: more than begin before the first of them has ended.
const NUMBERS: u32 = 1 << 18;

/// A load or a store that waits for two lines.
#[derive(Clone, Copy, Debug, Default, State)]
struct TwoLines {
    /// The place of its event, and whether that is one of the store queue.
    place: u32,
    is_store: bool,
    /// The line that the event asks for, and the other.
    first: PhysAddr,
    other: PhysAddr,
}

/// The walks of a core behind the caches.
#[derive(Clone, Debug, State)]
pub(crate) struct WalksBehind {
    /// The first that missed first.
    waiting: VecDeque<Waiting>,
    /// When the first is to get a walker, as an event says; `u64::MAX` if none does.
    begins: u64,
    walks: Vec<Walking>,
    /// The number of the latest.
    number: u32,
    two_lines: Vec<TwoLines>,
}

impl WalksBehind {
    /// No walks.
    pub fn new() -> WalksBehind {
        WalksBehind { waiting: VecDeque::new(), begins: u64::MAX, walks: Vec::new(), number: 0, two_lines: Vec::new() }
    }
}

impl Machine {
    /// What a core has missed in all caches waits for a walker. `place` is that of the access in the window, if it is known.
    pub(crate) fn wait_behind(&mut self, number: usize, place: Option<u32>) -> Result<(), Stop> {
        let place = place.unwrap_or(UNKNOWN);
        let mut waits = false;
        while let Some((at, missed)) = self.hw.hierarchy.take_missed(number) {
            if self.hw.cores[number].mmu.holds_behind(at) {
                // The TLB there has it: no walk.
                self.walk_behind(number, Waiting { at, missed, place }, missed)?;
                continue;
            }
            let waiting = &mut self.hw.cores[number].behind.waiting;
            let first = waiting.iter().rposition(|other| other.missed <= missed).map_or(0, |before| before + 1);
            waiting.insert(first, Waiting { at, missed, place });
            waits = true;
        }
        if waits {
            self.hw.cores[number].await_walker(Cycle(0));
        }
        Ok(())
    }

    /// The first miss that waits was said to get a walker in `event`.
    pub(crate) fn begin_behind(&mut self, number: usize, event: Event) -> Result<(), Stop> {
        let now = Cycle(event.at);
        let core = &mut self.hw.cores[number];
        if core.behind.begins != now.0 {
            // That was put forward.
            return Ok(());
        }
        core.behind.begins = u64::MAX;
        while let Some(first) = self.hw.cores[number].behind.waiting.front().copied() {
            if self.hw.cores[number].mmu.walker_free(first.missed.max(now)) > now {
                break;
            }
            self.hw.cores[number].behind.waiting.pop_front();
            self.walk_behind(number, first, now)?;
        }
        self.hw.cores[number].await_walker(now);
        Ok(())
    }

    /// A page is walked at `now`.
    fn walk_behind(&mut self, number: usize, Waiting { at, missed, place }: Waiting, now: Cycle) -> Result<(), Stop> {
        let (va, is_stored_to) = self.hw.hierarchy.missed(at);
        let before = self.hw.before_recorded(number);
        let core = &mut self.hw.cores[number];
        core.awaited_table = AwaitedTable::default();
        core.slowest_walk_load = 0;
        let process = core.process;
        let stores = is_stored_to && self.checker.is_mapped(&self.os, process, va, AccessKind::Store);
        let access = if stores { AccessKind::Store } else { AccessKind::Load };
        tell_missed(missed, missed);
        if now > missed {
            watch::step(|| Step::new(StepKind::Wait, "page walkers", missed, now).says("all are busy"));
            core.mmu.wait_behind(now.since(missed));
        }
        let back = self.hw.with_port(number, self.os.memories_mut(), |mmu, port| mmu.back_side(at, access, now, port));
        let found = match back {
            Translated::Physical { at, ready } => Some((at, ready)),
            Translated::Fault { .. } => None,
        };
        let (physical, ready) = found.unzip();
        let right = physical.is_some_and(|at| self.checker.matches_kernel(&self.os, process, va, at, access));
        let Some(ready) = ready.filter(|_| right) else {
            return Err(oracle::mismatch(&mut self.hw, &self.os, number, va, physical, access));
        };
        self.hw.record_translation(number, (va, access), (missed, ready), before);
        let Hardware { cores, hierarchy, .. } = &mut self.hw;
        let core = &mut cores[number];
        hierarchy.expect(at, ready);
        let walk = core.awaited_walk(ready);
        core.behind_until(Walking { number: 0, at, place, walk, slowest: core.slowest_walk_load }, ready);
        Ok(())
    }
}

impl Core {
    /// The first miss that waits gets a walker as soon as one is free, from `now` on.
    fn await_walker(&mut self, now: Cycle) {
        let Some(first) = self.behind.waiting.front() else { return };
        let begins = self.mmu.walker_free(first.missed.max(now));
        if begins.0 < self.behind.begins {
            self.behind.begins = begins.0;
            self.window.walk_later(begins);
        }
    }

    /// A walk is said to end at `ready`.
    fn behind_until(&mut self, walk: Walking, ready: Cycle) {
        let WalksBehind { walks, number, .. } = &mut self.behind;
        *number = (*number + 1) % NUMBERS;
        walks.push(Walking { number: *number, ..walk });
        self.window.know_later(*number, ready);
    }

    /// A walk behind the caches was said to end in `event`: its page is known, or it is late.
    pub fn know_behind(&mut self, number: usize, hierarchy: &mut Hierarchy, event: Event) {
        let now = Cycle(event.at);
        let Some(of) = self.behind.walks.iter().position(|walk| walk.number == event.place) else { return };
        let Walking { at, place, walk, slowest, .. } = self.behind.walks[of];
        let late = if walk.is_none() { 0 } else { self.walk_late(number, hierarchy, now, VirtAddr(at.0), walk) };
        if late > 0 {
            hierarchy.expect(at, now.after(late));
            self.window.know_later(event.place, now.after(late));
            return;
        }
        self.behind.walks.swap_remove(of);
        hierarchy.know(number, at, now);
        self.count_walked(slowest, true);
        if place != UNKNOWN {
            self.window.known_behind(place, at, now, slowest);
        }
    }

    /// A load or a store of two lines has an event at `place`, which asks for `asked`. It asks for the other when that is
    /// there: if their pages were not known, main memory may serve the other later.
    pub fn await_both(&mut self, hierarchy: &Hierarchy, place: u32, flight: &InFlightAccess, asked: PhysAddr) {
        if !hierarchy.walks_behind() {
            return;
        }
        let other = if asked == flight.second { flight.at } else { flight.second };
        let is_store = flight.is_store;
        let two_lines = &mut self.behind.two_lines;
        two_lines.retain(|waits| (waits.place, waits.is_store) != (place, is_store));
        two_lines.push(TwoLines { place, is_store, first: asked, other });
    }

    /// [`Core::arrive`] with walks behind the caches.
    pub fn arrive_behind(&mut self, number: usize, hierarchy: &mut Hierarchy, event: Event) {
        let (told, first) = (Cycle(event.at), self.window.awaits(event));
        let of = (event.place, event.kind == EventKind::Own, first);
        let two = self.behind.two_lines.iter().position(|waits| (waits.place, waits.is_store, waits.first) == of);
        if let Some(two) = two
            && hierarchy.arrival(number, first, false, told) <= told
        {
            let TwoLines { other, .. } = self.behind.two_lines.swap_remove(two);
            self.window.await_other(event, other);
        }
        self.arrive(number, hierarchy, event);
    }
}
