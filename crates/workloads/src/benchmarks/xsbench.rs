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
//! A look-up first moves the generator of random numbers to its own place in the sequence (a multiplication
//! for each bit of its number) and picks the material by adding up probabilities.
//!
//! ```text
//! forward  test; je; imul; imul; add; lea; imul; imul; shr; jne             a bit of the look-up's number
//! pick     lea; lea; pxor; shl; sub; mov; j x (addsd (shares); sub; cmp; jne); comisd; ja; add; add; cmp;
//!          jne
//! search   sar; lea; movsd (grid,middle); comisd; jbe; mov; cmp; jg         the point is above
//!                                           ... jbe; mov; mov; sub; cmp; jle  it is below
//! nuclide  movslq (mats); movsd (concs); lea; imul; movslq (index); 8 x arithmetic; 9 x (load from two
//!          points),
//!          16 x arithmetic, 3 x store of the five cross sections; 5 x (movsd; add; add; mulsd; addsd (sum);
//!          movsd (sum); cmp; jne); add; cmp; jne
//! largest  5 x (movsd (sum); comisd; maxsd; cmova; add; movapd; cmp; jne)
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, Counts, Density, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource, VirtAddr};
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

    const DENSITIES: &[Density] = &[
        Density {
            compiled_program: "xsbench small 300 20000",
            settings: r#"{ "size": "small", "footprint": 6691200, "lookups": 20000 }"#,
            unit: "look-up",
            site: pc::PICK,
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 1819.7, loads: 390.5, stores: 135.5, branches: 187.5 },
        },
        Density {
            compiled_program: "xsbench large 60 8000",
            settings: r#"{ "footprint": 31438800, "lookups": 8000 }"#,
            unit: "look-up",
            site: pc::PICK,
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 5285.2, loads: 1290.3, stores: 462.7, branches: 430.3 },
        },
    ];

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
    pub const PICK: u64 = TEXT + 0x4ec;
    pub const NEGATIVE: u64 = TEXT + 0x51e;
    pub const SHARE: u64 = TEXT + 0x540;
    pub const SHARES: u64 = TEXT + 0x54b;
    pub const PICKED: u64 = TEXT + 0x551;
    pub const NEXT_SHARE: u64 = TEXT + 0x561;
    pub const LENGTH: u64 = TEXT + 0x56a;
    pub const EMPTY: u64 = TEXT + 0x586;
    pub const BELOW: u64 = TEXT + 0x598;
    pub const SEARCH: u64 = TEXT + 0x5ae;
    pub const ABOVE: u64 = TEXT + 0x5b7;
    pub const SEARCHED: u64 = TEXT + 0x5c2;
    pub const NUCLIDES: u64 = TEXT + 0x5ce;
    pub const NUCLIDE: u64 = TEXT + 0x608;
    pub const CONCENTRATION: u64 = TEXT + 0x60c;
    pub const INDEX: u64 = TEXT + 0x61a;
    pub const POINT: u64 = TEXT + 0x63b;
    pub const SUM: u64 = TEXT + 0x6c0;
    pub const NEXT_NUCLIDE: u64 = TEXT + 0x6e6;
    pub const LARGEST: u64 = TEXT + 0x700;
    pub const NEXT_LOOKUP: u64 = TEXT + 0x732;
    pub const BIT: u64 = TEXT + 0x75b;
    pub const NEXT_BIT: u64 = TEXT + 0x777;
    pub const FOUND: u64 = TEXT + 0x7d2;
}

/// Bytes of the stack frame, and where its parts are in it.
mod frame {
    pub const VERIFICATION: u64 = 0x20;
    pub const LENGTH: u64 = 0x28;
    pub const LOOKUPS: u64 = 0x30;
    pub const COUNTS: u64 = 0x38;
    pub const LOCALS: u64 = 0x40;
    pub const SUMS: u64 = 0x60;
    pub const SHARES: u64 = 0x98;
    pub const BYTES: u64 = 0x100;
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
        let counted = on.filled_array(4, MATERIALS as u64);
        let stack = on.space.stack_array(8, frame::BYTES / 8 * u64::from(spec.threads));
        on.event(stack.touch(true));
        on.begin_region();

        let mut random = Random::for_purpose(spec.seed, "xsbench look-ups");
        let mut row = vec![0; nuclides as usize];
        for lookup in 0..spec.lookups {
            let thread = (lookup / QUANTUM % u64::from(spec.threads)) as u32;
            on.thread(thread);
            let (energy, draw) = (random.unit(), random.unit());
            let at = Lookup { frame: VirtAddr(stack.base + frame::BYTES * u64::from(thread)) };
            at.forward(on, 2 * lookup);
            let material = at.pick(on, draw);
            at.start(on, union);
            // The binary search; each step's address depends on the previous comparison.
            let (mut low, mut length) = (0, union - 1);
            let mut before = Value::NONE;
            while length > 1 {
                let middle = low + length / 2;
                on.work(2);
                before = on.load(pc::SEARCH, energies.at(middle), 8, before);
                on.work(1);
                let above = grids.energies[middle as usize] > energy;
                on.branch(pc::ABOVE, pc::BELOW, !above, before);
                if above {
                    length = middle - low;
                    on.work(2);
                    on.branch(pc::SEARCHED - 2, pc::SEARCH - 7, length > 1, before);
                } else {
                    length -= length / 2;
                    low = middle;
                    on.work(4);
                    on.branch(pc::BELOW + 13, pc::SEARCHED, length <= 1, before);
                }
            }
            found(energy, material, low as usize);
            grids.counts(low as usize, &mut row);
            let nuclides_of = &compositions[material];
            at.nuclides(on, counted.at(material as u64));
            for (j, &nuclide) in nuclides_of.iter().enumerate() {
                let place = material as u64 * counts[0] + j as u64;
                let named = on.load(pc::NUCLIDE, mats.at(place), 4, Value::NONE);
                on.load(pc::CONCENTRATION, concs.at(place), 8, Value::NONE);
                on.work(2);
                let index = on.load2(pc::INDEX, index_grid.at(low * nuclides + nuclide), 4, [before, named]);
                let point = nuclide * points + grids.index(row[nuclide as usize]);
                at.interpolate(on, &nuclide_grids, point, index, j + 1 < nuclides_of.len());
            }
            at.end(on, lookup + 1 < spec.lookups);
        }
    }
}

/// The parts of a look-up that have no data of their own but the stack frame.
struct Lookup {
    frame: VirtAddr,
}

impl Lookup {
    fn load(&self, on: &mut Execution, pc: u64, at: u64, size: u8) -> Value {
        on.load(pc, self.frame.offset(at), size, Value::NONE)
    }

    fn store(&self, on: &mut Execution, pc: u64, at: u64, size: u8) {
        on.store(pc, self.frame.offset(at), size, Value::NONE);
    }

    /// Moves the generator on by `n` numbers, and draws two.
    fn forward(&self, on: &mut Execution, n: u64) {
        on.work(5);
        let mut rest = n;
        while rest > 0 {
            on.work(1);
            let bit = rest & 1 == 1;
            on.branch(pc::BIT, pc::BIT + 13, !bit, Value::NONE);
            on.work(if bit { 3 + 4 } else { 4 });
            rest >>= 1;
            on.branch(pc::NEXT_BIT, pc::BIT - 3, rest > 0, Value::NONE);
        }
        on.work(18);
    }

    /// Picks a material: the first one after the fuel at which the sum of the shares exceeds `draw`, or the
    /// fuel.
    fn pick(&self, on: &mut Execution, draw: f64) -> usize {
        on.work(1);
        // The shares, copied to the stack.
        for (i, vector) in (0..6).enumerate() {
            self.store(on, pc::PICK + if i == 0 { 0 } else { 14 + 6 * i as u64 }, frame::SHARES + 16 * vector, 16);
            on.work(if i == 0 { 3 } else { 0 });
        }
        on.branch(pc::NEGATIVE, pc::FOUND, false, Value::NONE);
        let mut sum = 0.0;
        for (material, share) in PROBABILITIES.iter().enumerate().skip(1) {
            sum += share;
            on.work(6);
            let mut last = Value::NONE;
            for j in (1..=material as u64).rev() {
                last = self.load(on, pc::SHARE, frame::SHARES + 8 * j, 8);
                on.work(2);
                on.branch(pc::SHARES, pc::SHARE, j > 1, Value::NONE);
            }
            on.work(1);
            let picked = draw < sum;
            on.branch(pc::PICKED, pc::FOUND, picked, last);
            if picked {
                self.load(on, pc::FOUND, frame::COUNTS, 8);
                on.work(3);
                return material;
            }
            on.work(3);
            on.branch(pc::NEXT_SHARE, pc::SHARE - 24, material + 1 < MATERIALS, Value::NONE);
        }
        self.load(on, pc::NEXT_SHARE + 2, frame::COUNTS, 8);
        on.work(1);
        0
    }

    /// Clears the sums, and begins the search in `union` points.
    fn start(&self, on: &mut Execution, union: u64) {
        let length = self.load(on, pc::LENGTH, frame::LENGTH, 8);
        self.store(on, pc::LENGTH + 5, frame::SUMS, 16);
        self.store(on, pc::LENGTH + 10, frame::SUMS + 32, 8);
        self.store(on, pc::LENGTH + 19, frame::SUMS + 16, 16);
        on.work(1);
        on.branch(pc::EMPTY, pc::SEARCHED, union <= 2, length);
        on.work(3);
    }

    /// Begins the loop over the material's nuclides, of which there are as many as `counted` says.
    fn nuclides(&self, on: &mut Execution, counted: VirtAddr) {
        let count = on.load(pc::SEARCHED, counted, 4, Value::NONE);
        on.work(1);
        on.branch(pc::SEARCHED + 6, pc::LARGEST - 10, false, count);
        self.load(on, pc::NUCLIDES, frame::LOCALS, 8);
        self.load(on, pc::NUCLIDES + 5, frame::LOCALS + 8, 8);
        self.store(on, pc::NUCLIDES + 10, frame::VERIFICATION - 16, 8);
        self.store(on, pc::NUCLIDES + 15, frame::VERIFICATION - 8, 8);
        self.load(on, pc::NUCLIDES + 20, frame::LOCALS + 16, 8);
        on.work(1);
        self.load(on, pc::NUCLIDES + 29, frame::LOCALS + 24, 4);
        on.work(2);
        self.load(on, pc::NUCLIDES + 39, frame::LOCALS + 24, 8);
        on.work(3);
    }

    /// Interpolates between a nuclide's `point` and the next one, whose place was computed from `index`, and
    /// adds to the sums; `more` nuclides follow.
    fn interpolate(&self, on: &mut Execution, grid: &Array, point: u64, index: Value, more: bool) {
        /// Offset and bytes of each load from the two points, and the instructions after it.
        const LOADS: [(u64, u8, u32); 9] = [
            (0x30, 8, 0),
            (0x18, 16, 1),
            (0, 8, 2),
            (0x48, 16, 2),
            (8, 16, 4),
            (0x38, 16, 1),
            (0x58, 8, 1),
            (0x38, 16, 2),
            (0x28, 8, 2),
        ];
        on.work(8);
        for (i, (offset, bytes, after)) in LOADS.into_iter().enumerate() {
            on.load(pc::POINT + 12 * i as u64, grid.at(point).offset(offset), bytes, index);
            on.work(after);
            if i == 5 {
                self.store(on, pc::POINT + 73, frame::SHARES + 16, 16);
            }
        }
        self.store(on, pc::POINT + 112, frame::SHARES, 16);
        on.work(1);
        self.store(on, pc::POINT + 121, frame::SHARES + 32, 8);
        for field in 0..5 {
            self.load(on, pc::SUM, frame::SHARES + 8 * field, 8);
            on.work(3);
            self.load(on, pc::SUM + 16, frame::SUMS + 8 * field, 8);
            self.store(on, pc::SUM + 21, frame::SUMS + 8 * field, 8);
            on.work(1);
            on.branch(pc::SUM + 29, pc::SUM, field < 4, Value::NONE);
        }
        on.work(2);
        on.branch(pc::NEXT_NUCLIDE, pc::NUCLIDE, more, Value::NONE);
    }

    /// Finds the largest sum; `more` look-ups follow.
    fn end(&self, on: &mut Execution, more: bool) {
        self.load(on, pc::LARGEST - 20, frame::VERIFICATION - 16, 8);
        self.load(on, pc::LARGEST - 15, frame::VERIFICATION - 8, 8);
        on.work(3);
        for field in 0..5 {
            self.load(on, pc::LARGEST, frame::SUMS + 8 * field, 8);
            on.work(6);
            on.branch(pc::LARGEST + 29, pc::LARGEST, field < 4, Value::NONE);
        }
        on.work(3);
        on.update(pc::LARGEST + 40, self.frame.offset(frame::VERIFICATION), 8, Value::NONE);
        let lookups = self.load(on, pc::LARGEST + 45, frame::LOOKUPS, 8);
        on.branch(pc::NEXT_LOOKUP, pc::FOUND + 24, !more, lookups);
    }
}

#[cfg(test)]
mod tests;
