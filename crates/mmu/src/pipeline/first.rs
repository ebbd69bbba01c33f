//! What the L1 data TLB answers alone: most accesses need no more, so that callers look there first.

use super::{Mmu, permits_at_once};
use crate::tlb::usable;
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};

/// What the L1 data TLB alone knows of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLookUp {
    /// It hits, and the access may use the entry at once.
    Hit {
        /// What [`Mmu::translate`] would return as the physical address.
        at: PhysAddr,
        /// When that is known.
        ready: Cycle,
        /// Stores are allowed and need no walk to set the dirty bit.
        stores: bool,
    },
    /// It misses: [`Mmu::translate_missed`] goes on. Nothing has changed.
    Missed,
    /// The entry does not permit the access yet: [`Mmu::translate`] goes on. Nothing has changed but the
    /// entry's place in the order of use, which that changes as well.
    Restricted,
}

impl Mmu {
    /// The result that [`Mmu::translate`] would return for a data access, if it is the result of the page's
    /// last access, nothing has changed since, and the look-up would change counters only.
    #[inline(always)]
    pub fn recall(&mut self, va: VirtAddr, access: AccessKind, now: Cycle) -> Option<(PhysAddr, Cycle)> {
        let (at, ready, _) = self.recall_uncounted(va, access, now)?;
        self.count_first_hits(1);
        Some((at, ready))
    }

    #[inline(always)]
    fn recall_uncounted(&self, va: VirtAddr, access: AccessKind, now: Cycle) -> Option<(PhysAddr, Cycle, bool)> {
        let (at, usable, stores) = self.data.recent.recall(va, access)?;
        let ready = now.after(self.l1_latency.saturating_sub(1));
        (usable <= ready).then_some((at, ready, stores))
    }

    /// Whether a store to the page of the latest access would be recalled as well.
    #[inline(always)]
    pub fn recalls_store(&self, va: VirtAddr) -> bool {
        self.data.recent.recall(va, AccessKind::Store).is_some()
    }

    /// Looks a data access up in the L1 TLB. The caller counts hits, many at once
    /// ([`Mmu::count_first_hits`]), and goes on as [`FirstLookUp`] says after anything else.
    #[inline(always)]
    pub fn look_up_first(&mut self, va: VirtAddr, access: AccessKind, now: Cycle) -> FirstLookUp {
        if let Some((at, ready, stores)) = self.recall_uncounted(va, access, now) {
            return FirstLookUp::Hit { at, ready, stores };
        }
        let Some(entry) = self.data.lookup(self.asid, va) else { return FirstLookUp::Missed };
        let found = entry.translation();
        let ready = now.after(self.l1_latency.saturating_sub(1));
        let stores = found.writable && found.dirty;
        if (access == AccessKind::Load || stores) && entry.ready <= ready {
            FirstLookUp::Hit { at: found.physical(va), ready, stores }
        } else {
            FirstLookUp::Restricted
        }
    }

    /// The result that [`Mmu::translate`] would return for a data access that finds an entry in the L1 TLB which
    /// permits it, also one that a walk in flight fills. The caller counts it ([`Mmu::count_first_answer`]).
    /// `None` means that no such entry is there.
    #[inline(always)]
    pub fn first_answer(&mut self, va: VirtAddr, access: AccessKind, now: Cycle) -> Option<(PhysAddr, Cycle)> {
        if let Some((at, ready, _)) = self.recall_uncounted(va, access, now) {
            return Some((at, ready));
        }
        let entry = self.data.lookup(self.asid, va)?;
        let found = entry.translation();
        let ready = usable(now.after(self.l1_latency.saturating_sub(1)), entry.ready);
        permits_at_once(&found, access).then(|| (found.physical(va), ready))
    }

    /// Whether what [`Mmu::first_answer`] has found for an access at `now` is filled by a walk in flight: it may be used at
    /// `ready`.
    #[inline(always)]
    pub fn joins(&self, now: Cycle, ready: Cycle) -> bool {
        ready > now.after(self.l1_latency.saturating_sub(1))
    }

    /// Counts what [`Mmu::first_answer`] has found for an access at `now`: an entry that may be used at `ready`.
    #[inline(always)]
    pub fn count_first_answer(&mut self, now: Cycle, ready: Cycle) {
        let joined = u64::from(self.joins(now, ready));
        self.counters.joined += joined;
        self.counters.mmu_cycles += ready.since(now).max(self.l1_latency);
        self.counters.l1d_tlb_hits += 1 - joined;
        self.counters.l1d_tlb_misses += joined;
    }

    /// Counts hits of the L1 data TLB that were found by [`Mmu::look_up_first`].
    #[inline(always)]
    pub fn count_first_hits(&mut self, hits: u64) {
        self.counters.mmu_cycles += hits * self.l1_latency;
        self.counters.l1d_tlb_hits += hits;
    }
}
