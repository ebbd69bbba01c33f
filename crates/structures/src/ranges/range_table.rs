//! The range table: a B-tree of range translations in simulated memory (RMM Sec. 4.2).
//!
//! Ranges never overlap, so a page is in at most one. Nodes come from frames of the table, 32 to a frame; the
//! frames are freed when the table is destroyed. Every node but the root has at least two ranges.

use super::node::{NODE_BYTES, Node, RANGES, Range};
use crate::frames;
use ambulator_base::{FRAME_BYTES, Pfn, PhysAddr, State, Vpn};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, LedgerCause, TableContext};

/// Fewest ranges of a node that is not the root.
const FEWEST: usize = RANGES / 2;

/// A B-tree of ranges.
#[derive(Debug, State)]
pub struct RangeTable {
    root: PhysAddr,
    #[state(skip)]
    key_bits: u32,
    /// Free nodes.
    free: Vec<PhysAddr>,
    frames: Vec<Pfn>,
    /// Ranges in the tree.
    len: u64,
    /// Memory of the table; its entries are ranges.
    pub footprint: Footprint,
}

impl RangeTable {
    /// An empty table; page numbers have `key_bits` bits. `None` if there is no frame for its root.
    pub fn new(key_bits: u32, os: &mut TableContext<'_>) -> Option<RangeTable> {
        let mut table = RangeTable {
            root: PhysAddr(0),
            key_bits,
            free: Vec::new(),
            frames: Vec::new(),
            len: 0,
            footprint: Footprint::default(),
        };
        table.root = table.new_node(os)?;
        Node::default().write(table.root, key_bits, os.memory);
        Some(table)
    }

    /// Address of the root, which CR-RT holds.
    pub fn root(&self) -> PhysAddr {
        self.root
    }

    /// Ranges in the table.
    pub fn count(&self) -> u64 {
        self.len
    }

    /// Levels; one if the root is a leaf.
    pub fn levels(&self, memory: &PhysicalMemory) -> u32 {
        let (mut levels, mut node) = (1, self.read(self.root, memory));
        while let Some(&child) = node.children.first() {
            node = self.read(child, memory);
            levels += 1;
        }
        levels
    }

    fn read(&self, at: PhysAddr, memory: &PhysicalMemory) -> Node {
        Node::read(at, self.key_bits, memory)
    }

    fn write(&self, at: PhysAddr, node: &Node, os: &mut TableContext<'_>) {
        os.ledger.charge(LedgerCause::Table, os.costs.table_entry);
        node.write(at, self.key_bits, os.memory);
    }

    fn new_node(&mut self, os: &mut TableContext<'_>) -> Option<PhysAddr> {
        if self.free.is_empty() {
            let frame = frames::allocate(0, &mut self.footprint, os)?;
            self.frames.push(frame);
            self.free.extend((0..FRAME_BYTES / NODE_BYTES).rev().map(|i| frame.start().offset(i * NODE_BYTES)));
        }
        self.free.pop()
    }

    /// Makes sure that the next so many [`RangeTable::insert`] find the nodes that they may need: false when there is no frame.
    pub fn reserve(&mut self, insertions: usize, os: &mut TableContext<'_>) -> bool {
        // Each may add a level, whose nodes the next may have to split, too.
        let levels = self.levels(os.memory) as usize;
        let most = (1..=insertions).map(|number| levels + number).sum();
        while self.free.len() < most {
            let before = std::mem::take(&mut self.free);
            let node = self.new_node(os);
            self.free.extend(before);
            match node {
                Some(node) => self.free.push(node),
                None => return false,
            }
        }
        true
    }

    /// Frames that the nodes have.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Frees the frames behind the first `kept` ones, as far as no node of them is used: an insertion failed
    /// or was taken back.
    pub fn shrink(&mut self, kept: usize, os: &mut TableContext<'_>) {
        const NODES: usize = (FRAME_BYTES / NODE_BYTES) as usize;
        while self.frames.len() > kept
            && let Some(&frame) = self.frames.last()
            && self.free.iter().filter(|node| node.pfn() == frame).count() == NODES
        {
            self.free.retain(|node| node.pfn() != frame);
            self.frames.pop();
            frames::release(frame, 1, &mut self.footprint, os);
        }
    }

    /// The range that holds the page.
    pub fn find(&self, page: Vpn, memory: &PhysicalMemory) -> Option<Range> {
        let mut node = self.read(self.root, memory);
        loop {
            let place = node.place(page);
            if let Some(range) = node.ranges.get(place)
                && range.contains(page)
            {
                return Some(*range);
            }
            let child = *node.children.get(place)?;
            node = self.read(child, memory);
        }
    }

    /// Rewrites the range that holds `page`. The new range must not overlap others. False if no range holds
    /// the page.
    pub fn update(&mut self, page: Vpn, to: Range, os: &mut TableContext<'_>) -> bool {
        let mut at = self.root;
        loop {
            let mut node = self.read(at, os.memory);
            let place = node.place(page);
            if let Some(range) = node.ranges.get_mut(place)
                && range.contains(page)
            {
                *range = to;
                self.write(at, &node, os);
                return true;
            }
            match node.children.get(place) {
                Some(child) => at = *child,
                None => return false,
            }
        }
    }

    /// Adds a range that overlaps no other. [`RangeTable::reserve`] must have returned true.
    pub fn insert(&mut self, range: Range, os: &mut TableContext<'_>) {
        let mut path = Vec::new();
        let mut at = self.root;
        let mut node = self.read(at, os.memory);
        while !node.is_leaf() {
            let place = node.place(range.base);
            let child = node.children[place];
            path.push((at, node, place));
            at = child;
            node = self.read(at, os.memory);
        }
        node.ranges.insert(node.place(range.base), range);
        self.len += 1;
        self.footprint.entries = self.len;
        loop {
            if node.ranges.len() <= RANGES {
                self.write(at, &node, os);
                return;
            }
            // Two ranges stay, the middle one moves to the parent, two move to a new node.
            let Some(right_at) = self.new_node(os) else {
                unreachable!("the caller has reserved the nodes that an insertion needs");
            };
            let right_ranges = node.ranges.split_off(FEWEST + 1);
            let Some(middle) = node.ranges.pop() else { return };
            let right_children = if node.is_leaf() { Vec::new() } else { node.children.split_off(FEWEST + 1) };
            self.write(at, &node, os);
            self.write(right_at, &Node { ranges: right_ranges, children: right_children }, os);
            match path.pop() {
                Some((above, mut parent, place)) => {
                    parent.ranges.insert(place, middle);
                    parent.children.insert(place + 1, right_at);
                    at = above;
                    node = parent;
                }
                None => {
                    let Some(root) = self.new_node(os) else {
                        unreachable!("the caller has reserved the nodes that an insertion needs");
                    };
                    self.write(root, &Node { ranges: vec![middle], children: vec![at, right_at] }, os);
                    self.root = root;
                    return;
                }
            }
        }
    }

    /// Removes the range that holds `page`.
    pub fn remove(&mut self, page: Vpn, os: &mut TableContext<'_>) -> Option<Range> {
        let mut path: Vec<(PhysAddr, Node, usize)> = Vec::new();
        let mut at = self.root;
        let mut node = self.read(at, os.memory);
        let place = loop {
            let place = node.place(page);
            if node.ranges.get(place).is_some_and(|range| range.contains(page)) {
                break place;
            }
            let child = *node.children.get(place)?;
            path.push((at, node, place));
            at = child;
            node = self.read(at, os.memory);
        };
        let removed = node.ranges[place];
        if node.is_leaf() {
            node.ranges.remove(place);
        } else {
            // Its predecessor, which is in a leaf, replaces it.
            let inner = path.len();
            let mut below = node.children[place];
            path.push((at, node, place));
            let mut leaf = self.read(below, os.memory);
            while let Some(&last) = leaf.children.last() {
                let place = leaf.children.len() - 1;
                path.push((below, leaf, place));
                below = last;
                leaf = self.read(below, os.memory);
            }
            let before = leaf.ranges.pop()?;
            let (inner_at, inner_node, inner_place) = &mut path[inner];
            inner_node.ranges[*inner_place] = before;
            let (inner_at, inner_node) = (*inner_at, inner_node.clone());
            self.write(inner_at, &inner_node, os);
            (at, node) = (below, leaf);
        }
        self.len -= 1;
        self.footprint.entries = self.len;
        self.rebalance(at, node, path, os);
        Some(removed)
    }

    /// Writes a node that has lost a range. If it has too few, it borrows one from a sibling, or the two are
    /// merged.
    fn rebalance(
        &mut self,
        mut at: PhysAddr,
        mut node: Node,
        mut path: Vec<(PhysAddr, Node, usize)>,
        os: &mut TableContext<'_>,
    ) {
        while node.ranges.len() < FEWEST
            && let Some((above, mut parent, place)) = path.pop()
        {
            let from_left = place > 0;
            let neighbour = if from_left { place - 1 } else { place + 1 };
            let between = if from_left { place - 1 } else { place };
            let sibling_at = parent.children[neighbour];
            let mut sibling = self.read(sibling_at, os.memory);
            if sibling.ranges.len() > FEWEST {
                if from_left {
                    if let Some(last) = sibling.ranges.pop() {
                        node.ranges.insert(0, std::mem::replace(&mut parent.ranges[between], last));
                    }
                    if let Some(child) = sibling.children.pop() {
                        node.children.insert(0, child);
                    }
                } else {
                    let first = sibling.ranges.remove(0);
                    node.ranges.push(std::mem::replace(&mut parent.ranges[between], first));
                    if !sibling.is_leaf() {
                        node.children.push(sibling.children.remove(0));
                    }
                }
                self.write(sibling_at, &sibling, os);
                self.write(at, &node, os);
                self.write(above, &parent, os);
                return;
            }
            let (left_at, mut left, right_at, right) =
                if from_left { (sibling_at, sibling, at, node) } else { (at, node, sibling_at, sibling) };
            left.ranges.push(parent.ranges.remove(between));
            left.ranges.extend(right.ranges);
            left.children.extend(right.children);
            parent.children.remove(between + 1);
            self.free.push(right_at);
            if parent.ranges.is_empty() && path.is_empty() {
                self.free.push(above);
                self.root = left_at;
                self.write(left_at, &left, os);
                return;
            }
            self.write(left_at, &left, os);
            (at, node) = (above, parent);
        }
        self.write(at, &node, os);
    }

    /// All ranges, ascending.
    pub fn all(&self, memory: &PhysicalMemory) -> Vec<Range> {
        let mut all = Vec::new();
        self.gather(self.root, memory, &mut all);
        all
    }

    fn gather(&self, at: PhysAddr, memory: &PhysicalMemory, all: &mut Vec<Range>) {
        let node = self.read(at, memory);
        for (i, range) in node.ranges.iter().enumerate() {
            if let Some(child) = node.children.get(i) {
                self.gather(*child, memory, all);
            }
            all.push(*range);
        }
        if let Some(last) = node.children.get(node.ranges.len()) {
            self.gather(*last, memory, all);
        }
    }

    /// Frees all frames.
    pub fn destroy(&mut self, os: &mut TableContext<'_>) {
        for frame in std::mem::take(&mut self.frames) {
            frames::release(frame, 1, &mut self.footprint, os);
        }
        self.free.clear();
        self.root = PhysAddr(0);
        self.len = 0;
        self.footprint.entries = 0;
    }

    /// Checks the order, fill and depth of the tree.
    #[cfg(test)]
    pub fn check(&self, memory: &PhysicalMemory) -> Result<(), String> {
        let all = self.all(memory);
        if all.len() as u64 != self.len {
            return Err(format!("{} ranges of {}", all.len(), self.len));
        }
        for pair in all.windows(2) {
            if pair[0].limit > pair[1].base {
                return Err(format!("{:?} and {:?} overlap or are out of order", pair[0], pair[1]));
            }
        }
        let depth = self.levels(memory);
        self.check_node(self.root, 1, depth, memory)
    }

    #[cfg(test)]
    fn check_node(&self, at: PhysAddr, level: u32, depth: u32, memory: &PhysicalMemory) -> Result<(), String> {
        let node = self.read(at, memory);
        if at != self.root && node.ranges.len() < FEWEST {
            return Err(format!("a node has {} ranges", node.ranges.len()));
        }
        if node.is_leaf() != (level == depth) {
            return Err(format!("a leaf at level {level} of {depth}"));
        }
        if !node.is_leaf() && node.children.len() != node.ranges.len() + 1 {
            return Err(format!("{} children for {} ranges", node.children.len(), node.ranges.len()));
        }
        node.children.iter().try_for_each(|child| self.check_node(*child, level + 1, depth, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_conformance::TestBed;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn range(base: u64, pages: u64) -> Range {
        Range {
            base: Vpn(base),
            limit: Vpn(base + pages),
            frame: Pfn(base * 7 + 1),
            writable: base.is_multiple_of(2),
            executable: false,
        }
    }

    #[test]
    fn three_levels_hold_124_ranges_and_a_frame_128_of_them() {
        let mut bed = TestBed::new(64 << 20).unwrap();
        let mut table = RangeTable::new(36, &mut bed.os()).unwrap();
        for i in 0..1000 {
            assert!(table.reserve(1, &mut bed.os()));
            table.insert(range(i * 100, 10), &mut bed.os());
            let levels = table.levels(&bed.memory);
            // A full tree of n levels has 5^n - 1 ranges; one of nodes half full 2 * 3^(n - 1) - 1.
            assert!(table.count() < 5u64.pow(levels) && table.count() + 1 >= 2 * 3u64.pow(levels - 1), "{i}: {levels}");
        }
        table.destroy(&mut bed.os());
        assert_eq!(table.footprint.bytes, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn it_behaves_as_an_interval_map(steps in prop::collection::vec((0u64..400, 0u8..4), 1..600)) {
            let mut bed = TestBed::new(64 << 20).unwrap();
            let free = bed.frames.free_frames();
            let mut table = RangeTable::new(36, &mut bed.os()).unwrap();
            let mut plain: BTreeMap<u64, Range> = BTreeMap::new();
            for (slot, what) in steps {
                let (base, page) = (slot * 16, Vpn(slot * 16 + 5));
                match what {
                    0 | 1 => {
                        if let std::collections::btree_map::Entry::Vacant(free) = plain.entry(base) {
                            prop_assert!(table.reserve(1, &mut bed.os()));
                            table.insert(range(base, 12), &mut bed.os());
                            free.insert(range(base, 12));
                        }
                    }
                    2 => prop_assert_eq!(table.remove(page, &mut bed.os()), plain.remove(&base)),
                    _ => {
                        let to = range(base, 14);
                        prop_assert_eq!(table.update(page, to, &mut bed.os()), plain.contains_key(&base));
                        plain.entry(base).and_modify(|range| *range = to);
                    }
                }
                prop_assert_eq!(table.check(&bed.memory), Ok(()));
                let holder = plain.get(&base).copied();
                prop_assert_eq!(table.find(page, &bed.memory), holder);
                prop_assert_eq!(table.find(Vpn(base + 15), &bed.memory), None);
            }
            prop_assert_eq!(table.all(&bed.memory), plain.values().copied().collect::<Vec<_>>());
            table.destroy(&mut bed.os());
            prop_assert_eq!(bed.frames.free_frames(), free);
        }
    }
}
