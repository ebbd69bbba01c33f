//! The Midgard address space: one for the machine, above all physical addresses.

use ambulator_base::{State, Vpn};
use ambulator_mmu::INTERMEDIATE;

/// Least number of pages reserved before and after an area, so that it can grow: 16 MiB.
const LEAST_ROOM: u64 = 1 << 12;

/// Where an area lies, and how far it may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its first Midgard page.
    pub(crate) base: Vpn,
    /// The Midgard pages reserved for it: the first one, and the one after the last.
    pub(crate) room: (u64, u64),
}

/// Allocates areas.
#[derive(Debug, State)]
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
    /// huge pages, and with room on both sides for as much as its VMA of `vma_pages` pages has: a VMA that
    /// grows piece by piece has few areas, each twice as large as all before it. `None` if the space is
    /// exhausted.
    pub(crate) fn allocate(&mut self, start: Vpn, pages: u64, vma_pages: u64) -> Option<Place> {
        let align = if pages >= 1 << 18 { 1 << 18 } else { 1 << 9 };
        let room = pages.max(vma_pages).max(LEAST_ROOM);
        let least = self.next + room;
        let base = (least & !(align - 1)) + (start.0 & (align - 1));
        let base = if base < least { base + align } else { base };
        let end = base + pages + room;
        if end > INTERMEDIATE.end.0 >> 12 {
            return None;
        }
        let place = Place { base: Vpn(base), room: (self.next, end) };
        self.next = end;
        Some(place)
    }
}
