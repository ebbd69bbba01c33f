//! The schedule of the promotion daemon: when it runs, and which process it scans next.

use ambulator_base::{Cycle, ProcessId, State};

/// The schedule of the promotion daemon.
#[derive(Debug, State)]
pub(crate) struct PromotionSchedule {
    #[state(skip)]
    period: u64,
    /// The start of the next round.
    due: Cycle,
    /// The process that it scans next.
    next: usize,
}

impl PromotionSchedule {
    /// A schedule with a round every `period` cycles.
    pub fn new(period: u64) -> PromotionSchedule {
        PromotionSchedule { period, due: Cycle(period), next: 0 }
    }

    /// Whether a round is due.
    #[inline]
    pub fn is_due(&self, now: Cycle) -> bool {
        now >= self.due
    }

    /// One period after `now`.
    pub fn next_round(&self, now: Cycle) -> Cycle {
        now.after(self.period)
    }

    /// Starts a round.
    pub fn begin(&mut self, now: Cycle) {
        self.due = self.next_round(now);
    }

    /// The process to scan next.
    pub fn next_process(&self) -> ProcessId {
        ProcessId(self.next as u32)
    }

    /// Continues with the next of `processes` processes, round-robin.
    pub fn advance(&mut self, processes: usize) {
        self.next = (self.next + 1) % processes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_period_apart_and_processes_are_scanned_round_robin() {
        let mut schedule = PromotionSchedule::new(100);
        assert!(!schedule.is_due(Cycle(99)) && schedule.is_due(Cycle(130)));
        schedule.begin(Cycle(130));
        assert!(!schedule.is_due(Cycle(229)) && schedule.is_due(Cycle(230)));
        schedule.advance(2);
        assert_eq!(schedule.next_process(), ProcessId(1));
        schedule.advance(2);
        assert_eq!(schedule.next_process(), ProcessId(0));
    }
}
