//! How often a page that migrated into a RestSeg is found there before it leaves (Utopia Fig. 20). A
//! measurement, not hardware.

use ambulator_base::State;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

ambulator_base::counters! {
    /// Pages that migrated into a RestSeg and left it, by the number of walks that found them there.
    pub(crate) struct UtopiaReuse {
        /// None.
        none: Events,
        /// 1 to 5.
        up_to_5: Events,
        /// 6 to 20.
        up_to_20: Events,
        /// More.
        above_20: Events,
    }
}

/// Set in a way's count while the way holds a migrated page.
const MIGRATED: u32 = 1 << 31;

/// Number of times that walkers of all cores found the page of each way of a RestSeg. Cores of a machine are
/// simulated in turn on one thread, so plain loads and stores suffice.
#[derive(Clone, State)]
pub(crate) struct WayUses(Arc<[AtomicU32]>);

impl WayUses {
    /// Counts for a RestSeg with that many ways in all its sets.
    pub(crate) fn new(ways: u64) -> WayUses {
        WayUses((0..ways).map(|_| AtomicU32::new(0)).collect())
    }

    /// Counts a walk that found its page in way `number`.
    #[inline]
    pub(crate) fn found(&self, number: u64) {
        let uses = &self.0[number as usize];
        let seen = uses.load(Ordering::Relaxed);
        if seen & MIGRATED != 0 && seen != u32::MAX {
            uses.store(seen + 1, Ordering::Relaxed);
        }
    }

    /// Starts the count of a page that migrated into way `number`.
    pub(crate) fn entered(&self, number: u64) {
        self.0[number as usize].store(MIGRATED, Ordering::Relaxed);
    }

    /// Ends the count of the page of way `number`, and adds it to `into`.
    pub(crate) fn left(&self, number: u64, into: &mut UtopiaReuse) {
        let seen = self.0[number as usize].swap(0, Ordering::Relaxed);
        if seen & MIGRATED == 0 {
            return;
        }
        match seen & !MIGRATED {
            0 => into.none += 1,
            1..=5 => into.up_to_5 += 1,
            6..=20 => into.up_to_20 += 1,
            _ => into.above_20 += 1,
        }
    }
}
