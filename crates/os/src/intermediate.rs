//! The software half of an intermediate address space: it maps virtual areas to intermediate addresses, which
//! the page table translates.

use crate::{Footprint, MapError, TableContext};
use ambulator_base::{Asid, CounterSink, Page, ProcessId, State, VirtAddr};
use ambulator_memory::PhysicalMemory;

/// Maps the areas of a process to the intermediate address space, one instance per process. Page table and
/// companions see intermediate addresses only. As with a [`crate::PageTable`], all translation state is bytes
/// in [`TableContext::memory`].
pub trait IntermediateMap: State + Send {
    /// The intermediate address of `va`, or `None` outside all areas.
    fn address(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<VirtAddr>;

    /// The intermediate page of a page that lies entirely in one area.
    fn page(&self, page: Page, memory: &PhysicalMemory) -> Option<Page>;

    /// Creates an area for a page of no announced VMA, and returns the intermediate page.
    ///
    /// # Errors
    /// [`MapError::PageSize`] if the page overlaps an area partly, [`MapError::NoMemory`] if memory for the
    /// map or intermediate addresses have run out. The areas are unchanged then.
    fn assign(&mut self, page: Page, os: &mut TableContext<'_>) -> Result<Page, MapError>;

    /// Takes back what [`IntermediateMap::assign`] has just done for `page`: no page table maps it.
    fn unassign(&mut self, page: Page, os: &mut TableContext<'_>);

    /// Adds pages to the VMA from the first to before the second address of `vma`, which the kernel may have
    /// merged from several: areas should be as few as VMAs are. If there is no memory for an area, mapping
    /// its first page fails.
    fn add_area(&mut self, start: VirtAddr, len: u64, vma: (VirtAddr, VirtAddr), os: &mut TableContext<'_>);

    /// The pages are in no area any more. Returns the parts of areas that they were in, each with its first
    /// address and its bytes: hardware may hold where these areas were, also where no page of them was there.
    fn remove_area(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) -> Vec<(VirtAddr, u64)>;

    /// The register contents of the hardware half for this process, in an order of the design's.
    fn registers(&self) -> Vec<u64>;

    /// Changes whenever [`IntermediateMap::registers`] do, so that cores running the process reload them.
    fn registers_generation(&self) -> u64;

    /// Additional cycles of a context switch to or from this process, beyond those of the page table.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// The memory of the map; its entries are not counted.
    fn footprint(&self) -> Footprint;

    /// Frees all frames of the map at process exit.
    fn destroy(&mut self, os: &mut TableContext<'_>);

    /// Reports the counters of the software half to `sink`; `prefix` is the page table's.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Creates the maps of new processes.
pub trait IntermediateMapFactory: Send {
    /// Creates a map without areas.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if there are no frames for it. It keeps none.
    fn new_map(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn IntermediateMap>, MapError>;
}
