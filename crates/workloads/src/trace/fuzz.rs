//! Entry points for fuzzing: any bytes must give records or an error, never a panic or a hang.

use super::TraceOptions;
use super::open::{Opened, foreign};
use super::reader::TraceReader;
use ambulator_base::{Batch, RecordSource};
use std::io::Cursor;
use std::path::Path;

/// Compressed input may unpack to much more than it is; this many batches are enough to see.
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

/// The other formats, told apart and unpacked as for a file.
pub fn fuzz_open(bytes: &[u8]) {
    let opened = foreign(Cursor::new(bytes.to_vec()), Path::new("fuzz"), "fuzz", 0, &TraceOptions::default());
    if let Ok(Opened::Foreign { mut source, .. }) = opened {
        drain(&mut *source);
    }
}

/// ChampSim: the bytes behind an instruction that is one.
pub fn fuzz_champsim(bytes: &[u8]) {
    let mut file = vec![0; 64];
    file[2] = 0x40;
    file.extend_from_slice(bytes);
    fuzz_open(&file);
}

/// Lackey: the bytes behind a line that is one.
pub fn fuzz_lackey(bytes: &[u8]) {
    let mut file = b"I  04000870,3\n".to_vec();
    file.extend_from_slice(bytes);
    fuzz_open(&file);
}
