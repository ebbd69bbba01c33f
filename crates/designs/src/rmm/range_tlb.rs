//! The hardware half: the range TLB, probed with the L2 TLB, and the walker of the range table (RMM Sec. 4.1,
//! 4.3).

use super::RmmSpec;
use super::curve::Curve;
use ambulator_base::watch::{self, Shape, Step, StepKind};
use ambulator_base::{
    AccessKind, Asid, CounterSink, Counters, Cycle, LINE_BYTES, PageSize, PhysAddr, State, VirtAddr, Vpn,
};
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters, Translation};
use ambulator_structures::ranges::{NodeWords, Range};

ambulator_base::counters! {
    /// Counters of a range TLB.
    struct RangeTlbCounters {
        /// Look-ups.
        probes: Events,
        /// Look-ups that hit a range.
        hits: Events,
        /// Hits of the most recently used range, which avoid the search of all others.
        mru_hits: Events,
        /// Comparators used by look-ups, two for each range.
        comparisons: Events,
        /// Walks of the range table, in the background.
        walks: Events,
        /// Nodes of the range table loaded by walks.
        nodes: Events,
        /// Cycles of these walks.
        walk_cycles: Cycles timed,
        /// Walks of the range table not made because its walker was busy.
        busy: Events timed,
        /// Ranges evicted for others.
        evictions: Events,
        /// Ranges removed by invalidations.
        invalidated: Events,
    }
}

#[derive(Clone, Copy, Default, State)]
struct Entry {
    asid: Asid,
    range: Range,
    /// The cycle at which its walk completes.
    ready: Cycle,
    used: u64,
}

/// A fully associative range TLB and its walker.
#[derive(State)]
pub(crate) struct RangeTlb {
    /// Bits of a page number.
    #[state(skip)]
    key_bits: u32,
    #[state(skip)]
    spec: RmmSpec,
    entries: Vec<Entry>,
    /// The most recently used entry.
    recent: usize,
    clock: u64,
    asid: Asid,
    /// CR-RT.
    root: PhysAddr,
    enabled: bool,
    /// The cycle from which the walker is free.
    nested: bool,
    walker_free: Cycle,
    #[state(each)]
    curve: Option<Curve>,
    counters: RangeTlbCounters,
}

impl RangeTlb {
    /// An empty range TLB of a validated spec. In a virtual machine (`nested`) it stays empty: ranges of the
    /// guest are not ranges of host-physical addresses.
    pub(crate) fn new(spec: &RmmSpec, key_bits: u32, nested: bool) -> RangeTlb {
        RangeTlb {
            entries: Vec::with_capacity(spec.entries as usize),
            curve: spec.curve.then(Curve::default),
            spec: spec.clone(),
            key_bits,
            recent: 0,
            clock: 0,
            asid: Asid(0),
            root: PhysAddr(0),
            enabled: false,
            nested,
            walker_free: Cycle(0),
            counters: RangeTlbCounters::default(),
        }
    }

    fn matches(&self, at: usize, page: Vpn) -> bool {
        self.entries.get(at).is_some_and(|entry| entry.asid == self.asid && entry.range.contains(page))
    }

    fn search(&mut self, page: Vpn) -> Option<usize> {
        if self.spec.mru_pointer {
            self.counters.comparisons += 2;
            if self.matches(self.recent, page) {
                self.counters.mru_hits += 1;
                return Some(self.recent);
            }
        }
        self.counters.comparisons += 2 * self.entries.len() as u64;
        (0..self.entries.len()).find(|at| self.matches(*at, page))
    }

    fn install(&mut self, range: Range, ready: Cycle) {
        self.clock += 1;
        let entry = Entry { asid: self.asid, range, ready, used: self.clock };
        watch::step(|| {
            Step::fill("range TLB", ready)
                .says("gets the range")
                .address("BASE, page", range.base.0)
                .address("LIMIT, page", range.limit.0)
        });
        // A range that has grown replaces its old entry.
        let same = |old: &Entry| old.asid == entry.asid && old.range.base < range.limit && range.base < old.range.limit;
        if let Some(old) = self.entries.iter_mut().find(|old| same(old)) {
            // The same range has been there meanwhile.
            let ready = if old.range == entry.range { old.ready.min(ready) } else { ready };
            *old = Entry { ready, ..entry };
        } else if self.entries.len() < self.spec.entries as usize {
            self.entries.push(entry);
        } else if let Some(oldest) = self.entries.iter_mut().min_by_key(|entry| entry.used) {
            *oldest = entry;
            self.counters.evictions += 1;
        }
    }

    /// Walks the range table from CR-RT: both lines of a node at once, then the child that the comparators
    /// select.
    fn walk(&mut self, page: Vpn, now: Cycle, port: &mut dyn MemoryPort) {
        if now < self.walker_free {
            self.counters.busy += 1;
            watch::step(|| Step::new(StepKind::Wait, "range-table walker", now, now).says("is busy: no walk").behind());
            return;
        }
        self.counters.walks += 1;
        let (mut at, mut ready) = (self.root, now);
        loop {
            let (first, second) = (port.load_line(at, ready), port.load_line(at.offset(LINE_BYTES), ready));
            self.counters.nodes += 1;
            ready = first.ready.max(second.ready);
            let node = NodeWords::new(&first.words, &second.words, self.key_bits);
            node.tell("node of the range table", at, page);
            let place = node.place(page);
            if let Some(range) = node.range(place)
                && range.contains(page)
            {
                self.install(range, ready);
                if let Some(curve) = &mut self.curve {
                    curve.found(self.asid, range);
                }
                break;
            }
            match node.child(place) {
                Some(child) => at = child,
                None => break,
            }
        }
        self.counters.walk_cycles += ready.since(now);
        self.walker_free = ready;
    }
}

impl Lookaside for RangeTlb {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        self.asid = asid;
        let word = registers.0.first().copied().unwrap_or(0);
        self.root = PhysAddr(word & !1);
        self.enabled = word & 1 != 0 && self.root.0 != 0;
    }

    fn probe(&mut self, va: VirtAddr, _access: AccessKind, now: Cycle, _port: &mut dyn MemoryPort) -> LookasideAnswer {
        let ready = now.after(self.spec.latency);
        let mut answer = LookasideAnswer { found: None, ready, holds_walk: false };
        if !self.enabled {
            watch::step(|| Step::look_up("range TLB", false, now, ready).says("is off: the process has no ranges"));
            return answer;
        }
        self.counters.probes += 1;
        let page = va.vpn();
        if let Some(curve) = &mut self.curve {
            curve.probe(self.asid, page);
        }
        if let Some(at) = self.search(page)
            && self.entries[at].ready <= ready
        {
            self.counters.hits += 1;
            self.clock += 1;
            self.recent = at;
            let entry = &mut self.entries[at];
            entry.used = self.clock;
            answer.found = Some(Translation {
                frame: entry.range.frame_of(page),
                size: PageSize::SIZE_4K,
                writable: entry.range.writable,
                executable: entry.range.executable,
                // Without eager bits the page's own dirty bit is unknown: a store walks once to set it.
                dirty: self.spec.eager_bits,
                ranged: false,
            });
        }
        watch::step(|| {
            let entry = self.entries.get(self.recent).filter(|_| answer.found.is_some());
            let step = Step::look_up("range TLB", entry.is_some(), now, ready).source("RMM Sec. 4.1, Fig. 3");
            match entry.map(|entry| entry.range) {
                Some(range) => step
                    .address("BASE, page", range.base.0)
                    .address("LIMIT, page", range.limit.0)
                    .address("OFFSET, frames", range.frame.0.wrapping_sub(range.base.0))
                    .shape(Shape::Interval { base: range.base.0, limit: range.limit.0, at: page.0 }),
                None => step.says(format!("miss among {} ranges", self.entries.len())),
            }
        });
        answer
    }

    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort) {
        if self.enabled && !self.nested && walk.found.ranged {
            self.walk(va.vpn(), walk.ready, port);
        }
    }

    fn invalidate(&mut self, what: Invalidation) {
        let before = self.entries.len();
        let stays = |own: Asid, range: &Range| match what {
            Invalidation::Page { asid, page } => {
                let (first, end) = (page.start.vpn(), Vpn(page.start.vpn().0 + page.size.frames()));
                own != asid || range.limit <= first || end <= range.base
            }
            Invalidation::Asid(asid) => own != asid,
            Invalidation::All => false,
        };
        self.entries.retain(|entry| stays(entry.asid, &entry.range));
        if let Some(curve) = &mut self.curve {
            curve.retain(stays);
        }
        self.counters.invalidated += (before - self.entries.len()) as u64;
        self.recent = 0;
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
        if let Some(curve) = &self.curve {
            curve.counters.report(&format!("{prefix}.curve"), sink);
        }
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
        if let Some(curve) = &mut self.curve {
            curve.counters.reset();
        }
    }
}
