//! The swap space. The model counts pages and keeps no contents.

use ambulator_base::{FRAME_BYTES, State};

/// A swap space of limited size.
#[derive(State)]
pub(crate) struct SwapSpace {
    #[state(skip)]
    bytes: u64,
    /// Pages in use.
    used: u64,
}

impl SwapSpace {
    /// An empty swap space of `bytes`; 0 is no swap.
    pub fn new(bytes: u64) -> SwapSpace {
        SwapSpace { bytes, used: 0 }
    }

    /// Whether there is room for a page.
    #[inline]
    pub fn has_room(&self) -> bool {
        (self.used + 1) * FRAME_BYTES <= self.bytes
    }

    /// Stores a page in swap. There must be room.
    pub fn take(&mut self) {
        self.used += 1;
    }

    /// Releases a page that was read back or unmapped.
    pub fn release(&mut self) {
        self.used -= 1;
    }

    /// Pages in swap.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.used * FRAME_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_space_holds_whole_pages() {
        let mut swap = SwapSpace::new(2 * FRAME_BYTES - 1);
        assert!(swap.has_room() && !SwapSpace::new(0).has_room());
        swap.take();
        assert_eq!((swap.has_room(), swap.used(), swap.free_bytes()), (false, 1, FRAME_BYTES - 1));
        swap.release();
        assert!(swap.has_room());
    }
}
