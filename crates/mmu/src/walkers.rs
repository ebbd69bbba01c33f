//! The page walkers of a core as a bounded resource.

use crate::{Begin, WaitingWalk};
use ambulator_base::{Cycle, State};
use ambulator_hardware::WalkInFlight;
use std::collections::VecDeque;

/// A walk on a walker.
#[derive(Clone, Copy, Default, State)]
struct Interval {
    start: u64,
    end: u64,
    /// When it asked for a walker.
    asked: u64,
    /// The latest end of the walks up to this one.
    latest_end: u64,
}

/// The bound on concurrent walks, and the walks in flight.
///
/// Each walk completes when it starts, and an out-of-order core starts walks out of time order. The resource
/// is therefore a list of recent walks' intervals, not a time at which a walker is free: a walk that starts
/// later in time never delays one that starts earlier. When a walk comes to its end, it may turn out to be late. So
/// the walks that wait for walkers are in a queue, in the order in which they asked. Each begins when it is the
/// first and a walker is free; before that, its interval is the earliest that there can be.
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
    /// Walks that wait for walkers, in the order in which they asked, and the cycles that they take.
    queue: VecDeque<WaitingWalk>,
    queued_cycles: u64,
    /// When the latest of those began that waited.
    begun: u64,
    /// When the first in the queue begins, if nothing has changed since that was found; or `u64::MAX`. Affects speed only.
    #[state(skip)]
    first_begins: u64,
    /// Walks for which nobody waits and that have not begun.
    behind: Vec<u32>,
    /// Room for the ends of walks that another one waits for.
    #[state(skip)]
    ends: Vec<u64>,
}

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
            queue: VecDeque::new(),
            queued_cycles: 0,
            begun: 0,
            first_begins: u64::MAX,
            behind: Vec::new(),
            ends: Vec::with_capacity(REMEMBERED),
        }
    }

    #[inline(always)]
    fn walk(&self, number: u32) -> &Interval {
        &self.walks[number as usize % REMEMBERED]
    }

    #[inline(always)]
    fn waiting(&self, waiting: &WaitingWalk) -> &Interval {
        self.walk(waiting.number.into())
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
            self.search(now, |_| true)
        }
    }

    /// The earliest cycle at which a walk that asks at `now` can begin, and whether it waits for others.
    #[inline]
    pub fn earliest_start(&self, now: Cycle) -> (Cycle, bool) {
        match self.queue.back() {
            None => {
                let start = self.start(now);
                (start, start > now)
            }
            Some(last) if !last.searched && self.waiting(last).asked <= now.0 => {
                (self.start(now).max(Cycle(self.waiting(last).start)), true)
            }
            Some(_) => self.earliest_in_queue(now),
        }
    }

    /// [`WalkerPool::earliest_start`] with others in the queue that ask later, or may turn out to.
    #[cold]
    fn earliest_in_queue(&self, now: Cycle) -> (Cycle, bool) {
        let start = self.search(now, |walk| walk.asked <= now.0);
        let mut before = self.queue.iter().rev().skip_while(|other| self.waiting(other).asked > now.0).peekable();
        let waits = before.peek().is_some() || start > now;
        let known = before.find(|other| !other.searched);
        (known.map_or(start, |other| start.max(Cycle(self.waiting(other).start))), waits)
    }

    /// About when a walk begins that asks at `now` and is not in the queue: after those that are.
    pub fn turn(&self, now: Cycle) -> Cycle {
        let Some(first) = self.queue.front() else { return self.start(now) };
        let begins = now.max(Cycle(self.waiting(first).start));
        begins.after(self.queued_cycles / self.last.len() as u64)
    }

    /// Searches the ends of those walks one after the other that count.
    #[inline(never)]
    fn search(&self, now: Cycle, counts: impl Fn(&Interval) -> bool) -> Cycle {
        let mut at = now.0;
        loop {
            let (mut busy, mut first_end) = (0, u64::MAX);
            let on_walkers = |walk: &&Interval| walk.start <= at && walk.end > at && counts(walk);
            for walk in self.ending_after(self.number, at).filter(on_walkers) {
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
        self.walks[place] = Interval { start: from.0, end, asked: asked.0, latest_end };
        let (_, free_from) = self.last[0];
        if end > free_from {
            self.end_last(0, (from.0, end));
            let all_started = self.all_started();
            let joins = self.busy_from < free_from && all_started <= free_from;
            self.busy_from = if joins { self.busy_from.min(all_started) } else { all_started };
        }
        place as u16
    }

    /// [`WalkerPool::occupy`] for a walk of so many `cycles` for which nobody waits, so that nobody asks whether it begins.
    pub fn occupy_behind(&mut self, asked: Cycle, cycles: u64) {
        let (start, _) = self.earliest_start(asked);
        self.occupy(asked, start, start.after(cycles));
        if self.behind.len() == MOST_BEHIND {
            self.behind.remove(0);
        }
        self.behind.push(self.number);
    }

    /// Those that nobody waits for, that asked before walk `number` and that can begin by `now` have their walkers; the
    /// others get them later.
    fn begin_behind(&mut self, number: u32, now: u64) {
        let mut behind = std::mem::take(&mut self.behind);
        behind.retain(|&other| {
            if (number.wrapping_sub(other) as i32) < 0 {
                return true;
            }
            if self.number.wrapping_sub(other) as usize >= REMEMBERED {
                return false;
            }
            let said = *self.walk(other);
            let start = said.start.max(self.free_before(other, &said));
            if start > said.start {
                self.move_to(other, &said, (start, start + (said.end - said.start)));
            }
            start > now
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

    /// Whether exactly those with lower numbers asked before walk `number`.
    #[inline(always)]
    fn is_in_order(&self, number: u32) -> bool {
        (number.wrapping_sub(self.disordered) as i32) > 0
    }

    /// A walk waits for a walker, behind those that asked before it. Returns when it is to ask whether it begins
    /// ([`WalkerPool::begin`]), if it is the first.
    pub(crate) fn wait(&mut self, waiting: WaitingWalk) -> Option<Cycle> {
        let Interval { start, asked, .. } = *self.waiting(&waiting);
        self.queued_cycles += waiting.cycles;
        let asked_later = |other: &&WaitingWalk| self.waiting(other).asked > asked;
        let later = self.queue.iter().rev().take_while(asked_later).count();
        self.queue.insert(self.queue.len() - later, waiting);
        if self.queue.len() > later + 1 {
            return None;
        }
        self.first_begins = u64::MAX;
        Some(Cycle(start))
    }

    /// The first in the queue was said to get a walker at `now`, if it is for the access at `place` in the window.
    pub(crate) fn begin(&mut self, place: u32, now: Cycle) -> Begin {
        let Some(first) = self.queue.front().copied().filter(|first| first.place == place) else { return Begin::No };
        let number = self.number_of(first.number);
        if now.0 < self.first_begins {
            let start = self.turn_of(number);
            if start > now.0 {
                return Begin::At(Cycle(start));
            }
        }
        let said = *self.walk(number);
        self.queued_cycles -= first.cycles;
        self.move_to(number, &said, (now.0, now.0 + first.cycles));
        self.begun = self.begun.max(now.0);
        self.queue.pop_front();
        Begin::Now(first, now.since(first.begins))
    }

    /// The first in the queue.
    pub(crate) fn first_waiting(&self) -> Option<&WaitingWalk> {
        self.queue.front()
    }

    /// The first in the queue asks at `asks`, if it was said to ask before, and goes behind those that ask before that.
    /// Until it has its walker, others are told when they begin as if it were not there.
    pub(crate) fn ask_later(&mut self, asks: Cycle) {
        let Some(&first) = self.queue.front() else { return };
        let number = self.number_of(first.number);
        let said = *self.walk(number);
        let later = asks.0.saturating_sub(said.asked);
        if later == 0 {
            return;
        }
        self.asked = self.asked.max(asks.0);
        self.disordered = self.number;
        self.walk_mut(number).asked = asks.0;
        let start = said.start.max(asks.0);
        self.move_to(number, &said, (start, start));
        let before = self.queue.iter().skip(1).take_while(|other| self.waiting(other).asked <= asks.0).count();
        self.queue.pop_front();
        self.queue.insert(before, WaitingWalk { asks_later: first.asks_later + later, ..first });
    }

    /// When walk `number`, the first in the queue, begins, as far as is known.
    fn turn_of(&mut self, number: u32) -> u64 {
        let least = self.walk(number).start.max(self.begun);
        if !self.behind.is_empty() {
            self.begin_behind(number, least);
        }
        let from = Interval { start: least, ..*self.walk(number) };
        least.max(self.free_before(number, &from))
    }

    /// The first in the queue: its access's place in the window, and when it is said to begin.
    pub(crate) fn next_to_begin(&mut self) -> Option<(u32, Cycle)> {
        let &WaitingWalk { number, place, .. } = self.queue.front()?;
        let begins = self.turn_of(self.number_of(number));
        self.first_begins = begins;
        Some((place, Cycle(begins)))
    }

    /// Walk `number` has come to the end that was said, and ends `late` cycles later. Returns the cycles for which it was
    /// said to have its walker.
    pub(crate) fn delay(&mut self, number: u16, late: u64) -> u64 {
        let number = self.number_of(number);
        let said = *self.walk(number);
        if late > 0 {
            self.move_to(number, &said, (said.start, said.end + late));
        }
        said.end - said.start
    }

    /// Walk `number`, of which something else was `said`, now lasts from `start` to `end`.
    #[inline(always)]
    fn move_to(&mut self, number: u32, said: &Interval, (start, end): (u64, u64)) {
        self.first_begins = u64::MAX;
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

    /// A walk that asks at `asked` and takes `cycles`: its number, and when it begins or asks whether it does.
    fn ask(pool: &mut WalkerPool, asked: u64, cycles: u64, place: u32) -> (u16, Option<u64>) {
        ask_after(pool, false, asked, cycles, place)
    }

    /// As [`ask`], after something that it waits for if it is `searched`.
    fn ask_after(pool: &mut WalkerPool, searched: bool, asked: u64, cycles: u64, place: u32) -> (u16, Option<u64>) {
        let (start, waits) = pool.earliest_start(Cycle(asked));
        let number = pool.occupy(Cycle(asked), start, if searched { start } else { start.after(cycles) });
        let waiting = WaitingWalk { number, place, begins: start, cycles, searched, ..WaitingWalk::default() };
        let begins = if waits || searched { pool.wait(waiting) } else { Some(start) };
        (number, begins.map(|begins| begins.0))
    }

    /// By how much the walk of `place` begins later at `now` than was said, or when it is to ask again.
    fn begin(pool: &mut WalkerPool, place: u32, now: u64) -> Result<u64, u64> {
        match pool.begin(place, Cycle(now)) {
            Begin::Now(walk, later) => {
                assert_eq!(walk.place, place);
                Ok(later)
            }
            Begin::At(until) => Err(until.0),
            Begin::No => panic!("it is the first to wait"),
        }
    }

    #[test]
    fn a_walk_that_waits_for_a_late_one_begins_and_ends_later() {
        let mut pool = WalkerPool::new(1);
        let (first, _) = ask(&mut pool, 0, 100, 0);
        let (second, begins) = ask(&mut pool, 10, 100, 1);
        assert_eq!(begins, Some(100));
        // The third asks when the second has begun.
        assert_eq!(ask(&mut pool, 20, 100, 2).1, None);
        // Main memory serves the first 50 cycles later.
        assert_eq!(pool.delay(first, 50), 100);
        assert_eq!(begin(&mut pool, 1, 100), Err(150));
        assert_eq!(pool.begin(2, Cycle(150)), Begin::No);
        assert_eq!(begin(&mut pool, 1, 150), Ok(50));
        assert_eq!(pool.next_to_begin(), Some((2, Cycle(250))));
        // The second's load is late by 30 cycles.
        assert_eq!(pool.delay(second, 30), 100);
        assert_eq!(begin(&mut pool, 2, 250), Err(280));
        assert_eq!(begin(&mut pool, 2, 280), Ok(80));
        assert_eq!((pool.next_to_begin(), pool.start(Cycle(300))), (None, Cycle(380)));
    }

    #[test]
    fn who_does_not_wait_in_the_queue_has_its_turn_after_it() {
        let mut pool = WalkerPool::new(2);
        let (first, _) = ask(&mut pool, 0, 100, 0);
        ask(&mut pool, 0, 300, 1);
        assert_eq!(pool.turn(Cycle(50)), Cycle(100));
        assert_eq!(ask(&mut pool, 10, 60, 2).1, Some(100));
        ask(&mut pool, 11, 40, 3);
        // Both walkers have half of the 100 cycles that wait.
        assert_eq!(pool.turn(Cycle(50)), Cycle(150));
        // A prefetch's walk asks before the last one: it begins at 200, and the last at 240.
        assert_eq!(pool.turn(Cycle(12)), Cycle(150));
        pool.occupy_behind(Cycle(12), 40);
        assert_eq!(ask(&mut pool, 13, 20, 4).1, None);
        assert_eq!(pool.delay(first, 0), 100);
        assert_eq!(begin(&mut pool, 2, 100), Ok(0));
        assert_eq!(pool.next_to_begin(), Some((3, Cycle(160))));
        assert_eq!(begin(&mut pool, 3, 160), Ok(0));
        assert_eq!(pool.next_to_begin(), Some((4, Cycle(240))));
    }

    #[test]
    fn a_walk_that_asks_for_the_future_waits_behind_those_before_it() {
        let mut pool = WalkerPool::new(1);
        ask(&mut pool, 0, 100, 0);
        assert_eq!(ask(&mut pool, 80, 10, 1).1, Some(100));
        // It asks before that, and is the first then.
        assert_eq!(ask(&mut pool, 20, 10, 2).1, Some(100));
        assert_eq!(pool.begin(1, Cycle(100)), Begin::No);
        assert_eq!(begin(&mut pool, 2, 100), Ok(0));
        assert_eq!(pool.next_to_begin(), Some((1, Cycle(110))));
    }

    #[test]
    fn a_walk_in_the_future_does_not_delay_one_before_it() {
        let mut pool = WalkerPool::new(1);
        pool.occupy(Cycle(1000), Cycle(1000), Cycle(1100));
        assert_eq!(pool.start(Cycle(20)), Cycle(20));
        assert_eq!(pool.start(Cycle(1050)), Cycle(1100));
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
    fn walks_begin_as_in_a_queue_for_the_walkers() {
        /// A walk, which may follow a search: when it is known, when it is said to ask for a walker and when it does, its
        /// cycles as they are said, and by how much it is late. No two ask at once.
        #[derive(Debug)]
        struct Walk {
            known: u64,
            searched: bool,
            said: u64,
            asks: u64,
            cycles: u64,
            late: u64,
        }
        /// What happens at a time, in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        enum Happens {
            End(usize),
            Ask(usize),
            Begin(usize),
        }
        let mut random = ambulator_base::Random::new(11);
        for walkers in [1, 2, 4, 7, 16] {
            let mut now = 5000;
            let mut asks = std::collections::HashSet::new();
            let mut walks: Vec<Walk> = Vec::new();
            for step in 0..3000_u32 {
                now += 1 + random.below(if step % 200 < 100 { 260 } else { 600 } / walkers + 1);
                let late = if random.below(2) == 0 { random.below(200) } else { 0 };
                let searched = random.below(3) == 0;
                let mut said = if searched { now + random.below(150) } else { now };
                let mut asked = if searched { said + random.below(2) * random.below(100) } else { now };
                while !asks.insert(asked) {
                    now += u64::from(!searched);
                    (said, asked) = (said.max(now), asked + 1);
                }
                walks.push(Walk { known: now, searched, said, asks: asked, cycles: 20 + random.below(300), late });
            }
            // First come, first served.
            let mut free = vec![0; walkers as usize];
            let mut expected = vec![0; walks.len()];
            let mut order: Vec<usize> = (0..walks.len()).collect();
            order.sort_by_key(|walk| walks[*walk].asks);
            for walk in order {
                let first = free.iter_mut().min().expect("a walker");
                expected[walk] = walks[walk].asks.max(*first);
                *first = expected[walk] + walks[walk].cycles + walks[walk].late;
            }
            let mut pool = WalkerPool::new(walkers as u32);
            let mut events: std::collections::BTreeSet<(u64, Happens)> =
                (0..).zip(&walks).map(|(number, walk)| (walk.known, Happens::Ask(number))).collect();
            let mut begun = vec![0; walks.len()];
            let mut numbers = vec![0; walks.len()];
            let (mut waited, mut asked_again, mut overtaken) = (0, 0, 0);
            let mut late: Vec<u64> = walks.iter().map(|walk| walk.late).collect();
            while let Some((now, happens)) = events.pop_first() {
                match happens {
                    // It turns out in two steps how late it is.
                    Happens::End(walk) if late[walk] > 0 => {
                        let step = late[walk].div_ceil(2);
                        pool.delay(numbers[walk], step);
                        late[walk] -= step;
                        events.insert((now + step, Happens::End(walk)));
                    }
                    Happens::End(_) => {}
                    Happens::Ask(walk) => {
                        let Walk { searched, said, cycles, .. } = walks[walk];
                        let (number, begins) = ask_after(&mut pool, searched, said, cycles, walk as u32);
                        numbers[walk] = number;
                        let waits = pool.queue.iter().any(|waiting| waiting.place == walk as u32);
                        match begins {
                            Some(at) if !waits => {
                                assert_eq!(at, now);
                                begun[walk] = now;
                                events.insert((now + cycles, Happens::End(walk)));
                            }
                            Some(at) => _ = events.insert((at, Happens::Begin(walk))),
                            None => {}
                        }
                    }
                    Happens::Begin(walk) => {
                        // Another one may have come that asked before it.
                        if pool.first_waiting().is_none_or(|first| first.place != walk as u32) {
                            continue;
                        }
                        if walks[walk].searched {
                            pool.ask_later(Cycle(walks[walk].asks));
                            let (place, at) = pool.next_to_begin().expect("a walk that waits");
                            overtaken += u32::from(place != walk as u32);
                            if place != walk as u32 || at.0 > now {
                                events.insert((at.0.max(now), Happens::Begin(place as usize)));
                                continue;
                            }
                        }
                        match begin(&mut pool, walk as u32, now) {
                            Ok(_) => {
                                waited += 1;
                                begun[walk] = now;
                                events.insert((now + walks[walk].cycles, Happens::End(walk)));
                                let next = pool.next_to_begin();
                                events.extend(next.map(|(place, at)| (at.0.max(now), Happens::Begin(place as usize))));
                            }
                            Err(until) => {
                                asked_again += 1;
                                events.insert((until, Happens::Begin(walk)));
                            }
                        }
                    }
                }
            }
            for (number, walk) in walks.iter().enumerate() {
                assert_eq!(begun[number], expected[number], "walk {number} of {walkers} walkers, {walk:?}");
            }
            assert!(waited > 500 && asked_again > 50, "{waited} of {walkers} walkers waited, {asked_again} again");
            assert!(overtaken > 20, "{overtaken} overtaken, {walkers} walkers");
        }
    }
}
