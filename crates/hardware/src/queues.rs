//! The load and the store queue of a core's window.

use ambulator_base::{PhysAddr, State};

/// A time that is not known yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// The load queue, or what the store queue is besides its stores.
#[derive(Clone, Debug, State)]
pub(crate) struct Queue {
    /// Slot in which each entry was released, or `UNKNOWN`.
    released: Box<[u64]>,
    /// The place of the next record to enter.
    place: u32,
    /// The place of the next record to leave.
    oldest: u32,
}

impl Queue {
    /// An empty queue.
    pub fn new(entries: usize) -> Queue {
        Queue { released: vec![0; entries.max(1)].into_boxed_slice(), place: 0, oldest: 0 }
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

    /// A record enters; returns its place.
    #[inline(always)]
    pub fn enter(&mut self) -> u32 {
        let place = self.place;
        self.released[place as usize] = UNKNOWN;
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

/// A store in the store queue: the cycle in which it owns its line, the slot in which it commits, its number,
/// and where its data are while it waits for main memory.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct StoreEntry {
    pub owned: u64,
    pub committed: u64,
    pub number: u32,
    pub at: PhysAddr,
}

/// The store queue.
#[derive(Clone, Debug, State)]
pub(crate) struct StoreQueue {
    queue: Queue,
    pub stores: Box<[StoreEntry]>,
}

impl StoreQueue {
    /// An empty queue.
    pub fn new(entries: usize) -> StoreQueue {
        let queue = Queue::new(entries);
        StoreQueue { stores: vec![StoreEntry::default(); queue.released.len()].into_boxed_slice(), queue }
    }

    /// The slot from which on a store may enter, or `UNKNOWN`.
    #[inline(always)]
    pub fn room(&self) -> u64 {
        self.queue.room()
    }

    /// Store `number` enters; returns its place.
    #[inline(always)]
    pub fn enter(&mut self, number: u32) -> u32 {
        let place = self.queue.enter();
        self.stores[place as usize] = StoreEntry { owned: UNKNOWN, committed: UNKNOWN, number, at: PhysAddr(0) };
        place
    }

    /// The oldest store, if it has committed and owns its line.
    #[inline(always)]
    pub fn ready(&self) -> Option<StoreEntry> {
        let oldest = self.queue.oldest as usize;
        // The place that is entered next may be empty.
        if self.queue.released[oldest] != UNKNOWN {
            return None;
        }
        let store = self.stores[oldest];
        (store.owned != UNKNOWN && store.committed != UNKNOWN).then_some(store)
    }

    /// The oldest store leaves at `slot`.
    #[inline(always)]
    pub fn leave(&mut self, slot: u64) {
        self.queue.leave(slot);
    }
}
