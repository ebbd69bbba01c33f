//! Kronecker (R-MAT) graphs with Graph500's parameters, as a sequence of edges.
//!
//! Graph500 benchmark specification, "Generating the edge list": each edge picks a quadrant of the adjacency
//! matrix with probabilities A, B, C, D at each of `scale` levels, then vertex labels are permuted. Here
//! several levels are drawn at once from an alias table of their joint distribution, which gives the same
//! edges some ten times as fast.

use crate::permutation::Permutation;
use ambulator_base::{Invalid, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphKind {
    /// Kronecker (R-MAT) with Graph500's parameters: a few hubs with very many edges, no communities.
    #[default]
    Kronecker,
    /// The degrees of a Kronecker graph with the same settings, and ends paired at random (a configuration
    /// model): its neighbours can be computed, so it needs no memory of the simulator.
    Configuration,
    /// Like a social network, after LDBC's generator: degrees with a bounded tail, mostly local edges.
    Social,
}

/// Where the simulator has the graph's offsets and neighbours. The program's addresses are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphStorage {
    /// In its memory, as long as the graph fits `host_memory` and has less than 2^32 stored edges; otherwise, in
    /// layout `csr`, as with `streaming`.
    #[default]
    Auto,
    /// In its memory.
    Memory,
    /// Nowhere: they are computed when the program reads them. The graph is of the kind `configuration` (also
    /// where `kronecker` is set), for layout `csr`; its edges come from a file while it is built.
    Streaming,
}

/// Settings of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GraphSpec {
    /// File to read: an edge list, Matrix Market (`.mtx`) or a GAP graph (`.sg`, `.wsg`), text also with
    /// gzip. Empty generates a graph; the other settings here are for generated graphs.
    #[schemars(extend("x-unit" = "name"))]
    pub input: String,
    /// Which generator.
    #[schemars(extend("x-unit" = "choice"))]
    pub kind: GraphKind,
    /// Where the simulator has the graph: stored, or computed when it is read.
    #[schemars(extend("x-unit" = "choice"))]
    pub storage: GraphStorage,
    /// Vertices; 0 takes as many as the footprint holds. Between powers of two, the labels of the next larger
    /// graph are folded evenly onto this many.
    #[schemars(range(max = MAX_VERTICES), extend("x-unit" = "count"))]
    pub vertices: u64,
    /// Undirected edges for each vertex; each is stored in both directions.
    #[schemars(range(min = 1, max = 1024), extend("x-unit" = "count", "x-source" = "Graph500 specification"))]
    pub edge_factor: u32,
    /// Probability that an edge is in the first quadrant of the adjacency matrix (both ends in the lower
    /// half).
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Graph500 specification"))]
    pub a: f64,
    /// Probability of the second quadrant.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Graph500 specification"))]
    pub b: f64,
    /// Probability of the third quadrant; the fourth has the rest.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Graph500 specification"))]
    pub c: f64,
}

impl Default for GraphSpec {
    fn default() -> Self {
        GraphSpec {
            input: String::new(),
            kind: GraphKind::default(),
            storage: GraphStorage::default(),
            vertices: 0,
            edge_factor: 16,
            a: 0.57,
            b: 0.19,
            c: 0.19,
        }
    }
}

/// Vertices are 32-bit numbers.
pub const MAX_VERTICES: u64 = 1 << 31;

impl GraphSpec {
    /// Validates the settings; each problem names its key under `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if !self.input.is_empty()
            && let Err(what) = super::input::load(&self.input)
        {
            problems.push(Invalid::new(format!("{at}.input"), format!(": {what}")));
        }
        if (1..16).contains(&self.vertices) {
            problems.push(Invalid::new(
                format!("{at}.vertices"),
                format!("is {}; it must be 0 (from the footprint), or at least 16", self.vertices),
            ));
        }
        let sum = self.a + self.b + self.c;
        if sum > 1.0 {
            let message = format!(
                "is {}, `{at}.b` {} and `{at}.c` {}; their sum must be at most 1 (Graph500 has 0.57, \
                 0.19, 0.19)",
                self.a, self.b, self.c
            );
            problems.push(Invalid::new(format!("{at}.a"), message).and(format!("{at}.b")).and(format!("{at}.c")));
        }
        problems
    }
}

/// Levels of the matrix drawn at once.
const LEVELS: u32 = 5;

/// An alias table (Walker 1977, Vose 1991) over the 4^levels quadrant paths.
struct AliasTable {
    levels: u32,
    /// For each column: the threshold of a 32-bit draw, the outcome below it, the outcome from it on. An
    /// outcome is `row << 8 | column` of the path, `levels` bits each.
    columns: Vec<(u32, u16, u16)>,
}

impl AliasTable {
    fn new(levels: u32, quadrants: [f64; 4]) -> AliasTable {
        let n = 1usize << (2 * levels);
        let mut share = vec![0f64; n];
        let mut outcome = vec![0u16; n];
        for path in 0..n {
            let (mut p, mut row, mut column) = (1.0, 0, 0);
            for level in 0..levels {
                let quadrant = path >> (2 * level) & 3;
                p *= quadrants[quadrant];
                row = row << 1 | (quadrant >> 1) as u16;
                column = column << 1 | (quadrant & 1) as u16;
            }
            share[path] = p * n as f64;
            outcome[path] = row << 8 | column;
        }
        let mut columns: Vec<(u32, u16, u16)> = outcome.iter().map(|&o| (u32::MAX, o, o)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| share[i] < 1.0);
        while let (Some(less), Some(&more)) = (small.pop(), large.last()) {
            columns[less] = ((share[less] * 4_294_967_296.0) as u32, outcome[less], outcome[more]);
            share[more] -= 1.0 - share[less];
            if share[more] < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        AliasTable { levels, columns }
    }

    #[inline(always)]
    fn draw(&self, bits: u64) -> (u64, u64) {
        let (threshold, below, from) = self.columns[bits as usize & (self.columns.len() - 1)];
        let outcome = if (bits >> 32) as u32 >= threshold { from } else { below };
        (u64::from(outcome >> 8), u64::from(outcome & 0xff))
    }
}

/// Passes the edges of a graph with `vertices` vertices to `edge`, always in the same order.
pub fn for_each_edge(spec: &GraphSpec, vertices: u64, seed: u64, mut edge: impl FnMut(u32, u32)) {
    if !spec.input.is_empty() {
        // Settings are checked before anything is built: the file has been read.
        let edges = super::input::load(&spec.input).unwrap_or_default();
        return edges.edges.iter().for_each(|(u, v)| edge(*u, *v));
    }
    if spec.kind == GraphKind::Configuration {
        let graph = super::ConfigurationGraph::new(spec, vertices, seed);
        return graph.for_each_edge(edge);
    }
    if spec.kind == GraphKind::Social {
        return super::social::for_each_edge(spec, vertices, seed, edge);
    }
    let scale = vertices.next_power_of_two().ilog2();
    let size = 1u64 << scale;
    let quadrants = [spec.a, spec.b, spec.c, (1.0 - spec.a - spec.b - spec.c).max(0.0)];
    let table = AliasTable::new(LEVELS.min(scale), quadrants);
    let rest = AliasTable::new(scale % table.levels, quadrants);
    let labels = Permutation::new(size, seed, "vertex labels");
    let fold = |vertex: u64| ((labels.of(vertex) * vertices) >> scale) as u32;
    let mut random = Random::for_purpose(seed, "kronecker edges");
    for _ in 0..vertices * u64::from(spec.edge_factor) {
        let (mut row, mut column) = (0, 0);
        for _ in 0..scale / table.levels {
            let (r, c) = table.draw(random.next_u64());
            row = row << table.levels | r;
            column = column << table.levels | c;
        }
        if rest.levels > 0 {
            let (r, c) = rest.draw(random.next_u64());
            row = row << rest.levels | r;
            column = column << rest.levels | c;
        }
        edge(fold(row), fold(column));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrants_have_graph500s_shares_at_every_level() {
        let quadrants = [0.57, 0.19, 0.19, 0.05];
        let table = AliasTable::new(LEVELS, quadrants);
        let mut random = Random::new(3);
        let n = 400_000;
        let mut counts = [[0u32; 4]; LEVELS as usize];
        for _ in 0..n {
            let (row, column) = table.draw(random.next_u64());
            for (level, count) in counts.iter_mut().enumerate() {
                count[(row >> level & 1) as usize * 2 + (column >> level & 1) as usize] += 1;
            }
        }
        for count in counts {
            for (quadrant, share) in quadrants.iter().enumerate() {
                let seen = f64::from(count[quadrant]) / f64::from(n);
                assert!((seen - share).abs() < 0.004, "{seen} instead of {share}");
            }
        }
    }

    #[test]
    fn absurd_settings_are_named() {
        let spec = GraphSpec { vertices: 3, edge_factor: 0, a: 0.9, b: f64::NAN, c: 0.3, ..GraphSpec::default() };
        assert_eq!(ambulator_base::out_of_range(&spec, "bfs.graph").len(), 2, "factor and b");
        let wrong = GraphSpec { vertices: 3, a: 0.9, b: 0.3, ..GraphSpec::default() }.validate("bfs.graph");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(GraphSpec::default().validate("").is_empty());
    }
}
