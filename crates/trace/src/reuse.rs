//! Reuse of pages: how many other pages lie between two accesses to the same one.
//!
//! The share of accesses with fewer than N pages between is the hit rate of a fully associative LRU TLB with
//! N entries, for every N at once.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// The distances that are reported: first-level TLB, second-level TLB, and what page-walk caches cover.
const LIMITS: [u64; 3] = [64, 1536, 32_768];

/// How soon pages are used again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ReuseReport {
    /// For numbers of 4 KiB pages: the share of loads and stores whose page is among so many most recent
    /// ones.
    pub within: Vec<(u64, f64)>,
    /// Share of loads and stores that are the first to their page.
    pub first: f64,
}

/// The stack distances of a stream of pages. Takes memory in proportion to the pages.
#[derive(Default)]
pub(crate) struct Reuse {
    /// The slot of each page's last access.
    slots: FxHashMap<u64, u32>,
    /// A Fenwick tree over the slots that are a page's last access.
    tree: Vec<u32>,
    /// The page of each slot.
    pages: Vec<u64>,
    last: Option<u64>,
    accesses: u64,
    within: [u64; LIMITS.len()],
}

impl Reuse {
    /// An access to a page.
    #[inline]
    pub(crate) fn access(&mut self, page: u64) {
        self.accesses += 1;
        if self.last == Some(page) {
            self.within.iter_mut().for_each(|within| *within += 1);
        } else {
            self.last = Some(page);
            self.other(page);
        }
    }

    fn other(&mut self, page: u64) {
        if self.pages.len() + 1 >= self.tree.len() {
            self.compact();
        }
        let slot = self.pages.len() as u32;
        self.pages.push(page);
        if let Some(before) = self.slots.insert(page, slot) {
            // Pages used since are those with their last access in a later slot.
            let between = self.slots.len() as u64 - u64::from(self.sum(before));
            for (within, limit) in self.within.iter_mut().zip(LIMITS) {
                *within += u64::from(between < limit);
            }
            self.add(before, false);
        }
        self.add(slot, true);
    }

    /// Last accesses in the slots up to this one.
    fn sum(&self, slot: u32) -> u32 {
        let (mut at, mut sum) = (slot as usize + 1, 0);
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, slot: u32, one: bool) {
        let mut at = slot as usize + 1;
        while at < self.tree.len() {
            self.tree[at] = if one { self.tree[at] + 1 } else { self.tree[at] - 1 };
            at += at & at.wrapping_neg();
        }
    }

    /// Gives the last accesses the first slots, in their order, and room for as many again.
    fn compact(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        for (slot, page) in pages.into_iter().enumerate() {
            if self.slots[&page] == slot as u32 {
                self.slots.insert(page, self.pages.len() as u32);
                self.pages.push(page);
            }
        }
        self.tree.clear();
        self.tree.resize((2 * self.pages.len() + 4096).next_power_of_two(), 0);
        for slot in 0..self.pages.len() as u32 {
            self.add(slot, true);
        }
    }

    /// The report of all accesses so far.
    pub(crate) fn report(&self) -> ReuseReport {
        let share = |count: u64| count as f64 / self.accesses.max(1) as f64;
        ReuseReport {
            within: LIMITS.into_iter().zip(self.within).map(|(limit, count)| (limit, share(count))).collect(),
            first: share(self.slots.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;

    #[test]
    fn distances_are_those_of_an_lru_stack() {
        let (mut reuse, mut random) = (Reuse::default(), Random::new(3));
        let (mut stack, mut expected) = (Vec::<u64>::new(), [0u64; 3]);
        for i in 0..20_000u64 {
            let page = if i % 3 == 0 { random.below(40) } else { random.below(2000) };
            if let Some(at) = stack.iter().rposition(|known| *known == page) {
                let between = (stack.len() - 1 - at) as u64;
                stack.remove(at);
                expected.iter_mut().zip(LIMITS).for_each(|(count, limit)| *count += u64::from(between < limit));
            }
            stack.push(page);
            reuse.access(page);
        }
        assert_eq!(reuse.within, expected);
        let report = reuse.report();
        assert_eq!(report.first, stack.len() as f64 / 20_000.0);
        assert_eq!(report.within[0], (64, expected[0] as f64 / 20_000.0));
    }
}
