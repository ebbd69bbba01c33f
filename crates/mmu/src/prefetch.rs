//! TLB prefetching: what a prefetcher is asked, and the queue of the translations that it has brought.
//!
//! A prefetcher proposes pages after an L2 TLB miss. The pipeline walks the page table for them behind the
//! program's back (`prefetch_walk.rs`) and puts what it finds into the queue, which is looked up before the
//! next walks. So every prefetcher pays the same price for the same event.

use crate::{FinishedWalk, Invalidation, MemoryPort, Translation, tlb::TlbEntry};
use ambulator_base::watch::Step;
use ambulator_base::{Asid, CounterSink, Cycle, PageSize, State, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Most pages that a prefetcher proposes after one miss.
pub const MOST_PROPOSALS: usize = 16;
/// Most translations that the line of a leaf entry has besides that of the walk.
pub const MOST_FREE: usize = 7;
/// Most prefetch walks in flight.
pub(crate) const MOST_PENDING: u32 = 64;

/// The queue of prefetched translations, and what their walks may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrefetchQueueSpec {
    /// Translations that the queue holds, fully associative, first in first out.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "entries", "x-source" = "Vavouliotis et al., ISCA 2021 (64); Kandiraju and Sivasubramaniam, ISCA 2002, has 16"))]
    pub entries: u32,
    /// Cycles of a look-up, after an L2 TLB miss and before the walk.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "Vavouliotis et al., ISCA 2021 (2)"))]
    pub latency: u64,
    /// Page walkers of the core that prefetch walks may hold at once; the others are left to TLB misses.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "our choice: half of the walkers, because walks for TLB misses go first"))]
    pub walkers: u32,
    /// Prefetch walks of the core in flight, those that wait for a walker included. What is proposed beyond
    /// that is dropped.
    #[schemars(range(min = 1, max = MOST_PENDING), extend("x-unit" = "count", "x-source" = "our choice: four misses' worth of proposals"))]
    pub pending: u32,
}

impl Default for PrefetchQueueSpec {
    fn default() -> Self {
        PrefetchQueueSpec { entries: 64, latency: 2, walkers: 2, pending: 16 }
    }
}

/// An L2 TLB miss whose page was found, as a prefetcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbMiss {
    /// Number of the page, counted in 4 KiB: of its first 4 KiB if it is larger.
    pub page: u64,
    /// The page's size in pages of 4 KiB, as TLBs hold it.
    pub frames: u64,
    /// Address of the instruction; 0 if a simulator around the machine does not tell it.
    pub pc: VirtAddr,
    /// The mark of the queue's entry that served the miss ([`FreeTranslations::push`], 0 for one that a
    /// prefetch walk has brought); `None` if the page table was walked.
    pub served: Option<i8>,
}

/// The pages that a prefetcher proposes after a miss, each once, in the order of their walks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proposals {
    pages: [u64; MOST_PROPOSALS],
    count: usize,
}

impl Proposals {
    /// Proposes the page `distance` pages of 4 KiB away from the one that missed. The page itself, pages
    /// below address 0, what is proposed already and what is too much are left out.
    pub fn push(&mut self, miss: &TlbMiss, distance: i64) {
        if let Some(page) = miss.page.checked_add_signed(distance)
            && page != miss.page
            && !self.pages().contains(&page)
            && let Some(slot) = self.pages.get_mut(self.count)
        {
            *slot = page;
            self.count += 1;
        }
    }

    /// What is proposed so far.
    pub fn pages(&self) -> &[u64] {
        &self.pages[..self.count]
    }
}

/// Translations that came with a walk for free, because their entries share the line of its leaf.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreeTranslations {
    found: [Option<(u64, Translation, i8)>; MOST_FREE],
    count: usize,
}

impl FreeTranslations {
    /// Puts a page into the queue, with a mark that the prefetcher gets back when the page is used.
    pub fn push(&mut self, page: u64, found: Translation, mark: i8) {
        if let Some(slot) = self.found.get_mut(self.count) {
            *slot = Some((page, found, mark));
            self.count += 1;
        }
    }

    /// Page, translation and mark of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Translation, i8)> + use<'_> {
        self.found.iter().flatten().copied()
    }
}

/// Proposes pages whose translations will be needed soon. It supplies no translation from anything but
/// entries of the page table that a walk has loaded.
pub trait TlbPrefetcher: State + Send {
    /// Another address space runs from now on: what was learnt of the pages before says nothing of its pages.
    fn switch(&mut self);

    /// A page has missed the L2 TLB and was found, in the queue or by a walk: trains on it, and proposes
    /// pages.
    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals);

    /// A walk has found `page`, for a miss or for a proposal: which of the translations in the line of its
    /// leaf entry ([`FinishedWalk::entry`]) go into the queue as well.
    fn walked(&mut self, _page: u64, _walk: &FinishedWalk, _: &mut dyn MemoryPort, _free: &mut FreeTranslations) {}

    /// Reports its own counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero.
    fn reset_counters(&mut self) {}
}

ambulator_base::counters! {
    /// Counters of TLB prefetching.
    pub struct PrefetchCounters {
        /// Look-ups of the prefetch queue, after L2 TLB misses.
        probes: Events timed,
        /// Misses that the prefetch queue served.
        hits: Events timed,
        /// Of these, misses that waited for a prefetch walk in flight.
        late: Events timed,
        /// Of these hits, those of translations that came with a walk for free.
        free_hits: Events timed,
        /// Pages that the prefetcher proposed.
        proposed: Events timed,
        /// Proposals dropped because the L2 TLB or the prefetch queue held the page.
        held: Events timed,
        /// Proposals dropped because as many prefetch walks were in flight as may be.
        crowded: Events timed,
        /// Proposals dropped because they lie outside the address space.
        outside: Events timed,
        /// Prefetch walks.
        walks: Events timed,
        /// Prefetch walks that found no page; they fault nowhere.
        unmapped: Events timed,
        /// Prefetch walks whose page forbids the kind of access that caused them.
        forbidden: Events timed,
        /// Translations that prefetch walks put into the queue.
        filled: Events timed,
        /// Translations put into the queue that came with a walk for free.
        free: Events timed,
        /// Translations that left the queue unused, for others.
        useless: Events timed,
        /// Translations that left the queue unused, for shootdowns and changes of address spaces.
        invalidated: Events timed,
        /// Loads that prefetch walks issued to the memory hierarchy.
        walk_accesses: Events timed,
        /// Cycles of prefetch walks, from their start on a walker to their result.
        walk_cycles: Cycles timed,
        /// Cycles that prefetch walks waited for a walker.
        walker_queue_cycles: Cycles timed,
    }
}

/// A prefetched translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, State)]
struct Entry {
    asid: Asid,
    /// Number of the page's first 4 KiB.
    first: u64,
    held: TlbEntry,
    mark: i8,
    slowest: u8,
}

impl Entry {
    fn size(&self) -> PageSize {
        self.held.translation().size
    }

    fn covers(&self, asid: Asid, page: u64) -> bool {
        self.asid == asid && page.wrapping_sub(self.first) < self.size().frames()
    }
}

/// A translation on its way into the queue, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetched {
    /// The translation.
    pub found: Translation,
    /// When its walk ends.
    pub ready: Cycle,
    /// Its mark; 0 if a prefetch walk of its own has brought it.
    pub mark: i8,
    /// 1 plus the level that served the slowest load of its walk ([`crate::Served`]), or 0.
    pub slowest: u8,
}

/// The prefetched translations of a core, oldest first. A hit takes its entry out, so the oldest is also the
/// least recently used.
#[derive(State)]
pub struct PrefetchQueue {
    entries: VecDeque<Entry>,
    #[state(skip)]
    most: usize,
    /// Cycles of a look-up.
    #[state(skip)]
    pub latency: u64,
    /// The counters so far.
    pub counters: PrefetchCounters,
}

impl PrefetchQueue {
    /// An empty queue.
    pub fn new(spec: &PrefetchQueueSpec) -> PrefetchQueue {
        let most = spec.entries as usize;
        PrefetchQueue {
            entries: VecDeque::with_capacity(most),
            most,
            latency: spec.latency,
            counters: PrefetchCounters::default(),
        }
    }

    /// Takes the translation of a page out, if it is there.
    pub fn take(&mut self, asid: Asid, page: u64) -> Option<Prefetched> {
        self.counters.probes += 1;
        let at = self.entries.iter().position(|entry| entry.covers(asid, page))?;
        let Entry { held, mark, slowest, .. } = self.entries.remove(at)?;
        self.counters.hits += 1;
        self.counters.free_hits += u64::from(mark != 0);
        Some(Prefetched { found: held.translation(), ready: held.ready, mark, slowest })
    }

    /// Whether it holds a page. Changes nothing.
    pub fn holds(&self, asid: Asid, page: u64) -> bool {
        self.entries.iter().any(|entry| entry.covers(asid, page))
    }

    /// Puts a translation of the page number `page` in; the oldest leaves if the queue is full.
    pub fn put(&mut self, asid: Asid, page: u64, new: &Prefetched) {
        let Prefetched { ref found, ready, mark, slowest } = *new;
        if self.entries.len() == self.most {
            self.entries.pop_front();
            self.counters.useless += 1;
        }
        let first = page & !(found.size.frames() - 1);
        self.entries.push_back(Entry { asid, first, held: TlbEntry::new(found, ready), mark, slowest });
        *(if mark == 0 { &mut self.counters.filled } else { &mut self.counters.free }) += 1;
    }

    /// Removes what `what` selects; walks in flight bring nothing that it selects either, because their
    /// entries are in the queue from their begin.
    pub fn invalidate(&mut self, what: Invalidation) {
        let before = self.entries.len();
        match what {
            Invalidation::Page { asid, page } => {
                let (from, until) = (page.start.vpn().0, page.start.vpn().0 + page.size.frames());
                let overlaps = |entry: &Entry| entry.first < until && from < entry.first + entry.size().frames();
                self.entries.retain(|entry| entry.asid != asid || !overlaps(entry));
            }
            Invalidation::Asid(asid) => self.entries.retain(|entry| entry.asid != asid),
            Invalidation::All => self.entries.clear(),
        }
        self.counters.invalidated += (before - self.entries.len()) as u64;
    }

    /// Translations in the queue.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What a look-up from `from` to `until` finds, as a step for a watch. Changes nothing.
    pub fn look_up_step(&self, asid: Asid, page: u64, from: Cycle, until: Cycle) -> Step {
        let found = self.entries.iter().position(|entry| entry.covers(asid, page));
        let step = Step::look_up("TLB prefetch queue", found.is_some(), from, until);
        let Some(at) = found else {
            return step.says(format!("miss among {} of {} entries", self.entries.len(), self.most));
        };
        let Entry { held, mark, .. } = self.entries[at];
        let says = match mark {
            0 => "a prefetch walk has brought the page".to_owned(),
            _ => "the page came for free with the walk for another one".to_owned(),
        };
        held.translation().fields_of(step.says(says))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Page, Pfn};

    fn found(frame: u64, size: PageSize) -> Translation {
        Translation { frame: Pfn(frame), size, writable: true, executable: false, dirty: false, ranged: false }
    }

    /// What a walk that ends at `ready` has brought.
    fn brought(frame: u64, size: PageSize, ready: u64, mark: i8) -> Prefetched {
        Prefetched { found: found(frame, size), ready: Cycle(ready), mark, slowest: 4 }
    }

    fn queue(entries: u32) -> PrefetchQueue {
        PrefetchQueue::new(&PrefetchQueueSpec { entries, ..PrefetchQueueSpec::default() })
    }

    #[test]
    fn a_hit_takes_its_entry_and_the_oldest_leaves_a_full_queue() {
        let mut queue = queue(3);
        for page in 0..4 {
            queue.put(Asid(1), page, &brought(100 + page, PageSize::SIZE_4K, 10 * page, page as i8));
        }
        assert_eq!((queue.len(), queue.counters.useless, queue.counters.free), (3, 1, 3), "page 0 has no mark");
        assert_eq!(queue.take(Asid(1), 0), None, "the oldest has left");
        assert_eq!(queue.take(Asid(2), 1), None, "another address space");
        let taken = queue.take(Asid(1), 2).unwrap();
        assert_eq!(taken, brought(102, PageSize::SIZE_4K, 20, 2));
        assert_eq!(queue.take(Asid(1), 2), None, "it has moved into the TLB");
        let counters = &queue.counters;
        assert_eq!((counters.probes, counters.hits, counters.free_hits, counters.filled), (4, 1, 1, 1));
    }

    #[test]
    fn pages_of_any_size_are_found_and_shot_down_by_any_page_in_them() {
        let mut queue = queue(8);
        let shoot = |queue: &mut PrefetchQueue, asid: u16, page: u64, size: PageSize| {
            let page = Page::containing(VirtAddr(page << 12), size);
            queue.invalidate(Invalidation::Page { asid: Asid(asid), page });
        };
        queue.put(Asid(1), 512 + 7, &brought(1024, PageSize::SIZE_2M, 0, 0));
        queue.put(Asid(1), 2048, &brought(5, PageSize::SIZE_4K, 0, 0));
        queue.put(Asid(1), 2049, &brought(6, PageSize::SIZE_4K, 0, 0));
        queue.put(Asid(2), 2049, &brought(7, PageSize::SIZE_4K, 0, 0));
        assert!(queue.holds(Asid(1), 512) && queue.holds(Asid(1), 1023) && !queue.holds(Asid(1), 1024));
        shoot(&mut queue, 1, 600, PageSize::SIZE_4K);
        assert!(!queue.holds(Asid(1), 512), "a page inside it is gone");
        shoot(&mut queue, 1, 2049, PageSize::SIZE_4K);
        assert!(queue.holds(Asid(1), 2048) && !queue.holds(Asid(1), 2049) && queue.holds(Asid(2), 2049));
        shoot(&mut queue, 1, 2048, PageSize::SIZE_2M);
        assert!(!queue.holds(Asid(1), 2048) && queue.len() == 1, "a page around it is gone");
        queue.invalidate(Invalidation::Asid(Asid(1)));
        assert_eq!((queue.len(), queue.counters.invalidated), (1, 3));
        queue.invalidate(Invalidation::All);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_queue_agrees_with_a_list_of_pages() {
        let mut random = ambulator_base::Random::new(11);
        let mut queue = queue(12);
        // Address space, first page, pages, frame; oldest first.
        let mut list: Vec<(u16, u64, u64, u64)> = Vec::new();
        let sizes = [PageSize::SIZE_4K, PageSize::SIZE_4K, PageSize::SIZE_2M];
        for step in 0..20_000 {
            let (asid, page) = (random.below(2) as u16, random.below(4) * 512 + random.below(12));
            let size = sizes[random.below(3) as usize];
            let first = page & !(size.frames() - 1);
            let covers = |entry: &(u16, u64, u64, u64)| entry.0 == asid && (entry.1..entry.1 + entry.2).contains(&page);
            match random.below(9) {
                0 => {
                    queue.invalidate(Invalidation::Page {
                        asid: Asid(asid),
                        page: Page { start: VirtAddr(first << 12), size },
                    });
                    let overlaps =
                        |entry: &(u16, u64, u64, u64)| entry.1 < first + size.frames() && first < entry.1 + entry.2;
                    list.retain(|entry| entry.0 != asid || !overlaps(entry));
                }
                1 if step % 10 == 0 => {
                    queue.invalidate(Invalidation::Asid(Asid(asid)));
                    list.retain(|entry| entry.0 != asid);
                }
                2..=4 => {
                    let at = list.iter().position(covers);
                    let expected = at.map(|at| list.remove(at).3);
                    let taken = queue.take(Asid(asid), page).map(|taken| taken.found.frame.0);
                    assert_eq!(taken, expected, "step {step}");
                }
                _ => {
                    assert_eq!(queue.holds(Asid(asid), page), list.iter().any(covers), "step {step}");
                    if list.len() == 12 {
                        list.remove(0);
                    }
                    list.push((asid, first, size.frames(), 512 * step));
                    queue.put(Asid(asid), page, &brought(512 * step, size, 0, 0));
                }
            }
            assert_eq!(queue.len(), list.len());
        }
        let counters = &queue.counters;
        let left = counters.hits + counters.useless + counters.invalidated + queue.len() as u64;
        assert_eq!(counters.filled, left, "what came in went out in one way");
    }

    #[test]
    fn proposals_are_pages_of_the_address_space_each_once() {
        let miss = TlbMiss { page: 2, frames: 1, pc: VirtAddr(0), served: None };
        let mut proposals = Proposals::default();
        for distance in [1, 1, 0, -3, -2, i64::MAX, 5] {
            proposals.push(&miss, distance);
        }
        assert_eq!(proposals.pages(), [3, 0, i64::MAX as u64 + 2, 7]);
        (10..60).for_each(|distance| proposals.push(&miss, distance));
        assert_eq!(proposals.pages().len(), MOST_PROPOSALS);
        let mut free = FreeTranslations::default();
        (0..9).for_each(|page| free.push(page, found(page, PageSize::SIZE_4K), 1));
        assert_eq!(free.iter().count(), MOST_FREE);
    }
}
