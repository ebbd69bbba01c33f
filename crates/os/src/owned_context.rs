//! A [`TableContext`] that owns its parts.

use crate::{CostTable, Ledger, TableContext};
use ambulator_base::FRAME_BYTES;
use ambulator_memory::{BuddyAllocator, BuddySpec, MemoryError, PhysicalMemory};

/// Physical memory, its frames, a ledger and the costs, for work on page tables without a [`crate::Kernel`].
///
/// ```
/// let mut machine = ambulator_os::OwnedContext::new(16 << 20)?;
/// let os = machine.os();
/// assert!(os.frames.allocate(0).is_some());
/// # Ok::<(), ambulator_memory::MemoryError>(())
/// ```
pub struct OwnedContext {
    /// Bytes of physical memory.
    pub memory: PhysicalMemory,
    /// Its frames.
    pub frames: BuddyAllocator,
    /// Cycles charged.
    pub ledger: Ledger,
    /// Cycles that each action costs.
    pub costs: CostTable,
    /// Cores of the machine.
    pub cores: u32,
}

impl OwnedContext {
    /// A memory of `bytes` bytes with the default allocator, the default costs and one core. All frames are free,
    /// except those that the allocator reserves.
    ///
    /// # Errors
    /// As [`PhysicalMemory::new`].
    pub fn new(bytes: u64) -> Result<OwnedContext, MemoryError> {
        Ok(OwnedContext {
            memory: PhysicalMemory::new(bytes)?,
            frames: BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES),
            ledger: Ledger::default(),
            costs: CostTable::default(),
            cores: 1,
        })
    }

    /// The context in which the software half of a page table works.
    pub fn os(&mut self) -> TableContext<'_> {
        let OwnedContext { memory, frames, ledger, costs, cores } = self;
        TableContext { memory, frames, ledger, costs, cores: *cores }
    }
}
