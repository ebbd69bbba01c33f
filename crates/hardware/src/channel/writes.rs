//! A channel's writes: they wait in a queue with room for so many, until a batch of them is released.

use super::choice::Choice;
use super::{Channel, Request, Rules};

/// Counts of the lines in the write queue, by the low bits of their numbers: most reads need no search.
pub(super) const FILTER: usize = 512;

impl Channel {
    #[inline(always)]
    pub(super) fn filter_of(line: u64) -> usize {
        (line ^ (line >> 9)) as usize % FILTER
    }

    /// A read takes its data from a waiting write: the tick at which they are there.
    pub(super) fn forward(&mut self, request: &Request) -> u64 {
        self.tally.forwarded += 1;
        request.arrival + self.rules.clock
    }

    #[cold]
    pub(super) fn waits_to_be_written(&self, request: &Request) -> bool {
        // Those of a batch have waited for long when it is released.
        self.writes.iter().any(|write| write.line == request.line && write.arrival <= request.arrival)
            || self.is_released(request.line)
    }

    /// Whether a released write of the line waits.
    fn is_released(&self, line: u64) -> bool {
        self.released > 0 && self.candidates.iter().any(|other| other.write && other.line == line)
    }

    /// Queues a write as soon as there is room for it; returns that tick.
    #[inline]
    pub fn write(&mut self, mut request: Request) -> u64 {
        let place = Self::filter_of(request.line);
        if self.filter[place] > 0
            && (self.writes.iter().any(|write| write.line == request.line) || self.is_released(request.line))
        {
            self.tally.merged += 1;
            return request.arrival;
        }
        request.arrival = self.room(request.arrival);
        self.filter[place] = self.filter[place].saturating_add(1);
        self.number = self.number.wrapping_add(1);
        request.number = self.number;
        insert(&mut self.writes, &request);
        request.arrival
    }

    /// The first tick from `at` on at which the write queue has room for another, as far as the requests say that have
    /// come so far.
    #[inline]
    fn room(&mut self, at: u64) -> u64 {
        let most = self.rules.write_queue;
        if self.writes.len() + self.released + self.plan.len() < most {
            return at;
        }
        self.room_of_full_queue(at)
    }

    /// The same where it may be full.
    #[inline(never)]
    fn room_of_full_queue(&mut self, at: u64) -> u64 {
        let most = self.rules.write_queue;
        while self.writes.len() + self.released >= most {
            self.serve();
        }
        // When the last has left with which there would be too many.
        self.plan.write_before(most - 1 - self.writes.len() - self.released, at)
    }

    /// Releases a batch of writes if one begins before the command of `best`.
    pub(super) fn releases(&mut self, best: Option<&Choice>) -> bool {
        let Rules { write_high, write_low, write_idle, .. } = self.rules;
        // A batch has a write at least.
        let write_idle = write_idle.max(write_low);
        let full = match self.writes.get(write_high - 1) {
            Some(last) if best.is_none_or(|best| last.arrival <= best.column) => last.arrival.max(self.release),
            _ => u64::MAX,
        };
        let idle = match self.writes.get(write_idle) {
            // The channel is idle from its last command on until the first candidate arrives.
            Some(last) => {
                let from = last.arrival.max(self.plan.last_column());
                if self.candidates.last().is_none_or(|oldest| from < oldest.arrival) { from } else { u64::MAX }
            }
            None => u64::MAX,
        };
        let from = full.min(idle);
        if from == u64::MAX {
            return false;
        }
        let arrived = self.writes.partition_point(|write| write.arrival <= from);
        self.release(arrived - write_low, from);
        true
    }

    /// Releases the first `count` writes at tick `from`.
    #[cold]
    pub(super) fn release(&mut self, count: usize, from: u64) {
        self.tally.batches += 1;
        self.release = from;
        self.released += count;
        let place = self.candidates.partition_point(|other| other.arrival > from);
        let released =
            self.writes.drain(..count).rev().map(|write| Request { arrival: write.arrival.max(from), ..write });
        self.candidates.splice(place..place, released);
    }
}

/// Inserts a request by its arrival, and among those of the same arrival by its number.
#[inline(always)]
fn insert(list: &mut Vec<Request>, request: &Request) {
    let mut place = list.len();
    while place > 0 && request.precedes(&list[place - 1]) {
        place -= 1;
    }
    list.insert(place, *request);
}
