//! Compaction: every process leaves a finished shard, and many small ones are put together into one.
//!
//! | step | a process that is killed after it leaves |
//! |---|---|
//! | 1. note the files that will be replaced, in `cells/.NAME.old` | a note, which is removed later |
//! | 2. write `cells/NAME.ndjson.zst`, synced, and renamed into place | every cell twice, and the note |
//! | 3. remove those files | some cells twice, and the note |
//! | 4. remove the note | nothing |
//!
//! Whoever opens the store next ends what was begun. A file is removed only by a process that has seen all of
//! its lines in a synced one, so that no two of them, on any machines, can lose a line together.

use super::shard::{self, DONE};
use super::{Store, line, shared_file};
use crate::claims::{CLAIM_TIMEOUT, Claims, Holder};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Finished shards below [`SMALL`] that a store may have; a process that ends compacts more.
pub(super) const MOST_SMALL: usize = 64;
/// Bytes below which a finished shard is small: some hundred cells.
pub(super) const SMALL: u64 = 1 << 20;
/// The end of the name of a note.
const NOTE: &str = ".old";
/// What is claimed by a process that compacts.
const CLAIM: &str = "compaction";

/// What a compaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The new file.
    pub into: PathBuf,
    /// Files that it replaces.
    pub files: usize,
    /// Rows in it.
    pub rows: usize,
}

/// A compaction on its way.
pub(super) struct Compaction {
    new: PathBuf,
    note: PathBuf,
    old: Vec<PathBuf>,
    lines: Vec<u8>,
    rows: usize,
}

impl Compaction {
    /// Of finished shards. Those that are damaged or cannot be read stay as they are; `None` if fewer than
    /// two are left.
    pub(super) fn of(folder: &Path, files: Vec<PathBuf>) -> Option<Compaction> {
        // Rows of one key that differ are all kept.
        let (mut rows, mut old) = (BTreeMap::<String, BTreeSet<String>>::new(), Vec::new());
        for file in files {
            let Ok(part) = shard::read(&file, 0) else { continue };
            if part.damaged.is_empty() && !part.unfinished {
                part.rows.into_iter().for_each(|(key, text)| _ = rows.entry(key).or_default().insert(text));
                old.push(file);
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("{}-{}-{:x}-compacted", shard::machine_name(), std::process::id(), now >> 10);
        let texts: Vec<&String> = rows.values().flatten().collect();
        (old.len() > 1).then(|| Compaction {
            new: folder.join(format!("{name}{DONE}")),
            note: folder.join(format!(".{name}{NOTE}")),
            lines: texts.iter().flat_map(|text| line::summed(text)).collect(),
            rows: texts.len(),
            old,
        })
    }

    /// Step 1.
    pub(super) fn note(&self) -> Result<(), String> {
        let names: Vec<String> = self.old.iter().map(|path| name_of(path)).collect();
        shared_file::write(&self.note, names.join("\n").as_bytes())
    }

    /// Step 2.
    pub(super) fn write(&self) -> Result<(), String> {
        shard::write_done(&self.new, &self.lines)?;
        sync_folder(&self.new);
        Ok(())
    }

    /// Step 3.
    pub(super) fn remove_old(&self) {
        // What cannot be removed is there twice.
        self.old.iter().for_each(|path| _ = fs::remove_file(path));
    }

    /// Step 4.
    pub(super) fn end(self) -> Compacted {
        let _ = fs::remove_file(&self.note);
        Compacted { into: self.new, files: self.old.len(), rows: self.rows }
    }
}

impl Store {
    /// Puts all finished shards together into one. `None` if there is only one, or if another process does
    /// it.
    ///
    /// # Errors
    /// The new file cannot be written; then everything is as it was.
    pub fn compact(&mut self) -> Result<Option<Compacted>, String> {
        let files = self.shards()?.into_iter().filter(|path| shard::is_done(path)).collect();
        self.compact_files(files)
    }

    /// Puts the small finished shards together, if there are more than [`MOST_SMALL`].
    pub(super) fn compact_small(&mut self) -> Result<Option<Compacted>, String> {
        let is_small =
            |path: &PathBuf| shard::is_done(path) && fs::metadata(path).is_ok_and(|there| there.len() < SMALL);
        let files: Vec<PathBuf> = self.shards()?.into_iter().filter(is_small).collect();
        if files.len() > MOST_SMALL { self.compact_files(files) } else { Ok(None) }
    }

    fn compact_files(&mut self, files: Vec<PathBuf>) -> Result<Option<Compacted>, String> {
        if files.len() < 2 {
            return Ok(None);
        }
        // So that processes which end together do not all do it. Two that do nevertheless harm nothing.
        let mut claims = Claims::open(self.folder(), Holder::this(1), CLAIM_TIMEOUT)?;
        if !claims.take(CLAIM)? {
            return Ok(None);
        }
        let Some(compaction) = Compaction::of(&self.cells_folder(), files) else { return Ok(None) };
        compaction.note()?;
        if let Err(error) = compaction.write() {
            let _ = fs::remove_file(&compaction.note);
            return Err(error);
        }
        self.read.insert(compaction.new.clone(), 0);
        compaction.remove_old();
        Ok(Some(compaction.end()))
    }

    /// Ends the compactions of processes that were killed.
    pub(super) fn end_compactions(&self) {
        let folder = self.cells_folder();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(of) = name.strip_prefix('.').and_then(|name| name.strip_suffix(NOTE)) else { continue };
            let new = folder.join(format!("{of}{DONE}"));
            if new.exists() {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                // Names, not paths: nothing outside of the folder is touched.
                let old = text.lines().filter(|old| old.ends_with(DONE) && !old.contains('/'));
                let rows = |path: &Path| shard::read(path, 0).map(|part| part.rows).unwrap_or_default();
                // It may have been copied, and not as a whole.
                let there: BTreeSet<(String, String)> = rows(&new).into_iter().collect();
                let old = old.map(|old| folder.join(old)).filter(|old| *old != new);
                old.filter(|old| rows(old).iter().all(|row| there.contains(row)))
                    .for_each(|old| _ = fs::remove_file(old));
            } else if !is_old(&entry.path()) {
                // It may be on its way.
                continue;
            }
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a file is older than the silence of a process that has ended.
fn is_old(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|there| there.modified()).ok().and_then(|changed| changed.elapsed().ok());
    age.is_some_and(|age| age > CLAIM_TIMEOUT)
}

/// Puts the new name of a file on disk before the old ones go. Where folders cannot be synced, their order is
/// that of the file system.
fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent() {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}
