//! The OS half: the VMA table, which maps virtual to Midgard addresses before any page table.

use super::space::{MidgardSpace, Place};
use ambulator_base::{FRAME_BYTES, Page, Pfn, State, VirtAddr, Vpn, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, IntermediateMap, MapError, TableContext};
use ambulator_structures::ranges::{Range, RangeTable};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bits of a page number: those of 57-bit addresses.
pub(super) const KEY_BITS: u32 = 45;

/// The areas of a process.
#[derive(State)]
pub(crate) struct AreaTable {
    areas: RangeTable,
    space: Arc<Mutex<MidgardSpace>>,
    /// The Midgard pages to which each area may grow, by the area's first virtual page: the kernel's record
    /// of its allocations.
    rooms: BTreeMap<u64, (u64, u64)>,
    generation: u64,
    /// Frames of `areas` before the area that was added last.
    frames_before: usize,
}

impl AreaTable {
    /// A table without areas. `None` if there is no frame for its root.
    pub(crate) fn new(space: Arc<Mutex<MidgardSpace>>, os: &mut TableContext<'_>) -> Option<AreaTable> {
        let areas = RangeTable::new(KEY_BITS, os)?;
        Some(AreaTable { areas, space, rooms: BTreeMap::new(), generation: 0, frames_before: 0 })
    }

    /// Adds `[start, end)`, a part of the VMA `vma`, which has an area as far as Midgard addresses permit.
    /// False if there are no Midgard addresses, or no memory for the table, left.
    fn add(&mut self, start: Vpn, end: Vpn, vma: (Vpn, Vpn), os: &mut TableContext<'_>) -> bool {
        self.frames_before = self.areas.frames();
        self.remove(start, end, os);
        if self.areas.find(start, os.memory).is_some() {
            // A hole for which there was no memory: it is part of its area still.
            return true;
        }
        let pages = end.0 - start.0;
        let last = start.0.checked_sub(1).filter(|_| vma.0 < start);
        let before = last.and_then(|last| self.areas.find(Vpn(last), os.memory));
        let after = Some(end).filter(|_| end < vma.1).and_then(|end| self.areas.find(end, os.memory));
        if let Some(before) = before
            && let Some(&(_, high)) = self.rooms.get(&before.base.0)
            && before.frame_of(end).0 <= high
        {
            return self.areas.update(before.base, Range { limit: end, ..before }, os);
        }
        if let Some(after) = after
            && let Some(&(low, high)) = self.rooms.get(&after.base.0)
            && low + pages <= after.frame.0
        {
            self.rooms.remove(&after.base.0);
            self.rooms.insert(start.0, (low, high));
            let frame = Pfn(after.frame.0 - pages);
            return self.areas.update(after.base, Range { base: start, frame, ..after }, os);
        }
        let mut space = lock(&self.space);
        let Some(Place { base, room }) = space.allocate(start, pages, vma.1.0 - vma.0.0) else { return false };
        drop(space);
        if !self.areas.reserve(1, os) {
            self.areas.shrink(self.frames_before, os);
            return false;
        }
        self.rooms.insert(start.0, room);
        let range = Range { base: start, limit: end, frame: Pfn(base.0), writable: true, executable: true };
        self.areas.insert(range, os);
        self.generation += 1;
        true
    }

    /// Pages `[start, end)` are in no area from now on. Where there is no memory to split an area, the hole
    /// stays part of it: its pages have intermediate addresses, which no page table maps. Returns the parts
    /// of areas that they were.
    fn remove(&mut self, start: Vpn, end: Vpn, os: &mut TableContext<'_>) -> Vec<(VirtAddr, u64)> {
        let inside: Vec<Range> =
            self.areas.all(os.memory).into_iter().filter(|area| area.base < end && start < area.limit).collect();
        let part = |area: &Range| {
            let (first, behind) = (area.base.max(start), area.limit.min(end));
            (first.start(), (behind.0 - first.0) * FRAME_BYTES)
        };
        let gone = inside.iter().map(part).collect();
        for area in inside {
            let left = (area.base < start).then_some(Range { limit: start, ..area });
            let right = (end < area.limit).then_some(Range { base: end, frame: area.frame_of(end), ..area });
            let parts = [left, right].into_iter().flatten();
            if !self.areas.reserve(parts.clone().count(), os) {
                // What is left of one side has the place of the whole.
                if let (Some(part), None) | (None, Some(part)) = (left, right) {
                    self.areas.update(area.base, part, os);
                } else {
                    continue;
                }
            } else {
                self.areas.remove(area.base, os);
                parts.for_each(|part| self.areas.insert(part, os));
            }
            let room = self.rooms.remove(&area.base.0);
            self.generation += 1;
            // Addresses of the part that goes are never used again.
            if let Some((low, high)) = room {
                if left.is_some() {
                    self.rooms.insert(area.base.0, (low, area.frame_of(start).0));
                }
                if right.is_some() {
                    self.rooms.insert(end.0, (area.frame_of(end).0, high));
                }
            }
        }
        gone
    }
}

impl IntermediateMap for AreaTable {
    fn address(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<VirtAddr> {
        let area = self.areas.find(va.vpn(), memory)?;
        Some(VirtAddr(area.frame_of(va.vpn()).0 << 12 | va.0 & 0xfff))
    }

    fn page(&self, page: Page, memory: &PhysicalMemory) -> Option<Page> {
        let area = self.areas.find(page.start.vpn(), memory)?;
        let start = VirtAddr(area.frame_of(page.start.vpn()).0 << 12);
        (area.base <= page.start.vpn() && page.start.vpn().0 + page.size.frames() <= area.limit.0)
            .then_some(Page { start, size: page.size })
    }

    fn assign(&mut self, page: Page, os: &mut TableContext<'_>) -> Result<Page, MapError> {
        let (first, end) = (page.start.vpn(), Vpn(page.start.vpn().0 + page.size.frames()));
        let overlaps = (first.0..end.0).any(|number| self.areas.find(Vpn(number), os.memory).is_some());
        if overlaps {
            // A page across the border of two areas, which are not contiguous in the Midgard address space.
            return Err(MapError::PageSize);
        }
        if !self.add(first, end, (first, end), os) {
            return Err(MapError::NoMemory { bytes: FRAME_BYTES });
        }
        self.page(page, os.memory).ok_or(MapError::NoMemory { bytes: FRAME_BYTES })
    }

    fn unassign(&mut self, page: Page, os: &mut TableContext<'_>) {
        self.remove(page.start.vpn(), page.end().vpn(), os);
        self.areas.shrink(self.frames_before, os);
    }

    fn add_area(&mut self, start: VirtAddr, len: u64, vma: (VirtAddr, VirtAddr), os: &mut TableContext<'_>) {
        self.add(start.vpn(), VirtAddr(start.0 + len).vpn(), (vma.0.vpn(), vma.1.vpn()), os);
    }

    fn remove_area(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) -> Vec<(VirtAddr, u64)> {
        self.remove(start.vpn(), VirtAddr(start.0 + len).vpn(), os)
    }

    /// The root of the VMA table.
    fn registers(&self) -> Vec<u64> {
        vec![self.areas.root().0]
    }

    fn registers_generation(&self) -> u64 {
        self.generation
    }

    fn footprint(&self) -> Footprint {
        self.areas.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.areas.destroy(os);
    }
}
