//! canneal: simulated annealing of a netlist's placement.
//!
//! Stands for PARSEC's canneal (Bienia et al., PACT 2008; RMM Table 4: 780 MB). Layout, as on the C++
//! program's heap: the vector of elements (88 bytes each: name, fan-in and fan-out vectors, pointer to the
//! location), each element's two vectors of pointers on the heap as its connections are read, the locations
//! (8 bytes) and the grid of pointers to them. First touch in the order in which the netlist is read.
//!
//! A step picks two elements at random, computes the routing cost with their locations swapped (a pointer,
//! its location's pointer and the location for each connection), and swaps them if that is better, or with a
//! probability that falls with the temperature. The netlist, the locations and the costs are real.
//!
//! ```text
//! connection  mov (fan,i),element; mov location(element),pointer; mov (pointer),x; mov 4(pointer),y;
//!             8 x arithmetic, twice
//! swap        mov; mov; mov; mov
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, check_sim_host_bytes, identity};
use crate::heap::HeapModel;
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of canneal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CannealSpec {
    /// Bytes of the netlist; sets the number of elements.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of netlist and moves.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Connections that enter an element, and that leave it on average.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "canneal's inputs: 5"))]
    pub fan: u32,
    /// Moves at each temperature.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count", "x-source" = "canneal: 15000"))]
    pub moves: u64,
    /// First temperature; each is two thirds of the one before.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "ratio", "x-source" = "canneal: 2000"))]
    pub temperature: f64,
    /// Temperatures, after which the program ends.
    #[schemars(range(min = 1, max = 1 << 20), extend("x-unit" = "count", "x-source" = "canneal, native input: 6000"))]
    pub temperatures: u32,
    /// Threads, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count"))]
    pub threads: u32,
    /// The heap that allocates the objects.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice; RMM's programs use TCMalloc"))]
    pub heap: HeapModel,
}

impl Default for CannealSpec {
    fn default() -> Self {
        CannealSpec {
            footprint: 780 << 20,
            seed: 1,
            fan: 5,
            moves: 15_000,
            temperature: 2000.0,
            temperatures: 6000,
            threads: 1,
            heap: HeapModel::default(),
        }
    }
}

const ELEMENT_BYTES: u64 = 88;
const LOCATION_BYTES: u64 = 8;
/// Average bytes of a heap chunk's header and alignment.
const CHUNK_BYTES: u64 = 12;

impl CannealSpec {
    fn elements(&self) -> u64 {
        let vectors = 2 * (8 * u64::from(self.fan) + CHUNK_BYTES);
        self.footprint / (ELEMENT_BYTES + LOCATION_BYTES + 8 + vectors + 8)
    }
}

impl BenchmarkSpec for CannealSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "canneal",
        about: "simulated annealing: random pairs of a netlist's elements, their connections' locations, swaps",
        stands_for: "PARSEC canneal; pointer-rich optimisation",
        default_footprint: 780 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if self.elements() < 4 {
            problems.push(Invalid::new(
                format!("{at}.footprint"),
                format!("holds {} elements; set a larger one, or a smaller `{at}.fan`", self.elements()),
            ));
        }
        if self.elements() > u64::from(u32::MAX) / (u64::from(self.fan) + 1) {
            problems.push(Invalid::new(
                format!("{at}.footprint"),
                format!("holds {} elements: more than 2^32 connections", self.elements()),
            ));
        }
        // Connections both ways, their starts, places and vectors.
        let of_element = 8 * u128::from(self.fan) + 32;
        check_sim_host_bytes(at, "footprint", u128::from(self.elements()) * of_element, &mut problems);
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let facts = format!("{} elements", self.elements());
        let bytes = self.footprint / 20 * 19;
        ProgramSource::boxed(identity("canneal", self, &facts, bytes), AddressSpace::new(), Canneal(self.clone()))
    }
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const ELEMENT: u64 = TEXT + 0x200;
    pub const VECTOR: u64 = TEXT + 0x210;
    pub const FAN: u64 = TEXT + 0x220;
    pub const LOCATION: u64 = TEXT + 0x228;
    pub const X: u64 = TEXT + 0x230;
    pub const Y: u64 = TEXT + 0x234;
    pub const DECIDE: u64 = TEXT + 0x280;
    pub const SWAP: u64 = TEXT + 0x290;
}

/// The netlist and where it lies.
struct Netlist {
    fan: usize,
    width: u64,
    /// Of element `i`: those that enter it, `fan` each.
    inputs: Vec<u32>,
    /// Of element `i`: those that it enters, `outputs[starts[i]..starts[i + 1]]`.
    outputs: Vec<u32>,
    starts: Vec<u32>,
    /// The location of each element.
    places: Vec<u32>,
    elements_at: Array,
    locations_at: Array,
    /// Where each element's two vectors begin.
    vectors_at: Vec<[u64; 2]>,
}

impl Netlist {
    fn new(spec: &CannealSpec, on: &mut Execution) -> Netlist {
        let n = spec.elements();
        let fan = spec.fan as usize;
        let mut random = Random::for_purpose(spec.seed, "canneal netlist");
        // Any element but itself.
        let other = |i: u64, draw: u64| (if draw >= i { draw + 1 } else { draw }) as u32;
        let inputs: Vec<u32> = (0..n * fan as u64).map(|i| other(i / fan as u64, random.below(n - 1))).collect();
        let mut starts = vec![0u32; n as usize + 1];
        inputs.iter().for_each(|from| starts[*from as usize + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut filled = starts.clone();
        let mut outputs = vec![0; inputs.len()];
        for (i, from) in inputs.iter().enumerate() {
            let slot = &mut filled[*from as usize];
            outputs[*slot as usize] = (i / fan) as u32;
            *slot += 1;
        }
        let width = (n as f64).sqrt().ceil() as u64;
        // The grid's locations are created first, then elements as they are read, each with its vectors.
        let locations_at = on.filled_array(LOCATION_BYTES, width * width);
        on.filled_array(8, width * width);
        let elements_at = on.array(ELEMENT_BYTES, n);
        let mut vectors_at = Vec::with_capacity(n as usize);
        for i in 0..n {
            let at = elements_at.at(i);
            on.fill(at, ELEMENT_BYTES);
            let leaves = u64::from(starts[i as usize + 1] - starts[i as usize]);
            let both = [fan as u64, leaves].map(|pointers| {
                let at = on.allocate((8 * pointers).max(8));
                on.fill(at, (8 * pointers).max(8));
                at.0
            });
            vectors_at.push(both);
        }
        let mut places: Vec<u32> = (0..n as u32).collect();
        random.shuffle(&mut places);
        Netlist { fan, width, inputs, outputs, starts, places, elements_at, locations_at, vectors_at }
    }

    fn connections(&self, element: u32, outward: bool) -> &[u32] {
        let i = element as usize;
        if outward {
            &self.outputs[self.starts[i] as usize..self.starts[i + 1] as usize]
        } else {
            &self.inputs[i * self.fan..(i + 1) * self.fan]
        }
    }

    fn distance(&self, a: u32, b: u32) -> i64 {
        let at = |place: u32| (u64::from(place) / self.width, u64::from(place) % self.width);
        let ((ax, ay), (bx, by)) = (at(a), at(b));
        (ax.abs_diff(bx) + ay.abs_diff(by)) as i64
    }

    /// The change of an element's routing cost from its location to another.
    fn change(&self, on: &mut Execution, element: u32, object: Value, from: u32, to: u32) -> (i64, Value) {
        let mut change = 0;
        let mut last = Value::NONE;
        for outward in [false, true] {
            let field = self.elements_at.at(u64::from(element)).offset(32 + 24 * u64::from(outward));
            let vector = on.load(pc::VECTOR, field, 8, object);
            on.load(pc::VECTOR + 8, field.offset(8), 8, object);
            on.work(4);
            for (k, &other) in self.connections(element, outward).iter().enumerate() {
                let pointer = VirtAddr(self.vectors_at[element as usize][usize::from(outward)] + 8 * k as u64);
                let found = on.load(pc::FAN, pointer, 8, vector);
                let location = on.load(pc::LOCATION, self.elements_at.at(u64::from(other)).offset(80), 8, found);
                let there = self.places[other as usize];
                let at = self.locations_at.at(u64::from(there));
                on.load(pc::X, at, 4, location);
                last = on.load(pc::Y, at.offset(4), 4, location);
                on.work(18);
                change += self.distance(to, there) - self.distance(from, there);
            }
        }
        (change, last)
    }

    #[cfg(test)]
    fn cost(&self) -> i64 {
        let wires = self.inputs.iter().enumerate();
        wires.map(|(i, from)| self.distance(self.places[i / self.fan], self.places[*from as usize])).sum()
    }
}

struct Canneal(CannealSpec);

impl Program for Canneal {
    fn run(self: Box<Self>, on: &mut Execution) {
        on.use_heap(self.0.heap);
        let mut netlist = Netlist::new(&self.0, on);
        on.begin_region();
        self.anneal(on, &mut netlist, |_| ());
    }
}

/// Moves that a thread makes before the next one runs.
const QUANTUM: u64 = 32;

impl Canneal {
    /// All moves; `moved` receives each accepted one's change of the cost.
    fn anneal(&self, on: &mut Execution, netlist: &mut Netlist, mut moved: impl FnMut(i64)) {
        let spec = &self.0;
        let mut random = Random::for_purpose(spec.seed, "canneal moves");
        let n = netlist.places.len() as u64;
        let mut temperature = spec.temperature;
        for _ in 0..spec.temperatures {
            for step in 0..spec.moves {
                on.thread((step / QUANTUM % u64::from(spec.threads)) as u32);
                let (a, b) = (random.below(n) as u32, random.below(n) as u32);
                on.work(30);
                if a == b {
                    continue;
                }
                let [one, two] = [a, b].map(|element| {
                    on.load(pc::ELEMENT, netlist.elements_at.at(u64::from(element)).offset(80), 8, Value::NONE)
                });
                let (from_a, from_b) = (netlist.places[a as usize], netlist.places[b as usize]);
                let (first, _) = netlist.change(on, a, one, from_a, from_b);
                let (second, on_what) = netlist.change(on, b, two, from_b, from_a);
                // A connection between the two does not change when both move.
                let between = netlist.connections(a, true).iter().filter(|other| **other == b).count()
                    + netlist.connections(b, true).iter().filter(|other| **other == a).count();
                let change = first + second + 2 * between as i64 * netlist.distance(from_a, from_b);
                let accept = change < 0 || random.chance((-(change as f64) / temperature).exp());
                on.branch(pc::DECIDE, pc::SWAP, !accept, on_what);
                on.work(20);
                if accept {
                    for (i, element) in [a, b].into_iter().enumerate() {
                        let at = netlist.elements_at.at(u64::from(element)).offset(80);
                        on.load(pc::SWAP + 8 * i as u64, at, 8, Value::NONE);
                        on.store(pc::SWAP + 16 + 8 * i as u64, at, 8, Value::NONE);
                    }
                    netlist.places.swap(a as usize, b as usize);
                    moved(change);
                }
            }
            temperature /= 1.5;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn changes_add_up_to_the_cost_and_annealing_lowers_it() {
        let spec = CannealSpec {
            footprint: 1 << 20,
            moves: 20_000,
            temperatures: 12,
            temperature: 100.0,
            threads: 2,
            ..CannealSpec::default()
        };
        let ((before, changed, after, places), _) = trace_of(AddressSpace::new(), |on| {
            let mut netlist = Netlist::new(&spec, on);
            let (before, mut changed) = (netlist.cost(), 0);
            on.begin_region();
            Canneal(spec.clone()).anneal(on, &mut netlist, |change| changed += change);
            (before, changed, netlist.cost(), netlist.places)
        });
        assert_eq!(before + changed, after);
        assert!(after < before * 9 / 10, "{before} to {after}");
        let mut sorted = places;
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, place)| i as u32 == *place), "each location has one element");
    }
}
