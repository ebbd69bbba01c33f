//! Stencils over three-dimensional grids of doubles, many of them at once.
//!
//! Stands for the grid codes of RMM Table 4: SPEC 2006's cactusADM (690 MB: a Bergman-Wahlquist evolution
//! over some 70 grid functions) and GemsFDTD (860 MB: three components of each of two fields, updated
//! alternately from each other's neighbours). Layout: one mapping for each grid function, filled in ascending
//! order; row-major, the last index fastest.
//!
//! `pattern = "leapfrog"`: functions in pairs; all of the first half are updated from the neighbours of the
//! second, and then vice versa (a curl: two neighbours each). `pattern = "jacobi"`: every function's next
//! time level from the seven-point neighbourhood of its last one; levels alternate, so functions come in
//! pairs as well. The values are real.
//!
//! ```text
//! leapfrog  movsd (h,i,j,k); subsd (h,i,j-1,k); mulsd; movsd (h,i,j,k); subsd (h,i-1,j,k); mulsd;
//!           addsd (e); movsd (e); add; cmp; jne
//! jacobi    movsd; addsd x 5; mulsd; movsd; add; cmp; jne
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, RecordSource, mix64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pattern of dependences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StencilPattern {
    /// Two fields, alternately from each other's neighbours (finite-difference time domain).
    #[default]
    Leapfrog,
    /// Each function's next level from the seven points around (relaxation).
    Jacobi,
}

/// Settings of the stencils.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StencilSpec {
    /// Bytes of all grids; decides on the cells.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of the first values.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// The pattern of dependences.
    #[schemars(extend("x-unit" = "choice"))]
    pub pattern: StencilPattern,
    /// Grid functions, an even number from 2 to 256.
    #[schemars(range(min = 2, max = 256), extend("x-unit" = "count", "x-source" = "GemsFDTD: 6 field components; cactusADM: about 70"))]
    pub functions: u32,
    /// Time steps, after which the program ends.
    #[schemars(range(min = 1, max = 1 << 30), extend("x-unit" = "count"))]
    pub steps: u32,
    /// Memory of the simulator that the values may take; larger grids are rejected.
    #[schemars(range(max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub host_memory: u64,
}

impl Default for StencilSpec {
    fn default() -> Self {
        let (footprint, pattern) = (860 << 20, StencilPattern::default());
        StencilSpec { footprint, seed: 1, pattern, functions: 6, steps: 1000, host_memory: 6 << 30 }
    }
}

impl StencilSpec {
    /// Cells along an edge.
    fn edge(&self) -> u64 {
        let cells = self.footprint / 8 / u64::from(self.functions.max(1));
        let mut edge = (cells as f64).cbrt() as u64;
        while (edge + 1).pow(3) <= cells {
            edge += 1;
        }
        edge
    }
}

impl BenchmarkSpec for StencilSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "stencil",
        about: "stencils over many three-dimensional grids of doubles",
        stands_for: "SPEC cactusADM and GemsFDTD; grid codes: many streams, strides of rows and planes",
        default_footprint: 860 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if !self.functions.is_multiple_of(2) {
            problems.push(Invalid::new(
                format!("{at}.functions"),
                format!("is {}; it must be an even number", self.functions),
            ));
        } else if self.edge() < 4 {
            problems.push(Invalid::new(
                format!("{at}.footprint"),
                format!("holds grids of {} cells an edge; set a larger one", self.edge()),
            ));
        }
        if self.footprint > self.host_memory {
            let message = format!(
                "is {} MiB, and the grids' values take {} MiB of the simulator's memory: raise it, or set a \
                 smaller footprint",
                self.host_memory >> 20,
                self.footprint >> 20
            );
            problems.push(Invalid::new(format!("{at}.host_memory"), message).and(format!("{at}.footprint")));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let edge = self.edge();
        let facts = format!("{} grids of {edge} cells an edge", self.functions);
        let bytes = u64::from(self.functions) * edge.pow(3) * 8;
        ProgramSource::boxed(identity("stencil", self, &facts, bytes), AddressSpace::new(), Stencil(self.clone()))
    }
}

/// Code addresses of the compiled loops, separate for each function.
mod pc {
    use super::TEXT;
    pub const LOAD: u64 = TEXT + 0x200;
    pub const STORE: u64 = TEXT + 0xa00;
}

struct Stencil(StencilSpec);

impl Program for Stencil {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.evolve(on);
    }
}

impl Stencil {
    /// Runs all steps and returns the values of all functions.
    fn evolve(&self, on: &mut Execution) -> Vec<Vec<f64>> {
        let spec = &self.0;
        let edge = spec.edge();
        let cells = edge.pow(3);
        let functions = spec.functions as usize;
        let places: Vec<Array> = (0..functions).map(|_| on.filled_array(8, cells)).collect();
        let first = |f: usize, i: u64| (mix64(spec.seed ^ (f as u64) << 48 ^ i) >> 40) as f64 / (1u64 << 24) as f64;
        let mut values: Vec<Vec<f64>> = (0..functions).map(|f| (0..cells).map(|i| first(f, i)).collect()).collect();
        on.begin_region();
        let half = functions / 2;
        for step in 0..spec.steps as usize {
            let sweeps = match spec.pattern {
                StencilPattern::Leapfrog => vec![(0, half), (half, 0)],
                StencilPattern::Jacobi if step % 2 == 0 => vec![(0, half)],
                StencilPattern::Jacobi => vec![(half, 0)],
            };
            for (to, from) in sweeps {
                for f in 0..half {
                    let mut target = std::mem::take(&mut values[to + f]);
                    match spec.pattern {
                        StencilPattern::Leapfrog => {
                            let (a, b) = (from + f, from + (f + 1) % half);
                            curl(on, &places, edge, to + f, (a, b), (&values[a], &values[b]), &mut target);
                        }
                        StencilPattern::Jacobi => {
                            relax(on, &places, edge, to + f, from + f, &values[from + f], &mut target)
                        }
                    }
                    values[to + f] = target;
                }
            }
        }
        values
    }
}

/// Inner cells in memory order, with the strides of the three indices.
fn inner(edge: u64) -> impl Iterator<Item = u64> {
    (1..edge - 1)
        .flat_map(move |x| (1..edge - 1).flat_map(move |y| (1..edge - 1).map(move |z| (x * edge + y) * edge + z)))
}

/// Half a time step of one component: its own value and the differences of two others along two directions.
fn curl(
    on: &mut Execution,
    places: &[Array],
    edge: u64,
    to: usize,
    (a, b): (usize, usize),
    (first, second): (&[f64], &[f64]),
    target: &mut [f64],
) {
    let code = pc::LOAD + 8 * to as u64;
    for i in inner(edge) {
        on.load(code, places[a].at(i), 8, Value::NONE);
        on.load(code + 1, places[a].at(i - edge), 8, Value::NONE);
        on.work(1);
        on.load(code + 2, places[b].at(i), 8, Value::NONE);
        on.load(code + 3, places[b].at(i - edge * edge), 8, Value::NONE);
        on.work(2);
        on.load(code + 4, places[to].at(i), 8, Value::NONE);
        on.store(pc::STORE + 4 * to as u64, places[to].at(i), 8, Value::NONE);
        on.work(3);
        let at = |back: u64| (i - back) as usize;
        target[i as usize] += 0.1 * (first[at(0)] - first[at(edge)]) - 0.1 * (second[at(0)] - second[at(edge * edge)]);
    }
}

/// The next level of a function from the seven points around.
fn relax(on: &mut Execution, places: &[Array], edge: u64, to: usize, from: usize, last: &[f64], target: &mut [f64]) {
    let code = pc::LOAD + 8 * to as u64;
    for i in inner(edge) {
        let mut sum = 0.0;
        for (n, at) in [i, i - 1, i + 1, i - edge, i + edge, i - edge * edge, i + edge * edge].into_iter().enumerate() {
            on.load(code + n as u64, places[from].at(at), 8, Value::NONE);
            sum += last[at as usize];
        }
        on.work(1);
        on.store(pc::STORE + 4 * to as u64, places[to].at(i), 8, Value::NONE);
        on.work(3);
        target[i as usize] = sum / 7.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn values_are_those_of_plain_loops_over_three_indices() {
        for pattern in [StencilPattern::Leapfrog, StencilPattern::Jacobi] {
            let spec = StencilSpec { footprint: 1 << 16, functions: 4, steps: 3, pattern, ..StencilSpec::default() };
            let n = spec.edge() as usize;
            let (ours, _) = trace_of(AddressSpace::new(), |on| Stencil(spec.clone()).evolve(on));
            let first =
                |f: usize, i: usize| (mix64(1 ^ (f as u64) << 48 ^ i as u64) >> 40) as f64 / (1u64 << 24) as f64;
            let mut plain: Vec<Vec<Vec<Vec<f64>>>> = (0..4)
                .map(|f| {
                    (0..n)
                        .map(|x| (0..n).map(|y| (0..n).map(|z| first(f, (x * n + y) * n + z)).collect()).collect())
                        .collect()
                })
                .collect();
            for step in 0..3 {
                let sweeps: &[(usize, usize)] = match pattern {
                    StencilPattern::Leapfrog => &[(0, 2), (2, 0)],
                    StencilPattern::Jacobi => [&[(0, 2)], &[(2, 0)]][step % 2],
                };
                for &(to, from) in sweeps {
                    for f in 0..2 {
                        for x in 1..n - 1 {
                            for y in 1..n - 1 {
                                for z in 1..n - 1 {
                                    let (a, b) = (from + f, from + (f + 1) % 2);
                                    plain[to + f][x][y][z] = match pattern {
                                        StencilPattern::Leapfrog => {
                                            plain[to + f][x][y][z] + 0.1 * (plain[a][x][y][z] - plain[a][x][y - 1][z])
                                                - 0.1 * (plain[b][x][y][z] - plain[b][x - 1][y][z])
                                        }
                                        StencilPattern::Jacobi => {
                                            let g = &plain[a];
                                            (g[x][y][z]
                                                + g[x][y][z - 1]
                                                + g[x][y][z + 1]
                                                + g[x][y - 1][z]
                                                + g[x][y + 1][z]
                                                + g[x - 1][y][z]
                                                + g[x + 1][y][z])
                                                / 7.0
                                        }
                                    };
                                }
                            }
                        }
                    }
                }
            }
            for (f, grid) in plain.iter().enumerate() {
                for (i, value) in grid.iter().flatten().flatten().enumerate() {
                    assert!((value - ours[f][i]).abs() < 1e-12, "{pattern:?} {f} {i}");
                }
            }
        }
    }
}
