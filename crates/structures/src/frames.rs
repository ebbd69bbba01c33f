//! Frames for tables: the one place that allocates, zeroes, accounts for and charges them.

use ambulator_base::{FRAME_BYTES, Pfn};
use ambulator_os::{Footprint, LedgerCause, TableContext};

/// Allocates a block of `2^order` zeroed frames for a table; `None` if no block is that large.
pub fn allocate(order: u32, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<Pfn> {
    let at = if order == 0 { os.frames.allocate_unmovable() } else { os.frames.allocate(order) }?;
    adopt(at, 1 << order, footprint, os);
    Some(at)
}

/// Allocates contiguous zeroed frames for `bytes`: a buddy block if blocks are that large, otherwise a run
/// with the alignment of a block of that size. `None` if no contiguous memory is that large, or if memory is
/// so fragmented at that size that the allocation fails under the cost table.
pub fn allocate_bytes(bytes: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<Pfn> {
    let order = ambulator_memory::BuddyAllocator::order_of_bytes(bytes);
    let largest = os.frames.max_block_order();
    os.costs.allocation(bytes, os.frames.nominal_fmfi(order.min(largest)))?;
    if order <= largest {
        allocate(order, footprint, os)
    } else {
        allocate_run(bytes / FRAME_BYTES, order, footprint, os)
    }
}

/// Allocates `frames` contiguous zeroed frames, aligned to `2^align_order`; `None` if there is no such run.
/// The run may exceed the largest block of the allocator.
pub fn allocate_run(
    frames: u64,
    align_order: u32,
    footprint: &mut Footprint,
    os: &mut TableContext<'_>,
) -> Option<Pfn> {
    let at = os.frames.allocate_run(frames, align_order)?;
    adopt(at, frames, footprint, os);
    Some(at)
}

/// Frees any number of frames and zeroes their bytes.
pub fn release(at: Pfn, frames: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
    let bytes = frames * FRAME_BYTES;
    os.memory.zero(at.start(), bytes);
    os.frames.free_range(at, frames);
    footprint.bytes -= bytes;
}

/// Accounts for frames already allocated for a table: zeroes them and charges their allocation.
pub fn adopt(at: Pfn, frames: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
    let bytes = frames * FRAME_BYTES;
    // The previous owner may have left bytes. Frames that were never written cost nothing to zero.
    os.memory.zero(at.start(), bytes);
    footprint.bytes += bytes;
    footprint.peak_bytes = footprint.peak_bytes.max(footprint.bytes);
    footprint.largest_contiguous = footprint.largest_contiguous.max(bytes);
    charge(bytes, os);
}

/// One frame costs the same at any fragmentation. The cost of a larger block depends on the fragmentation at
/// its size.
fn charge(bytes: u64, os: &mut TableContext<'_>) {
    let order = ambulator_memory::BuddyAllocator::order_of_bytes(bytes);
    let fmfi = if order == 0 { 0.0 } else { os.frames.nominal_fmfi(order.min(os.frames.max_block_order())) };
    // Memory too fragmented for the cost table has given the block all the same: it costs what it does at the
    // limit.
    let limit = os.costs.allocate_64m_fails_above;
    let cycles = os.costs.allocation(bytes, fmfi);
    let cycles = cycles.or_else(|| os.costs.allocation(bytes, limit));
    os.ledger.charge(LedgerCause::Allocate, cycles.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::PhysAddr;
    use ambulator_conformance::TestBed;

    /// Cycles charged for the allocations of `take` from a memory of 1 GiB.
    fn charged(scatter: bool, take: impl Fn(&mut Footprint, &mut TableContext<'_>)) -> u64 {
        let mut bed = TestBed::new(1 << 30).unwrap();
        if scatter {
            // Fragment the lower half.
            for frame in (512..1 << 17).step_by(8) {
                bed.frames.allocate_at(Pfn(frame), 0);
            }
        }
        take(&mut Footprint::default(), &mut bed.os());
        bed.ledger.total(LedgerCause::Allocate)
    }

    #[test]
    fn every_allocation_is_charged_by_its_size_and_the_fragmentation() {
        let costs = ambulator_os::CostTable::default();
        let frame = |footprint: &mut Footprint, os: &mut TableContext<'_>| {
            allocate(0, footprint, os).unwrap();
        };
        assert_eq!(charged(false, frame), costs.allocate_4k);
        assert_eq!(charged(true, frame), costs.allocate_4k);
        let large = |footprint: &mut Footprint, os: &mut TableContext<'_>| {
            allocate(9, footprint, os).unwrap();
        };
        let whole = |footprint: &mut Footprint, os: &mut TableContext<'_>| {
            allocate_run(25_000, 0, footprint, os).unwrap();
        };
        assert!(charged(true, large) > charged(false, large));
        assert!(charged(false, whole) > 0);
        assert!(charged(true, whole) > charged(false, whole));
    }

    #[test]
    fn memory_that_is_too_fragmented_refuses_64_mib_that_are_free() {
        let spec = ambulator_memory::BuddySpec { max_order: 15, ..Default::default() };
        for (fmfi, given) in [(0.7, true), (0.75, false)] {
            let mut bed = TestBed::new(8 << 30).unwrap();
            bed.frames = ambulator_memory::BuddyAllocator::new(&spec, 8 << 18);
            let fragmented = ambulator_memory::FragmentSpec { fmfi, order: 14, free_share: 0.9, grain: 0 };
            ambulator_memory::fragment(&mut bed.frames, &fragmented, &mut ambulator_base::Random::new(1));
            let block = allocate_bytes(64 << 20, &mut Footprint::default(), &mut bed.os());
            assert_eq!(block.is_some(), given, "{fmfi}");
            assert_eq!(bed.frames.largest_free_order(), Some(14));
            assert!(allocate_bytes(8 << 20, &mut Footprint::default(), &mut bed.os()).is_some());
        }
    }

    #[test]
    fn frames_are_zeroed_and_all_are_freed() {
        let mut bed = TestBed::new(64 << 20).unwrap();
        let free = bed.frames.free_frames();
        for at in 0..64 << 8 {
            bed.memory.write(PhysAddr(at << 12), !0);
        }
        let mut footprint = Footprint::default();
        let block = allocate(9, &mut footprint, &mut bed.os()).unwrap();
        let run = allocate_run(700, 0, &mut footprint, &mut bed.os()).unwrap();
        for frame in (0..512).map(|i| block.offset(i)) {
            assert_eq!(bed.memory.read(frame.start()), 0);
        }
        for frame in (0..700).map(|i| run.offset(i)) {
            assert_eq!(bed.memory.read(frame.start()), 0);
        }
        assert_eq!(footprint.bytes, 1212 * FRAME_BYTES);
        assert_eq!(footprint.largest_contiguous, 700 * FRAME_BYTES);
        release(block, 512, &mut footprint, &mut bed.os());
        release(run, 700, &mut footprint, &mut bed.os());
        assert_eq!((footprint.bytes, bed.frames.free_frames()), (0, free));
        assert_eq!(footprint.peak_bytes, 1212 * FRAME_BYTES);
    }
}
