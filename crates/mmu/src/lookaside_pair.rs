//! Two lookasides at once.

use crate::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters};
use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, VirtAddr};

/// Two lookasides that are probed at once; where the first does not hold a page, the second may. Whether hits fill the
/// L2 TLB, and when the pair is probed, is as the first has it.
pub struct LookasidePair {
    first: Box<dyn Lookaside>,
    second: Box<dyn Lookaside>,
}

impl LookasidePair {
    /// `first` before `second`.
    pub fn new(first: Box<dyn Lookaside>, second: Box<dyn Lookaside>) -> LookasidePair {
        LookasidePair { first, second }
    }
}

impl Lookaside for LookasidePair {
    /// The registers of the first, how many words these are in front of them, then those of the second.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        let Some((&words, rest)) = registers.0.split_first() else { return };
        let (first, second) = rest.split_at((words as usize).min(rest.len()));
        self.first.load_registers(asid, &TableRegisters(first.to_vec()));
        self.second.load_registers(asid, &TableRegisters(second.to_vec()));
    }

    fn probe(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> LookasideAnswer {
        let first = self.first.probe(va, access, now, port);
        let second = self.second.probe(va, access, now, port);
        if first.found.is_none() && second.found.is_some() { second } else { first }
    }

    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort) {
        self.second.refill(va, walk, port);
        self.first.refill(va, walk, port);
    }

    fn take_request(&mut self) -> Option<VirtAddr> {
        self.first.take_request().or_else(|| self.second.take_request())
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

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.first.report(prefix, sink);
        self.second.report(&format!("{prefix}.second"), sink);
    }

    fn reset_counters(&mut self) {
        self.first.reset_counters();
        self.second.reset_counters();
    }
}
