//! Names that the caches know lines by, where these are not the addresses of main memory (Midgard).

use ambulator_base::{Cycle, FRAME_BYTES, LINE_BYTES, Pfn, PhysAddr};
use rustc_hash::FxHashMap;

/// Lines of a page.
const PAGE_LINES: u64 = FRAME_BYTES / LINE_BYTES;

/// Which frame each page has that the caches know by another name.
#[derive(Clone, Debug)]
pub(crate) struct Renaming {
    /// The first line with such a name.
    from: u64,
    /// Page numbers of names to frames.
    frames: FxHashMap<u64, u64>,
    /// When the next miss knows its frame.
    known: u64,
}

impl Renaming {
    /// Addresses from `from` on are names; none of them means anything yet.
    pub fn new(from: PhysAddr) -> Renaming {
        Renaming { from: from.line(), frames: FxHashMap::default(), known: 0 }
    }

    /// The line of main memory that a name stands for, if that is known.
    pub fn line(&self, name: u64) -> Option<u64> {
        if name < self.from {
            return Some(name);
        }
        self.frames.get(&(name / PAGE_LINES)).map(|frame| frame * PAGE_LINES + name % PAGE_LINES)
    }

    /// The page of a name is in that frame, which the next miss knows at `known`.
    pub fn name(&mut self, at: PhysAddr, frame: Pfn, known: Cycle) {
        self.frames.insert(at.line() / PAGE_LINES, frame.0);
        self.known = known.0;
    }

    /// When the miss that is under way knows its frame; later ones ask anew.
    pub fn take_known(&mut self) -> u64 {
        std::mem::take(&mut self.known)
    }

    /// The names of `[start, start + bytes)` mean nothing any more; those pages that were known.
    pub fn forget(&mut self, start: PhysAddr, bytes: u64) -> Vec<PhysAddr> {
        let first = start.line() / PAGE_LINES;
        let pages = first..first + bytes.div_ceil(FRAME_BYTES);
        let known = pages.filter(|page| self.frames.remove(page).is_some());
        known.map(|page| PhysAddr(page * FRAME_BYTES)).collect()
    }
}
