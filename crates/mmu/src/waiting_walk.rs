//! A page walk that waits for a walker, and the loads that it is to send.

use ambulator_base::{Cycle, PhysAddr, State, VirtAddr};
use ambulator_hardware::Hierarchy;

/// A load of main memory by a walk that waits for a walker: it is sent when the walk has its walker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct AheadLoad {
    /// The line of a table.
    pub at: PhysAddr,
    /// When the walk was to ask for it.
    pub asked: Cycle,
    /// When the walk was to have it at the earliest.
    pub told: Cycle,
}

/// The first of such loads of a walk, in the order in which it asks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct AheadLoads {
    loads: [AheadLoad; AheadLoads::MOST],
    count: u8,
    /// Bits of the places of those that decide when the walk ends.
    decisive: u8,
    /// Bits of the places of those whose lines are on their way already.
    on_their_way: u8,
}

impl AheadLoads {
    /// So many of a walk at most; those after them are sent at once.
    pub const MOST: usize = 4;

    /// Adds a load, of which there are not yet all, and whether the walk waits for it. Returns whether there are all now.
    pub(crate) fn push(&mut self, load: AheadLoad, decides: bool) -> bool {
        self.loads[usize::from(self.count)] = load;
        self.decisive |= u8::from(decides) << self.count;
        self.count += 1;
        usize::from(self.count) == AheadLoads::MOST
    }

    /// [`AheadLoads::push`] of a load whose line is on its way already: it is not sent again.
    pub(crate) fn push_on_its_way(&mut self, load: AheadLoad) -> bool {
        self.on_their_way |= 1 << self.count;
        self.push(load, true)
    }

    /// Whether the line at `at` is of one of these.
    pub(crate) fn has(&self, at: PhysAddr) -> bool {
        self.as_slice().iter().any(|load| load.at.line() == at.line())
    }

    /// Of these, only the loads of such lines decide when the walk ends.
    pub(crate) fn decide(&mut self, lines: &[(PhysAddr, Cycle)]) {
        self.decisive = 0;
        lines.iter().for_each(|(at, _)| self.wait_for(*at));
    }

    /// The walk waits for the line at `at`, if it is one of these: it may have fetched it before.
    pub(crate) fn wait_for(&mut self, at: PhysAddr) {
        for (place, load) in self.loads[..usize::from(self.count)].iter().enumerate() {
            self.decisive |= u8::from(load.at.line() == at.line()) << place;
        }
    }

    /// Whether the load at a place decides when the walk ends.
    #[inline]
    pub fn decides(&self, place: usize) -> bool {
        self.decisive >> place & 1 != 0
    }

    /// Whether the line of the load at a place is on its way already.
    #[inline]
    pub fn is_on_its_way(&self, place: usize) -> bool {
        self.on_their_way >> place & 1 != 0
    }

    /// The loads.
    #[inline]
    pub fn as_slice(&self) -> &[AheadLoad] {
        &self.loads[..usize::from(self.count)]
    }

    /// Sends them as was said, because nobody waits until the walk has a walker. None is left.
    #[inline(always)]
    pub fn send(&mut self, hierarchy: &mut Hierarchy) {
        if self.count > 0 {
            for (place, load) in self.as_slice().iter().enumerate() {
                if !self.is_on_its_way(place) {
                    hierarchy.send_ahead(load.at, 0);
                }
            }
            (self.count, self.decisive, self.on_their_way) = (0, 0, 0);
        }
    }
}

/// A page walk that waits for a walker, which other walks have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct WaitingWalk {
    /// [`WalkOnWalker::number`](crate::WalkOnWalker::number).
    pub number: u16,
    /// The place in the core's window of the access that it is for.
    pub place: u32,
    /// The instruction of that access.
    pub pc: VirtAddr,
    /// What it accesses.
    pub va: VirtAddr,
    /// When the walk begins, at the earliest.
    pub begins: Cycle,
    /// So many cycles it takes, as it was said.
    pub cycles: u64,
    /// When the access is translated then.
    pub translated: Cycle,
    /// The access waits for that. (A value from the store queue does not.)
    pub asks: bool,
    /// Several lines decide when it ends ([`WalkInFlight::others`](ambulator_hardware::WalkInFlight::others)).
    pub others: bool,
    /// It asks for a walker when the lines have come that a lookaside has searched in vain
    /// ([`AwaitedTable::search`](crate::AwaitedTable::search)).
    pub searched: bool,
    /// So many cycles later than was said it asks.
    pub asks_later: u64,
    /// Its loads of main memory.
    pub loads: AheadLoads,
}

/// Whether a walk begins that waits for a walker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It begins now, so many cycles later than was said when it asked.
    Now(WaitingWalk, u64),
    /// It does not before then.
    At(Cycle),
    /// None waits, or another one is before it.
    No,
}
