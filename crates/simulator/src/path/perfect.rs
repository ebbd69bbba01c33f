//! The perfect path: the kernel's own page state, at once.

use super::Translator;
use crate::Stop;
use crate::machine::Located;
use ambulator_base::watch::{self, Step};
use ambulator_base::{AccessKind, Cycle, VirtAddr};
use ambulator_mmu::FaultCause;

impl Translator<'_> {
    /// The page's address according to the kernel, at once, after the necessary faults.
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
            let (state, allowed) = self.page_state_when_allowed(number, va, access, now, &mut faults)?;
            now = allowed;
            let at = state.frame().start().offset(va.0 & 0xfff);
            self.checker.count_kernel_translation();
            if let Some(at) = self.os.host_physical(at, access) {
                watch::step(|| {
                    Step::look_up("perfect TLB", true, now, now).says("the kernel's own page state, at once")
                });
                return Ok(Located { at, ready: now, issued: now, known: now });
            }
            faults += 1;
            now = self.fault(number, va, access, FaultCause::Hypervisor(at), faults)?;
        }
    }
}
