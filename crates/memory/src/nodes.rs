//! Memory nodes: contiguous parts of the frames, each with free lists of its own, and the order in which
//! allocations try them (Linux's zonelists).

use crate::{BuddyAllocator, BuddySpec};
use ambulator_base::{Pfn, State};

/// Most nodes of a machine.
pub const MAX_NODES: usize = 4;

/// The nodes that an allocation may use, in the order in which it tries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, State)]
pub struct Zonelist {
    nodes: [u8; MAX_NODES],
    len: u8,
    /// Each allocation begins with the node after that of the one before.
    in_turn: bool,
}

impl Zonelist {
    /// These nodes, the first ones first. Nodes after the first [`MAX_NODES`] are left out.
    pub fn new(nodes: impl IntoIterator<Item = usize>) -> Zonelist {
        let mut list = Zonelist { nodes: [0; MAX_NODES], len: 0, in_turn: false };
        for (place, node) in list.nodes.iter_mut().zip(nodes) {
            *place = node as u8;
            list.len += 1;
        }
        list
    }

    /// The same nodes, each allocation beginning with the next one.
    #[must_use]
    pub fn in_turn(self) -> Zonelist {
        Zonelist { in_turn: true, ..self }
    }

    /// The nodes in order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.nodes[..usize::from(self.len)].iter().map(|node| usize::from(*node))
    }

    /// Whether an allocation may use the node.
    pub fn allows(&self, node: usize) -> bool {
        self.nodes().any(|other| other == node)
    }
}

/// Allocations of a node since the last reset, in blocks of whatever size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct NodeAllocations {
    /// Blocks that the node gave.
    pub given: u64,
    /// Of these, blocks for which another node came first in the zonelist, but had none.
    pub fallbacks: u64,
}

/// The nodes of a [`BuddyAllocator`] that has several.
#[derive(Clone, Debug, State)]
pub(crate) struct Nodes {
    /// Each allocates the frames of its node, by their numbers on the machine.
    #[state(each)]
    pub zones: Vec<BuddyAllocator>,
    /// The first frame after each node.
    #[state(skip)]
    ends: Vec<u64>,
    zonelist: Zonelist,
    /// By node: free frames that an allocation leaves if a later node of the list has more.
    floors: [u64; MAX_NODES],
    allocations: [NodeAllocations; MAX_NODES],
    /// Allocations so far by lists whose nodes take turns.
    turn: usize,
}

impl Nodes {
    fn new(spec: &BuddySpec, frames: &[u64]) -> Nodes {
        let ends: Vec<u64> = frames
            .iter()
            .scan(0, |end, frames| {
                *end += frames;
                Some(*end)
            })
            .collect();
        let zone = |(node, end): (usize, &u64)| {
            let first = if node == 0 { spec.reserve_low } else { ends[node - 1] };
            let mut zone = BuddyAllocator::new(&BuddySpec { reserve_low: first, ..spec.clone() }, *end);
            zone.first = if node == 0 { 0 } else { first };
            zone
        };
        Nodes {
            zones: ends.iter().enumerate().map(zone).collect(),
            zonelist: Zonelist::new(0..ends.len()),
            floors: [0; MAX_NODES],
            allocations: [NodeAllocations::default(); MAX_NODES],
            turn: 0,
            ends,
        }
    }

    /// The node of a frame; the last one for frames past the end.
    pub fn node_of(&self, frame: Pfn) -> usize {
        self.ends.iter().position(|end| frame.0 < *end).unwrap_or(self.ends.len() - 1)
    }

    /// The allocator of a frame's node.
    pub fn zone_of(&self, frame: Pfn) -> &BuddyAllocator {
        &self.zones[self.node_of(frame)]
    }

    pub fn zone_of_mut(&mut self, frame: Pfn) -> &mut BuddyAllocator {
        let node = self.node_of(frame);
        &mut self.zones[node]
    }

    fn record(&mut self, node: usize) {
        let count = &mut self.allocations[node];
        count.given += 1;
        count.fallbacks += u64::from(self.zonelist.nodes().next() != Some(node));
    }

    /// The zonelist for an allocation now.
    fn next_zonelist(&mut self) -> Zonelist {
        let list = &mut self.zonelist;
        if list.in_turn && list.len > 0 {
            let len = usize::from(list.len);
            list.nodes[..len].sort_unstable();
            list.nodes[..len].rotate_left(self.turn % len);
            self.turn += 1;
        }
        self.zonelist
    }

    /// Tries the nodes of the zonelist in order: first those that stay above their floors, then all.
    pub fn allocate(&mut self, order: u32) -> Option<Pfn> {
        let frames = 1u64.checked_shl(order)?;
        let zonelist = self.next_zonelist();
        for keeps_floor in [true, false] {
            for node in zonelist.nodes() {
                let room = self.zones[node].free_frames() >= frames + self.floors[node];
                if room == keeps_floor
                    && let Some(at) = self.zones[node].allocate(order)
                {
                    self.record(node);
                    return Some(at);
                }
            }
        }
        None
    }

    pub fn allocate_run(&mut self, frames: u64, align_order: u32) -> Option<Pfn> {
        let zonelist = self.next_zonelist();
        for node in zonelist.nodes() {
            if let Some(at) = self.zones[node].allocate_run(frames, align_order) {
                self.record(node);
                return Some(at);
            }
        }
        None
    }

    /// Lets `take` allocate at a frame of a node that the zonelist has.
    pub fn take_at(&mut self, at: Pfn, take: impl FnOnce(&mut BuddyAllocator) -> bool) -> bool {
        let node = self.node_of(at);
        let taken = self.zonelist.allows(node) && take(&mut self.zones[node]);
        if taken {
            self.record(node);
        }
        taken
    }
}

impl BuddyAllocator {
    /// An allocator over nodes of so many frames each, node 0 from frame 0 on; at most [`MAX_NODES`]. Blocks
    /// never span nodes. Until [`BuddyAllocator::set_zonelist`], allocations try the nodes in their order.
    ///
    /// Each node should have a multiple of 64 frames.
    pub fn with_nodes(spec: &BuddySpec, frames: &[u64]) -> BuddyAllocator {
        let total = frames.iter().sum();
        if frames.len() < 2 {
            return BuddyAllocator::new(spec, total);
        }
        let mut all = BuddyAllocator::new(spec, 0);
        all.set_nodes(Nodes::new(spec, frames), total);
        all
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes().map_or(1, |nodes| nodes.zones.len())
    }

    /// The node of a frame; the last one for frames past the end.
    #[inline]
    pub fn node_of(&self, frame: Pfn) -> usize {
        self.nodes().map_or(0, |nodes| nodes.node_of(frame))
    }

    /// The first frame of a node, and its number of frames, including reserved ones.
    pub fn node_range(&self, node: usize) -> (Pfn, u64) {
        let Some(nodes) = self.nodes() else { return (Pfn(0), self.total_frames()) };
        let first = if node == 0 { 0 } else { nodes.ends[node - 1] };
        (Pfn(first), nodes.ends[node] - first)
    }

    /// Free frames of a node.
    pub fn node_free_frames(&self, node: usize) -> u64 {
        self.nodes().map_or_else(|| self.free_frames(), |nodes| nodes.zones[node].free_frames())
    }

    /// The nodes that allocations try from now on. Without several nodes it does nothing.
    #[inline]
    pub fn set_zonelist(&mut self, zonelist: Zonelist) {
        if let Some(nodes) = self.nodes_mut() {
            nodes.zonelist = zonelist;
        }
    }

    /// Free frames that allocations leave in a node while a later node of their zonelist has more.
    pub fn set_node_floor(&mut self, node: usize, frames: u64) {
        if let Some(nodes) = self.nodes_mut() {
            nodes.floors[node] = frames;
        }
    }

    /// Allocates a block of `order` of this node and no other.
    pub fn allocate_on(&mut self, node: usize, order: u32) -> Option<Pfn> {
        if self.refuses() {
            return None;
        }
        let Some(nodes) = self.nodes_mut() else { return self.allocate(order) };
        let at = nodes.zones[node].allocate(order)?;
        nodes.allocations[node].given += 1;
        Some(at)
    }

    /// The allocations of a node since the last reset; none are counted without several nodes.
    pub fn node_allocations(&self, node: usize) -> NodeAllocations {
        self.nodes().map_or_else(NodeAllocations::default, |nodes| nodes.allocations[node])
    }

    /// Sets the counts of all nodes' allocations to zero.
    pub fn reset_node_allocations(&mut self) {
        if let Some(nodes) = self.nodes_mut() {
            nodes.allocations = [NodeAllocations::default(); MAX_NODES];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FragmentSpec, PressureSpec, fragment, press};
    use ambulator_base::Random;
    use proptest::prelude::*;

    fn two() -> BuddyAllocator {
        BuddyAllocator::with_nodes(&BuddySpec::default(), &[2048, 1024])
    }

    #[test]
    fn one_node_is_the_plain_allocator() {
        let mut one = BuddyAllocator::with_nodes(&BuddySpec::default(), &[4096]);
        assert_eq!((one.node_count(), one.node_range(0), one.node_free_frames(0)), (1, (Pfn(0), 4096), 3840));
        assert_eq!(one.allocate_on(0, 0), Some(Pfn(256)));
        assert_eq!(one.node_allocations(0), NodeAllocations::default());
    }

    #[test]
    fn blocks_lie_in_one_node_and_their_frames_merge_only_within_it() {
        let mut frames = two();
        assert_eq!((frames.free_frames(), frames.total_frames(), frames.node_count()), (2816, 3072, 2));
        assert_eq!((frames.node_range(0), frames.node_range(1)), ((Pfn(0), 2048), (Pfn(2048), 1024)));
        assert_eq!((frames.node_of(Pfn(2047)), frames.node_of(Pfn(2048))), (0, 1));
        assert!(frames.is_range_free(Pfn(1024), 1024) && !frames.is_range_free(Pfn(2000), 100), "across the boundary");
        assert_eq!(frames.allocate_run(2000, 0), None, "no node has so many adjacent frames");
        assert_eq!(frames.allocate_run(1500, 0), Some(Pfn(256)));
        frames.free_range(Pfn(256), 1500);
        assert_eq!((frames.largest_free_order(), frames.free_blocks(10)), (Some(10), 2));
    }

    #[test]
    fn nodes_need_not_be_multiples_of_the_largest_block() {
        let spec = BuddySpec { max_order: 20, ..BuddySpec::default() };
        let mut frames = BuddyAllocator::with_nodes(&spec, &[2560, 1536]);
        let mut blocks = Vec::new();
        for order in (0..12).rev() {
            while let Some(at) = frames.allocate(order) {
                assert_eq!(frames.node_of(at), frames.node_of(at.offset((1 << order) - 1)), "{at:?} of order {order}");
                blocks.push((at, order));
            }
        }
        assert_eq!(blocks.iter().map(|(_, order)| 1 << order).sum::<u64>(), 4096 - 256);
        blocks.into_iter().for_each(|(at, order)| frames.free(at, order));
        assert_eq!((frames.free_frames(), frames.free_blocks(10), frames.free_blocks(11)), (3840, 2, 0));
    }

    #[test]
    fn a_full_node_falls_back_in_the_order_of_the_zonelist() {
        let mut frames = two();
        frames.set_zonelist(Zonelist::new([1, 0]));
        let first: Vec<_> = (0..3).map(|_| frames.allocate(9).map(|at| frames.node_of(at))).collect();
        assert_eq!(first, [Some(1), Some(1), Some(0)]);
        assert_eq!(frames.node_allocations(1), NodeAllocations { given: 2, fallbacks: 0 });
        assert_eq!(frames.node_allocations(0), NodeAllocations { given: 1, fallbacks: 1 });
        frames.set_zonelist(Zonelist::new([1]));
        assert_eq!(frames.allocate(0), None, "bound to a full node");
        assert!(!frames.allocate_at(Pfn(300), 0), "bound to another node");
        frames.set_zonelist(Zonelist::new([0]));
        assert!(frames.allocate_at(Pfn(300), 0) && frames.allocate_on(1, 0).is_none());
    }

    #[test]
    fn floors_turn_allocations_to_the_next_node_until_all_are_low() {
        let mut frames = two();
        frames.set_node_floor(0, 1000);
        frames.set_node_floor(1, 500);
        let nodes: Vec<_> = (0..6).map(|_| frames.allocate(9).map(|at| frames.node_of(at))).collect();
        // 1792 free frames in node 0 and 1024 in node 1: one block, then one, then each to its end.
        assert_eq!(nodes, [Some(0), Some(1), Some(0), Some(0), Some(1), None]);
    }

    #[test]
    fn fragmentation_and_pressure_reach_every_node() {
        let mut frames = BuddyAllocator::with_nodes(&BuddySpec::default(), &[1 << 16, 1 << 15]);
        let spec = FragmentSpec { fmfi: 0.5, free_share: 0.5, ..FragmentSpec::default() };
        let report = fragment(&mut frames, &spec, &mut Random::new(1));
        let total = frames.total_frames() as f64;
        assert!((report.free_share - 0.5).abs() < 0.01 && (frames.fmfi(9) - 0.5).abs() < 0.02, "{report:?}");
        let share =
            |node, frames: &BuddyAllocator| frames.node_free_frames(node) as f64 / frames.node_range(node).1 as f64;
        assert!((0..2).all(|node| (share(node, &frames) - 0.5).abs() < 0.01));
        let report = press(&mut frames, &PressureSpec { pressure: 0.25 }, &mut Random::new(1));
        assert!((report.taken as f64 / total - 0.25).abs() < 0.01);
        assert!((0..2).all(|node| (share(node, &frames) - 0.25).abs() < 0.01));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Random allocations and frees, against a plain set of free frames.
        #[test]
        fn agrees_with_a_set_of_frames(ops in prop::collection::vec((0u8..5, 0u64..3072, 0u32..6), 1..200)) {
            let mut frames = two();
            let mut taken: Vec<(u64, u32)> = Vec::new();
            for (what, at, order) in ops {
                let at = at >> order << order;
                match what {
                    0 => frames.set_zonelist(Zonelist::new([at as usize % 2, 1 - at as usize % 2])),
                    1 | 2 => {
                        if let Some(got) = frames.allocate(order) {
                            taken.push((got.0, order));
                        }
                    }
                    3 if frames.allocate_at(Pfn(at), order) => taken.push((at, order)),
                    3 => {}
                    _ if !taken.is_empty() => {
                        let (at, order) = taken.swap_remove(at as usize % taken.len());
                        frames.free(Pfn(at), order);
                    }
                    _ => {}
                }
                let mut model = vec![true; 3072];
                model[..256].fill(false);
                for (at, order) in &taken {
                    for frame in *at..at + (1 << order) {
                        prop_assert!(std::mem::take(&mut model[frame as usize]), "frame {frame} was given twice");
                    }
                }
                prop_assert!((0..3072).all(|frame| frames.is_free(Pfn(frame)) == model[frame as usize]));
                let free = model.iter().filter(|free| **free).count() as u64;
                prop_assert_eq!((frames.free_frames(), frames.contiguity().frames.iter().sum::<u64>()), (free, free));
            }
        }
    }
}
