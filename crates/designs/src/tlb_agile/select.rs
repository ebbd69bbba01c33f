//! The choice among the three prefetchers.

use super::AgileSpec;
use super::free::FreeDistances;
use ambulator_base::State;
use ambulator_mmu::{Proposals, TlbMiss};
use ambulator_structures::tlb_prefetch::{LatestDistances, StrideTable};
use std::collections::VecDeque;

/// Pages that STP proposes, on both sides.
const NEIGHBOURS: [i64; 4] = [1, -1, 2, -2];

/// Whose proposals are walked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// H2P.
    Distances,
    /// MASP.
    Strides,
    /// STP.
    Neighbours,
    /// Nobody's.
    None,
}

/// A counter that stays at 0 and at its maximum.
#[derive(Clone, Copy, Debug, State)]
struct Saturating {
    value: u32,
    #[state(skip)]
    bits: u32,
}

impl Saturating {
    fn add(&mut self, up: bool) {
        self.value = if up { (self.value + 1).min((1 << self.bits) - 1) } else { self.value.saturating_sub(1) };
    }

    /// The highest bit.
    fn is_high(self) -> bool {
        self.value >> (self.bits - 1) != 0
    }
}

/// The pages that a prefetcher would have prefetched, oldest first.
#[derive(State)]
struct FakeQueue {
    pages: VecDeque<u64>,
    #[state(skip)]
    most: usize,
}

impl FakeQueue {
    fn put(&mut self, page: u64) {
        if self.pages.contains(&page) {
            return;
        }
        if self.pages.len() == self.most {
            self.pages.pop_front();
        }
        self.pages.push_back(page);
    }
}

/// The three prefetchers, their fake queues, and the counters that choose.
#[derive(State)]
pub(super) struct Selection {
    latest: LatestDistances,
    strides: StrideTable,
    /// In the order H2P, MASP, STP.
    fakes: [FakeQueue; 3],
    /// Whether to prefetch at all (`enable_pref`, 8 bits).
    enable: Saturating,
    /// H2P, if high (`select_1`, 6 bits).
    first: Saturating,
    /// Of the other two, STP if high (`select_2`, 2 bits).
    second: Saturating,
}

impl Selection {
    pub fn new(spec: &AgileSpec) -> Selection {
        let most = spec.fake_entries as usize;
        let counter = |bits| Saturating { value: 0, bits };
        Selection {
            latest: LatestDistances::default(),
            strides: StrideTable::new(spec.entries, spec.ways),
            fakes: std::array::from_fn(|_| FakeQueue { pages: VecDeque::with_capacity(most), most }),
            enable: counter(8),
            first: counter(6),
            second: counter(2),
        }
    }

    /// Which of the prefetchers would have had `page`; the counters learn it.
    pub fn judge(&mut self, page: u64) -> [bool; 3] {
        let had = [0, 1, 2].map(|of: usize| self.fakes[of].pages.contains(&page));
        let [distances, strides, neighbours] = had;
        self.enable.add(distances || strides || neighbours);
        if distances != (strides || neighbours) {
            self.first.add(distances);
        }
        if strides != neighbours {
            self.second.add(neighbours);
        }
        had
    }

    /// Whom the counters choose.
    pub fn choice(&self) -> Choice {
        match () {
            () if !self.enable.is_high() => Choice::None,
            () if self.first.is_high() => Choice::Distances,
            () if self.second.is_high() => Choice::Neighbours,
            () => Choice::Strides,
        }
    }

    /// The proposals of the chosen prefetcher. Each puts its own into its fake queue, with what would come
    /// for free with the walks for them.
    pub fn propose(&mut self, miss: &TlbMiss, choice: Choice, free: &FreeDistances, proposals: &mut Proposals) {
        let mut own = [Proposals::default(); 3];
        if let (Some(latest), Some(before)) = self.latest.to(miss.page) {
            own[0].push(miss, latest);
            own[0].push(miss, before);
        }
        self.latest.push(miss.page);
        if let Some(stride) = self.strides.miss(miss.pc, miss.page) {
            stride.old.into_iter().chain([stride.new]).for_each(|distance| own[1].push(miss, distance));
        }
        NEIGHBOURS.into_iter().for_each(|distance| own[2].push(miss, distance * miss.frames as i64));
        for (fake, own) in self.fakes.iter_mut().zip(&own) {
            for &page in own.pages() {
                fake.put(page);
                if miss.frames == 1 {
                    free.of_walk(page).for_each(|page| fake.put(page));
                }
            }
        }
        match choice {
            Choice::Distances => *proposals = own[0],
            Choice::Strides => *proposals = own[1],
            Choice::Neighbours => *proposals = own[2],
            Choice::None => {}
        }
    }

    /// Forgets all pages; the counters stay.
    pub fn forget(&mut self) {
        self.latest.clear();
        self.strides.clear();
        self.fakes.iter_mut().for_each(|fake| fake.pages.clear());
    }

    #[cfg(test)]
    pub fn counters(&self) -> [u32; 3] {
        [self.enable.value, self.first.value, self.second.value]
    }

    #[cfg(test)]
    pub fn set_counters(&mut self, [enable, first, second]: [u32; 3]) {
        (self.enable.value, self.first.value, self.second.value) = (enable, first, second);
    }

    #[cfg(test)]
    pub fn set_fakes(&mut self, pages: [&[u64]; 3]) {
        for (fake, pages) in self.fakes.iter_mut().zip(pages) {
            fake.pages = pages.iter().copied().collect();
        }
    }
}
