//! The software half of a companion of the page table: a structure that holds some of a process's
//! translations in addition to the page table, or instead of it.

use crate::{Footprint, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator_base::{Asid, CounterSink, Page, ProcessId, State, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// The software half of a structure that works alongside a page table, one instance per process. As with a
/// [`PageTable`], all translation state is bytes in [`TableContext::memory`].
///
/// Each page is held either by the companion that claims it ([`Companion::claims`]) or by the page table. The
/// kernel notifies every companion of each page of the page table, before the entry is written and after. A
/// companion may choose the entry's flags, or rewrite those of adjacent entries. A page that moves to other
/// frames or addresses is unmapped and mapped again. Companions are not notified of pages that another
/// companion holds.
///
/// ```
/// use ambulator_base::State;
/// use ambulator_memory::PhysicalMemory;
/// use ambulator_os::{Companion, Footprint, Mapping, PageTable, TableContext};
///
/// /// Counts the 4 KiB pages of the page table in a hardware register.
/// #[derive(State)]
/// struct Census(u64);
///
/// impl Companion for Census {
///     fn mapped(&mut self, entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {
///         self.0 += entry.page.size.frames();
///     }
///     fn unmapping(&mut self, entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {
///         self.0 -= entry.page.size.frames();
///     }
///     fn registers(&self) -> Vec<u64> {
///         vec![self.0]
///     }
///     fn registers_generation(&self) -> u64 {
///         self.0
///     }
///     fn footprint(&self) -> Footprint {
///         Footprint::default()
///     }
///     fn destroy(&mut self, _os: &mut TableContext<'_>) {}
/// }
/// ```
pub trait Companion: State + Send {
    /// Whether the companion holds this new mapping itself, instead of the page table.
    fn claims(&self, _mapping: &Mapping) -> bool {
        false
    }

    /// Stores a mapping that it claims. Nothing is mapped in the page's range.
    fn hold(&mut self, _mapping: &Mapping, _os: &mut TableContext<'_>) {}

    /// The mapping of `va`, if the companion holds it itself.
    fn held(&self, _va: VirtAddr, _memory: &PhysicalMemory) -> Option<Mapping> {
        None
    }

    /// Removes a page that it holds ([`Companion::held`]).
    fn release(&mut self, _page: Page, _os: &mut TableContext<'_>) {}

    /// Rewrites the flags of a page that it holds ([`Companion::held`]).
    fn set_held_flags(&mut self, _page: Page, _flags: PteFlags, _os: &mut TableContext<'_>) {}

    /// The flags of a new entry of the page table. The table may still reject the mapping, without a further
    /// notification.
    fn new_entry_flags(&self, mapping: &Mapping, _table: &dyn PageTable, _memory: &PhysicalMemory) -> PteFlags {
        mapping.flags
    }

    /// The page table has stored a new entry, with these flags.
    fn mapped(&mut self, _entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {}

    /// The page table is about to remove this entry.
    fn unmapping(&mut self, _entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {}

    /// The flags of `entry` are about to become `flags`. Returns the flags to write.
    fn changing_flags(
        &mut self,
        _entry: &Mapping,
        flags: PteFlags,
        _table: &mut dyn PageTable,
        _os: &mut TableContext<'_>,
    ) -> PteFlags {
        flags
    }

    /// The flags of `entry` have become `flags`.
    fn changed_flags(
        &mut self,
        _entry: &Mapping,
        _flags: PteFlags,
        _table: &mut dyn PageTable,
        _os: &mut TableContext<'_>,
    ) {
    }

    /// The kernel announces a VMA before its pages.
    fn vma_added(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// The kernel announces that a VMA was removed. Its pages are unmapped already.
    fn vma_removed(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// Whether it has registers at all. What has none needs no hardware half.
    fn has_registers(&self) -> bool {
        true
    }

    /// The register contents of the hardware half for this process, in an order of the design's.
    fn registers(&self) -> Vec<u64>;

    /// Changes whenever [`Companion::registers`] do, so that cores running the process reload them.
    fn registers_generation(&self) -> u64 {
        0
    }

    /// Additional cycles of a context switch to or from this process, beyond those of the page table.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// The memory of the companion; its entries are the pages that it holds itself.
    fn footprint(&self) -> Footprint;

    /// Frees all frames of the companion itself at process exit. The process's pages are unmapped already.
    fn destroy(&mut self, os: &mut TableContext<'_>);

    /// Reports the counters of the software half to `sink`; `prefix` is the page table's.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Reports statistics of its current bytes to `sink`, once at the end of a run.
    fn inspect(&self, _memory: &PhysicalMemory, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Creates the companions of new processes.
pub trait CompanionFactory: Send {
    /// Allocates the memory that the companions of all processes share. Called before each process gets its
    /// page table; later calls do nothing. False if there is not enough memory; nothing is allocated then.
    fn reserve(&mut self, _frames: &mut BuddyAllocator) -> bool {
        true
    }

    /// Creates the companion of an empty page table.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if there are no frames for it. It keeps none.
    fn new_companion(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError>;
}
