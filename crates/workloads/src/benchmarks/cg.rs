//! NPB CG: the conjugate gradient method on a random sparse matrix.
//!
//! Stands for NAS Parallel Benchmarks CG (RMM Table 4: 54 GB). Layout: `a` (8 bytes a non-zero), `colidx` (4
//! bytes), `rowstr` (8 bytes a row), and the vectors `x`, `z`, `p`, `q`, `r` (8 bytes a row): static arrays,
//! as the program declares them, so one area of its bss, filled one after another. A row has its
//! diagonal and random columns; the matrix is symmetric and diagonally dominant, and so positive definite;
//! its values come from a hash of row and column and are not stored.
//!
//! ```text
//! product  movslq (colidx,k); movsd (a,k); mulsd (p,col); addsd; add; cmp; jl
//! vectors  movsd; mulsd; addsd; add; cmp; jne
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, RecordSource, mix64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of CG.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CgSpec {
    /// Bytes of matrix and vectors; decides on the rows.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of the matrix.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Pairs of non-zeroes off the diagonal for each row.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "NPB CG: about 80 to 130 non-zeroes a row in classes C to E"))]
    pub pairs: u32,
    /// Iterations of the method in each of the outer steps.
    #[schemars(range(min = 1, max = 10_000), extend("x-unit" = "count", "x-source" = "NPB CG: 25"))]
    pub iterations: u32,
    /// Outer steps, after which the program ends.
    #[schemars(range(min = 1, max = 1 << 30), extend("x-unit" = "count", "x-source" = "NPB CG: 75 to 100"))]
    pub steps: u32,
    /// Threads that share the rows out, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count"))]
    pub threads: u32,
    /// Memory of the simulator that the vectors may take; larger ones are rejected.
    #[schemars(range(max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub host_memory: u64,
}

impl Default for CgSpec {
    fn default() -> Self {
        CgSpec { footprint: 8 << 30, seed: 1, pairs: 40, iterations: 25, steps: 75, threads: 1, host_memory: 6 << 30 }
    }
}

/// Bytes of the simulator's memory for a row: five vectors.
const SIM_HOST_BYTES_A_ROW: u64 = 5 * 8;

impl CgSpec {
    fn rows(&self) -> u64 {
        self.footprint / (12 * (2 * u64::from(self.pairs) + 1) + 8 + 40)
    }
}

impl BenchmarkSpec for CgSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "cg",
        about: "conjugate gradients on a random sparse matrix",
        stands_for: "NPB CG; sparse solvers: matrix in order, vector at random",
        default_footprint: 8 << 30,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if problems.is_empty() && self.rows() < 64 {
            problems.push(
                Invalid::new(
                    format!("{at}.footprint"),
                    format!("holds {} rows; set a larger one, or fewer `{at}.pairs`", self.rows()),
                )
                .and(format!("{at}.pairs")),
            );
        }
        if self.rows() * SIM_HOST_BYTES_A_ROW > self.host_memory {
            let message = format!(
                "is {} MiB, and vectors of {} rows take {} MiB of the simulator's memory: raise it, or set more \
                 `{at}.pairs`",
                self.host_memory >> 20,
                self.rows(),
                (self.rows() * SIM_HOST_BYTES_A_ROW) >> 20
            );
            problems.push(Invalid::new(format!("{at}.host_memory"), message).and(format!("{at}.footprint")));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let matrix = Matrix::new(self);
        let facts = format!("{} rows with {} non-zeroes each", matrix.rows, 2 * matrix.pairs + 1);
        let bytes = matrix.rows * (12 * (2 * matrix.pairs + 1) + 48);
        let (space, places) = Places::new(&matrix);
        ProgramSource::boxed(identity("cg", self, &facts, bytes), space, Cg(self.clone(), places))
    }
}

/// A symmetric matrix: in its `j`-th pair, row `i` has a non-zero at `i` plus the `j`-th distance and,
/// mirrored, one at `i` minus it, both modulo the rows under a random permutation, with values that depend on
/// the unordered pair.
#[derive(Clone, Copy)]
struct Matrix {
    rows: u64,
    pairs: u64,
    seed: u64,
}

impl Matrix {
    fn new(spec: &CgSpec) -> Matrix {
        Matrix { rows: spec.rows(), pairs: u64::from(spec.pairs), seed: spec.seed }
    }

    /// The `j`-th distance: 1 to rows - 1.
    fn distance(&self, j: u64) -> u64 {
        1 + mix64(self.seed ^ j.rotate_left(48)) % (self.rows - 1)
    }

    /// Non-zero `k` of row `i`: its column and value. The last is the diagonal.
    #[inline]
    fn entry(&self, i: u64, k: u64, distances: &[u64]) -> (u64, f64) {
        if k == 2 * self.pairs {
            return (i, 2.0 * self.pairs as f64 + 1.0);
        }
        let distance = distances[(k / 2) as usize];
        let column = if k.is_multiple_of(2) { i + distance } else { i + self.rows - distance };
        let column = if column >= self.rows { column - self.rows } else { column };
        let (low, high) = (i.min(column), i.max(column));
        let value = (mix64(low << 32 ^ high ^ self.seed) >> 11) as f64 / (1u64 << 53) as f64;
        (column, value - 0.5)
    }
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const ROW: u64 = TEXT + 0x300;
    pub const COLUMN: u64 = TEXT + 0x310;
    pub const VALUE: u64 = TEXT + 0x318;
    pub const VECTOR: u64 = TEXT + 0x320;
    pub const RESULT: u64 = TEXT + 0x338;
    pub const DOT: u64 = TEXT + 0x360;
    pub const SCALE: u64 = TEXT + 0x3a0;
    pub const SCALED: u64 = TEXT + 0x3c0;
}

/// Where matrix and vectors are.
struct Places {
    rowstr: Array,
    colidx: Array,
    a: Array,
    /// x, z, p, q, r.
    vectors: [Array; 5],
}

impl Places {
    /// The arrays in the program's order, in an address space of their own.
    fn new(matrix: &Matrix) -> (AddressSpace, Places) {
        let nonzeroes = matrix.rows * (2 * matrix.pairs + 1);
        let vector = (8, matrix.rows);
        let sizes = [(4, nonzeroes), (8, matrix.rows + 1), (8, nonzeroes), vector, vector, vector, vector, vector];
        let (space, [colidx, rowstr, a, x, z, p, q, r]) = AddressSpace::with_static_arrays(sizes);
        (space, Places { rowstr, colidx, a, vectors: [x, z, p, q, r] })
    }
}

const X: usize = 0;
const Z: usize = 1;
const P: usize = 2;
const Q: usize = 3;
const R: usize = 4;

struct Cg(CgSpec, Places);

impl Program for Cg {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.solve(on, |_| ());
    }
}

/// Rows, and elements of vectors, that a thread processes before the next one runs.
const QUANTUM_ROWS: u64 = 16;
const QUANTUM_ELEMENTS: u64 = 512;

impl Cg {
    /// Runs the threads round-robin over `0..n`, `quantum` iterations at a time.
    fn share(&self, on: &mut Execution, n: u64, quantum: u64, mut body: impl FnMut(&mut Execution, u64)) {
        let threads = u64::from(self.0.threads);
        let each = n.div_ceil(threads);
        for begin in (0..each).step_by(quantum as usize) {
            for t in 0..threads {
                on.thread(t as u32);
                let (from, end) = (t * each + begin, ((t + 1) * each).min(n));
                (from..(from + quantum).min(end)).for_each(|i| body(on, i));
            }
        }
        on.thread(0);
    }

    /// `w = A v`.
    fn product(&self, on: &mut Execution, places: &Places, v: usize, w: usize, from: &[f64], to: &mut [f64]) {
        let matrix = Matrix::new(&self.0);
        let distances: Vec<u64> = (0..matrix.pairs).map(|j| matrix.distance(j)).collect();
        let each = 2 * matrix.pairs + 1;
        self.share(on, matrix.rows, QUANTUM_ROWS, |on, i| {
            on.load(pc::ROW, places.rowstr.at(i + 1), 8, Value::NONE);
            on.work(4);
            let mut sum = 0.0;
            for k in 0..each {
                let (column, value) = matrix.entry(i, k, &distances);
                let at = on.load(pc::COLUMN, places.colidx.at(i * each + k), 4, Value::NONE);
                on.load(pc::VALUE, places.a.at(i * each + k), 8, Value::NONE);
                on.load(pc::VECTOR, places.vectors[v].at(column), 8, at);
                on.work(4);
                sum += value * from[column as usize];
            }
            to[i as usize] = sum;
            on.store(pc::RESULT, places.vectors[w].at(i), 8, Value::NONE);
            on.work(3);
        });
    }

    fn dot(&self, on: &mut Execution, places: &Places, a: usize, b: usize, x: &[f64], y: &[f64]) -> f64 {
        let mut sum = 0.0;
        self.share(on, x.len() as u64, QUANTUM_ELEMENTS, |on, i| {
            on.load(pc::DOT, places.vectors[a].at(i), 8, Value::NONE);
            if a != b {
                on.load(pc::DOT + 8, places.vectors[b].at(i), 8, Value::NONE);
            }
            on.work(4);
            sum += x[i as usize] * y[i as usize];
        });
        sum
    }

    /// `to = first * a + second * b`.
    #[allow(clippy::too_many_arguments)]
    fn combine(
        &self,
        on: &mut Execution,
        places: &Places,
        (first, a): (usize, f64),
        (second, b): (usize, f64),
        to: usize,
        vectors: &mut [Vec<f64>; 5],
    ) {
        self.share(on, places.vectors[0].len, QUANTUM_ELEMENTS, |on, i| {
            on.load(pc::SCALE, places.vectors[first].at(i), 8, Value::NONE);
            on.load(pc::SCALE + 8, places.vectors[second].at(i), 8, Value::NONE);
            on.work(3);
            on.store(pc::SCALED, places.vectors[to].at(i), 8, Value::NONE);
            on.work(3);
            let i = i as usize;
            vectors[to][i] = vectors[first][i] * a + vectors[second][i] * b;
        });
    }

    /// All steps; `residual` receives the squared norm of the residual after each iteration.
    fn solve(&self, on: &mut Execution, mut residual: impl FnMut(f64)) -> [Vec<f64>; 5] {
        let matrix = Matrix::new(&self.0);
        let (rows, places) = (matrix.rows, &self.1);
        for array in [&places.colidx, &places.rowstr, &places.a].into_iter().chain(&places.vectors) {
            on.event(array.touch(true));
        }
        let mut vectors: [Vec<f64>; 5] = [(); 5].map(|()| vec![0.0; rows as usize]);
        vectors[X].fill(1.0);
        on.begin_region();
        for _ in 0..self.0.steps {
            vectors[Z].fill(0.0);
            vectors[R] = vectors[X].clone();
            vectors[P] = vectors[X].clone();
            self.share(on, rows, QUANTUM_ELEMENTS, |on, i| {
                on.load(pc::SCALE + 16, places.vectors[X].at(i), 8, Value::NONE);
                for (n, v) in [Q, Z, R, P].into_iter().enumerate() {
                    on.store(pc::SCALED + 8 + 8 * n as u64, places.vectors[v].at(i), 8, Value::NONE);
                }
                on.work(3);
            });
            let mut rho = self.dot(on, places, R, R, &vectors[R], &vectors[R]);
            for _ in 0..self.0.iterations {
                let mut q = std::mem::take(&mut vectors[Q]);
                self.product(on, places, P, Q, &vectors[P], &mut q);
                vectors[Q] = q;
                let alpha = rho / self.dot(on, places, P, Q, &vectors[P], &vectors[Q]);
                self.combine(on, places, (Z, 1.0), (P, alpha), Z, &mut vectors);
                self.combine(on, places, (R, 1.0), (Q, -alpha), R, &mut vectors);
                let before = rho;
                rho = self.dot(on, places, R, R, &vectors[R], &vectors[R]);
                residual(rho);
                if rho == 0.0 {
                    break;
                }
                self.combine(on, places, (R, 1.0), (P, rho / before), P, &mut vectors);
            }
            let norm = self.dot(on, places, Z, Z, &vectors[Z], &vectors[Z]).sqrt();
            self.combine(on, places, (Z, 1.0 / norm), (Z, 0.0), X, &mut vectors);
        }
        vectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn the_matrix_is_symmetric_and_the_solution_solves() {
        for threads in [1, 3] {
            let spec = CgSpec { footprint: 1 << 20, pairs: 10, steps: 1, iterations: 25, threads, ..CgSpec::default() };
            let matrix = Matrix::new(&spec);
            let distances: Vec<u64> = (0..matrix.pairs).map(|j| matrix.distance(j)).collect();
            let n = matrix.rows as usize;
            let mut dense = vec![std::collections::BTreeMap::new(); n];
            for i in 0..matrix.rows {
                for k in 0..2 * matrix.pairs + 1 {
                    let (column, value) = matrix.entry(i, k, &distances);
                    *dense[i as usize].entry(column as usize).or_insert(0.0) += value;
                }
            }
            for (i, row) in dense.iter().enumerate() {
                assert!(row.iter().all(|(j, v)| (dense[*j][&i] - v).abs() < 1e-12));
            }
            let mut residuals = Vec::new();
            let (space, places) = Places::new(&matrix);
            let (vectors, _) = trace_of(space, |on| Cg(spec.clone(), places).solve(on, |r| residuals.push(r)));
            assert!(residuals.last().unwrap() < &(1e-18 * residuals[0]), "{residuals:?}");
            // A z is the vector of ones, as required.
            for row in &dense {
                let sum: f64 = row.iter().map(|(j, v)| v * vectors[Z][*j]).sum();
                assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            }
        }
    }

    #[test]
    fn the_static_arrays_are_one_area() {
        let spec = CgSpec { footprint: 8 << 20, ..CgSpec::default() };
        let (mut space, places) = Places::new(&Matrix::new(&spec));
        let mut last = 0;
        for array in [&places.colidx, &places.rowstr, &places.a].into_iter().chain(&places.vectors) {
            assert!(last == 0 || (last..last + 32).contains(&array.base), "a gap before {array:?}");
            last = array.base + array.bytes();
        }
        let areas: Vec<(u64, u64)> = space
            .take_events()
            .filter_map(|event| match event {
                ambulator_base::VmEvent::Map { start, len, .. } if len > 1 << 21 => Some((start.0, start.0 + len)),
                _ => None,
            })
            .collect();
        assert_eq!(areas, [(places.colidx.base, last.next_multiple_of(4096))], "one area holds them all");
    }
}
