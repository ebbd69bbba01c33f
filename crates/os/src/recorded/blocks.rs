//! Which block of the machine's memory stands for a block of the recorded one.

use ambulator_base::{PageSize, Pfn, ProcessId, State};
use ambulator_memory::BuddyAllocator;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Frames of a block: 2 MiB.
pub(super) const BLOCK_FRAMES: u64 = PageSize::SIZE_2M.frames();
/// Blocks of 1 GiB.
const GIGABYTE: u64 = PageSize::SIZE_1G.frames() / BLOCK_FRAMES;

/// The blocks that stand for recorded ones. A block stands where the first of these is possible, when the
/// trace first names it:
///
/// 1. next to a neighbour that stands elsewhere than recorded, as it is recorded next to it;
/// 2. at its own place, if that is within memory;
/// 3. at its own place modulo the machine's memory (in whole gigabytes, if it has one), if that block is free;
/// 4. in the lowest block that is free and that no other stands in.
///
/// No two blocks stand in one, and a block that stands keeps its place.
#[derive(Debug, Default, State)]
pub(super) struct Blocks {
    /// By the process that all processes of a recorded machine descend from, and the recorded block.
    standing: FxHashMap<(ProcessId, u64), u64>,
    used: BTreeSet<u64>,
    /// No block below this is left for rule 4.
    lowest: u64,
}

impl Blocks {
    /// The block where `recorded` stands, and whether that was decided just now; `None` if there is none left.
    pub(super) fn stands_in(
        &mut self,
        origin: ProcessId,
        recorded: u64,
        frames: &BuddyAllocator,
    ) -> Option<(u64, bool)> {
        if let Some(block) = self.standing.get(&(origin, recorded)) {
            return Some((*block, false));
        }
        let block = self.choose(origin, recorded, frames)?;
        self.standing.insert((origin, recorded), block);
        self.used.insert(block);
        Some((block, true))
    }

    /// Whether a block of the recorded memory stands in this one.
    pub(super) fn is_used(&self, block: u64) -> bool {
        self.used.contains(&block)
    }

    fn choose(&mut self, origin: ProcessId, recorded: u64, frames: &BuddyAllocator) -> Option<u64> {
        let blocks = frames.total_frames() / BLOCK_FRAMES;
        let unused = |block: &u64| *block < blocks && !self.used.contains(block);
        let is_free =
            |block: &u64| (block * BLOCK_FRAMES..(block + 1) * BLOCK_FRAMES).all(|frame| frames.is_free(Pfn(frame)));
        let neighbour = |of: Option<u64>, step: i64| {
            let stands = *self.standing.get(&(origin, of?))?;
            if Some(stands) == of { None } else { stands.checked_add_signed(step) }
        };
        let below = neighbour(recorded.checked_sub(1), 1).filter(unused).filter(is_free);
        let above = neighbour(recorded.checked_add(1), -1).filter(unused).filter(is_free);
        let around = if blocks < GIGABYTE { blocks } else { blocks / GIGABYTE * GIGABYTE };
        let wrapped = recorded.checked_rem(around).filter(unused).filter(is_free);
        if let Some(block) = below.or(above).or(Some(recorded).filter(unused)).or(wrapped) {
            return Some(block);
        }
        let mut lowest = self.lowest;
        while lowest < blocks && !(unused(&lowest) && is_free(&lowest)) {
            lowest += 1;
        }
        self.lowest = lowest;
        (lowest < blocks).then_some(lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_memory::BuddySpec;

    const ONE: ProcessId = ProcessId(0);

    #[test]
    fn blocks_beyond_memory_keep_their_neighbours() {
        let frames = BuddyAllocator::new(&BuddySpec::default(), 16 * BLOCK_FRAMES);
        let mut blocks = Blocks::default();
        let mut stands = |recorded| blocks.stands_in(ONE, recorded, &frames).map(|found| found.0);
        assert_eq!(stands(5), Some(5), "within memory: as recorded");
        assert_eq!(stands(16 * 1000 + 7), Some(7), "beyond it: modulo the memory");
        assert_eq!(stands(16 * 1000 + 8), Some(8));
        // Block 5 is in use: the lowest free one. The first has reserved frames.
        assert_eq!(stands(16 * 9 + 5), Some(1));
        assert_eq!(stands(16 * 9 + 6), Some(2), "next to its neighbour, though 6 is free");
        assert_eq!(stands(16 * 9 + 4), Some(4), "its neighbour's neighbour is not free: modulo the memory");
        assert_eq!(stands(16 * 9 + 5), Some(1), "it keeps its place");
        assert_eq!(stands(7), Some(3), "another one stands in 7");
    }

    #[test]
    fn every_block_is_used_once_and_then_none_is_left() {
        let frames = BuddyAllocator::new(&BuddySpec { reserve_low: 0, ..BuddySpec::default() }, 16 * BLOCK_FRAMES);
        let mut blocks = Blocks::default();
        let found: Vec<_> = (0..16).map(|i| blocks.stands_in(ONE, 16 * (i * i + 3), &frames).unwrap().0).collect();
        assert_eq!(found.iter().collect::<std::collections::BTreeSet<_>>().len(), 16, "{found:?}");
        assert_eq!(blocks.stands_in(ONE, 1 << 30, &frames), None);
        assert_eq!(blocks.stands_in(ProcessId(1), 3, &frames), None, "another machine's memory has no room either");
    }
}
