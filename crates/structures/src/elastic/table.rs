//! Insertion and removal; both advance resizes.

use super::{ElasticSpec, MAX_WAYS, Place, Resize, Resizing, Side, Way};
use ambulator_base::{Random, State};

/// Buckets of the histograms of re-insertions; the last one counts all larger values too.
pub const REINSERTION_BUCKETS: usize = 16;

/// How a way is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeMode {
    /// The new table shares the old one's memory (ME-HPT Sec. IV-C).
    InPlace,
    /// The new table is [`Side::New`]; both exist until all entries are moved.
    OutOfPlace,
    /// As [`ResizeMode::OutOfPlace`], but all entries must move before the next look-up: hardware cannot
    /// describe both tables.
    AtOnce,
}

/// Why an entry was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError<E> {
    /// The table must grow, but the arena has no room.
    NoRoom(E),
    /// Growing does not help: the table is nearly empty, but entries with the same hashes occupy all slots of
    /// this one.
    Collides,
}

/// Storage for the slots of an elastic table.
///
/// An arena does not know where an entry belongs; the table says in which slot to store it.
pub trait Arena {
    /// The contents of an occupied slot.
    type Entry;
    /// Why there is no room for a larger table.
    type Error;

    /// The hashes of the entry at `at`; `None` if the slot is empty.
    fn hashes_at(&self, at: Place) -> Option<[u32; MAX_WAYS]>;

    /// The hashes of an entry.
    fn hashes_of(&self, entry: &Self::Entry) -> [u32; MAX_WAYS];

    /// Stores `entry` (`None` empties the slot) and returns the previous entry.
    fn exchange(&mut self, at: Place, entry: Option<Self::Entry>) -> Option<Self::Entry>;

    /// Makes room to resize a way from `from` to `to` slots, twice or half as many. `from` is 0 for a new
    /// way, whose table is [`Side::Old`].
    ///
    /// # Errors
    /// If there is no room; then nothing has changed.
    fn begin(&mut self, way: usize, from: u64, to: u64) -> Result<ResizeMode, Self::Error>;

    /// Completes a resize. Out of place, [`Side::New`] becomes [`Side::Old`] and the old table, now empty, is
    /// freed. In place, the upper half of a way that has shrunk is freed.
    fn end(&mut self, way: usize, to: u64, in_place: bool);

    /// Cancels a resize: all entries are in the old table, and the memory that `begin` added is freed.
    fn abandon(&mut self, way: usize, from: u64, in_place: bool);
}

/// If an entry finds no slot at this occupancy or below, it will not find one in a larger table either.
const HOPELESS: f64 = 0.05;

/// Counters of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, State)]
pub struct ElasticCounters {
    /// Times that each way began to double.
    pub upsizes: [u64; MAX_WAYS],
    /// Times that each way began to halve.
    pub downsizes: [u64; MAX_WAYS],
    /// Upsizes caused by an insertion that displaced too many entries.
    pub early_upsizes: u64,
    /// Resizes out of place.
    pub out_of_place: u64,
    /// Resizes that were completed at once because the next one was due.
    pub hurried: u64,
    /// Cancelled downsizes.
    pub cancelled: u64,
    /// Entries that upsizes moved to another slot.
    pub upsize_moved: u64,
    /// Entries that stayed in their slots in upsizes in place.
    pub upsize_stayed: u64,
    /// Entries that downsizes moved or left in place.
    pub downsize_rehashed: u64,
    /// Insertions, by the number of entries that each displaced.
    pub insertions: [u64; REINSERTION_BUCKETS],
    /// Rehashed entries, by the number of entries that each displaced.
    pub rehashes: [u64; REINSERTION_BUCKETS],
    /// Entries displaced by insertions and rehashes.
    pub reinsertions: u64,
}

/// The state of an elastic cuckoo table; the slots are in an [`Arena`].
///
/// An entry is in the slot that one of its ways gives it ([`Way::locate`]), also during a resize, so a
/// look-up reads at most one slot per way. No entry is ever lost. A growing way rehashes without conflicts:
/// an entry either stays or moves to a slot that no other entry could have. A shrinking way can be cancelled
/// until it is done.
#[derive(Clone, Debug, State)]
pub struct Elastic {
    #[state(skip)]
    pub(super) spec: ElasticSpec,
    pub(super) ways: [Way; MAX_WAYS],
    pub(super) occupied: [u64; MAX_WAYS],
    /// By way: the most slots that may be occupied before it must grow.
    pub(super) limits: [u64; MAX_WAYS],
    pub(super) random: Random,
    /// The way whose rehash pointer advances next.
    pub(super) next_way: usize,
    /// The slots that the current insertion has visited.
    pub(super) path: Vec<Place>,
    /// See [`Elastic::generation`].
    pub(super) generation: u64,
    /// Ways whose resize began since the last [`Elastic::advance`].
    pub(super) fresh: [bool; MAX_WAYS],
    /// Its counters.
    pub counters: ElasticCounters,
}

impl Elastic {
    /// A table without ways, of a validated spec; [`Elastic::create`] creates them.
    pub fn new(spec: &ElasticSpec) -> Elastic {
        Elastic {
            spec: spec.clone(),
            ways: [Way::default(); MAX_WAYS],
            occupied: [0; MAX_WAYS],
            limits: [0; MAX_WAYS],
            random: Random::for_purpose(spec.seed, "elastic cuckoo table"),
            next_way: 0,
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

    /// Changes whenever the location of entries may change: with a way's size, its resize, its rehash pointer
    /// or its memory.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn set_way(&mut self, way: usize, to: Way) {
        self.ways[way] = to;
        self.limits[way] = (self.spec.upsize_at * to.target() as f64) as u64;
        self.generation += 1;
    }

    /// Occupied slots of each way.
    pub fn occupied(&self) -> &[u64] {
        &self.occupied[..self.spec.ways]
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.occupied.iter().sum()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its ways were created.
    pub fn exists(&self) -> bool {
        self.ways[0].slots > 0
    }

    /// Whether any way is being resized.
    pub fn resizes(&self) -> bool {
        self.ways().iter().any(|way| way.resize.is_some())
    }

    /// The slots that an entry with these hashes can be in: one per way.
    #[inline(always)]
    pub fn places(&self, hashes: [u32; MAX_WAYS]) -> impl Iterator<Item = Place> {
        self.ways().iter().zip(hashes).enumerate().map(|(way, (state, hash))| {
            let (side, index) = state.locate(hash);
            Place { way, side, index }
        })
    }

    /// All slots, empty ones included.
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

    /// Creates the ways, each of the initial size.
    ///
    /// # Errors
    /// The arena's, if there is no room; then nothing has changed.
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

    /// Frees all of the arena. Entries still in it are dropped.
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
        self.occupied = [0; MAX_WAYS];
        self.generation += 1;
    }

    /// Inserts an entry whose key is not in the table. Call [`Elastic::advance`] next.
    ///
    /// # Errors
    /// With the entry, if the table must grow and cannot, or if growing does not help. Look-ups still find
    /// all entries. Resizes that this call began are cancelled; an earlier one may have been completed.
    pub fn insert<A: Arena>(
        &mut self,
        arena: &mut A,
        entry: A::Entry,
    ) -> Result<(), (InsertError<A::Error>, A::Entry)> {
        if let Err(error) = self.grow_when_full(arena) {
            self.cancel_new(arena);
            return Err((InsertError::NoRoom(error), entry));
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
                        return Err((InsertError::Collides, entry));
                    }
                    if let Err(error) = self.grow_early(arena) {
                        self.cancel_new(arena);
                        return Err((InsertError::NoRoom(error), entry));
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes the entry at `at`. Call [`Elastic::advance`] next.
    pub fn remove<A: Arena>(&mut self, arena: &mut A, at: Place) -> Option<A::Entry> {
        let entry = arena.exchange(at, None)?;
        self.occupied[at.way] -= 1;
        Some(entry)
    }

    /// After an insertion or a removal: begins a downsize if one is due, and advances current resizes.
    pub fn advance<A: Arena>(&mut self, arena: &mut A) {
        self.fresh = [false; MAX_WAYS];
        self.shrink_when_empty(arena);
        self.rehash(arena);
        self.end_when_due(arena);
        self.fresh = [false; MAX_WAYS];
    }

    /// Completes every current resize.
    pub fn finish<A: Arena>(&mut self, arena: &mut A) {
        for way in 0..self.spec.ways {
            self.finish_way(arena, way);
        }
    }

    /// Cancels the resizes that began since the last [`Elastic::advance`], for a caller whose larger
    /// operation failed.
    pub fn cancel_new<A: Arena>(&mut self, arena: &mut A) {
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

    /// The way of an insertion, at random with weights by free slots (ME-HPT Sec. IV-D), except a way that is
    /// larger than others and full enough to double. If all ways resize together, any way. Never `but`.
    fn choose(&mut self, but: Option<usize>) -> usize {
        let ways = self.spec.ways;
        if !self.all_ways()
            && let Some(way) = self.choose_by_room(|way| Some(way) != but)
        {
            return way;
        }
        match but {
            None => self.random.below(ways as u64) as usize,
            Some(but) => (but + 1 + self.random.below(ways as u64 - 1) as usize) % ways,
        }
    }

    /// One of the ways for which `among` holds, at random with weights by free slots; never one that is
    /// closed.
    fn choose_by_room(&mut self, among: impl Fn(usize) -> bool) -> Option<usize> {
        let mut weights = [0; MAX_WAYS];
        for (way, weight) in weights[..self.spec.ways].iter_mut().enumerate() {
            let closed = self.is_full(way) && !self.may_grow(way);
            if among(way) && !closed {
                *weight = self.ways[way].target().saturating_sub(self.occupied[way]);
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

    /// The first way of an insertion.
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

    /// Inserts an entry into `way`, displacing the entry there into another way, and so on. Returns the
    /// number of displaced entries, or the entry if there were too many; then nothing has changed.
    pub(super) fn push<A: Arena>(&mut self, arena: &mut A, entry: A::Entry, way: usize) -> Result<usize, A::Entry> {
        self.path.clear();
        let (mut entry, mut way) = (entry, way);
        loop {
            let (side, index) = self.ways[way].locate(arena.hashes_of(&entry)[way]);
            let at = Place { way, side, index };
            let Some(pushed) = arena.exchange(at, Some(entry)) else {
                self.occupied[way] += 1;
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

    /// Whether all ways resize together.
    pub(super) fn all_ways(&self) -> bool {
        self.spec.resizing == Resizing::AllWays
    }

    /// Whether a way must wait for the resize of another.
    pub(super) fn must_wait(&self) -> bool {
        self.spec.resizing == Resizing::OneWay && self.resizes()
    }

    pub(super) fn is_full(&self, way: usize) -> bool {
        self.occupied[way] > self.limits[way]
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
