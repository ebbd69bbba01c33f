//! When the promotion daemon runs, and whose turn it is.

use ambulator_base::{Cycle, ProcessId};

/// The promotion daemon's clock.
#[derive(Debug)]
pub(crate) struct PromotionTurns {
    period: u64,
    /// When its next round begins.
    due: Cycle,
    /// The process that it looks at next.
    next: usize,
}

impl PromotionTurns {
    /// A round every `period` cycles.
    pub fn new(period: u64) -> PromotionTurns {
        PromotionTurns { period, due: Cycle(period), next: 0 }
    }

    /// Whether a round is due.
    #[inline]
    pub fn is_due(&self, now: Cycle) -> bool {
        now >= self.due
    }

    /// A period from now.
    pub fn later(&self, now: Cycle) -> Cycle {
        now.after(self.period)
    }

    /// A round begins.
    pub fn begin(&mut self, now: Cycle) {
        self.due = self.later(now);
    }

    /// The process whose turn it is.
    pub fn process(&self) -> ProcessId {
        ProcessId(self.next as u32)
    }

    /// The daemon is through with a process, one of `processes`.
    pub fn pass(&mut self, processes: usize) {
        self.next = (self.next + 1) % processes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_period_apart_and_processes_take_turns() {
        let mut turns = PromotionTurns::new(100);
        assert!(!turns.is_due(Cycle(99)) && turns.is_due(Cycle(130)));
        turns.begin(Cycle(130));
        assert!(!turns.is_due(Cycle(229)) && turns.is_due(Cycle(230)));
        turns.pass(2);
        assert_eq!(turns.process(), ProcessId(1));
        turns.pass(2);
        assert_eq!(turns.process(), ProcessId(0));
    }
}
