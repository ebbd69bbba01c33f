//! k-mer counting: every k-mer of long reads is looked up in a hash table and its count raised.
//!
//! Stands for GenomicsBench's `kmer-cnt` (Flye's k-mer index; Revelator and Utopia: 33 GB): canonical k-mers
//! of long reads, counted in a cuckoo hash table (libcuckoo): buckets of four slots of 16 bytes (k-mer and
//! count) after 8 bytes of partial keys and marks; a k-mer is in one of two buckets; a full pair of buckets
//! moves an entry to its other bucket. Layout: the table, one mapping, zeroed by its constructor; a buffer
//! for the read.
//!
//! Reads are real: substrings of a random genome from either strand, with substitutions. The simulator stores
//! only occupied buckets; a run fills few of a large table's.
//!
//! ```text
//! base    movzbl (read); shl; or; and; shr; or; cmp; cmova
//!           (the k-mer and its reverse complement)
//! hash    12 instructions; mov (locks)
//! bucket  movq partials; movd; pcmpeqb; pmovmskb; test; je
//!           (one load, then the slots that may match)
//! slot    cmp (slot),k-mer; jne; addq $1,8(slot)
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, TEXT};
use ambulator_base::{Invalid, Random, RecordSource, VirtAddr, mix64, mul_high};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of k-mer counting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KmerSpec {
    /// Bytes of the hash table, rounded down to whole buckets.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of genome and reads.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Bases of a k-mer, 8 to 31.
    #[schemars(range(min = 8, max = 31), extend("x-unit" = "count", "x-source" = "Flye: 17"))]
    pub k: u32,
    /// Bases of the genome.
    #[schemars(range(min = 1 << 10, max = 1_u64 << 34), extend("x-unit" = "count"))]
    pub genome: u64,
    /// Bases of a read.
    #[schemars(range(min = 8, max = 1 << 30), extend("x-unit" = "count"))]
    pub read_length: u32,
    /// Share of a read's bases that are wrong.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "raw long reads: 5 to 15%"))]
    pub error_rate: f64,
    /// Reads, after which the program ends.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count"))]
    pub reads: u64,
    /// Threads that take reads round-robin, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count"))]
    pub threads: u32,
}

impl Default for KmerSpec {
    fn default() -> Self {
        KmerSpec {
            footprint: 8 << 30,
            seed: 1,
            k: 17,
            genome: 100_000_000,
            read_length: 10_000,
            error_rate: 0.1,
            reads: 1_000_000,
            threads: 1,
        }
    }
}

/// Bytes of a bucket: 8 of partial keys and marks, four slots.
const BUCKET_BYTES: u64 = 8 + 4 * SLOT_BYTES;
const SLOT_BYTES: u64 = 16;
const SLOTS: usize = 4;

impl BenchmarkSpec for KmerSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "kmer",
        about: "k-mer counting: k-mers of long reads counted in a cuckoo hash table",
        stands_for: "GenomicsBench kmer-cnt; jellyfish, KMC and other k-mer counters",
        default_footprint: 8 << 30,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if u64::from(self.read_length) < u64::from(self.k) || self.genome < u64::from(self.read_length) {
            problems.push(
                Invalid::new(
                    format!("{at}.read_length"),
                    format!(
                        "is {}; it must be at least `{at}.k` ({}) and at most `{at}.genome` ({})",
                        self.read_length, self.k, self.genome
                    ),
                )
                .and(format!("{at}.k"))
                .and(format!("{at}.genome")),
            );
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let buckets = self.footprint / BUCKET_BYTES;
        let facts = format!("{buckets} buckets of {SLOTS} k-mers");
        let identity = identity("kmer", self, &facts, buckets * BUCKET_BYTES);
        ProgramSource::boxed(identity, AddressSpace::new(), Kmer(self.clone()))
    }
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const BASE: u64 = TEXT + 0x210;
    pub const PARTIALS: u64 = TEXT + 0x270;
    pub const NONE_MATCHES: u64 = TEXT + 0x284;
    pub const SLOT: u64 = TEXT + 0x290;
    pub const OTHER: u64 = TEXT + 0x296;
    pub const COUNT: u64 = TEXT + 0x29c;
    pub const MARK: u64 = TEXT + 0x2f0;
    pub const INSERT: u64 = TEXT + 0x2f8;
    pub const INSERT_COUNT: u64 = TEXT + 0x300;
    pub const MOVE: u64 = TEXT + 0x340;
}

type Bucket = [Option<(u64, u64)>; SLOTS];

struct Table {
    base: u64,
    buckets: u64,
    held: FxHashMap<u64, Bucket>,
}

impl Table {
    fn places(&self, kmer: u64) -> [u64; 2] {
        let hash = mix64(kmer);
        let first = mul_high(hash, self.buckets);
        let second = mul_high(mix64(hash ^ 0xc0c0), self.buckets);
        [first, second]
    }

    fn partial(kmer: u64) -> u8 {
        (mix64(kmer) & 0xff) as u8
    }

    fn bucket(&self, bucket: u64) -> VirtAddr {
        VirtAddr(self.base + bucket * BUCKET_BYTES)
    }

    fn slot(&self, bucket: u64, slot: usize) -> VirtAddr {
        self.bucket(bucket).offset(8 + slot as u64 * SLOT_BYTES)
    }

    /// Increments the count of a k-mer; false if the table is full.
    fn count(&mut self, on: &mut Execution, kmer: u64, computed: Value) -> bool {
        let places = self.places(kmer);
        for place in places {
            let marks = on.load(pc::PARTIALS, self.bucket(place), 8, computed);
            on.work(4);
            let mut at = [None; SLOTS];
            if let Some(bucket) = self.held.get(&place) {
                at = *bucket;
            }
            let may =
                |entry: &Option<(u64, u64)>| entry.is_some_and(|(held, _)| Self::partial(held) == Self::partial(kmer));
            on.branch(pc::NONE_MATCHES, pc::MARK, !at.iter().any(may), marks);
            for (slot, entry) in at.iter().enumerate().filter(|(_, entry)| may(entry)) {
                let held = on.load(pc::SLOT, self.slot(place, slot), 8, marks);
                let same = entry.is_some_and(|(held, _)| held == kmer);
                on.branch(pc::OTHER, pc::MARK, !same, held);
                if same {
                    on.update(pc::COUNT, self.slot(place, slot).offset(8), 8, marks);
                    on.work(2);
                    if let Some(Some((_, count))) = self.held.get_mut(&place).map(|bucket| &mut bucket[slot]) {
                        *count += 1;
                    }
                    return true;
                }
            }
        }
        self.insert(on, kmer, places)
    }

    /// Puts a new k-mer into the first free slot of its buckets; without one, moves others to their
    /// alternatives.
    fn insert(&mut self, on: &mut Execution, kmer: u64, places: [u64; 2]) -> bool {
        /// More moves than this mean that the table is full.
        const MOST_MOVES: usize = 500;
        let mut entry = (kmer, 1);
        let mut candidates = places.to_vec();
        for moves in 0..MOST_MOVES {
            for &place in &candidates {
                let bucket = self.held.entry(place).or_default();
                if let Some(slot) = bucket.iter().position(Option::is_none) {
                    bucket[slot] = Some(entry);
                    on.store(pc::MARK, self.bucket(place).offset(slot as u64), 1, Value::NONE);
                    on.store(pc::INSERT, self.slot(place, slot), 8, Value::NONE);
                    on.store(pc::INSERT_COUNT, self.slot(place, slot).offset(8), 8, Value::NONE);
                    on.work(6);
                    return true;
                }
            }
            // An entry of the last bucket moves to its alternative bucket.
            let place = candidates[candidates.len() - 1];
            let slot = moves % SLOTS;
            let Some(bucket) = self.held.get_mut(&place) else { return false };
            let Some(moved) = bucket[slot].replace(entry) else { return false };
            on.load(pc::MOVE, self.slot(place, slot), 16, Value::NONE);
            on.store(pc::MOVE + 8, self.slot(place, slot), 16, Value::NONE);
            on.work(20);
            let [a, b] = self.places(moved.0);
            entry = moved;
            candidates = vec![if a == place { b } else { a }];
        }
        false
    }
}

struct Kmer(KmerSpec);

impl Program for Kmer {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.count(on, |_| ());
    }
}

impl Kmer {
    /// Counts the k-mers of all reads and returns the table; `seen` receives each canonical k-mer.
    fn count(&self, on: &mut Execution, mut seen: impl FnMut(u64)) -> Table {
        let spec = &self.0;
        let buckets = spec.footprint / BUCKET_BYTES;
        let array = on.filled_array(BUCKET_BYTES, buckets);
        let mut table = Table { base: array.base, buckets, held: FxHashMap::default() };
        let length = u64::from(spec.read_length);
        let reads: Vec<_> = (0..spec.threads).map(|_| on.filled_array(1, length)).collect();
        on.begin_region();
        let seed = spec.seed;
        // The bases of both strands come from a hash: the genome is not stored.
        let base = |at: u64| mix64(at ^ seed.rotate_left(40)) & 3;
        let mut random = Random::for_purpose(seed, "kmer reads");
        let (mask, top) = ((1u64 << (2 * spec.k)) - 1, 2 * (spec.k - 1));
        for read in 0..spec.reads {
            let thread = (read % u64::from(spec.threads)) as u32;
            on.thread(thread);
            let buffer = &reads[thread as usize];
            let start = random.below(spec.genome - length + 1);
            let reverse = random.chance(0.5);
            let (mut forward, mut backward) = (0u64, 0u64);
            for i in 0..length {
                let mut letter = if reverse { 3 - base(start + length - 1 - i) } else { base(start + i) };
                if random.chance(spec.error_rate) {
                    letter = (letter + 1 + random.below(3)) & 3;
                }
                let loaded = on.load(pc::BASE, buffer.at(i), 1, Value::NONE);
                forward = (forward << 2 | letter) & mask;
                backward = backward >> 2 | (3 - letter) << top;
                on.work(8);
                if i + 1 >= u64::from(spec.k) {
                    let kmer = forward.min(backward);
                    seen(kmer);
                    on.work(12);
                    if !table.count(on, kmer, loaded) {
                        return table; // the table is full: the program gives up
                    }
                }
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn counts_are_those_of_a_plain_map() {
        let small = KmerSpec { footprint: 4 << 20, genome: 5000, read_length: 500, reads: 60, ..KmerSpec::default() };
        // A table that is almost full moves entries about.
        let tight = KmerSpec { footprint: 72 * 1200, error_rate: 0.0, genome: 4200, reads: 100, ..small.clone() };
        for spec in [small, tight] {
            let mut plain: FxHashMap<u64, u64> = FxHashMap::default();
            let (table, _) =
                trace_of(AddressSpace::new(), |on| Kmer(spec).count(on, |k| *plain.entry(k).or_default() += 1));
            let mut counted: FxHashMap<u64, u64> = FxHashMap::default();
            for (place, bucket) in &table.held {
                for (kmer, count) in bucket.iter().flatten() {
                    assert!(table.places(*kmer).contains(place), "a k-mer is in one of its buckets");
                    assert!(counted.insert(*kmer, *count).is_none(), "a k-mer is in one slot");
                }
            }
            assert_eq!(counted, plain);
            assert!(plain.values().any(|n| *n > 3), "reads overlap");
        }
    }
}
