//! An MMU with fakes: a table that tests change without notifying the hardware, and sockets that log their
//! calls.
#![allow(dead_code)] // Each test file uses a part of it.

use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, PageSize, Pfn, PhysAddr, State, VirtAddr};
use ambulator_hardware::{EntryLevel, Hierarchy, HierarchySpec};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{
    AwaitedTable, Bus, CorePort, FinishedWalk, FreeTranslations, FrontSide, HypervisorStage, Invalidation, Lookaside,
    LookasideAnswer, MemoryPort, Mmu, MmuSpec, NestedSpec, Proposals, Sockets, Speculation, Speculator, TableRegisters,
    TlbMiss, TlbPrefetcher, Translated, Translation, Walk, WalkOutcome, WalkTraffic, Walker,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Cycles of a walk.
pub const WALK: u64 = 200;
/// Where walks load their entries.
pub const ENTRY: PhysAddr = PhysAddr(0x5000);

/// Events in the order in which they happened.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    pub fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Pages by address space and first page number.
#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<HashMap<(u16, u64), Translation>>>);

impl Table {
    pub fn map(&self, asid: u16, va: u64, frame: u64, size: PageSize, writable: bool) {
        let page = Translation { frame: Pfn(frame), size, writable, executable: true, dirty: writable, ranged: false };
        self.0.lock().unwrap().insert((asid, va >> 12), page);
    }

    /// Maps a writable page of 4 KiB that has not been written.
    pub fn map_clean(&self, asid: u16, va: u64, frame: u64) {
        self.map(asid, va, frame, PageSize::SIZE_4K, true);
        self.0.lock().unwrap().entry((asid, va >> 12)).and_modify(|page| page.dirty = false);
    }

    pub fn unmap(&self, asid: u16, va: u64) {
        self.0.lock().unwrap().remove(&(asid, va >> 12));
    }

    fn find(&self, asid: Asid, va: VirtAddr) -> Option<Translation> {
        let pages = self.0.lock().unwrap();
        [PageSize::SIZE_4K, PageSize::SIZE_2M].into_iter().find_map(|size| {
            let page = pages.get(&(asid.0, va.align_down(size).0 >> 12))?;
            (page.size == size).then_some(*page)
        })
    }
}

#[derive(State)]
pub struct FakeWalker {
    #[state(skip)]
    pub table: Table,
    #[state(skip)]
    pub log: Log,
    asid: Asid,
}

impl Walker for FakeWalker {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn walk(&mut self, va: VirtAddr, _access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        self.log.note("walk");
        port.load(ENTRY, now);
        let outcome = self.table.find(self.asid, va).map_or(WalkOutcome::NotMapped, WalkOutcome::Mapped);
        Walk { outcome, ready: now.after(WALK), accesses: 1 }
    }

    fn invalidate(&mut self, what: Invalidation) {
        self.log.note(match what {
            Invalidation::Page { .. } => "walker invalidates",
            Invalidation::Asid(_) | Invalidation::All => "walker invalidates address space",
        });
    }

    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
    fn reset_counters(&mut self) {}
}

/// A lookaside that returns `found` after `latency` cycles.
#[derive(State)]
pub struct FakeLookaside {
    #[state(skip)]
    pub found: Option<Translation>,
    pub latency: u64,
    pub holds_walk: bool,
    #[state(skip)]
    pub log: Log,
}

impl Lookaside for FakeLookaside {
    fn load_registers(&mut self, _asid: Asid, _registers: &TableRegisters) {}

    fn probe(&mut self, _: VirtAddr, _: AccessKind, now: Cycle, _: &mut dyn MemoryPort) -> LookasideAnswer {
        self.log.note("probe");
        LookasideAnswer { found: self.found, ready: now.after(self.latency), holds_walk: self.holds_walk }
    }

    fn probe_beside_hit(&mut self, _: VirtAddr, _: AccessKind, now: Cycle, _: &mut dyn MemoryPort) -> LookasideAnswer {
        self.log.note("probe beside a hit");
        LookasideAnswer { found: self.found, ready: now.after(self.latency), holds_walk: self.holds_walk }
    }

    fn refill(&mut self, _va: VirtAddr, _walk: &FinishedWalk, _port: &mut dyn MemoryPort) {
        self.log.note("refill");
    }

    fn invalidate(&mut self, _what: Invalidation) {
        self.log.note("lookaside invalidates");
    }

    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
    fn reset_counters(&mut self) {}
}

/// A speculator that always guesses the same data line. With `computes`, loads compute with it.
#[derive(State)]
pub struct FakeSpeculator {
    pub guess: PhysAddr,
    #[state(skip)]
    pub computes: Option<u16>,
    #[state(skip)]
    pub log: Log,
}

impl Speculator for FakeSpeculator {
    fn load_registers(&mut self, _asid: Asid, _registers: &TableRegisters) {}

    fn speculate(&mut self, _pc: VirtAddr, _va: VirtAddr, _access: AccessKind, _now: Cycle, _bus: Bus) -> Speculation {
        self.log.note("speculate");
        let mut guess =
            Speculation { data_count: 1, table_count: 1, computes: self.computes, ..Speculation::default() };
        (guess.data[0], guess.table[0]) = (self.guess, self.guess);
        guess
    }

    fn learn(&mut self, _: VirtAddr, _: &Speculation, _: &Translation, _: Option<PhysAddr>) {
        self.log.note("learn");
    }

    fn learn_latency(&mut self, cycles: u64, _loads: u32) {
        self.log.note(if cycles >= WALK { "learn latency" } else { "learn no latency" });
    }

    fn invalidate(&mut self, _what: Invalidation) {
        self.log.note("speculator invalidates");
    }

    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
    fn reset_counters(&mut self) {}
}

/// A TLB prefetcher that proposes the pages at the same distances after each miss, and takes nothing or the
/// next page for free.
#[derive(Default, State)]
pub struct FakePrefetcher {
    #[state(skip)]
    pub distances: Vec<i64>,
    #[state(skip)]
    pub free: Option<Translation>,
    #[state(skip)]
    pub misses: Arc<Mutex<Vec<TlbMiss>>>,
}

impl TlbPrefetcher for FakePrefetcher {
    fn switch(&mut self) {
        self.misses.lock().unwrap().clear();
    }

    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals) {
        self.misses.lock().unwrap().push(*miss);
        self.distances.iter().for_each(|distance| proposals.push(miss, *distance));
    }

    fn walked(&mut self, page: u64, _walk: &FinishedWalk, _: &mut dyn MemoryPort, free: &mut FreeTranslations) {
        if let Some(found) = self.free {
            free.push(page + 1, found, 1);
        }
    }
}

/// A front side that caches every result until it is invalidated.
#[derive(State)]
pub struct FakeFrontSide {
    #[state(skip)]
    pub areas: Table,
    kept: HashMap<u64, PhysAddr>,
    asid: Asid,
}

/// Cycles by which the walker after the last level is nearer.
pub const NEARER: u64 = 20;

impl FrontSide for FakeFrontSide {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn translate(&mut self, va: VirtAddr, now: Cycle, _port: &mut dyn MemoryPort) -> Option<(PhysAddr, Cycle)> {
        if let Some(kept) = self.kept.get(&va.0) {
            return Some((*kept, now));
        }
        let at = self.areas.find(self.asid, va)?.physical(va);
        self.kept.insert(va.0, at);
        Some((at, now))
    }

    fn locate(&self, _: &TableRegisters, va: VirtAddr, _: &PhysicalMemory) -> Option<PhysAddr> {
        self.areas.find(self.asid, va).map(|area| area.physical(va))
    }

    fn walker_nearer(&self) -> u64 {
        NEARER
    }

    fn invalidate(&mut self, _what: Invalidation) {
        self.kept.clear();
    }

    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
    fn reset_counters(&mut self) {}
}

/// A core's MMU, its caches, and its tables. Address space 1 runs.
pub struct Bench {
    pub mmu: Mmu,
    pub table: Table,
    /// Guest-physical to host-physical, of address space 9.
    pub hypervisor: Table,
    pub areas: Table,
    pub log: Log,
    pub hierarchy: Hierarchy,
    memory: PhysicalMemory,
    traffic: WalkTraffic,
}

/// The components in the sockets other than the walker.
#[derive(Default)]
pub struct Parts {
    pub lookaside: Option<FakeLookaside>,
    pub speculator: Option<FakeSpeculator>,
    pub nested: bool,
    pub front_side: bool,
    pub prefetcher: Option<FakePrefetcher>,
    pub spec: Option<MmuSpec>,
}

impl Bench {
    pub fn new(parts: impl FnOnce(&Log) -> Parts) -> Bench {
        let (log, table, hypervisor, areas) = (Log::default(), Table::default(), Table::default(), Table::default());
        let parts = parts(&log);
        let walker = |table: &Table| Box::new(FakeWalker { table: table.clone(), log: log.clone(), asid: Asid(0) });
        let front: Box<dyn FrontSide> =
            Box::new(FakeFrontSide { areas: areas.clone(), kept: HashMap::new(), asid: Asid(0) });
        let sockets = Sockets {
            walker: walker(&table),
            hypervisor: parts.nested.then(|| HypervisorStage::new(&NestedSpec::default(), walker(&hypervisor))),
            lookaside: parts.lookaside.map(|own| Box::new(own) as Box<dyn Lookaside>),
            speculator: parts.speculator.map(|own| Box::new(own) as Box<dyn Speculator>),
            tlb_prefetcher: parts.prefetcher.map(|own| Box::new(own) as Box<dyn TlbPrefetcher>),
            front_side: parts.front_side.then_some((front, 64)),
        };
        let mut mmu = Mmu::new(&parts.spec.unwrap_or_default(), sockets, true);
        mmu.load_hypervisor_registers(Asid(9), &TableRegisters::default());
        let hierarchy = Hierarchy::new(&HierarchySpec::default(), 1, 2000, 1 << 37, true);
        let memory = PhysicalMemory::new(1 << 30).unwrap();
        let mut bench =
            Bench { mmu, table, hypervisor, areas, log, hierarchy, memory, traffic: WalkTraffic::default() };
        bench.switch_to(1);
        bench
    }

    pub fn switch_to(&mut self, asid: u16) {
        self.mmu.load_registers(
            Asid(asid),
            &TableRegisters::default(),
            &TableRegisters::default(),
            &TableRegisters::default(),
        );
    }

    pub fn with_port<T>(&mut self, act: impl FnOnce(&mut Mmu, &mut CorePort<'_>) -> T) -> T {
        let mut port = CorePort {
            hierarchy: &mut self.hierarchy,
            memory: &mut self.memory,
            guest: None,
            core: 0,
            entry: EntryLevel::L2,
            nearer: 0,
            traffic: &mut self.traffic,
            slowest: &mut 0,
            awaited: &mut AwaitedTable::default(),
            recording: None,
        };
        act(&mut self.mmu, &mut port)
    }

    /// The physical address of an access, and when it is known; `None` for a fault.
    pub fn access(&mut self, va: u64, access: AccessKind, now: u64) -> Option<(u64, u64)> {
        match self.with_port(|mmu, port| mmu.translate(VirtAddr(va), access, Cycle(now), port)) {
            Translated::Physical { at, ready } => Some((at.0, ready.0)),
            Translated::Fault { .. } => None,
        }
    }

    /// The physical address of a load, long after all earlier accesses.
    pub fn load(&mut self, va: u64) -> Option<u64> {
        Some(self.access(va, AccessKind::Load, 1 << 40)?.0)
    }

    /// The recent translation for an access, after all walks have ended.
    pub fn recall(&mut self, va: u64, access: AccessKind) -> Option<u64> {
        self.mmu.recall(VirtAddr(va), access, Cycle(1 << 42)).map(|(at, _)| at.0)
    }
}
