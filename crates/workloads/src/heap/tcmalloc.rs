//! TCMalloc's heap, after gperftools 2.10 as Debian ships it.
//!
//! Size classes are computed as its `SizeMap::Init` does: sizes ascend by an alignment that is an eighth of
//! their power of two, spans are long enough for a batch of objects with at most an eighth wasted, and
//! classes with as many objects in as many pages are merged. A class without a free object gets a span from
//! the page heap and threads a list through its objects, which touches them. Freed objects are reused by
//! their class, last in, first out. Requests above 256 KiB get their own spans. The page heap takes the
//! shortest span that fits, the lowest of equals, splits it, merges adjacent free spans, and grows the break
//! by at least 1 MiB. Span descriptors come from 128 KiB mappings, 2730 in each.
//!
//! Simplified: a thread's cache and the central lists are one list; spans of small objects stay with their
//! class; nothing is returned to the system (`TCMALLOC_RELEASE_RATE` returns memory slowly).

use crate::layout::AddressSpace;
use ambulator_base::{VirtAddr, VmEvent};
use std::collections::{BTreeMap, BTreeSet};

const PAGE_SHIFT: u32 = 13;
const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
/// Largest size that has a class.
const MAX_SMALL: u64 = 256 << 10;
/// Least growth of the page heap.
const GROWTH: u64 = 1 << 20;
/// Descriptors of 48 bytes in a metadata mapping.
const METADATA_BYTES: u64 = 128 << 10;
const SPANS_A_MAPPING: u64 = METADATA_BYTES / 48;

/// One size class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    size: u64,
    /// 8 KiB pages of its spans.
    pages: u64,
}

fn alignment(size: u64) -> u64 {
    let align = match size {
        0..16 => 8,
        16..128 => 16,
        _ => (1 << size.ilog2()) / 8,
    };
    align.min(PAGE_BYTES)
}

/// Objects that move between caches at once.
fn batch(size: u64) -> u64 {
    ((64 << 10) / size).clamp(2, 32)
}

fn classes() -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    let mut size = 8;
    while size <= MAX_SMALL {
        let mut bytes = 0;
        loop {
            bytes += PAGE_BYTES;
            while bytes % size > bytes >> 3 {
                bytes += PAGE_BYTES;
            }
            if bytes / size >= batch(size) / 4 {
                break;
            }
        }
        let pages = bytes >> PAGE_SHIFT;
        match classes.last_mut() {
            Some(last) if last.pages == pages && bytes / size == (last.pages << PAGE_SHIFT) / last.size => {
                last.size = size
            }
            _ => classes.push(Class { size, pages }),
        }
        size += alignment(size);
    }
    classes
}

/// A heap; the events of its growth go to the address space as they happen.
pub struct Tcmalloc {
    classes: Vec<Class>,
    /// Class of each size, by the size in units of 8 bytes up to 1024 and of 128 above.
    index: Vec<u8>,
    /// Free objects of each class.
    free: Vec<Vec<u64>>,
    /// Free spans: first address to bytes, and the same by length.
    spans: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    /// Large blocks in use: first address to bytes.
    large: BTreeMap<u64, u64>,
    described: u64,
    grown: u64,
}

fn slot(size: u64) -> usize {
    (if size <= 1024 { size.div_ceil(8) } else { (size + 127 + (120 << 7)) >> 7 }) as usize
}

impl Tcmalloc {
    /// An empty heap.
    pub fn new(_space: &AddressSpace) -> Tcmalloc {
        let classes = classes();
        let mut index = vec![0; slot(MAX_SMALL) + 1];
        let mut next = 0;
        for (class, of) in classes.iter().enumerate() {
            while next <= of.size {
                index[slot(next)] = class as u8;
                next += 8;
            }
        }
        Tcmalloc {
            free: vec![Vec::new(); classes.len()],
            classes,
            index,
            spans: BTreeMap::new(),
            by_length: BTreeSet::new(),
            large: BTreeMap::new(),
            described: 0,
            grown: 0,
        }
    }

    /// Bytes that the page heap has taken.
    pub fn bytes(&self) -> u64 {
        self.grown
    }

    /// Whether the address is that of a block with its own span.
    pub fn is_large(&self, address: u64) -> bool {
        self.large.contains_key(&address)
    }

    /// The class of a size.
    fn class(&self, bytes: u64) -> usize {
        usize::from(self.index[slot(bytes.max(1))])
    }

    /// `malloc`.
    #[inline]
    pub fn allocate(&mut self, bytes: u64, space: &mut AddressSpace) -> u64 {
        if bytes > MAX_SMALL {
            let length = bytes.next_multiple_of(PAGE_BYTES);
            let at = self.span(length, space);
            self.large.insert(at, length);
            return at;
        }
        let class = self.class(bytes);
        if let Some(object) = self.free[class].pop() {
            return object;
        }
        let Class { size, pages } = self.classes[class].clone();
        let length = pages << PAGE_SHIFT;
        let at = self.span(length, space);
        // The list is threaded through the objects: all of them are written.
        space.push(VmEvent::Touch { start: VirtAddr(at), len: length, write: true });
        self.free[class].extend((1..length / size).rev().map(|i| at + i * size));
        at
    }

    /// `free` of a block of `bytes` bytes.
    #[inline]
    pub fn free(&mut self, address: u64, bytes: u64, _space: &mut AddressSpace) {
        match self.large.remove(&address) {
            Some(length) => self.free_span(address, length),
            None => {
                let class = self.class(bytes);
                self.free[class].push(address);
            }
        }
    }

    /// Takes a span of that length: the shortest that fits, the lowest of equals.
    fn span(&mut self, length: u64, space: &mut AddressSpace) -> u64 {
        if self.described.is_multiple_of(SPANS_A_MAPPING) {
            let metadata = space.map(METADATA_BYTES);
            space.push(VmEvent::Touch { start: metadata, len: METADATA_BYTES, write: true });
        }
        self.described += 1;
        loop {
            if let Some(&(found, at)) = self.by_length.range((length, 0)..).next() {
                self.by_length.remove(&(found, at));
                self.spans.remove(&at);
                if found > length {
                    self.spans.insert(at + length, found - length);
                    self.by_length.insert((found - length, at + length));
                }
                return at;
            }
            let growth = length.max(GROWTH).next_multiple_of(PAGE_BYTES);
            // The break may not be at a page of 8 KiB: the first growth aligns it.
            let end = space.heap_end().0;
            let align = end.next_multiple_of(PAGE_BYTES) - end;
            let at = space.grow_heap(growth + align).0 + align;
            self.grown += growth + align;
            self.free_span(at, growth);
        }
    }

    /// Returns a span and merges it with adjacent free ones.
    fn free_span(&mut self, mut at: u64, mut length: u64) {
        if let Some((&before, &bytes)) = self.spans.range(..at).next_back()
            && before + bytes == at
        {
            self.spans.remove(&before);
            self.by_length.remove(&(bytes, before));
            (at, length) = (before, length + bytes);
        }
        if let Some(bytes) = self.spans.remove(&(at + length)) {
            self.by_length.remove(&(bytes, at + length));
            length += bytes;
        }
        self.spans.insert(at, length);
        self.by_length.insert((length, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_the_rule() {
        let classes = classes();
        let sizes: Vec<u64> = classes.iter().map(|class| class.size).collect();
        assert_eq!(sizes[..10], [8, 16, 32, 48, 64, 80, 96, 112, 128, 144]);
        assert_eq!(*sizes.last().unwrap(), MAX_SMALL);
        assert!(classes.len() < 128, "kClassSizesMax");
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= pair[1] / 4 + 16));
        for class in &classes {
            let bytes = class.pages << PAGE_SHIFT;
            assert!(bytes % class.size <= bytes / 8, "{class:?} wastes more than an eighth");
        }
        let heap = Tcmalloc::new(&AddressSpace::new());
        for bytes in 1..=MAX_SMALL {
            let class = heap.class(bytes);
            assert!(sizes[class] >= bytes && (class == 0 || sizes[class - 1] < bytes), "{bytes}: {}", sizes[class]);
        }
    }

    #[test]
    fn objects_of_a_class_lie_together_and_large_blocks_merge_again() {
        let mut space = AddressSpace::new();
        let mut heap = Tcmalloc::new(&space);
        let a: Vec<u64> = (0..10).map(|_| heap.allocate(40, &mut space)).collect();
        assert!(a.windows(2).all(|pair| pair[1] == pair[0] + 48));
        let other = heap.allocate(1000, &mut space);
        assert!(other.abs_diff(a[0]) >= PAGE_BYTES, "another class has its own span");
        heap.free(a[3], 40, &mut space);
        assert_eq!(heap.allocate(33, &mut space), a[3]);
        let (x, y) = (heap.allocate(300 << 10, &mut space), heap.allocate(300 << 10, &mut space));
        let grown = heap.bytes();
        heap.free(x, 300 << 10, &mut space);
        heap.free(y, 300 << 10, &mut space);
        let both = heap.allocate(600 << 10, &mut space);
        assert_eq!((both, heap.bytes()), (x.min(y), grown), "two adjacent freed spans satisfy a larger request");
    }
}
