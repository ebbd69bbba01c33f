//! The accesses of a core whose page walks wait for walkers, or that have joined such walks: they ask for their lines
//! when the walk has begun, which says when it ends.

use crate::awaited::OtherLines;
use crate::core::Core;
use ambulator_base::{Cycle, Record, State, VirtAddr};
use ambulator_hardware::{AwaitedWalk, Event, Hierarchy};
use ambulator_mmu::{AheadLoads, Begin, WaitingWalk, WalkOnWalker};

/// An access that has joined a walk which waits for a walker.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Joined {
    /// Its place in the window.
    place: u32,
    va: VirtAddr,
    /// When it was said to be translated.
    told: Cycle,
}

impl Core {
    /// The walk for a load or a store, `record`, at `place` in the window, which was said to be translated at `translated`,
    /// if that waits for a walker: the access waits for it (`walk`), or nobody does.
    #[inline(always)]
    pub fn waiting_walk(
        &mut self,
        hierarchy: &mut Hierarchy,
        place: u32,
        record: &Record,
        translated: Cycle,
        walk: AwaitedWalk,
    ) -> Option<WaitingWalk> {
        self.awaited_table.may_wait = false;
        let Some(WalkOnWalker { number, begins, ends, waited: true }) = self.awaited_table.walk else { return None };
        let (cycles, searched) = (ends.since(begins), !self.awaited_table.search.is_empty());
        if !walk.waits_for_walker() {
            self.awaited_table.loads.send(hierarchy);
            if searched {
                self.mmu.take_walker(number, cycles);
            }
            return None;
        }
        if searched {
            self.others.search_before(number, &self.awaited_table.search);
        }
        Some(WaitingWalk {
            number,
            place,
            pc: record.pc,
            va: record.va,
            begins,
            cycles,
            translated,
            asks: true,
            others: walk.walk().others,
            searched,
            asks_later: 0,
            loads: std::mem::take(&mut self.awaited_table.loads),
        })
    }

    /// A walk waits for a walker.
    #[inline(never)]
    pub fn wait_for_walker(&mut self, waiting: WaitingWalk) {
        if let Some(begins) = self.mmu.wait_for_walker(waiting) {
            self.window.begin_later(waiting.place, begins);
        }
    }

    /// An access of `va` at `place` in the window, which was said to be translated at `told`, has joined a walk that waits
    /// for a walker.
    #[cold]
    pub fn join_waiting(&mut self, place: u32, va: VirtAddr, told: Cycle) {
        self.joined.push(Joined { place, va, told });
    }

    /// The first walk that waits for a walker was said to get one in `event`. Once it has, it asks for its lines of main
    /// memory. Returns the instruction and the address of the access that it is for.
    #[inline(never)]
    pub fn begin_walk(
        &mut self,
        number: usize,
        hierarchy: &mut Hierarchy,
        event: Event,
    ) -> Option<(VirtAddr, VirtAddr)> {
        let now = Cycle(event.at);
        if let Some(walk) = self.mmu.first_searched(event.place) {
            let arrives = self.others.searched(walk, number, hierarchy);
            self.mmu.ask_for_walker(arrives);
            if let Some((place, begins)) = self.mmu.next_to_begin()
                && (place != event.place || begins > now)
            {
                self.window.begin_later(place, begins);
                return None;
            }
        }
        let (walk, queued) = match self.mmu.begin_walk(event.place, now) {
            Begin::Now(walk, queued) => (walk, queued),
            Begin::At(later) => {
                self.window.begin_later(event.place, later);
                return None;
            }
            Begin::No => return None,
        };
        let others = walk.others.then(|| self.others.of(true, walk.number));
        let late = ask(number, hierarchy, &walk.loads, others, queued);
        let ready = self.mmu.has_begun(&walk, queued, late);
        if walk.asks {
            self.window.translated_later(walk.place, ready);
        }
        if !self.joined.is_empty() {
            self.release_joined(now);
        }
        if let Some((place, begins)) = self.mmu.next_to_begin() {
            self.window.begin_later(place, begins);
        }
        Some((walk.pc, walk.va))
    }

    /// Accesses whose walks have begun by `now` which they have joined ask again when those end.
    #[cold]
    fn release_joined(&mut self, now: Cycle) {
        let Core { joined, mmu, window, .. } = self;
        joined.retain(|&Joined { place, va, told }| {
            let late = mmu.joined_late(va, told);
            if let Some(late) = late {
                // Now, if the entry is there no longer.
                window.ask_later(place, told.after(late).max(now));
            }
            late.is_none()
        });
    }
}

/// The loads of a walk that has begun `queued` cycles later than was said are sent. Returns by how many cycles more the
/// walk is late.
#[inline(always)]
fn ask(
    number: usize,
    hierarchy: &mut Hierarchy,
    ahead: &AheadLoads,
    mut others: Option<&mut OtherLines>,
    queued: u64,
) -> u64 {
    let loads = ahead.as_slice();
    // By how much each arrives later.
    let mut later = [0; AheadLoads::MOST];
    let (mut told, mut last) = (Cycle(0), Cycle(0));
    for (place, load) in loads.iter().enumerate() {
        // A load that has waited for others begins as much later as they are.
        let before = loads[..place].iter().zip(&later).filter(|(other, _)| other.told <= load.asked);
        let begins = before.map(|(_, later)| *later).fold(queued, u64::max);
        let earliest = if ahead.is_on_its_way(place) {
            load.told.after(begins)
        } else {
            hierarchy.send_ahead(load.at, begins);
            load.asked.after(begins)
        };
        let arrives = hierarchy.arrival(number, load.at, true, load.told).max(earliest);
        later[place] = arrives.since(load.told);
        if let Some(others) = &mut others {
            others.arrive(load.at, arrives);
        }
        if ahead.decides(place) {
            (told, last) = (told.max(load.told), last.max(arrives));
        }
    }
    last.since(told.after(queued))
}
