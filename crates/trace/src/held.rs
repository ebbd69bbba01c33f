//! Records held back until the last use of their values is known, and registers for those values: for formats
//! that say in registers what depends on what.
//!
//! A load that a later record depends on writes a register, which that record reads. The register is free again
//! after its value's last use, as a compiler allocates them. If all are live, the value with the farthest last
//! use loses its register, and its dependence is not written.

use ambulator_base::{Record, RecordKind, VmEvent};
use std::collections::VecDeque;

/// Records that are held back: as far as a dependence reaches.
const HELD: usize = 1 << 16;

/// A record whose last use is not yet known.
struct Held {
    record: Record,
    /// Number of the last record so far that depends on it, or 0.
    last_use: u64,
}

/// A register: whose value it holds, and until which record.
#[derive(Clone, Copy, Default)]
struct Register {
    name: u8,
    owner: u64,
    last_use: u64,
}

/// A record with its registers; 0 is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocated {
    pub record: Record,
    /// Those that hold the values that it depends on.
    pub sources: [u8; 2],
    /// The one that its own value goes to.
    pub destination: u8,
}

/// What comes next in the stream.
#[derive(Debug)]
pub(crate) enum Step {
    Record(Allocated),
    Event(VmEvent),
}

/// Records and the events between them, on their way to a file.
pub(crate) struct HeldRecords {
    held: VecDeque<Held>,
    /// Events, each with the number of the record that comes after it.
    events: VecDeque<(u64, VmEvent)>,
    /// Number (from 1) of the first held record.
    first: u64,
    registers: Vec<Register>,
}

impl HeldRecords {
    /// Nothing is held yet; values go to these registers.
    pub fn new(names: impl Iterator<Item = u8>) -> HeldRecords {
        HeldRecords {
            held: VecDeque::with_capacity(HELD + 1),
            events: VecDeque::new(),
            first: 1,
            registers: names.map(|name| Register { name, ..Register::default() }).collect(),
        }
    }

    /// Appends a record.
    pub fn push(&mut self, record: &Record) {
        let number = self.first + self.held.len() as u64;
        for distance in [record.dep1, record.dep2] {
            if let Some(producer) = self.producer(number, distance) {
                producer.last_use = number;
            }
        }
        self.held.push_back(Held { record: *record, last_use: 0 });
    }

    /// Appends an event.
    pub fn push_event(&mut self, event: VmEvent) {
        self.events.push_back((self.first + self.held.len() as u64, event));
    }

    /// The next record or event, if more are held than need be; at the end of the stream (`all`), any.
    pub fn next(&mut self, all: bool) -> Option<Step> {
        if !all && self.held.len() <= HELD && self.events.len() <= HELD {
            return None;
        }
        if self.event_is_next() {
            return self.events.pop_front().map(|(_, event)| Step::Event(event));
        }
        let Held { record, last_use } = self.held.pop_front()?;
        let number = self.first;
        self.first += 1;
        let sources = [record.dep1, record.dep2].map(|distance| self.source(number, distance));
        let destination = if record.kind == RecordKind::Load { self.destination(number, last_use) } else { 0 };
        Some(Step::Record(Allocated { record, sources, destination }))
    }

    /// The record that follows the one that [`HeldRecords::next`] gave, if it is held and no event is between.
    pub fn following(&self) -> Option<&Record> {
        self.held.front().filter(|_| !self.event_is_next()).map(|held| &held.record)
    }

    /// Whether an event comes before the first held record.
    fn event_is_next(&self) -> bool {
        self.events.front().is_some_and(|(number, _)| *number <= self.first)
    }

    /// The held record that the one with this number depends on at `distance`, if it is a load.
    fn producer(&mut self, number: u64, distance: u16) -> Option<&mut Held> {
        let producer = number.checked_sub(u64::from(distance)).filter(|_| distance > 0)?;
        let held = self.held.get_mut(usize::try_from(producer.checked_sub(self.first)?).ok()?)?;
        (held.record.kind == RecordKind::Load).then_some(held)
    }

    /// The register that still holds the value of the load `distance` records before this one; 0 if none does.
    fn source(&self, number: u64, distance: u16) -> u8 {
        let Some(producer) = number.checked_sub(u64::from(distance)).filter(|p| distance > 0 && *p > 0) else {
            return 0;
        };
        self.registers.iter().find(|held| held.owner == producer).map_or(0, |held| held.name)
    }

    /// A register for the value of a load; 0 if all hold values that are used before this one's last use.
    fn destination(&mut self, number: u64, last_use: u64) -> u8 {
        if last_use == 0 {
            return 0;
        }
        let mut place = 0;
        for (at, register) in self.registers.iter().enumerate() {
            if register.last_use <= number {
                place = at;
                break;
            }
            if register.last_use > self.registers[place].last_use {
                place = at;
            }
        }
        let register = &mut self.registers[place];
        if register.last_use > number && register.last_use <= last_use {
            return 0;
        }
        (register.owner, register.last_use) = (number, last_use);
        register.name
    }
}
