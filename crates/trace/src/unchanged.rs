//! A file that is read twice: once for its digest, once for its contents. What the second reading returns is
//! what the first one saw, so that the digest is of what was read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes that are compared at a time.
const CHUNK: usize = 1 << 20;

/// A file whose contents are known by their checksums.
pub(crate) struct Unchanged {
    file: File,
    /// The xxh3-64 of each chunk.
    sums: Vec<u64>,
    /// Bytes of the file when it was opened.
    bytes: u64,
    /// The chunk that is being handed out.
    chunk: Vec<u8>,
    given: usize,
    /// Chunks read so far.
    number: usize,
}

impl Unchanged {
    /// Reads the whole file once; returns its digest, the xxh3-64 of all of it, and a reader from its
    /// beginning.
    pub(crate) fn new(mut file: File) -> io::Result<(u64, Unchanged)> {
        file.seek(SeekFrom::Start(0))?;
        let (mut whole, mut sums, mut bytes) = (Xxh3::new(), Vec::new(), 0);
        let mut chunk = Vec::with_capacity(CHUNK);
        while read_chunk(&mut file, &mut chunk)? > 0 {
            whole.update(&chunk);
            sums.push(xxh3_64(&chunk));
            bytes += chunk.len() as u64;
        }
        file.seek(SeekFrom::Start(0))?;
        chunk.clear();
        Ok((whole.digest(), Unchanged { file, sums, bytes, chunk, given: 0, number: 0 }))
    }

    /// Why the file is not the one that was opened.
    fn changed(&self) -> io::Error {
        let now = self.file.metadata().map_or(0, |there| there.len());
        let (then, from) = (self.bytes, (self.number * CHUNK) as u64);
        io::Error::other(if now < then {
            format!("it was cut short while it was read, from {then} to {now} bytes")
        } else {
            format!("it was changed while it was read, at byte {from} or later")
        })
    }
}

/// Fills `chunk` up to its size, or to the end of the file; returns its length.
fn read_chunk(file: &mut File, chunk: &mut Vec<u8>) -> io::Result<usize> {
    chunk.clear();
    file.by_ref().take(CHUNK as u64).read_to_end(chunk)
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.chunk.len() {
            if self.number == self.sums.len() {
                return Ok(0);
            }
            self.given = 0;
            if let Err(error) = read_chunk(&mut self.file, &mut self.chunk) {
                self.chunk.clear();
                return Err(error);
            }
            if xxh3_64(&self.chunk) != self.sums[self.number] {
                self.chunk.clear();
                return Err(self.changed());
            }
            self.number += 1;
        }
        let count = buffer.len().min(self.chunk.len() - self.given);
        buffer[..count].copy_from_slice(&self.chunk[self.given..][..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> (tempfile::NamedTempFile, Unchanged, u64) {
        let mut named = tempfile::NamedTempFile::new().unwrap();
        named.write_all(bytes).unwrap();
        let (digest, reader) = Unchanged::new(named.reopen().unwrap()).unwrap();
        (named, reader, digest)
    }

    #[test]
    fn an_unchanged_file_is_read_as_it_is() {
        for length in [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 17] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 31 / 8) as u8).collect();
            let (_named, mut reader, digest) = file(&bytes);
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert!(read == bytes, "{length}");
            assert_eq!(digest, xxh3_64(&bytes), "{length}");
        }
    }

    #[test]
    fn nothing_that_changed_is_handed_out() {
        let bytes = vec![5; 3 * CHUNK];
        let (named, mut reader, _) = file(&bytes);
        reader.read_exact(&mut vec![0; CHUNK]).unwrap();
        named.as_file().set_len(CHUNK as u64 + 100).unwrap();
        let error = reader.read(&mut [0; 10]).unwrap_err().to_string();
        let (then, now) = (3 * CHUNK, CHUNK + 100);
        assert_eq!(error, format!("it was cut short while it was read, from {then} to {now} bytes"));
        let (mut named, mut reader, _) = file(&bytes);
        named.as_file_mut().seek(SeekFrom::Start(CHUNK as u64 + 9)).unwrap();
        named.write_all(&[6]).unwrap();
        let mut read = Vec::new();
        let error = reader.read_to_end(&mut read).unwrap_err().to_string();
        assert_eq!(error, format!("it was changed while it was read, at byte {CHUNK} or later"));
        assert!(read == bytes[..CHUNK]);
    }
}
