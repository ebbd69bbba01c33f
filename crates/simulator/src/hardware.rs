//! The hardware of a machine: its cores with their programs' state, and the caches and main memory that they
//! share.

use crate::core::{Core, CorePhase};
use crate::hosted::Effect;
use crate::machine::Phase;
use crate::path::TranslationPath;
use crate::timeline::{Action, Recording};
use ambulator_base::{Archive, Counters, Cycle, FRAME_BYTES, State};
use ambulator_hardware::{EntryLevel, Hierarchy};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{CorePort, Mmu};
use ambulator_os::{Migration, Zeroed};

/// Cores, caches and main memory.
pub(crate) struct Hardware {
    pub cores: Vec<Core>,
    pub hierarchy: Hierarchy,
    /// What happens now, if it is recorded.
    pub recording: Option<Box<Recording>>,
    path: TranslationPath,
    /// Where walkers' accesses enter the hierarchy.
    entry: EntryLevel,
    timing: bool,
    /// A translation is explained: all of it happens at once.
    explains: bool,
    /// Without time: pages are mapped, and nothing else happens.
    skipping: bool,
    /// Whether the machine was built to simulate time: it can do without for a while.
    has_time: bool,
    /// Whether instructions have taken time so far.
    timed_before: bool,
    /// Without time: when the latest access began.
    untimed: Cycle,
    /// The kernel's time when the machine last lost time, and by how many cycles the clock is ahead of it.
    kernel_time: u64,
    ahead: u64,
    /// Of a machine inside another simulator: the accesses of the translation in progress, and what happened
    /// besides that the simulator around it may want to know.
    pub hosted: Option<Box<ambulator_mmu::Recording>>,
    pub effects: Vec<Effect>,
}

/// Cycles between two accesses in functional mode: more than the loads, walks and refills of one access take
/// together, so that nothing is in flight when the next one begins. A run may have 2^40 accesses.
const UNTIMED_STEP: u64 = 1 << 24;
/// The same where time will be simulated later. Only accesses that miss the first-level TLBs need it. Walks
/// take at most some hundred loads of last-level caches.
const WARMUP_STEP: u64 = 1 << 15;
/// The latest cycle at which time may begin: times in a core's window have 44 bits.
const LATEST_BEGIN: u64 = 1 << 43;

/// The bytes that walkers read: the machine's, and the guest's with nested paging.
pub(crate) type Memories<'a> = (&'a mut PhysicalMemory, Option<&'a mut PhysicalMemory>);

impl Hardware {
    /// Cores on a hierarchy. Without `timing`, nothing takes time.
    pub fn new(
        cores: Vec<Core>,
        hierarchy: Hierarchy,
        path: TranslationPath,
        entry: EntryLevel,
        timing: bool,
    ) -> Hardware {
        let untimed = Cycle(0);
        Hardware {
            cores,
            hierarchy,
            recording: None,
            path,
            entry,
            timing,
            explains: false,
            skipping: false,
            has_time: timing,
            timed_before: false,
            untimed,
            kernel_time: 0,
            ahead: 0,
            hosted: None,
            effects: Vec::new(),
        }
    }

    /// Switches time on or off ([`crate::Machine::set_timed`]). Nothing is in flight.
    ///
    /// # Errors
    /// A sentence, if time cannot be switched on.
    pub fn set_timed(&mut self, timed: bool) -> Result<(), String> {
        if timed == self.timing {
            return Ok(());
        }
        if !self.has_time {
            return Err("`run.mode` is \"functional\": the machine was built without time".into());
        }
        if timed {
            // After everything that the last access started.
            let now = self.untimed.after(UNTIMED_STEP);
            if now.0 > LATEST_BEGIN {
                return Err(format!(
                    "the functional warm-up has too many TLB misses: the clock would begin at cycle {}, and times \
                     end at 2^44; make `run.warmup` shorter",
                    now.0
                ));
            }
            let kernel_time = (0..self.cores.len()).map(|number| self.kernel_time(number).0).max().unwrap_or(0);
            self.ahead = now.0 - kernel_time.min(now.0);
            for core in &mut self.cores {
                if core.phase != CorePhase::Finished {
                    core.measured_from += now.since(core.window.retired_cycle());
                }
                core.window.skip_to(now);
            }
            self.untimed = now;
        } else {
            let times = (0..self.cores.len()).map(|number| self.local_time(number));
            let retired = self.cores.iter().map(|core| core.window.retired_cycle());
            let now = times.chain(retired).max().unwrap_or_default();
            self.timed_before |= now.0 > 0;
            self.kernel_time = now.0.saturating_sub(self.ahead);
            self.untimed = self.untimed.max(now).after(UNTIMED_STEP);
        }
        self.timing = timed;
        for core in &mut self.cores {
            core.mmu.set_timed(timed);
            core.waits_until = 0;
            core.untimed_from = core.executed;
        }
        self.hierarchy.set_timed(timed, self.untimed);
        Ok(())
    }

    /// The translation path.
    #[inline(always)]
    pub fn path(&self) -> TranslationPath {
        self.path
    }

    /// Whether time is simulated; in functional mode it is not.
    #[inline(always)]
    pub fn timing(&self) -> bool {
        self.timing
    }

    /// Whether accesses of mapped pages do nothing at all.
    #[inline(always)]
    pub fn skipping(&self) -> bool {
        self.skipping
    }

    /// Accesses of mapped pages do nothing from now on, or all they do without time.
    pub fn set_skipping(&mut self, skipping: bool) {
        self.skipping = skipping;
    }

    /// A core's time, by which the scheduler selects the next core: the cycle of its last dispatch, or of what
    /// it does next, if that is known. Without time, an instruction counts as a cycle, or as [`Core::pace`] says.
    #[inline(always)]
    pub fn local_time(&self, number: usize) -> Cycle {
        let core = &self.cores[number];
        if self.timing { core.window.now().max(Cycle(core.waits_until)) } else { Cycle(core.untimed_cycles()) }
    }

    /// A core's time as the kernel's daemons know it. While time is not simulated, an instruction takes a
    /// cycle: their periods go on when it is simulated again.
    pub fn kernel_time(&self, number: usize) -> Cycle {
        let now = self.local_time(number).0;
        Cycle(if self.timing { now.saturating_sub(self.ahead) } else { self.kernel_time + now })
    }

    /// Without time: the time at which the next access of a core begins. Everything before it has ended: what
    /// needs time to become ready is ready, and what was busy is free.
    #[inline(always)]
    pub fn begin_untimed(&mut self, number: usize) -> Cycle {
        let (now, step, ..) = self.untimed_steps(number);
        self.went_on_to(number, now.after(step), self.cores[number].mmu.untimed_misses());
        self.untimed
    }

    /// Without time: when a core's latest access began; after how many cycles its next one may begin, those
    /// after an access that missed no TLB, and those after another one. Where time will be simulated later, only
    /// accesses that miss the first-level TLBs need long steps: the clock must not run away.
    #[inline(always)]
    pub fn untimed_steps(&self, number: usize) -> (Cycle, u64, u64, u64) {
        if !self.has_time {
            return (self.untimed, UNTIMED_STEP, UNTIMED_STEP, UNTIMED_STEP);
        }
        let core = &self.cores[number];
        let missed_none = core.untimed_misses == core.mmu.untimed_misses();
        let first = if missed_none && self.path != TranslationPath::Intermediate { 1 } else { WARMUP_STEP };
        (self.untimed, first, 1, WARMUP_STEP)
    }

    /// Without time: a core's latest access began at `now`, when its MMU had counted `misses`
    /// ([`ambulator_mmu::Mmu::untimed_misses`]). They are accounted for by the step that
    /// [`Hardware::untimed_steps`] gave.
    #[inline(always)]
    pub fn went_on_to(&mut self, number: usize, now: Cycle, misses: u64) {
        self.untimed = now;
        if self.has_time {
            self.cores[number].untimed_misses = misses;
        }
    }

    /// A core's time for what happens besides its accesses; in functional mode that of the latest access.
    pub fn time_of(&self, number: usize) -> Cycle {
        if self.timing { self.cores[number].window.now() } else { self.untimed }
    }

    /// Whether loads and stores find out when they ask for their lines that they miss all caches, and their pages are walked
    /// then. Who explains a translation sees both sides of the caches at once.
    #[inline(always)]
    pub fn walks_behind(&self) -> bool {
        self.path == TranslationPath::Intermediate && self.timing && self.hosted.is_none() && !self.explains
    }

    /// From now on translations are explained.
    pub fn explain(&mut self) {
        self.explains = true;
    }

    /// Calls `act` with a core's MMU and its port to memory.
    #[inline(always)]
    pub fn with_port<T>(
        &mut self,
        number: usize,
        (memory, guest): Memories<'_>,
        act: impl FnOnce(&mut Mmu, &mut CorePort<'_>) -> T,
    ) -> T {
        let core = &mut self.cores[number];
        let mut port = CorePort {
            hierarchy: &mut self.hierarchy,
            memory,
            guest,
            core: number,
            entry: self.entry,
            nearer: 0,
            traffic: &mut core.traffic,
            slowest: &mut core.slowest_walk_load,
            awaited: &mut core.awaited_table,
            recording: self.hosted.as_deref_mut(),
        };
        act(&mut core.mmu, &mut port)
    }

    /// Charges operating-system work to a core, which stalls for `cycles` in the region of interest. Set-up
    /// is untimed.
    pub fn charge(&mut self, phase: Phase, number: usize, cycles: u64) {
        if phase == Phase::Setup || cycles == 0 {
            return;
        }
        let core = &mut self.cores[number];
        core.counters.os_cycles += cycles;
        if self.hosted.is_some() {
            return;
        }
        if self.timing {
            core.window.serialize(cycles);
            if let Some(recording) = &mut self.recording {
                recording.system.worked(number, cycles, core.window.retired_cycle());
            }
        } else {
            core.window.count_serialization();
        }
    }

    /// Names the reason of what the operating system does next, for a recording.
    #[inline]
    pub fn acts(&mut self, action: impl FnOnce() -> Action) {
        if let Some(recording) = &mut self.recording {
            recording.system.begin(action());
        }
    }

    /// Cycles of the measured region so far, on the core that takes longest; 0 in functional mode.
    pub fn measured_cycles(&self) -> u64 {
        if !self.timing {
            return 0;
        }
        self.cores.iter().map(crate::core::Core::measured_cycles).max().unwrap_or(0)
    }

    /// Copies a page that the kernel has moved for a core, in the background. Accesses to the page wait for
    /// the end of the copy.
    pub fn copy_page(&mut self, number: usize, moved: &Migration) {
        if self.hosted.is_some() {
            return self.effects.push(Effect::copy(moved));
        }
        let now = self.time_of(number);
        let copy = self.hierarchy.copy(moved.from.start(), moved.to.start(), moved.page.size.bytes(), now);
        if let Some(recording) = &mut self.recording {
            recording.system.copy(copy, now, *moved);
        }
        for core in &mut self.cores {
            core.mmu.hold(moved.asid, moved.page, copy);
        }
    }

    /// Writes frames that the kernel has zeroed for a core to main memory. The core was charged the cycles that
    /// it took, which have just passed.
    pub fn zero(&mut self, number: usize, zeroed: &[Zeroed]) {
        if self.hosted.is_some() {
            return self.effects.extend(zeroed.iter().map(Effect::zero));
        }
        let cycles: u64 = zeroed.iter().map(|one| one.cycles).sum();
        let mut begin = Cycle(self.time_of(number).0.saturating_sub(cycles));
        for one in zeroed {
            self.hierarchy.zero(number, one.frame.start(), one.frames * FRAME_BYTES, begin, one.cycles);
            begin = begin.after(one.cycles);
        }
    }

    /// Sets every counter to zero; caches and TLBs keep their contents.
    pub fn reset_counters(&mut self) {
        self.hierarchy.reset_counters();
        for core in &mut self.cores {
            core.mmu.reset_counters();
            core.window.reset_counters();
            core.traffic.reset();
            core.counters.reset();
            core.measured_from = core.window.retired_cycle().0;
        }
    }

    /// Instructions of all cores since counting began.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|core| core.counters.instructions).sum()
    }
}

impl Hardware {
    /// Whether the state depends on times.
    pub fn depends_on_times(&self) -> bool {
        self.timing || self.timed_before
    }
}

/// The operating system's state comes before: the cores' MMUs have the registers of their processes.
impl State for Hardware {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut timing = self.timing;
        timing.state(archive);
        if timing != self.timing {
            // Nothing has run: a switch changes nothing else.
            self.timing = timing;
            self.cores.iter_mut().for_each(|core| core.mmu.set_timed(timing));
            self.hierarchy.set_timed(timing, Cycle(0));
        }
        let Hardware {
            cores,
            hierarchy,
            recording: _,
            path: _,
            entry: _,
            timing: _,
            skipping,
            has_time: _,
            timed_before,
            untimed,
            kernel_time,
            ahead,
            hosted: _,
            // Who explains a translation goes no further.
            explains: _,
            effects: _,
        } = self;
        cores.iter_mut().for_each(|core| core.state(archive));
        hierarchy.state(archive);
        skipping.state(archive);
        timed_before.state(archive);
        untimed.state(archive);
        kernel_time.state(archive);
        ahead.state(archive);
    }
}
