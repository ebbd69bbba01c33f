//! Free distances: which neighbours of a walked page are worth the room in the prefetch queue.

use super::Free;
use ambulator_base::{PageSize, State};
use ambulator_mmu::{FinishedWalk, FreeTranslations, MemoryPort, TlbMiss};
use ambulator_structures::pte::Pte;
use std::collections::VecDeque;

/// Entries of a line.
const LINE: u64 = 8;
/// The largest value of a counter: it has 10 bits.
const MOST: u32 = (1 << 10) - 1;

/// What a miss has taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learnt {
    /// The sampler watched the page.
    pub sampled: bool,
    /// The counters were halved.
    pub halved: bool,
}

/// The table of free distances (FDT) and the sampler.
#[derive(State)]
pub(super) struct FreeDistances {
    #[state(skip)]
    policy: Free,
    #[state(skip)]
    threshold: u32,
    /// By distance: -7 first, and 0 in the middle, which is unused.
    uses: [u32; 15],
    /// Pages that did not come into the queue, with their distances, oldest first.
    sampler: VecDeque<(u64, i8)>,
    #[state(skip)]
    most: usize,
}

impl FreeDistances {
    pub fn new(policy: Free, threshold: u32, sampler_entries: u32) -> FreeDistances {
        let most = sampler_entries as usize;
        FreeDistances { policy, threshold, uses: [0; 15], sampler: VecDeque::with_capacity(most), most }
    }

    fn is_useful(&self, distance: i8) -> bool {
        match self.policy {
            Free::Sampled => self.uses[(distance + 7) as usize] > self.threshold,
            Free::All => true,
            Free::None => false,
        }
    }

    /// The page of a miss was needed: its distance counts if it came for free, or if the sampler watched it.
    pub fn learn(&mut self, miss: &TlbMiss) -> Learnt {
        let mut learnt = Learnt::default();
        let distance = match miss.served {
            Some(mark) => mark,
            None => {
                let at = self.sampler.iter().position(|(page, _)| *page == miss.page);
                let found = at.and_then(|at| self.sampler.remove(at));
                learnt.sampled = found.is_some();
                found.map_or(0, |(_, distance)| distance)
            }
        };
        if distance != 0 {
            let uses = &mut self.uses[(distance + 7) as usize];
            *uses += 1;
            if *uses == MOST {
                learnt.halved = true;
                self.uses.iter_mut().for_each(|uses| *uses >>= 1);
            }
        }
        learnt
    }

    /// The distances within the line that has the entry of `page`.
    fn in_line(page: u64) -> impl Iterator<Item = i8> {
        let slot = (page % LINE) as i8;
        (-slot..LINE as i8 - slot).filter(|distance| *distance != 0)
    }

    /// The pages that would come into the queue with a walk for `page`, if they are all there.
    pub fn of_walk(&self, page: u64) -> impl Iterator<Item = u64> + use<'_> {
        Self::in_line(page)
            .filter(|distance| self.is_useful(*distance))
            .map(move |distance| page.wrapping_add_signed(i64::from(distance)))
    }

    /// Takes the translations in the line of a walk's leaf entry: into the queue, or into the sampler.
    pub fn take(&mut self, page: u64, walk: &FinishedWalk, port: &mut dyn MemoryPort, free: &mut FreeTranslations) {
        let Some(entry) = walk.entry.filter(|_| self.policy != Free::None) else { return };
        if walk.found.size != PageSize::SIZE_4K || entry.0 / LINE % LINE != page % LINE {
            return;
        }
        let words = port.peek_line(entry);
        for distance in Self::in_line(page) {
            let neighbour = page.wrapping_add_signed(i64::from(distance));
            let pte = Pte(words[(neighbour % LINE) as usize]);
            if !pte.present() || !pte.flags().accessed {
                continue;
            }
            if self.is_useful(distance) {
                free.push(neighbour, pte.translation(PageSize::SIZE_4K), distance);
            } else {
                if self.sampler.len() == self.most {
                    self.sampler.pop_front();
                }
                self.sampler.push_back((neighbour, distance));
            }
        }
    }

    /// Forgets the pages in the sampler; the counters stay.
    pub fn forget(&mut self) {
        self.sampler.clear();
    }

    #[cfg(test)]
    pub fn uses(&self, distance: i8) -> u32 {
        self.uses[(distance + 7) as usize]
    }

    #[cfg(test)]
    pub fn set_uses(&mut self, distance: i8, uses: u32) {
        self.uses[(distance + 7) as usize] = uses;
    }
}
