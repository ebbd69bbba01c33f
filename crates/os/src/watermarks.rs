//! When reclaim runs, and whose turn it is.

use crate::KernelSpec;
use ambulator_base::{Cycle, ProcessId};

/// Free frames at which reclaim begins and ends, and where the last one stopped. All marks are 0 without
/// swap: there is nothing to gain before memory has run out.
#[derive(Debug, Default)]
pub(crate) struct ReclaimTurns {
    /// Below it, faults reclaim before they take a frame: reclaim itself may need what is left.
    min: u64,
    /// Below it, the background daemon wakes.
    low: u64,
    /// Up to here it reclaims.
    high: u64,
    /// The process that reclaim looks at next.
    next: usize,
    /// When background reclaim that found nothing tries again.
    retry: Cycle,
}

impl ReclaimTurns {
    /// The marks of a machine of so many frames.
    pub fn new(spec: &KernelSpec, frames: u64) -> ReclaimTurns {
        if spec.swap_bytes == 0 {
            return ReclaimTurns::default();
        }
        let of = |share: f64| (share * frames as f64).ceil() as u64;
        ReclaimTurns {
            min: of(spec.watermark_min),
            low: of(spec.watermark_low),
            high: of(spec.watermark_high),
            ..ReclaimTurns::default()
        }
    }

    /// Whether a fault must reclaim before it takes a frame.
    #[inline]
    pub fn is_scarce(&self, free: u64) -> bool {
        free < self.min
    }

    /// Whether a huge page of so many frames leaves what reclaim needs.
    pub fn spares(&self, free: u64, frames: u64) -> bool {
        free >= self.min + frames
    }

    /// Whether the background daemon is awake.
    #[inline]
    pub fn is_low(&self, free: u64) -> bool {
        free < self.low
    }

    /// Whether background reclaim is to run now.
    pub fn is_due(&self, free: u64, now: Cycle) -> bool {
        self.is_low(free) && now >= self.retry
    }

    /// Background reclaim found nothing, and tries again then.
    pub fn put_off(&mut self, until: Cycle) {
        self.retry = until;
    }

    /// Frames that background reclaim is to free.
    pub fn wanted(&self, free: u64) -> u64 {
        self.high.saturating_sub(free)
    }

    /// The process whose turn it is, of `processes`; the next call names the one behind it.
    pub fn take_turn(&mut self, processes: usize) -> ProcessId {
        let process = ProcessId(self.next as u32);
        self.next = (self.next + 1) % processes;
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_shares_of_memory_and_nothing_without_swap() {
        let spec = KernelSpec { swap_bytes: 1 << 30, ..KernelSpec::default() };
        let mut turns = ReclaimTurns::new(&spec, 10_000);
        assert_eq!((turns.min, turns.low, turns.high), (10, 20, 30));
        assert!(turns.is_scarce(9) && !turns.is_scarce(10) && turns.spares(522, 512) && !turns.spares(521, 512));
        assert_eq!((turns.wanted(12), turns.wanted(31)), (18, 0));
        turns.put_off(Cycle(500));
        assert!(!turns.is_due(19, Cycle(499)) && turns.is_due(19, Cycle(500)) && !turns.is_due(20, Cycle(500)));
        assert_eq!([0; 3].map(|_| turns.take_turn(2).0), [0, 1, 0]);
        assert!(!ReclaimTurns::new(&KernelSpec::default(), 10_000).is_low(0));
    }
}
