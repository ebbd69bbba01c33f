//! A graph as its program reads it: compressed sparse rows in the simulator's memory (4 bytes a neighbour, 4 a
//! vertex), or rows that are computed.

use super::configuration::{AT_ONCE, ConfigurationGraph};
use super::kronecker::{GraphKind, GraphSpec, for_each_edge};
use crate::layout::{AddressSpace, Array, MMAP_HEADER};
use crate::permutation::Permutation;
use ambulator_base::{FRAME_BYTES, VirtAddr, VmEvent, on_huge_pages};
use std::sync::{Arc, Mutex, Weak};

/// A graph: vertex `u`'s neighbours are those of the stored edges from `offset(u)` to `offset(u + 1)`, in the
/// order in which the edges came.
#[derive(Debug, PartialEq)]
pub struct Graph {
    rows: Rows,
    first_touches: FirstTouches,
}

/// Where the rows are.
#[derive(Debug, PartialEq)]
enum Rows {
    Stored {
        /// First neighbour of each vertex, and the end of the last one's.
        offsets: Vec<u32>,
        /// Ends of the stored edges: each undirected edge is here twice.
        neighbours: Vec<u32>,
    },
    Computed(Box<ConfigurationGraph>),
}

/// Pages of a neighbour array of 4-byte ids that begins [`MMAP_HEADER`] bytes into a page, in the order in
/// which the counting sort first writes to them.
#[derive(Debug, PartialEq)]
enum FirstTouches {
    Listed(Vec<u32>),
    /// The random order that edges in random order give.
    Random(u64),
}

/// A stored edge of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its number among the vertex's edges.
    pub k: u64,
    /// The vertex to which it leads.
    pub to: u32,
    /// It is the vertex's last edge.
    pub last: bool,
    /// The vertex to which an edge some steps ahead leads, for hints to the sim host.
    pub soon: Option<u32>,
}

/// Stored edges of a vertex, in order.
pub struct EdgesOf<'g> {
    source: Source<'g>,
    first: u64,
    /// The first edge that the iterator visits.
    from: u64,
    next: u64,
    stop: u64,
    /// The number of the edge after the vertex's last one.
    end: u64,
}

enum Source<'g> {
    Stored(&'g [u32]),
    Computed(Ahead<'g>),
}

/// A ring of the next neighbours: they are computed some steps ahead, so that hints are early enough. Edges
/// are in groups of as many as are computed at once; the groups of the next edge and after it are in the ring.
struct Ahead<'g> {
    graph: &'g ConfigurationGraph,
    ring: [u32; 2 * AT_ONCE],
}

impl<'g> Ahead<'g> {
    /// The ring for the edges `from..stop`.
    fn new(graph: &'g ConfigurationGraph, from: u64, stop: u64) -> Ahead<'g> {
        let mut ahead = Ahead { graph, ring: [0; 2 * AT_ONCE] };
        let group = from / AT_ONCE as u64 * AT_ONCE as u64;
        ahead.compute(from, stop.min(group + AT_ONCE as u64));
        ahead.compute(group + AT_ONCE as u64, stop.min(group + 2 * AT_ONCE as u64));
        ahead
    }

    /// Computes the edges `from..to`, which are in one group.
    fn compute(&mut self, from: u64, to: u64) {
        if from < to {
            let place = from as usize % self.ring.len();
            self.graph.neighbours(from, &mut self.ring[place..place + (to - from) as usize]);
        }
    }

    /// The neighbour at edge `at`, and that at the edge [`Graph::EDGES_AHEAD`] later if that is before `stop`.
    #[inline(always)]
    fn next(&mut self, at: u64, from: u64, stop: u64) -> (u32, Option<u32>) {
        let later = at + AT_ONCE as u64;
        if later.is_multiple_of(AT_ONCE as u64) && at > from {
            self.compute(later, stop.min(later + AT_ONCE as u64));
        }
        let place = |edge: u64| edge as usize % (2 * AT_ONCE);
        (self.ring[place(at)], (later < stop).then(|| self.ring[place(later)]))
    }
}

const _: () = assert!(Graph::EDGES_AHEAD == AT_ONCE);

impl Iterator for EdgesOf<'_> {
    type Item = Edge;

    #[inline(always)]
    fn next(&mut self) -> Option<Edge> {
        let at = self.next;
        if at >= self.stop {
            return None;
        }
        self.next += 1;
        let (to, soon) = match &mut self.source {
            Source::Stored(neighbours) => {
                (neighbours[at as usize], neighbours.get(at as usize + Graph::EDGES_AHEAD).copied())
            }
            Source::Computed(ahead) => ahead.next(at, self.from, self.stop),
        };
        Some(Edge { k: at - self.first, to, last: at + 1 == self.end, soon })
    }
}

/// Bytes of the simulator's memory that a stored graph takes.
pub fn sim_host_bytes(vertices: u64, edge_factor: u32) -> u64 {
    vertices * 4 + vertices * u64::from(edge_factor) * 2 * 4
}

/// One end of an edge on its way to its vertex.
#[derive(Clone, Copy, Default)]
struct Half {
    /// Its place in the input: twice the edge's number, plus one for the second end.
    sequence: u32,
    from: u32,
    to: u32,
}

/// A placed edge: its place in the input, its vertex, and how many edges the vertex had before.
pub(crate) type Placed = (u32, u32, u32);

/// Bytes of all buckets together while a graph is generated.
const BUCKET_BYTES: usize = 64 << 20;
/// Vertices whose neighbours are placed together: their part of the arrays stays in the sim host's cache.
const BUCKET_VERTICES: u64 = 1 << 13;
/// The ends of more buckets than this would not fit the sim host's cache.
const MAX_BUCKETS: u64 = 1 << 10;

/// Sorts halves of edges by vertex range, keeping their order within each, and passes on full buckets.
/// Without it each placement is a cache miss and a TLB miss of the sim host and takes about ten times as
/// long.
struct Buckets {
    shift: u32,
    capacity: usize,
    halves: Vec<Half>,
    used: Vec<u32>,
}

impl Buckets {
    fn new(vertices: u64) -> Buckets {
        let window = BUCKET_VERTICES.max(vertices.div_ceil(MAX_BUCKETS).next_power_of_two());
        let buckets = vertices.div_ceil(window) as usize;
        let capacity = BUCKET_BYTES / size_of::<Half>() / buckets.max(16);
        Buckets {
            shift: window.ilog2(),
            capacity,
            halves: vec![Half::default(); capacity * buckets],
            used: vec![0; buckets],
        }
    }

    #[inline(always)]
    fn push(&mut self, half: Half, mut full: impl FnMut(&[Half])) {
        let bucket = (half.from >> self.shift) as usize;
        let start = bucket * self.capacity;
        let used = &mut self.used[bucket];
        self.halves[start + *used as usize] = half;
        *used += 1;
        if *used as usize == self.capacity {
            *used = 0;
            full(&self.halves[start..start + self.capacity]);
        }
    }

    fn finish(&mut self, mut rest: impl FnMut(&[Half])) {
        for (bucket, used) in self.used.iter_mut().enumerate() {
            let start = bucket * self.capacity;
            rest(&self.halves[start..start + std::mem::take(used) as usize]);
        }
    }
}

/// Passes every half of every edge to `place`, for each vertex in the order of the input.
fn for_each_half(spec: &GraphSpec, vertices: u64, seed: u64, mut place: impl FnMut(&[Half])) {
    let mut buckets = Buckets::new(vertices);
    let mut sequence = 0u32;
    for_each_edge(spec, vertices, seed, |u, v| {
        buckets.push(Half { sequence, from: u, to: v }, &mut place);
        buckets.push(Half { sequence: sequence + 1, from: v, to: u }, &mut place);
        sequence = sequence.wrapping_add(2);
    });
    buckets.finish(place);
}

impl Graph {
    /// Edges by which prefetches for the sim host run ahead: its own cache misses take that many steps.
    pub const EDGES_AHEAD: usize = 8;

    /// Generates the graph and stores it.
    ///
    /// `vertices * edge_factor * 2` must be below 2^32 (specs are checked for it).
    pub fn generate(spec: &GraphSpec, vertices: u64, seed: u64) -> Graph {
        if spec.kind == GraphKind::Configuration && spec.input.is_empty() {
            return Graph::computed(spec, vertices, seed).stored();
        }
        Graph::sort(spec, vertices, seed)
    }

    /// A graph whose rows are computed when they are read; see [`ConfigurationGraph`].
    pub fn computed(spec: &GraphSpec, vertices: u64, seed: u64) -> Graph {
        let rows = Rows::Computed(Box::new(ConfigurationGraph::new(spec, vertices, seed)));
        Graph { rows, first_touches: FirstTouches::Random(seed) }
    }

    /// The same graph with its rows stored.
    pub fn stored(&self) -> Graph {
        let offsets = (0..=self.vertices()).map(|u| self.offset_of(u) as u32).collect();
        let neighbours = (0..self.vertices() as u32).flat_map(|u| self.edges_of(u).map(|edge| edge.to)).collect();
        let first_touches = match &self.first_touches {
            FirstTouches::Listed(pages) => FirstTouches::Listed(pages.clone()),
            FirstTouches::Random(seed) => FirstTouches::Random(*seed),
        };
        Graph { rows: Rows::Stored { offsets, neighbours }, first_touches }
    }

    /// A counting sort over two runs of the same generator, so that no edge list is stored.
    fn sort(spec: &GraphSpec, vertices: u64, seed: u64) -> Graph {
        let n = vertices as usize;
        let mut offsets = on_huge_pages(vec![0u32; n + 1]);
        for_each_half(spec, vertices, seed, |halves| {
            for half in halves {
                offsets[half.from as usize] += 1;
            }
        });
        let mut sum = 0;
        for offset in &mut offsets {
            sum += std::mem::replace(offset, sum);
        }
        let mut neighbours = on_huge_pages(vec![0u32; sum as usize]);
        let mut touched = PageOrder::new(neighbours.len());
        // Each offset moves to the next one's start while its neighbours are placed; shifting by one restores
        // them.
        for_each_half(spec, vertices, seed, |halves| {
            for half in halves {
                let place = &mut offsets[half.from as usize];
                neighbours[*place as usize] = half.to;
                touched.write(*place, half.sequence);
                *place += 1;
            }
        });
        offsets.copy_within(..n, 1);
        offsets[0] = 0;
        Graph { rows: Rows::Stored { offsets, neighbours }, first_touches: FirstTouches::Listed(touched.order()) }
    }

    /// The edges that `select` accepts by how many their vertex had before, in the order of the input.
    pub(crate) fn placed_when(spec: &GraphSpec, vertices: u64, seed: u64, select: impl Fn(u32) -> bool) -> Vec<Placed> {
        let mut degrees = vec![0u32; vertices as usize];
        let mut placed = Vec::new();
        for_each_half(spec, vertices, seed, |halves| {
            for half in halves {
                let degree = &mut degrees[half.from as usize];
                if select(*degree) {
                    placed.push((half.sequence, half.from, *degree));
                }
                *degree += 1;
            }
        });
        placed.sort_unstable_by_key(|p| p.0);
        placed
    }

    /// The graph with these settings, stored or `computed`, shared with all its current users.
    pub fn shared(spec: &GraphSpec, vertices: u64, seed: u64, computed: bool) -> Arc<Graph> {
        type Known = (GraphSpec, u64, u64, bool, Weak<Graph>);
        static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.retain(|(.., graph)| graph.strong_count() > 0);
        let same = known.iter().find(|(s, n, x, c, _)| (s, *n, *x, *c) == (spec, vertices, seed, computed));
        if let Some(graph) = same.and_then(|(.., graph)| graph.upgrade()) {
            return graph;
        }
        let make = if computed { Graph::computed } else { Graph::generate };
        let graph = Arc::new(make(spec, vertices, seed));
        known.push((spec.clone(), vertices, seed, computed, Arc::downgrade(&graph)));
        graph
    }

    /// The same graph, stored, with each vertex's neighbours in ascending order.
    pub fn sorted(&self) -> Graph {
        let mut sorted = self.stored();
        if let Rows::Stored { offsets, neighbours } = &mut sorted.rows {
            for ends in offsets.windows(2) {
                neighbours[ends[0] as usize..ends[1] as usize].sort_unstable();
            }
        }
        sorted
    }

    /// The graph's size as text, for a program's identity.
    pub(crate) fn facts(&self) -> String {
        let how = match &self.rows {
            Rows::Stored { .. } => "",
            Rows::Computed(_) => ", which are computed instead of stored (configuration model)",
        };
        format!("graph = {} vertices and {} stored edges{how}", self.vertices(), self.edges())
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u64 {
        match &self.rows {
            Rows::Stored { offsets, .. } => offsets.len() as u64 - 1,
            Rows::Computed(graph) => graph.vertices(),
        }
    }

    /// Stored edges: two for each undirected one.
    pub fn edges(&self) -> u64 {
        match &self.rows {
            Rows::Stored { neighbours, .. } => neighbours.len() as u64,
            Rows::Computed(graph) => graph.edges(),
        }
    }

    /// Whether the rows are computed instead of stored.
    pub fn is_computed(&self) -> bool {
        matches!(self.rows, Rows::Computed(_))
    }

    #[inline(always)]
    fn offset_of(&self, u: u64) -> u64 {
        match &self.rows {
            Rows::Stored { offsets, .. } => u64::from(offsets[u as usize]),
            Rows::Computed(graph) => graph.offset(u),
        }
    }

    /// The number of the first edge stored at vertex `u`, and of the first one after its edges.
    #[inline(always)]
    pub fn ends(&self, u: u32) -> (u64, u64) {
        (self.offset_of(u64::from(u)), self.offset_of(u64::from(u) + 1))
    }

    /// The number of the first edge stored at vertex `u`.
    #[inline(always)]
    pub fn offset(&self, u: u32) -> u64 {
        self.offset_of(u64::from(u))
    }

    /// Edges stored at vertex `u`.
    #[inline(always)]
    pub fn degree(&self, u: u32) -> u32 {
        let (begin, end) = self.ends(u);
        (end - begin) as u32
    }

    /// The edges of vertex `u`.
    #[inline(always)]
    pub fn edges_of(&self, u: u32) -> EdgesOf<'_> {
        let (first, end) = self.ends(u);
        self.edges_within((first, end), first, end)
    }

    /// The edges `from..stop` of the vertex with these [`Graph::ends`].
    #[inline(always)]
    pub fn edges_within(&self, (first, end): (u64, u64), from: u64, stop: u64) -> EdgesOf<'_> {
        let source = match &self.rows {
            Rows::Stored { neighbours, .. } => Source::Stored(neighbours),
            Rows::Computed(graph) => Source::Computed(Ahead::new(graph, from, stop)),
        };
        EdgesOf { source, first, from, next: from, stop, end }
    }

    /// The vertex to which stored edge `k` of vertex `u` leads.
    #[inline(always)]
    pub fn neighbour(&self, u: u32, k: u64) -> u32 {
        match &self.rows {
            Rows::Stored { offsets, neighbours } => neighbours[offsets[u as usize] as usize + k as usize],
            Rows::Computed(graph) => graph.neighbour(graph.offset(u64::from(u)) + k),
        }
    }

    /// Vertex `u`'s neighbours in a stored graph.
    ///
    /// # Panics
    /// If the graph is computed: programs that need the neighbours as a slice have only stored graphs.
    #[inline(always)]
    pub fn neighbours_of(&self, u: u32) -> &[u32] {
        match &self.rows {
            Rows::Stored { offsets, neighbours } => {
                &neighbours[offsets[u as usize] as usize..offsets[u as usize + 1] as usize]
            }
            Rows::Computed(_) => panic!("a computed graph has no slices of neighbours"),
        }
    }

    /// Hints to the sim host that the offset of `u` will be read.
    #[inline(always)]
    pub fn prefetch_offset(&self, u: u32) {
        if let Rows::Stored { offsets, .. } = &self.rows {
            ambulator_base::prefetch_sim_host(&offsets[u as usize]);
        }
    }

    /// Hints to the sim host that the first neighbours of `u` will be read.
    #[inline(always)]
    pub fn prefetch_neighbours(&self, u: u32) {
        if let Rows::Stored { offsets, neighbours } = &self.rows
            && let Some(first) = neighbours.get(offsets[u as usize] as usize)
        {
            ambulator_base::prefetch_sim_host(first);
        }
    }

    /// Neighbours that are stored from the first one of `u` on, if the graph is stored.
    #[inline(always)]
    pub fn stored_from(&self, u: u32) -> &[u32] {
        match &self.rows {
            Rows::Stored { offsets, neighbours } => &neighbours[offsets[u as usize] as usize..],
            Rows::Computed(_) => &[],
        }
    }

    /// Set-up's first touches of the neighbours.
    pub(crate) fn touch_neighbours(&self, neighbours: &Array, space: &mut AddressSpace) {
        let (start, end) = (neighbours.base - MMAP_HEADER, neighbours.base + neighbours.bytes());
        match &self.first_touches {
            FirstTouches::Listed(pages) => {
                for &page in pages {
                    let at = start + u64::from(page) * FRAME_BYTES;
                    let len = FRAME_BYTES.min(end - at);
                    space.push(VmEvent::Touch { start: VirtAddr(at), len, write: true });
                }
            }
            FirstTouches::Random(seed) => {
                let pages = (end - start).div_ceil(FRAME_BYTES);
                space.push_pages((start, end), Permutation::new(pages.max(1), *seed, "first touches"));
            }
        }
    }
}

/// Records the order in which pages of the neighbour array are first written.
struct PageOrder(Vec<(u32, u32)>);

impl PageOrder {
    fn new(neighbours: usize) -> PageOrder {
        let bytes = neighbours as u64 * 4 + MMAP_HEADER;
        PageOrder((0..bytes.div_ceil(FRAME_BYTES) as u32).map(|page| (u32::MAX, page)).collect())
    }

    #[inline(always)]
    fn write(&mut self, index: u32, sequence: u32) {
        let page = (u64::from(index) * 4 + MMAP_HEADER) / FRAME_BYTES;
        let first = &mut self.0[page as usize].0;
        *first = sequence.min(*first);
    }

    fn order(mut self) -> Vec<u32> {
        self.0.sort_unstable();
        self.0.into_iter().map(|(_, page)| page).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_is_stored_in_both_directions_in_the_generators_order() {
        for vertices in [1u64 << 10, 1500] {
            let spec = GraphSpec::default();
            let graph = Graph::generate(&spec, vertices, 5);
            let mut lists = vec![Vec::new(); vertices as usize];
            for_each_edge(&spec, vertices, 5, |u, v| {
                lists[u as usize].push(v);
                lists[v as usize].push(u);
            });
            assert_eq!(graph.edges(), vertices * 32);
            for u in 0..vertices as u32 {
                assert_eq!(graph.neighbours_of(u), lists[u as usize]);
            }
            let FirstTouches::Listed(first_touches) = &graph.first_touches else { panic!("not sorted") };
            let mut pages = first_touches.clone();
            pages.sort_unstable();
            assert!(pages.iter().enumerate().all(|(i, &page)| i as u32 == page), "each page is first written once");
            assert_ne!(&pages, first_touches, "a counting sort does not write in ascending order");
        }
    }

    #[test]
    fn degrees_are_skewed_and_hubs_are_anywhere() {
        let graph = Graph::generate(&GraphSpec::default(), 1 << 14, 1);
        let isolated = (0..1 << 14).filter(|&u| graph.degree(u) == 0).count();
        assert!((1000..8000).contains(&isolated), "{isolated} isolated vertices");
        let mut by_degree: Vec<u32> = (0..1 << 14).collect();
        by_degree.sort_by_key(|&u| std::cmp::Reverse(graph.degree(u)));
        assert!(graph.degree(by_degree[0]) > 1000, "the greatest hub has {}", graph.degree(by_degree[0]));
        let low = by_degree[..100].iter().filter(|&&u| u < 1 << 13).count();
        assert!((25..75).contains(&low), "{low} of 100 hubs are in the lower half of the labels");
    }

    #[test]
    fn a_graph_in_use_is_shared_and_others_are_separate() {
        let spec = GraphSpec::default();
        let graph = Graph::shared(&spec, 1 << 10, 77, false);
        assert!(Arc::ptr_eq(&graph, &Graph::shared(&spec, 1 << 10, 77, false)));
        assert_ne!(*graph, *Graph::shared(&spec, 1 << 10, 78, false));
    }
}
