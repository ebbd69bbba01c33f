//! Lines that an engine has under way to main memory, a bounded number at once.

use ambulator_base::State;

/// Lines under way, at most: the miss buffers of a core that copies, or the write-combining buffers of one that zeroes.
pub(crate) const IN_FLIGHT: usize = 16;

/// When the latest lines have been written. Times are in units of the engine.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct LinesInFlight {
    written: [u64; IN_FLIGHT],
    /// Lines that have left so far.
    pub count: u64,
}

impl LinesInFlight {
    /// When a buffer is free for one more.
    pub fn free(&self) -> u64 {
        self.written[self.count as usize % IN_FLIGHT]
    }

    /// A line leaves, and has been written at `written`.
    pub fn push(&mut self, written: u64) {
        self.written[self.count as usize % IN_FLIGHT] = written;
        self.count += 1;
    }
}
