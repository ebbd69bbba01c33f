//! DLRM's sparse-length sum: rows of embedding tables, picked by indices, are summed.
//!
//! Stands for the embedding part of DLRM (Naumov et al., 2019; Utopia Table 2, Revelator Table 2: 10.3 GB),
//! the operator `SparseLengthsSum` of Caffe2 and FBGEMM: for each sample and table, `pooling` indices are
//! read, and their rows added up in vector registers. Layout: the tables, one mapping each, filled in
//! ascending order; the indices of a batch (8 bytes each) and its results. No address depends on the tables'
//! contents, so the simulator stores none at any footprint.
//!
//! Indices are uniform or follow Zipf's law (rejection-inversion sampling, Hörmann and Derflinger 1996), and
//! popular rows are scattered over the table. The batch's memory is reused, with new indices each time.
//!
//! ```text
//! index  mov (indices),row; cmp; jae; imul; prefetcht0
//! row    vaddps (row),%ymm0,%ymm0 ...     one for each 32 bytes
//! done   vmovups %ymm0,(out) ...          one for each 32 bytes
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::zipf::Zipf;
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::Permutation;
use crate::layout::{AddressSpace, TEXT};
use ambulator_base::{Invalid, Random, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of DLRM's sparse-length sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DlrmSpec {
    /// Bytes of all tables.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of the indices.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Embedding tables, 1 to 256.
    #[schemars(range(min = 1, max = 256), extend("x-unit" = "count", "x-source" = "DLRM, random data set: 8 tables"))]
    pub tables: u32,
    /// Numbers of 4 bytes in a row, a multiple of 8 up to 1024.
    #[schemars(range(min = 8, max = 1024), extend("x-unit" = "count", "x-source" = "DLRM: 64"))]
    pub dimension: u32,
    /// Rows summed for a sample and a table.
    #[schemars(range(min = 1, max = 1 << 16), extend("x-unit" = "count", "x-source" = "DLRM (RMC2): 80 to 120"))]
    pub pooling: u32,
    /// Samples of a batch.
    #[schemars(range(min = 1, max = 1 << 16), extend("x-unit" = "count"))]
    pub batch: u32,
    /// Exponent of Zipf's law for the indices; 0 is uniform.
    #[schemars(range(min = 0.0, max = 4.0), extend("x-unit" = "ratio"))]
    pub skew: f64,
    /// Batches, after which the program ends.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count"))]
    pub batches: u64,
    /// Threads that divide the samples, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count"))]
    pub threads: u32,
}

impl Default for DlrmSpec {
    fn default() -> Self {
        DlrmSpec {
            footprint: 8 << 30,
            seed: 1,
            tables: 8,
            dimension: 64,
            pooling: 80,
            batch: 128,
            skew: 0.0,
            batches: 1 << 20,
            threads: 1,
        }
    }
}

impl DlrmSpec {
    fn rows(&self) -> u64 {
        self.footprint / u64::from(self.tables) / (u64::from(self.dimension) * 4)
    }
}

impl BenchmarkSpec for DlrmSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "dlrm",
        about: "sparse-length sums: rows of embedding tables gathered by index and added up",
        stands_for: "DLRM's embedding operators (recommendation)",
        default_footprint: 8 << 30,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if !self.dimension.is_multiple_of(8) {
            problems.push(Invalid::new(
                format!("{at}.dimension"),
                format!("is {}; it must be a multiple of 8", self.dimension),
            ));
        }
        if problems.is_empty() && self.rows() == 0 {
            problems.push(
                Invalid::new(
                    format!("{at}.footprint"),
                    format!("holds no row for each table; set a larger one, or fewer `{at}.tables`"),
                )
                .and(format!("{at}.tables")),
            );
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let rows = self.rows();
        let facts = format!("{} tables of {rows} rows of {} bytes", self.tables, self.dimension * 4);
        let bytes = u64::from(self.tables) * rows * u64::from(self.dimension) * 4;
        ProgramSource::boxed(identity("dlrm", self, &facts, bytes), AddressSpace::new(), Dlrm(self.clone()))
    }
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const INDEX: u64 = TEXT + 0x300;
    pub const ROW: u64 = TEXT + 0x320;
    pub const OUT: u64 = TEXT + 0x700;
}

/// Bytes of a vector register.
const VECTOR: u64 = 32;

struct Dlrm(DlrmSpec);

impl Program for Dlrm {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.sum(on, |_, _, _| ());
    }
}

impl Dlrm {
    /// Runs all batches; `picked` receives sample, table and row.
    fn sum(&self, on: &mut Execution, mut picked: impl FnMut(u32, u32, u64)) {
        let spec = &self.0;
        let (rows, row_bytes) = (spec.rows(), u64::from(spec.dimension) * 4);
        let tables: Vec<_> = (0..spec.tables).map(|_| on.filled_array(row_bytes, rows)).collect();
        let (batch, pooling) = (u64::from(spec.batch), u64::from(spec.pooling));
        let indices: Vec<_> = tables.iter().map(|_| on.filled_array(8, batch * pooling)).collect();
        let out: Vec<_> = tables.iter().map(|_| on.filled_array(row_bytes, batch)).collect();
        on.begin_region();
        let mut random = Random::for_purpose(spec.seed, "dlrm indices");
        let zipf = (spec.skew > 0.0).then(|| Zipf::new(rows, spec.skew));
        let places = Permutation::new(rows, spec.seed, "dlrm rows");
        for _ in 0..spec.batches {
            for (t, table) in tables.iter().enumerate() {
                for sample in 0..spec.batch {
                    on.thread(sample * spec.threads / spec.batch);
                    for i in 0..pooling {
                        let row = match &zipf {
                            Some(zipf) => places.of(zipf.sample(&mut random)),
                            None => random.below(rows),
                        };
                        picked(sample, t as u32, row);
                        let at = indices[t].at(u64::from(sample) * pooling + i);
                        let index = on.load(pc::INDEX, at, 8, Value::NONE);
                        on.work(4);
                        for vector in 0..row_bytes / VECTOR {
                            let va = table.at(row).offset(vector * VECTOR);
                            on.load(pc::ROW + 6 * vector, va, VECTOR as u8, index);
                        }
                        on.work(2);
                    }
                    for vector in 0..row_bytes / VECTOR {
                        let va = out[t].at(u64::from(sample)).offset(vector * VECTOR);
                        on.store(pc::OUT + 6 * vector, va, VECTOR as u8, Value::NONE);
                    }
                    on.work(6);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;
    use ambulator_base::RecordKind;

    #[test]
    fn every_picked_row_is_read_whole_and_in_order() {
        for skew in [0.0, 1.05] {
            let spec = DlrmSpec { footprint: 8 << 20, batches: 2, batch: 16, pooling: 5, skew, ..DlrmSpec::default() };
            let mut picks = Vec::new();
            let (_, batches) = trace_of(AddressSpace::new(), |on| {
                Dlrm(spec.clone()).sum(on, |sample, table, row| picks.push((sample, table, row)));
            });
            assert_eq!(picks.len(), 2 * 8 * 16 * 5);
            let records: Vec<_> = batches.iter().flat_map(|b| b.records.clone()).collect();
            let rows: Vec<u64> = records.iter().filter(|r| r.pc.0 == pc::ROW).map(|r| r.va.0).collect();
            assert_eq!(rows.len(), picks.len());
            // Rows of one table lie at multiples of a row's bytes from each other, as their numbers say.
            for pair in 0..picks.len() - 1 {
                if picks[pair].1 == picks[pair + 1].1 {
                    let distance = rows[pair + 1] as i64 - rows[pair] as i64;
                    assert_eq!(distance, (picks[pair + 1].2 as i64 - picks[pair].2 as i64) * 256);
                }
            }
            let vectors = records.iter().filter(|r| r.size == 32 && r.kind == RecordKind::Load).count();
            assert_eq!(vectors, picks.len() * 8);
            assert_eq!(records.iter().filter(|r| r.kind == RecordKind::Store).count(), 2 * 8 * 16 * 8);
        }
    }
}
