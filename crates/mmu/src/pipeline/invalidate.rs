//! What a core's MMU forgets: shootdowns, flushes, and identifiers of address spaces that go to others.

use super::Mmu;
use crate::Invalidation;
use ambulator_base::Asid;

impl Mmu {
    pub(crate) fn invalidate_walker(&mut self, what: Invalidation) {
        self.walker.invalidate(what);
    }

    /// Empties the L1 TLBs: those of a machine whose TLBs are the simulator's around it.
    pub fn empty_first_level(&mut self) {
        self.data.invalidate(Invalidation::All);
        self.instructions.invalidate(Invalidation::All);
    }

    /// A shootdown, INVLPG or flush.
    pub fn invalidate(&mut self, what: Invalidation) {
        self.invalidate_core(what);
        if let Some(lookaside) = &mut self.lookaside {
            lookaside.invalidate(what);
        }
    }

    /// The core's identifier of an address space goes to another one: the structures of this core lose the
    /// translations of the first.
    pub fn recycle(&mut self, asid: Asid) {
        let what = Invalidation::Asid(asid);
        self.invalidate_core(what);
        if let Some(lookaside) = &mut self.lookaside {
            lookaside.recycle(asid);
        }
        if let Some(sides) = &mut self.sides {
            sides.invalidate(what, what);
        }
    }

    /// Invalidates in what each core has for itself.
    fn invalidate_core(&mut self, what: Invalidation) {
        self.counters.invalidations += 1;
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.queue.invalidate(what);
        }
        self.data.invalidate(what);
        self.instructions.invalidate(what);
        self.second.invalidate(what);
        self.walker.invalidate(what);
        if let Some(speculator) = &mut self.speculator {
            speculator.invalidate(what);
        }
    }

    /// The hypervisor removed translations: invalidates them in the second stage, and all combined
    /// translations.
    pub fn invalidate_hypervisor(&mut self, what: Invalidation) {
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.invalidate(what);
        }
        self.data.invalidate(Invalidation::All);
        self.instructions.invalidate(Invalidation::All);
        self.second.invalidate(Invalidation::All);
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.queue.invalidate(Invalidation::All);
        }
        if let Some(lookaside) = &mut self.lookaside {
            lookaside.invalidate(Invalidation::All);
        }
    }

    /// The kernel has run and may have changed mappings: the recent translations are looked up in the TLB
    /// again.
    #[inline]
    pub fn forget_recent(&mut self) {
        self.data.recent.forget();
        self.instructions.recent.forget();
    }
}
