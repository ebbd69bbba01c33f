//! The fragmentation indices of the literature.

use crate::BuddyAllocator;

impl BuddyAllocator {
    /// The free memory fragmentation index (FMFI) at `order`: the share of free memory that cannot serve a
    /// request of that order, 0 (all of it can) to 1 (none can). It is [`BuddyAllocator::unusable_index`].
    ///
    /// The papers that state an FMFI (ME-HPT section III and Table III: 0.7; LVM section 7.3: 0.8 to 0.9)
    /// take it from Gorman and Whitcroft and from Ingens (OSDI 2016); neither names the order. The unusable
    /// free space index is what fits their use: it is defined whether or not a request would succeed, and it
    /// leaves some requests of that order possible at 0.7 and at 0.9, as both papers say of their systems.
    /// Linux's other index ([`BuddyAllocator::fragmentation_index`]) is undefined as long as one block is
    /// left, so that memory could not be brought to "0.7" by it without failing every request.
    pub fn fmfi(&self, order: u32) -> f64 {
        self.unusable_index(order)
    }

    /// How fragmented the machine is held to be when a contiguous block of `order` is asked for: the index to
    /// which [`crate::fragment`] brought memory, at the order that it was told, or the index of now at
    /// `order` if memory was left alone.
    ///
    /// Papers that state an index state it for the machine as it stands while programs run, which others keep
    /// as fragmented as it is. The index of now falls as a program fills the gaps.
    pub fn standing_fmfi(&self, order: u32) -> f64 {
        self.standing_fmfi.unwrap_or_else(|| self.fmfi(order))
    }

    /// The unusable free space index at `order`:
    ///
    /// `F(j) = (TotalFree - sum over i >= j of 2^i * k_i) / TotalFree`, with `k_i` free blocks of order `i`
    ///
    /// (M. Gorman and A. Whitcroft, "The What, The Why and the Where To of Anti-Fragmentation", Ottawa Linux
    /// Symposium 2006; Linux's `/sys/kernel/debug/extfrag/unusable_index`). As in Linux it is 1 when nothing
    /// is free, and above the allocator's greatest order.
    pub fn unusable_index(&self, order: u32) -> f64 {
        if self.free_frames() == 0 {
            return 1.0;
        }
        let usable: u64 = (order..=self.max_block_order()).map(|i| self.free_blocks(i) << i).sum();
        (self.free_frames() - usable) as f64 / self.free_frames() as f64
    }

    /// Linux's fragmentation index at `order`, by which it decides whether to compact: `None` while a block
    /// is large enough (Linux prints -1.000); else near 0 when the request fails for lack of memory, near 1
    /// when it fails for fragmentation:
    ///
    /// `1 - (1 + TotalFree / 2^j) / sum over all i of k_i`
    ///
    /// (`/sys/kernel/debug/extfrag/extfrag_index`; Linux computes it in thousandths). 0 when nothing is free.
    pub fn fragmentation_index(&self, order: u32) -> Option<f64> {
        if self.largest_free_order().is_some_and(|largest| largest >= order) {
            return None;
        }
        let blocks: u64 = (0..=self.max_block_order()).map(|i| self.free_blocks(i)).sum();
        if blocks == 0 {
            return Some(0.0);
        }
        let requests = self.free_frames() as f64 / 2f64.powi(order as i32);
        Some(1.0 - (1.0 + requests) / blocks as f64)
    }
}
