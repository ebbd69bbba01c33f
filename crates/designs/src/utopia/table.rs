//! The OS half: a process's tag arrays and set filters beside any page table, which has the FlexSeg's pages (Utopia Sec. 5.2, 5.3).

use super::rows::{flags, metadata};
use super::segments::{Arrays, Segments, Shape};
use ambulator_base::{CounterSink, FRAME_BYTES, LINE_BYTES, Page, PhysAddr, ProcessId, VirtAddr, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableLock};
use ambulator_structures::frames;
use std::sync::{Arc, Mutex};

/// Sets whose lines changed last, as the registers tell them.
pub(super) const RECENT: usize = 4;

/// A RestSeg as a process sees it.
struct Own {
    shape: Shape,
    base: ambulator_base::Pfn,
    arrays: Arrays,
}

/// Where a page is in a RestSeg.
struct Place {
    segment: usize,
    set: u64,
    way: u32,
    tag: u64,
}

/// A process's table.
pub struct UtopiaTable {
    inner: Box<dyn PageTable>,
    shared: Arc<Mutex<Segments>>,
    process: ProcessId,
    own: Vec<Own>,
    /// How often lines of tag arrays and set filters changed, and which did last.
    changes: u64,
    recent: [(u64, u64); RECENT],
    arrays: Footprint,
    entries: u64,
}

impl UtopiaTable {
    /// Arrays for `process` beside `inner`, an empty table. `None` when there is no memory for them.
    pub fn new(
        inner: Box<dyn PageTable>,
        shared: Arc<Mutex<Segments>>,
        process: ProcessId,
        os: &mut TableContext<'_>,
    ) -> Result<UtopiaTable, (Box<dyn PageTable>, u64)> {
        let mut arrays = Footprint::default();
        let mut own: Vec<Own> = Vec::new();
        let mut failed = None;
        let segments: Vec<(Shape, ambulator_base::Pfn)> = {
            let shared = lock(&shared);
            shared.list.iter().map(|segment| (segment.shape, segment.base)).collect()
        };
        for (shape, base) in segments {
            let (tar, sf) = shape.array_bytes();
            let mut take = |bytes: u64| frames::allocate_run(bytes.div_ceil(FRAME_BYTES), 0, &mut arrays, os);
            let (tar_at, sf_at) = (take(tar), take(sf));
            for (at, bytes) in [(tar_at, tar), (sf_at, sf)] {
                if at.is_none() {
                    failed = Some(bytes);
                }
            }
            let at = |at: Option<ambulator_base::Pfn>| at.map_or(PhysAddr(0), ambulator_base::Pfn::start);
            own.push(Own { shape, base, arrays: Arrays { tar: at(tar_at), sf: at(sf_at) } });
        }
        let mut table =
            UtopiaTable { inner, shared, process, own, changes: 0, recent: [(0, 0); RECENT], arrays, entries: 0 };
        if let Some(bytes) = failed {
            table.release(os);
            return Err((table.inner, bytes));
        }
        let all = table.own.iter().map(|own| own.arrays).collect();
        lock(&table.shared).arrays.insert(process, all);
        Ok(table)
    }

    fn release(&mut self, os: &mut TableContext<'_>) {
        for own in std::mem::take(&mut self.own) {
            let (tar, sf) = own.shape.array_bytes();
            for (at, bytes) in [(own.arrays.tar, tar), (own.arrays.sf, sf)] {
                if at.0 != 0 {
                    frames::release(at.pfn(), bytes.div_ceil(FRAME_BYTES), &mut self.arrays, os);
                }
            }
        }
    }

    /// Where a mapping belongs in a RestSeg: where its frame is the place of a way of its page's set.
    fn home(&self, mapping: &Mapping) -> Option<Place> {
        self.own.iter().enumerate().find_map(|(segment, own)| {
            let within = mapping.frame.0.checked_sub(own.base.0).filter(|within| *within < own.shape.frames())?;
            if own.shape.page != mapping.page.size || within % own.shape.page.frames() != 0 {
                return None;
            }
            let (set, tag) = own.shape.set_and_tag(mapping.page.start);
            let number = within / own.shape.page.frames();
            let way = number.checked_sub(set * u64::from(own.shape.ways))?;
            (way < u64::from(own.shape.ways)).then_some(Place { segment, set, way: way as u32, tag })
        })
    }

    /// The page around `va` in a RestSeg, as hardware finds it.
    fn find(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<(Place, u8)> {
        self.own.iter().enumerate().find_map(|(segment, own)| {
            let (set, tag) = own.shape.set_and_tag(va);
            let filter = memory.line(own.shape.filter.line(own.arrays.sf, set));
            if own.shape.filter.count(&filter, set) == 0 {
                return None;
            }
            let row = memory.line(own.arrays.tar.offset(set * LINE_BYTES));
            let way = own.shape.row.find(&row, tag)?;
            Some((Place { segment, set, way, tag }, own.shape.row.metadata(&row, way)))
        })
    }

    /// Writes a way, and adds to its set's counter.
    fn write(&mut self, place: &Place, metadata: u8, add: i64, os: &mut TableContext<'_>) {
        let own = &self.own[place.segment];
        let line = own.arrays.tar.offset(place.set * LINE_BYTES);
        let mut row = os.memory.line(line);
        own.shape.row.write(&mut row, place.way, metadata, if metadata == 0 { 0 } else { place.tag });
        os.memory.write_words(line, &row);
        let counter = own.shape.filter.line(own.arrays.sf, place.set);
        let mut words = os.memory.line(counter);
        let count = own.shape.filter.count(&words, place.set).wrapping_add_signed(add);
        own.shape.filter.set_count(&mut words, place.set, count);
        os.memory.write_words(counter, &words);
        self.recent[self.changes as usize % RECENT] = (line.0, counter.0);
        self.changes += 1;
    }

    fn mapping(&self, va: VirtAddr, place: &Place, metadata: u8) -> Mapping {
        let own = &self.own[place.segment];
        Mapping {
            page: Page::containing(va, own.shape.page),
            frame: own.shape.frame(own.base, place.set, place.way),
            flags: flags(metadata),
        }
    }
}

impl PageTable for UtopiaTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        // What is in no other place of the page's range is seen by the table that holds it.
        let Some(place) = self.home(&mapping) else { return self.inner.map(mapping, os) };
        if self.lookup(mapping.page.start, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        self.write(&place, metadata(mapping.flags), 1, os);
        self.entries += 1;
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        if let Some((place, metadata)) = self.find(page.start, os.memory) {
            let mapping = self.mapping(page.start, &place, metadata);
            if mapping.page != page {
                return None;
            }
            self.write(&place, 0, -1, os);
            self.entries -= 1;
            return Some(mapping);
        }
        self.inner.unmap(page, os)
    }

    fn set_flags(&mut self, page: Page, new: PteFlags, os: &mut TableContext<'_>) -> bool {
        if let Some((place, old)) = self.find(page.start, os.memory) {
            if self.mapping(page.start, &place, old).page != page {
                return false;
            }
            self.write(&place, metadata(new), 0, os);
            return true;
        }
        self.inner.set_flags(page, new, os)
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        match self.find(va, memory) {
            Some((place, metadata)) => Some(self.mapping(va, &place, metadata)),
            None => self.inner.lookup(va, memory),
        }
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.inner.vma_added(start, len, os);
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.inner.vma_removed(start, len, os);
    }

    fn lock_of(&self, page: Page) -> TableLock {
        self.inner.lock_of(page)
    }

    fn registers(&self) -> Vec<u64> {
        self.inner.registers()
    }

    /// How often lines changed, those that did last, and for each RestSeg its base, tag array and set filter; then the registers of what the table
    /// below has beside the L2 TLB.
    fn lookaside_registers(&self) -> Vec<u64> {
        let mut words = vec![self.changes];
        words.extend(self.recent.iter().flat_map(|(tar, sf)| [*tar, *sf]));
        words.push(self.own.len() as u64);
        words.extend(self.own.iter().flat_map(|own| [own.base.0, own.arrays.tar.0, own.arrays.sf.0]));
        words.extend(self.inner.lookaside_registers());
        words
    }

    fn registers_generation(&self) -> u64 {
        self.inner.registers_generation() + self.changes
    }

    /// Both are bases for the tag array and the set filter of each RestSeg (Sec. 6.2).
    fn switch_cycles(&self) -> u64 {
        self.inner.switch_cycles()
    }

    fn footprint(&self) -> Footprint {
        let both = self.inner.footprint().beside(self.arrays);
        Footprint { entries: both.entries + self.entries, ..both }
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        lock(&self.shared).arrays.remove(&self.process);
        self.release(os);
        self.changes += 1;
        self.inner.destroy(os);
    }

    fn prefetch_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        self.inner.prefetch_host(va, memory);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.inner.report(prefix, sink);
    }

    fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        self.inner.inspect(memory, prefix, sink);
    }
}
