//! L1 data TLBs, L2 TLB, page-walk caches and walkers, for one address space and a radix table.

use super::events::{Event, Events, Request, Waiter};
use ambulator_base::{PhysAddr, VirtAddr};
use ambulator_hardware::{Replacement, SetArray};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{L2TlbOrganization, MmuSpec, PwcSpec, TlbSpec, WalkEntry};
use std::collections::{HashMap, VecDeque};

/// Bits of a page-table entry (Intel SDM volume 3, chapter 4).
const PRESENT: u64 = 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const FRAME: u64 = 0x000f_ffff_ffff_f000;
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

/// An array of entries; `None` when it has none.
struct Tlb(Option<SetArray<Entry>>);

impl Tlb {
    fn new(entries: u32, ways: u32) -> Tlb {
        let ways = if ways == 0 { entries } else { ways };
        Tlb((entries > 0).then(|| SetArray::new((entries / ways) as usize, ways as usize, Replacement::Lru)))
    }

    fn lookup(&mut self, va: VirtAddr, shift: u32, store: bool) -> Option<Entry> {
        let array = self.0.as_mut()?;
        let (number, sets) = (va.0 >> shift, array.sets() as u64);
        let entry = array.lookup((number % sets) as usize, number << 5 | u64::from(shift))?;
        (entry.dirty || !store).then_some(*entry)
    }

    fn fill(&mut self, va: VirtAddr, entry: Entry) {
        if let Some(array) = &mut self.0 {
            let (number, sets) = (va.0 >> entry.shift, array.sets() as u64);
            array.insert((number % sets) as usize, number << 5 | u64::from(entry.shift), entry);
        }
    }
}

/// One access that waits for a translation.
#[derive(Clone, Copy)]
struct Asking {
    id: u64,
    va: VirtAddr,
    store: bool,
}

/// A page that missed the L1 TLB.
struct Miss {
    asking: Vec<Asking>,
    since: u64,
}

/// A busy walker.
#[derive(Clone, Copy)]
struct Walk {
    page: u64,
    started: u64,
    /// The table that it reads, and log2 of the bytes that an entry of it covers.
    table: u64,
    shift: u32,
}

/// Counters of the MMU.
#[derive(Clone, Copy, Default)]
pub struct MmuCounts {
    /// Walks that ended, and their cycles from their start on a walker.
    pub walks: u64,
    pub walk_cycles: u64,
}

/// The translation of an access.
pub struct Answer {
    /// Its number.
    pub id: u64,
    /// The address of its data.
    pub at: PhysAddr,
}

/// The MMU of one core.
pub struct Mmu {
    spec: MmuSpec,
    first: [Tlb; 3],
    second: [Tlb; 3],
    pending: HashMap<u64, Miss>,
    waiting: VecDeque<u64>,
    walkers: Vec<Option<Walk>>,
    /// PDEs, PDPTEs, PML4Es, PML5Es: the tables that they point to.
    pwc: Vec<Option<SetArray<u64>>>,
    pwc_latency: u64,
    root: u64,
    root_shift: u32,
    /// The cache at which walks' loads enter.
    pub entry: usize,
    pub counts: MmuCounts,
}

impl Mmu {
    /// Empty TLBs. `registers` are those of the radix table: its root with log2 of its entries, and the
    /// address bits that it translates.
    pub fn new(spec: &MmuSpec, pwc: &PwcSpec, registers: &[u64]) -> Mmu {
        let tlb = |spec: &TlbSpec| Tlb::new(spec.entries, spec.ways);
        let l2 = &spec.l2_tlb;
        let split = l2.organization == L2TlbOrganization::Split;
        let levels = [pwc.pde_entries, pwc.pdpte_entries, pwc.pml4e_entries, pwc.pml5e_entries];
        let level =
            |entries: u32| Tlb::new(entries, pwc.ways).0.map(|a| SetArray::new(a.sets(), a.ways(), Replacement::Lru));
        Mmu {
            first: [tlb(&spec.l1d_4k), tlb(&spec.l1d_2m), tlb(&spec.l1d_1g)],
            second: [
                Tlb::new(l2.entries, l2.ways),
                Tlb::new(if split { l2.entries_2m } else { 0 }, l2.ways_2m),
                Tlb::new(l2.entries_1g, l2.ways_1g),
            ],
            pending: HashMap::new(),
            waiting: VecDeque::new(),
            walkers: vec![None; spec.walkers as usize],
            pwc: levels.map(level).into(),
            pwc_latency: if levels.iter().any(|entries| *entries > 0) { pwc.latency } else { 0 },
            root: registers[0] & FRAME,
            root_shift: (registers[1] - (registers[0] & !FRAME)) as u32,
            entry: match spec.walk_entry {
                WalkEntry::L1 => 0,
                WalkEntry::L2 => 1,
                WalkEntry::Llc => 2,
            },
            counts: MmuCounts::default(),
            spec: spec.clone(),
        }
    }

    /// Requests the translation of an access. `Some` if the L1 TLB has it and costs nothing; otherwise it
    /// arrives later, by an event or in `woken`.
    pub fn translate(&mut self, id: u64, va: VirtAddr, store: bool, events: &mut Events) -> Option<PhysAddr> {
        let found = SIZES.iter().zip(&mut self.first).find_map(|(shift, tlb)| tlb.lookup(va, *shift, store));
        if let Some(entry) = found {
            // One cycle of the look-up overlaps the indexing of the L1 cache.
            if self.spec.l1_latency <= 1 {
                return Some(entry.physical(va));
            }
            events.after(self.spec.l1_latency - 1, Event::Translated(id, entry.physical(va)));
            return None;
        }
        let page = va.0 >> 12;
        let miss = self.pending.entry(page).or_insert_with(|| {
            events.after(self.spec.l1_latency + self.spec.l2_tlb.latency, Event::SecondTlb(page));
            Miss { asking: Vec::new(), since: 0 }
        });
        miss.asking.push(Asking { id, va, store });
        None
    }

    fn in_second(&mut self, page: u64, store: bool) -> Option<Entry> {
        let va = VirtAddr(page << 12);
        // A unified L2 TLB keeps 2 MiB pages in its first array.
        let large = if self.spec.l2_tlb.organization == L2TlbOrganization::Split { 1 } else { 0 };
        [(0, 12), (large, 21), (2, 30)].into_iter().find_map(|(tlb, shift)| self.second[tlb].lookup(va, shift, store))
    }

    /// The L2 TLB has looked a page up: wakes the waiting accesses, or queues a walk.
    pub fn second_tlb(&mut self, page: u64, events: &mut Events, woken: &mut Vec<Answer>) {
        let store = self.pending[&page].asking.iter().any(|asking| asking.store);
        if let Some(entry) = self.in_second(page, store) {
            self.wake(page, entry, woken);
        } else {
            if let Some(miss) = self.pending.get_mut(&page) {
                miss.since = events.now;
            }
            self.waiting.push_back(page);
            self.start(events, woken);
        }
    }

    /// Starts waiting walks on free walkers.
    fn start(&mut self, events: &mut Events, woken: &mut Vec<Answer>) {
        while let Some(free) = self.walkers.iter().position(Option::is_none) {
            let Some(page) = self.waiting.pop_front() else { return };
            let Miss { asking, since } = &self.pending[&page];
            let (waited, store) = (events.now - since, asking.iter().any(|asking| asking.store));
            if waited > 0
                && let Some(entry) = self.in_second(page, store)
            {
                // Another walk has filled the large page meanwhile.
                self.wake(page, entry, woken);
                continue;
            }
            self.walkers[free] = Some(Walk { page, started: events.now, table: self.root, shift: self.root_shift });
            events.after(self.pwc_latency, Event::WalkCaches(free));
        }
    }

    /// The page-walk caches have responded: returns the walk's first load.
    pub fn walk_caches(&mut self, walker: usize) -> Request {
        let mut walk = self.walkers[walker].expect("a walker at work");
        for (level, array) in self.pwc.iter_mut().enumerate() {
            let number = walk.page << 12 >> (21 + 9 * level);
            let set = |array: &SetArray<u64>| (number % array.sets() as u64) as usize;
            if let Some(table) = array.as_mut().and_then(|array| array.lookup(set(array), number).copied()) {
                (walk.table, walk.shift) = (table, 12 + 9 * level as u32);
                break;
            }
        }
        self.walkers[walker] = Some(walk);
        Mmu::load(walker, walk)
    }

    fn entry_at(walk: Walk) -> PhysAddr {
        PhysAddr(walk.table + (walk.page << 12 >> walk.shift & 511) * 8)
    }

    fn load(walker: usize, walk: Walk) -> Request {
        Request { line: Mmu::entry_at(walk).line(), write: false, waiter: Waiter::Walker(walker) }
    }

    /// A walk's load has arrived: returns its next request, a load of the next level or a write of the leaf's
    /// bits.
    ///
    /// # Panics
    /// If the page is not mapped: programs touch their pages before they are measured.
    pub fn walk_step(
        &mut self,
        walker: usize,
        memory: &mut PhysicalMemory,
        events: &mut Events,
        woken: &mut Vec<Answer>,
    ) -> Option<Request> {
        let mut walk = self.walkers[walker].expect("a walker at work");
        let at = Mmu::entry_at(walk);
        let pte = memory.read(at);
        assert!(pte & PRESENT != 0, "page {:#x} is not mapped: the reference models no faults", walk.page << 12);
        if walk.shift > 12 && pte & LARGE == 0 {
            let number = walk.page << 12 >> walk.shift;
            if let Some(Some(array)) = self.pwc.get_mut((walk.shift as usize - 21) / 9) {
                array.insert((number % array.sets() as u64) as usize, number, pte & FRAME);
            }
            walk.table = pte & FRAME;
            walk.shift -= 9;
            self.walkers[walker] = Some(walk);
            return Some(Mmu::load(walker, walk));
        }
        self.walkers[walker] = None;
        self.counts.walks += 1;
        self.counts.walk_cycles += events.now - walk.started;
        let store = self.pending[&walk.page].asking.iter().any(|asking| asking.store);
        let missing = (ACCESSED | if store { DIRTY } else { 0 }) & !pte;
        let frame = pte & FRAME & !((1 << walk.shift) - 1);
        let entry = Entry { frame, shift: walk.shift, dirty: (pte | missing) & DIRTY != 0 };
        let unified = self.spec.l2_tlb.organization == L2TlbOrganization::Unified;
        let array = SIZES.iter().position(|size| *size == walk.shift).unwrap_or(0);
        self.second[if unified && array == 1 { 0 } else { array }].fill(VirtAddr(walk.page << 12), entry);
        self.wake(walk.page, entry, woken);
        self.start(events, woken);
        (missing != 0).then(|| {
            memory.set_bits(at, missing);
            Request { line: at.line(), write: true, waiter: Waiter::None }
        })
    }

    /// A page's translation is known: fills the L1 TLB and wakes the waiting accesses.
    fn wake(&mut self, page: u64, entry: Entry, woken: &mut Vec<Answer>) {
        let array = SIZES.iter().position(|size| *size == entry.shift).unwrap_or(0);
        self.first[array].fill(VirtAddr(page << 12), entry);
        if let Some(miss) = self.pending.remove(&page) {
            woken.extend(miss.asking.iter().map(|asking| Answer { id: asking.id, at: entry.physical(asking.va) }));
        }
    }
}
