//! Eager paging: the pages of a request are placed at once, in blocks as large as available (RMM Sec. 5.2,
//! Fig. 5).

use super::RmmSpec;
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Pfn, ProcessId, State, VirtAddr, lock};
use ambulator_memory::BuddyAllocator;
use ambulator_os::{EagerRange, LedgerCause, PlaceContext, PlaceRequest, Placement};
use std::sync::{Arc, Mutex};

ambulator_base::counters! {
    /// Counters of eager paging.
    struct EagerCounters {
        /// Requests placed at once.
        requests: Events,
        /// Blocks allocated for them.
        blocks: Events,
        /// 4 KiB pages placed at once.
        pages: Events,
        /// Requests left to demand paging because memory was too fragmented.
        too_fragmented: Events,
        /// Requests left to demand paging because they are below the threshold.
        too_small: Events,
        /// Requests with too few free frames, whose rest is left to demand paging.
        short: Events,
        /// Blocks contiguous with the previous block.
        adjoining: Events,
        /// 4 KiB pages placed in the memory that was set aside at boot.
        reserved: Events,
    }
}

/// Contiguous frames that were set aside at boot and are not given away yet.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Reserve {
    next: Pfn,
    frames: u64,
}

impl Reserve {
    /// Sets `frames` frames aside; false if no free run is as long.
    pub(crate) fn fill(&mut self, frames: u64, from: &mut BuddyAllocator) -> bool {
        let Some(next) = from.allocate_run(frames, 9) else { return false };
        *self = Reserve { next, frames };
        true
    }

    /// Gives away the next `frames` frames, or as many as are left; `None` if none are.
    fn take(&mut self, frames: u64) -> Option<(Pfn, u64)> {
        let (first, taken) = (self.next, frames.min(self.frames));
        *self = Reserve { next: first.offset(taken), frames: self.frames - taken };
        (taken > 0).then_some((first, taken))
    }
}

/// Places the pages of a request at once, and single pages wherever the buddy allocator has room.
#[derive(State)]
pub(crate) struct EagerPlacement {
    #[state(skip)]
    spec: RmmSpec,
    reserve: Arc<Mutex<Reserve>>,
    counters: EagerCounters,
}

impl EagerPlacement {
    /// Eager paging with a validated spec, and with the memory that was set aside for it.
    pub(crate) fn new(spec: &RmmSpec, reserve: Arc<Mutex<Reserve>>) -> EagerPlacement {
        EagerPlacement { spec: spec.clone(), reserve, counters: EagerCounters::default() }
    }

    /// The next block for a request with `pages` pages left: its first frame and its number of pages.
    fn block(&mut self, pages: u64, next: Option<Pfn>, os: &mut PlaceContext<'_>) -> Option<(Pfn, u64)> {
        if let Some((frame, taken)) = lock(&self.reserve).take(pages) {
            self.counters.reserved += taken;
            return Some((frame, taken));
        }
        let most = os.frames.max_block_order().min(pages.ilog2());
        if self.spec.join_blocks
            && let Some(next) = next
        {
            // The largest block contiguous with the last one.
            let aligned = next.0.trailing_zeros().min(most);
            if let Some(order) = (0..=aligned).rev().find(|order| os.frames.allocate_at(next, *order)) {
                self.counters.adjoining += 1;
                return Some((next, 1 << order));
            }
        }
        if self.spec.cut_blocks && !pages.is_power_of_two() {
            // A larger block than requested, whose rest is freed.
            let larger = pages.ilog2() + 1;
            if larger <= os.frames.max_block_order()
                && let Some(at) = os.frames.allocate(larger)
            {
                os.frames.free_range(at.offset(pages), (1 << larger) - pages);
                return Some((at, pages));
            }
        }
        (0..=most).rev().find_map(|order| Some((os.frames.allocate(order)?, 1 << order)))
    }
}

impl Placement for EagerPlacement {
    #[inline]
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        os.frames.allocate(request.page.size.order())
    }

    fn vma_added(
        &mut self,
        _process: ProcessId,
        start: VirtAddr,
        end: VirtAddr,
        os: &mut PlaceContext<'_>,
    ) -> Vec<EagerRange> {
        let mut left = (end.0 - start.0) / FRAME_BYTES;
        if left < self.spec.threshold {
            self.counters.too_small += 1;
            return Vec::new();
        }
        let order = self.spec.fragmentation_order.min(os.frames.max_block_order());
        if lock(&self.reserve).frames == 0 && os.frames.fmfi(order) > self.spec.fragmentation_limit {
            self.counters.too_fragmented += 1;
            return Vec::new();
        }
        self.counters.requests += 1;
        let mut ranges: Vec<EagerRange> = Vec::new();
        let mut at = start;
        while left > 0 {
            let next = ranges.last().map(|range| range.frame.offset(range.pages));
            let Some((frame, pages)) = self.block(left, next, os) else {
                self.counters.short += 1;
                break;
            };
            let bytes = pages * FRAME_BYTES;
            let cycles = os.costs.allocation(bytes, 0.0).unwrap_or(0);
            os.ledger.charge(LedgerCause::Allocate, cycles);
            self.counters.blocks += 1;
            self.counters.pages += pages;
            ranges.push(EagerRange { start: at, frame, pages });
            at = at.offset(bytes);
            left -= pages;
        }
        ranges
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.eager"), sink);
    }
}
