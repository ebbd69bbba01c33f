//! A property graph: vertex objects on the heap, each with its properties inside and a growing vector of
//! edges.
//!
//! After GraphBIG (Nai et al., SC 2015): the graph is built by reading edges one at a time; a vertex object
//! is made when an edge first names it, and each edge is appended to the vectors of both of its ends, which
//! double when they are full. So objects of all vertices and all sizes of edge vectors lie mixed on the heap,
//! in the order of the input. An array of pointers finds a vertex by its number.

use super::csr::Graph;
use super::kronecker::GraphSpec;
use super::linked::{self, EdgeNodes};
use super::vertex_table::{LIST_POINTERS, VertexTable};
use crate::heap::{Heap, HeapModel};
use crate::layout::{AddressSpace, Array};
use ambulator_base::{Invalid, VirtAddr, VmEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Byte offsets within a vertex object (its number at 0).
pub mod vertex_field {
    /// BFS colour.
    pub const COLOUR: u64 = 8;
    /// BFS level.
    pub const LEVEL: u64 = 16;
    /// First edge.
    pub const EDGES_BEGIN: u64 = 24;
    /// End of the edges.
    pub const EDGES_END: u64 = 32;
    /// PageRank: the vertex's contribution to each neighbour.
    pub const CONTRIBUTION: u64 = 48;
    /// PageRank: the score.
    pub const SCORE: u64 = 56;
    /// Bytes of all of these.
    pub const BYTES: u64 = 64;
}

/// The order in which a file lists the edges of a graph, each in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeOrder {
    /// Those from one vertex after another.
    #[default]
    ByVertex,
    /// In the order in which the graph is generated, which is random for Kronecker graphs.
    Random,
}

/// Sizes of the objects, and their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PropertySpec {
    /// Bytes of a vertex object, 64 to 65536 and a multiple of 8: more hold properties that the program does
    /// not use.
    #[schemars(range(min = vertex_field::BYTES, max = 1 << 16), extend("x-unit" = "bytes", "x-source" = "GraphBIG, SC 2015"))]
    pub vertex_bytes: u64,
    /// Bytes of an edge in its vector, 8 to 4096 and a multiple of 8: the target first, then the edge's
    /// properties.
    #[schemars(range(min = 8, max = 4096), extend("x-unit" = "bytes", "x-source" = "GraphBIG, SC 2015"))]
    pub edge_bytes: u64,
    /// The order in which the input of layout `linked` lists the edges. (That of `property` is random.)
    #[schemars(extend("x-unit" = "choice", "x-source" = "GraphBIG's data sets (LDBC)"))]
    pub edge_order: EdgeOrder,
    /// The heap that allocates the objects.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice; RMM's programs use TCMalloc"))]
    pub heap: HeapModel,
}

impl Default for PropertySpec {
    fn default() -> Self {
        PropertySpec {
            vertex_bytes: vertex_field::BYTES,
            edge_bytes: 24,
            edge_order: EdgeOrder::default(),
            heap: HeapModel::Glibc,
        }
    }
}

impl PropertySpec {
    /// Validates the settings; each problem names its key under `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if !self.vertex_bytes.is_multiple_of(8) {
            problems.push(Invalid::new(
                format!("{at}.vertex_bytes"),
                format!("is {}; it must be a multiple of 8", self.vertex_bytes),
            ));
        }
        if !self.edge_bytes.is_multiple_of(8) {
            problems.push(Invalid::new(
                format!("{at}.edge_bytes"),
                format!("is {}; it must be a multiple of 8", self.edge_bytes),
            ));
        }
        problems
    }
}

/// The addresses of one vertex's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address of the vertex object; 0 while no edge has named it.
    pub object: u64,
    /// Address of its first edge; 0 while it has none.
    pub edges: u64,
}

/// How vertex objects and edges are found.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// Objects through an array of pointers, edges of `edge_bytes` each in the vectors of their vertices.
    Vectors { index: Array, edge_bytes: u64 },
    /// Objects in a hash table, each edge through the one before it.
    Lists { table: Arc<VertexTable>, edges: Arc<EdgeNodes> },
}

/// The property graph's layout in the address space. Edge `k` of vertex `u` is `graph.neighbours_of(u)[k]`.
#[derive(Clone, Debug)]
pub struct PropertyGraph {
    storage: Storage,
    /// The addresses of each vertex's parts.
    pub places: Arc<[Place]>,
    /// Bytes of index, heap and mapped edge vectors together.
    pub footprint: u64,
}

impl PropertyGraph {
    /// Builds the graph in `space`: the events of its growth and first touches go there in the order of the
    /// input.
    pub fn build(
        spec: &PropertySpec,
        graph_spec: &GraphSpec,
        graph: &Graph,
        seed: u64,
        space: &mut AddressSpace,
    ) -> PropertyGraph {
        let vertices = graph.vertices();
        let index = space.allocate_array(8, vertices);
        space.push(index.touch(true));
        let start = space.heap_end();
        let mut heap = Heap::new(spec.heap, space);
        let mut places = vec![Place::default(); vertices as usize];
        let mapped_from = (MMAP_THRESHOLD / spec.edge_bytes) as u32 / 2;
        let grows = |degree: u32| {
            degree == 0 || degree.is_power_of_two() || degree >= mapped_from && degree.is_multiple_of(TOUCH_EDGES)
        };
        for (_, vertex, degree) in Graph::placed_when(graph_spec, vertices, seed, grows) {
            append(&mut places[vertex as usize], degree, spec, &mut heap, space);
        }
        let mapped: u64 = places
            .iter()
            .enumerate()
            .filter(|(_, place)| heap.is_apart(place.edges))
            .map(|(u, _)| capacity(graph.degree(u as u32)) * spec.edge_bytes)
            .sum();
        let footprint = index.bytes() + heap.bytes(start) + mapped;
        let storage = Storage::Vectors { index, edge_bytes: spec.edge_bytes };
        PropertyGraph { storage, places: places.into(), footprint }
    }

    /// [`PropertyGraph::build`] with linked lists of edges for each vertex, and hash tables of vertices and edges.
    pub fn build_linked(
        spec: &PropertySpec,
        graph_spec: &GraphSpec,
        graph: &Graph,
        seed: u64,
        space: &mut AddressSpace,
    ) -> PropertyGraph {
        let start = space.heap_end();
        let mut heap = Heap::new(spec.heap, space);
        let (places, table, edges) = linked::build(spec, graph_spec, (graph, seed), &mut heap, space);
        let storage = Storage::Lists { table: Arc::new(table), edges: Arc::new(edges) };
        PropertyGraph { storage, places: places.into(), footprint: heap.bytes(start) }
    }

    /// Simulator memory for each vertex in bytes: its addresses, and the growth steps of its edges during the
    /// build.
    pub const SIM_HOST_BYTES_PER_VERTEX: u64 = size_of::<Place>() as u64 + 6 * 12;

    /// The linked lists, if an edge is found through the one before it.
    #[inline(always)]
    pub(crate) fn linked(&self) -> Option<&EdgeNodes> {
        match &self.storage {
            Storage::Vectors { .. } => None,
            Storage::Lists { edges, .. } => Some(edges),
        }
    }

    /// How vertices and edges are found.
    #[inline(always)]
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Where the list of vertices has the pointer to the object after that of vertex `u`.
    #[inline(always)]
    pub(crate) fn next_vertex(&self, u: u32) -> VirtAddr {
        VirtAddr(self.places[u as usize].object - LIST_POINTERS)
    }

    /// Address of edge `k` of vertex `u`: of its target.
    #[inline(always)]
    pub fn edge(&self, u: u32, k: u64) -> VirtAddr {
        match &self.storage {
            Storage::Vectors { edge_bytes, .. } => VirtAddr(self.places[u as usize].edges + k * edge_bytes),
            Storage::Lists { edges, .. } => edges.target(u, k),
        }
    }

    /// Address of a field of vertex `u`'s object.
    #[inline(always)]
    pub fn field(&self, u: u32, field: u64) -> VirtAddr {
        VirtAddr(self.places[u as usize].object + field)
    }
}

/// Edges that a vector which has grown to `degree` by doubling can hold.
fn capacity(degree: u32) -> u64 {
    u64::from(degree.next_power_of_two())
}

/// Initial size from which the heap maps blocks individually (glibc `DEFAULT_MMAP_THRESHOLD`): smaller
/// vectors are never touched edge by edge here.
const MMAP_THRESHOLD: u64 = 128 << 10;
/// Edges by which the first touches of a mapped vector advance.
const TOUCH_EDGES: u32 = 128;

/// `push_back` on a vertex's edge vector that has `degree` edges: what it does to the heap.
fn append(place: &mut Place, degree: u32, spec: &PropertySpec, heap: &mut Heap, space: &mut AddressSpace) {
    let used = u64::from(degree) * spec.edge_bytes;
    if degree == 0 {
        place.object = heap.allocate(spec.vertex_bytes, space);
        place.edges = heap.allocate(spec.edge_bytes, space);
    } else if degree.is_power_of_two() {
        let grown = heap.allocate(2 * used, space);
        heap.free(place.edges, used, space);
        place.edges = grown;
        if heap.is_untouched(grown) {
            // The copy of the old elements.
            space.push(VmEvent::Touch { start: VirtAddr(grown), len: used, write: true });
        }
    }
    if heap.is_untouched(place.edges) {
        // A vector with its own mapping is first touched as it fills.
        let len = u64::from(TOUCH_EDGES.min(degree.max(1))) * spec.edge_bytes;
        space.push(VmEvent::Touch { start: VirtAddr(place.edges + used), len, write: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_edge_vectors_do_not_overlap() {
        let (spec, graph_spec) = (PropertySpec::default(), GraphSpec::default());
        let vertices = 1 << 12;
        let graph = Graph::generate(&graph_spec, vertices, 1);
        let mut space = AddressSpace::new();
        let property = PropertyGraph::build(&spec, &graph_spec, &graph, 1, &mut space);
        let mut ranges = Vec::new();
        for u in 0..vertices as u32 {
            let place = property.places[u as usize];
            assert_eq!(place.object == 0, graph.degree(u) == 0);
            if place.object != 0 {
                ranges.push((place.object, spec.vertex_bytes));
                ranges.push((place.edges, capacity(graph.degree(u)) * spec.edge_bytes));
            }
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        let used: u64 = ranges.iter().map(|r| r.1).sum();
        assert!(property.footprint > used && property.footprint < used * 3 / 2, "{} for {used}", property.footprint);
    }
}
