//! k-mer counting: every k-mer of long reads is looked up in a hash table and its count raised.
//!
//! Stands for GenomicsBench's `kmer-cnt` (Flye's k-mer index; Revelator and Utopia: 33 GB): canonical k-mers
//! of long reads, counted in libcuckoo's hash table: buckets of four slots of 16 bytes (k-mer and count),
//! then four partial keys and four marks of a byte each; a k-mer is in one of two buckets; a full pair of
//! buckets moves an entry to its other bucket. Both buckets are locked meanwhile: 65,536 locks of 64 bytes,
//! each with the number of its entries. Layout: the table, one mapping, zeroed by its constructor; the locks;
//! a buffer for the read, two bits a base. (`kmer-cnt` counts in an array of all k-mers first, 8 GiB for 17
//! bases, and in the table what that cannot hold; the table alone reaches the papers' 33 GB.)
//!
//! Reads are real: substrings of a random genome from either strand, with substitutions. The simulator stores
//! only occupied buckets; a run fills few of a large table's.
//!
//! The compiled program keeps most of its state on the stack. For each base:
//!
//! ```text
//! base     mov length; cmp; jae; mov k; cmpb complement; mov chunks; jne; mov (chunk); shr; and; lea; and
//! reverse  lea; mov; not; and; lea; shr; add; cmp; jne            k rounds: the reverse complement
//! hash     some 40 instructions: the hash of the smaller one, and its partial key
//! lock     mov locks; xchg (lock); test; jne; ... and the second one; cmpb migrated
//! slot     cmpb $0,68(bucket); je; cmp 64(bucket),partial; jne; cmp (slot),k-mer; jne       four, twice
//! count    addq $1,8(slot)                                                 or
//! insert   mov partial; mov k-mer; mov count; mov mark; addq $1,8(lock)
//! unlock   movb $0,(lock), twice
//! ```

mod frame;

use frame::{Frame, word};

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, Counts, Density, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
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

const SLOTS: usize = 4;
const SLOT_BYTES: u64 = 16;
/// Offsets of the partial keys and of the marks of occupied slots in a bucket.
const PARTIALS: u64 = SLOTS as u64 * SLOT_BYTES;
const MARKS: u64 = PARTIALS + SLOTS as u64;
/// Bytes of a bucket.
const BUCKET_BYTES: u64 = MARKS + SLOTS as u64;
/// The most locks, and the bytes of one: the lock, the number of its entries, whether it has been migrated.
const LOCKS: u64 = 1 << 16;
const LOCK_BYTES: u64 = 64;
/// Bases in a word of a read.
const WORD_BASES: u64 = 32;

impl BenchmarkSpec for KmerSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "kmer",
        about: "k-mer counting: k-mers of long reads counted in a cuckoo hash table",
        stands_for: "GenomicsBench kmer-cnt; jellyfish, KMC and other k-mer counters",
        default_footprint: 8 << 30,
    };

    const DENSITIES: &[Density] = &[Density {
        compiled_program: "kmer 17 20",
        settings: r#"{ "footprint": 75497472, "genome": 1000000, "reads": 20 }"#,
        unit: "k-mer",
        site: pc::STANDARD,
        skip: 0,
        units: 50_000,
        compiled: Counts { instructions: 381.3, loads: 52.512, stores: 23.993, branches: 46.501 },
    }];

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

/// Code addresses of the compiled loop, in its order.
mod pc {
    use super::TEXT;
    pub const NEXT: u64 = TEXT + 0x210;
    pub const END: u64 = TEXT + 0x225;
    pub const COMPLEMENT: u64 = TEXT + 0x242;
    pub const CHUNK: u64 = TEXT + 0x25a;
    pub const SHORT: u64 = TEXT + 0x281;
    pub const REVERSE: u64 = TEXT + 0x2a1;
    pub const STANDARD: u64 = TEXT + 0x2bc;
    pub const HASH: u64 = TEXT + 0x2fd;
    pub const PARTIAL: u64 = TEXT + 0x32f;
    pub const ORDER: u64 = TEXT + 0x367;
    pub const LOCK: u64 = TEXT + 0x38d;
    pub const RESIZED: u64 = TEXT + 0x39d;
    pub const SECOND: u64 = TEXT + 0x3a6;
    pub const ONE_LOCK: u64 = TEXT + 0x3c6;
    pub const LOCK_SECOND: u64 = TEXT + 0x3dd;
    pub const MIGRATED: u64 = TEXT + 0x3ee;
    pub const LOCKED: u64 = TEXT + 0x5da;
    pub const SLOTS: u64 = TEXT + 0x656;
    pub const NO_SLOT: u64 = TEXT + 0x6af;
    pub const INSERT: u64 = TEXT + 0x6bb;
    pub const UNLOCK: u64 = TEXT + 0x6f0;
    pub const MOVE: u64 = TEXT + 0x740;
    pub const REFUSED: u64 = TEXT + 0x7c0;
}

type Bucket = [Option<(u64, u64)>; SLOTS];

/// Where a search of a bucket ended.
enum Found {
    /// The k-mer is in this slot.
    Slot(usize),
    /// It is not there; the last free slot.
    Not(Option<usize>),
}

struct Table {
    base: u64,
    buckets: u64,
    locks: Array,
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
        self.bucket(bucket).offset(slot as u64 * SLOT_BYTES)
    }

    fn lock(&self, bucket: u64) -> VirtAddr {
        self.locks.at(bucket % self.locks.len)
    }

    /// Increments the count of a k-mer that was `computed` from a load; false if the table is full.
    fn count(&mut self, on: &mut Frame<'_>, kmer: u64, computed: Value) -> bool {
        let places = self.places(kmer);
        self.lock_two(on, places, computed);
        let buckets = on.reload(pc::LOCKED + 14, word::TABLE);
        let mut free = None;
        for (i, &place) in places.iter().enumerate() {
            if i > 0 {
                on.reload(pc::SLOTS - 8, word::BUCKETS + 1);
                on.0.work(2);
            }
            match self.search(on, i as u64, place, kmer, [buckets, computed]) {
                Found::Slot(slot) => {
                    on.0.update(pc::SLOTS + 40, self.slot(place, slot).offset(8), 8, computed);
                    on.0.work(1);
                    if let Some(Some((_, count))) = self.held.get_mut(&place).map(|bucket| &mut bucket[slot]) {
                        *count += 1;
                    }
                    self.unlock(on, places);
                    return true;
                }
                Found::Not(slot) => free = free.or(slot.map(|slot| (place, slot))),
            }
        }
        on.0.work(1);
        on.0.branch(pc::NO_SLOT, pc::MOVE, free.is_none(), Value::NONE);
        let inserted = match free {
            Some((place, slot)) => {
                self.insert(on, place, slot, (kmer, 1), computed);
                true
            }
            None => self.make_room(on, kmer, places),
        };
        self.unlock(on, places);
        inserted
    }

    /// Takes the locks of two buckets, the lower one first.
    fn lock_two(&self, on: &mut Frame<'_>, places: [u64; 2], computed: Value) {
        let mut locks = places.map(|place| self.lock(place));
        let swap = locks[1].0 >= locks[0].0;
        on.reload(pc::ORDER - 36, word::HASH_POWER);
        on.0.work(2);
        let hash = on.reload(pc::ORDER - 24, word::HASH);
        on.0.work(1);
        on.reload(pc::ORDER - 20, word::PARTIAL);
        on.0.work(5);
        on.spill(pc::ORDER - 4, word::BUCKETS + 1);
        on.0.work(1);
        on.0.branch2(pc::ORDER, pc::ORDER + 200, swap, [hash, computed]);
        if !swap {
            locks.swap(0, 1);
        }
        on.0.work(2);
        let list = on.reload(pc::ORDER + 6, word::LOCK_LIST);
        on.0.work(3);
        self.take(on, pc::LOCK, locks[0], list, computed);
        on.reload(pc::RESIZED - 8, word::LOCKS);
        let power = on.reload(pc::RESIZED - 4, word::HASH_POWER);
        on.0.work(1);
        on.0.branch(pc::RESIZED, pc::REFUSED, false, power);
        on.0.work(1);
        for i in 0..5 {
            on.spill(pc::SECOND + 6 * i, word::LOCKED + i);
        }
        on.0.work(2);
        let two = locks[0] != locks[1];
        on.0.branch2(pc::ONE_LOCK, pc::MIGRATED, !two, [hash, computed]);
        if two {
            on.reload(pc::ONE_LOCK + 2, word::LOCKED);
            on.reload(pc::ONE_LOCK + 7, word::LOCKED + 1);
            on.0.work(1);
            self.take(on, pc::LOCK_SECOND, locks[1], list, computed);
        }
        on.reload(pc::MIGRATED, word::LOCK_LIST);
        let base = on.reload(pc::MIGRATED + 4, word::LOCKS);
        on.0.work(1);
        let migrated = on.0.load2(pc::MIGRATED + 8, locks[0].offset(16), 1, [base, computed]);
        on.0.branch(pc::MIGRATED + 12, pc::MIGRATED + 60, true, migrated);
        on.reload(pc::MIGRATED + 60, word::LOCKED + 1);
        on.0.work(3);
        let migrated = on.0.load2(pc::MIGRATED + 78, locks[1].offset(16), 1, [base, computed]);
        on.0.branch(pc::MIGRATED + 82, pc::LOCKED - 90, true, migrated);
        // The locks and buckets move to the object that will release them.
        for i in 0..3 {
            on.reload(pc::LOCKED - 90 + 5 * i, word::LOCKED + i);
        }
        on.spill(pc::LOCKED - 75, word::BUCKETS);
        on.reload(pc::LOCKED - 67, word::BUCKETS + 1);
        on.0.work(2);
        on.spill(pc::LOCKED - 55, word::BUCKETS + 1);
        on.reload(pc::LOCKED - 47, word::LOCKED);
        on.reload(pc::LOCKED - 42, word::LOCKS);
        on.0.work(1);
        on.spill(pc::LOCKED - 35, word::LOCKED + 5);
        on.0.work(6);
        on.spill(pc::LOCKED - 8, word::LOCKED + 6);
        on.reload(pc::LOCKED, word::HASH_POWER);
        on.0.work(1);
        on.reload(pc::LOCKED + 9, word::BUCKETS);
    }

    /// Takes a lock: an exchange, which succeeds.
    fn take(&self, on: &mut Frame<'_>, at: u64, lock: VirtAddr, list: Value, computed: Value) {
        let base = on.0.load(at - 10, on.1.at(word::LOCKS), 8, list);
        on.0.work(2);
        let held = on.0.load2(at, lock, 1, [base, computed]);
        on.0.store(at, lock, 1, computed);
        on.0.branch(at + 4, at - 2, false, held);
    }

    /// Releases both locks.
    fn unlock(&self, on: &mut Frame<'_>, places: [u64; 2]) {
        let locks = places.map(|place| self.lock(place));
        let count = if locks[0] == locks[1] { 1 } else { 2 };
        for i in 0..2 {
            let at = pc::UNLOCK + 16 * i;
            let lock = on.reload(at, word::LOCKED + 5 + i);
            on.0.work(1);
            let one = i < count;
            on.0.branch(at + 11, at + 16, !one, lock);
            if one {
                on.0.store(at + 13, locks[i as usize], 1, lock);
            }
        }
    }

    /// Looks for a k-mer in bucket `place`, the `nth` of its two.
    fn search(&self, on: &mut Frame<'_>, nth: u64, place: u64, kmer: u64, from: [Value; 2]) -> Found {
        let base = pc::SLOTS + 64 * nth;
        let bucket = self.bucket(place);
        let held = self.held.get(&place).copied().unwrap_or_default();
        let mut free = None;
        on.0.work(4);
        for (slot, entry) in held.iter().enumerate() {
            let mark = on.0.load2(base, bucket.offset(MARKS + slot as u64), 1, from);
            on.0.branch(base + 5, base + 32, entry.is_some(), mark);
            match entry {
                None => free = Some(slot),
                Some((other, _)) => {
                    let partial = on.0.load2(base + 32, bucket.offset(PARTIALS + slot as u64), 1, from);
                    let differs = Self::partial(*other) != Self::partial(kmer);
                    on.0.branch(base + 37, base + 12, differs, partial);
                    if !differs {
                        on.reload(base + 43, word::STANDARD);
                        on.0.work(1);
                        let key = on.0.load2(base + 50, self.slot(place, slot), 8, from);
                        on.0.branch(base + 53, base + 12, *other != kmer, key);
                        if *other == kmer {
                            return Found::Slot(slot);
                        }
                    }
                }
            }
            on.0.work(if entry.is_some() { 3 } else { 4 });
            on.0.branch(base + 26, base, slot + 1 < SLOTS, Value::NONE);
        }
        Found::Not(free)
    }

    /// Puts an entry into a free slot.
    fn insert(&mut self, on: &mut Frame<'_>, place: u64, slot: usize, entry: (u64, u64), computed: Value) {
        let bucket = self.bucket(place);
        on.0.work(2);
        on.reload(pc::INSERT, word::STANDARD);
        on.0.store(pc::INSERT + 4, bucket.offset(PARTIALS + slot as u64), 1, computed);
        on.0.work(1);
        let list = on.reload(pc::INSERT + 13, word::LOCK_LIST);
        on.0.work(1);
        on.0.store(pc::INSERT + 20, self.slot(place, slot).offset(8), 8, computed);
        on.0.store(pc::INSERT + 28, self.slot(place, slot), 8, computed);
        on.0.work(2);
        let base = on.0.load(pc::INSERT + 38, on.1.at(word::LOCKS), 8, list);
        on.0.store(pc::INSERT + 42, bucket.offset(MARKS + slot as u64), 1, computed);
        on.0.work(1);
        on.0.update(pc::INSERT + 48, self.lock(place).offset(8), 8, base);
        self.held.entry(place).or_default()[slot] = Some(entry);
    }

    /// Moves entries of full buckets to their alternatives until a new k-mer has a slot.
    fn make_room(&mut self, on: &mut Frame<'_>, kmer: u64, places: [u64; 2]) -> bool {
        /// More moves than this mean that the table is full.
        const MOST_MOVES: usize = 500;
        let mut entry = (kmer, 1);
        let mut place = places[1];
        for moves in 0..MOST_MOVES {
            // An entry of the bucket makes way, and goes to its alternative.
            let slot = moves % SLOTS;
            let Some(bucket) = self.held.get_mut(&place) else { return false };
            let Some(moved) = bucket[slot].replace(entry) else { return false };
            on.0.load(pc::MOVE, self.slot(place, slot), 16, Value::NONE);
            on.0.store(pc::MOVE + 8, self.slot(place, slot), 16, Value::NONE);
            on.0.work(20);
            let [a, b] = self.places(moved.0);
            entry = moved;
            place = if a == place { b } else { a };
            let held = self.held.get(&place).copied().unwrap_or_default();
            if let Some(slot) = held.iter().position(Option::is_none) {
                self.insert(on, place, slot, entry, Value::NONE);
                return true;
            }
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
        let locks = on.filled_array(LOCK_BYTES, LOCKS.min(buckets.next_power_of_two()));
        let mut table = Table { base: array.base, buckets, locks, held: FxHashMap::default() };
        let length = u64::from(spec.read_length);
        let reads: Vec<_> = (0..spec.threads).map(|_| on.filled_array(8, length.div_ceil(WORD_BASES))).collect();
        let stack = on.space.stack_array(8, word::ALL * u64::from(spec.threads));
        on.event(stack.touch(true));
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
            let frame = Array { base: stack.at(word::ALL * u64::from(thread)).0, len: word::ALL, ..stack };
            let mut frame = Frame(on, frame);
            let start = random.below(spec.genome - length + 1);
            let reverse = random.chance(0.5);
            let (mut forward, mut backward) = (0u64, 0u64);
            for i in 0..length {
                let mut letter = if reverse { 3 - base(start + length - 1 - i) } else { base(start + i) };
                if random.chance(spec.error_rate) {
                    letter = (letter + 1 + random.below(3)) & 3;
                }
                forward = (forward << 2 | letter) & mask;
                backward = backward >> 2 | (3 - letter) << top;
                let whole = i + 1 >= u64::from(spec.k);
                let loaded = frame.base(buffer, i, i + 1 < length, reverse, if whole { spec.k } else { 0 });
                if whole {
                    let kmer = forward.min(backward);
                    seen(kmer);
                    if !table.count(&mut frame, kmer, loaded) {
                        return table; // the table is full: the program gives up
                    }
                }
            }
        }
        table
    }
}

#[cfg(test)]
mod tests;
