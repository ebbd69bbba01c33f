//! Processes of a machine inside another simulator, and their system calls.

use super::{HostedError, HostedMachine};
use crate::machine::Machine;
use ambulator_base::{Cycle, VmEvent};
use ambulator_os::OsError;

impl HostedMachine {
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
}
