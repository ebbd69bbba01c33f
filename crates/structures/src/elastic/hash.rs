//! Hash functions of the ways.

use super::MAX_WAYS;
use ambulator_base::mix64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The family of hash functions of the ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HashKind {
    /// CRC-32, each way with its own polynomial (ME-HPT Table III), followed by a bijective mixer.
    #[default]
    CrcMixed,
    /// CRC-32 alone. It is linear: small groups of adjacent pages share so few slots over all ways that some
    /// do not fit into a half-empty table, and the table grows early.
    Crc,
    /// A multiplicative mixer as in CityHash, each way with its own seed.
    City,
}

/// Bytes of a key that are hashed: 48 bits, more than any page number has.
const KEY_BYTES: usize = 6;

/// Polynomials of CRCs in use: IEEE 802.3, Castagnoli (CRC-32C), Koopman (CRC-32K), and CRC-32D. Ways cannot
/// share a polynomial with different start values: such CRCs differ by a constant, so pages that collide in
/// one way would collide in all.
const POLYNOMIALS: [u32; MAX_WAYS] = [0x04c1_1db7, 0x1edc_6f41, 0x741b_8cd7, 0xa833_982b];

/// By byte of the key and its value: its contribution to the CRC of each way (CRCs are linear).
static CRC: [[[u32; MAX_WAYS]; 256]; KEY_BYTES] = crc_table();

const fn crc_table() -> [[[u32; MAX_WAYS]; 256]; KEY_BYTES] {
    let mut table = [[[0; MAX_WAYS]; 256]; KEY_BYTES];
    let mut way = 0;
    while way < MAX_WAYS {
        let mut value = 0;
        while value < 256 {
            // The lowest byte of the key is last: 32 steps for it, eight more for each byte above.
            let mut crc = value as u32;
            let mut steps = 0;
            while steps < 32 + 8 * (KEY_BYTES - 1) {
                let carry = crc >> 31;
                crc = (crc << 1) ^ (carry * POLYNOMIALS[way]);
                steps += 1;
                if steps >= 32 && (steps - 32) % 8 == 0 {
                    table[(steps - 32) / 8][value][way] = crc;
                }
            }
            value += 1;
        }
        way += 1;
    }
    table
}

/// The hash of a key for every way. Indices are its low bits, so a way that doubles uses one bit more.
///
/// The CRCs use the low 48 bits of `key`.
#[inline(always)]
pub fn hashes(kind: HashKind, key: u64) -> [u32; MAX_WAYS] {
    match kind {
        HashKind::CrcMixed => crcs(key).map(mix32),
        HashKind::Crc => crcs(key),
        HashKind::City => mixed(key),
    }
}

#[inline(always)]
fn crcs(key: u64) -> [u32; MAX_WAYS] {
    let mut all = [0; MAX_WAYS];
    for (byte, table) in CRC.iter().enumerate() {
        let part = &table[(key >> (8 * byte)) as usize & 0xff];
        for way in 0..MAX_WAYS {
            all[way] ^= part[way];
        }
    }
    all
}

/// A bijection of 32 bits in which every low bit depends on all bits (MurmurHash3's finaliser).
#[inline(always)]
fn mix32(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Four independent 32-bit hashes of a 64-bit word.
#[inline(always)]
pub(super) fn mixed(key: u64) -> [u32; MAX_WAYS] {
    let (one, two) = (mix64(key), mix64(key ^ 0x9ae1_6a3b_2f90_404f));
    [one as u32, (one >> 32) as u32, two as u32, (two >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32 by its definition: no reflection, start value 0, no final inversion.
    fn crc(key: u64, polynomial: u32) -> u32 {
        let mut crc = 0u32;
        for byte in (0..KEY_BYTES).rev() {
            crc ^= u32::from((key >> (8 * byte)) as u8) << 24;
            for _ in 0..8 {
                crc = if crc >> 31 == 1 { (crc << 1) ^ polynomial } else { crc << 1 };
            }
        }
        crc
    }

    #[test]
    fn the_tables_compute_crcs() {
        for i in 0..1000 {
            let key = mix64(i) >> 16;
            assert_eq!(hashes(HashKind::Crc, key), POLYNOMIALS.map(|polynomial| crc(key, polynomial)), "{key:#x}");
        }
        // "123456" of CRC-32/MPEG-2's polynomial with start value 0, checked against an independent
        // calculation.
        assert_eq!(crc(0x31_32_33_34_35_36, 0x04c1_1db7), {
            let bits = 0x3132_3334_3536_u128 << 32;
            let mut rest = bits;
            for bit in (32..80).rev() {
                if rest >> bit & 1 == 1 {
                    rest ^= 0x1_04c1_1db7 << (bit - 32);
                }
            }
            rest as u32
        });
    }

    #[test]
    fn ways_do_not_collide_together() {
        for kind in [HashKind::CrcMixed, HashKind::Crc, HashKind::City] {
            // Of the pairs that collide in way 0 (in 10 bits), about one in 1024 may collide in each other
            // way.
            let all: Vec<_> = (0..4096).map(|i| hashes(kind, mix64(i) >> 20).map(|hash| hash & 1023)).collect();
            let (mut pairs, mut both) = (0, 0);
            for a in 0..all.len() {
                for b in 0..a {
                    if all[a][0] == all[b][0] {
                        pairs += 1;
                        both += (1..MAX_WAYS).filter(|&way| all[a][way] == all[b][way]).count();
                    }
                }
            }
            assert!(pairs > 4000 && both < pairs / 100, "{kind:?}: {both} of {pairs}");
        }
    }

    #[test]
    fn adjacent_pages_spread_over_every_way() {
        for kind in [HashKind::CrcMixed, HashKind::Crc, HashKind::City] {
            for way in 0..MAX_WAYS {
                let mut seen = vec![0u32; 1024];
                for key in 0x07f1_2345_6000..0x07f1_2345_6400_u64 {
                    seen[(hashes(kind, key)[way] & 1023) as usize] += 1;
                }
                assert!(seen.iter().filter(|&&n| n > 0).count() > 600, "{kind:?}, way {way}");
            }
        }
    }
}
