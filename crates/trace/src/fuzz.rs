//! Entry points for fuzzing: any bytes must give records or an error, never a panic or a hang.

use crate::TraceOptions;
use crate::block::{MAX_EVENTS, MAX_RECORDS};
use crate::event_codec::is_place;
use crate::format::{BlockHeader, HEADER_PREFIX_BYTES, MAGIC, TraceHeader, VERSION};
use crate::open::{Opened, foreign};
use crate::physical::PhysicalPages;
use crate::reader::TraceReader;
use ambulator_base::{Batch, RecordSource, VmEvent};
use std::io::Cursor;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Compressed input may unpack to far more than its size; reading stops after this many batches.
const MOST_BATCHES: usize = 64;

fn drain(source: &mut dyn RecordSource) {
    let mut batch = Batch::default();
    for _ in 0..MOST_BATCHES {
        if !matches!(source.fill(&mut batch), Ok(true)) {
            break;
        }
    }
}

/// Our format.
pub fn fuzz_trace(bytes: &[u8]) {
    if let Ok(mut reader) = TraceReader::new(Cursor::new(bytes.to_vec()), "fuzz") {
        drain(&mut reader);
        reader.seek_record(bytes.len() as u64);
        drain(&mut reader);
    }
}

/// A file of our format that carries `bytes` under valid checksums, so that a fuzzer gets past them. The
/// first four bytes give the records and events that its one block claims; the rest is the payload.
pub fn sealed_block(bytes: &[u8]) -> Vec<u8> {
    let (counts, payload) = bytes.split_at(bytes.len().min(4));
    let count = |at: usize| {
        u32::from(counts.get(at).copied().unwrap_or(0)) | u32::from(counts.get(at + 1).copied().unwrap_or(0)) << 8
    };
    let header = BlockHeader {
        payload_bytes: payload.len() as u32,
        records: count(0).min(MAX_RECORDS as u32),
        events: count(2).min(MAX_EVENTS as u32),
        instructions: u64::from(count(0)),
        first_record: 0,
        checksum: 0,
    };
    let mut file = TraceHeader::default().encode();
    file.extend(header.encode(payload).0);
    file.extend_from_slice(payload);
    file
}

/// Our format: a block's payload under valid checksums.
pub fn fuzz_block(bytes: &[u8]) {
    fuzz_trace(&sealed_block(bytes));
}

/// Our format: a header's body under a valid checksum.
pub fn fuzz_header(bytes: &[u8]) {
    let mut file = MAGIC.to_vec();
    file.extend(VERSION.to_le_bytes());
    file.extend([0, 0]);
    file.extend((bytes.len() as u32).to_le_bytes());
    debug_assert_eq!(file.len(), HEADER_PREFIX_BYTES);
    file.extend_from_slice(bytes);
    file.extend(xxh3_64(&file).to_le_bytes());
    fuzz_trace(&file);
}

/// The foreign formats, recognised and decompressed as a file would be.
pub fn fuzz_open(bytes: &[u8]) {
    let opened = foreign(Cursor::new(bytes.to_vec()), Path::new("fuzz"), "fuzz", (0, 0), &TraceOptions::default());
    if let Ok(Opened::Foreign { mut source, .. }) = opened {
        drain(&mut *source);
    }
}

/// ChampSim: the bytes after a valid instruction.
pub fn fuzz_champsim(bytes: &[u8]) {
    let mut file = vec![0; 64];
    file[2] = 0x40;
    file.extend_from_slice(bytes);
    fuzz_open(&file);
}

/// Lackey: the bytes after a valid line.
pub fn fuzz_lackey(bytes: &[u8]) {
    let mut file = b"I  04000870,3\n".to_vec();
    file.extend_from_slice(bytes);
    fuzz_open(&file);
}

/// drmemtrace: the bytes after a valid header.
pub fn fuzz_drmemtrace(bytes: &[u8]) {
    let mut file = Vec::new();
    for (kind, size, value) in
        [(25u16, 0u16, 6u64), (28, 12, 6), (28, 9, 0x240), (22, 8, 1), (24, 8, 1), (28, 18, 4096)]
    {
        file.extend(kind.to_le_bytes());
        file.extend(size.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    file.extend_from_slice(bytes);
    fuzz_open(&file);
}

/// gem5: the bytes after a valid header; the first says whether of packets or of an elastic trace.
pub fn fuzz_gem5(bytes: &[u8]) {
    let mut file = b"gem5".to_vec();
    match bytes.first() {
        Some(which) if which % 2 == 0 => file.extend([5, 0x18, 5, 0x20, 0xc0, 1]),
        _ => file.extend([2, 0x18, 5]),
    }
    file.extend_from_slice(bytes.get(1..).unwrap_or_default());
    fuzz_open(&file);
}

/// The text of `perf script`: the bytes after a valid line.
pub fn fuzz_perf(bytes: &[u8]) {
    let mut file = b"app 1/1 1.000: mem-loads: 7f00 400000\n".to_vec();
    file.extend_from_slice(bytes);
    fuzz_open(&file);
}

/// drmemtrace's `v2p.textproto`: what it says is places, none of them empty or outside of memory.
pub fn fuzz_v2p(bytes: &[u8]) {
    if let Ok(places) = PhysicalPages::default().add_textproto(bytes) {
        for place in places {
            let VmEvent::Place { start, len, at, page } = place else { panic!("{place:?} is no place") };
            assert!(is_place(start, len, at, page), "{place:?}");
        }
    }
}
