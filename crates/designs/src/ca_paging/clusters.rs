//! The contiguity map: runs of adjacent free clusters, and next-fit placement in them.

use ambulator_base::{Pfn, State};
use ambulator_memory::BuddyAllocator;

/// Next-fit placement: the rover stays where the last search ended.
#[derive(Debug, Default, State)]
pub(super) struct NextFit {
    /// The cluster at which the next search begins.
    rover: u64,
}

impl NextFit {
    /// The first frame of a run of free clusters of `2^order` frames for `pages` pages: the first run behind
    /// the rover that is long enough, or else the longest one. `None` if no cluster is free. Allocates
    /// nothing.
    pub fn choose(&mut self, pages: u64, order: u32, frames: &BuddyAllocator) -> Option<Pfn> {
        if frames.largest_free_order().is_none_or(|largest| largest < order) {
            return None;
        }
        let clusters = frames.total_frames() >> order;
        let wanted = pages.div_ceil(1 << order).max(1);
        self.rover %= clusters.max(1);
        let (mut best, mut length) = (0, 0);
        let (mut start, mut run) = (0, 0);
        for step in 0..clusters {
            let cluster = (self.rover + step) % clusters;
            // A run does not continue past the end of memory.
            if run == 0 || cluster == 0 {
                (start, run) = (cluster, 0);
            }
            if !frames.is_block_free(Pfn(cluster << order), order) {
                run = 0;
                continue;
            }
            run += 1;
            if run > length {
                (best, length) = (start, run);
                if length >= wanted {
                    break;
                }
            }
        }
        if length == 0 {
            return None;
        }
        self.rover = best + length.min(wanted);
        Some(Pfn(best << order))
    }
}
