//! Loads and stores that wait for an MSHR of the first level: first come, first served.
//!
//! A line that main memory delivers later than it said keeps its MSHR until then. So nobody is told in advance when
//! an MSHR will be free for it: the first in the queue asks when one is said to be ([`EventKind::Admit`]), and
//! the others follow it.

use super::CoreWindow;
use super::entry::InFlightAccess;
use crate::Access;
use crate::events::{EventKind, NO_PLACE};
use crate::reservation_table::Occupancy;
use ambulator_base::{Cycle, PhysAddr, State};

/// Cycles after an MSHR is said to be free at which who waits asks: a cache counts its MSHRs by grains, and
/// by then a line that was to free one has asked main memory whether it has come.
const AFTER: u64 = Occupancy::GRAIN - 1;

/// A load or a store that waits for an MSHR.
#[derive(Clone, Copy, Debug, Default, State)]
pub struct Stalled {
    /// The access.
    pub flight: InFlightAccess,
    /// When it asked.
    pub asked: Cycle,
    /// The first line of an access of two lines, if only the second waits.
    pub first: Option<Access>,
    /// A load's place in the window, a store's in the store queue.
    pub place: u32,
}

impl CoreWindow {
    /// Whether loads or stores wait for an MSHR.
    #[inline(always)]
    pub fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// The load or the store at `place` asked at `asked`; a line of it is not in the first level, where an MSHR is
    /// free at `free`, if nobody waits already. Of two lines, that is the second if the `first` has been sent.
    pub fn stall(&mut self, place: u32, flight: InFlightAccess, asked: Cycle, first: Option<Access>, free: Cycle) {
        if self.stalled.is_empty() {
            self.try_admission(free);
        }
        let place = if flight.is_store { self.entries[place as usize].link } else { place };
        self.stalled.push_back(Stalled { flight, asked, first, place });
    }

    /// The first in the queue asks again when an MSHR is said to be free at `free`. Of two lines, the `first` may
    /// have been sent.
    pub fn stay_stalled(&mut self, first: Option<Access>, free: Cycle) {
        if let Some(stalled) = self.stalled.front_mut() {
            stalled.first = first;
        }
        self.try_admission(free);
    }

    fn try_admission(&mut self, free: Cycle) {
        self.events.push(free.0 + AFTER, NO_PLACE, EventKind::Admit);
    }

    /// Who has waited longest for an MSHR.
    pub fn first_stalled(&self) -> Option<Stalled> {
        self.stalled.front().copied()
    }

    /// The first in the queue has its line at `at`, or the later of two, as `found` says, or, if it `awaits` main
    /// memory, is told so.
    pub fn admitted(&mut self, at: PhysAddr, found: Access, awaits: bool) {
        let Some(Stalled { flight, place, .. }) = self.stalled.pop_front() else { return };
        let Access { ready, served } = found;
        match (flight.is_store, awaits) {
            (true, true) => self.await_ownership(place, at, ready),
            (true, false) => self.own(place, ready),
            (false, true) => self.await_line(place, at, ready, served),
            (false, false) => {
                self.complete(place, ready, served);
            }
        }
    }
}
