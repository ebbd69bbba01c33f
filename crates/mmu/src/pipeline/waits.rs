//! Walks that wait for walkers: their entries in the TLBs are not usable, and nobody asks for the walk, until it has
//! a walker.

use super::Mmu;
use crate::{Begin, Retime, WaitingWalk};
use ambulator_base::Cycle;

impl Mmu {
    /// A walk waits for a walker. Returns when it is to begin ([`Mmu::begin_walk`]), if it is the first to wait.
    pub fn wait_for_walker(&mut self, waiting: WaitingWalk) -> Option<Cycle> {
        self.retime(waiting.va, Retime::Wait(waiting.translated));
        self.walkers.wait(waiting)
    }

    /// The walk that the access at `place` in the window waits for was said to begin at `now`.
    pub fn begin_walk(&mut self, place: u32, now: Cycle) -> Begin {
        self.walkers.begin(place, now)
    }

    /// The first walk that waits for a walker, if it is for the access at `place` in the window and follows a search in
    /// vain.
    pub fn first_searched(&self, place: u32) -> Option<u16> {
        self.walkers.first_waiting().filter(|first| first.place == place && first.searched).map(|first| first.number)
    }

    /// Nobody waits for walk `number`, which follows a search in vain: it has its walker when that was said to end, for so
    /// many cycles.
    #[cold]
    pub fn take_walker(&mut self, number: u16, cycles: u64) {
        self.walkers.delay(number, cycles);
    }

    /// What the first walk that waits for a walker has searched before in vain has come at `asks`: it asks for a walker
    /// then, behind others that ask before.
    pub fn ask_for_walker(&mut self, asks: Cycle) {
        self.walkers.ask_later(asks);
    }

    /// The first walk that waits for a walker: the place of its access in the window, and when it is to begin.
    pub fn next_to_begin(&mut self) -> Option<(u32, Cycle)> {
        self.walkers.next_to_begin()
    }

    /// A walk has begun `queued` cycles later than was said; main memory serves it `late` cycles later than it had said at
    /// the earliest. Returns when its access is translated.
    pub fn has_begun(&mut self, walk: &WaitingWalk, queued: u64, late: u64) -> Cycle {
        let ready = walk.translated.after(queued + late);
        self.counters.walker_queue_cycles += queued.saturating_sub(walk.asks_later);
        self.counters.mmu_cycles += queued + late;
        if late > 0 {
            self.raise_walk(walk.number, late);
        }
        self.retime(walk.va, Retime::Begin(ready));
        ready
    }
}
