//! Physical addresses that a trace records: where its pages really were.

use ambulator_base::{FRAME_SHIFT, PageRuns};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// log2 of the 4 KiB pages in an aligned 2 MiB.
const HUGE_SHIFT: u32 = 9;

/// The frame of each page, as far as a trace says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhysicalPages {
    frames: FxHashMap<u64, u64>,
    moved: u64,
}

/// How pages lie in physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhysicalReport {
    /// 4 KiB pages whose physical address the trace records.
    pub pages: u64,
    /// Times that a page was somewhere else than before.
    pub moved: u64,
    /// Runs of pages that are contiguous in virtual and in physical memory.
    pub runs: u64,
    /// The fewest of them that hold 99% of the pages.
    pub runs_for_99_percent: u64,
    /// Pages of the longest.
    pub longest_run: u64,
    /// Aligned 2 MiB regions whose recorded pages all lie where one huge page would have them.
    pub huge_regions: u64,
    /// Aligned 2 MiB regions with a recorded page.
    pub regions: u64,
}

impl PhysicalPages {
    /// `bytes` from a virtual address on are at a physical one.
    pub(crate) fn add(&mut self, va: u64, pa: u64, bytes: u64) {
        for page in 0..bytes.div_ceil(1 << FRAME_SHIFT).max(1) {
            let frame = (pa >> FRAME_SHIFT) + page;
            let before = self.frames.insert((va >> FRAME_SHIFT) + page, frame);
            self.moved += u64::from(before.is_some_and(|before| before != frame));
        }
    }

    /// The report; `None` if nothing is recorded.
    pub(crate) fn report(&self) -> Option<PhysicalReport> {
        let ordered: BTreeMap<u64, u64> = self.frames.iter().map(|(page, frame)| (*page, *frame)).collect();
        let (first, _) = ordered.first_key_value()?;
        let (mut runs, mut regions, mut last) = (PageRuns::default(), BTreeMap::new(), (*first, 0));
        for (&page, &frame) in &ordered {
            runs.add(page, frame == last.1 + (page - last.0));
            last = (page, frame);
            let offset = frame.wrapping_sub(page);
            let aligned = offset % (1 << HUGE_SHIFT) == 0;
            let huge = regions.entry(page >> HUGE_SHIFT).or_insert((offset, true));
            huge.1 &= aligned && huge.0 == offset;
        }
        Some(PhysicalReport {
            pages: ordered.len() as u64,
            moved: self.moved,
            runs: runs.runs(),
            runs_for_99_percent: runs.runs_for_99_percent(),
            longest_run: runs.longest(),
            huge_regions: regions.values().filter(|huge| huge.1).count() as u64,
            regions: regions.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguity_is_in_both_address_spaces() {
        let mut pages = PhysicalPages::default();
        assert_eq!(pages.report(), None);
        // A huge page; ten pages that are contiguous, but not as a huge page is; one alone; one that moves.
        pages.add(0x4020_0000, 0x20_0000, 2 << 20);
        pages.add(0x4060_0000, 0x1000, 10 << 12);
        pages.add(0x4060_a000, 0x8000_0000, 8);
        pages.add(0x4080_0000, 0x9000_0000, 4096);
        pages.add(0x4080_0000, 0x9000_1000, 4096);
        let report = pages.report().unwrap();
        assert_eq!((report.pages, report.moved, report.runs, report.longest_run), (524, 1, 4, 512));
        assert_eq!((report.huge_regions, report.regions), (1, 3));
    }
}
