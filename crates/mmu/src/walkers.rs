//! The page walkers of a core as a bounded resource.

use ambulator_base::Cycle;

/// How many walks can be under way at once, and which are.
///
/// Walks are carried to completion when they start, and an out-of-order core starts them out of time order; so the
/// resource is a list of recent walks' intervals, not a time at which a walker is free: a walk that starts later in time
/// never delays one that starts earlier.
pub struct WalkerPool {
    starts: Vec<u64>,
    lengths: Vec<u64>,
    next: usize,
    limit: usize,
    /// The end of the walk that ends last: from there on every walker is free.
    last_end: u64,
}

impl WalkerPool {
    /// A pool of `walkers`, 1 to 64.
    pub fn new(walkers: u32) -> WalkerPool {
        let remembered = (walkers as usize * 4).next_power_of_two().max(8);
        WalkerPool {
            starts: vec![0; remembered],
            lengths: vec![0; remembered],
            next: 0,
            limit: walkers as usize,
            last_end: 0,
        }
    }

    /// The first cycle, not before `now`, at which a walker is free.
    #[inline]
    pub fn start(&self, now: Cycle) -> Cycle {
        let mut at = now.0;
        while at < self.last_end {
            // Within an interval: `at - start < length`, with wrap-around for walks that start later.
            let within = |(start, length): (&u64, &u64)| at.wrapping_sub(*start) < *length;
            let intervals = || self.starts.iter().zip(&self.lengths);
            if intervals().filter(|i| within(*i)).count() < self.limit {
                break;
            }
            let ends = intervals().filter(|i| within(*i)).map(|(start, length)| start + length);
            at = ends.min().unwrap_or(at);
        }
        Cycle(at)
    }

    /// Notes a walk from `from` until `until`.
    #[inline]
    pub fn occupy(&mut self, from: Cycle, until: Cycle) {
        self.starts[self.next] = from.0;
        self.lengths[self.next] = until.since(from);
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
}
