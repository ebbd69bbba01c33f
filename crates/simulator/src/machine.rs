//! A machine: cores, caches, DRAM and a kernel, and the run loop.

use crate::checkpoint::CheckpointPlace;
use crate::core::CorePhase;
use crate::error::Stop;
use crate::hardware::Hardware;
use crate::memory_setup::MemorySetUp;
use crate::oracle::Checker;
use crate::os_events::OperatingSystem;
use crate::sampling::Sampler;
use crate::scheduler::Scheduler;
use crate::statistics::Statistics;
use crate::timed::Stopped;
use crate::timeline::TimelineRun;
use ambulator_base::{Cycle, PhysAddr, Record, State};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, State)]
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
    /// Of a sampled region.
    pub(crate) sampler: Option<Sampler>,
    pub(crate) memory: MemorySetUp,
    /// If a window of the run is recorded.
    pub(crate) timeline: Option<Box<TimelineRun>>,
    pub(crate) checkpoint: CheckpointPlace,
    /// When the measured region began, by the sim host's clock.
    pub(crate) measures_since: Option<Instant>,
}

/// A valid translation: the address of the data, when it is known, and when the access finally issued (after
/// any faults).
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub at: PhysAddr,
    pub ready: Cycle,
    pub issued: Cycle,
    /// When the frame is known: later than `ready` where pages are translated after the last level.
    pub known: Cycle,
}

impl Machine {
    /// The phase that the machine is in.
    pub fn phase(&self) -> Phase {
        self.scheduler.phase()
    }

    /// How much of the time since `began` went by before the measured region, by the sim host's clock.
    pub fn set_up_since(&self, began: Instant) -> Duration {
        match self.measures_since {
            Some(begin) => begin.saturating_duration_since(began),
            None => began.elapsed(),
        }
    }

    /// Whether the measured region has begun.
    pub fn has_measured(&self) -> bool {
        self.measures_since.is_some()
    }

    /// Instructions executed in the current phase, over all cores, and their total if it is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        let done = match &self.sampler {
            Some(sampler) if matches!(self.phase(), Phase::Measure | Phase::Done) => sampler.covered(&self.hw),
            _ => self.hw.instructions(),
        };
        (done, self.scheduler.budget().map(|each| each * self.hw.cores.len() as u64))
    }

    /// Runs about `records` more records. `Ok(true)` while the run has not ended.
    ///
    /// # Errors
    /// An outcome of the machine, or a failure. The counters are those of the part that ran.
    pub fn advance(&mut self, records: usize) -> Result<bool, Stop> {
        // Where a slice ends can decide which of two cores goes first: a restored run has the same slices.
        let records = self.checkpoint.rest_of_slice.take().unwrap_or(records);
        if self.timeline.is_some() {
            return self.advance_recorded(records);
        }
        self.run(records)
    }

    /// As [`Machine::advance`]; returns early if a recording must begin.
    pub(crate) fn run(&mut self, records: usize) -> Result<bool, Stop> {
        let mut left = records;
        while left > 0 {
            self.change_phase()?;
            if self.waits_for_checkpoint() {
                self.checkpoint.rest_of_slice = Some(left);
                return Ok(true);
            }
            if let Some(timeline) = &self.timeline
                && timeline.is_due(self.phase(), self.hw.instructions())
            {
                return Ok(true);
            }
            if self.scheduler.places_threads() {
                for number in 0..self.hw.cores.len() {
                    if self.hw.cores[number].at >= self.hw.cores[number].end {
                        self.carry_out_all(number)?;
                    }
                }
                self.scheduler.supply(&mut self.hw, &mut self.os)?;
                self.change_phase()?;
                if self.waits_for_checkpoint() {
                    continue;
                }
            }
            let Some((core, until)) = self.scheduler.next_core(&self.hw) else {
                if self.hw.cores.iter().any(|core| core.phase != CorePhase::Finished) {
                    left -= 1; // a phase has just begun, and cores have no records of it yet
                    continue;
                }
                self.end_sampling()?;
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
        self.change_phase()?;
        if self.waits_for_checkpoint() {
            self.checkpoint.rest_of_slice = Some(0);
        }
        Ok(self.scheduler.phase() != Phase::Done)
    }

    /// Enters the next phase when all cores have completed the current one.
    fn change_phase(&mut self) -> Result<(), Stop> {
        if self.scheduler.begin_warmup(&self.hw.cores) {
            self.carry_out_everywhere()?;
            self.begin_sampled_region()?;
            let faults: u64 = self.hw.cores.iter().map(|core| core.counters.page_faults).sum();
            self.statistics.add_setup_faults(faults + self.os.kernel().faults_served());
            self.os.end_set_up();
            self.start_counting();
            if self.scheduler.warms_up_untimed() {
                self.set_timed(false)?;
            }
        }
        if self.waits_for_checkpoint() {
            return Ok(());
        }
        if !self.hw.timing() && self.scheduler.begins_time(&self.hw.cores) {
            self.set_timed(true)?;
        }
        let was_measuring = self.phase() == Phase::Measure;
        if self.scheduler.begin_measuring(&mut self.hw.cores) {
            self.carry_out_everywhere()?;
            self.statistics.add_setup_faults(self.os.kernel().faults_served());
            self.start_counting();
        }
        if self.phase() == Phase::Measure && self.measures_since.is_none() {
            self.measures_since = Some(Instant::now());
        }
        if self.sampler.is_some() && self.phase() == Phase::Measure {
            if was_measuring { self.go_on_sampling()? } else { self.begin_sampling()? }
        }
        Ok(())
    }

    /// Switches the simulation of time on or off, between two records of any core; in a run,
    /// `run.warmup_mode` does.
    ///
    /// Switched off, what is in flight completes first. Then accesses take no time, one begins after another
    /// has ended, and everything that lasts learns from them: TLBs, walk caches, caches, prefetchers, branch
    /// predictors, page tables, and the kernel, for whose daemons an instruction takes a cycle.
    ///
    /// Switched on, the cores' windows are empty and begin together at a cycle after all that anything has
    /// recorded: the clock never goes back. The cycles between are not counted.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the machine was built without time (`run.mode`), or its clock is too late.
    pub fn set_timed(&mut self, timed: bool) -> Result<(), Stop> {
        self.carry_out_everywhere()?;
        self.hw.set_timed(timed).map_err(Stop::Failed)
    }

    /// Sets every counter to zero; caches, TLBs and tables keep their contents.
    fn start_counting(&mut self) {
        self.statistics.begin_counting(&self.os);
        self.os.reset_counters();
        self.hw.reset_counters();
        self.statistics.begin_series(&self.hw, &self.os);
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
                self.carry_out_everywhere()?;
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
                core.batch_number = core.stream.position(core.reader).saturating_sub(1);
                core.at = 0;
                core.event_at = 0;
                Ok(true)
            }
            None => {
                self.carry_out_all(number)?;
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
        if self.hw.skipping() && !self.hw.timing() {
            return self.skip_records(number, records, from..to, until);
        }
        let stop_at = self.hw.cores[number].stop_at;
        let (has_common_case, has_timed) = (self.hw.has_common_case(), self.has_timed_common_case());
        let mut i = from;
        while i < to {
            let mut begun = None;
            if has_common_case {
                (i, begun) = self.run_common(number, records, i, to, until);
                if i == to {
                    break;
                }
            }
            if has_timed {
                let (at, stopped) = self.run_timed(number, records, i, to, until);
                i = at;
                match stopped {
                    Stopped::Done => return Ok(i - from),
                    Stopped::Event(event) => {
                        self.carry_out(number, event)?;
                        continue;
                    }
                    Stopped::Issue(event) => {
                        self.issue(number, event, &records[i - 1], true)?;
                        if self.hw.local_time(number).0 > until {
                            return Ok(i - from);
                        }
                        continue;
                    }
                    Stopped::Record => {}
                }
            }
            let record = &records[i];
            let core = &mut self.hw.cores[number];
            core.look_ahead.prefetch(number, core.process, records, i, self.os.kernel(), &self.hw.hierarchy);
            if self.hw.timing() && !self.reach(number, record, until)? {
                return Ok(i - from);
            }
            let executed = match begun {
                None => self.record(number, record)?,
                Some(begun) => self.complete_untimed(number, record, &begun)?,
            };
            let core = &mut self.hw.cores[number];
            core.at = i + 1;
            core.executed += executed;
            core.counters.instructions += executed;
            if core.executed >= stop_at {
                self.finish_at_budget(number)?;
                return Ok(i + 1 - from);
            }
            if self.scheduler.check_is_due() {
                // What is in flight stays there: to look must not change what is seen.
                if self.scheduler.phase() == Phase::Measure {
                    self.statistics.sample(&self.hw);
                    self.statistics.take_point(&self.hw, &self.os);
                }
                self.run_due_daemons(number)?;
                if self.scheduler.is_warm(&self.hw.cores[number], self.hw.timing()) {
                    return Ok(i + 1 - from);
                }
            }
            if self.hw.local_time(number).0 > until {
                return Ok(i + 1 - from);
            }
            i += 1;
        }
        Ok(to - from)
    }
    /// A core that has run its instructions has finished.
    pub(crate) fn finish_at_budget(&mut self, number: usize) -> Result<(), Stop> {
        if self.hw.cores[number].executed >= self.hw.cores[number].budget_end {
            self.carry_out_all(number)?;
            self.scheduler.finish(number, &mut self.hw.cores);
        }
        Ok(())
    }

    /// Runs the kernel's daemons whose time has come on a core.
    #[inline(always)]
    pub(crate) fn run_due_daemons(&mut self, number: usize) -> Result<(), Stop> {
        if self.os.kernel().daemons_are_due(self.hw.kernel_time(number)) {
            self.carry_out_everywhere()?;
            self.os.run_daemons(&mut self.hw, self.scheduler.phase(), number)?;
        }
        Ok(())
    }
}
