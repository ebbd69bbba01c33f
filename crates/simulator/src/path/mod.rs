//! The translation paths: how an access gets from its virtual address to its data. A machine has one of them,
//! which `Machine::new` chooses.

mod conventional;
mod intermediate;
mod perfect;

pub(crate) use intermediate::tell_missed;

use crate::hardware::Hardware;
use crate::hosted::Effect;
use crate::machine::{Located, Phase};
use crate::oracle::Checker;
use crate::os_events::OperatingSystem;
use crate::timeline::Action;
use crate::{Stop, oracle};
use ambulator_base::watch::{self, Field, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};
use ambulator_mmu::{FaultCause, Invalidation};
use ambulator_os::{Kernel, PageState};
use ambulator_timeline::Value;

/// If one access faults more often than this, the kernel or a walker violates an invariant.
const MAX_FAULTS_FOR_ONE_ACCESS: u32 = 64;

/// How a machine translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranslationPath {
    /// TLBs, and walks on their misses, before the caches.
    Conventional,
    /// VMAs before the caches, which are indexed by intermediate addresses, and pages after the last level.
    Intermediate,
    /// The kernel's own page state, at once: the bound of designs with the same paging policy.
    Perfect,
}

/// The parts of a machine that a translation uses.
pub(crate) struct Translator<'m> {
    pub hw: &'m mut Hardware,
    pub os: &'m mut OperatingSystem,
    pub checker: &'m mut Checker,
    pub phase: Phase,
}

impl Translator<'_> {
    /// Translates on the machine's path, serves faults until the page is mapped, and checks the result with
    /// the oracle.
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

    /// The kernel's state of a page that permits the access, after the necessary faults, and the cycle then.
    fn page_state_when_allowed(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        faults: &mut u32,
    ) -> Result<(PageState, Cycle), Stop> {
        let mut now = now;
        loop {
            let state = self.os.kernel().page_state(self.hw.cores[number].process, va);
            if oracle::agrees(state, va, state.frame().start().offset(va.0 & 0xfff), access) {
                return Ok((state, now));
            }
            *faults += 1;
            let cause = if state.present() { FaultCause::Protection } else { FaultCause::NotMapped };
            now = self.fault(number, va, access, cause, *faults)?;
        }
    }

    /// The operating system serves a fault of an access, the `times`th; returns when the access can be
    /// retried.
    #[cold]
    fn fault(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        cause: FaultCause,
        times: u32,
    ) -> Result<Cycle, Stop> {
        self.hw.acts(|| {
            let action = if matches!(cause, FaultCause::Hypervisor(_)) { "hypervisor fault" } else { "page fault" };
            Action::new(action).with("address", Value::Address(va.0)).with("cause", Value::Text(cause.text()))
        });
        let before = self.hw.cores[number].counters.os_cycles;
        watch::open(|| Step::new(StepKind::Fault, cause.text(), Cycle(0), Cycle(0)));
        let served = self.serve_fault(number, va, access, cause, times);
        watch::close(|step| {
            let cycles = self.hw.cores[number].counters.os_cycles - before;
            step.until = cycles;
            let state = self.os.kernel().page_state(self.hw.cores[number].process, va);
            match &served {
                Err(Stop::Outcome(why) | Stop::Failed(why)) => step.says.clone_from(why),
                Ok(_) => {
                    let who = if matches!(cause, FaultCause::Hypervisor(_)) { "hypervisor" } else { "kernel" };
                    step.says = format!("the {who} serves it in {cycles} cycles; then the access is repeated");
                    let mut field = |name: &str, value| step.fields.push(Field { name: name.into(), value });
                    field("frame", watch::hexadecimal(state.frame().0));
                    field("page size", state.size().to_string().into());
                }
            }
        });
        served
    }

    fn serve_fault(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        cause: FaultCause,
        times: u32,
    ) -> Result<Cycle, Stop> {
        match cause {
            FaultCause::Hypervisor(guest) if self.os.is_nested() => {
                self.os.hypervisor_fault(self.hw, self.phase, number, guest)?;
            }
            _ => {
                let state = self.os.kernel().page_state(self.hw.cores[number].process, va);
                let at = state.frame().start().offset(va.0 & 0xfff);
                if oracle::agrees(state, va, at, access) || times > MAX_FAULTS_FOR_ONE_ACCESS {
                    return Err(self.mismatch(number, va, None, access));
                }
                self.os.fault(self.hw, self.phase, number, va, access)?;
            }
        }
        if times > MAX_FAULTS_FOR_ONE_ACCESS {
            return Err(Stop::Failed(format!(
                "{access:?} of {va} faulted {times} times in a row ({cause:?}): the operating system never mapped its page"
            )));
        }
        Ok(if self.hw.timing() { self.hw.cores[number].window.now() } else { self.hw.begin_untimed(number) })
    }

    #[cold]
    fn mismatch(&mut self, number: usize, va: VirtAddr, at: Option<PhysAddr>, access: AccessKind) -> Stop {
        oracle::mismatch(self.hw, self.os, number, va, at, access)
    }

    /// Whether a core may use a translation.
    #[inline(always)]
    fn accepts(&mut self, number: usize, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
        self.checker.accepts(self.os, self.hw.cores[number].process, va, at, access)
    }
}

impl Hardware {
    /// A TLB shootdown that `kernel` requests, on all cores.
    pub(crate) fn invalidate(&mut self, what: Invalidation, kernel: &Kernel) {
        if self.path() == TranslationPath::Intermediate {
            return self.invalidate_intermediate(what, kernel);
        }
        if self.hosted.is_some() {
            self.effects.extend(Effect::invalidation(what, kernel));
        }
        for core in &mut self.cores {
            core.mmu.invalidate(what);
        }
    }
}
