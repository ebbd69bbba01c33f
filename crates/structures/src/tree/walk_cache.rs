//! Page-walk caches: entries that point to tables, split by level.

use super::{FLAT, FLAT_BITS, NODE_BITS};
use crate::pte::Pte;
use ambulator_base::watch::{self, Step};
use ambulator_base::{Asid, Cycle, PhysAddr, State, VirtAddr};
use ambulator_hardware::{NO_KEY, Replacement, SetArray};
use ambulator_mmu::{Invalidation, PwcSpec};

const LEVELS: usize = 4;

/// log2 of what an entry of a level covers: PDE, PDPTE, PML4E, PML5E.
const fn shift_of(level: usize) -> u32 {
    21 + 9 * level as u32
}

/// An entry of a level, and the cycle at which its load completes.
#[derive(Clone, Copy, Default, State)]
struct Cached {
    pte: Pte,
    ready: Cycle,
}

/// The names of the levels' entries.
const NAMES: [&str; LEVELS] = ["PDE", "PDPTE", "PML4E", "PML5E"];

#[derive(State)]
struct Level {
    array: SetArray<Cached>,
    #[state(skip)]
    sets: u64,
    /// The key that the latest look-up did not find, or [`NO_KEY`]: a fill need not look for it again.
    #[state(skip)]
    absent: u64,
}

/// A table at which a walk can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedNode {
    /// Address of the table.
    pub(super) at: PhysAddr,
    /// log2 of its entries.
    pub(super) bits: u32,
    /// log2 of the bytes that an entry of it covers.
    pub(super) shift: u32,
    /// The level that hit: 0 PDE, 1 PDPTE, 2 PML4E, 3 PML5E.
    pub(super) level: usize,
}

/// The page-walk caches of a core, tagged by address space.
#[derive(State)]
pub(super) struct WalkCaches {
    #[state(each)]
    levels: [Option<Level>; LEVELS],
    #[state(skip)]
    latency: u64,
}

impl WalkCaches {
    /// Empty caches of a validated spec.
    pub(super) fn new(spec: &PwcSpec) -> WalkCaches {
        let levels = spec.levels().map(|(_, entries)| {
            (entries > 0).then(|| {
                let ways = if spec.ways == 0 { entries } else { spec.ways };
                let sets = (entries / ways).max(1);
                let array = SetArray::new(sets as usize, ways as usize, Replacement::Lru);
                Level { array, sets: u64::from(sets), absent: NO_KEY }
            })
        });
        // Without caches a look-up takes no time.
        let latency = if levels.iter().any(Option::is_some) { spec.latency } else { 0 };
        WalkCaches { levels, latency }
    }

    /// Cycles of a look-up.
    pub(super) fn latency(&self) -> u64 {
        self.latency
    }

    #[inline(always)]
    fn set_and_key(level: &Level, asid: Asid, va: VirtAddr, shift: u32) -> (usize, u64) {
        let number = va.0 >> shift;
        // At most 36 bits of number and 16 of ASID.
        let set = if level.sets == 1 { 0 } else { number % level.sets };
        (set as usize, number << 16 | u64::from(asid.0))
    }

    /// For a watch: what a look-up that began at `from` finds at `now` in the cache of each level.
    #[cold]
    pub(super) fn tell(&self, asid: Asid, va: VirtAddr, from: Cycle, now: Cycle) {
        for (number, level) in self.levels.iter().enumerate().rev() {
            let Some(level) = level else { continue };
            let (set, key) = WalkCaches::set_and_key(level, asid, va, shift_of(number));
            let name = format!("page-walk cache of {}s", NAMES[number]);
            watch::step(|| match level.array.peek(set, key) {
                Some(cached) if cached.ready > now => Step::look_up(name, false, from, now)
                    .says(format!("miss: the entry is on its way until cycle {} of the run", cached.ready)),
                Some(cached) => Step::look_up(name, true, from, now).address("table", cached.pte.frame().start().0),
                None => Step::look_up(name, false, from, now),
            });
        }
    }

    /// The cached table nearest to the leaf of `va`. A pointer whose load is still in flight at `now` does
    /// not hit.
    #[inline]
    pub(super) fn lookup(&mut self, asid: Asid, va: VirtAddr, now: Cycle) -> Option<CachedNode> {
        for (number, level) in self.levels.iter_mut().enumerate() {
            let Some(level) = level else { continue };
            let span = shift_of(number);
            let (set, key) = WalkCaches::set_and_key(level, asid, va, span);
            match level.array.lookup(set, key) {
                Some(cached) if cached.ready <= now => {
                    let bits = if cached.pte.0 & FLAT != 0 { FLAT_BITS } else { NODE_BITS };
                    let at = cached.pte.frame().start();
                    return Some(CachedNode { at, bits, shift: span - bits, level: number });
                }
                Some(_) => {}
                None => level.absent = key,
            }
        }
        None
    }

    /// Inserts an entry that points to a table covering `2^span` bytes around `va`, loaded at `ready`.
    #[inline]
    pub(super) fn fill(&mut self, asid: Asid, va: VirtAddr, span: u32, pte: Pte, ready: Cycle) {
        let number = (span - 21) as usize / 9;
        let Some(Some(level)) = self.levels.get_mut(number) else {
            return;
        };
        let (set, key) = WalkCaches::set_and_key(level, asid, va, span);
        // Walks are not simulated in cycle order: the entry in the cache may have an earlier cycle.
        let known = if level.absent == key { None } else { level.array.lookup(set, key) };
        let ready = match &known {
            Some(cached) if cached.pte.frame() == pte.frame() => ready.min(cached.ready),
            _ => ready,
        };
        watch::step(|| {
            Step::fill(format!("page-walk cache of {}s", NAMES[number]), ready).address("table", pte.frame().start().0)
        });
        match known {
            Some(cached) => *cached = Cached { pte, ready },
            None => {
                level.array.insert_new(set, key, Cached { pte, ready });
                level.absent = NO_KEY;
            }
        }
    }

    /// Invalidates entries: for a page, those of every level that lead to one of its addresses.
    pub(super) fn invalidate(&mut self, what: Invalidation) {
        for (number, level) in self.levels.iter_mut().enumerate() {
            let Some(level) = level else { continue };
            let shift = shift_of(number);
            match what {
                Invalidation::Page { asid, page } => {
                    let (first, last) = (page.start.0 >> shift, (page.end().0 - 1) >> shift);
                    if first == last {
                        let (set, key) = WalkCaches::set_and_key(level, asid, page.start, shift);
                        level.array.remove(set, key);
                    } else {
                        level.array.retain(|key, _| key as u16 != asid.0 || !(first..=last).contains(&(key >> 16)));
                    }
                }
                Invalidation::Asid(asid) => {
                    level.array.retain(|key, _| key as u16 != asid.0);
                }
                Invalidation::All => level.array.clear(),
            }
        }
    }
}
