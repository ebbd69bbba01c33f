//! The events of a core's window: which instruction does something with memory next, and when.

use ambulator_base::State;

/// What happens to a record in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Its address is known: it is translated.
    Issue,
    /// Its translation is known (a store: and it has committed): it asks for its line.
    Ask,
}

/// An event of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The cycle in which it happens.
    pub at: u64,
    /// The record's place in the window.
    pub place: u32,
    /// What happens.
    pub kind: EventKind,
}

/// Bits of a key below its cycle for a record's place; one more is for the kind.
const PLACE_BITS: u32 = 19;

/// Pending events in the order of their times. Each record in flight has at most one. Most events are later
/// than those that wait already, so the queue is a sorted array that grows at its end.
#[derive(Clone, Debug, State)]
pub(crate) struct EventQueue {
    /// `keys[first..end]` ascend.
    keys: Box<[u64]>,
    first: usize,
    end: usize,
    /// The cycle of the earliest event; `u64::MAX` if there is none.
    next: u64,
}

impl EventQueue {
    /// Room for `events` events. Little more: the array wanders through its room, and a small one stays in the
    /// sim host's own caches.
    pub fn new(events: usize) -> EventQueue {
        EventQueue { keys: vec![0; events + 64].into_boxed_slice(), first: 0, end: 0, next: u64::MAX }
    }

    /// The cycle of the earliest event; `u64::MAX` if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Adds an event of the record at `place` in the window.
    #[inline(always)]
    pub fn push(&mut self, at: u64, record: usize, kind: EventKind) {
        let key = at << (PLACE_BITS + 1) | (record as u64) << 1 | kind as u64;
        if self.end == self.keys.len() {
            self.keys.copy_within(self.first.., 0);
            self.end -= self.first;
            self.first = 0;
        }
        let mut place = self.end;
        while place > self.first && self.keys[place - 1] > key {
            self.keys[place] = self.keys[place - 1];
            place -= 1;
        }
        self.keys[place] = key;
        self.end += 1;
        self.next = self.next.min(at);
    }

    /// Takes the earliest event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Event> {
        if self.first == self.end {
            return None;
        }
        let key = self.keys[self.first];
        self.first += 1;
        if self.first == self.end {
            (self.first, self.end, self.next) = (0, 0, u64::MAX);
        } else {
            self.next = self.keys[self.first] >> (PLACE_BITS + 1);
        }
        Some(Event {
            at: key >> (PLACE_BITS + 1),
            place: (key >> 1) as u32 & ((1 << PLACE_BITS) - 1),
            kind: if key & 1 == 0 { EventKind::Issue } else { EventKind::Ask },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;

    #[test]
    fn events_leave_in_the_order_of_their_times() {
        let mut queue = EventQueue::new(64);
        let mut plain: Vec<(u64, u32, EventKind)> = Vec::new();
        let mut random = Random::new(7);
        let mut now = 0;
        for number in 0..20_000u32 {
            if plain.len() < 64 {
                let kind = if random.below(2) == 0 { EventKind::Issue } else { EventKind::Ask };
                let at = now + random.below(300);
                queue.push(at, number as usize, kind);
                plain.push((at, number, kind));
                plain.sort_unstable();
            }
            while !plain.is_empty() && (plain.len() == 64 || random.below(2) == 0) {
                let (at, number, kind) = plain.remove(0);
                assert_eq!(queue.next(), at);
                assert_eq!(queue.pop(), Some(Event { at, place: number, kind }));
                now = at;
            }
        }
        while queue.pop().is_some() {}
        assert_eq!((queue.next(), queue.pop()), (u64::MAX, None));
    }
}
