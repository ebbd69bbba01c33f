//! Eager paging: the pages of a request are placed at once, in blocks as large as available (RMM Sec. 5.2,
//! Fig. 5).

use super::RmmSpec;
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Pfn, ProcessId, State, VirtAddr};
use ambulator_os::{EagerRange, LedgerCause, PlaceContext, PlaceRequest, Placement};

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
    }
}

/// Places the pages of a request at once, and single pages wherever the buddy allocator has room.
#[derive(State)]
pub(crate) struct EagerPlacement {
    #[state(skip)]
    spec: RmmSpec,
    counters: EagerCounters,
}

impl EagerPlacement {
    /// Eager paging with a validated spec.
    pub(crate) fn new(spec: &RmmSpec) -> EagerPlacement {
        EagerPlacement { spec: spec.clone(), counters: EagerCounters::default() }
    }

    /// The next block for a request with `pages` pages left: its first frame and its number of pages.
    fn block(&mut self, pages: u64, next: Option<Pfn>, os: &mut PlaceContext<'_>) -> Option<(Pfn, u64)> {
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
        if os.frames.fmfi(order) > self.spec.fragmentation_limit {
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
