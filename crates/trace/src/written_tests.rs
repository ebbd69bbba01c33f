//! Traces written for other tools, read back: what their formats can express is as it was.

use crate::scratch::Scratch;
use crate::*;
use ambulator_base::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// What a record is in a format that has no explicit fetches, and perhaps no branches.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    pc: u64,
    va: u64,
    gap: u64,
    /// The records that it depends on, by their numbers among those kept.
    producers: BTreeSet<usize>,
    size: u8,
    kind: RecordKind,
}

/// The records that a format keeps, and the instructions behind the last one. Those that it leaves out count as
/// instructions of the next one's gap.
fn kept(records: &[Record], keeps: fn(RecordKind) -> bool) -> (Vec<Kept>, u64) {
    let (mut all, mut numbers, mut gap) = (Vec::new(), Vec::new(), 0);
    for (at, record) in records.iter().enumerate() {
        gap += u64::from(record.gap);
        numbers.push(all.len());
        if !keeps(record.kind) {
            gap += u64::from(record.kind != RecordKind::Fetch);
            continue;
        }
        let distances = [record.dep1, record.dep2].into_iter().filter(|distance| *distance > 0);
        let producers = distances.map(|distance| numbers[at - usize::from(distance)]).collect();
        let Record { pc, va, size, kind, .. } = *record;
        all.push(Kept { pc: pc.0, va: va.0, gap: std::mem::take(&mut gap), producers, size, kind });
    }
    (all, gap)
}

/// A program of one thread: records whose dependences are loads.
fn program() -> impl Strategy<Value = Vec<Record>> {
    let record = (0..8u8, 0..9u32, 0..40u16, 0..40u16, 0..50u64, 0..4000u64, 1..=64u8, 0..200u64);
    proptest::collection::vec(record, 1..400).prop_map(|steps| {
        let mut all: Vec<Record> = Vec::new();
        for (kind, gap, dep1, dep2, page, offset, size, pc) in steps {
            use RecordKind::*;
            let kind = [Load, Load, Load, Store, Store, BranchTaken, BranchNotTaken, Fetch][usize::from(kind)];
            let loads = |distance: u16| {
                let at = all.len().checked_sub(usize::from(distance)).filter(|_| distance > 0);
                let is_load = at.is_some_and(|at| all[at].kind == Load) && kind != Fetch;
                if is_load { distance } else { 0 }
            };
            let (dep1, dep2) = (loads(dep1), loads(dep2));
            let (dep1, dep2) = if dep1 == 0 || dep1 == dep2 { (dep2, 0) } else { (dep1, dep2) };
            let size = if matches!(kind, Load | Store) { size } else { 0 };
            let va = VirtAddr(0x7000_0000 + page * 4096 + offset);
            all.push(Record { pc: VirtAddr(0x40_0000 + 4 * pc), va, gap, dep1, dep2, size, kind });
        }
        all
    })
}

const UNMAPPED: TraceOptions = TraceOptions {
    implicit_maps: false,
    map_granularity: 2 << 20,
    va_bits: 48,
    skip: 0,
    sample_every: 0,
    sample_window: 0,
    physical: String::new(),
};

/// Writes a stream in a format, and reads it back.
fn through(format: TraceFormat, name: &str, stream: &Batch, places: bool) -> (Batch, u64) {
    let scratch = Scratch::new();
    let path = scratch.0.path().join(name);
    let compression = Compression::of_name(&path, format).unwrap();
    let mut sink = foreign_sink(std::fs::File::create(&path).unwrap(), format, compression, places).unwrap();
    let mut events = stream.events.iter().peekable();
    for (at, record) in stream.records.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
            sink.event(event.clone()).unwrap();
        }
        sink.push(record).unwrap();
    }
    events.for_each(|(_, event)| sink.event(event.clone()).unwrap());
    let left_out = sink.left_out();
    sink.finish().unwrap();
    let summary = info(&path, &UNMAPPED).unwrap();
    assert_eq!((summary.format, summary.damage), (format, None));
    (crate::tests::drained(&mut *open_trace(Path::new(&path), &UNMAPPED).unwrap()).unwrap(), left_out)
}

fn of_records(records: &[Record]) -> Batch {
    Batch { records: records.to_vec(), ..Batch::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drmemtrace_keeps_all_but_fetches_and_untaken_targets(records in program()) {
        let (read, left_out) = through(TraceFormat::DrMemTrace, "a.trace.gz", &of_records(&records), false);
        let (mut expected, behind) = kept(&records, |kind| kind != RecordKind::Fetch);
        expected.iter_mut().filter(|one| one.kind == RecordKind::BranchNotTaken).for_each(|one| one.va = 0);
        let (found, found_behind) = kept(&read.records, |kind| kind != RecordKind::Fetch);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(found_behind, behind);
        prop_assert_eq!(left_out, records.iter().filter(|record| record.kind == RecordKind::Fetch).count() as u64);
    }

    #[test]
    fn elastic_traces_keep_loads_and_stores_with_their_dependences(records in program()) {
        let (read, left_out) = through(TraceFormat::Gem5Elastic, "a.gz", &of_records(&records), false);
        let data = |kind| matches!(kind, RecordKind::Load | RecordKind::Store);
        prop_assert_eq!(kept(&read.records, data), kept(&records, data));
        prop_assert_eq!(left_out, records.iter().filter(|record| !record.is_data()).count() as u64);
    }

    #[test]
    fn cloudsuite_keeps_instructions_and_dependences(records in program()) {
        // Accesses of 8 bytes that cross no line: the format has no sizes.
        let aligned = |record: &Record| Record {
            va: VirtAddr(record.va.0 & !7),
            size: if record.is_data() { 8 } else { 0 },
            ..*record
        };
        let records: Vec<Record> = records.iter().map(aligned).collect();
        let (read, _) = through(TraceFormat::CloudSuite, "a.xz", &of_records(&records), false);
        let without_targets = |records: &[Record]| {
            let (mut all, _) = kept(records, |kind| kind != RecordKind::Fetch);
            all.iter_mut().filter(|one| one.size == 0).for_each(|one| one.va = 0);
            all
        };
        prop_assert_eq!(without_targets(&read.records), without_targets(&records));
    }

    #[test]
    fn packets_keep_accesses_and_fetches(records in program()) {
        let (read, _) = through(TraceFormat::Gem5Packets, "a.packets", &of_records(&records), false);
        let accesses = |records: &[Record]| -> Vec<_> {
            let kept = records.iter().filter(|record| record.is_data() || record.kind == RecordKind::Fetch);
            kept.map(|record| (record.pc, record.va, record.size, record.kind)).collect()
        };
        prop_assert_eq!(accesses(&read.records), accesses(&records));
    }
}

fn load(va: u64) -> Record {
    Record { pc: VirtAddr(0x40_0000), va: VirtAddr(va), size: 8, ..Record::default() }
}

fn switch(process: u32, thread: u32) -> VmEvent {
    VmEvent::Switch { process: ProcessId(process), thread }
}

#[test]
fn threads_and_processes_stay_apart() {
    let mut stream = of_records(&[load(0x1000), load(0x2000), load(0x3000), load(0x4000)]);
    let fork = VmEvent::Fork { child: ProcessId(1) };
    stream.events = vec![(1, switch(0, 7)), (2, fork), (2, switch(1, 0)), (3, switch(0, 0))];
    let owners = |format, name| -> Vec<(u64, u32, u32)> {
        let (read, _) = through(format, name, &stream, false);
        let (mut events, mut running) = (read.events.iter().peekable(), (0, 0));
        let mut all = Vec::new();
        for (at, record) in read.records.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
                if let VmEvent::Switch { process, thread } = event {
                    running = (process.0, *thread);
                }
            }
            all.push((record.va.0, running.0, running.1));
        }
        all
    };
    // Threads are numbered in the order of their appearance.
    let expected = [(0x1000, 0, 0), (0x2000, 0, 1), (0x3000, 1, 0), (0x4000, 0, 0)];
    assert_eq!(owners(TraceFormat::DrMemTrace, "a.trace"), expected);
    let processes = expected.map(|(va, process, _)| (va, process, 0));
    assert_eq!(owners(TraceFormat::CloudSuite, "a"), processes);
    assert_eq!(owners(TraceFormat::Gem5Elastic, "b"), processes);
}

#[test]
fn changes_of_the_address_space_become_recorded_calls() {
    let (start, len, protection) = (VirtAddr(0x1000_0000), 0x8000, Protection::READ_WRITE);
    let advise = |advice| VmEvent::Advise { start, len: 0x1000, advice };
    let remap = VmEvent::Remap { old: start, old_len: 0x2000, new: VirtAddr(0x2000_0000), new_len: 0x3000 };
    let events = vec![
        VmEvent::Map { start, len, protection, kind: MapKind::Anonymous },
        VmEvent::Map { start: VirtAddr(0x5000_0000), len, protection, kind: MapKind::File },
        advise(Advice::DontNeed),
        advise(Advice::Huge),
        VmEvent::Protect { start, len, protection },
        VmEvent::Unmap { start: VirtAddr(0x5000_0000), len: 0x1000 },
        remap,
        VmEvent::RegionBegin,
    ];
    let mut stream = of_records(&[load(0x1000_4000)]);
    stream.events = events.into_iter().map(|event| (0, event)).collect();
    let scratch = Scratch::new();
    let path = scratch.0.path().join("a.trace");
    let mut sink =
        foreign_sink(std::fs::File::create(&path).unwrap(), TraceFormat::DrMemTrace, Compression::None, false).unwrap();
    stream.events.iter().for_each(|(_, event)| sink.event(event.clone()).unwrap());
    sink.push(&stream.records[0]).unwrap();
    assert_eq!(sink.left_out(), 1, "the region of interest");
    sink.finish().unwrap();
    let options = TraceOptions { map_granularity: 4096, ..TraceOptions::default() };
    let read = crate::tests::drained(&mut *open_trace(&path, &options).unwrap()).unwrap();
    let all = Protection { read: true, write: true, execute: true };
    let map = |start, len, kind| VmEvent::Map { start: VirtAddr(start), len, protection: all, kind };
    let found: Vec<VmEvent> = read.events.into_iter().map(|(_, event)| event).collect();
    assert_eq!(
        found,
        [
            map(0x1000_0000, 0x8000, MapKind::Anonymous),
            map(0x5000_0000, 0x8000, MapKind::File),
            advise(Advice::DontNeed),
            advise(Advice::Huge),
            VmEvent::Unmap { start: VirtAddr(0x5000_0000), len: 0x1000 },
            VmEvent::Unmap { start, len: 0x2000 },
            map(0x2000_0000, 0x3000, MapKind::Anonymous),
            map(0x40_0000, 0x1000, MapKind::File),
        ]
    );
}

#[test]
fn places_of_pages_are_written_and_invented_ones_are_not_believed() {
    let place =
        |start, at| VmEvent::Place { start: VirtAddr(start), len: 0x1000, at: PhysAddr(at), page: PageSize::SIZE_4K };
    let mut stream = of_records(&[load(0x7000_0008), load(0x7000_1010)]);
    stream.events = vec![(0, place(0x7000_0000, 0x9000)), (1, place(0x7000_1000, 0x5000))];
    for (format, name) in [(TraceFormat::DrMemTrace, "a.trace"), (TraceFormat::Gem5Elastic, "a.gz")] {
        assert_eq!(through(format, name, &stream, true).0.events, stream.events, "{format}");
        let without = through(format, name, &of_records(&stream.records), false).0;
        assert_eq!(without.events, [], "{format}: no machine had those frames");
    }
}
