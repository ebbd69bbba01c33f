//! Round trips of our format, and the reader's errors on damage.

use crate::*;
use ambulator_base::*;
use proptest::prelude::*;
use std::io::Cursor;

pub(crate) fn any_event() -> impl Strategy<Value = VmEvent> {
    let range = || (0u64..1 << 46, 0u64..1 << 40);
    let rights = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(read, write, execute)| Protection {
        read,
        write,
        execute,
    });
    let kind = prop_oneof![Just(MapKind::Anonymous), Just(MapKind::File), Just(MapKind::Heap), Just(MapKind::Stack)];
    let advice = prop_oneof![Just(Advice::Huge), Just(Advice::NoHuge), Just(Advice::DontNeed), Just(Advice::Free)];
    prop_oneof![
        (range(), rights.clone(), kind).prop_map(|((s, len), protection, kind)| VmEvent::Map {
            start: VirtAddr(s),
            len,
            protection,
            kind
        }),
        range().prop_map(|(s, len)| VmEvent::Unmap { start: VirtAddr(s), len }),
        (range(), rights).prop_map(|((s, len), protection)| VmEvent::Protect { start: VirtAddr(s), len, protection }),
        (range(), range()).prop_map(|((o, old_len), (n, new_len))| VmEvent::Remap {
            old: VirtAddr(o),
            old_len,
            new: VirtAddr(n),
            new_len
        }),
        (range(), advice).prop_map(|((s, len), advice)| VmEvent::Advise { start: VirtAddr(s), len, advice }),
        (0u64..1 << 46).prop_map(|end| VmEvent::Brk { end: VirtAddr(end) }),
        any::<u32>().prop_map(|n| VmEvent::Fork { child: ProcessId(n) }),
        any::<u32>().prop_map(|n| VmEvent::Exit { process: ProcessId(n) }),
        any::<(u32, u32)>().prop_map(|(p, thread)| VmEvent::Switch { process: ProcessId(p), thread }),
        (range(), any::<bool>()).prop_map(|((s, len), write)| VmEvent::Touch { start: VirtAddr(s), len, write }),
        Just(VmEvent::RegionBegin),
        Just(VmEvent::RegionEnd),
    ]
}

pub(crate) fn any_record() -> impl Strategy<Value = Record> {
    let kind = prop_oneof![
        Just(RecordKind::Load),
        Just(RecordKind::Store),
        Just(RecordKind::Fetch),
        Just(RecordKind::BranchNotTaken),
        Just(RecordKind::BranchTaken)
    ];
    let wide = prop_oneof![0u64..1 << 57, 0u64..1 << 20, Just((1 << 57) - 1)];
    let gap = prop_oneof![3 => 0u32..10, 1 => any::<u32>()];
    let dep = || prop_oneof![3 => Just(0u16), 1 => any::<u16>()];
    (prop_oneof![0u64..1 << 57, 0x1000u64..0x1010], wide, gap, dep(), dep(), 1u8..=64, kind).prop_map(
        |(pc, va, gap, dep1, dep2, size, kind)| Record {
            pc: VirtAddr(pc),
            va: VirtAddr(va),
            gap,
            dep1,
            dep2,
            size,
            kind,
        },
    )
}

fn header(name: &str) -> TraceHeader {
    let identity = ProgramIdentity { name: name.into(), detail: "made by a test".into(), footprint: 4096, digest: 0 };
    TraceHeader { identity, ..TraceHeader::default() }
}

/// A stream with loops, strides, random addresses and events, longer than `blocks` blocks.
pub(crate) fn generated(blocks: usize) -> Batch {
    let mut random = Random::new(7);
    let mut batch = Batch::default();
    for i in 0..(blocks * Batch::TARGET_RECORDS + 100) as u64 {
        if i % 5000 == 17 {
            batch.push_event(VmEvent::Touch { start: VirtAddr(i << 12), len: 4096, write: true });
        }
        let va = if i % 3 == 0 { random.below(1 << 40) } else { 0x5000_0000 + i * 8 };
        batch.records.push(Record {
            pc: VirtAddr(0x40_1000 + (i % 3) * 4 + (i % 7) / 6 * 64),
            va: VirtAddr(va),
            gap: (i % 4) as u32,
            dep1: (i % 3 == 1) as u16,
            dep2: 0,
            size: 8,
            kind: if i % 3 == 2 { RecordKind::Store } else { RecordKind::Load },
        });
    }
    batch
}

pub(crate) fn written(batch: &Batch, start: &[VmEvent]) -> Vec<u8> {
    let mut head = header("generated");
    head.start = start.to_vec();
    let mut writer = TraceWriter::new(Vec::new(), head, &TraceWriterSpec { level: 1, va_bits: 57 }).unwrap();
    let mut events = batch.events.iter().peekable();
    for (i, record) in batch.records.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= i) {
            writer.event(event.clone()).unwrap();
        }
        writer.push(record).unwrap();
    }
    for (_, event) in events {
        writer.event(event.clone()).unwrap();
    }
    writer.finish().unwrap()
}

pub(crate) fn drained(source: &mut dyn RecordSource) -> Result<Batch, SourceError> {
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    while source.fill(&mut batch)? {
        let before = all.records.len() as u32;
        assert!(batch.events.iter().all(|(at, _)| *at as usize <= batch.records.len()));
        all.records.append(&mut batch.records);
        all.events.extend(batch.events.drain(..).map(|(at, event)| (before + at, event)));
    }
    assert!(batch.is_empty());
    Ok(all)
}

fn reader(bytes: Vec<u8>) -> TraceReader<Cursor<Vec<u8>>> {
    TraceReader::new(Cursor::new(bytes), "t.amb").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_stream_comes_back(
        records in prop::collection::vec(any_record(), 0..300),
        repeat in 1usize..4,
        events in prop::collection::vec((0u32..300, any_event()), 0..40),
        start in prop::collection::vec(any_event(), 0..5),
    ) {
        let records = records.repeat(repeat);
        let mut events = events;
        events.iter_mut().for_each(|(at, _)| *at = (*at).min(records.len() as u32));
        events.sort_by_key(|(at, _)| *at);
        let batch = Batch { records, events };
        let mut reader = reader(written(&batch, &start));
        prop_assert_eq!(reader.info().records, batch.records.len() as u64);
        prop_assert_eq!(&reader.info().header.start, &start);
        let mut expected = batch;
        expected.events.splice(0..0, start.into_iter().map(|event| (0, event)));
        prop_assert_eq!(drained(&mut reader).unwrap(), expected);
    }

    #[test]
    fn mutated_files_are_refused_or_read_but_never_more(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut batch = generated(0);
        batch.push_event(VmEvent::RegionEnd);
        let whole = written(&batch, &[VmEvent::RegionBegin]);
        let mut bytes = whole.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(mut reader) = TraceReader::new(Cursor::new(bytes.clone()), "t.amb") {
            let recovered = reader.info().recovered.is_some();
            match drained(&mut reader) {
                Ok(all) if !recovered => prop_assert!(all.records == batch.records || bytes == whole),
                Ok(all) => prop_assert!(batch.records.starts_with(&all.records)),
                Err(error) => prop_assert!(error.message.contains("t.amb: block 0 at byte"), "{}", error),
            }
        }
    }

    #[test]
    fn random_bytes_under_a_valid_checksum_never_panic(
        payload in prop::collection::vec(any::<u8>(), 0..200), records in 0usize..50, events in 0usize..5,
    ) {
        let mut batch = Batch::default();
        let _ = decode::Decoder::new().unwrap().decode(&payload, records, events, 1 << 57, &mut batch);
    }
}

#[test]
fn many_blocks_come_back_and_compress() {
    let batch = generated(3);
    let bytes = written(&batch, &[]);
    let per_record = bytes.len() as f64 / batch.records.len() as f64;
    assert!(per_record < 2.3, "a third of the addresses is random (5 to 6 bytes each): {per_record} bytes a record");
    let mut reader = reader(bytes);
    assert_eq!(reader.info().blocks, 4);
    assert_eq!(drained(&mut reader).unwrap(), batch);
    let instructions: u64 = batch.records.iter().map(Record::instructions).sum();
    assert_eq!(reader.info().instructions, instructions);
}

#[test]
fn seeking_keeps_the_events_and_drops_the_records_before() {
    let batch = generated(2);
    let mut reader = reader(written(&batch, &[VmEvent::RegionBegin]));
    for first in [0, 5, 32768, 40_000, 65_636, 1 << 40] {
        reader.seek_record(first);
        let rest = drained(&mut reader).unwrap();
        let first = (first as usize).min(batch.records.len());
        assert_eq!(rest.records, batch.records[first..]);
        assert_eq!(rest.events.len(), batch.events.len() + 1);
        let positions = |events: &[(u32, VmEvent)]| events.iter().map(|e| e.0).collect::<Vec<_>>();
        let shifted: Vec<u32> = batch.events.iter().map(|e| e.0.saturating_sub(first as u32)).collect();
        assert_eq!(positions(&rest.events[1..]), shifted);
    }
}

#[test]
fn a_killed_writer_leaves_its_whole_blocks() {
    let batch = generated(2);
    let whole = written(&batch, &[]);
    let second = {
        let r = reader(whole.clone());
        r.info().bytes
    };
    assert_eq!(second, whole.len() as u64);
    // Without a footer: everything. Cut in the last block: the two before it.
    let footer = whole.len() - 16 - (8 + 3 * 32 + 8);
    let mut r = reader(whole[..footer].to_vec());
    assert!(r.info().recovered.as_ref().unwrap().contains("3 blocks, 65636 records"));
    assert!(r.identity().detail.contains("no sound footer"));
    assert_eq!(drained(&mut r).unwrap(), batch);
    let mut r = reader(whole[..footer - 1].to_vec());
    assert_eq!(drained(&mut r).unwrap().records, batch.records[..65536]);
    // The right length but wrong bytes at the end, as after a crash of the machine.
    let mut zeroed = whole[..footer].to_vec();
    zeroed[footer - 20..].fill(0);
    let mut r = reader(zeroed);
    assert_eq!(drained(&mut r).unwrap().records, batch.records[..65536]);
    // The digest of a whole file does not depend on how it was indexed.
    assert_eq!(reader(whole.clone()).identity().digest, reader(whole[..footer].to_vec()).identity().digest);
}

#[test]
fn damage_is_reported_with_block_and_byte() {
    let batch = generated(2);
    let mut bytes = written(&batch, &[]);
    let mut r = reader(bytes.clone());
    let mut first = Batch::default();
    r.fill(&mut first).unwrap();
    // Somewhere within the second block.
    let at = bytes.len() * 3 / 4;
    bytes[at] ^= 0x10;
    let mut r = reader(bytes);
    assert!(r.fill(&mut first).unwrap());
    let error = r.fill(&mut first).unwrap_err().message;
    assert!(error.starts_with("t.amb: block 1 at byte "), "{error}");
    assert!(error.contains("checksum") && error.contains("The 32768 records before it are good"), "{error}");
}

#[test]
fn other_versions_and_damaged_headers_are_refused() {
    let bytes = written(&generated(0), &[]);
    let message = |bytes: Vec<u8>| TraceReader::new(Cursor::new(bytes), "t.amb").err().unwrap().message;
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(message(newer), "t.amb: it is an Ambulator trace of version 9; this program reads versions 1 to 2");
    let mut damaged = bytes.clone();
    damaged[20] ^= 1;
    assert!(message(damaged).contains("checksum does not fit"));
    assert!(message(bytes[..10].to_vec()).contains("cut short"));
    assert!(message(bytes[..30].to_vec()).contains("cut short"));
}

#[test]
fn the_writer_refuses_what_readers_would_refuse() {
    let mut writer = TraceWriter::new(Vec::new(), header("x"), &TraceWriterSpec { level: 1, va_bits: 48 }).unwrap();
    let record = Record { va: VirtAddr(1 << 48), size: 8, ..Record::default() };
    assert!(writer.push(&record).unwrap_err().message.contains("0x1000000000000"));
    assert!(writer.push(&Record { size: 0, ..Record::default() }).is_err());
    assert!(writer.event(VmEvent::Unmap { start: VirtAddr(u64::MAX), len: 2 }).is_err());
    assert_eq!(TraceWriterSpec { level: 0, va_bits: 64 }.validate("trace").len(), 2);
}

/// A disk with room for so many bytes.
#[derive(Default)]
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let fits = bytes.len().min(self.room - self.bytes.len());
        if fits == 0 && !bytes.is_empty() {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Truncate for Disk {
    fn truncate(&mut self, bytes: u64) -> std::io::Result<()> {
        self.bytes.truncate(bytes as usize);
        Ok(())
    }
}

#[test]
fn a_trace_that_is_cut_short_says_why() {
    let batch = generated(1);
    let ends = |why: &str| {
        let disk = Disk { room: usize::MAX, ..Disk::default() };
        let mut writer = TraceWriter::new(disk, header("x"), &TraceWriterSpec { level: 1, va_bits: 57 }).unwrap();
        batch.records.iter().for_each(|record| writer.push(record).unwrap());
        writer.finish_early(why).unwrap();
        writer.into_inner().bytes
    };
    let long = "é".repeat(5000);
    for (why, said) in [("", None), ("it crashed", Some("it crashed")), (&long, Some(&long[..4096]))] {
        let mut reader = reader(ends(why));
        assert_eq!(reader.info().cut_short.as_deref(), said);
        assert_eq!(reader.notes().len(), usize::from(said.is_some()), "{:?}", reader.notes());
        assert_eq!(drained(&mut reader).unwrap().records, batch.records);
    }
}

#[test]
fn a_full_disk_keeps_the_whole_blocks_and_the_reason() {
    let batch = generated(2);
    let why = "the disk is full";
    let full = written(&Batch { events: Vec::new(), ..batch.clone() }, &[]).len();
    let write = |room: usize| {
        let spec = TraceWriterSpec { level: 1, va_bits: 57 };
        let mut writer = TraceWriter::new(Disk { room, ..Disk::default() }, header("generated"), &spec).ok()?;
        let pushed = batch.records.iter().try_for_each(|record| writer.push(record));
        let kept = match pushed.and_then(|()| writer.finish_early("")) {
            Ok(()) => return None,
            Err(_) => writer.salvage(why).ok()?,
        };
        Some((kept, writer))
    };
    let mut kept_most = 0;
    // Room for nothing; around the ends of the blocks, where the note and the footer do not fit; and almost all.
    for room in (0..full).step_by(full / 60).chain(full - 40..full) {
        let Some(((records, instructions), writer)) = write(room) else {
            assert!(room < 200, "nothing was kept of {room} bytes");
            continue;
        };
        let bytes = writer.into_inner().bytes;
        assert!(bytes.len() <= room);
        let mut reader = reader(bytes);
        assert_eq!((reader.info().records, reader.info().instructions), (records, instructions));
        assert_eq!(reader.info().cut_short.as_deref(), Some(why));
        assert_eq!(reader.info().recovered, None);
        let all = drained(&mut reader).unwrap();
        assert_eq!(all.records, batch.records[..records as usize]);
        assert!(records >= kept_most, "more room keeps no less");
        kept_most = records;
    }
    assert_eq!(kept_most, 65536);
}

#[test]
fn batches_that_are_passed_over_are_those_that_would_have_come() {
    let touch = VmEvent::Touch { start: VirtAddr(1 << 20), len: 4096, write: false };
    let bytes = written(&generated(3), &[touch]);
    let blocks = reader(bytes.clone()).info().blocks as usize;
    assert_eq!(blocks, 4);
    let sought = |record: u64| {
        let mut reader = reader(bytes.clone());
        reader.seek_record(record);
        reader
    };
    for record in [0, 100, 40_000, 70_000, 1 << 20] {
        for (before, count) in (0..3).flat_map(|before| (0..6).map(move |count| (before, count))) {
            let [mut passed, mut filled] = [sought(record), sought(record)];
            let mut batch = Batch::default();
            for _ in 0..before {
                assert_eq!(passed.fill(&mut batch).unwrap(), filled.fill(&mut batch).unwrap());
            }
            let came = (0..count).take_while(|_| filled.fill(&mut batch).unwrap()).count();
            assert_eq!(passed.skip(count).unwrap(), came, "{count} after {before} from {record}");
            assert_eq!(drained(&mut passed).unwrap(), drained(&mut filled).unwrap());
        }
    }
}

#[test]
fn what_is_passed_over_is_not_read() {
    let mut bytes = written(&generated(3), &[]);
    let damaged = reader(bytes.clone()).entries[1].offset as usize + 300;
    bytes[damaged] ^= 1;
    let mut batch = Batch::default();
    let mut read = reader(bytes.clone());
    assert!(read.fill(&mut batch).unwrap());
    assert!(read.fill(&mut batch).unwrap_err().message.contains("block 1 at byte"));
    let mut passed = reader(bytes);
    assert_eq!(passed.skip(2).unwrap(), 2);
    assert!(passed.fill(&mut batch).unwrap() && batch.records == generated(3).records[2 << 15..3 << 15]);
}
