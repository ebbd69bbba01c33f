//! Memcached: gets and sets of a Zipf-distributed client against a slab-allocated store.
//!
//! Stands for memcached 1.6 (Fitzpatrick 2004; RMM Table 4: 75 GB; LVM Sec. 6.2). Layout: the primary hash
//! table, an array of pointers, a power of two that is doubled in set-up until it has at least two thirds as
//! many buckets as items; slab pages of 1 MiB, each a mapping's part given to a size class (factor 1.25) as
//! items of the class come; items of 48 bytes of header, an 8-byte CAS, a key and a value, in their class's
//! chunks; 16 KiB read and write buffers for each worker. Items are stored in set-up in random order of keys
//! until the footprint is full.
//!
//! What an operation does: the request is parsed from the worker's buffer, the key hashed; the bucket's
//! pointer; the chain, item by item, comparing key lengths and then keys. A get takes a reference (the header
//! is written), may move the item in its LRU list at most once a minute and so hardly ever here, and points
//! the reply at the value, which the kernel reads. A set evicts the tail of its class's list, writes a new
//! item there and replaces the old one in the chain.
//!
//! The chains are real; the simulator stores an item in 8 bytes and a bucket in 4. Values' contents do not matter.

use super::execution::{Execution, Program, ProgramSource, Value};
use super::zipf::Zipf;
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::Permutation;
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource, VirtAddr, mix64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of memcached and its client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemcachedSpec {
    /// Bytes of slab pages and hash table.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of keys, sizes and requests.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Bytes of a key, 1 to 250.
    #[schemars(range(min = 1, max = 250), extend("x-unit" = "bytes", "x-source" = "Atikoglu et al., SIGMETRICS 2012: about 30"))]
    pub key_bytes: u32,
    /// Least bytes of a value.
    #[schemars(range(min = 1, max = 1 << 18), extend("x-unit" = "bytes"))]
    pub value_least: u32,
    /// Most bytes of a value; sizes are drawn so that each power of two is equally likely.
    #[schemars(range(min = 1, max = 1 << 18), extend("x-unit" = "bytes"))]
    pub value_most: u32,
    /// Share of gets; the rest are sets of existing keys.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Atikoglu et al.: 30 gets to a set"))]
    pub gets: f64,
    /// Exponent of Zipf's law for keys; 0 is uniform.
    #[schemars(range(min = 0.0, max = 4.0), extend("x-unit" = "ratio", "x-source" = "YCSB: 0.99"))]
    pub skew: f64,
    /// Requests, after which the client ends.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count"))]
    pub requests: u64,
    /// Worker threads, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "memcached -t (4)"))]
    pub threads: u32,
    /// Memory of the simulator that the chains may take; a larger store is rejected.
    #[schemars(range(max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub host_memory: u64,
}

impl Default for MemcachedSpec {
    fn default() -> Self {
        MemcachedSpec {
            footprint: 8 << 30,
            seed: 1,
            key_bytes: 30,
            value_least: 64,
            value_most: 1024,
            gets: 0.97,
            skew: 0.99,
            requests: 1 << 40,
            threads: 1,
            host_memory: 6 << 30,
        }
    }
}

const SLAB_BYTES: u64 = 1 << 20;
/// Header and CAS.
const HEADER_BYTES: u64 = 56;
/// Smallest chunk and the factor from one class to the next (`-n 48 -f 1.25`).
const FIRST_CHUNK: u64 = 96;
const FACTOR: f64 = 1.25;
/// Most bytes of the simulator's memory for an item: its place, the next one, and up to 4/3 heads of chains.
const SIM_HOST_BYTES: u64 = 14;
/// Keys whose sizes say how many items a footprint holds.
const SAMPLE: u64 = 1 << 14;

/// Chunk sizes of the classes.
fn classes() -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut size = FIRST_CHUNK;
    while size <= SLAB_BYTES / 2 {
        sizes.push(size);
        size = ((size as f64 * FACTOR) as u64).next_multiple_of(8);
    }
    sizes
}

impl BenchmarkSpec for MemcachedSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "memcached",
        about: "gets and sets of keys by Zipf's law in a hash table of slab-allocated items",
        stands_for: "memcached under a key-value client; hash chains over large heaps",
        default_footprint: 8 << 30,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if self.value_least > self.value_most {
            problems.push(
                Invalid::new(
                    format!("{at}.value_least"),
                    format!("is {} and `{at}.value_most` {}; they must ascend", self.value_least, self.value_most),
                )
                .and(format!("{at}.value_most")),
            );
        }
        let sizes = classes();
        let class = |value: u32| {
            sizes.partition_point(|size| *size < HEADER_BYTES + u64::from(self.key_bytes) + u64::from(value))
        };
        let pages = 2 * (class(self.value_most).saturating_sub(class(self.value_least)) + 1) as u64;
        if problems.is_empty() && self.footprint < pages * SLAB_BYTES {
            let message = format!(
                "is {} bytes; values of that many sizes need at least {pages} MiB, two slab pages for each class",
                self.footprint
            );
            problems.push(
                Invalid::new(format!("{at}.footprint"), message)
                    .and(format!("{at}.value_least"))
                    .and(format!("{at}.value_most"))
                    .and(format!("{at}.key_bytes")),
            );
        }
        let most = SLAB_BYTES << (32 - chunk_bits(self, &sizes));
        if problems.is_empty() && self.footprint > most {
            let message = format!(
                "is {} GiB; with values of {} bytes it must be at most {} GiB",
                self.footprint >> 30,
                self.value_least,
                most >> 30
            );
            let footprint = Invalid::new(format!("{at}.footprint"), message);
            problems.push(footprint.and(format!("{at}.value_least")).and(format!("{at}.key_bytes")));
        }
        if problems.is_empty() {
            let chunks: u64 = (0..SAMPLE).map(|key| sizes[class_of(self, &sizes, key)]).sum();
            // Of the sample's mean size, and some more.
            let items = (self.footprint as u128 * u128::from(SAMPLE) / u128::from(chunks)) as u64;
            let items = items + items / 32;
            if items * SIM_HOST_BYTES > self.host_memory {
                let message = format!(
                    "is {} MiB, and {items} items take {} MiB of the simulator's memory: raise it, or set larger values",
                    self.host_memory >> 20,
                    (items * SIM_HOST_BYTES) >> 20
                );
                problems.push(Invalid::new(format!("{at}.host_memory"), message).and(format!("{at}.footprint")));
            }
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let store = Store::plan(self);
        let facts = format!("{} items in {} slab pages, {} buckets", store.items(), store.chunks.len(), store.buckets);
        let bytes = store.slab_bytes() + store.buckets * 8;
        ProgramSource::boxed(
            identity("memcached", self, &facts, bytes),
            AddressSpace::new(),
            Memcached { spec: self.clone(), store },
        )
    }
}

/// The stored items and their places.
struct Store {
    /// By key: its slab page, and the number of its chunk there in the lower bits.
    places: Vec<u32>,
    chunk_bits: u32,
    /// By slab page: the bytes of its chunks.
    chunks: Vec<u32>,
    /// By key: the next key in its bucket, less one; 0 ends the chain.
    next: Vec<u32>,
    /// By bucket: its first key, less one.
    heads: Vec<u32>,
    buckets: u64,
}

/// The size class of a key's item.
fn class_of(spec: &MemcachedSpec, classes: &[u64], key: u64) -> usize {
    let (least, most) = (f64::from(spec.value_least), f64::from(spec.value_most));
    let draw = (mix64(key ^ spec.seed.rotate_left(17)) >> 11) as f64 / (1u64 << 53) as f64;
    let value = (least * (most / least).powf(draw)) as u64;
    let bytes = HEADER_BYTES + u64::from(spec.key_bytes) + value;
    classes.iter().position(|size| *size >= bytes).unwrap_or(classes.len() - 1)
}

/// Bits of a chunk's number in its slab page.
fn chunk_bits(spec: &MemcachedSpec, classes: &[u64]) -> u32 {
    let least = HEADER_BYTES + u64::from(spec.key_bytes) + u64::from(spec.value_least);
    let smallest = classes.iter().find(|size| **size >= least).unwrap_or(&SLAB_BYTES);
    (SLAB_BYTES / smallest).ilog2() + 1
}

impl Store {
    /// Stores keys one after the other until the next slab page would pass the footprint.
    fn plan(spec: &MemcachedSpec) -> Store {
        let sizes = classes();
        let chunk_bits = chunk_bits(spec, &sizes);
        let mut free: Vec<(u32, u64)> = vec![(0, 0); sizes.len()];
        let (mut places, mut chunks) = (Vec::new(), Vec::new());
        loop {
            let class = class_of(spec, &sizes, places.len() as u64);
            let (at, left) = &mut free[class];
            if *left == 0 {
                // The table of two thirds as many buckets as items, rounded up to a power of two, counts too.
                let buckets = ((places.len() as u64 * 2 / 3).max(1 << 12)).next_power_of_two();
                let slabs = chunks.len() as u64;
                if (slabs + 1) * SLAB_BYTES + buckets * 8 > spec.footprint {
                    break;
                }
                (*at, *left) = ((slabs as u32) << chunk_bits, SLAB_BYTES / sizes[class]);
                chunks.push(sizes[class] as u32);
            }
            places.push(*at);
            *at += 1;
            *left -= 1;
        }
        let buckets = ((places.len() as u64 * 2 / 3).max(1 << 12)).next_power_of_two();
        let mut store = Store {
            chunk_bits,
            next: vec![0; places.len()],
            heads: vec![0; buckets as usize],
            places,
            chunks,
            buckets,
        };
        for key in 0..store.items() {
            let bucket = store.bucket(key);
            store.next[key as usize] = std::mem::replace(&mut store.heads[bucket as usize], key as u32 + 1);
        }
        store
    }

    fn items(&self) -> u64 {
        self.places.len() as u64
    }

    /// Bytes of the slab pages.
    fn slab_bytes(&self) -> u64 {
        self.chunks.len() as u64 * SLAB_BYTES
    }

    /// The offset of a key's chunk from the first slab page.
    fn place(&self, key: u64) -> u64 {
        let place = self.places[key as usize];
        let (slab, chunk) = (place >> self.chunk_bits, place & ((1 << self.chunk_bits) - 1));
        u64::from(slab) * SLAB_BYTES + u64::from(chunk) * u64::from(self.chunks[slab as usize])
    }

    fn bucket(&self, key: u64) -> u64 {
        mix64(key.rotate_left(32) ^ 0x6d65_6d63) & (self.buckets - 1)
    }

    /// The keys of a bucket, the latest first.
    fn chain(&self, bucket: u64) -> impl Iterator<Item = u64> + '_ {
        let mut key = self.heads[bucket as usize];
        std::iter::from_fn(move || {
            let this = key.checked_sub(1)?;
            key = self.next[this as usize];
            Some(u64::from(this))
        })
    }
}

/// Code addresses of the compiled program.
mod pc {
    use super::TEXT;
    pub const PARSE: u64 = TEXT + 0x200;
    pub const BUCKET: u64 = TEXT + 0x280;
    pub const LENGTH: u64 = TEXT + 0x290;
    pub const SAME_LENGTH: u64 = TEXT + 0x298;
    pub const COMPARE: u64 = TEXT + 0x2a0;
    pub const SAME: u64 = TEXT + 0x2a8;
    pub const NEXT: u64 = TEXT + 0x2b0;
    pub const REFERENCE: u64 = TEXT + 0x2e0;
    pub const FLAGS: u64 = TEXT + 0x2e8;
    pub const REPLY: u64 = TEXT + 0x300;
    pub const TAIL: u64 = TEXT + 0x400;
    pub const WRITE: u64 = TEXT + 0x440;
    pub const VALUE: u64 = TEXT + 0x480;
    pub const SWAP: u64 = TEXT + 0x4c0;
}

struct Memcached {
    spec: MemcachedSpec,
    store: Store,
}

/// Requests that a worker serves before the next one runs.
const QUANTUM: u64 = 32;
/// Bytes of a worker's buffers.
const BUFFER_BYTES: u64 = 16 << 10;

impl Program for Memcached {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.serve(on, |_, _| ());
    }
}

impl Memcached {
    /// Serves all requests; `served` receives the key and whether it was a get.
    fn serve(&self, on: &mut Execution, mut served: impl FnMut(u64, bool)) {
        let (spec, store) = (&self.spec, &self.store);
        let table = on.array(8, store.buckets);
        let slabs = on.array(1, store.slab_bytes());
        // Items are stored one after the other: bucket, then chunk; pages of slabs are first written as their
        // chunks are.
        on.event(table.touch(true));
        for key in 0..store.items() {
            on.fill(
                VirtAddr(slabs.base + store.place(key)),
                HEADER_BYTES + u64::from(spec.key_bytes) + u64::from(spec.value_least),
            );
        }
        on.event(slabs.touch(true)); // the rest: the ends of pages
        let buffers: Vec<Array> = (0..spec.threads).map(|_| on.filled_array(1, 2 * BUFFER_BYTES)).collect();
        on.begin_region();
        let mut random = Random::for_purpose(spec.seed, "memcached requests");
        let zipf = (spec.skew > 0.0).then(|| Zipf::new(store.items(), spec.skew));
        let popular = Permutation::new(store.items(), spec.seed, "memcached keys");
        let sizes = classes();
        let item = |key: u64| VirtAddr(slabs.base + store.place(key));
        let key_words = u64::from(spec.key_bytes).div_ceil(8);
        for request in 0..spec.requests {
            let thread = request / QUANTUM % u64::from(spec.threads);
            on.thread(thread as u32);
            let buffer = &buffers[thread as usize];
            let key = match &zipf {
                Some(zipf) => popular.of(zipf.sample(&mut random)),
                None => random.below(store.items()),
            };
            let get = random.chance(spec.gets);
            served(key, get);
            let at = request * 64 % (BUFFER_BYTES - 512);
            // Parsing and hashing read the key twice over.
            let mut parsed = Value::NONE;
            for word in 0..2 * key_words {
                parsed = on.load(pc::PARSE, buffer.at(at + word % key_words * 8), 8, Value::NONE);
                on.work(9);
            }
            on.work(120);
            let bucket = store.bucket(key);
            let mut pointer = on.load(pc::BUCKET, table.at(bucket), 8, parsed);
            for held in store.chain(bucket) {
                // nkey is at byte 41 of the header; the hash chain's pointer at 16; the key after header and
                // CAS.
                let length = on.load(pc::LENGTH, item(held).offset(41), 1, pointer);
                on.branch(pc::SAME_LENGTH, pc::NEXT, false, length);
                on.work(2);
                let mut compared = Value::NONE;
                let words = if held == key { key_words } else { 1 };
                for word in 0..words {
                    compared = on.load(pc::COMPARE, item(held).offset(HEADER_BYTES + 8 * word), 8, pointer);
                    on.work(3);
                }
                on.branch(pc::SAME, pc::NEXT, held != key, compared);
                if held == key {
                    break;
                }
                pointer = on.load(pc::NEXT, item(held).offset(16), 8, pointer);
                on.work(2);
            }
            on.update(pc::REFERENCE, item(key).offset(36), 2, pointer);
            on.load(pc::FLAGS, item(key).offset(38), 2, pointer);
            on.work(40);
            if !get {
                // The tail of the class's list gives its chunk: the model writes the item where it is.
                on.load(pc::TAIL, item(key).offset(8), 8, pointer);
                on.work(60);
                for word in 0..HEADER_BYTES / 8 {
                    on.store(pc::WRITE + 4 * word, item(key).offset(8 * word), 8, pointer);
                }
                let chunk = sizes[class_of(spec, &sizes, key)];
                let value = HEADER_BYTES + 8 * key_words;
                for part in 0..(chunk - value.min(chunk)) / 32 {
                    on.load(pc::VALUE, buffer.at((at + 32 * part) % BUFFER_BYTES), 32, Value::NONE);
                    on.store(pc::VALUE + 8, item(key).offset(value + 32 * part), 32, pointer);
                    on.work(2);
                }
                on.store(pc::SWAP, table.at(bucket), 8, parsed);
                on.work(30);
            }
            for word in 0..6 {
                on.store(pc::REPLY + 4 * word, buffer.at(BUFFER_BYTES + at + 8 * word), 8, Value::NONE);
                on.work(6);
            }
            on.work(80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;
    use std::collections::HashMap;

    #[test]
    fn every_key_is_in_its_chain_and_has_its_own_chunk() {
        let spec = MemcachedSpec { footprint: 48 << 20, requests: 20_000, ..MemcachedSpec::default() };
        let store = Store::plan(&spec);
        assert!(store.items() > 10_000, "{}", store.items());
        let mut seen = vec![0; store.items() as usize];
        for bucket in 0..store.buckets {
            for key in store.chain(bucket) {
                assert_eq!(store.bucket(key), bucket);
                seen[key as usize] += 1;
            }
        }
        assert!(seen.iter().all(|n| *n == 1));
        let sizes = classes();
        let mut chunks: Vec<(u64, u64)> =
            (0..store.items()).map(|key| (store.place(key), sizes[class_of(&spec, &sizes, key)])).collect();
        chunks.sort_unstable();
        assert!(chunks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "chunks do not overlap");
        assert!(chunks.iter().all(|(at, size)| at / SLAB_BYTES == (at + size - 1) / SLAB_BYTES));

        // A plain model of the client: requested keys are found, popular keys are popular, and each request
        // reads its bucket.
        let mut requests: HashMap<u64, u32> = HashMap::new();
        let mut gets = 0;
        let (_, batches) = trace_of(AddressSpace::new(), |on| {
            Memcached { spec: spec.clone(), store }.serve(on, |key, get| {
                *requests.entry(key).or_default() += 1;
                gets += u32::from(get);
            });
        });
        let reads = batches.iter().flat_map(|b| &b.records).filter(|r| r.pc.0 == pc::BUCKET).count();
        assert_eq!(reads, 20_000);
        assert!((19_200..19_600).contains(&gets), "{gets}");
        assert!(*requests.values().max().unwrap() > 1000, "the most popular key");
    }
}
