//! The path through an intermediate address space: VMAs are translated before the caches, pages after the
//! last level. Both are checked against the kernel.

use super::Translator;
use crate::Stop;
use crate::hardware::Hardware;
use crate::machine::Located;
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, FRAME_BYTES, Pfn, VirtAddr};
use ambulator_mmu::{Invalidation, TableRegisters, Translated};
use ambulator_os::Kernel;

impl Translator<'_> {
    /// The intermediate address of an access. A miss in all caches is translated after the last level, so
    /// that main memory is accessed once the frame is known.
    #[cold]
    pub(super) fn translate_by_intermediate(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let (state, now) = self.page_state_when_allowed(number, va, access, now, &mut 0)?;
        if access != AccessKind::Fetch && self.hw.walks_behind() {
            return self.translate_before_caches(number, va, access, state.frame(), now);
        }
        let before = self.hw.before_recorded(number);
        let located = self.translate_on_both_sides(number, va, access, now)?;
        self.hw.record_translation(number, (va, access), (now, located.ready.max(located.known)), before);
        Ok(located)
    }

    /// The intermediate address of a load or a store of a page that needs no fault. If it misses all caches, its page is
    /// walked when that is known.
    fn translate_before_caches(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        frame: Pfn,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let before = self.hw.before_recorded(number);
        let memories = self.os.memories_mut();
        let Some((at, ready)) = self.hw.with_port(number, memories, |mmu, port| mmu.front_side(va, now, port)) else {
            return Err(self.mismatch(number, va, None, access));
        };
        self.hw.hierarchy.place_intermediate(at, va, frame, access == AccessKind::Store);
        self.hw.record_translation(number, (va, access), (now, ready), before);
        Ok(Located { at, ready, issued: now, known: ready })
    }

    /// As [`Translator::translate_by_intermediate`], of a page that needs no fault.
    fn translate_on_both_sides(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let Some((at, ready)) =
            self.hw.with_port(number, self.os.memories_mut(), |mmu, port| mmu.front_side(va, now, port))
        else {
            return Err(self.mismatch(number, va, None, access));
        };
        if self.hw.hierarchy.holds(number, at, access) {
            watch::step(|| {
                let step = Step::new(StepKind::Caches, "caches, by intermediate address", ready, ready);
                Step { hit: Some(true), ..step.says("hold the line: no page is translated") }
            });
            return Ok(Located { at, ready, issued: now, known: ready });
        }
        let asked = match access {
            AccessKind::Store if self.hw.timing() => self.hw.cores[number].window.store_asks(now, ready),
            _ => ready,
        };
        let missed = self.hw.hierarchy.miss_known(asked);
        tell_missed(ready, missed);
        let back =
            self.hw.with_port(number, self.os.memories_mut(), |mmu, port| mmu.back_side(at, access, missed, port));
        let process = self.hw.cores[number].process;
        match back {
            Translated::Physical { at: physical, ready: known }
                if self.checker.matches_kernel(self.os, process, va, physical, access) =>
            {
                self.hw.hierarchy.map_intermediate(at, physical.pfn(), known);
                Ok(Located { at, ready, issued: now, known })
            }
            Translated::Physical { at: physical, .. } => Err(self.mismatch(number, va, Some(physical), access)),
            Translated::Fault { .. } => Err(self.mismatch(number, va, None, access)),
        }
    }
}

/// For a watch: an access that asked the caches has missed all of them.
pub(crate) fn tell_missed(asked: Cycle, missed: Cycle) {
    watch::step(|| {
        let step = Step::new(StepKind::Caches, "caches, by intermediate address", asked, missed);
        Step { hit: Some(false), ..step.says("all miss: the page is translated after the last level") }
    });
}

impl Hardware {
    /// A TLB shootdown: the page's intermediate address loses its frame, on both sides of the caches.
    pub(super) fn invalidate_intermediate(&mut self, what: Invalidation, kernel: &Kernel) {
        if let Invalidation::Page { asid, page } = what {
            let process = kernel.live_processes().find(|process| kernel.asid(*process) == asid);
            let registers = process.map(|process| TableRegisters(kernel.intermediate_registers(process)));
            // Addresses of an unmapped VMA are never reused.
            if let Some(registers) = registers
                && let Some(at) = self.cores[0].mmu.locate(&registers, page.start, &kernel.memory)
            {
                self.hierarchy.unmap_intermediate(at, page.size.frames() * FRAME_BYTES);
            }
        }
        for core in &mut self.cores {
            core.mmu.invalidate_sides(what);
        }
    }
}
