//! The software half of what stands beside a page table: a structure that holds some of a process's
//! translations a second time, or instead of the page table.

use crate::{Footprint, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator_base::{Asid, CounterSink, Page, ProcessId, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// The software half of a structure beside a page table, one instance per process. As with a [`PageTable`],
/// all translation state is bytes in [`TableContext::memory`].
///
/// A page is in one place: with the companion that claims it ([`Companion::claims`]), or in the page table.
/// Of a page that reaches the page table every companion is told, before the entry is written and after, and
/// may decide the entry's flags or rewrite those of its neighbours. A page that moves to other frames or
/// addresses is unmapped and mapped again. A companion is not told of pages that another one holds.
///
/// ```
/// use ambulator_base::CounterSink;
/// use ambulator_memory::PhysicalMemory;
/// use ambulator_os::{Companion, Footprint, Mapping, PageTable, TableContext};
///
/// /// Counts the 4 KiB pages in the page table, in a register of the hardware's.
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
pub trait Companion: Send {
    /// Whether the companion holds this mapping itself, so that the page table never sees it. The page is not
    /// mapped.
    fn claims(&self, _mapping: &Mapping) -> bool {
        false
    }

    /// Takes a mapping that it claims; nothing is mapped in the page's range.
    fn hold(&mut self, _mapping: &Mapping, _os: &mut TableContext<'_>) {}

    /// The mapping around `va` that the companion holds itself.
    fn held(&self, _va: VirtAddr, _memory: &PhysicalMemory) -> Option<Mapping> {
        None
    }

    /// Gives up a page that it holds ([`Companion::held`]).
    fn release(&mut self, _page: Page, _os: &mut TableContext<'_>) {}

    /// Rewrites the flags of a page that it holds ([`Companion::held`]).
    fn set_held_flags(&mut self, _page: Page, _flags: PteFlags, _os: &mut TableContext<'_>) {}

    /// The flags with which the page table is to write an entry that is new. The table may still refuse the
    /// mapping, of which the companion is not told.
    fn new_entry_flags(&self, mapping: &Mapping, _table: &dyn PageTable, _memory: &PhysicalMemory) -> PteFlags {
        mapping.flags
    }

    /// The page table has taken an entry, with these flags.
    fn mapped(&mut self, _entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {}

    /// The page table is about to lose this entry.
    fn unmapping(&mut self, _entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {}

    /// The flags of `entry` are about to become `flags`; returns those that are to be written.
    fn changing_flags(
        &mut self,
        _entry: &Mapping,
        flags: PteFlags,
        _table: &mut dyn PageTable,
        _os: &mut TableContext<'_>,
    ) -> PteFlags {
        flags
    }

    /// The flags of what was `entry` are now `flags`.
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

    /// The kernel announces that a VMA has gone; its pages are unmapped already.
    fn vma_removed(&mut self, _start: VirtAddr, _len: u64, _os: &mut TableContext<'_>) {}

    /// The words of the hardware half's registers for this process, in the design's own order.
    fn registers(&self) -> Vec<u64>;

    /// Changes whenever [`Companion::registers`] do, so that cores running the process reload them.
    fn registers_generation(&self) -> u64 {
        0
    }

    /// Cycles that a context switch to or from this process takes beyond what any does and what the page
    /// table states.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// What the companion takes; its entries are the pages that it holds itself.
    fn footprint(&self) -> Footprint;

    /// Frees all frames of the companion itself (process exit; the process's pages are unmapped already).
    fn destroy(&mut self, os: &mut TableContext<'_>);

    /// Hands the software half's own counters to `sink`; `prefix` is the page table's.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Hands what can be read from its bytes as they are now to `sink`: asked once, when a run ends.
    fn inspect(&self, _memory: &PhysicalMemory, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Makes the companions of new processes.
pub trait CompanionFactory: Send {
    /// Takes the memory that the companions of all processes share, before a process has its page table;
    /// asked for every process, and nothing to do once it has it. False, and nothing taken, if it is not
    /// there.
    fn reserve(&mut self, _frames: &mut BuddyAllocator) -> bool {
        true
    }

    /// A companion of an empty page table.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when its first frames cannot be had; it has kept none.
    fn new_companion(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError>;
}
