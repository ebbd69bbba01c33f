//! Selects the core that runs next, places programs on cores, and tracks the phases of the run.

mod mix;
mod thread_placement;

pub use mix::{check_mix, open_mix};
pub(crate) use thread_placement::ThreadPlacement;

use crate::Stop;
use crate::core::{Core, CorePhase};
use crate::hardware::Hardware;
use crate::machine::Phase;
use crate::os_events::OperatingSystem;
use crate::spec::RunSpec;
use ambulator_base::{Archive, State, VmEvent};
use std::ops::Range;

/// Records between checks for the kernel's daemons, the end of an epoch and the end of warm-up.
const CHECK_RECORDS: u32 = 4096;

/// The phases of a run, and the programs whose threads are placed on several cores.
pub(crate) struct Scheduler {
    phase: Phase,
    /// Instructions of warm-up and of the measured region, for each core.
    warmup: u64,
    instructions: u64,
    /// Of the warm-up, instructions for each core without time, before it is switched on; 0 if time is not
    /// switched.
    untimed: u64,
    /// Programs whose threads run on several cores: all programs or none.
    placements: Vec<ThreadPlacement>,
    /// Records until the next check.
    until_check: u32,
    /// By core: instructions executed when the region of interest began, with the warm-up; empty before.
    region: Vec<u64>,
}

impl Scheduler {
    /// For a run, with the programs whose threads are placed on several cores.
    pub fn new(run: &RunSpec, placements: Vec<ThreadPlacement>) -> Scheduler {
        Scheduler {
            phase: Phase::Setup,
            warmup: run.warmup,
            instructions: run.instructions,
            untimed: run.untimed_warmup(),
            placements,
            until_check: CHECK_RECORDS,
            region: Vec::new(),
        }
    }

    /// The phase that the machine is in.
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether programs' threads are placed on several cores.
    #[inline(always)]
    pub fn places_threads(&self) -> bool {
        !self.placements.is_empty()
    }

    /// Instructions of each core in the current phase, if known.
    pub fn budget(&self) -> Option<u64> {
        match self.phase {
            Phase::Setup => None,
            Phase::Warmup => Some(self.warmup),
            Phase::Measure | Phase::Done => Some(self.instructions),
        }
    }

    /// Whether a core has completed the warm-up, or its part without time, during that.
    pub fn is_warm(&self, core: &Core, timed: bool) -> bool {
        let needed = if timed || self.untimed == 0 { self.warmup } else { self.untimed };
        self.phase == Phase::Warmup && core.counters.instructions >= needed
    }

    /// Whether the warm-up begins without time.
    pub fn warms_up_untimed(&self) -> bool {
        self.untimed > 0
    }

    /// Whether all cores have run the part of the warm-up without time.
    pub fn begins_time(&self, cores: &[Core]) -> bool {
        self.untimed > 0 && self.phase == Phase::Warmup && self.have_run(cores, self.untimed)
    }

    /// Warm-up instructions of each core.
    pub fn warmup(&self) -> u64 {
        self.warmup
    }

    /// Whether the machine is where a checkpoint is taken: at the end of the warm-up, or of its part without
    /// time.
    pub fn at_checkpoint(&self, cores: &[Core], timed: bool) -> bool {
        let needed = if timed || self.untimed == 0 { self.warmup } else { self.untimed };
        self.phase == Phase::Warmup && self.have_run(cores, needed)
    }

    /// The programs whose threads are placed on several cores.
    pub fn placements_mut(&mut self) -> &mut [ThreadPlacement] {
        &mut self.placements
    }

    /// Counts a record; true when the next check is due.
    #[inline(always)]
    pub fn check_is_due(&mut self) -> bool {
        self.until_check -= 1;
        if self.until_check > 0 {
            return false;
        }
        self.until_check = CHECK_RECORDS;
        true
    }

    /// Records that may run before one after which a check is due.
    #[inline(always)]
    pub fn records_until_check(&self) -> usize {
        self.until_check as usize - 1
    }

    /// Counts records, no more than [`Scheduler::records_until_check`].
    #[inline(always)]
    pub fn count_records(&mut self, records: u32) {
        self.until_check -= records;
    }

    /// All cores have finished.
    pub fn end(&mut self) {
        self.phase = Phase::Done;
    }

    /// Enters the warm-up when all cores have set up; returns whether it did.
    pub fn begin_warmup(&mut self, cores: &[Core]) -> bool {
        let begins = self.phase == Phase::Setup && cores.iter().all(|core| core.phase != CorePhase::Setup);
        if begins {
            self.phase = Phase::Warmup;
            self.region = cores.iter().map(|core| core.executed).collect();
        }
        begins
    }

    /// By core: instructions executed when the region of interest began, with the warm-up.
    pub fn region(&self) -> &[u64] {
        &self.region
    }

    /// The cores of each program.
    pub fn cores_of_programs(&self, cores: usize) -> Vec<Range<usize>> {
        match self.places_threads() {
            true => self.placements.iter().map(ThreadPlacement::cores).collect(),
            false => (0..cores).map(|core| core..core + 1).collect(),
        }
    }

    /// Enters the measured region when all cores are warm, and sets their budgets. Returns whether counting
    /// restarts.
    ///
    /// With threads placed on cores, a program is warm when its cores have run the warm-up on average: a
    /// thread that waits for others must not make all of them wait, and the first thread to run must not end
    /// the warm-up of threads that have not begun.
    pub fn begin_measuring(&mut self, cores: &mut [Core]) -> bool {
        if self.phase != Phase::Warmup || !self.have_run(cores, self.warmup) {
            return false;
        }
        self.phase = Phase::Measure;
        for core in cores {
            core.budget_end = core.executed.saturating_add(self.instructions);
            core.stop_at = core.budget_end;
        }
        self.warmup > 0
    }

    /// Whether all cores have finished or run `instructions` since counting began; a program with placed
    /// threads, on average.
    fn have_run(&self, cores: &[Core], instructions: u64) -> bool {
        let has = |core: &Core| core.phase == CorePhase::Finished || core.counters.instructions >= instructions;
        let have = |own: &[Core]| {
            let executed: u64 = own.iter().map(|core| core.counters.instructions).sum();
            own.iter().all(has) || executed >= instructions.saturating_mul(own.len() as u64)
        };
        if self.places_threads() {
            self.placements.iter().all(|placement| have(&cores[placement.cores()]))
        } else {
            cores.iter().all(has)
        }
    }

    /// The core with the smallest local time, and up to which time it runs: until another core is due. Of cores that are
    /// due in the same cycle, the one with the smallest number is first.
    pub fn next_core(&self, hw: &Hardware) -> Option<(usize, u64)> {
        let waits = |core: &Core| {
            core.phase == CorePhase::Finished
                || (self.phase == Phase::Setup && core.phase != CorePhase::Setup)
                || (self.places_threads() && core.at >= core.end)
        };
        let none = (u64::MAX, usize::MAX);
        let (mut best, mut second) = (none, none);
        for (number, _) in hw.cores.iter().enumerate().filter(|(_, core)| !waits(core)) {
            let due = (hw.local_time(number).0, number);
            if due < best {
                (best, second) = (due, best);
            } else if due < second {
                second = due;
            }
        }
        let until = if second.1 < best.1 { second.0 - 1 } else { second.0 };
        (best != none).then_some((best.1, until))
    }

    /// A VM event of a core's program, or a mark of its region of interest.
    pub fn event(
        &mut self,
        hw: &mut Hardware,
        os: &mut OperatingSystem,
        number: usize,
        event: &VmEvent,
    ) -> Result<(), Stop> {
        let core = &mut hw.cores[number];
        match event {
            VmEvent::RegionBegin => {
                if core.phase == CorePhase::Region && core.executed > 0 {
                    // The records before the region turn out to be set-up: counting begins here.
                    self.phase = Phase::Setup;
                    core.stop_at = core.budget_end;
                }
                core.phase = CorePhase::Region;
            }
            VmEvent::RegionEnd => {
                if core.phase == CorePhase::Region {
                    self.finish(number, &mut hw.cores);
                }
            }
            other => os.event(hw, self.phase, number, other)?,
        }
        Ok(())
    }

    /// A core has finished: it stops reading its program.
    pub fn finish(&mut self, number: usize, cores: &mut [Core]) {
        let core = &mut cores[number];
        core.phase = CorePhase::Finished;
        core.finished_at = core.window.retired_cycle().0;
        if self.placements.is_empty() {
            let core = &cores[number];
            core.stream.leave(core.reader);
        } else if let Some(placement) = self.placements.iter_mut().find(|placement| placement.has_core(number)) {
            placement.leave(number, cores);
        }
    }
}

impl State for Scheduler {
    fn state(&mut self, archive: &mut Archive<'_>) {
        // The lengths of the run's parts are settings.
        let Scheduler { phase, warmup: _, instructions: _, untimed: _, placements, until_check, region } = self;
        phase.state(archive);
        until_check.state(archive);
        region.state(archive);
        placements.iter_mut().for_each(|placement| placement.state(archive));
    }
}
