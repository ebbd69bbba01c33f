//! One writer's packets.

use crate::message::{
    CounterDescriptor, DebugAnnotation, EventType, INCREMENTAL_STATE_CLEARED, InternedData, InternedName,
    MERGE_BY_NAME, MERGE_NONE, NEEDS_INCREMENTAL_STATE, ORDER_EXPLICIT, ProcessDescriptor, Trace, TracePacket,
    TrackDescriptor, TrackEvent,
};
use prost::Message;
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// A track, by its number among all of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Track(u64);

/// The value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A number that is no integer.
    Float(f64),
    /// A flag.
    Flag(bool),
    /// An address or a word, shown in hexadecimal.
    Address(u64),
    /// One of few texts: it is written once.
    Name(&'static str),
    /// A text.
    Text(String),
}

/// A slice's begin, or an instant.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Its name: one of few.
    pub name: Cow<'a, str>,
    /// Its kind, by which it can be selected.
    pub category: &'static str,
    /// What is known of it.
    pub arguments: Vec<(Cow<'a, str>, Value)>,
    /// Flows that begin here or pass through: arrows between slices.
    pub flows: Vec<u64>,
    /// Flows that end here.
    pub ended_flows: Vec<u64>,
}

impl<'a> Event<'a> {
    /// An event without arguments.
    pub fn new(category: &'static str, name: impl Into<Cow<'a, str>>) -> Event<'a> {
        Event { name: name.into(), category, arguments: Vec::new(), flows: Vec::new(), ended_flows: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: Value) -> Event<'a> {
        self.arguments.push((name.into(), value));
        self
    }
}

/// Names that are written once, and then by their numbers.
#[derive(Clone, Debug, Default)]
struct Names {
    numbers: FxHashMap<String, u64>,
    /// Those that the next packet must define.
    new: Vec<InternedName>,
}

impl Names {
    fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(name.to_owned(), number);
        self.new.push(InternedName { iid: Some(number), name: Some(name.to_owned()) });
        number
    }
}

/// One writer's packets: tracks, and events on them. The order of events of different times does not matter;
/// of those of one track and time, the first is taken to be the earlier.
#[derive(Clone, Debug)]
pub struct Sequence {
    number: u32,
    tracks: u64,
    categories: Names,
    names: Names,
    arguments: Names,
    texts: Names,
    bytes: Vec<u8>,
    begun: bool,
    events: u64,
}

/// The numbers of a sequence's tracks begin at its own number times this.
const TRACKS_PER_SEQUENCE: u64 = 1 << 32;

impl Sequence {
    /// An empty sequence; `number` tells it from the others of the trace, and is not 0.
    pub fn new(number: u32) -> Sequence {
        Sequence {
            number,
            tracks: 0,
            categories: Names::default(),
            names: Names::default(),
            arguments: Names::default(),
            texts: Names::default(),
            bytes: Vec::new(),
            begun: false,
            events: 0,
        }
    }

    /// The bytes of the packets since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The number of bytes that [`Sequence::take`] would return.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of events so far: a slice has two, its begin and its end.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn next_track(&mut self) -> u64 {
        self.tracks += 1;
        u64::from(self.number) * TRACKS_PER_SEQUENCE + self.tracks
    }

    fn describe(&mut self, descriptor: TrackDescriptor) -> Track {
        let uuid = self.next_track();
        let descriptor = TrackDescriptor { uuid: Some(uuid), ..descriptor };
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        Track(uuid)
    }

    /// A group of tracks at the top, which Perfetto shows as a process.
    pub fn process(&mut self, pid: i32, name: &str) -> Track {
        self.describe(TrackDescriptor {
            process: Some(ProcessDescriptor { pid: Some(pid), process_name: Some(name.to_owned()) }),
            child_ordering: Some(ORDER_EXPLICIT),
            ..TrackDescriptor::default()
        })
    }

    /// A track, or a group of tracks, below another one; siblings are shown in the order of their ranks.
    pub fn track(&mut self, parent: Track, name: &str, rank: i32) -> Track {
        self.child(parent, name, rank, MERGE_NONE, None)
    }

    /// A track that is shown as one with its siblings of the same name.
    pub fn lane(&mut self, parent: Track, name: &str, rank: i32) -> Track {
        self.child(parent, name, rank, MERGE_BY_NAME, None)
    }

    /// A track of a quantity over time.
    pub fn counter(&mut self, parent: Track, name: &str, unit: &str, rank: i32) -> Track {
        let counter = CounterDescriptor { unit_name: Some(unit.to_owned()) };
        self.child(parent, name, rank, MERGE_NONE, Some(counter))
    }

    fn child(&mut self, parent: Track, name: &str, rank: i32, merge: i32, counter: Option<CounterDescriptor>) -> Track {
        self.describe(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(parent.0),
            child_ordering: Some(ORDER_EXPLICIT),
            sibling_order_rank: Some(rank),
            sibling_merge_behavior: Some(merge),
            counter,
            ..TrackDescriptor::default()
        })
    }

    /// A slice begins. Slices of one track nest.
    pub fn begin(&mut self, track: Track, at: u64, event: &Event<'_>) {
        self.named(track, at, event, EventType::SliceBegin);
    }

    /// The innermost slice of the track ends.
    pub fn end(&mut self, track: Track, at: u64) {
        self.event(track, at, EventType::SliceEnd, TrackEvent::default());
    }

    /// A slice without slices inside.
    pub fn slice(&mut self, track: Track, from: u64, until: u64, event: &Event<'_>) {
        self.begin(track, from, event);
        self.end(track, until);
    }

    /// Something happens at once.
    pub fn instant(&mut self, track: Track, at: u64, event: &Event<'_>) {
        self.named(track, at, event, EventType::Instant);
    }

    /// The quantity of a counter's track from now on.
    pub fn count(&mut self, track: Track, at: u64, value: i64) {
        let event = TrackEvent { counter_value: Some(value), ..TrackEvent::default() };
        self.event(track, at, EventType::Counter, event);
    }

    /// As [`Sequence::count`], of a quantity that is no integer.
    pub fn measure(&mut self, track: Track, at: u64, value: f64) {
        let event = TrackEvent { double_counter_value: Some(value), ..TrackEvent::default() };
        self.event(track, at, EventType::Counter, event);
    }

    fn named(&mut self, track: Track, at: u64, event: &Event<'_>, kind: EventType) {
        let mut annotation = |(name, value): &(Cow<'_, str>, Value)| {
            let mut annotation =
                DebugAnnotation { name_iid: Some(self.arguments.number(name)), ..DebugAnnotation::default() };
            match value {
                Value::Number(number) => annotation.uint_value = Some(*number),
                Value::Float(number) => annotation.double_value = Some(*number),
                Value::Flag(flag) => annotation.bool_value = Some(*flag),
                Value::Address(at) => annotation.pointer_value = Some(*at),
                Value::Name(name) => annotation.string_value_iid = Some(self.texts.number(name)),
                Value::Text(text) => annotation.string_value = Some(text.clone()),
            }
            annotation
        };
        let debug_annotations = event.arguments.iter().map(&mut annotation).collect();
        let named = TrackEvent {
            category_iids: vec![self.categories.number(event.category)],
            debug_annotations,
            name_iid: Some(self.names.number(&event.name)),
            flow_ids: event.flows.clone(),
            terminating_flow_ids: event.ended_flows.clone(),
            ..TrackEvent::default()
        };
        self.event(track, at, kind, named);
    }

    fn event(&mut self, track: Track, at: u64, kind: EventType, event: TrackEvent) {
        self.events += 1;
        let event = TrackEvent { r#type: Some(kind as i32), track_uuid: Some(track.0), ..event };
        self.packet(TracePacket { timestamp: Some(at), track_event: Some(event), ..TracePacket::default() });
    }

    fn packet(&mut self, packet: TracePacket) {
        let flags =
            if self.begun { NEEDS_INCREMENTAL_STATE } else { NEEDS_INCREMENTAL_STATE | INCREMENTAL_STATE_CLEARED };
        self.begun = true;
        let mut new = |names: fn(&mut Sequence) -> &mut Names| std::mem::take(&mut names(self).new);
        let interned = InternedData {
            event_categories: new(|own| &mut own.categories),
            event_names: new(|own| &mut own.names),
            debug_annotation_names: new(|own| &mut own.arguments),
            debug_annotation_string_values: new(|own| &mut own.texts),
        };
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(self.number),
            sequence_flags: Some(flags),
            interned_data: (interned != InternedData::default()).then_some(interned),
            ..packet
        };
        // A trace is its packets, one after the other.
        self.bytes.extend_from_slice(&Trace { packet: vec![packet] }.encode_to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_can_be_concatenated_and_names_are_written_once() {
        let mut sequence = Sequence::new(3);
        let process = sequence.process(1, "radix");
        let track = sequence.track(process, "core 0", 2);
        let load = |at: u64| Event::new("walk", "PTE").with("at", Value::Address(at)).with("served", Value::Name("L2"));
        sequence.slice(track, 5, 9, &load(64));
        let mut bytes = sequence.take();
        let first = bytes.len();
        sequence.slice(track, 9, 12, &load(128));
        let second = sequence.take();
        assert!(sequence.is_empty() && second.len() < first, "names and tracks are not repeated");
        bytes.extend(second);
        let packets = Trace::decode(&bytes[..]).unwrap().packet;
        assert_eq!(packets.len(), 6);
        assert!(packets.iter().all(|packet| packet.trusted_packet_sequence_id == Some(3)));
        assert_eq!(packets[0].sequence_flags, Some(3), "the first clears what was before");
        let descriptor = packets[1].track_descriptor.as_ref().unwrap();
        assert_eq!((descriptor.uuid, descriptor.parent_uuid), (Some(track.0), Some(process.0)));
        let interned = packets[2].interned_data.as_ref().unwrap();
        assert_eq!((interned.event_names.len(), interned.debug_annotation_names.len()), (1, 2));
        assert!(packets[3..].iter().all(|packet| packet.interned_data.is_none()));
        let begin = packets[4].track_event.as_ref().unwrap();
        assert_eq!((begin.r#type, begin.debug_annotations[0].pointer_value), (Some(1), Some(128)));
        assert_eq!(begin.debug_annotations[1].string_value_iid, Some(1));
        assert_eq!((packets[5].timestamp, sequence.events()), (Some(12), 4));
    }
}
