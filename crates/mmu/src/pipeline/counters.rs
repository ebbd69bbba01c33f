//! What a core's MMU counts.

use super::Mmu;
use ambulator_base::{CounterSink, Counters, Histogram};

ambulator_base::counters! {
    /// Counters of a core's MMU.
    pub struct MmuCounters {
        /// Translations of data accesses that hit in the L1 data TLB.
        l1d_tlb_hits: Events timed,
        /// Translations of data accesses that missed the L1 data TLB or joined a walk in flight.
        l1d_tlb_misses: Events timed,
        /// Translations of fetches that hit in the L1 instruction TLB.
        l1i_tlb_hits: Events timed,
        /// Translations of fetches that missed the L1 instruction TLB.
        l1i_tlb_misses: Events timed,
        /// L1 TLB misses that joined a walk or an L2 look-up in flight for the page.
        joined: Events timed,
        /// L1 TLB misses that hit in the L2 TLB.
        l2_tlb_hits: Events,
        /// L1 TLB misses that missed the L2 TLB.
        l2_tlb_misses: Events,
        /// Look-ups of the lookaside: after L1 or L2 TLB misses (by design), and to set dirty bits.
        lookaside_probes: Events,
        /// L1 TLB misses that hit in the lookaside.
        lookaside_hits: Events,
        /// L2 TLB misses that a prefetched translation served.
        prefetch_hits: Events timed,
        /// Page walks started for TLB misses.
        walks: Events,
        /// Page walks repeated to set a dirty bit that the TLB entry lacked.
        dirty_assists: Events,
        /// Cycles of page walks, from their start on a walker to their result.
        walk_cycles: Cycles timed,
        /// Cycles that TLB misses waited for a free walker.
        walker_queue_cycles: Cycles timed,
        /// Loads that page walks issued to the memory hierarchy.
        walk_accesses: Events,
        /// Cycles that accesses spent in the MMU, TLB look-ups included.
        mmu_cycles: Cycles timed,
        /// Translations that ended in a page fault of any kind.
        faults: Events,
        /// Data lines fetched by speculation.
        speculated_data: Events,
        /// Table lines fetched by speculation.
        speculated_table: Events,
        /// Cycles that accesses waited for the copy of a migrating page.
        hold_cycles: Cycles timed,
        /// Invalidations received.
        invalidations: Events,
    }
}

impl Mmu {
    /// Reports all counters of the MMU and its components to `sink`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
        self.walker.report(&format!("{prefix}.walker"), sink);
        if let Some(hypervisor) = &self.hypervisor {
            hypervisor.report(&format!("{prefix}.nested"), sink);
        }
        if let Some(lookaside) = &self.lookaside {
            lookaside.report(&format!("{prefix}.lookaside"), sink);
        }
        if let Some(speculator) = &self.speculator {
            speculator.report(&format!("{prefix}.speculation"), sink);
        }
        if let Some(prefetching) = &self.prefetching {
            prefetching.report(&format!("{prefix}.tlb_prefetch"), sink);
        }
        if let Some(sides) = &self.sides {
            sides.front.report(&format!("{prefix}.front_side"), sink);
        }
    }

    /// Sets all counters to zero (the end of warm-up); contents stay.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.walk_latency = Histogram::default();
        self.walk_loads = Histogram::default();
        self.walker.reset_counters();
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.reset_counters();
        }
        if let Some(lookaside) = &mut self.lookaside {
            lookaside.reset_counters();
        }
        if let Some(speculator) = &mut self.speculator {
            speculator.reset_counters();
        }
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.reset_counters();
        }
        if let Some(sides) = &mut self.sides {
            sides.front.reset_counters();
        }
    }
}
