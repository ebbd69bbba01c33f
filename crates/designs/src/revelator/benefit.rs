//! What a fetch is expected to save and to cost (the degree filter, Revelator Sec. 5.3.2, which gives no
//! rule).
//!
//! A candidate that is right with probability `p` saves its head start and costs nothing: its line is needed
//! in any case. A wrong one takes a bank, a bus and room in the caches from others. So a fetch pays off if
//! `p * saved >= (1 - p) * cost`:
//!
//! - *Data* starts at the L2 TLB miss instead of at the walk's end: `saved` is the mean time between the two,
//!   but no more than `line_latency`: a line that is there before its use need not come earlier.
//! - *Entries* of the last level start there instead of after the loads of the upper levels: `saved` is these
//!   loads' part of the same time, over walks whose entry was not predicted.
//! - *Cost* is `wrong_data_cost` or `wrong_entry_cost` with idle buses, and rises as `1 / (1 - u)` with the
//!   share `u` of bandwidth in use, as waiting times in a queue do.
//!
//! More memory pressure makes the later tiers likelier, so more candidates pass, until no tier is likely
//! enough. At a pressure of `p` the second tier gives `p * (1 - p)` of the pages, a quarter at most. So a
//! second line pays off only if a right one saves three times what a wrong one costs.

use super::RevelatorSpec;
use ambulator_base::State;

/// Running means of what a right prediction saves, in cycles.
#[derive(Clone, Copy, Debug, State)]
pub(crate) struct Benefit {
    #[state(skip)]
    wrong_data_cost: f64,
    #[state(skip)]
    wrong_entry_cost: f64,
    #[state(skip)]
    line_latency: f64,
    data: f64,
    entries: f64,
}

/// The weight of the latest walk in the means.
const WEIGHT: f64 = 1.0 / 64.0;
/// The greatest share of bandwidth in use that the queue's term takes for granted.
const MOST_IN_USE: f64 = 0.95;

impl Benefit {
    /// Before the first walk, what is saved is taken for what a wrong line costs.
    pub(crate) fn new(spec: &RevelatorSpec) -> Benefit {
        let &RevelatorSpec { wrong_data_cost, wrong_entry_cost, line_latency, .. } = spec;
        let (data, entries) = (wrong_data_cost.min(line_latency), wrong_entry_cost);
        Benefit { wrong_data_cost, wrong_entry_cost, line_latency, data, entries }
    }

    /// Learns from a walk: the cycles from the L2 TLB miss to its answer (0 if time is not modelled), its
    /// loads, and whether its last entry was predicted.
    #[inline]
    pub(crate) fn learn(&mut self, cycles: u64, loads: u32, predicted: bool) {
        if cycles == 0 {
            return;
        }
        let cycles = cycles as f64;
        self.data += WEIGHT * (cycles.min(self.line_latency) - self.data);
        if !predicted {
            let upper = 1.0 - 1.0 / f64::from(loads.max(1));
            self.entries += WEIGHT * (cycles * upper - self.entries);
        }
    }

    /// The least share of right predictions with which fetching data pays off.
    #[inline]
    pub(crate) fn least_share_of_data(&self, in_use: f64) -> f64 {
        least_share(self.data, self.wrong_data_cost, in_use)
    }

    /// The least share of right predictions with which fetching last entries pays off.
    #[inline]
    pub(crate) fn least_share_of_entries(&self, in_use: f64) -> f64 {
        least_share(self.entries, self.wrong_entry_cost, in_use)
    }
}

/// The least share of right predictions with which a fetch that saves `saved` cycles pays off, if a wrong one
/// costs `idle_cost` with idle buses.
#[inline]
fn least_share(saved: f64, idle_cost: f64, in_use: f64) -> f64 {
    let cost = idle_cost / (1.0 - in_use.clamp(0.0, MOST_IN_USE));
    if cost > 0.0 { cost / (cost + saved) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn benefit(wrong_data_cost: f64, wrong_entry_cost: f64, line_latency: f64) -> Benefit {
        Benefit::new(&RevelatorSpec { wrong_data_cost, wrong_entry_cost, line_latency, ..RevelatorSpec::default() })
    }

    #[test]
    fn a_fetch_pays_off_if_it_is_right_often_enough() {
        let mut benefit = benefit(60.0, 60.0, 200.0);
        assert_eq!(benefit.least_share_of_data(0.0), 0.5, "nothing is known yet");
        for _ in 0..2000 {
            benefit.learn(180, 2, false);
        }
        // 180 cycles saved against 60 lost, and 90 of the loads before the last.
        assert!((benefit.least_share_of_data(0.0) - 0.25).abs() < 1e-6);
        assert!((benefit.least_share_of_entries(0.0) - 0.4).abs() < 1e-6);
        // Half of the bandwidth in use doubles the cost.
        assert!((benefit.least_share_of_data(0.5) - 0.4).abs() < 1e-6);
        assert!(benefit.least_share_of_data(1.0) > 0.85);
        // Walks with predicted entries are shorter: that is no reason to predict fewer of them.
        for _ in 0..2000 {
            benefit.learn(20, 2, true);
        }
        assert!((benefit.least_share_of_entries(0.0) - 0.4).abs() < 1e-6);
        assert!((benefit.least_share_of_data(0.0) - 0.75).abs() < 1e-6);
        // A head start longer than the line's latency saves no more data cycles, but entries free the walker.
        let mut slow = self::benefit(60.0, 60.0, 140.0);
        (0..2000).for_each(|_| slow.learn(840, 2, false));
        assert!((slow.least_share_of_data(0.0) - 0.3).abs() < 1e-6);
        assert!((slow.least_share_of_entries(0.0) - 0.125).abs() < 1e-6);
        // One load a walk: no upper level to overlap with, so only sure candidates are worth it.
        for _ in 0..2000 {
            benefit.learn(100, 1, false);
        }
        assert!(benefit.least_share_of_entries(0.0) > 0.99);
        let before = benefit.data;
        benefit.learn(0, 4, false);
        assert_eq!(benefit.data, before, "time is not modelled");
        // Wrong data and wrong entries have costs of their own: each a quarter, but of 180 and of 90 cycles.
        let mut two = self::benefit(60.0, 30.0, 200.0);
        (0..2000).for_each(|_| two.learn(180, 2, false));
        assert!((two.least_share_of_data(0.0) - 0.25).abs() < 1e-6);
        assert!((two.least_share_of_entries(0.0) - 0.25).abs() < 1e-6);
        assert_eq!(self::benefit(0.0, 60.0, 200.0).least_share_of_data(0.9), 0.0);
    }
}
