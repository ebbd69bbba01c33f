//! PageRank: power iterations over a Kronecker graph, pulling from neighbours.
//!
//! Stands for sparse matrix times vector, the most common source of random reads: each vertex reads its
//! neighbours in order and one scattered number of each. Nothing branches on data.
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
//! property   mov (%rax),%rdx; add; mov (index,%rdx,8),%rdx; addsd 48(%rdx),%xmm1; cmp; jne
//! ```

use super::edges::{EdgeWalk, StoredEdge};
use super::{Benchmark, BenchmarkSource, BenchmarkSpec, Out, ProgramInfo, identity, load, store};
use crate::graph::{Graph, GraphChoice, GraphNeeds, Placed, PropertyGraph, graph_settings, vertex_field};
use crate::layout::{AddressSpace, Array};
use ambulator_base::{Invalid, Record, RecordSource, VirtAddr, VmEvent, prefetch_sim_host};
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
        self.choice_for(GraphNeeds { csr_arrays: 8, property_arrays: 0, sim_host_bytes: 8 })
    }
}

impl BenchmarkSpec for PageRankSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "pagerank",
        about: "power iterations of PageRank over a Kronecker graph",
        stands_for: "GAP and GraphBIG PageRank: sparse matrix times vector",
        default_footprint: 1 << 30,
    };

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

    fn source(&self) -> Box<dyn RecordSource> {
        let mut space = AddressSpace::new();
        let (graph, placed) = self.choice().build(&mut space);
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
        let setup: Vec<VmEvent> = space.take_events();
        BenchmarkSource::boxed(identity("pagerank", self, &facts, footprint), Box::new(setup.into_iter()), benchmark)
    }
}

/// The steps of an iteration in one layout; each appends the step's records.
trait Steps: Send {
    /// The most records of one step.
    const MOST: usize;

    /// Resets vertex `u`'s score when the iterations start over.
    fn reset(&self, u: u32, out: &mut Out<'_>);
    /// `contribution[u] = score[u] / degree`.
    fn contribute(&self, u: u32, out: &mut Out<'_>);
    /// Finds `u`'s edges. Returns the distances in records from the next one back to the loads of its object
    /// and of its first edge, or `None` if the program skips the vertex.
    fn begin(&self, u: u32, out: &mut Out<'_>) -> Option<(u32, u32)>;
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
    pub const OFFSET: u64 = TEXT + 0x540;
    pub const NEXT_OFFSET: u64 = TEXT + 0x544;
    pub const NEIGHBOUR: u64 = TEXT + 0x560;
    pub const PULL: u64 = TEXT + 0x567;
    pub const OLD_SCORE: u64 = TEXT + 0x579;
    pub const NEW_SCORE: u64 = TEXT + 0x57f;
    pub const DEGREE_END: u64 = TEXT + 0x5c0;
    pub const DEGREE_BEGIN: u64 = TEXT + 0x5c9;
    pub const SCORE: u64 = TEXT + 0x5d2;
    pub const CONTRIBUTE: u64 = TEXT + 0x5db;
}

impl Steps for Arrays {
    const MOST: usize = 2;

    #[inline(always)]
    fn reset(&self, u: u32, out: &mut Out<'_>) {
        // movups of four scores; add; cmp; jne
        if u.is_multiple_of(4) {
            out.push(store(csr_pc::RESET, self.score.at(u64::from(u)), 16, 0, 0), 3);
        }
    }

    #[inline(always)]
    fn contribute(&self, u: u32, out: &mut Out<'_>) {
        let u = u64::from(u);
        out.push(load(csr_pc::DEGREE_END, self.offsets.at(u + 1), 8, 0, 0), 1);
        out.push(load(csr_pc::DEGREE_BEGIN, self.offsets.at(u), 8, 0, 0), 1);
        out.push(load(csr_pc::SCORE, self.score.at(u), 4, 0, 0), 1);
        out.push(store(csr_pc::CONTRIBUTE, self.contribution.at(u), 4, 0, 0), 3);
    }

    #[inline(always)]
    fn begin(&self, u: u32, out: &mut Out<'_>) -> Option<(u32, u32)> {
        let u = u64::from(u);
        out.push(load(csr_pc::OFFSET, self.offsets.at(u), 8, 0, 0), 0);
        // cmp; jge; lea; lea; pxor
        out.push(load(csr_pc::NEXT_OFFSET, self.offsets.at(u + 1), 8, 0, 0), 5);
        Some((2, 2))
    }

    #[inline(always)]
    fn pull(&self, _u: u32, edge: StoredEdge, out: &mut Out<'_>) {
        out.push(load(csr_pc::NEIGHBOUR, self.neighbours.at(edge.index), 4, 0, edge.edges_from), 1);
        out.push(load(csr_pc::PULL, self.contribution.at(u64::from(edge.to)), 4, 0, 1), 2);
    }

    #[inline(always)]
    fn end(&self, u: u32, _object_from: u16, out: &mut Out<'_>) {
        let score = self.score.at(u64::from(u));
        // mulss; addss
        out.gap += 2;
        out.push(load(csr_pc::OLD_SCORE, score, 4, 0, 0), 0);
        // subss; add; andps; cvtss2sd; addsd; cmp; jne
        out.push(store(csr_pc::NEW_SCORE, score, 4, 0, 0), 7);
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
    pub const OBJECT: u64 = TEXT + 0x698;
    pub const BEGIN: u64 = TEXT + 0x6a0;
    pub const END: u64 = TEXT + 0x6a4;
    pub const TARGET: u64 = TEXT + 0x6b8;
    pub const NEIGHBOUR: u64 = TEXT + 0x6bf;
    pub const PULL: u64 = TEXT + 0x6c3;
    pub const OLD_SCORE: u64 = TEXT + 0x6d5;
    pub const NEW_SCORE: u64 = TEXT + 0x6da;
    pub const CONTRIBUTOR: u64 = TEXT + 0x718;
    pub const DEGREE_END: u64 = TEXT + 0x720;
    pub const DEGREE_BEGIN: u64 = TEXT + 0x724;
    pub const SCORE: u64 = TEXT + 0x730;
    pub const CONTRIBUTE: u64 = TEXT + 0x742;
}

impl Objects {
    /// Loads the pointer to `u`'s object and tests it; false if there is none.
    #[inline(always)]
    fn object(&self, pc: u64, u: u32, out: &mut Out<'_>) -> bool {
        // test; je
        out.push(load(pc, self.graph.index.at(u64::from(u)), 8, 0, 0), 2);
        let there = self.graph.places[u as usize].object != 0;
        if !there {
            // add; cmp; jne
            out.gap += 3;
        }
        there
    }
}

impl Steps for Objects {
    const MOST: usize = 3;

    #[inline(always)]
    fn prefetch_sim_host(&self, v: u32) {
        prefetch_sim_host(&self.graph.places[v as usize]);
    }

    #[inline(always)]
    fn reset(&self, u: u32, out: &mut Out<'_>) {
        if self.object(property_pc::RESET, u, out) {
            out.push(store(property_pc::RESET + 8, self.graph.field(u, vertex_field::SCORE), 8, 0, 1), 3);
        }
    }

    #[inline(always)]
    fn contribute(&self, u: u32, out: &mut Out<'_>) {
        if self.object(property_pc::CONTRIBUTOR, u, out) {
            let field = |field| self.graph.field(u, field);
            out.push(load(property_pc::DEGREE_END, field(vertex_field::EDGES_END), 8, 0, 1), 0);
            // pxor; sar
            out.push(load(property_pc::DEGREE_BEGIN, field(vertex_field::EDGES_BEGIN), 8, 0, 2), 2);
            // imul; cvtsi2sd; divsd
            out.push(load(property_pc::SCORE, field(vertex_field::SCORE), 8, 0, 3), 3);
            out.push(store(property_pc::CONTRIBUTE, field(vertex_field::CONTRIBUTION), 8, 0, 4), 3);
        }
    }

    #[inline(always)]
    fn begin(&self, u: u32, out: &mut Out<'_>) -> Option<(u32, u32)> {
        if !self.object(property_pc::OBJECT, u, out) {
            return None;
        }
        out.push(load(property_pc::BEGIN, self.graph.field(u, vertex_field::EDGES_BEGIN), 8, 0, 1), 0);
        // pxor; cmp; je
        out.push(load(property_pc::END, self.graph.field(u, vertex_field::EDGES_END), 8, 0, 2), 3);
        Some((3, 2))
    }

    #[inline(always)]
    fn pull(&self, u: u32, edge: StoredEdge, out: &mut Out<'_>) {
        let object = self.graph.places[edge.to as usize].object;
        out.push(
            load(property_pc::TARGET, self.graph.edge(u, edge.k), 8, 0, edge.pointer_from(self.graph.is_linked())),
            1,
        );
        out.push(load(property_pc::NEIGHBOUR, self.graph.index.at(u64::from(edge.to)), 8, 0, 1), 0);
        out.push(load(property_pc::PULL, VirtAddr(object + vertex_field::CONTRIBUTION), 8, 0, 1), 2);
    }

    #[inline(always)]
    fn end(&self, u: u32, object_from: u16, out: &mut Out<'_>) {
        let score = self.graph.field(u, vertex_field::SCORE);
        // mulsd; addsd
        out.gap += 2;
        out.push(load(property_pc::OLD_SCORE, score, 8, 0, object_from), 0);
        let object_from = if object_from == 0 { 0 } else { object_from.saturating_add(1) };
        // subsd; andpd; addsd; add; cmp; jne
        out.push(store(property_pc::NEW_SCORE, score, 8, 0, object_from), 6);
    }
}

/// The iteration's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Writing first scores, from this vertex on.
    Reset(u32),
    /// Computing contributions, from this vertex on.
    Contribute(u32),
    /// Pulling for this vertex, about to find its edges; all vertices are done if there is none.
    Begin(u32),
    /// Pulling for this vertex, from this stored edge on.
    Pull(u32, u64),
}

/// The running benchmark.
struct PageRank<S> {
    graph: Arc<Graph>,
    steps: S,
    damping: f32,
    tolerance: f64,
    max_iterations: u32,
    score: Vec<f32>,
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
        let contribution = (0..vertices as u32).map(|u| equal / graph.degree(u) as f32).collect();
        PageRank {
            graph,
            steps,
            damping: spec.damping,
            tolerance: spec.tolerance,
            max_iterations: spec.max_iterations,
            score: vec![equal; vertices],
            contribution,
            phase: Phase::Begin(0),
            gap: 0,
            sum: 0.0,
            moved: 0.0,
            iterations: 0,
            walk: EdgeWalk::default(),
        }
    }

    fn vertices(&self) -> u32 {
        self.score.len() as u32
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
            self.moved += f64::from((score - self.score[u as usize]).abs());
            self.score[u as usize] = score;
            self.steps.end(u, self.walk.object_from(), out);
            self.phase = Phase::Begin(u + 1);
        }
    }

    fn step(&mut self, out: &mut Out<'_>) {
        match self.phase {
            Phase::Reset(from) => {
                let end = self.segment_end(from, 2, out);
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
                let end = self.segment_end(from, 5, out);
                for u in from..end {
                    self.contribution[u as usize] = self.score[u as usize] / self.graph.degree(u) as f32;
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
            Phase::Begin(u) => match self.steps.begin(u, out) {
                Some(from) => {
                    self.walk = EdgeWalk::new(from);
                    self.sum = 0.0;
                    self.phase = Phase::Pull(u, u64::from(self.graph.offsets[u as usize]));
                    self.pull(u, u64::from(self.graph.offsets[u as usize]), out);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphSpec, PropertySpec};

    fn graph() -> Arc<Graph> {
        Graph::shared(&GraphSpec::default(), 600, 21)
    }

    fn objects(graph: &Graph) -> Objects {
        let mut space = AddressSpace::new();
        let spec = GraphSpec::default();
        Objects { graph: PropertyGraph::build(&PropertySpec::default(), &spec, graph, 21, &mut space) }
    }

    fn arrays(graph: &Graph) -> Arrays {
        let mut space = AddressSpace::new();
        let mut array = |element, len| space.allocate_array(element, len);
        Arrays {
            offsets: array(8, graph.vertices() + 1),
            neighbours: array(4, graph.edges()),
            score: array(4, graph.vertices()),
            contribution: array(4, graph.vertices()),
        }
    }

    /// Runs until the iterations have converged once and returns the records.
    fn converge<S: Steps>(benchmark: &mut PageRank<S>) -> Vec<Record> {
        let mut all = Vec::new();
        let mut batch = Vec::new();
        loop {
            let mut out = Out { records: &mut batch, gap: benchmark.gap };
            benchmark.step(&mut out);
            benchmark.gap = out.gap;
            all.append(&mut batch);
            if benchmark.iterations > 0 && benchmark.phase == Phase::Reset(0) {
                return all;
            }
        }
    }

    /// Power iteration with the dense matrix, in double precision.
    fn dense(graph: &Graph, iterations: u32) -> Vec<f64> {
        let n = graph.vertices() as usize;
        let mut matrix = vec![0.0; n * n];
        for u in 0..n {
            for &v in graph.neighbours_of(u as u32) {
                matrix[u * n + v as usize] += 0.85 / f64::from(graph.degree(v));
            }
        }
        let mut score = vec![1.0 / n as f64; n];
        for _ in 0..iterations {
            score =
                (0..n).map(|u| 0.15 / n as f64 + (0..n).map(|v| matrix[u * n + v] * score[v]).sum::<f64>()).collect();
        }
        score
    }

    fn check_scores<S: Steps>(steps: S) {
        let graph = graph();
        let spec = PageRankSpec { tolerance: 0.0, max_iterations: 12, ..PageRankSpec::default() };
        let mut benchmark = PageRank::new(&spec, graph.clone(), steps);
        converge(&mut benchmark);
        assert_eq!(benchmark.iterations, 12);
        let connected = (0..600).filter(|&u| graph.degree(u) > 0);
        for (u, expected) in connected.map(|u| (u, dense(&graph, 12)[u as usize])).take(40) {
            let score = f64::from(benchmark.score[u as usize]);
            assert!((score - expected).abs() < 1e-5 * expected.max(0.01), "vertex {u}: {score} instead of {expected}");
        }
    }

    #[test]
    fn scores_are_those_of_a_dense_power_iteration() {
        check_scores(arrays(&graph()));
        check_scores(objects(&graph()));
    }

    #[test]
    fn it_stops_when_it_has_converged_and_starts_over_the_same() {
        let graph = graph();
        let mut benchmark = PageRank::new(&PageRankSpec::default(), graph.clone(), arrays(&graph));
        let first = converge(&mut benchmark);
        let iterations = benchmark.iterations;
        assert!((3..20).contains(&iterations), "{iterations} iterations");
        benchmark.iterations = 0;
        let second = converge(&mut benchmark);
        assert_eq!(benchmark.iterations, iterations);
        // Later rounds first set scores and contributions, which was set-up before the first.
        let more = second.len() - first.len();
        assert!(second[..more].iter().all(|r| r.pc.0 != csr_pc::PULL));
        assert_eq!(first[1..], second[more + 1..]);
        let pulls = first.iter().filter(|r| r.pc.0 == csr_pc::PULL).count() as u64;
        assert_eq!(pulls, u64::from(iterations) * graph.edges());
    }

    #[test]
    fn each_pull_reads_the_neighbour_that_it_has_just_loaded() {
        let graph = graph();
        let o = objects(&graph);
        let mut benchmark =
            PageRank::new(&PageRankSpec { max_iterations: 1, ..Default::default() }, graph.clone(), objects(&graph));
        let records = converge(&mut benchmark);
        let mut expected =
            (0..600).flat_map(|u| graph.neighbours_of(u).iter().enumerate().map(move |(k, &v)| (u, k, v)));
        for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::TARGET) {
            let (u, k, v) = expected.next().unwrap();
            assert_eq!((r.va, records[i - usize::from(r.dep1)].pc.0), (o.graph.edge(u, k as u64), property_pc::BEGIN));
            let (neighbour, pull) = (&records[i + 1], &records[i + 2]);
            assert_eq!((neighbour.va, neighbour.dep1, neighbour.gap), (o.graph.index.at(u64::from(v)), 1, 1));
            assert_eq!((pull.va, pull.dep1, pull.gap), (o.graph.field(v, vertex_field::CONTRIBUTION), 1, 0));
        }
        assert_eq!(expected.next(), None);
        for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::NEW_SCORE) {
            assert_eq!(records[i - usize::from(r.dep1)].pc.0, property_pc::OBJECT);
        }
    }
}
