//! What is put on the wire comes off it, and nothing else does.

use super::*;
use crate::tests::{any_event, any_record};
use ambulator_base::{Batch, ProcessId, Random, Record, RecordKind, SourceError, VirtAddr, VmEvent};
use proptest::prelude::*;
use std::cell::RefCell;
use std::io;

/// The memory of one region, up to the end of the second thread's chunk; writes as the plugin does.
struct Memory(RefCell<Vec<u8>>);

const END: u64 = region_at(0) + chunk_at(2);

impl WireMemory for &Memory {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = at as usize;
        bytes.copy_from_slice(self.0.borrow().get(from..from + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Memory {
    fn new() -> Memory {
        Memory(RefCell::new(vec![0; END as usize]))
    }

    fn put(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(region_at(0) + at, &bytes).unwrap();
    }

    fn word(&self, word: usize) -> u64 {
        let mut bytes = [0; 8];
        self.read(region_at(0) + 8 * word as u64, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        WireMemory::write(&self, at, bytes)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        WireMemory::read(&self, at, bytes)
    }

    fn push(&self, cells: &[Cell]) {
        let mut head = self.word(region::HEAD);
        for cell in cells {
            assert!(head - self.word(region::TAIL) < RING_CELLS, "the writer would wait");
            self.put(RING_AT + head % RING_CELLS * CELL_BYTES, cell);
            head += 1;
        }
        self.put(8 * region::HEAD as u64, &[head, head]);
    }

    fn chunk(&self, thread: usize, records: &[Record]) {
        for (at, record) in records.iter().enumerate() {
            self.put(chunk_at(thread) + at as u64 * CELL_BYTES, &record_cell(record));
        }
        self.put(THREADS_AT + (8 * THREAD_WORDS * thread) as u64, &[records.len() as u64, 0]);
    }
}

fn record(dep1: u16, dep2: u16) -> Record {
    Record { pc: VirtAddr(1), va: VirtAddr(2), dep1, dep2, size: 8, ..Record::default() }
}

fn drained(reader: &mut WireReader<&Memory>) -> Result<Batch, SourceError> {
    let mut batch = Batch::default();
    while reader.take(&mut batch, true)? {}
    Ok(batch)
}

fn started(memory: &Memory) -> WireReader<&Memory> {
    memory.push(&[start_cell()]);
    WireReader::new(memory, 0, "test")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_goes_in_comes_out(
        records in prop::collection::vec(any_record(), 0..50),
        events in prop::collection::vec((0u32..50, any_event()), 0..20),
        start in prop::collection::vec(any_event(), 0..5),
    ) {
        let fit = |va: VirtAddr| VirtAddr(va.0 % (1 << VA_BITS));
        let records: Vec<Record> =
            records.into_iter().map(|r| Record { pc: fit(r.pc), va: fit(r.va), ..r }).collect();
        let mut events = events;
        events.iter_mut().for_each(|(at, _)| *at = (*at).min(records.len() as u32));
        events.sort_by_key(|(at, _)| *at);
        let memory = Memory::new();
        let mut reader = WireReader::new(&memory, 0, "test");
        start.iter().for_each(|event| memory.push(&event_cells(event)));
        prop_assert!(drained(&mut reader).unwrap().is_empty() && reader.start().is_none());
        memory.push(&[start_cell()]);
        let mut rest = events.iter().peekable();
        for at in 0..=records.len() {
            while let Some((_, event)) = rest.next_if(|(place, _)| *place as usize == at) {
                memory.push(&event_cells(event));
            }
            memory.push(&records.get(at).map(record_cell).into_iter().collect::<Vec<_>>());
        }
        prop_assert_eq!(drained(&mut reader).unwrap(), Batch { records, events });
        prop_assert_eq!(reader.start(), Some(&start[..]));
    }
}

#[test]
fn the_ring_wraps_and_the_reader_makes_room() {
    let memory = Memory::new();
    let mut reader = started(&memory);
    let mut all = 0;
    for round in 0..9u64 {
        let cells: Vec<Cell> =
            (0..40_000).map(|i| record_cell(&Record { va: VirtAddr(round * 40_000 + i), ..record(0, 0) })).collect();
        memory.push(&cells);
        let batch = drained(&mut reader).unwrap();
        assert!(batch.records.iter().zip(all..).all(|(record, va)| record.va.0 == va));
        all += batch.records.len() as u64;
    }
    assert_eq!((all, memory.word(region::TAIL), memory.word(region::TAIL + 1)), (360_000, 360_001, 360_001));
}

#[test]
fn a_dead_process_leaves_the_records_of_its_threads() {
    let memory = Memory::new();
    let mut reader = started(&memory);
    memory.push(&event_cells(&VmEvent::RegionBegin));
    memory.push(&[record_cell(&record(0, 0)); 3]);
    let mut batch = drained(&mut reader).unwrap();
    // Thread 0 continues its turn: it reaches back 3 records. Thread 1 begins one.
    memory.chunk(0, &[record(4, 3), record(4, 5)]);
    memory.chunk(1, &[record(1, 0), record(1, 2)]);
    memory.put(8 * region::RUN as u64, &[0x5000, 0x2000, 1]);
    reader.rest(&mut batch).unwrap();
    let dependences: Vec<_> = batch.records.iter().map(|r| (r.dep1, r.dep2)).collect();
    assert_eq!(dependences, [(0, 0), (0, 0), (0, 0), (0, 3), (4, 0), (0, 0), (1, 0)]);
    let process = ProcessId(0);
    let expected = [
        (0, VmEvent::RegionBegin),
        (3, VmEvent::Touch { start: VirtAddr(0x5000), len: 0x2000, write: true }),
        (5, VmEvent::Switch { process, thread: 1 }),
        (7, VmEvent::RegionEnd),
        (7, VmEvent::Exit { process }),
    ];
    assert_eq!(batch.events, expected);
}

#[test]
fn a_head_that_tears_is_refused_while_the_writer_lives_and_read_after_its_death() {
    let memory = Memory::new();
    let mut reader = started(&memory);
    memory.push(&[record_cell(&record(0, 0))]);
    memory.put(8 * region::HEAD as u64, &[2, 1]);
    let mut batch = Batch::default();
    assert!(reader.take(&mut batch, false).unwrap_err().message.contains("damaged"));
    assert!(reader.take(&mut batch, true).unwrap());
    assert_eq!(batch.records.len(), 1);
}

#[test]
fn damage_is_refused() {
    let bad =
        |kind: RecordKind, size: u8, va: u64| record_cell(&Record { kind, size, va: VirtAddr(va), ..record(0, 0) });
    for (what, cells) in [
        ("a kind", vec![[0, 0, 0, 5 << 8]]),
        ("a size", vec![bad(RecordKind::Load, 0, 0)]),
        ("a size", vec![bad(RecordKind::Store, 65, 0)]),
        ("an address", vec![bad(RecordKind::BranchTaken, 0, 1 << VA_BITS)]),
        ("half an event", vec![event_cells(&VmEvent::RegionBegin)[0], record_cell(&record(0, 0))]),
        ("a second start", vec![start_cell()]),
    ] {
        let memory = Memory::new();
        let mut reader = started(&memory);
        memory.push(&cells);
        assert!(drained(&mut reader).unwrap_err().message.contains("damaged"), "{what}");
    }
    let memory = Memory::new();
    memory.push(&[record_cell(&record(0, 0))]);
    assert!(drained(&mut WireReader::new(&memory, 0, "test")).is_err(), "a record before the start");
    let memory = Memory::new();
    memory.put(8 * region::HEAD as u64, &[RING_CELLS + 1, RING_CELLS + 1]);
    assert!(drained(&mut WireReader::new(&memory, 0, "test")).is_err(), "more than the ring holds");
}

#[test]
fn the_fuzzed_reader_survives_mutated_memory() {
    let mut random = Random::for_purpose(1, "wire");
    let cells = [
        event_cells(&VmEvent::RegionBegin).as_flattened(),
        &start_cell(),
        event_cells(&VmEvent::Switch { process: ProcessId(0), thread: 1 }).as_flattened(),
        &record_cell(&record(1, 2)),
        &record_cell(&record(3, 4)),
    ]
    .concat();
    let words = [1, 2, 0, 0, 6, 0x1000, 0x1000, 1, 1, 10];
    let seed: Vec<u8> = words.iter().chain(&cells).flat_map(|word: &u64| word.to_le_bytes()).collect();
    crate::fuzz_wire(&seed);
    for _ in 0..4000 {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = [0, 1, 0x7f, 0xff, random.next_u64() as u8][random.below(5) as usize];
        }
        bytes.truncate(bytes.len() - random.below(40) as usize);
        crate::fuzz_wire(&bytes);
    }
}
