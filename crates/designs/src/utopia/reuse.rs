//! How often a page that its counters brought into a RestSeg is found there before it leaves (Utopia Fig.
//! 20). Observed, not hardware.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

ambulator_base::counters! {
    /// Pages that left a RestSeg after their counters had brought them there, by how many walks found them in
    /// between.
    pub struct UtopiaReuse {
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

/// A way's count holds while its page is one that migrated in.
const MIGRATED: u32 = 1 << 31;

/// What RestSeg walkers of all cores found in each way of a RestSeg. Cores of a machine take turns, so that
/// plain loads and stores suffice.
#[derive(Clone)]
pub struct WayUses(Arc<[AtomicU32]>);

impl WayUses {
    /// For a RestSeg of so many ways in all its sets.
    pub fn new(ways: u64) -> WayUses {
        WayUses((0..ways).map(|_| AtomicU32::new(0)).collect())
    }

    /// A walk found its page in way `number`.
    #[inline]
    pub fn found(&self, number: u64) {
        let uses = &self.0[number as usize];
        let seen = uses.load(Ordering::Relaxed);
        if seen & MIGRATED != 0 && seen != u32::MAX {
            uses.store(seen + 1, Ordering::Relaxed);
        }
    }

    /// A page has migrated into way `number`.
    pub fn entered(&self, number: u64) {
        self.0[number as usize].store(MIGRATED, Ordering::Relaxed);
    }

    /// The page of way `number` has gone.
    pub fn left(&self, number: u64, into: &mut UtopiaReuse) {
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
