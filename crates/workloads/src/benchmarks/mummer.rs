//! Suffix matching: maximal matches of a query in a reference, by a suffix array.
//!
//! Stands for MUMmer (Marçais et al. 2018: version 4 has a suffix array where version 3 had a suffix tree;
//! RMM Table 4, ME-HPT Table I, LVM Sec. 6.2) and other aligners that seed by suffix. Layout: the reference,
//! a byte a base; the suffix array, 8 bytes a base; the query, a byte a base. Set-up reads the reference and
//! fills the array.
//!
//! From each position of the query it finds the longest prefix that occurs in the reference. A binary search
//! in the suffix array reads an entry at each step and compares the query with the reference there, after the
//! prefix that both ends of the interval share (the simple accelerant of Manber and Myers). Genome, query and
//! array are real. The query is the reference with substitutions, in shuffled pieces, so that matches are as
//! long as among related genomes.
//!
//! ```text
//! step     lea; shr; mov (sa,middle),place; cmp; cmova
//! compare  movzbl (reference,place,i); cmp (query,i); jne; add; cmp; jb        two loads and a branch a base
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of suffix matching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MummerSpec {
    /// Bytes of reference, suffix array and query; 10 for each base of the reference.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of genome and query.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Shortest match that is reported.
    #[schemars(range(min = 4, max = 1000), extend("x-unit" = "count", "x-source" = "mummer -l (20)"))]
    pub least_match: u32,
    /// Share of the query's bases that differ from the reference.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio"))]
    pub divergence: f64,
    /// Memory of the simulator that genome and array may take; larger ones are rejected.
    #[schemars(range(max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub host_memory: u64,
}

impl Default for MummerSpec {
    fn default() -> Self {
        MummerSpec { footprint: 512 << 20, seed: 1, least_match: 20, divergence: 0.02, host_memory: 6 << 30 }
    }
}

/// Bytes in the address space for each base of the reference: itself, its place in the array, a base of the
/// query.
const BYTES_A_BASE: u64 = 10;
/// Bytes of the simulator's memory for each base while the array is sorted: letters twice, key and place.
const SIM_HOST_BYTES_A_BASE: u64 = 18;

impl MummerSpec {
    fn bases(&self) -> u64 {
        self.footprint / BYTES_A_BASE
    }
}

impl BenchmarkSpec for MummerSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "mummer",
        about: "suffix matching: the longest matches of a query in a reference, by binary search in its suffix array",
        stands_for: "MUMmer and other genome aligners",
        default_footprint: 512 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if self.bases() > u64::from(u32::MAX) || self.bases() * SIM_HOST_BYTES_A_BASE > self.host_memory {
            let message = format!(
                "is {} MiB, and a reference of {} bases takes {} MiB of the simulator's memory: raise it (up to \
                 2^32 bases), or set a smaller footprint",
                self.host_memory >> 20,
                self.bases(),
                (self.bases() * SIM_HOST_BYTES_A_BASE) >> 20
            );
            problems.push(Invalid::new(format!("{at}.host_memory"), message).and(format!("{at}.footprint")));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let facts = format!("reference and query = {} bases", self.bases());
        let identity = identity("mummer", self, &facts, self.bases() * BYTES_A_BASE);
        ProgramSource::boxed(identity, AddressSpace::new(), Mummer(self.clone()))
    }
}

/// The suffix array of letters 0 to 3. Suffixes are sorted by their first 32 letters packed into a word, and
/// where these are equal letter by letter, which random genomes hardly ever need.
fn suffix_array(letters: &[u8]) -> Vec<u32> {
    let mut keys = Vec::with_capacity(letters.len());
    let mut key = 0u64;
    for i in (0..letters.len()).rev() {
        key = key >> 2 | u64::from(letters[i]) << 62;
        keys.push((key, i as u32));
    }
    // A suffix that ends within the word precedes those that continue with the least letter.
    keys.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| letters[a.1 as usize..].cmp(&letters[b.1 as usize..])));
    keys.into_iter().map(|(_, place)| place).collect()
}

fn genome(bases: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::for_purpose(seed, "mummer reference");
    let mut letters = Vec::with_capacity(bases as usize);
    while (letters.len() as u64) < bases {
        let word = random.next_u64();
        letters.extend((0..32).map(|i| (word >> (2 * i) & 3) as u8));
    }
    letters.truncate(bases as usize);
    letters
}

/// The reference in pieces, shuffled, with substitutions.
fn query(reference: &[u8], divergence: f64, seed: u64) -> Vec<u8> {
    const PIECE: usize = 5000;
    let mut random = Random::for_purpose(seed, "mummer query");
    let mut pieces: Vec<&[u8]> = reference.chunks(PIECE).collect();
    random.shuffle(&mut pieces);
    let mut letters: Vec<u8> = pieces.concat();
    for letter in &mut letters {
        if random.chance(divergence) {
            *letter = (*letter + 1 + random.below(3) as u8) & 3;
        }
    }
    letters
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const PLACE: u64 = TEXT + 0x240;
    pub const REFERENCE: u64 = TEXT + 0x250;
    pub const QUERY: u64 = TEXT + 0x256;
    pub const DIFFERS: u64 = TEXT + 0x25a;
    pub const OUT: u64 = TEXT + 0x268;
}

/// Text and arrays, with their addresses.
struct Index {
    reference: Vec<u8>,
    query: Vec<u8>,
    suffixes: Vec<u32>,
    reference_at: Array,
    query_at: Array,
    suffixes_at: Array,
}

struct Mummer(MummerSpec);

impl Program for Mummer {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.matches(on, |_, _, _| ());
    }
}

impl Mummer {
    /// Finds all matches; `found` receives the place in the query, the place in the reference, and the
    /// length.
    fn matches(&self, on: &mut Execution, mut found: impl FnMut(usize, usize, usize)) {
        let spec = &self.0;
        let bases = spec.bases();
        let reference = genome(bases, spec.seed);
        let index = Index {
            query: query(&reference, spec.divergence, spec.seed),
            suffixes: suffix_array(&reference),
            reference,
            reference_at: on.filled_array(1, bases),
            suffixes_at: on.filled_array(8, bases),
            query_at: on.filled_array(1, bases),
        };
        on.begin_region();
        let mut at = 0;
        while at < index.query.len() {
            let (place, length) = index.longest(on, at);
            if length >= spec.least_match as usize {
                found(at, place, length);
                on.work(20);
                at += length; // the following letters belong to another match
            } else {
                at += 1;
            }
            on.work(6);
        }
    }
}

impl Index {
    /// The longest prefix of the query from `at` on that the reference has, and where.
    fn longest(&self, on: &mut Execution, at: usize) -> (usize, usize) {
        let wanted = &self.query[at..];
        let (mut low, mut high) = (0usize, self.suffixes.len());
        // Letters that the suffixes at both ends share with the query.
        let (mut shared_low, mut shared_high) = (0, 0);
        let mut best = (0, 0);
        while low < high {
            let middle = (low + high) / 2;
            on.work(3);
            let place = self.suffixes[middle] as usize;
            let entry = on.load(pc::PLACE, self.suffixes_at.at(middle as u64), 8, Value::NONE);
            on.work(2);
            let mut same = shared_low.min(shared_high);
            let less = loop {
                if same == wanted.len() || place + same == self.reference.len() {
                    on.work(2);
                    break place + same == self.reference.len() && same < wanted.len();
                }
                let letter = on.load(pc::REFERENCE, self.reference_at.at((place + same) as u64), 1, entry);
                on.load(pc::QUERY, self.query_at.at((at + same) as u64), 1, Value::NONE);
                let differs = self.reference[place + same] != wanted[same];
                on.branch(pc::DIFFERS, pc::OUT, differs, letter);
                if differs {
                    break self.reference[place + same] < wanted[same];
                }
                on.work(3);
                same += 1;
            };
            if same > best.1 {
                best = (place, same);
            }
            if less {
                (low, shared_low) = (middle + 1, same);
            } else {
                (high, shared_high) = (middle, same);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn the_suffix_array_is_sorted() {
        let repeats: Vec<u8> = (0..3000).map(|i| (i / 7 % 4) as u8).collect();
        for letters in [genome(3000, 5), repeats, vec![0; 100]] {
            let array = suffix_array(&letters);
            assert_eq!(array.len(), letters.len());
            assert!(array.windows(2).all(|p| letters[p[0] as usize..] < letters[p[1] as usize..]));
        }
    }

    #[test]
    fn matches_are_the_longest_by_brute_force() {
        let spec = MummerSpec { footprint: 20_000, divergence: 0.05, least_match: 8, ..MummerSpec::default() };
        let reference = genome(spec.bases(), spec.seed);
        let query = query(&reference, spec.divergence, spec.seed);
        let mut matches = 0;
        trace_of(AddressSpace::new(), |on| {
            Mummer(spec.clone()).matches(on, |at, place, length| {
                matches += 1;
                let common = |p: usize| reference[p..].iter().zip(&query[at..]).take_while(|(a, b)| a == b).count();
                assert_eq!(common(place), length);
                let longest = (0..reference.len()).map(common).max().unwrap();
                assert_eq!(length, longest, "at {at}");
            });
        });
        assert!(matches > 50, "{matches}");
    }
}
