//! Translation in the run loop: the MMU asked, faults served, the oracle heard.

use crate::machine::{Located, Machine};
use crate::{Stop, oracle};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};
use ambulator_mmu::{CorePort, FaultCause, Mmu, Translated};
use ambulator_os::PageState;

impl Machine {
    /// Translates, serves faults until the page is there, and asks the oracle.
    #[inline(always)]
    pub(crate) fn translate(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        if self.perfect {
            return self.translate_perfectly(number, va, access, now);
        }
        if self.named {
            return self.translate_around(number, va, access, now);
        }
        if access != AccessKind::Fetch
            && let Some((at, ready)) = self.cores[number].mmu.recall(va, access, now)
        {
            // The oracle heard this very translation, and the kernel has not acted since.
            self.checked += u64::from(self.oracle);
            return Ok(Located { at, ready, issued: now });
        }
        // The way without a fault must not pass through a `Result` of several words: host stores of single words that are
        // loaded again as one wide word stall, and cost a tenth of all time here.
        let answer = self.ask_mmu(number, va, access, now);
        if let Translated::Physical { at, ready } = answer
            && (!self.oracle || self.is_true(number, va, at, access))
        {
            return Ok(Located { at, ready, issued: now });
        }
        self.translate_further(number, va, access, now, answer)
    }

    /// The MMU's answer.
    #[inline(always)]
    pub(crate) fn ask_mmu(&mut self, number: usize, va: VirtAddr, access: AccessKind, now: Cycle) -> Translated {
        self.with_port(number, |mmu, port| mmu.translate(va, access, now, port))
    }

    /// A core's MMU with its port into the machine.
    #[inline(always)]
    pub(crate) fn with_port<T>(&mut self, number: usize, act: impl FnOnce(&mut Mmu, &mut CorePort<'_>) -> T) -> T {
        let core = &mut self.cores[number];
        let (memory, guest) = match &mut self.host {
            Some(host) => (&mut host.kernel.memory, Some(&mut self.kernel.memory)),
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

    /// What [`Machine::translate`] does when the first answer was a fault, or was wrong.
    #[cold]
    pub(crate) fn translate_further(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        first: Translated,
    ) -> Result<Located, Stop> {
        let mut now = now;
        let mut faults = 0;
        let mut answer = first;
        loop {
            match answer {
                Translated::Physical { at, ready } => {
                    if self.oracle && !self.is_true(number, va, at, access) {
                        let truth = self.kernel.page_state(self.cores[number].process, va);
                        return Err(self.mismatch(number, va, Some(at), access, truth));
                    }
                    return Ok(Located { at, ready, issued: now });
                }
                Translated::Fault { cause, .. } => {
                    faults += 1;
                    now = self.fault(number, va, access, cause, faults)?;
                    answer = self.ask_mmu(number, va, access, now);
                }
            }
        }
    }

    /// The perfect TLB: the kernel's truth, at once.
    pub(crate) fn translate_perfectly(
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
            self.checked += 1;
            if let Some(at) = self.host_physical(at, access) {
                return Ok(Located { at, ready: now, issued: now });
            }
            faults += 1;
            now = self.fault(number, va, access, FaultCause::Host(at), faults)?;
        }
    }

    /// The kernel's truth about an access that it allows, after the faults that this takes, and when that is.
    pub(crate) fn truth_until_allowed(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        faults: &mut u32,
    ) -> Result<(PageState, Cycle), Stop> {
        let mut now = now;
        loop {
            let truth = self.kernel.page_state(self.cores[number].process, va);
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
        match &self.host {
            None => Some(at),
            Some(host) => {
                let va = VirtAddr(at.0);
                let truth = host.kernel.page_state(host.machine, va);
                let there = truth.present() && (access != AccessKind::Store || truth.writable());
                there.then(|| truth.frame().start().offset(at.0 & 0xfff))
            }
        }
    }

    /// The oracle: whether a translation is the kernel's.
    #[inline(always)]
    pub(crate) fn is_true(&mut self, number: usize, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
        self.checked += 1;
        let truth = self.kernel.page_state(self.cores[number].process, va);
        if self.host.is_none() {
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
        truth: PageState,
    ) -> Stop {
        let (memory, guest) = match &self.host {
            Some(host) => (&host.kernel.memory, Some(&self.kernel.memory)),
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
