//! Zeroing of pages by the cores' kernels: lines that are written to main memory past the caches.
//!
//! Each core writes its lines one after another, spread over the cycles that the kernel takes for them, and
//! all cores together at most as fast as the data buses. Their lines wait in the write queues of main memory, as soon
//! as these have room, and compete with all other accesses; no instruction waits for them.

use crate::DramSpec;
use crate::dram::BUS_BYTES;
use crate::in_flight::LinesInFlight;
use crate::main_memory::MainMemory;
use ambulator_base::{LINE_BYTES, State, counters};
use std::collections::VecDeque;

counters! {
    /// Counters of zeroing.
    pub struct ZeroingCounters {
        /// Lines of fresh pages that the kernel's zeroing wrote to main memory.
        lines: Events,
    }
}

/// Times are in 1/256 cycle.
const FRACTION_BITS: u32 = 8;

/// Adjacent lines that a core writes at a steady rate.
#[derive(Clone, Copy, Debug, Default, State)]
struct Run {
    line: u64,
    end: u64,
    /// When the next line is written, and how long after it the one that follows.
    next: u64,
    pace: u64,
}

/// What a core has yet to zero, and its lines under way.
#[derive(Clone, Debug, Default, State)]
struct Core {
    runs: VecDeque<Run>,
    written: LinesInFlight,
}

impl Core {
    /// When its next line can be written, if it has one.
    fn next(&self) -> Option<u64> {
        Some(self.runs.front()?.next.max(self.written.free() << FRACTION_BITS))
    }
}

/// The lines that cores have yet to zero.
#[derive(Clone, Debug, State)]
pub(crate) struct ZeroWrites {
    #[state(each)]
    cores: Box<[Core]>,
    waiting: usize,
    /// Least time between two lines, and when the next may be written.
    #[state(skip)]
    spacing: u64,
    free: u64,
    pub(crate) counters: ZeroingCounters,
}

impl ZeroWrites {
    /// No zeroing by any of `cores`.
    pub(crate) fn new(cores: usize, dram: &DramSpec, clock_mhz: u64) -> ZeroWrites {
        let lines_per_us = dram.data_rate as f64 * f64::from(dram.channels) * BUS_BYTES as f64 / LINE_BYTES as f64;
        let line_cycles = clock_mhz as f64 / lines_per_us;
        ZeroWrites {
            cores: vec![Core::default(); cores].into(),
            waiting: 0,
            spacing: (line_cycles * f64::from(1 << FRACTION_BITS)).round() as u64,
            free: 0,
            counters: ZeroingCounters::default(),
        }
    }

    #[inline(always)]
    pub(crate) fn idle(&self) -> bool {
        self.waiting == 0
    }

    /// A core zeroes `lines` lines (at least one) from `first` on during `cycles` cycles from `begin` on,
    /// after those that it zeroed before.
    pub(crate) fn request(&mut self, core: usize, first: u64, lines: u64, begin: u64, cycles: u64) {
        let (next, pace) = (begin << FRACTION_BITS, (cycles << FRACTION_BITS) / lines);
        self.cores[core].runs.push_back(Run { line: first, end: first + lines, next, pace });
        self.waiting += 1;
    }

    /// Writes the lines that are due by cycle `now`.
    #[cold]
    pub(crate) fn advance(&mut self, now: u64, memory: &mut MainMemory) {
        self.cores.iter_mut().for_each(|core| core.written.ask(now, memory));
        while let Some((next, number)) =
            (self.cores.iter().enumerate()).filter_map(|(number, core)| Some((core.next()?, number))).min()
        {
            let at = next.max(self.free);
            if at >> FRACTION_BITS > now {
                break;
            }
            let Core { runs, written } = &mut self.cores[number];
            let run = &mut runs[0];
            let socket = memory.socket_of_core(number);
            let done = memory.write(run.line, false, socket, at >> FRACTION_BITS);
            written.push(run.line, done);
            written.ask(now, memory);
            self.counters.lines += 1;
            self.free = at + self.spacing;
            run.line += 1;
            run.next = at + run.pace;
            if run.line == run.end {
                let after = run.next;
                runs.pop_front();
                self.waiting -= 1;
                if let Some(following) = runs.front_mut() {
                    following.next = following.next.max(after);
                }
            }
        }
    }

    /// Writes all that is left, at cycle `now`: what kernels zeroed without time, however much it is, has been written
    /// when time goes on.
    pub(crate) fn finish(&mut self, now: u64, memory: &mut MainMemory) {
        for (number, core) in self.cores.iter_mut().enumerate() {
            let socket = memory.socket_of_core(number);
            for run in core.runs.drain(..) {
                for line in run.line..run.end {
                    memory.write(line, false, socket, now);
                }
                self.counters.lines += run.end - run.line;
            }
        }
        self.waiting = 0;
        self.free = self.free.min(now << FRACTION_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dram;
    use crate::in_flight::IN_FLIGHT;

    /// A line on the bus takes 5 cycles.
    fn build(cores: usize) -> (ZeroWrites, MainMemory) {
        let spec = DramSpec { channels: 1, data_rate: 3200, ..DramSpec::default() };
        (ZeroWrites::new(cores, &spec, 2000), MainMemory::new(Dram::new(&spec, 2000, true)))
    }

    #[test]
    fn a_core_writes_its_lines_evenly_over_the_cycles_that_zeroing_takes() {
        let (mut zeroing, mut dram) = build(2);
        zeroing.request(0, 64, 64, 1000, 512);
        zeroing.request(0, 1 << 20, 64, 1512, 512);
        for (now, lines) in
            [(999, 0), (1000, 1), (1007, 1), (1008, 2), (1255, 32), (1511, 64), (2015, 127), (2016, 128)]
        {
            zeroing.advance(now, &mut dram);
            assert_eq!((now, zeroing.counters.lines, dram.counters().data_writes), (now, lines, lines));
        }
        assert!(zeroing.idle());
    }

    #[test]
    fn what_is_zeroed_without_time_does_not_last_until_it_goes_on() {
        let (mut zeroing, mut dram) = build(2);
        (0..1000).for_each(|page| zeroing.request(page as usize % 2, page * 32_768, 32_768, 1000, 262_144));
        zeroing.advance(5000, &mut dram);
        assert!(!zeroing.idle());
        dram.set_timed(false, 5000);
        zeroing.finish(10_000, &mut dram);
        assert_eq!((zeroing.counters.lines, zeroing.idle()), (32_768_000, true));
        assert_eq!(dram.counters().data_writes, 32_768_000);
        dram.set_timed(true, 10_000);
        // The next page is written in its own time.
        zeroing.request(0, 64, 64, 10_000, 512);
        zeroing.advance(10_511, &mut dram);
        assert_eq!((zeroing.counters.lines, zeroing.idle()), (32_768_064, true));
    }

    #[test]
    fn cores_together_are_no_faster_than_the_buses() {
        let (mut zeroing, mut dram) = build(4);
        // Each page is in a bank of its own.
        for core in 0..4 {
            zeroing.request(core, 128 * core as u64, 64, 0, 512);
        }
        // Four cores would write a line every two cycles.
        zeroing.advance(499, &mut dram);
        assert_eq!(zeroing.counters.lines, 100);
        let left: Vec<u64> = zeroing.cores.iter().map(|core| core.runs[0].end - core.runs[0].line).collect();
        assert!(left.iter().all(|left| left.abs_diff(39) <= 1), "each gets its share: {left:?}");
        zeroing.advance(5 * 256, &mut dram);
        assert_eq!((zeroing.counters.lines, zeroing.idle()), (256, true));
    }

    #[test]
    fn lines_wait_for_room_in_the_write_queue() {
        let (mut zeroing, mut dram) = build(4);
        // Rows of one bank: it opens them one after another, and the bus could take twelve lines meanwhile.
        for core in 0..4 {
            zeroing.request(core, 4096 * core as u64, 4096, 0, 20_480);
        }
        let (mut worst, mut now) = (0, 0);
        while !zeroing.idle() {
            now += 100;
            zeroing.advance(now, &mut dram);
            assert!(dram.queued_writes() <= 64, "{} lines wait in the queue", dram.queued_writes());
            // A read of another bank waits for a batch and a refresh at most: a microsecond.
            if now % 2000 == 0 {
                worst = worst.max(dram.read((1 << 30) + 1024 * now + 128, false, 0, now) - now);
            }
        }
        let counters = dram.counters();
        assert_eq!((zeroing.counters.lines, counters.data_writes), (4 * 4096, 4 * 4096));
        let waiting = counters.data_writes + counters.data_reads - counters.bus_busy / 5;
        let queued = dram.queued_writes();
        assert!(queued <= 64, "{queued} lines wait in the queue");
        assert!(waiting - queued <= 4 * IN_FLIGHT as u64, "{waiting} lines wait, {queued} of them in the queue");
        assert!(now > 5 * 4 * 4096 * 5 / 4, "{now} cycles, as many as the bus takes");
        assert!(worst < 2000, "a read waited for {worst} cycles");
    }
}
