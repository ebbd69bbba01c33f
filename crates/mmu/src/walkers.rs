//! The page walkers of a core as a bounded resource.

use ambulator_base::Cycle;

/// A walk on a walker.
#[derive(Clone, Copy, Default)]
struct Interval {
    start: u64,
    end: u64,
}

/// How many walks can be under way at once, and which are.
///
/// Walks are carried to completion when they start, and an out-of-order core starts them out of time order; so the
/// resource is a list of recent walks' intervals, not a time at which a walker is free: a walk that starts later in time
/// never delays one that starts earlier.
///
/// Almost every question is answered without that list. Of as many walks as there are walkers, those that end last, take the
/// first to end: from its end on a walker is free, for fewer walks end later. And before that is a stretch of time in which all
/// walkers are known to be busy.
pub struct WalkerPool {
    /// The latest walks, four for each walker; a ring.
    walks: Vec<Interval>,
    next: usize,
    /// As many as there are walkers, of those walks: the ones that end last, the first to end first.
    last: Vec<Interval>,
    /// All walkers are busy from here until the first of `last` ends.
    busy_from: u64,
}

impl WalkerPool {
    /// A pool of `walkers`, 1 to 64.
    pub fn new(walkers: u32) -> WalkerPool {
        let remembered = (walkers as usize * 4).next_power_of_two().max(8);
        WalkerPool {
            walks: vec![Interval::default(); remembered],
            next: 0,
            last: vec![Interval::default(); walkers as usize],
            busy_from: 0,
        }
    }

    /// The first cycle, not before `now`, at which a walker is free.
    #[inline]
    pub fn start(&self, now: Cycle) -> Cycle {
        let free_from = self.last[0].end;
        if now.0 >= free_from {
            now
        } else if now.0 >= self.busy_from {
            Cycle(free_from)
        } else {
            self.search(now)
        }
    }

    /// One end of a walk after the other.
    #[inline(never)]
    fn search(&self, now: Cycle) -> Cycle {
        let mut at = now.0;
        loop {
            let (mut active, mut next_end) = (0, u64::MAX);
            for walk in &self.walks {
                let within = (walk.start <= at) & (at < walk.end);
                active += usize::from(within);
                next_end = next_end.min(if within { walk.end } else { u64::MAX });
            }
            if active < self.last.len() {
                return Cycle(at);
            }
            at = next_end;
        }
    }

    /// Notes a walk from `from` until `until`.
    #[inline]
    pub fn occupy(&mut self, from: Cycle, until: Cycle) {
        let walk = Interval { start: from.0, end: until.0.max(from.0) };
        let gone = std::mem::replace(&mut self.walks[self.next], walk);
        self.next = (self.next + 1) & (self.walks.len() - 1);
        // What is known of the time before the end of the walk that is forgotten may not be so without it.
        self.busy_from = self.busy_from.max(gone.end);
        if gone.end >= self.last[0].end {
            self.rank();
        } else if walk.end > self.last[0].end {
            self.rank_one(walk);
        }
    }

    /// A walk comes among those that end last.
    #[inline(always)]
    fn rank_one(&mut self, walk: Interval) {
        let free_from = self.last[0].end;
        let mut at = 0;
        while at + 1 < self.last.len() && self.last[at + 1].end < walk.end {
            self.last[at] = self.last[at + 1];
            at += 1;
        }
        self.last[at] = walk;
        // Those that end last are as many as there are walkers: all are busy once the latest of them has started.
        let all_started = self.last.iter().fold(0, |latest, walk| latest.max(walk.start));
        let joins = self.busy_from < free_from && all_started <= free_from;
        self.busy_from = if joins { self.busy_from.min(all_started) } else { all_started };
    }

    /// Finds those that end last anew.
    #[cold]
    fn rank(&mut self) {
        let mut walks = self.walks.clone();
        walks.sort_unstable_by_key(|walk| walk.end);
        let count = self.last.len();
        self.last.copy_from_slice(&walks[walks.len() - count..]);
        self.busy_from = u64::MAX;
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
        for walkers in [1, 2, 3, 4, 7, 64] {
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
