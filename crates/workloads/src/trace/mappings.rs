//! What a stream's own VM events map, to tell accesses that lie outside.

use ambulator_base::{FRAME_BYTES, MapKind, VirtAddr, VmEvent};
use std::collections::BTreeMap;

/// The mapped ranges of a stream with one process. (After a fork nothing is told any more.)
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// Start to end; ranges do not overlap.
    ranges: BTreeMap<u64, u64>,
    heap: Option<(u64, u64)>,
    forked: bool,
    last: (u64, u64),
}

impl Mappings {
    /// Whether the bytes are mapped.
    #[inline]
    pub(super) fn holds(&mut self, va: VirtAddr, bytes: u64) -> bool {
        let end = va.0.saturating_add(bytes);
        if (self.last.0 <= va.0 && end <= self.last.1) || self.forked {
            return true;
        }
        let mut at = va.0;
        while at < end {
            let Some((&start, &stop)) = self.ranges.range(..=at).next_back() else {
                return false;
            };
            if stop <= at {
                return false;
            }
            self.last = (start, stop);
            at = stop;
        }
        true
    }

    /// Follows an event; false when it touches what is not mapped.
    pub(super) fn event(&mut self, event: &VmEvent) -> bool {
        match *event {
            VmEvent::Map {
                start, len, kind, ..
            } => {
                self.add(start.0, len);
                if kind == MapKind::Heap && self.heap.is_none() {
                    self.heap = Some((start.0, start.0.saturating_add(len)));
                }
            }
            VmEvent::Unmap { start, len } => self.remove(start.0, len),
            VmEvent::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                self.remove(old.0, old_len);
                self.add(new.0, new_len);
            }
            VmEvent::Brk { end } => {
                if let Some((start, old_end)) = self.heap {
                    let end = end.0.max(start);
                    if end > old_end {
                        self.add(old_end, end - old_end);
                    } else {
                        self.remove(end, old_end - end);
                    }
                    self.heap = Some((start, end));
                }
            }
            VmEvent::Fork { .. } => self.forked = true,
            VmEvent::Touch { start, len, .. } => return self.holds(start, len),
            _ => {}
        }
        true
    }

    fn add(&mut self, start: u64, len: u64) {
        self.remove(start, len);
        let end = start
            .saturating_add(len)
            .div_ceil(FRAME_BYTES)
            .saturating_mul(FRAME_BYTES);
        if end > start {
            self.ranges.insert(start, end);
        }
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.last = (0, 0);
        let end = start
            .saturating_add(len)
            .div_ceil(FRAME_BYTES)
            .saturating_mul(FRAME_BYTES);
        let cut: Vec<(u64, u64)> = self
            .ranges
            .range(..end)
            .rev()
            .take_while(|(_, stop)| **stop > start)
            .map(|(&from, &stop)| (from, stop))
            .collect();
        for (from, stop) in cut {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, start);
            }
            if stop > end {
                self.ranges.insert(end, stop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Protection;

    #[test]
    fn holes_moves_and_the_heap_are_followed() {
        let mut maps = Mappings::default();
        let map = |start, len, kind| VmEvent::Map {
            start: VirtAddr(start),
            len,
            protection: Protection::READ_WRITE,
            kind,
        };
        maps.event(&map(0x10000, 0x4000, MapKind::Anonymous));
        maps.event(&VmEvent::Unmap {
            start: VirtAddr(0x11000),
            len: 0x1000,
        });
        assert!(maps.holds(VirtAddr(0x10ff8), 8) && !maps.holds(VirtAddr(0x10ffc), 8));
        assert!(!maps.holds(VirtAddr(0x11000), 1) && maps.holds(VirtAddr(0x12000), 0x2000));
        maps.event(&map(0x14000, 0x1000, MapKind::Heap));
        assert!(
            maps.holds(VirtAddr(0x13ffc), 8),
            "an access may span two mappings"
        );
        maps.event(&VmEvent::Brk {
            end: VirtAddr(0x16000),
        });
        assert!(maps.holds(VirtAddr(0x15ff8), 8));
        maps.event(&VmEvent::Brk {
            end: VirtAddr(0x14000),
        });
        assert!(!maps.holds(VirtAddr(0x14000), 8));
        let moved = VmEvent::Remap {
            old: VirtAddr(0x12000),
            old_len: 0x2000,
            new: VirtAddr(0x90000),
            new_len: 0x3000,
        };
        maps.event(&moved);
        assert!(!maps.holds(VirtAddr(0x12000), 8) && maps.holds(VirtAddr(0x92ff8), 8));
        assert!(!maps.event(&VmEvent::Touch {
            start: VirtAddr(0x92000),
            len: 0x2000,
            write: true
        }));
    }
}
