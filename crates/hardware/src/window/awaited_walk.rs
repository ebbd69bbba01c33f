//! What an access keeps of the page walk that translates it while that waits for main memory or for a walker.

use ambulator_base::{LINE_BYTES, PhysAddr, State};

/// A page walk on a walker, or a lookaside's search: what the translation of an access waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkInFlight {
    /// Where the table line is that main memory serves last; `None` if the walk waits for a walker alone.
    pub table: Option<PhysAddr>,
    /// Cycles from its arrival, or from the end of the walk, until the access is translated, up to 511.
    pub after: u64,
    /// Whether it is on a walker: otherwise it is a lookaside's search.
    pub on_walker: bool,
    /// Tells the latest [`WalkInFlight::NUMBERS`] of a core's walks apart, or of its searches: less than that.
    pub number: u16,
    /// Other lines decide, too, when it ends.
    pub others: bool,
    /// It waited for a walker, which another walk had.
    pub waited: bool,
}

impl WalkInFlight {
    /// Walks that have different numbers.
    pub const NUMBERS: usize = 1 << AwaitedWalk::BITS;
}

/// A [`WalkInFlight`], or the walk of another access, or none, in eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct AwaitedWalk(u64);

impl AwaitedWalk {
    const BITS: u32 = 9;
    const MASK: u64 = (1 << Self::BITS) - 1;
    const SOME: u64 = 1 << (2 * Self::BITS);
    const WAITED: u64 = 2 * Self::SOME;
    const ON_WALKER: u64 = 4 * Self::SOME;
    const OTHERS: u64 = 8 * Self::SOME;
    const LINE_SHIFT: u32 = 2 * Self::BITS + 4;

    /// The page walk of another access, which this one has joined: when it ends is in the TLB entry that it fills.
    pub const JOINED: AwaitedWalk = AwaitedWalk(1);

    /// None, if the walk does not decide when the access is translated.
    pub fn new(walk: &WalkInFlight) -> AwaitedWalk {
        let line = walk.table.map_or(0, PhysAddr::line);
        if walk.after > Self::MASK || line >> (64 - Self::LINE_SHIFT) != 0 {
            return AwaitedWalk(0);
        }
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(walk.waited, Self::WAITED)
            | flag(walk.on_walker, Self::ON_WALKER)
            | flag(walk.others, Self::OTHERS)
            | Self::SOME;
        AwaitedWalk(line << Self::LINE_SHIFT | flags | u64::from(walk.number) << Self::BITS | walk.after)
    }

    /// Whether there is nothing to wait for.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it is [`AwaitedWalk::JOINED`].
    #[inline(always)]
    pub fn is_joined(self) -> bool {
        self.0 == Self::JOINED.0
    }

    /// Whether it waits for a walker, or has.
    #[inline(always)]
    pub fn waits_for_walker(self) -> bool {
        self.0 & Self::WAITED != 0
    }

    /// What is waited for, if it is not a walk of another access.
    pub fn walk(self) -> WalkInFlight {
        let line = self.0 >> Self::LINE_SHIFT;
        WalkInFlight {
            table: (line != 0).then_some(PhysAddr(line * LINE_BYTES)),
            after: self.0 & Self::MASK,
            on_walker: self.0 & Self::ON_WALKER != 0,
            number: (self.0 >> Self::BITS & Self::MASK) as u16,
            others: self.0 & Self::OTHERS != 0,
            waited: self.0 & Self::WAITED != 0,
        }
    }
}
