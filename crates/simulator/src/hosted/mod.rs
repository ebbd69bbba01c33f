//! A machine's operating system and MMUs inside another simulator, which has the cores, the caches and the
//! time.
//!
//! [`HostedMachine::translate`] translates on the bytes at once and returns what the translation needs in
//! time: its steps, in groups. The simulator around it times them, and says when they have ended
//! ([`HostedMachine::complete`]); only then is usable what the walk has filled. Every translation is checked
//! with the oracle, as in a run.

mod clock;
mod effects;
mod steps;

#[cfg(test)]
mod tests;

pub use clock::MOST_IN_FLIGHT;
pub use effects::Effect;
pub use steps::{HostedStep, StepKind};

use crate::core::Core;
use crate::error::{SimError, Stop};
use crate::machine::{Machine, Phase};
use crate::oracle;
use crate::path::TranslationPath;
use crate::result::Gathered;
use crate::spec::{RunMode, Spec};
use crate::stream::SharedStream;
use ambulator_base::{
    AccessKind, Batch, Counters, Cycle, MapKind, PhysAddr, ProcessId, ProgramIdentity, Protection, RecordSource,
    SourceError, VirtAddr, VmEvent,
};
use ambulator_mmu::{FaultCause, RecordedKind, Recording, Served, TlbSpec, Translated};
use ambulator_os::OsError;
use clock::Clock;

/// If one access faults more often than this, the kernel or a walker violates an invariant.
const MOST_FAULTS: u32 = 64;
/// Effects that wait to be taken, at most; then the oldest are dropped and counted.
pub const MOST_EFFECTS: usize = 1 << 16;

ambulator_base::counters! {
    /// Counters of a machine inside another simulator.
    pub struct HostedCounters {
        /// Translations asked for.
        translations: Events,
        /// Walks given out: translations with something to wait for.
        walks_begun: Events,
        /// Walks that the simulator around the machine has completed.
        walks_completed: Events,
        /// Translations that waited for the walk of another one.
        joins: Events,
        /// Cycles of completed walks, from the translation's begin to its completion.
        walk_cycles: Cycles,
        /// Steps given out.
        steps: Events,
        /// Translations checked with the oracle.
        checked: Events,
        /// Effects dropped because nobody took them.
        effects_dropped: Events,
    }
}

/// What a simulator wants besides a spec.
#[derive(Clone, Debug)]
pub struct HostedOptions {
    /// Cores, 1 to 256. At first core `i` runs process `i`.
    pub cores: usize,
    /// The TLBs of both levels are the simulator's: every translation goes to the lookaside and the walker.
    pub host_tlbs: bool,
    /// Effects are kept for [`HostedMachine::take_effects`].
    pub effects: bool,
    /// An access outside all areas maps this many bytes around it, a multiple of 4 KiB; 0 makes it an error.
    pub auto_map: u64,
    /// The level that is assumed to serve the loads of walks, for designs that count those from DRAM.
    pub assumed: Served,
}

impl Default for HostedOptions {
    fn default() -> Self {
        HostedOptions { cores: 1, host_tlbs: false, effects: false, auto_map: 0, assumed: Served::Dram }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostedError {
    /// The program may not access the address. The machine goes on.
    Segfault(String),
    /// The call is wrong: a bad core, process, walk or range. The machine goes on.
    Call(String),
    /// The modelled machine ran out of memory. It stops.
    Memory(String),
    /// A translation disagrees with the kernel, or the machine violated an invariant. It stops.
    Failed(String),
}

impl From<OsError> for HostedError {
    fn from(error: OsError) -> HostedError {
        let text = error.to_string();
        match error {
            OsError::Segfault { .. } => HostedError::Segfault(text),
            OsError::BadCall(_) | OsError::Processes => HostedError::Call(text),
            error if error.is_outcome() => HostedError::Memory(text),
            _ => HostedError::Failed(text),
        }
    }
}

impl From<Stop> for HostedError {
    fn from(stop: Stop) -> HostedError {
        match stop {
            Stop::Outcome(text) => HostedError::Memory(text),
            Stop::Failed(text) => HostedError::Failed(text),
        }
    }
}

/// What answered a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// An L1 TLB.
    L1Tlb,
    /// The L2 TLB.
    L2Tlb,
    /// The lookaside, or the queue of prefetched translations.
    Lookaside,
    /// A page walk.
    Walk,
    /// The kernel itself: the machine has a perfect TLB.
    Perfect,
}

/// A translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedTranslation {
    /// The physical address.
    pub at: PhysAddr,
    /// Bytes of the page.
    pub page_bytes: u64,
    /// What answered.
    pub answered: Answered,
    /// The walk to complete; 0 if nothing is to be waited for but `latency` cycles.
    pub walk: u64,
    /// Groups of steps that the translation waits for, one after the other.
    pub groups: u32,
    /// Fixed cycles after the last group, or after the begin if there is none.
    pub latency: u64,
    /// Page faults served.
    pub faults: u32,
    /// Cycles of the operating system, which are in its steps.
    pub os_cycles: u64,
}

/// A program that does nothing by itself.
struct NoProgram;

impl RecordSource for NoProgram {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: "host".into(), detail: String::new(), footprint: 0, digest: 0 }
    }

    fn fill(&mut self, _batch: &mut Batch) -> Result<bool, SourceError> {
        Ok(false)
    }
}

/// A machine inside another simulator.
pub struct HostedMachine {
    machine: Machine,
    clocks: Vec<Clock>,
    /// The kernel's number of each process of the simulator.
    processes: Vec<ProcessId>,
    steps: Vec<HostedStep>,
    options: HostedOptions,
    next_walk: u64,
    walkers: u32,
    l1_latency: u64,
    /// Of a hit in the L2 TLB.
    l2_latency: u64,
    bus_permille: u64,
    /// Of each core's own clock: up to when its share of the buses is known, and for how long they were busy.
    bus: Vec<(Cycle, u64)>,
    /// The counters so far.
    pub counters: HostedCounters,
}

impl HostedMachine {
    /// A machine of `spec`. Its caches, DRAM and cores are not used.
    ///
    /// # Errors
    /// An invalid spec, or one that needs the machine's own caches.
    pub fn new(spec: &Spec, options: HostedOptions) -> Result<HostedMachine, SimError> {
        let bad = |why: &str| Err(SimError::Spec(vec![why.to_owned()]));
        if options.cores == 0 || options.cores > 256 {
            return bad("a machine inside another simulator has 1 to 256 cores");
        }
        if !options.auto_map.is_multiple_of(ambulator_base::FRAME_BYTES) || options.auto_map > 1 << 40 {
            return bad("what an access outside all areas maps must be a multiple of 4096 bytes, up to 2^40");
        }
        let mut spec = spec.clone();
        spec.run.mode = RunMode::Timing;
        spec.run.oracle = true;
        spec.run.spread_threads = false;
        if options.host_tlbs {
            let none = TlbSpec::new(0, 0);
            let mmu = &mut spec.mmu;
            for tlb in [&mut mmu.l1d_4k, &mut mmu.l1d_2m, &mut mmu.l1d_1g, &mut mmu.l1i_4k, &mut mmu.l1i_2m] {
                *tlb = none.clone();
            }
            (mmu.l2_tlb.entries, mmu.l2_tlb.entries_2m, mmu.l2_tlb.entries_1g) = (0, 0, 0);
            (mmu.l1_latency, mmu.l2_tlb.latency) = (0, 0);
        }
        let programs = (0..options.cores).map(|_| (SharedStream::new(Box::new(NoProgram), 1), 0)).collect();
        let mut machine = Machine::new(&spec, programs)?;
        if machine.hw.path() == TranslationPath::Intermediate {
            return bad(
                "this design translates after the caches, which must be indexed by its intermediate addresses: it cannot \
                 run inside another simulator",
            );
        }
        machine.hw.hosted = Some(Box::new(Recording { assumed: options.assumed, ..Recording::default() }));
        machine.os.end_set_up();
        Ok(HostedMachine {
            processes: machine.hw.cores.iter().map(|core| core.process).collect(),
            clocks: (0..options.cores).map(|_| Clock::default()).collect(),
            machine,
            steps: Vec::new(),
            next_walk: 1,
            walkers: spec.mmu.walkers,
            l1_latency: spec.mmu.l1_latency.saturating_sub(1),
            l2_latency: spec.mmu.l1_latency + spec.mmu.l2_tlb.latency,
            bus_permille: 0,
            bus: vec![(Cycle(0), 0); options.cores],
            counters: HostedCounters::default(),
            options,
        })
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.clocks.len()
    }

    /// Concurrent walks of a core, as the spec has them: the simulator around the machine enforces it.
    pub fn walkers(&self) -> u32 {
        self.walkers
    }

    /// Walks of a core that are given out and not complete.
    pub fn in_flight(&self, core: usize) -> usize {
        self.clocks.get(core).map_or(0, Clock::incomplete)
    }

    /// The steps of the latest translation.
    pub fn steps(&self) -> &[HostedStep] {
        &self.steps
    }

    fn check_core(&self, core: usize) -> Result<(), HostedError> {
        if core < self.clocks.len() {
            return Ok(());
        }
        Err(HostedError::Call(format!("there is no core {core}: the machine has cores 0 to {}", self.clocks.len() - 1)))
    }

    fn check_process(&self, process: usize) -> Result<ProcessId, HostedError> {
        let kernel = self.machine.os.kernel();
        match self.processes.get(process) {
            Some(&number) if kernel.is_alive(number) => Ok(number),
            Some(_) => Err(HostedError::Call(format!("process {process} has exited"))),
            None => Err(HostedError::Call(format!(
                "there is no process {process}: there have been processes 0 to {}",
                self.processes.len() - 1
            ))),
        }
    }

    /// Which share of main memory's bandwidth is in use, in thousandths: for designs that speculate less then.
    pub fn set_bus_load(&mut self, permille: u64) {
        self.bus_permille = permille.min(1000);
    }

    /// Translates an access of a core at `now`, on the bytes as they are, and serves its faults. The steps
    /// are in [`HostedMachine::steps`] afterwards.
    ///
    /// # Errors
    /// See [`HostedError`].
    pub fn translate(
        &mut self,
        core: usize,
        va: VirtAddr,
        access: AccessKind,
        now: u64,
    ) -> Result<HostedTranslation, HostedError> {
        self.check_core(core)?;
        self.steps.clear();
        if !self.clocks[core].has_room() {
            return Err(HostedError::Call(format!(
                "core {core} has {MOST_IN_FLIGHT} walks in flight: complete them before others begin"
            )));
        }
        self.machine.os.require_alive(self.machine.hw.cores[core].process).map_err(|_| {
            HostedError::Call(format!("the process of core {core} has exited: switch to another one first"))
        })?;
        self.counters.translations += 1;
        let began = self.clocks[core].advance(now);
        let horizon = self.clocks[core].horizon(began);
        let (since, busy) = &mut self.bus[core];
        *busy += began.since(*since) / 1000 * self.bus_permille;
        *since = began.max(*since);
        if let Some(recording) = &mut self.machine.hw.hosted {
            recording.bus_busy = *busy;
            recording.begin(began, horizon);
        }
        let before = tallies(&self.machine.hw.cores[core]);
        let (at, known, faults, os_cycles) = self.locate(core, va, access, began)?;
        let after = tallies(&self.machine.hw.cores[core]);
        let answered = match () {
            () if self.machine.hw.path() == TranslationPath::Perfect => Answered::Perfect,
            () if after.walks > before.walks => Answered::Walk,
            () if after.lookaside > before.lookaside => Answered::Lookaside,
            () if after.l2 > before.l2 => Answered::L2Tlb,
            () => Answered::L1Tlb,
        };
        let process = self.machine.hw.cores[core].process;
        let page_bytes = self.machine.os.page_size(process, va).bytes();
        let (groups, mut latency) = self.make_steps(core, began, known);
        if groups == 0 {
            latency = latency.max(match answered {
                Answered::L1Tlb => self.l1_latency,
                Answered::L2Tlb => self.l2_latency,
                _ => 0,
            });
            // A walk that the answer comes from may be complete at a cycle yet to come.
            let owner = self.clocks[core].owner(known).and_then(|walk| walk.completed);
            latency = latency.max(owner.map_or(0, |at| at.saturating_sub(now)));
        }
        let end = self.recorded_end().max(known);
        let walk = if groups > 0 || end > horizon { self.begin_walk(core, horizon, end, now) } else { 0 };
        if self.options.host_tlbs {
            self.machine.hw.cores[core].mmu.empty_first_level();
        }
        self.migrate(core)?;
        Ok(HostedTranslation { at, page_bytes, answered, walk, groups, latency, faults, os_cycles })
    }

    fn begin_walk(&mut self, core: usize, begin: Cycle, end: Cycle, now: u64) -> u64 {
        let walk = self.next_walk;
        self.next_walk += 1;
        self.counters.walks_begun += 1;
        self.clocks[core].add(walk, begin, end.max(begin), now);
        walk
    }

    /// When all that a later access could wait for has ended.
    fn recorded_end(&self) -> Cycle {
        let accesses = self.machine.hw.hosted.iter().flat_map(|recording| &recording.accesses);
        accesses.map(|access| access.ready).max().unwrap_or_default()
    }

    fn make_steps(&mut self, core: usize, began: Cycle, known: Cycle) -> (u32, u64) {
        let Some(recording) = &self.machine.hw.hosted else { return (0, 0) };
        let (groups, latency) = steps::steps(recording, &self.clocks[core], began, known, &mut self.steps);
        self.counters.steps += self.steps.len() as u64;
        self.counters.joins += u64::from(self.steps.iter().any(|step| step.kind == StepKind::Join));
        (groups, latency)
    }

    /// The physical address of an access, when it is known on the core's own clock, faults, and cycles of the
    /// operating system.
    fn locate(
        &mut self,
        core: usize,
        va: VirtAddr,
        access: AccessKind,
        began: Cycle,
    ) -> Result<(PhysAddr, Cycle, u32, u64), HostedError> {
        let mut now = began;
        let (mut faults, mut os_cycles) = (0, 0);
        loop {
            let Machine { hw, os, checker, .. } = &mut self.machine;
            let result = match hw.path() {
                TranslationPath::Perfect => perfect(os, hw.cores[core].process, va, access, now),
                _ => hw.with_port(core, os.memories_mut(), |mmu, port| mmu.translate(va, access, now, port)),
            };
            let cause = match result {
                Translated::Physical { at, ready } => {
                    self.counters.checked += 1;
                    if !checker.accepts(os, hw.cores[core].process, va, at, access) {
                        return Err(oracle::mismatch(hw, os, core, va, Some(at), access).into());
                    }
                    return Ok((at, ready, faults, os_cycles));
                }
                Translated::Fault { cause, at } => {
                    now = at;
                    cause
                }
            };
            faults += 1;
            if faults > MOST_FAULTS {
                return Err(HostedError::Failed(format!(
                    "{access:?} of {va} faulted {MOST_FAULTS} times in a row ({cause:?}): the operating system never \
                     mapped its page"
                )));
            }
            let cycles = self.serve(core, va, access, cause)?;
            os_cycles += cycles;
            if let Some(recording) = &mut self.machine.hw.hosted {
                now = recording.access(RecordedKind::Kernel(cycles), PhysAddr(0), now);
            }
        }
    }

    /// Serves a fault; returns the cycles of the operating system.
    fn serve(&mut self, core: usize, va: VirtAddr, access: AccessKind, cause: FaultCause) -> Result<u64, HostedError> {
        let Machine { hw, os, .. } = &mut self.machine;
        let before = hw.cores[core].counters.os_cycles;
        let process = hw.cores[core].process;
        if let FaultCause::Hypervisor(guest) = cause
            && os.is_nested()
        {
            os.hypervisor_fault(hw, Phase::Measure, core, guest)?;
        } else {
            let state = os.kernel().page_state(process, va);
            let at = state.frame().start().offset(va.0 & 0xfff);
            if oracle::agrees(state, va, at, access) {
                return Err(oracle::mismatch(hw, os, core, va, None, access).into());
            }
            if self.options.auto_map > 0 && os.kernel().vmas(process).find(va).is_none() {
                self.map_around(core, va)?;
            }
            let Machine { hw, os, .. } = &mut self.machine;
            hw.cores[core].counters.page_faults += 1;
            os.call(hw, core, |kernel| kernel.fault(process, va, access))?;
        }
        Ok(self.machine.hw.cores[core].counters.os_cycles - before)
    }

    /// Maps the aligned bytes around an address that lie outside all areas, rights to everything.
    fn map_around(&mut self, core: usize, va: VirtAddr) -> Result<(), HostedError> {
        let Machine { hw, os, .. } = &mut self.machine;
        let process = hw.cores[core].process;
        let bytes = self.options.auto_map;
        let start = va.0 / bytes * bytes;
        // What borders on other areas is cut off there.
        let areas = os.kernel().vmas(process).as_slice();
        let after = areas.partition_point(|area| area.end <= va);
        let from = areas[..after].last().map_or(start, |area| area.end.0.max(start));
        let end = start.saturating_add(bytes);
        let to = areas.get(after).map_or(end, |area| area.start.0.min(end));
        let map = VmEvent::Map {
            start: VirtAddr(from),
            len: to - from,
            protection: Protection { read: true, write: true, execute: true },
            kind: MapKind::Anonymous,
        };
        os.call(hw, core, |kernel| kernel.event(process, &map)).map_err(HostedError::from)
    }

    /// Migrates the page that the hardware suggests, in the background.
    fn migrate(&mut self, core: usize) -> Result<(), HostedError> {
        let Machine { hw, os, .. } = &mut self.machine;
        if let Some(va) = hw.cores[core].mmu.take_migration_hint() {
            os.migrate(hw, Phase::Measure, core, va)?;
        }
        self.bound_effects();
        Ok(())
    }

    /// A walk has ended at `at`: what it has filled is usable from then on.
    ///
    /// # Errors
    /// A walk that the core has not in flight.
    pub fn complete(&mut self, core: usize, walk: u64, at: u64) -> Result<(), HostedError> {
        self.check_core(core)?;
        let none = if walk == 0 || walk >= self.next_walk {
            format!("core {core} has no walk {walk}: no such walk was given out")
        } else {
            format!("walk {walk} of core {core} is already complete, or is one of another core")
        };
        let Some(found) = self.clocks[core].walk(walk).filter(|walk| walk.completed.is_none()) else {
            return Err(HostedError::Call(none));
        };
        if at < found.began {
            let began = found.began;
            return Err(HostedError::Call(format!("walk {walk} began at cycle {began} and cannot end at cycle {at}")));
        }
        found.completed = Some(at);
        self.counters.walks_completed += 1;
        self.counters.walk_cycles += at - found.began;
        Ok(())
    }

    /// Creates a process without mappings; returns its number.
    ///
    /// # Errors
    /// No memory, or too many processes.
    pub fn spawn(&mut self) -> Result<usize, HostedError> {
        let Machine { hw, os, .. } = &mut self.machine;
        let process = os.call(hw, 0, |kernel| kernel.spawn())?;
        self.processes.push(process);
        Ok(self.processes.len() - 1)
    }

    /// A core's process forks; returns the child's number and the cycles of the operating system.
    ///
    /// # Errors
    /// A bad core, or no memory.
    pub fn fork(&mut self, core: usize) -> Result<(usize, u64), HostedError> {
        self.check_core(core)?;
        let parent = self.machine.hw.cores[core].process;
        let (child, cycles) = self.charged(core, |kernel| kernel.fork(parent))?;
        self.processes.push(child);
        Ok((self.processes.len() - 1, cycles))
    }

    /// A process exits. Cores that run it must switch to another one before their next access.
    ///
    /// # Errors
    /// A process that does not exist.
    pub fn exit(&mut self, core: usize, process: usize) -> Result<u64, HostedError> {
        self.check_core(core)?;
        let number = self.check_process(process)?;
        let exit = VmEvent::Exit { process: number };
        self.charged(core, |kernel| kernel.event(number, &exit)).map(|((), cycles)| cycles)
    }

    /// A core runs another process from now on; returns the cycles of the operating system.
    ///
    /// # Errors
    /// A bad core or process.
    pub fn switch(&mut self, core: usize, process: usize) -> Result<u64, HostedError> {
        self.check_core(core)?;
        let to = self.check_process(process)?;
        let from = self.machine.hw.cores[core].process;
        if from == to {
            return Ok(0);
        }
        let (lost, cycles) = self.charged(core, |kernel| Ok(kernel.context_switch(core, from, to)))?;
        let Machine { hw, os, .. } = &mut self.machine;
        let running = &mut hw.cores[core];
        if let Some(lost) = lost {
            running.mmu.recycle(lost);
        }
        running.process = to;
        running.counters.context_switches += 1;
        running.generation = u64::MAX;
        os.load_registers(running);
        Ok(cycles)
    }

    /// A system call of a core's process, or touches of a range; returns the cycles of the operating system.
    ///
    /// # Errors
    /// A bad core, or what the kernel rejects.
    pub fn event(&mut self, core: usize, event: &VmEvent) -> Result<u64, HostedError> {
        self.check_core(core)?;
        let process = self.machine.hw.cores[core].process;
        self.charged(core, |kernel| kernel.event(process, event)).map(|((), cycles)| cycles)
    }

    /// The kernel's daemons work up to cycle `now`; returns the cycles of the operating system.
    ///
    /// # Errors
    /// A bad core, or memory that ran out.
    pub fn tick(&mut self, core: usize, now: u64) -> Result<u64, HostedError> {
        self.check_core(core)?;
        let process = self.machine.hw.cores[core].process;
        self.charged(core, |kernel| kernel.tick(process, Cycle(now))).map(|((), cycles)| cycles)
    }

    fn charged<T>(
        &mut self,
        core: usize,
        act: impl FnOnce(&mut ambulator_os::Kernel) -> Result<T, OsError>,
    ) -> Result<(T, u64), HostedError> {
        let Machine { hw, os, .. } = &mut self.machine;
        let before = hw.cores[core].counters.os_cycles;
        let done = os.call(hw, core, act)?;
        let cycles = hw.cores[core].counters.os_cycles - before;
        self.bound_effects();
        Ok((done, cycles))
    }

    fn bound_effects(&mut self) {
        let effects = &mut self.machine.hw.effects;
        let keep = if self.options.effects { MOST_EFFECTS } else { 0 };
        if effects.len() > keep {
            let dropped = effects.len() - keep;
            effects.drain(..dropped);
            self.counters.effects_dropped += if self.options.effects { dropped as u64 } else { 0 };
        }
    }

    /// Takes all effects since the last call, oldest first.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.machine.hw.effects)
    }

    /// The simulator's number of a process of the kernel.
    pub fn process_number(&self, process: ProcessId) -> Option<usize> {
        self.processes.iter().position(|&known| known == process)
    }

    /// The physical address of a byte according to the kernel, if its page is present: the truth, without
    /// hardware.
    ///
    /// # Errors
    /// A process that does not exist.
    pub fn lookup(&self, process: usize, va: VirtAddr) -> Result<Option<PhysAddr>, HostedError> {
        let number = self.check_process(process)?;
        let os = &self.machine.os;
        let state = os.kernel().page_state(number, va);
        let at = state.frame().start().offset(va.0 & 0xfff);
        Ok(if state.present() { os.host_physical(at, AccessKind::Load) } else { None })
    }

    /// Every counter that means something without caches and cores of the machine's own, summed over cores.
    pub fn gather(&self) -> Gathered {
        let mut all = Gathered::without_time();
        let Machine { hw, os, .. } = &self.machine;
        self.counters.report("hosted", &mut all);
        for core in &hw.cores {
            core.mmu.report("mmu", &mut all);
        }
        os.report(&mut all);
        all.drop_timed_cycles();
        all
    }

    /// Sets every counter to zero; tables, TLBs and walk caches keep their contents.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.machine.os.reset_counters();
        for core in &mut self.machine.hw.cores {
            core.mmu.reset_counters();
            core.traffic.reset();
            core.counters.reset();
        }
    }

    /// Checks that the kernel's books balance.
    ///
    /// # Errors
    /// A sentence that says what does not.
    pub fn check(&self) -> Result<(), HostedError> {
        self.machine.os.check().map_err(HostedError::Failed)
    }
}

/// Counters that say what answered a translation.
struct Tallies {
    walks: u64,
    lookaside: u64,
    l2: u64,
}

fn tallies(core: &Core) -> Tallies {
    let counters = &core.mmu.counters;
    Tallies {
        walks: counters.walks + counters.dirty_assists,
        lookaside: counters.lookaside_hits + counters.prefetch_hits,
        l2: counters.l2_tlb_hits,
    }
}

/// The kernel's own translation, or the fault that an access takes.
fn perfect(
    os: &crate::os_events::OperatingSystem,
    process: ProcessId,
    va: VirtAddr,
    access: AccessKind,
    now: Cycle,
) -> Translated {
    let state = os.kernel().page_state(process, va);
    let at = state.frame().start().offset(va.0 & 0xfff);
    if !oracle::agrees(state, va, at, access) {
        let cause = if state.present() { FaultCause::Protection } else { FaultCause::NotMapped };
        return Translated::Fault { cause, at: now };
    }
    match os.host_physical(at, access) {
        Some(at) => Translated::Physical { at, ready: now },
        None => Translated::Fault { cause: FaultCause::Hypervisor(at), at: now },
    }
}
