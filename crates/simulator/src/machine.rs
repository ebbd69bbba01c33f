//! A machine: cores, caches, DRAM and a kernel, and the loop that runs programs on it.

use crate::core::{Core, CorePhase, FRONT_END_LINES};
use crate::error::Stop;
use crate::locks::Locks;
use crate::path::TranslationPath;
use crate::thread_placement::ThreadPlacement;
use ambulator_base::{AccessKind, Counters, Cycle, PhysAddr, ProcessId, Record, RecordKind, VirtAddr};
use ambulator_hardware::{EntryLevel, Hierarchy, Served};
use ambulator_memory::{FragmentReport, PressureReport};
use ambulator_os::{Kernel, LedgerCause, Migration, OsError, Shootdown, TableLock};
use std::sync::Arc;

/// Instructions of an epoch, at whose end occupancies are sampled.
const EPOCH_INSTRUCTIONS: u64 = 1_000_000;
/// Records between two looks at the kernel's daemons, the end of an epoch and the end of warm-up.
pub(crate) const CHECK_RECORDS: u32 = 4096;

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
    pub(crate) hypervisor: Option<Hypervisor>,
    pub(crate) cores: Vec<Core>,
    /// Programs whose threads run on several cores; all programs are, or none is.
    pub(crate) placements: Vec<ThreadPlacement>,
    pub(crate) phase: Phase,
    pub(crate) timing: bool,
    /// Touches of set-up map pages.
    pub(crate) populate: bool,
    /// Programs ask for huge pages where they map 2 MiB and more.
    pub(crate) advise_huge: bool,
    pub(crate) oracle: bool,
    pub(crate) path: TranslationPath,
    pub(crate) entry: EntryLevel,
    pub(crate) instructions: u64,
    pub(crate) warmup: u64,
    pub(crate) checked: u64,
    pub(crate) epochs: Epochs,
    pub(crate) setup_faults: u64,
    /// Cycles that the operating system spent on page tables before counting began: their memory and their upkeep.
    pub(crate) setup_table_cycles: u64,
    /// All of the operating system's cycles before counting began.
    pub(crate) setup_os_cycles: u64,
    pub(crate) fragmentation: Option<FragmentReport>,
    pub(crate) pressure: Option<PressureReport>,
    pub(crate) shootdowns: Vec<Shootdown>,
    pub(crate) locks: Locks,
    /// Pages that the kernel has just moved.
    pub(crate) migrations: Vec<Migration>,
    /// Locks of the kernel's current action.
    pub(crate) held: Vec<TableLock>,
    /// Cycles that an action holds a lock, and those of tables' upkeep so far.
    pub(crate) lock_hold: u64,
    pub(crate) table_cycles: u64,
    /// Records until daemons and epochs are looked at again.
    pub(crate) until_check: u32,
}

/// The hypervisor's side of nested paging: a kernel whose one process is the virtual machine.
pub(crate) struct Hypervisor {
    pub kernel: Kernel,
    pub machine: ProcessId,
}

/// A translation that holds: where the data is, when that is known, and when the access issued for good (after any
/// faults).
#[derive(Clone, Copy)]
pub(crate) struct Located {
    pub at: PhysAddr,
    pub ready: Cycle,
    pub issued: Cycle,
}

/// Occupancies sampled at the ends of epochs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    next: u64,
    pub samples: u64,
    pub l2: f64,
    pub llc: f64,
}

pub(crate) fn stop_of(error: &OsError) -> Stop {
    if error.is_outcome() { Stop::Outcome(error.to_string()) } else { Stop::Failed(error.to_string()) }
}

impl Machine {
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
            if !self.placements.is_empty() {
                self.supply()?;
                self.change_phase();
            }
            let Some((core, until)) = self.next_core() else {
                if self.cores.iter().any(|core| core.phase != CorePhase::Finished) {
                    left -= 1; // a phase has just begun, and cores have no records of it yet
                    continue;
                }
                self.phase = Phase::Done;
                self.hierarchy.drain_writes();
                return Ok(false);
            };
            let ran = if self.placements.is_empty() {
                self.run_core(core, until, left)?
            } else {
                let batch = Arc::clone(&self.cores[core].batch);
                let (from, end) = (self.cores[core].at, self.cores[core].end);
                self.run_records(core, &batch.records, from, end.min(from + left), until)?
            };
            left = left.saturating_sub(ran.max(1));
        }
        self.change_phase();
        Ok(self.phase != Phase::Done)
    }

    /// The core that is furthest behind in time, and the time at which another takes its turn.
    fn next_core(&self) -> Option<(usize, u64)> {
        let placed = !self.placements.is_empty();
        let waits = |core: &Core| {
            core.phase == CorePhase::Finished
                || (self.phase == Phase::Setup && core.phase != CorePhase::Setup)
                || (placed && core.at >= core.end)
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
            && self.cores.iter().all(|core| {
                let idle = !self.placements.is_empty() && core.executed == 0;
                core.phase == CorePhase::Finished || core.counters.instructions >= self.warmup || idle
            })
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
        let ledger = &self.kernel.ledger;
        self.setup_table_cycles += ledger.total(LedgerCause::Allocate) + ledger.total(LedgerCause::Table);
        self.setup_os_cycles += LedgerCause::ALL.iter().map(|cause| ledger.total(*cause)).sum::<u64>();
        self.table_cycles = 0;
        self.hierarchy.reset_counters();
        self.kernel.reset_counters();
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.kernel.reset_counters();
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

    pub(crate) fn finish(&mut self, number: usize) {
        let core = &mut self.cores[number];
        core.phase = CorePhase::Finished;
        core.finished_at = core.window.retired_cycle().0;
        if self.placements.is_empty() {
            core.stream.leave(core.reader);
        } else {
            self.leave_placement(number);
        }
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
            let Epochs { l2, llc, .. } = self.one_epoch();
            self.epochs.next = executed + EPOCH_INSTRUCTIONS;
            self.epochs.samples += 1;
            self.epochs.l2 += l2;
            self.epochs.llc += llc;
        }
    }

    /// The caches as an epoch's end finds them.
    pub(crate) fn one_epoch(&self) -> Epochs {
        let (l2, llc) = self.hierarchy.translation_share();
        Epochs { next: 0, samples: 1, l2, llc }
    }

    /// Executes one record; returns the instructions that it stands for.
    #[inline(always)]
    fn record(&mut self, number: usize, record: &Record) -> Result<u64, Stop> {
        if record.kind == RecordKind::Fetch {
            // The gap's instructions come before the fetch.
            let window = &mut self.cores[number].window;
            if self.timing {
                window.skip_fetch(record);
            } else {
                window.count(record);
            }
            self.fetch(number, record.va)?;
            return Ok(record.instructions());
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
            if let Some(va) = core.mmu.take_request() {
                self.migrate(number, va)?;
            }
            let core = &mut self.cores[number];
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
            let core = &mut self.cores[number];
            core.counters.access_cycles += ready.since(issued);
            core.window.complete(record, issued, ready);
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
}
