//! The placement socket: the choice of frames for pages.

use crate::{CostTable, Ledger};
use ambulator_base::{Asid, CounterSink, Page, PageSize, Pfn, PhysAddr, ProcessId, State, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// A page that needs frames.
#[derive(Clone, Copy, Debug)]
pub struct PlaceRequest {
    /// The process.
    pub process: ProcessId,
    /// The address-space identifier of the process.
    pub asid: Asid,
    /// The page. Its frames are aligned to its size.
    pub page: Page,
    /// First address of the VMA.
    pub vma_start: VirtAddr,
    /// First address after the VMA.
    pub vma_end: VirtAddr,
}

/// The context of a placement.
pub struct PlaceContext<'a> {
    /// Bytes of physical memory, for data structures of the placement.
    pub memory: &'a mut PhysicalMemory,
    /// All frames.
    pub frames: &'a mut BuddyAllocator,
    /// The ledger for charging its work.
    pub ledger: &'a mut Ledger,
    /// Costs of actions.
    pub costs: &'a CostTable,
}

/// Frames that a placement maps when a VMA is created (eager paging).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EagerRange {
    /// First page.
    pub start: VirtAddr,
    /// First frame.
    pub frame: Pfn,
    /// Number of 4 KiB pages.
    pub pages: u64,
}

/// Where a range was in the memory of the machine that a trace was recorded on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedPlace {
    /// The process.
    pub process: ProcessId,
    /// The process that it was forked from, however many forks ago; itself without one. Processes with the
    /// same one were recorded on the same machine.
    pub origin: ProcessId,
    /// First address of the range.
    pub start: VirtAddr,
    /// Bytes.
    pub len: u64,
    /// Its physical address there.
    pub at: PhysAddr,
    /// The size of its pages there.
    pub page: PageSize,
}

/// The choice of frames for pages: those that a hash or a set allows, eagerly allocated blocks, or any free
/// frame of the buddy allocator.
pub trait Placement: State + Send {
    /// Allocates frames for a page. `None` if there are none: the kernel then reclaims and tries again, or
    /// uses a smaller page.
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn>;

    /// Candidates for eviction to make room for this page. The kernel evicts the first one that can move.
    /// Empty if there is room, or if any frame will do. `migrates` if the page is already mapped in other
    /// frames.
    fn eviction_candidates(
        &mut self,
        _request: &PlaceRequest,
        _migrates: bool,
        _os: &mut PlaceContext<'_>,
    ) -> Vec<(ProcessId, Page)> {
        Vec::new()
    }

    /// Whether evicted pages go to swap instead of to other frames.
    fn evicts_to_swap(&self) -> bool {
        false
    }

    /// Allocates frames of its own segments for a page that is mapped in other frames. `None` if there are
    /// none.
    fn allocate_for_migration(&mut self, _request: &PlaceRequest, _os: &mut PlaceContext<'_>) -> Option<Pfn> {
        None
    }

    /// Frees frames if they belong to a segment of the placement, which the allocator does not manage. False
    /// if they belong to the allocator.
    fn take_back(&mut self, _frame: Pfn, _size: PageSize, _os: &mut PlaceContext<'_>) -> bool {
        false
    }

    /// Frees the frames that it has reserved for pages to come, because memory is scarce. Returns their
    /// number.
    fn release_reserved(&mut self, _os: &mut PlaceContext<'_>) -> u64 {
        0
    }

    /// Whether a frame belongs to a segment of the placement.
    fn owns(&self, _frame: Pfn) -> bool {
        false
    }

    /// A page's frames have been freed.
    fn freed(&mut self, _frame: Pfn, _size: PageSize) {}

    /// Appends the blocks of frames, with their number of frames, that a guest has returned to the
    /// hypervisor.
    fn take_released(&mut self, _released: &mut Vec<(Pfn, u64)>) {}

    /// A VMA was created. The kernel maps the returned ranges at once; their frames are allocated already.
    fn vma_added(
        &mut self,
        _process: ProcessId,
        _start: VirtAddr,
        _end: VirtAddr,
        _os: &mut PlaceContext<'_>,
    ) -> Vec<EagerRange> {
        Vec::new()
    }

    /// A part of a VMA was removed; its pages are unmapped already.
    fn vma_removed(&mut self, _process: ProcessId, _start: VirtAddr, _end: VirtAddr) {}

    /// A process has ended.
    fn process_ended(&mut self, _process: ProcessId) {}

    /// Whether it heeds the places that a trace records.
    fn heeds_places(&self) -> bool {
        false
    }

    /// The trace says where a range was. What is mapped there already moves, if
    /// [`Placement::allocate_for_migration`] has frames for it.
    fn record(&mut self, _place: &RecordedPlace, _os: &mut PlaceContext<'_>) {}

    /// The frame that the trace names for the base page at `va`, as a frame of this machine, and the size of
    /// the recorded page.
    fn recorded(&self, _process: ProcessId, _va: VirtAddr) -> Option<(Pfn, PageSize)> {
        None
    }

    /// Reports its counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Placement in any free frame of the buddy allocator.
#[derive(Clone, Copy, Debug, Default, State)]
pub struct BuddyPlacement;

impl Placement for BuddyPlacement {
    #[inline]
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        os.frames.allocate(request.page.size.order())
    }
}
