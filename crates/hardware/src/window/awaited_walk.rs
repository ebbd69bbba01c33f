//! What an access keeps of the page walk that translates it while main memory serves that.

use ambulator_base::{LINE_BYTES, PhysAddr, State};

/// A page walk that main memory serves, as it is said to be: what the translation of an access waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkInFlight {
    /// Where the table line is that arrives last.
    pub table: PhysAddr,
    /// Cycles from its arrival until the access is translated, up to 511.
    pub after: u64,
    /// Cycles of the walk on its walker, up to 65535.
    pub cycles: u64,
    /// It waited for a walker, which another walk had.
    pub queued: bool,
}

/// A [`WalkInFlight`] or none, in eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct AwaitedWalk(u64);

impl AwaitedWalk {
    const AFTER_BITS: u32 = 9;
    const CYCLES_BITS: u32 = 16;
    const AFTER: u64 = (1 << Self::AFTER_BITS) - 1;
    const CYCLES: u64 = (1 << Self::CYCLES_BITS) - 1;
    const QUEUED: u64 = 1 << (Self::AFTER_BITS + Self::CYCLES_BITS);
    const LINE_SHIFT: u32 = Self::AFTER_BITS + Self::CYCLES_BITS + 1;

    /// None, if the table line does not decide when the access is translated.
    pub fn new(walk: &WalkInFlight) -> AwaitedWalk {
        let line = walk.table.line();
        if walk.after > Self::AFTER || line >> (64 - Self::LINE_SHIFT) != 0 {
            return AwaitedWalk(0);
        }
        let queued = if walk.queued { Self::QUEUED } else { 0 };
        AwaitedWalk(line << Self::LINE_SHIFT | queued | walk.cycles.min(Self::CYCLES) << Self::AFTER_BITS | walk.after)
    }

    /// Whether there is nothing to wait for.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What is waited for.
    pub fn walk(self) -> WalkInFlight {
        WalkInFlight {
            table: PhysAddr((self.0 >> Self::LINE_SHIFT) * LINE_BYTES),
            after: self.0 & Self::AFTER,
            cycles: self.0 >> Self::AFTER_BITS & Self::CYCLES,
            queued: self.0 & Self::QUEUED != 0,
        }
    }
}
