//! Reads what this crate writes, for tests of those who write it.

use crate::Value;
use crate::message::{DebugAnnotation, EventType, InternedData, InternedName, Trace, TrackEvent};
use prost::Message;
use std::collections::{BTreeMap, HashMap};

/// A track of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadTrack {
    /// Its name.
    pub name: String,
    /// The track that it is below.
    pub parent: Option<u64>,
    /// The values of a counter, by time.
    pub values: Vec<(u64, f64)>,
}

/// A slice or an instant of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadSlice {
    /// Its track, by number.
    pub track: u64,
    /// When it begins, in nanoseconds.
    pub from: u64,
    /// When it ends.
    pub until: u64,
    /// The slice around it, by its place in the list.
    pub inside: Option<usize>,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// Its arguments. Texts are [`Value::Text`].
    pub arguments: BTreeMap<String, Value>,
    /// Flows that begin here.
    pub flows: Vec<u64>,
    /// Flows that end here.
    pub ended_flows: Vec<u64>,
}

impl ReadSlice {
    /// A number or an address among the arguments.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.arguments.get(name) {
            Some(Value::Number(number) | Value::Address(number)) => Some(*number),
            _ => None,
        }
    }

    /// A text among the arguments; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        match self.arguments.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether a flag among the arguments is set.
    pub fn flag(&self, name: &str) -> bool {
        self.arguments.get(name) == Some(&Value::Flag(true))
    }
}

/// A whole trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadTrace {
    /// Tracks by number.
    pub tracks: BTreeMap<u64, ReadTrack>,
    /// Slices and instants.
    pub slices: Vec<ReadSlice>,
}

/// The names of a sequence by their numbers, in the order of the fields of `InternedData`.
#[derive(Default)]
struct Names([HashMap<u64, String>; 4]);

impl Names {
    fn add(&mut self, data: InternedData) {
        let InternedData { event_categories, event_names, debug_annotation_names, debug_annotation_string_values } =
            data;
        let lists = [event_categories, event_names, debug_annotation_names, debug_annotation_string_values];
        for (names, list) in self.0.iter_mut().zip(lists) {
            let new = list.into_iter().map(|InternedName { iid, name }| (iid.unwrap_or(0), name.unwrap_or_default()));
            names.extend(new);
        }
    }

    fn get(&self, kind: usize, number: Option<u64>) -> Result<String, String> {
        let number = number.ok_or("a name without a number")?;
        self.0[kind].get(&number).cloned().ok_or_else(|| format!("no name of kind {kind} has the number {number}"))
    }

    fn argument(&self, annotation: &DebugAnnotation) -> Result<(String, Value), String> {
        let name = self.get(2, annotation.name_iid)?;
        let value = match annotation {
            DebugAnnotation { bool_value: Some(flag), .. } => Value::Flag(*flag),
            DebugAnnotation { uint_value: Some(number), .. } => Value::Number(*number),
            DebugAnnotation { double_value: Some(number), .. } => Value::Float(*number),
            DebugAnnotation { string_value: Some(text), .. } => Value::Text(text.clone()),
            DebugAnnotation { pointer_value: Some(at), .. } => Value::Address(*at),
            DebugAnnotation { string_value_iid, .. } => Value::Text(self.get(3, *string_value_iid)?),
        };
        Ok((name, value))
    }
}

/// Reads a trace.
///
/// # Errors
/// Bytes that are no trace, names or tracks that are not described, slices that do not nest or do not end.
pub fn read(bytes: &[u8]) -> Result<ReadTrace, String> {
    let packets = Trace::decode(bytes).map_err(|error| error.to_string())?.packet;
    let mut trace = ReadTrace::default();
    let mut names: HashMap<u32, Names> = HashMap::new();
    // Events by time; those of one time in their order.
    let mut events: Vec<(u64, u32, TrackEvent)> = Vec::new();
    let mut named: Vec<ReadSlice> = Vec::new();
    for packet in packets {
        let sequence = packet.trusted_packet_sequence_id.ok_or("a packet of no sequence")?;
        let names = names.entry(sequence).or_default();
        if let Some(data) = packet.interned_data {
            names.add(data);
        }
        if let Some(track) = packet.track_descriptor {
            let name = track.name.or(track.process.and_then(|process| process.process_name)).unwrap_or_default();
            if track.parent_uuid.is_some_and(|parent| !trace.tracks.contains_key(&parent)) {
                return Err(format!("the track {name} is below one that is not described"));
            }
            let read = ReadTrack { name, parent: track.parent_uuid, values: Vec::new() };
            trace.tracks.insert(track.uuid.unwrap_or(0), read);
        }
        if let Some(event) = packet.track_event {
            let track = event.track_uuid.unwrap_or(0);
            if !trace.tracks.contains_key(&track) {
                return Err(format!("an event on the track {track}, which is not described"));
            }
            let at = packet.timestamp.ok_or("an event without a time")?;
            let mut number = named.len() as u32;
            if event.name_iid.is_some() {
                let arguments = event.debug_annotations.iter().map(|one| names.argument(one));
                named.push(ReadSlice {
                    track,
                    from: at,
                    until: at,
                    inside: None,
                    name: names.get(1, event.name_iid)?,
                    category: names.get(0, event.category_iids.first().copied())?,
                    arguments: arguments.collect::<Result<_, String>>()?,
                    flows: event.flow_ids.clone(),
                    ended_flows: event.terminating_flow_ids.clone(),
                });
            } else {
                number = u32::MAX;
            }
            events.push((at, number, event));
        }
    }
    events.sort_by_key(|(at, ..)| *at);
    let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, number, event) in events {
        let track = event.track_uuid.unwrap_or(0);
        let stack = open.entry(track).or_default();
        let slice = number as usize;
        match event.r#type {
            Some(kind) if kind == EventType::SliceBegin as i32 => {
                named[slice].inside = stack.last().copied();
                stack.push(slice);
            }
            Some(kind) if kind == EventType::Instant as i32 => named[slice].inside = stack.last().copied(),
            Some(kind) if kind == EventType::SliceEnd as i32 => {
                let ended = stack.pop().ok_or_else(|| format!("a slice of the track {track} ends before it begins"))?;
                named[ended].until = at;
            }
            _ => {
                let value = event.double_counter_value.or(event.counter_value.map(|value| value as f64));
                let value = value.ok_or("a counter without a value")?;
                trace.tracks.entry(track).or_default().values.push((at, value));
            }
        }
    }
    if let Some((track, _)) = open.iter().find(|(_, stack)| !stack.is_empty()) {
        return Err(format!("a slice of the track {track} does not end"));
    }
    trace.slices = named;
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Sequence};

    #[test]
    fn what_is_written_is_read() {
        let mut sequence = Sequence::new(1);
        let process = sequence.process(1, "radix");
        let track = sequence.track(process, "walks", 0);
        let counter = sequence.counter(process, "free", "bytes", 1);
        let mut walk = Event::new("walk", "page walk").with("number", Value::Number(7));
        walk.flows.push(9);
        sequence.begin(track, 10, &walk);
        sequence.instant(track, 12, &Event::new("step", "look-up").with("hit", Value::Flag(true)));
        sequence.slice(track, 12, 20, &Event::new("load", "PTE").with("from", Value::Name("L2")));
        sequence.end(track, 20);
        sequence.count(counter, 5, 4096);
        let trace = read(&sequence.take()).unwrap();
        let [walk, look_up, load] = &trace.slices[..] else { panic!("{trace:?}") };
        assert_eq!((walk.from, walk.until, walk.inside, walk.number("number")), (10, 20, None, Some(7)));
        assert_eq!((&walk.flows[..], look_up.inside, look_up.flag("hit")), (&[9][..], Some(0), true));
        assert_eq!((load.inside, load.from, load.until, load.text("from")), (Some(0), 12, 20, "L2"));
        let values: Vec<_> = trace.tracks.values().filter(|track| !track.values.is_empty()).collect();
        assert_eq!((values.len(), &values[0].values[..]), (1, &[(5, 4096.0)][..]));
    }

    #[test]
    fn slices_that_do_not_nest_are_refused() {
        let mut sequence = Sequence::new(1);
        let process = sequence.process(1, "radix");
        let track = sequence.track(process, "walks", 0);
        sequence.begin(track, 10, &Event::new("walk", "page walk"));
        let mut ended_twice = sequence.clone();
        assert!(read(&sequence.take()).unwrap_err().contains("does not end"));
        ended_twice.end(track, 11);
        ended_twice.end(track, 12);
        assert!(read(&ended_twice.take()).unwrap_err().contains("before it begins"));
    }
}
