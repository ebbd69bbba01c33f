//! Frames for tables: one place that takes them, zeroes them, accounts for them and charges them.

use ambulator_base::{FRAME_BYTES, Pfn};
use ambulator_os::{Footprint, LedgerCause, TableContext};

/// Takes a block of `2^order` zeroed frames for a table; `None` when no block is that large.
pub fn allocate(order: u32, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<Pfn> {
    let at = os.frames.allocate(order)?;
    taken(at, 1 << order, footprint, os);
    Some(at)
}

/// Takes `frames` contiguous zeroed frames, of any number, also more than the allocator's greatest block; `None` when
/// there is no such run.
pub fn allocate_run(frames: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<Pfn> {
    let at = os.frames.allocate_run(frames, 0)?;
    taken(at, frames, footprint, os);
    Some(at)
}

/// Gives frames back: any number, wherever they came from. Their bytes are zero from then on.
pub fn release(at: Pfn, frames: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
    let bytes = frames * FRAME_BYTES;
    os.memory.zero(at.start(), bytes);
    os.frames.free_range(at, frames);
    footprint.bytes -= bytes;
}

fn taken(at: Pfn, frames: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
    let bytes = frames * FRAME_BYTES;
    // Costs nothing if the frames were never written, and whoever had them before may have left bytes.
    os.memory.zero(at.start(), bytes);
    footprint.bytes += bytes;
    footprint.peak_bytes = footprint.peak_bytes.max(footprint.bytes);
    footprint.largest_contiguous = footprint.largest_contiguous.max(bytes);
    charge(bytes, os);
}

/// An allocation of one frame costs the same whatever the fragmentation; a larger one by how fragmented memory is at
/// its size.
fn charge(bytes: u64, os: &mut TableContext<'_>) {
    let order = ambulator_memory::BuddyAllocator::order_of_bytes(bytes);
    let fmfi = if order == 0 { 0.0 } else { os.frames.fmfi(order.min(os.frames.max_block_order())) };
    // The block is there, whatever the cost table says of blocks of this size at this fragmentation.
    if let Some(cycles) = os.costs.allocation(bytes, fmfi) {
        os.ledger.charge(LedgerCause::Allocate, cycles);
    }
}
