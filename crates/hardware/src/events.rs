//! The events of a core's window: which instruction does something with memory next, and when.

use ambulator_base::State;

/// What happens to a record in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Its address is known: it is translated.
    Issue,
    /// Its translation is known (a store: and it has committed): it asks for its line.
    Ask,
    /// The same for one that has joined the page walk of another. That one asks first, which may find that the walk is
    /// late: this is after all others of its cycle.
    Join,
    /// The line of a load arrives from main memory, as it was told.
    Arrive,
    /// The line of a store arrives from main memory, as it was told. The place is the one in the store queue.
    Own,
    /// An MSHR of the first level may be free for the load or the store that has waited longest for one. The
    /// place is none.
    Admit,
    /// The page walk of an access gets its walker, as was said.
    Begin,
    /// The page of a line that has missed all caches is known, as was said. The place is that of its walk.
    Known,
}

/// An event of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The cycle in which it happens.
    pub at: u64,
    /// The record's place in the window; of [`EventKind::Own`], in the store queue.
    pub place: u32,
    /// What happens.
    pub kind: EventKind,
}

/// Bits of a key below its cycle: whether the event is after others of its cycle, a record's place, and the kind.
const PLACE_BITS: u32 = 19;
const KIND_BITS: u32 = 3;
const LAST: u32 = 1 << (PLACE_BITS + KIND_BITS);
const KEY_BITS: u32 = PLACE_BITS + KIND_BITS + 1;
/// The place of an event of no record: the last in its cycle.
pub(crate) const NO_PLACE: usize = (1 << PLACE_BITS) - 1;
/// Cycles of the wheel: longer than most accesses to main memory.
const WHEEL: usize = 1024;
/// How far before the first event of an empty wheel later ones may be.
const BEFORE: u64 = 256;

/// An event of the wheel: its place and its kind, and 1 + the node of the next event of its cycle, or 0.
#[derive(Clone, Copy, Debug, Default, State)]
struct Node {
    event: u32,
    next: u32,
}

/// Pending events in the order of their times; those of one cycle by their places, but [`EventKind::Join`] is last.
///
/// Those of [`WHEEL`] cycles around now are in a wheel of lists, one for each cycle. A bit for each cycle, and one
/// for each word of those, tells which lists have events. The few others are in an array.
#[derive(Clone, Debug, State)]
pub(crate) struct EventQueue {
    /// 1 + the node of the first event of each cycle, or 0. The cycles from `base` on are at their remainders.
    heads: Box<[u32; WHEEL]>,
    occupied: [u64; WHEEL / 64],
    words: u16,
    nodes: Vec<Node>,
    /// 1 + the first free node, or 0.
    free: u32,
    base: u64,
    /// The cycle of the earliest event of the wheel; `u64::MAX` if there is none.
    in_wheel: u64,
    /// Keys of the events outside of the wheel, the latest first, and the cycle of the earliest; `u64::MAX` if there
    /// is none.
    others: Vec<u64>,
    in_others: u64,
    /// The cycle of the earliest event; `u64::MAX` if there is none.
    next: u64,
}

impl EventQueue {
    /// Room for `events` events.
    pub fn new(events: usize) -> EventQueue {
        EventQueue {
            heads: Box::new([0; WHEEL]),
            occupied: [0; WHEEL / 64],
            words: 0,
            nodes: Vec::with_capacity(events),
            free: 0,
            base: 0,
            in_wheel: u64::MAX,
            others: Vec::new(),
            in_others: u64::MAX,
            next: u64::MAX,
        }
    }

    /// The cycle of the earliest event; `u64::MAX` if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Adds an event of the record at `place` in the window.
    #[inline]
    pub fn push(&mut self, at: u64, record: usize, kind: EventKind) {
        let last = if matches!(kind, EventKind::Join | EventKind::Begin) { LAST } else { 0 };
        let event = last | (record as u32) << KIND_BITS | kind as u32;
        if self.in_wheel == u64::MAX {
            self.base = at.saturating_sub(BEFORE);
        }
        self.next = self.next.min(at);
        if at.wrapping_sub(self.base) >= WHEEL as u64 {
            return self.push_other(at, event);
        }
        self.in_wheel = self.in_wheel.min(at);
        let cycle = at as usize % WHEEL;
        self.occupied[cycle / 64] |= 1 << (cycle % 64);
        self.words |= 1 << (cycle / 64);
        let mut next = self.heads[cycle];
        let mut before = 0;
        while let Some(node) = self.node(next)
            && node.event <= event
        {
            (before, next) = (next, node.next);
        }
        let number = self.take_node(Node { event, next });
        match self.nodes.get_mut((before as usize).wrapping_sub(1)) {
            Some(node) => node.next = number,
            None => self.heads[cycle] = number,
        }
    }

    #[inline(always)]
    fn node(&self, number: u32) -> Option<Node> {
        self.nodes.get((number as usize).wrapping_sub(1)).copied()
    }

    /// Fills a free node; returns 1 + its place.
    #[inline(always)]
    fn take_node(&mut self, new: Node) -> u32 {
        let number = self.free;
        match self.nodes.get_mut((number as usize).wrapping_sub(1)) {
            Some(node) => {
                self.free = node.next;
                *node = new;
                number
            }
            None => self.add_node(new),
        }
    }

    #[cold]
    fn add_node(&mut self, new: Node) -> u32 {
        self.nodes.push(new);
        self.nodes.len() as u32
    }

    #[cold]
    fn push_other(&mut self, at: u64, event: u32) {
        let key = at << KEY_BITS | u64::from(event);
        let place = self.others.partition_point(|other| *other > key);
        self.others.insert(place, key);
        self.in_others = self.in_others.min(at);
    }

    /// Takes the earliest event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Event> {
        if self.in_wheel >= self.in_others {
            return self.pop_either();
        }
        let event = self.pop_from_wheel();
        self.next = self.in_wheel.min(self.in_others);
        Some(event)
    }

    /// Takes the earliest event if one outside of the wheel may be that, or if there is none.
    #[cold]
    fn pop_either(&mut self) -> Option<Event> {
        if self.next == u64::MAX {
            return None;
        }
        let first = self.node(self.heads[self.in_wheel as usize % WHEEL]);
        let in_wheel = match first {
            Some(first) if self.in_wheel != u64::MAX => self.in_wheel << KEY_BITS | u64::from(first.event),
            _ => u64::MAX,
        };
        let event = match self.others.pop_if(|other| *other < in_wheel) {
            Some(key) => event(key >> KEY_BITS, key as u32 & ((1 << KEY_BITS) - 1)),
            None => self.pop_from_wheel(),
        };
        self.in_others = self.others.last().map_or(u64::MAX, |key| key >> KEY_BITS);
        self.next = self.in_wheel.min(self.in_others);
        Some(event)
    }

    /// Takes the earliest event of the wheel, which is not empty.
    #[inline(always)]
    fn pop_from_wheel(&mut self) -> Event {
        let at = self.in_wheel;
        let cycle = at as usize % WHEEL;
        let number = self.heads[cycle];
        let free = self.free;
        let node = &mut self.nodes[(number as usize).wrapping_sub(1)];
        let Node { event: what, next } = *node;
        node.next = free;
        self.free = number;
        self.base = at;
        self.heads[cycle] = next;
        if next == 0 {
            self.occupied[cycle / 64] &= !(1 << (cycle % 64));
            self.in_wheel = self.next_in_wheel(at);
        }
        event(at, what)
    }

    /// The first cycle after `at` with an event in the wheel, which has none before; `u64::MAX` if none has.
    #[inline(always)]
    fn next_in_wheel(&mut self, at: u64) -> u64 {
        let cycle = at as usize % WHEEL;
        let word = cycle / 64;
        let later = self.occupied[word] >> (cycle % 64);
        if later != 0 {
            return at + u64::from(later.trailing_zeros());
        }
        self.words &= !(u16::from(self.occupied[word] == 0) << word);
        if self.words == 0 {
            return u64::MAX;
        }
        // The word itself comes last: its lower bits are the latest cycles.
        let ahead = self.words.rotate_right(word as u32 + 1).trailing_zeros() as usize + 1;
        let word = (word + ahead) % (WHEEL / 64);
        let found = word * 64 + self.occupied[word].trailing_zeros() as usize;
        at + (found.wrapping_sub(cycle) % WHEEL) as u64
    }
}

/// The event at cycle `at` that a node or a key tells of.
#[inline(always)]
fn event(at: u64, what: u32) -> Event {
    let kind = match what & ((1 << KIND_BITS) - 1) {
        0 => EventKind::Issue,
        1 => EventKind::Ask,
        2 => EventKind::Join,
        3 => EventKind::Arrive,
        4 => EventKind::Own,
        5 => EventKind::Admit,
        6 => EventKind::Begin,
        _ => EventKind::Known,
    };
    Event { at, place: (what & !LAST) >> KIND_BITS, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;

    #[test]
    fn events_leave_in_the_order_of_their_times() {
        // The spans of time fit into the wheel, or do not.
        for span in [8, 300, 1100, 20_000] {
            let mut queue = EventQueue::new(64);
            let mut plain: Vec<(u64, u32, EventKind)> = Vec::new();
            let mut random = Random::new(span);
            let mut now = 5000;
            for _ in 0..10_000u32 {
                if plain.len() < 64 {
                    use EventKind::{Admit, Arrive, Ask, Begin, Issue, Join, Known, Own};
                    let kind = [Issue, Ask, Join, Arrive, Own, Admit, Begin, Known][random.below(8) as usize];
                    // Seldom before the last event.
                    let at = now + random.below(span) - random.below(1 + span / 8) * u64::from(random.below(9) == 0);
                    let place = random.below(1 << PLACE_BITS) as u32;
                    queue.push(at, place as usize, kind);
                    plain.push((at, place, kind));
                    plain.sort_unstable_by_key(|&(at, place, kind)| (at, matches!(kind, Join | Begin), place, kind));
                }
                while !plain.is_empty() && (plain.len() == 64 || random.below(2) == 0) {
                    let (at, place, kind) = plain.remove(0);
                    assert_eq!(queue.next(), at);
                    assert_eq!(queue.pop(), Some(Event { at, place, kind }));
                    now = at.max(now);
                }
            }
            for (at, place, kind) in plain {
                assert_eq!(queue.pop(), Some(Event { at, place, kind }));
            }
            assert_eq!((queue.next(), queue.pop()), (u64::MAX, None));
        }
    }
}
