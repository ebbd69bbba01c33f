//! The intermediate address map: main-memory frames of pages that the caches know by intermediate addresses.

use ambulator_base::{Cycle, FRAME_BYTES, LINE_BYTES, Pfn, PhysAddr};
use rustc_hash::FxHashMap;

/// Lines of a page.
const PAGE_LINES: u64 = FRAME_BYTES / LINE_BYTES;

/// Which frame each page has whose lines the caches know by intermediate addresses.
#[derive(Clone, Debug)]
pub(crate) struct IntermediateMap {
    /// The first line with an intermediate address.
    from: u64,
    /// Intermediate page numbers to frames.
    frames: FxHashMap<u64, u64>,
    /// When the next miss knows its frame.
    known: u64,
}

impl IntermediateMap {
    /// Addresses from `from` on are intermediate; none of them has a frame yet.
    pub fn new(from: PhysAddr) -> IntermediateMap {
        IntermediateMap { from: from.line(), frames: FxHashMap::default(), known: 0 }
    }

    /// The line of main memory that a line of the caches stands for, if that is known.
    pub fn line(&self, line: u64) -> Option<u64> {
        if line < self.from {
            return Some(line);
        }
        self.frames.get(&(line / PAGE_LINES)).map(|frame| frame * PAGE_LINES + line % PAGE_LINES)
    }

    /// The page at `at` is in that frame, which the next miss knows at `known`.
    pub fn map(&mut self, at: PhysAddr, frame: Pfn, known: Cycle) {
        self.frames.insert(at.line() / PAGE_LINES, frame.0);
        self.known = known.0;
    }

    /// When the miss that is under way knows its frame; later ones ask anew.
    pub fn take_known(&mut self) -> u64 {
        std::mem::take(&mut self.known)
    }

    /// The pages of `[start, start + bytes)` have no frames any more; returns those that had one.
    pub fn unmap(&mut self, start: PhysAddr, bytes: u64) -> Vec<PhysAddr> {
        let first = start.line() / PAGE_LINES;
        let pages = first..first + bytes.div_ceil(FRAME_BYTES);
        let mapped = pages.filter(|page| self.frames.remove(page).is_some());
        mapped.map(|page| PhysAddr(page * FRAME_BYTES)).collect()
    }
}
