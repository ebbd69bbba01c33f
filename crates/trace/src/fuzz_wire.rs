//! The fuzzing entry point of the capture's wire: any bytes in the shared memory must give records or an
//! error, never a panic or a hang.

use crate::wire::{CELL_BYTES, CHUNKS_AT, RING_AT, THREADS_AT, WireMemory, WireReader, region, region_at};
use ambulator_base::Batch;
use std::io;

/// Memory that is zero but for pieces of the input: the words of a region, its first threads, the beginning
/// of the ring, and of the first thread's chunk.
struct Sparse<'a> {
    pieces: [(u64, &'a [u8]); 4],
}

impl WireMemory for Sparse<'_> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill(0);
        for (start, piece) in self.pieces {
            let (from, to) = (at.max(start), (at + bytes.len() as u64).min(start + piece.len() as u64));
            if from < to {
                let source = &piece[(from - start) as usize..(to - start) as usize];
                bytes[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
            }
        }
        Ok(())
    }

    fn write(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// The wire's memory as its reader meets it after the writer has died. The input is 8 words of the region
/// (state, process, origin, bytes of the name, head, and the pending run), 2 words of the first thread, and
/// cells: those up to the head are in the ring, the others in the thread's chunk.
pub fn fuzz_wire(bytes: &[u8]) {
    let (words, cells) = bytes.split_at(bytes.len().min(80));
    let word = |at: usize| {
        let mut word = [0; 8];
        word.iter_mut().zip(words.get(8 * at..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
        word
    };
    let mut own = vec![0; 8 * region::NAME + 8];
    let mut put = |at: usize, word: [u8; 8]| own[8 * at..8 * at + 8].copy_from_slice(&word);
    for at in 0..4 {
        put(at, word(at));
    }
    put(region::HEAD, word(4));
    put(region::HEAD + 1, word(4));
    for at in 0..3 {
        put(region::RUN + at, word(5 + at));
    }
    let threads = [word(8), word(9)].concat();
    let head = u64::from_le_bytes(word(4)).saturating_mul(CELL_BYTES);
    let (ring, chunk) = cells.split_at(cells.len().min(usize::try_from(head).unwrap_or(usize::MAX)));
    let base = region_at(0);
    let pieces = [(base, &own[..]), (base + THREADS_AT, &threads), (base + RING_AT, ring), (base + CHUNKS_AT, chunk)];
    let mut reader = WireReader::new(Sparse { pieces }, 0, "fuzz");
    let mut batch = Batch::default();
    let _ = (reader.is_open(), reader.is_finished(), reader.process(), reader.executed());
    loop {
        match reader.take(&mut batch, true) {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => return,
        }
    }
    let _ = reader.rest(&mut batch);
    assert!(batch.events.iter().all(|(at, _)| *at as usize <= batch.records.len()));
    let start = reader.start().map_or(0, <[_]>::len);
    let most = (head / CELL_BYTES) as usize + crate::wire::CHUNK_CELLS + 4;
    assert!(batch.records.len() + batch.events.len() + start <= most, "more came out than went in");
}
