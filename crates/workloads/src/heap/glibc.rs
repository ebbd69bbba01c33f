//! The C library's heap, as far as it determines object addresses.
//!
//! After glibc 2.36 `malloc`: chunks carry an 8-byte header and are multiples of 16 bytes, at least 32; a
//! freed chunk satisfies the next request of its size (last in, first out, as the thread cache and the bins
//! do for equal sizes); else the chunk is cut off the top, which `brk` moves up in steps of at least 128 KiB.
//! Requests from the mmap threshold on get their own mapping; freeing one raises the threshold to its
//! size, up to 32 MiB, as the dynamic threshold does. Adjacent free chunks are not merged: growing vectors
//! request the same few sizes repeatedly.

use crate::layout::{AddressSpace, MMAP_HEADER};
use ambulator_base::{FRAME_BYTES, VirtAddr, VmEvent};
use std::collections::HashMap;

const HEADER: u64 = 8;
const MIN_CHUNK: u64 = 32;
/// `M_TOP_PAD`, and `DEFAULT_MMAP_THRESHOLD`.
const TOP_PAD: u64 = 128 << 10;
const MAX_THRESHOLD: u64 = 32 << 20;

/// A heap; the events of its growth go to the address space as they happen.
pub struct Glibc {
    /// First free byte: where the top chunk begins.
    top: u64,
    /// End of the heap set by `brk`.
    end: u64,
    threshold: u64,
    /// Freed chunks by size: small ones by index, large ones by hash.
    small: Vec<Vec<u64>>,
    large: HashMap<u64, Vec<u64>>,
}

/// Chunks below this size are found by index.
const SMALL: u64 = 16 << 10;

/// Bytes of the chunk that serves a request for `bytes`.
fn chunk_bytes(bytes: u64) -> u64 {
    (bytes + HEADER).next_multiple_of(16).max(MIN_CHUNK)
}

impl Glibc {
    /// An empty heap at the current end of the address space's heap.
    pub fn new(space: &AddressSpace) -> Glibc {
        let top = space.heap_end().0;
        Glibc {
            top,
            end: top,
            threshold: TOP_PAD,
            small: vec![Vec::new(); (SMALL / 16) as usize],
            large: HashMap::new(),
        }
    }

    /// Bytes from the heap's start to its end, without separately mapped blocks.
    pub fn bytes(&self, start: VirtAddr) -> u64 {
        self.end - start.0
    }

    /// `malloc`: the address of `bytes` usable bytes.
    #[inline]
    pub fn allocate(&mut self, bytes: u64, space: &mut AddressSpace) -> u64 {
        if bytes >= self.threshold {
            return space.map(bytes + MMAP_HEADER).0 + MMAP_HEADER;
        }
        let chunk = chunk_bytes(bytes);
        let free = match self.small.get_mut((chunk / 16) as usize) {
            Some(bin) => bin.pop(),
            None => self.large.get_mut(&chunk).and_then(Vec::pop),
        };
        if let Some(address) = free {
            return address;
        }
        if self.top + chunk + MIN_CHUNK > self.end {
            let more = (self.top + chunk + MIN_CHUNK + TOP_PAD - self.end).next_multiple_of(FRAME_BYTES);
            let old = space.grow_heap(more);
            // Chunk headers and data are written upwards from the top.
            space.push(VmEvent::Touch { start: old, len: more, write: true });
            self.end += more;
        }
        let address = self.top + HEADER * 2;
        self.top += chunk;
        address
    }

    /// Whether the block at `address` has its own mapping.
    pub fn is_mapped(&self, address: u64) -> bool {
        address >= self.end
    }

    /// `free` of `bytes` bytes at `address`.
    #[inline]
    pub fn free(&mut self, address: u64, bytes: u64, space: &mut AddressSpace) {
        if self.is_mapped(address) {
            let mapping = (bytes + MMAP_HEADER).next_multiple_of(FRAME_BYTES);
            space.unmap(VirtAddr(address - MMAP_HEADER), mapping);
            if mapping <= MAX_THRESHOLD {
                self.threshold = self.threshold.max(mapping);
            }
            return;
        }
        let chunk = chunk_bytes(bytes);
        match self.small.get_mut((chunk / 16) as usize) {
            Some(bin) => bin.push(address),
            None => self.large.entry(chunk).or_default().push(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other_and_freed_ones_return() {
        let mut space = AddressSpace::new();
        let mut heap = Glibc::new(&space);
        let a = heap.allocate(24, &mut space);
        let b = heap.allocate(25, &mut space);
        let c = heap.allocate(64, &mut space);
        assert_eq!((a % 16, b - a, c - b), (0, 32, 48));
        heap.free(a, 24, &mut space);
        assert_eq!(heap.allocate(20, &mut space), a);
    }

    #[test]
    fn large_blocks_are_mapped_until_one_is_freed() {
        let mut space = AddressSpace::new();
        let mut heap = Glibc::new(&space);
        let a = heap.allocate(200_000, &mut space);
        assert!(heap.is_mapped(a));
        heap.free(a, 200_000, &mut space);
        let b = heap.allocate(190_000, &mut space);
        assert!(!heap.is_mapped(b), "the threshold has moved");
        assert!(heap.is_mapped(heap.end));
        let c = heap.allocate(300_000, &mut space);
        assert!(heap.is_mapped(c));
    }
}
