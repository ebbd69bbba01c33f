//! The page walkers of a core as a bounded resource.

use ambulator_base::{Cycle, State};
use ambulator_hardware::WalkInFlight;

/// A walk on a walker.
#[derive(Clone, Copy, Default, State)]
struct Interval {
    start: u64,
    end: u64,
    /// When it asked for a walker.
    asked: u64,
    number: u32,
}

impl Interval {
    /// Its [`WalkInFlight::number`].
    #[inline(always)]
    fn place(&self) -> usize {
        self.number as usize % REMEMBERED
    }
}

/// The bound on concurrent walks, and the walks in flight.
///
/// Each walk completes when it starts, and an out-of-order core starts walks out of time order. The resource
/// is therefore a list of recent walks' intervals, not a time at which a walker is free: a walk that starts
/// later in time never delays one that starts earlier. When a walk comes to its end, it may turn out to be late,
/// and those that wait for walkers begin later then, in the order in which they asked.
///
/// Almost every request avoids a search of that list. Let `n` be the number of walkers. Of the `n` walks that
/// end last, consider the first to end: from its end on a walker is free, because fewer than `n` walks end
/// later. Before its end, a walk that asks after all others waits for it. So does one that asks in an
/// interval before its end in which all walkers are known to be busy.
#[derive(State)]
pub struct WalkerPool {
    /// The walks that end last, at most [`REMEMBERED`] of them, from `first` on and in the order of their
    /// ends.
    walks: Vec<Interval>,
    first: usize,
    /// Where they end, by their [`WalkInFlight::number`]s.
    ends: Box<[u64; REMEMBERED]>,
    #[state(skip)]
    walkers: usize,
    /// All walkers are busy from here until the first of the last `walkers` walks ends.
    busy_from: u64,
    /// The number of the latest walk, and when the latest to ask asked.
    number: u32,
    asked: u64,
}

/// A walk that comes to the end that was said.
pub(crate) struct Delay {
    /// Cycles for which it was said to have its walker.
    pub cycles: u64,
    /// Cycles by which it got its walker later.
    pub queued: u64,
}

/// Maximum number of remembered walks: more than can wait in a core's window.
const REMEMBERED: usize = WalkInFlight::NUMBERS;

impl WalkerPool {
    /// A pool of `walkers`, 1 to 64.
    pub fn new(walkers: u32) -> WalkerPool {
        let walkers = walkers as usize;
        let mut walks = Vec::with_capacity(2 * REMEMBERED);
        walks.resize(walkers, Interval::default());
        WalkerPool { walks, first: 0, ends: Box::new([0; REMEMBERED]), walkers, busy_from: 0, number: 0, asked: 0 }
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
        } else if now.0 >= self.asked.min(self.busy_from) {
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

    /// Records a walk from `from` until `until` that asked for a walker at `asked`. Returns its
    /// [`WalkInFlight::number`].
    #[inline]
    pub fn occupy(&mut self, asked: Cycle, from: Cycle, until: Cycle) -> u16 {
        self.number = self.number.wrapping_add(1);
        self.asked = self.asked.max(asked.0);
        let walk = Interval { start: from.0, end: until.0.max(from.0), asked: asked.0, number: self.number };
        let free_from = self.last()[0].end;
        self.insert(walk);
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
            let all_started = self.all_started();
            let joins = self.busy_from < free_from && all_started <= free_from;
            self.busy_from = if joins { self.busy_from.min(all_started) } else { all_started };
        }
        self.ends[walk.place()] = walk.end;
        walk.place() as u16
    }

    /// Adds a walk behind those that end before it or with it. Few end later: they are moved one by one.
    #[inline(always)]
    fn insert(&mut self, walk: Interval) {
        self.walks.push(walk);
        let known = &mut self.walks[self.first..];
        let mut place = known.len() - 1;
        while place > 0 && known[place - 1].end > walk.end {
            known[place] = known[place - 1];
            place -= 1;
        }
        known[place] = walk;
    }

    /// All walkers are busy once the latest of the `walkers` walks that end last has started.
    #[inline(always)]
    fn all_started(&self) -> u64 {
        self.last().iter().fold(0, |latest, walk| latest.max(walk.start))
    }

    /// Walk `number` has come to the end that was said, and ends `late` cycles later. If it waited for a walker, it also
    /// begins later, if walks that asked before it are late. `None` for a walk of long ago.
    pub(crate) fn delay(&mut self, number: u16, late: u64) -> Option<Delay> {
        let number = usize::from(number) % REMEMBERED;
        let known = &self.walks[self.first..];
        let mut place = known.partition_point(|walk| walk.end < self.ends[number]);
        while known.get(place)?.place() != number {
            place += 1;
        }
        place += self.first;
        let mut walk = self.walks[place];
        let cycles = walk.end - walk.start;
        let waited = walk.start > walk.asked;
        let queued = if waited { self.free_before(&walk).saturating_sub(walk.start) } else { 0 };
        if queued + late > 0 {
            (walk.start, walk.end) = (walk.start + queued, walk.end + queued + late);
            self.move_back(place, walk);
            self.ends[number] = walk.end;
            self.busy_from = self.all_started();
        }
        Some(Delay { cycles, queued })
    }

    /// The walk at `place` is now `walk`, which ends later.
    #[inline(always)]
    fn move_back(&mut self, mut place: usize, walk: Interval) {
        while let Some(next) = self.walks.get(place + 1)
            && next.end <= walk.end
        {
            self.walks[place] = *next;
            place += 1;
        }
        self.walks[place] = walk;
    }

    /// When a walker is free, as far as walks have it that asked before `later`; not after its start if it is free then.
    #[inline(always)]
    fn free_before(&self, later: &Interval) -> u64 {
        let mut walkers = self.walkers;
        for walk in self.walks[self.first..].iter().rev() {
            // Counted without branches: the sim host could not predict them.
            let known_before = (walk.number.wrapping_sub(later.number) as i32) < 0;
            walkers -= usize::from((walk.asked < later.asked) | ((walk.asked == later.asked) & known_before));
            if walkers == 0 || walk.end <= later.start {
                return walk.end;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_walk_waits_for_the_first_of_two_to_end() {
        let mut pool = WalkerPool::new(2);
        pool.occupy(Cycle(0), Cycle(0), Cycle(100));
        pool.occupy(Cycle(10), Cycle(10), Cycle(60));
        assert_eq!(pool.start(Cycle(20)), Cycle(60));
        assert_eq!(pool.start(Cycle(70)), Cycle(70));
    }

    #[test]
    fn a_walk_in_the_future_does_not_delay_one_before_it() {
        let mut pool = WalkerPool::new(1);
        pool.occupy(Cycle(1000), Cycle(1000), Cycle(1100));
        assert_eq!(pool.start(Cycle(20)), Cycle(20));
        assert_eq!(pool.start(Cycle(1050)), Cycle(1100));
    }

    #[test]
    fn walks_that_wait_for_late_ones_begin_later_in_the_order_in_which_they_asked() {
        let mut pool = WalkerPool::new(2);
        // Walks that ask later are behind them, also if they were known before: those of prefetches.
        (0..2).for_each(|_| _ = pool.occupy(Cycle(1000), Cycle(1000), Cycle(1100)));
        let mut walk = |asked, begins, cycles| {
            let start = pool.start(Cycle(asked));
            assert_eq!(start, Cycle(begins));
            pool.occupy(Cycle(asked), start, start.after(cycles))
        };
        let first = walk(0, 0, 100);
        let second = walk(0, 0, 120);
        let third = walk(10, 100, 100);
        let fourth = walk(20, 120, 100);
        // The first ends at 150: the third begins when the second ends, and the fourth when the first does.
        let mut queued = |number, late| pool.delay(number, late).unwrap().queued;
        assert_eq!(queued(first, 50), 0);
        assert_eq!(queued(second, 0), 0);
        assert_eq!(queued(third, 0), 20);
        assert_eq!(queued(third, 0), 0);
        assert_eq!(queued(fourth, 7), 30);
        // They end at 220 and 257.
        assert_eq!(pool.start(Cycle(30)), Cycle(220));
        assert_eq!(pool.start(Cycle(230)), Cycle(230));
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
                pool.occupy(Cycle(requested), Cycle(start), Cycle(until));
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
                pool.occupy(Cycle(0), start, start.after(100));
            }
        }
    }
}
