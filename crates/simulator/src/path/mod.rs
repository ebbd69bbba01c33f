//! The translation paths: how an access comes from its virtual address to its data. A machine has one of
//! them, which [`Machine::new`] chooses.

mod conventional;
mod intermediate;
mod perfect;

use crate::hardware::Hardware;
use crate::machine::{Located, Machine};
use crate::{Stop, oracle};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};
use ambulator_mmu::{FaultCause, Invalidation};
use ambulator_os::{Kernel, PageState};

/// A fault that comes back this often for one access is a kernel or walker that violates an invariant.
const MAX_FAULTS_FOR_ONE_ACCESS: u32 = 64;

/// How a machine translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranslationPath {
    /// TLBs, and walks where they miss, before the caches.
    Conventional,
    /// Areas before the caches, which know intermediate addresses, and pages behind the last level.
    Intermediate,
    /// The kernel's own answer, at once: the bound of all designs.
    Perfect,
}

impl Machine {
    /// Translates on the machine's path, serves faults until the page is there, and asks the oracle.
    #[inline(always)]
    pub(crate) fn translate(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        match self.hw.path() {
            TranslationPath::Conventional => self.translate_conventionally(number, va, access, now),
            TranslationPath::Intermediate => self.translate_by_intermediate(number, va, access, now),
            TranslationPath::Perfect => self.translate_perfectly(number, va, access, now),
        }
    }

    /// The kernel's truth about an access that it allows, after the faults that this takes, and when that is.
    fn truth_until_allowed(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        faults: &mut u32,
    ) -> Result<(PageState, Cycle), Stop> {
        let mut now = now;
        loop {
            let truth = self.os.kernel().page_state(self.hw.cores[number].process, va);
            if oracle::agrees(truth, va, truth.frame().start().offset(va.0 & 0xfff), access) {
                return Ok((truth, now));
            }
            *faults += 1;
            let cause = if truth.present() { FaultCause::Protection } else { FaultCause::NotMapped };
            now = self.fault(number, va, access, cause, *faults)?;
        }
    }

    /// The operating system serves a fault of an access, the `times`th; returns when the access may be tried
    /// again.
    #[cold]
    fn fault(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        cause: FaultCause,
        times: u32,
    ) -> Result<Cycle, Stop> {
        let phase = self.scheduler.phase();
        match cause {
            FaultCause::Hypervisor(guest) if self.os.is_nested() => {
                self.os.hypervisor_fault(&mut self.hw, phase, number, guest)?;
            }
            _ => {
                let truth = self.os.kernel().page_state(self.hw.cores[number].process, va);
                let at = truth.frame().start().offset(va.0 & 0xfff);
                if oracle::agrees(truth, va, at, access) || times > MAX_FAULTS_FOR_ONE_ACCESS {
                    return Err(self.mismatch(number, va, None, access));
                }
                self.os.fault(&mut self.hw, phase, number, va, access)?;
            }
        }
        if times > MAX_FAULTS_FOR_ONE_ACCESS {
            return Err(Stop::Failed(format!(
                "{access:?} of {va} faulted {times} times in a row ({cause:?}): the operating system never gave it its page"
            )));
        }
        Ok(if self.hw.timing() { self.hw.cores[number].window.now() } else { Cycle(0) })
    }

    #[cold]
    fn mismatch(&mut self, number: usize, va: VirtAddr, at: Option<PhysAddr>, access: AccessKind) -> Stop {
        oracle::mismatch(&mut self.hw, &self.os, number, va, at, access)
    }

    /// Whether hardware may use a translation of a core's.
    #[inline(always)]
    fn accepts(&mut self, number: usize, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
        self.checker.accepts(&self.os, self.hw.cores[number].process, va, at, access)
    }
}

impl Hardware {
    /// A TLB shootdown that `kernel` asks for, on all cores.
    pub(crate) fn invalidate(&mut self, what: Invalidation, kernel: &Kernel) {
        if self.path() == TranslationPath::Intermediate {
            return self.invalidate_intermediate(what, kernel);
        }
        for core in &mut self.cores {
            core.mmu.invalidate(what);
        }
    }
}
