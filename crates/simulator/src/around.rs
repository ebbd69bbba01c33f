//! Translation around the caches (Midgard): areas before them, pages behind the last level, both checked against the kernel's truth.

use crate::Stop;
use crate::machine::{Located, Machine};
use ambulator_base::{AccessKind, Cycle, FRAME_BYTES, VirtAddr};
use ambulator_mmu::{Invalidation, TableRegisters, Translated};

impl Machine {
    /// The Midgard address of an access. What no cache holds is translated behind the last level, so that main memory is asked when its
    /// frame is known.
    #[cold]
    pub(crate) fn translate_around(
        &mut self,
        number: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
    ) -> Result<Located, Stop> {
        let (truth, now) = self.truth_until_allowed(number, va, access, now, &mut 0)?;
        let Some((at, ready)) = self.with_port(number, |mmu, port| mmu.front_side(va, now, port)) else {
            return Err(self.mismatch(number, va, None, access, truth));
        };
        if self.hierarchy.holds(number, at, access) {
            return Ok(Located { at, ready, issued: now });
        }
        let missed = self.hierarchy.missed_at(ready);
        let behind = self.with_port(number, |mmu, port| mmu.back_side(at, access, missed, port));
        match behind {
            Translated::Physical { at: physical, ready: known } if self.is_true(number, va, physical, access) => {
                self.hierarchy.name(at, physical.pfn(), known);
                Ok(Located { at, ready, issued: now })
            }
            Translated::Physical { at: physical, .. } => Err(self.mismatch(number, va, Some(physical), access, truth)),
            Translated::Fault { .. } => Err(self.mismatch(number, va, None, access, truth)),
        }
    }

    /// A shootdown: the page's Midgard address means nothing any more, on either side of the caches.
    pub(crate) fn invalidate_around(&mut self, what: Invalidation) {
        if let Invalidation::Page { asid, page } = what {
            let process = self.kernel.live_processes().find(|process| self.kernel.asid(*process) == asid);
            let registers = process.map(|process| TableRegisters(self.kernel.intermediate_registers(process)));
            // Addresses of an area that is gone are never used again.
            if let Some(registers) = registers
                && let Some(at) = self.cores[0].mmu.locate(&registers, page.start, &self.kernel.memory)
            {
                self.hierarchy.forget_names(at, page.size.frames() * FRAME_BYTES);
            }
        }
        for core in &mut self.cores {
            core.mmu.invalidate_sides(what);
        }
    }
}
