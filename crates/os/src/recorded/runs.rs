//! The recorded places of a process, as runs of pages.

use ambulator_base::State;
use std::collections::BTreeMap;

/// Consecutive pages in consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, State)]
pub(super) struct Run {
    /// The first page, by its number.
    pub start: u64,
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Its frame in this machine, if it has one.
    pub target: Option<u64>,
    /// Its frame in the recorded machine.
    pub recorded: u64,
    /// The recorded pages have 2 MiB or more.
    pub huge: bool,
}

impl Run {
    /// The page after the last.
    pub(super) fn end(&self) -> u64 {
        self.start + self.pages
    }

    /// The frame of this machine for a page of the run.
    pub(super) fn frame_of(&self, page: u64) -> Option<u64> {
        self.target.map(|target| target + (page - self.start))
    }

    /// Whether its frames are the recorded ones.
    pub(super) fn is_exact(&self) -> bool {
        self.target == Some(self.recorded)
    }

    /// The part of it from `from` to `to`.
    fn part(&self, from: u64, to: u64) -> Run {
        let offset = from - self.start;
        Run {
            start: from,
            pages: to - from,
            target: self.target.map(|target| target + offset),
            recorded: self.recorded + offset,
            huge: self.huge,
        }
    }

    /// Whether `next` continues it everywhere.
    fn is_continued_by(&self, next: &Run) -> bool {
        self.end() == next.start
            && self.recorded + self.pages == next.recorded
            && self.target.map(|target| target + self.pages) == next.target
            && self.huge == next.huge
    }
}

/// Runs by their first pages; they do not overlap, and none continues the one before.
#[derive(Debug, Default, State)]
pub(super) struct Runs(BTreeMap<u64, Run>);

impl Runs {
    /// The run of a page.
    pub(super) fn find(&self, page: u64) -> Option<&Run> {
        self.0.range(..=page).next_back().map(|(_, run)| run).filter(|run| page < run.end())
    }

    /// Whether a page of `[from, to)` has a run.
    pub(super) fn overlaps(&self, from: u64, to: u64) -> bool {
        self.0.range(..to).next_back().is_some_and(|(_, run)| run.end() > from)
    }

    /// Whether all of this is known.
    pub(super) fn has(&self, run: &Run) -> bool {
        self.find(run.start).is_some_and(|known| known.end() >= run.end() && known.part(run.start, run.end()) == *run)
    }

    /// Adds a run in place of what was known of its pages.
    pub(super) fn insert(&mut self, mut run: Run) {
        let first = self.find(run.start).map_or(run.start, |known| known.start);
        let touched: Vec<Run> = self.0.range(first..run.end()).map(|(_, known)| *known).collect();
        for known in touched {
            self.0.remove(&known.start);
            if known.start < run.start {
                self.0.insert(known.start, known.part(known.start, run.start));
            }
            if known.end() > run.end() {
                self.0.insert(run.end(), known.part(run.end(), known.end()));
            }
        }
        if let Some((_, before)) = self.0.range(..run.start).next_back()
            && before.is_continued_by(&run)
        {
            run = Run { pages: before.pages + run.pages, ..*before };
        }
        if let Some(after) = self.0.get(&run.end())
            && run.is_continued_by(after)
        {
            let after = after.start;
            run.pages += self.0.remove(&after).map_or(0, |after| after.pages);
        }
        self.0.insert(run.start, run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;

    /// As a plain map of pages.
    #[test]
    fn runs_hold_what_a_map_of_pages_holds() {
        let mut random = Random::new(5);
        let mut below = |most: u64| random.below(most);
        let (mut runs, mut map) = (Runs::default(), BTreeMap::new());
        for _ in 0..2000 {
            let recorded = below(40);
            let target = [None, Some(recorded), Some(recorded + 100)][below(3) as usize];
            let run = Run { start: below(60), pages: 1 + below(9), target, recorded, huge: below(4) == 0 };
            let known = |page: u64| map.get(&page) == Some(&run.part(page, page + 1));
            assert_eq!(runs.has(&run), (run.start..run.end()).all(known));
            runs.insert(run);
            map.extend((run.start..run.end()).map(|page| (page, run.part(page, page + 1))));
            for page in 0..80 {
                assert_eq!(runs.find(page).map(|found| found.part(page, page + 1)), map.get(&page).copied());
                let overlaps = map.range(page..page + 5).next().is_some();
                assert_eq!(runs.overlaps(page, page + 5), overlaps);
            }
            let all: Vec<&Run> = runs.0.values().collect();
            assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].start && !pair[0].is_continued_by(pair[1])));
        }
    }
}
