//! An elastic cuckoo table in simulated memory.

use super::slot::Slot;
use ambulator_base::{CounterSink, FRAME_BYTES, PhysAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, MapError, TableContext};
use ambulator_structures::elastic::{
    Arena, Elastic, ElasticSpec, HashKind, MAX_WAYS, Place, InsertError, Resize, ResizeMode, Side, Way, hashes,
};
use ambulator_structures::frames;

/// The memory of one table of one way: blocks ("chunks", ME-HPT Sec. IV-A) of one size, anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// log2 of a chunk's bytes, by which an offset is cut; [`Space::UNCUT`] for a way that is one block, whatever its size.
    pub chunk_shift: u32,
    /// Bytes that were allocated for each chunk; 0 in hardware's view, which need not know.
    pub chunk_bytes: u64,
    /// Where the chunks are.
    pub chunks: Vec<PhysAddr>,
}

impl Space {
    /// [`Space::chunk_shift`] of a way that is one block.
    pub const UNCUT: u32 = 63;

    /// Allocates chunks until there are `count`.
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then there are as many as before.
    pub fn grow(&mut self, count: usize, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Result<(), MapError> {
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

    /// Gives chunks back until there are `count`.
    pub fn shrink(&mut self, count: usize, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for chunk in self.chunks.drain(count..) {
            frames::release(chunk.pfn(), self.chunk_bytes.div_ceil(FRAME_BYTES), footprint, os);
        }
    }

    /// The address of the byte at `offset`.
    #[inline(always)]
    pub fn at(&self, offset: u64) -> PhysAddr {
        self.chunks[(offset >> self.chunk_shift) as usize].offset(offset & ((1 << self.chunk_shift) - 1))
    }
}

/// The memory of all ways of a table: for each way, by [`Side`].
pub type Spaces = [[Space; 2]; MAX_WAYS];

/// Who gives a table its memory: one block a way (ECPT), or chunks behind the L2P table (ME-HPT).
pub trait Backing: Send {
    /// Makes room in a way of table `id` (its page size's number) for a resize from `from` bytes to `to`; see [`Arena::begin`].
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    fn begin(&mut self, id: usize, way: usize, from: u64, to: u64, parts: &mut StoreParts<'_, '_>)
    -> Result<ResizeMode, MapError>;

    /// See [`Arena::end`].
    fn end(&mut self, id: usize, way: usize, to: u64, in_place: bool, parts: &mut StoreParts<'_, '_>);

    /// See [`Arena::abandon`].
    fn abandon(&mut self, id: usize, way: usize, from: u64, in_place: bool, parts: &mut StoreParts<'_, '_>);

    /// Cycles that a context switch spends on the registers of this process.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// Hands its own counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// What a [`Backing`] works with.
pub struct StoreParts<'a, 'b> {
    /// The way's memory, by [`Side`].
    pub spaces: &'a mut [Space; 2],
    /// What the page table takes.
    pub footprint: &'a mut Footprint,
    /// Memory and its allocator.
    pub os: &'a mut TableContext<'b>,
}

impl StoreParts<'_, '_> {
    /// Gives one side's memory back.
    pub fn drop_side(&mut self, side: Side) {
        let mut space = std::mem::take(&mut self.spaces[side as usize]);
        space.shrink(0, self.footprint, self.os);
    }

    /// The end of a resize out of place: the old side's memory goes, and the new side is the old one.
    pub fn replace_old(&mut self) {
        self.drop_side(Side::Old);
        self.spaces.swap(Side::Old as usize, Side::New as usize);
    }
}

/// What an operation on a table works with.
pub struct Context<'a, 'b> {
    /// Who gives memory.
    pub backing: &'a mut dyn Backing,
    /// What the page table takes.
    pub footprint: &'a mut Footprint,
    /// Memory and its allocator.
    pub os: &'a mut TableContext<'b>,
}

/// A table whose slots are bytes in simulated memory.
pub struct CuckooTable<S: Slot> {
    id: usize,
    hash: HashKind,
    /// Sizes, rehash pointers, and what has been done.
    pub elastic: Elastic,
    spaces: Spaces,
    /// Keys whose slot has come into a way since the list was last taken, for those who keep track of ways.
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
    /// A table without memory; [`CuckooTable::create`] gives it some. `id` is what its backing knows it by.
    pub fn new(id: usize, spec: &ElasticSpec, hash: HashKind) -> CuckooTable<S> {
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
        // The two lifetimes of the context are those of the call.
        let mut context = Context { backing: &mut *cx.backing, footprint: &mut *cx.footprint, os: &mut *cx.os };
        let mut arena = MemoryArena { id: *id, hash: *hash, spaces, placed, cx: &mut context, slot: *slot };
        act(elastic, &mut arena)
    }

    /// Gives the table its first memory.
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    pub fn create(&mut self, cx: &mut Context<'_, '_>) -> Result<(), MapError> {
        self.with(cx, |elastic, arena| elastic.create(arena))
    }

    /// Gives all memory back.
    pub fn destroy(&mut self, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.destroy(arena));
    }

    /// Where the slot of `key` is: its way and its address.
    #[inline]
    pub fn find(&self, key: u64, memory: &PhysicalMemory) -> Option<(Place, PhysAddr)> {
        if !self.elastic.exists() {
            return None;
        }
        self.elastic.places(hashes(self.hash, key)).find_map(|place| {
            let at = self.address(place);
            (S::key(&S::read(memory, at)) == Some(key)).then_some((place, at))
        })
    }

    /// The slot of `key`.
    pub fn get(&self, key: u64, memory: &PhysicalMemory) -> Option<S::Words> {
        self.find(key, memory).map(|(_, at)| S::read(memory, at))
    }

    /// The address of a slot.
    #[inline]
    pub fn address(&self, place: Place) -> PhysAddr {
        self.spaces[place.way][place.side as usize].at(place.index * S::BYTES)
    }

    /// Tells the host that the slots of `key` will be read soon.
    #[inline]
    pub fn prefetch_host(&self, key: u64, memory: &PhysicalMemory) {
        if self.elastic.exists() {
            self.elastic.places(hashes(self.hash, key)).for_each(|place| memory.prefetch(self.address(place)));
        }
    }

    /// Inserts a slot whose key is not there.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when the table must grow and cannot; then nothing has changed.
    pub fn insert(&mut self, words: S::Words, cx: &mut Context<'_, '_>) -> Result<(), MapError> {
        let inserted = self.with(cx, |elastic, arena| elastic.insert(arena, words));
        inserted.map_err(|(refused, _)| match refused {
            InsertError::NoRoom(error) => error,
            InsertError::Collides => MapError::NoMemory { bytes: self.elastic.slots().count() as u64 * S::BYTES },
        })
    }

    /// Takes the slot at `place` out.
    pub fn remove(&mut self, place: Place, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.remove(arena, place));
    }

    /// See [`Elastic::advance`].
    pub fn advance(&mut self, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.advance(arena));
    }

    /// See [`Elastic::cancel_new`].
    pub fn cancel_new(&mut self, cx: &mut Context<'_, '_>) {
        self.with(cx, |elastic, arena| elastic.cancel_new(arena));
    }

    /// The next of the keys whose slots have come into a way since the list was last emptied.
    pub fn next_placed(&mut self) -> Option<u64> {
        self.placed.pop()
    }

    /// Forgets which slots have come into which ways.
    pub fn forget_placed(&mut self) {
        self.placed.clear();
    }

    /// The memory of its ways.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// What hardware must know of the table: appended to its registers.
    pub fn write_registers(&self, to: &mut Vec<u64>) {
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

/// A table as hardware knows it: from the registers that [`CuckooTable::write_registers`] wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Ways that there are: 0 for a table that does not exist.
    pub ways: usize,
    states: [Way; MAX_WAYS],
    spaces: Spaces,
}

impl View {
    /// Reads the registers of one table off the front of `words`. What is not a table is none.
    pub fn load(&mut self, words: &mut std::slice::Iter<'_, u64>) {
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

    /// The address of the one slot of `way` in which a key of that way's `hash` can be.
    #[inline(always)]
    pub fn address(&self, way: usize, hash: u32, slot_bytes: u64) -> PhysAddr {
        let (side, index) = self.states[way].locate(hash);
        self.spaces[way][side as usize].at(index * slot_bytes)
    }
}

/// A block a way, resized out of place: ECPT (ME-HPT Sec. II-B), and all cuckoo walk tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contiguous;

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
        let mut space = Space { chunk_shift: Space::UNCUT, chunk_bytes: to, chunks: Vec::new() };
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
