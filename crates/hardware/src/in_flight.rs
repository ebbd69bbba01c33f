//! Lines that an engine has under way to main memory, a bounded number at once.

use crate::main_memory::{MainMemory, Written};
use ambulator_base::State;

/// Lines under way, at most: the miss buffers of a core that copies, or the write-combining buffers of one that zeroes.
pub(crate) const IN_FLIGHT: usize = 16;

/// A line that has left.
#[derive(Clone, Copy, Debug, Default, State)]
struct Line {
    line: u64,
    /// The cycle in which it is written.
    at: u64,
    /// It waits for room in a write queue: it may be written later than was said.
    waits: bool,
}

/// When the latest lines have been written, in cycles.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct LinesInFlight {
    lines: [Line; IN_FLIGHT],
    /// Lines that have left so far.
    pub count: u64,
}

impl LinesInFlight {
    /// When a buffer is free for one more.
    pub fn free(&self) -> u64 {
        self.lines[self.count as usize % IN_FLIGHT].at
    }

    /// Asks whether a buffer is free that was to be so by cycle `now`; it may be free later.
    pub fn ask(&mut self, now: u64, memory: &mut MainMemory) {
        let Line { line, at, waits } = &mut self.lines[self.count as usize % IN_FLIGHT];
        while *waits && *at <= now {
            let told = std::mem::replace(at, memory.entry(*line, *at));
            *waits = *at > told;
        }
    }

    /// A line leaves, and is written as `written` says.
    pub fn push(&mut self, line: u64, written: Written) {
        self.lines[self.count as usize % IN_FLIGHT] = Line { line, at: written.at, waits: written.waited > 0 };
        self.count += 1;
    }
}
