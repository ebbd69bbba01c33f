//! The set of a page in a RestSeg, and the tag that distinguishes it from other pages of the set (Utopia Sec.
//! 5.2, 8.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a page number is mapped to a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetHash {
    /// The lowest bits.
    #[default]
    Modulo,
    /// The lowest bits, displaced by nine times the tag (Kharbutli et al., HPCA 2004).
    PrimeDisplacement,
    /// The lowest bits, XOR those of the tag.
    Xor,
    /// The remainder by one less than the number of sets: the last set stays empty (Yang and Yang, IEEE Micro
    /// 1992).
    Mersenne,
}

/// The multiplier of prime displacement.
const DISPLACEMENT: u64 = 9;

impl SetHash {
    /// Set and tag of a page number (of the RestSeg's page size) among `sets` sets, a power of two. Different
    /// pages of a set have different tags.
    #[inline(always)]
    pub(crate) fn set_and_tag(self, page: u64, sets: u64) -> (u64, u64) {
        let (low, tag) = (page & (sets - 1), page >> sets.trailing_zeros());
        match self {
            SetHash::Modulo => (low, tag),
            SetHash::PrimeDisplacement => (low.wrapping_add(DISPLACEMENT.wrapping_mul(tag)) & (sets - 1), tag),
            SetHash::Xor => (low ^ tag & (sets - 1), tag),
            SetHash::Mersenne if sets > 2 => (page % (sets - 1), page / (sets - 1)),
            SetHash::Mersenne => (low, tag),
        }
    }

    /// Bits of a tag for page numbers of `page_bits` bits.
    pub(crate) fn tag_bits(self, page_bits: u32, sets: u64) -> u32 {
        let most = (1u64 << page_bits) - 1;
        let (_, tag) = self.set_and_tag(most, sets);
        64 - tag.leading_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn pages_of_a_set_differ_in_their_tags_and_sets_fill_evenly() {
        for hash in [SetHash::Modulo, SetHash::PrimeDisplacement, SetHash::Xor, SetHash::Mersenne] {
            let mut seen = HashSet::new();
            let mut filled = vec![0; 64];
            for page in (0..6400).chain((1 << 30)..(1 << 30) + 6400) {
                let (set, tag) = hash.set_and_tag(page, 64);
                assert!(seen.insert((set, tag)), "{hash:?}: page {page}");
                filled[set as usize] += 1;
                assert!(tag < 1 << hash.tag_bits(36, 64));
            }
            let used = filled.iter().filter(|n| **n > 0);
            assert!(
                used.clone().count() >= 63 && used.clone().all(|n| (195..=210).contains(n)),
                "{hash:?}: {filled:?}"
            );
        }
        // The paper's example: 8192 sets of 4 KiB pages, tags of 23 bits (Sec. 5.2; 48 - 12 - 13).
        assert_eq!(SetHash::Modulo.tag_bits(36, 8192), 23);
    }
}
