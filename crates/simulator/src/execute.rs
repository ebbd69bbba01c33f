//! The execution of records: fetches, branches, loads and stores, and the events of loads and stores in
//! flight.

use crate::core::FRONT_END_LINES;
use crate::error::Stop;
use crate::hardware::Hardware;
use crate::machine::{Located, Machine};
use crate::path::{TranslationPath, Translator};
use crate::profile::Misses;
use ambulator_base::{AccessKind, Cycle, PhysAddr, Record, RecordKind, VirtAddr};
use ambulator_hardware::{Access, AwaitedWalk, BY_JOINED_WALK, Event, EventKind, InFlight, Served};
use ambulator_mmu::{AwaitedTable, Verification, WaitingWalk};

/// Flag of a translation that walked; the lower bits say how [`InFlight::translation`] has it.
pub(crate) const WALKED: u8 = 8;

/// The kind of access of a load or a store.
#[inline(always)]
pub(crate) fn data_access(record: &Record) -> AccessKind {
    if record.kind == RecordKind::Store { AccessKind::Store } else { AccessKind::Load }
}

/// The last byte that a load or a store accesses.
#[inline(always)]
pub(crate) fn last_byte(record: &Record) -> VirtAddr {
    record.va.offset(u64::from(record.size.max(1)) - 1)
}

/// Whether a load or a store accesses one page.
#[inline(always)]
fn in_one_page(record: &Record) -> bool {
    (last_byte(record).0 ^ record.va.0) >> 12 == 0
}

/// Whether a load or a store accesses two lines.
#[inline(always)]
pub(crate) fn splits(record: &Record) -> bool {
    (last_byte(record).0 ^ record.va.0) >> 6 != 0
}

/// A load or a store without time, once it is translated.
#[inline(always)]
pub(crate) fn untimed_flight(record: &Record, located: &Located, translation: u8) -> InFlight {
    let Located { at, ready: translated, issued, .. } = *located;
    InFlight {
        record: *record,
        issued,
        at,
        second: at,
        translated,
        verified: Cycle(0),
        translation,
        walk: AwaitedWalk::default(),
    }
}

impl Machine {
    /// Carries a core's events out, in the order of their times, until the next record dispatches. False if
    /// one of them or the dispatch is later than `until`: first it is other cores' turn.
    #[inline(always)]
    pub(crate) fn reach(&mut self, number: usize, record: &Record, until: u64) -> Result<bool, Stop> {
        loop {
            let core = &mut self.hw.cores[number];
            let dispatched = core.window.plan(record).map_or(u64::MAX, |cycle| cycle.0);
            let next = core.window.next_event().min(dispatched);
            if next > until {
                core.waits_until = next;
                return Ok(false);
            }
            if next == dispatched && core.window.next_event() > dispatched {
                core.waits_until = 0;
                return Ok(true);
            }
            match core.window.take_event() {
                Some(event) => self.carry_out(number, event)?,
                None => {
                    return Err(Stop::Failed(format!(
                        "core {number} cannot go on: no event is pending that its next record waits for"
                    )));
                }
            }
        }
    }

    /// Executes one record in functional mode, or dispatches it; returns the number of its instructions.
    #[inline(always)]
    pub(crate) fn record(&mut self, number: usize, record: &Record) -> Result<u64, Stop> {
        let timing = self.hw.timing();
        if record.kind == RecordKind::Fetch {
            // The gap's instructions precede the fetch.
            let window = &mut self.hw.cores[number].window;
            if timing {
                window.dispatch(record);
            } else {
                window.count(record);
            }
            self.fetch(number, record.va)?;
            return Ok(record.instructions());
        }
        let line = record.pc.0 >> 6;
        let fetched = &mut self.hw.cores[number].front_end[line as usize % FRONT_END_LINES];
        if *fetched != line {
            *fetched = line;
            self.fetch(number, record.pc)?;
        }
        let core = &mut self.hw.cores[number];
        if !record.is_data() {
            core.counters.branches += 1;
            if timing {
                core.window.dispatch(record);
            } else {
                core.window.count(record);
            }
            return Ok(record.instructions());
        }
        core.count_data(record);
        if timing {
            self.dispatch(number, record)?
        } else {
            self.execute_untimed(number, record)?
        }
        Ok(record.instructions())
    }

    /// Fetches an instruction line into the front end.
    pub(crate) fn fetch(&mut self, number: usize, pc: VirtAddr) -> Result<(), Stop> {
        self.hw.cores[number].counters.fetches += 1;
        let now = if self.hw.timing() {
            if !self.is_mapped(number, pc, AccessKind::Fetch) {
                self.carry_out_all(number)?;
            }
            self.hw.cores[number].window.now()
        } else {
            self.hw.begin_untimed(number)
        };
        let Located { at, ready, .. } = self.translate(number, pc, pc, AccessKind::Fetch, now)?;
        let access = self.hw.hierarchy.access(number, at, AccessKind::Fetch, pc, ready);
        if self.hw.timing() && (ready > now || access.served != Served::L1) {
            self.hw.cores[number].window.stall_front(access.ready);
        }
        Ok(())
    }

    /// Translates an access of a core by the instruction at `pc`.
    #[inline(always)]
    fn translate(
        &mut self,
        number: usize,
        pc: VirtAddr,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        self.hw.cores[number].mmu.set_instruction(pc);
        if self.os.profiler.is_some() {
            return self.translate_profiled(number, pc, va, access, now);
        }
        self.translate_as_is(number, va, access, now)
    }

    /// [`Machine::translate`] with a profile: what it costs is charged to the mapping and to the instruction.
    #[cold]
    #[inline(never)]
    fn translate_profiled(
        &mut self,
        number: usize,
        pc: VirtAddr,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let before = self.hw.cores[number].misses();
        let located = self.translate_as_is(number, va, access, now);
        let core = &self.hw.cores[number];
        let cost = core.misses().since(&before);
        if let Some(profiler) = &mut self.os.profiler
            && cost != Misses::default()
        {
            profiler.charge(core.process, pc, va, &cost);
        }
        located
    }

    #[inline(always)]
    fn translate_as_is(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let Machine { hw, os, checker, scheduler, .. } = self;
        Translator { hw, os, checker, phase: scheduler.phase() }.translate(number, va, access, now)
    }

    /// Translates a data access; also says how, in the terms of [`InFlight::translation`].
    #[inline(always)]
    fn translate_data(
        &mut self,
        number: usize,
        pc: VirtAddr,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<(Located, u8), Stop> {
        let core = &mut self.hw.cores[number];
        core.slowest_walk_load = 0;
        let before = core.looked_up();
        let located = self.translate(number, pc, va, access, now)?;
        Ok((located, self.hw.cores[number].translation_since(&before)))
    }

    /// Whether an access needs no page fault.
    #[inline(always)]
    pub(crate) fn is_mapped(&mut self, number: usize, va: VirtAddr, access: AccessKind) -> bool {
        self.checker.is_mapped(&self.os, self.hw.cores[number].process, va, access)
    }

    /// Dispatches a load or a store. One that faults is alone in the window: what is older completes before.
    #[inline(always)]
    fn dispatch(&mut self, number: usize, record: &Record) -> Result<(), Stop> {
        let access = data_access(record);
        let overlaps = self.is_mapped(number, record.va, access)
            && (in_one_page(record) || self.is_mapped(number, last_byte(record), access));
        if !overlaps {
            return self.dispatch_alone(number, record);
        }
        match self.hw.cores[number].window.dispatch(record) {
            Some(event) => self.issue(number, event, record, true),
            None => Ok(()),
        }
    }

    /// Dispatches a load or a store after everything before it has completed, and completes it.
    #[cold]
    fn dispatch_alone(&mut self, number: usize, record: &Record) -> Result<(), Stop> {
        self.carry_out_all(number)?;
        if let Some(event) = self.hw.cores[number].window.dispatch(record) {
            self.issue(number, event, record, true)?;
        }
        self.carry_out_all(number)
    }

    /// Carries out all pending events of a core: everything dispatched so far completes.
    #[cold]
    pub(crate) fn carry_out_all(&mut self, number: usize) -> Result<(), Stop> {
        while let Some(event) = self.hw.cores[number].window.take_event() {
            self.carry_out(number, event)?;
        }
        Ok(())
    }

    /// Carries out all pending events of all cores, because the kernel acts or a phase ends.
    pub(crate) fn carry_out_everywhere(&mut self) -> Result<(), Stop> {
        (0..self.hw.cores.len()).try_for_each(|number| self.carry_out_all(number))
    }

    /// Carries out an event of a core's window.
    #[inline(never)]
    pub(crate) fn carry_out(&mut self, number: usize, event: Event) -> Result<(), Stop> {
        let window = &self.hw.cores[number].window;
        match event.kind {
            EventKind::Issue => {
                let record = window.record(event.place);
                self.issue(number, event, &record, false)
            }
            EventKind::Ask | EventKind::Join => {
                let flight = window.in_flight(event.place);
                let Hardware { cores, hierarchy, .. } = &mut self.hw;
                let core = &mut cores[number];
                let before = core.misses();
                if core.is_late(number, hierarchy, event, flight.record.va, flight.walk) {
                    if let Some(profiler) = &mut self.os.profiler {
                        let Record { pc, va, .. } = flight.record;
                        profiler.charge(core.process, pc, va, &core.misses().since(&before));
                    }
                    return Ok(());
                }
                if !core.window.asks_now(event.place, Cycle(event.at)) {
                    return Ok(());
                }
                self.ask(number, event.place, Cycle(event.at), &flight)
            }
            EventKind::Arrive | EventKind::Own => {
                let behind = self.hw.walks_behind();
                let Hardware { cores, hierarchy, .. } = &mut self.hw;
                match behind {
                    false => cores[number].arrive(number, hierarchy, event),
                    true => cores[number].arrive_behind(number, hierarchy, event),
                }
                Ok(())
            }
            EventKind::Begin if self.hw.path() == TranslationPath::Intermediate => self.begin_behind(number, event),
            EventKind::Known => {
                let Hardware { cores, hierarchy, .. } = &mut self.hw;
                cores[number].know_behind(number, hierarchy, event);
                Ok(())
            }
            EventKind::Begin => {
                let Hardware { cores, hierarchy, .. } = &mut self.hw;
                let core = &mut cores[number];
                let before = core.misses();
                if let Some((pc, va)) = core.begin_walk(number, hierarchy, event)
                    && let Some(profiler) = &mut self.os.profiler
                {
                    profiler.charge(core.process, pc, va, &core.misses().since(&before));
                }
                Ok(())
            }
            EventKind::Admit => {
                let behind = self.hw.walks_behind();
                let Hardware { cores, hierarchy, .. } = &mut self.hw;
                if behind {
                    hierarchy.hold_unknown(number, Cycle(event.at));
                }
                cores[number].admit(number, hierarchy, Cycle(event.at));
                if behind { self.wait_behind(number, None) } else { Ok(()) }
            }
        }
    }

    /// A load or a store issues, some as they dispatch: it is translated.
    #[inline(never)]
    pub(crate) fn issue(&mut self, number: usize, event: Event, record: &Record, dispatches: bool) -> Result<(), Stop> {
        let access = data_access(record);
        let may_wait = self.hw.path() == TranslationPath::Conventional;
        self.hw.cores[number].awaited_table = AwaitedTable { may_wait, ..AwaitedTable::default() };
        let (Located { at, ready, issued, .. }, translation) =
            self.translate_data(number, record.pc, record.va, access, Cycle(event.at))?;
        let Hardware { cores, hierarchy, .. } = &mut self.hw;
        let core = &mut cores[number];
        let walk = if translation != BY_JOINED_WALK {
            core.awaited_walk(ready)
        } else if dispatches && !core.window.awaits_joined_walk(access == AccessKind::Store) {
            AwaitedWalk::default()
        } else {
            AwaitedWalk::JOINED
        };
        let waiting = core.waiting_walk(hierarchy, event.place, record, ready, walk);
        let verified = Cycle(0);
        let mut flight =
            InFlight { record: *record, issued, at, second: at, translated: ready, verified, translation, walk };
        if translation & WALKED != 0 {
            let Verification { at, flush } = core.mmu.verification();
            flight.verified = at;
            if flush {
                core.window.flush(at);
            }
        }
        if access == AccessKind::Store && core.window.asks_at_commit() && splits(record) {
            // A store asks for its line when both its halves are translated and it commits.
            let (at, ready) = self.second_half(number, &flight, flight.translated)?;
            (flight.second, flight.translated) = (at, flight.translated.max(ready));
        }
        let core = &mut self.hw.cores[number];
        let asks_at_once = core.window.locate(event.place, &flight);
        if let Some(waiting) = waiting {
            core.wait_for_walker(WaitingWalk { asks: !asks_at_once, ..waiting });
        }
        if asks_at_once {
            return self.ask(number, event.place, flight.translated, &flight);
        }
        if translation != 0 {
            self.hw.hierarchy.prefetch_sim_host(number, at);
        }
        Ok(())
    }

    /// A load or a store asks the memory hierarchy for its line at `asked`.
    #[inline]
    fn ask(&mut self, number: usize, place: u32, asked: Cycle, flight: &InFlight) -> Result<(), Stop> {
        if !self.hw.walks_behind() {
            return self.ask_caches(number, place, asked, flight);
        }
        self.hw.hierarchy.hold_unknown(number, asked);
        if in_one_page(&flight.record) {
            self.ask_caches(number, place, asked, flight)?;
        } else {
            let (second, ready) = self.second_line(number, flight, asked)?;
            let asked = asked.max(ready);
            let Hardware { cores, hierarchy, .. } = &mut self.hw;
            cores[number].ask(number, hierarchy, place, &flight.of_two_pages(second), asked);
        }
        self.wait_behind(number, Some(place))
    }

    #[inline(always)]
    fn ask_caches(&mut self, number: usize, place: u32, asked: Cycle, flight: &InFlight) -> Result<(), Stop> {
        let access = data_access(&flight.record);
        if in_one_page(&flight.record)
            && !(flight.translation & WALKED != 0 && self.hw.cores[number].mmu.hints_migration())
        {
            let Hardware { cores, hierarchy, .. } = &mut self.hw;
            let core = &mut cores[number];
            let flight = flight.of_one_page();
            // A store that asks at commit has been counted when it was translated.
            core.counters.split_lines +=
                u64::from(flight.crosses && !(flight.is_store && core.window.asks_at_commit()));
            core.ask(number, hierarchy, place, &flight, asked);
            return Ok(());
        }
        let (mut ready, served) = self.access(number, flight, access, asked)?;
        if splits(&flight.record) {
            let (at, asked) = self.second_line(number, flight, asked)?;
            ready = ready.max(self.hw.hierarchy.access(number, at, access, flight.record.pc, asked).ready);
        }
        let Hardware { cores, hierarchy, .. } = &mut self.hw;
        let core = &mut cores[number];
        core.counters.access_cycles += ready.since(flight.issued) - asked.since(flight.translated);
        if splits(&flight.record) {
            core.window.complete(place, ready, served);
        } else {
            core.complete(hierarchy, place, flight.at, asked, Access { ready, served });
        }
        Ok(())
    }

    /// The second line of a load or a store of two pages that asks at `asked`, and when it asks for that.
    fn second_line(&mut self, number: usize, flight: &InFlight, asked: Cycle) -> Result<(PhysAddr, Cycle), Stop> {
        match data_access(&flight.record) {
            AccessKind::Store if self.hw.cores[number].window.asks_at_commit() => Ok((flight.second, asked)),
            _ => self.second_half(number, flight, asked),
        }
    }

    /// Accesses the first line of a load or a store, and counts where it and its translation were found.
    /// Returns when the line is there, and what served it.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        number: usize,
        flight: &InFlight,
        access: AccessKind,
        asked: Cycle,
    ) -> Result<(Cycle, Served), Stop> {
        let done = self.hw.hierarchy.access(number, flight.at, access, flight.record.pc, asked);
        if flight.translation & WALKED != 0
            && let Some(va) = self.hw.cores[number].mmu.take_migration_hint()
        {
            self.os.migrate(&mut self.hw, self.scheduler.phase(), number, va)?;
        }
        let Hardware { cores, hierarchy, .. } = &mut self.hw;
        cores[number].count_found(hierarchy, flight.translation, asked, done);
        Ok((done.ready, done.served))
    }

    /// A load or a store in functional mode.
    #[inline(always)]
    pub(crate) fn execute_untimed(&mut self, number: usize, record: &Record) -> Result<(), Stop> {
        let issued = self.hw.begin_untimed(number);
        let core = &mut self.hw.cores[number];
        core.window.count(record);
        let access = data_access(record);
        let (located, translation) = self.translate_data(number, record.pc, record.va, access, issued)?;
        let flight = untimed_flight(record, &located, translation);
        self.access(number, &flight, access, located.ready)?;
        if splits(record) {
            let (at, asked) = self.second_half(number, &flight, flight.translated)?;
            self.hw.hierarchy.access(number, at, access, record.pc, asked);
        }
        Ok(())
    }

    /// The second line of an access that crosses a line: its address, and when that is known: at `first`, as that of
    /// the first line, or, if the access crosses a page, when the second page is translated.
    #[cold]
    fn second_half(&mut self, number: usize, flight: &InFlight, first: Cycle) -> Result<(PhysAddr, Cycle), Stop> {
        let (start, line) = (flight.record.va, VirtAddr(last_byte(&flight.record).0 & !63));
        let issued = if self.hw.timing() { flight.issued } else { self.hw.begin_untimed(number) };
        self.hw.cores[number].counters.split_lines += 1;
        if (line.0 ^ start.0) >> 12 == 0 {
            return Ok((PhysAddr((flight.at.0 & !0xfff) | (line.0 & 0xfff)), first.max(issued)));
        }
        self.hw.cores[number].counters.split_pages += 1;
        let access = data_access(&flight.record);
        let Located { at, ready, .. } = self.translate(number, flight.record.pc, line, access, issued)?;
        Ok((at, ready))
    }
}
