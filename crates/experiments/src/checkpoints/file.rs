//! The file of a checkpoint: a machine's state, compressed, between a magic number and a header that says
//! what it is. The header comes last, with its length and the checksum of everything before. The recording of
//! a program has the same form.

use ambulator_base::OutputFile;
use ambulator_simulator::{CheckpointStart, LoadState, SaveState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Take, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"AMBCKPT1";
/// Bytes of the header's length and of the checksum.
const END: u64 = 16;
/// A header has the settings of a spec.
const MOST_HEADER_BYTES: u64 = 1 << 24;
/// Fast rather than small: most of a state is regular.
const LEVEL: i32 = 1;

/// What a checkpoint is of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of Ambulator that made it.
    pub version: String,
    /// Identifies the models ([`crate::build`]).
    pub build: String,
    /// The key: the file's name.
    pub key: String,
    /// The design of the run that made it. Others may have the same machine.
    pub design: String,
    /// Its programs.
    pub programs: String,
    /// Identifies them.
    pub identity: String,
    /// The settings on which the state depends, by dotted key.
    pub settings: Map<String, Value>,
    /// By stream: the first batch that is needed.
    pub batches: Vec<Option<u64>>,
    /// Whether time has been simulated.
    pub timed: bool,
    /// Bytes of the state before compression.
    pub state_bytes: u64,
}

impl Header {
    /// What a machine needs before it is assembled.
    pub fn start(&self) -> CheckpointStart {
        CheckpointStart { batches: self.batches.clone(), timed: self.timed }
    }
}

/// Counts and sums what is written.
struct Summed<W> {
    to: W,
    hash: Xxh3,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A file that is being written, under a temporary name.
pub struct Writing {
    output: OutputFile,
    encoder: zstd::Encoder<'static, Summed<BufWriter<File>>>,
}

impl Writing {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(path: &Path) -> Result<Writing, String> {
        let output = OutputFile::prepare(path).map_err(|error| error.to_string())?;
        let file = output.open().map_err(|error| error.to_string())?;
        let mut summed = Summed { to: BufWriter::new(file), hash: Xxh3::new() };
        summed.write_all(MAGIC).map_err(|error| error.to_string())?;
        let encoder = zstd::Encoder::new(summed, LEVEL).map_err(|error| error.to_string())?;
        Ok(Writing { output, encoder })
    }

    /// Where the contents go.
    pub fn contents(&mut self) -> &mut dyn Write {
        &mut self.encoder
    }

    /// Writes the header and gives the file its name. Returns its bytes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self, header: &impl Serialize) -> Result<u64, String> {
        let header = serde_json::to_vec(header).map_err(|error| error.to_string())?;
        let end = |mut summed: Summed<BufWriter<File>>| -> io::Result<u64> {
            summed.write_all(&header)?;
            summed.write_all(&(header.len() as u64).to_le_bytes())?;
            let sum = summed.hash.digest();
            summed.to.write_all(&sum.to_le_bytes())?;
            summed.to.flush()?;
            summed.to.get_mut().stream_position()
        };
        let bytes = self.encoder.finish().and_then(end).map_err(|error| error.to_string())?;
        self.output.finish().map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

/// Writes a checkpoint under a temporary name, and renames it when it is complete. Returns the bytes of the
/// file.
///
/// # Errors
/// A sentence that names the file.
pub fn write(path: &Path, mut header: Header, save: &mut SaveState<'_>) -> Result<u64, String> {
    let mut all = || -> Result<u64, String> {
        let mut writing = Writing::begin(path)?;
        header.state_bytes = save(writing.contents())?;
        writing.finish(&header)
    };
    all().map_err(|error| format!("{}: the checkpoint cannot be written ({error})", path.display()))
}

/// A checkpoint whose checksum is right.
pub struct Opened<H> {
    /// What it is of.
    pub header: H,
    /// Bytes of the file.
    pub bytes: u64,
    file: File,
    /// Bytes of the compressed state.
    state: u64,
}

/// Opens a checkpoint and checks that it is whole.
///
/// # Errors
/// A sentence that names the file: it cannot be read, is no checkpoint, is cut off or damaged.
pub fn open<H: DeserializeOwned>(path: &Path) -> Result<Opened<H>, String> {
    let name = path.display();
    let unreadable = |error: io::Error| format!("{name}: the checkpoint cannot be read ({error})");
    let damaged = |what: &str| {
        format!(
            "{name}: the checkpoint is damaged or cut off ({what}); remove the file, and the next run makes it again"
        )
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut magic = [0; MAGIC.len()];
    let read = file.read(&mut magic).map_err(unreadable)?;
    if magic[..read] != MAGIC[..read] || read == 0 {
        return Err(format!("{name}: this is no checkpoint of Ambulator, which begins with AMBCKPT1"));
    }
    if bytes < MAGIC.len() as u64 + END {
        return Err(damaged(&format!("it has {bytes} bytes")));
    }
    let mut hash = Xxh3::new();
    hash.update(&magic);
    let mut left = BufReader::with_capacity(1 << 20, (&mut file).take(bytes - 8 - MAGIC.len() as u64));
    let mut part = vec![0; 1 << 20];
    loop {
        match left.read(&mut part).map_err(unreadable)? {
            0 => break,
            read => hash.update(&part[..read]),
        }
    }
    drop(left);
    let mut words = [[0; 8]; 2];
    file.seek(SeekFrom::Start(bytes - END)).map_err(unreadable)?;
    for word in &mut words {
        file.read_exact(word).map_err(unreadable)?;
    }
    let [length, sum] = words.map(u64::from_le_bytes);
    if sum != hash.digest() {
        return Err(damaged("its checksum is not that of its bytes"));
    }
    if length > MOST_HEADER_BYTES || length + END + MAGIC.len() as u64 > bytes {
        return Err(damaged("its header is too long"));
    }
    let mut header = vec![0; length as usize];
    file.seek(SeekFrom::Start(bytes - END - length)).map_err(unreadable)?;
    file.read_exact(&mut header).map_err(unreadable)?;
    let header = serde_json::from_slice(&header).map_err(|error| damaged(&format!("its header: {error}")))?;
    Ok(Opened { header, bytes, file, state: bytes - END - length - MAGIC.len() as u64 })
}

/// The contents of a file.
pub type Contents = zstd::Decoder<'static, BufReader<Take<File>>>;

impl<H> Opened<H> {
    /// The contents, and the header.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn contents(mut self) -> Result<(Contents, H), String> {
        self.file.seek(SeekFrom::Start(MAGIC.len() as u64)).map_err(|error| error.to_string())?;
        let contents = zstd::Decoder::new(self.file.take(self.state)).map_err(|error| error.to_string())?;
        Ok((contents, self.header))
    }

    /// Gives the state to `load`.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn load(self, load: &mut LoadState<'_>) -> Result<(), String> {
        load(&mut self.contents()?.0).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &Path) -> Header {
        let header = Header { key: "k".into(), batches: vec![Some(3), None], ..Header::default() };
        let save = &mut |to: &mut dyn Write| {
            to.write_all(&[7; 100_000]).map_err(|error| error.to_string())?;
            Ok(100_000)
        };
        let bytes = write(path, header.clone(), save).unwrap();
        assert_eq!(bytes, std::fs::metadata(path).unwrap().len());
        Header { state_bytes: 100_000, ..header }
    }

    #[test]
    fn a_file_has_its_header_and_its_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.ckpt");
        let header = written(&path);
        let opened = open::<Header>(&path).unwrap();
        assert_eq!(opened.header, header);
        let mut state = Vec::new();
        opened
            .load(&mut |from| from.read_to_end(&mut state).map(|read| read as u64).map_err(|e| e.to_string()))
            .unwrap();
        assert_eq!(state, vec![7; 100_000]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_state_that_cannot_be_saved_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.ckpt");
        let error = write(&path, Header::default(), &mut |_| Err("no".into())).unwrap_err();
        assert!(error.contains("one.ckpt: the checkpoint cannot be written (no)"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn damaged_and_foreign_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.ckpt");
        written(&path);
        let whole = std::fs::read(&path).unwrap();
        let error_of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open::<Header>(&path).err().unwrap()
        };
        for length in [8, 20, whole.len() / 2, whole.len() - 1] {
            let error = error_of(&whole[..length]);
            assert!(error.contains("one.ckpt: the checkpoint is damaged or cut off"), "{length}: {error}");
        }
        for at in [8, 30, whole.len() - 20, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            assert!(error_of(&bytes).contains("is damaged"), "{at}");
        }
        for foreign in [&b"#!/bin/sh"[..], b"", b"AMBX"] {
            assert!(error_of(foreign).contains("this is no checkpoint of Ambulator"));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(open::<Header>(&path).err().unwrap().contains("one.ckpt: the checkpoint cannot be read"));
    }
}
