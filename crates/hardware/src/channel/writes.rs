//! A channel's writes: they wait in a queue with room for so many, until a batch of them is released.

use super::choice::Choice;
use super::{Channel, Request, Rules};
use crate::plan::Entrant;

/// Counts of the lines in the write queue, by the low bits of their numbers: most reads need no search.
pub(super) const FILTER: usize = 512;

impl Channel {
    #[inline(always)]
    pub(super) fn filter_of(line: u64) -> usize {
        (line ^ (line >> 9)) as usize % FILTER
    }

    /// A read takes its data from a waiting write: the clock at which they are there.
    pub(super) fn forward(&mut self, request: &Request) -> u64 {
        self.tally.forwarded += 1;
        request.arrival + 1
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

    /// Queues a write as soon as there is room for it; returns that clock.
    #[inline]
    pub fn write(&mut self, mut request: Request) -> u64 {
        let place = Self::filter_of(request.line);
        if self.filter[place] > 0
            && (self.writes.iter().any(|write| write.line == request.line) || self.is_released(request.line))
        {
            self.tally.merged += 1;
            return request.arrival;
        }
        self.count_in(&mut request);
        let enters = if self.writes.len() + self.released + self.plan.len() < self.rules.write_queue {
            enter(&mut self.filter, &mut self.writes, &request);
            request.arrival
        } else {
            self.enter_full_queue(request)
        };
        if self.writes.len() > self.quiet || self.plan.released() > enters {
            self.plan_anew_for_write(enters);
        }
        enters
    }

    /// A write has entered the queue at clock `at`: what is planned after that is taken back, if batches begin otherwise
    /// with it.
    #[inline(never)]
    fn plan_anew_for_write(&mut self, at: u64) {
        let Rules { write_high, write_low, write_idle, .. } = self.rules;
        let was_released = self.plan.released() > at;
        let full = || self.writes.get(write_high - 1).map(|last| last.arrival.max(self.release).max(at));
        let from = if was_released { Some(at) } else { full() };
        let first = from.map(|from| self.plan.first_from(from));
        let mut first = first.filter(|first| was_released || *first < self.plan.end());
        let from = first.and(from);
        if let Some(last) = self.writes.get(write_idle.max(write_low)) {
            let oldest = self.candidates.last().map_or(u64::MAX, |oldest| oldest.arrival);
            let idle = self.plan.first_idle_from(last.arrival.max(at), oldest);
            first = first.min(idle).or(first).or(idle);
        }
        if let Some(first) = first {
            self.take_back(first, from.unwrap_or(u64::MAX), false);
        }
    }

    /// A write comes when the write queue may be full. Returns the clock at which it enters the queue, as far as the
    /// requests say that have come so far.
    #[inline(never)]
    fn enter_full_queue(&mut self, mut request: Request) -> u64 {
        let Request { number, line, arrival, .. } = request;
        let waiting = self.writes.len() + self.released;
        if waiting >= self.rules.write_queue {
            self.outside.push_back(request);
            return self.entry(line, arrival);
        }
        // When the last has left with which there would be too many.
        if let Some(leaves) = self.plan.write_before(self.rules.write_queue - 1 - waiting, arrival) {
            leaves.entrant = Entrant { number, line, asked: arrival };
            request.arrival = leaves.clock;
        }
        enter(&mut self.filter, &mut self.writes, &request);
        request.arrival
    }

    /// The clock at which a write of `line` enters the write queue, which was said to be `told`. While it waits, that is
    /// the earliest at which it can: nothing is planned after `told` for its sake, because reads come in between.
    pub fn entry(&mut self, line: u64, told: u64) -> u64 {
        while let Some(before) = self.outside.iter().position(|write| write.line == line) {
            let last = self.plan.last_column();
            if last >= told {
                return last + (before as u64 + 1) * self.rules.burst;
            }
            self.serve();
        }
        self.plan.entry(line).map_or(told, |entry| entry.max(told))
    }

    /// A write enters the write queue only later: the one is still there that was to make room for it.
    #[cold]
    pub(super) fn leave(&mut self, Entrant { number, asked, .. }: Entrant) {
        let waits = |list: &[Request]| list.iter().position(|write| write.write && write.number == number);
        let mut write = if let Some(place) = waits(&self.writes) {
            self.writes.remove(place)
        } else if let Some(place) = waits(&self.candidates) {
            self.released -= 1;
            self.candidates.remove(place)
        } else {
            unreachable!("a write that entered the queue is there")
        };
        count_out(&mut self.filter, write.line);
        write.arrival = asked;
        self.outside.push_front(write);
    }

    /// Releases a batch of writes if one begins before the command of `best`.
    pub(super) fn releases(&mut self, best: Option<&Choice>) -> bool {
        let Rules { write_high, write_low, write_idle, .. } = self.rules;
        // A batch has a write at least.
        let write_idle = write_idle.max(write_low);
        let full = match self.writes.get(write_high - 1) {
            Some(last) if best.is_none_or(|best| last.arrival <= best.clock) => last.arrival.max(self.release),
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
        let is_idle = idle < full;
        let arrived = if is_idle { self.writes.partition_point(|write| write.arrival <= from) } else { write_high };
        self.release(arrived - write_low, from, is_idle);
        true
    }

    /// Releases the first `count` writes at clock `from`, because nothing else waits or because there are so many.
    #[cold]
    pub(super) fn release(&mut self, count: usize, from: u64, idle: bool) {
        self.plan.push_release(from, idle, self.release, &self.writes[..count]);
        self.tally.batches += 1;
        self.release = from;
        self.released += count;
        self.batch = self.batch.wrapping_add(1);
        let batch = self.batch;
        let place = self.candidates.partition_point(|other| other.arrival > from);
        let released =
            self.writes.drain(..count).rev().map(|write| Request { arrival: write.arrival.max(from), batch, ..write });
        self.candidates.splice(place..place, released);
    }
}

/// A write enters the write queue, whose lines `filter` counts.
#[inline(always)]
pub(super) fn enter(filter: &mut [u8], writes: &mut Vec<Request>, request: &Request) {
    count_in(filter, request.line);
    insert(writes, request);
}

/// Counts a line that is in the write queue from now on.
#[inline(always)]
pub(super) fn count_in(filter: &mut [u8], line: u64) {
    let count = &mut filter[Channel::filter_of(line)];
    *count = count.saturating_add(1);
}

/// Counts a line that is in the write queue no longer.
#[inline(always)]
pub(super) fn count_out(filter: &mut [u8], line: u64) {
    let count = &mut filter[Channel::filter_of(line)];
    *count = count.saturating_sub(1);
}

/// Inserts a request by its arrival, and among those of the same arrival by its number.
#[inline(always)]
pub(super) fn insert(list: &mut Vec<Request>, request: &Request) {
    let mut place = list.len();
    while place > 0 && request.precedes(&list[place - 1]) {
        place -= 1;
    }
    list.insert(place, *request);
}
