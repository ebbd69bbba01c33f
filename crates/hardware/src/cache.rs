//! One cache: tags, flags, in-flight stamps, MSHRs.
//!
//! Separate arrays hold tags, flags and stamps, so that a miss reads one sim-host cache line of tags (16
//! ways) and a hit little more. Tags are 32 bits. A line's stamp records when the line was requested and how
//! long it took: an access that finds it in flight waits for the remainder and no longer.

use crate::reservation_table::{Occupancy, divide};
use crate::{CacheSpec, ReplacementState, sim_host};
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

/// Tags are compared sixteen at a time, or eight.
const BLOCK: usize = 16;

/// One sim-host cache line of tags.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(64))]
struct Block([u32; BLOCK]);

/// The tags of all sets: a set has a quarter, half, one or two sim-host cache lines. Places beyond its ways
/// never hold a tag.
#[derive(Clone, Debug, State)]
struct Tags {
    blocks: Box<[Block]>,
    /// Places of a set: 4, 8, 16 or 32.
    #[state(skip)]
    stride: usize,
}

impl Tags {
    fn new(sets: usize, ways: usize) -> Tags {
        let stride = ways.next_power_of_two().clamp(4, 2 * BLOCK);
        Tags { blocks: vec![Block([NO_TAG; BLOCK]); (sets * stride).div_ceil(BLOCK)].into(), stride }
    }

    /// Bit `i` is set when way `i` of `set` has that tag.
    #[inline(always)]
    fn matches(&self, set: usize, tag: u32) -> u32 {
        // Two comparisons, not a jump table: these are the sizes that machines have.
        if self.stride == 8 {
            let (low, high) = halves(&self.blocks[set / 2].0);
            sim_host::matches(if set.is_multiple_of(2) { low } else { high }, tag)
        } else if self.stride == 16 {
            sim_host::matches(&self.blocks[set].0, tag)
        } else {
            self.matches_other(set, tag)
        }
    }

    #[inline(never)]
    fn matches_other(&self, set: usize, tag: u32) -> u32 {
        if self.stride == 4 {
            sim_host::matches(&self.blocks[set / 4].0, tag) >> (set % 4 * 4) & 15
        } else {
            sim_host::matches(&self.blocks[2 * set].0, tag)
                | sim_host::matches(&self.blocks[2 * set + 1].0, tag) << BLOCK
        }
    }

    #[inline(always)]
    fn way(&mut self, set: usize, way: usize) -> &mut u32 {
        let place = set * self.stride + way;
        &mut self.blocks[place / BLOCK].0[place % BLOCK]
    }

    #[inline(always)]
    fn prefetch_sim_host(&self, set: usize) {
        sim_host::prefetch(&self.blocks, set * self.stride / BLOCK);
    }
}

/// A block as two.
#[inline(always)]
fn halves(block: &[u32; BLOCK]) -> (&[u32; 8], &[u32; 8]) {
    let (halves, _) = block.as_chunks::<8>();
    (&halves[0], &halves[1])
}

/// Bits of a stamp that hold the duration; above them is the cycle at which the line was requested.
const DURATION_BITS: u32 = 16;
const DURATION_MAX: u64 = (1 << DURATION_BITS) - 1;

/// The position of a line within a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    set: u32,
    way: u32,
}

/// One cache.
#[derive(Clone, Debug, State)]
pub(crate) struct Cache {
    tags: Tags,
    flags: Box<[u8]>,
    /// Empty in functional mode. Without time, those of an earlier time stay.
    #[state(timed)]
    stamps: Box<[u64]>,
    state: ReplacementState,
    #[state(timed)]
    mshrs: Occupancy,
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
    /// Index of the flags of the line that was hit or filled last.
    #[state(skip)]
    latest: usize,
    valid: usize,
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
        assert!(sets > 0, "a cache has at least one set: its spec was not validated");
        Cache {
            tags: Tags::new(sets, ways),
            flags: vec![0; sets * ways].into(),
            stamps: vec![0; if timing { sets * ways } else { 0 }].into(),
            state: ReplacementState::new(spec.replacement, sets, ways, seed),
            mshrs: Occupancy::new(spec.mshrs * shares as u32),
            timed: timing,
            latency: spec.latency,
            reach: reach / Occupancy::GRAIN * Occupancy::GRAIN,
            sets: sets as u64,
            set_bits: sets.trailing_zeros(),
            set_mask: sets as u64 - 1,
            reciprocal: if sets.is_power_of_two() { 0 } else { u64::MAX / sets as u64 + 1 },
            ways,
            latest: 0,
            valid: 0,
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
    }

    #[inline(always)]
    fn split(&self, line: u64) -> (usize, u32) {
        if self.reciprocal == 0 {
            return ((line & self.set_mask) as usize, (line >> self.set_bits) as u32);
        }
        let tag = divide(line, self.reciprocal);
        ((line - tag * self.sets) as usize, tag as u32)
    }

    /// The line of a tag in a set.
    #[inline(always)]
    fn join(&self, set: usize, tag: u32) -> u64 {
        if self.reciprocal == 0 {
            u64::from(tag) << self.set_bits | set as u64
        } else {
            u64::from(tag) * self.sets + set as u64
        }
    }

    /// Looks a line up without side effects.
    #[inline(always)]
    pub fn find(&self, line: u64) -> Option<Place> {
        let (set, tag) = self.split(line);
        let mask = self.tags.matches(set, tag);
        (mask != 0).then(|| Place { set: set as u32, way: mask.trailing_zeros() })
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
        self.state.touch(place.set as usize, place.way as usize);
        let at = place.set as usize * self.ways + place.way as usize;
        self.latest = at;
        let flags = self.flags[at];
        if flags & (PREFETCHED | SPECULATIVE) != 0 && class.uses() {
            self.first_use(at, flags, now);
        }
        if flags & add != add {
            self.tables += usize::from(add & TABLE & !flags != 0);
            self.flags[at] |= add;
        }
        let ready = now + self.latency;
        match self.stamps.get(at) {
            Some(&stamp) if (stamp >> DURATION_BITS) + (stamp & DURATION_MAX) > ready => self.merge(at, stamp, now),
            _ => ready,
        }
    }

    /// Whether the replacement policy ignores [`Cache::repeat_hit`].
    pub fn ignores_repeated_hits(&self) -> bool {
        self.state.ignores_repeated_hits()
    }

    /// Without time: another demand hit of the line that was hit or filled last, by a demand access.
    #[inline(always)]
    pub fn repeat_hit(&mut self, add: u8) {
        self.hits[Class::Demand as usize] += 1;
        self.flags[self.latest] |= add;
    }

    #[cold]
    fn first_use(&mut self, at: usize, flags: u8, now: u64) {
        let late = self.stamps.get(at).is_some_and(|s| (s >> DURATION_BITS) + (s & DURATION_MAX) > now + self.latency);
        if flags & PREFETCHED != 0 {
            self.counters.prefetches_useful += 1;
            self.counters.prefetches_late += u64::from(late);
        } else {
            self.counters.speculations_useful += 1;
            self.counters.speculations_late += u64::from(late);
        }
        self.flags[at] &= !(PREFETCHED | SPECULATIVE);
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
        let start = self.mshrs.admit(now + self.reach) - self.reach;
        if start > now {
            self.counters.mshr_stalls += 1;
            self.counters.mshr_stall_cycles += start - now;
        }
        start
    }

    /// Fills a line that was requested at `requested` and arrives at `ready`; returns the evicted line. Its
    /// MSHR is taken from then on that the request, which [`Cache::admit`] let leave at `admitted`, is here.
    #[inline(always)]
    pub fn fill(&mut self, line: u64, flags: u8, requested: u64, admitted: u64, ready: u64) -> Option<Victim> {
        if self.timed {
            self.mshrs.take(admitted + self.reach, ready);
        }
        self.place(line, flags, requested, ready)
    }

    /// Inserts a line, which must not be present.
    #[inline(always)]
    fn place(&mut self, line: u64, flags: u8, requested: u64, ready: u64) -> Option<Victim> {
        let (set, tag) = self.split(line);
        let mut empty = 0;
        if self.valid < self.flags.len() {
            empty = self.tags.matches(set, NO_TAG) & (u32::MAX >> (32 - self.ways));
        }
        let way = if empty != 0 {
            self.valid += 1;
            let way = empty.trailing_zeros() as usize;
            self.state.fill(set, way);
            way
        } else {
            self.state.replace(set)
        };
        let at = set * self.ways + way;
        self.latest = at;
        let place = self.tags.way(set, way);
        let old_tag = std::mem::replace(place, tag);
        let old_flags = std::mem::replace(&mut self.flags[at], flags);
        if self.timed
            && let Some(stamp) = self.stamps.get_mut(at)
        {
            *stamp = requested << DURATION_BITS | (ready - requested).min(DURATION_MAX);
        }
        if (flags ^ old_flags) & TABLE != 0 {
            self.tables = self.tables + usize::from(flags & TABLE != 0) - usize::from(old_flags & TABLE != 0);
        }
        if empty != 0 {
            return None;
        }
        self.counters.evictions += 1;
        self.counters.writebacks += u64::from(old_flags & DIRTY != 0);
        if old_flags & (PREFETCHED | SPECULATIVE) != 0 {
            self.counters.prefetches_useless += u64::from(old_flags & PREFETCHED != 0);
            self.counters.speculations_useless += u64::from(old_flags & SPECULATIVE != 0);
        }
        Some(Victim { line: self.join(set, old_tag), flags: old_flags })
    }

    /// Takes a dirty line from the level above, which does not count as a use; returns the evicted line if it
    /// had to be allocated.
    #[inline(always)]
    pub fn write_back(&mut self, victim: Victim, now: u64) -> Option<Victim> {
        match self.find(victim.line) {
            Some(place) => {
                let at = place.set as usize * self.ways + place.way as usize;
                self.flags[at] |= DIRTY;
                None
            }
            None => self.allocate(victim, now),
        }
    }

    #[inline(never)]
    fn allocate(&mut self, victim: Victim, now: u64) -> Option<Victim> {
        self.place(victim.line, victim.flags & (DIRTY | TABLE), now, now)
    }

    /// Whether a request that leaves the core at `now` finds an MSHR free.
    #[inline(always)]
    pub fn has_mshr(&mut self, now: u64) -> bool {
        self.mshrs.has_room(now + self.reach)
    }

    /// Whether a prefetch of `line` is sent at `now`: the cache lacks it and an MSHR is free. Counts the
    /// decision.
    pub fn begins_prefetch(&mut self, line: u64, now: u64) -> bool {
        if self.find(line).is_some() {
            return false;
        }
        let room = self.has_mshr(now);
        self.counters.prefetches += u64::from(room);
        self.counters.prefetches_dropped += u64::from(!room);
        room
    }

    /// Invalidates a line; returns its flags if it was present.
    pub fn remove(&mut self, line: u64) -> Option<u8> {
        let place = self.find(line)?;
        let at = place.set as usize * self.ways + place.way as usize;
        *self.tags.way(place.set as usize, place.way as usize) = NO_TAG;
        let flags = std::mem::take(&mut self.flags[at]);
        self.valid -= 1;
        self.tables -= usize::from(flags & TABLE != 0);
        Some(flags)
    }

    /// Lines that hold translations, and valid lines.
    pub fn table_lines(&self) -> (usize, usize) {
        (self.tables, self.valid)
    }

    /// Prefetches into the sim host's caches what a miss in the set of `line` touches.
    #[inline(always)]
    pub fn prefetch_sim_host(&self, line: u64) {
        let (set, _) = self.split(line);
        self.tags.prefetch_sim_host(set);
        self.state.prefetch_sim_host(set);
        sim_host::prefetch(&self.flags, set * self.ways);
        sim_host::prefetch(&self.stamps, set * self.ways);
        sim_host::prefetch(&self.stamps, set * self.ways + 8);
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
