//! The memory that page tables under test live in.

use ambulator_base::Pfn;
use ambulator_memory::BuddyAllocator;

/// The memory, frames, ledger and costs of a test.
pub type TestBed = ambulator_os::OwnedContext;

/// Takes one frame of each block of `2^order` frames for good. No free block of that order is left.
pub fn scatter(frames: &mut BuddyAllocator, order: u32) {
    let step = 1 << order;
    for block in 0..frames.total_frames() / step {
        frames.allocate_at(Pfn(block * step + step / 2), 0);
    }
}
