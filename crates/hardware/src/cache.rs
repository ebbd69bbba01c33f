//! One cache: tags, flags, in-flight stamps, MSHRs.
//!
//! Tags, flags and the order of use of a set are together: an access of a set with up to 8 ways touches one
//! sim-host cache line, and of up to 16 ways two. Tags are 32 bits. A line's stamp records when the line was
//! requested and how long it took: an access that finds it in flight waits for the remainder and no longer.

use crate::replacement::{NEW_ORDER, oldest_to_front, to_front};
use crate::reservation_table::{Occupancy, divide};
use crate::{CacheSpec, Replacement, ReplacementState, sim_host};
use ambulator_base::{Counters, State, counters};

counters! {
    /// Counters of a cache. Demand accesses are the core's, translation accesses the walkers', speculative
    /// fetches a design's; prefetches are those of the cache's own prefetcher and of the level above.
    pub struct CacheCounters {
        /// Demand accesses that found their line.
        demand_hits: Events,
        /// Demand accesses that missed.
        demand_misses: Events,
        /// Translation accesses that found their line.
        table_hits: Events,
        /// Translation accesses that missed.
        table_misses: Events,
        /// Speculative fetches that found their line.
        speculative_hits: Events,
        /// Speculative fetches that missed.
        speculative_misses: Events,
        /// Prefetches that found their line.
        prefetch_hits: Events,
        /// Prefetches that missed.
        prefetch_misses: Events,
        /// Hits on lines still in flight (merged with the miss that fetches them).
        merges: Events timed,
        /// Cycles that such hits waited beyond the hit latency.
        merge_cycles: Cycles timed,
        /// Misses that waited for a free MSHR.
        mshr_stalls: Events timed,
        /// Cycles that they waited.
        mshr_stall_cycles: Cycles timed,
        /// Lines that were evicted.
        evictions: Events,
        /// Dirty lines written back to the level below.
        writebacks: Events,
        /// Prefetches sent by this cache's prefetcher.
        prefetches: Events,
        /// Prefetches dropped because no MSHR was free.
        prefetches_dropped: Events timed,
        /// Prefetched lines that a demand or translation access used.
        prefetches_useful: Events,
        /// Useful ones that were still in flight when they were used.
        prefetches_late: Events timed,
        /// Prefetched lines that were evicted unused.
        prefetches_useless: Events,
        /// Speculatively fetched lines that a demand or translation access used.
        speculations_useful: Events,
        /// Useful ones that were still in flight when they were used.
        speculations_late: Events timed,
        /// Speculative fetches dropped because no MSHR was free.
        speculations_dropped: Events timed,
        /// Speculatively fetched lines that were evicted unused.
        speculations_useless: Events,
    }
}

/// The line has been written.
pub(crate) const DIRTY: u8 = 1;
/// The line holds translations.
pub(crate) const TABLE: u8 = 2;
/// The line was prefetched and has not been used yet.
pub(crate) const PREFETCHED: u8 = 4;
/// The line was fetched speculatively and has not been used yet.
pub(crate) const SPECULATIVE: u8 = 8;

/// Which component makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// The core.
    Demand = 0,
    /// A walker.
    Table = 1,
    /// A design's fetch that no instruction waits for.
    Speculative = 2,
    /// A prefetcher.
    Prefetch = 3,
}

impl Class {
    /// Whether the access uses the line (instead of only fetching it).
    #[inline(always)]
    fn uses(self) -> bool {
        matches!(self, Class::Demand | Class::Table)
    }
}

/// An evicted line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub line: u64,
    pub flags: u8,
}

const NO_TAG: u32 = u32::MAX;

/// Ways of a row.
const ROW: usize = 16;

/// All ways of a set, or half of more than sixteen. Places beyond the ways never hold a tag.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(C, align(64))]
struct Row {
    /// The order of use, for LRU of one row.
    order: u64,
    flags: [u8; ROW],
    tags: Tags,
}

/// Aligned so that the first eight are in the row's first sim-host cache line, and none crosses from one line
/// to the next when they are compared.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(32))]
struct Tags([u32; ROW]);

impl Row {
    const EMPTY: Row = Row { order: NEW_ORDER, flags: [0; ROW], tags: Tags([NO_TAG; ROW]) };
}

/// Bits of a stamp that hold the duration; above them is the cycle at which the line was requested.
const DURATION_BITS: u32 = 16;
const DURATION_MAX: u64 = (1 << DURATION_BITS) - 1;

/// The stamp of a line that was requested at `requested` and arrives at `ready`.
#[inline(always)]
fn stamp_of(requested: u64, ready: u64) -> u64 {
    requested << DURATION_BITS | (ready - requested).min(DURATION_MAX)
}

/// When the line of a stamp arrives.
#[inline(always)]
fn arrival_of(stamp: u64) -> u64 {
    (stamp >> DURATION_BITS) + (stamp & DURATION_MAX)
}

/// The position of a line within a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    row: u32,
    /// In the row.
    way: u32,
}

/// The position of a way of a set.
#[inline(always)]
fn place_of(wide: bool, set: u32, way: usize) -> Place {
    if wide {
        Place { row: 2 * set + (way / ROW) as u32, way: (way % ROW) as u32 }
    } else {
        Place { row: set, way: way as u32 }
    }
}

/// The set of a position, and the way.
#[inline(always)]
fn way_of(wide: bool, place: Place) -> (usize, usize) {
    let (row, way) = (place.row as usize, place.way as usize);
    if wide { (row / 2, row % 2 * ROW + way) } else { (row, way) }
}

/// The set of a line, and its tag there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    set: u32,
    tag: u32,
}

/// One cache.
#[derive(Clone, Debug, State)]
pub(crate) struct Cache {
    rows: Box<[Row]>,
    /// Empty in functional mode. Without time, those of an earlier time stay.
    #[state(timed)]
    stamps: Box<[u64]>,
    /// Where rows do not hold the order of use.
    #[state(each)]
    policy: Option<ReplacementState>,
    #[state(timed)]
    mshrs: Occupancy,
    /// Demand accesses queue for MSHRs: prefetches find none.
    #[state(timed)]
    kept: bool,
    /// Whether lines take time to arrive, and MSHRs are bounded.
    #[state(skip)]
    timed: bool,
    #[state(skip)]
    pub latency: u64,
    /// Cycles from the core until a request arrives here, the round trip to the level above, in whole grains
    /// of the MSHRs' occupancy: anything finer would be rounded off at each wait.
    #[state(skip)]
    reach: u64,
    #[state(skip)]
    sets: u64,
    #[state(skip)]
    set_bits: u32,
    #[state(skip)]
    set_mask: u64,
    /// For divisions by the number of sets; 0 when that is a power of two.
    #[state(skip)]
    reciprocal: u64,
    #[state(skip)]
    ways: usize,
    /// Whether a set has two rows.
    #[state(skip)]
    wide: bool,
    /// Stamps of a row.
    #[state(skip)]
    stride: usize,
    /// The line that was hit or filled last.
    #[state(skip)]
    latest: Place,
    /// Ways of all sets without a line.
    empty: usize,
    /// Valid lines that hold translations.
    tables: usize,
    /// Hits and misses of each class.
    hits: [u64; 4],
    misses: [u64; 4],
    pub counters: CacheCounters,
}

impl Cache {
    /// An empty cache of `shares` times the spec's size, below a level with a round trip of `reach` cycles (0
    /// for a first level). The spec must have passed [`CacheSpec::validate`].
    pub fn new(spec: &CacheSpec, shares: usize, reach: u64, timing: bool, seed: u64) -> Cache {
        let sets = spec.sets(shares as u64) as usize;
        let ways = spec.ways as usize;
        assert!(sets > 0 && ways <= 2 * ROW, "a cache has sets of up to 32 ways: its spec was not validated");
        let wide = ways > ROW;
        let rows = sets << u32::from(wide);
        let stride = ways.min(ROW);
        let ordered = spec.replacement == Replacement::Lru && !wide;
        Cache {
            rows: vec![Row::EMPTY; rows].into(),
            stamps: vec![0; if timing { rows * stride } else { 0 }].into(),
            policy: (!ordered).then(|| ReplacementState::new(spec.replacement, sets, ways, seed)),
            mshrs: Occupancy::new(spec.mshrs * shares as u32),
            kept: false,
            timed: timing,
            latency: spec.latency,
            reach: reach / Occupancy::GRAIN * Occupancy::GRAIN,
            sets: sets as u64,
            set_bits: sets.trailing_zeros(),
            set_mask: sets as u64 - 1,
            reciprocal: if sets.is_power_of_two() { 0 } else { u64::MAX / sets as u64 + 1 },
            ways,
            wide,
            stride,
            latest: Place::default(),
            empty: sets * ways,
            tables: 0,
            hits: [0; 4],
            misses: [0; 4],
            counters: CacheCounters::default(),
        }
    }

    /// Switches time on or off, in a cache that was built with it.
    pub fn set_timed(&mut self, timed: bool) {
        self.timed = timed && !self.stamps.is_empty();
        // Nothing is in flight.
        self.mshrs.clear();
        self.kept = false;
    }

    /// Whether there is time.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Where a line belongs.
    #[inline(always)]
    pub fn slot(&self, line: u64) -> Slot {
        if self.reciprocal == 0 {
            return Slot { set: (line & self.set_mask) as u32, tag: (line >> self.set_bits) as u32 };
        }
        let tag = divide(line, self.reciprocal);
        Slot { set: (line - tag * self.sets) as u32, tag: tag as u32 }
    }

    /// The line of a slot.
    #[inline(always)]
    fn line(&self, slot: Slot) -> u64 {
        let (set, tag) = (u64::from(slot.set), u64::from(slot.tag));
        if self.reciprocal == 0 { tag << self.set_bits | set } else { tag * self.sets + set }
    }

    /// The first way of a set that has that tag.
    #[inline(always)]
    fn first(&self, Slot { set, tag }: Slot) -> Option<Place> {
        // Comparisons, not a jump table: these are the sizes that machines have.
        let mask = if self.ways <= ROW / 2 {
            let (halves, _) = self.rows[set as usize].tags.0.as_chunks::<{ ROW / 2 }>();
            sim_host::matches(&halves[0], tag)
        } else if self.ways <= ROW {
            sim_host::matches(&self.rows[set as usize].tags.0, tag)
        } else {
            return self.first_of_two_rows(set, tag);
        };
        (mask != 0).then(|| Place { row: set, way: mask.trailing_zeros() })
    }

    #[inline(never)]
    fn first_of_two_rows(&self, set: u32, tag: u32) -> Option<Place> {
        let [low, high] = [0, 1].map(|half| sim_host::matches(&self.rows[2 * set as usize + half].tags.0, tag));
        let way = (low | high << ROW).trailing_zeros() as usize;
        (way < self.ways).then(|| place_of(self.wide, set, way))
    }

    /// The index of a place's stamp.
    #[inline(always)]
    fn stamp(&self, place: Place) -> usize {
        place.row as usize * self.stride + place.way as usize
    }

    /// Looks a line up without side effects: where it is, or where it is not.
    #[inline(always)]
    pub fn find(&self, line: u64) -> Result<Place, Slot> {
        let slot = self.slot(line);
        self.first(slot).ok_or(slot)
    }

    /// Counts a miss.
    #[inline(always)]
    pub fn missed(&mut self, class: Class) {
        self.misses[class as usize] += 1;
    }

    /// A hit: updates replacement, flags and counters. Returns when the line arrives.
    #[inline(always)]
    pub fn hit(&mut self, place: Place, class: Class, add: u8, now: u64) -> u64 {
        self.hits[class as usize] += 1;
        self.latest = place;
        self.use_policy(place, ReplacementState::touch);
        let row = &mut self.rows[place.row as usize];
        let way = place.way as usize % ROW;
        let flags = row.flags[way];
        if flags & add != add {
            self.tables += usize::from(add & TABLE & !flags != 0);
            row.flags[way] |= add;
        }
        if flags & (PREFETCHED | SPECULATIVE) != 0 && class.uses() {
            self.first_use(place, flags, now);
        }
        let ready = now + self.latency;
        let at = self.stamp(place);
        match self.stamps.get(at) {
            Some(&stamp) if arrival_of(stamp) > ready => self.merge(at, stamp, now),
            _ => ready,
        }
    }

    /// Tells the replacement policy that the line of a place was used: hit or filled, as `how` says.
    #[inline(always)]
    fn use_policy(&mut self, place: Place, how: impl FnOnce(&mut ReplacementState, usize, usize)) {
        match &mut self.policy {
            None => {
                // Written unconditionally: the sim host cannot predict a branch on whether the way was the most
                // recent already.
                let order = &mut self.rows[place.row as usize].order;
                *order = to_front(*order, place.way as usize);
            }
            Some(policy) => {
                let (set, way) = way_of(self.wide, place);
                how(policy, set, way);
            }
        }
    }

    /// Whether the replacement policy ignores [`Cache::repeat_hit`].
    pub fn ignores_repeated_hits(&self) -> bool {
        self.policy.as_ref().is_none_or(ReplacementState::ignores_repeated_hits)
    }

    /// Without time: another demand hit of the line that was hit or filled last, by a demand access.
    #[inline(always)]
    pub fn repeat_hit(&mut self, add: u8) {
        self.hits[Class::Demand as usize] += 1;
        self.rows[self.latest.row as usize].flags[self.latest.way as usize % ROW] |= add;
    }

    #[cold]
    fn first_use(&mut self, place: Place, flags: u8, now: u64) {
        let stamp = self.stamps.get(self.stamp(place));
        let late = stamp.is_some_and(|stamp| arrival_of(*stamp) > now + self.latency);
        if flags & PREFETCHED != 0 {
            self.counters.prefetches_useful += 1;
            self.counters.prefetches_late += u64::from(late);
        } else {
            self.counters.speculations_useful += 1;
            self.counters.speculations_late += u64::from(late);
        }
        self.rows[place.row as usize].flags[place.way as usize] &= !(PREFETCHED | SPECULATIVE);
    }

    /// A hit on a line in flight.
    #[inline(never)]
    fn merge(&mut self, at: usize, stamp: u64, now: u64) -> u64 {
        let (requested, duration) = (stamp >> DURATION_BITS, stamp & DURATION_MAX);
        self.counters.merges += 1;
        let ready = if requested <= now {
            requested + duration
        } else {
            // Later in the program but earlier in time than the access that requested the line: this access
            // would have fetched it, and the other would have merged.
            self.stamps[at] = now << DURATION_BITS | duration;
            (now + duration).max(now + self.latency)
        };
        self.counters.merge_cycles += ready - now - self.latency;
        ready
    }

    /// A miss of an access that left the core at `now` waits for a free MSHR from its arrival here on.
    /// Returns when it would have left the core if it had not waited.
    #[inline(always)]
    pub fn admit(&mut self, now: u64) -> u64 {
        if !self.timed {
            return now;
        }
        let start = self.mshr_free(now);
        if start > now {
            self.count_wait(start - now);
        }
        start
    }

    /// When a request of `now` on finds an MSHR free, with time.
    #[inline(always)]
    fn mshr_free(&mut self, now: u64) -> u64 {
        self.mshrs.admit(now + self.reach) - self.reach
    }

    /// When a miss at `now` may be sent, if no MSHR is free now: as said then.
    #[inline(always)]
    pub fn must_wait(&mut self, now: u64) -> Option<u64> {
        if !self.timed {
            return None;
        }
        let free = self.mshr_free(now);
        (free > now).then_some(free)
    }

    /// While others are `waiting` for MSHRs, prefetches find none.
    pub fn keep_mshrs(&mut self, waiting: bool) {
        self.kept = waiting;
    }

    /// Counts a miss that waited `cycles` for an MSHR.
    pub fn count_wait(&mut self, cycles: u64) {
        self.counters.mshr_stalls += 1;
        self.counters.mshr_stall_cycles += cycles;
    }

    /// Fills the line of a slot, which was requested at `requested` and arrives at `ready`; returns the evicted
    /// line. Its MSHR is taken from then on that the request, which [`Cache::admit`] let leave at `admitted`,
    /// is here.
    #[inline(always)]
    pub fn fill(&mut self, slot: Slot, flags: u8, requested: u64, admitted: u64, ready: u64) -> Option<Victim> {
        if self.timed {
            self.mshrs.take(admitted + self.reach, ready);
        }
        self.place(slot, flags, requested, ready)
    }

    /// An evicted line keeps an MSHR from cycle `from` to cycle `to`.
    #[cold]
    pub fn hold_mshr(&mut self, from: u64, to: u64) {
        self.mshrs.take(from, to);
    }

    /// When a line has arrived here, or will; 0 for a line that is not here.
    pub fn arrives(&self, line: u64) -> u64 {
        let stamp = self.find(line).ok().and_then(|place| self.stamps.get(self.stamp(place)));
        stamp.map_or(0, |stamp| arrival_of(*stamp))
    }

    /// A line that was to arrive at `told` arrives at `ready`, which is later: if it is in flight here, it is so
    /// until then, and keeps its MSHR.
    pub fn delay(&mut self, line: u64, told: u64, ready: u64) {
        let Ok(place) = self.find(line) else { return };
        let at = self.stamp(place);
        if let Some(stamp) = self.stamps.get_mut(at)
            && arrival_of(*stamp) == told
        {
            *stamp = stamp_of(*stamp >> DURATION_BITS, ready);
            self.mshrs.take(told, ready);
        }
    }

    /// Inserts a line, which must not be present.
    #[inline(always)]
    fn place(&mut self, slot: Slot, flags: u8, requested: u64, ready: u64) -> Option<Victim> {
        let vacant = if self.empty > 0 { self.vacant(slot.set) } else { None };
        let place = match vacant {
            Some(place) => {
                self.empty -= 1;
                self.use_policy(place, ReplacementState::fill);
                place
            }
            None => match &mut self.policy {
                None => {
                    let way = oldest_to_front(&mut self.rows[slot.set as usize].order, self.ways);
                    Place { row: slot.set, way: way as u32 }
                }
                Some(policy) => {
                    let way = policy.replace(slot.set as usize);
                    place_of(self.wide, slot.set, way)
                }
            },
        };
        self.latest = place;
        let at = self.stamp(place);
        let row = &mut self.rows[place.row as usize];
        let way = place.way as usize % ROW;
        let old_tag = std::mem::replace(&mut row.tags.0[way], slot.tag);
        let old_flags = std::mem::replace(&mut row.flags[way], flags);
        if self.timed
            && let Some(stamp) = self.stamps.get_mut(at)
        {
            *stamp = stamp_of(requested, ready);
        }
        if (flags ^ old_flags) & TABLE != 0 {
            self.tables = self.tables + usize::from(flags & TABLE != 0) - usize::from(old_flags & TABLE != 0);
        }
        if vacant.is_some() {
            return None;
        }
        self.counters.evictions += 1;
        self.counters.writebacks += u64::from(old_flags & DIRTY != 0);
        if old_flags & (PREFETCHED | SPECULATIVE) != 0 {
            self.counters.prefetches_useless += u64::from(old_flags & PREFETCHED != 0);
            self.counters.speculations_useless += u64::from(old_flags & SPECULATIVE != 0);
        }
        Some(Victim { line: self.line(Slot { tag: old_tag, ..slot }), flags: old_flags })
    }

    /// The first way of a set that holds no line.
    #[inline(always)]
    fn vacant(&self, set: u32) -> Option<Place> {
        let place = self.first(Slot { set, tag: NO_TAG })?;
        (self.wide || (place.way as usize) < self.ways).then_some(place)
    }

    /// Takes a dirty line from the level above, which does not count as a use; returns the evicted line if it
    /// had to be allocated.
    #[inline(always)]
    pub fn write_back(&mut self, victim: Victim, now: u64) -> Option<Victim> {
        match self.find(victim.line) {
            Ok(place) => {
                self.rows[place.row as usize].flags[place.way as usize % ROW] |= DIRTY;
                None
            }
            Err(slot) => self.allocate(slot, victim.flags, now),
        }
    }

    #[inline(never)]
    fn allocate(&mut self, slot: Slot, flags: u8, now: u64) -> Option<Victim> {
        self.place(slot, flags & (DIRTY | TABLE), now, now)
    }

    /// Whether a request that leaves the core at `now` finds an MSHR free.
    #[inline(always)]
    pub fn has_mshr(&mut self, now: u64) -> bool {
        self.mshrs.has_room(now + self.reach)
    }

    /// Where a prefetch of `line` goes if it is sent at `now`: the cache lacks it and an MSHR is free. Counts
    /// the decision.
    pub fn begins_prefetch(&mut self, line: u64, now: u64) -> Option<Slot> {
        let slot = self.find(line).err()?;
        let room = !self.kept && self.has_mshr(now);
        self.counters.prefetches += u64::from(room);
        self.counters.prefetches_dropped += u64::from(!room);
        room.then_some(slot)
    }

    /// Invalidates a line; returns its flags if it was present.
    pub fn remove(&mut self, line: u64) -> Option<u8> {
        let place = self.find(line).ok()?;
        let row = &mut self.rows[place.row as usize];
        row.tags.0[place.way as usize] = NO_TAG;
        let flags = std::mem::take(&mut row.flags[place.way as usize]);
        self.empty += 1;
        self.tables -= usize::from(flags & TABLE != 0);
        Some(flags)
    }

    /// Lines that hold translations, and valid lines.
    pub fn table_lines(&self) -> (usize, usize) {
        (self.tables, self.sets as usize * self.ways - self.empty)
    }

    /// Prefetches into the sim host's caches what a miss in the set of `line` touches.
    #[inline(always)]
    pub fn prefetch_sim_host(&self, line: u64) {
        let place = place_of(self.wide, self.slot(line).set, 0);
        if let Some(row) = self.rows.get(place.row as usize) {
            ambulator_base::prefetch_sim_host(row);
            if self.ways > ROW / 2 {
                sim_host::prefetch(&row.tags.0, ROW / 2);
            }
        }
        if let Some(policy) = &self.policy {
            policy.prefetch_sim_host(way_of(self.wide, place).0);
        }
        let at = self.stamp(place);
        sim_host::prefetch(&self.stamps, at);
        sim_host::prefetch(&self.stamps, at + 8);
    }

    /// The counters so far.
    pub fn counters(&self) -> CacheCounters {
        let [demand_hits, table_hits, speculative_hits, prefetch_hits] = self.hits;
        let [demand_misses, table_misses, speculative_misses, prefetch_misses] = self.misses;
        CacheCounters {
            demand_hits,
            table_hits,
            speculative_hits,
            prefetch_hits,
            demand_misses,
            table_misses,
            speculative_misses,
            prefetch_misses,
            ..self.counters.clone()
        }
    }

    /// Sets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.hits = [0; 4];
        self.misses = [0; 4];
        self.counters.reset();
    }
}
