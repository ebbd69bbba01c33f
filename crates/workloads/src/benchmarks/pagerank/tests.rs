//! Checks the scores against a dense power iteration, and the records against the compiled loops.

use super::*;
use crate::graph::{GraphSpec, PropertySpec};
use crate::layout::AddressSpace;

fn graph() -> Arc<Graph> {
    Graph::shared(&GraphSpec::default(), 600, 21, false)
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
        score = (0..n).map(|u| 0.15 / n as f64 + (0..n).map(|v| matrix[u * n + v] * score[v]).sum::<f64>()).collect();
    }
    score
}

fn check_scores<S: Steps>(graph: Arc<Graph>, steps: S) {
    let stored = graph.stored();
    let spec = PageRankSpec { tolerance: 0.0, max_iterations: 12, ..PageRankSpec::default() };
    let mut benchmark = PageRank::new(&spec, graph.clone(), steps);
    converge(&mut benchmark);
    assert_eq!(benchmark.iterations, 12);
    let connected = (0..600).filter(|&u| graph.degree(u) > 0);
    for (u, expected) in connected.map(|u| (u, dense(&stored, 12)[u as usize])).take(40) {
        let score = f64::from(*benchmark.score.at(u as usize));
        assert!((score - expected).abs() < 1e-5 * expected.max(0.01), "vertex {u}: {score} instead of {expected}");
    }
}

#[test]
fn scores_are_those_of_a_dense_power_iteration() {
    check_scores(graph(), arrays(&graph()));
    check_scores(graph(), objects(&graph()));
    let computed = Graph::shared(&GraphSpec::default(), 600, 21, true);
    check_scores(computed.clone(), arrays(&computed));
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
    let Storage::Vectors { index, .. } = o.graph.storage() else { panic!("no index") };
    let mut expected = (0..600).flat_map(|u| graph.neighbours_of(u).iter().enumerate().map(move |(k, &v)| (u, k, v)));
    for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::TARGET) {
        let (u, k, v) = expected.next().unwrap();
        assert_eq!((r.va, records[i - usize::from(r.dep1)].pc.0), (o.graph.edge(u, k as u64), property_pc::BEGIN));
        let (neighbour, pull) = (&records[i + 1], &records[i + 2]);
        assert_eq!((neighbour.va, neighbour.dep1, neighbour.gap), (index.at(u64::from(v)), 1, 1));
        assert_eq!((pull.va, pull.dep1, pull.gap), (o.graph.field(v, vertex_field::CONTRIBUTION), 1, 0));
    }
    assert_eq!(expected.next(), None);
    for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::NEW_SCORE) {
        assert_eq!(records[i - usize::from(r.dep1)].pc.0, property_pc::OBJECT);
    }
}
