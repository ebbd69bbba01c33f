//! ASAP's hardware half: an ordinary walk that issues prefetches at its start.

use super::AsapSpec;
use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PhysAddr, State, VirtAddr};
use ambulator_mmu::{Invalidation, MemoryPort, PwcSpec, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_structures::tree::TreeWalker;

ambulator_base::counters! {
    /// Counters of ASAP's prefetches, in addition to those of the walk.
    struct AsapCounters {
        /// Walks whose address was in a range register.
        range_hits: Events,
        /// Walks whose address was in no range register.
        range_misses: Events,
        /// Entries of the last level prefetched.
        pl1_prefetches: Events,
        /// Entries of the level above prefetched.
        pl2_prefetches: Events,
    }
}

/// A VMA's bounds and the bases of its tables.
#[derive(Clone, Copy, Debug, Default, State)]
struct RangeRegister {
    start: u64,
    end: u64,
    pl1: u64,
    pl2: Option<u64>,
}

impl RangeRegister {
    /// The address of the entry for `va` in tables that cover `2^span` bytes each, the first of which is at
    /// `base`.
    #[inline(always)]
    fn entry(&self, va: VirtAddr, base: u64, span: u32) -> PhysAddr {
        let table = (va.0 >> span) - (self.start >> span);
        let index = va.0 >> (span - 9) & 511;
        PhysAddr(base + table * 4096 + index * 8)
    }
}

/// A walker that prefetches the last two entries of each walk.
///
/// The range registers are compared while the TLB miss starts the walk, so prefetches issue in the first
/// cycle of the walk. With [`AsapSpec::filter`] they wait for the page-walk caches.
#[derive(State)]
pub(crate) struct AsapWalker {
    walker: TreeWalker,
    ranges: Vec<RangeRegister>,
    #[state(skip)]
    limit: usize,
    #[state(skip)]
    prefetch_pl1: bool,
    #[state(skip)]
    prefetch_pl2: bool,
    #[state(skip)]
    filter: bool,
    counters: AsapCounters,
}

impl AsapWalker {
    /// A walker with empty page-walk caches and range registers.
    pub(crate) fn new(spec: &AsapSpec, pwc: &PwcSpec) -> AsapWalker {
        AsapWalker {
            walker: TreeWalker::new(pwc),
            ranges: Vec::new(),
            limit: spec.range_registers as usize,
            prefetch_pl1: spec.prefetch_pl1,
            prefetch_pl2: spec.prefetch_pl2,
            filter: spec.filter,
            counters: AsapCounters::default(),
        }
    }

    /// Issues the prefetches of entries in levels whose entries cover `2^below` bytes or less.
    #[inline]
    fn prefetch(&mut self, va: VirtAddr, below: u32, now: Cycle, port: &mut dyn MemoryPort) {
        let range = self.ranges.iter().find(|range| (range.start..range.end).contains(&va.0));
        watch::step(|| {
            let step = Step::look_up("range registers", range.is_some(), now, now)
                .source("Margaritov et al., MICRO 2019: range registers");
            match range {
                Some(range) => step
                    .address("start", range.start)
                    .address("end", range.end)
                    .address("tables of PTEs from", range.pl1)
                    .field("tables of PDEs from", range.pl2.map(|at| format!("{at:#x}")))
                    .shape(Shape::Interval { base: range.start, limit: range.end, at: va.0 }),
                None => step.says(format!("miss among {}: nothing is prefetched", self.ranges.len())),
            }
        });
        let Some(&range) = range else {
            self.counters.range_misses += 1;
            return;
        };
        self.counters.range_hits += 1;
        if self.prefetch_pl2
            && below >= 21
            && let Some(base) = range.pl2
        {
            self.counters.pl2_prefetches += 1;
            port.fetch(range.entry(va, base, 30), now);
        }
        if self.prefetch_pl1 && below >= 12 {
            self.counters.pl1_prefetches += 1;
            port.fetch(range.entry(va, range.pl1, 21), now);
        }
    }
}

impl Walker for AsapWalker {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        self.walker.load_registers(asid, registers);
        self.ranges.clear();
        let words = registers.0.get(2..).unwrap_or_default();
        let (ranges, _) = words.as_chunks::<4>();
        let decoded = ranges.iter().map(|&[start, end, pl1, pl2]| RangeRegister {
            start,
            end,
            pl1,
            pl2: (pl2 != u64::MAX).then_some(pl2),
        });
        self.ranges.extend(decoded.take(self.limit));
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let Some(start) = self.walker.start(va, now) else {
            return Walk { outcome: WalkOutcome::NotMapped, ready: now, accesses: 0 };
        };
        if !self.filter {
            self.prefetch(va, u32::MAX, now, port);
        } else if let Some(below) = start.shift.checked_sub(1) {
            // The walk issues its first load now anyway.
            self.prefetch(va, below, start.now, port);
        }
        self.walker.finish(va, access, start, port)
    }

    fn invalidate(&mut self, what: Invalidation) {
        self.walker.invalidate(what);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.walker.report(prefix, sink);
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.walker.reset_counters();
        self.counters.reset();
    }
}
