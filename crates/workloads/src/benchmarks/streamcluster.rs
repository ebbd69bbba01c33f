//! streamcluster: k-median clustering of a stream of points, a block at a time.
//!
//! Stands for PARSEC's streamcluster (RMM Table 4: 120 MB). Layout: the block's coordinates (4 bytes each,
//! `dimensions` a point), one array of 32-byte point records (weight, pointer to the coordinates, assignment,
//! cost), the table of centres and the threads' sums. Each block's points are read into the same memory.
//!
//! Most time goes to `pgain`: for a candidate centre, the distance of every point to it, whether the point
//! would gain by moving there, and how much closing each centre would then save. Points and costs are real.
//!
//! ```text
//! point     mov; mov; movss (a),%xmm; subss (b),%xmm; mulss; addss; add; cmp; jne      two loads a dimension
//! compare   movss cost(point); comiss; ja; mov assign(point); movss lower(center); addss; movss
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, check_sim_host_bytes, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of streamcluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamclusterSpec {
    /// Bytes of a block's points and records; sets the number of points in a block.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of points and candidates.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Coordinates of a point.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "streamcluster, native input: 128"))]
    pub dimensions: u32,
    /// Candidates tried for a block.
    #[schemars(range(min = 1, max = 1 << 20), extend("x-unit" = "count"))]
    pub candidates: u32,
    /// Blocks, after which the program ends.
    #[schemars(range(min = 1, max = 1 << 30), extend("x-unit" = "count", "x-source" = "streamcluster, native input: 1 million points"))]
    pub blocks: u32,
    /// Threads that divide the points, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count"))]
    pub threads: u32,
}

impl Default for StreamclusterSpec {
    fn default() -> Self {
        let (footprint, candidates) = (120 << 20, 60);
        StreamclusterSpec { footprint, seed: 1, dimensions: 128, candidates, blocks: 1000, threads: 1 }
    }
}

/// Bytes of a point's record, its centre's mark and the threads' share of its sums.
const RECORD_BYTES: u64 = 32;
const SUMS_BYTES: u64 = 8;

impl StreamclusterSpec {
    fn points(&self) -> u64 {
        self.footprint / (4 * u64::from(self.dimensions) + RECORD_BYTES + SUMS_BYTES)
    }
}

impl BenchmarkSpec for StreamclusterSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "streamcluster",
        about: "k-median clustering of a stream: distances of all points of a block to candidate centres",
        stands_for: "PARSEC streamcluster; clustering and nearest neighbours",
        default_footprint: 120 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        // Coordinates, and what is known of each point, are kept as the program keeps them.
        check_sim_host_bytes(at, "footprint", u128::from(self.footprint), &mut problems);
        if self.points() < 16 {
            problems.push(Invalid::new(
                format!("{at}.footprint"),
                format!("holds {} points of a block; set a larger one", self.points()),
            ));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let points = self.points();
        let facts = format!("{points} points a block");
        let bytes = points * (4 * u64::from(self.dimensions) + RECORD_BYTES + SUMS_BYTES);
        let identity = identity("streamcluster", self, &facts, bytes);
        ProgramSource::boxed(identity, AddressSpace::new(), Streamcluster(self.clone()))
    }
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const READ: u64 = TEXT + 0x200;
    pub const COORDINATES: u64 = TEXT + 0x260;
    pub const OWN: u64 = TEXT + 0x270;
    pub const THEIRS: u64 = TEXT + 0x278;
    pub const COST: u64 = TEXT + 0x2a0;
    pub const GAINS: u64 = TEXT + 0x2a8;
    pub const ASSIGNED: u64 = TEXT + 0x2b0;
    pub const LOWER: u64 = TEXT + 0x2b8;
    pub const MARK: u64 = TEXT + 0x2c8;
    pub const MOVE: u64 = TEXT + 0x300;
}

/// A block of points and its clustering.
struct Block {
    dimensions: usize,
    coordinates: Vec<f32>,
    /// The centre of each point, and its cost.
    assigned: Vec<u32>,
    costs: Vec<f64>,
    /// The cost of opening one more centre.
    facility: f64,
}

impl Block {
    fn distance(&self, a: usize, b: usize) -> f64 {
        let at = |i: usize| &self.coordinates[i * self.dimensions..(i + 1) * self.dimensions];
        at(a).iter().zip(at(b)).map(|(x, y)| f64::from((x - y) * (x - y))).sum()
    }

    #[cfg(test)]
    fn total(&self) -> f64 {
        let centres: std::collections::BTreeSet<u32> = self.assigned.iter().copied().collect();
        self.costs.iter().sum::<f64>() + self.facility * centres.len() as f64
    }
}

struct Streamcluster(StreamclusterSpec);

impl Program for Streamcluster {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.cluster(on, |_, _| ());
    }
}

struct Places {
    coordinates: Array,
    records: Array,
    sums: Array,
}

/// Points that a thread processes before the next one runs.
const QUANTUM: u64 = 16;

impl Streamcluster {
    /// Clusters all blocks; `tried` receives the block after each candidate, and the gain.
    fn cluster(&self, on: &mut Execution, mut tried: impl FnMut(&Block, f64)) {
        let spec = &self.0;
        let n = spec.points();
        let dimensions = spec.dimensions as usize;
        let places = Places {
            coordinates: on.filled_array(4 * u64::from(spec.dimensions), n),
            records: on.filled_array(RECORD_BYTES, n),
            sums: on.filled_array(SUMS_BYTES, n),
        };
        on.begin_region();
        let mut random = Random::for_purpose(spec.seed, "streamcluster points");
        for _ in 0..spec.blocks {
            // The next block overwrites the last; its points lie around some centres.
            let around: Vec<f32> = (0..16 * dimensions).map(|_| random.unit() as f32).collect();
            let mut coordinates = Vec::with_capacity(n as usize * dimensions);
            for i in 0..n {
                let centre = random.below(16) as usize * dimensions;
                for d in 0..dimensions {
                    coordinates.push(around[centre + d] + 0.1 * random.unit() as f32);
                }
                for line in 0..(4 * dimensions as u64).div_ceil(32) {
                    let at = places.coordinates.at(i).offset(32 * line);
                    on.store(pc::READ, at, 32.min(4 * dimensions as u64 - 32 * line) as u8, Value::NONE);
                    on.work(2);
                }
            }
            let mut block = Block {
                dimensions,
                coordinates,
                assigned: vec![0; n as usize],
                costs: Vec::new(),
                facility: n as f64 * 0.02,
            };
            block.costs = (0..n as usize).map(|i| block.distance(i, 0)).collect();
            self.parallel(on, n, |on, i| self.measure(on, &places, i, 0));
            for _ in 0..spec.candidates {
                let candidate = random.below(n) as usize;
                let gain = self.try_centre(on, &places, &mut block, candidate);
                tried(&block, gain);
            }
        }
    }

    fn parallel(&self, on: &mut Execution, n: u64, mut body: impl FnMut(&mut Execution, u64)) {
        let threads = u64::from(self.0.threads);
        let each = n.div_ceil(threads);
        for begin in (0..each).step_by(QUANTUM as usize) {
            for t in 0..threads {
                on.thread(t as u32);
                let end = ((t + 1) * each).min(n);
                (t * each + begin..(t * each + begin + QUANTUM).min(end)).for_each(|i| body(on, i));
            }
        }
        on.thread(0);
    }

    /// The distance of a point to a centre: both points' coordinates.
    fn measure(&self, on: &mut Execution, places: &Places, point: u64, centre: u64) {
        let own = on.load(pc::COORDINATES, places.records.at(point).offset(8), 8, Value::NONE);
        on.work(3);
        // Eight dimensions a vector.
        for part in 0..(4 * u64::from(self.0.dimensions)).div_ceil(32) {
            let size = 32.min(4 * u64::from(self.0.dimensions) - 32 * part) as u8;
            on.load(pc::OWN, places.coordinates.at(point).offset(32 * part), size, own);
            on.load(pc::THEIRS, places.coordinates.at(centre).offset(32 * part), size, Value::NONE);
            on.work(4);
        }
        on.work(6);
    }

    /// `pgain`: opens a centre at `candidate` if that lowers the total cost, and closes those that become
    /// redundant.
    fn try_centre(&self, on: &mut Execution, places: &Places, block: &mut Block, candidate: usize) -> f64 {
        let n = block.assigned.len();
        if block.assigned[candidate] as usize == candidate {
            return 0.0;
        }
        // The saving from closing each centre: its facility cost, less the extra cost of its remaining
        // points.
        let mut lower = vec![0.0; n];
        let mut saved = -block.facility;
        let mut moves = vec![false; n];
        self.parallel(on, n as u64, |on, point| {
            let i = point as usize;
            self.measure(on, places, point, candidate as u64);
            let distance = block.distance(i, candidate);
            let cost = on.load(pc::COST, places.records.at(point).offset(24), 4, Value::NONE);
            let gains = distance < block.costs[i];
            on.branch(pc::GAINS, pc::MARK, gains, cost);
            on.work(2);
            if gains {
                moves[i] = true;
                saved += block.costs[i] - distance;
                on.store(pc::MARK, places.sums.at(point), 1, Value::NONE);
            } else {
                let assigned = on.load(pc::ASSIGNED, places.records.at(point).offset(16), 8, Value::NONE);
                let centre = block.assigned[i] as usize;
                on.update(pc::LOWER, places.sums.at(centre as u64), 8, assigned);
                lower[centre] += block.costs[i] - distance;
            }
            on.work(3);
        });
        let mut centres: Vec<u32> = block.assigned.clone();
        centres.sort_unstable();
        centres.dedup();
        let closes = |centre: u32| lower[centre as usize] + block.facility > 0.0;
        let closed: Vec<u32> = centres.iter().copied().filter(|centre| closes(*centre)).collect();
        saved += closed.iter().map(|centre| lower[*centre as usize] + block.facility).sum::<f64>();
        if saved <= 0.0 {
            return 0.0;
        }
        for (i, moves) in moves.into_iter().enumerate() {
            let there = moves || closed.binary_search(&block.assigned[i]).is_ok();
            on.load(pc::MOVE, places.records.at(i as u64).offset(16), 8, Value::NONE);
            on.work(4);
            if there {
                block.costs[i] = block.distance(i, candidate);
                block.assigned[i] = candidate as u32;
                on.store(pc::MOVE + 8, places.records.at(i as u64).offset(16), 8, Value::NONE);
                on.store(pc::MOVE + 16, places.records.at(i as u64).offset(24), 4, Value::NONE);
            }
        }
        saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn gains_are_what_the_whole_cost_loses() {
        let spec = StreamclusterSpec {
            footprint: 1 << 20,
            dimensions: 16,
            candidates: 80,
            blocks: 2,
            threads: 3,
            ..StreamclusterSpec::default()
        };
        let (mut last, mut first, mut step) = (0.0, 0.0, 0);
        trace_of(AddressSpace::new(), |on| {
            Streamcluster(spec).cluster(on, |block, gain| {
                let total = block.total();
                if step % 80 == 0 {
                    first = total + gain;
                } else {
                    assert!((last - gain - total).abs() < 1e-6 * total, "step {step}: {last} - {gain} is not {total}");
                    assert!(gain >= 0.0);
                }
                for (i, centre) in block.assigned.iter().enumerate() {
                    assert!((block.costs[i] - block.distance(i, *centre as usize)).abs() < 1e-9);
                }
                last = total;
                step += 1;
            });
        });
        assert_eq!(step, 160);
        assert!(last < first / 3.0, "from {first} to {last}");
    }
}
