//! The memory hierarchy: private L1I, L1D and L2 of each core, one LLC, DRAM.
//!
//! A miss fills every level, and no level includes another: a line that is evicted from a lower level may
//! stay in an upper one. A dirty victim is written to the level below, which allocates it if necessary, and
//! from the last level to DRAM. Write-backs occupy DRAM, and an MSHR of the last level while they wait for room in its
//! write queue; they delay no access else. There is no coherence
//! traffic between cores: a core that reads a line which another core wrote finds it in its own caches or
//! below, at the usual latency.

mod behind;
mod levels;
mod unawaited;

use crate::cache::{Cache, Class, DIRTY, SPECULATIVE, TABLE};
use crate::copies::{Copies, CopyId};
use crate::main_memory::MainMemory;
use crate::prefetch::Prefetcher;
use crate::zeroing::{ZeroWrites, ZeroingCounters};
use crate::{CacheCounters, Dram, DramCounters, DramEvent, HierarchySpec, NodeCounters, NodesSpec, Served};
use ambulator_base::{AccessKind, CounterSink, Counters, Cycle, LINE_BYTES, PhysAddr, State, VirtAddr};
use levels::{FirstLevel, Request, SecondLevel, Shared};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unawaited::{Due, UnderWay};

/// Simulated bytes from which on an LLC's arrays (20 bytes a line) exceed a sim-host core's own caches.
/// Measured: prefetching takes 20% off a DRAM access over 32 MiB, and adds 6% over 2 MiB.
const LARGE_LLC: u64 = 6 << 20;

/// The outcome of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Access {
    /// When the value arrives (for a store: when the line is owned).
    pub ready: Cycle,
    /// Where the line was found. A line in flight counts as found in the cache that is waiting for it.
    pub served: Served,
}

/// The cache at which a walker's accesses enter the hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryLevel {
    /// The core's first-level data cache.
    L1,
    /// The core's second-level cache.
    #[default]
    L2,
    /// The shared last-level cache.
    Llc,
}

/// The counters of a hierarchy, each level summed over cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HierarchyCounters {
    /// First-level instruction caches.
    pub l1i: CacheCounters,
    /// First-level data caches.
    pub l1d: CacheCounters,
    /// Second-level caches.
    pub l2: CacheCounters,
    /// The last-level cache.
    pub llc: CacheCounters,
    /// Main memory.
    pub dram: DramCounters,
    /// Each memory node, if there are several.
    pub nodes: Vec<NodeCounters>,
    /// Zeroing of fresh pages.
    pub zeroing: ZeroingCounters,
}

impl HierarchyCounters {
    /// Adds the counters of another part of a run.
    pub fn add(&mut self, other: &HierarchyCounters) {
        let HierarchyCounters { l1i, l1d, l2, llc, dram, nodes, zeroing } = other;
        self.l1i.add(l1i);
        self.l1d.add(l1d);
        self.l2.add(l2);
        self.llc.add(llc);
        self.dram.add(dram);
        self.nodes.resize(self.nodes.len().max(nodes.len()), NodeCounters::default());
        self.nodes.iter_mut().zip(nodes).for_each(|(sum, node)| sum.add(node));
        self.zeroing.add(zeroing);
    }
}

/// The caches of all cores and main memory.
///
/// Times ascend from call to call, but for the loads of one page walk, prefetches, write-backs and accesses
/// of several cores: an access may be called before another one that issues sooner. `reservation_table.rs`
/// and `channel.rs` say what follows for contention. Tags and replacement follow the order of calls.
#[derive(Clone, Debug, State)]
pub struct Hierarchy {
    #[state(each)]
    cores: Box<[Private]>,
    shared: Shared,
}

/// The private caches of a core.
#[derive(Clone, Debug, State)]
struct Private {
    l1i: FirstLevel,
    l1d: FirstLevel,
    second: SecondLevel,
}

impl Hierarchy {
    /// Empty caches of `cores` cores at `clock_mhz` over `physical_bytes` of memory. With `timing` false,
    /// times mean nothing. Hits, misses, evictions and write-backs are the same, except for what depends on
    /// time (prefetches dropped for lack of an MSHR, merges, DRAM rows).
    ///
    /// The spec must have passed [`HierarchySpec::validate`] and [`HierarchySpec::validate_machine`].
    ///
    /// # Panics
    /// If the spec has not passed them.
    pub fn new(spec: &HierarchySpec, cores: usize, clock_mhz: u64, physical_bytes: u64, timing: bool) -> Hierarchy {
        let wrong = spec.validate_machine(cores, physical_bytes);
        assert!(wrong.is_empty(), "a hierarchy was built from a spec that was not validated: {wrong:?}");
        // The seed of a cache depends on its position only.
        let cache =
            |spec, level: u64, reach, core: usize| Cache::new(spec, 1, reach, timing, (core as u64) << 8 | level);
        let private = |core| Private {
            l1i: FirstLevel { cache: cache(&spec.l1i, 0, 0, core), prefetcher: Prefetcher::new(&spec.l1i) },
            l1d: FirstLevel { cache: cache(&spec.l1d, 1, 0, core), prefetcher: Prefetcher::new(&spec.l1d) },
            second: SecondLevel {
                cache: cache(&spec.l2, 2, spec.l1d.latency, core),
                prefetcher: Prefetcher::new(&spec.l2),
                unawaited: Due::new(),
                socket: 0,
            },
        };
        Hierarchy {
            cores: (0..cores).map(private).collect(),
            shared: Shared {
                llc: Cache::new(&spec.llc, cores, spec.l2.latency, timing, 3),
                dram: MainMemory::new(Dram::new(&spec.dram, clock_mhz, timing)),
                copies: Copies::new(),
                zeroing: ZeroWrites::new(cores, &spec.dram, clock_mhz),
                background: false,
                leaving: Due::new(),
                ahead: Vec::new(),
                evicting: Due::new(),
                large: spec.llc.bytes * cores as u64 >= LARGE_LLC,
                awaits_beyond: spec.llc.latency,
                intermediate: None,
            },
        }
    }

    /// Divides main memory into nodes of these sizes, in bytes; node 0 has the DRAM of `spec`. With one size,
    /// main memory stays as it is. `spec` and the rest are those of [`Hierarchy::new`].
    pub fn use_nodes(&mut self, nodes: &NodesSpec, sizes: &[u64], spec: &HierarchySpec, clock_mhz: u64, timing: bool) {
        self.shared.dram.use_nodes(nodes, sizes, &spec.dram, self.cores.len(), clock_mhz, timing);
        for (core, private) in self.cores.iter_mut().enumerate() {
            private.second.socket = self.shared.dram.socket_of_core(core);
        }
    }

    /// Whether an address is in a memory node of another socket than the core's, or in a slow tier.
    #[inline]
    pub fn is_remote(&self, core: usize, at: PhysAddr) -> bool {
        self.shared.dram.is_remote(core, at.line())
    }

    /// Switches time on or off, in a hierarchy that was built with it (`timing`). What the caches hold stays.
    /// Time goes on at cycle `now`, after everything so far.
    pub fn set_timed(&mut self, timed: bool, now: Cycle) {
        for Private { l1i, l1d, second } in &mut self.cores {
            for cache in [&mut l1i.cache, &mut l1d.cache, &mut second.cache] {
                cache.set_timed(timed);
            }
            second.unawaited.clear();
        }
        self.shared.write_due(u64::MAX);
        self.shared.llc.set_timed(timed);
        self.shared.evicting.clear();
        if timed && self.shared.background {
            // What the kernel has begun without time is done.
            self.shared.zeroing.finish(now.0, &mut self.shared.dram);
            self.shared.advance(now.0);
        }
        self.shared.dram.set_timed(timed, now.0);
    }

    /// A demand access of a core: data, or code ([`AccessKind::Fetch`]). `pc` feeds the prefetchers.
    #[inline]
    pub fn access(&mut self, core: usize, at: PhysAddr, kind: AccessKind, pc: VirtAddr, now: Cycle) -> Access {
        self.access_inlined(core, at, kind, pc, now)
    }

    /// [`Hierarchy::access`], for the body of a loop: hits of the first level are inlined there.
    #[inline(always)]
    pub fn access_inlined(&mut self, core: usize, at: PhysAddr, kind: AccessKind, pc: VirtAddr, now: Cycle) -> Access {
        self.ask_for_unawaited(core, now);
        let Private { l1i, l1d, second } = &mut self.cores[core];
        let first = if kind == AccessKind::Fetch { l1i } else { l1d };
        let (request, add) = Request::demand(at, kind, pc);
        first.access(second, &mut self.shared, request, add, at, now.0)
    }

    /// As [`Hierarchy::access_inlined`], a load or a store that is sent only if its line is in the first level or
    /// an MSHR is free there. Otherwise the error says when one is free, as far as is known now. The prefetcher of
    /// the first level does not learn of it ([`Hierarchy::learn`]).
    ///
    /// # Errors
    /// When an MSHR is free.
    #[inline(always)]
    pub fn try_access(
        &mut self,
        core: usize,
        at: PhysAddr,
        kind: AccessKind,
        pc: VirtAddr,
        now: Cycle,
    ) -> Result<Access, Cycle> {
        self.ask_for_unawaited(core, now);
        let Private { l1d, second, .. } = &mut self.cores[core];
        let (request, add) = Request::demand(at, kind, pc);
        l1d.try_access(second, &mut self.shared, request, add, now.0)
    }

    /// The prefetcher of a core's first level learns of a load or a store, as it asks first.
    #[inline(always)]
    pub fn learn(&mut self, core: usize, at: PhysAddr, pc: VirtAddr, now: Cycle) {
        let Private { l1d, second, .. } = &mut self.cores[core];
        l1d.learn(second, &mut self.shared, pc.0, at, now.0);
    }

    /// Whether a core's first level holds the line of its data, or waits for it.
    pub fn is_in_first_level(&self, core: usize, at: PhysAddr) -> bool {
        self.cores[core].l1d.cache.find(at.line()).is_ok()
    }

    /// Loads or stores of a core wait for an MSHR of the first level, or wait no longer: prefetches get none.
    pub fn keep_mshrs(&mut self, core: usize, waiting: bool) {
        self.cores[core].l1d.cache.keep_mshrs(waiting);
    }

    /// Counts a load or a store of a core that waited `cycles` for an MSHR of the first level.
    pub fn count_mshr_wait(&mut self, core: usize, cycles: u64) {
        self.cores[core].l1d.cache.count_wait(cycles);
    }

    /// Whether [`Hierarchy::repeat_hit`] is what [`Hierarchy::access`] does with another access of a core to the
    /// line that it has just accessed: neither a prefetcher nor the replacement policy of the first level learns
    /// from it.
    pub fn repeats_hits(&self, core: usize) -> bool {
        let first = &self.cores[core].l1d;
        !first.prefetcher.is_some() && first.cache.ignores_repeated_hits()
    }

    /// Without time: a load or a store of the line that the core's latest one accessed, if
    /// [`Hierarchy::repeats_hits`].
    #[inline(always)]
    pub fn repeat_hit(&mut self, core: usize, kind: AccessKind) {
        self.cores[core].l1d.cache.repeat_hit(if kind == AccessKind::Store { DIRTY } else { 0 });
    }

    /// A walker's access, which enters at `entry` and flags the line in that level and below as holding
    /// translations. It pays the round trip of the level that serves it; entering below L1 does not shorten
    /// that.
    #[inline]
    pub fn access_table(&mut self, core: usize, at: PhysAddr, write: bool, entry: EntryLevel, now: Cycle) -> Access {
        let Private { l1d, second, .. } = &mut self.cores[core];
        let shared = &mut self.shared;
        let add = if write { DIRTY } else { 0 };
        let request = Request { line: at.line(), class: Class::Table, flags: TABLE, pc: 0 };
        let (ready, served) = match entry {
            EntryLevel::L1 => l1d.find_or_fetch(second, shared, request, add, now.0),
            EntryLevel::L2 => second.access(shared, request, add, now.0),
            EntryLevel::Llc => shared.access(request.line, Class::Table, TABLE | add, second.socket, now.0),
        };
        Access { ready: Cycle(ready), served }
    }

    /// Whether an access that asked at `asked` and whose line arrives at `ready` waits for main memory: it is to
    /// ask for [`Hierarchy::arrival`] when that time has come.
    #[inline(always)]
    pub fn awaits_memory(&self, asked: Cycle, ready: Cycle) -> bool {
        ready.0 > asked.0 + self.shared.awaits_beyond
    }

    /// Of the cache that served an access of a core's page walk: its latency, and when the line has arrived there or will.
    pub fn arrives(&self, core: usize, at: PhysAddr, served: Served) -> (u64, Cycle) {
        let Private { l1d, second, .. } = &self.cores[core];
        let cache = match served {
            Served::L1 => &l1d.cache,
            Served::L2 => &second.cache,
            Served::Llc | Served::Dram => &self.shared.llc,
        };
        (cache.latency, Cycle(cache.arrives(at.line())))
    }

    /// When the line of an access arrives, of which a core was told that it arrives at `told`: that changes if
    /// requests have come since that main memory serves before it. The caches on the core's path then wait for
    /// it longer.
    #[inline]
    pub fn arrival(&mut self, core: usize, at: PhysAddr, is_table: bool, told: Cycle) -> Cycle {
        let line = at.line();
        if self.shared.intermediate.is_some() && !is_table {
            return self.arrival_behind(core, line, told.0);
        }
        let place = self.shared.place_of(line);
        let ready = self.shared.dram.arrival(place, is_table, told.0);
        if ready > told.0 {
            self.delay(core, line, told.0, ready);
        }
        Cycle(ready)
    }

    /// From now on a core asks for lines of page tables ahead, or no longer: main memory reads them only when it is told to
    /// ([`Hierarchy::send_ahead`]). The core is told the earliest time at which they can be there.
    pub fn ask_ahead(&mut self, ahead: bool) {
        self.shared.dram.ask_ahead(ahead);
    }

    /// A line of a page table that a core has asked for ahead is asked for, `later` cycles after the time that was said.
    /// [`Hierarchy::arrival`] says when it arrives.
    pub fn send_ahead(&mut self, at: PhysAddr, later: u64) {
        let place = self.shared.place_of(at.line());
        self.shared.dram.send_ahead(place, later);
        self.shared.sent_ahead(at.line());
    }

    /// Asks whether the lines have arrived that a core's prefetchers and designs have fetched and that were to be there
    /// by `now`.
    #[inline(always)]
    fn ask_for_unawaited(&mut self, core: usize, now: Cycle) {
        if self.cores[core].second.unawaited.is_due(now.0) {
            self.ask_for_due(core, now);
        }
        if self.shared.leaving.is_due(now.0) {
            self.shared.write_due(now.0);
        }
    }

    #[cold]
    fn ask_for_due(&mut self, core: usize, now: Cycle) {
        let mut unawaited = std::mem::replace(&mut self.cores[core].second.unawaited, Due::new());
        unawaited.ask(now.0, |fetched| {
            let UnderWay { line, is_table, told } = fetched;
            let ready = self.arrival(core, PhysAddr(line * LINE_BYTES), is_table, Cycle(told)).0;
            (ready > told).then_some((ready, UnderWay { told: ready, ..fetched }))
        });
        self.cores[core].second.unawaited = unawaited;
    }

    #[cold]
    fn delay(&mut self, core: usize, line: u64, told: u64, ready: u64) {
        let Private { l1i, l1d, second } = &mut self.cores[core];
        for cache in [&mut l1i.cache, &mut l1d.cache, &mut second.cache, &mut self.shared.llc] {
            cache.delay(line, told, ready);
        }
    }

    /// A speculative or background fetch into the core's L2 that no instruction waits for, with counters of
    /// its own. Unlike a prefetch it is never dropped: if no MSHR is free it waits for one.
    #[inline]
    pub fn fetch(&mut self, core: usize, at: PhysAddr, is_table: bool, now: Cycle) -> Access {
        let flags = if is_table { TABLE } else { 0 };
        let request = Request { line: at.line(), class: Class::Speculative, flags, pc: 0 };
        let second = &mut self.cores[core].second;
        let (ready, served) = second.access(&mut self.shared, request, SPECULATIVE, now.0);
        // A walk that has a walker only later waits for it then.
        if !self.shared.dram.asks_ahead() {
            second.fetched(request, ready, served);
        }
        Access { ready: Cycle(ready), served }
    }

    /// A speculative fetch into the core's L2 that is dropped when no MSHR is free: demand misses have
    /// priority.
    #[inline]
    pub fn guess(&mut self, core: usize, at: PhysAddr, is_table: bool, now: Cycle) {
        self.ask_for_unawaited(core, now);
        let second = &mut self.cores[core].second;
        if second.cache.has_mshr(now.0) || second.cache.find(at.line()).is_ok() {
            self.fetch(core, at, is_table, now);
        } else {
            second.cache.counters.speculations_dropped += 1;
        }
    }

    /// Prefetches into the sim host's caches what an access to `at` reads. Affects speed only.
    #[inline]
    pub fn prefetch_sim_host(&self, core: usize, at: PhysAddr) {
        let line = at.line();
        self.cores[core].second.cache.prefetch_sim_host(line);
        self.shared.llc.prefetch_sim_host(line);
    }

    /// Whether any cache on a core's path to memory holds the line, or is waiting for it.
    pub fn holds(&self, core: usize, at: PhysAddr, kind: AccessKind) -> bool {
        let Private { l1i, l1d, second } = &self.cores[core];
        let first = if kind == AccessKind::Fetch { l1i } else { l1d };
        [&first.cache, &second.cache, &self.shared.llc].into_iter().any(|cache| cache.find(at.line()).is_ok())
    }

    /// When a miss that issues at `now` is known to miss every cache: the round trip to the last level.
    pub fn miss_known(&self, now: Cycle) -> Cycle {
        now.after(self.shared.llc.latency)
    }

    /// Cycles for which main memory's buses have carried data so far, summed over channels, and the number of
    /// channels.
    #[inline]
    pub fn bus(&self) -> (u64, u32) {
        self.shared.dram.bus()
    }

    /// Shares of the valid lines that hold translations now: of all cores' L2s together, and of the LLC. 0
    /// while empty.
    pub fn translation_share(&self) -> (f64, f64) {
        let share = |(tables, valid): (usize, usize)| if valid == 0 { 0.0 } else { tables as f64 / valid as f64 };
        let seconds = self.cores.iter().map(|core| core.second.cache.table_lines());
        (share(seconds.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1))), share(self.shared.llc.table_lines()))
    }

    /// Copies `bytes` from one place of main memory to another in the background, after all copies requested
    /// before. Both addresses and `bytes` are multiples of a line. Each line is read and then written, 16 at
    /// once. The lines of both places are invalidated in all caches now.
    pub fn copy(&mut self, from: PhysAddr, to: PhysAddr, bytes: u64, now: Cycle) -> CopyId {
        self.invalidate(from, bytes);
        self.invalidate(to, bytes);
        self.shared.background = true;
        self.shared.copies.request(from.line(), to.line(), bytes / LINE_BYTES, now.0)
    }

    /// The kernel on a core zeroes `bytes` bytes of main memory (a multiple of a line, not 0) from `start`
    /// on, past the caches, in the `cycles` cycles from `begin` on. Nobody waits for the writes.
    pub fn zero(&mut self, core: usize, start: PhysAddr, bytes: u64, begin: Cycle, cycles: u64) {
        self.shared.background = true;
        self.shared.zeroing.request(core, start.line(), bytes / LINE_BYTES, begin.0, cycles);
    }

    /// When a copy ended, or the estimated end at the present rate. `None` for a copy that ended so long ago
    /// that nothing waits for it.
    pub fn copy_end(&mut self, copy: CopyId, now: Cycle) -> Option<Cycle> {
        self.shared.advance(now.0);
        (!self.shared.copies.forgotten(copy)).then(|| Cycle(self.shared.copies.end(copy, now.0)))
    }

    /// When a copy ended, if it has; unlike [`Hierarchy::copy_end`], this lets no time pass.
    pub fn copied(&self, copy: CopyId) -> Option<Cycle> {
        self.shared.copies.ended(copy).map(Cycle)
    }

    /// From now on keeps what main memory's controllers send until it is taken, or no longer.
    pub fn keep_dram_log(&mut self, keep: bool) {
        self.shared.dram.keep_log(keep);
    }

    /// Moves what main memory's controllers have sent to `to` ([`Dram::take_log`]).
    pub fn take_dram_log(&mut self, all: bool, to: &mut Vec<DramEvent>) {
        self.shared.dram.take_log(all, to);
    }

    /// Invalidates the lines of `[start, start + bytes)` in every cache without writing them back (a frame
    /// that is refilled from outside).
    pub fn invalidate(&mut self, start: PhysAddr, bytes: u64) {
        for line in start.line()..(start.0 + bytes).div_ceil(LINE_BYTES) {
            for core in &mut self.cores {
                core.l1i.cache.remove(line);
                core.l1d.cache.remove(line);
                core.second.cache.remove(line);
            }
            self.shared.llc.remove(line);
        }
    }

    /// Performs the writes that main memory still queues, and those of zeroing: no further reads come.
    pub fn drain_writes(&mut self) {
        self.shared.write_due(u64::MAX);
        self.shared.zeroing.advance(u64::MAX, &mut self.shared.dram);
        self.shared.dram.drain();
    }

    /// The counters so far, each level summed over cores.
    pub fn counters(&self) -> HierarchyCounters {
        let mut sum = HierarchyCounters {
            llc: self.shared.llc.counters(),
            dram: self.shared.dram.counters(),
            nodes: self.shared.dram.node_counters().cloned().collect(),
            zeroing: self.shared.zeroing.counters.clone(),
            ..HierarchyCounters::default()
        };
        for core in &self.cores {
            sum.l1i.add(&core.l1i.cache.counters());
            sum.l1d.add(&core.l1d.cache.counters());
            sum.l2.add(&core.second.cache.counters());
        }
        sum
    }

    /// Reports every counter to `sink`, as `prefix.l1i`, `.l1d`, `.l2` (summed over cores), `.llc`, `.dram`,
    /// `.zeroing`, and `.node0` and so on if there are several memory nodes.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        let counters = self.counters();
        for (name, cache) in
            [("l1i", &counters.l1i), ("l1d", &counters.l1d), ("l2", &counters.l2), ("llc", &counters.llc)]
        {
            cache.report(&format!("{prefix}.{name}"), sink);
        }
        counters.dram.report(&format!("{prefix}.dram"), sink);
        self.shared.dram.report_nodes(prefix, sink);
        counters.zeroing.report(&format!("{prefix}.zeroing"), sink);
    }

    /// Sets the counters to zero (the end of warm-up); contents and times stay.
    pub fn reset_counters(&mut self) {
        for core in &mut self.cores {
            core.l1i.cache.reset_counters();
            core.l1d.cache.reset_counters();
            core.second.cache.reset_counters();
        }
        self.shared.llc.reset_counters();
        self.shared.dram.reset_counters();
        self.shared.zeroing.counters.reset();
    }
}
