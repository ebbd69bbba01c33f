//! How regular an address space is, by the papers' measures, for any stream.
//!
//! - **Gap-1 coverage** (LVM Sec. 3.1, Fig. 2): of all mapped pages in ascending order, the share whose
//!   successor is the very next page number.
//! - **Ranges** (RMM Table 2): maximal runs of mapped pages with the same protection, and how many of the
//!   largest hold 99% of the memory.
//!
//! A page counts as mapped from its first touch until it is unmapped. The report is for the moment when the
//! address space was largest, to within a tenth, because a program frees its memory before it ends.

use ambulator_base::{Advice, Batch, FRAME_SHIFT, PageRuns, Protection, RecordSource, SourceError, VmEvent};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The touched and mapped pages of an address space.
#[derive(Default)]
pub struct Regularity {
    /// Areas: end page and protection by first page.
    areas: BTreeMap<u64, (u64, Protection)>,
    heap: Option<u64>,
    /// Touched pages: a bitmap for each 512 of them.
    touched: rustc_hash::FxHashMap<u64, [u64; 8]>,
    last: u64,
    /// Touched pages now, and the report at their maximum so far.
    count: u64,
    largest: RegularityReport,
}

/// The measures of an address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RegularityReport {
    /// 4 KiB pages that are touched and mapped.
    pub pages: u64,
    /// Share of them whose successor is the next page number.
    pub gap_1_coverage: f64,
    /// Runs of pages with the same protection.
    pub ranges: u64,
    /// The fewest of them that hold 99% of the pages.
    pub ranges_for_99_percent: u64,
    /// Share of the pages in the largest.
    pub largest_range: f64,
}

impl Regularity {
    /// Measures a source from its start to its end, or until `records` records.
    ///
    /// # Errors
    /// The source's own.
    pub fn of(source: &mut dyn RecordSource, records: u64) -> Result<RegularityReport, SourceError> {
        let (mut all, mut batch, mut seen) = (Regularity::default(), Batch::default(), 0);
        while seen < records && source.fill(&mut batch)? {
            all.add(&batch);
            seen += batch.records.len() as u64;
        }
        Ok(all.report())
    }

    /// Adds a batch of a stream.
    pub fn add(&mut self, batch: &Batch) {
        let mut events = batch.events.iter().peekable();
        for (at, record) in batch.records.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
                self.event(event);
            }
            let page = record.va.0 >> FRAME_SHIFT;
            if record.is_data() && page != self.last {
                self.last = page;
                self.touch(page);
            }
        }
        events.for_each(|(_, event)| self.event(event));
    }

    fn touch(&mut self, page: u64) {
        let word = &mut self.touched.entry(page >> 9).or_default()[(page as usize >> 6) & 7];
        self.count += u64::from(*word >> (page & 63) & 1 == 0);
        *word |= 1 << (page & 63);
    }

    fn event(&mut self, event: &VmEvent) {
        let pages = |start: u64, len: u64| (start >> FRAME_SHIFT, (start + len).div_ceil(1 << FRAME_SHIFT));
        match *event {
            VmEvent::Map { start, len, protection, kind } => {
                let (first, end) = pages(start.0, len);
                self.remove(first, end);
                self.areas.insert(first, (end, protection));
                if kind == ambulator_base::MapKind::Heap {
                    self.heap = Some(first);
                }
            }
            VmEvent::Unmap { start, len } => {
                let (first, end) = pages(start.0, len);
                self.remove(first, end);
            }
            VmEvent::Advise { start, len, advice: Advice::DontNeed } => {
                let (first, end) = pages(start.0, len);
                self.untouch(first, end);
            }
            VmEvent::Protect { start, len, protection } => {
                let (first, end) = pages(start.0, len);
                self.split(first);
                self.split(end);
                self.areas.range_mut(first..end).for_each(|(_, area)| area.1 = protection);
            }
            VmEvent::Remap { old, old_len, new, new_len } => {
                let ((from, from_end), (to, to_end)) = (pages(old.0, old_len), pages(new.0, new_len));
                let rights = self.area(from).map_or(Protection::READ_WRITE, |area| area.1);
                let moved: Vec<u64> =
                    (from..from_end).filter(|page| self.is_touched(*page)).map(|p| p - from).collect();
                self.remove(from, from_end);
                self.remove(to, to_end);
                self.areas.insert(to, (to_end, rights));
                moved.into_iter().filter(|at| to + at < to_end).for_each(|at| self.touch(to + at));
            }
            VmEvent::Brk { end } => {
                let end = end.0.div_ceil(1 << FRAME_SHIFT);
                if let Some(heap) = self.heap
                    && let Some((old, _)) = self.areas.get(&heap).copied()
                {
                    if end < old {
                        self.remove(end, old);
                    } else if let Some(area) = self.areas.get_mut(&heap) {
                        area.0 = end;
                    }
                }
            }
            VmEvent::Touch { start, len, .. } if len > 0 => {
                let (first, end) = pages(start.0, len);
                (first..end).for_each(|page| self.touch(page));
            }
            _ => {}
        }
    }

    fn area(&self, page: u64) -> Option<(u64, Protection)> {
        self.areas.range(..=page).next_back().filter(|(_, area)| page < area.0).map(|(_, area)| *area)
    }

    fn is_touched(&self, page: u64) -> bool {
        self.touched.get(&(page >> 9)).is_some_and(|bits| bits[(page as usize >> 6) & 7] >> (page & 63) & 1 != 0)
    }

    /// Splits the area that contains the page, so that one begins there.
    fn split(&mut self, page: u64) {
        if let Some((&start, &(end, rights))) = self.areas.range(..page).next_back()
            && page < end
        {
            self.areas.insert(start, (page, rights));
            self.areas.insert(page, (end, rights));
        }
    }

    fn remove(&mut self, first: u64, end: u64) {
        self.remember(end - first);
        self.split(first);
        self.split(end);
        let gone: Vec<u64> = self.areas.range(first..end).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| {
            self.areas.remove(start);
        });
        self.untouch(first, end);
    }

    /// Before `pages` pages are removed: keeps the report if this is the maximum so far.
    fn remember(&mut self, pages: u64) {
        let much_goes = 2 * pages > self.count && self.count > self.largest.pages;
        if much_goes || pages > 16 && self.count > self.largest.pages + self.largest.pages / 10 {
            self.largest = self.now();
        }
    }

    fn untouch(&mut self, first: u64, end: u64) {
        self.last = u64::MAX;
        self.remember(end - first);
        if (end - first) >> 9 > self.touched.len() as u64 {
            for (region, bits) in &mut self.touched {
                for at in 0..512 {
                    let page = (region << 9) + at;
                    if (first..end).contains(&page) {
                        self.count -= bits[at as usize >> 6] >> (page & 63) & 1;
                        bits[at as usize >> 6] &= !(1 << (page & 63));
                    }
                }
            }
            return;
        }
        for page in first..end {
            if let Some(bits) = self.touched.get_mut(&(page >> 9)) {
                self.count -= bits[(page as usize >> 6) & 7] >> (page & 63) & 1;
                bits[(page as usize >> 6) & 7] &= !(1 << (page & 63));
            }
        }
    }

    /// The report for when the address space was largest.
    pub fn report(&self) -> RegularityReport {
        if self.count >= self.largest.pages { self.now() } else { self.largest }
    }

    /// The report as of now.
    pub fn now(&self) -> RegularityReport {
        let mut regions: Vec<u64> = self.touched.keys().copied().collect();
        regions.sort_unstable();
        let mut runs = PageRuns::default();
        let mut rights = Protection::NONE;
        for region in regions {
            for page in (0..512).map(|at| (region << 9) + at).filter(|page| self.is_touched(*page)) {
                let own = self.area(page).map_or(Protection::READ_WRITE, |area| area.1);
                runs.add(page, own == rights);
                rights = own;
            }
        }
        RegularityReport {
            pages: runs.pages(),
            gap_1_coverage: runs.gap_1_coverage(),
            ranges: runs.runs(),
            ranges_for_99_percent: runs.runs_for_99_percent(),
            largest_range: runs.longest() as f64 / runs.pages().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{MapKind, Record, VirtAddr};

    fn map(start: u64, pages: u64, protection: Protection) -> (u32, VmEvent) {
        (0, VmEvent::Map { start: VirtAddr(start << 12), len: pages << 12, protection, kind: MapKind::Anonymous })
    }

    #[test]
    fn runs_gaps_and_rights_are_counted_as_the_papers_count_them() {
        let mut all = Regularity::default();
        let touch =
            |page: u64, pages: u64| (0, VmEvent::Touch { start: VirtAddr(page << 12), len: pages << 12, write: true });
        let events = vec![map(100, 1000, Protection::READ_WRITE), touch(100, 990), map(5000, 10, Protection::READ)];
        let records = (5000..5010).map(|p| Record { va: VirtAddr(p << 12), ..Record::default() }).collect();
        all.add(&Batch { events, records });
        let report = all.report();
        assert_eq!((report.pages, report.ranges, report.ranges_for_99_percent), (1000, 2, 1));
        assert!((report.gap_1_coverage - 998.0 / 999.0).abs() < 1e-9);
        // A hole in the middle, and other protection on a part.
        let unmap = VmEvent::Unmap { start: VirtAddr(500 << 12), len: 10 << 12 };
        let protect = VmEvent::Protect { start: VirtAddr(900 << 12), len: 50 << 12, protection: Protection::READ };
        all.add(&Batch { records: vec![], events: vec![(0, unmap), (0, protect)] });
        let report = all.now();
        assert_eq!((report.pages, report.ranges), (990, 5));
        // Moved pages stay touched.
        let remap = VmEvent::Remap {
            old: VirtAddr(5000 << 12),
            old_len: 10 << 12,
            new: VirtAddr(9000 << 12),
            new_len: 20 << 12,
        };
        all.add(&Batch { records: vec![], events: vec![(0, remap)] });
        assert_eq!((all.now().pages, all.report().pages), (990, 990));
        // Memory that a program frees at its end counts, with the protection it had.
        let unmap = VmEvent::Unmap { start: VirtAddr(100 << 12), len: 1000 << 12 };
        let before = all.now();
        all.add(&Batch { records: vec![], events: vec![(0, unmap)] });
        assert_eq!((all.now().pages, all.report()), (10, before));
        assert!(all.is_touched(9009) && !all.is_touched(9010) && !all.is_touched(5000));
    }
}
