//! Writes that wait for their turn in a bank.

/// Writes that one bank holds back at most.
const DEPTH: usize = 16;

/// A line to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Write {
    /// Tick from which on it can be written.
    pub asked: u64,
    /// The line's number.
    pub line: u64,
    /// It holds translations.
    pub table: bool,
}

/// The writes of a bank that no access at their time or after it has been seen behind, in the order of their
/// times.
///
/// A line is written back when the line that takes its place arrives, which is known long before: reads that
/// come until then are carried out later, though they are earlier in time. A write takes its turn when a read
/// comes that is not.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteQueue {
    /// A ring, from `first` on.
    waiting: [Write; DEPTH],
    first: usize,
    len: usize,
}

impl WriteQueue {
    /// Puts a write in. Returns the earliest if there are too many: its turn is now.
    #[inline(always)]
    pub fn push(&mut self, write: Write) -> Option<Write> {
        let mut earliest = None;
        if self.len == DEPTH {
            if write.asked <= self.waiting[self.first].asked {
                return Some(write);
            }
            earliest = Some(self.pop());
        }
        let mut place = self.len;
        while place > 0 && self.waiting[(self.first + place - 1) % DEPTH].asked > write.asked {
            self.waiting[(self.first + place) % DEPTH] = self.waiting[(self.first + place - 1) % DEPTH];
            place -= 1;
        }
        self.waiting[(self.first + place) % DEPTH] = write;
        self.len += 1;
        earliest
    }

    /// The earliest write, if its turn has come by tick `at`.
    #[inline(always)]
    pub fn due(&mut self, at: u64) -> Option<Write> {
        (self.len > 0 && self.waiting[self.first].asked <= at).then(|| self.pop())
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

    fn at(asked: u64) -> Write {
        Write { asked, line: asked, table: false }
    }

    #[test]
    fn writes_leave_in_the_order_of_their_times() {
        let mut queue = WriteQueue::default();
        let mut random = ambulator_base::Random::new(5);
        let mut list: Vec<u64> = Vec::new();
        for now in 0..5000_u64 {
            let asked = now + random.below(50);
            list.push(asked);
            list.sort_unstable();
            let expected = (list.len() > DEPTH).then(|| list.remove(0));
            assert_eq!(queue.push(at(asked)).map(|write| write.asked), expected);
            if random.below(3) == 0 {
                let by = now + random.below(20);
                while let Some(write) = queue.due(by) {
                    assert_eq!(write.asked, list.remove(0));
                }
                assert!(list.first().is_none_or(|first| *first > by));
            }
        }
    }
}
