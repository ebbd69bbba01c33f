//! The hardware half before the caches: two levels of VMA look-aside buffers, and the walker of the VMA
//! table.

use super::MidgardSpec;
use super::table::KEY_BITS;
use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{Asid, CounterSink, Counters, Cycle, LINE_BYTES, PageSize, PhysAddr, State, VirtAddr, Vpn};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{FrontSide, Invalidation, MemoryPort, TableRegisters, Tlb, Translation};
use ambulator_structures::ranges::{NodeWords, Range};

ambulator_base::counters! {
    /// Counters of the front side.
    pub(crate) struct FrontSideCounters {
        /// Accesses that hit the first-level buffer.
        l1_hits: Events,
        /// Accesses that missed the first-level buffer.
        l1_misses: Events,
        /// Of these, those that hit the second-level buffer.
        l2_hits: Events,
        /// Walks of the VMA table.
        walks: Events,
        /// Nodes loaded by these walks.
        nodes: Events,
        /// Cycles of these walks.
        walk_cycles: Cycles timed,
    }
}

#[derive(Clone, Copy, Default, State)]
struct Entry {
    asid: Asid,
    area: Range,
    used: u64,
}

/// A core's VMA look-aside buffers.
#[derive(State)]
pub(crate) struct AreaLookaside {
    #[state(skip)]
    spec: MidgardSpec,
    pages: Tlb,
    areas: Vec<Entry>,
    clock: u64,
    asid: Asid,
    root: PhysAddr,
    pub(super) counters: FrontSideCounters,
}

impl AreaLookaside {
    /// Empty buffers.
    pub(crate) fn new(spec: &MidgardSpec) -> AreaLookaside {
        AreaLookaside {
            pages: Tlb::new(spec.l1_entries, spec.l1_ways),
            areas: Vec::new(),
            clock: 0,
            asid: Asid(0),
            root: PhysAddr(0),
            counters: FrontSideCounters::default(),
            spec: spec.clone(),
        }
    }

    fn entry(&mut self, page: Vpn) -> Option<Range> {
        let asid = self.asid;
        let entry = self.areas.iter_mut().find(|entry| entry.asid == asid && entry.area.contains(page))?;
        self.clock += 1;
        entry.used = self.clock;
        Some(entry.area)
    }

    fn insert(&mut self, area: Range) {
        self.clock += 1;
        // The area may have grown since it was loaded.
        let asid = self.asid;
        let overlaps = |known: &Range| known.base < area.limit && area.base < known.limit;
        self.areas.retain(|entry| entry.asid != asid || !overlaps(&entry.area));
        let new = Entry { asid, area, used: self.clock };
        if self.areas.len() < self.spec.l2_entries as usize {
            self.areas.push(new);
        } else if let Some(oldest) = self.areas.iter_mut().min_by_key(|entry| entry.used) {
            *oldest = new;
        }
    }
}

/// Finds the area of a page in the bytes of the table; `lines` reads a node.
fn descend(root: PhysAddr, page: Vpn, mut lines: impl FnMut(PhysAddr) -> ([u64; 8], [u64; 8])) -> Option<Range> {
    let mut at = root;
    loop {
        let (first, second) = lines(at);
        let node = NodeWords::new(&first, &second, KEY_BITS);
        let place = node.place(page);
        if let Some(area) = node.range(place).filter(|area| area.contains(page)) {
            return Some(area);
        }
        at = node.child(place)?;
    }
}

/// For a watch: a look-up of the second-level buffer, and the area that it found.
fn tell_area(area: Option<Range>, va: VirtAddr, from: Cycle, until: Cycle) {
    watch::step(|| {
        let step = Step::look_up("L2 VLB", area.is_some(), from, until).source("Gupta et al., ISCA 2021");
        match area {
            Some(area) => step
                .address("area's first page", area.base.0)
                .address("area's end", area.limit.0)
                .address("first Midgard page", area.frame.0)
                .shape(Shape::Interval { base: area.base.0, limit: area.limit.0, at: va.vpn().0 }),
            None => step,
        }
    });
}

fn address(area: &Range, va: VirtAddr) -> PhysAddr {
    area.frame_of(va.vpn()).start().offset(va.0 & 0xfff)
}

impl FrontSide for AreaLookaside {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        self.asid = asid;
        self.root = PhysAddr(registers.0.first().copied().unwrap_or(0));
    }

    fn translate(&mut self, va: VirtAddr, now: Cycle, port: &mut dyn MemoryPort) -> Option<(PhysAddr, Cycle)> {
        watch::step(|| self.pages.look_up_step("L1 VLB", self.asid, va, PageSize::SIZE_4K, now, now));
        if let Some(entry) = self.pages.lookup(self.asid, va, PageSize::SIZE_4K) {
            self.counters.l1_hits += 1;
            return Some((entry.translation().physical(va), now.max(entry.ready)));
        }
        self.counters.l1_misses += 1;
        let mut ready = now.after(self.spec.l2_latency);
        let looked = ready;
        let area = match self.entry(va.vpn()) {
            Some(area) => {
                tell_area(Some(area), va, now, looked);
                self.counters.l2_hits += 1;
                area
            }
            None => {
                tell_area(None, va, now, looked);
                self.counters.walks += 1;
                let (began, mut nodes) = (ready, 0);
                let area = descend(self.root, va.vpn(), |at| {
                    let (first, second) = (port.load_line(at, ready), port.load_line(at.offset(LINE_BYTES), ready));
                    ready = first.ready.max(second.ready);
                    if watch::watched() {
                        NodeWords::new(&first.words, &second.words, KEY_BITS).tell(
                            "node of the VMA table",
                            at,
                            va.vpn(),
                        );
                    }
                    nodes += 1;
                    (first.words, second.words)
                });
                self.counters.nodes += nodes;
                self.counters.walk_cycles += ready.since(began);
                let area = area?;
                self.insert(area);
                area
            }
        };
        let frame = area.frame_of(va.vpn());
        let page = Translation {
            frame,
            size: PageSize::SIZE_4K,
            writable: true,
            executable: true,
            dirty: true,
            ranged: false,
        };
        self.pages.fill(self.asid, va, &page, ready);
        Some((address(&area, va), ready))
    }

    fn locate(&self, registers: &TableRegisters, va: VirtAddr, memory: &PhysicalMemory) -> Option<PhysAddr> {
        let root = PhysAddr(registers.0.first().copied().filter(|root| *root != 0)?);
        let area = descend(root, va.vpn(), |at| (memory.line(at), memory.line(at.offset(LINE_BYTES))))?;
        Some(address(&area, va))
    }

    fn walker_nearer(&self) -> u64 {
        self.spec.walker_nearer
    }

    fn invalidate(&mut self, what: Invalidation) {
        self.pages.invalidate(what, &[PageSize::SIZE_4K]);
        match what {
            Invalidation::Page { asid, page } => {
                let (first, end) = (page.start.vpn(), Vpn(page.start.vpn().0 + page.size.frames()));
                self.areas.retain(|entry| entry.asid != asid || entry.area.limit <= first || end <= entry.area.base);
            }
            Invalidation::Asid(asid) => self.areas.retain(|entry| entry.asid != asid),
            Invalidation::All => self.areas.clear(),
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
