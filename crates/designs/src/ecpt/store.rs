//! An elastic cuckoo table in simulated memory.

use super::slot::{Probe, Slot};
use ambulator_base::{CounterSink, FRAME_BYTES, PhysAddr, State};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, MapError, TableContext};
use ambulator_structures::elastic::{
    Arena, Elastic, ElasticSpec, HashKind, InsertError, MAX_WAYS, Place, Resize, ResizeMode, Side, Way, hashes,
};
use ambulator_structures::frames;

/// The memory of one table of one way: discontiguous blocks ("chunks", ME-HPT Sec. IV-A) of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, State)]
pub(crate) struct Space {
    /// log2 of a chunk's bytes; [`Space::ONE_BLOCK`] for a way that is a single block of any size.
    pub(crate) chunk_shift: u32,
    /// Bytes allocated for each chunk; 0 in the hardware's view, which does not need it.
    pub(crate) chunk_bytes: u64,
    /// Addresses of the chunks.
    pub(crate) chunks: Vec<PhysAddr>,
}

impl Space {
    /// [`Space::chunk_shift`] of a way that is a single block.
    const ONE_BLOCK: u32 = 63;

    /// Allocates chunks until there are `count`.
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    pub(crate) fn grow(
        &mut self,
        count: usize,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Result<(), MapError> {
        let had = self.chunks.len();
        while self.chunks.len() < count {
            let Some(frame) = frames::allocate_bytes(self.chunk_bytes, footprint, os) else {
                self.shrink(had, footprint, os);
                return Err(MapError::NoMemory { bytes: self.chunk_bytes });
            };
            self.chunks.push(frame.start());
        }
        Ok(())
    }

    /// Frees chunks until there are `count`.
    pub(crate) fn shrink(&mut self, count: usize, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for chunk in self.chunks.drain(count..) {
            frames::release(chunk.pfn(), self.chunk_bytes.div_ceil(FRAME_BYTES), footprint, os);
        }
    }

    /// The address of the byte at `offset`.
    #[inline(always)]
    pub(crate) fn at(&self, offset: u64) -> PhysAddr {
        self.chunks[(offset >> self.chunk_shift) as usize].offset(offset & ((1 << self.chunk_shift) - 1))
    }
}

/// The memory of all ways of a table: for each way, by [`Side`].
type Spaces = [[Space; 2]; MAX_WAYS];

/// The allocator of a table's memory: one block per way (ECPT), or chunks listed in the L2P table (ME-HPT).
pub(crate) trait Backing: State + Send {
    /// Makes room to resize a way of table `id` (the number of its page size) from `from` to `to` bytes; see
    /// [`Arena::begin`].
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    fn begin(
        &mut self,
        id: usize,
        way: usize,
        from: u64,
        to: u64,
        parts: &mut StoreParts<'_, '_>,
    ) -> Result<ResizeMode, MapError>;

    /// See [`Arena::end`].
    fn end(&mut self, id: usize, way: usize, to: u64, in_place: bool, parts: &mut StoreParts<'_, '_>);

    /// See [`Arena::abandon`].
    fn abandon(&mut self, id: usize, way: usize, from: u64, in_place: bool, parts: &mut StoreParts<'_, '_>);

    /// Cycles of a context switch for the registers of this process.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// Reports its own counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// The memory on which a [`Backing`] operates.
pub(crate) struct StoreParts<'a, 'b> {
    /// The way's memory, by [`Side`].
    pub(crate) spaces: &'a mut [Space; 2],
    /// Memory of the page table.
    pub(crate) footprint: &'a mut Footprint,
    /// Memory and its allocator.
    pub(crate) os: &'a mut TableContext<'b>,
}

impl StoreParts<'_, '_> {
    /// Frees one side's memory.
    pub(crate) fn drop_side(&mut self, side: Side) {
        let mut space = std::mem::take(&mut self.spaces[side as usize]);
        space.shrink(0, self.footprint, self.os);
    }

    /// Completes a resize out of place: frees the old side's memory; the new side becomes the old one.
    pub(crate) fn replace_old(&mut self) {
        self.drop_side(Side::Old);
        self.spaces.swap(Side::Old as usize, Side::New as usize);
    }
}

/// The context of an operation on a table.
pub(crate) struct Context<'a, 'b> {
    /// The allocator of its memory.
    pub(crate) backing: &'a mut dyn Backing,
    /// Memory of the page table.
    pub(crate) footprint: &'a mut Footprint,
    /// Memory and its allocator.
    pub(crate) os: &'a mut TableContext<'b>,
}

/// A table whose slots are bytes in simulated memory.
#[derive(State)]
pub(crate) struct CuckooTable<S: Slot> {
    #[state(skip)]
    id: usize,
    #[state(skip)]
    hash: HashKind,
    /// Sizes, rehash pointers and counters.
    pub(crate) elastic: Elastic,
    spaces: Spaces,
    /// Keys of the slots that entered a way since the list was last emptied, for callers that track ways.
    placed: Vec<u64>,
    slot: std::marker::PhantomData<fn() -> S>,
}

struct MemoryArena<'a, 'b, 'c, S: Slot> {
    id: usize,
    hash: HashKind,
    spaces: &'a mut Spaces,
    placed: &'a mut Vec<u64>,
    cx: &'a mut Context<'b, 'c>,
    slot: std::marker::PhantomData<fn() -> S>,
}

impl<'b, 'c, S: Slot> MemoryArena<'_, 'b, 'c, S> {
    fn at(&self, place: Place) -> PhysAddr {
        self.spaces[place.way][place.side as usize].at(place.index * S::BYTES)
    }

    fn parts(&mut self, way: usize) -> (&mut dyn Backing, StoreParts<'_, 'c>) {
        let Context { backing, footprint, os } = &mut *self.cx;
        (&mut **backing, StoreParts { spaces: &mut self.spaces[way], footprint, os })
    }
}

impl<S: Slot> Arena for MemoryArena<'_, '_, '_, S> {
    type Entry = S::Words;
    type Error = MapError;

    #[inline]
    fn hashes_at(&self, at: Place) -> Option<[u32; MAX_WAYS]> {
        S::key(&S::read(self.cx.os.memory, self.at(at))).map(|key| hashes(self.hash, key))
    }

    #[inline]
    fn hashes_of(&self, entry: &S::Words) -> [u32; MAX_WAYS] {
        S::key(entry).map_or([0; MAX_WAYS], |key| hashes(self.hash, key))
    }

    #[inline]
    fn exchange(&mut self, at: Place, entry: Option<S::Words>) -> Option<S::Words> {
        let address = self.at(at);
        let was = S::read(self.cx.os.memory, address);
        if let Some(key) = entry.as_ref().and_then(S::key) {
            self.placed.push(key);
        }
        S::write(self.cx.os.memory, address, &entry.unwrap_or(S::EMPTY));
        S::key(&was).map(|_| was)
    }

    fn begin(&mut self, way: usize, from: u64, to: u64) -> Result<ResizeMode, MapError> {
        let id = self.id;
        let (backing, mut parts) = self.parts(way);
        backing.begin(id, way, from * S::BYTES, to * S::BYTES, &mut parts)
    }

    fn end(&mut self, way: usize, to: u64, in_place: bool) {
        let id = self.id;
        let (backing, mut parts) = self.parts(way);
        backing.end(id, way, to * S::BYTES, in_place, &mut parts);
    }

    fn abandon(&mut self, way: usize, from: u64, in_place: bool) {
        let id = self.id;
        let (backing, mut parts) = self.parts(way);
        backing.abandon(id, way, from * S::BYTES, in_place, &mut parts);
    }
}

impl<S: Slot> CuckooTable<S> {
    /// A table without memory; [`CuckooTable::create`] allocates it. `id` identifies the table to its
    /// backing.
    pub(crate) fn new(id: usize, spec: &ElasticSpec, hash: HashKind) -> CuckooTable<S> {
        CuckooTable {
            id,
            hash,
            elastic: Elastic::new(spec),
            spaces: Default::default(),
            placed: Vec::new(),
            slot: std::marker::PhantomData,
        }
    }

    fn with<R>(
        &mut self,
        cx: &mut Context<'_, '_>,
        act: impl FnOnce(&mut Elastic, &mut MemoryArena<'_, '_, '_, S>) -> R,
    ) -> R {
        let CuckooTable { id, hash, elastic, spaces, placed, slot } = self;
        // The context is borrowed only for this call.
        let mut context = Context { backing: &mut *cx.backing, footprint: &mut *cx.footprint, os: &mut *cx.os };
        let mut arena = MemoryArena { id: *id, hash: *hash, spaces, placed, cx: &mut context, slot: *slot };
        act(elastic, &mut arena)
    }

    /// Allocates the table's initial memory.
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    pub(crate) fn create(&mut self, cx: &mut Context<'_, '_>) -> Result<(), MapError> {
        self.with(cx, |elastic, arena| elastic.create(arena))
    }

    /// Frees all memory.
    pub(crate) fn destroy(&mut self, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.destroy(arena));
    }

    /// The place and the address of the slot of `key`.
    #[inline]
    pub(crate) fn find(&self, key: u64, memory: &PhysicalMemory) -> Option<(Place, PhysAddr)> {
        if !self.elastic.exists() {
            return None;
        }
        self.elastic.places(hashes(self.hash, key)).find_map(|place| {
            let at = self.address(place);
            (S::key(&S::read(memory, at)) == Some(key)).then_some((place, at))
        })
    }

    /// The slot of `key`.
    pub(crate) fn get(&self, key: u64, memory: &PhysicalMemory) -> Option<S::Words> {
        self.find(key, memory).map(|(_, at)| S::read(memory, at))
    }

    /// The address of a slot.
    #[inline]
    pub(crate) fn address(&self, place: Place) -> PhysAddr {
        self.spaces[place.way][place.side as usize].at(place.index * S::BYTES)
    }

    /// Prefetches the slots of `key` (simulator speed only).
    #[inline]
    pub(crate) fn prefetch_sim_host(&self, key: u64, memory: &PhysicalMemory) {
        if self.elastic.exists() {
            self.elastic.places(hashes(self.hash, key)).for_each(|place| memory.prefetch(self.address(place)));
        }
    }

    /// Inserts a slot whose key is not in the table.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if the table must grow and cannot; then nothing has changed.
    pub(crate) fn insert(&mut self, words: S::Words, cx: &mut Context<'_, '_>) -> Result<(), MapError> {
        let inserted = self.with(cx, |elastic, arena| elastic.insert(arena, words));
        inserted.map_err(|(error, _)| match error {
            InsertError::NoRoom(error) => error,
            InsertError::Collides => MapError::NoMemory { bytes: self.elastic.slots().count() as u64 * S::BYTES },
        })
    }

    /// Removes the slot at `place`.
    pub(crate) fn remove(&mut self, place: Place, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.remove(arena, place));
    }

    /// See [`Elastic::advance`].
    pub(crate) fn advance(&mut self, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.advance(arena));
    }

    /// See [`Elastic::cancel_new`].
    pub(crate) fn cancel_new(&mut self, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.cancel_new(arena));
    }

    /// Takes a key from the list of slots that entered a way since the list was last emptied.
    pub(crate) fn next_placed(&mut self) -> Option<u64> {
        self.placed.pop()
    }

    /// Empties the list of slots that entered a way.
    pub(crate) fn forget_placed(&mut self) {
        self.placed.clear();
    }

    /// The memory of its ways.
    #[cfg(test)]
    pub(crate) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Appends the table's part of the hardware registers.
    pub(crate) fn write_registers(&self, to: &mut Vec<u64>) {
        let ways = if self.elastic.exists() { self.elastic.ways() } else { &[] };
        to.push(ways.len() as u64);
        for (way, spaces) in ways.iter().zip(&self.spaces) {
            let resize = way.resize.map_or(0, |r| 1 << 63 | u64::from(r.in_place) << 62 | r.to);
            to.extend([way.slots, resize, way.resize.map_or(0, |r| r.pointer)]);
            for space in spaces {
                to.push(u64::from(space.chunk_shift) << 32 | space.chunks.len() as u64);
                to.extend(space.chunks.iter().map(|chunk| chunk.0));
            }
        }
    }
}

/// The hardware's view of a table, from the registers that [`CuckooTable::write_registers`] wrote.
#[derive(Clone, Debug, Default, PartialEq, State)]
pub(crate) struct View {
    /// Number of ways; 0 if the table does not exist.
    pub(crate) ways: usize,
    states: [Way; MAX_WAYS],
    spaces: Spaces,
}

impl View {
    /// Reads the registers of one table from the front of `words`. Missing words are a table that does not
    /// exist.
    pub(crate) fn load(&mut self, words: &mut std::slice::Iter<'_, u64>) {
        let mut next = || words.next().copied().unwrap_or(0);
        self.ways = (next() as usize).min(MAX_WAYS);
        for way in 0..self.ways {
            let (slots, resize, pointer) = (next(), next(), next());
            let resizing = resize >> 63 == 1;
            let resize = Resize { to: resize & (u64::MAX >> 2), pointer, in_place: resize >> 62 & 1 == 1 };
            self.states[way] = Way { slots, resize: resizing.then_some(resize) };
            for space in &mut self.spaces[way] {
                let head = next();
                space.chunk_shift = (head >> 32) as u32;
                space.chunks.clear();
                space.chunks.extend((0..head as u32).map(|_| PhysAddr(next())));
            }
        }
    }

    /// The address of the only slot of `way` that can hold a key whose hash for that way is `hash`.
    #[inline(always)]
    pub(crate) fn address(&self, way: usize, hash: u32, slot_bytes: u64) -> PhysAddr {
        let (side, index) = self.states[way].locate(hash);
        self.spaces[way][side as usize].at(index * slot_bytes)
    }

    /// For a watch: the slot of `way` that a hash selects.
    pub(crate) fn probe(&self, way: usize, hash: u32) -> Probe {
        let Way { slots, resize } = &self.states[way];
        let (side, slot) = self.states[way].locate(hash);
        let slots = match resize {
            Some(resize) if resize.in_place => resize.to.max(*slots),
            Some(resize) if side == Side::New => resize.to,
            _ => *slots,
        };
        Probe { way, ways: self.ways, slot, slots }
    }
}

/// One block per way, resized out of place: ECPT (ME-HPT Sec. II-B), and all cuckoo walk tables.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Contiguous;

impl Backing for Contiguous {
    fn begin(
        &mut self,
        _id: usize,
        _way: usize,
        from: u64,
        to: u64,
        parts: &mut StoreParts<'_, '_>,
    ) -> Result<ResizeMode, MapError> {
        let side = if from == 0 { Side::Old } else { Side::New };
        let mut space = Space { chunk_shift: Space::ONE_BLOCK, chunk_bytes: to, chunks: Vec::new() };
        space.grow(1, parts.footprint, parts.os)?;
        parts.spaces[side as usize] = space;
        Ok(if from == 0 { ResizeMode::InPlace } else { ResizeMode::OutOfPlace })
    }

    fn end(&mut self, _id: usize, _way: usize, _to: u64, _in_place: bool, parts: &mut StoreParts<'_, '_>) {
        parts.replace_old();
    }

    fn abandon(&mut self, _id: usize, _way: usize, from: u64, _in_place: bool, parts: &mut StoreParts<'_, '_>) {
        parts.drop_side(if from == 0 { Side::Old } else { Side::New });
    }
}
