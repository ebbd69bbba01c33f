//! The intermediate address map: the main-memory frames of pages that the caches index by intermediate
//! address, and the misses that wait until their pages are known.

use ambulator_base::{Cycle, FRAME_BYTES, LINE_BYTES, Pfn, PhysAddr, State, VirtAddr};
use rustc_hash::FxHashMap;

/// Lines of a page.
const PAGE_LINES: u64 = FRAME_BYTES / LINE_BYTES;

/// Marks the frame of a page that is stored to.
const STORED: u64 = 1 << 63;

/// A load or a store that has missed all caches. Its page is walked; main memory is read when that is known.
#[derive(Clone, Copy, Debug, Default, State)]
struct Missed {
    line: u64,
    socket: u8,
    core: u16,
    /// When it was known to miss.
    requested: u64,
    /// Its page is not known before.
    until: u64,
}

/// A line that is to be read from main memory, now that its page is known.
pub(crate) struct Known {
    /// There.
    pub place: u64,
    pub socket: u8,
}

/// The frame of each page whose lines the caches index by intermediate address.
#[derive(Clone, Debug, State)]
pub(crate) struct IntermediateMap {
    /// The first line with an intermediate address.
    #[state(skip)]
    from: u64,
    /// Intermediate page numbers to frames.
    frames: FxHashMap<u64, u64>,
    /// The cycle at which the frame of the next miss is known.
    known: u64,
    /// Misses whose pages are not known yet. Of them, the last are those of which nobody knows.
    missed: Vec<Missed>,
    new: usize,
    /// By the number of its page: the virtual page for which a load or a store has last accessed it.
    virtual_pages: FxHashMap<u64, u64>,
}

impl IntermediateMap {
    /// Addresses from `from` on are intermediate; none of them has a frame yet.
    pub fn new(from: PhysAddr) -> IntermediateMap {
        IntermediateMap {
            from: from.line(),
            frames: FxHashMap::default(),
            known: 0,
            missed: Vec::new(),
            new: 0,
            virtual_pages: FxHashMap::default(),
        }
    }

    /// The main-memory line that a line of the caches stands for, if its page has a frame.
    pub fn line(&self, line: u64) -> Option<u64> {
        if line < self.from {
            return Some(line);
        }
        self.frames.get(&(line / PAGE_LINES)).map(|frame| (frame & !STORED) * PAGE_LINES + line % PAGE_LINES)
    }

    /// Maps the page at `at` to `frame`, which the next miss knows at cycle `known`.
    pub fn map(&mut self, at: PhysAddr, frame: Pfn, known: Cycle) {
        self.frames.insert(at.line() / PAGE_LINES, frame.0);
        self.known = known.0;
    }

    /// Maps the page at `at` to `frame`, for a load or a store that may miss: when it knows its frame is not known yet.
    pub fn place(&mut self, at: PhysAddr, va: VirtAddr, frame: Pfn, is_store: bool) {
        self.virtual_pages.insert(at.line() / PAGE_LINES, va.0 / FRAME_BYTES);
        let known = self.frames.entry(at.line() / PAGE_LINES).or_default();
        *known = frame.0 | *known & STORED | if is_store { STORED } else { 0 };
    }

    /// The virtual address of the line at `at`, and whether its page is stored to.
    pub fn placed(&self, at: PhysAddr) -> (VirtAddr, bool) {
        let page = at.line() / PAGE_LINES;
        let is_stored_to = self.frames.get(&page).is_some_and(|frame| frame & STORED != 0);
        let va = self.virtual_pages.get(&page).map_or(at.0, |page| page * FRAME_BYTES + at.0 % FRAME_BYTES);
        (VirtAddr(va), is_stored_to)
    }

    /// A load or a store of a line is known to miss all caches at `requested`. Returns when it is said to arrive.
    pub fn miss(&mut self, line: u64, socket: u8, requested: u64) -> u64 {
        let told = requested + 1;
        self.missed.push(Missed { line, socket, core: 0, requested, until: told });
        self.new += 1;
        told
    }

    /// The next miss of which nobody knows, which is of `core`: its address, and when it was known.
    pub fn take_missed(&mut self, core: usize) -> Option<(PhysAddr, Cycle)> {
        self.new = self.new.checked_sub(1)?;
        let last = self.missed.len() - 1;
        let missed = &mut self.missed[last - self.new];
        missed.core = core as u16;
        Some((PhysAddr(missed.line * LINE_BYTES), Cycle(missed.requested)))
    }

    /// The page of a line that has missed is not known before cycle `until`.
    pub fn expect(&mut self, line: u64, until: u64) {
        self.missed.iter_mut().filter(|missed| missed.line == line).for_each(|missed| missed.until = until);
    }

    /// How many misses have pages that are not known yet.
    pub fn unknown_misses(&self) -> usize {
        self.missed.len()
    }

    /// Of these, that of a number, if it is of `core`: its line, and before when its page is not known.
    pub fn missed_by(&self, core: usize, number: usize) -> Option<(u64, u64)> {
        let missed = self.missed.get(number).filter(|missed| usize::from(missed.core) == core)?;
        Some((missed.line, missed.until))
    }

    /// Before when the page of a line is not known, if it has missed and is not known yet.
    pub fn unknown(&self, line: u64) -> Option<u64> {
        self.missed.iter().find(|missed| missed.line == line).map(|missed| missed.until)
    }

    /// The page of a line that has missed is known.
    pub fn know(&mut self, line: u64) -> Option<Known> {
        let at = self.missed.iter().position(|missed| missed.line == line)?;
        let Missed { socket, .. } = self.missed.remove(at);
        Some(Known { place: self.line(line).unwrap_or(line), socket })
    }

    /// The cycle at which the current miss knows its frame. The next miss must set it again.
    pub fn take_known(&mut self) -> u64 {
        std::mem::take(&mut self.known)
    }

    /// Unmaps the pages of `[start, start + bytes)`; returns those that had a frame.
    pub fn unmap(&mut self, start: PhysAddr, bytes: u64) -> Vec<PhysAddr> {
        let first = start.line() / PAGE_LINES;
        let pages = first..first + bytes.div_ceil(FRAME_BYTES);
        let mapped = pages.filter(|page| self.frames.remove(page).is_some());
        mapped.map(|page| PhysAddr(page * FRAME_BYTES)).collect()
    }
}
