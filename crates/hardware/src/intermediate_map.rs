//! The intermediate address map: the main-memory frames of pages that the caches index by intermediate
//! address.

use ambulator_base::{Cycle, FRAME_BYTES, LINE_BYTES, Pfn, PhysAddr, State};
use rustc_hash::FxHashMap;

/// Lines of a page.
const PAGE_LINES: u64 = FRAME_BYTES / LINE_BYTES;

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
}

impl IntermediateMap {
    /// Addresses from `from` on are intermediate; none of them has a frame yet.
    pub fn new(from: PhysAddr) -> IntermediateMap {
        IntermediateMap { from: from.line(), frames: FxHashMap::default(), known: 0 }
    }

    /// The main-memory line that a line of the caches stands for, if its page has a frame.
    pub fn line(&self, line: u64) -> Option<u64> {
        if line < self.from {
            return Some(line);
        }
        self.frames.get(&(line / PAGE_LINES)).map(|frame| frame * PAGE_LINES + line % PAGE_LINES)
    }

    /// Maps the page at `at` to `frame`, which the next miss knows at cycle `known`.
    pub fn map(&mut self, at: PhysAddr, frame: Pfn, known: Cycle) {
        self.frames.insert(at.line() / PAGE_LINES, frame.0);
        self.known = known.0;
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
