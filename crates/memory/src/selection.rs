//! Random selection of an exact number of candidates.

use ambulator_base::Random;

/// Selects an exact number of a known number of candidates, every set with equal probability (Knuth, The Art
/// of Computer Programming, volume 2, 3.4.2, algorithm S).
pub(crate) struct Selection {
    candidates: u64,
    keep: u64,
}

impl Selection {
    pub(crate) fn new(candidates: u64, keep: u64) -> Selection {
        debug_assert!(keep <= candidates);
        Selection { candidates, keep }
    }

    /// The number of the next `n` candidates that are kept: all or none, except where the last ones make the
    /// total exact.
    #[inline(always)]
    pub(crate) fn next(&mut self, n: u64, random: &mut Random) -> u64 {
        let kept = if random.below(self.candidates) < self.keep {
            n.min(self.keep)
        } else {
            self.keep.saturating_sub(self.candidates - n)
        };
        self.candidates -= n;
        self.keep -= kept;
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_keeps_the_exact_number() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let lots: Vec<u64> = (0..1 + random.below(20)).map(|_| 1 + random.below(64)).collect();
            let all: u64 = lots.iter().sum();
            let keep = random.below(all + 1);
            let mut selection = Selection::new(all, keep);
            let kept: Vec<u64> = lots.iter().map(|n| selection.next(*n, &mut random)).collect();
            assert_eq!(kept.iter().sum::<u64>(), keep, "of {lots:?}: {kept:?}");
            assert!(kept.iter().zip(&lots).all(|(kept, lot)| kept <= lot), "of {lots:?}: {kept:?}");
        }
    }
}
