//! A hash map for programs on the elastic core (ME-HPT Sec. VIII: key-value stores, memory indexes,
//! directories).

use super::{Arena, Elastic, ElasticCounters, ElasticSpec, InsertError, MAX_WAYS, Place, ResizeMode, Side, mixed};
use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// Slots of a chunk.
const CHUNK_SLOTS: u64 = 512;

/// A hash map that resizes incrementally, in many small chunks instead of one large block. A look-up reads at
/// most one slot per way.
///
/// It is the table of ME-HPT for keys and values of any type. Ways consist of chunks of 512 slots (Sec.
/// IV-A). They grow and shrink each on its own (Sec. IV-D), in place (Sec. IV-C), by a few slots with each
/// insertion and removal, so no operation takes long. The iteration order is arbitrary but deterministic.
///
/// ```
/// use ambulator_structures::elastic::ElasticMap;
/// let mut stock = ElasticMap::new();
/// stock.insert("apples", 12);
/// stock.insert("pears", 3);
/// assert_eq!(stock.insert("apples", 11), Some(12));
/// *stock.get_mut("pears").unwrap() += 1;
/// assert_eq!((stock.get("pears"), stock.len()), (Some(&4), 2));
/// assert_eq!(stock.remove("apples"), Some(11));
/// assert_eq!(stock.iter().collect::<Vec<_>>(), [(&"pears", &4)]);
/// ```
#[derive(Clone, Debug)]
pub struct ElasticMap<K, V, S = BuildHasherDefault<DefaultHasher>> {
    table: Elastic,
    chunks: Chunks<K, V>,
    /// Entries that share their hashes with too many others to fit into any table. Almost always empty.
    overflow: Vec<Slot<K, V>>,
    hasher: S,
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    hash: u64,
    key: K,
    value: V,
}

/// Where an entry is stored.
#[derive(Clone, Copy)]
enum At {
    Place(Place),
    Overflow(usize),
}

type Chunk<K, V> = Box<[Option<Slot<K, V>>]>;

/// The chunks of each way. A chunk is allocated with its first entry, so a way that doubles allocates only
/// the list at once.
#[derive(Clone, Debug)]
struct Chunks<K, V> {
    ways: [Vec<Option<Chunk<K, V>>>; MAX_WAYS],
    chunk_slots: u64,
}

impl<K, V> Chunks<K, V> {
    #[inline(always)]
    fn get(&self, at: Place) -> Option<&Slot<K, V>> {
        debug_assert_eq!(at.side, Side::Old, "all resizes are in place");
        let chunk = self.ways[at.way][(at.index / self.chunk_slots) as usize].as_ref()?;
        chunk[(at.index % self.chunk_slots) as usize].as_ref()
    }

    #[inline(always)]
    fn get_mut(&mut self, at: Place) -> Option<&mut Option<Slot<K, V>>> {
        let chunk = self.ways[at.way][(at.index / self.chunk_slots) as usize].as_mut()?;
        Some(&mut chunk[(at.index % self.chunk_slots) as usize])
    }

    fn set_slots(&mut self, way: usize, slots: u64) {
        self.ways[way].resize_with(slots.div_ceil(self.chunk_slots) as usize, || None);
    }
}

impl<K, V> Arena for Chunks<K, V> {
    type Entry = Slot<K, V>;
    type Error = Infallible;

    #[inline(always)]
    fn hashes_at(&self, at: Place) -> Option<[u32; MAX_WAYS]> {
        self.get(at).map(|slot| mixed(slot.hash))
    }

    #[inline(always)]
    fn hashes_of(&self, entry: &Slot<K, V>) -> [u32; MAX_WAYS] {
        mixed(entry.hash)
    }

    #[inline(always)]
    fn exchange(&mut self, at: Place, entry: Option<Slot<K, V>>) -> Option<Slot<K, V>> {
        if let Some(slot) = self.get_mut(at) {
            return std::mem::replace(slot, entry);
        }
        if entry.is_some() {
            let mut chunk: Chunk<K, V> = (0..self.chunk_slots).map(|_| None).collect();
            chunk[(at.index % self.chunk_slots) as usize] = entry;
            self.ways[at.way][(at.index / self.chunk_slots) as usize] = Some(chunk);
        }
        None
    }

    fn begin(&mut self, way: usize, from: u64, to: u64) -> Result<ResizeMode, Infallible> {
        self.set_slots(way, to.max(from));
        Ok(ResizeMode::InPlace)
    }

    fn end(&mut self, way: usize, to: u64, _in_place: bool) {
        self.set_slots(way, to);
    }

    fn abandon(&mut self, way: usize, from: u64, _in_place: bool) {
        self.set_slots(way, from);
    }
}

impl<K: Hash + Eq, V> ElasticMap<K, V> {
    /// An empty map: three ways of 128 slots, which double above 0.6 and halve below 0.2.
    pub fn new() -> Self {
        Self::with_spec(&ElasticSpec::default())
    }

    /// An empty map with these parameters.
    ///
    /// # Panics
    /// If `spec` is not valid ([`ElasticSpec::validate`]).
    pub fn with_spec(spec: &ElasticSpec) -> Self {
        Self::with_spec_and_hasher(spec, BuildHasherDefault::default())
    }
}

impl<K: Hash + Eq, V> Default for ElasticMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> ElasticMap<K, V, S> {
    /// An empty map with these parameters and the caller's hasher. Keys that an adversary may choose need a
    /// hasher with a secret seed ([`std::hash::RandomState`]): entries with equal 64-bit hashes end up in a
    /// list that is searched linearly.
    ///
    /// # Panics
    /// If `spec` is not valid ([`ElasticSpec::validate`]).
    pub fn with_spec_and_hasher(spec: &ElasticSpec, hasher: S) -> Self {
        let wrong = spec.validate("spec");
        assert!(wrong.is_empty(), "{}", ambulator_base::Invalid::lines(&wrong));
        let chunk_slots = CHUNK_SLOTS.min(spec.initial_slots);
        let mut chunks = Chunks { ways: std::array::from_fn(|_| Vec::new()), chunk_slots };
        let mut table = Elastic::new(spec);
        let Ok(()) = table.create(&mut chunks);
        ElasticMap { table, chunks, overflow: Vec::new(), hasher }
    }

    #[inline]
    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<At>
    where
        K: std::borrow::Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let matches = |slot: &Slot<K, V>| slot.hash == hash && slot.key.borrow() == key;
        let place = self.table.places(mixed(hash)).find(|&at| self.chunks.get(at).is_some_and(matches));
        place.map(At::Place).or_else(|| self.overflow.iter().position(matches).map(At::Overflow))
    }

    /// The value of `key`.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        match self.find(key)? {
            At::Place(at) => self.chunks.get(at).map(|slot| &slot.value),
            At::Overflow(at) => Some(&self.overflow[at].value),
        }
    }

    /// The value of `key`, mutable.
    #[inline]
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
    {
        match self.find(key)? {
            At::Place(at) => self.chunks.get_mut(at)?.as_mut().map(|slot| &mut slot.value),
            At::Overflow(at) => Some(&mut self.overflow[at].value),
        }
    }

    /// Whether the map has `key`.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// Sets the value of `key` and returns its previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(there) = self.get_mut(&key) {
            return Some(std::mem::replace(there, value));
        }
        let hash = self.hasher.hash_one(&key);
        match self.table.insert(&mut self.chunks, Slot { hash, key, value }) {
            Ok(()) => self.table.advance(&mut self.chunks),
            Err((InsertError::Collides, slot)) => self.overflow.push(slot),
            Err((InsertError::NoRoom(never), _)) => match never {},
        }
        None
    }

    /// Removes `key` and returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let slot = match self.find(key)? {
            At::Overflow(at) => self.overflow.swap_remove(at),
            At::Place(at) => {
                let slot = self.table.remove(&mut self.chunks, at)?;
                self.table.advance(&mut self.chunks);
                slot
            }
        };
        Some(slot.value)
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let slots = self.chunks.ways.iter().flatten().flatten().flat_map(|chunk| chunk.iter());
        slots.flatten().chain(&self.overflow).map(|slot| (&slot.key, &slot.value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.table.len() as usize + self.overflow.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of each way; during a resize, the slots after it.
    pub fn way_slots(&self) -> Vec<u64> {
        self.table.ways().iter().map(super::Way::target).collect()
    }

    /// Counters of the underlying table.
    pub fn counters(&self) -> &ElasticCounters {
        &self.table.counters
    }
}
