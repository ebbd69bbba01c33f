//! The operating system's half: the VMA table in front of any page table.

use super::MidgardSpace;
use ambulator_base::{CounterSink, FRAME_BYTES, Page, Pfn, VirtAddr, Vpn, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableLock};
use ambulator_structures::ranges::{Range, RangeTable};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bits of a page number: those of 57-bit addresses.
pub(super) const KEY_BITS: u32 = 45;

/// A page table by Midgard address, and the areas in front of it.
pub struct MidgardTable {
    inner: Box<dyn PageTable>,
    areas: RangeTable,
    space: Arc<Mutex<MidgardSpace>>,
    /// The Midgard page behind each area's room, by the area's first virtual page: what the kernel remembers of its allocations.
    rooms: BTreeMap<u64, u64>,
    generation: u64,
}

impl MidgardTable {
    /// In front of `inner`, an empty table. `None` when there is no frame for the root of the areas.
    pub fn new(
        inner: Box<dyn PageTable>,
        space: Arc<Mutex<MidgardSpace>>,
        os: &mut TableContext<'_>,
    ) -> Option<MidgardTable> {
        let areas = RangeTable::new(KEY_BITS, os)?;
        Some(MidgardTable { inner, areas, space, rooms: BTreeMap::new(), generation: 0 })
    }

    /// The page by its Midgard address.
    fn renamed(&self, page: Page, memory: &PhysicalMemory) -> Option<Page> {
        let area = self.areas.find(page.start.vpn(), memory)?;
        let start = VirtAddr(area.frame_of(page.start.vpn()).0 << 12);
        (area.base <= page.start.vpn() && page.start.vpn().0 + page.size.frames() <= area.limit.0)
            .then_some(Page { start, size: page.size })
    }

    /// Pages `[start, end)` are an area. False when Midgard addresses, or memory for the table of areas, are used up.
    fn add(&mut self, start: Vpn, end: Vpn, os: &mut TableContext<'_>) -> bool {
        self.remove(start, end, os);
        let before = start.0.checked_sub(1).and_then(|last| self.areas.find(Vpn(last), os.memory));
        if let Some(before) = before
            && let Some(&room) = self.rooms.get(&before.base.0)
            && before.frame_of(end).0 <= room
        {
            return self.areas.update(before.base, Range { limit: end, ..before }, os);
        }
        let mut space = lock(&self.space);
        let Some((base, room)) = space.allocate(start, end.0 - start.0) else { return false };
        drop(space);
        if !self.areas.prepare(os) {
            return false;
        }
        self.rooms.insert(start.0, base.0 + room);
        let range = Range { base: start, limit: end, frame: Pfn(base.0), writable: true, executable: true };
        self.insert(range, os);
        true
    }

    fn insert(&mut self, range: Range, os: &mut TableContext<'_>) {
        self.areas.insert(range, os);
        self.generation += 1;
    }

    /// Pages `[start, end)` are no area any more.
    fn remove(&mut self, start: Vpn, end: Vpn, os: &mut TableContext<'_>) {
        let inside: Vec<Range> =
            self.areas.all(os.memory).into_iter().filter(|area| area.base < end && start < area.limit).collect();
        for area in inside {
            self.areas.remove(area.base, os);
            let room = self.rooms.remove(&area.base.0);
            self.generation += 1;
            let left = Range { limit: start, ..area };
            let right = Range { base: end, frame: area.frame_of(end), ..area };
            if area.base < start && self.areas.prepare(os) {
                self.insert(left, os);
                self.rooms.insert(area.base.0, area.frame_of(start).0);
            }
            if end < area.limit && self.areas.prepare(os) {
                self.insert(right, os);
                self.rooms.extend(room.map(|room| (end.0, room)));
            }
        }
    }

    /// The page by its Midgard address; a page that nobody announced is an area of its own.
    fn named(&mut self, page: Page, os: &mut TableContext<'_>) -> Result<Page, MapError> {
        if let Some(renamed) = self.renamed(page, os.memory) {
            return Ok(renamed);
        }
        let (first, end) = (page.start.vpn(), Vpn(page.start.vpn().0 + page.size.frames()));
        let held = (first.0..end.0).any(|number| self.areas.find(Vpn(number), os.memory).is_some());
        if held {
            // A page over the seam of two areas: they lie apart in the Midgard address space.
            return Err(MapError::PageSize);
        }
        if !self.add(first, end, os) {
            return Err(MapError::NoMemory { bytes: FRAME_BYTES });
        }
        self.renamed(page, os.memory).ok_or(MapError::NoMemory { bytes: FRAME_BYTES })
    }
}

impl PageTable for MidgardTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let page = self.named(mapping.page, os)?;
        self.inner.map(Mapping { page, ..mapping }, os)
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let renamed = self.renamed(page, os.memory)?;
        Some(Mapping { page, ..self.inner.unmap(renamed, os)? })
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        self.renamed(page, os.memory).is_some_and(|page| self.inner.set_flags(page, flags, os))
    }

    fn move_frame(&mut self, page: Page, frame: Pfn, os: &mut TableContext<'_>) -> bool {
        self.renamed(page, os.memory).is_some_and(|page| self.inner.move_frame(page, frame, os))
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let area = self.areas.find(va.vpn(), memory)?;
        let there = VirtAddr(area.frame_of(va.vpn()).0 << 12 | va.0 & 0xfff);
        let found = self.inner.lookup(there, memory)?;
        Some(Mapping { page: Page { start: VirtAddr(va.0 - (there.0 - found.page.start.0)), ..found.page }, ..found })
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        // Without room for it there is none when its first page is mapped, either, which is then told.
        self.add(start.vpn(), VirtAddr(start.0 + len).vpn(), os);
        if let Some(page) = self.renamed(Page { start, size: ambulator_base::PageSize::SIZE_4K }, os.memory) {
            self.inner.vma_added(page.start, len, os);
        }
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        if let Some(page) = self.renamed(Page { start, size: ambulator_base::PageSize::SIZE_4K }, os.memory) {
            self.inner.vma_removed(page.start, len, os);
        }
        self.remove(start.vpn(), VirtAddr(start.0 + len).vpn(), os);
    }

    fn lock_of(&self, page: Page) -> TableLock {
        self.inner.lock_of(page)
    }

    fn registers(&self) -> Vec<u64> {
        self.inner.registers()
    }

    /// The root of the table of areas.
    fn lookaside_registers(&self) -> Vec<u64> {
        vec![self.areas.root().0]
    }

    fn registers_generation(&self) -> u64 {
        self.inner.registers_generation() + self.generation
    }

    fn footprint(&self) -> Footprint {
        self.inner.footprint().beside(self.areas.footprint)
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.areas.destroy(os);
        self.inner.destroy(os);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.inner.report(prefix, sink);
    }

    fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        self.inner.inspect(memory, prefix, sink);
    }
}
