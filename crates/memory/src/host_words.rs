//! Large arrays of the simulator's own, on the host's huge pages.

use ambulator_base::prefetch_host;
use memmap2::{MmapMut, MmapOptions};

/// Bytes of a huge page of the host.
const HUGE: usize = 2 << 20;
/// Bytes of a word.
const WORD: usize = 8;

/// `bytes` bytes of host memory, all zero, of which only what is written costs anything; on the host's huge
/// pages where it has them.
pub(crate) fn reserve(bytes: usize) -> std::io::Result<MmapMut> {
    let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
    // Only a hint: a host without huge pages is slower, not wrong.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

/// 64-bit words that begin as zero, aligned to the host's huge pages.
///
/// What is read at random from hundreds of megabytes costs the host a TLB miss each time on pages of 4 KiB,
/// and a prefetch waits for it: with 128 GiB simulated, a ninth of all time.
#[derive(Debug)]
pub struct HostWords {
    bytes: MmapMut,
    /// Where the first word lies.
    start: usize,
    len: usize,
}

impl HostWords {
    /// `len` words.
    ///
    /// # Panics
    /// When the host has no address space left, as any allocation does.
    pub fn new(len: usize) -> HostWords {
        let bytes =
            reserve(len * WORD + HUGE).unwrap_or_else(|e| panic!("the host refused {len} words of memory: {e}"));
        let start = bytes.as_ptr().align_offset(HUGE);
        HostWords { bytes, start, len }
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
        u64::from_ne_bytes(self.words()[at])
    }

    /// Changes `count` words from `at` on: `change` is told each one's number and what it is.
    #[inline(always)]
    pub fn change(&mut self, at: usize, count: usize, mut change: impl FnMut(usize, u64) -> u64) {
        for (i, word) in self.words_mut()[at..at + count].iter_mut().enumerate() {
            *word = change(i, u64::from_ne_bytes(*word)).to_ne_bytes();
        }
    }

    /// The first word from `from` on and below `to` that is not zero.
    pub fn first_set(&self, from: usize, to: usize) -> Option<usize> {
        self.words()[from..to].iter().position(|word| *word != [0; WORD]).map(|at| from + at)
    }

    /// Asks the host to bring a word into its cache. Changes nothing but speed.
    #[inline(always)]
    pub fn prefetch_host(&self, at: usize) {
        prefetch_host(&self.words()[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_as_zero_and_keep_what_is_written() {
        let mut words = HostWords::new(1 << 18);
        assert_eq!((words.get(0), words.get((1 << 18) - 1), words.first_set(0, 1 << 18)), (0, 0, None));
        words.change(1000, 3, |i, was| was + 7 + i as u64);
        assert_eq!((words.get(999), words.get(1000), words.get(1002), words.get(1003)), (0, 7, 9, 0));
        assert_eq!((words.first_set(0, 1 << 18), words.first_set(1001, 1002)), (Some(1000), Some(1001)));
        words.change(1000, 2, |_, _| 0);
        assert_eq!(words.first_set(0, 1 << 18), Some(1002));
        words.prefetch_host(5);
        assert!(words.words().as_ptr().cast::<u8>().align_offset(HUGE) == 0);
    }
}
