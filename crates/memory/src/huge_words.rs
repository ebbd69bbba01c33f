//! Large arrays of the simulator, on huge pages of the machine that simulates (the sim host).

use ambulator_base::{Archive, SimHostRefusal, State, prefetch_sim_host, sim_host_limits, sparse_by};
use memmap2::{MmapMut, MmapOptions};

/// Bytes of a huge page of the sim host.
const HUGE: usize = 2 << 20;
/// Bytes of a word.
const WORD: usize = 8;

/// Reserves `bytes` zeroed bytes of the sim host's address space, on huge pages if there are any. Only pages
/// that are written take memory.
pub(crate) fn reserve(bytes: usize) -> std::io::Result<MmapMut> {
    let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
    // Only a hint: without huge pages the simulation is slower.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

/// Zero-initialised 64-bit words, aligned to the sim host's huge pages.
///
/// On pages of 4 KiB each random read from hundreds of megabytes is a TLB miss of the sim host, which delays
/// a prefetch too. With 128 GiB simulated that took a ninth of all time.
#[derive(Debug)]
pub struct HugeWords {
    bytes: MmapMut,
    /// Offset of the first word.
    start: usize,
    len: usize,
}

impl HugeWords {
    /// `len` words.
    ///
    /// # Panics
    /// When the sim host has no address space left: unwinds with a [`SimHostRefusal`].
    pub fn new(len: usize) -> HugeWords {
        let bytes = len * WORD + HUGE;
        let bytes = reserve(bytes).unwrap_or_else(|error| {
            let sentence =
                format!("the sim host refused {} MiB of address space: {error}; {}", bytes >> 20, sim_host_limits());
            SimHostRefusal(sentence).raise()
        });
        let start = bytes.as_ptr().align_offset(HUGE);
        HugeWords { bytes, start, len }
    }

    #[inline(always)]
    fn words(&self) -> &[[u8; WORD]] {
        self.bytes[self.start..][..self.len * WORD].as_chunks().0
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut [[u8; WORD]] {
        self.bytes[self.start..][..self.len * WORD].as_chunks_mut().0
    }

    /// A word.
    #[inline(always)]
    pub fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(*self.word(at))
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &[u8; WORD] {
        debug_assert!(at < self.len, "word {at} of {}", self.len);
        let from = self.start + at * WORD;
        &self.bytes[from..from + WORD].as_chunks().0[0]
    }

    /// Changes `count` words from `at` on. `change` receives the index (from 0) and the value of each.
    #[inline(always)]
    pub fn change(&mut self, at: usize, count: usize, mut change: impl FnMut(usize, u64) -> u64) {
        for (i, word) in self.words_mut()[at..at + count].iter_mut().enumerate() {
            *word = change(i, u64::from_ne_bytes(*word)).to_ne_bytes();
        }
    }

    /// The index of the first non-zero word of `[from, to)`.
    pub fn first_set(&self, from: usize, to: usize) -> Option<usize> {
        self.words()[from..to].iter().position(|word| *word != [0; WORD]).map(|at| from + at)
    }

    /// Prefetches a word into the sim host's cache (simulator speed only).
    #[inline(always)]
    pub fn prefetch_sim_host(&self, at: usize) {
        prefetch_sim_host(self.word(at));
    }
}

impl State for HugeWords {
    fn state(&mut self, archive: &mut Archive<'_>) {
        sparse_by(self.words_mut(), archive, |word, archive| archive.raw(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zero_until_written() {
        let mut words = HugeWords::new(1 << 18);
        assert_eq!((words.get(0), words.get((1 << 18) - 1), words.first_set(0, 1 << 18)), (0, 0, None));
        words.change(1000, 3, |i, was| was + 7 + i as u64);
        assert_eq!((words.get(999), words.get(1000), words.get(1002), words.get(1003)), (0, 7, 9, 0));
        assert_eq!((words.first_set(0, 1 << 18), words.first_set(1001, 1002)), (Some(1000), Some(1001)));
        words.change(1000, 2, |_, _| 0);
        assert_eq!(words.first_set(0, 1 << 18), Some(1002));
        words.prefetch_sim_host(5);
        assert!(words.words().as_ptr().cast::<u8>().align_offset(HUGE) == 0);
    }
}
