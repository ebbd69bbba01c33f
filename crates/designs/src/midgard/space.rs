//! The Midgard address space: one for the machine, above all physical addresses.

use ambulator_base::Vpn;
use ambulator_mmu::INTERMEDIATE;

/// Least number of pages reserved for an area, so that it can grow: 16 MiB.
const LEAST_ROOM: u64 = 1 << 12;

/// Allocates areas.
#[derive(Debug)]
pub(crate) struct MidgardSpace {
    /// The first free page.
    next: u64,
}

impl Default for MidgardSpace {
    fn default() -> Self {
        MidgardSpace { next: INTERMEDIATE.start.0 >> 12 }
    }
}

impl MidgardSpace {
    /// Allocates an area of `pages` pages for virtual page `start`, with the same alignment with respect to
    /// huge pages. Returns its first page and the number of pages to which it may grow. `None` if the space
    /// is exhausted.
    pub(crate) fn allocate(&mut self, start: Vpn, pages: u64) -> Option<(Vpn, u64)> {
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
