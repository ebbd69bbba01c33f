//! BFS: breadth-first searches of a Kronecker graph, from one random root after another.
//!
//! Stands for graph traversal: neighbours are read in order, but their state is scattered. The search is
//! Graph500's kernel 2 (top-down, with a queue) from roots with at least one edge; searches repeat without
//! end.
//!
//! Layouts ([`GraphLayout`]):
//! - `csr`: offsets, neighbours, then `parent` (4 bytes a vertex) and the queue (4 bytes a vertex), each
//!   array with its own mapping. Set-up touches the edge list, degrees and offsets in ascending order and the
//!   neighbours as the edges scatter them; the edge list is freed.
//! - `property`: as in GraphBIG's BFS; see [`crate::graph::PropertyGraph`]. Colour and level are in the
//!   vertex object; the queue takes 8 bytes a vertex.
//!
//! The region of interest begins with the second search (the first has touched parents and queue), after all
//! parents, or colours, have been reset; each later search first resets them. The compiled inner loops:
//!
//! ```text
//! csr       movslq (%rax),%rcx; mov; lea; cmpl $0,(%rcx); jns next       v = neighbour; visited?
//!           mov %r8d,(%rcx); mov %edx,(queue); add                       parent[v] = u; append
//!     next: add; cmp; jne
//! property  mov (%rax),%rcx; mov (index),%rdx; cmpq $0,8(%rdx); jne next
//!             (v = edge's target; its object; its colour)
//!           movq $1,8(%rdx); mov %r10,16(%rdx); mov %rcx,(queue); add
//!     next: add; cmp; jne
//! linked    the same, but the object is looked up in a hash table, and the next edge is mov (%rax),%rax
//! ```
//!
//! Parents are reset by the C library's `memset` (32-byte vectors, four a round).

use super::edges::{EdgeWalk, EdgesFrom, MOST_TO_FIND, StoredEdge, find};
use super::{
    Benchmark, BenchmarkSource, BenchmarkSpec, Counts, Density, Out, ProgramInfo, branch, identity, load, store,
};
use crate::graph::{
    Built, Graph, GraphChoice, GraphNeeds, Placed, PropertyGraph, Storage, graph_settings, vertex_field,
};
use crate::layout::Array;
use ambulator_base::{Invalid, Random, Record, RecordSource, VirtAddr, prefetch_sim_host};
use std::cell::Cell;
use std::sync::Arc;

graph_settings! {
    /// Settings of BFS.
    pub struct BfsSpec {}
}

impl BfsSpec {
    fn choice(&self) -> GraphChoice<'_> {
        self.choice_for(GraphNeeds {
            csr_arrays: 8,
            property_arrays: 8,
            sim_host_bytes: 5,
            streaming_host_bytes: 5,
            can_stream: true,
        })
    }
}

impl BenchmarkSpec for BfsSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "bfs",
        about: "breadth-first searches of a Kronecker graph from random roots",
        stands_for: "Graph500, GAP and GraphBIG BFS: graph traversal",
        default_footprint: 1 << 30,
    };

    const DENSITIES: &[Density] = &[
        Density {
            compiled_program: "bfs csr EDGES",
            settings: r#"{ "layout": "csr", "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: csr_pc::NEIGHBOUR,
            skip: 1 << 19,
            units: 2 << 19,
            compiled: Counts { instructions: 8.370, loads: 2.073, stores: 0.052, branches: 2.049 },
        },
        Density {
            compiled_program: "bfs property EDGES",
            settings: r#"{ "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: property_pc::TARGET,
            skip: 1 << 19,
            units: 2 << 19,
            compiled: Counts { instructions: 7.646, loads: 3.152, stores: 0.120, branches: 2.111 },
        },
        Density {
            compiled_program: "bfs linked EDGES",
            settings: r#"{ "layout": "linked", "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: property_pc::TARGET,
            skip: 1 << 19,
            units: 2 << 19,
            compiled: Counts { instructions: 17.870, loads: 7.247, stores: 0.127, branches: 5.151 },
        },
    ];

    fn validate(&self, at: &str) -> Vec<Invalid> {
        self.choice().validate(at)
    }

    fn sim_host_bytes(&self) -> Option<u64> {
        Some(self.choice().sim_host_bytes())
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let Built { graph, placed, mut space } = self.choice().build();
        let facts = graph.facts();
        let footprint = placed.footprint();
        let vertices = graph.vertices();
        let benchmark = match placed {
            Placed::Csr { offsets, neighbours } => {
                let parent = space.filled_array(4, vertices);
                let queue = space.filled_array(4, vertices);
                Bfs::boxed(graph, self.seed, Arrays { offsets, neighbours, parent, queue })
            }
            Placed::Property(property) => {
                let queue = space.filled_array(8, vertices);
                Bfs::boxed(graph, self.seed, Objects { graph: property, queue })
            }
        };
        let setup = Box::new(space.take_events());
        BenchmarkSource::boxed(identity("bfs", self, &facts, footprint + 8 * vertices), setup, benchmark)
    }
}

/// The steps of the search in one layout; each appends the step's records.
trait Steps: Send {
    /// Vertices that one step resets at the start of a search.
    const RESET: u64;
    /// The most records of one step, for an edge or of a reset.
    const MOST: usize;

    /// Resets the parents or colours of the next vertices from `u` on.
    fn reset(&self, u: u64, out: &mut Out<'_>);
    /// Enqueues the root.
    fn root(&self, u: u32, out: &mut Out<'_>);
    /// Dequeues element `head`, vertex `u`, and finds its edges.
    fn take(&self, head: u64, u: u32, out: &mut Out<'_>) -> EdgesFrom;
    /// Visits an edge of `u`; `found` is the queue element of a target not seen before.
    fn edge(&self, u: u32, edge: StoredEdge, found: Option<u64>, out: &mut Out<'_>);
    /// Prefetches vertex `v` into the sim host's caches (simulator speed only).
    fn prefetch_sim_host(&self, _v: u32) {}
    /// Finishes `u`; the search ends if it is the `last`.
    fn leave(&self, u: u32, object_from: u16, last: bool, out: &mut Out<'_>);
}

/// Compressed sparse rows.
struct Arrays {
    offsets: Array,
    neighbours: Array,
    parent: Array,
    queue: Array,
}

/// Code addresses of the compiled search over rows.
mod csr_pc {
    use crate::layout::TEXT;
    pub const RESET: u64 = TEXT + 0x440;
    pub const RESET_LOOP: u64 = TEXT + 0x458;
    pub const ROOT: u64 = TEXT + 0x460;
    pub const QUEUE: u64 = TEXT + 0x4a8;
    pub const OFFSET: u64 = TEXT + 0x4ad;
    pub const NEXT_OFFSET: u64 = TEXT + 0x4b1;
    pub const NO_EDGES: u64 = TEXT + 0x4bc;
    pub const NEIGHBOUR: u64 = TEXT + 0x4d0;
    pub const PARENT: u64 = TEXT + 0x4da;
    pub const VISITED: u64 = TEXT + 0x4dd;
    pub const SET_PARENT: u64 = TEXT + 0x4df;
    pub const APPEND: u64 = TEXT + 0x4e2;
    pub const NEXT: u64 = TEXT + 0x4eb;
    pub const EDGE_LOOP: u64 = TEXT + 0x4f2;
    pub const LEAVE: u64 = TEXT + 0x4f4;
    pub const QUEUE_LOOP: u64 = TEXT + 0x4f7;
}

impl Steps for Arrays {
    /// Four 32-byte vectors of parents.
    const RESET: u64 = 32;
    const MOST: usize = 6;

    #[inline(always)]
    fn reset(&self, u: u64, out: &mut Out<'_>) {
        /// Parents of a vector.
        const VECTOR: u64 = 8;
        // Four vmovdqa; sub; cmp; jb
        let end = self.parent.len.min(u + Self::RESET);
        for (i, first) in (u..end).step_by(VECTOR as usize).enumerate() {
            let bytes = 4 * VECTOR.min(end - first);
            out.push(store(csr_pc::RESET + 4 * i as u64, self.parent.at(first), bytes as u8, 0, 0), 0);
        }
        out.gap += 2;
        out.push(branch(csr_pc::RESET_LOOP, csr_pc::RESET, end < self.parent.len, [0, 0]), 0);
    }

    fn root(&self, u: u32, out: &mut Out<'_>) {
        out.push(store(csr_pc::ROOT, self.parent.at(u64::from(u)), 4, 0, 0), 0);
        out.push(store(csr_pc::ROOT + 4, self.queue.at(0), 4, 0, 0), 0);
    }

    #[inline(always)]
    fn take(&self, head: u64, u: u32, out: &mut Out<'_>) -> EdgesFrom {
        let u = u64::from(u);
        // add; movslq (queue); mov (offsets); mov 8(offsets); mov; cmp; jge; lea; lea
        out.gap += 1;
        out.push(load(csr_pc::QUEUE, self.queue.at(head), 4, 0, 0), 0);
        out.push(load(csr_pc::OFFSET, self.offsets.at(u), 8, 0, 1), 0);
        out.push(load(csr_pc::NEXT_OFFSET, self.offsets.at(u + 1), 8, 0, 2), 2);
        out.push(branch(csr_pc::NO_EDGES, csr_pc::LEAVE, false, [1, 2]), 2);
        EdgesFrom { object: 4, begin: 3, end: 2 }
    }

    #[inline(always)]
    fn edge(&self, _u: u32, edge: StoredEdge, found: Option<u64>, out: &mut Out<'_>) {
        let parent = self.parent.at(u64::from(edge.to));
        out.push(load(csr_pc::NEIGHBOUR, self.neighbours.at(edge.index), 4, 0, edge.begin_from), 2);
        out.push(load(csr_pc::PARENT, parent, 4, 0, 1), 0);
        out.push(branch(csr_pc::VISITED, csr_pc::NEXT, found.is_none(), [1, 0]), 0);
        let mut records = 3;
        if let Some(tail) = found {
            out.push(store(csr_pc::SET_PARENT, parent, 4, 0, 3), 0);
            out.push(store(csr_pc::APPEND, self.queue.at(tail), 4, 0, 0), 1);
            records = 5;
        }
        // add; cmp
        out.gap += 2;
        edge.end((csr_pc::EDGE_LOOP, csr_pc::NEIGHBOUR), records, None, out);
    }

    #[inline(always)]
    fn leave(&self, _u: u32, _object_from: u16, last: bool, out: &mut Out<'_>) {
        // cmp; jl
        out.gap += 1;
        out.push(branch(csr_pc::QUEUE_LOOP, csr_pc::QUEUE, !last, [0, 0]), 0);
    }
}

/// A property graph.
struct Objects {
    graph: PropertyGraph,
    queue: Array,
}

/// Code addresses of the compiled search over objects.
mod property_pc {
    use crate::layout::TEXT;
    pub const RESET: u64 = TEXT + 0x5b0;
    pub const RESET_NONE: u64 = TEXT + 0x5b6;
    pub const RESET_COLOUR: u64 = TEXT + 0x5b8;
    pub const RESET_NEXT: u64 = TEXT + 0x5c0;
    pub const RESET_LOOP: u64 = TEXT + 0x5c7;
    pub const ROOT: u64 = TEXT + 0x5d0;
    pub const QUEUE: u64 = TEXT + 0x600;
    pub const OBJECT: u64 = TEXT + 0x604;
    pub const LEVEL: u64 = TEXT + 0x608;
    pub const END: u64 = TEXT + 0x60c;
    pub const BEGIN: u64 = TEXT + 0x614;
    pub const NO_EDGES: u64 = TEXT + 0x61b;
    pub const TARGET: u64 = TEXT + 0x620;
    pub const NEIGHBOUR: u64 = TEXT + 0x623;
    pub const COLOUR: u64 = TEXT + 0x627;
    pub const VISITED: u64 = TEXT + 0x62c;
    pub const SET_COLOUR: u64 = TEXT + 0x62e;
    pub const SET_LEVEL: u64 = TEXT + 0x636;
    pub const APPEND: u64 = TEXT + 0x63a;
    pub const NEXT: u64 = TEXT + 0x642;
    pub const EDGE_LOOP: u64 = TEXT + 0x649;
    pub const LEAVE: u64 = TEXT + 0x64f;
    pub const QUEUE_END: u64 = TEXT + 0x65a;
    pub const END_OF_SEARCH: u64 = TEXT + 0x668;
}

impl Steps for Objects {
    const RESET: u64 = 1;
    const MOST: usize = 8 + MOST_TO_FIND;

    #[inline(always)]
    fn reset(&self, u: u64, out: &mut Out<'_>) {
        let Storage::Vectors { index, .. } = self.graph.storage() else {
            // movq $0,8(object); mov (node),node; cmp; jne
            let next = self.graph.next_vertex(u as u32);
            out.push(store(property_pc::RESET_COLOUR, self.graph.field(u as u32, vertex_field::COLOUR), 8, 0, 2), 0);
            out.push(load(property_pc::RESET, next, 8, 0, 3), 1);
            let more = u + 1 < self.graph.places.len() as u64;
            out.push(branch(property_pc::RESET_LOOP, property_pc::RESET, more, [1, 0]), 0);
            return;
        };
        // mov (index); test; je; movq $0,8(object); add; cmp; jne
        out.push(load(property_pc::RESET, index.at(u), 8, 0, 0), 1);
        let none = self.graph.places[u as usize].object == 0;
        out.push(branch(property_pc::RESET_NONE, property_pc::RESET_NEXT, none, [1, 0]), 0);
        if !none {
            let colour = self.graph.field(u as u32, vertex_field::COLOUR);
            out.push(store(property_pc::RESET_COLOUR, colour, 8, 0, 2), 0);
        }
        out.gap += 2;
        out.push(branch(property_pc::RESET_LOOP, property_pc::RESET, u + 1 < index.len, [0, 0]), 0);
    }

    fn root(&self, u: u32, out: &mut Out<'_>) {
        find(&self.graph, property_pc::ROOT, u, 0, out);
        out.push(store(property_pc::ROOT + 4, self.graph.field(u, vertex_field::COLOUR), 8, 0, 1), 0);
        out.push(store(property_pc::ROOT + 12, self.graph.field(u, vertex_field::LEVEL), 8, 0, 2), 0);
        out.push(store(property_pc::ROOT + 20, self.queue.at(0), 8, 0, 0), 0);
    }

    #[inline(always)]
    fn take(&self, head: u64, u: u32, out: &mut Out<'_>) -> EdgesFrom {
        // mov (queue); mov (index); jmp; mov level; mov end; add; lea; mov begin; cmp; je
        out.push(load(property_pc::QUEUE, self.queue.at(head), 8, 0, 0), 0);
        find(&self.graph, property_pc::OBJECT, u, 1, out);
        out.gap += 1;
        if self.graph.linked().is_some() {
            // A list ends at its head, in the object.
            out.push(load(property_pc::LEVEL, self.graph.field(u, vertex_field::LEVEL), 8, 0, 1), 2);
            out.push(load(property_pc::BEGIN, self.graph.field(u, vertex_field::EDGES_BEGIN), 8, 0, 2), 1);
            out.push(branch(property_pc::NO_EDGES, property_pc::LEAVE, false, [1, 0]), 0);
            return EdgesFrom { object: 4, begin: 2, end: 2 };
        }
        out.push(load(property_pc::LEVEL, self.graph.field(u, vertex_field::LEVEL), 8, 0, 1), 0);
        out.push(load(property_pc::END, self.graph.field(u, vertex_field::EDGES_END), 8, 0, 2), 2);
        out.push(load(property_pc::BEGIN, self.graph.field(u, vertex_field::EDGES_BEGIN), 8, 0, 3), 1);
        out.push(branch(property_pc::NO_EDGES, property_pc::LEAVE, false, [1, 2]), 0);
        EdgesFrom { object: 5, begin: 2, end: 3 }
    }

    #[inline(always)]
    fn edge(&self, u: u32, edge: StoredEdge, found: Option<u64>, out: &mut Out<'_>) {
        let object = self.graph.places[edge.to as usize].object;
        let lists = self.graph.linked();
        let from = edge.pointer_from(lists.is_some());
        out.push(load(property_pc::TARGET, self.graph.edge(u, edge.k), 8, 0, from), 0);
        let found_in = find(&self.graph, property_pc::NEIGHBOUR, edge.to, 1, out);
        out.push(load(property_pc::COLOUR, VirtAddr(object + vertex_field::COLOUR), 8, 0, 1), 0);
        out.push(branch(property_pc::VISITED, property_pc::NEXT, found.is_none(), [1, 0]), 0);
        let mut records = 3 + found_in;
        if let Some(tail) = found {
            out.push(store(property_pc::SET_COLOUR, VirtAddr(object + vertex_field::COLOUR), 8, 0, 3), 0);
            out.push(store(property_pc::SET_LEVEL, VirtAddr(object + vertex_field::LEVEL), 8, 0, 4), 0);
            out.push(store(property_pc::APPEND, self.queue.at(tail), 8, 0, 0), 1);
            records += 3;
        }
        // add; cmp
        out.gap += if lists.is_some() { 0 } else { 2 };
        let next = lists.map(|lists| lists.next(u, edge.k));
        edge.end((property_pc::EDGE_LOOP, property_pc::TARGET), records, next, out);
    }

    #[inline(always)]
    fn prefetch_sim_host(&self, v: u32) {
        prefetch_sim_host(&self.graph.places[v as usize]);
    }

    #[inline(always)]
    fn leave(&self, u: u32, object_from: u16, last: bool, out: &mut Out<'_>) {
        // movq $2,8(object); cmp; jge
        out.push(store(property_pc::LEAVE, self.graph.field(u, vertex_field::COLOUR), 8, 0, object_from), 1);
        out.push(branch(property_pc::QUEUE_END, property_pc::END_OF_SEARCH, last, [0, 0]), 0);
    }
}

/// The search's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Resetting parents or colours, from this vertex on.
    Reset(u64),
    /// Dequeuing the vertex at the head of the queue, or ending.
    Take,
    /// Visiting the edges of the vertex at the head, from this stored edge on.
    Edges(u64),
}

/// The running benchmark.
struct Bfs<S> {
    graph: Arc<Graph>,
    steps: S,
    roots: Random,
    root: u32,
    phase: Phase,
    gap: u32,
    /// One bit a vertex. Nothing depends on the parents, so they are not kept.
    visited: Vec<u64>,
    queue: Vec<u32>,
    head: usize,
    walk: EdgeWalk,
}

impl<S: Steps + 'static> Bfs<S> {
    fn new(graph: Arc<Graph>, seed: u64, steps: S) -> Bfs<S> {
        let vertices = graph.vertices() as usize;
        let mut bfs = Bfs {
            graph,
            steps,
            roots: Random::for_purpose(seed, "bfs roots"),
            root: 0,
            phase: Phase::Reset(0),
            gap: 0,
            visited: vec![0; vertices.div_ceil(64)],
            queue: Vec::with_capacity(vertices),
            head: 0,
            walk: EdgeWalk::default(),
        };
        bfs.next_root();
        // Set-up has reset the parents and colours for the first search of the region.
        bfs.phase = Phase::Reset(bfs.graph.vertices());
        bfs
    }

    fn boxed(graph: Arc<Graph>, seed: u64, steps: S) -> Box<dyn Benchmark> {
        Box::new(Bfs::new(graph, seed, steps))
    }

    /// Draws the next root: any vertex with an edge (Graph500: kernel 2's search keys).
    fn next_root(&mut self) {
        self.root = loop {
            let u = self.roots.below(self.graph.vertices()) as u32;
            if self.graph.degree(u) > 0 {
                break u;
            }
        };
        self.visited.fill(0);
        self.queue.clear();
        self.head = 0;
        self.phase = Phase::Reset(0);
    }

    /// Visits the edges of the queue's head from stored edge `edge` on, as far as the batch has room.
    fn edges(&mut self, edge: u64, out: &mut Out<'_>) {
        let u = self.queue[self.head];
        let Bfs { graph, steps, walk, visited, queue, .. } = self;
        let visited = Cell::from_mut(visited.as_mut_slice()).as_slice_of_cells();
        let (stop, done) = walk.go(
            (graph, u),
            edge,
            S::MOST,
            out,
            |soon| {
                steps.prefetch_sim_host(soon);
                prefetch_sim_host(&visited[soon as usize / 64]);
            },
            |edge, out| {
                let (word, bit) = (&visited[edge.to as usize / 64], 1 << (edge.to % 64));
                let found = (word.get() & bit == 0).then_some(queue.len() as u64);
                if found.is_some() {
                    word.set(word.get() | bit);
                    queue.push(edge.to);
                }
                steps.edge(u, edge, found, out);
            },
        );
        self.phase = Phase::Edges(stop);
        if done {
            self.head += 1;
            self.steps.leave(u, self.walk.object_from(), self.head == self.queue.len(), out);
            self.phase = Phase::Take;
        }
    }

    /// Prefetches the vertices after the queue's head into the sim host's caches.
    #[inline(always)]
    fn prefetch_queue(&self) {
        let after = |distance| self.queue.get(self.head + distance).copied();
        if let Some(u) = after(12) {
            self.graph.prefetch_offset(u);
        }
        if let Some(u) = after(6) {
            self.graph.prefetch_neighbours(u);
        }
        if let Some(u) = after(2) {
            for &v in self.graph.stored_from(u).iter().take(Graph::EDGES_AHEAD) {
                self.steps.prefetch_sim_host(v);
            }
        }
    }

    fn step(&mut self, out: &mut Out<'_>) {
        match self.phase {
            Phase::Reset(from) => {
                let end = self.graph.vertices().min(from + out.room(S::MOST) * S::RESET);
                for u in (from..end).step_by(S::RESET as usize) {
                    self.steps.reset(u, out);
                }
                self.phase = Phase::Reset(end);
                if end == self.graph.vertices() {
                    let root = self.root;
                    self.visited[root as usize / 64] |= 1 << (root % 64);
                    self.queue.push(root);
                    self.steps.root(root, out);
                    self.phase = Phase::Take;
                }
            }
            Phase::Take => match self.queue.get(self.head) {
                Some(&u) => {
                    self.prefetch_queue();
                    self.walk = EdgeWalk::new(self.steps.take(self.head as u64, u, out));
                    self.phase = Phase::Edges(self.graph.offset(u));
                }
                None => self.next_root(),
            },
            Phase::Edges(edge) => self.edges(edge, out),
        }
    }
}

impl<S: Steps + 'static> Benchmark for Bfs<S> {
    fn run(&mut self, records: &mut Vec<Record>) {
        self.gap = Out::fill(records, self.gap, |out| self.step(out));
    }
}

#[cfg(test)]
mod tests;
