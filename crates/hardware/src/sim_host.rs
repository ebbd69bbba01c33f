//! Code for the machine that runs the simulator (the sim host): prefetch hints, and comparing all tags of a
//! set at once.

/// Prefetches `slice[index]` into the sim host's caches. Affects speed only.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    if let Some(element) = slice.get(index) {
        ambulator_base::prefetch_sim_host(element);
    }
}

/// Bit `i` is set when `tags[i] == tag`; `N` is 4, 8, 16 or 32.
///
/// The compiler's own vectorisation of the loop is longer on plain x86-64 (an L1 hit of the hierarchy: 6.2
/// against 5.3 ns), so the comparison is written out with SSE2, which every x86-64 has.
#[inline(always)]
pub fn matches<const N: usize>(tags: &[u32; N], tag: u32) -> u32 {
    const { assert!(N == 4 || N == 8 || N == 16 || N == 32) }
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
            _mm_set1_epi32, _mm_setzero_si128,
        };
        // SAFETY: SSE2 is part of x86-64. `four(i)` reads `tags[4 * i..4 * i + 4]` with an unaligned load,
        // and is called for `i < N / 4` only (the assertion above: N is a multiple of 4).
        #[allow(unsafe_code)]
        unsafe {
            let wanted = _mm_set1_epi32(tag as i32);
            let four = |i: usize| {
                debug_assert!(4 * i + 4 <= N);
                _mm_cmpeq_epi32(_mm_loadu_si128(tags.as_ptr().add(4 * i).cast::<__m128i>()), wanted)
            };
            let eight = |i: usize| _mm_packs_epi32(four(2 * i), four(2 * i + 1));
            let sixteen = |i: usize| _mm_movemask_epi8(_mm_packs_epi16(eight(2 * i), eight(2 * i + 1))) as u32;
            match N {
                4 => {
                    let zero = _mm_setzero_si128();
                    _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(four(0), zero), zero)) as u32
                }
                8 => _mm_movemask_epi8(_mm_packs_epi16(eight(0), _mm_setzero_si128())) as u32,
                16 => sixteen(0),
                _ => sixteen(0) | sixteen(1) << 16,
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        tags.iter().enumerate().fold(0, |mask, (i, &t)| mask | u32::from(t == tag) << i)
    }
}

/// Bit `i` is set when `bytes[i] == byte`.
#[inline(always)]
pub fn matching_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
        // SAFETY: SSE2 is part of x86-64. The load is unaligned and reads the 16 bytes of the array.
        #[allow(unsafe_code)]
        unsafe {
            let loaded = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(loaded, _mm_set1_epi8(byte as i8))) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        bytes.iter().enumerate().fold(0, |mask, (i, &b)| mask | u32::from(b == byte) << i)
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, matching_bytes};

    fn check<const N: usize>() {
        for (seed, bound) in [(1u32, 3u32), (2, 8), (3, u32::MAX)] {
            let tags: [u32; N] =
                std::array::from_fn(|i| (i as u32 + 1).wrapping_mul(2_654_435_761).wrapping_mul(seed) % bound);
            for tag in tags.into_iter().chain([0, 1, u32::MAX, 1 << 31]) {
                let expected = (0..N).filter(|&i| tags[i] == tag).fold(0, |mask, i| mask | 1 << i);
                assert_eq!(matches(&tags, tag), expected, "{N} tags {tags:?}, tag {tag}");
            }
        }
    }

    #[test]
    fn matching_bytes_is_what_a_loop_finds() {
        for bound in [2, 5, 255] {
            let bytes: [u8; 16] = std::array::from_fn(|i| (i * 73 % bound) as u8);
            for byte in 0..=255 {
                let expected = (0..16).filter(|&i| bytes[i] == byte).fold(0, |mask, i| mask | 1 << i);
                assert_eq!(matching_bytes(&bytes, byte), expected, "{bytes:?}, {byte}");
            }
        }
    }

    #[test]
    fn matching_tags_is_what_a_loop_finds() {
        check::<4>();
        check::<8>();
        check::<16>();
        check::<32>();
    }
}
