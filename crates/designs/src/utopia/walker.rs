//! The hardware half: the RestSeg walker, probed with the L2 TLB, and its two caches (Utopia Sec. 5.4, 5.7).

use super::UtopiaSpec;
use super::line_cache::LineCache;
use super::reuse::WayUses;
use super::rows::{ACCESSED, DIRTY, flags};
use super::segments::{Arrays, Shape};
use super::table::RECENT;
use ambulator_base::watch::{self, Shape as Picture, Step, StepKind};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, LINE_BYTES, Pfn, PhysAddr, State, VirtAddr};
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters, Translation};

ambulator_base::counters! {
    /// Counters of a RestSeg walker.
    pub(crate) struct UtopiaWalkerCounters {
        /// Walks, one for each L1 TLB miss.
        walks: Events,
        /// Of these, walks that found their page in a RestSeg.
        hits: Events,
        /// Look-ups of set filters that hit their cache.
        sf_hits: Events timed,
        /// Look-ups of set filters that missed their cache, or found a line in flight there.
        sf_misses: Events timed,
        /// Look-ups of tag arrays that hit their cache, without an L2 TLB hit.
        tar_hits: Events timed,
        /// Look-ups of tag arrays that missed their cache, or found a line in flight there, without an L2 TLB hit.
        tar_misses: Events timed,
        /// Sets that the filter reported as empty.
        filtered: Events,
        /// Loads abandoned because the L2 TLB hit.
        abandoned: Events timed,
        /// Cycles of walks; without those beside a hit in the L2 TLB.
        walk_cycles: Cycles timed,
        /// Of these, cycles of walks that found their page.
        hit_cycles: Cycles timed,
        /// Lines dropped from both caches because the kernel changed them.
        flushed: Events,
        /// Pages hinted for migration by the counters in their entries.
        proposed: Events,
    }
}

/// Counters in a page-table entry, in bits that x86-64 leaves to software: three bits count walks, four count
/// their loads from DRAM. Bits 52 to 58.
const FREQUENCY_AT: u32 = 52;
const FREQUENCY_MOST: u64 = 7;
const COST_AT: u32 = 55;
const COST_MOST: u64 = 15;

/// A core's RestSeg walker.
#[derive(State)]
pub(crate) struct RestSegWalker {
    #[state(skip)]
    spec: UtopiaSpec,
    #[state(skip)]
    shapes: Vec<Shape>,
    #[state(each)]
    uses: Vec<WayUses>,
    asid: Asid,
    /// Base, tag array and set filter of each RestSeg for the running process.
    places: Vec<(Pfn, Arrays)>,
    /// By process: the number of changes that its cached lines reflect.
    known: Vec<(Asid, u64)>,
    filters: LineCache,
    rows: LineCache,
    /// A page hinted for migration.
    request: Option<VirtAddr>,
    /// Its counters.
    pub(crate) counters: UtopiaWalkerCounters,
}

/// A page that a RestSeg has, and the lines that decided when that was known, with the cycles at which they arrive.
struct Hit {
    translation: Translation,
    lines: [(PhysAddr, Cycle); 2],
}

/// A walk of one RestSeg, by its place: what it has found, and when that is known.
type WalkOne = fn(&mut RestSegWalker, usize, VirtAddr, AccessKind, Cycle, &mut dyn MemoryPort) -> (Option<Hit>, Cycle);

impl RestSegWalker {
    /// A walker with empty caches. It records the ways that it finds in `uses`, from
    /// [`super::Segments::uses`].
    pub(crate) fn new(spec: &UtopiaSpec, va_bits: u32, uses: Vec<WayUses>) -> RestSegWalker {
        RestSegWalker {
            shapes: spec.shapes(va_bits),
            uses,
            asid: Asid(0),
            places: Vec::new(),
            known: Vec::new(),
            filters: LineCache::new(spec.sf_cache_bytes),
            rows: LineCache::new(spec.tar_cache_bytes),
            request: None,
            counters: UtopiaWalkerCounters::default(),
            spec: spec.clone(),
        }
    }

    /// Walks the RestSegs by `walk`, or at no cost with `perfect_walks`: all at once (Sec. 5.4, Fig. 10a), so that
    /// the one that has the page does not save the loads of the others.
    fn look_up(
        &mut self,
        walk: WalkOne,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> LookasideAnswer {
        self.counters.walks += 1;
        if self.spec.perfect_walks {
            watch::step(|| Step::compute("RestSegs", now, now).says("known at no cost (perfect_walks)"));
        }
        let walk = if self.spec.perfect_walks { Self::walk_perfectly } else { walk };
        let (mut found, mut known) = (None, now);
        for at in 0..self.places.len() {
            let (hit, ready) = walk(self, at, va, access, now, port);
            if hit.is_some() {
                self.counters.hits += 1;
                (found, known) = (hit, ready);
            } else if found.is_none() {
                known = known.max(ready);
            }
        }
        let found = found.map(|Hit { translation, lines }| {
            // It does not wait for what the other RestSegs still load.
            port.decide(&lines);
            translation
        });
        LookasideAnswer { found, ready: known, holds_walk: true }
    }

    /// A walk of one RestSeg that costs nothing (`perfect_walks`).
    fn walk_perfectly(
        &mut self,
        at: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Option<Hit>, Cycle) {
        let (shape, arrays) = (self.shapes[at], self.places[at].1);
        let (set, tag) = shape.set_and_tag(va);
        let line = arrays.tar.offset(set * LINE_BYTES);
        let row = port.peek_line(line);
        let found = shape.row.find(&row, tag);
        let lines = [(line, now); 2];
        (found.map(|way| Hit { translation: self.translation(at, set, way, &row, access, now, port), lines }), now)
    }

    /// Walks one RestSeg beside a hit in the L2 TLB: as far as both caches have its lines. Its loads are
    /// abandoned (Sec. 8.4): the L2 TLB answers before the nearest cache could, so that nothing is sent and
    /// nothing is cached. Returns the translation, and the cycle at which the result is known.
    fn walk_cached(
        &mut self,
        at: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Option<Hit>, Cycle) {
        let (shape, arrays) = (self.shapes[at], self.places[at].1);
        let (set, tag) = shape.set_and_tag(va);
        let latency = self.spec.cache_latency;
        let looked = now.after(latency);
        tell_set(&shape, set, tag, now);
        let filter_line = shape.filter.line(arrays.sf, set);
        let Some((filter, hit)) = self.filters.look_up(filter_line, now, latency) else {
            self.counters.sf_misses += 1;
            self.counters.abandoned += 1;
            tell_cache("SF cache", false, now, looked, "miss: abandoned, for the L2 TLB hits");
            return (None, looked);
        };
        tell_cache("SF cache", true, now, filter.ready, "hit");
        self.counters.sf_hits += u64::from(hit);
        self.counters.sf_misses += u64::from(!hit);
        if shape.filter.count(&filter.words, set) == 0 {
            self.counters.filtered += 1;
            return (None, filter.ready);
        }
        let line = arrays.tar.offset(set * LINE_BYTES);
        let Some((row, _)) = self.rows.look_up(line, now, latency) else {
            self.counters.abandoned += 1;
            tell_cache("TAR cache", false, now, looked, "miss: abandoned, for the L2 TLB hits");
            return (None, looked);
        };
        tell_cache("TAR cache", true, now, row.ready, "hit");
        let ready = filter.ready.max(row.ready);
        let found = shape.row.find(&row.words, tag);
        let lines = [(filter_line, filter.ready), (line, row.ready)];
        let translation = |way| self.translation(at, set, way, &row.words, access, ready, port);
        (found.map(translation).map(|translation| Hit { translation, lines }), ready)
    }

    /// Walks one RestSeg. Returns the translation, and the cycle at which the result is known.
    fn walk(
        &mut self,
        at: usize,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Option<Hit>, Cycle) {
        let (shape, arrays) = (self.shapes[at], self.places[at].1);
        let (set, tag) = shape.set_and_tag(va);
        let latency = self.spec.cache_latency;
        tell_set(&shape, set, tag, now);
        let filter_line = shape.filter.line(arrays.sf, set);
        let cached = watch::watched() && self.filters.peek_mut(filter_line).is_some();
        if watch::watched() {
            tell_cache("SF cache", cached, now, now.after(latency), if cached { "hit" } else { "miss" });
        }
        let (filter, hit) = self.filters.load(filter_line, true, now, latency, port);
        if watch::watched() && cached && !hit {
            watch::step(|| Step::new(StepKind::Wait, "line in flight", now.after(latency), filter.ready));
        }
        watch::meaning(filter_line, || shape.filter.meaning(&filter.words, set));
        self.counters.sf_hits += u64::from(hit);
        self.counters.sf_misses += u64::from(!hit);
        let count = shape.filter.count(&filter.words, set);
        watch::step(|| {
            let says = if count == 0 { "the set is empty: no tag is compared" } else { "the set has pages" };
            let step = Step::compute("set filter (SF)", filter.ready, filter.ready).says(says);
            step.field("pages of the set", count).source("Utopia Sec. 5.2, 5.4")
        });
        if hit && count == 0 {
            // Tag matching is cancelled before it accesses memory.
            self.counters.filtered += 1;
            return (None, filter.ready);
        }
        let line = arrays.tar.offset(set * LINE_BYTES);
        // Both loads are in flight at once. Tags of a set that turns out to be empty are not cached.
        let cached = watch::watched() && self.rows.peek_mut(line).is_some();
        if watch::watched() {
            tell_cache("TAR cache", cached, now, now.after(latency), if cached { "hit" } else { "miss" });
        }
        let (row, row_hit) = self.rows.load(line, count > 0, now, latency, port);
        if watch::watched() && cached && !row_hit {
            watch::step(|| Step::new(StepKind::Wait, "line in flight", now.after(latency), row.ready));
        }
        watch::meaning(line, || shape.row.meaning(&row.words, tag, [set, shape.sets]));
        if count == 0 {
            self.counters.filtered += 1;
            // Nobody waits for the tags.
            watch::amend(|steps| {
                let loads = steps.iter_mut().filter(|step| step.loaded.as_ref().is_some_and(|load| load.at == line.0));
                loads.for_each(|load| load.behind = true);
            });
            return (None, filter.ready);
        }
        self.counters.tar_hits += u64::from(row_hit);
        self.counters.tar_misses += u64::from(!row_hit);
        let ready = filter.ready.max(row.ready);
        let found = shape.row.find(&row.words, tag);
        watch::step(|| {
            let step = Step::look_up(format!("tags of RestSeg {at}"), found.is_some(), ready, ready);
            let step = step.source("Utopia Sec. 5.2, 5.4");
            match found {
                Some(way) => step.field("way", way).says("the page is in this RestSeg: set and way give the frame"),
                None => step.says("the page is not in this RestSeg"),
            }
        });
        let lines = [(filter_line, filter.ready), (line, row.ready)];
        let translation = |way| self.translation(at, set, way, &row.words, access, ready, port);
        (found.map(translation).map(|translation| Hit { translation, lines }), ready)
    }

    /// The translation by a way of a row, whose accessed and dirty bits are set in memory and in its cache.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    fn translation(
        &mut self,
        at: usize,
        set: u64,
        way: u32,
        row: &[u64; 8],
        access: AccessKind,
        ready: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Translation {
        let (shape, (base, arrays)) = (self.shapes[at], self.places[at]);
        let line = arrays.tar.offset(set * LINE_BYTES);
        self.uses[at].found(set * u64::from(shape.ways) + u64::from(way));
        let mut metadata = shape.row.metadata(row, way);
        let dirties = access == AccessKind::Store && flags(metadata).writable;
        let missing = (ACCESSED | if dirties { DIRTY } else { 0 }) & !metadata;
        if missing != 0 {
            let (word, shift) = shape.row.metadata_word(line, way);
            port.update(word, u64::from(missing) << shift, ready);
            metadata |= missing;
            if let Some(kept) = self.rows.peek_mut(line) {
                kept.words[way as usize / 8] |= u64::from(missing) << shift;
            }
        }
        let rights = flags(metadata);
        Translation {
            frame: shape.frame(base, set, way),
            size: shape.page,
            writable: rights.writable,
            executable: rights.executable,
            dirty: rights.dirty,
            ranged: false,
        }
    }
}

/// For a watch: the set and the tag of an address.
fn tell_set(shape: &Shape, set: u64, tag: u64, now: Cycle) {
    watch::step(|| {
        Step::compute(format!("hash of the page number, RestSeg of {} pages", shape.page), now, now)
            .field("set", set)
            .address("tag", tag)
            .shape(Picture::Ways {
                set,
                sets: shape.sets,
                ways: u64::from(shape.ways),
                first: 0,
                used: Vec::new(),
                way: None,
            })
            .source("Utopia Sec. 5.2")
    });
}

/// For a watch: a look-up of one of the walker's caches.
fn tell_cache(name: &str, hit: bool, from: Cycle, until: Cycle, says: &str) {
    watch::step(|| Step::look_up(name, hit, from, until).says(says).source("Utopia Sec. 5.7"));
}

impl Lookaside for RestSegWalker {
    fn fills_l2(&self) -> bool {
        self.spec.fill_l2
    }

    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        self.asid = asid;
        let word = |at: usize| registers.0.get(at).copied().unwrap_or(0);
        let changes = word(0);
        let known = match self.known.iter_mut().find(|(own, _)| *own == asid) {
            Some((_, known)) => std::mem::replace(known, changes),
            None => {
                self.known.push((asid, changes));
                changes
            }
        };
        if changes.wrapping_sub(known) > RECENT as u64 {
            self.filters.clear();
            self.rows.clear();
        } else {
            for change in known..changes {
                let at = 1 + 2 * (change as usize % RECENT);
                let dropped = [self.rows.drop_line(word(at)), self.filters.drop_line(word(at + 1))];
                self.counters.flushed += dropped.into_iter().filter(|dropped| *dropped).count() as u64;
            }
        }
        let first = 2 + 2 * RECENT;
        let place = |at: usize| {
            let at = first + 3 * at;
            (Pfn(word(at)), Arrays { tar: PhysAddr(word(at + 1)), sf: PhysAddr(word(at + 2)) })
        };
        self.places = (0..word(first - 1) as usize).map(place).collect();
    }

    fn probe(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> LookasideAnswer {
        let answer = self.look_up(Self::walk, va, access, now, port);
        let cycles = answer.ready.since(now);
        if answer.found.is_some() {
            self.counters.hit_cycles += cycles;
        }
        self.counters.walk_cycles += cycles;
        answer
    }

    fn probe_beside_hit(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> LookasideAnswer {
        self.look_up(Self::walk_cached, va, access, now, port)
    }

    /// The page is in the FlexSeg: its entry counts the walk and its loads from DRAM (Sec. 5.5).
    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort) {
        let size = walk.found.size;
        let migrates = self.spec.migration && size.bytes() <= self.spec.largest_migration;
        if !migrates || !self.shapes.iter().any(|shape| shape.page == size) {
            return;
        }
        let Some(at) = walk.entry else { return };
        let word = port.peek_line(at)[at.0 as usize % LINE_BYTES as usize / 8];
        let frequency = ((word >> FREQUENCY_AT & FREQUENCY_MOST) + 1).min(FREQUENCY_MOST);
        let cost = ((word >> COST_AT & COST_MOST) + u64::from(walk.dram_loads)).min(COST_MOST);
        let mask = FREQUENCY_MOST << FREQUENCY_AT | COST_MOST << COST_AT;
        let counted = frequency << FREQUENCY_AT | cost << COST_AT;
        // Saturated counters are not written again.
        if word & mask != counted {
            port.replace(at, mask, counted, walk.ready);
        }
        if frequency >= self.spec.frequency_threshold && cost >= self.spec.cost_threshold {
            self.counters.proposed += 1;
            self.request = Some(va);
        }
    }

    fn take_migration_hint(&mut self) -> Option<VirtAddr> {
        self.request.take()
    }

    fn invalidate(&mut self, what: Invalidation) {
        // The registers list the lines that the kernel has changed. Only shootdowns of whole address spaces
        // flush the caches.
        if !matches!(what, Invalidation::Page { .. }) {
            self.filters.clear();
            self.rows.clear();
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
