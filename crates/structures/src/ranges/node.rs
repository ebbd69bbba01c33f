//! A node of the range table in memory: two cache lines, four ranges, five children (RMM Sec. 4.2, Fig. 4).
//!
//! Words 0 to 3 are the ranges' offsets and rights. From word 4 on, the BASE and LIMIT of the ranges are
//! packed back to back: page numbers of 36 bits (45 with 57-bit virtual addresses). Words 10 to 14 are the
//! physical addresses of the children; word 15 is the number of ranges.
//!
//! The paper gives the sizes but not the order. In this order a single shift finds a key.

use ambulator_base::watch::{self, Meaning, Shape};
use ambulator_base::{LINE_BYTES, Pfn, PhysAddr, State, Vpn};
use ambulator_memory::PhysicalMemory;

/// Ranges of a node.
pub(super) const RANGES: usize = 4;
/// Children of a node.
const CHILDREN: usize = RANGES + 1;
/// Bytes of a node.
pub(super) const NODE_BYTES: u64 = 2 * LINE_BYTES;

const WORDS: usize = (NODE_BYTES / 8) as usize;
const KEYS_AT: usize = 4;
const CHILDREN_AT: usize = 10;
const COUNT_AT: usize = 15;

const WRITABLE: u64 = 1 << 63;
const EXECUTABLE: u64 = 1 << 62;
const OFFSET: u64 = (1 << 52) - 1;

/// A range translation: pages `[base, limit)` to contiguous frames, all with the same rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Range {
    /// First page.
    pub base: Vpn,
    /// The page after the last.
    pub limit: Vpn,
    /// Frame of the first page.
    pub frame: Pfn,
    /// Stores are allowed.
    pub writable: bool,
    /// Fetches are allowed.
    pub executable: bool,
}

impl Range {
    /// 4 KiB pages.
    pub fn pages(&self) -> u64 {
        self.limit.0 - self.base.0
    }

    /// Whether the page is in the range.
    #[inline(always)]
    pub fn contains(&self, page: Vpn) -> bool {
        self.base <= page && page < self.limit
    }

    /// The frame of a page of the range.
    #[inline(always)]
    pub fn frame_of(&self, page: Vpn) -> Pfn {
        Pfn(self.frame.0.wrapping_add(page.0.wrapping_sub(self.base.0)))
    }

    /// OFFSET, the frame minus BASE, and the rights: what the hardware adds and copies.
    fn packed(&self) -> u64 {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        self.frame.0.wrapping_sub(self.base.0) & OFFSET
            | bit(self.writable, WRITABLE)
            | bit(self.executable, EXECUTABLE)
    }

    /// The range of these pages with that packed word.
    fn unpack(base: Vpn, limit: Vpn, packed: u64) -> Range {
        Range {
            base,
            limit,
            frame: Pfn(base.0.wrapping_add(packed) & OFFSET),
            writable: packed & WRITABLE != 0,
            executable: packed & EXECUTABLE != 0,
        }
    }
}

/// The words of a node, as the hardware reads them.
pub struct NodeWords {
    words: [u64; WORDS],
    key_bits: u32,
}

impl NodeWords {
    /// A node from its two lines.
    #[inline]
    pub fn new(first: &[u64; 8], second: &[u64; 8], key_bits: u32) -> NodeWords {
        let mut words = [0; WORDS];
        words[..8].copy_from_slice(first);
        words[8..].copy_from_slice(second);
        NodeWords { words, key_bits }
    }

    fn count(&self) -> usize {
        (self.words[COUNT_AT] as usize).min(RANGES)
    }

    fn key(&self, at: usize) -> Vpn {
        let bit = at * self.key_bits as usize;
        let (word, shift) = (KEYS_AT + bit / 64, bit % 64);
        let wide = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << 64;
        Vpn((wide >> shift) as u64 & ((1 << self.key_bits) - 1))
    }

    /// The range at a position.
    #[inline]
    pub fn range(&self, at: usize) -> Option<Range> {
        (at < self.count()).then(|| Range::unpack(self.key(2 * at), self.key(2 * at + 1), self.words[at]))
    }

    /// The child before the range at a position, or after the last range. A leaf has none.
    #[inline]
    pub fn child(&self, at: usize) -> Option<PhysAddr> {
        let child = self.words[CHILDREN_AT + at.min(CHILDREN - 1)];
        (at <= self.count() && child != 0).then_some(PhysAddr(child))
    }

    /// Tells a watch what the two lines of the node at `at` are, which hardware has just loaded in search of
    /// a page. `of` names the node.
    #[inline(always)]
    pub fn tell(&self, of: &str, at: PhysAddr, page: Vpn) {
        if watch::watched() {
            self.tell_watch(of, at, page);
        }
    }

    #[cold]
    fn tell_watch(&self, of: &str, at: PhysAddr, page: Vpn) {
        const SOURCE: &str = "RMM Sec. 4.2, Fig. 4; the order of the fields is our choice";
        let place = self.place(page);
        let found = self.range(place).is_some_and(|range| range.contains(page));
        let shape = Shape::Ranges {
            ranges: (0..self.count()).filter_map(|at| self.range(at)).map(|own| [own.base.0, own.limit.0]).collect(),
            range: found.then_some(place as u64),
            child: (!found && self.child(place).is_some()).then_some(place as u64),
        };
        let second = shape.clone();
        watch::meaning(at, || {
            let mut meaning =
                Meaning::new(format!("{of}, first half: offsets and keys"), SOURCE).field("ranges", self.count());
            meaning = meaning.shape(shape).touches(found.then_some(place));
            for number in 0..self.count() {
                if let Some(range) = self.range(number) {
                    let frames = format!(
                        "pages {:#x} to {:#x}, frame minus page {:#x}",
                        range.base.0,
                        range.limit.0,
                        range.frame.0.wrapping_sub(range.base.0)
                    );
                    meaning = meaning.field(format!("range {number}"), frames);
                }
            }
            meaning
        });
        watch::meaning(at.offset(LINE_BYTES), || {
            let child = (!found && self.child(place).is_some()).then_some(CHILDREN_AT - WORDS / 2 + place);
            let meaning =
                Meaning::new(format!("{of}, second half: keys and children"), SOURCE).shape(second).touches(child);
            match self.child(place) {
                _ if found => meaning.field("comparators", format!("range {place} has the page")),
                Some(child) => meaning.field("comparators", format!("child {place}")).address("child", child.0),
                None => meaning.field("comparators", "no range has the page, and this is a leaf"),
            }
        });
    }

    /// The position of the first range whose LIMIT is above the page: the range that holds it, or the child
    /// to descend to.
    #[inline]
    pub fn place(&self, page: Vpn) -> usize {
        (0..self.count()).find(|at| page < self.key(2 * at + 1)).unwrap_or(self.count())
    }
}

/// A decoded node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its ranges, ascending. While a node is being split it has one more than fit.
    pub ranges: Vec<Range>,
    /// Its children: one more than ranges, or none for a leaf.
    pub children: Vec<PhysAddr>,
}

impl Node {
    /// Whether it has no children.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// The position of the first range whose LIMIT is above the page.
    #[inline]
    pub fn place(&self, page: Vpn) -> usize {
        self.ranges.iter().position(|range| page < range.limit).unwrap_or(self.ranges.len())
    }

    /// Decodes the two lines of a node. `key_bits` is the width of a page number.
    pub fn decode(words: &[u64; WORDS], key_bits: u32) -> Node {
        let read = NodeWords { words: *words, key_bits };
        Node {
            ranges: (0..RANGES).map_while(|i| read.range(i)).collect(),
            children: (0..CHILDREN).map_while(|i| read.child(i)).collect(),
        }
    }

    fn encode(&self, key_bits: u32) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (i, range) in self.ranges.iter().enumerate() {
            words[i] = range.packed();
            for (at, key) in [(2 * i, range.base.0), (2 * i + 1, range.limit.0)] {
                let bit = at * key_bits as usize;
                let (word, shift) = (KEYS_AT + bit / 64, bit % 64);
                let wide = u128::from(key) << shift;
                words[word] |= wide as u64;
                words[word + 1] |= (wide >> 64) as u64;
            }
        }
        for (word, child) in words[CHILDREN_AT..].iter_mut().zip(&self.children) {
            *word = child.0;
        }
        words[COUNT_AT] = self.ranges.len() as u64;
        words
    }

    /// The node at `at`.
    pub fn read(at: PhysAddr, key_bits: u32, memory: &PhysicalMemory) -> Node {
        let words = NodeWords::new(&memory.line(at), &memory.line(at.offset(LINE_BYTES)), key_bits);
        Node::decode(&words.words, key_bits)
    }

    /// Writes the node to `at`.
    pub fn write(&self, at: PhysAddr, key_bits: u32, memory: &mut PhysicalMemory) {
        debug_assert!(self.ranges.len() <= RANGES);
        for (i, word) in self.encode(key_bits).into_iter().enumerate() {
            memory.write(at.offset(8 * i as u64), word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_ends_before_its_limit() {
        let range = Range { base: Vpn(8), limit: Vpn(16), frame: Pfn(1), writable: true, executable: false };
        let inside: Vec<u64> = (0..32).filter(|page| range.contains(Vpn(*page))).collect();
        assert_eq!(inside, (8..16).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_node_round_trips_through_its_bytes(
            wide in any::<bool>(),
            keys in prop::collection::btree_set(0u64..1 << 36, 8),
            frames in prop::collection::vec(0u64..1 << 34, 4),
            count in 1usize..=4,
            leaf in any::<bool>(),
        ) {
            let (bits, high) = if wide { (45, 1 << 44) } else { (36, 0) };
            let keys: Vec<u64> = keys.into_iter().map(|key| key | high).collect();
            let ranges: Vec<Range> = (0..count)
                .map(|i| Range {
                    base: Vpn(keys[2 * i]),
                    limit: Vpn(keys[2 * i + 1]),
                    frame: Pfn(frames[i]),
                    writable: frames[i] % 2 == 0,
                    executable: frames[i] % 3 == 0,
                })
                .collect();
            let children = if leaf { vec![] } else { (0..=count as u64).map(|i| PhysAddr((i + 1) << 7)).collect() };
            let node = Node { ranges, children };
            prop_assert_eq!(Node::decode(&node.encode(bits), bits), node);
        }
    }
}
