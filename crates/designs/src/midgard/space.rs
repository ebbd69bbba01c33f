//! The Midgard address space: one for the machine, above all physical addresses.

use ambulator_base::Vpn;
use ambulator_mmu::INTERMEDIATE;

/// Pages that an area has for itself at least, to grow: 16 MiB.
const LEAST_ROOM: u64 = 1 << 12;

/// Gives areas their places.
#[derive(Debug)]
pub struct MidgardSpace {
    /// The first page that no area has.
    next: u64,
}

impl Default for MidgardSpace {
    fn default() -> Self {
        MidgardSpace { next: INTERMEDIATE.start.0 >> 12 }
    }
}

impl MidgardSpace {
    /// A place for an area of `pages` pages that begins at virtual page `start`, aligned as that is to the
    /// huge pages that it may hold, and the pages that it may grow to. `None` when the space is used up.
    pub fn allocate(&mut self, start: Vpn, pages: u64) -> Option<(Vpn, u64)> {
        let align = if pages >= 1 << 18 { 1 << 18 } else { 1 << 9 };
        let base = (self.next & !(align - 1)) + (start.0 & (align - 1));
        let base = if base < self.next { base + align } else { base };
        let room = (2 * pages).max(LEAST_ROOM);
        if base + room > INTERMEDIATE.end.0 >> 12 {
            return None;
        }
        self.next = base + room;
        Some((Vpn(base), room))
    }
}
