//! A set of small integers with a fast search for its minimum.

use ambulator_base::State;

/// A bitmap with summary levels. A summary bit says that a word of the level below *may* be non-zero.
///
/// A search clears the summary bit of a zero word when it finds one. Allocating and splitting in address
/// order sets and clears the same bit again and again, and so touches no level above. Each lazy clear is
/// amortised by the insertion before it.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct Bitmap {
    /// `levels[0]` is the set. The last level is one word.
    levels: Vec<Vec<u64>>,
    /// All words of `levels[0]` below this index are zero.
    hint: usize,
}

impl Bitmap {
    /// The empty set over `0..bits`.
    pub(crate) fn new(bits: usize) -> Bitmap {
        let mut levels = Vec::new();
        let mut words = bits.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Bitmap { levels, hint: 0 };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline(always)]
    pub(crate) fn contains(&self, bit: usize) -> bool {
        self.levels[0].get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, bit: usize) {
        let mut at = bit;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let mask = 1 << (at % 64);
            let known = *word & mask != 0;
            *word |= mask;
            at /= 64;
            // The summaries of a bit that is set are set already.
            if known {
                break;
            }
        }
        self.hint = self.hint.min(bit / 64);
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, bit: usize) {
        self.levels[0][bit / 64] &= !(1 << (bit % 64));
    }

    /// The smallest member.
    #[inline(always)]
    pub(crate) fn first(&mut self) -> Option<usize> {
        let word = self.levels[0][self.hint];
        if word != 0 {
            return Some(self.hint * 64 + word.trailing_zeros() as usize);
        }
        self.search()
    }

    #[cold]
    fn search(&mut self) -> Option<usize> {
        let top = self.levels.len() - 1;
        'restart: loop {
            let mut at = 0;
            for level in (0..=top).rev() {
                let word = self.levels[level][at];
                if word == 0 {
                    if level == top {
                        return None;
                    }
                    self.levels[level + 1][at / 64] &= !(1 << (at % 64));
                    continue 'restart;
                }
                at = at * 64 + word.trailing_zeros() as usize;
            }
            self.hint = at / 64;
            return Some(at);
        }
    }

    /// The smallest member from `bit` on.
    pub(crate) fn next(&mut self, bit: usize) -> Option<usize> {
        self.next_in(0, bit)
    }

    fn next_in(&mut self, level: usize, bit: usize) -> Option<usize> {
        let mut at = bit / 64;
        let mut word = self.levels[level].get(at)? & !0 << (bit % 64);
        while word == 0 {
            if level + 1 == self.levels.len() {
                return None;
            }
            at = self.next_in(level + 1, at + 1)?;
            word = self.levels[level][at];
            if word == 0 {
                // The summary was late.
                self.levels[level + 1][at / 64] &= !(1 << (at % 64));
            }
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// Removes all members.
    pub(crate) fn clear(&mut self) {
        for level in &mut self.levels {
            level.fill(0);
        }
        self.hint = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        for (bits, seed) in [(1, 1), (64, 2), (65, 3), (5000, 4), (300_000, 5)] {
            let mut random = Random::new(seed);
            let (mut map, mut set) = (Bitmap::new(bits), BTreeSet::new());
            for step in 0..20_000 {
                // Phases of growth alternate with phases of removal from the front, so that summaries become
                // stale.
                let grows = step / 2000 % 2 == 0;
                if random.chance(if grows { 0.9 } else { 0.1 }) {
                    let bit = random.below(bits as u64) as usize;
                    map.insert(bit);
                    set.insert(bit);
                } else {
                    let bit = if random.chance(0.1) {
                        random.below(bits as u64) as usize
                    } else {
                        set.first().copied().unwrap_or(0)
                    };
                    map.remove(bit);
                    set.remove(&bit);
                }
                let probe = random.below(bits as u64) as usize;
                assert_eq!(map.contains(probe), set.contains(&probe));
                assert_eq!(map.next(probe), set.range(probe..).next().copied(), "from {probe}, step {step}");
                assert_eq!(map.first(), set.first().copied(), "{bits} bits, step {step}");
            }
            map.clear();
            assert_eq!(map.first(), None);
        }
    }
}
