//! The run loop with time: its common case.
//!
//! With time, most records need little: a branch is predicted; a load or a store of a page that the L1 TLB
//! holds is translated and goes to the caches, at once or when its operands are known. Such records, and such
//! events of the core's window, go through a loop of their own. It stops before any other (a TLB miss, a page
//! fault, an access of two lines, a line that the front end does not hold, the end of a budget), which
//! [`Machine::record`] and [`Machine::carry_out`] do as always. What the loop does to the machine is the same,
//! in the same order:
//!
//! - Events are carried out until the next record dispatches, as by [`Machine::reach`].
//! - A translation that [`Mmu::first_answer`] finds is the one that the whole MMU would find, at the same time
//!   and with the same counts; on the perfect path it is the kernel's own.
//! - A load or a store that issues as it dispatches is translated before it takes its place in the window:
//!   neither knows of the other. Nobody can wait for its value in between.

use crate::core::{Core, FRONT_END_LINES};
use crate::execute::{WALKED, data_access, splits};
use crate::hardware::Hardware;
use crate::machine::Machine;
use crate::oracle::Checker;
use crate::os_events::OperatingSystem;
use crate::path::TranslationPath;
use ambulator_base::{AccessKind, Cycle, PhysAddr, ProcessId, Record, RecordKind, VirtAddr, watch};
use ambulator_hardware::{Event, EventKind, Hierarchy, InFlightAccess};
#[cfg(doc)]
use ambulator_mmu::Mmu;
use ambulator_os::PageMap;

/// Why the common case stops.
pub(crate) enum Stopped {
    /// All records have run, or it is other cores' turn.
    Done,
    /// Before an event of the core's window, which has been taken from there.
    Event(Event),
    /// The last record that has run, a load or a store, issues: the event is carried out before anything else.
    Issue(Event),
    /// Before the next record.
    Record,
}

/// What the common case did with a record.
enum Dispatched {
    /// It has dispatched, and all that it does in this cycle is done.
    Whole,
    /// It has dispatched, and issues now; the L1 TLB does not translate it.
    Issues(Event),
    /// It is none of the common ones: nothing has happened.
    Not,
}

/// What the common case of one core uses of the machine.
struct Common<'m, const PERFECT: bool> {
    number: usize,
    core: &'m mut Core,
    hierarchy: &'m mut Hierarchy,
    checker: &'m mut Checker,
    os: &'m OperatingSystem,
    process: ProcessId,
    pages: &'m PageMap,
}

impl Machine {
    /// Whether records may go through [`Machine::run_timed`].
    pub(crate) fn has_timed_common_case(&self) -> bool {
        let of_path = match self.hw.path() {
            TranslationPath::Conventional => true,
            TranslationPath::Perfect => !self.os.is_nested(),
            TranslationPath::Intermediate => false,
        };
        self.hw.timing() && of_path && self.hw.hosted.is_none() && !watch::watched()
    }

    /// Runs the records of a core from `from` up to `to`, and the events of its window before them, while they
    /// are common ones, no check is due, and neither its time passes `until` nor its budget ends. Returns the
    /// first record that has not run, and why.
    pub(crate) fn run_timed(
        &mut self,
        number: usize,
        records: &[Record],
        from: usize,
        to: usize,
        until: u64,
    ) -> (usize, Stopped) {
        match self.hw.path() {
            TranslationPath::Perfect => self.run_timed_on::<true>(number, records, from, to, until),
            _ => self.run_timed_on::<false>(number, records, from, to, until),
        }
    }

    #[inline(never)]
    fn run_timed_on<const PERFECT: bool>(
        &mut self,
        number: usize,
        records: &[Record],
        from: usize,
        to: usize,
        until: u64,
    ) -> (usize, Stopped) {
        let Machine { hw, os, checker, scheduler, .. } = self;
        let Hardware { cores, hierarchy, .. } = hw;
        let core = &mut cores[number];
        let process = core.process;
        let Some(pages) = os.kernel().page_map(process) else { return (from, Stopped::Record) };
        let mut common = Common::<PERFECT> { number, core, hierarchy, checker, os, process, pages };
        let last = common.core.window.slot_after(until);
        let budget = common.core.stop_at.saturating_sub(common.core.executed);
        let mut room = budget;
        let unchecked = to.min(from + scheduler.records_until_check());
        let mut at = from;
        let stopped = loop {
            if at >= unchecked {
                break if at == to { Stopped::Done } else { Stopped::Record };
            }
            let record = &records[at];
            common.look_ahead(records, at);
            let cycle = match common.reach(record, until) {
                Ok(cycle) => cycle,
                Err(stopped) => break stopped,
            };
            let instructions = record.instructions();
            if instructions >= room {
                break Stopped::Record;
            }
            let issues = match common.dispatch(record, cycle) {
                Dispatched::Whole => None,
                Dispatched::Issues(event) => Some(event),
                Dispatched::Not => break Stopped::Record,
            };
            common.core.waits_until = 0;
            room -= instructions;
            at += 1;
            if let Some(event) = issues {
                break Stopped::Issue(event);
            }
            if common.core.window.has_reached(last) {
                break Stopped::Done;
            }
        };
        let ran = budget - room;
        let core = common.core;
        core.at = at;
        core.executed += ran;
        core.counters.instructions += ran;
        scheduler.count_records((at - from) as u32);
        (at, stopped)
    }
}

impl<const PERFECT: bool> Common<'_, PERFECT> {
    #[inline(always)]
    fn look_ahead(&mut self, records: &[Record], at: usize) {
        let Common { number, core, hierarchy, os, process, .. } = self;
        core.look_ahead.prefetch(*number, *process, records, at, os.kernel(), hierarchy);
    }

    /// Carries out the events before the dispatch of `record`, as [`Machine::reach`] does; returns its cycle.
    #[inline(always)]
    fn reach(&mut self, record: &Record, until: u64) -> Result<u64, Stopped> {
        loop {
            let dispatched = self.core.window.plan_cycle(record);
            let next = self.core.window.next_event();
            let earlier = next.min(dispatched);
            if earlier > until {
                self.core.waits_until = earlier;
                return Err(Stopped::Done);
            }
            if next > dispatched {
                return Ok(dispatched);
            }
            // No event although the dispatch waits for one: that is reported elsewhere.
            let Some(event) = self.core.window.take_event() else { return Err(Stopped::Record) };
            if !self.carry_out(event) {
                return Err(Stopped::Event(event));
            }
        }
    }

    /// Dispatches a record in `cycle`, if it is a common one.
    #[inline(always)]
    fn dispatch(&mut self, record: &Record, cycle: u64) -> Dispatched {
        let line = record.pc.0 >> 6;
        if self.core.front_end[line as usize % FRONT_END_LINES] != line {
            return Dispatched::Not;
        }
        match record.kind {
            RecordKind::Fetch => Dispatched::Not,
            RecordKind::BranchNotTaken | RecordKind::BranchTaken => {
                self.core.counters.branches += 1;
                self.core.window.dispatch_branch(record);
                Dispatched::Whole
            }
            RecordKind::Load | RecordKind::Store if splits(record) => Dispatched::Not,
            RecordKind::Load | RecordKind::Store => {
                let at_once = self.core.window.knows_operands(record);
                if at_once && self.dispatch_at_once(record, Cycle(cycle)) {
                    return Dispatched::Whole;
                }
                let Common { core, checker, os, process, pages, .. } = self;
                if !checker.is_mapped_page(os, pages, *process, record.va, data_access(record)) {
                    return Dispatched::Not;
                }
                core.count_data(record);
                core.window.dispatch_access(record).map_or(Dispatched::Whole, Dispatched::Issues)
            }
        }
    }

    /// Dispatches a load or a store in the cycle in which it also issues, if the L1 TLB translates it.
    #[inline(always)]
    fn dispatch_at_once(&mut self, record: &Record, now: Cycle) -> bool {
        let access = data_access(record);
        let Some((at, ready)) = self.translate(record.va, access, now) else { return false };
        self.core.count_data(record);
        let is_store = access == AccessKind::Store;
        let awaits = self.joins(now, ready) && self.core.window.awaits_joined_walk(is_store);
        let window = &mut self.core.window;
        if awaits || (!is_store && (window.may_forward(record) || !window.asks_at_once(ready))) {
            self.dispatch_and_locate(record, now, at, (ready, awaits));
            return true;
        }
        if is_store {
            window.dispatch_store(record, at, ready);
            return true;
        }
        let flight = InFlightAccess::translated_load(record, now, at, ready);
        let found = match self.core.request(self.number, self.hierarchy, &flight, at, ready) {
            Ok(found) => found,
            Err(free) => {
                self.core.window.dispatch_stalled_load(record, flight, ready, free);
                return true;
            }
        };
        self.core.count_found(self.hierarchy, 0, ready, found);
        self.core.counters.access_cycles += found.ready.since(now);
        if self.hierarchy.awaits_memory(ready, found.ready) {
            self.core.window.dispatch_waiting_load(record, at, ready, found.ready, found.served);
        } else {
            self.core.window.dispatch_load(record, ready, found.ready, found.served);
        }
        true
    }

    /// Dispatches a load that an older store may forward its value to, or that asks for its line later than it
    /// issues, or a load or a store that has joined a walk. A TLB translates it.
    #[inline(never)]
    fn dispatch_and_locate(&mut self, record: &Record, now: Cycle, at: PhysAddr, translated: (Cycle, bool)) {
        let window = &mut self.core.window;
        let is_store = record.kind == RecordKind::Store;
        if let Some(Event { place, .. }) = window.dispatch_access(record)
            && window.locate_hit(place, is_store, now, at, translated)
        {
            let flight = InFlightAccess::translated_load(record, now, at, translated.0);
            self.core.ask(self.number, self.hierarchy, place, &flight, translated.0);
        }
    }

    /// Whether an access at `now` that a TLB translates at `ready` has joined a walk.
    #[inline(always)]
    fn joins(&self, now: Cycle, ready: Cycle) -> bool {
        !PERFECT && self.core.mmu.joins(now, ready)
    }

    /// Carries out an event of the window, if it is a common one.
    #[inline(always)]
    fn carry_out(&mut self, event: Event) -> bool {
        if matches!(event.kind, EventKind::Arrive | EventKind::Own) {
            self.core.arrive(self.number, self.hierarchy, event);
            return true;
        }
        if event.kind == EventKind::Admit {
            self.core.admit(self.number, self.hierarchy, Cycle(event.at));
            return true;
        }
        if event.kind == EventKind::Begin {
            if self.os.profiler.is_some() {
                return false;
            }
            self.core.begin_walk(self.number, self.hierarchy, event);
            return true;
        }
        let Some(mut flight) = self.core.window.access_in_flight(event.place) else { return false };
        let now = Cycle(event.at);
        if matches!(event.kind, EventKind::Ask | EventKind::Join) {
            if self.os.profiler.is_some() && !flight.walk.is_none() {
                return false;
            }
            if self.core.is_late(self.number, self.hierarchy, event, flight.va, flight.walk)
                || !self.core.window.asks_now(event.place, now)
            {
                return true;
            }
            if flight.translation & WALKED != 0 && self.core.mmu.hints_migration() {
                return false;
            }
            self.core.ask(self.number, self.hierarchy, event.place, &flight, now);
            return true;
        }
        let Some((at, ready)) = self.translate(flight.va, flight.kind(), now) else { return false };
        let joined = self.joins(now, ready);
        if self.core.window.locate_hit(event.place, flight.is_store, now, at, (ready, joined)) {
            (flight.issued, flight.at, flight.translated) = (now, at, ready);
            self.core.ask(self.number, self.hierarchy, event.place, &flight, ready);
        }
        true
    }

    /// Translates an access of a mapped page that hits the L1 TLB, or any on the perfect path; checks and
    /// counts the translation.
    #[inline(always)]
    fn translate(&mut self, va: VirtAddr, access: AccessKind, now: Cycle) -> Option<(PhysAddr, Cycle)> {
        let Common { core, checker, os, process, pages, .. } = self;
        if PERFECT {
            return Some((checker.kernel_translation(pages, *process, va, access)?, now));
        }
        let (at, ready) = core.mmu.first_answer(va, access, now)?;
        let accepted = if checker.is_on() {
            checker.accepts_in(os, pages, *process, va, at, access).is_some()
        } else {
            checker.is_mapped_page(os, pages, *process, va, access)
        };
        if !accepted {
            return None;
        }
        core.mmu.count_first_answer(now, ready);
        Some((at, ready))
    }
}
