//! PageRank: power iterations over a Kronecker graph, pulling from neighbours.
//!
//! Stands for sparse matrix times vector, the most common source of random reads: each vertex reads its
//! neighbours in order and one scattered number of each. Nothing branches on data but the ends of the loops.
//!
//! GAP's `pr.cc` (pull, Jacobi): in each iteration first every vertex's contribution `score / degree`, then
//! `score = (1 - d) / n + d * sum of the neighbours' contributions`, until the scores change by less than
//! `tolerance` in all or for `max_iterations`; then it starts over from equal scores, without end. As in GAP,
//! the scores of vertices without edges are not redistributed. The region of interest begins with the first
//! pulls. Ranks are computed for real, in single precision as in GAP; the objects' fields are 8 bytes.
//!
//! Layouts ([`GraphLayout`]): `csr` has `score` and `contribution` as arrays of 4-byte floats, `property` has
//! both in the vertex object (as in GraphBIG). Set-up builds the graph as in [`super::BfsSpec`], then writes
//! the initial scores in ascending order. The compiled inner loops:
//!
//! ```text
//! csr        movslq (%rax),%rdx; add; addss (contribution,%rdx,4),%xmm1; cmp; jne
//! property   mov (%rax),%rdx; add; mov (index,%rdx,8),%rdx; addsd 48(%rdx),%xmm0; cmp; jne
//! linked     the same, but the object is looked up in a hash table, and the next edge is mov (%rax),%rax
//! ```

use super::edges::{EdgeWalk, EdgesFrom, MOST_TO_FIND, StoredEdge, find};
use super::scratch::Scratch;
use super::{
    Benchmark, BenchmarkSource, BenchmarkSpec, Counts, Density, Out, ProgramInfo, branch, identity, load, store,
};
use crate::graph::{
    Built, Graph, GraphChoice, GraphNeeds, Placed, PropertyGraph, Storage, graph_settings, vertex_field,
};
use crate::layout::Array;
use ambulator_base::{Invalid, Record, RecordSource, VirtAddr, prefetch_sim_host};
use std::sync::Arc;

graph_settings! {
    /// Settings of PageRank.
    pub struct PageRankSpec {
        /// Damping factor.
        #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "GAP benchmark specification"))]
        pub damping: f32 = 0.85,
        /// Sum of the scores' changes below which the iterations end.
        #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "ratio", "x-source" = "GAP benchmark specification"))]
        pub tolerance: f64 = 1e-4,
        /// The most iterations before it starts over.
        #[schemars(range(min = 1, max = 1 << 30), extend("x-unit" = "count", "x-source" = "GAP benchmark suite"))]
        pub max_iterations: u32 = 20,
    }
}

impl PageRankSpec {
    fn choice(&self) -> GraphChoice<'_> {
        self.choice_for(GraphNeeds {
            csr_arrays: 8,
            property_arrays: 0,
            sim_host_bytes: 8,
            streaming_host_bytes: 4,
            can_stream: true,
        })
    }
}

impl BenchmarkSpec for PageRankSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "pagerank",
        about: "power iterations of PageRank over a Kronecker graph",
        stands_for: "GAP and GraphBIG PageRank: sparse matrix times vector",
        default_footprint: 1 << 30,
    };

    const DENSITIES: &[Density] = &[
        Density {
            compiled_program: "pagerank csr EDGES",
            settings: r#"{ "layout": "csr", "tolerance": 0.0, "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: csr_pc::NEIGHBOUR,
            skip: 1 << 19,
            units: 2 << 19,
            compiled: Counts { instructions: 5.887, loads: 2.188, stores: 0.063, branches: 1.094 },
        },
        Density {
            compiled_program: "pagerank property EDGES",
            settings: r#"{ "tolerance": 0.0, "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: property_pc::TARGET,
            skip: 1 << 19,
            units: 2 << 19,
            compiled: Counts { instructions: 7.045, loads: 3.206, stores: 0.048, branches: 1.173 },
        },
        Density {
            compiled_program: "pagerank linked EDGES",
            settings: r#"{ "layout": "linked", "tolerance": 0.0, "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: property_pc::TARGET,
            skip: 1 << 19,
            units: 2 << 19,
            compiled: Counts { instructions: 17.910, loads: 7.236, stores: 0.063, branches: 4.125 },
        },
    ];

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = self.choice().validate(at);
        if self.damping >= 1.0 {
            problems.push(Invalid::new(
                format!("{at}.damping"),
                format!("is {}; it must be below 1 (usually 0.85)", self.damping),
            ));
        }
        problems
    }

    fn sim_host_bytes(&self) -> Option<u64> {
        Some(self.choice().sim_host_bytes())
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let Built { graph, placed, mut space } = self.choice().build();
        let facts = graph.facts();
        let (footprint, vertices) = (placed.footprint(), graph.vertices());
        let (benchmark, footprint): (Box<dyn Benchmark>, u64) = match placed {
            Placed::Csr { offsets, neighbours } => {
                let score = space.filled_array(4, vertices);
                let contribution = space.filled_array(4, vertices);
                let steps = Arrays { offsets, neighbours, score, contribution };
                (Box::new(PageRank::new(self, graph, steps)), footprint + 8 * vertices)
            }
            // The scores are in objects that were touched when the graph was built.
            Placed::Property(property) => {
                (Box::new(PageRank::new(self, graph, Objects { graph: property })), footprint)
            }
        };
        let setup = Box::new(space.take_events());
        BenchmarkSource::boxed(identity("pagerank", self, &facts, footprint), setup, benchmark)
    }
}

/// The steps of an iteration in one layout; each appends the step's records.
trait Steps: Send {
    /// The most records of a pull along one edge.
    const MOST: usize;

    /// Resets vertex `u`'s score when the iterations start over.
    fn reset(&self, u: u32, out: &mut Out<'_>);
    /// `contribution[u] = score[u] / degree`.
    fn contribute(&self, u: u32, out: &mut Out<'_>);
    /// Finds `u`'s edges, of which there are `some`; `None` if the program skips the vertex.
    fn begin(&self, u: u32, some: bool, out: &mut Out<'_>) -> Option<EdgesFrom>;
    /// Adds the contribution of the vertex to which an edge of `u` leads.
    fn pull(&self, u: u32, edge: StoredEdge, out: &mut Out<'_>);
    /// Prefetches vertex `v` into the sim host's caches (simulator speed only).
    fn prefetch_sim_host(&self, _v: u32) {}
    /// Stores the new score and accumulates its change.
    fn end(&self, u: u32, object_from: u16, out: &mut Out<'_>);
}

/// Compressed sparse rows.
struct Arrays {
    offsets: Array,
    neighbours: Array,
    score: Array,
    contribution: Array,
}

/// Code addresses of the compiled iteration over rows.
mod csr_pc {
    use crate::layout::TEXT;
    pub const RESET: u64 = TEXT + 0x520;
    pub const RESET_LOOP: u64 = TEXT + 0x52c;
    pub const OFFSET: u64 = TEXT + 0x540;
    pub const NEXT_OFFSET: u64 = TEXT + 0x544;
    pub const NO_EDGES: u64 = TEXT + 0x54c;
    pub const NEIGHBOUR: u64 = TEXT + 0x560;
    pub const PULL: u64 = TEXT + 0x567;
    pub const EDGE_LOOP: u64 = TEXT + 0x56f;
    pub const OLD_SCORE: u64 = TEXT + 0x579;
    pub const NEW_SCORE: u64 = TEXT + 0x57f;
    pub const VERTEX_LOOP: u64 = TEXT + 0x59b;
    pub const NONE: u64 = TEXT + 0x5a8;
    pub const DEGREE_END: u64 = TEXT + 0x5c0;
    pub const DEGREE_BEGIN: u64 = TEXT + 0x5c9;
    pub const SCORE: u64 = TEXT + 0x5d2;
    pub const CONTRIBUTE: u64 = TEXT + 0x5db;
    pub const CONTRIBUTE_LOOP: u64 = TEXT + 0x5e7;
}

impl Arrays {
    /// It is the last vertex.
    #[inline(always)]
    fn last(&self, u: u64) -> bool {
        u + 1 == self.score.len
    }
}

impl Steps for Arrays {
    const MOST: usize = 3;

    #[inline(always)]
    fn reset(&self, u: u32, out: &mut Out<'_>) {
        // movups of four scores; add; cmp; jne
        if u.is_multiple_of(4) {
            out.push(store(csr_pc::RESET, self.score.at(u64::from(u)), 16, 0, 0), 2);
            let last = u64::from(u) + 4 >= self.score.len;
            out.push(branch(csr_pc::RESET_LOOP, csr_pc::RESET, !last, [0, 0]), 0);
        }
    }

    #[inline(always)]
    fn contribute(&self, u: u32, out: &mut Out<'_>) {
        let u = u64::from(u);
        out.push(load(csr_pc::DEGREE_END, self.offsets.at(u + 1), 8, 0, 0), 1);
        out.push(load(csr_pc::DEGREE_BEGIN, self.offsets.at(u), 8, 0, 0), 1);
        out.push(load(csr_pc::SCORE, self.score.at(u), 4, 0, 0), 1);
        out.push(store(csr_pc::CONTRIBUTE, self.contribution.at(u), 4, 0, 0), 2);
        out.push(branch(csr_pc::CONTRIBUTE_LOOP, csr_pc::DEGREE_END, !self.last(u), [0, 0]), 0);
    }

    #[inline(always)]
    fn begin(&self, u: u32, some: bool, out: &mut Out<'_>) -> Option<EdgesFrom> {
        let u = u64::from(u);
        out.push(load(csr_pc::OFFSET, self.offsets.at(u), 8, 0, 0), 0);
        out.push(load(csr_pc::NEXT_OFFSET, self.offsets.at(u + 1), 8, 0, 0), 1);
        // lea; lea; pxor; without edges pxor; jmp, and no mulss at the end
        out.push(branch(csr_pc::NO_EDGES, csr_pc::NONE, !some, [1, 2]), if some { 3 } else { 1 });
        Some(EdgesFrom { object: 3, begin: 3, end: 2 })
    }

    #[inline(always)]
    fn pull(&self, _u: u32, edge: StoredEdge, out: &mut Out<'_>) {
        out.push(load(csr_pc::NEIGHBOUR, self.neighbours.at(edge.index), 4, 0, edge.begin_from), 1);
        out.push(load(csr_pc::PULL, self.contribution.at(u64::from(edge.to)), 4, 0, 1), 1);
        edge.end((csr_pc::EDGE_LOOP, csr_pc::NEIGHBOUR), 2, None, out);
    }

    #[inline(always)]
    fn end(&self, u: u32, _object_from: u16, out: &mut Out<'_>) {
        let score = self.score.at(u64::from(u));
        // mulss; addss
        out.gap += 2;
        out.push(load(csr_pc::OLD_SCORE, score, 4, 0, 0), 0);
        // subss; add; andps; cvtss2sd; addsd; cmp; jne
        out.push(store(csr_pc::NEW_SCORE, score, 4, 0, 0), 6);
        out.push(branch(csr_pc::VERTEX_LOOP, csr_pc::OFFSET, !self.last(u64::from(u)), [0, 0]), 0);
    }
}

/// A property graph.
struct Objects {
    graph: PropertyGraph,
}

/// Code addresses of the compiled iteration over objects.
mod property_pc {
    use crate::layout::TEXT;
    pub const RESET: u64 = TEXT + 0x660;
    pub const RESET_SCORE: u64 = TEXT + 0x668;
    pub const RESET_NEXT: u64 = TEXT + 0x66d;
    pub const OBJECT: u64 = TEXT + 0x698;
    pub const BEGIN: u64 = TEXT + 0x6a0;
    pub const END: u64 = TEXT + 0x6a4;
    pub const NO_EDGES: u64 = TEXT + 0x6af;
    pub const TARGET: u64 = TEXT + 0x6b8;
    pub const NEIGHBOUR: u64 = TEXT + 0x6bf;
    pub const PULL: u64 = TEXT + 0x6c3;
    pub const EDGE_LOOP: u64 = TEXT + 0x6cb;
    pub const NONE: u64 = TEXT + 0x6d1;
    pub const OLD_SCORE: u64 = TEXT + 0x6d5;
    pub const NEW_SCORE: u64 = TEXT + 0x6da;
    pub const NEXT: u64 = TEXT + 0x6ed;
    pub const CONTRIBUTOR: u64 = TEXT + 0x718;
    pub const DEGREE_END: u64 = TEXT + 0x720;
    pub const DEGREE_BEGIN: u64 = TEXT + 0x724;
    pub const DEGREE_SIGN: u64 = TEXT + 0x733;
    pub const SCORE: u64 = TEXT + 0x73e;
    pub const CONTRIBUTE: u64 = TEXT + 0x747;
    pub const CONTRIBUTE_NEXT: u64 = TEXT + 0x74c;
}

impl Objects {
    /// Loads the pointer to `u`'s object and goes on at `next` if there is none; returns whether there is one. In the
    /// list of vertices the loop has loaded it before.
    #[inline(always)]
    fn object(&self, pc: u64, next: u64, u: u32, out: &mut Out<'_>) -> bool {
        let Storage::Vectors { index, .. } = self.graph.storage() else { return true };
        // test; je
        out.push(load(pc, index.at(u64::from(u)), 8, 0, 0), 1);
        let there = self.graph.places[u as usize].object != 0;
        out.push(branch(pc + 6, next, !there, [1, 0]), 0);
        there
    }

    /// At `pc`, goes on to the next vertex: lea; cmp; je; then `again` instructions. In the list, whose pointer to `u`
    /// was loaded `object_from` records before: mov (node),node; cmp; jne.
    #[inline(always)]
    fn next(&self, pc: u64, u: u32, again: u32, object_from: u16, out: &mut Out<'_>) {
        let last = u as usize + 1 == self.graph.places.len();
        if self.graph.linked().is_some() {
            out.push(load(pc, self.graph.next_vertex(u), 8, 0, object_from), 1);
            out.push(branch(pc + 4, pc - 32, !last, [1, 0]), 0);
            return;
        }
        out.gap += 2;
        out.push(branch(pc + 7, pc + 32, last, [0, 0]), if last { 0 } else { again });
    }
}

impl Steps for Objects {
    const MOST: usize = 4 + MOST_TO_FIND;

    #[inline(always)]
    fn prefetch_sim_host(&self, v: u32) {
        prefetch_sim_host(&self.graph.places[v as usize]);
    }

    #[inline(always)]
    fn reset(&self, u: u32, out: &mut Out<'_>) {
        if self.object(property_pc::RESET, property_pc::RESET_NEXT, u, out) {
            out.push(store(property_pc::RESET_SCORE, self.graph.field(u, vertex_field::SCORE), 8, 0, 2), 0);
        }
        self.next(property_pc::RESET_NEXT, u, 1, 3, out);
    }

    #[inline(always)]
    fn contribute(&self, u: u32, out: &mut Out<'_>) {
        if self.object(property_pc::CONTRIBUTOR, property_pc::CONTRIBUTE_NEXT, u, out) {
            let field = |field| self.graph.field(u, field);
            // test; jns (an unsigned degree becomes a number); pxor; cvtsi2sd; a vector's also needs sar; imul
            let loads = if self.graph.linked().is_some() {
                out.push(load(property_pc::DEGREE_BEGIN, field(vertex_field::EDGES_END), 8, 0, 2), 1);
                1
            } else {
                out.push(load(property_pc::DEGREE_END, field(vertex_field::EDGES_END), 8, 0, 2), 0);
                out.push(load(property_pc::DEGREE_BEGIN, field(vertex_field::EDGES_BEGIN), 8, 0, 3), 3);
                2
            };
            out.push(branch(property_pc::DEGREE_SIGN, property_pc::SCORE, true, [1, loads]), 2);
            // divsd
            out.push(load(property_pc::SCORE, field(vertex_field::SCORE), 8, 0, 3 + loads), 1);
            out.push(store(property_pc::CONTRIBUTE, field(vertex_field::CONTRIBUTION), 8, 0, 4 + loads), 0);
        }
        self.next(property_pc::CONTRIBUTE_NEXT, u, 1, 6, out);
    }

    #[inline(always)]
    fn begin(&self, u: u32, some: bool, out: &mut Out<'_>) -> Option<EdgesFrom> {
        if !self.object(property_pc::OBJECT, property_pc::NEXT, u, out) {
            self.next(property_pc::NEXT, u, 2, 0, out);
            return None;
        }
        if self.graph.linked().is_some() {
            // lea (a list ends at its head); pxor; cmp; je
            out.push(load(property_pc::BEGIN, self.graph.field(u, vertex_field::EDGES_BEGIN), 8, 0, 2), 3);
            out.push(branch(property_pc::NO_EDGES, property_pc::NONE, !some, [1, 0]), 0);
            return Some(EdgesFrom { object: 4, begin: 2, end: 2 });
        }
        out.push(load(property_pc::BEGIN, self.graph.field(u, vertex_field::EDGES_BEGIN), 8, 0, 2), 0);
        // pxor; cmp; je
        out.push(load(property_pc::END, self.graph.field(u, vertex_field::EDGES_END), 8, 0, 3), 2);
        out.push(branch(property_pc::NO_EDGES, property_pc::NONE, !some, [1, 2]), 0);
        Some(EdgesFrom { object: 5, begin: 3, end: 2 })
    }

    #[inline(always)]
    fn pull(&self, u: u32, edge: StoredEdge, out: &mut Out<'_>) {
        let object = self.graph.places[edge.to as usize].object;
        let lists = self.graph.linked();
        let from = edge.pointer_from(lists.is_some());
        // add and cmp of a vector's loop
        let one = u32::from(lists.is_none());
        out.push(load(property_pc::TARGET, self.graph.edge(u, edge.k), 8, 0, from), one);
        let found_in = find(&self.graph, property_pc::NEIGHBOUR, edge.to, 1, out);
        out.push(load(property_pc::PULL, VirtAddr(object + vertex_field::CONTRIBUTION), 8, 0, 1), one);
        let next = lists.map(|lists| lists.next(u, edge.k));
        edge.end((property_pc::EDGE_LOOP, property_pc::TARGET), 2 + found_in, next, out);
    }

    #[inline(always)]
    fn end(&self, u: u32, object_from: u16, out: &mut Out<'_>) {
        let score = self.graph.field(u, vertex_field::SCORE);
        // mulsd; addsd
        out.gap += 2;
        out.push(load(property_pc::OLD_SCORE, score, 8, 0, object_from), 0);
        let object_from = if object_from == 0 { 0 } else { object_from.saturating_add(1) };
        // subsd; andpd; addsd; then lea; cmp; je; mov; jmp
        out.push(store(property_pc::NEW_SCORE, score, 8, 0, object_from), 3);
        let object_from = if object_from == 0 { 0 } else { object_from.saturating_add(1) };
        self.next(property_pc::NEXT, u, 2, object_from, out);
    }
}

/// The iteration's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// About to compute the contributions with which the region begins: only a program that runs needs them.
    First,
    /// Writing first scores, from this vertex on.
    Reset(u32),
    /// Computing contributions, from this vertex on.
    Contribute(u32),
    /// Pulling for this vertex, about to find its edges; all vertices are done if there is none.
    Begin(u32),
    /// Pulling for this vertex, from this stored edge on.
    Pull(u32, u64),
}

/// Scores of a computed graph that are in memory: only contributions are read in random order.
const SCORES_AT_HAND: usize = 1 << 20;

/// The running benchmark.
struct PageRank<S> {
    graph: Arc<Graph>,
    steps: S,
    damping: f32,
    tolerance: f64,
    max_iterations: u32,
    score: Scratch,
    contribution: Vec<f32>,
    phase: Phase,
    gap: u32,
    /// Sum of contributions of the current vertex so far.
    sum: f32,
    /// Sum of the scores' changes in this iteration.
    moved: f64,
    iterations: u32,
    walk: EdgeWalk,
}

impl<S: Steps> PageRank<S> {
    fn new(spec: &PageRankSpec, graph: Arc<Graph>, steps: S) -> PageRank<S> {
        let vertices = graph.vertices() as usize;
        // The region begins with the first pulls: all scores are equal, and contributions follow from them.
        let equal = 1.0 / vertices as f32;
        let score = if graph.is_computed() {
            Scratch::in_file(vertices, equal, SCORES_AT_HAND)
        } else {
            Scratch::in_memory(vertices, equal)
        };
        PageRank {
            graph,
            steps,
            damping: spec.damping,
            tolerance: spec.tolerance,
            max_iterations: spec.max_iterations,
            score,
            contribution: Vec::new(),
            phase: Phase::First,
            gap: 0,
            sum: 0.0,
            moved: 0.0,
            iterations: 0,
            walk: EdgeWalk::default(),
        }
    }

    fn vertices(&self) -> u32 {
        self.graph.vertices() as u32
    }

    /// The end of the segment of vertices from `u` on whose records, up to `most` each, the batch has room
    /// for.
    fn segment_end(&self, u: u32, most: usize, out: &Out<'_>) -> u32 {
        self.vertices().min(u.saturating_add(out.room(most) as u32))
    }

    /// Pulls along the edges of `u` from stored edge `edge` on, as far as the batch has room.
    #[inline(always)]
    fn pull(&mut self, u: u32, edge: u64, out: &mut Out<'_>) {
        let PageRank { graph, steps, walk, contribution, .. } = self;
        let mut sum = self.sum;
        let (stop, done) = walk.go(
            (graph, u),
            edge,
            S::MOST,
            out,
            |soon| {
                steps.prefetch_sim_host(soon);
                prefetch_sim_host(&contribution[soon as usize]);
            },
            |edge, out| {
                sum += contribution[edge.to as usize];
                steps.pull(u, edge, out);
            },
        );
        self.sum = sum;
        self.phase = Phase::Pull(u, stop);
        if done {
            let base = (1.0 - self.damping) / self.score.len() as f32;
            let score = base + self.damping * self.sum;
            let before = std::mem::replace(self.score.at(u as usize), score);
            self.moved += f64::from((score - before).abs());
            self.steps.end(u, self.walk.object_from(), out);
            self.phase = Phase::Begin(u + 1);
        }
    }

    fn step(&mut self, out: &mut Out<'_>) {
        match self.phase {
            Phase::First => {
                let equal = 1.0 / self.score.len() as f32;
                self.contribution = (0..self.vertices()).map(|u| equal / self.graph.degree(u) as f32).collect();
                self.phase = Phase::Begin(0);
            }
            Phase::Reset(from) => {
                let end = self.segment_end(from, 4, out);
                for u in from..end {
                    self.steps.reset(u, out);
                }
                self.phase = Phase::Reset(end);
                if end == self.vertices() {
                    let equal = 1.0 / self.score.len() as f32;
                    self.score.fill(equal);
                    self.iterations = 0;
                    self.phase = Phase::Contribute(0);
                }
            }
            Phase::Contribute(from) => {
                let end = self.segment_end(from, 8, out);
                for u in from..end {
                    self.contribution[u as usize] = *self.score.at(u as usize) / self.graph.degree(u) as f32;
                    self.steps.contribute(u, out);
                }
                self.phase = Phase::Contribute(end);
                if end == self.vertices() {
                    self.moved = 0.0;
                    self.phase = Phase::Begin(0);
                }
            }
            Phase::Begin(u) if u == self.vertices() => {
                self.iterations += 1;
                let done = self.moved < self.tolerance || self.iterations == self.max_iterations;
                self.phase = if done { Phase::Reset(0) } else { Phase::Contribute(0) };
            }
            Phase::Begin(u) => match self.steps.begin(u, self.graph.degree(u) > 0, out) {
                Some(from) => {
                    self.walk = EdgeWalk::new(from);
                    self.sum = 0.0;
                    self.phase = Phase::Pull(u, self.graph.offset(u));
                    self.pull(u, self.graph.offset(u), out);
                }
                None => self.phase = Phase::Begin(u + 1),
            },
            Phase::Pull(u, edge) => self.pull(u, edge, out),
        }
    }
}

impl<S: Steps> Benchmark for PageRank<S> {
    fn run(&mut self, records: &mut Vec<Record>) {
        self.gap = Out::fill(records, self.gap, |out| self.step(out));
    }

    fn failure(&mut self) -> Option<String> {
        self.score.failure()
    }
}

#[cfg(test)]
mod tests;
