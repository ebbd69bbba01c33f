//! The latest reads of a channel, and when their data are there as far as is planned now.
//!
//! A read is told a time when it asks. Requests that come later may go before it, and then its time changes.
//! Who waits for the line asks again when that time has come.

use ambulator_base::State;

/// A read whose command is not planned any more.
const OPEN: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default, State)]
struct Read {
    line: u64,
    /// The clock at which its data are there, or `OPEN`.
    planned: u64,
    /// The latest time that was told.
    told: u64,
    way: u64,
}

/// What is known of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The clock at which its data were said to be there, the last time that somebody asked.
    pub told: u64,
    /// The clock at which they are there.
    pub planned: u64,
    /// What comes after that, in units of the caller.
    pub way: u64,
}

/// Two reads that share a place, in one line of the sim host's cache.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(64))]
struct Pair([Read; 2]);

/// Pairs at first: several times the reads that wait in a channel when its queues are full. A small table stays in the
/// sim host's first-level cache.
const LEAST: usize = 128;

/// The latest reads of a channel, by line. What is no longer found keeps the time that was told.
#[derive(Clone, Debug, State)]
pub(crate) struct Awaited {
    /// A power of two of them.
    pairs: Vec<Pair>,
}

impl Awaited {
    pub fn new() -> Awaited {
        Awaited { pairs: vec![Pair::default(); LEAST] }
    }

    /// Has room for the reads of so many commands that may be taken back.
    #[inline(always)]
    pub fn reserve(&mut self, commands: usize) {
        if 4 * commands > self.pairs.len() {
            self.grow(4 * commands);
        }
    }

    #[cold]
    fn grow(&mut self, pairs: usize) {
        let reads: Vec<Read> = self.pairs.iter().flat_map(|pair| pair.0).filter(|read| read.told > 0).collect();
        self.pairs = vec![Pair::default(); pairs.next_power_of_two()];
        for read in reads {
            let [first, second] = self.pair(read.line);
            *if first.told == 0 { first } else { second } = read;
        }
    }

    #[inline(always)]
    fn pair(&mut self, line: u64) -> &mut [Read; 2] {
        // Fibonacci hashing: arrays whose lines are a power of two apart do not meet in a pair.
        let place = (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (self.pairs.len() - 1);
        &mut self.pairs[place].0
    }

    #[inline(always)]
    fn find(&mut self, line: u64) -> Option<&mut Read> {
        let [first, second] = self.pair(line);
        if first.line == line {
            Some(first)
        } else if second.line == line {
            Some(second)
        } else {
            None
        }
    }

    /// A read of `line` was told that its data are there at clock `told`; they are as planned now at `planned`.
    #[inline(always)]
    pub fn tell(&mut self, line: u64, told: u64, planned: u64) {
        let [first, second] = self.pair(line);
        let takes_first = first.line == line || (second.line != line && first.planned <= second.planned);
        *if takes_first { first } else { second } = Read { line, planned, told, way: 0 };
    }

    /// A read of `line`, which is not planned yet, was told that its data are there at clock `told`.
    pub fn tell_open(&mut self, line: u64, told: u64) {
        self.tell(line, told, OPEN);
    }

    /// The command of a read is planned: its data are there at `clock`.
    #[inline(always)]
    pub fn plan(&mut self, line: u64, clock: u64) {
        if let Some(read) = self.find(line) {
            read.planned = clock;
        }
    }

    /// The command of a read is taken back.
    #[inline(always)]
    pub fn take_back(&mut self, line: u64) {
        self.plan(line, OPEN);
    }

    /// A read comes so many clocks later, and what was told with it.
    pub fn put_off(&mut self, line: u64, later: u64) {
        if let Some(read) = self.find(line) {
            read.told += later;
        }
    }

    /// Whether the command of a read was taken back, and is not planned again.
    #[inline(always)]
    pub fn is_open(&mut self, line: u64) -> bool {
        self.find(line).is_some_and(|read| read.planned == OPEN)
    }

    /// [`Told::way`] of a read.
    pub fn set_way(&mut self, line: u64, way: u64) {
        if let Some(read) = self.find(line) {
            read.way = way;
        }
    }

    /// What was told last for a read, and what is told now.
    #[inline(always)]
    pub fn retell(&mut self, line: u64) -> Option<Told> {
        let read = self.find(line)?;
        let &mut Read { planned, told, way, .. } = read;
        read.told = told.max(planned);
        Some(Told { told, planned, way })
    }
}
