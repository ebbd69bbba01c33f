//! Main memory, clock by clock: one controller for each channel, which sends one command a DRAM clock.
//!
//! Reads wait in a read queue. Writes gather, and are released in batches. Among
//! the oldest reads and released writes, the first whose column command is allowed goes first, unless it
//! delays an older write; in each bank the oldest request for another row than the open one is passed only
//! until that row can be precharged, and only so often. A read of a line that waits to be written takes its
//! data from there.

mod bank;
mod controller;
mod rules;

#[cfg(test)]
mod tests;

pub use rules::DramChoices;

use super::events::{Event, Events, Writer};
use ambulator_hardware::{DramModel, DramSpec};
use bank::Command;
use controller::{Channel, Sent};
use rules::Rules;
use std::collections::HashMap;

/// Main memory.
pub struct Dram {
    rules: Rules,
    channels: Vec<Channel>,
    /// DRAM clock `c` begins at core cycle `c * ratio.0 / ratio.1`.
    ratio: (u64, u64),
    /// The clock that comes next.
    clock: u64,
    /// With a fixed latency: its cycles.
    fixed: Option<u64>,
    /// The cycles at which the reads under way arrived, by line.
    arrived: HashMap<u64, u64>,
    /// Lines read and written since the counters were reset, and commands by kind.
    pub counts: DramCounts,
}

/// Counters of main memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct DramCounts {
    pub reads: u64,
    pub writes: u64,
    /// Rows opened.
    pub activates: u64,
    /// Cycles from the arrival of reads to their data.
    pub read_cycles: u64,
}

impl Dram {
    /// Idle memory with all rows closed.
    pub fn new(spec: &DramSpec, clock_mhz: u64, choices: DramChoices) -> Dram {
        let rules = Rules::new(spec, choices);
        let (ranks, ..) = rules.parts();
        // The refreshes of all ranks are spread over tREFI.
        let apart = rules.refi / (ranks * spec.channels as usize) as u64;
        let first = |channel: usize, rank: usize| rules.refi - (channel * ranks + rank) as u64 * apart;
        Dram {
            channels: (0..spec.channels as usize).map(|c| Channel::new(&rules, |rank| first(c, rank))).collect(),
            ratio: (2 * clock_mhz, spec.data_rate),
            clock: 1,
            fixed: (spec.model == DramModel::Fixed).then(|| (spec.fixed_ns * clock_mhz as f64 / 1000.0).round() as u64),
            arrived: HashMap::new(),
            counts: DramCounts::default(),
            rules,
        }
    }

    /// The first cycle that is not before a clock.
    fn cycle(&self, clock: u64) -> u64 {
        (clock * self.ratio.0).div_ceil(self.ratio.1)
    }

    /// A read has reached the controller. It answers with a `Fill` of the cache `reader`.
    pub fn read(&mut self, line: u64, reader: usize, events: &mut Events) {
        if let Some(fixed) = self.fixed {
            self.counts.reads += 1;
            self.counts.read_cycles += fixed;
            events.after(fixed, Event::Fill(reader, line));
            return;
        }
        let at = self.rules.place(line);
        if self.channels[at.channel].arrive(line, false, at, self.clock) {
            events.after(self.cycle(self.clock + 1).saturating_sub(events.now), Event::Fill(reader, line));
        } else {
            self.arrived.insert(line, events.now);
        }
    }

    /// A write has reached the controller. Returns false if it has to wait for room: a `Queued` says when it has not.
    pub fn write(&mut self, line: u64, writer: Writer) -> bool {
        if self.fixed.is_some() {
            self.counts.writes += 1;
            return true;
        }
        let at = self.rules.place(line);
        self.channels[at.channel].write(line, writer, at, self.clock)
    }

    /// All DRAM clocks before this core cycle, which see nothing of it, or also one that begins with it. `llc` is the cache
    /// that reads.
    pub fn step(&mut self, with_now: bool, llc: usize, events: &mut Events) {
        while self.clock * self.ratio.0 < events.now * self.ratio.1 + u64::from(with_now) {
            let now = self.clock;
            for number in 0..self.channels.len() {
                match self.channels[number].step(now) {
                    Some(Sent::Line { line, write: false, end }) => {
                        self.counts.reads += 1;
                        let ready = self.cycle(end);
                        self.counts.read_cycles += ready - self.arrived.remove(&line).unwrap_or(ready);
                        events.after(ready - events.now, Event::Fill(llc, line));
                    }
                    Some(Sent::Line { .. }) => self.counts.writes += 1,
                    Some(Sent::Row(Command::Activate, _)) => self.counts.activates += 1,
                    _ => {}
                }
                while let Some(writer) = self.channels[number].let_in(now) {
                    events.after(1, Event::Queued(writer));
                }
            }
            self.clock += 1;
        }
    }
}
