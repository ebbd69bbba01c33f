//! Finished cells of a sweep, one line each: a killed run loses at most its current cells.
//!
//! A line is a JSON object, `{"xxh3":"0123456789abcdef","cell":{...}}`, with the xxh3-64 of the text of
//! `cell`. A cell has no sim-host times, so that equal runs give equal lines; [`Store::sort`] sorts the
//! lines, so that equal sets of cells give equal files.

use ambulator_base::OutputFile;
use ambulator_simulator::RunResult;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// The name of a store's file in its folder.
const FILE: &str = "cells.jsonl";
/// Damaged lines that are reported one by one.
const MOST_REPORTED: usize = 10;

/// One finished cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) key: String,
    pub(crate) run: RunResult,
}

impl Cell {
    /// The cell as a line with its checksum and its newline.
    pub(crate) fn line(&self) -> Result<Vec<u8>, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        Ok(line_of(&text))
    }

    /// Reads a line without its newline, or says what is wrong with it.
    pub(crate) fn read(line: &[u8]) -> Result<Cell, &'static str> {
        let line = std::str::from_utf8(line).map_err(|_| "it is not text")?;
        if line.starts_with("{\"key\":") {
            return Err("it has no checksum: an earlier version wrote it");
        }
        let parts = line.strip_prefix("{\"xxh3\":\"").and_then(|rest| rest.split_once("\",\"cell\":"));
        let Some((sum, text)) = parts.and_then(|(sum, rest)| Some((sum, rest.strip_suffix('}')?))) else {
            return Err("it is incomplete, or something else than a cell");
        };
        if u64::from_str_radix(sum, 16) != Ok(xxh3_64(text.as_bytes())) {
            return Err("its checksum does not fit: it has been damaged or edited");
        }
        serde_json::from_str(text).map_err(|_| "it does not have the fields of a cell")
    }
}

/// The line of a cell's text: with its checksum and its newline.
pub(crate) fn line_of(text: &str) -> Vec<u8> {
    format!("{{\"xxh3\":\"{:016x}\",\"cell\":{text}}}\n", xxh3_64(text.as_bytes())).into_bytes()
}

/// The cells of a folder. One process uses a folder at a time.
pub struct Store {
    path: PathBuf,
    file: File,
    cells: BTreeMap<String, RunResult>,
    /// Keys in the order of the file's lines.
    order: Vec<String>,
    warnings: Vec<String>,
    /// Holds the lock.
    _folder: Option<File>,
}

impl Store {
    /// The file of the store in `folder`.
    pub fn file_in(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Opens or creates the store in `folder`. Damaged lines are left out, and [`Store::warnings`] names
    /// them.
    ///
    /// # Errors
    /// The folder cannot be created or written, another process is using it, or the store is not a regular
    /// file.
    pub fn open(folder: &Path) -> Result<Store, String> {
        let path = Store::file_in(folder);
        let fail = |what: &str, cause: std::io::Error| format!("{}: {what} ({cause})", path.display());
        fs::create_dir_all(folder).map_err(|e| fail("its folder cannot be created", e))?;
        let lock = lock_folder(folder)?;
        if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            return Err(format!("{}: this is not a regular file; name another folder for the store", path.display()));
        }
        let (mut cells, mut order, mut kept, mut damaged) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        let mut rewrite = false;
        if path.exists() {
            let mut file = BufReader::new(File::open(&path).map_err(|e| fail("it cannot be read", e))?);
            let mut line = Vec::new();
            for number in 1.. {
                line.clear();
                if file.read_until(b'\n', &mut line).map_err(|e| fail("it cannot be read", e))? == 0 {
                    break;
                }
                let whole = line.pop_if(|byte| *byte == b'\n').is_some();
                match Cell::read(&line) {
                    Ok(cell) => {
                        kept.extend_from_slice(&line);
                        kept.push(b'\n');
                        // The next cell would become part of this line.
                        rewrite |= !whole;
                        order.push(cell.key.clone());
                        cells.insert(cell.key, cell.run);
                    }
                    Err(what) => damaged.push((number, what)),
                }
            }
        }
        if rewrite || !damaged.is_empty() {
            OutputFile::prepare(&path).and_then(|file| file.write(&kept)).map_err(|e| e.to_string())?;
        }
        let file = append_to(&path)?;
        let warnings = describe(&path, &damaged);
        Ok(Store { path, file, cells, order, warnings, _folder: lock })
    }

    /// What was wrong with the file when it was opened, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The cell with that key, if it is finished.
    pub fn get(&self, key: &str) -> Option<&RunResult> {
        self.cells.get(key)
    }

    /// Adds a finished cell, on disk when this returns, without its sim-host times.
    ///
    /// # Errors
    /// It cannot be written, for example to a full disk. The cell is in the store nevertheless until it is
    /// closed.
    pub fn add(&mut self, key: &str, run: &RunResult) -> Result<(), String> {
        let cell = Cell { key: key.to_owned(), run: run.clone().without_sim_host_times() };
        let written = cell.line().and_then(|line| {
            let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
            written.map_err(|error| error.to_string())
        });
        self.order.push(cell.key.clone());
        self.cells.insert(cell.key, cell.run);
        written.map_err(|error| format!("{}: a result could not be added ({error})", self.path.display()))
    }

    /// Makes every further write fail, as on a full disk.
    #[cfg(test)]
    pub(crate) fn break_writes(&mut self) {
        self.file = File::open(&self.path).expect("the store's file");
    }

    /// Sorts the file by key, if it is not.
    ///
    /// # Errors
    /// It cannot be written. The old file is still there.
    pub fn sort(&mut self) -> Result<(), String> {
        if self.order.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let mut sorted = Vec::new();
        for (key, run) in &self.cells {
            sorted.extend(Cell { key: key.clone(), run: run.clone() }.line()?);
        }
        OutputFile::prepare(&self.path).and_then(|file| file.write(&sorted)).map_err(|error| error.to_string())?;
        self.order = self.cells.keys().cloned().collect();
        self.file = append_to(&self.path)?;
        Ok(())
    }
}

fn append_to(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("{}: it cannot be written ({error})", path.display()))
}

/// Takes the folder for this process; nothing where there are no such locks.
#[cfg(unix)]
fn lock_folder(folder: &Path) -> Result<Option<File>, String> {
    use rustix::fs::{FlockOperation, flock};
    /// A program that this process starts has the lock too, for a moment.
    const ATTEMPTS: u32 = 10;
    let Ok(file) = File::open(folder) else { return Ok(None) };
    for _ in 0..ATTEMPTS {
        if flock(&file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK) {
            return Ok(Some(file));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(format!(
        "{}: another process is using the store in this folder; wait until it ends, or name another folder",
        folder.display()
    ))
}

#[cfg(not(unix))]
fn lock_folder(_folder: &Path) -> Result<Option<File>, String> {
    Ok(None)
}

/// Sentences about damaged lines: their numbers, and what is wrong with them.
fn describe(path: &Path, damaged: &[(usize, &str)]) -> Vec<String> {
    let (reported, more) = damaged.split_at(damaged.len().min(MOST_REPORTED));
    let sentence = |(number, what): &(usize, &str)| {
        format!("{}:{number}: this line is left out: {what}; its cell is computed again", path.display())
    };
    let mut sentences: Vec<String> = reported.iter().map(sentence).collect();
    if !more.is_empty() {
        sentences.push(format!("{}: {} more lines are left out", path.display(), more.len()));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ipc: f64) -> RunResult {
        let measures = [("x".to_owned(), ipc / 3.0)].into();
        RunResult { ipc, measures, sim_host_seconds: 1.5, version: "1".into(), ..RunResult::default() }
    }

    fn filled(folder: &Path) -> Vec<u8> {
        let mut store = Store::open(folder).unwrap();
        for (key, ipc) in [("c", 0.1 + 0.2), ("a", 1.0 / 3.0), ("b", 2.0f64.sqrt())] {
            store.add(key, &run(ipc)).unwrap();
        }
        drop(store);
        fs::read(Store::file_in(folder)).unwrap()
    }

    fn reopened(bytes: &[u8]) -> (Store, tempfile::TempDir) {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(Store::file_in(scratch.path()), bytes).unwrap();
        (Store::open(scratch.path()).unwrap(), scratch)
    }

    #[test]
    fn numbers_come_back_to_the_last_bit() {
        let scratch = tempfile::tempdir().unwrap();
        let mut random = ambulator_base::Random::new(7);
        let values = (0..5000).map(|_| f64::from_bits(random.below(u64::MAX))).filter(|value| value.is_finite());
        let measures: BTreeMap<String, f64> = values.enumerate().map(|(at, value)| (at.to_string(), value)).collect();
        let mut store = Store::open(scratch.path()).unwrap();
        store.add("x", &RunResult { measures: measures.clone(), ..run(1.0) }).unwrap();
        drop(store);
        let store = Store::open(scratch.path()).unwrap();
        for (name, value) in measures {
            let back = store.get("x").unwrap().measure(&name);
            assert_eq!(back.to_bits(), value.to_bits(), "{value:e}");
        }
    }

    #[test]
    fn the_finished_file_does_not_depend_on_the_order_or_the_time_of_runs() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let written = |folder: &Path, keys: &[&str], seconds: f64| {
            let mut store = Store::open(folder).unwrap();
            for key in keys {
                store.add(key, &RunResult { sim_host_seconds: seconds, ..run(0.7) }).unwrap();
            }
            store.sort().unwrap();
            fs::read(Store::file_in(folder)).unwrap()
        };
        let sorted = written(first.path(), &["a", "b", "c"], 1.0);
        assert_eq!(written(second.path(), &["c", "a", "b"], 2.0), sorted);
        assert_eq!(written(second.path(), &[], 3.0), sorted);
    }

    #[test]
    fn a_line_without_its_newline_keeps_the_next_one_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let mut bytes = filled(scratch.path());
        assert_eq!(bytes.pop(), Some(b'\n'));
        let (mut store, folder) = reopened(&bytes);
        assert!(store.get("b").is_some() && store.warnings().is_empty());
        store.add("d", &run(4.0)).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert!(["a", "b", "c", "d"].iter().all(|key| store.get(key).is_some()), "{:?}", store.warnings());
    }

    #[test]
    fn every_changed_byte_is_noticed_and_every_damaged_line_named() {
        let scratch = tempfile::tempdir().unwrap();
        let bytes = filled(scratch.path());
        let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let length = bytes[second..].iter().position(|byte| *byte == b'\n').unwrap();
        for at in (second..second + length).step_by(17) {
            let mut edited = bytes.clone();
            edited[at] = if edited[at] == b'1' { b'2' } else { b'1' };
            let (store, folder) = reopened(&edited);
            assert!(store.get("a").is_none() && store.get("b").is_some() && store.get("c").is_some(), "byte {at}");
            let [warning] = store.warnings() else { panic!("byte {at}: {:?}", store.warnings()) };
            let line = format!("{}:2: ", Store::file_in(folder.path()).display());
            assert!(warning.starts_with(&line) && warning.ends_with("computed again"), "{warning}");
            drop(store);
            assert!(Store::open(folder.path()).unwrap().warnings().is_empty(), "it is told once");
        }
        let (store, _folder) = reopened("rubbish\n".repeat(25).as_bytes());
        assert_eq!(store.warnings().len(), 11);
        assert!(store.warnings()[10].ends_with("15 more lines are left out"), "{:?}", store.warnings());
        let (store, _folder) = reopened(b"{\"key\":\"x\",\"run\":{}}\n\xff\xfe\n");
        assert!(store.warnings()[0].contains("an earlier version wrote it"), "{:?}", store.warnings());
        assert!(store.warnings()[1].contains(":2: "), "{:?}", store.warnings());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_and_what_another_process_uses_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(scratch.path()).unwrap();
        let error = Store::open(scratch.path()).err().unwrap();
        assert!(error.contains("another process is using the store"), "{error}");
        drop(store);
        let pipe = scratch.path().join("pipe");
        fs::create_dir(&pipe).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(Store::file_in(&pipe)).status().unwrap().success());
        let error = Store::open(&pipe).err().unwrap();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
