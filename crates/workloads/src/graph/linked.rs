//! Linked edge lists with a hash map for each vertex: GraphBIG's default storage of edges.
//!
//! After `openG` of GraphBIG (Nai et al., SC 2015): a vertex keeps its edges in a doubly linked list, and a
//! hash map from an edge's number to its list node. Each edge appended to a vertex allocates its list node
//! and its node of the map, whose bucket array grows as the GNU library's does; both ends of an edge share
//! one property with a reference count. All of them lie mixed on the heap, in the order of the input. A
//! traversal goes from node to node: each node has the pointer to the next one, and the last that to the list's
//! head in the vertex's object. The map serves look-ups by number, which the algorithms do not do, so it only
//! takes memory.

use super::csr::Graph;
use super::kronecker::GraphSpec;
use crate::heap::Heap;
use crate::layout::AddressSpace;
use ambulator_base::{VirtAddr, VmEvent};

/// Bytes of a list node: two pointers, the edge's number and target, and the pointers to its property.
const LIST_NODE: u64 = 48;
/// Bytes of a list node that hold the pointer to the next one, the target, and the pointer to the property.
const NEXT: u64 = 0;
const TARGET: u64 = 24;
const PROPERTY: u64 = 32;
/// Bytes of a map's node: the next one, the edge's number, the list node.
const MAP_NODE: u64 = 24;
/// Bytes of an edge's property, and of its reference count.
const SHARED: [u64; 2] = [8, 24];
/// Bytes that the heads of a vertex's lists and maps add to its object: two lists and two maps.
pub(super) const HEADS: u64 = 2 * 24 + 2 * 56;
/// Sizes of a map's bucket array: it grows to the next one when a vertex has as many edges.
const BUCKETS: [u64; 24] = [
    1,
    13,
    29,
    59,
    127,
    257,
    541,
    1109,
    2357,
    5087,
    10_273,
    20_753,
    42_043,
    85_229,
    172_933,
    351_061,
    712_697,
    1_447_153,
    2_938_679,
    5_967_347,
    12_117_689,
    24_607_243,
    49_969_847,
    101_473_717,
];
/// Addresses are multiples of this.
const UNIT: u64 = 16;

/// The edges' list nodes.
#[derive(Debug)]
pub(crate) struct EdgeNodes {
    /// First edge of each vertex in `nodes`.
    starts: Vec<u32>,
    /// The list node of each stored edge, in units of 16 bytes from `base`.
    nodes: Vec<u32>,
    /// The property of each, in the same units.
    properties: Vec<u32>,
    base: u64,
}

/// Bytes of the simulator's memory for each stored edge: the addresses of its node and its property, and its
/// place in the input while the graph is built.
pub(super) const SIM_HOST_BYTES_PER_EDGE: u64 = 2 * 4 + 12;

impl EdgeNodes {
    /// Builds the lists on `heap`, in the order of the input; `object` makes the vertex objects as edges
    /// first name them.
    pub fn build(
        graph_spec: &GraphSpec,
        graph: &Graph,
        seed: u64,
        heap: &mut Heap,
        space: &mut AddressSpace,
        mut object: impl FnMut(u32, &mut Heap, &mut AddressSpace),
    ) -> EdgeNodes {
        let base = space.heap_end().0 / UNIT * UNIT;
        let mut lists = EdgeNodes {
            starts: (0..graph.vertices() as u32).map(|u| graph.offset(u) as u32).collect(),
            nodes: vec![0; graph.edges() as usize],
            properties: vec![0; graph.edges() as usize],
            base,
        };
        let in_units = |address: u64| ((address - base) / UNIT) as u32;
        let mut property = 0;
        let mut buckets = vec![(0u64, 0u8); graph.vertices() as usize];
        for (sequence, vertex, degree) in Graph::placed_when(graph_spec, graph.vertices(), seed, |_| true) {
            if degree == 0 {
                object(vertex, heap, space);
            }
            if sequence % 2 == 0 {
                let [first, _] = SHARED.map(|bytes| heap.allocate(bytes, space));
                property = in_units(first);
            }
            let node = heap.allocate(LIST_NODE, space);
            heap.allocate(MAP_NODE, space);
            let (array, size) = &mut buckets[vertex as usize];
            let full = BUCKETS[usize::from(*size)];
            if u64::from(degree) + 1 > full && usize::from(*size) + 1 < BUCKETS.len() {
                *size += 1;
                let bytes = 8 * BUCKETS[usize::from(*size)];
                let grown = heap.allocate(bytes, space);
                if heap.is_untouched(grown) {
                    space.push(VmEvent::Touch { start: VirtAddr(grown), len: bytes, write: true });
                }
                if *array != 0 {
                    heap.free(*array, 8 * full, space);
                }
                *array = grown;
            }
            let stored = lists.starts[vertex as usize] + degree;
            lists.nodes[stored as usize] = in_units(node);
            lists.properties[stored as usize] = property;
        }
        lists
    }

    /// Where edge `k` of vertex `u` has its target, the pointer to the next edge, and that to its property.
    #[inline(always)]
    pub fn target(&self, u: u32, k: u64) -> VirtAddr {
        self.place(&self.nodes, u, k, TARGET)
    }

    #[inline(always)]
    pub fn next(&self, u: u32, k: u64) -> VirtAddr {
        self.place(&self.nodes, u, k, NEXT)
    }

    #[inline(always)]
    pub fn property_pointer(&self, u: u32, k: u64) -> VirtAddr {
        self.place(&self.nodes, u, k, PROPERTY)
    }

    /// Where the property of edge `k` of vertex `u` is.
    #[inline(always)]
    pub fn property(&self, u: u32, k: u64) -> VirtAddr {
        self.place(&self.properties, u, k, 0)
    }

    #[inline(always)]
    fn place(&self, of: &[u32], u: u32, k: u64, byte: u64) -> VirtAddr {
        let stored = u64::from(self.starts[u as usize]) + k;
        VirtAddr(self.base + u64::from(of[stored as usize]) * UNIT + byte)
    }

    /// Stored edges whose nodes 32-bit units reach, with what else is on the heap: at most 170 bytes each.
    pub fn most_edges() -> u64 {
        (UNIT << 32) / 170
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PropertyGraph, PropertySpec};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn build(is_linked: bool) -> (Graph, PropertyGraph) {
        let graph_spec = GraphSpec::default();
        let graph = Graph::generate(&graph_spec, 1 << 10, 1);
        let mut space = AddressSpace::new();
        let spec = PropertySpec::default();
        let build = if is_linked { PropertyGraph::build_linked } else { PropertyGraph::build };
        let property = build(&spec, &graph_spec, &graph, 1, &mut space);
        (graph, property)
    }

    #[test]
    fn each_stored_edge_has_a_node_of_its_own() {
        let (graph, linked) = build(true);
        let mut taken = BTreeSet::new();
        for u in 0..graph.vertices() as u32 {
            for k in 0..u64::from(graph.degree(u)) {
                let node = linked.edge(u, k).0 - TARGET;
                assert!(node.is_multiple_of(UNIT) && taken.insert(node), "{u} {k}: {node:#x}");
            }
            let object = linked.places[u as usize].object;
            assert!(object == 0 || taken.insert(object));
        }
        // Both ends of an edge have its property, and nobody else.
        let mut shared: BTreeMap<u64, u32> = BTreeMap::new();
        let lists = linked.linked().unwrap();
        for u in 0..graph.vertices() as u32 {
            for k in 0..u64::from(graph.degree(u)) {
                *shared.entry(lists.property(u, k).0).or_default() += 1;
                assert_eq!(lists.property_pointer(u, k).0 - lists.next(u, k).0, PROPERTY);
            }
        }
        assert!(shared.values().all(|ends| *ends == 2) && shared.keys().all(|place| !taken.contains(place)));
        let apart = taken.iter().zip(taken.iter().skip(1)).map(|(a, b)| b - a).min().unwrap();
        assert!(apart >= LIST_NODE, "nodes overlap: {apart}");
    }

    #[test]
    fn lists_take_several_times_the_memory_of_vectors() {
        let (graph, linked) = build(true);
        let (_, vectors) = build(false);
        // 64 bytes for the list node, 32 for the map's, 32 for half of the shared property, and the buckets.
        let each = linked.footprint as f64 / graph.edges() as f64;
        assert!((128.0..170.0).contains(&each), "{each:.0} bytes an edge");
        assert!(linked.footprint > 2 * vectors.footprint);
        // Neighbours in a vector are next to each other; in a list other edges were allocated between them.
        let u = (0..graph.vertices() as u32).max_by_key(|u| graph.degree(*u)).unwrap();
        let steps = |graph: &PropertyGraph| (1..20).map(|k| graph.edge(u, k).0.abs_diff(graph.edge(u, k - 1).0)).max();
        assert!(steps(&vectors) == Some(24) && steps(&linked) > Some(256), "{:?}", steps(&linked));
    }
}
