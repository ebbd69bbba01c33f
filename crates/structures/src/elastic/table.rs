//! The algorithm: insertion, removal, and resizes that go on beside them.

use super::{ElasticSpec, MAX_WAYS, Place, Resize, Side, Way};
use ambulator_base::Random;

/// Re-insertions that are told apart in histograms; the last bucket holds that many and more.
pub const REINSERTION_BUCKETS: usize = 16;

/// How a resize can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The new table shares the old one's memory (ME-HPT Sec. IV-C).
    InPlace,
    /// The new table is [`Side::New`], and both are there until all has been moved.
    OutOfPlace,
    /// As [`Room::OutOfPlace`], but all must be moved before anyone looks: hardware has no place for both.
    AtOnce,
}

/// Why an entry was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// The table must grow, and the arena has no room.
    NoRoom(E),
    /// Growing does not help: the table is nearly empty, and the slots of this entry are all taken by entries that share them.
    Collides,
}

/// Where the slots of an elastic table lie, and what lies in them.
///
/// An arena knows nothing of where an entry belongs: it holds what it is given where it is told to.
pub trait Arena {
    /// What an occupied slot holds.
    type Entry;
    /// Why there is no room for a larger table.
    type Error;

    /// The hashes of what lies at `at`, none if the slot is empty.
    fn hashes_at(&self, at: Place) -> Option<[u32; MAX_WAYS]>;

    /// The hashes of an entry.
    fn hashes_of(&self, entry: &Self::Entry) -> [u32; MAX_WAYS];

    /// Puts `entry` (nothing: empties the slot) and hands out what was there.
    fn exchange(&mut self, at: Place, entry: Option<Self::Entry>) -> Option<Self::Entry>;

    /// Makes room for a way of `from` slots to become one of `to` slots (twice or half; `from` is 0 for a way that does
    /// not exist yet: what is made is [`Side::Old`]).
    ///
    /// # Errors
    /// When there is no room; then nothing has changed.
    fn begin(&mut self, way: usize, from: u64, to: u64) -> Result<Room, Self::Error>;

    /// The resize is done: out of place, what was [`Side::New`] is [`Side::Old`] from now on and the old table, empty, goes;
    /// in place, the upper half of a way that has shrunk goes.
    fn end(&mut self, way: usize, to: u64, in_place: bool);

    /// The resize is called off: all is in the old table, and what `begin` added goes.
    fn abandon(&mut self, way: usize, from: u64, in_place: bool);
}

/// An entry that finds no place although no more than this share of the slots is taken will not find one in a larger table.
const HOPELESS: f64 = 0.05;

/// What a table has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElasticCounters {
    /// Times that each way began to double.
    pub upsizes: [u64; MAX_WAYS],
    /// Times that each way began to halve.
    pub downsizes: [u64; MAX_WAYS],
    /// Of the upsizes, those that an insertion asked for which pushed on too many entries.
    pub early_upsizes: u64,
    /// Resizes out of place.
    pub out_of_place: u64,
    /// Resizes that were brought to their end at once, since the next one was due.
    pub hurried: u64,
    /// Downsizes called off.
    pub cancelled: u64,
    /// Entries that upsizes moved to another slot.
    pub upsize_moved: u64,
    /// Entries that upsizes in place left where they were.
    pub upsize_stayed: u64,
    /// Entries that downsizes moved, or left in place.
    pub downsize_rehashed: u64,
    /// Insertions, by the number of entries that each pushed on.
    pub insertions: [u64; REINSERTION_BUCKETS],
    /// Rehashed entries, by the number of entries that each pushed on.
    pub rehashes: [u64; REINSERTION_BUCKETS],
    /// Entries pushed on, by insertions and rehashes.
    pub reinsertions: u64,
}

/// The state of an elastic cuckoo table; the slots are in an [`Arena`].
///
/// Every entry is in the one slot that each of its ways gives it ([`Way::locate`]), also while ways resize: a look-up
/// reads at most one slot a way. No entry is ever lost: a growing way takes entries without conflict (an entry
/// either stays or moves to a slot that no other could have), and a shrinking way can be called off as long as it is not done.
#[derive(Clone, Debug)]
pub struct Elastic {
    pub(super) spec: ElasticSpec,
    pub(super) ways: [Way; MAX_WAYS],
    pub(super) taken: [u64; MAX_WAYS],
    /// By way: the most slots that may be taken before it is to grow.
    pub(super) limits: [u64; MAX_WAYS],
    pub(super) random: Random,
    /// The way whose rehash pointer advances next.
    pub(super) turn: usize,
    /// The slots that the insertion under way has been through.
    pub(super) path: Vec<Place>,
    /// See [`Elastic::generation`].
    pub(super) generation: u64,
    /// Ways whose resize began since the last [`Elastic::advance`].
    pub(super) fresh: [bool; MAX_WAYS],
    /// What was done.
    pub counters: ElasticCounters,
}

impl Elastic {
    /// A table without ways, of a validated spec; [`Elastic::create`] makes them.
    pub fn new(spec: &ElasticSpec) -> Elastic {
        Elastic {
            spec: spec.clone(),
            ways: [Way::default(); MAX_WAYS],
            taken: [0; MAX_WAYS],
            limits: [0; MAX_WAYS],
            random: Random::for_purpose(spec.seed, "elastic cuckoo table"),
            turn: 0,
            path: Vec::with_capacity(spec.max_reinsertions as usize + 1),
            generation: 0,
            fresh: [false; MAX_WAYS],
            counters: ElasticCounters::default(),
        }
    }

    /// The ways.
    #[inline(always)]
    pub fn ways(&self) -> &[Way] {
        &self.ways[..self.spec.ways]
    }

    /// Changes whenever what tells where entries are does: a way's size, its resize, its rehash pointer, its memory.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn set_way(&mut self, way: usize, to: Way) {
        self.ways[way] = to;
        self.limits[way] = (self.spec.upsize_at * to.target() as f64) as u64;
        self.generation += 1;
    }

    /// Slots taken in each way.
    pub fn taken(&self) -> &[u64] {
        &self.taken[..self.spec.ways]
    }

    /// Entries.
    pub fn len(&self) -> u64 {
        self.taken.iter().sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its ways have been created.
    pub fn exists(&self) -> bool {
        self.ways[0].slots > 0
    }

    /// Whether any way is being resized.
    pub fn resizes(&self) -> bool {
        self.ways().iter().any(|way| way.resize.is_some())
    }

    /// The slots in which an entry of these hashes can be: one a way.
    #[inline(always)]
    pub fn places(&self, hashes: [u32; MAX_WAYS]) -> impl Iterator<Item = Place> {
        self.ways().iter().zip(hashes).enumerate().map(|(way, (state, hash))| {
            let (side, index) = state.locate(hash);
            Place { way, side, index }
        })
    }

    /// All slots that there are, empty ones too.
    pub fn slots(&self) -> impl Iterator<Item = Place> {
        self.ways().iter().enumerate().flat_map(|(way, state)| {
            let (old, new) = match state.resize {
                Some(Resize { to, in_place: true, .. }) => (state.slots.max(to), 0),
                Some(Resize { to, in_place: false, .. }) => (state.slots, to),
                None => (state.slots, 0),
            };
            let side = |side: Side, slots: u64| (0..slots).map(move |index| Place { way, side, index });
            side(Side::Old, old).chain(side(Side::New, new))
        })
    }

    /// Makes the ways, each of the initial size.
    ///
    /// # Errors
    /// The arena's, when there is no room; then nothing has changed.
    pub fn create<A: Arena>(&mut self, arena: &mut A) -> Result<(), A::Error> {
        let slots = self.spec.initial_slots;
        for way in 0..self.spec.ways {
            if let Err(error) = arena.begin(way, 0, slots) {
                (0..way).for_each(|way| arena.abandon(way, 0, true));
                return Err(error);
            }
        }
        for way in 0..self.spec.ways {
            self.set_way(way, Way { slots, resize: None });
        }
        Ok(())
    }

    /// Gives all of the arena back; every slot must be empty or of no more use.
    pub fn destroy<A: Arena>(&mut self, arena: &mut A) {
        for way in 0..self.spec.ways {
            let Way { slots, resize } = std::mem::take(&mut self.ways[way]);
            if let Some(resize) = resize {
                arena.abandon(way, slots, resize.in_place);
            }
            if slots > 0 {
                arena.abandon(way, 0, true);
            }
        }
        self.taken = [0; MAX_WAYS];
        self.generation += 1;
    }

    /// Inserts an entry whose key is not there. [`Elastic::advance`] should follow.
    ///
    /// # Errors
    /// With the entry, when the table must grow and cannot, or growing does not help. All entries are where a look-up
    /// finds them, and resizes that this call began are called off; one that was under way may have been brought to its end.
    pub fn insert<A: Arena>(&mut self, arena: &mut A, entry: A::Entry) -> Result<(), (Refused<A::Error>, A::Entry)> {
        if let Err(error) = self.grow_when_full(arena) {
            self.call_off(arena);
            return Err((Refused::NoRoom(error), entry));
        }
        let mut entry = entry;
        loop {
            let way = self.first_way(arena, &entry);
            match self.push(arena, entry, way) {
                Ok(pushed) => {
                    self.counters.insertions[pushed.min(REINSERTION_BUCKETS - 1)] += 1;
                    break;
                }
                Err(back) => {
                    entry = back;
                    if self.len() as f64 <= HOPELESS * self.slots_in_all() as f64 {
                        return Err((Refused::Collides, entry));
                    }
                    if let Err(error) = self.grow_early(arena) {
                        self.call_off(arena);
                        return Err((Refused::NoRoom(error), entry));
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes out the entry at `at`. [`Elastic::advance`] should follow.
    pub fn remove<A: Arena>(&mut self, arena: &mut A, at: Place) -> Option<A::Entry> {
        let entry = arena.exchange(at, None)?;
        self.taken[at.way] -= 1;
        Some(entry)
    }

    /// After an insertion or a removal: begins a downsize if one is due, and lets resizes that are under way go on a little.
    pub fn advance<A: Arena>(&mut self, arena: &mut A) {
        self.fresh = [false; MAX_WAYS];
        self.shrink_when_empty(arena);
        self.rehash(arena);
        self.end_when_due(arena);
        self.fresh = [false; MAX_WAYS];
    }

    /// Brings every resize that is under way to its end.
    pub fn finish<A: Arena>(&mut self, arena: &mut A) {
        for way in 0..self.spec.ways {
            self.finish_way(arena, way);
        }
    }

    /// Calls off the resizes that began since the last [`Elastic::advance`]: a caller whose larger action failed leaves nothing
    /// behind.
    pub fn call_off<A: Arena>(&mut self, arena: &mut A) {
        for way in 0..self.spec.ways {
            let state = self.ways[way];
            if let (true, Some(Resize { pointer: 0, in_place, .. })) = (self.fresh[way], state.resize) {
                let counted = if state.grows() { &mut self.counters.upsizes } else { &mut self.counters.downsizes };
                counted[way] -= 1;
                self.counters.out_of_place -= u64::from(!in_place);
                self.set_way(way, Way { resize: None, ..state });
                arena.abandon(way, state.slots, in_place);
            }
        }
        self.fresh = [false; MAX_WAYS];
    }

    /// Where an insertion goes (ME-HPT Sec. IV-D): a way by the share of its free slots; not into one that is larger than
    /// others and full enough to double. Without per-way resizing, any way. Never into `but`.
    fn choose(&mut self, but: Option<usize>) -> usize {
        let ways = self.spec.ways;
        if self.spec.per_way
            && let Some(way) = self.choose_by_room(|way| Some(way) != but)
        {
            return way;
        }
        match but {
            None => self.random.below(ways as u64) as usize,
            Some(but) => (but + 1 + self.random.below(ways as u64 - 1) as usize) % ways,
        }
    }

    /// One of the ways that `among` names, by the share of its free slots; none that is closed.
    fn choose_by_room(&mut self, among: impl Fn(usize) -> bool) -> Option<usize> {
        let mut weights = [0; MAX_WAYS];
        for (way, weight) in weights[..self.spec.ways].iter_mut().enumerate() {
            let closed = self.is_full(way) && !self.may_grow(way);
            if among(way) && !closed {
                *weight = self.ways[way].target().saturating_sub(self.taken[way]);
            }
        }
        let sum: u64 = weights.iter().sum();
        let mut at = if sum > 0 { self.random.below(sum) } else { return None };
        weights.iter().position(|&weight| {
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        })
    }

    /// The way in which an insertion begins.
    fn first_way<A: Arena>(&mut self, arena: &A, entry: &A::Entry) -> usize {
        if self.spec.look_first {
            let mut empty = [false; MAX_WAYS];
            for place in self.places(arena.hashes_of(entry)) {
                empty[place.way] = arena.hashes_at(place).is_none();
            }
            if let Some(way) = self.choose_by_room(|way| empty[way]) {
                return way;
            }
        }
        self.choose(None)
    }

    /// Puts an entry into `way`, pushing on what is there, and so on. How many were pushed on; or the entry, with all as it was.
    pub(super) fn push<A: Arena>(&mut self, arena: &mut A, entry: A::Entry, way: usize) -> Result<usize, A::Entry> {
        self.path.clear();
        let (mut entry, mut way) = (entry, way);
        loop {
            let (side, index) = self.ways[way].locate(arena.hashes_of(&entry)[way]);
            let at = Place { way, side, index };
            let Some(pushed) = arena.exchange(at, Some(entry)) else {
                self.taken[way] += 1;
                self.counters.reinsertions += self.path.len() as u64;
                return Ok(self.path.len());
            };
            entry = pushed;
            self.path.push(at);
            if self.path.len() > self.spec.max_reinsertions as usize {
                break;
            }
            way = self.choose(Some(way));
        }
        while let Some(at) = self.path.pop() {
            entry = arena.exchange(at, Some(entry)).unwrap_or_else(|| unreachable!("a slot of the path is empty"));
        }
        Err(entry)
    }

    pub(super) fn is_full(&self, way: usize) -> bool {
        self.taken[way] > self.limits[way]
    }

    /// The balance rule: a way that is larger than another does not grow.
    pub(super) fn may_grow(&self, way: usize) -> bool {
        self.ways().iter().all(|other| self.ways[way].target() <= other.target())
    }

    pub(super) fn slots_in_all(&self) -> u64 {
        self.ways().iter().map(Way::target).sum()
    }

    pub(super) fn is_full_in_all(&self) -> bool {
        self.len() > self.limits.iter().sum()
    }
}
