//! The software half of an intermediate address space: areas of virtual memory have places there, and the
//! page table maps these.

use crate::{Footprint, MapError, TableContext};
use ambulator_base::{Asid, CounterSink, Page, ProcessId, VirtAddr};
use ambulator_memory::PhysicalMemory;

/// Where a process's areas lie in the intermediate address space, one instance per process. Page table and
/// companions see intermediate addresses only. As with a [`crate::PageTable`], all translation state is bytes
/// in [`TableContext::memory`].
pub trait IntermediateMap: Send {
    /// The intermediate address of `va`; `None` outside areas.
    fn address(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<VirtAddr>;

    /// The intermediate page of a page that lies in one area as a whole.
    fn page(&self, page: Page, memory: &PhysicalMemory) -> Option<Page>;

    /// Makes an area of a page that no VMA had announced, and returns where it is.
    ///
    /// # Errors
    /// [`MapError::PageSize`] where the page lies in areas in part, [`MapError::NoMemory`] where memory for
    /// the map, or intermediate addresses, have run out. The areas are as they were.
    fn assign(&mut self, page: Page, os: &mut TableContext<'_>) -> Result<Page, MapError>;

    /// The pages are an area from now on, where there is memory for it; otherwise the first of them to be
    /// mapped is told so.
    fn add_area(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>);

    /// The pages are in no area any more. Returns the parts of areas that they were in, each with its first
    /// address and its bytes: hardware may hold where these areas were, also where no page of them was there.
    fn remove_area(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) -> Vec<(VirtAddr, u64)>;

    /// The words of the hardware half's registers for this process, in the design's own order.
    fn registers(&self) -> Vec<u64>;

    /// Changes whenever [`IntermediateMap::registers`] do, so that cores running the process reload them.
    fn registers_generation(&self) -> u64;

    /// Cycles that a context switch to or from this process takes beyond what any does and what the page
    /// table states.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// What the map takes; its entries are not counted.
    fn footprint(&self) -> Footprint;

    /// Frees all frames of the map (process exit).
    fn destroy(&mut self, os: &mut TableContext<'_>);

    /// Hands the software half's own counters to `sink`; `prefix` is the page table's.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Makes the maps of new processes.
pub trait IntermediateMapFactory: Send {
    /// A map without areas.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when its first frames cannot be had; it has kept none.
    fn new_map(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn IntermediateMap>, MapError>;
}
