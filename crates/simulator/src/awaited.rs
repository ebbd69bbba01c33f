//! The table lines of main memory that the translations of a core wait for, and what is done when one is late.

use crate::core::Core;
use ambulator_base::{Cycle, PhysAddr, VirtAddr};
use ambulator_hardware::{AwaitedWalk, Event, Hierarchy, WalkInFlight};
use ambulator_mmu::{AwaitedLines, AwaitedTable, WalkOnWalker};

/// Lines that decide when a walk or a lookaside's search ends besides the one that [`AwaitedWalk`] has, and when they
/// arrive.
#[derive(Clone, Copy, Default)]
pub(crate) struct OtherLines([(PhysAddr, Cycle); AwaitedLines::MOST - 1]);

impl OtherLines {
    /// These, or those of them that arrive last, which is how they are sorted.
    #[inline(always)]
    fn of(lines: &[(PhysAddr, Cycle)]) -> OtherLines {
        let mut kept = OtherLines::default();
        let lines = &lines[lines.len().saturating_sub(kept.0.len())..];
        kept.0[..lines.len()].copy_from_slice(lines);
        kept
    }

    /// Of these, the line at `at` arrives at `arrives`.
    #[inline(always)]
    pub fn arrive(&mut self, at: PhysAddr, arrives: Cycle) {
        self.0.iter_mut().filter(|(other, _)| *other == at).for_each(|line| line.1 = arrives);
    }

    /// When the last of these lines arrives, of core `number`, as far as is known.
    #[cold]
    fn last_arrival(&mut self, number: usize, hierarchy: &mut Hierarchy) -> Cycle {
        let lines = self.0.iter_mut().filter(|(_, told)| told.0 > 0);
        lines.fold(Cycle(0), |last, (at, told)| {
            *told = hierarchy.arrival(number, *at, true, *told);
            last.max(*told)
        })
    }
}

/// Those of a core's latest walks, and of its lookaside's latest searches.
pub(crate) struct OthersInFlight {
    walks: Box<[OtherLines; WalkInFlight::NUMBERS]>,
    searches: Box<[OtherLines; WalkInFlight::NUMBERS]>,
    /// By the numbers of walks: lines that a lookaside has searched before in vain.
    before: Box<[OtherLines; WalkInFlight::NUMBERS]>,
    /// The number of the latest search.
    search: u16,
}

impl OthersInFlight {
    /// No lines.
    pub fn new() -> OthersInFlight {
        let none = || Box::new([OtherLines::default(); WalkInFlight::NUMBERS]);
        OthersInFlight { walks: none(), searches: none(), before: none(), search: 0 }
    }

    /// The number of a new search.
    fn next_search(&mut self) -> u16 {
        self.search = (self.search + 1) % WalkInFlight::NUMBERS as u16;
        self.search
    }

    /// The lines of a walk, or of a search, by its number.
    #[inline(always)]
    pub fn of(&mut self, on_walker: bool, number: u16) -> &mut OtherLines {
        let all = if on_walker { &mut self.walks } else { &mut self.searches };
        &mut all[usize::from(number)]
    }

    /// Before a walk, these lines have been searched in vain.
    #[cold]
    pub fn search_before(&mut self, number: u16, lines: &AwaitedLines) {
        self.before[usize::from(number)] = OtherLines::of(lines.as_slice());
    }

    /// When the last of them arrives, of core `core`, as far as is known.
    #[cold]
    pub fn searched(&mut self, number: u16, core: usize, hierarchy: &mut Hierarchy) -> Cycle {
        self.before[usize::from(number)].last_arrival(core, hierarchy)
    }
}

impl Core {
    /// What the latest translation waits for, if the access is translated at `translated`: table lines of main memory, or
    /// a walker.
    #[inline(always)]
    pub fn awaited_walk(&mut self, translated: Cycle) -> AwaitedWalk {
        let AwaitedTable { lines, walk, settled, .. } = &self.awaited_table;
        let lines = lines.by(translated);
        let (on_walker, number, waited, ends) = match *walk {
            Some(WalkOnWalker { number, ends, waited, .. }) => (true, number, waited, ends),
            None if *settled && !lines.is_empty() => (false, self.others.next_search(), false, Cycle(0)),
            None => return AwaitedWalk::default(),
        };
        let (table, until, others) = match lines {
            [others @ .., (last, arrives)] => (Some(*last), *arrives, others),
            [] if waited && translated >= ends => (None, ends, [].as_slice()),
            [] => return AwaitedWalk::default(),
        };
        if !others.is_empty() {
            *self.others.of(on_walker, number) = OtherLines::of(others);
        }
        let (after, others) = (translated.since(until), !others.is_empty());
        AwaitedWalk::new(&WalkInFlight { table, after, on_walker, number, others, waited })
    }

    /// Whether an access of `va` that was to ask for its line in `event` is not translated yet, because main memory has
    /// served others before the table lines that its translation waits for, or because the walk is late which it has
    /// joined, or waits for a walker: it asks later.
    #[inline(always)]
    pub fn is_late(
        &mut self,
        number: usize,
        hierarchy: &mut Hierarchy,
        event: Event,
        va: VirtAddr,
        walk: AwaitedWalk,
    ) -> bool {
        !walk.is_none() && self.is_walk_late(number, hierarchy, event, va, walk)
    }

    #[inline(never)]
    fn is_walk_late(
        &mut self,
        number: usize,
        hierarchy: &mut Hierarchy,
        event: Event,
        va: VirtAddr,
        walk: AwaitedWalk,
    ) -> bool {
        let told = Cycle(event.at);
        let late = if walk.is_joined() {
            let Some(late) = self.mmu.joined_late(va, told) else {
                self.join_waiting(event.place, va, told);
                return true;
            };
            late
        } else {
            self.walk_late(number, hierarchy, told, va, walk)
        };
        if late > 0 {
            self.window.ask_later(event.place, told.after(late));
        }
        late > 0
    }

    /// By how many cycles a walk of `va`, which was said to end so that an access is translated at `told`, is late.
    #[inline(always)]
    pub fn walk_late(
        &mut self,
        number: usize,
        hierarchy: &mut Hierarchy,
        told: Cycle,
        va: VirtAddr,
        walk: AwaitedWalk,
    ) -> u64 {
        let walk = walk.walk();
        let arrives = Cycle(told.0.saturating_sub(walk.after));
        let mut last = walk.table.map_or(arrives, |at| hierarchy.arrival(number, at, true, arrives));
        if walk.others {
            last = last.max(self.others.of(walk.on_walker, walk.number).last_arrival(number, hierarchy));
        }
        let late = last.since(arrives);
        if late > 0 {
            let on_walker = walk.on_walker.then_some(walk.number);
            self.mmu.delay_walk(on_walker, va, told, late);
        }
        late
    }
}
