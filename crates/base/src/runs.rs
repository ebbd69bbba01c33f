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
        let follows = self.last == page.checked_sub(1) && page > 0;
        self.pages += 1;
        self.adjacent += u64::from(follows);
        match self.runs.last_mut() {
            Some(run) if follows && joins => *run += 1,
            _ => self.runs.push(1),
        }
        self.last = Some(page);
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
