//! The OS half: a process's tag arrays and set filters. Any page table may map the FlexSeg's pages (Utopia
//! Sec. 5.2, 5.3).

use super::rows::{flags, metadata};
use super::segments::{Arrays, Segments, Shape};
use ambulator_base::{FRAME_BYTES, LINE_BYTES, Page, PhysAddr, ProcessId, State, VirtAddr, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Companion, Footprint, Mapping, PteFlags, TableContext};
use ambulator_structures::frames;
use std::sync::{Arc, Mutex};

/// Number of recently changed sets in the registers.
pub(super) const RECENT: usize = 4;

/// A process's view of a RestSeg.
#[derive(State)]
struct Own {
    #[state(skip)]
    shape: Shape,
    base: ambulator_base::Pfn,
    arrays: Arrays,
}

/// The position of a page in a RestSeg.
struct Place {
    segment: usize,
    set: u64,
    way: u32,
    tag: u64,
}

/// A process's pages in RestSegs.
#[derive(State)]
pub(crate) struct TagArrays {
    shared: Arc<Mutex<Segments>>,
    process: ProcessId,
    #[state(each)]
    own: Vec<Own>,
    /// Number of changes to lines of tag arrays and set filters, and the most recent ones.
    changes: u64,
    recent: [(u64, u64); RECENT],
    arrays: Footprint,
    entries: u64,
}

impl TagArrays {
    /// Arrays for `process`.
    ///
    /// # Errors
    /// The number of bytes that could not be allocated. None stay allocated.
    pub(crate) fn new(
        shared: Arc<Mutex<Segments>>,
        process: ProcessId,
        os: &mut TableContext<'_>,
    ) -> Result<TagArrays, u64> {
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
        let mut table = TagArrays { shared, process, own, changes: 0, recent: [(0, 0); RECENT], arrays, entries: 0 };
        if let Some(bytes) = failed {
            table.free_arrays(os);
            return Err(bytes);
        }
        let all = table.own.iter().map(|own| own.arrays).collect();
        lock(&table.shared).arrays.insert(process, all);
        Ok(table)
    }

    fn free_arrays(&mut self, os: &mut TableContext<'_>) {
        for own in std::mem::take(&mut self.own) {
            let (tar, sf) = own.shape.array_bytes();
            for (at, bytes) in [(own.arrays.tar, tar), (own.arrays.sf, sf)] {
                if at.0 != 0 {
                    frames::release(at.pfn(), bytes.div_ceil(FRAME_BYTES), &mut self.arrays, os);
                }
            }
        }
    }

    /// The position of a mapping in a RestSeg, if its frame is a way of its page's set.
    fn home(&self, mapping: &Mapping) -> Option<Place> {
        self.own.iter().enumerate().find_map(|(segment, own)| {
            let within = mapping.frame.0.checked_sub(own.base.0).filter(|within| *within < own.shape.frames())?;
            let (set, tag) = own.shape.set_and_tag(mapping.page.start);
            let (home, way, rest) = own.shape.place(within);
            let is_home = own.shape.page == mapping.page.size && rest == 0 && home == set;
            is_home.then_some(Place { segment, set, way, tag })
        })
    }

    /// Finds the page of `va` in a RestSeg, as the hardware does.
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

    /// Writes a way, and adds `add` to its set's counter.
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

impl Companion for TagArrays {
    fn claims(&self, mapping: &Mapping) -> bool {
        self.home(mapping).is_some()
    }

    fn hold(&mut self, mapping: &Mapping, os: &mut TableContext<'_>) {
        if let Some(place) = self.home(mapping) {
            self.write(&place, metadata(mapping.flags), 1, os);
            self.entries += 1;
        }
    }

    fn held(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Mapping> {
        self.find(va, memory).map(|(place, metadata)| self.mapping(va, &place, metadata))
    }

    fn release(&mut self, page: Page, os: &mut TableContext<'_>) {
        if let Some((place, _)) = self.find(page.start, os.memory) {
            self.write(&place, 0, -1, os);
            self.entries -= 1;
        }
    }

    fn set_held_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) {
        if let Some((place, _)) = self.find(page.start, os.memory) {
            self.write(&place, metadata(flags), 0, os);
        }
    }

    /// The number of changes, the lines changed most recently, and for each RestSeg its base, tag array and
    /// set filter. A context switch loads the latter two (Sec. 6.2), at no additional cost.
    fn registers(&self) -> Vec<u64> {
        let mut words = vec![self.changes];
        words.extend(self.recent.iter().flat_map(|(tar, sf)| [*tar, *sf]));
        words.push(self.own.len() as u64);
        words.extend(self.own.iter().flat_map(|own| [own.base.0, own.arrays.tar.0, own.arrays.sf.0]));
        words
    }

    fn registers_generation(&self) -> u64 {
        self.changes
    }

    fn footprint(&self) -> Footprint {
        Footprint { entries: self.entries, ..self.arrays }
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        lock(&self.shared).arrays.remove(&self.process);
        self.free_arrays(os);
        self.changes += 1;
    }
}
