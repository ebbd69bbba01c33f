//! The cycle stack of a core: what the commit of instructions waited for, slot by slot. Each slot in which an
//! instruction could have committed and none did has one cause, so that the causes and the slots in which
//! instructions committed add up to the run's time.

use crate::Served;
use ambulator_base::State;

/// [`crate::InFlight::translation`] of an access that what stands behind the L1 TLBs has translated without a load: the
/// L2 TLB, or a lookaside or a walk cache that has all of it.
pub const BY_L2_TLB: u8 = 5;
/// [`crate::InFlight::translation`] of an access whose entry a walk or a look-up of another access was about to fill.
pub const BY_JOINED_WALK: u8 = 6;

/// What the commit of instructions waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
#[repr(u8)]
pub(crate) enum Cause {
    /// Nothing of the below: operands, the depth of the pipeline.
    #[default]
    Base,
    Branch,
    Front,
    L1Tlb,
    L2Tlb,
    JoinedWalk,
    WalkL1,
    WalkL2,
    WalkLlc,
    WalkDram,
    L1,
    L2,
    Llc,
    Dram,
    Stores,
    Os,
}

impl Cause {
    /// All but the base, which is what remains of the run's time.
    pub const ALL: [Cause; 15] = [
        Cause::Branch,
        Cause::Front,
        Cause::L1Tlb,
        Cause::L2Tlb,
        Cause::JoinedWalk,
        Cause::WalkL1,
        Cause::WalkL2,
        Cause::WalkLlc,
        Cause::WalkDram,
        Cause::L1,
        Cause::L2,
        Cause::Llc,
        Cause::Dram,
        Cause::Stores,
        Cause::Os,
    ];

    /// Data that `served` served.
    #[inline(always)]
    pub fn of_data(served: Served) -> Cause {
        match served {
            Served::L1 => Cause::L1,
            Served::L2 => Cause::L2,
            Served::Llc => Cause::Llc,
            Served::Dram => Cause::Dram,
        }
    }

    /// A translation, by [`crate::InFlight::translation`].
    #[inline(always)]
    pub fn of_translation(translation: u8) -> Cause {
        match translation & 7 {
            0 => Cause::L1Tlb,
            1 => Cause::WalkL1,
            2 => Cause::WalkL2,
            3 => Cause::WalkLlc,
            4 => Cause::WalkDram,
            BY_L2_TLB => Cause::L2Tlb,
            _ => Cause::JoinedWalk,
        }
    }
}

/// Slots by cause.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct CycleStack {
    slots: [u64; Cause::ALL.len() + 1],
}

impl CycleStack {
    /// Adds `slots` of `cause`.
    #[inline(always)]
    pub fn add(&mut self, cause: Cause, slots: u64) {
        self.slots[cause as usize] += slots;
    }

    /// The slots of `cause`.
    pub fn slots(&self, cause: Cause) -> u64 {
        self.slots[cause as usize]
    }
}
