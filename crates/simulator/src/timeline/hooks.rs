//! What the machine tells a recording, if there is one.

use super::recording::Translated;
use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use ambulator_base::{AccessKind, Cycle, VirtAddr, watch};
use ambulator_mmu::MmuCounters;
use ambulator_os::Shootdown;

impl Hardware {
    /// What a core's MMU has counted, before a translation that is recorded.
    pub(crate) fn before_recorded(&self, number: usize) -> Option<MmuCounters> {
        self.recording.as_ref().map(|_| self.cores[number].mmu.counters.clone())
    }

    /// A translation of a core from one cycle to another has ended.
    pub(crate) fn record_translation(
        &mut self,
        number: usize,
        (va, access): (VirtAddr, AccessKind),
        (from, until): (Cycle, Cycle),
        before: Option<MmuCounters>,
    ) {
        if let (Some(recording), Some(before)) = (&mut self.recording, before) {
            let core = &self.cores[number];
            let (process, after, steps) = (core.process.0, core.mmu.counters.clone(), watch::take());
            recording.translation(Translated { core: number, va, process, access, from, until, before, after, steps });
        }
    }

    /// The kernel of a core requests TLB shootdowns.
    pub(crate) fn record_shootdowns(&mut self, number: usize, shootdowns: &[Shootdown]) {
        if let Some(recording) = &mut self.recording {
            let now = self.cores[number].window.retired_cycle();
            shootdowns.iter().for_each(|shootdown| recording.shootdown(now, shootdown));
        }
    }

    /// An action of the operating system for a core has ended.
    pub(crate) fn record_action(&mut self, number: usize, os: &OperatingSystem) {
        if let Some(recording) = &mut self.recording {
            recording.settled(os, self.cores[number].window.retired_cycle());
        }
    }
}
