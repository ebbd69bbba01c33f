//! How far computed graphs (`graph.kind = "configuration"`) are from Kronecker graphs with the same settings, where
//! both can be stored: `cargo run --release -p ambulator-workloads --example graph_distance [SCALE ...]`.

use ambulator_base::Random;
use ambulator_workloads::graph::{Graph, GraphKind, GraphSpec};
use std::collections::HashSet;

/// Pairs of neighbours of a vertex that are tried for an edge between them.
const WEDGES: usize = 200_000;

/// What is compared, in the order of the columns.
struct Measures {
    isolated: f64,
    greatest: u32,
    top: f64,
    repeated: f64,
    loops: f64,
    correlation: f64,
    closed: f64,
    local: f64,
    levels: Vec<f64>,
    degrees: Vec<u32>,
}

fn measure(graph: &Graph) -> Measures {
    let n = graph.vertices() as u32;
    let stored = graph.edges() as f64;
    let mut degrees: Vec<u32> = (0..n).map(|u| graph.degree(u)).collect();
    let (mut repeated, mut loops, mut local) = (0u64, 0u64, 0u64);
    let (mut sum, mut squares, mut products) = (0f64, 0f64, 0f64);
    let mut seen = HashSet::new();
    for u in 0..n {
        seen.clear();
        let own = f64::from(graph.degree(u));
        for edge in graph.edges_of(u) {
            loops += u64::from(edge.to == u);
            repeated += u64::from(!seen.insert(edge.to));
            local += u64::from(edge.to / 1024 == u / 1024);
            sum += own;
            squares += own * own;
            products += own * f64::from(graph.degree(edge.to));
        }
    }
    let mean = sum / stored;
    let correlation = (products / stored - mean * mean) / (squares / stored - mean * mean);
    // Wedges are picked by stored edges: a pair of neighbours of the vertex at which an edge is stored.
    let sorted = graph.sorted();
    let mut random = Random::new(7);
    let (mut wedges, mut closed) = (0usize, 0usize);
    while wedges < WEDGES {
        let u = random.below(u64::from(n)) as u32;
        let own = sorted.neighbours_of(u);
        // Each vertex counts as often as it has wedges, which are many at hubs: as many tries as edges.
        for _ in 0..own.len() {
            let (v, w) = (own[random.below(own.len() as u64) as usize], own[random.below(own.len() as u64) as usize]);
            if v != w && v != u && w != u {
                wedges += 1;
                closed += usize::from(sorted.neighbours_of(v).binary_search(&w).is_ok());
            }
        }
    }
    let root = (0..n).max_by_key(|u| graph.degree(*u)).unwrap_or(0);
    let (mut level, mut reached, mut levels) = (vec![root], vec![false; n as usize], Vec::new());
    reached[root as usize] = true;
    while !level.is_empty() {
        levels.push(level.len() as f64 / f64::from(n));
        let mut next = Vec::new();
        for &u in &level {
            for edge in graph.edges_of(u) {
                if !std::mem::replace(&mut reached[edge.to as usize], true) {
                    next.push(edge.to);
                }
            }
        }
        level = next;
    }
    degrees.sort_unstable();
    let top: u64 = degrees.iter().rev().take(n as usize / 100).map(|d| u64::from(*d)).sum();
    Measures {
        isolated: degrees.iter().filter(|d| **d == 0).count() as f64 / f64::from(n),
        greatest: degrees.last().copied().unwrap_or(0),
        top: top as f64 / stored,
        repeated: repeated as f64 / stored,
        loops: loops as f64 / stored,
        correlation,
        closed: closed as f64 / wedges as f64,
        local: local as f64 / stored,
        levels,
        degrees,
    }
}

/// The greatest difference between the shares of vertices with at most so many edges.
fn distance(a: &[u32], b: &[u32]) -> f64 {
    let below = |all: &[u32], degree: u32| all.partition_point(|d| *d <= degree) as f64 / all.len() as f64;
    a.iter().chain(b).map(|&degree| (below(a, degree) - below(b, degree)).abs()).fold(0.0, f64::max)
}

fn main() {
    let scales: Vec<u32> = std::env::args().skip(1).filter_map(|scale| scale.parse().ok()).collect();
    for scale in if scales.is_empty() { vec![14, 17, 20] } else { scales } {
        let graph = |kind| Graph::generate(&GraphSpec { kind, ..GraphSpec::default() }, 1 << scale, 1);
        let [a, b] = [GraphKind::Kronecker, GraphKind::Configuration].map(|kind| measure(&graph(kind)));
        println!("2^{scale} vertices, 16 edges each                 kronecker  configuration");
        let row = |name: &str, of: &dyn Fn(&Measures) -> String| println!("  {name:<40} {:>12} {:>14}", of(&a), of(&b));
        row("vertices without edges", &|m| format!("{:.1}%", 100.0 * m.isolated));
        row("edges of the greatest hub", &|m| m.greatest.to_string());
        row("edges at the 1% of greatest degree", &|m| format!("{:.1}%", 100.0 * m.top));
        row("repeated edges", &|m| format!("{:.2}%", 100.0 * m.repeated));
        row("loops", &|m| format!("{:.3}%", 100.0 * m.loops));
        row("correlation of degrees of neighbours", &|m| format!("{:.3}", m.correlation));
        row("closed pairs of neighbours", &|m| format!("{:.2}%", 100.0 * m.closed));
        row("neighbours in the same 1024 vertices", &|m| format!("{:.3}%", 100.0 * m.local));
        let levels = |m: &Measures| m.levels.iter().map(|l| format!("{:.1}", 100.0 * l)).collect::<Vec<_>>().join(" ");
        row("levels of a search from it, % of vertices", &levels);
        println!("  greatest distance of the degrees' distributions: {:.4}", distance(&a.degrees, &b.degrees));
    }
}
