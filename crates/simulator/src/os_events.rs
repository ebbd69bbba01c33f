//! The operating system's side of the run loop: faults, VM events, TLB shootdowns, and their cost for a core.

use crate::Stop;
use crate::core::{Core, FRONT_END_LINES};
use crate::hardware::{Hardware, Memories};
use crate::locks::Locks;
use crate::machine::Phase;
use crate::profile::Profiler;
use crate::timeline::Action;
use ambulator_base::{
    AccessKind, Advice, Archive, CounterSink, Each, MapKind, Page, PageSize, Pfn, PhysAddr, ProcessId, State, VirtAddr,
    VmEvent,
};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Invalidation, TableRegisters};
use ambulator_os::{HostAreas, Hypercall, Kernel, LedgerCause, Migration, OsError, Shootdown, TableLock, Zeroed};
use ambulator_timeline::Value;

/// The hypervisor of nested paging: a kernel whose only process is the virtual machine.
pub(crate) struct Hypervisor {
    pub kernel: Kernel,
    pub machine: ProcessId,
    /// Memory of the guest's tables in contiguous pinned frames.
    pub areas: HostAreas,
}

/// The operating system's settings that the run loop applies.
pub(crate) struct OsSettings {
    /// Touches during set-up map pages.
    pub populate: bool,
    /// Programs request huge pages wherever they map 2 MiB or more.
    pub advise_huge: bool,
    /// Threads of one process run on several cores and wait for each other's locks on its page table.
    pub shared_tables: bool,
    /// Cycles that an action holds a lock.
    pub lock_hold: u64,
    /// `run.profile`.
    pub profile: u32,
}

/// The kernel, with nested paging the hypervisor below it, and their pending actions for the hardware.
pub(crate) struct OperatingSystem {
    kernel: Kernel,
    hypervisor: Option<Hypervisor>,
    settings: OsSettings,
    locks: Locks,
    /// Who causes walks and faults, with `run.profile`.
    pub profiler: Option<Box<Profiler>>,
    /// Cycles of page-table upkeep so far.
    table_cycles: u64,
    /// Buffers for the kernel's effects of an action: pending TLB shootdowns, migrated pages, zeroed frames,
    /// locks held.
    shootdowns: Vec<Shootdown>,
    migrations: Vec<Migration>,
    zeroed: Vec<Zeroed>,
    held: Vec<TableLock>,
}

/// How a kernel error ends a run.
fn stop_of(error: &OsError) -> Stop {
    if error.is_outcome() { Stop::Outcome(error.to_string()) } else { Stop::Failed(error.to_string()) }
}

impl OperatingSystem {
    /// A booted operating system.
    pub fn new(kernel: Kernel, hypervisor: Option<Hypervisor>, settings: OsSettings) -> OperatingSystem {
        OperatingSystem {
            kernel,
            hypervisor,
            locks: Locks::default(),
            profiler: Profiler::new(settings.profile),
            table_cycles: 0,
            shootdowns: Vec::new(),
            migrations: Vec::new(),
            zeroed: Vec::new(),
            held: Vec::new(),
            settings,
        }
    }

    /// The kernel that programs run on.
    #[inline(always)]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Checks that the books of the kernel and of the hypervisor balance.
    pub fn check(&self) -> Result<(), String> {
        self.kernel.check()?;
        self.hypervisor.as_ref().map_or(Ok(()), |hypervisor| {
            hypervisor.kernel.check()?;
            hypervisor.areas.check(&hypervisor.kernel, hypervisor.machine)
        })
    }

    /// The kernel, for tests that harm it.
    #[cfg(test)]
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Whether a hypervisor runs under the kernel.
    #[inline(always)]
    pub fn is_nested(&self) -> bool {
        self.hypervisor.is_some()
    }

    /// The machine's bytes, and the guest's with nested paging.
    pub fn memories(&self) -> (&PhysicalMemory, Option<&PhysicalMemory>) {
        match &self.hypervisor {
            Some(hypervisor) => (&hypervisor.kernel.memory, Some(&self.kernel.memory)),
            None => (&self.kernel.memory, None),
        }
    }

    /// The machine's bytes, and the guest's with nested paging, for walkers to read and write.
    #[inline(always)]
    pub fn memories_mut(&mut self) -> Memories<'_> {
        match &mut self.hypervisor {
            Some(hypervisor) => (&mut hypervisor.kernel.memory, Some(&mut self.kernel.memory)),
            None => (&mut self.kernel.memory, None),
        }
    }

    /// The host-physical address of a guest-physical address according to the hypervisor; the address itself
    /// without a hypervisor.
    pub fn host_physical(&self, at: PhysAddr, access: AccessKind) -> Option<PhysAddr> {
        match &self.hypervisor {
            None => Some(at),
            Some(hypervisor) => {
                let va = VirtAddr(at.0);
                let state = hypervisor.kernel.page_state(hypervisor.machine, va);
                let permitted = state.present() && (access != AccessKind::Store || state.writable());
                permitted.then(|| state.frame().start().offset(at.0 & 0xfff))
            }
        }
    }

    /// Cycles since counting last began: those of page tables (memory and upkeep), and in total.
    pub fn cycles_so_far(&self) -> (u64, u64) {
        let ledger = &self.kernel.ledger;
        let tables = ledger.total(LedgerCause::Allocate) + ledger.total(LedgerCause::Table);
        (tables, LedgerCause::ALL.iter().map(|cause| ledger.total(*cause)).sum())
    }

    /// The set-up has ended: from now on the zeroes of fresh pages go to memory.
    pub fn end_set_up(&mut self) {
        self.kernel.record_zeroed();
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.kernel.record_zeroed();
        }
    }

    /// Sets every counter to zero.
    pub fn reset_counters(&mut self) {
        self.table_cycles = 0;
        if let Some(profiler) = &mut self.profiler {
            profiler.reset();
        }
        self.kernel.reset_counters();
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.kernel.reset_counters();
            hypervisor.areas.reset_counters();
        }
    }

    /// Reports the counters of the kernel and of the hypervisor to `sink`.
    pub fn report(&self, sink: &mut dyn CounterSink) {
        self.kernel.report("kernel", sink);
        if let Some(hypervisor) = &self.hypervisor {
            hypervisor.kernel.report("hypervisor", sink);
            hypervisor.areas.report("hypervisor.host_areas", sink);
        }
    }

    /// As [`OperatingSystem::report`], without what must be read from the tables' bytes.
    pub fn report_counters(&self, sink: &mut dyn CounterSink) {
        self.kernel.report_counters("kernel", sink);
        if let Some(hypervisor) = &self.hypervisor {
            hypervisor.kernel.report_counters("hypervisor", sink);
            hypervisor.areas.report("hypervisor.host_areas", sink);
        }
    }

    /// The hypervisor serves a fault of the guest.
    pub fn hypervisor_fault(
        &mut self,
        hw: &mut Hardware,
        phase: Phase,
        number: usize,
        guest: PhysAddr,
    ) -> Result<(), Stop> {
        let Some(hypervisor) = &mut self.hypervisor else { return Ok(()) };
        hypervisor.kernel.run_on(number, hw.kernel_time(number));
        // The hypervisor maps all guest memory writable.
        hypervisor.kernel.fault(hypervisor.machine, VirtAddr(guest.0), AccessKind::Store).map_err(|e| stop_of(&e))?;
        self.settle_hypervisor(hw, phase, number);
        Ok(())
    }

    /// The kernel serves a page fault of a core's process.
    pub fn fault(
        &mut self,
        hw: &mut Hardware,
        phase: Phase,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
    ) -> Result<(), Stop> {
        self.kernel.run_on(number, hw.kernel_time(number));
        let core = &mut hw.cores[number];
        core.counters.page_faults += 1;
        self.kernel.fault(core.process, va, access).map_err(|e| stop_of(&e))?;
        self.take_released(hw, phase, number)?;
        self.serve_hypercalls(hw, phase, number)?;
        self.settle(hw, phase, number);
        Ok(())
    }

    /// The kernel, and the hypervisor, act for a core from now on.
    fn run_on(&mut self, hw: &Hardware, number: usize) {
        let now = hw.kernel_time(number);
        self.kernel.run_on(number, now);
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.kernel.run_on(number, now);
        }
    }

    /// Runs the kernel's background daemons up to the core's time.
    pub fn run_daemons(&mut self, hw: &mut Hardware, phase: Phase, number: usize) -> Result<(), Stop> {
        hw.acts(|| Action::new("daemons"));
        self.kernel.run_on(number, hw.kernel_time(number));
        self.kernel.tick(hw.cores[number].process, hw.kernel_time(number)).map_err(|e| stop_of(&e))?;
        self.serve_hypercalls(hw, phase, number)?;
        self.settle(hw, phase, number);
        Ok(())
    }

    /// Calls the kernel for core `number` of a machine inside another simulator, and applies the effects.
    ///
    /// # Errors
    /// The call's; what it had done before has its effects all the same.
    pub fn call<T>(
        &mut self,
        hw: &mut Hardware,
        number: usize,
        act: impl FnOnce(&mut Kernel) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.kernel.run_on(number, hw.kernel_time(number));
        let result = act(&mut self.kernel);
        let released = self.take_released(hw, Phase::Measure, number);
        let released = released.and_then(|()| self.serve_hypercalls(hw, Phase::Measure, number));
        self.settle(hw, Phase::Measure, number);
        released.map_err(|why| match why {
            Stop::Outcome(why) | Stop::Failed(why) => OsError::Table(format!("the hypervisor failed: {why}")),
        })?;
        result
    }

    /// Of the page of `va` that holds an access: its size, that of the hypervisor's page if that is smaller.
    pub fn page_size(&self, process: ProcessId, va: VirtAddr) -> PageSize {
        let state = self.kernel.page_state(process, va);
        match &self.hypervisor {
            None => state.size(),
            Some(hypervisor) => {
                let guest = VirtAddr(state.frame().start().offset(va.0 & 0xfff).0);
                state.size().min(hypervisor.kernel.page_state(hypervisor.machine, guest).size())
            }
        }
    }

    /// The hypervisor reclaims the frames that the guest has released.
    fn take_released(&mut self, hw: &mut Hardware, phase: Phase, number: usize) -> Result<(), Stop> {
        let Some(hypervisor) = &mut self.hypervisor else { return Ok(()) };
        let mut released = Vec::new();
        self.kernel.take_released(&mut released);
        if released.is_empty() {
            return Ok(());
        }
        for (frame, frames) in released {
            let (start, len) = (VirtAddr(frame.start().0), frames * ambulator_base::FRAME_BYTES);
            let drop = VmEvent::Advise { start, len, advice: Advice::DontNeed };
            hypervisor.kernel.event(hypervisor.machine, &drop).map_err(|e| stop_of(&e))?;
        }
        self.settle_hypervisor(hw, phase, number);
        Ok(())
    }

    /// The hypervisor serves the calls of the kernel's last action, and the tables that called get its answers.
    fn serve_hypercalls(&mut self, hw: &mut Hardware, phase: Phase, number: usize) -> Result<(), Stop> {
        let Some(hypervisor) = &mut self.hypervisor else { return Ok(()) };
        if !self.kernel.ledger.has_hypercalls() {
            return Ok(());
        }
        let Hypervisor { kernel, machine, areas } = hypervisor;
        kernel.run_on(number, hw.kernel_time(number));
        for call in self.kernel.ledger.take_hypercalls() {
            match call {
                Hypercall::Back { process, first, frames } => {
                    let slot = areas.back(kernel, *machine, first, frames).map_err(|e| stop_of(&e))?;
                    let answered = self.kernel.answer_hypercall(process, first, slot);
                    if !answered && slot.is_some() {
                        areas.release(kernel, *machine, first);
                    }
                }
                Hypercall::Release { first } => areas.release(kernel, *machine, first),
            }
        }
        areas
            .check(kernel, *machine)
            .map_err(|why| Stop::Failed(format!("the hypervisor violated an invariant: {why}")))?;
        self.settle_hypervisor(hw, phase, number);
        Ok(())
    }

    /// Applies the effects of a kernel action for core `number`: cycles, TLB shootdowns, changed registers.
    pub fn settle(&mut self, hw: &mut Hardware, phase: Phase, number: usize) {
        let upkeep = self.kernel.ledger.total(LedgerCause::Table) - self.table_cycles;
        self.table_cycles += upkeep;
        self.wait_for_locks(hw, phase, number, upkeep);
        let cycles = self.kernel.ledger.take();
        hw.charge(phase, number, cycles);
        self.write_zeroed(hw, number);
        self.kernel.take_shootdowns(&mut self.shootdowns);
        hw.record_shootdowns(number, &self.shootdowns);
        for shootdown in self.shootdowns.drain(..) {
            hw.invalidate(invalidation(&shootdown), &self.kernel);
        }
        self.copy_migrated(hw, phase, number);
        hw.record_action(number, self);
        for core in &mut hw.cores {
            core.mmu.forget_recent();
            self.load_registers(core);
        }
    }

    /// The hardware suggests a page to migrate: the kernel migrates it in the background.
    #[cold]
    pub fn migrate(&mut self, hw: &mut Hardware, phase: Phase, number: usize, va: VirtAddr) -> Result<(), Stop> {
        hw.acts(|| Action::new("migration hint").with("address", Value::Address(va.0)));
        self.kernel.migration_hint(hw.cores[number].process, va).map_err(|e| stop_of(&e))?;
        // The program does not wait for the kernel's work either.
        self.kernel.ledger.take();
        self.serve_hypercalls(hw, phase, number)?;
        self.settle(hw, phase, number);
        Ok(())
    }

    /// Copies migrated pages in the background; accesses to a page wait for the end of its copy.
    fn copy_migrated(&mut self, hw: &mut Hardware, phase: Phase, number: usize) {
        self.kernel.take_migrations(&mut self.migrations);
        let mut migrations = std::mem::take(&mut self.migrations);
        if phase != Phase::Setup {
            for moved in &migrations {
                match self.is_nested() {
                    true => self.backed_parts(moved).iter().for_each(|part| hw.copy_page(number, part)),
                    false => hw.copy_page(number, moved),
                }
            }
        }
        migrations.clear();
        self.migrations = migrations;
    }

    /// The base pages of a page that a guest has moved, at host-physical addresses. What the hypervisor has not
    /// backed yet is not copied: it comes zeroed.
    fn backed_parts(&self, moved: &Migration) -> Vec<Migration> {
        let frame = |guest: Pfn, i| self.host_physical(guest.offset(i).start(), AccessKind::Load).map(PhysAddr::pfn);
        let part = |i: u64| {
            let start = moved.page.start.offset(i * ambulator_base::FRAME_BYTES);
            let page = Page { start, size: PageSize::SIZE_4K };
            Some(Migration { page, from: frame(moved.from, i)?, to: frame(moved.to, i)?, ..*moved })
        };
        (0..moved.page.size.frames()).filter_map(part).collect()
    }

    /// Writes the frames that the kernel has just zeroed to memory. With nested paging, these are frames that
    /// the hypervisor has backed: it zeroes others itself when it backs them.
    fn write_zeroed(&mut self, hw: &mut Hardware, number: usize) {
        let mut zeroed = std::mem::take(&mut self.zeroed);
        self.kernel.take_zeroed(&mut zeroed);
        if self.is_nested() {
            let backed = |one: &Zeroed| {
                let cycles = one.cycles / one.frames;
                let frame = |i| self.host_physical(one.frame.offset(i).start(), AccessKind::Store);
                (0..one.frames).filter_map(frame).map(move |at| Zeroed { frame: at.pfn(), frames: 1, cycles }).collect()
            };
            zeroed = zeroed.iter().flat_map::<Vec<Zeroed>, _>(backed).collect();
        }
        hw.zero(number, &zeroed);
        zeroed.clear();
        self.zeroed = zeroed;
    }

    /// Waits for the locks of the kernel action just done for a core: threads of the process on other cores
    /// may hold them.
    fn wait_for_locks(&mut self, hw: &mut Hardware, phase: Phase, number: usize, upkeep: u64) {
        self.kernel.ledger.take_locks(&mut self.held);
        if !self.held.is_empty() && hw.timing() && phase != Phase::Setup && self.settings.shared_tables {
            let core = &mut hw.cores[number];
            let hold = self.settings.lock_hold + upkeep / self.held.len() as u64;
            let wait = self.locks.acquire(core.process, &self.held, core.window.now(), hold);
            core.counters.lock_cycles += wait;
            hw.charge(phase, number, wait);
        }
        self.held.clear();
    }

    /// Applies the effects of a hypervisor action for core `number`: cycles, TLB shootdowns, changed
    /// registers.
    fn settle_hypervisor(&mut self, hw: &mut Hardware, phase: Phase, number: usize) {
        let Some(hypervisor) = &mut self.hypervisor else { return };
        hw.charge(phase, number, hypervisor.kernel.ledger.take());
        hypervisor.kernel.take_zeroed(&mut self.zeroed);
        hw.zero(number, &self.zeroed);
        self.zeroed.clear();
        hypervisor.kernel.take_shootdowns(&mut self.shootdowns);
        hw.record_shootdowns(number, &self.shootdowns);
        for shootdown in self.shootdowns.drain(..) {
            let what = invalidation(&shootdown);
            for core in &mut hw.cores {
                core.mmu.invalidate_hypervisor(what);
            }
        }
        hw.record_action(number, self);
        for core in &mut hw.cores {
            core.mmu.forget_recent();
            self.load_registers(core);
        }
    }

    /// Loads the registers of the core's process into its MMU, if they have changed.
    pub fn load_registers(&self, core: &mut Core) {
        let generation = self.kernel.registers_generation(core.process);
        // A process that has just exited has no table; the program switches to another process next.
        if core.generation != generation && self.kernel.is_alive(core.process) {
            core.generation = generation;
            if let Some(table) = self.hypervisor.as_ref().and_then(|hypervisor| hypervisor.areas.table()) {
                core.mmu.load_host_areas(table);
            }
            let registers = TableRegisters(self.kernel.registers(core.process));
            let companion = TableRegisters(self.kernel.companion_registers(core.process));
            let front_side = TableRegisters(self.kernel.intermediate_registers(core.process));
            core.mmu.load_registers(self.kernel.asid(core.process), &registers, &companion, &front_side);
        }
        if let Some(hypervisor) = &self.hypervisor {
            let generation = hypervisor.kernel.registers_generation(hypervisor.machine);
            if core.hypervisor_generation != generation {
                core.hypervisor_generation = generation;
                let registers = TableRegisters(hypervisor.kernel.registers(hypervisor.machine));
                core.mmu.load_hypervisor_registers(hypervisor.kernel.asid(hypervisor.machine), &registers);
            }
        }
    }

    /// A VM event of a core's program, other than the marks of its region.
    pub fn event(&mut self, hw: &mut Hardware, phase: Phase, number: usize, event: &VmEvent) -> Result<(), Stop> {
        if matches!(event, VmEvent::Place { .. }) && !self.kernel.heeds_places() {
            return Ok(());
        }
        let unknown = |process: ProcessId| {
            Stop::Failed(format!("the program's stream refers to process {process}, which it has not forked"))
        };
        hw.acts(|| Action::new(call_name(event)));
        self.run_on(hw, number);
        let core = &mut hw.cores[number];
        match event {
            VmEvent::Fork { child } => {
                self.require_alive(core.process)?;
                let process = self.kernel.fork(core.process).map_err(|e| stop_of(&e))?;
                core.processes.push((*child, process));
                if let Some(profiler) = &mut self.profiler {
                    profiler.fork(core.process, process);
                }
            }
            VmEvent::Exit { process } => {
                let in_kernel = core.kernel_process(*process).ok_or_else(|| unknown(*process))?;
                self.kernel.event(in_kernel, &VmEvent::Exit { process: in_kernel }).map_err(|e| stop_of(&e))?;
                core.processes.retain(|(stream, _)| stream != process);
                if let Some(profiler) = &mut self.profiler {
                    profiler.exit(in_kernel);
                }
            }
            VmEvent::Switch { process, .. } => {
                let to = core.kernel_process(*process).ok_or_else(|| unknown(*process))?;
                if core.process == to {
                    return Ok(());
                }
                if let Some(lost) = self.kernel.context_switch(number, core.process, to) {
                    core.mmu.recycle(lost);
                }
                core.process = to;
                core.counters.context_switches += 1;
                core.generation = u64::MAX;
                core.front_end = [u64::MAX; FRONT_END_LINES];
            }
            VmEvent::Touch { .. } if !self.settings.populate && phase == Phase::Setup => return Ok(()),
            other => {
                let process = core.process;
                self.require_alive(process)?;
                self.kernel.event(process, other).map_err(|e| stop_of(&e))?;
                if let Some(profiler) = &mut self.profiler {
                    profiler.event(process, other);
                }
                if self.settings.advise_huge
                    && let VmEvent::Map { start, len, kind: MapKind::Anonymous, .. } = *other
                    && len >= PageSize::SIZE_2M.bytes()
                {
                    let advise = VmEvent::Advise { start, len, advice: Advice::Huge };
                    self.kernel.event(process, &advise).map_err(|e| stop_of(&e))?;
                }
                if self.is_nested() {
                    self.take_released(hw, phase, number)?;
                    self.back_guest(hw, phase, number, other)?;
                }
            }
        }
        self.serve_hypercalls(hw, phase, number)?;
        self.settle(hw, phase, number);
        Ok(())
    }

    /// Rejects a stream that continues in a process that has exited.
    pub fn require_alive(&self, process: ProcessId) -> Result<(), Stop> {
        if self.kernel.is_alive(process) {
            return Ok(());
        }
        Err(Stop::Failed(format!(
            "the program's stream continues in process {process}, which has exited: it must switch to another process first"
        )))
    }

    /// For a set-up touch in a guest, the hypervisor backs the pages in the same order.
    fn back_guest(&mut self, hw: &mut Hardware, phase: Phase, number: usize, event: &VmEvent) -> Result<(), Stop> {
        let (VmEvent::Touch { start, len, .. }, Some(hypervisor)) = (event, &mut self.hypervisor) else {
            return Ok(());
        };
        let process = hw.cores[number].process;
        let mut va = start.align_down(ambulator_base::PageSize::SIZE_4K);
        while va.0 < start.0 + len {
            let state = self.kernel.page_state(process, va);
            let guest = VirtAddr(state.frame().start().0);
            if state.present() && !hypervisor.kernel.page_state(hypervisor.machine, guest).present() {
                hypervisor.kernel.fault(hypervisor.machine, guest, AccessKind::Store).map_err(|e| stop_of(&e))?;
            }
            va = va.offset(ambulator_base::FRAME_BYTES);
        }
        self.settle_hypervisor(hw, phase, number);
        Ok(())
    }
}

/// What a VM event is to the kernel.
fn call_name(event: &VmEvent) -> &'static str {
    match event {
        VmEvent::Map { .. } => "mmap",
        VmEvent::Unmap { .. } => "munmap",
        VmEvent::Protect { .. } => "mprotect",
        VmEvent::Remap { .. } => "mremap",
        VmEvent::Advise { .. } => "madvise",
        VmEvent::Brk { .. } => "brk",
        VmEvent::Fork { .. } => "fork",
        VmEvent::Exit { .. } => "exit",
        VmEvent::Switch { .. } => "context switch",
        VmEvent::Place { .. } => "place",
        _ => "touch",
    }
}

fn invalidation(shootdown: &Shootdown) -> Invalidation {
    match shootdown.page {
        Some(page) => Invalidation::Page { asid: shootdown.asid, page },
        None => Invalidation::Asid(shootdown.asid),
    }
}

impl State for OperatingSystem {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let OperatingSystem {
            kernel,
            hypervisor,
            settings: _,
            locks,
            profiler,
            table_cycles,
            // Empty between two actions.
            shootdowns: _,
            migrations: _,
            zeroed: _,
            held: _,
        } = self;
        kernel.state(archive);
        if let Some(Hypervisor { kernel, machine, areas }) = hypervisor {
            kernel.state(archive);
            machine.state(archive);
            areas.state(archive);
        }
        locks.state(archive);
        profiler.each(archive);
        table_cycles.state(archive);
    }
}
