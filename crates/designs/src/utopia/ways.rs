//! Which free way of its set a page takes, and where the ways lie in memory (Utopia Sec. 5.2, 5.6). Both
//! decide in which sets of the caches and in which banks of main memory the pages of a RestSeg are.

use ambulator_base::mix64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order in which the operating system takes the free ways of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FreeWay {
    /// The first free way from a way on that a hash of the set's number gives. Each way is the first of an
    /// equal share of the sets, so that a RestSeg that is partly full has pages at every offset.
    #[default]
    Scattered,
    /// The first free way of all. With the paper's frames, the pages of a RestSeg whose sets have few pages
    /// are a set apart, and share few sets of the caches and few banks.
    First,
}

impl FreeWay {
    /// The first of the ways of `set` to be taken, if it is free.
    #[inline]
    pub(crate) fn first(self, set: u64, ways: u32) -> u32 {
        match self {
            FreeWay::Scattered => (mix64(set) % u64::from(ways)) as u32,
            FreeWay::First => 0,
        }
    }
}

/// Where the ways of a RestSeg lie in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FrameOrder {
    /// The ways of a set lie side by side: `base + set * ways + way` (the paper's formula).
    #[default]
    SetMajor,
    /// The same way of all sets lies side by side: `base + way * sets + set`. Neighbouring pages then have
    /// neighbouring frames under the modulo hash.
    WayMajor,
}

impl FrameOrder {
    /// The number of a way, of pages of the RestSeg's size from its base on.
    #[inline(always)]
    pub(crate) fn number(self, set: u64, way: u32, sets: u64, ways: u32) -> u64 {
        match self {
            FrameOrder::SetMajor => set * u64::from(ways) + u64::from(way),
            FrameOrder::WayMajor => u64::from(way) * sets + set,
        }
    }

    /// Set and way of the page-sized piece `number` of a RestSeg.
    #[inline]
    pub(crate) fn set_and_way(self, number: u64, sets: u64, ways: u32) -> (u64, u32) {
        match self {
            FrameOrder::SetMajor => (number / u64::from(ways), (number % u64::from(ways)) as u32),
            FrameOrder::WayMajor => (number % sets, (number / sets) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_way_of_every_set_has_a_place_of_its_own_in_either_order() {
        for order in [FrameOrder::SetMajor, FrameOrder::WayMajor] {
            let mut seen = HashSet::new();
            for (set, way) in (0..8).flat_map(|set| (0..6).map(move |way| (set, way))) {
                let number = order.number(set, way, 8, 6);
                assert!(number < 48 && seen.insert(number), "{order:?}: set {set}, way {way}");
                assert_eq!(order.set_and_way(number, 8, 6), (set, way), "{order:?}");
            }
        }
        assert_eq!(FrameOrder::SetMajor.number(3, 2, 8, 6), 20);
        assert_eq!(FrameOrder::WayMajor.number(3, 2, 8, 6), 19);
    }

    #[test]
    fn each_way_is_the_first_of_an_equal_share_of_the_sets() {
        let mut sets = [0u32; 16];
        (0..8192).for_each(|set| sets[FreeWay::Scattered.first(set, 16) as usize] += 1);
        // 512 each; five standard deviations of a random choice are 110.
        assert!(sets.iter().all(|n| (402..=622).contains(n)), "{sets:?}");
        assert!((0..8192).all(|set| FreeWay::First.first(set, 16) == 0));
    }
}
