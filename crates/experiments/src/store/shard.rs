//! Shards: the files of a store's cells. A process appends to its own, a line synced each, and holds a lock
//! on it meanwhile; a finished one is compressed.

use super::line;
use ambulator_base::OutputFile;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The end of the name of a shard that a process writes.
pub(super) const OPEN: &str = ".ndjson";
/// The end of the name of a finished one.
pub(super) const DONE: &str = ".ndjson.zst";
/// zstd's level: 20 MB for ten thousand cells, in less time than they take to read.
const LEVEL: i32 = 3;

/// The shard that this process writes.
pub(super) struct Shard {
    path: PathBuf,
    /// Holds the lock.
    file: File,
    /// Bytes of whole lines.
    whole: u64,
    /// Bytes of a line that could not be written whole may follow.
    torn: bool,
}

impl Shard {
    /// A new one in `folder`.
    pub(super) fn create(folder: &Path) -> io::Result<Shard> {
        /// More attempts fail only if somebody creates each name first.
        const ATTEMPTS: u32 = 100;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        for attempt in 0..ATTEMPTS {
            let name = format!("{}-{}-{:x}-{attempt}{OPEN}", machine_name(), std::process::id(), now >> 10);
            let path = folder.join(name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    // Until it is locked it looks like that of a killed process: empty ones are left alone.
                    lock(&file);
                    return Ok(Shard { path, file, whole: 0, torn: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Appends a line, on disk when this returns. After a failure the shard has whole lines only, and the
    /// next line may succeed.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.whole)?;
        }
        self.torn = true;
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // A part of a line takes room, and would be told as damage.
            self.torn = self.file.set_len(self.whole).is_err();
            return written;
        }
        self.torn = false;
        self.whole += line.len() as u64;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file by a compressed one with these lines.
    pub(super) fn finish(self, lines: &[u8]) -> Result<PathBuf, String> {
        let done = done_name(&self.path);
        write_done(&done, lines)?;
        // If this fails, the cells are there twice.
        let _ = fs::remove_file(&self.path);
        Ok(done)
    }

    /// Makes every further write fail, as on a full disk.
    #[cfg(test)]
    pub(super) fn break_writes(&mut self) {
        self.file = File::open(&self.path).expect("the shard");
    }
}

/// The name of a shard when it is finished.
pub(super) fn done_name(open: &Path) -> PathBuf {
    open.with_extension(DONE.trim_start_matches('.'))
}

/// Writes a finished shard, which is there as a whole or not at all.
pub(super) fn write_done(path: &Path, lines: &[u8]) -> Result<(), String> {
    let packed = zstd::encode_all(lines, LEVEL).map_err(|error| format!("{}: {error}", path.display()))?;
    OutputFile::prepare(path).and_then(|file| file.write(&packed)).map_err(|error| error.to_string())
}

/// The shards of a folder, by name.
pub(super) fn shards(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(OPEN) || name.ends_with(DONE)
    };
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut found: Vec<PathBuf> = entries.into_iter().filter(is_shard).collect();
    found.sort();
    Ok(found)
}

/// Whether a shard is finished, by its name.
pub(super) fn is_done(path: &Path) -> bool {
    path.to_string_lossy().ends_with(DONE)
}

/// A shard of a process of this machine that was killed, locked until the returned file is dropped; `None` if
/// a process still writes it, or if that cannot be known. Locks of shared folders may not reach other
/// machines, so their shards stay as they are.
pub(super) fn abandoned(path: &Path) -> Option<File> {
    if is_of_another_machine(path) {
        return None;
    }
    let file = OpenOptions::new().read(true).append(true).open(path).ok()?;
    let has_lines = file.metadata().is_ok_and(|there| there.len() > 0);
    (has_lines && lock(&file)).then_some(file)
}

/// What was read of a shard.
#[derive(Default)]
pub(super) struct Part {
    /// Undamaged rows: key and text.
    pub(super) rows: Vec<(String, String)>,
    /// Numbers of damaged lines, from 1, and what is wrong with each.
    pub(super) damaged: Vec<(usize, String)>,
    /// Bytes of whole lines, for a shard that is still written.
    pub(super) whole: u64,
    /// The last line has no newline: it is being written, or was when its process was killed.
    pub(super) unfinished: bool,
}

/// Reads a shard from byte `from` on, which is 0 for a finished one.
pub(super) fn read(path: &Path, from: u64) -> io::Result<Part> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    file.seek(SeekFrom::Start(from))?;
    Ok(if is_done(path) {
        match zstd::Decoder::new(file) {
            Ok(decoder) => lines(BufReader::new(decoder), from),
            Err(error) => Part { damaged: vec![(1, error.to_string())], ..Part::default() },
        }
    } else {
        lines(BufReader::new(file), from)
    })
}

fn lines<R: Read>(mut input: BufReader<R>, from: u64) -> Part {
    let mut part = Part { whole: from, ..Part::default() };
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        match input.read_until(b'\n', &mut text) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                part.damaged.push((number, format!("it and those after it cannot be read ({error})")));
                break;
            }
        }
        let bytes = text.len() as u64;
        let whole = text.pop_if(|byte| *byte == b'\n').is_some();
        match line::check(&text) {
            Ok((row, key)) => part.rows.push((key.to_owned(), row)),
            // Another process may be about to write its rest.
            Err(_) if !whole => part.unfinished = true,
            Err(what) => part.damaged.push((number, what.to_owned())),
        }
        part.whole += if whole { bytes } else { 0 };
    }
    part
}

/// Whether a shard's name, `MACHINE-PROCESS-TIME-ATTEMPT`, has another machine in it.
fn is_of_another_machine(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parts: Vec<&str> = name.trim_end_matches(OPEN).rsplitn(4, '-').collect();
    matches!(parts[..], [_, _, process, machine] if process.parse::<u32>().is_ok() && machine != machine_name())
}

/// A name for this machine that a file may have.
pub(super) fn machine_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(32).collect();
    if name.is_empty() { "shard".to_owned() } else { name }
}

/// Locks a file for this process, if it is not locked. False where there are no locks.
#[cfg(unix)]
fn lock(file: &File) -> bool {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(not(unix))]
fn lock(_file: &File) -> bool {
    false
}
