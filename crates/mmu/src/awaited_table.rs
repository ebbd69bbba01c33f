//! What a translation waits for: table lines of main memory, and a walker.

use crate::AheadLoads;
use ambulator_base::{Cycle, PhysAddr};

/// Table lines of main memory that a translation waits for at the same time, and when they are said to arrive: the first
/// first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwaitedLines {
    lines: [(PhysAddr, Cycle); AwaitedLines::MOST],
    count: u8,
}

impl AwaitedLines {
    /// So many at most. Of more, those that arrive last are kept.
    pub const MOST: usize = 4;

    /// Adds a line that was asked for at `asked`. Those that have arrived by then are waited for no longer.
    pub(crate) fn add(&mut self, at: PhysAddr, asked: Cycle, arrives: Cycle) {
        let known = self.as_slice();
        if known.last().is_none_or(|(_, last)| asked >= *last) {
            self.lines[0] = (at, arrives);
            self.count = 1;
            return;
        }
        if known.len() == AwaitedLines::MOST {
            if arrives < known[0].1 {
                return;
            }
            self.lines.rotate_left(1);
            self.count -= 1;
        }
        let place = self.as_slice().partition_point(|(_, other)| *other <= arrives);
        self.lines.copy_within(place..usize::from(self.count), place + 1);
        self.lines[place] = (at, arrives);
        self.count += 1;
    }

    /// None is left.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lines.
    #[inline]
    pub fn as_slice(&self) -> &[(PhysAddr, Cycle)] {
        &self.lines[..usize::from(self.count)]
    }

    /// Those that are said to arrive by `translated`.
    #[inline]
    pub fn by(&self, translated: Cycle) -> &[(PhysAddr, Cycle)] {
        let lines = self.as_slice();
        &lines[..lines.partition_point(|(_, arrives)| *arrives <= translated)]
    }
}

/// What the latest translation waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwaitedTable {
    /// The table lines that decide when it is known: those that were read from main memory last, if the design does not
    /// say which ([`MemoryPort::decide`](crate::MemoryPort::decide)).
    pub lines: AwaitedLines,
    /// The lines of a lookaside's search before the walk, in vain: if it can wait ([`AwaitedTable::may_wait`]), it asks
    /// for a walker when these have come.
    pub search: AwaitedLines,
    /// The walk, once it has a walker.
    pub walk: Option<WalkOnWalker>,
    /// It is known, from the walk or from the lookaside: nobody waits for what is loaded after it.
    pub settled: bool,
    /// Who asks for the translation can wait until the walk has a walker ([`WaitingWalk`](crate::WaitingWalk)).
    pub may_wait: bool,
    /// The walk waits for a walker: its loads are sent only then.
    pub ahead: bool,
    /// When that walk asked for a walker.
    pub asked: Cycle,
    /// These loads.
    pub loads: AheadLoads,
}

impl AwaitedTable {
    /// A walk begins. It follows a lookaside's search in vain, or another walk of the same access, of which nothing stays.
    pub(crate) fn begin_walk(&mut self) {
        self.walk = None;
        self.search.clear();
        if self.settled {
            self.settled = false;
            self.lines.clear();
        } else if self.may_wait && !self.lines.is_empty() {
            self.search = std::mem::take(&mut self.lines);
        }
    }

    /// The translation is known, from this walk if it was one on a walker.
    pub(crate) fn settle(&mut self, walk: Option<WalkOnWalker>) {
        (self.walk, self.settled) = (walk, true);
    }

    /// A line that was asked for at `asked` is to come from main memory at `arrives`.
    pub(crate) fn wait_for(&mut self, at: PhysAddr, asked: Cycle, arrives: Cycle) {
        if !self.settled {
            self.lines.add(at, asked, arrives);
            self.loads.wait_for(at);
        }
    }

    /// Of all lines so far, these decide when the translation is known.
    pub(crate) fn decide(&mut self, lines: &[(PhysAddr, Cycle)]) {
        if self.settled {
            return;
        }
        self.lines = AwaitedLines::default();
        for &(at, ready) in lines {
            self.lines.add(at, Cycle(0), ready);
        }
        self.loads.decide(lines);
    }
}

/// A walk on one of a core's walkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkOnWalker {
    /// [`WalkInFlight::number`](ambulator_hardware::WalkInFlight::number).
    pub number: u16,
    /// When it is said to begin.
    pub begins: Cycle,
    /// When it is said to end.
    pub ends: Cycle,
    /// It waited for the walker, which another walk had.
    pub waited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(lines: &[(PhysAddr, Cycle)]) -> Vec<(u64, u64)> {
        lines.iter().map(|(at, arrives)| (at.0, arrives.0)).collect()
    }

    #[test]
    fn lines_that_are_asked_for_together_are_awaited_together() {
        let mut lines = AwaitedLines::default();
        lines.add(PhysAddr(64), Cycle(10), Cycle(200));
        lines.add(PhysAddr(128), Cycle(10), Cycle(150));
        lines.add(PhysAddr(192), Cycle(10), Cycle(150));
        assert_eq!(arrivals(lines.as_slice()), [(128, 150), (192, 150), (64, 200)]);
        assert_eq!(arrivals(lines.by(Cycle(199))), [(128, 150), (192, 150)]);
        // The first of five is not kept.
        lines.add(PhysAddr(256), Cycle(10), Cycle(120));
        lines.add(PhysAddr(320), Cycle(10), Cycle(180));
        lines.add(PhysAddr(384), Cycle(10), Cycle(110));
        assert_eq!(arrivals(lines.as_slice()), [(128, 150), (192, 150), (320, 180), (64, 200)]);
        // What is asked for when all others are there has waited for them.
        lines.add(PhysAddr(448), Cycle(200), Cycle(300));
        assert_eq!(arrivals(lines.as_slice()), [(448, 300)]);
    }

    #[test]
    fn a_design_says_which_lines_decide() {
        let mut table = AwaitedTable::default();
        table.lines.add(PhysAddr(64), Cycle(10), Cycle(200));
        table.lines.add(PhysAddr(128), Cycle(10), Cycle(250));
        table.decide(&[(PhysAddr(64), Cycle(200))]);
        assert_eq!(arrivals(table.lines.as_slice()), [(64, 200)]);
        table.settle(None);
        table.decide(&[(PhysAddr(128), Cycle(250))]);
        assert_eq!(arrivals(table.lines.as_slice()), [(64, 200)]);
        table.begin_walk();
        assert_eq!(arrivals(table.lines.as_slice()), []);
    }
}
