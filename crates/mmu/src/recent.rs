//! The translations that the L1 data TLB gave last, one for each of its sets, for the sim host's speed alone.
//!
//! An access to the page that its set of the 4 KiB L1 data TLB used last hits there and leaves the order of
//! replacement as it is. So it may be answered from here, with the same time and the same counts. Whatever
//! else a set is asked, or takes in, replaces or clears its slot.

use crate::tlb::TlbEntry;
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};

#[derive(Clone, Copy)]
struct Slot {
    /// Page number; `NOTHING` for none.
    page: u64,
    /// Physical address of the page's first byte.
    start: PhysAddr,
    ready: Cycle,
    /// Stores need no walk to set the dirty bit.
    stores: bool,
}

const NOTHING: Slot = Slot { page: u64::MAX, start: PhysAddr(0), ready: Cycle(0), stores: false };

/// One slot for each set of the TLB.
pub(crate) struct Recent {
    slots: Box<[Slot]>,
    mask: u64,
}

impl Recent {
    /// For a TLB of so many sets. Where they are no power of two nothing is ever remembered.
    pub fn new(sets: u64) -> Recent {
        let slots = if sets.is_power_of_two() { sets } else { 0 };
        Recent { slots: vec![NOTHING; slots as usize].into(), mask: slots.saturating_sub(1) }
    }

    #[inline(always)]
    fn slot(&mut self, va: VirtAddr) -> Option<&mut Slot> {
        self.slots.get_mut(((va.0 >> 12) & self.mask) as usize)
    }

    /// The physical address, and when the entry is usable, if the page was the last of its set and allows the
    /// access.
    #[inline(always)]
    pub fn recall(&mut self, va: VirtAddr, access: AccessKind) -> Option<(PhysAddr, Cycle)> {
        let slot = self.slot(va)?;
        if slot.page == va.0 >> 12 && (access == AccessKind::Load || slot.stores) {
            return Some((slot.start.offset(va.0 & 0xfff), slot.ready));
        }
        None
    }

    /// The set gave this entry.
    #[inline(always)]
    pub fn remember(&mut self, va: VirtAddr, entry: TlbEntry) {
        if let Some(slot) = self.slot(va) {
            let found = entry.translation();
            let (start, stores) = (found.frame.start(), found.writable && found.dirty);
            *slot = Slot { page: va.0 >> 12, start, ready: entry.ready, stores };
        }
    }

    /// The set took another entry in.
    #[inline(always)]
    pub fn clear(&mut self, va: VirtAddr) {
        if let Some(slot) = self.slot(va) {
            *slot = NOTHING;
        }
    }

    /// Nothing is known any more.
    #[inline]
    pub fn forget(&mut self) {
        self.slots.fill(NOTHING);
    }
}
