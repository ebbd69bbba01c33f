//! What happens in a window, on its way to the file.

use super::memory::MemoryTracks;
use super::steps::CoreTracks;
use super::system::SystemTracks;
use super::{PER_CYCLE, RecordedWindow, TimelinePart, TimelineRequest, WindowEnd};
use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use crate::report::report_counters;
use crate::result::Gathered;
use ambulator_base::watch::{self, Step};
use ambulator_base::{AccessKind, Cycle, VirtAddr};
use ambulator_mmu::MmuCounters;
use ambulator_os::Shootdown;
use ambulator_timeline::{Event, Sequence, Track, Value};
use std::collections::BTreeMap;

/// Bytes that are collected before they go to the file.
const CHUNK: usize = 1 << 16;

/// Time as Perfetto counts it: from the window's begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The cycle of the window's begin.
    pub begin: u64,
}

impl Clock {
    /// A cycle of the run; what is before the window is at its begin.
    pub fn cycle(self, cycle: u64) -> u64 {
        cycle.saturating_sub(self.begin) * PER_CYCLE
    }
}

/// A quantity that goes up and down at known times, which come in any order.
#[derive(Debug)]
pub(super) struct Level {
    track: Track,
    changes: Vec<(u64, i64)>,
}

impl Level {
    pub fn new(track: Track) -> Level {
        Level { track, changes: Vec::new() }
    }

    /// One more from `from` to `until` nanoseconds.
    pub fn add(&mut self, from: u64, until: u64) {
        self.changes.push((from, 1));
        self.changes.push((until, -1));
    }

    /// Puts it on its track.
    fn write(mut self, sequence: &mut Sequence) {
        self.changes.sort_unstable();
        let mut now = 0;
        sequence.count(self.track, 0, 0);
        for (at, change) in self.changes.chunk_by(|a, b| a.0 == b.0).map(|same| {
            let sum: i64 = same.iter().map(|(_, change)| change).sum();
            (same[0].0, sum)
        }) {
            now += change;
            if change != 0 {
                sequence.count(self.track, at, now);
            }
        }
    }
}

/// A translation, and the steps that it took.
pub(crate) struct Translated {
    /// The core.
    pub core: usize,
    /// The address, and its process.
    pub va: VirtAddr,
    pub process: u32,
    pub access: AccessKind,
    /// When it began, and when its result was known.
    pub from: Cycle,
    pub until: Cycle,
    /// What the MMU had counted before, and after.
    pub before: MmuCounters,
    pub after: MmuCounters,
    pub steps: Vec<Step>,
}

/// The recording of a machine's window.
pub(crate) struct Recording {
    sequence: Sequence,
    clock: Clock,
    part: TimelinePart,
    request: TimelineRequest,
    design: String,
    window: Track,
    cores: Vec<CoreTracks>,
    pub system: SystemTracks,
    memory: MemoryTracks,
    /// Instructions and measured cycles at the begin, and every counter that is not 0.
    from: (u64, u64),
    before: BTreeMap<String, u64>,
    bytes: u64,
}

fn counters(hw: &Hardware, os: &OperatingSystem) -> BTreeMap<String, u64> {
    let mut all = Gathered::default();
    report_counters(hw, os, &mut all);
    let gauges = |name: &String| all.meanings.get(name).is_some_and(|meaning| meaning.gauge);
    let values = all.values.iter().filter(|(name, _)| !gauges(name));
    values.map(|(name, value)| (name.clone(), *value)).collect()
}

impl Recording {
    /// Begins a recording now.
    pub fn begin(
        hw: &Hardware,
        os: &OperatingSystem,
        part: TimelinePart,
        design: &str,
        request: TimelineRequest,
    ) -> Recording {
        let number = part.number as u32 + 1;
        let mut sequence = Sequence::new(number);
        let process = sequence.process(number as i32, design);
        let window = sequence.track(process, "window", 0);
        let begin = |core: &crate::core::Core| core.window.now().0.min(core.window.next_event());
        let clock = Clock { begin: hw.cores.iter().map(begin).min().unwrap_or(0) };
        let cores = (0..hw.cores.len()).map(|core| CoreTracks::new(&mut sequence, process, core)).collect();
        let system = SystemTracks::new(&mut sequence, process, os);
        let memory = MemoryTracks::new(&mut sequence, process, clock, number);
        Recording {
            sequence,
            clock,
            part,
            request,
            design: design.to_owned(),
            window,
            cores,
            system,
            memory,
            from: (hw.instructions(), hw.measured_cycles()),
            before: counters(hw, os),
            bytes: 0,
        }
    }

    /// A translation has ended.
    pub fn translation(&mut self, told: Translated) {
        let Recording { sequence, clock, cores, memory, .. } = self;
        cores[told.core].translation(sequence, *clock, told, memory);
    }

    /// The kernel or the hypervisor requests a TLB shootdown.
    pub fn shootdown(&mut self, now: Cycle, what: &Shootdown) {
        self.system.shootdown(&mut self.sequence, self.clock, now, what);
    }

    /// The action that the operating system has begun has ended.
    pub fn settled(&mut self, os: &OperatingSystem, now: Cycle) {
        self.system.settled(&mut self.sequence, self.clock, os, now);
    }

    /// Puts what main memory has done onto tracks, and writes what there is. Says why the window has ended,
    /// if it has.
    pub fn progress(&mut self, hw: &mut Hardware) -> Option<WindowEnd> {
        // Steps of translations that missed nothing.
        drop(watch::take());
        self.memory.take(&mut self.sequence, &mut hw.hierarchy, false);
        self.system.end_copies(&mut self.sequence, self.clock, &hw.hierarchy);
        for (core, tracks) in hw.cores.iter().zip(&mut self.cores) {
            tracks.sample(&mut self.sequence, self.clock, core);
        }
        let done = (hw.instructions() - self.from.0 >= self.request.instructions).then_some(WindowEnd::Complete);
        let written = if self.sequence.len() >= CHUNK { self.write() } else { None };
        written.or(done)
    }

    fn write(&mut self) -> Option<WindowEnd> {
        let bytes = self.sequence.take();
        self.bytes += bytes.len() as u64;
        self.part.append(&bytes)
    }

    /// The window ends.
    pub fn end(mut self, hw: &mut Hardware, os: &OperatingSystem, end: WindowEnd) {
        self.memory.take(&mut self.sequence, &mut hw.hierarchy, true);
        let now = hw.cores.iter().map(|core| core.window.retired_cycle().0.max(core.window.now().0)).max().unwrap_or(0);
        self.system.finish(&mut self.sequence, self.clock, &hw.hierarchy, os, now);
        let cycles = hw.measured_cycles() - self.from.1;
        let instructions = hw.instructions() - self.from.0;
        let mut window = Event::new("window", "window")
            .with("design", Value::Text(self.design.clone()))
            .with("cycle", Value::Text(format!("{PER_CYCLE} ns")))
            .with("begin_cycle", Value::Number(self.clock.begin))
            .with("begin_instruction", Value::Number(self.from.0))
            .with("instructions", Value::Number(instructions))
            .with("cycles", Value::Number(cycles))
            .with("dram_reads_before", Value::Number(self.memory.earlier.0))
            .with("dram_writes_before", Value::Number(self.memory.earlier.1));
        for (name, value) in counters(hw, os) {
            // Some counts are taken back: of commands that main memory plans again.
            let added = value.saturating_sub(self.before.get(&name).copied().unwrap_or(0));
            if added > 0 {
                window = window.with(format!("counters.{name}"), Value::Number(added));
            }
        }
        let until = self.clock.cycle(now);
        if end == WindowEnd::FileFull {
            let name = "the file has reached its size: nothing is recorded from here on";
            self.sequence.instant(self.window, until, &Event::new("window", name));
        }
        self.sequence.slice(self.window, 0, until, &window);
        let Recording { mut sequence, cores, memory, .. } = self;
        let levels = cores.into_iter().map(CoreTracks::into_level).chain(memory.into_levels());
        levels.for_each(|level| level.write(&mut sequence));
        let rest = sequence.take();
        let written = self.part.append(&rest);
        self.part.ended(RecordedWindow {
            design: self.design,
            from: self.from.0,
            instructions,
            cycles,
            events: sequence.events(),
            bytes: self.bytes + rest.len() as u64,
            end: Some(written.filter(|why| *why == WindowEnd::NotWritten).unwrap_or(end)),
        });
    }
}
