//! The perfect path: the kernel's own answer, at once.

use crate::Stop;
use crate::machine::{Located, Machine};
use ambulator_base::{AccessKind, Cycle, VirtAddr};
use ambulator_mmu::FaultCause;

impl Machine {
    /// Where the kernel has the page, at once, after the faults that this takes.
    pub(super) fn translate_perfectly(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let mut now = now;
        let mut faults = 0;
        loop {
            let (truth, allowed) = self.truth_until_allowed(number, va, access, now, &mut faults)?;
            now = allowed;
            let at = truth.frame().start().offset(va.0 & 0xfff);
            self.checker.count_kernels_own();
            if let Some(at) = self.os.host_physical(at, access) {
                return Ok(Located { at, ready: now, issued: now });
            }
            faults += 1;
            now = self.fault(number, va, access, FaultCause::Hypervisor(at), faults)?;
        }
    }
}
