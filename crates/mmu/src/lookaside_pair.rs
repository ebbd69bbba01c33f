//! Two lookasides in one socket.

use crate::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters};
use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, State, VirtAddr};

/// Two lookasides that are probed in parallel. A hit in the first has priority over one in the second. The
/// first determines whether hits fill the L2 TLB and when the pair is probed.
#[derive(State)]
pub struct LookasidePair {
    first: Box<dyn Lookaside>,
    second: Box<dyn Lookaside>,
    #[state(skip)]
    with_registers: [bool; 2],
}

impl LookasidePair {
    /// `first` has priority over `second`; `with_registers` says which of them have registers of their own.
    pub fn new(first: Box<dyn Lookaside>, second: Box<dyn Lookaside>, with_registers: [bool; 2]) -> LookasidePair {
        LookasidePair { first, second, with_registers }
    }
}

/// Splits words that begin with a count into the counted words and the rest.
fn counted(words: &[u64]) -> (&[u64], &[u64]) {
    match words.split_first() {
        Some((&count, rest)) => rest.split_at((count as usize).min(rest.len())),
        None => (&[], &[]),
    }
}

impl Lookaside for LookasidePair {
    /// If both have registers, the words of each are preceded by their number.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        let words = registers.0.as_slice();
        let (first, second) = match self.with_registers {
            [true, true] => {
                let (own, rest) = counted(words);
                (own, counted(rest).0)
            }
            [first, second] => (if first { words } else { &[] }, if second { words } else { &[] }),
        };
        self.first.load_registers(asid, &TableRegisters(first.to_vec()));
        self.second.load_registers(asid, &TableRegisters(second.to_vec()));
    }

    fn probe(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> LookasideAnswer {
        let first = self.first.probe(va, access, now, port);
        let second = self.second.probe(va, access, now, port);
        if first.found.is_none() && second.found.is_some() { second } else { first }
    }

    fn probe_beside_hit(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> LookasideAnswer {
        let first = self.first.probe_beside_hit(va, access, now, port);
        let second = self.second.probe_beside_hit(va, access, now, port);
        if first.found.is_none() && second.found.is_some() { second } else { first }
    }

    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort) {
        self.second.refill(va, walk, port);
        self.first.refill(va, walk, port);
    }

    fn take_migration_hint(&mut self) -> Option<VirtAddr> {
        self.first.take_migration_hint().or_else(|| self.second.take_migration_hint())
    }

    fn fills_l2(&self) -> bool {
        self.first.fills_l2()
    }

    fn after_l2(&self) -> bool {
        self.first.after_l2()
    }

    fn invalidate(&mut self, what: Invalidation) {
        self.first.invalidate(what);
        self.second.invalidate(what);
    }

    fn recycle(&mut self, asid: Asid) {
        self.first.recycle(asid);
        self.second.recycle(asid);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.first.report(prefix, sink);
        self.second.report(&format!("{prefix}.second"), sink);
    }

    fn reset_counters(&mut self) {
        self.first.reset_counters();
        self.second.reset_counters();
    }
}
