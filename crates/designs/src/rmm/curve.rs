//! The sensitivity to the number of entries, measured in one pass (RMM Fig. 7): the depth at which each
//! look-up finds its range in a least-recently-used stack.

use ambulator_base::{Asid, State, Vpn};
use ambulator_structures::ranges::Range;

ambulator_base::counters! {
    /// Look-ups that would have hit in range TLBs of these sizes.
    pub(crate) struct CurveCounters {
        /// With 1 entry.
        hits_1: Events,
        /// With 2 entries.
        hits_2: Events,
        /// With 4 entries.
        hits_4: Events,
        /// With 8 entries.
        hits_8: Events,
        /// With 16 entries.
        hits_16: Events,
        /// With 32 entries.
        hits_32: Events,
        /// With 64 entries.
        hits_64: Events,
        /// With 128 entries.
        hits_128: Events,
    }
}

/// Entries of the stack.
const DEEPEST: usize = 128;

/// The stack: ranges by their latest use, the most recent first. A fully associative LRU table of n entries
/// holds the first n.
#[derive(Default, State)]
pub(crate) struct Curve {
    stack: Vec<(Asid, Range)>,
    pub(crate) counters: CurveCounters,
}

impl Curve {
    /// Looks up a page.
    pub(crate) fn probe(&mut self, asid: Asid, page: Vpn) {
        let Some(depth) = self.stack.iter().position(|(own, range)| *own == asid && range.contains(page)) else {
            return;
        };
        self.stack[..=depth].rotate_right(1);
        let counters = &mut self.counters;
        let sizes = [
            &mut counters.hits_1,
            &mut counters.hits_2,
            &mut counters.hits_4,
            &mut counters.hits_8,
            &mut counters.hits_16,
            &mut counters.hits_32,
            &mut counters.hits_64,
            &mut counters.hits_128,
        ];
        for (log, hits) in sizes.into_iter().enumerate() {
            *hits += u64::from(depth < 1 << log);
        }
    }

    /// Inserts a range that a walk of the range table has found.
    pub(crate) fn found(&mut self, asid: Asid, range: Range) {
        self.stack.retain(|(own, old)| *own != asid || old.limit <= range.base || range.limit <= old.base);
        self.stack.insert(0, (asid, range));
        self.stack.truncate(DEEPEST);
    }

    /// Drops the ranges for which `keep` is false.
    pub(crate) fn retain(&mut self, keep: impl Fn(Asid, &Range) -> bool) {
        self.stack.retain(|(asid, range)| keep(*asid, range));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Counters, Pfn};

    #[test]
    fn hits_follow_the_depth_in_the_stack() {
        let mut curve = Curve::default();
        let range = |n: u64| Range { base: Vpn(n * 100), limit: Vpn(n * 100 + 50), frame: Pfn(0), ..Range::default() };
        for n in 0..40 {
            curve.found(Asid(1), range(n));
        }
        curve.probe(Asid(1), Vpn(3901));
        curve.probe(Asid(1), Vpn(10));
        curve.probe(Asid(1), Vpn(10));
        curve.probe(Asid(2), Vpn(10));
        curve.probe(Asid(1), Vpn(60));
        // At depths 0, 39, 0; then two misses.
        assert_eq!(curve.counters.values(), [2, 2, 2, 2, 2, 2, 3, 3]);
    }
}
