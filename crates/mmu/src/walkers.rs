//! The page walkers of a core as a bounded resource.

use ambulator_base::{Cycle, State};

/// A walk on a walker.
#[derive(Clone, Copy, Default, State)]
struct Interval {
    start: u64,
    end: u64,
}

/// The bound on concurrent walks, and the walks in flight.
///
/// Each walk completes when it starts, and an out-of-order core starts walks out of time order. The resource
/// is therefore a list of recent walks' intervals, not a time at which a walker is free: a walk that starts
/// later in time never delays one that starts earlier.
///
/// Almost every request avoids a search of that list. Let `n` be the number of walkers. Of the `n` walks that
/// end last, consider the first to end: from its end on a walker is free, because fewer than `n` walks end
/// later. Before its end is an interval in which all walkers are known to be busy.
#[derive(State)]
pub struct WalkerPool {
    /// The walks that end last, at most [`REMEMBERED`] of them, from `first` on and in the order of their
    /// ends.
    walks: Vec<Interval>,
    first: usize,
    #[state(skip)]
    walkers: usize,
    /// All walkers are busy from here until the first of the last `walkers` walks ends.
    busy_from: u64,
    /// The latest walks that ended later than they were said to, each at the remainder of the cycle that was said.
    late: Box<[Interval; LATE]>,
}

/// Maximum number of remembered walks: more than can wait in a core's window.
const REMEMBERED: usize = 512;
/// Late walks that are remembered: those on which walks may wait that have not ended.
const LATE: usize = 256;

impl WalkerPool {
    /// A pool of `walkers`, 1 to 64.
    pub fn new(walkers: u32) -> WalkerPool {
        let walkers = walkers as usize;
        let mut walks = Vec::with_capacity(2 * REMEMBERED);
        walks.resize(walkers, Interval::default());
        WalkerPool { walks, first: 0, walkers, busy_from: 0, late: Box::new([Interval::default(); LATE]) }
    }

    /// The `walkers` walks that end last.
    #[inline(always)]
    fn last(&self) -> &[Interval] {
        &self.walks[self.walks.len() - self.walkers..]
    }

    /// The first cycle, not before `now`, at which a walker is free.
    #[inline]
    pub fn start(&self, now: Cycle) -> Cycle {
        let free_from = self.last()[0].end;
        if now.0 >= free_from {
            now
        } else if now.0 >= self.busy_from {
            Cycle(free_from)
        } else {
            self.search(now)
        }
    }

    /// Searches the ends of the walks one after the other.
    #[inline(never)]
    fn search(&self, now: Cycle) -> Cycle {
        let known = &self.walks[self.first..];
        let over =
            known.iter().rev().position(|walk| walk.end <= now.0).map_or(0, |ends_later| known.len() - ends_later);
        let mut rest = &known[over..];
        let mut at = now.0;
        loop {
            if rest.iter().filter(|walk| walk.start <= at).count() < self.walkers {
                return Cycle(at);
            }
            // Until the first of the walks in flight ends; the others have not begun.
            let ends = rest.iter().position(|walk| walk.start <= at).unwrap_or(0);
            at = rest[ends].end;
            rest = &rest[rest.partition_point(|walk| walk.end <= at)..];
        }
    }

    /// A walk that was said to end at `told` ends at `ready`, which is later.
    pub fn delay(&mut self, told: Cycle, ready: Cycle) {
        self.occupy(told, ready);
        self.late[told.0 as usize % LATE] = Interval { start: told.0, end: ready.0 };
    }

    /// When a walk began that was said to begin at `told`: later, if it waited for a walk that ended later than
    /// that was said to.
    pub fn begun(&self, told: Cycle) -> Cycle {
        let mut at = told.0;
        loop {
            let Interval { start, end } = self.late[at as usize % LATE];
            if start != at || end <= at {
                return Cycle(at);
            }
            at = end;
        }
    }

    /// Records a walk from `from` until `until`.
    #[inline]
    pub fn occupy(&mut self, from: Cycle, until: Cycle) {
        let walk = Interval { start: from.0, end: until.0.max(from.0) };
        let free_from = self.last()[0].end;
        let place = self.walks.iter().rposition(|other| other.end <= walk.end).map_or(0, |before| before + 1);
        self.walks.insert(place.max(self.first), walk);
        if self.walks.len() - self.first > REMEMBERED {
            // The interval before the end of a forgotten walk may not be busy without it.
            self.busy_from = self.busy_from.max(self.walks[self.first].end);
            self.first += 1;
            if self.walks.len() == self.walks.capacity() {
                self.walks.drain(..self.first);
                self.first = 0;
            }
        }
        if walk.end > free_from {
            // All walkers are busy once the latest of the `walkers` walks that end last has started.
            let all_started = self.last().iter().fold(0, |latest, walk| latest.max(walk.start));
            let joins = self.busy_from < free_from && all_started <= free_from;
            self.busy_from = if joins { self.busy_from.min(all_started) } else { all_started };
        }
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
    fn a_walk_that_waited_for_a_late_one_begins_later() {
        let mut pool = WalkerPool::new(1);
        pool.occupy(Cycle(0), Cycle(100));
        assert_eq!(pool.start(Cycle(20)), Cycle(100));
        pool.occupy(Cycle(100), Cycle(200));
        pool.delay(Cycle(100), Cycle(130));
        pool.delay(Cycle(130), Cycle(150));
        assert_eq!(pool.begun(Cycle(100)), Cycle(150));
        assert_eq!(pool.begun(Cycle(99)), Cycle(99));
        pool.delay(Cycle(200), Cycle(250));
        assert_eq!(pool.start(Cycle(210)), Cycle(250));
    }

    #[test]
    fn waits_equal_those_of_a_list_of_intervals() {
        let mut random = ambulator_base::Random::new(7);
        for walkers in [1, 2, 3, 4, 7, 64] {
            let mut pool = WalkerPool::new(walkers);
            let mut walks: Vec<(u64, u64)> = Vec::new();
            // About as much work as the walkers can do, in bursts, with a pause in which all walks end.
            let mut now = 5000;
            for step in 0..4000 {
                let burst = step % 200 < 100;
                now += random.below(if burst { 240 } else { 480 } / u64::from(walkers) + 1);
                now += if step == 2000 { 3 << 32 } else { 0 };
                let requested = now - random.below(400);
                let start = pool.start(Cycle(requested)).0;
                let near = || walks.iter().rev().take(400);
                let active = |at: u64| near().filter(|(from, until)| (*from..*until).contains(&at)).count();
                let ends = near().map(|(_, until)| *until).filter(|until| *until > requested);
                let expected = ends.chain([requested]).filter(|at| active(*at) < walkers as usize).min();
                assert_eq!(Some(start), expected, "step {step} of {walkers} walkers");
                let until = start + 20 + random.below(300);
                pool.occupy(Cycle(start), Cycle(until));
                walks.push((start, until));
            }
        }
    }

    #[test]
    fn a_long_queue_of_walks_is_not_forgotten() {
        for walkers in [1, 4] {
            let mut pool = WalkerPool::new(walkers);
            for walk in 0..300_u64 {
                let start = pool.start(Cycle(0));
                assert_eq!(start.0, walk / u64::from(walkers) * 100);
                pool.occupy(start, start.after(100));
            }
        }
    }
}
