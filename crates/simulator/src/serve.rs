//! The operating system's side of the run loop: faults, VM events, shootdowns, and what they cost a core.

use crate::core::{CorePhase, FRONT_END_LINES};
use crate::machine::{Machine, Phase, stop_of};
use crate::{Stop, oracle};
use ambulator_base::{AccessKind, Advice, Cycle, MapKind, PageSize, ProcessId, VirtAddr, VmEvent};
use ambulator_mmu::{FaultCause, Invalidation, TableRegisters};
use ambulator_os::{LedgerCause, Shootdown};

/// A fault that comes back this often for one access is a kernel or walker that violates an invariant.
const MAX_FAULTS_FOR_ONE_ACCESS: u32 = 64;

impl Machine {
    /// The operating system serves a fault; returns when the access may be tried again.
    #[cold]
    pub(crate) fn fault(
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
            let truth = self.kernel.page_state(process, va);
            let at = truth.frame().start().offset(va.0 & 0xfff);
            if oracle::agrees(truth, va, at, access) || times > MAX_FAULTS_FOR_ONE_ACCESS {
                return Err(self.mismatch(number, va, None, access, truth));
            }
            self.cores[number].counters.page_faults += 1;
            self.kernel.fault(process, va, access).map_err(|e| stop_of(&e))?;
            self.take_released(number)?;
            self.settle(number);
        }
        if times > MAX_FAULTS_FOR_ONE_ACCESS {
            return Err(Stop::Failed(format!(
                "{access:?} of {va} faulted {times} times in a row ({cause:?}): the operating system never gave it its page"
            )));
        }
        Ok(if self.timing { self.cores[number].window.now() } else { Cycle(0) })
    }

    /// Frames that the guest has told it uses no more: the hypervisor takes them back.
    fn take_released(&mut self, number: usize) -> Result<(), Stop> {
        let Some(host) = &mut self.host else { return Ok(()) };
        let mut released = Vec::new();
        self.kernel.take_released(&mut released);
        if released.is_empty() {
            return Ok(());
        }
        for (frame, frames) in released {
            let (start, len) = (VirtAddr(frame.start().0), frames * ambulator_base::FRAME_BYTES);
            let drop = VmEvent::Advise { start, len, advice: Advice::DontNeed };
            host.kernel.event(host.machine, &drop).map_err(|e| stop_of(&e))?;
        }
        let cycles = host.kernel.ledger.take();
        self.charge(number, cycles);
        self.deliver_host_shootdowns();
        Ok(())
    }

    /// After any action of the kernel for `number`: its cycles, its shootdowns, registers that it changed.
    pub(crate) fn settle(&mut self, number: usize) {
        let upkeep = self.kernel.ledger.total(LedgerCause::Table) - self.table_cycles;
        self.table_cycles += upkeep;
        self.wait_for_locks(number, upkeep);
        let cycles = self.kernel.ledger.take();
        self.charge(number, cycles);
        self.kernel.take_shootdowns(&mut self.shootdowns);
        if !self.shootdowns.is_empty() {
            let shootdowns = std::mem::take(&mut self.shootdowns);
            for shootdown in &shootdowns {
                let what = invalidation(shootdown);
                if self.named {
                    self.invalidate_around(what);
                    continue;
                }
                for core in &mut self.cores {
                    core.mmu.invalidate(what);
                }
            }
            self.shootdowns = shootdowns;
            self.shootdowns.clear();
        }
        self.copy_migrated(number);
        for core in 0..self.cores.len() {
            self.cores[core].mmu.forget_recent();
            self.sync_registers(core);
        }
    }

    /// Hardware has found a page worth moving: the kernel does that beside the program.
    #[cold]
    pub(crate) fn migrate(&mut self, number: usize, va: VirtAddr) -> Result<(), Stop> {
        let process = self.cores[number].process;
        self.kernel.migration_hint(process, va).map_err(|e| stop_of(&e))?;
        // Nobody waits for the kernel's part, either.
        self.kernel.ledger.take();
        self.settle(number);
        Ok(())
    }

    /// Pages that the kernel has moved are copied beside the program; whoever wants one waits for its copy.
    fn copy_migrated(&mut self, number: usize) {
        let mut migrations = std::mem::take(&mut self.migrations);
        self.kernel.take_migrations(&mut migrations);
        if self.phase != Phase::Setup && self.timing {
            for moved in &migrations {
                let now = self.cores[number].window.now();
                let copy = self.hierarchy.copy(moved.from.start(), moved.to.start(), moved.page.size.bytes(), now);
                for core in &mut self.cores {
                    core.mmu.hold(moved.asid, moved.page, copy);
                }
            }
        }
        migrations.clear();
        self.migrations = migrations;
    }

    /// The action that the kernel has just done for a core held locks, which threads of the process on other cores may have had.
    fn wait_for_locks(&mut self, number: usize, upkeep: u64) {
        let mut held = std::mem::take(&mut self.held);
        self.kernel.ledger.take_locks(&mut held);
        if !held.is_empty() && self.timing && self.phase != Phase::Setup && !self.spreads.is_empty() {
            let (now, process) = (self.cores[number].window.now(), self.cores[number].process);
            let hold = self.lock_hold + upkeep / held.len() as u64;
            let wait = self.locks.acquire(process, &held, now, hold);
            self.cores[number].counters.lock_cycles += wait;
            self.charge(number, wait);
        }
        held.clear();
        self.held = held;
    }

    pub(crate) fn deliver_host_shootdowns(&mut self) {
        let Some(host) = &mut self.host else { return };
        host.kernel.take_shootdowns(&mut self.shootdowns);
        for shootdown in self.shootdowns.drain(..) {
            let what = invalidation(&shootdown);
            for core in &mut self.cores {
                core.mmu.invalidate_host(what);
            }
        }
        for core in 0..self.cores.len() {
            self.cores[core].mmu.forget_recent();
            self.sync_registers(core);
        }
    }

    /// Operating-system work in the region of interest stops the core for that long; in set-up it has no time.
    pub(crate) fn charge(&mut self, number: usize, cycles: u64) {
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
    pub(crate) fn sync_registers(&mut self, number: usize) {
        let core = &mut self.cores[number];
        let generation = self.kernel.registers_generation(core.process);
        // A process that has just exited has no table any more; the program switches to another before it goes on.
        if core.generation != generation && self.kernel.is_alive(core.process) {
            core.generation = generation;
            let registers = TableRegisters(self.kernel.registers(core.process));
            let beside = TableRegisters(self.kernel.companion_registers(core.process));
            let before = TableRegisters(self.kernel.intermediate_registers(core.process));
            core.mmu.load_registers(self.kernel.asid(core.process), &registers, &beside, &before);
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
    pub(crate) fn event(&mut self, number: usize, event: &VmEvent) -> Result<(), Stop> {
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
            VmEvent::Touch { .. } if !self.populate && self.phase == Phase::Setup => {}
            other => {
                self.alive(number)?;
                let process = self.cores[number].process;
                self.kernel.event(process, other).map_err(|e| stop_of(&e))?;
                if self.advise_huge
                    && let VmEvent::Map { start, len, kind: MapKind::Anonymous, .. } = *other
                    && len >= PageSize::SIZE_2M.bytes()
                {
                    let ask = VmEvent::Advise { start, len, advice: Advice::Huge };
                    self.kernel.event(process, &ask).map_err(|e| stop_of(&e))?;
                }
                if self.host.is_some() {
                    self.take_released(number)?;
                    self.back_guest(number, other)?;
                }
                self.settle(number);
            }
        }
        Ok(())
    }

    /// A program that goes on in a process that has exited is damaged.
    pub(crate) fn alive(&self, number: usize) -> Result<(), Stop> {
        let process = self.cores[number].process;
        if self.kernel.is_alive(process) {
            return Ok(());
        }
        Err(Stop::Failed(format!(
            "the program's stream goes on in process {process}, which has exited: it must switch to another process first"
        )))
    }

    /// A set-up touch in a guest also makes the hypervisor back the pages, in the same order.
    pub(crate) fn back_guest(&mut self, number: usize, event: &VmEvent) -> Result<(), Stop> {
        let (VmEvent::Touch { start, len, .. }, Some(host)) = (event, &mut self.host) else { return Ok(()) };
        let process = self.cores[number].process;
        let mut va = start.align_down(ambulator_base::PageSize::SIZE_4K);
        while va.0 < start.0 + len {
            let truth = self.kernel.page_state(process, va);
            let guest = VirtAddr(truth.frame().start().0);
            if truth.present() && !host.kernel.page_state(host.machine, guest).present() {
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

fn invalidation(shootdown: &Shootdown) -> Invalidation {
    if shootdown.global {
        return Invalidation::All;
    }
    match shootdown.page {
        Some(page) => Invalidation::Page { asid: shootdown.asid, page },
        None => Invalidation::Asid(shootdown.asid),
    }
}
