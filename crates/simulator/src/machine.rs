//! A machine: cores, caches, DRAM and a kernel, and the run loop.

use crate::core::{CorePhase, FRONT_END_LINES};
use crate::error::Stop;
use crate::hardware::Hardware;
use crate::memory_setup::MemorySetUp;
use crate::oracle::Checker;
use crate::os_events::OperatingSystem;
use crate::path::Translator;
use crate::scheduler::Scheduler;
use crate::statistics::Statistics;
use ambulator_base::{AccessKind, Cycle, PhysAddr, Record, RecordKind, VirtAddr};
use ambulator_hardware::Served;
use std::sync::Arc;

/// The phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Programs set up: first touches, untimed.
    Setup,
    /// The region of interest runs, but is not measured yet.
    Warmup,
    /// The region of interest is measured.
    Measure,
    /// All cores have finished.
    Done,
}

/// A machine with its programs. It takes each record from its core through translation to the caches, and
/// delegates the rest to its parts.
pub struct Machine {
    pub(crate) hw: Hardware,
    pub(crate) os: OperatingSystem,
    pub(crate) checker: Checker,
    pub(crate) scheduler: Scheduler,
    pub(crate) statistics: Statistics,
    pub(crate) memory: MemorySetUp,
}

/// A valid translation: the address of the data, when it is known, and when the access finally issued (after
/// any faults).
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub at: PhysAddr,
    pub ready: Cycle,
    pub issued: Cycle,
}

impl Machine {
    /// The phase that the machine is in.
    pub fn phase(&self) -> Phase {
        self.scheduler.phase()
    }

    /// Instructions executed in the current phase, over all cores, and their total if it is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.hw.instructions(), self.scheduler.budget().map(|each| each * self.hw.cores.len() as u64))
    }

    /// Runs about `records` more records. `Ok(true)` while the run has not ended.
    ///
    /// # Errors
    /// An outcome of the machine, or a failure. The counters are those of the part that ran.
    pub fn advance(&mut self, records: usize) -> Result<bool, Stop> {
        let mut left = records;
        while left > 0 {
            self.change_phase();
            if self.scheduler.places_threads() {
                self.scheduler.supply(&mut self.hw, &mut self.os)?;
                self.change_phase();
            }
            let Some((core, until)) = self.scheduler.next_core(&self.hw) else {
                if self.hw.cores.iter().any(|core| core.phase != CorePhase::Finished) {
                    left -= 1; // a phase has just begun, and cores have no records of it yet
                    continue;
                }
                self.scheduler.end();
                self.hw.hierarchy.drain_writes();
                return Ok(false);
            };
            let ran = if !self.scheduler.places_threads() {
                self.run_core(core, until, left)?
            } else {
                let batch = Arc::clone(&self.hw.cores[core].batch);
                let (from, end) = (self.hw.cores[core].at, self.hw.cores[core].end);
                self.run_records(core, &batch.records, from, end.min(from + left), until)?
            };
            left = left.saturating_sub(ran.max(1));
        }
        self.change_phase();
        Ok(self.scheduler.phase() != Phase::Done)
    }

    /// Enters the next phase when all cores have completed the current one.
    fn change_phase(&mut self) {
        if self.scheduler.begin_warmup(&self.hw.cores) {
            let faults: u64 = self.hw.cores.iter().map(|core| core.counters.page_faults).sum();
            self.statistics.add_setup_faults(faults + self.os.kernel().faults_served());
            self.os.end_set_up();
            self.start_counting();
        }
        if self.scheduler.begin_measuring(&mut self.hw.cores) {
            self.statistics.add_setup_faults(self.os.kernel().faults_served());
            self.start_counting();
        }
    }

    /// Sets every counter to zero; caches, TLBs and tables keep their contents.
    fn start_counting(&mut self) {
        self.statistics.begin_counting(&self.os);
        self.os.reset_counters();
        self.hw.reset_counters();
    }

    /// Runs one core until its local time passes `until`, its batch ends, or `limit` records are done.
    fn run_core(&mut self, number: usize, until: u64, limit: usize) -> Result<usize, Stop> {
        if self.hw.cores[number].at >= self.hw.cores[number].batch.records.len()
            && self.hw.cores[number].event_at >= self.hw.cores[number].batch.events.len()
            && !self.next_batch(number)?
        {
            return Ok(0);
        }
        let batch = Arc::clone(&self.hw.cores[number].batch);
        let mut ran = 0;
        loop {
            let core = &mut self.hw.cores[number];
            if let Some((at, event)) = batch.events.get(core.event_at)
                && *at as usize <= core.at
            {
                core.event_at += 1;
                self.scheduler.event(&mut self.hw, &mut self.os, number, event)?;
                // Phase, process and time may have changed: the caller selects the next core again.
                return Ok(ran);
            }
            if self.hw.cores[number].phase == CorePhase::Setup && self.hw.cores[number].at < batch.records.len() {
                // A stream with records before any region has no set-up: all of it is measured.
                self.hw.cores[number].phase = CorePhase::Region;
                return Ok(ran);
            }
            let core = &self.hw.cores[number];
            let from = core.at;
            let next_event = batch.events.get(core.event_at).map_or(batch.records.len(), |(at, _)| *at as usize);
            let to = next_event.min(from + (limit - ran));
            if from >= to {
                return Ok(ran);
            }
            let done = self.run_records(number, &batch.records, from, to, until)?;
            ran += done;
            if done < to - from || ran >= limit {
                return Ok(ran);
            }
        }
    }

    fn next_batch(&mut self, number: usize) -> Result<bool, Stop> {
        let core = &mut self.hw.cores[number];
        match core.stream.next(core.reader).map_err(|e| Stop::Failed(e.message))? {
            Some(batch) => {
                core.batch = batch;
                core.at = 0;
                core.event_at = 0;
                Ok(true)
            }
            None => {
                self.scheduler.finish(number, &mut self.hw.cores);
                Ok(false)
            }
        }
    }

    /// Runs records `from..to`; returns how many completed before the core's time passed `until` or its
    /// budget ended.
    fn run_records(
        &mut self,
        number: usize,
        records: &[Record],
        from: usize,
        to: usize,
        until: u64,
    ) -> Result<usize, Stop> {
        self.os.require_alive(self.hw.cores[number].process)?;
        let budget_end = self.hw.cores[number].budget_end;
        for i in from..to {
            let core = &mut self.hw.cores[number];
            core.look_ahead.prefetch(number, core.process, records, i, self.os.kernel(), &self.hw.hierarchy);
            let executed = self.record(number, &records[i])?;
            let core = &mut self.hw.cores[number];
            core.at = i + 1;
            core.executed += executed;
            core.counters.instructions += executed;
            if core.executed >= budget_end {
                self.scheduler.finish(number, &mut self.hw.cores);
                return Ok(i + 1 - from);
            }
            if self.hw.local_time(number).0 > until {
                return Ok(i + 1 - from);
            }
            if self.scheduler.check_is_due() {
                if self.scheduler.phase() == Phase::Measure {
                    self.statistics.sample(&self.hw);
                }
                self.os.run_daemons(&mut self.hw, self.scheduler.phase(), number)?;
                if self.scheduler.is_warm(&self.hw.cores[number]) {
                    return Ok(i + 1 - from);
                }
            }
        }
        Ok(to - from)
    }

    /// Translates an access of a core.
    #[inline(always)]
    fn translate(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Result<Located, Stop> {
        let Machine { hw, os, checker, scheduler, .. } = self;
        Translator { hw, os, checker, phase: scheduler.phase() }.translate(number, va, access, now)
    }

    /// Executes one record; returns the number of its instructions.
    #[inline(always)]
    fn record(&mut self, number: usize, record: &Record) -> Result<u64, Stop> {
        if record.kind == RecordKind::Fetch {
            // The gap's instructions precede the fetch.
            let timing = self.hw.timing();
            let window = &mut self.hw.cores[number].window;
            if timing {
                window.skip_fetch(record);
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
        match record.kind {
            RecordKind::Load => self.data(number, record, AccessKind::Load)?,
            RecordKind::Store => self.data(number, record, AccessKind::Store)?,
            RecordKind::BranchNotTaken | RecordKind::BranchTaken => {
                let timing = self.hw.timing();
                let core = &mut self.hw.cores[number];
                core.counters.branches += 1;
                if timing {
                    core.window.branch(record);
                } else {
                    core.window.count(record);
                }
            }
            RecordKind::Fetch => {}
        }
        Ok(record.instructions())
    }

    /// Fetches an instruction line into the front end.
    fn fetch(&mut self, number: usize, pc: VirtAddr) -> Result<(), Stop> {
        self.hw.cores[number].counters.fetches += 1;
        let now = if self.hw.timing() { self.hw.cores[number].window.now() } else { self.hw.begin_untimed() };
        let Located { at, ready, .. } = self.translate(number, pc, AccessKind::Fetch, now)?;
        let access = self.hw.hierarchy.access(number, at, AccessKind::Fetch, pc, ready);
        if self.hw.timing() && (ready > now || access.served != Served::L1) {
            self.hw.cores[number].window.stall_front(access.ready);
        }
        Ok(())
    }

    /// A load or a store.
    #[inline(always)]
    fn data(&mut self, number: usize, record: &Record, access: AccessKind) -> Result<(), Stop> {
        let timing = self.hw.timing();
        let untimed = if timing { Cycle(0) } else { self.hw.begin_untimed() };
        let core = &mut self.hw.cores[number];
        match access {
            AccessKind::Store => core.counters.stores += 1,
            _ => core.counters.loads += 1,
        }
        let issued = if timing {
            core.window.dispatch(record)
        } else {
            core.window.count(record);
            untimed
        };
        let walks = core.mmu.counters.walks;
        let walk_dram = core.traffic.dram;
        let Located { at, ready: mut translated, issued } = self.translate(number, record.va, access, issued)?;
        let last = record.va.offset(u64::from(record.size.max(1)) - 1);
        let splits = (last.0 ^ record.va.0) >> 6 != 0;
        // A store asks for its line when both its halves are translated and it commits.
        let mut second = None;
        let mut asked = translated;
        if timing && access == AccessKind::Store {
            if splits && self.hw.cores[number].window.asks_at_commit() {
                let (at, ready) = self.second_half(number, record, access, last, at, issued)?;
                translated = translated.max(ready);
                second = Some(at);
            }
            asked = self.hw.cores[number].window.commit_store(issued, translated);
        }
        let done = self.hw.hierarchy.access(number, at, access, record.pc, asked);
        let core = &mut self.hw.cores[number];
        let from_dram = done.served == Served::Dram;
        core.counters.data_from_dram += u64::from(from_dram);
        if core.mmu.counters.walks != walks {
            if let Some(va) = core.mmu.take_migration_hint() {
                self.os.migrate(&mut self.hw, self.scheduler.phase(), number, va)?;
            }
            let core = &mut self.hw.cores[number];
            let counters = &mut core.counters;
            match (core.traffic.dram != walk_dram, from_dram) {
                (true, true) => counters.dram_translation_dram_data += 1,
                (true, false) => counters.dram_translation_cached_data += 1,
                (false, true) => counters.cached_translation_dram_data += 1,
                (false, false) => counters.cached_translation_cached_data += 1,
            }
        }
        let mut ready = done.ready;
        if splits {
            let (at, asked) = match second {
                Some(at) => (at, asked),
                None => self.second_half(number, record, access, last, at, issued)?,
            };
            ready = ready.max(self.hw.hierarchy.access(number, at, access, record.pc, asked).ready);
        }
        if timing {
            let core = &mut self.hw.cores[number];
            core.counters.access_cycles += ready.since(issued) - asked.since(translated);
            core.window.complete(record, issued, ready);
        }
        Ok(())
    }

    /// The second line of an access that crosses a line: its address, which is translated separately if the
    /// access crosses a page, and when that is known.
    #[cold]
    fn second_half(
        &mut self,
        number: usize,
        record: &Record,
        access: AccessKind,
        last: VirtAddr,
        first_at: PhysAddr,
        issued: Cycle,
    ) -> Result<(PhysAddr, Cycle), Stop> {
        let line = VirtAddr(last.0 & !63);
        let issued = if self.hw.timing() { issued } else { self.hw.begin_untimed() };
        self.hw.cores[number].counters.split_lines += 1;
        if (last.0 ^ record.va.0) >> 12 == 0 {
            return Ok((PhysAddr((first_at.0 & !0xfff) | (line.0 & 0xfff)), issued));
        }
        self.hw.cores[number].counters.split_pages += 1;
        let Located { at, ready, .. } = self.translate(number, line, access, issued)?;
        Ok((at, ready))
    }
}
