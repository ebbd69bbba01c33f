//! The most recent translation of each set of the L1 data TLB: a cache for the speed of the simulator only.
//!
//! An access to the page that its set of the 4 KiB L1 data TLB used last hits there and does not change the
//! replacement order. So it can be served from here, with the same time and the same counts. Any other hit or
//! fill of a set replaces its slot: what it found or filled is the most recently used now.

use crate::{Retime, Translation};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};

#[derive(Clone, Copy)]
struct Slot {
    /// Page number; `u64::MAX` for an empty slot.
    page: u64,
    /// Physical address of the page's first byte.
    start: PhysAddr,
    ready: Cycle,
    /// Stores are allowed and need no walk to set the dirty bit.
    stores: bool,
}

const EMPTY: Slot = Slot { page: u64::MAX, start: PhysAddr(0), ready: Cycle(0), stores: false };

/// One slot for each set of the TLB.
pub(crate) struct Recent {
    slots: Box<[Slot]>,
    mask: u64,
}

impl Recent {
    /// For a TLB of `sets` sets. If `sets` is not a power of two, nothing is ever remembered.
    pub fn new(sets: u64) -> Recent {
        let slots = if sets.is_power_of_two() { sets } else { 0 };
        Recent { slots: vec![EMPTY; slots as usize].into(), mask: slots.saturating_sub(1) }
    }

    #[inline(always)]
    fn slot(&mut self, va: VirtAddr) -> Option<&mut Slot> {
        self.slots.get_mut(((va.0 >> 12) & self.mask) as usize)
    }

    /// The physical address, when the entry is usable, and whether it allows stores, if the page was the last of
    /// its set and allows the access.
    #[inline(always)]
    pub fn recall(&self, va: VirtAddr, access: AccessKind) -> Option<(PhysAddr, Cycle, bool)> {
        let slot = self.slots.get(((va.0 >> 12) & self.mask) as usize)?;
        if slot.page == va.0 >> 12 && (access == AccessKind::Load || slot.stores) {
            return Some((slot.start.offset(va.0 & 0xfff), slot.ready, slot.stores));
        }
        None
    }

    /// The set's look-up found this 4 KiB translation, usable from `ready` on, or the set was filled with it.
    #[inline(always)]
    pub fn remember(&mut self, va: VirtAddr, found: &Translation, ready: Cycle) {
        if let Some(slot) = self.slot(va) {
            let (start, stores) = (found.frame.start(), found.writable && found.dirty);
            *slot = Slot { page: va.0 >> 12, start, ready, stores };
        }
    }

    /// Changes when the entry of a page is usable.
    pub fn retime(&mut self, va: VirtAddr, change: Retime) {
        if let Some(slot) = self.slot(va)
            && slot.page == va.0 >> 12
        {
            slot.ready = change.apply(slot.ready);
        }
    }

    /// Clears all slots.
    #[inline]
    pub fn forget(&mut self) {
        self.slots.fill(EMPTY);
    }
}
