//! The page walkers of a core as a bounded resource.

use ambulator_base::Cycle;

/// How many walks can be under way at once, and which are.
///
/// Walks are carried to completion when they start, and an out-of-order core starts them out of time order; so the
/// resource is a list of recent walks' intervals, not a time at which a walker is free: a walk that starts later in time
/// never delays one that starts earlier.
pub struct WalkerPool {
    /// Of the walks remembered, when each started and how long it takes: cycles modulo 2^32, of which the host compares four at once.
    starts: Vec<u32>,
    lengths: Vec<u32>,
    next: usize,
    limit: u32,
    /// The end of the walk that ends last: from there on every walker is free.
    last_end: u64,
}

/// Cycles after the last walk's end when all are forgotten, so that what is remembered stays within 2^32 cycles.
const FORGOTTEN: u64 = 1 << 30;

impl WalkerPool {
    /// A pool of `walkers`, 1 to 64.
    pub fn new(walkers: u32) -> WalkerPool {
        let remembered = (walkers as usize * 4).next_power_of_two().max(8);
        WalkerPool { starts: vec![0; remembered], lengths: vec![0; remembered], next: 0, limit: walkers, last_end: 0 }
    }

    /// The first cycle, not before `now`, at which a walker is free.
    #[inline]
    pub fn start(&self, now: Cycle) -> Cycle {
        let mut at = now.0;
        while at < self.last_end {
            let (active, next_end) = self.active(at as u32);
            if active < self.limit {
                break;
            }
            at += u64::from(next_end);
        }
        Cycle(at)
    }

    /// How many walks are under way at a cycle, and the cycles until the first of them ends.
    #[inline]
    fn active(&self, at: u32) -> (u32, u32) {
        let (mut active, mut next_end) = (0, u32::MAX);
        for (start, length) in self.starts.iter().zip(&self.lengths) {
            // Within an interval: `at - start < length`, with wrap-around for walks that start later.
            let since = at.wrapping_sub(*start);
            let within = since < *length;
            active += u32::from(within);
            next_end = next_end.min(if within { length - since } else { u32::MAX });
        }
        (active, next_end)
    }

    /// Notes a walk from `from` until `until`.
    #[inline]
    pub fn occupy(&mut self, from: Cycle, until: Cycle) {
        if from.0 > self.last_end + FORGOTTEN {
            self.lengths.fill(0);
        }
        self.starts[self.next] = from.0 as u32;
        self.lengths[self.next] = until.since(from).min(FORGOTTEN) as u32;
        self.next = (self.next + 1) & (self.starts.len() - 1);
        self.last_end = self.last_end.max(until.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_walk_waits_for_the_first_of_two_to_end() {
        let mut pool = WalkerPool::new(2);
        pool.occupy(Cycle(0), Cycle(100));
        pool.occupy(Cycle(10), Cycle(60));
        assert_eq!(pool.start(Cycle(20)), Cycle(60));
        assert_eq!(pool.start(Cycle(70)), Cycle(70));
    }

    #[test]
    fn a_walk_in_the_future_does_not_delay_one_before_it() {
        let mut pool = WalkerPool::new(1);
        pool.occupy(Cycle(1000), Cycle(1100));
        assert_eq!(pool.start(Cycle(20)), Cycle(20));
        assert_eq!(pool.start(Cycle(1050)), Cycle(1100));
    }

    #[test]
    fn waits_are_those_of_a_list_of_intervals() {
        let mut random = ambulator_base::Random::new(7);
        for walkers in [1, 2, 4, 7] {
            let mut pool = WalkerPool::new(walkers);
            let mut walks: Vec<(u64, u64)> = Vec::new();
            // Near where 32 bits end, and with a pause after which all is forgotten.
            let mut now = (1u64 << 32) - 5000;
            for step in 0..4000 {
                now += random.below(60) + if step == 2000 { 3 << 32 } else { 0 };
                let asked = now - random.below(400);
                let start = pool.start(Cycle(asked)).0;
                let last = &walks[walks.len().saturating_sub((walkers as usize * 4).next_power_of_two().max(8))..];
                let active = |at: u64| last.iter().filter(|(from, until)| (*from..*until).contains(&at)).count();
                let mut expected = asked;
                while active(expected) >= walkers as usize {
                    expected += 1;
                }
                assert_eq!(start, expected, "step {step} of {walkers} walkers");
                let until = start + 20 + random.below(300);
                pool.occupy(Cycle(start), Cycle(until));
                walks.push((start, until));
            }
        }
    }
}
