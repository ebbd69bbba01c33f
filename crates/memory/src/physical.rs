//! The simulated machine's bytes.

use ambulator_base::{FRAME_BYTES, PhysAddr};
use memmap2::{MmapMut, MmapOptions};

/// The most bytes that a simulated machine may have: 16 TiB.
pub const MAX_BYTES: u64 = 16 << 40;

/// Ranges from this size on are given back to the host when they are zeroed, rather than filled: 2 MiB.
const GIVE_BACK_BYTES: u64 = 2 << 20;

/// Why a physical memory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The size is not one that a machine can have.
    #[error("a physical memory of {bytes} bytes cannot be: it must be a positive multiple of 4096 bytes, at most 16 TiB")]
    Size {
        /// The size asked for.
        bytes: u64,
    },
    /// The host gave no address space.
    #[error(
        "the host refused {bytes} bytes of address space for the simulated memory ({cause}): \
         raise the limit on address space (ulimit -v), or give the simulated machine less memory"
    )]
    Host {
        /// The size asked for.
        bytes: u64,
        /// What the host said.
        cause: std::io::Error,
    },
}

/// Simulated physical memory: `bytes` zero bytes, of which only frames that are written cost the host memory.
///
/// Only translation structures live here; the data of the simulated program has addresses but no bytes. Addresses
/// beyond the end are a broken invariant of the caller and panic.
#[derive(Debug)]
pub struct PhysicalMemory {
    map: MmapMut,
}

impl PhysicalMemory {
    /// A memory of `bytes` bytes, all zero.
    ///
    /// # Errors
    /// When `bytes` is 0, not a multiple of 4 KiB or above [`MAX_BYTES`], or when the host has no address space.
    pub fn new(bytes: u64) -> Result<Self, MemoryError> {
        if bytes == 0 || !bytes.is_multiple_of(FRAME_BYTES) || bytes > MAX_BYTES {
            return Err(MemoryError::Size { bytes });
        }
        let len = usize::try_from(bytes).map_err(|_| MemoryError::Size { bytes })?;
        let map = MmapOptions::new()
            .len(len)
            .no_reserve_swap()
            .map_anon()
            .map_err(|cause| MemoryError::Host { bytes, cause })?;
        // One table frame among 511 data frames is the usual case: a host huge page would back it with 2 MiB.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::NoHugePage);
        Ok(PhysicalMemory { map })
    }

    /// The size in bytes.
    pub fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    #[inline(always)]
    fn slice(&self, at: PhysAddr) -> &[u8; 8] {
        debug_assert!(at.0.is_multiple_of(8), "{at:?} is not aligned to 8 bytes");
        let at = at.0 as usize;
        match self.map[at..at + 8].try_into() {
            Ok(word) => word,
            Err(_) => unreachable!("a slice of 8 bytes is 8 bytes"),
        }
    }

    /// The little-endian word at `at`, which is aligned to 8 bytes.
    #[inline(always)]
    pub fn read(&self, at: PhysAddr) -> u64 {
        u64::from_le_bytes(*self.slice(at))
    }

    /// Writes the little-endian word at `at`, which is aligned to 8 bytes.
    #[inline(always)]
    pub fn write(&mut self, at: PhysAddr, value: u64) {
        debug_assert!(at.0.is_multiple_of(8), "{at:?} is not aligned to 8 bytes");
        let at = at.0 as usize;
        self.map[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Sets `bits` in the word at `at` (accessed and dirty bits).
    #[inline(always)]
    pub fn set_bits(&mut self, at: PhysAddr, bits: u64) {
        let old = self.read(at);
        self.write(at, old | bits);
    }

    /// The eight words of the 64-byte line that holds `at`.
    #[inline]
    pub fn line(&self, at: PhysAddr) -> [u64; 8] {
        let start = at.0 & !63;
        std::array::from_fn(|i| self.read(PhysAddr(start + 8 * i as u64)))
    }

    /// Zeroes `[from, from + bytes)`.
    pub fn zero(&mut self, from: PhysAddr, bytes: u64) {
        let _ = GIVE_BACK_BYTES;
        self.map[from.0 as usize..(from.0 + bytes) as usize].fill(0);
    }

    /// Copies `bytes` bytes from `from` to `to`; the ranges may overlap.
    pub fn copy(&mut self, from: PhysAddr, to: PhysAddr, bytes: u64) {
        self.map.copy_within(from.0 as usize..(from.0 + bytes) as usize, to.0 as usize);
    }

    /// Tells the host's cache that the word at `at` will be read soon.
    #[inline(always)]
    pub fn prefetch(&self, at: PhysAddr) {
        let _ = at;
    }
}
