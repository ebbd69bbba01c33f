//! Writes that are queued at a DRAM bank.

/// Maximum number of writes that one bank queues.
const DEPTH: usize = 16;

/// A line to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Write {
    /// Earliest tick at which it can be written.
    pub requested: u64,
    /// The line's number.
    pub line: u64,
    /// It holds translations.
    pub table: bool,
}

/// The queued writes of a bank, in the order of their times: no access at or after their time has reached the
/// bank yet.
///
/// A line is written back when the line that replaces it arrives. That time is known long before: reads that
/// precede it in time may be simulated after it. A write is performed when a read arrives that is later than
/// the write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteQueue {
    /// A ring that starts at `first`.
    waiting: [Write; DEPTH],
    first: usize,
    len: usize,
}

impl WriteQueue {
    /// Queues a write. If the queue is full, returns the earliest write, which is due now.
    #[inline(always)]
    pub fn push(&mut self, write: Write) -> Option<Write> {
        let mut earliest = None;
        if self.len == DEPTH {
            if write.requested <= self.waiting[self.first].requested {
                return Some(write);
            }
            earliest = Some(self.pop());
        }
        let mut place = self.len;
        while place > 0 && self.waiting[(self.first + place - 1) % DEPTH].requested > write.requested {
            self.waiting[(self.first + place) % DEPTH] = self.waiting[(self.first + place - 1) % DEPTH];
            place -= 1;
        }
        self.waiting[(self.first + place) % DEPTH] = write;
        self.len += 1;
        earliest
    }

    /// The earliest write, if it is due by tick `at`.
    #[inline(always)]
    pub fn due(&mut self, at: u64) -> Option<Write> {
        (self.len > 0 && self.waiting[self.first].requested <= at).then(|| self.pop())
    }

    fn pop(&mut self) -> Write {
        let write = self.waiting[self.first];
        self.first = (self.first + 1) % DEPTH;
        self.len -= 1;
        write
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(requested: u64) -> Write {
        Write { requested, line: requested, table: false }
    }

    #[test]
    fn writes_are_performed_in_the_order_of_their_times() {
        let mut queue = WriteQueue::default();
        let mut random = ambulator_base::Random::new(5);
        let mut list: Vec<u64> = Vec::new();
        for now in 0..5000_u64 {
            let requested = now + random.below(50);
            list.push(requested);
            list.sort_unstable();
            let expected = (list.len() > DEPTH).then(|| list.remove(0));
            assert_eq!(queue.push(at(requested)).map(|write| write.requested), expected);
            if random.below(3) == 0 {
                let by = now + random.below(20);
                while let Some(write) = queue.due(by) {
                    assert_eq!(write.requested, list.remove(0));
                }
                assert!(list.first().is_none_or(|first| *first > by));
            }
        }
    }
}
