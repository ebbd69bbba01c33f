//! A machine's operating system and MMUs inside another simulator, which has the cores, the caches and the
//! time.
//!
//! [`HostedMachine::translate`] translates on the bytes at once and returns what the translation needs in
//! time: its steps, in groups. The simulator around it times them, and says when they have ended
//! ([`HostedMachine::complete`]); only then is usable what the walk has filled. Every translation is checked
//! with the oracle, as in a run.

mod clock;
mod contract;
mod effects;
mod processes;
mod steps;
mod translate;

#[cfg(test)]
mod tests;

pub use clock::MOST_IN_FLIGHT;
pub use contract::{Answered, HostedError, HostedOptions, HostedTranslation};
pub use effects::Effect;
pub use steps::{HostedStep, StepKind};

use crate::error::SimError;
use crate::machine::Machine;
use crate::path::TranslationPath;
use crate::result::Gathered;
use crate::spec::{RunMode, Spec};
use crate::stream::SharedStream;
use ambulator_base::{
    AccessKind, Batch, Counters, Cycle, PhysAddr, ProcessId, ProgramIdentity, RecordSource, SourceError, VirtAddr,
};
use ambulator_mmu::{Recording, TlbSpec};
use clock::Clock;

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
