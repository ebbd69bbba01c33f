//! Translations: at once on the bytes, with the faults that they take, and their ends.

use super::{Answered, HostedError, HostedMachine, HostedTranslation, MOST_IN_FLIGHT, StepKind, steps};
use crate::core::Core;
use crate::machine::{Machine, Phase};
use crate::oracle;
use crate::path::TranslationPath;
use ambulator_base::{AccessKind, Cycle, MapKind, PhysAddr, ProcessId, Protection, VirtAddr, VmEvent};
use ambulator_mmu::{FaultCause, RecordedKind, Translated};

/// If one access faults more often than this, the kernel or a walker violates an invariant.
const MOST_FAULTS: u32 = 64;

impl HostedMachine {
    /// Which share of main memory's bandwidth is in use, in thousandths: for designs that speculate less then.
    pub fn set_bus_load(&mut self, permille: u64) {
        self.bus_permille = permille.min(1000);
    }

    /// Translates an access of a core at `now`, on the bytes as they are, and serves its faults. The steps
    /// are in [`HostedMachine::steps`] afterwards. The instruction is not known.
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
        self.translate_at(core, VirtAddr(0), va, access, now)
    }

    /// As [`HostedMachine::translate`], for an access by the instruction at `pc` (0: not known), by which some TLB
    /// prefetchers and speculators predict.
    ///
    /// # Errors
    /// See [`HostedError`].
    pub fn translate_at(
        &mut self,
        core: usize,
        pc: VirtAddr,
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
        self.machine.hw.cores[core].mmu.set_instruction(pc);
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
