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
    /// The latest end of the walks up to this one.
    latest_end: u64,
    /// By how many cycles it begins and ends later than who waits for it has been told.
    put_off: u64,
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
    /// The latest walks: a ring by their numbers.
    walks: Box<[Interval; REMEMBERED]>,
    /// The number of the latest walk.
    number: u32,
    /// The number of the latest walk that asked before another one with a lower number.
    disordered: u32,
    /// When the latest to ask asked.
    asked: u64,
    /// One walk for each walker: those that end last, in the order of their ends.
    last: Box<[(u64, u64)]>,
    /// All walkers are busy from here until the first of the last walks ends.
    busy_from: u64,
    /// Walks for which nobody waits and that have not begun.
    behind: Vec<u32>,
    /// The latest walk that is known to have begun after it had waited.
    begun: u32,
    /// Walks, and the cycles that they took; the latest count most.
    took: (u64, u64),
    /// Room for the ends of walks that another one waits for.
    #[state(skip)]
    ends: Vec<u64>,
}

/// A walk that comes to the end that was said.
pub(crate) struct Delay {
    /// Cycles for which it was said to have its walker.
    pub cycles: u64,
    /// Cycles by which it got its walker later.
    pub queued: u64,
}

/// Walks that wait for so many others at most ask each time that one of those is late.
const NEAR: u32 = 4;

/// Walks after which those before count half.
const FORGETS: u64 = 1 << 12;

/// Walks for which nobody waits and that have not begun, at most.
const MOST_BEHIND: usize = 64;

/// Maximum number of remembered walks: more than can wait in a core's window.
const REMEMBERED: usize = WalkInFlight::NUMBERS;

impl WalkerPool {
    /// A pool of `walkers`, 1 to 64.
    pub fn new(walkers: u32) -> WalkerPool {
        let walkers = walkers as usize;
        WalkerPool {
            walks: Box::new([Interval::default(); REMEMBERED]),
            number: 0,
            disordered: 0,
            asked: 0,
            last: vec![(0, 0); walkers].into(),
            busy_from: 0,
            behind: Vec::new(),
            begun: 0,
            took: (0, 0),
            ends: Vec::with_capacity(REMEMBERED),
        }
    }

    #[inline(always)]
    fn walk(&self, number: u32) -> &Interval {
        &self.walks[number as usize % REMEMBERED]
    }

    #[inline(always)]
    fn walk_mut(&mut self, number: u32) -> &mut Interval {
        &mut self.walks[number as usize % REMEMBERED]
    }

    /// Walks from number `newest` back to the oldest that is remembered, or until none ends after `tick`.
    #[inline(always)]
    fn ending_after(&self, newest: u32, tick: u64) -> impl Iterator<Item = &Interval> {
        let remembered = REMEMBERED as u32 - self.number.wrapping_sub(newest);
        let walks = (0..remembered).map(move |back| self.walk(newest.wrapping_sub(back)));
        walks.take_while(move |walk| walk.latest_end > tick)
    }

    /// The first cycle, not before `now`, at which a walker is free.
    #[inline]
    pub fn start(&self, now: Cycle) -> Cycle {
        let (_, free_from) = self.last[0];
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
        let mut at = now.0;
        loop {
            let (mut busy, mut first_end) = (0, u64::MAX);
            for walk in self.ending_after(self.number, at).filter(|walk| walk.start <= at && walk.end > at) {
                busy += 1;
                first_end = first_end.min(walk.end);
            }
            if busy < self.last.len() {
                return Cycle(at);
            }
            at = first_end;
        }
    }

    /// Records a walk from `from` until `until` that asked for a walker at `asked`. Returns its
    /// [`WalkInFlight::number`].
    #[inline]
    pub fn occupy(&mut self, asked: Cycle, from: Cycle, until: Cycle) -> u16 {
        let end = until.0.max(from.0);
        let latest_end = self.walk(self.number).latest_end.max(end);
        self.number = self.number.wrapping_add(1);
        if asked.0 < self.asked {
            self.disordered = self.number;
        }
        self.asked = self.asked.max(asked.0);
        let place = self.number as usize % REMEMBERED;
        // All walkers may not have been busy without a walk that is forgotten.
        self.busy_from = self.busy_from.max(self.walks[place].end);
        self.walks[place] = Interval { start: from.0, end, asked: asked.0, latest_end, ..Interval::default() };
        self.took = (self.took.0 + 1, self.took.1 + (end - from.0));
        if self.took.0 == FORGETS {
            self.took = (self.took.0 / 2, self.took.1 / 2);
        }
        let (_, free_from) = self.last[0];
        if end > free_from {
            self.end_last(0, (from.0, end));
            let all_started = self.all_started();
            let joins = self.busy_from < free_from && all_started <= free_from;
            self.busy_from = if joins { self.busy_from.min(all_started) } else { all_started };
        }
        place as u16
    }

    /// [`WalkerPool::occupy`] for a walk for which nobody waits, so that nobody asks whether it begins.
    pub fn occupy_behind(&mut self, asked: Cycle, from: Cycle, until: Cycle) {
        self.occupy(asked, from, until);
        if self.behind.len() == MOST_BEHIND {
            self.behind.remove(0);
        }
        self.behind.push(self.number);
    }

    /// Those that nobody waits for and that were said to begin by `now` have got their walkers, or get them later.
    fn begin_behind(&mut self, now: u64) {
        let mut behind = std::mem::take(&mut self.behind);
        behind.retain(|&number| {
            if self.number.wrapping_sub(number) as usize >= REMEMBERED {
                return false;
            }
            let mut said = *self.walk(number);
            while said.start <= now {
                let later = self.free_before(number, &said).saturating_sub(said.start);
                if later == 0 {
                    return false;
                }
                self.move_to(number, &said, (said.start + later, said.end + later));
                said = *self.walk(number);
            }
            true
        });
        self.behind = behind;
    }

    /// A walk from `start` to `end` is one of those that end last, in place of the one at `place`, which ends before it.
    #[inline(always)]
    fn end_last(&mut self, mut place: usize, (start, end): (u64, u64)) {
        while let Some(next) = self.last.get(place + 1)
            && next.1 < end
        {
            self.last[place] = *next;
            place += 1;
        }
        self.last[place] = (start, end);
    }

    /// All walkers are busy once the latest of the walks that end last has started.
    #[inline(always)]
    fn all_started(&self) -> u64 {
        self.last.iter().fold(0, |latest, walk| latest.max(walk.0))
    }

    /// The number of a walk of the latest [`WalkInFlight::NUMBERS`].
    fn number_of(&self, number: u16) -> u32 {
        // How many walks came after it.
        let after = self.number.wrapping_sub(u32::from(number)) % REMEMBERED as u32;
        self.number.wrapping_sub(after)
    }

    /// Cycles after which walk `number`, of which this was `said`, gets its walker.
    fn waits(&mut self, number: u32, said: &Interval) -> u64 {
        if said.start > said.asked { self.free_before(number, said).saturating_sub(said.start) } else { 0 }
    }

    /// Whether exactly those with lower numbers asked before walk `number`.
    #[inline(always)]
    fn is_in_order(&self, number: u32) -> bool {
        (number.wrapping_sub(self.disordered) as i32) > 0
    }

    /// Walk `number` was said to get a walker now. Returns by how many cycles it gets it later, because walks that asked
    /// before it are late; it ends later then, too.
    pub(crate) fn begin(&mut self, number: u16) -> u64 {
        let number = self.number_of(number);
        self.begin_behind(self.walk(number).start);
        let said = *self.walk(number);
        // Not before the one that asked before it: most often no other is looked at.
        let before = self.walk(number.wrapping_sub(1)).start;
        let is_next = !self.is_in_order(number) || before <= said.start;
        let later = if is_next { self.waits(number, &said) } else { self.waits_for_many(number, before - said.start) };
        if later == 0 {
            self.begun = number;
        } else {
            self.walk_mut(number).put_off += later;
            self.move_to(number, &said, (said.start + later, said.end + later));
        }
        later
    }

    /// At least how long walk `number` waits, which waits for `least` cycles because of the one before it. Those that are far
    /// behind need not ask each time that one before them is late: not before half of the time has gone by that
    /// those before them are going to take.
    fn waits_for_many(&self, number: u32, least: u64) -> u64 {
        let before = number.wrapping_sub(self.begun);
        let (walks, cycles) = self.took;
        if before as usize >= REMEMBERED || before <= NEAR {
            return least;
        }
        let ends = u64::from(before - NEAR) / (2 * self.last.len() as u64);
        least.max((ends * cycles).checked_div(walks).unwrap_or(0))
    }

    /// By how many cycles walk `number` begins and ends later ([`WalkerPool::begin`]) than was said the last time.
    pub(crate) fn take_put_off(&mut self, number: u16) -> u64 {
        let number = self.number_of(number);
        std::mem::take(&mut self.walk_mut(number).put_off)
    }

    /// Walk `number` has come to the end that was said, and ends `late` cycles later. If it waited for a walker, it also
    /// begins later, if walks that asked before it are late.
    pub(crate) fn delay(&mut self, number: u16, late: u64) -> Delay {
        let number = self.number_of(number);
        let said = *self.walk(number);
        let queued = self.waits(number, &said);
        self.took.1 += late;
        if queued + late > 0 {
            self.move_to(number, &said, (said.start + queued, said.end + queued + late));
        }
        Delay { cycles: said.end - said.start, queued }
    }

    /// Walk `number`, of which something else was `said`, now lasts from `start` to `end`.
    #[inline(always)]
    fn move_to(&mut self, number: u32, said: &Interval, (start, end): (u64, u64)) {
        let walk = self.walk_mut(number);
        (walk.start, walk.end) = (start, end);
        for back in (0..=self.number.wrapping_sub(number)).rev() {
            let later = self.walk_mut(self.number.wrapping_sub(back));
            if later.latest_end >= end {
                break;
            }
            later.latest_end = end;
        }
        let among_last = self.last.iter().position(|walk| *walk == (said.start, said.end));
        if among_last.is_some() || end > self.last[0].1 {
            self.end_last(among_last.unwrap_or(0), (start, end));
        }
        // A walker may have been free while this walk was said to have it.
        self.busy_from = self.all_started();
    }

    /// When a walker is free, as far as walks have it that asked before walk `number`, `later`; 0 if one is free when it
    /// begins.
    #[inline(always)]
    fn free_before(&mut self, number: u32, later: &Interval) -> u64 {
        // Most often as many walks as there are walkers asked before and end after it was said to begin.
        let (mut walks, mut first_end) = (0, u64::MAX);
        self.before(number, later).for_each(|(waited_for, end)| {
            walks += usize::from(waited_for);
            first_end = first_end.min(if waited_for { end } else { u64::MAX });
        });
        match walks.checked_sub(self.last.len()) {
            None => 0,
            Some(0) => first_end,
            Some(others) => self.free_after(number, later, others),
        }
    }

    /// When so many of the walks have ended that asked before walk `number`, `later`, and end after it was said to begin,
    /// and another one.
    #[cold]
    fn free_after(&mut self, number: u32, later: &Interval, ended: usize) -> u64 {
        let mut ends = std::mem::take(&mut self.ends);
        ends.clear();
        ends.extend(self.before(number, later).filter(|(waited_for, _)| *waited_for).map(|(_, end)| end));
        let free = *ends.select_nth_unstable(ended).1;
        self.ends = ends;
        free
    }

    /// Of walks about walk `number`, `later`: whether they asked before it and end after it was said to begin, and their
    /// ends.
    #[inline(always)]
    fn before(&self, number: u32, later: &Interval) -> impl Iterator<Item = (bool, u64)> {
        let newest = if self.is_in_order(number) { number.wrapping_sub(1) } else { self.number };
        let Interval { asked, start, .. } = *later;
        (0_u32..).zip(self.ending_after(newest, start)).map(move |(back, walk)| {
            let known_before = (newest.wrapping_sub(back).wrapping_sub(number) as i32) < 0;
            let asked_before = (walk.asked < asked) | ((walk.asked == asked) & known_before);
            (asked_before & (walk.end > start), walk.end)
        })
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
    fn a_walk_that_waits_for_a_late_one_begins_and_ends_later() {
        let mut pool = WalkerPool::new(1);
        let first = pool.occupy(Cycle(0), Cycle(0), Cycle(100));
        let second = pool.occupy(Cycle(10), pool.start(Cycle(10)), Cycle(200));
        let third = pool.occupy(Cycle(20), pool.start(Cycle(20)), Cycle(300));
        // Main memory serves the first 50 cycles later.
        assert_eq!((pool.delay(first, 50).queued, pool.begin(second)), (0, 50));
        // It begins as was said then; and the third after it.
        assert_eq!((pool.begin(second), pool.begin(third)), (0, 50));
        // Who waits is told once.
        assert_eq!((pool.take_put_off(second), pool.take_put_off(second)), (50, 0));
        // What is late beyond that: the second's load by 30 cycles, from 250 to 280.
        let Delay { cycles, queued } = pool.delay(second, 30);
        assert_eq!((cycles, queued), (100, 0));
        assert_eq!((pool.begin(third), pool.take_put_off(third)), (30, 80));
        assert_eq!(pool.start(Cycle(150)), Cycle(380));
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
        let mut queued = |number, late| pool.delay(number, late).queued;
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

    #[test]
    fn late_walks_delay_those_behind_them_as_in_a_list() {
        let mut random = ambulator_base::Random::new(11);
        // Of each: when it asked, begins and ends.
        for (walkers, disorder) in [(1, 0), (2, 0), (4, 0), (4, 30), (7, 200), (16, 30)] {
            let mut pool = WalkerPool::new(walkers);
            let mut walks: Vec<(u64, u64, u64)> = Vec::new();
            let mut now = 5000;
            let mut moved = 0;
            for step in 0..3000_usize {
                now += random.below(if step % 200 < 100 { 200 } else { 420 } / u64::from(walkers) + 1);
                let asked = now - random.below(disorder + 1);
                let start = pool.start(Cycle(asked)).0;
                if walks.iter().any(|walk| walk.0 > asked) {
                    // Behind none that asked later.
                    let active = |at: u64| walks.iter().filter(|walk| (walk.1..walk.2).contains(&at)).count();
                    let ends = walks.iter().map(|walk| walk.2).filter(|end| *end > asked);
                    let expected = ends.chain([asked]).filter(|at| active(*at) < walkers as usize).min();
                    assert_eq!(Some(start), expected, "step {step} of {walkers} walkers");
                }
                let end = start + 20 + random.below(300);
                let number = pool.occupy(Cycle(asked), Cycle(start), Cycle(end));
                assert_eq!(usize::from(number), (step + 1) % REMEMBERED);
                walks.push((asked, start, end));
                // One of the last is late, or asks whether it is.
                let behind = random.below(walks.len().min(100) as u64) as usize;
                let place = walks.len() - 1 - behind;
                let late = if random.below(2) == 0 { random.below(90) } else { 0 };
                let (asked, start, end) = walks[place];
                let mut ends: Vec<u64> = walks
                    .iter()
                    .enumerate()
                    .filter(|(other, walk)| (walk.0, *other) < (asked, place))
                    .map(|(_, walk)| walk.2)
                    .collect();
                ends.sort_unstable_by(|one, other| other.cmp(one));
                let free = ends.get(walkers as usize - 1).copied().unwrap_or(0);
                let queued = if start > asked { free.saturating_sub(start) } else { 0 };
                let found = pool.delay(((place + 1) % REMEMBERED) as u16, late);
                assert_eq!((found.cycles, found.queued), (end - start, queued), "step {step} of {walkers} walkers");
                walks[place] = (asked, start + queued, end + queued + late);
                moved += u64::from(queued > 0);
                // The walkers that are free after the last to ask.
                let mut ends: Vec<u64> = walks.iter().map(|walk| walk.2).collect();
                ends.sort_unstable_by(|one, other| other.cmp(one));
                let free = ends.get(walkers as usize - 1).copied().unwrap_or(0);
                assert_eq!(pool.start(Cycle(now)).0, free.max(now), "step {step} of {walkers} walkers");
            }
            assert!(moved > 20, "{moved} walks of {walkers} walkers began later");
        }
    }
}
