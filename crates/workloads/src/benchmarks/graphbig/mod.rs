//! The graph programs of GraphBIG (Nai et al., SC 2015), in its property-graph layout or in compressed sparse
//! rows.
//!
//! Each algorithm has its own file, written once over `View`; BFS and PageRank are benchmarks next to this
//! folder. The compiled loops are those of gcc 12 -O2 for the property layout (`std::vector` of 24-byte
//! edges, properties in the vertex object); rows have the same loops with arrays instead of objects. Programs
//! with several threads divide the vertices statically, as `#pragma omp parallel for` does.

mod bc;
mod cc;
mod dc;
mod dfs;
mod gc;
mod priority_queue;
mod sssp;
mod tc;

pub use bc::Bc;
pub use cc::Cc;
pub use dc::Dc;
pub use dfs::Dfs;
pub use gc::Gc;
pub use sssp::Sssp;
pub use tc::Tc;

use super::execution::{Execution, Program, ProgramSource};
use super::{BenchmarkSpec, Counts, Density, ProgramInfo, identity};
use crate::graph::{
    Built, Graph, GraphChoice, GraphNeeds, Objects, Placed, PropertyGraph, Rows, Starts, View, graph_settings,
};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, RecordSource, mix64};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// An algorithm over a graph.
pub trait Algorithm: Clone + Debug + PartialEq + Default + Send + Sync + 'static {
    /// Its description.
    const INFO: ProgramInfo;
    /// Properties of a vertex that it uses, 8 bytes each.
    const FIELDS: usize;
    /// Bytes of its other arrays for each vertex.
    const ARRAYS: u64;
    /// Bytes of the simulator's memory for each vertex while it runs.
    const SIM_HOST_BYTES: u64;
    /// The same beside a graph that is computed instead of stored.
    const STREAMING_HOST_BYTES: u64 = Self::SIM_HOST_BYTES;
    /// Edges have weights.
    const WEIGHTS: bool = false;
    /// Neighbours lie in ascending order.
    const SORTED: bool = false;
    /// What the compiled program executes for each unit of its work.
    const DENSITIES: &[Density] = &[];
    /// Its result.
    type Output;

    /// Runs it: set-up, region of interest, result.
    #[doc(hidden)]
    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Self::Output;
}

/// An algorithm's run-time parameters.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Seed of the roots.
    pub seed: u64,
    /// Threads that divide the vertices.
    pub threads: u32,
}

graph_settings! {
    /// Settings of a graph program.
    #[serde(bound = "")]
    #[schemars(bound = "")]
    pub struct GraphBigSpec<A: Algorithm> {
        /// Threads that divide the vertices, 1 to 64.
        #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "GraphBIG: OpenMP"))]
        pub threads: u32 = 1,
        #[serde(skip)]
        algorithm: PhantomData<A> = PhantomData,
    }
}

impl<A: Algorithm> GraphBigSpec<A> {
    fn choice(&self) -> GraphChoice<'_> {
        // Each undirected edge is stored twice, in rows each with a weight of 4 bytes.
        let weights = if A::WEIGHTS { 2 * u64::from(self.graph.edge_factor) * WEIGHT_BYTES } else { 0 };
        let copy = if A::SORTED { 4 + 2 * u64::from(self.graph.edge_factor) * 4 } else { 0 };
        self.choice_for(GraphNeeds {
            csr_arrays: 8 * A::FIELDS as u64 + A::ARRAYS + weights,
            property_arrays: A::ARRAYS,
            sim_host_bytes: A::SIM_HOST_BYTES + copy,
            streaming_host_bytes: A::STREAMING_HOST_BYTES,
            can_stream: !A::SORTED,
        })
    }

    fn build(&self) -> (GraphProgram<A>, AddressSpace) {
        let Built { graph, placed, mut space } = self.choice().build();
        let graph = if A::SORTED { Arc::new(graph.sorted()) } else { graph };
        let mut bytes = placed.footprint() + A::ARRAYS * graph.vertices();
        let place = match placed {
            Placed::Property(property) => Place::Property(property),
            Placed::Csr { offsets, neighbours } => {
                let mut array = |element, len| {
                    let array = space.filled_array(element, len);
                    bytes += array.bytes();
                    array
                };
                let weights = A::WEIGHTS.then(|| array(WEIGHT_BYTES, neighbours.len));
                let fields = (0..A::FIELDS).map(|_| array(8, graph.vertices())).collect();
                Place::Rows { offsets, neighbours, weights, fields }
            }
        };
        let how = How { seed: self.seed, threads: self.threads };
        (GraphProgram { graph, place, how, bytes, algorithm: PhantomData }, space)
    }
}

const WEIGHT_BYTES: u64 = 4;

impl<A: Algorithm> BenchmarkSpec for GraphBigSpec<A> {
    const INFO: ProgramInfo = A::INFO;
    const DENSITIES: &[Density] = A::DENSITIES;

    fn validate(&self, at: &str) -> Vec<Invalid> {
        self.choice().validate(at)
    }

    fn sim_host_bytes(&self) -> Option<u64> {
        Some(self.choice().sim_host_bytes())
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let (program, space) = self.build();
        let facts = program.graph.facts();
        ProgramSource::boxed(identity(A::INFO.name, self, &facts, program.bytes), space, program)
    }
}

/// A graph in its address space, and the algorithm to run.
struct GraphProgram<A> {
    graph: Arc<Graph>,
    place: Place,
    how: How,
    /// Bytes in the address space.
    bytes: u64,
    algorithm: PhantomData<A>,
}

enum Place {
    Rows { offsets: Array, neighbours: Array, weights: Option<Array>, fields: Vec<Array> },
    Property(PropertyGraph),
}

impl<A: Algorithm> GraphProgram<A> {
    fn compute(self, on: &mut Execution) -> A::Output {
        let GraphProgram { graph, place, how, .. } = self;
        match place {
            Place::Property(property) => A::run(&graph, &Objects::new(property), &how, on),
            Place::Rows { offsets, neighbours, weights, fields } => {
                A::run(&graph, &Rows { starts: Starts::new(&graph), offsets, neighbours, weights, fields }, &how, on)
            }
        }
    }
}

impl<A: Algorithm> Program for GraphProgram<A> {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.compute(on);
    }
}

/// The `n`-th address of the algorithms' code; 8 bytes apart.
const fn site(n: u64) -> u64 {
    TEXT + 0x400 + 8 * n
}

/// Iterations that a thread runs before the next one does.
const QUANTUM: u64 = 64;

/// `#pragma omp parallel for schedule(static)`: each thread has an equal contiguous share of `0..n`.
fn parallel(on: &mut Execution, threads: u32, n: u64, mut body: impl FnMut(&mut Execution, u64)) {
    if threads == 1 {
        (0..n).for_each(|i| body(on, i));
        return;
    }
    let threads = u64::from(threads);
    let mut next: Vec<u64> = (0..threads).map(|t| t * n / threads).collect();
    let mut left = threads;
    while left > 0 {
        left = 0;
        for t in 0..threads {
            let end = (t + 1) * n / threads;
            let from = next[t as usize];
            let to = (from + QUANTUM).min(end);
            if from < to {
                on.thread(t as u32);
                (from..to).for_each(|i| body(on, i));
            }
            next[t as usize] = to;
            left += u64::from(to < end);
        }
    }
    on.thread(0);
}

/// The weight of an edge, 1 to 255, the same in both directions.
fn weight_of(u: u32, v: u32) -> u64 {
    1 + mix64(u64::from(u.min(v)) << 32 | u64::from(u.max(v))) % 255
}

/// Vertices with edges, in a random order given by the seed: roots of searches.
fn roots(graph: &Graph, seed: u64) -> impl Iterator<Item = u32> + '_ {
    let order = crate::Permutation::new(graph.vertices(), seed, "roots");
    (0..graph.vertices()).map(move |i| order.of(i) as u32).filter(|&u| graph.degree(u) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;
    use crate::graph::{GraphLayout, GraphSpec, GraphStorage};
    use ambulator_base::{Batch, RecordKind};

    /// Runs an algorithm on small graphs in all layouts and on computed ones, with one thread and with three; the
    /// results are the same.
    pub fn on_small_graphs<A: Algorithm>(mut check: impl FnMut(&Graph, A::Output, &[Batch])) {
        use GraphStorage::{Memory, Streaming};
        let all = [
            (GraphLayout::Property, Memory),
            (GraphLayout::Linked, Memory),
            (GraphLayout::Csr, Memory),
            (GraphLayout::Csr, Streaming),
        ];
        for (layout, storage) in all.into_iter().filter(|(_, storage)| !A::SORTED || *storage == Memory) {
            for (vertices, edge_factor, seed) in [(60, 2, 1), (300, 4, 2), (1000, 1, 3)] {
                for threads in [1, 3] {
                    let graph = GraphSpec { vertices, edge_factor, storage, ..GraphSpec::default() };
                    let spec = GraphBigSpec::<A> { graph, seed, layout, threads, ..GraphBigSpec::default() };
                    assert_eq!(spec.invalid("program"), vec![]);
                    let (program, space) = spec.build();
                    let graph = Arc::clone(&program.graph);
                    assert_eq!(graph.is_computed(), storage == Streaming);
                    let (output, batches) = trace_of(space, |on| program.compute(on));
                    let stored = if A::SORTED { graph.sorted() } else { graph.stored() };
                    check(&stored, output, &batches);
                }
            }
        }
    }

    /// Loads and stores in the region of interest.
    pub fn accesses(batches: &[Batch]) -> u64 {
        let data = |b: &Batch| b.records.iter().filter(|r| r.is_data()).count() as u64;
        batches.iter().map(data).sum()
    }

    /// Branches that were taken.
    pub fn taken(batches: &[Batch]) -> u64 {
        let taken = |b: &Batch| b.records.iter().filter(|r| r.kind == RecordKind::BranchTaken).count() as u64;
        batches.iter().map(taken).sum()
    }

    #[test]
    fn shares_cover_everything_once() {
        for (threads, n) in [(1, 1000), (3, 1000), (7, 5), (64, 64 * 64 * 3 + 1)] {
            let mut seen = vec![0; n];
            trace_of(AddressSpace::new(), |on| parallel(on, threads, n as u64, |_, i| seen[i as usize] += 1));
            assert!(seen.iter().all(|n| *n == 1));
        }
    }
}
