//! The load and the store queue of a core's window.

use ambulator_base::State;

/// A time that is not known yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// A store in the store queue: the cycle in which it owns its line, the slot in which it commits, and its
/// number.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct StoreEntry {
    pub owned: u64,
    pub committed: u64,
    pub number: u32,
}

/// The load or the store queue.
#[derive(Clone, Debug, State)]
pub(crate) struct Queue {
    /// Slot in which each entry was released, or `UNKNOWN`.
    pub released: Box<[u64]>,
    /// Of the stores.
    pub stores: Box<[StoreEntry]>,
    /// The place of the next record to enter.
    place: u32,
    /// The place of the next record to leave.
    pub oldest: u32,
}

impl Queue {
    /// An empty queue.
    pub fn new(entries: usize) -> Queue {
        let places = entries.max(1);
        Queue {
            released: vec![0; places].into_boxed_slice(),
            stores: vec![StoreEntry::default(); places].into_boxed_slice(),
            place: 0,
            oldest: 0,
        }
    }

    /// The slot from which on a record may enter, or `UNKNOWN`.
    #[inline(always)]
    pub fn room(&self) -> u64 {
        self.released[self.place as usize]
    }

    #[inline(always)]
    fn after(&self, place: u32) -> u32 {
        if place as usize + 1 == self.released.len() { 0 } else { place + 1 }
    }

    /// Record `number` enters; returns its place.
    #[inline(always)]
    pub fn enter(&mut self, number: u32) -> u32 {
        let place = self.place;
        self.released[place as usize] = UNKNOWN;
        self.stores[place as usize] = StoreEntry { owned: UNKNOWN, committed: UNKNOWN, number };
        self.place = self.after(place);
        place
    }

    /// The oldest record leaves at `slot`.
    #[inline(always)]
    pub fn leave(&mut self, slot: u64) {
        self.released[self.oldest as usize] = slot;
        self.oldest = self.after(self.oldest);
    }
}
