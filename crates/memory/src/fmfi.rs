//! The fragmentation indices of the literature.

use crate::BuddyAllocator;

impl BuddyAllocator {
    /// The free memory fragmentation index (FMFI) at `order`: the share of free memory that cannot serve a
    /// request of that order, 0 (all of it can) to 1 (none can). It is [`BuddyAllocator::unusable_index`].
    ///
    /// The papers that state an FMFI (ME-HPT section III and Table III: 0.7; LVM section 7.3: 0.8 to 0.9)
    /// take it from Gorman and Whitcroft and from Ingens (OSDI 2016); neither names the order. The unusable
    /// free space index fits their use: it is defined whether or not a request would succeed, and some
    /// requests of that order still succeed at 0.7 and at 0.9, as both papers say of their systems. Linux's
    /// other index ([`BuddyAllocator::fragmentation_index`]) is undefined while one block is left: an index
    /// of 0.7 would mean that every request fails.
    pub fn fmfi(&self, order: u32) -> f64 {
        self.unusable_index(order)
    }

    /// The fragmentation at which the cost of allocating a contiguous block of `order` is computed: the index
    /// that [`crate::fragment`] produced at its own order, or the current index at `order` if it never ran.
    ///
    /// Papers state an index for a machine that other programs keep fragmented during the run. The current
    /// index falls as the measured program fills the gaps.
    pub fn nominal_fmfi(&self, order: u32) -> f64 {
        self.nominal_fmfi.unwrap_or_else(|| self.fmfi(order))
    }

    /// The unusable free space index at `order`:
    ///
    /// `F(j) = (TotalFree - sum over i >= j of 2^i * k_i) / TotalFree`, with `k_i` free blocks of order `i`
    ///
    /// (M. Gorman and A. Whitcroft, "The What, The Why and the Where To of Anti-Fragmentation", Ottawa Linux
    /// Symposium 2006; Linux's `/sys/kernel/debug/extfrag/unusable_index`). As in Linux it is 1 when nothing
    /// is free, and above the allocator's largest order.
    pub fn unusable_index(&self, order: u32) -> f64 {
        if self.free_frames() == 0 {
            return 1.0;
        }
        let usable: u64 = (order..=self.max_block_order()).map(|i| self.free_blocks(i) << i).sum();
        (self.free_frames() - usable) as f64 / self.free_frames() as f64
    }

    /// Linux's fragmentation index at `order`, which decides whether to compact: `None` while a block is
    /// large enough (Linux prints -1.000), otherwise near 0 if a request fails for lack of memory and near 1
    /// if it fails because of fragmentation:
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
