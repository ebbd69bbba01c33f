//! Linked edge lists with a hash table for each vertex: GraphBIG's default storage of a graph.
//!
//! After `openG` of GraphBIG (Nai et al., SC 2015; directed, as all of its programs are): the input lists the
//! vertices ([`super::vertex_table`]), then the edges, each undirected one in both directions. An edge is appended
//! to the list of those from its source and to the list of those to its target. Each list is doubly linked, and
//! has a `std::tr1::unordered_map` from an edge's number to its list node. So a line of the input allocates, for
//! each end, a list node and a node of the table, whose buckets grow; and one property with a reference count,
//! which both ends share. A traversal goes along the edges from a vertex: each node has the pointer to the next
//! one, and the last that to the list's head in the vertex's object. Edges to a vertex and the tables of edges only
//! take memory.
//!
//! GraphBIG's data sets (LDBC) list the edges of one vertex after another, in the order of the vertices: the nodes
//! of a list lie one behind the other. Edges in random order ([`EdgeOrder`]) scatter them.

use super::csr::Graph;
use super::kronecker::{GraphSpec, for_each_edge};
use super::property::{EdgeOrder, Place, PropertySpec};
use super::vertex_table::{Buckets, Loading, NODE, VertexTable};
use crate::heap::Heap;
use crate::layout::AddressSpace;
use ambulator_base::{VirtAddr, on_huge_pages};

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
    /// The list node of each stored edge.
    nodes: Addresses,
    /// The property of each.
    properties: Addresses,
    base: u64,
}

/// Addresses of each stored edge, in units of 16 bytes from a base.
#[derive(Debug)]
struct Addresses {
    low: Vec<u32>,
    /// The bits above `low`; nothing if all are 0, as in most graphs.
    high: Vec<u8>,
}

impl Addresses {
    /// As many as `edges`, `far` if some may be beyond 32-bit units.
    fn new(edges: usize, far: bool) -> Addresses {
        let high = if far { on_huge_pages(vec![0; edges]) } else { Vec::new() };
        Addresses { low: on_huge_pages(vec![0; edges]), high }
    }

    #[inline(always)]
    fn get(&self, at: usize) -> u64 {
        u64::from(self.high.get(at).copied().unwrap_or(0)) << 32 | u64::from(self.low[at])
    }

    fn set(&mut self, at: usize, units: u64) {
        self.low[at] = units as u32;
        if let Some(high) = self.high.get_mut(at) {
            *high = (units >> 32) as u8;
        }
    }
}

/// Bytes of the simulator's memory for the stored `edges` of a graph: the addresses of their nodes and properties, and
/// for its vertices: their places, and what is known of them while the graph is built.
pub(super) fn sim_host_bytes(vertices: u64, edges: u64, vertex_bytes: u64) -> u64 {
    let address = if is_far(vertices, edges, vertex_bytes) { 5 } else { 4 };
    edges * 2 * address + vertices * (4 + 8 + (size_of::<Place>() + size_of::<Growing>()) as u64)
}

/// A vertex to which edges are appended.
struct Growing {
    /// Of the edges to it, and of those from it.
    tables: [Buckets; 2],
    edges: [u32; 2],
}

const TO: usize = 0;
const FROM: usize = 1;

impl Growing {
    /// Appends an edge to one of its lists; returns the list's node.
    fn append(&mut self, list: usize, heap: &mut Heap, space: &mut AddressSpace) -> u64 {
        let node = heap.allocate(LIST_NODE, space);
        heap.allocate(NODE, space);
        self.tables[list].make_room(u64::from(self.edges[list]), heap, space);
        self.edges[list] += 1;
        node
    }
}

/// Bytes that the lists and tables of a graph take at most: with growth, 330 for each of the stored `edges`, and 750 for a vertex
/// beside its object's `vertex_bytes`.
fn most_bytes(vertices: u64, edges: u64, vertex_bytes: u64) -> u64 {
    edges * 330 + vertices * (750 + vertex_bytes)
}

/// The most vertices, with `edge_factor` edges each, whose lists and tables [`Addresses`] reach.
pub(super) fn most_vertices(edge_factor: u64, vertex_bytes: u64) -> u64 {
    (UNIT << (u32::BITS + u8::BITS)) / most_bytes(1, 2 * edge_factor, vertex_bytes)
}

/// Whether 32-bit units may not reach all of the lists.
fn is_far(vertices: u64, edges: u64, vertex_bytes: u64) -> bool {
    most_bytes(vertices, edges, vertex_bytes) > UNIT << 32
}

/// Builds `graph` on `heap`, in the order of the input: where the vertices are, their table, and the edges' lists.
pub(super) fn build(
    spec: &PropertySpec,
    graph_spec: &GraphSpec,
    (graph, seed): (&Graph, u64),
    heap: &mut Heap,
    space: &mut AddressSpace,
) -> (Vec<Place>, VertexTable, EdgeNodes) {
    let vertices = graph.vertices();
    let base = space.heap_end().0 / UNIT * UNIT;
    let in_units = |address: u64| (address - base) / UNIT;
    let edges = graph.edges() as usize;
    let far = is_far(vertices, graph.edges(), spec.vertex_bytes);
    let mut lists = EdgeNodes {
        starts: (0..vertices as u32).map(|u| graph.offset(u) as u32).collect(),
        nodes: Addresses::new(edges, far),
        properties: Addresses::new(edges, far),
        base,
    };
    let mut loading = Loading::new(spec.vertex_bytes, heap, space);
    let mut places = on_huge_pages(Vec::with_capacity(vertices as usize));
    let mut growing: Vec<Growing> = on_huge_pages(Vec::with_capacity(vertices as usize));
    for _ in 0..vertices {
        let (object, tables) = loading.add(heap, space);
        places.push(Place { object, edges: 0 });
        growing.push(Growing { tables, edges: [0; 2] });
    }
    let mut line = |from: u32, to: u32| {
        let source = &mut growing[from as usize];
        let stored = (lists.starts[from as usize] + source.edges[FROM]) as usize;
        lists.nodes.set(stored, in_units(source.append(FROM, heap, space)));
        let [property, _] = SHARED.map(|bytes| heap.allocate(bytes, space));
        lists.properties.set(stored, in_units(property));
        growing[to as usize].append(TO, heap, space);
    };
    match spec.edge_order {
        EdgeOrder::ByVertex => {
            for u in 0..vertices as u32 {
                graph.edges_of(u).for_each(|edge| line(u, edge.to));
            }
        }
        EdgeOrder::Random => for_each_edge(graph_spec, vertices, seed, |u, v| {
            line(u, v);
            line(v, u);
        }),
    }
    (places, loading.finish(), lists)
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
    fn place(&self, of: &Addresses, u: u32, k: u64, byte: u64) -> VirtAddr {
        let stored = u64::from(self.starts[u as usize]) + k;
        VirtAddr(self.base + of.get(stored as usize) * UNIT + byte)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PropertyGraph, PropertySpec};
    use super::*;
    use std::collections::BTreeSet;

    fn build(is_linked: bool, edge_order: EdgeOrder) -> (Graph, PropertyGraph) {
        let graph_spec = GraphSpec::default();
        let graph = Graph::generate(&graph_spec, 1 << 10, 1);
        let mut space = AddressSpace::new();
        let spec = PropertySpec { edge_order, ..PropertySpec::default() };
        let build = if is_linked { PropertyGraph::build_linked } else { PropertyGraph::build };
        let property = build(&spec, &graph_spec, &graph, 1, &mut space);
        (graph, property)
    }

    #[test]
    fn each_stored_edge_has_a_node_of_its_own() {
        check_nodes(EdgeOrder::ByVertex);
        check_nodes(EdgeOrder::Random);
    }

    fn check_nodes(edge_order: EdgeOrder) {
        let (graph, linked) = build(true, edge_order);
        let mut taken = BTreeSet::new();
        for u in 0..graph.vertices() as u32 {
            for k in 0..u64::from(graph.degree(u)) {
                let node = linked.edge(u, k).0 - TARGET;
                assert!(node.is_multiple_of(UNIT) && taken.insert(node), "{u} {k}: {node:#x}");
            }
            assert!(taken.insert(linked.places[u as usize].object));
        }
        // Each has a property of its own, too.
        let mut owned: BTreeSet<u64> = BTreeSet::new();
        let lists = linked.linked().unwrap();
        for u in 0..graph.vertices() as u32 {
            for k in 0..u64::from(graph.degree(u)) {
                assert!(owned.insert(lists.property(u, k).0));
                assert_eq!(lists.property_pointer(u, k).0 - lists.next(u, k).0, PROPERTY);
            }
        }
        assert!(owned.is_disjoint(&taken));
        let apart = taken.iter().zip(taken.iter().skip(1)).map(|(a, b)| b - a).min().unwrap();
        assert!(apart >= LIST_NODE, "nodes overlap: {apart}");
    }

    #[test]
    fn graphs_take_less_than_the_most() {
        for (edge_factor, vertex_bytes, vertices) in
            [(1, 64, 1000), (4, 64, 1 << 13), (16, 64, 1000), (1, 4000, 3000), (1, 64, 1 << 13)]
        {
            let graph_spec = GraphSpec { edge_factor, ..GraphSpec::default() };
            let spec = PropertySpec { vertex_bytes, ..PropertySpec::default() };
            let graph = Graph::generate(&graph_spec, vertices, 1);
            let mut space = AddressSpace::new();
            let linked = PropertyGraph::build_linked(&spec, &graph_spec, &graph, 1, &mut space);
            let most = most_bytes(vertices, graph.edges(), vertex_bytes);
            assert!(linked.footprint < most, "{edge_factor} {vertex_bytes} {vertices}: {}", linked.footprint);
        }
    }

    /// The objects come before the first edge: large ones, of 68 GiB, take the edges of a small graph beyond 32-bit units.
    #[test]
    fn edges_beyond_32_bit_units_have_nodes_of_their_own() {
        let graph_spec = GraphSpec { edge_factor: 1, ..GraphSpec::default() };
        let graph = Graph::generate(&graph_spec, 1_115_000, 1);
        let mut space = AddressSpace::new();
        let spec = PropertySpec { vertex_bytes: 1 << 16, ..PropertySpec::default() };
        let linked = PropertyGraph::build_linked(&spec, &graph_spec, &graph, 1, &mut space);
        let lists = linked.linked().unwrap();
        let mut nodes: Vec<u64> = Vec::with_capacity(2 * graph.edges() as usize);
        for u in 0..graph.vertices() as u32 {
            for k in 0..u64::from(graph.degree(u)) {
                nodes.extend([lists.next(u, k).0, lists.property(u, k).0]);
            }
        }
        nodes.sort_unstable();
        let last_object = linked.places.iter().map(|place| place.object).max().unwrap();
        assert!(nodes[0] > last_object && nodes[0] - lists.base > UNIT << 32, "{:#x}", nodes[0]);
        assert!(nodes.windows(2).all(|pair| pair[1] - pair[0] >= SHARED[0]), "nodes overlap");
    }

    #[test]
    fn lists_take_several_times_the_memory_of_vectors() {
        let (graph, linked) = build(true, EdgeOrder::ByVertex);
        let (_, vectors) = build(false, EdgeOrder::ByVertex);
        // Each end has 64 bytes of list node and 32 of the table's, and both share 80: 272, and the buckets.
        let vertices = graph.vertices() as f64 * 700.0;
        let each = (linked.footprint as f64 - vertices) / graph.edges() as f64;
        assert!((272.0..330.0).contains(&each), "{each:.0} bytes an edge");
        assert!(linked.footprint > 4 * vectors.footprint);
        // Neighbours in a vector are next to each other. In a list the other end of each edge, its property, and now and
        // then buckets lie between them, and other vertices' edges if they are in random order.
        let u = (0..graph.vertices() as u32).max_by_key(|u| graph.degree(*u)).unwrap();
        let steps = |graph: &PropertyGraph| {
            let mut steps: Vec<u64> = (1..20).map(|k| graph.edge(u, k).0.abs_diff(graph.edge(u, k - 1).0)).collect();
            steps.sort_unstable();
            steps[steps.len() / 2]
        };
        let (_, random) = build(true, EdgeOrder::Random);
        assert_eq!((steps(&vectors), steps(&linked)), (24, 272));
        assert!(steps(&random) > 4096, "{}", steps(&random));
    }
}
