//! What tables stand on in tests: a memory, an allocator, a ledger.

use ambulator_base::FRAME_BYTES;
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{CostTable, Ledger, TableContext};

/// The parts of a [`TableContext`], owned.
pub struct TestBed {
    /// The bytes.
    pub memory: PhysicalMemory,
    /// The frames.
    pub frames: BuddyAllocator,
    /// What was charged.
    pub ledger: Ledger,
    /// What things cost.
    pub costs: CostTable,
}

impl TestBed {
    /// A memory of `bytes`, all of it free but what the default allocator reserves.
    ///
    /// # Errors
    /// When the host has no address space for it.
    pub fn new(bytes: u64) -> Result<TestBed, String> {
        Ok(TestBed {
            memory: PhysicalMemory::new(bytes).map_err(|e| e.to_string())?,
            frames: BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES),
            ledger: Ledger::default(),
            costs: CostTable::default(),
        })
    }

    /// Takes one frame in each `2^order` for good, so that no greater contiguity is left.
    pub fn scatter(&mut self, order: u32) {
        let step = 1 << order;
        for block in 0..self.frames.total_frames() / step {
            let at = ambulator_base::Pfn(block * step + step / 2);
            self.frames.allocate_at(at, 0);
        }
    }

    /// What the OS half of a table works with.
    pub fn os(&mut self) -> TableContext<'_> {
        TableContext {
            memory: &mut self.memory,
            frames: &mut self.frames,
            ledger: &mut self.ledger,
            costs: &self.costs,
        }
    }
}
