//! Frames for tables: one place that takes them, zeroes them, accounts for them and charges them.

use ambulator_base::{FRAME_BYTES, Pfn};
use ambulator_os::{Footprint, LedgerCause, TableContext};

/// Takes a block of `2^order` zeroed frames for a table; `None` when no block is that large.
pub fn allocate(order: u32, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<Pfn> {
    let at = os.frames.allocate(order)?;
    taken(at, 1 << order, footprint, os);
    Some(at)
}

/// Takes contiguous zeroed frames for `bytes`: a block of the buddy allocator where its blocks are that large, otherwise a run,
/// aligned as a block of that size would be. `None` when there is nothing so contiguous, or memory is so fragmented at that size that
/// the cost table says that the kernel cannot give it.
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

/// Takes `frames` contiguous zeroed frames, of any number, also more than the allocator's greatest block, from a multiple of
/// `2^align_order` on; `None` when there is no such run.
pub fn allocate_run(
    frames: u64,
    align_order: u32,
    footprint: &mut Footprint,
    os: &mut TableContext<'_>,
) -> Option<Pfn> {
    let at = os.frames.allocate_run(frames, align_order)?;
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

/// Accounts for frames that were taken for a table, and zeroes and charges them.
pub fn taken(at: Pfn, frames: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
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
    let fmfi = if order == 0 { 0.0 } else { os.frames.nominal_fmfi(order.min(os.frames.max_block_order())) };
    // Memory too fragmented for the cost table has given the block all the same: it costs what it does at the limit.
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

    /// Cycles charged for what `take` takes from a memory of 1 GiB.
    fn charged(scatter: bool, take: impl Fn(&mut Footprint, &mut TableContext<'_>)) -> u64 {
        let mut bed = TestBed::new(1 << 30).unwrap();
        if scatter {
            // Its lower half is in small pieces.
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
    fn memory_that_is_too_fragmented_gives_no_64_mib_though_it_has_them() {
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
    fn frames_come_zeroed_and_go_back_whole() {
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
