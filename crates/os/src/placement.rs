//! The placement socket: where does the page of a fault go?

use crate::{CostTable, Ledger};
use ambulator_base::{Asid, CounterSink, Page, PageSize, Pfn, ProcessId, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// A page that needs frames.
#[derive(Clone, Copy, Debug)]
pub struct PlaceRequest {
    /// Whose page.
    pub process: ProcessId,
    /// Its address space.
    pub asid: Asid,
    /// Which page; its size says how many frames, aligned to that size.
    pub page: Page,
    /// First address of the VMA.
    pub vma_start: VirtAddr,
    /// First address behind the VMA.
    pub vma_end: VirtAddr,
}

/// What a placement works with.
pub struct PlaceContext<'a> {
    /// Bytes of physical memory: where a placement keeps what it must remember.
    pub memory: &'a mut PhysicalMemory,
    /// All frames.
    pub frames: &'a mut BuddyAllocator,
    /// Where work is charged.
    pub ledger: &'a mut Ledger,
    /// What work costs.
    pub costs: &'a CostTable,
}

/// Frames that a placement wants mapped at once when a VMA appears (eager paging).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerRange {
    /// First page.
    pub start: VirtAddr,
    /// First frame.
    pub frame: Pfn,
    /// 4 KiB pages.
    pub pages: u64,
}

/// Where pages go: to the frames that a hash or a set allows, to blocks taken eagerly, or wherever the buddy
/// allocator has room.
pub trait Placement: Send {
    /// Takes frames for a page out of the allocator. `None` when there are none: the kernel reclaims and asks
    /// again, or takes a smaller page.
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn>;

    /// Pages of which the first that can be is evicted before this page can be placed where it belongs; none
    /// if there is room, or it belongs anywhere. `migrates` if the page is to move there from elsewhere.
    fn eviction_candidates(
        &mut self,
        _request: &PlaceRequest,
        _migrates: bool,
        _os: &mut PlaceContext<'_>,
    ) -> Vec<(ProcessId, Page)> {
        Vec::new()
    }

    /// Whether evicted pages go to swap instead of to frames elsewhere.
    fn evicts_to_swap(&self) -> bool {
        false
    }

    /// Takes frames of a segment of its own for a page that is elsewhere. `None` if it has none.
    fn allocate_for_migration(&mut self, _request: &PlaceRequest, _os: &mut PlaceContext<'_>) -> Option<Pfn> {
        None
    }

    /// Frames that nobody owns any more; true if they are of a segment of the placement's own, which the
    /// allocator knows nothing of.
    fn take_back(&mut self, _frame: Pfn, _size: PageSize) -> bool {
        false
    }

    /// Whether a frame is of a segment of the placement's own.
    fn owns(&self, _frame: Pfn) -> bool {
        false
    }

    /// A page's frames have gone back to the allocator.
    fn freed(&mut self, _frame: Pfn, _size: PageSize) {}

    /// Appends blocks of a guest's frames, and how many each has, that the guest told the hypervisor it uses
    /// no more.
    fn take_released(&mut self, _released: &mut Vec<(Pfn, u64)>) {}

    /// A VMA has appeared; what is returned is mapped at once, its frames taken already.
    fn vma_added(
        &mut self,
        _process: ProcessId,
        _start: VirtAddr,
        _end: VirtAddr,
        _os: &mut PlaceContext<'_>,
    ) -> Vec<EagerRange> {
        Vec::new()
    }

    /// Hands its counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// The buddy allocator as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuddyPlacement;

impl Placement for BuddyPlacement {
    #[inline]
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        os.frames.allocate(request.page.size.order())
    }
}
