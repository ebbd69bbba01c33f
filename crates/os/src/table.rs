//! The software half of a page table: the socket that the kernel calls.

use crate::{Ledger, TableLock};
use ambulator_base::{Asid, CounterSink, Page, PageSize, Pfn, ProcessId, Protection, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// Architectural bits of an x86-64 page-table entry, as the kernel states them.
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
    /// Range bit, of the bits that x86-64 leaves to software: a range translation holds the page too. The
    /// kernel leaves it clear; a companion that keeps ranges sets it.
    pub ranged: bool,
}

impl PteFlags {
    /// The flags of a user page with those rights, neither accessed nor dirty.
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

/// One mapping: a page, the first of its frames, its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The virtual page.
    pub page: Page,
    /// First 4 KiB frame; aligned to the page's size.
    pub frame: Pfn,
    /// Architectural bits.
    pub flags: PteFlags,
}

/// Alias that reads well at look-ups: what the bytes of the table say.
pub type Entry = Mapping;

/// Why a table could not take a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The table needed this many contiguous bytes for itself and the allocator had none.
    NoMemory {
        /// Bytes of the contiguous allocation that failed.
        bytes: u64,
    },
    /// The page size is not one that this table can hold.
    PageSize,
    /// Something is already mapped in the page's range: the kernel model must unmap first. An invariant of
    /// ours.
    Occupied,
}

/// What a table takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of physical memory held now.
    pub bytes: u64,
    /// The most that was ever held at once.
    pub peak_bytes: u64,
    /// The largest contiguous allocation ever made, bytes.
    pub largest_contiguous: u64,
    /// Present entries (pages mapped).
    pub entries: u64,
}

impl Footprint {
    /// What this table and a structure beside it take together; the entries are the table's.
    #[must_use]
    pub fn beside(self, other: Footprint) -> Footprint {
        Footprint {
            bytes: self.bytes + other.bytes,
            peak_bytes: self.peak_bytes + other.peak_bytes,
            largest_contiguous: self.largest_contiguous.max(other.largest_contiguous),
            entries: self.entries,
        }
    }
}

/// What the software half of a table works with.
pub struct TableContext<'a> {
    /// Bytes of physical memory: where the table lives.
    pub memory: &'a mut PhysicalMemory,
    /// Where its frames come from: the same allocator as data pages.
    pub frames: &'a mut BuddyAllocator,
    /// Where it charges its work.
    pub ledger: &'a mut Ledger,
    /// What allocations and other actions cost.
    pub costs: &'a crate::CostTable,
}

/// The software half of a page table: one instance per process. All translation state is bytes in
/// [`TableContext::memory`]; host-side fields may only speed the OS half up or remember its own allocations.
pub trait PageTable: Send {
    /// Maps a page that is not mapped.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] leaves the table as it was.
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError>;

    /// Unmaps exactly this page (address and size), returning what its entry said, accessed and dirty bits
    /// included. `None` if no such page is mapped.
    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping>;

    /// Rewrites the flags of a mapped page (protect; clearing accessed or dirty bits). False if it is not
    /// mapped.
    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool;

    /// What the bytes say about `va`: the software walk.
    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry>;

    /// The kernel announces a VMA before its pages: a table may reserve contiguous nodes for it, or learn how
    /// its keys will lie.
    fn vma_added(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// The kernel announces that a VMA has gone; its pages are unmapped already.
    fn vma_removed(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// The lock of the part that holds this page's entry. By default that of the page's 2 MiB, or of its 1
    /// GiB if it is larger than 4 KiB: the locks of a radix table's nodes, as Linux splits them.
    fn lock_of(&self, page: Page) -> TableLock {
        let node = if page.size == PageSize::SIZE_4K { PageSize::SIZE_2M } else { PageSize::SIZE_1G };
        TableLock::Part(page.start.align_down(node).0 | u64::from(node.order()))
    }

    /// The words that the hardware half's registers hold for this process, in the design's own order.
    fn registers(&self) -> Vec<u64>;

    /// Changes whenever [`PageTable::registers`] do, so that cores running the process reload them.
    fn registers_generation(&self) -> u64 {
        0
    }

    /// Cycles that a context switch to or from this process takes beyond what any does: registers that the
    /// kernel saves and restores.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// What the table takes.
    fn footprint(&self) -> Footprint;

    /// Frees all frames of the table itself (process exit; its pages are unmapped already).
    fn destroy(&mut self, os: &mut TableContext<'_>);

    /// A hint to the host only: the bytes that a walk for `va` will read last are wanted in the host's cache
    /// soon. Must be cheap and may do nothing.
    fn prefetch_host(&self, _va: VirtAddr, _memory: &PhysicalMemory) {}

    /// Hands the software half's own counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Hands what can be read from the table's bytes as they are now to `sink`: asked once, when a run ends.
    fn inspect(&self, _memory: &PhysicalMemory, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Makes the page tables of new processes.
pub trait TableFactory: Send {
    /// An empty table.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when its first frames cannot be had.
    fn new_table(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError>;
}
