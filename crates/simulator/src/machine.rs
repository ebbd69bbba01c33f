//! A machine: cores, caches, DRAM and a kernel, assembled from a spec, and the loop that runs programs on it.

use crate::core::{Core, CorePhase, CoreRunCounters, FRONT_END_LINES};
use crate::error::{SimError, Stop};
use crate::look_ahead::LookAhead;
use crate::oracle;
use crate::spec::{HostPageSize, RunMode, Spec, VirtualizationMode};
use crate::stream::SharedStream;
use ambulator_base::{
    AccessKind, Batch, Counters, Cycle, PhysAddr, ProcessId, Random, Record, RecordKind, VirtAddr, VmEvent,
};
use ambulator_designs::{DesignParts, DesignSpec};
use ambulator_hardware::{CoreWindow, EntryLevel, Hierarchy, Served};
use ambulator_memory::{BuddyAllocator, FragmentReport, PhysicalMemory, PressureReport};
use ambulator_mmu::{
    CorePort, FaultCause, HostStage, Invalidation, Mmu, Sockets, TableRegisters, Translated, WalkEntry, WalkTraffic,
};
use ambulator_os::{Kernel, KernelSpec, OsError, PageSizePolicy, Shootdown, Truth};
use std::sync::Arc;

/// Instructions of an epoch, at whose end occupancies are sampled (Utopia Fig. 3: epochs of a million).
const EPOCH_INSTRUCTIONS: u64 = 1_000_000;
/// Records between two looks at the kernel's daemons, the end of an epoch and the end of warm-up.
const CHECK_RECORDS: u32 = 4096;
/// A fault that comes back this often for one access is a kernel or walker that does not keep its word.
const MAX_FAULTS_FOR_ONE_ACCESS: u32 = 64;

/// Where the machine as a whole is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Programs set up: first touches, no time.
    Setup,
    /// The region of interest runs, but does not count yet.
    Warmup,
    /// What runs counts.
    Measure,
    /// All cores have finished.
    Done,
}

/// A machine with its programs.
pub struct Machine {
    pub(crate) hierarchy: Hierarchy,
    pub(crate) kernel: Kernel,
    /// The hypervisor, when nested paging is on.
    pub(crate) host: Option<Hypervisor>,
    pub(crate) cores: Vec<Core>,
    pub(crate) phase: Phase,
    pub(crate) timing: bool,
    oracle: bool,
    perfect: bool,
    entry: EntryLevel,
    instructions: u64,
    warmup: u64,
    pub(crate) checked: u64,
    pub(crate) epochs: Epochs,
    pub(crate) setup_faults: u64,
    pub(crate) fragmentation: Option<FragmentReport>,
    pub(crate) pressure: Option<PressureReport>,
    shootdowns: Vec<Shootdown>,
    /// Records until daemons and epochs are looked at again.
    until_check: u32,
}

/// The hypervisor's side of nested paging: a kernel whose one process is the virtual machine.
pub(crate) struct Hypervisor {
    pub kernel: Kernel,
    pub machine: ProcessId,
}

/// A translation that holds: where the data is, when that is known, and when the access issued for good (after any
/// faults).
#[derive(Clone, Copy)]
struct Located {
    at: PhysAddr,
    ready: Cycle,
    issued: Cycle,
}

/// Occupancies sampled at the ends of epochs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    next: u64,
    pub samples: u64,
    pub l2: f64,
    pub llc: f64,
}

fn stop_of(error: &OsError) -> Stop {
    if error.is_outcome() { Stop::Outcome(error.to_string()) } else { Stop::Failed(error.to_string()) }
}

impl Machine {
    /// A machine of `spec`, core `i` reading `programs[i]` (a stream and the machine's reader number there).
    ///
    /// # Errors
    /// What is wrong with the spec, or a host that cannot give the memory.
    pub fn new(spec: &Spec, programs: Vec<(Arc<SharedStream>, usize)>) -> Result<Machine, SimError> {
        let bad = |message: String| SimError::Spec(vec![message]);
        let seed = spec.run.seed;
        let physical_bytes = spec.memory.bytes;
        let nested = spec.virtualization.mode == VirtualizationMode::Nested;
        let timing = spec.run.mode == RunMode::Timing;
        let (frames, fragmentation, pressure) = prepare_frames(spec, physical_bytes, seed);

        let parts = ambulator_designs::build(&spec.design);
        let (kernel_frames, guest_bytes) = if nested {
            let bytes = guest_bytes(physical_bytes);
            (BuddyAllocator::new(&spec.memory.buddy, bytes / ambulator_base::FRAME_BYTES), bytes)
        } else {
            (frames.clone(), physical_bytes)
        };
        let memory = PhysicalMemory::new(guest_bytes).map_err(|e| bad(format!("`memory.bytes`: {e}")))?;
        let DesignParts { tables, placement, mut new_walker, mut new_lookaside, mut new_speculator } = parts;
        let mut kernel = Kernel::new(&spec.kernel, spec.costs.clone(), memory, kernel_frames, tables, placement);
        kernel.cores = programs.len() as u32;

        let mut host = None;
        let mut new_host_walker = None;
        if nested {
            let host_parts = ambulator_designs::build(&DesignSpec {
                page_table: spec.virtualization.host_table.clone(),
                ..DesignSpec::default()
            });
            let host_kernel_spec = KernelSpec {
                page_size_policy: match spec.virtualization.host_page {
                    HostPageSize::Base => PageSizePolicy::Never,
                    HostPageSize::Huge => PageSizePolicy::Always,
                },
                ..KernelSpec::default()
            };
            let memory = PhysicalMemory::new(physical_bytes).map_err(|e| bad(format!("`memory.bytes`: {e}")))?;
            let mut host_kernel = Kernel::new(
                &host_kernel_spec,
                spec.costs.clone(),
                memory,
                frames,
                host_parts.tables,
                host_parts.placement,
            );
            host_kernel.cores = programs.len() as u32;
            let machine = host_kernel.spawn().map_err(|e| bad(e.to_string()))?;
            let map = VmEvent::Map {
                start: VirtAddr(0),
                len: guest_bytes,
                protection: ambulator_base::Protection::READ_WRITE,
                kind: ambulator_base::MapKind::Anonymous,
            };
            host_kernel.event(machine, &map).map_err(|e| bad(e.to_string()))?;
            host = Some(Hypervisor { kernel: host_kernel, machine });
            new_host_walker = Some(host_parts.new_walker);
        }

        let core_count = programs.len();
        let mut cores = Vec::with_capacity(core_count);
        for (number, (stream, reader)) in programs.into_iter().enumerate() {
            let process = kernel.spawn().map_err(|e| bad(e.to_string()))?;
            let sockets = Sockets {
                walker: new_walker(number),
                host: new_host_walker
                    .as_mut()
                    .map(|new_walker| HostStage::new(&spec.virtualization.nested, new_walker(number))),
                lookaside: new_lookaside(number),
                speculator: new_speculator(number),
            };
            cores.push(Core {
                window: CoreWindow::new(&spec.core),
                mmu: Mmu::new(&spec.mmu, sockets, timing),
                traffic: WalkTraffic::default(),
                process,
                processes: vec![(ProcessId(0), process)],
                generation: u64::MAX,
                host_generation: u64::MAX,
                stream,
                reader,
                batch: Arc::new(Batch::default()),
                at: 0,
                event_at: 0,
                phase: CorePhase::Setup,
                front_end: [u64::MAX; FRONT_END_LINES],
                look_ahead: LookAhead::new(core_count),
                counters: CoreRunCounters::default(),
                executed: 0,
                budget_end: u64::MAX,
                measured_from: 0,
                finished_at: 0,
            });
        }
        let mut machine = Machine {
            hierarchy: Hierarchy::new(&spec.hierarchy(), cores.len(), spec.machine.clock_mhz, physical_bytes, timing),
            kernel,
            host,
            cores,
            phase: Phase::Setup,
            timing,
            oracle: spec.run.oracle,
            perfect: spec.mmu.perfect,
            entry: match spec.mmu.walk_entry {
                WalkEntry::L1 => EntryLevel::L1,
                WalkEntry::L2 => EntryLevel::L2,
                WalkEntry::Llc => EntryLevel::Llc,
            },
            instructions: spec.run.instructions,
            warmup: spec.run.warmup,
            checked: 0,
            epochs: Epochs::default(),
            setup_faults: 0,
            fragmentation,
            pressure,
            shootdowns: Vec::new(),
            until_check: CHECK_RECORDS,
        };
        for core in 0..machine.cores.len() {
            machine.sync_registers(core);
        }
        Ok(machine)
    }

    /// The phase that the machine is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Instructions executed in the current phase, over all cores, and how many it has, where that is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        let done = self.cores.iter().map(|core| core.counters.instructions).sum();
        let each = match self.phase {
            Phase::Setup => None,
            Phase::Warmup => Some(self.warmup),
            Phase::Measure | Phase::Done => Some(self.instructions),
        };
        (done, each.map(|each| each * self.cores.len() as u64))
    }

    /// Runs about `records` records further. `Ok(true)` while there is more to do.
    ///
    /// # Errors
    /// An outcome of the machine, or a mistake. The counters stay those of the part that ran.
    pub fn advance(&mut self, records: usize) -> Result<bool, Stop> {
        let mut left = records;
        while left > 0 {
            self.change_phase();
            let Some((core, until)) = self.next_core() else {
                self.phase = Phase::Done;
                return Ok(false);
            };
            let ran = self.run_core(core, until, left)?;
            left = left.saturating_sub(ran.max(1));
        }
        self.change_phase();
        Ok(self.phase != Phase::Done)
    }

    /// The core that is furthest behind in time, and the time at which another takes its turn.
    fn next_core(&self) -> Option<(usize, u64)> {
        let waits = |core: &Core| {
            core.phase == CorePhase::Finished || (self.phase == Phase::Setup && core.phase != CorePhase::Setup)
        };
        let local = |core: &Core| if self.timing { core.window.now().0 } else { core.executed };
        let mut best: Option<(usize, u64)> = None;
        let mut second = u64::MAX;
        for (number, core) in self.cores.iter().enumerate().filter(|(_, core)| !waits(core)) {
            let now = local(core);
            match best {
                Some((_, first)) if now >= first => second = second.min(now),
                _ => {
                    if let Some((_, first)) = best {
                        second = second.min(first);
                    }
                    best = Some((number, now));
                }
            }
        }
        best.map(|(number, _)| (number, second))
    }

    /// Moves the machine on when all its cores have come far enough.
    fn change_phase(&mut self) {
        if self.phase == Phase::Setup && self.cores.iter().all(|core| core.phase != CorePhase::Setup) {
            self.setup_faults += self.cores.iter().map(|core| core.counters.page_faults).sum::<u64>();
            self.setup_faults += self.kernel.faults_served();
            self.phase = Phase::Warmup;
            self.start_counting();
        }
        if self.phase == Phase::Warmup
            && self
                .cores
                .iter()
                .all(|core| core.phase == CorePhase::Finished || core.counters.instructions >= self.warmup)
        {
            self.phase = Phase::Measure;
            if self.warmup > 0 {
                self.setup_faults += self.kernel.faults_served();
                self.start_counting();
            }
            for core in &mut self.cores {
                core.budget_end = core.executed.saturating_add(self.instructions);
            }
        }
    }

    /// Sets every counter to zero; caches, TLBs and tables keep what they hold.
    fn start_counting(&mut self) {
        self.hierarchy.reset_counters();
        self.kernel.reset_counters();
        if let Some(host) = &mut self.host {
            host.kernel.reset_counters();
        }
        for core in &mut self.cores {
            core.mmu.reset_counters();
            core.window.reset_counters();
            core.traffic.reset();
            core.counters.reset();
            core.measured_from = core.window.retired_cycle().0;
        }
        self.epochs = Epochs { next: EPOCH_INSTRUCTIONS, ..Epochs::default() };
    }

    /// Runs one core until its local time passes `until`, its batch ends, or `limit` records are done.
    fn run_core(&mut self, number: usize, until: u64, limit: usize) -> Result<usize, Stop> {
        if self.cores[number].at >= self.cores[number].batch.records.len()
            && self.cores[number].event_at >= self.cores[number].batch.events.len()
            && !self.next_batch(number)?
        {
            return Ok(0);
        }
        let batch = Arc::clone(&self.cores[number].batch);
        let mut ran = 0;
        loop {
            let core = &mut self.cores[number];
            if let Some((at, event)) = batch.events.get(core.event_at)
                && *at as usize <= core.at
            {
                core.event_at += 1;
                self.event(number, event)?;
                // Phase, process and time may be others now: the caller decides anew which core goes on.
                return Ok(ran);
            }
            if self.cores[number].phase == CorePhase::Setup && self.cores[number].at < batch.records.len() {
                // A stream that has records before any region has no set-up: all of it counts.
                self.cores[number].phase = CorePhase::Region;
                return Ok(ran);
            }
            let core = &self.cores[number];
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
        let core = &mut self.cores[number];
        match core.stream.next(core.reader).map_err(|e| Stop::Failed(e.message))? {
            Some(batch) => {
                core.batch = batch;
                core.at = 0;
                core.event_at = 0;
                Ok(true)
            }
            None => {
                self.finish(number);
                Ok(false)
            }
        }
    }

    fn finish(&mut self, number: usize) {
        let core = &mut self.cores[number];
        core.phase = CorePhase::Finished;
        core.finished_at = core.window.retired_cycle().0;
        core.stream.leave(core.reader);
    }

    /// Runs records `from..to`; returns how many were done before the core's time passed `until` or its budget ended.
    fn run_records(
        &mut self,
        number: usize,
        records: &[Record],
        from: usize,
        to: usize,
        until: u64,
    ) -> Result<usize, Stop> {
        self.alive(number)?;
        let budget_end = self.cores[number].budget_end;
        for i in from..to {
            let core = &mut self.cores[number];
            core.look_ahead.ask(number, core.process, records, i, &self.kernel, &self.hierarchy);
            let executed = self.record(number, &records[i])?;
            let core = &mut self.cores[number];
            core.at = i + 1;
            core.executed += executed;
            core.counters.instructions += executed;
            if core.executed >= budget_end {
                self.finish(number);
                return Ok(i + 1 - from);
            }
            let local = if self.timing { self.cores[number].window.now().0 } else { self.cores[number].executed };
            if local > until {
                return Ok(i + 1 - from);
            }
            self.until_check -= 1;
            if self.until_check == 0 {
                self.until_check = CHECK_RECORDS;
                self.sample_epoch();
                self.run_daemons(number)?;
                if self.phase == Phase::Warmup && self.cores[number].counters.instructions >= self.warmup {
                    return Ok(i + 1 - from);
                }
            }
        }
        Ok(to - from)
    }

    /// Gives the kernel's background daemons their share of the time that has passed (in functional mode, an
    /// instruction stands for a cycle).
    fn run_daemons(&mut self, number: usize) -> Result<(), Stop> {
        let core = &self.cores[number];
        let now = if self.timing { core.window.now() } else { Cycle(core.executed) };
        self.kernel.tick(core.process, now).map_err(|e| stop_of(&e))?;
        self.settle(number);
        Ok(())
    }

    fn sample_epoch(&mut self) {
        let executed: u64 = self.cores.iter().map(|core| core.counters.instructions).sum();
        if executed >= self.epochs.next && self.phase == Phase::Measure {
            let (l2, llc) = self.hierarchy.translation_share();
            self.epochs.next = executed + EPOCH_INSTRUCTIONS;
            self.epochs.samples += 1;
            self.epochs.l2 += l2;
            self.epochs.llc += llc;
        }
    }

    /// Executes one record; returns the instructions that it stands for.
    #[inline(always)]
    fn record(&mut self, number: usize, record: &Record) -> Result<u64, Stop> {
        if record.kind == RecordKind::Fetch {
            self.fetch(number, record.va)?;
            self.cores[number].window.skip_record();
            return Ok(u64::from(record.gap));
        }
        let line = record.pc.0 >> 6;
        let held = &mut self.cores[number].front_end[line as usize % FRONT_END_LINES];
        if *held != line {
            *held = line;
            self.fetch(number, record.pc)?;
        }
        match record.kind {
            RecordKind::Load => self.data(number, record, AccessKind::Load)?,
            RecordKind::Store => self.data(number, record, AccessKind::Store)?,
            RecordKind::BranchNotTaken | RecordKind::BranchTaken => {
                let core = &mut self.cores[number];
                core.counters.branches += 1;
                if self.timing {
                    core.window.branch(record);
                } else {
                    core.window.count(record);
                }
            }
            RecordKind::Fetch => {}
        }
        Ok(record.instructions())
    }

    /// An instruction line comes into the front end.
    fn fetch(&mut self, number: usize, pc: VirtAddr) -> Result<(), Stop> {
        self.cores[number].counters.fetches += 1;
        let now = self.cores[number].window.now();
        let Located { at, ready, .. } = self.translate(number, pc, AccessKind::Fetch, now)?;
        let access = self.hierarchy.access(number, at, AccessKind::Fetch, pc, ready);
        if self.timing && (ready > now || access.served != Served::L1) {
            self.cores[number].window.stall_front(access.ready);
        }
        Ok(())
    }

    /// A load or a store.
    #[inline(always)]
    fn data(&mut self, number: usize, record: &Record, access: AccessKind) -> Result<(), Stop> {
        let core = &mut self.cores[number];
        match access {
            AccessKind::Store => core.counters.stores += 1,
            _ => core.counters.loads += 1,
        }
        let issued = if self.timing {
            core.window.dispatch(record)
        } else {
            core.window.count(record);
            Cycle(0)
        };
        let walks = core.mmu.counters.walks;
        let walk_dram = core.traffic.dram;
        let Located { at, ready: translated, issued } = self.translate(number, record.va, access, issued)?;
        let done = self.hierarchy.access(number, at, access, record.pc, translated);
        let core = &mut self.cores[number];
        let from_dram = done.served == Served::Dram;
        core.counters.data_from_dram += u64::from(from_dram);
        if core.mmu.counters.walks != walks {
            let counters = &mut core.counters;
            match (core.traffic.dram != walk_dram, from_dram) {
                (true, true) => counters.dram_translation_dram_data += 1,
                (true, false) => counters.dram_translation_cached_data += 1,
                (false, true) => counters.cached_translation_dram_data += 1,
                (false, false) => counters.cached_translation_cached_data += 1,
            }
        }
        let mut ready = done.ready;
        let last = record.va.offset(u64::from(record.size.max(1)) - 1);
        if (last.0 ^ record.va.0) >> 6 != 0 {
            ready = ready.max(self.second_half(number, record, access, last, at, issued)?);
        }
        if self.timing {
            self.cores[number].window.complete(record, issued, ready);
        }
        Ok(())
    }

    /// The second line of an access that crosses a line: translated anew where it crosses a page.
    #[cold]
    fn second_half(
        &mut self,
        number: usize,
        record: &Record,
        access: AccessKind,
        last: VirtAddr,
        first_at: PhysAddr,
        issued: Cycle,
    ) -> Result<Cycle, Stop> {
        let line = VirtAddr(last.0 & !63);
        self.cores[number].counters.split_lines += 1;
        let (at, ready) = if (last.0 ^ record.va.0) >> 12 != 0 {
            self.cores[number].counters.split_pages += 1;
            let second = self.translate(number, line, access, issued)?;
            (second.at, second.ready)
        } else {
            (PhysAddr((first_at.0 & !0xfff) | (line.0 & 0xfff)), issued)
        };
        Ok(self.hierarchy.access(number, at, access, record.pc, ready).ready)
    }

    /// Translates, serves faults until the page is there, and asks the oracle.
    #[inline(always)]
    fn translate(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Result<Located, Stop> {
        if self.perfect {
            return self.translate_perfectly(number, va, access, now);
        }
        // The way without a fault must not pass through a `Result` of several words: host stores of single words that are
        // loaded again as one wide word stall, and cost a tenth of all time here.
        let answer = self.ask_mmu(number, va, access, now);
        if let Translated::Physical { at, ready } = answer
            && (!self.oracle || self.is_true(number, va, at, access))
        {
            return Ok(Located { at, ready, issued: now });
        }
        self.translate_further(number, va, access, now, answer)
    }

    /// The MMU's answer.
    #[inline(always)]
    fn ask_mmu(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Translated {
        let core = &mut self.cores[number];
        let (memory, guest) = match &mut self.host {
            Some(host) => (&mut host.kernel.memory, Some(&mut self.kernel.memory)),
            None => (&mut self.kernel.memory, None),
        };
        let mut port = CorePort {
            hierarchy: &mut self.hierarchy,
            memory,
            guest,
            core: number,
            entry: self.entry,
            traffic: &mut core.traffic,
        };
        core.mmu.translate(va, access, now, &mut port)
    }

    /// What [`Machine::translate`] does when the first answer was a fault, or was wrong.
    #[cold]
    fn translate_further(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        first: Translated,
    ) -> Result<Located, Stop> {
        let mut now = now;
        let mut faults = 0;
        let mut answer = first;
        loop {
            match answer {
                Translated::Physical { at, ready } => {
                    if self.oracle && !self.is_true(number, va, at, access) {
                        let truth = self.kernel.truth(self.cores[number].process, va);
                        return Err(self.mismatch(number, va, Some(at), access, truth));
                    }
                    return Ok(Located { at, ready, issued: now });
                }
                Translated::Fault { cause, .. } => {
                    faults += 1;
                    now = self.fault(number, va, access, cause, faults)?;
                    answer = self.ask_mmu(number, va, access, now);
                }
            }
        }
    }

    /// The perfect TLB: the kernel's truth, at once.
    fn translate_perfectly(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let mut now = now;
        let mut faults = 0;
        loop {
            let process = self.cores[number].process;
            let truth = self.kernel.truth(process, va);
            let at = truth.frame().start().offset(va.0 & 0xfff);
            if oracle::agrees(truth, va, at, access) {
                self.checked += 1;
                match self.host_physical(at, access) {
                    Some(at) => return Ok(Located { at, ready: now, issued: now }),
                    None => {
                        faults += 1;
                        now = self.fault(number, va, access, FaultCause::Host(at), faults)?;
                        continue;
                    }
                }
            }
            faults += 1;
            let cause = if truth.present() { FaultCause::Protection } else { FaultCause::NotMapped };
            now = self.fault(number, va, access, cause, faults)?;
        }
    }

    /// Host-physical for guest-physical by the hypervisor's truth; the address itself without a hypervisor.
    fn host_physical(&self, at: PhysAddr, access: AccessKind) -> Option<PhysAddr> {
        match &self.host {
            None => Some(at),
            Some(host) => {
                let va = VirtAddr(at.0);
                let truth = host.kernel.truth(host.machine, va);
                let there = truth.present() && (access != AccessKind::Store || truth.writable());
                there.then(|| truth.frame().start().offset(at.0 & 0xfff))
            }
        }
    }

    /// The oracle: whether a translation is the kernel's.
    #[inline(always)]
    fn is_true(&mut self, number: usize, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
        self.checked += 1;
        let truth = self.kernel.truth(self.cores[number].process, va);
        if self.host.is_none() {
            return oracle::agrees(truth, va, at, access);
        }
        let guest = truth.frame().start().offset(va.0 & 0xfff);
        oracle::agrees(truth, va, guest, access) && self.host_physical(guest, access) == Some(at)
    }

    /// The report of a translation that is not the kernel's: the address, the truth, the steps of the walk.
    #[cold]
    fn mismatch(
        &mut self,
        number: usize,
        va: VirtAddr,
        at: Option<PhysAddr>,
        access: AccessKind,
        truth: Truth,
    ) -> Stop {
        let steps = if self.host.is_none() {
            let mut recorder = oracle::Recorder { memory: &self.kernel.memory, steps: Vec::new() };
            let walk = self.cores[number].mmu.walk_untimed(va, &mut recorder);
            oracle::tell_steps(&walk, &recorder.steps)
        } else {
            "    (steps of nested walks are not told)".into()
        };
        let hardware = match at {
            Some(at) => format!("hardware translated it to {at}"),
            None => "hardware found no page there".into(),
        };
        Stop::Failed(format!(
            "the oracle stopped the run: {access:?} of {va} by core {number} after {} instructions: {hardware}, but {}. A \
             walk now\n{steps}",
            self.cores[number].executed,
            oracle::describe(truth),
        ))
    }

    /// The operating system serves a fault; returns when the access may be tried again.
    #[cold]
    fn fault(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        cause: FaultCause,
        times: u32,
    ) -> Result<Cycle, Stop> {
        let process = self.cores[number].process;
        if let FaultCause::Host(guest) = cause
            && let Some(host) = &mut self.host
        {
            // The hypervisor maps for writing what the guest will come to write: guest memory is writable as a whole.
            host.kernel.fault(host.machine, VirtAddr(guest.0), AccessKind::Store).map_err(|e| stop_of(&e))?;
            let cycles = host.kernel.ledger.take();
            self.charge(number, cycles);
            self.deliver_host_shootdowns();
        } else {
            let truth = self.kernel.truth(process, va);
            let at = truth.frame().start().offset(va.0 & 0xfff);
            if oracle::agrees(truth, va, at, access) || times > MAX_FAULTS_FOR_ONE_ACCESS {
                return Err(self.mismatch(number, va, None, access, truth));
            }
            self.cores[number].counters.page_faults += 1;
            self.kernel.fault(process, va, access).map_err(|e| stop_of(&e))?;
            self.settle(number);
        }
        if times > MAX_FAULTS_FOR_ONE_ACCESS {
            return Err(Stop::Failed(format!(
                "{access:?} of {va} faulted {times} times in a row ({cause:?}): the operating system never gave it its page"
            )));
        }
        Ok(if self.timing { self.cores[number].window.now() } else { Cycle(0) })
    }

    /// After any action of the kernel for `number`: its cycles, its shootdowns, registers that it changed.
    fn settle(&mut self, number: usize) {
        let cycles = self.kernel.ledger.take();
        self.charge(number, cycles);
        self.kernel.take_shootdowns(&mut self.shootdowns);
        if !self.shootdowns.is_empty() {
            let shootdowns = std::mem::take(&mut self.shootdowns);
            for shootdown in &shootdowns {
                let what = invalidation(shootdown);
                for core in &mut self.cores {
                    core.mmu.invalidate(what);
                }
            }
            self.shootdowns = shootdowns;
            self.shootdowns.clear();
        }
        for core in 0..self.cores.len() {
            self.sync_registers(core);
        }
    }

    fn deliver_host_shootdowns(&mut self) {
        let Some(host) = &mut self.host else { return };
        host.kernel.take_shootdowns(&mut self.shootdowns);
        for shootdown in self.shootdowns.drain(..) {
            let what = invalidation(&shootdown);
            for core in &mut self.cores {
                core.mmu.invalidate_host(what);
            }
        }
        for core in 0..self.cores.len() {
            self.sync_registers(core);
        }
    }

    /// Operating-system work in the region of interest stops the core for that long; in set-up it has no time.
    fn charge(&mut self, number: usize, cycles: u64) {
        if self.phase == Phase::Setup || cycles == 0 {
            return;
        }
        let core = &mut self.cores[number];
        core.counters.os_cycles += cycles;
        if self.timing {
            core.window.serialize(cycles);
        }
    }

    /// Gives the core's MMU the registers of its process, if they are others than it has.
    fn sync_registers(&mut self, number: usize) {
        let core = &mut self.cores[number];
        let generation = self.kernel.registers_generation(core.process);
        // A process that has just exited has no table any more; the program switches to another before it goes on.
        if core.generation != generation && self.kernel.is_alive(core.process) {
            core.generation = generation;
            let registers = TableRegisters(self.kernel.registers(core.process));
            core.mmu.load_registers(self.kernel.asid(core.process), &registers);
        }
        if let Some(host) = &self.host {
            let generation = host.kernel.registers_generation(host.machine);
            if core.host_generation != generation {
                core.host_generation = generation;
                let registers = TableRegisters(host.kernel.registers(host.machine));
                core.mmu.load_host_registers(host.kernel.asid(host.machine), &registers);
            }
        }
    }

    /// A VM event of a core's program.
    fn event(&mut self, number: usize, event: &VmEvent) -> Result<(), Stop> {
        let unknown = |process: ProcessId| {
            Stop::Failed(format!("the program's stream names process {process}, which it has not forked before"))
        };
        match event {
            VmEvent::RegionBegin => {
                if self.cores[number].phase == CorePhase::Region && self.cores[number].executed > 0 {
                    // Records before the region were its warm-up: counting begins here.
                    self.phase = Phase::Setup;
                }
                self.cores[number].phase = CorePhase::Region;
            }
            VmEvent::RegionEnd => {
                if self.cores[number].phase == CorePhase::Region {
                    self.finish(number);
                }
            }
            VmEvent::Fork { child } => {
                self.alive(number)?;
                let parent = self.cores[number].process;
                let process = self.kernel.fork(parent).map_err(|e| stop_of(&e))?;
                self.cores[number].processes.push((*child, process));
                self.settle(number);
            }
            VmEvent::Exit { process } => {
                let in_kernel = self.cores[number].kernel_process(*process).ok_or_else(|| unknown(*process))?;
                self.kernel.event(in_kernel, &VmEvent::Exit { process: in_kernel }).map_err(|e| stop_of(&e))?;
                self.cores[number].processes.retain(|(stream, _)| stream != process);
                self.settle(number);
            }
            VmEvent::Switch { process, .. } => {
                let to = self.cores[number].kernel_process(*process).ok_or_else(|| unknown(*process))?;
                let from = self.cores[number].process;
                if from != to {
                    self.kernel.context_switch(from, to);
                    let core = &mut self.cores[number];
                    core.process = to;
                    core.counters.context_switches += 1;
                    core.generation = u64::MAX;
                    core.front_end = [u64::MAX; FRONT_END_LINES];
                    self.settle(number);
                }
            }
            other => {
                self.alive(number)?;
                let process = self.cores[number].process;
                self.kernel.event(process, other).map_err(|e| stop_of(&e))?;
                if self.host.is_some() {
                    self.back_guest(number, other)?;
                }
                self.settle(number);
            }
        }
        Ok(())
    }

    /// A program that goes on in a process that has exited is damaged.
    fn alive(&self, number: usize) -> Result<(), Stop> {
        let process = self.cores[number].process;
        if self.kernel.is_alive(process) {
            return Ok(());
        }
        Err(Stop::Failed(format!(
            "the program's stream goes on in process {process}, which has exited: it must switch to another process first"
        )))
    }

    /// A set-up touch in a guest also makes the hypervisor back the pages, in the same order.
    fn back_guest(&mut self, number: usize, event: &VmEvent) -> Result<(), Stop> {
        let (VmEvent::Touch { start, len, .. }, Some(host)) = (event, &mut self.host) else { return Ok(()) };
        let process = self.cores[number].process;
        let mut va = start.align_down(ambulator_base::PageSize::SIZE_4K);
        while va.0 < start.0 + len {
            let truth = self.kernel.truth(process, va);
            let guest = VirtAddr(truth.frame().start().0);
            if truth.present() && !host.kernel.truth(host.machine, guest).present() {
                host.kernel.fault(host.machine, guest, AccessKind::Store).map_err(|e| stop_of(&e))?;
            }
            va = va.offset(ambulator_base::FRAME_BYTES);
        }
        let cycles = host.kernel.ledger.take();
        self.charge(number, cycles);
        self.deliver_host_shootdowns();
        Ok(())
    }
}

/// Guest memory of a virtual machine on a host with that much: seven eighths, in whole 2 MiB. The rest is the
/// hypervisor's own, for its tables.
fn guest_bytes(physical: u64) -> u64 {
    (physical / 8 * 7) & !((2 << 20) - 1)
}

fn invalidation(shootdown: &Shootdown) -> Invalidation {
    if shootdown.global {
        return Invalidation::All;
    }
    match shootdown.page {
        Some(page) => Invalidation::Page { asid: shootdown.asid, page },
        None => Invalidation::Asid(shootdown.asid),
    }
}

/// The frame allocator in the state that the spec asks for: fragmented, and under pressure.
fn prepare_frames(
    spec: &Spec,
    bytes: u64,
    seed: u64,
) -> (BuddyAllocator, Option<FragmentReport>, Option<PressureReport>) {
    let mut frames = BuddyAllocator::new(&spec.memory.buddy, bytes / ambulator_base::FRAME_BYTES);
    let fragmentation = (spec.memory.fragmentation.fmfi > 0.0).then(|| {
        ambulator_memory::fragment(
            &mut frames,
            &spec.memory.fragmentation,
            &mut Random::for_purpose(seed, "fragmentation"),
        )
    });
    let pressure = (spec.memory.pressure.pressure > 0.0).then(|| {
        ambulator_memory::press(&mut frames, &spec.memory.pressure, &mut Random::for_purpose(seed, "pressure"))
    });
    (frames, fragmentation, pressure)
}
