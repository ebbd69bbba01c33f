//! Linked edge lists with a hash table for each vertex: GraphBIG's default storage of a graph.
//!
//! After `openG` of GraphBIG (Nai et al., SC 2015; undirected): a vertex keeps its edges in a doubly linked list,
//! and a `std::tr1::unordered_map` from an edge's number to its list node. Each edge appended to a vertex
//! allocates its list node and its node of the table, whose buckets grow; both ends of an edge share one property
//! with a reference count. Vertices are made when an edge first names them ([`super::vertex_table`]). All of them
//! lie mixed on the heap, in the order of the input. A traversal goes from node to node: each node has the pointer
//! to the next one, and the last that to the list's head in the vertex's object. The edges' tables serve look-ups
//! by number, which the algorithms do not do, so they only take memory.

use super::csr::Graph;
use super::kronecker::{GraphSpec, for_each_edge};
use super::property::Place;
use super::vertex_table::{Buckets, NODE, Naming, VertexTable};
use crate::heap::Heap;
use crate::layout::AddressSpace;
use ambulator_base::VirtAddr;

/// Bytes of a list node: two pointers, the edge's number and target, and the pointers to its property.
const LIST_NODE: u64 = 48;
/// Bytes of a list node that hold the pointer to the next one, the target, and the pointer to the property.
const NEXT: u64 = 0;
const TARGET: u64 = 24;
const PROPERTY: u64 = 32;
/// Bytes of an edge's property, and of its reference count.
const SHARED: [u64; 2] = [8, 32];
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
/// target in the graph before vertices are renumbered.
pub(super) const SIM_HOST_BYTES_PER_EDGE: u64 = 2 * 4 + 4;
/// The same for each vertex: its numbers, and what is known of it while the graph is built.
pub(super) const SIM_HOST_BYTES_PER_VERTEX: u64 =
    2 * 4 + 4 + 8 + size_of::<Place>() as u64 + size_of::<Growing>() as u64;

/// A vertex to which edges are appended.
struct Growing {
    edges: Buckets,
    degree: u32,
}

/// A graph in linked lists.
pub(super) struct LinkedGraph {
    /// The graph with its vertices numbered as edges name them; those without edges are left out.
    pub graph: Graph,
    pub places: Vec<Place>,
    pub table: VertexTable,
    pub lists: EdgeNodes,
}

/// The most vertices, with `edge_factor` edges each, whose lists and tables 32-bit units reach: with growth, a stored
/// edge takes at most 170 bytes, and a vertex at most 750 beside its object's `vertex_bytes`.
pub(super) fn most_vertices(edge_factor: u64, vertex_bytes: u64) -> u64 {
    (UNIT << 32) / (2 * edge_factor * 170 + 750 + vertex_bytes)
}

/// No number yet.
const NONE: u32 = u32::MAX;

/// Builds `graph` on `heap`, in the order of the input; vertex objects take `vertex_bytes` and their heads.
pub(super) fn build(
    graph_spec: &GraphSpec,
    graph: &Graph,
    (seed, vertex_bytes): (u64, u64),
    heap: &mut Heap,
    space: &mut AddressSpace,
) -> LinkedGraph {
    let base = space.heap_end().0 / UNIT * UNIT;
    let in_units = |address: u64| ((address - base) / UNIT) as u32;
    let mut lists = EdgeNodes {
        starts: Vec::new(),
        nodes: vec![0; graph.edges() as usize],
        properties: vec![0; graph.edges() as usize],
        base,
    };
    let mut naming = Naming::new(vertex_bytes, heap, space);
    let mut numbers = vec![NONE; graph.vertices() as usize];
    let mut named: Vec<u32> = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    let mut growing: Vec<Growing> = Vec::new();
    for_each_edge(graph_spec, graph.vertices(), seed, |u, v| {
        for end in [u, v] {
            if numbers[end as usize] == NONE {
                numbers[end as usize] = named.len() as u32;
                named.push(end);
                lists.starts.push(graph.offset(end) as u32);
                let (object, edges) = naming.add(heap, space);
                places.push(Place { object, edges: 0 });
                growing.push(Growing { edges, degree: 0 });
            }
        }
        let mut property = 0;
        for (second, end) in [u, v].into_iter().enumerate() {
            let number = numbers[end as usize] as usize;
            let Growing { edges, degree } = &mut growing[number];
            let node = heap.allocate(LIST_NODE, space);
            heap.allocate(NODE, space);
            edges.make_room(u64::from(*degree), heap, space);
            if second == 0 {
                let [first, _] = SHARED.map(|bytes| heap.allocate(bytes, space));
                property = in_units(first);
            }
            let stored = (lists.starts[number] + *degree) as usize;
            *degree += 1;
            lists.nodes[stored] = in_units(node);
            lists.properties[stored] = property;
        }
    });
    LinkedGraph { graph: graph.renumbered(&named, &numbers), places, table: naming.finish(), lists }
}

impl EdgeNodes {
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
}

#[cfg(test)]
mod tests {
    use super::super::{PropertyGraph, PropertySpec};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    fn build(is_linked: bool) -> (Arc<Graph>, PropertyGraph) {
        let graph_spec = GraphSpec::default();
        let graph = Arc::new(Graph::generate(&graph_spec, 1 << 10, 1));
        let mut space = AddressSpace::new();
        let spec = PropertySpec::default();
        if is_linked {
            return PropertyGraph::build_linked(&spec, &graph_spec, &graph, 1, &mut space);
        }
        let property = PropertyGraph::build(&spec, &graph_spec, &graph, 1, &mut space);
        (graph, property)
    }

    #[test]
    fn vertices_are_numbered_as_edges_name_them() {
        let graph_spec = GraphSpec::default();
        let (linked, property) = build(true);
        let mut numbers = BTreeMap::new();
        let mut neighbours = vec![Vec::new(); linked.vertices() as usize];
        for_each_edge(&graph_spec, 1 << 10, 1, |u, v| {
            let [u, v] = [u, v].map(|end| {
                let next = numbers.len() as u32;
                *numbers.entry(end).or_insert(next)
            });
            neighbours[u as usize].push(v);
            neighbours[v as usize].push(u);
        });
        assert!(numbers.len() < 1 << 10, "some have no edges");
        assert_eq!(linked.vertices(), numbers.len() as u64);
        for (u, neighbours) in neighbours.iter().enumerate() {
            assert_eq!(linked.neighbours_of(u as u32), neighbours);
        }
        assert_eq!(property.places.len(), numbers.len());
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
            assert!(taken.insert(linked.places[u as usize].object));
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
    fn as_many_vertices_as_are_allowed_fit_in_32_bit_units() {
        for (edge_factor, vertex_bytes, vertices) in
            [(1, 64, 1000), (4, 64, 1 << 13), (16, 64, 1000), (1, 4000, 3000), (1, 64, 1 << 13)]
        {
            let graph_spec = GraphSpec { edge_factor, ..GraphSpec::default() };
            let spec = PropertySpec { vertex_bytes, ..PropertySpec::default() };
            let graph = Graph::generate(&graph_spec, vertices, 1);
            let mut space = AddressSpace::new();
            let (_, linked) = PropertyGraph::build_linked(&spec, &graph_spec, &graph, 1, &mut space);
            let most = most_vertices(u64::from(edge_factor), vertex_bytes);
            let needed = linked.footprint as f64 / vertices as f64 * most as f64;
            assert!(needed < (UNIT << 32) as f64, "{edge_factor} {vertex_bytes} {vertices}: {needed:e}");
        }
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
