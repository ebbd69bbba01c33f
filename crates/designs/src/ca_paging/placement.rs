//! The placement of pages at the offset of their VMA.

use super::CaPagingSpec;
use super::clusters::NextFit;
use ambulator_base::{CounterSink, Counters, PageSize, Pfn, ProcessId, State, VirtAddr};
use ambulator_os::{PlaceContext, PlaceRequest, Placement};
use std::collections::BTreeMap;

ambulator_base::counters! {
    /// Counters of contiguity-aware paging.
    pub(super) struct CaCounters {
        /// VMAs placed at their first fault.
        placed: Events,
        /// Times that the rest of a VMA was placed again because a frame was taken.
        placed_again: Events,
        /// Pages that got the frame at the offset of their VMA.
        at_offset: Events,
        /// Pages whose frame at the offset was taken, or beyond the memory.
        target_taken: Events,
        /// Pages that went anywhere because no cluster was free.
        no_cluster: Events,
        /// Pages that went anywhere: base pages that may not be placed again, and those above a cluster.
        anywhere: Events,
    }
}

/// From an address of a VMA on, up to the next one: the offset of its pages.
#[derive(Clone, Copy, Debug, Default, State)]
struct SubVma {
    /// Number of the page minus number of its frame.
    offset: i64,
    /// Counts the sub-VMAs: the lowest is the oldest.
    number: u64,
}

/// Contiguity-aware paging of one kernel.
#[derive(State)]
pub(crate) struct CaPlacement {
    #[state(skip)]
    spec: CaPagingSpec,
    /// By process, and by first address.
    sub_vmas: BTreeMap<ProcessId, BTreeMap<u64, SubVma>>,
    next_fit: NextFit,
    made: u64,
    counters: CaCounters,
}

impl CaPlacement {
    /// No VMA is placed yet.
    pub(crate) fn new(spec: &CaPagingSpec) -> CaPlacement {
        CaPlacement {
            spec: spec.clone(),
            sub_vmas: BTreeMap::new(),
            next_fit: NextFit::default(),
            made: 0,
            counters: CaCounters::default(),
        }
    }

    /// The offset for a page: that of the nearest sub-VMA below it, or else above it. And the pages from it
    /// up to the next sub-VMA, or to the end of the VMA.
    fn offset(&self, request: &PlaceRequest) -> (Option<i64>, u64) {
        let (at, start, end) = (request.page.start.0, request.vma_start.0, request.vma_end.0);
        let all = self.sub_vmas.get(&request.process);
        let below = all.and_then(|all| all.range(start..=at).next_back());
        let above = all.and_then(|all| all.range(at + 1..end.max(at + 1)).next());
        let until = above.map_or(end, |(next, _)| *next);
        (below.or(above).map(|(_, own)| own.offset), (until - at).div_ceil(PageSize::SIZE_4K.bytes()))
    }

    /// Chooses a run for `pages` pages that begins at the 2 MiB of `first`; records the offset from the page
    /// of the request on.
    fn choose(&mut self, request: &PlaceRequest, first: VirtAddr, pages: u64, os: &PlaceContext<'_>) -> Option<i64> {
        let order = self.spec.cluster_order.min(os.frames.max_block_order());
        let frame = self.next_fit.choose(pages, order, os.frames)?;
        let offset = first.align_down(PageSize::SIZE_2M).vpn().0 as i64 - frame.0 as i64;
        let own = self.sub_vmas.entry(request.process).or_default();
        let of_vma = own.range(request.vma_start.0..request.vma_end.0);
        if of_vma.clone().count() >= self.spec.sub_vmas as usize
            && let Some(oldest) = of_vma.min_by_key(|(_, sub_vma)| sub_vma.number).map(|(at, _)| *at)
        {
            own.remove(&oldest);
        }
        self.made += 1;
        own.insert(request.page.start.0, SubVma { offset, number: self.made });
        Some(offset)
    }
}

/// Allocates the frames of a page at an offset.
fn allocate_at(request: &PlaceRequest, offset: i64, os: &mut PlaceContext<'_>) -> Option<Pfn> {
    let target = u64::try_from(request.page.start.vpn().0 as i64 - offset).ok()?;
    let size = request.page.size;
    let is_within = target + size.frames() <= os.frames.total_frames() && target.is_multiple_of(size.frames());
    (is_within && os.frames.allocate_at(Pfn(target), size.order())).then_some(Pfn(target))
}

impl Placement for CaPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        os.frames.group_by_mobility();
        let order = request.page.size.order();
        if order > self.spec.cluster_order.min(os.frames.max_block_order()) {
            self.counters.anywhere += 1;
            return os.frames.allocate(order);
        }
        let (known, rest) = self.offset(request);
        let offset = known.or_else(|| {
            let pages = (request.vma_end.0 - request.vma_start.0).div_ceil(PageSize::SIZE_4K.bytes());
            let chosen = self.choose(request, request.vma_start, pages, os);
            self.counters.placed += u64::from(chosen.is_some());
            chosen
        });
        let Some(offset) = offset else {
            self.counters.no_cluster += 1;
            return os.frames.allocate(order);
        };
        if let Some(frame) = allocate_at(request, offset, os) {
            self.counters.at_offset += 1;
            return Some(frame);
        }
        self.counters.target_taken += 1;
        if order == 0 && !self.spec.replace_base {
            self.counters.anywhere += 1;
            return os.frames.allocate(order);
        }
        let again = self.choose(request, request.page.start, rest, os);
        let Some(frame) = again.and_then(|offset| allocate_at(request, offset, os)) else {
            self.counters.no_cluster += 1;
            return os.frames.allocate(order);
        };
        self.counters.placed_again += 1;
        self.counters.at_offset += 1;
        Some(frame)
    }

    fn vma_removed(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) {
        if let Some(own) = self.sub_vmas.get_mut(&process) {
            own.retain(|at, _| !(start.0..end.0).contains(at));
        }
    }

    fn process_ended(&mut self, process: ProcessId) {
        self.sub_vmas.remove(&process);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.ca_paging"), sink);
    }
}

#[cfg(test)]
impl CaPlacement {
    pub(crate) fn counters(&self) -> &CaCounters {
        &self.counters
    }

    pub(crate) fn sub_vmas_for_test(&self) -> usize {
        self.sub_vmas.values().map(BTreeMap::len).sum()
    }
}
