//! The page-table socket: the software half of a page table.

use crate::{Ledger, TableLock};
use ambulator_base::{Asid, CounterSink, Page, PageSize, Pfn, ProcessId, Protection, State, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// Architectural bits of an x86-64 page-table entry, as the kernel sets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PteFlags {
    /// Stores are allowed.
    pub writable: bool,
    /// Fetches are allowed (the NX bit is clear).
    pub executable: bool,
    /// User mode may access it.
    pub user: bool,
    /// Accessed bit.
    pub accessed: bool,
    /// Dirty bit.
    pub dirty: bool,
    /// Range bit, one of the bits that x86-64 leaves to software: a range translation also holds the page.
    /// The kernel leaves it clear; a companion with ranges sets it.
    pub ranged: bool,
}

impl PteFlags {
    /// The flags of a user page with these rights, neither accessed nor dirty.
    pub fn user(protection: Protection) -> PteFlags {
        PteFlags {
            writable: protection.write,
            executable: protection.execute,
            user: true,
            accessed: false,
            dirty: false,
            ranged: false,
        }
    }
}

/// The mapping of a page to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The virtual page.
    pub page: Page,
    /// First 4 KiB frame; aligned to the page's size.
    pub frame: Pfn,
    /// Architectural bits.
    pub flags: PteFlags,
}

/// A mapping as read from the bytes of the table.
pub type Entry = Mapping;

/// Why a table rejected a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The table could not allocate contiguous memory for itself.
    NoMemory {
        /// Bytes of the contiguous allocation that failed.
        bytes: u64,
    },
    /// The table does not support the page size.
    PageSize,
    /// A page is already mapped in the range. The kernel must unmap it first; this is a bug.
    Occupied,
}

/// The memory of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Footprint {
    /// Bytes of physical memory held now.
    pub bytes: u64,
    /// The largest number of bytes held at once so far.
    pub peak_bytes: u64,
    /// The largest contiguous allocation so far, in bytes.
    pub largest_contiguous: u64,
    /// Present entries (pages mapped).
    pub entries: u64,
}

impl Footprint {
    /// The memory of this table and an auxiliary structure together; the entries are the table's.
    #[must_use]
    pub fn combined_with(self, other: Footprint) -> Footprint {
        Footprint {
            bytes: self.bytes + other.bytes,
            peak_bytes: self.peak_bytes + other.peak_bytes,
            largest_contiguous: self.largest_contiguous.max(other.largest_contiguous),
            entries: self.entries,
        }
    }
}

/// The context of the software half of a table.
pub struct TableContext<'a> {
    /// Bytes of physical memory, which hold the table.
    pub memory: &'a mut PhysicalMemory,
    /// The allocator of its frames, which it shares with data pages.
    pub frames: &'a mut BuddyAllocator,
    /// The ledger for charging its work.
    pub ledger: &'a mut Ledger,
    /// Costs of allocations and other actions.
    pub costs: &'a crate::CostTable,
    /// Cores of the machine: a TLB shootdown costs more with more cores.
    pub cores: u32,
}

/// The software half of a page table, one instance per process. All translation state is bytes in
/// [`TableContext::memory`]. Fields of the implementation may only speed it up or record its allocations.
pub trait PageTable: State + Send {
    /// Maps a page that is not mapped.
    ///
    /// # Errors
    /// The table is unchanged after [`MapError::NoMemory`].
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError>;

    /// Unmaps exactly this page (address and size) and returns its entry, including accessed and dirty bits.
    /// `None` if no such page is mapped.
    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping>;

    /// Changes the flags of a mapped page (such as rights, or accessed and dirty bits). False if it is not
    /// mapped.
    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool;

    /// Looks up `va` in the bytes of the table (the software walk).
    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry>;

    /// The kernel announces a VMA before its pages. A table may reserve contiguous nodes for it, or learn the
    /// distribution of its keys.
    fn vma_added(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// The kernel announces that a VMA was removed. Its pages are unmapped already.
    fn vma_removed(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// The lock of the part that holds this page's entry. By default there is one lock per 2 MiB for base
    /// pages, and one per 1 GiB for larger ones: Linux's split locks of the nodes of a radix table.
    fn lock_of(&self, page: Page) -> TableLock {
        let node = if page.size == PageSize::SIZE_4K { PageSize::SIZE_2M } else { PageSize::SIZE_1G };
        TableLock::Part(page.start.align_down(node).0 | u64::from(node.order()))
    }

    /// The register contents of the hardware half for this process, in an order of the design's.
    fn registers(&self) -> Vec<u64>;

    /// Changes whenever [`PageTable::registers`] do, so that cores running the process reload them.
    fn registers_generation(&self) -> u64 {
        0
    }

    /// Additional cycles of a context switch to or from this process: registers that the kernel saves and
    /// restores.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// The hypervisor's answer to [`crate::Hypercall::Back`] for the run of guest frames that begins at
    /// `first`: the slot of its area in the table of host areas ([`crate::HostAreas`]), or `None` if the run
    /// stays as it was.
    fn area_answered(&mut self, _first: Pfn, _slot: Option<u32>) {}

    /// The memory of the table.
    fn footprint(&self) -> Footprint;

    /// Frees all frames of the table itself at process exit. Its pages are unmapped already.
    fn destroy(&mut self, os: &mut TableContext<'_>);

    /// Prefetches the bytes that a walk for `va` reads last into the sim host's cache (simulator speed only).
    /// Must be cheap and may do nothing.
    fn prefetch_sim_host(&self, _va: VirtAddr, _memory: &PhysicalMemory) {}

    /// Reports the counters of the software half to `sink`, and what it knows of its state without reading
    /// its bytes. It may be called often during a run.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Reports statistics of the table's current bytes to `sink`, once at the end of a run.
    fn inspect(&self, _memory: &PhysicalMemory, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Creates the page tables of new processes.
pub trait TableFactory: Send {
    /// Creates an empty table.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if there are no frames for it.
    fn new_table(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError>;
}
