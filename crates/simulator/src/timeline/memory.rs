//! Main memory's tracks: each bank's commands, the data on each channel's bus, refreshes, and the reads that
//! wait.

use super::recording::{Clock, Level};
use ambulator_hardware::{DramAccess, DramEvent, Hierarchy, TICKS_PER_CYCLE};
use ambulator_timeline::{Event, Sequence, Track, Value};
use std::collections::{BTreeMap, HashMap};

/// The tracks of a channel.
struct ChannelTracks {
    group: Track,
    bus: Track,
    waiting: Level,
    banks: BTreeMap<(usize, usize), Track>,
    refreshes: BTreeMap<usize, Track>,
}

/// The tracks of main memory.
pub(super) struct MemoryTracks {
    group: Track,
    /// The tick of the window's begin.
    begin: u64,
    channels: BTreeMap<usize, ChannelTracks>,
    /// Reads, and writes, that the caches asked for in the window and that were sent before it: not shown.
    pub earlier: (u64, u64),
    /// By line: when a walk asked for it and when it came, in ticks, and the number of the flow.
    awaited: HashMap<u64, Vec<(u64, u64, u64)>>,
    flows: u64,
    taken: Vec<DramEvent>,
}

impl MemoryTracks {
    /// `number` tells the flows of this design from those of others.
    pub fn new(sequence: &mut Sequence, process: Track, clock: Clock, number: u32) -> MemoryTracks {
        MemoryTracks {
            group: sequence.track(process, "main memory", 20_000),
            begin: clock.begin * TICKS_PER_CYCLE,
            channels: BTreeMap::new(),
            earlier: (0, 0),
            awaited: HashMap::new(),
            flows: u64::from(number) << 40,
            taken: Vec::new(),
        }
    }

    /// A load of a walk waits for main memory: the flow to the command that brings its line.
    pub fn awaited(&mut self, at: u64, from: u64, until: u64) -> u64 {
        self.flows += 1;
        let ticks = |cycle: u64| cycle * TICKS_PER_CYCLE;
        self.awaited.entry(at / ambulator_base::LINE_BYTES).or_default().push((ticks(from), ticks(until), self.flows));
        self.flows
    }

    /// The flow that ends with this read.
    fn arrived(&mut self, access: &DramAccess) -> Option<u64> {
        if access.write || !access.table {
            return None;
        }
        let waits = self.awaited.get_mut(&access.line)?;
        let at = waits.iter().position(|(from, until, _)| (*from..=*until).contains(&access.data.1))?;
        let (_, _, flow) = waits.swap_remove(at);
        if waits.is_empty() {
            self.awaited.remove(&access.line);
        }
        Some(flow)
    }

    /// Nanoseconds of a tick; what is before the window is at its begin.
    fn at(&self, tick: u64) -> u64 {
        tick.saturating_sub(self.begin) * super::PER_CYCLE / TICKS_PER_CYCLE
    }

    /// Puts what main memory has done onto tracks; with `all`, also what a later request may still change.
    pub fn take(&mut self, sequence: &mut Sequence, hierarchy: &mut Hierarchy, all: bool) {
        let mut taken = std::mem::take(&mut self.taken);
        hierarchy.take_dram_log(all, &mut taken);
        for event in taken.drain(..) {
            match event {
                DramEvent::Access(access) => self.access(sequence, &access),
                DramEvent::Unused { channel, rank, bank, row, precharge, activate } => {
                    if activate.0 >= self.begin {
                        let bank = Self::bank(&mut self.channels, self.group, sequence, (channel, rank, bank));
                        self.opening(sequence, bank, row, precharge, Some(activate));
                    }
                }
                DramEvent::Refresh { channel, rank, due, from, until } => {
                    if from < self.begin {
                        continue;
                    }
                    let tracks = Self::channel(&mut self.channels, self.group, sequence, channel);
                    let (group, rank_number) = (tracks.group, rank as i32);
                    let track = *tracks
                        .refreshes
                        .entry(rank)
                        .or_insert_with(|| sequence.track(group, &format!("rank {rank}: refreshes"), 10 + rank_number));
                    let event = Event::new("dram", "refresh").with("late_cycles", waited(due, from));
                    sequence.slice(track, self.at(from), self.at(until), &event);
                }
            }
        }
        self.taken = taken;
    }

    fn channel<'t>(
        channels: &'t mut BTreeMap<usize, ChannelTracks>,
        parent: Track,
        sequence: &mut Sequence,
        number: usize,
    ) -> &'t mut ChannelTracks {
        channels.entry(number).or_insert_with(|| {
            let group = sequence.track(parent, &format!("channel {number}"), number as i32);
            let waiting = sequence.counter(group, "reads waiting", "reads", 1);
            ChannelTracks {
                group,
                bus: sequence.track(group, "data bus", 0),
                waiting: Level::new(waiting),
                banks: BTreeMap::new(),
                refreshes: BTreeMap::new(),
            }
        })
    }

    /// The track of a bank of a channel's rank.
    fn bank(
        channels: &mut BTreeMap<usize, ChannelTracks>,
        parent: Track,
        sequence: &mut Sequence,
        (channel, rank, bank): (usize, usize, usize),
    ) -> Track {
        let tracks = Self::channel(channels, parent, sequence, channel);
        let (group, order) = (tracks.group, 100 + (rank * 1000 + bank) as i32);
        let track = || sequence.track(group, &format!("rank {rank}, bank {bank}"), order);
        *tracks.banks.entry((rank, bank)).or_insert_with(track)
    }

    /// A row is opened, and another one closed before.
    fn opening(
        &self,
        sequence: &mut Sequence,
        bank: Track,
        row: u32,
        precharge: Option<(u64, u64)>,
        activate: Option<(u64, u64)>,
    ) {
        let shown = |span: (u64, u64)| (span.0 >= self.begin).then(|| (self.at(span.0), self.at(span.1)));
        if let Some((from, until)) = precharge.and_then(shown) {
            sequence.slice(bank, from, until, &Event::new("dram", "precharge"));
        }
        if let Some((from, until)) = activate.and_then(shown) {
            let event = Event::new("dram", "activate").with("row", Value::Number(u64::from(row)));
            sequence.slice(bank, from, until, &event);
        }
    }

    fn access(&mut self, sequence: &mut Sequence, access: &DramAccess) {
        if access.column.0 < self.begin {
            if access.asked_in_log {
                *(if access.write { &mut self.earlier.1 } else { &mut self.earlier.0 }) += 1;
            }
            return;
        }
        let flow = self.arrived(access);
        let (at, begin) = (|tick: u64| self.at(tick), self.begin);
        let (arrival, column) = (at(access.arrival), (at(access.column.0), at(access.column.1)));
        let closing = access.closing.filter(|span| span.0 >= begin).map(|span| (at(span.0), at(span.1)));
        let data = (at(access.data.0), at(access.data.1));
        let place = (access.channel, access.rank, access.bank);
        let bank = Self::bank(&mut self.channels, self.group, sequence, place);
        self.opening(sequence, bank, access.row, access.precharge, access.activate);
        let row = || Value::Number(u64::from(access.row));
        let name = if access.write { "write" } else { "read" };
        let mut event = Event::new("dram", name)
            .with("row", row())
            .with("at", Value::Address(access.line * ambulator_base::LINE_BYTES))
            .with("table", Value::Flag(access.table))
            .with("waited_cycles", waited(access.arrival, access.column.0));
        if !access.asked_in_log {
            event = event.with("asked_before_window", Value::Flag(true));
        }
        event.ended_flows.extend(flow);
        sequence.slice(bank, column.0, column.1, &event);
        if let Some((from, until)) = closing {
            sequence.slice(bank, from, until, &Event::new("dram", "precharge"));
        }
        let of = if access.table { "table" } else { "data" };
        let tracks = Self::channel(&mut self.channels, self.group, sequence, access.channel);
        sequence.slice(tracks.bus, data.0, data.1, &Event::new("bus", format!("{name}: {of}")));
        if !access.write {
            tracks.waiting.add(arrival, column.0);
        }
    }

    /// What goes up and down.
    pub fn into_levels(self) -> impl Iterator<Item = Level> {
        self.channels.into_values().map(|channel| channel.waiting)
    }
}

/// Cycles from one tick to another.
fn waited(from: u64, until: u64) -> Value {
    Value::Float(until.saturating_sub(from) as f64 / TICKS_PER_CYCLE as f64)
}
