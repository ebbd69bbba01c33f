//! Random permutations of `0..n`, computed instead of stored.

use ambulator_base::Random;

/// Rounds of mixing; three already look random, and the fourth is for short domains.
const ROUNDS: usize = 4;

/// A bijection of `0..n`, selected by a seed and a purpose. Its rounds of keyed xor, odd multiplication and
/// xor-shift are each invertible on as many bits as `n` needs. It walks along its cycle until it lands below
/// `n`, in less than two steps on average.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// A permutation of `0..n`; `n` from 1 to 2^63.
    pub fn new(n: u64, seed: u64, purpose: &str) -> Permutation {
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let mut random = Random::for_purpose(seed, purpose);
        let keys = std::array::from_fn(|_| (random.next_u64(), random.next_u64() | 1));
        Permutation { n, mask: (1 << bits) - 1, shift: bits.div_ceil(2), keys }
    }

    /// The image of `i`.
    #[inline(always)]
    pub fn of(&self, i: u64) -> u64 {
        debug_assert!(i < self.n, "{i} is outside a permutation of {} values", self.n);
        let mut x = i;
        loop {
            for (key, factor) in self.keys {
                x = ((x ^ key) & self.mask).wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_occurs_once(n in 1u64..5000, seed: u64) {
            let permutation = Permutation::new(n, seed, "test");
            let mut met = vec![false; n as usize];
            for i in 0..n {
                let to = permutation.of(i) as usize;
                prop_assert!(!met[to]);
                met[to] = true;
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let n = 1 << 20;
        let permutation = Permutation::new(n, 7, "test");
        // Of a random permutation's steps, 1 in 256 goes to the same or the next of 512 intervals; LCGs fail
        // this.
        let near = (1..n).filter(|&i| permutation.of(i).abs_diff(permutation.of(i - 1)) < n / 512).count();
        assert!((3600..4600).contains(&near), "{near} of {n} steps are short; about 4096 should be");
        let parity = (1..n).filter(|&i| (permutation.of(i) ^ permutation.of(i - 1)) & 1 == 1).count() as f64 / n as f64;
        assert!((0.48..0.52).contains(&parity), "lowest bits change in {parity} of the steps");
    }
}
