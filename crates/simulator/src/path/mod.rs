//! The translation paths: how an access comes from its virtual address to its data. A machine has one of them, which
//! [`Machine::new`] chooses.

mod conventional;
mod intermediate;
mod perfect;

use crate::machine::{Located, Machine};
use crate::{Stop, oracle};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};
use ambulator_mmu::{CorePort, FaultCause, Invalidation, Mmu};
use ambulator_os::Truth;

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
        match self.path {
            TranslationPath::Conventional => self.translate_conventionally(number, va, access, now),
            TranslationPath::Intermediate => self.translate_by_intermediate(number, va, access, now),
            TranslationPath::Perfect => self.translate_perfectly(number, va, access, now),
        }
    }

    /// A TLB shootdown, on all cores.
    pub(crate) fn invalidate(&mut self, what: Invalidation) {
        if self.path == TranslationPath::Intermediate {
            return self.invalidate_intermediate(what);
        }
        for core in &mut self.cores {
            core.mmu.invalidate(what);
        }
    }

    /// A core's MMU with its port into the machine.
    #[inline(always)]
    pub(crate) fn with_port<T>(&mut self, number: usize, act: impl FnOnce(&mut Mmu, &mut CorePort<'_>) -> T) -> T {
        let core = &mut self.cores[number];
        let (memory, guest) = match &mut self.hypervisor {
            Some(hypervisor) => (&mut hypervisor.kernel.memory, Some(&mut self.kernel.memory)),
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
        act(&mut core.mmu, &mut port)
    }

    /// The kernel's truth about an access that it allows, after the faults that this takes, and when that is.
    pub(crate) fn truth_until_allowed(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        faults: &mut u32,
    ) -> Result<(Truth, Cycle), Stop> {
        let mut now = now;
        loop {
            let truth = self.kernel.truth(self.cores[number].process, va);
            if oracle::agrees(truth, va, truth.frame().start().offset(va.0 & 0xfff), access) {
                return Ok((truth, now));
            }
            *faults += 1;
            let cause = if truth.present() { FaultCause::Protection } else { FaultCause::NotMapped };
            now = self.fault(number, va, access, cause, *faults)?;
        }
    }

    /// Host-physical for guest-physical by the hypervisor's truth; the address itself without a hypervisor.
    pub(crate) fn host_physical(&self, at: PhysAddr, access: AccessKind) -> Option<PhysAddr> {
        match &self.hypervisor {
            None => Some(at),
            Some(hypervisor) => {
                let va = VirtAddr(at.0);
                let truth = hypervisor.kernel.truth(hypervisor.machine, va);
                let there = truth.present() && (access != AccessKind::Store || truth.writable());
                there.then(|| truth.frame().start().offset(at.0 & 0xfff))
            }
        }
    }

    /// The oracle: whether a translation is the kernel's.
    #[inline(always)]
    pub(crate) fn matches_kernel(&mut self, number: usize, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
        self.checked += 1;
        let truth = self.kernel.truth(self.cores[number].process, va);
        if self.hypervisor.is_none() {
            return oracle::agrees(truth, va, at, access);
        }
        let guest = truth.frame().start().offset(va.0 & 0xfff);
        oracle::agrees(truth, va, guest, access) && self.host_physical(guest, access) == Some(at)
    }

    /// The report of a translation that is not the kernel's: the address, the truth, the steps of the walk.
    #[cold]
    pub(crate) fn mismatch(
        &mut self,
        number: usize,
        va: VirtAddr,
        at: Option<PhysAddr>,
        access: AccessKind,
        truth: Truth,
    ) -> Stop {
        let (memory, guest) = match &self.hypervisor {
            Some(hypervisor) => (&hypervisor.kernel.memory, Some(&self.kernel.memory)),
            None => (&self.kernel.memory, None),
        };
        let mut recorder = oracle::Recorder { memory, guest, steps: Vec::new() };
        let walk = self.cores[number].mmu.walk_untimed(va, &mut recorder);
        let steps = oracle::tell_steps(&walk, &recorder.steps);
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
}
