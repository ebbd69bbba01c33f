//! XSBench: macroscopic cross sections looked up in a unionised energy grid.
//!
//! Stands for XSBench 20 (Tramm et al., PHYSOR 2014; Revelator Table 2, Utopia Table 2), history-free
//! ("event") mode: look-ups with a random energy in a random material. Layout: the unionised energies (8
//! bytes a point), the index grid (for each of those points, 4 bytes a nuclide: where that nuclide's own grid
//! is), the nuclides' grids (48 bytes a point: energy and five cross sections), nuclides and concentrations
//! of the 12 materials. All are filled in ascending order in set-up.
//!
//! The numbers of nuclides in each material and the probabilities of materials are XSBench's (`Materials.c`);
//! which nuclides a material other than fuel has is drawn from the seed. Energies are real and sorted: the
//! binary search follows the data, and the index grid gives the number of a nuclide's points at or below. The
//! simulator stores the energies, the nuclide of each, and the index grid's row at every 128th point; it
//! counts the rows between from there.
//!
//! ```text
//! search   sar; add; cmp; movsd (grid,middle); comisd; cmova; cmovbe; sub; cmp; jg
//!            (a load and a branch a step)
//! nuclide  movslq (mats); movsd (concs); movslq (index); imul; cmp; lea; 12 x movsd, 18 x arithmetic;
//!          five updates in registers
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, TEXT};
use ambulator_base::{Invalid, Random, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum XsbenchSize {
    /// Hoogenboom-Martin small: 68 nuclides, 34 in the fuel.
    Small,
    /// Hoogenboom-Martin large: 355 nuclides, 321 in the fuel.
    #[default]
    Large,
}

impl XsbenchSize {
    fn nuclides(self) -> u64 {
        match self {
            XsbenchSize::Small => 68,
            XsbenchSize::Large => 355,
        }
    }

    /// Nuclides of each material.
    fn materials(self) -> [u64; MATERIALS] {
        let fuel = if self == XsbenchSize::Small { 34 } else { 321 };
        [fuel, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9]
    }
}

const MATERIALS: usize = 12;
/// How often each material is met.
const PROBABILITIES: [f64; MATERIALS] =
    [0.140, 0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013];

/// Settings of XSBench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct XsbenchSpec {
    /// Bytes of the three grids; sets the points of a nuclide's grid (XSBench has 11303: 5.6 GiB with
    /// `large`).
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of energies, materials and look-ups.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Which reactor.
    #[schemars(extend("x-unit" = "choice", "x-source" = "XSBench -s"))]
    pub size: XsbenchSize,
    /// Look-ups, after which the program ends.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count", "x-source" = "XSBench -l"))]
    pub lookups: u64,
    /// Threads that divide the look-ups, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "XSBench -t"))]
    pub threads: u32,
    /// Memory of the simulator that the grids may take; larger ones are rejected.
    #[schemars(range(max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub host_memory: u64,
}

impl Default for XsbenchSpec {
    fn default() -> Self {
        let (size, lookups) = (XsbenchSize::default(), 17_000_000);
        XsbenchSpec { footprint: 6 << 30, seed: 1, size, lookups, threads: 1, host_memory: 6 << 30 }
    }
}

impl XsbenchSpec {
    /// Points of a nuclide's grid.
    fn points(&self) -> u64 {
        let nuclides = self.size.nuclides();
        self.footprint / (nuclides * (8 + 4 * nuclides + POINT_BYTES))
    }

    fn sim_host_bytes(&self) -> u64 {
        let nuclides = self.size.nuclides();
        self.points() * nuclides * (16 + 8 + 2 + 4 * nuclides / ROW_STEP)
    }
}

const POINT_BYTES: u64 = 48;
/// Points of the unionised grid from one stored row to the next.
const ROW_STEP: u64 = 128;

impl BenchmarkSpec for XsbenchSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "xsbench",
        about: "cross-section look-ups: binary search in a unionised grid, then a few points of many nuclides' grids",
        stands_for: "XSBench (Monte Carlo neutron transport), event mode with the unionised grid",
        default_footprint: 6 << 30,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if self.points() < 2 {
            problems.push(
                Invalid::new(
                    format!("{at}.footprint"),
                    format!(
                        "of {} bytes holds {} points for each of {} nuclides; set a larger one, or `{at}.size` \
                         = \"small\"",
                        self.footprint,
                        self.points(),
                        self.size.nuclides()
                    ),
                )
                .and(format!("{at}.size")),
            );
        } else if self.sim_host_bytes() > self.host_memory {
            let message = format!(
                "is {} MiB, and the grids' contents take {} MiB of the simulator's memory: raise it, or set a \
                 smaller footprint",
                self.host_memory >> 20,
                self.sim_host_bytes() >> 20
            );
            problems.push(Invalid::new(format!("{at}.host_memory"), message).and(format!("{at}.footprint")));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let (nuclides, points) = (self.size.nuclides(), self.points());
        let facts = format!("{nuclides} nuclides with {points} points each");
        let bytes = nuclides * points * (8 + 4 * nuclides + POINT_BYTES);
        ProgramSource::boxed(identity("xsbench", self, &facts, bytes), AddressSpace::new(), Xsbench(self.clone()))
    }
}

/// The contents of the grids.
struct Grids {
    nuclides: usize,
    points: u64,
    /// The unionised energies, ascending.
    energies: Vec<f64>,
    /// Which nuclide each came from.
    origins: Vec<u16>,
    /// The counts of all nuclides before every [`ROW_STEP`]-th point.
    rows: Vec<u32>,
}

impl Grids {
    fn new(nuclides: u64, points: u64, random: &mut Random) -> Grids {
        let mut all: Vec<(f64, u16)> = (0..nuclides * points).map(|i| (random.unit(), (i / points) as u16)).collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut counts = vec![0u32; nuclides as usize];
        let mut rows = Vec::new();
        for (i, (_, origin)) in all.iter().enumerate() {
            if (i as u64).is_multiple_of(ROW_STEP) {
                rows.extend_from_slice(&counts);
            }
            counts[usize::from(*origin)] += 1;
        }
        Grids {
            nuclides: nuclides as usize,
            points,
            energies: all.iter().map(|e| e.0).collect(),
            origins: all.iter().map(|e| e.1).collect(),
            rows,
        }
    }

    /// For all nuclides, how many of their points are at or below unionised point `at`.
    fn counts(&self, at: usize, into: &mut [u32]) {
        let row = at / ROW_STEP as usize;
        into.copy_from_slice(&self.rows[row * self.nuclides..(row + 1) * self.nuclides]);
        for origin in &self.origins[row * ROW_STEP as usize..=at] {
            into[usize::from(*origin)] += 1;
        }
    }

    /// The index grid's entry for a nuclide with that many points at or below: the last of them, or the
    /// first.
    fn index(&self, count: u32) -> u64 {
        u64::from(count.saturating_sub(1)).min(self.points - 2)
    }
}

struct Xsbench(XsbenchSpec);

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const SEARCH: u64 = TEXT + 0x540;
    pub const ABOVE: u64 = TEXT + 0x548;
    pub const SEARCHED: u64 = TEXT + 0x560;
    pub const NUCLIDE: u64 = TEXT + 0x5a0;
    pub const CONCENTRATION: u64 = TEXT + 0x5a8;
    pub const INDEX: u64 = TEXT + 0x5b4;
    pub const POINT: u64 = TEXT + 0x5d0;
    pub const RESULT: u64 = TEXT + 0x680;
}

/// Look-ups that a thread makes before the next one runs.
const QUANTUM: u64 = 4;

impl Program for Xsbench {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.simulate(on, |_, _, _| ());
    }
}

impl Xsbench {
    /// Runs all look-ups; `found` receives energy, material and the point found in each look-up.
    fn simulate(&self, on: &mut Execution, mut found: impl FnMut(f64, usize, usize)) {
        let spec = &self.0;
        let (nuclides, points) = (spec.size.nuclides(), spec.points());
        let union = nuclides * points;
        let grids = Grids::new(nuclides, points, &mut Random::for_purpose(spec.seed, "xsbench grids"));
        let nuclide_grids = on.filled_array(POINT_BYTES, union);
        let energies = on.filled_array(8, union);
        let index_grid = on.filled_array(4, union * nuclides);
        // Each material has room for as many nuclides as the fuel has.
        let counts = spec.size.materials();
        let mut random = Random::for_purpose(spec.seed, "xsbench materials");
        let mats = on.filled_array(4, counts[0] * MATERIALS as u64);
        let concs = on.filled_array(8, counts[0] * MATERIALS as u64);
        let compositions: Vec<Vec<u64>> = counts
            .iter()
            .enumerate()
            .map(|(m, &n)| if m == 0 { (0..n).collect() } else { (0..n).map(|_| random.below(nuclides)).collect() })
            .collect();
        let results = on.filled_array(40, u64::from(spec.threads));
        on.begin_region();

        let mut random = Random::for_purpose(spec.seed, "xsbench look-ups");
        let mut row = vec![0; nuclides as usize];
        for lookup in 0..spec.lookups {
            let thread = (lookup / QUANTUM % u64::from(spec.threads)) as u32;
            on.thread(thread);
            let (energy, draw) = (random.unit(), random.unit());
            let mut sum = 0.0;
            let material = PROBABILITIES
                .iter()
                .position(|p| {
                    sum += p;
                    draw < sum
                })
                .unwrap_or(0);
            on.work(30);
            // The binary search; each step's address depends on the previous comparison.
            let (mut low, mut length) = (0, union - 1);
            let mut before = Value::NONE;
            while length > 1 {
                let middle = low + length / 2;
                on.work(3);
                before = on.load(pc::SEARCH, energies.at(middle), 8, before);
                let above = grids.energies[middle as usize] > energy;
                on.branch(pc::ABOVE, pc::SEARCHED, above, before);
                let high = low + length;
                if above {
                    length = middle - low;
                } else {
                    low = middle;
                    length = high - middle;
                }
                on.work(4);
            }
            found(energy, material, low as usize);
            grids.counts(low as usize, &mut row);
            for (j, &nuclide) in compositions[material].iter().enumerate() {
                let place = material as u64 * counts[0] + j as u64;
                let named = on.load(pc::NUCLIDE, mats.at(place), 4, Value::NONE);
                on.load(pc::CONCENTRATION, concs.at(place), 8, Value::NONE);
                on.work(2);
                let index = on.load2(pc::INDEX, index_grid.at(low * nuclides + nuclide), 4, [before, named]);
                on.work(3);
                let point = nuclide * points + grids.index(row[nuclide as usize]);
                // Energy and five cross sections of the point above and of this one.
                for (half, point) in [point + 1, point].into_iter().enumerate() {
                    for field in 0..6 {
                        let va = nuclide_grids.at(point).offset(8 * field);
                        on.load(pc::POINT + 8 * (6 * half as u64 + field), va, 8, index);
                        on.work(1);
                    }
                }
                on.work(10);
            }
            for field in 0..5 {
                on.store(pc::RESULT + 8 * field, results.at(u64::from(thread)).offset(8 * field), 8, Value::NONE);
            }
            on.work(5);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn searches_find_the_point_below_and_the_index_grid_counts_points() {
        let spec =
            XsbenchSpec { footprint: 24 << 20, size: XsbenchSize::Small, lookups: 2000, ..XsbenchSpec::default() };
        let grids = Grids::new(68, spec.points(), &mut Random::for_purpose(1, "xsbench grids"));
        let mut per_nuclide = vec![Vec::new(); 68];
        for (energy, origin) in grids.energies.iter().zip(&grids.origins) {
            per_nuclide[usize::from(*origin)].push(*energy);
        }
        assert!(per_nuclide.iter().all(|grid| grid.len() as u64 == spec.points()));
        let mut met = [0u32; MATERIALS];
        let mut row = vec![0; 68];
        let (_, batches) = trace_of(AddressSpace::new(), |on| {
            Xsbench(spec.clone()).simulate(on, |energy, material, point| {
                met[material] += 1;
                let below = grids.energies.partition_point(|e| *e <= energy);
                assert_eq!(point, below.saturating_sub(1).min(grids.energies.len() - 2));
                grids.counts(point, &mut row);
                for (nuclide, count) in row.iter().enumerate() {
                    let at_or_below = per_nuclide[nuclide].partition_point(|e| *e <= grids.energies[point]);
                    assert_eq!(*count as usize, at_or_below, "nuclide {nuclide}");
                }
            });
        });
        assert!(met.iter().all(|n| *n > 0) && met[2] > 400 && met[0] > 200, "{met:?}");
        let records: usize = batches.iter().map(|b| b.records.len()).sum();
        assert!(records > 2000 * (2 * 14 + 15 * 4));
    }
}
