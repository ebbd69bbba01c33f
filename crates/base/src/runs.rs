//! Contiguity of pages: adjacent pages, runs, and how few runs cover 99%.

/// Statistics of pages that are added in ascending order.
#[derive(Clone, Debug, Default)]
pub struct PageRuns {
    /// Pages added.
    pages: u64,
    /// Pages that directly follow the page added before them.
    adjacent: u64,
    /// Lengths of runs.
    runs: Vec<u64>,
    last: Option<u64>,
}

impl PageRuns {
    /// Adds a page. `joins` says whether the page may continue the run of the page number before it (same
    /// rights, next frame).
    #[inline]
    pub fn add(&mut self, page: u64, joins: bool) {
        self.add_run(page, 1, joins);
    }

    /// Adds `pages` pages from `first` on, each of which joins the one before it; `joins` says whether the
    /// first may continue the run of the page number before it. Takes no longer for many pages than for one.
    #[inline]
    pub fn add_run(&mut self, first: u64, pages: u64, joins: bool) {
        if pages == 0 {
            return;
        }
        let follows = self.last == first.checked_sub(1) && first > 0;
        self.pages += pages;
        self.adjacent += pages - 1 + u64::from(follows);
        match self.runs.last_mut() {
            Some(run) if follows && joins => *run += pages,
            _ => self.runs.push(pages),
        }
        self.last = Some(first + (pages - 1));
    }

    /// The number of pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Of all pages except the last, the share that is followed by the next page number (LVM Sec. 3.1).
    pub fn gap_1_coverage(&self) -> f64 {
        if self.pages > 1 { self.adjacent as f64 / (self.pages - 1) as f64 } else { 0.0 }
    }

    /// The number of runs.
    pub fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// The pages of the longest run.
    pub fn longest(&self) -> u64 {
        self.runs.iter().copied().max().unwrap_or(0)
    }

    /// The fewest runs that hold 99% of the pages (RMM Table 2).
    pub fn runs_for_99_percent(&self) -> u64 {
        let mut runs = self.runs.clone();
        runs.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = (self.pages as f64 * 0.99).ceil() as u64;
        let mut held = 0;
        let enough = runs.iter().position(|run| {
            held += run;
            held >= wanted
        });
        enough.map_or(0, |at| at as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_added_like_its_pages() {
        let (mut at_once, mut singly) = (PageRuns::default(), PageRuns::default());
        for (first, pages, joins) in
            [(0, 5, true), (5, 3, true), (8, 1, false), (9, 0, true), (20, 7, true), (27, 2, false)]
        {
            at_once.add_run(first, pages, joins);
            (first..first + pages).for_each(|page| singly.add(page, joins || page > first));
        }
        assert_eq!((at_once.pages, at_once.adjacent, at_once.last), (singly.pages, singly.adjacent, singly.last));
        assert_eq!(at_once.runs, singly.runs);
        assert_eq!(at_once.runs, [8, 1, 7, 2]);
    }

    #[test]
    fn gaps_and_runs_are_counted() {
        let mut runs = PageRuns::default();
        assert_eq!((runs.gap_1_coverage(), runs.runs_for_99_percent()), (0.0, 0));
        for page in (0..990).chain(2000..2010) {
            runs.add(page, page != 500);
        }
        assert_eq!((runs.pages(), runs.runs(), runs.longest()), (1000, 3, 500));
        assert_eq!(runs.gap_1_coverage(), 998.0 / 999.0);
        assert_eq!(runs.runs_for_99_percent(), 2);
        // A page does not join across a gap.
        runs.add(5000, true);
        assert_eq!(runs.runs(), 4);
    }
}
