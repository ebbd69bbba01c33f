//! The operating system's tracks: its work on each core, what it counts, shootdowns, and pages that are
//! copied.
//!
//! What an action did is what the counters of the kernel, of page tables and of placements have counted in
//! it: so events of all designs are shown, by the names of their counters.

use super::recording::Clock;
use crate::counter_index::CounterIndex;
use crate::os_events::OperatingSystem;
use ambulator_base::{CounterDef, CounterSink, Cycle, FRAME_BYTES, Unit};
use ambulator_hardware::{CopyId, Hierarchy};
use ambulator_os::{Migration, Shootdown};
use ambulator_timeline::{Event, Lanes, Sequence, Track, Value};
use std::collections::BTreeMap;

/// Why the operating system works.
pub(crate) struct Action {
    name: &'static str,
    arguments: Vec<(&'static str, Value)>,
}

impl Action {
    /// An action of that name.
    pub fn new(name: &'static str) -> Action {
        Action { name, arguments: Vec::new() }
    }

    /// Adds what is known of it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value) -> Action {
        self.arguments.push((name, value));
        self
    }
}

/// A counter of the operating system.
struct Counted {
    def: &'static CounterDef,
    name: String,
    /// Its value at the last look, and at this one.
    before: u64,
    now: u64,
    track: Option<Track>,
}

/// All counters of the operating system.
#[derive(Default)]
struct CountedAll {
    index: CounterIndex,
    counters: Vec<Counted>,
}

impl CounterSink for CountedAll {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        let (place, new) = self.index.find(prefix, def);
        if let Some(name) = new {
            self.counters.push(Counted { def, name, before: 0, now: 0, track: None });
        }
        self.counters[place].now += value;
    }
}

impl CountedAll {
    /// Takes all values.
    fn look(&mut self, os: &OperatingSystem) {
        self.index.begin();
        for counted in &mut self.counters {
            counted.before = std::mem::take(&mut counted.now);
        }
        os.report_counters(self);
    }
}

/// A page that is being copied.
struct Copy {
    id: CopyId,
    from: u64,
    moved: Migration,
}

/// The tracks of the operating system.
pub(crate) struct SystemTracks {
    process: Track,
    group: Track,
    shootdowns: Option<Track>,
    copies: Lanes,
    free: Track,
    free_bytes: Option<u64>,
    counted: CountedAll,
    /// By core: its track.
    cores: BTreeMap<usize, Track>,
    action: Option<Action>,
    /// Work of the present action: core, cycles, end.
    work: Vec<(usize, u64, u64)>,
    copying: Vec<Copy>,
}

impl SystemTracks {
    pub fn new(sequence: &mut Sequence, process: Track, os: &OperatingSystem) -> SystemTracks {
        let group = sequence.track(process, "operating system", 10_000);
        let mut counted = CountedAll::default();
        counted.look(os);
        SystemTracks {
            process,
            group,
            shootdowns: None,
            copies: Lanes::new(group, "page copies", 2),
            free: sequence.counter(group, "free memory", "bytes", 3),
            free_bytes: None,
            counted,
            cores: BTreeMap::new(),
            action: None,
            work: Vec::new(),
            copying: Vec::new(),
        }
    }

    /// What the operating system does next has this reason.
    pub fn begin(&mut self, action: Action) {
        self.action = Some(action);
    }

    /// It has worked on a core for some cycles, which end at `until`.
    pub fn worked(&mut self, core: usize, cycles: u64, until: Cycle) {
        self.work.push((core, cycles, until.0));
    }

    /// A TLB shootdown at `now`.
    pub fn shootdown(&mut self, sequence: &mut Sequence, clock: Clock, now: Cycle, what: &Shootdown) {
        let track = *self.shootdowns.get_or_insert_with(|| sequence.track(self.group, "TLB shootdowns", 1));
        let mut event = Event::new("os", if what.page.is_some() { "page" } else { "address space" })
            .with("asid", Value::Number(u64::from(what.asid.0)));
        if let Some(page) = what.page {
            event = event
                .with("address", Value::Address(page.start.0))
                .with("page_size", Value::Text(page.size.to_string()));
        }
        sequence.instant(track, clock.cycle(now.0), &event);
    }

    /// A page is copied in the background from `now` on.
    pub fn copy(&mut self, id: CopyId, now: Cycle, moved: Migration) {
        self.copying.push(Copy { id, from: now.0, moved });
    }

    /// Puts copies that have ended onto their tracks.
    pub fn end_copies(&mut self, sequence: &mut Sequence, clock: Clock, hierarchy: &Hierarchy) {
        let copies = &mut self.copies;
        self.copying.retain(|copy| {
            let ended = hierarchy.copied(copy.id);
            if let Some(ended) = ended {
                show_copy(sequence, clock, copies, copy, ended.0.max(copy.from), true);
            }
            ended.is_none()
        });
    }

    /// The action of a core has ended at `now`.
    pub fn settled(&mut self, sequence: &mut Sequence, clock: Clock, os: &OperatingSystem, now: Cycle) {
        let action = self.action.take().unwrap_or_else(|| Action::new("kernel"));
        self.counted.look(os);
        let (group, at) = (self.group, clock.cycle(now.0));
        let mut arguments: Vec<(String, Value)> =
            action.arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for (place, counted) in self.counted.counters.iter_mut().enumerate() {
            let (before, after) = (counted.before, counted.now);
            if before == after {
                continue;
            }
            // Above the counters of a kind, and below what has a track anyhow.
            let order = 100 + place as i32;
            if counted.def.gauge {
                if counted.def.unit == Unit::Bytes {
                    let track = *counted
                        .track
                        .get_or_insert_with(|| sequence.counter(group, &counted.name, "bytes", 10_000 + order));
                    sequence.count(track, at, after as i64);
                }
                continue;
            }
            let Some(added) = after.checked_sub(before) else { continue };
            if counted.def.unit == Unit::Events {
                let track = *counted.track.get_or_insert_with(|| sequence.track(group, &counted.name, order));
                let event = Event::new("count", counted.name.as_str()).with("count", Value::Number(added));
                sequence.instant(track, at, &event);
            }
            arguments.push((counted.name.clone(), Value::Number(added)));
        }
        for (core, cycles, until) in std::mem::take(&mut self.work) {
            let process = self.process;
            let track = *self.cores.entry(core).or_insert_with(|| {
                sequence.track(process, &format!("core {core}: operating system"), 5_000 + core as i32)
            });
            let mut event = Event::new("os", action.name).with("cycles", Value::Number(cycles));
            for (name, value) in &arguments {
                event = event.with(name.as_str(), value.clone());
            }
            let from = until.saturating_sub(cycles);
            sequence.slice(track, clock.cycle(from), clock.cycle(until), &event);
        }
        let free = os.kernel().frames.free_frames() * FRAME_BYTES;
        if self.free_bytes.replace(free) != Some(free) {
            sequence.count(self.free, at, free as i64);
        }
    }

    /// The window ends at cycle `now`.
    pub fn finish(
        &mut self,
        sequence: &mut Sequence,
        clock: Clock,
        hierarchy: &Hierarchy,
        os: &OperatingSystem,
        now: u64,
    ) {
        self.end_copies(sequence, clock, hierarchy);
        for copy in std::mem::take(&mut self.copying) {
            show_copy(sequence, clock, &mut self.copies, &copy, now.max(copy.from), false);
        }
        self.settled(sequence, clock, os, Cycle(now));
    }
}

fn show_copy(sequence: &mut Sequence, clock: Clock, lanes: &mut Lanes, copy: &Copy, until: u64, ended: bool) {
    let Copy { from, moved, .. } = copy;
    let event = Event::new("os", "copy of a page")
        .with("asid", Value::Number(u64::from(moved.asid.0)))
        .with("address", Value::Address(moved.page.start.0))
        .with("page_size", Value::Text(moved.page.size.to_string()))
        .with("from", Value::Address(moved.from.start().0))
        .with("to", Value::Address(moved.to.start().0))
        .with("ended_in_window", Value::Flag(ended));
    let (from, until) = (clock.cycle(*from), clock.cycle(until));
    let lane = lanes.take(sequence, from, until);
    sequence.slice(lane, from, until, &event);
}
