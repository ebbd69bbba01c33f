//! The mappings that a stream's own VM events create, to find accesses outside them or without permission.

use ambulator_base::{AccessKind, FRAME_BYTES, MapKind, Protection, VirtAddr, VmEvent};
use std::collections::BTreeMap;

/// The mapped ranges of a stream with one process. After a fork the check stops.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// End and protection by start; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, Protection)>,
    heap: Option<(u64, u64, Protection)>,
    forked: bool,
    /// The most recently used ranges, for data and for instructions.
    last: [(u64, u64, Protection); 2],
}

fn end_of(start: u64, len: u64) -> u64 {
    start.saturating_add(len).div_ceil(FRAME_BYTES).saturating_mul(FRAME_BYTES)
}

impl Mappings {
    /// Whether the bytes are mapped and permit this access.
    #[inline]
    pub(crate) fn allow(&mut self, va: VirtAddr, bytes: u64, kind: AccessKind) -> bool {
        let end = va.0.saturating_add(bytes);
        let (from, to, protection) = self.last[usize::from(kind == AccessKind::Fetch)];
        (from <= va.0 && end <= to && protection.allows(kind)) || self.forked || self.find(va.0, end, kind)
    }

    fn find(&mut self, start: u64, end: u64, kind: AccessKind) -> bool {
        let mut at = start;
        while at < end {
            let Some((&from, &(to, protection))) = self.ranges.range(..=at).next_back() else {
                return false;
            };
            if to <= at || !protection.allows(kind) {
                return false;
            }
            self.last[usize::from(kind == AccessKind::Fetch)] = (from, to, protection);
            at = to;
        }
        true
    }

    /// Applies an event; false if it touches unmapped bytes or lacks permission.
    pub(crate) fn event(&mut self, event: &VmEvent) -> bool {
        match *event {
            VmEvent::Map { start, len, kind, protection } => {
                self.add(start.0, len, protection);
                if kind == MapKind::Heap && self.heap.is_none() {
                    self.heap = Some((start.0, end_of(start.0, len), protection));
                }
            }
            VmEvent::Unmap { start, len } => drop(self.remove(start.0, len)),
            VmEvent::Protect { start, len, protection } => {
                for (from, to, _) in self.remove(start.0, len) {
                    self.ranges.insert(from, (to, protection));
                }
            }
            VmEvent::Remap { old, old_len, new, new_len } => {
                let moved = self.remove(old.0, old_len);
                let protection = moved.last().map_or(Protection::READ_WRITE, |range| range.2);
                self.add(new.0, new_len, protection);
            }
            VmEvent::Brk { end } => {
                if let Some((start, old_end, protection)) = self.heap {
                    let end = end_of(end.0.max(start), 0);
                    if end > old_end {
                        self.add(old_end, end - old_end, protection);
                    } else {
                        self.remove(end, old_end - end);
                    }
                    self.heap = Some((start, end, protection));
                }
            }
            VmEvent::Fork { .. } => self.forked = true,
            VmEvent::Touch { start, len, write } => {
                // A read may be of the file's text, which may be execute-only.
                let kind = if write { AccessKind::Store } else { AccessKind::Load };
                return self.allow(start, len, kind) || (!write && self.allow(start, len, AccessKind::Fetch));
            }
            _ => {}
        }
        true
    }

    fn add(&mut self, start: u64, len: u64, protection: Protection) {
        self.remove(start, len);
        let end = end_of(start, len);
        if end > start {
            self.ranges.insert(start, (end, protection));
        }
    }

    /// Removes a range; returns the mappings it held.
    fn remove(&mut self, start: u64, len: u64) -> Vec<(u64, u64, Protection)> {
        self.last = Default::default();
        let end = end_of(start, len);
        let mut cut: Vec<(u64, u64, Protection)> = self
            .ranges
            .range(..end)
            .rev()
            .take_while(|(_, (to, _))| *to > start)
            .map(|(&from, &(to, protection))| (from, to, protection))
            .collect();
        for (from, to, protection) in &mut cut {
            self.ranges.remove(from);
            if *from < start {
                self.ranges.insert(*from, (start, *protection));
                *from = start;
            }
            if *to > end {
                self.ranges.insert(end, (*to, *protection));
                *to = end;
            }
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Model(Mappings);

    impl Model {
        fn holds(&mut self, va: VirtAddr, bytes: u64) -> bool {
            self.0.allow(va, bytes, AccessKind::Store)
        }

        fn event(&mut self, event: &VmEvent) -> bool {
            self.0.event(event)
        }
    }

    #[test]
    fn permissions_are_enforced() {
        let mut maps = Mappings::default();
        let (start, len) = (VirtAddr(0x10000), 0x3000);
        maps.event(&VmEvent::Map { start, len, protection: Protection::READ_WRITE, kind: MapKind::Anonymous });
        let middle = VirtAddr(0x11000);
        assert!(maps.allow(middle, 8, AccessKind::Store));
        maps.event(&VmEvent::Protect { start: middle, len: 0x1000, protection: Protection::READ_EXECUTE });
        assert!(!maps.allow(middle, 8, AccessKind::Store) && maps.allow(middle, 8, AccessKind::Fetch));
        assert!(maps.allow(start, 0x3000, AccessKind::Load) && !maps.allow(start, 0x3000, AccessKind::Store));
        assert!(maps.allow(VirtAddr(0x12000), 0x1000, AccessKind::Store));
        assert!(!maps.event(&VmEvent::Touch { start, len, write: true }));
    }

    #[test]
    fn holes_moves_and_the_heap_are_tracked() {
        let mut maps = Model(Mappings::default());
        let map =
            |start, len, kind| VmEvent::Map { start: VirtAddr(start), len, protection: Protection::READ_WRITE, kind };
        maps.event(&map(0x10000, 0x4000, MapKind::Anonymous));
        maps.event(&VmEvent::Unmap { start: VirtAddr(0x11000), len: 0x1000 });
        assert!(maps.holds(VirtAddr(0x10ff8), 8) && !maps.holds(VirtAddr(0x10ffc), 8));
        assert!(!maps.holds(VirtAddr(0x11000), 1) && maps.holds(VirtAddr(0x12000), 0x2000));
        maps.event(&map(0x14000, 0x1000, MapKind::Heap));
        assert!(maps.holds(VirtAddr(0x13ffc), 8), "an access may span two mappings");
        maps.event(&VmEvent::Brk { end: VirtAddr(0x16000) });
        assert!(maps.holds(VirtAddr(0x15ff8), 8));
        maps.event(&VmEvent::Brk { end: VirtAddr(0x14000) });
        assert!(!maps.holds(VirtAddr(0x14000), 8));
        let moved = VmEvent::Remap { old: VirtAddr(0x12000), old_len: 0x2000, new: VirtAddr(0x90000), new_len: 0x3000 };
        maps.event(&moved);
        assert!(!maps.holds(VirtAddr(0x12000), 8) && maps.holds(VirtAddr(0x92ff8), 8));
        assert!(!maps.event(&VmEvent::Touch { start: VirtAddr(0x92000), len: 0x2000, write: true }));
    }
}
