//! The seeded random generator. Nothing random comes from time, host addresses or hash-map order.

use crate::{Archive, State};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A reproducible generator (xoshiro256++). [`Random::for_purpose`] makes independent streams by name.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A generator for one purpose. Equal seeds and purposes give equal values, whatever other streams draw.
    pub fn for_purpose(seed: u64, purpose: &str) -> Random {
        let hash = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        Random::new(mix64(seed ^ hash))
    }

    /// The next 64 random bits.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform value in `0..bound` (Lemire's multiplication without rejection: bias below 2^-32 for bounds
    /// under 2^32).
    ///
    /// # Panics
    /// In debug builds when `bound` is 0.
    #[inline(always)]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "an empty range has no random value");
        mul_high(self.next_u64(), bound)
    }

    /// A uniform value in `[0, 1)` with 53 bits.
    #[inline(always)]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability.
    #[inline(always)]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

impl State for Random {
    fn state(&mut self, archive: &mut Archive<'_>) {
        // The generator shows its words only as serialised data: a list of four.
        let mut words: [u64; 4] = serde_json::to_value(&self.0)
            .ok()
            .and_then(|value| serde_json::from_value(value.get("s")?.clone()).ok())
            .unwrap_or_default();
        words.state(archive);
        if archive.loads() {
            match serde_json::from_value(serde_json::json!({ "s": words })) {
                Ok(generator) => self.0 = generator,
                Err(error) => archive.fail(format!("a random generator's state is wrong ({error})")),
            }
        }
    }
}

/// Whether a uniform 64-bit word falls into the lowest `share` (0 to 1) of its range.
#[inline]
pub fn falls_within(word: u64, share: f64) -> bool {
    share >= 1.0 || (word as f64) < share * 2f64.powi(64)
}

/// The high half of the product. It maps a uniform 64-bit word to `0..bound`, and divides when `bound` is a
/// scaled reciprocal.
#[inline(always)]
pub fn mul_high(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// A bijective mix of 64 bits (the finaliser of SplitMix64).
#[inline(always)]
pub fn mix64(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
