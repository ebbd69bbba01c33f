//! Watermarks: when reclaim runs, and which process it scans next.

use crate::KernelSpec;
use ambulator_base::{Cycle, ProcessId, State};

/// The watermarks of reclaim, and the process at which it continues. Without swap all watermarks are 0,
/// because reclaim could free next to nothing before memory runs out.
#[derive(Debug, Default, State)]
pub(crate) struct ReclaimSchedule {
    /// Free frames below which faults reclaim before they allocate: reclaim itself may need the rest.
    min: u64,
    /// Free frames below which background reclaim starts.
    low: u64,
    /// Free frames at which background reclaim stops.
    high: u64,
    /// The process that reclaim scans next.
    next: usize,
    /// When background reclaim tries again after it found nothing.
    retry: Cycle,
}

impl ReclaimSchedule {
    /// The watermarks of a machine with this many frames.
    pub fn new(spec: &KernelSpec, frames: u64) -> ReclaimSchedule {
        if spec.swap_bytes == 0 {
            return ReclaimSchedule::default();
        }
        let of = |share: f64| (share * frames as f64).ceil() as u64;
        ReclaimSchedule {
            min: of(spec.watermark_min),
            low: of(spec.watermark_low),
            high: of(spec.watermark_high),
            ..ReclaimSchedule::default()
        }
    }

    /// Whether a fault must reclaim before it allocates.
    #[inline]
    pub fn is_scarce(&self, free: u64) -> bool {
        free < self.min
    }

    /// Whether enough frames for reclaim remain after allocating `frames`.
    pub fn leaves_reserve(&self, free: u64, frames: u64) -> bool {
        free >= self.min + frames
    }

    /// Whether memory is low enough for background reclaim.
    #[inline]
    pub fn is_low(&self, free: u64) -> bool {
        free < self.low
    }

    /// Whether background reclaim is due.
    pub fn is_due(&self, free: u64, now: Cycle) -> bool {
        self.is_low(free) && now >= self.retry
    }

    /// Defers background reclaim, which found nothing, to `until`.
    pub fn defer(&mut self, until: Cycle) {
        self.retry = until;
    }

    /// The number of frames that background reclaim should free.
    pub fn frames_to_free(&self, free: u64) -> u64 {
        self.high.saturating_sub(free)
    }

    /// The process to scan, round-robin over `processes` processes.
    pub fn next_process(&mut self, processes: usize) -> ProcessId {
        let process = ProcessId(self.next as u32);
        self.next = (self.next + 1) % processes;
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_are_shares_of_memory_and_zero_without_swap() {
        let spec = KernelSpec { swap_bytes: 1 << 30, ..KernelSpec::default() };
        let mut schedule = ReclaimSchedule::new(&spec, 10_000);
        assert_eq!((schedule.min, schedule.low, schedule.high), (10, 20, 30));
        assert!(
            schedule.is_scarce(9)
                && !schedule.is_scarce(10)
                && schedule.leaves_reserve(522, 512)
                && !schedule.leaves_reserve(521, 512)
        );
        assert_eq!((schedule.frames_to_free(12), schedule.frames_to_free(31)), (18, 0));
        schedule.defer(Cycle(500));
        assert!(
            !schedule.is_due(19, Cycle(499)) && schedule.is_due(19, Cycle(500)) && !schedule.is_due(20, Cycle(500))
        );
        assert_eq!([0; 3].map(|_| schedule.next_process(2).0), [0, 1, 0]);
        assert!(!ReclaimSchedule::new(&KernelSpec::default(), 10_000).is_low(0));
    }
}
