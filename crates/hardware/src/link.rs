//! Links between a core's caches and a memory node: a latency, and a bandwidth in each direction.

use ambulator_base::State;
use std::collections::VecDeque;

/// Most transfers, not adjacent to one another, that a wire remembers.
const REMEMBERED: usize = 64;

/// One direction of a link, or a medium: it carries one line after another. Times are in ticks.
///
/// Lines do not come in the order of their times, so it remembers when it was busy, and a line takes the first
/// gap that is long enough. A line from before everything that is remembered is carried at once.
#[derive(Clone, Debug, State)]
pub(crate) struct Wire {
    /// When it is busy, in the order of time; adjacent times are one.
    busy: VecDeque<(u64, u64)>,
}

impl Wire {
    pub fn new() -> Wire {
        Wire { busy: VecDeque::with_capacity(REMEMBERED + 1) }
    }

    /// Takes the first `length` ticks that are free from `from` on, and returns when they begin.
    pub fn take(&mut self, from: u64, length: u64) -> u64 {
        if length == 0 {
            return from;
        }
        let mut at = self.busy.len();
        while at > 0 && self.busy[at - 1].1 > from {
            at -= 1;
        }
        let mut begin = from;
        while let Some((busy_from, busy_to)) = self.busy.get(at)
            && *busy_from < begin + length
        {
            begin = begin.max(*busy_to);
            at += 1;
        }
        self.insert(at, begin, begin + length);
        begin
    }

    /// Marks it as busy before the time at `at`.
    fn insert(&mut self, at: usize, begin: u64, end: u64) {
        let joins_before = at > 0 && self.busy[at - 1].1 == begin;
        let joins_after = self.busy.get(at).is_some_and(|after| after.0 == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = begin,
            (false, false) => {
                self.busy.insert(at, (begin, end));
                if self.busy.len() > REMEMBERED {
                    self.busy.pop_front();
                }
            }
        }
    }
}

/// A link: reads pay its latency there and back, and their data its bandwidth on the way back; data of writes
/// that of the way there. Commands and addresses take no bandwidth.
#[derive(Clone, Debug, State)]
pub(crate) struct Link {
    /// Ticks there, and back.
    #[state(skip)]
    there: u64,
    #[state(skip)]
    back: u64,
    /// Ticks of a line; 0 for no bound.
    #[state(skip)]
    line: u64,
    out: Wire,
    home: Wire,
}

impl Link {
    /// A link that adds `latency` ticks to a read and carries a line in `line` ticks.
    pub fn new(latency: u64, line: u64) -> Link {
        Link { there: latency / 2, back: latency - latency / 2, line, out: Wire::new(), home: Wire::new() }
    }

    /// When a request that is sent at `now` is there.
    pub fn request(&self, now: u64) -> u64 {
        now + self.there
    }

    /// Ticks of the way back.
    pub fn latency_back(&self) -> u64 {
        self.back
    }

    /// When a line that is ready there at `ready` is back.
    pub fn receive(&mut self, ready: u64) -> u64 {
        self.home.take(ready, self.line) + self.back
    }

    /// When a line that is sent at `now` is there.
    pub fn send(&mut self, now: u64) -> u64 {
        self.out.take(now, self.line) + self.there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;

    #[test]
    fn an_idle_link_adds_its_latency() {
        let mut link = Link::new(101, 7);
        let request = link.request(1000);
        assert_eq!((request, link.receive(request + 40)), (1050, 1000 + 40 + 101));
        assert_eq!(link.send(1000), 1050);
    }

    #[test]
    fn a_full_link_carries_one_line_after_another() {
        let mut link = Link::new(0, 10);
        let arrivals: Vec<u64> = (0..100).map(|_| link.receive(5)).collect();
        assert!(arrivals.iter().enumerate().all(|(at, arrival)| *arrival == 5 + 10 * at as u64), "{arrivals:?}");
        assert_eq!(link.send(5), 5, "the other direction is free");
    }

    #[test]
    fn a_line_from_earlier_takes_an_earlier_gap() {
        let mut wire = Wire::new();
        assert_eq!([wire.take(100, 10), wire.take(130, 10), wire.take(50, 10)], [100, 130, 50]);
        assert_eq!([wire.take(95, 10), wire.take(95, 25), wire.take(0, 50)], [110, 140, 0]);
        assert_eq!(wire.take(0, 10), 60, "the gaps before are shorter");
    }

    /// Against an array of ticks.
    #[test]
    fn no_two_lines_are_carried_at_once_and_none_waits_longer_than_it_must() {
        let mut random = Random::new(3);
        let (mut wire, mut ticks) = (Wire::new(), vec![false; 4000]);
        for _ in 0..60 {
            let (from, length) = (random.below(2000) as usize, 1 + random.below(30) as usize);
            let begin = wire.take(from as u64, length as u64) as usize;
            let first = (from..).find(|at| ticks[*at..at + length].iter().all(|busy| !busy)).unwrap_or(0);
            assert_eq!(begin, first, "{length} ticks from {from} on");
            ticks[begin..begin + length].fill(true);
        }
    }
}
