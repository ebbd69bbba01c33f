//! The hardware half.

use super::{HashedSpec, LineSearch, Lines, SIZES, SLOT_BYTES, search, tag};
use ambulator_base::watch::{self, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PageSize, PhysAddr, State, VirtAddr};
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_structures::pte::Pte;

ambulator_base::counters! {
    /// Counters of a walker of hashed page tables.
    pub(crate) struct HashedCounters {
        /// Lines loaded by walks.
        loads: Events,
        /// Lines loaded because the previous line was full.
        overflow_loads: Events,
        /// Accessed and dirty bits written into entries.
        bit_updates: Events,
    }
}

/// A walker. It has no caches: three registers describe the table.
#[derive(State)]
pub(crate) struct HashedWalker {
    #[state(skip)]
    hash_latency: u64,
    lines: Lines,
    /// The [`SIZES`] in use, one bit each.
    sizes: u64,
    /// Its counters.
    pub(crate) counters: HashedCounters,
}

impl HashedWalker {
    /// A walker without a table.
    pub(crate) fn new(spec: &HashedSpec) -> HashedWalker {
        HashedWalker {
            hash_latency: spec.hash_latency,
            lines: Lines::default(),
            sizes: 0,
            counters: HashedCounters::default(),
        }
    }
}

/// A search in progress.
#[derive(Clone, Copy)]
struct Search {
    size: PageSize,
    tag: u64,
    line: PhysAddr,
    /// The cycle at which its next load may issue.
    now: Cycle,
}

impl Walker for HashedWalker {
    fn load_registers(&mut self, _asid: Asid, registers: &TableRegisters) {
        let &[base, mask, sizes] = registers.0.as_slice() else {
            // No table: nothing is mapped.
            self.sizes = 0;
            return;
        };
        self.lines = Lines { base: PhysAddr(base), mask };
        self.sizes = sizes;
    }

    // ANCHOR: walk
    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let began = now;
        let now = now.after(self.hash_latency);
        watch::step(|| Step::compute("hash of the page number", began, now));
        let mut searches = SIZES.map(|size| {
            let tag = tag(va, size);
            Some(Search { size, tag, line: self.lines.home(tag), now })
        });
        for (number, search) in searches.iter_mut().enumerate() {
            if (self.sizes >> number) & 1 == 0 {
                *search = None;
            }
        }
        let (mut accesses, mut ready) = (0, now);
        let (mut outcome, mut found) = (WalkOutcome::NotMapped, None);
        // The first loads of all sizes issue together. A search whose line is full continues when that line
        // arrives.
        for round in 0..=self.lines.mask {
            for active in &mut searches {
                let Some(Search { size, tag, line, now }) = *active else { continue };
                let loaded = port.load_line(line, now);
                watch::meaning(line, || super::meaning(&loaded.words, tag, size, self.lines.number(line)));
                accesses += 1;
                self.counters.overflow_loads += u64::from(round > 0);
                match search(&loaded.words, tag) {
                    LineSearch::Found(slot) => {
                        let mut pte = Pte(loaded.words[2 * slot + 1]);
                        let bits = pte.missing_bits(access == AccessKind::Store);
                        if bits != 0 {
                            self.counters.bit_updates += 1;
                            port.update(line.offset(slot as u64 * SLOT_BYTES + 8), bits, loaded.ready);
                            pte.0 |= bits;
                        }
                        outcome = WalkOutcome::Mapped(pte.translation(size));
                        // The walk is done, even if other searches still wait.
                        ready = loaded.ready;
                        found = Some(line);
                        *active = None;
                    }
                    LineSearch::Ends => {
                        if outcome == WalkOutcome::NotMapped {
                            ready = ready.max(loaded.ready);
                        }
                        *active = None;
                    }
                    LineSearch::Continues => {
                        let after = self.lines.after(line);
                        *active = Some(Search { size, tag, line: after, now: loaded.ready });
                    }
                }
            }
            if outcome != WalkOutcome::NotMapped || searches.iter().all(Option::is_none) {
                break;
            }
        }
        self.counters.loads += u64::from(accesses);
        if let Some(line) = found {
            port.decide(&[(line, ready)]);
        }
        Walk { outcome, ready, accesses }
    }
    // ANCHOR_END: walk

    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
