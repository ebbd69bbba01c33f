//! Background copies of pages: an engine reads lines of one place and writes them to another, a bounded
//! number at once.
//!
//! It shares banks and buses with all other accesses. It issues its lines as time passes, so that accesses of
//! cores are served in between.

use crate::in_flight::{IN_FLIGHT, LinesInFlight};
use crate::main_memory::MainMemory;
use ambulator_base::State;
use std::collections::VecDeque;

/// Identifies a requested copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, State)]
pub struct CopyId(u64);

/// Cycles for which the end of a copy is remembered: longer than accesses are out of order.
const REMEMBERED: u64 = 100_000;
/// Lines of whose latency the estimate of a copy's end is made.
const MEAN: u64 = 64;

#[derive(Clone, Copy, Debug, Default, State)]
struct Copy {
    from: u64,
    to: u64,
    requested: u64,
    /// The numbers, among all lines ever requested, of its first line and of the line after its last.
    first: u64,
    end: u64,
}

/// The copy engine.
#[derive(Clone, Debug, State)]
pub(crate) struct Copies {
    queue: VecDeque<Copy>,
    /// When the most recent copies ended.
    ended: VecDeque<u64>,
    /// The number of the first copy in `ended`.
    oldest: u64,
    /// Number of lines requested so far.
    lines: u64,
    issued: LinesInFlight,
    /// Latency of a line: a moving mean over about [`MEAN`] lines, in 1/64 cycle.
    latency: u64,
}

impl Copies {
    pub(crate) fn new() -> Copies {
        Copies {
            queue: VecDeque::new(),
            ended: VecDeque::new(),
            oldest: 0,
            lines: 0,
            issued: LinesInFlight::default(),
            latency: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Requests a copy of `lines` lines, after those requested before.
    pub(crate) fn request(&mut self, from: u64, to: u64, lines: u64, now: u64) -> CopyId {
        let id = CopyId(self.oldest + (self.ended.len() + self.queue.len()) as u64);
        let first = self.lines;
        self.lines += lines;
        self.queue.push_back(Copy { from, to, requested: now, first, end: self.lines });
        id
    }

    /// Issues the lines that are due by cycle `now`.
    #[cold]
    pub(crate) fn advance(&mut self, now: u64, memory: &mut MainMemory) {
        while let Some(copy) = self.queue.front() {
            self.issued.ask(now, memory);
            let at = self.issued.free().max(copy.requested);
            if at > now {
                break;
            }
            let line = self.issued.count - copy.first;
            // A core of the destination's socket copies.
            let socket = memory.socket_of_line(copy.to);
            let told = memory.read(copy.from + line, false, socket, at);
            // Nobody asks when that has come.
            let ready = memory.arrival(copy.from + line, false, told);
            let written = memory.write(copy.to + line, false, socket, ready);
            // Its buffer is free when its data have gone.
            self.issued.push(copy.to + line, written);
            let lines = self.issued.count.min(MEAN);
            self.latency = (self.latency * (lines - 1) + 64 * (written.at - at)) / lines;
            if self.issued.count == copy.end {
                self.ended.push_back(written.at);
                self.queue.pop_front();
            }
        }
        while self.ended.front().is_some_and(|ended| ended + REMEMBERED < now) {
            self.ended.pop_front();
            self.oldest += 1;
        }
    }

    /// Whether a copy ended so long ago that its end is never queried.
    pub(crate) fn forgotten(&self, id: CopyId) -> bool {
        id.0 < self.oldest
    }

    /// When a copy ended, if it has and that is remembered.
    pub(crate) fn ended(&self, id: CopyId) -> Option<u64> {
        self.ended.get(id.0.checked_sub(self.oldest)? as usize).copied()
    }

    /// When a copy ended, or the estimated end at the present rate if it has not ended by `now`.
    pub(crate) fn end(&self, id: CopyId, now: u64) -> u64 {
        let Some(at) = id.0.checked_sub(self.oldest) else { return 0 };
        if let Some(ended) = self.ended.get(at as usize) {
            return *ended;
        }
        let Some(copy) = self.queue.get(at as usize - self.ended.len()) else { return 0 };
        now + (copy.end - self.issued.count) * self.latency / (64 * IN_FLIGHT as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dram, DramSpec};

    fn dram() -> MainMemory {
        MainMemory::new(Dram::new(&DramSpec::default(), 3000, true))
    }

    #[test]
    fn lines_issue_as_time_passes_within_the_engines_limit() {
        let (mut copies, mut dram) = (Copies::new(), dram());
        let id = copies.request(0, 1 << 20, 1024, 100);
        copies.advance(100, &mut dram);
        assert_eq!((copies.issued.count, copies.idle()), (IN_FLIGHT as u64, false));
        let (mut now, mut estimated) = (100, 0);
        while !copies.idle() {
            now += 10;
            copies.advance(now, &mut dram);
            if estimated == 0 && copies.issued.count >= 256 {
                estimated = copies.end(id, now);
            }
        }
        assert_eq!((dram.counters().data_reads, dram.counters().data_writes), (1024, 1024));
        let ended = copies.end(id, now);
        assert!(ended > 100 && estimated.abs_diff(ended) * 6 < ended, "estimated {estimated}, ended {ended}");
        assert!(!copies.forgotten(id));
        copies.advance(now + 2 * REMEMBERED, &mut dram);
        assert!(copies.forgotten(id));
    }

    #[test]
    fn a_load_during_a_copy_waits_for_lines_in_flight_and_not_for_the_whole_copy() {
        let alone = dram().read(1 << 26, false, 0, 1_000_000) - 1_000_000;
        let (mut copies, mut dram, mut worst) = (Copies::new(), dram(), 0);
        copies.request(0, 1 << 20, 1 << 15, 0);
        for now in (0..40_000).step_by(100) {
            copies.advance(now, &mut dram);
            worst = worst.max(dram.read((1 << 26) + now, false, 0, now) - now);
        }
        assert!(!copies.idle());
        assert!(worst > alone && worst < alone + 2000, "alone {alone}, worst {worst}");
    }

    #[test]
    fn copies_end_in_the_order_of_their_requests() {
        let (mut copies, mut dram) = (Copies::new(), dram());
        let ids = [copies.request(0, 1 << 20, 64, 0), copies.request(1 << 21, 1 << 22, 64, 0)];
        copies.advance(100_000, &mut dram);
        assert!(copies.idle());
        let ends = ids.map(|id| copies.end(id, 100_000));
        assert!(0 < ends[0] && ends[0] < ends[1]);
    }
}
