//! L1 TLBs, L2 TLB, page-walk caches and walkers of a core, for one address space.

use super::events::{Event, Events, Part, Request, Waiter};
use super::learned::{Learned, Stage};
use super::lru::LruSets;
use super::ranges::Ranges;
use super::restsegs::{Found, Progress, RestSegs};
use super::sides::Sides;
use super::tables::{FRAME, Kind, MemoryTlb, PRESENT, Tables, Tiers};
use ambulator_base::{AccessKind, Page, PhysAddr, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{L2TlbOrganization, MmuSpec, TlbSpec, WalkEntry};
use std::collections::{HashMap, VecDeque};

/// More bits of a page-table entry (Intel SDM volume 3, chapter 4).
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
/// RMM's: a range has the page.
const RANGED: u64 = 1 << 9;
/// log2 of the bytes of pages, smallest first.
const SIZES: [u32; 3] = [12, 21, 30];

/// A translation: the page's address, its size, and whether a store needs no walk.
#[derive(Clone, Copy)]
struct Entry {
    frame: u64,
    shift: u32,
    dirty: bool,
}

impl Entry {
    fn physical(self, va: VirtAddr) -> PhysAddr {
        PhysAddr(self.frame | (va.0 & ((1 << self.shift) - 1)))
    }
}

/// The arrays of a TLB, one for each page size; some may have no entries.
struct Tlb {
    arrays: [LruSets<Entry>; 3],
    /// 4 KiB and 2 MiB pages share the first.
    unified: bool,
}

impl Tlb {
    fn new(sizes: [(u32, u32); 3], unified: bool) -> Tlb {
        Tlb { arrays: sizes.map(|(entries, ways)| LruSets::new(entries as usize, ways as usize)), unified }
    }

    /// The array for a size of page, and number and key of a page in it.
    fn place(&mut self, va: VirtAddr, size: usize) -> (&mut LruSets<Entry>, u64, u64) {
        let (number, shift) = (va.0 >> SIZES[size], u64::from(SIZES[size]));
        let array = if self.unified && size == 1 { 0 } else { size };
        (&mut self.arrays[array], number, number << 5 | shift)
    }

    /// The entry of an address; none if a store would have to set its dirty bit first.
    fn lookup(&mut self, va: VirtAddr, store: bool) -> Option<Entry> {
        (0..SIZES.len()).find_map(|size| {
            let (array, number, key) = self.place(va, size);
            array.lookup(number, key).copied().filter(|entry| entry.dirty || !store)
        })
    }

    /// [`Tlb::lookup`] without a use.
    fn has(&mut self, va: VirtAddr, store: bool) -> bool {
        (0..SIZES.len()).any(|size| {
            let (array, number, key) = self.place(va, size);
            array.peek(number, key).is_some_and(|entry| entry.dirty || !store)
        })
    }

    fn fill(&mut self, va: VirtAddr, entry: Entry) {
        let size = SIZES.iter().position(|shift| *shift == entry.shift).unwrap_or(0);
        let (array, number, key) = self.place(va, size);
        array.insert(number, key, entry);
    }

    /// Drops the entries of a page and of pages within it; of all without a page.
    fn invalidate(&mut self, page: Option<Page>) {
        for array in &mut self.arrays {
            array.remove(|key, entry| {
                let start = key >> 5 << entry.shift;
                page.is_none_or(|page| start < page.end().0 && page.start.0 < start + (1 << entry.shift))
            });
        }
    }
}

/// One part of an access that waits for a translation.
#[derive(Clone, Copy)]
struct Asking {
    part: Part,
    va: VirtAddr,
    kind: AccessKind,
}

/// A page that missed an L1 TLB.
struct Miss {
    asking: Vec<Asking>,
    since: u64,
    /// The L2 TLB does not have it.
    missed: bool,
}

impl Miss {
    fn stores(&self) -> bool {
        self.asking.iter().any(|asking| asking.kind == AccessKind::Store)
    }
}

/// A busy walker.
#[derive(Clone, Copy)]
struct Walk {
    page: u64,
    /// The line for which it is, if that has missed all caches.
    line: Option<u64>,
    started: u64,
    /// The entry that it reads or awaits, and log2 of the bytes that it covers.
    entry: PhysAddr,
    shift: u32,
    /// Where it is in a learned index.
    stage: Stage,
}

impl Walk {
    /// It reads its entry from the `table` whose entries cover `1 << shift` bytes.
    fn read_from(&mut self, table: u64, shift: u32) {
        self.entry = PhysAddr(table + (self.page << 12 >> shift & 511) * 8);
        self.shift = shift;
    }
}

/// Counters of the MMU.
#[derive(Clone, Copy, Default)]
pub struct MmuCounts {
    /// Walks that ended, and their cycles from their start on a walker.
    pub walks: u64,
    pub walk_cycles: u64,
}

/// The translation of a part of an access.
pub struct Answer {
    pub part: Part,
    /// The address of its data.
    pub at: PhysAddr,
}

/// The MMU of one core.
pub struct Mmu {
    core: usize,
    l1_latency: u64,
    l2_latency: u64,
    /// The L1 TLBs for data and for instructions.
    data: Tlb,
    instructions: Tlb,
    second: Tlb,
    pending: HashMap<u64, Miss>,
    /// Pages that wait for a walker, and lines that have missed all caches and for which they do.
    waiting: VecDeque<(u64, Option<u64>)>,
    walkers: Vec<Option<Walk>>,
    /// PDEs, PDPTEs, PML4Es, PML5Es: the tables that they point to.
    pwc: Vec<LruSets<u64>>,
    /// Cycles from the start of a walk until its first loads.
    pwc_latency: u64,
    kind: Kind,
    tables: Tables,
    memory_tlb: Option<MemoryTlb>,
    tiers: Option<Tiers>,
    rest_segs: Option<RestSegs>,
    ranges: Option<Ranges>,
    pub sides: Option<Sides>,
    /// Lines that are still to come, for each page that is looked up there.
    looking: HashMap<u64, u64>,
    /// Cycles of the path to main memory's controller.
    controller: u64,
    /// The cache at which walks' loads enter.
    pub entry: WalkEntry,
    pub counts: MmuCounts,
}

impl Mmu {
    /// Empty TLBs. `registers` are those of the table; a radix table's are its root with log2 of its entries, and the
    /// address bits that it translates.
    pub fn new(
        core: usize,
        spec: &MmuSpec,
        (kind, memory_tlb, tiers): (Kind, Option<MemoryTlb>, Option<Tiers>),
        (rest_segs, ranges, sides): (Option<RestSegs>, Option<Ranges>, Option<Sides>),
        registers: &[u64],
        controller: u64,
    ) -> Mmu {
        let of = |spec: &TlbSpec| (spec.entries, spec.ways);
        let (l2, pwc) = (&spec.l2_tlb, &spec.pwc);
        let unified = l2.organization == L2TlbOrganization::Unified;
        let levels = [pwc.pde_entries, pwc.pdpte_entries, pwc.pml4e_entries, pwc.pml5e_entries];
        Mmu {
            core,
            l1_latency: spec.l1_latency,
            l2_latency: l2.latency,
            data: Tlb::new([of(&spec.l1d_4k), of(&spec.l1d_2m), of(&spec.l1d_1g)], false),
            instructions: Tlb::new([of(&spec.l1i_4k), of(&spec.l1i_2m), (0, 0)], false),
            second: Tlb::new(
                [(l2.entries, l2.ways), (l2.entries_2m, l2.ways_2m), (l2.entries_1g, l2.ways_1g)],
                unified,
            ),
            pending: HashMap::new(),
            waiting: VecDeque::new(),
            walkers: vec![None; spec.walkers as usize],
            pwc: levels.map(|entries| LruSets::new(entries as usize, pwc.ways as usize)).into(),
            pwc_latency: match kind {
                Kind::Cuckoo { latency, .. } => latency,
                Kind::Learned(settings) if settings.entries > 0 => settings.look_up,
                Kind::Learned(_) => 0,
                Kind::Radix | Kind::Asap if levels.iter().any(|entries| *entries > 0) => pwc.latency,
                Kind::Radix | Kind::Asap => 0,
            },
            kind,
            tables: Tables::new(kind, registers),
            memory_tlb,
            tiers,
            rest_segs,
            ranges,
            sides,
            looking: HashMap::new(),
            controller,
            entry: spec.walk_entry,
            counts: MmuCounts::default(),
        }
    }

    /// Loads the registers of the table that walks begin at, and of RestSegs.
    pub fn load_registers(&mut self, registers: &[u64], companion: &[u64], intermediate: &[u64]) {
        if let Some(sides) = &mut self.sides {
            sides.load_registers(intermediate);
            sides.clear();
        }
        self.tables.load_registers(self.kind, registers);
        if let Some(rest_segs) = &mut self.rest_segs {
            rest_segs.load_registers(companion);
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.load_registers(companion);
        }
    }

    /// Whether no translation is under way.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Requests the translation of a part of an access. `Some` if the L1 TLB has it and costs nothing;
    /// otherwise it arrives later, by an event or in `woken`.
    pub fn translate(&mut self, part: Part, va: VirtAddr, kind: AccessKind, events: &mut Events) -> Option<PhysAddr> {
        if let Some(sides) = &mut self.sides {
            let known = sides.first(va);
            if known.is_none() && sides.ask(part, va) {
                events.after(sides.settings.latency, Event::FrontSide(self.core, va.0 >> 12));
            }
            return known;
        }
        let first = if kind == AccessKind::Fetch { &mut self.instructions } else { &mut self.data };
        if let Some(entry) = first.lookup(va, kind == AccessKind::Store) {
            // One cycle of the look-up overlaps the indexing of the L1 cache.
            if self.l1_latency <= 1 {
                return Some(entry.physical(va));
            }
            events.after(self.l1_latency - 1, Event::Translated(self.core, part, entry.physical(va)));
            return None;
        }
        let page = va.0 >> 12;
        let miss = self.pending.entry(page).or_insert_with(|| {
            events.after(self.l1_latency + self.l2_latency, Event::SecondTlb(self.core, page));
            if self.rest_segs.is_some() {
                events.after(self.l1_latency, Event::RestSegs(self.core, page));
            }
            if let Some(ranges) = &self.ranges {
                events.after(self.l1_latency + ranges.latency, Event::Ranges(self.core, page));
            }
            Miss { asking: Vec::new(), since: 0, missed: false }
        });
        miss.asking.push(Asking { part, va, kind });
        None
    }

    /// The L2 TLB has looked a page up: wakes the waiting accesses, or queues a walk, or returns the loads of a TLB in
    /// memory.
    pub fn second_tlb(
        &mut self,
        page: u64,
        memory: &PhysicalMemory,
        events: &mut Events,
        woken: &mut Vec<Answer>,
    ) -> Vec<Request> {
        let Some(miss) = self.pending.get_mut(&page) else { return Vec::new() };
        if let Some(entry) = self.second.lookup(VirtAddr(page << 12), miss.stores()) {
            if let Some(rest_segs) = &mut self.rest_segs {
                rest_segs.end(page);
            }
            self.wake(page, entry, woken);
        } else if let Some(memory_tlb) = &self.memory_tlb {
            self.looking.insert(page, memory_tlb.lines);
            let waiter = Waiter::MemoryTlb(self.core, page);
            return memory_tlb.of(page).map(|line| Mmu::load(line, waiter)).collect();
        } else {
            miss.missed = true;
            let store = miss.stores();
            match &self.rest_segs {
                // It was abandoned, because the L2 TLB had the page then.
                Some(segs) if !segs.looks(page) => self.begin_rest_segs(page, memory, events),
                Some(segs) if matches!(segs.progress(page, store, memory), Progress::Waits) => {}
                _ => self.begin_walk(page, events, woken),
            }
        }
        Vec::new()
    }

    /// A page waits for a walker.
    fn begin_walk(&mut self, page: u64, events: &mut Events, woken: &mut Vec<Answer>) {
        if let Some(rest_segs) = &mut self.rest_segs {
            rest_segs.end(page);
        }
        if let Some(miss) = self.pending.get_mut(&page) {
            miss.since = events.now;
            if let (Some(tiers), Some(asking)) = (self.tiers, miss.asking.first()) {
                events.after(tiers.latency, Event::Predicted(self.core, asking.va));
            }
            self.waiting.push_back((page, None));
            self.start(events, woken);
        }
    }

    /// A line has missed all caches: its page waits for a walker.
    pub fn begin_back_side(&mut self, line: u64, events: &mut Events) {
        self.waiting.push_back((line >> 6, Some(line)));
        self.start(events, &mut Vec::new());
    }

    /// A page is looked up in RestSegs, beside the L2 TLB.
    pub fn begin_rest_segs(&mut self, page: u64, memory: &PhysicalMemory, events: &mut Events) {
        let (Some(rest_segs), Some(miss)) = (&mut self.rest_segs, self.pending.get(&page)) else { return };
        let held = self.second.has(VirtAddr(page << 12), miss.stores());
        rest_segs.begin(page, held, memory);
        events.after(rest_segs.latency, Event::RestSegsLooked(self.core, page));
    }

    /// The walker's caches have answered for a page: the lines that it loads.
    pub fn rest_segs_looked(&mut self, page: u64) -> Vec<Request> {
        let lines = self.rest_segs.as_mut().map_or_else(Vec::new, |rest_segs| rest_segs.looked(page));
        lines.into_iter().map(|line| Mmu::load(PhysAddr(line * 64), Waiter::RestSegs(self.core, line))).collect()
    }

    /// A line of RestSegs has arrived: the pages that waited for it.
    pub fn rest_segs_arrived(&mut self, line: u64) -> Vec<u64> {
        self.rest_segs.as_mut().map_or_else(Vec::new, |rest_segs| rest_segs.arrived(line))
    }

    /// More is known of a page that is looked up in RestSegs. If one has it, the translation is known; returns the write
    /// of its bits. If none has, its walk begins, once the L2 TLB does not have it either.
    pub fn end_rest_segs(
        &mut self,
        page: u64,
        memory: &mut PhysicalMemory,
        events: &mut Events,
        woken: &mut Vec<Answer>,
    ) -> Option<Request> {
        let (Some(rest_segs), Some(miss)) = (&mut self.rest_segs, self.pending.get(&page)) else { return None };
        match rest_segs.progress(page, miss.stores(), memory) {
            Progress::Found(Found { frame, shift, dirty, missing }) => {
                rest_segs.end(page);
                let entry = Entry { frame, shift, dirty };
                self.second.fill(VirtAddr(page << 12), entry);
                self.wake(page, entry, woken);
                missing.map(|(word, bits)| Mmu::set_bits(word, bits, memory))
            }
            Progress::Absent if miss.missed => {
                self.begin_walk(page, events, woken);
                None
            }
            _ => None,
        }
    }

    /// The range TLB has looked a page up, before the L2 TLB has or with it: the translation is known if a range has it.
    pub fn ranges_looked(&mut self, page: u64, woken: &mut Vec<Answer>) {
        let Some(frame) = self.ranges.as_mut().and_then(|ranges| ranges.lookup(page)) else { return };
        if let Some(miss) = self.pending.get(&page) {
            // The look-up of the L2 TLB is a use of what it holds.
            self.second.lookup(VirtAddr(page << 12), miss.stores());
            self.wake(page, Entry { frame: frame << 12, shift: SIZES[0], dirty: true }, woken);
        }
    }

    /// A line of the range table has arrived: the next loads of its walker.
    pub fn ranges_arrived(&mut self, memory: &PhysicalMemory) -> Vec<Request> {
        let lines = self.ranges.as_mut().map_or_else(Vec::new, |ranges| ranges.arrived(memory));
        lines.into_iter().map(|line| Mmu::load(line, Waiter::Ranges(self.core))).collect()
    }

    /// The lines that are predicted for an address.
    pub fn predictions(&self, va: VirtAddr) -> Vec<u64> {
        self.tiers.map_or_else(Vec::new, |tiers| tiers.of(va))
    }

    /// A line of the TLB in memory has arrived for a page, which is in `frame`. The page is known when all have.
    pub fn looked_up(&mut self, page: u64, frame: u64, woken: &mut Vec<Answer>) {
        let Some(lines) = self.looking.get_mut(&page) else { return };
        *lines -= 1;
        if *lines == 0 {
            self.looking.remove(&page);
            let entry = Entry { frame, shift: SIZES[0], dirty: true };
            self.second.fill(VirtAddr(page << 12), entry);
            self.wake(page, entry, woken);
        }
    }

    /// Starts waiting walks on free walkers.
    fn start(&mut self, events: &mut Events, woken: &mut Vec<Answer>) {
        while let Some(free) = self.walkers.iter().position(Option::is_none) {
            let Some((page, line)) = self.waiting.pop_front() else { return };
            if line.is_none()
                && let miss = &self.pending[&page]
                && events.now > miss.since
                && let Some(entry) = self.second.lookup(VirtAddr(page << 12), miss.stores())
            {
                // Another walk has filled the large page meanwhile.
                self.wake(page, entry, woken);
                continue;
            }
            let stage = match &self.tables {
                Tables::Learned(learned) => learned.first(page),
                _ => Stage::Model(0, 0),
            };
            let (started, entry, shift) = (events.now, PhysAddr(0), SIZES[0]);
            self.walkers[free] = Some(Walk { page, line, started, entry, shift, stage });
            if matches!(self.kind, Kind::Asap) {
                events.after(0, Event::WalkBegins(self.core, free));
            }
            events.after(self.pwc_latency, Event::WalkCaches(self.core, free));
        }
    }

    /// The page-walk caches have responded: returns the walk's first loads, of a learned index the next.
    pub fn walk_caches(&mut self, walker: usize, memory: &PhysicalMemory, events: &mut Events) -> Vec<Request> {
        let Walk { page, stage, .. } = self.walkers[walker].expect("a walker at work");
        match &mut self.tables {
            Tables::Learned(learned) => {
                if learned.knows(stage) {
                    events.after(learned.settings.evaluation, Event::Evaluated(self.core, walker));
                    return Vec::new();
                }
                vec![Mmu::load(learned.line(stage), Waiter::Walker(self.core, walker))]
            }
            Tables::Radix { root, shift } => {
                let (mut table, mut shift) = (*root, *shift);
                for (level, array) in self.pwc.iter_mut().enumerate() {
                    let number = page << 12 >> (21 + 9 * level);
                    if let Some(cached) = array.lookup(number, number) {
                        (table, shift) = (*cached, 12 + 9 * level as u32);
                        break;
                    }
                }
                vec![self.load_from(walker, table, shift)]
            }
            Tables::Cuckoo(cuckoo) => {
                let (lines, found, at) = cuckoo.probes(page, memory);
                if let Some(walk) = &mut self.walkers[walker] {
                    walk.entry = at;
                }
                // All are read; the walk waits for one.
                let waiter = |way| if way == found { Waiter::Walker(self.core, walker) } else { Waiter::None };
                lines.into_iter().enumerate().map(|(way, line)| Mmu::load(line, waiter(way))).collect()
            }
        }
    }

    /// A walk of a learned index has evaluated a model: returns the load of the line of a gapped table that it predicts.
    pub fn evaluated(&mut self, walker: usize, memory: &PhysicalMemory, events: &mut Events) -> Option<Request> {
        let (Some(walk), Tables::Learned(learned)) = (&mut self.walkers[walker], &self.tables) else { return None };
        let Stage::Model(level, number) = walk.stage else { return None };
        walk.stage = learned.next(level, number, walk.page, memory);
        if let Stage::Model(..) = walk.stage {
            events.after(self.pwc_latency, Event::WalkCaches(self.core, walker));
            return None;
        }
        Some(Mmu::load(learned.line(walk.stage), Waiter::Walker(self.core, walker)))
    }

    /// A line of a learned index or of a gapped table has come for a walk. Returns the page's entry and log2 of its bytes if
    /// the line has it, or the load of the next line.
    fn learned_step(
        walk: &mut Walk,
        learned: &mut Learned,
        waits: (usize, usize),
        memory: &PhysicalMemory,
        events: &mut Events,
    ) -> Result<(PhysAddr, u32), Vec<Request>> {
        let (core, walker) = waits;
        match walk.stage {
            Stage::Model(level, number) => {
                learned.learn(level, number);
                events.after(learned.settings.evaluation, Event::Evaluated(core, walker));
                Err(Vec::new())
            }
            Stage::Slots(line, searched) => {
                if let Some(found) = learned.entry(walk.stage, walk.page, memory) {
                    return Ok(found);
                }
                assert!(searched < learned.settings.extra, "a walk finds no entry of page {:#x}", walk.page << 12);
                walk.stage = Stage::Slots(line, searched + 1);
                Err(vec![Mmu::load(learned.line(walk.stage), Waiter::Walker(core, walker))])
            }
        }
    }

    /// ASAP's prefetches as a walk begins: of the entries of the last two levels.
    pub fn prefetches(&mut self, walker: usize, memory: &PhysicalMemory) -> Vec<Request> {
        let (Some(mut walk), Tables::Radix { root, shift }) = (self.walkers[walker], &self.tables) else {
            return Vec::new();
        };
        let (mut table, mut requests) = (*root, Vec::new());
        for shift in (SIZES[0]..=*shift).rev().step_by(9) {
            walk.read_from(table, shift);
            if shift <= SIZES[1] {
                requests.push(Mmu::load(walk.entry, Waiter::None));
            }
            table = memory.read(walk.entry) & FRAME;
        }
        requests
    }

    /// A walk reads its entry from the `table` whose entries cover `1 << shift` bytes.
    fn load_from(&mut self, walker: usize, table: u64, shift: u32) -> Request {
        let walk = self.walkers[walker].as_mut().expect("a walker at work");
        walk.read_from(table, shift);
        Mmu::load(walk.entry, Waiter::Walker(self.core, walker))
    }

    /// Sets bits of an entry: the write of its line.
    fn set_bits(at: PhysAddr, bits: u64, memory: &mut PhysicalMemory) -> Request {
        memory.set_bits(at, bits);
        Request { write: true, ..Mmu::load(at, Waiter::None) }
    }

    fn load(at: PhysAddr, waiter: Waiter) -> Request {
        Request { line: at.line(), write: false, pc: 0, at: at.line() * 64, prefetch: false, waiter }
    }

    /// A walk's load has arrived: returns its next request, a load of the next level or a write of the leaf's
    /// bits, and the loads of the range table's walker.
    ///
    /// # Panics
    /// If the page is not mapped: accesses fault before they are dispatched.
    pub fn walk_step(
        &mut self,
        walker: usize,
        memory: &mut PhysicalMemory,
        events: &mut Events,
        woken: &mut Vec<Answer>,
    ) -> Vec<Request> {
        let walk = self.walkers[walker].as_mut().expect("a walker at work");
        if let Tables::Learned(learned) = &mut self.tables {
            match Mmu::learned_step(walk, learned, (self.core, walker), memory, events) {
                Ok((entry, shift)) => (walk.entry, walk.shift) = (entry, shift),
                Err(next) => return next,
            }
        }
        let walk = *walk;
        let at = walk.entry;
        let pte = memory.read(at);
        assert!(pte & PRESENT != 0, "a walk finds no entry of page {:#x}", walk.page << 12);
        let descends = !matches!(self.tables, Tables::Learned(_)) && walk.shift > 12 && pte & LARGE == 0;
        if descends {
            let number = walk.page << 12 >> walk.shift;
            if let Some(array) = self.pwc.get_mut((walk.shift as usize - 21) / 9) {
                array.insert(number, number, pte & FRAME);
            }
            return vec![self.load_from(walker, pte & FRAME, walk.shift - 9)];
        }
        self.walkers[walker] = None;
        self.counts.walks += 1;
        self.counts.walk_cycles += events.now - walk.started;
        let frame = pte & FRAME & !((1 << walk.shift) - 1);
        let entry = Entry { frame, shift: walk.shift, dirty: pte & DIRTY != 0 };
        if let (Some(line), Some(sides)) = (walk.line, &mut self.sides) {
            let frame = entry.physical(VirtAddr(walk.page << 12)).0 >> 12;
            events.after(self.controller, Event::Read(sides.read(line, frame)));
            self.start(events, woken);
            return Vec::new();
        }
        let store = self.pending[&walk.page].stores();
        let missing = (ACCESSED | if store { DIRTY } else { 0 }) & !pte;
        let entry = Entry { dirty: (pte | missing) & DIRTY != 0, ..entry };
        self.second.fill(VirtAddr(walk.page << 12), entry);
        self.wake(walk.page, entry, woken);
        self.start(events, woken);
        let mut requests = Vec::new();
        if missing != 0 {
            requests.push(Mmu::set_bits(at, missing, memory));
        }
        if let (Some(ranges), true) = (&mut self.ranges, pte & RANGED != 0) {
            let loads = ranges.begin(walk.page).into_iter();
            requests.extend(loads.map(|line| Mmu::load(line, Waiter::Ranges(self.core))));
        }
        requests
    }

    /// A page's translation is known: fills the L1 TLBs and wakes the waiting accesses.
    fn wake(&mut self, page: u64, entry: Entry, woken: &mut Vec<Answer>) {
        for Asking { part, va, kind } in self.pending.remove(&page).into_iter().flat_map(|miss| miss.asking) {
            let first = if kind == AccessKind::Fetch { &mut self.instructions } else { &mut self.data };
            first.fill(va, entry);
            woken.push(Answer { part, at: entry.physical(va) });
        }
    }

    /// A TLB shootdown of a page, or of the address space. Page-walk caches lose all (Intel SDM volume 3,
    /// section 4.10.4.1), and walks begin anew.
    pub fn invalidate(&mut self, page: Option<Page>) {
        for tlb in [&mut self.data, &mut self.instructions, &mut self.second] {
            tlb.invalidate(page);
        }
        for array in &mut self.pwc {
            array.remove(|_, _| true);
        }
        if let (Some(rest_segs), None) = (&mut self.rest_segs, page) {
            rest_segs.clear();
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.invalidate(page);
        }
        if let (Tables::Learned(learned), None) = (&mut self.tables, page) {
            learned.clear();
        }
        if let Tables::Radix { root, shift } = self.tables {
            for walk in self.walkers.iter_mut().flatten() {
                walk.read_from(root, shift);
            }
        }
    }
}
