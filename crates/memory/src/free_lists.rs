//! The free blocks of each order in the order of their frees, as Linux keeps them.

use ambulator_base::{State, on_huge_pages, prefetch_sim_host};

/// A list for each order, the block that was freed last in front. Blocks are named by their first frames.
///
/// The links of a block are stored at its first frame: 8 bytes per frame, which the sim host gives only where
/// blocks begin.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct FreeLists {
    /// By order: the first block.
    heads: [Option<u32>; ORDERS],
    /// By frame: the next block and the previous one; the block itself if there is none.
    #[state(sparse)]
    links: Vec<[u32; 2]>,
}

/// One more than the largest order of any allocator.
const ORDERS: usize = 30;
/// Indices of a link.
const NEXT: usize = 0;
const PREVIOUS: usize = 1;

impl FreeLists {
    /// Empty lists for `frames` frames, at most 2^32 (16 TiB).
    pub(crate) fn new(frames: u64) -> FreeLists {
        assert!(frames <= 1 << 32, "the links of free blocks have 32 bits: {frames} frames are too many");
        FreeLists { heads: [None; ORDERS], links: on_huge_pages(vec![[0; 2]; frames as usize]) }
    }

    /// The block of `order` that was freed last.
    #[inline]
    pub(crate) fn first(&self, order: u32) -> Option<u64> {
        self.heads[order as usize].map(u64::from)
    }

    /// Puts a block in front. It must not be in a list.
    #[inline]
    pub(crate) fn insert(&mut self, order: u32, block: u64) {
        let block = block as u32;
        let next = self.heads[order as usize].replace(block);
        if let Some(next) = next {
            self.links[next as usize][PREVIOUS] = block;
        }
        self.links[block as usize] = [next.unwrap_or(block), block];
    }

    /// Takes a block out of the list of `order`, in which it must be.
    #[inline]
    pub(crate) fn remove(&mut self, order: u32, block: u64) {
        let block = block as u32;
        let [next, previous] = self.links[block as usize];
        let (is_last, is_first) = (next == block, previous == block);
        if !is_last {
            self.links[next as usize][PREVIOUS] = if is_first { next } else { previous };
        }
        if is_first {
            debug_assert_eq!(self.heads[order as usize], Some(block), "not the first block of order {order}");
            self.heads[order as usize] = (!is_last).then_some(next);
        } else {
            self.links[previous as usize][NEXT] = if is_last { previous } else { next };
        }
    }

    /// Prefetches a block's links into the sim host's caches.
    #[inline]
    pub(crate) fn prefetch_sim_host(&self, block: u64) {
        if let Some(links) = self.links.get(block as usize) {
            prefetch_sim_host(links);
        }
    }

    /// Prefetches the links of the block before and the block after.
    #[inline]
    pub(crate) fn prefetch_neighbours_sim_host(&self, block: u64) {
        if let Some(links) = self.links.get(block as usize) {
            links.iter().for_each(|neighbour| self.prefetch_sim_host(u64::from(*neighbour)));
        }
    }

    /// Empties all lists.
    pub(crate) fn clear(&mut self) {
        self.heads = [None; ORDERS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_in_is_the_first_one_out() {
        let mut lists = FreeLists::new(64);
        [3, 9, 20, 41].into_iter().for_each(|block| lists.insert(2, block));
        lists.insert(5, 32);
        lists.remove(2, 20);
        let mut left = Vec::new();
        while let Some(block) = lists.first(2) {
            lists.remove(2, block);
            left.push(block);
        }
        assert_eq!((left, lists.first(5), lists.first(0)), (vec![41, 9, 3], Some(32), None));
        lists.clear();
        assert_eq!(lists.first(5), None);
    }
}
