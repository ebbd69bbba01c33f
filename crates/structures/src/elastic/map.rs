//! A hash map for programs on the elastic core (ME-HPT Sec. VIII: key-value stores, memory indexes, directories).

use super::{Arena, Elastic, ElasticCounters, ElasticSpec, MAX_WAYS, Place, Refused, Room, Side, mixed};
use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// Slots of a chunk.
const CHUNK_SLOTS: u64 = 512;

/// A hash map whose memory is many small chunks instead of one large block, that never stops to resize, and of which a
/// look-up reads at most one slot a way.
///
/// It is the table of ME-HPT for keys and values of any type: ways are made of chunks of 512 slots (Sec. IV-A), grow and shrink one at
/// a time (Sec. IV-D), in place (Sec. IV-C) and a few slots with each insertion and removal, so that no operation takes long. Its order
/// of iteration is arbitrary, and the same for the same operations.
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
    /// Entries whose hashes are those of so many others that no table has a place for all: next to never any.
    crowded: Vec<Slot<K, V>>,
    hasher: S,
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    hash: u64,
    key: K,
    value: V,
}

/// Where an entry is.
#[derive(Clone, Copy)]
enum At {
    Place(Place),
    Crowded(usize),
}

type Chunk<K, V> = Box<[Option<Slot<K, V>>]>;

/// The chunks of each way. One that nothing has been put into is not there: a way that doubles costs no more at once than their list.
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

    fn begin(&mut self, way: usize, from: u64, to: u64) -> Result<Room, Infallible> {
        self.set_slots(way, to.max(from));
        Ok(Room::InPlace)
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

    /// An empty map that behaves as `spec` says.
    ///
    /// # Panics
    /// If [`ElasticSpec::validate`] finds something wrong with `spec`.
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
    /// An empty map that behaves as `spec` says, with a hasher of the caller's. Keys that someone else chooses want one with a
    /// secret seed ([`std::hash::RandomState`]): entries whose 64-bit hashes are all the same end up in a list that is searched
    /// from its start.
    ///
    /// # Panics
    /// If [`ElasticSpec::validate`] finds something wrong with `spec`.
    pub fn with_spec_and_hasher(spec: &ElasticSpec, hasher: S) -> Self {
        let wrong = spec.validate("spec");
        assert!(wrong.is_empty(), "{}", ambulator_base::Invalid::lines(&wrong));
        let chunk_slots = CHUNK_SLOTS.min(spec.initial_slots);
        let mut chunks = Chunks { ways: std::array::from_fn(|_| Vec::new()), chunk_slots };
        let mut table = Elastic::new(spec);
        let Ok(()) = table.create(&mut chunks);
        ElasticMap { table, chunks, crowded: Vec::new(), hasher }
    }

    #[inline]
    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<At>
    where
        K: std::borrow::Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let is_it = |slot: &Slot<K, V>| slot.hash == hash && slot.key.borrow() == key;
        let place = self.table.places(mixed(hash)).find(|&at| self.chunks.get(at).is_some_and(is_it));
        place.map(At::Place).or_else(|| self.crowded.iter().position(is_it).map(At::Crowded))
    }

    /// The value of `key`.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        match self.find(key)? {
            At::Place(at) => self.chunks.get(at).map(|slot| &slot.value),
            At::Crowded(at) => Some(&self.crowded[at].value),
        }
    }

    /// The value of `key`, to change it.
    #[inline]
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
    {
        match self.find(key)? {
            At::Place(at) => self.chunks.get_mut(at)?.as_mut().map(|slot| &mut slot.value),
            At::Crowded(at) => Some(&mut self.crowded[at].value),
        }
    }

    /// Whether there is a value of `key`.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// Sets the value of `key`, and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(there) = self.get_mut(&key) {
            return Some(std::mem::replace(there, value));
        }
        let hash = self.hasher.hash_one(&key);
        match self.table.insert(&mut self.chunks, Slot { hash, key, value }) {
            Ok(()) => self.table.advance(&mut self.chunks),
            Err((Refused::Collides, slot)) => self.crowded.push(slot),
            Err((Refused::NoRoom(never), _)) => match never {},
        }
        None
    }

    /// Takes the value of `key` out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let slot = match self.find(key)? {
            At::Crowded(at) => self.crowded.swap_remove(at),
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
        slots.flatten().chain(&self.crowded).map(|slot| (&slot.key, &slot.value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.table.len() as usize + self.crowded.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of each way; while one is being resized, those that it will have.
    pub fn way_slots(&self) -> Vec<u64> {
        self.table.ways().iter().map(super::Way::target).collect()
    }

    /// What the table underneath has done.
    pub fn counters(&self) -> &ElasticCounters {
        &self.table.counters
    }
}
