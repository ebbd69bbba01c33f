//! The store: finished cells by their keys, in a folder that several processes use at once.
//!
//! | path | what |
//! |---|---|
//! | `cells/SHARD.ndjson` | rows that a process has written so far, one line each ([`crate::row`]) |
//! | `cells/SHARD.ndjson.zst` | those of a process that has ended, or of several |
//! | `specs/HASH.json` | the specs that rows name |
//! | `columns.json` | unit and meaning of each column |
//! | `columns/HASH.json` | parts of it, so that none is lost when stores are merged or several processes add some |
//! | `studies/NAME.json` | the cells of a study: what `sweep` was asked for |
//!
//! A killed process loses its current cells at most: each line is on disk before its cell counts as finished.
//! Stores are merged by copying their files into one folder.

mod compaction;
pub(crate) mod line;
mod shard;
mod shared_file;

use crate::cell::{build, is_of_this_build};
use crate::profile_columns;
use crate::row::{self, CellInfo, Column, Row, first_difference, row_of, run_of, spec_hash};
use crate::series_columns;
use ambulator_simulator::{CounterMeaning, RunResult, Schema, Status};
pub use compaction::Compacted;
use serde_json::Value;
use shard::Shard;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// The folder that commands use unless they are told another.
pub const DEFAULT_STORE: &str = "out/results";
/// Damaged lines that are reported one by one.
const MOST_REPORTED: usize = 10;
/// The file of an earlier version's store.
const FORMER: &str = "cells.jsonl";

/// The cells of a folder. Several processes may use one at a time.
pub struct Store {
    folder: PathBuf,
    shard: Option<Shard>,
    /// Lines of this process's shard, by key.
    own: BTreeMap<String, Vec<u8>>,
    /// Texts of rows, by key.
    cells: HashMap<String, String>,
    /// Bytes that were read of each shard.
    read: BTreeMap<PathBuf, u64>,
    /// Hashes of specs that are known to be on disk.
    specs: BTreeSet<String>,
    columns: BTreeMap<String, Column>,
    warnings: Vec<String>,
}

impl Store {
    /// Opens or creates the store in `folder`. Damaged lines are left out, and [`Store::warnings`] names
    /// them; shards that killed processes left are compressed.
    ///
    /// # Errors
    /// The folder cannot be created or read.
    pub fn open(folder: &Path) -> Result<Store, String> {
        let mut store = Store {
            folder: folder.to_owned(),
            shard: None,
            own: BTreeMap::new(),
            cells: HashMap::new(),
            read: BTreeMap::new(),
            specs: BTreeSet::new(),
            columns: BTreeMap::new(),
            warnings: Vec::new(),
        };
        for folder in ["cells", "specs", "studies", "columns"].map(|name| folder.join(name)) {
            fs::create_dir_all(&folder)
                .map_err(|error| format!("{}: the store's folder cannot be created ({error})", folder.display()))?;
        }
        if folder.join(FORMER).exists() {
            store.warnings.push(format!(
                "{}: an earlier version wrote these cells; they stay there, and are not used",
                folder.join(FORMER).display()
            ));
        }
        store.columns = store.columns_on_disk();
        if store.columns != columns_in(&store.folder.join("columns.json")) {
            // Of merged stores. If it cannot be written, it is by the next one.
            let _ = store.write_columns();
        }
        store.take_over()?;
        store.end_compactions();
        store.refresh()?;
        store.note_on_builds();
        Ok(store)
    }

    /// Says so if all cells are of other builds: they are not damaged, but not of use either.
    fn note_on_builds(&mut self) {
        let start = format!("\"build\":\"{}", build());
        let is_own = |text: &String| {
            text.contains(&start)
                && row_in(text).and_then(|row| Some(is_of_this_build(row.get("build")?.as_str()?))).unwrap_or_default()
        };
        if self.cells.is_empty() || self.cells.values().any(is_own) {
            return;
        }
        let rows = self.cells.values().filter_map(|text| row_in(text));
        let versions: BTreeSet<String> =
            rows.filter_map(|row| row.get("version")?.as_str().map(str::to_owned)).collect();
        self.warnings.push(format!(
            "{}: its {} cells are of other builds of Ambulator (version {}; this is {}); they stay there, and are not used",
            self.folder.display(),
            self.cells.len(),
            versions.into_iter().collect::<Vec<_>>().join(", "),
            env!("CARGO_PKG_VERSION")
        ));
    }

    /// The store's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn cells_folder(&self) -> PathBuf {
        self.folder.join("cells")
    }

    /// The files in `folder`, if it is a store: outputs must not replace them.
    pub fn files_in(folder: &Path) -> Vec<PathBuf> {
        let mut files = shard::shards(&folder.join("cells")).unwrap_or_default();
        let below = ["specs", "studies", "columns"].into_iter().filter_map(|name| fs::read_dir(folder.join(name)).ok());
        files.extend(below.flatten().flatten().map(|entry| entry.path()));
        files.extend(["columns.json", FORMER].map(|name| folder.join(name)));
        files
    }

    /// What was wrong with files of the store since it was opened, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Compresses the shards that killed processes left.
    fn take_over(&mut self) -> Result<(), String> {
        for path in self.shards()?.into_iter().filter(|path| !shard::is_done(path)) {
            let Some(_lock) = shard::abandoned(&path) else { continue };
            let Ok(part) = shard::read(&path, 0) else { continue };
            self.describe(&path, &part, part.unfinished);
            let rows: BTreeMap<String, String> = part.rows.into_iter().collect();
            let lines: Vec<u8> = rows.values().flat_map(|text| line::summed(text)).collect();
            match shard::write_done(&shard::done_name(&path), &lines) {
                Ok(()) => _ = fs::remove_file(&path),
                // On a full disk, it can be read where it is.
                Err(error) => {
                    let path = path.display();
                    self.warnings.push(format!("{path}: it could not be compressed, and is read as it is ({error})"));
                }
            }
        }
        Ok(())
    }

    fn shards(&self) -> Result<Vec<PathBuf>, String> {
        let folder = self.cells_folder();
        shard::shards(&folder).map_err(|error| format!("{}: it cannot be read ({error})", folder.display()))
    }

    /// Reads what other processes have written since the last look. Returns how many cells are new.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn refresh(&mut self) -> Result<usize, String> {
        /// Files may be replaced whenever the folder has been listed, but not for ever.
        const LOOKS: usize = 10;
        let before = self.cells.len();
        for _ in 0..LOOKS {
            if self.read_shards()? {
                break;
            }
        }
        Ok(self.cells.len() - before)
    }

    /// Reads what is new. False if a file vanished meanwhile: its cells are in another.
    fn read_shards(&mut self) -> Result<bool, String> {
        let mut all = true;
        for path in self.shards()? {
            let own = self.shard.as_ref().is_some_and(|shard| shard.path() == path);
            let from = self.read.get(&path).copied();
            if own || (shard::is_done(&path) && from.is_some()) {
                continue;
            }
            let part = match shard::read(&path, from.unwrap_or(0)) {
                Ok(part) => part,
                // Its process has ended since, or it has been put together with others.
                Err(_) if !path.exists() => {
                    all = false;
                    continue;
                }
                Err(error) => {
                    self.warnings.push(format!("{}: it cannot be read ({error})", path.display()));
                    self.read.insert(path, u64::MAX);
                    continue;
                }
            };
            if !part.damaged.is_empty() && !path.exists() {
                all = false;
                continue;
            }
            self.describe(&path, &part, false);
            if shard::is_done(&path) && !part.damaged.is_empty() {
                let good: Vec<u8> = part.rows.iter().flat_map(|(_, text)| line::summed(text)).collect();
                // So that it is told once. If it cannot be written, it is told again.
                let _ = shard::write_done(&path, &good);
            }
            self.read.insert(path.clone(), part.whole);
            for (key, text) in part.rows {
                self.take(key, text, &path);
            }
        }
        Ok(all)
    }

    /// Keeps a row that was read, unless there is a better one with its key.
    fn take(&mut self, key: String, text: String, path: &Path) {
        let Some(known) = self.cells.get(&key) else {
            self.cells.insert(key, text);
            return;
        };
        if *known == text {
            return;
        }
        let parsed = |text: &str| serde_json::from_str::<Row>(text).unwrap_or_default();
        let (one, other) = (parsed(known), parsed(&text));
        let rank = |row: &Row| match row.get("status").and_then(Value::as_str) {
            Some("done") => 3,
            Some("outcome") => 2,
            Some("failed") => 1,
            _ => 0,
        };
        if rank(&one) == rank(&other)
            && rank(&one) > 1
            && let Some(column) = first_difference(&one, &other)
        {
            let of = |row: &Row, name: &str| row.get(name).map(ToString::to_string).unwrap_or_default();
            self.warnings.push(format!(
                "{}: the cell {key} ({} on {}) is there twice with different numbers, of which the first is used: \
                 `{column}` is {} and {}",
                path.display(),
                of(&one, "design").trim_matches('"'),
                of(&one, "program").trim_matches('"'),
                of(&one, column),
                of(&other, column)
            ));
        }
        if rank(&other) > rank(&one) {
            self.cells.insert(key, text);
        }
    }

    /// Sentences about damaged lines: their numbers, and what is wrong with them.
    fn describe(&mut self, path: &Path, part: &shard::Part, killed: bool) {
        let mut damaged = part.damaged.clone();
        if killed {
            damaged.push((part.rows.len() + part.damaged.len() + 1, "it is incomplete".into()));
        }
        let (reported, more) = damaged.split_at(damaged.len().min(MOST_REPORTED));
        self.warnings.extend(reported.iter().map(|(number, what)| {
            format!("{}:{number}: this line is left out: {what}; its cell is computed again", path.display())
        }));
        if !more.is_empty() {
            self.warnings.push(format!("{}: {} more lines are left out", path.display(), more.len()));
        }
    }

    /// Number of cells, of any version.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Every row, sorted by key. It takes a millisecond for some ten of them.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let mut keys: Vec<&String> = self.cells.keys().collect();
        keys.sort();
        keys.into_iter().filter_map(|key| self.row(key))
    }

    /// The row with that key.
    pub fn row(&self, key: &str) -> Option<Row> {
        serde_json::from_str(self.cells.get(key)?).ok()
    }

    /// The spec with that hash.
    pub fn spec(&self, hash: &str) -> Option<Value> {
        let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let text = is_hash.then(|| fs::read_to_string(self.spec_file(hash)).ok())??;
        // An edited spec is not the one that is meant.
        serde_json::from_str(&text).ok().filter(|spec| spec_hash(spec) == hash)
    }

    fn spec_file(&self, hash: &str) -> PathBuf {
        self.folder.join("specs").join(format!("{hash}.json"))
    }

    /// The cell with that key, if it is there with its spec.
    pub fn get(&self, key: &str) -> Option<(CellInfo, RunResult)> {
        let row = self.row(key)?;
        let spec = self.spec(row.get("spec")?.as_str()?)?;
        run_of(&row, spec).ok()
    }

    /// Whether there is a cell with that key, finished or failed.
    pub fn contains(&self, key: &str) -> bool {
        self.cells.contains_key(key)
    }

    /// The keys without a cell; with `retry_failed` also those whose cells have failed.
    pub fn missing<'k>(&self, keys: impl IntoIterator<Item = &'k str>, retry_failed: bool) -> Vec<&'k str> {
        let failed = |key: &str| self.row(key).is_none_or(|row| row.get("status").is_none_or(|of| of == "failed"));
        keys.into_iter().filter(|key| !self.contains(key) || retry_failed && failed(key)).collect()
    }

    /// Unit and meaning of the columns, as far as they are known.
    pub fn columns(&self) -> &BTreeMap<String, Column> {
        &self.columns
    }

    /// Unit and meaning of the counters of `run`. Those of cells that were copied from elsewhere may have
    /// none.
    pub fn schema_of(&self, run: &RunResult) -> Schema {
        let meaning = |name: &String| {
            let column = self.columns.get(name)?;
            let unit = serde_json::from_value(Value::from(column.unit.as_str())).ok()?;
            let Column { meaning, timed, gauge, .. } = column.clone();
            Some((name.clone(), CounterMeaning { unit, meaning, timed, gauge }))
        };
        run.counters.keys().filter_map(meaning).collect()
    }

    fn columns_on_disk(&self) -> BTreeMap<String, Column> {
        let mut all = columns_in(&self.folder.join("columns.json"));
        let parts = fs::read_dir(self.folder.join("columns")).into_iter().flatten().flatten();
        let mut parts: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
        parts.retain(|path| path.extension().is_some_and(|end| end == "json"));
        parts.sort();
        parts.iter().for_each(|path| unite(&mut all, columns_in(path)));
        all
    }

    /// Adds a finished cell, on disk when this returns. `schema` has unit and meaning of its counters. A cell
    /// with the same key is replaced, on disk when the store is finished.
    ///
    /// # Errors
    /// It cannot be written, for example to a full disk. The cell is in the store nevertheless until it is
    /// closed.
    pub fn add(&mut self, info: &CellInfo, run: &RunResult, schema: &Schema) -> Result<(), String> {
        let row = row_of(info, run);
        let line = line::line_of(&row);
        self.cells.insert(info.cell.clone(), serde_json::to_string(&row).unwrap_or_default());
        let written = self.write_spec(&run.spec).and_then(|()| {
            // What cannot be appended now is written when the store is finished, if there is room then.
            self.own.insert(info.cell.clone(), line.clone());
            self.write(run, &line, schema)
        });
        written.map_err(|error| {
            format!("{}: a result could not be added ({error}); the others are kept", self.folder.display())
        })
    }

    fn write_spec(&mut self, spec: &Value) -> Result<(), String> {
        let hash = spec_hash(spec);
        // One of another content is damaged.
        if !self.specs.contains(&hash) && self.spec(&hash).is_none() {
            shared_file::write(&self.spec_file(&hash), spec.to_string().as_bytes())?;
        }
        self.specs.insert(hash);
        Ok(())
    }

    fn write(&mut self, run: &RunResult, line: &[u8], schema: &Schema) -> Result<(), String> {
        self.add_columns(run, schema)?;
        let shard = match &mut self.shard {
            Some(shard) => shard,
            None => self.shard.insert(Shard::create(&self.cells_folder()).map_err(|error| error.to_string())?),
        };
        shard.append(line).map_err(|error| error.to_string())
    }

    /// Adds columns that have no unit and meaning yet, together with those that others have added since.
    fn add_columns(&mut self, run: &RunResult, schema: &Schema) -> Result<(), String> {
        let mut wanted = if self.columns.contains_key("cell") { BTreeMap::new() } else { row::columns() };
        wanted.extend(row::counter_columns(schema));
        wanted.extend(run.series.iter().flat_map(|series| series_columns::columns(series, schema)));
        if let Some(sampled) = &run.sampled {
            let known = row::columns().into_iter().chain(row::counter_columns(schema)).collect();
            wanted.extend(row::sample_columns(sampled, &known));
        }
        wanted.extend(run.profile.iter().flat_map(|_| profile_columns::columns()));
        wanted.retain(|name, column| match self.columns.get(name) {
            None => true,
            Some(known) => !known.meaning.split(" / ").any(|part| part == column.meaning),
        });
        if wanted.is_empty() {
            return Ok(());
        }
        let part = serde_json::to_vec_pretty(&wanted).map_err(|error| error.to_string())?;
        let file = self.folder.join("columns").join(format!("{:032x}.json", xxh3_128(&part)));
        if !file.exists() {
            shared_file::write(&file, &part)?;
        }
        let mut all = self.columns_on_disk();
        unite(&mut all, std::mem::take(&mut self.columns).into_iter().chain(wanted));
        self.columns = all;
        self.write_columns()
    }

    fn write_columns(&self) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(&self.columns).map_err(|error| error.to_string())?;
        shared_file::write(&self.folder.join("columns.json"), &text)
    }

    /// Writes the description of a study, `studies/NAME.json`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_study(&self, name: &str, description: &Value) -> Result<(), String> {
        let file = self.folder.join("studies").join(format!("{name}.json"));
        let text = serde_json::to_vec_pretty(description).map_err(|error| error.to_string())?;
        shared_file::write(&file, &text)
    }

    /// Makes every further write of a cell fail, as on a full disk.
    #[cfg(test)]
    pub(crate) fn break_writes(&mut self) {
        let shard = self.shard.get_or_insert_with(|| Shard::create(&self.folder.join("cells")).expect("a shard"));
        shard.break_writes();
    }

    /// Compresses what this process has written, sorted by key, so that other programs read it at once; puts
    /// small files together, if there are many.
    ///
    /// # Errors
    /// It cannot be written. The cells are there as they were.
    pub fn finish(&mut self) -> Result<(), String> {
        let Some(shard) = self.shard.take() else { return Ok(()) };
        let lines = std::mem::take(&mut self.own);
        if lines.is_empty() {
            let _ = fs::remove_file(shard.path());
            return Ok(());
        }
        let done = shard.finish(&lines.into_values().collect::<Vec<_>>().concat())?;
        self.read.insert(done, 0);
        // What fails here is done by the next process.
        let _ = self.compact_small();
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // What fails here is done when the store is opened again.
        let _ = self.finish();
    }
}

/// The row of a text, if it is one.
fn row_in(text: &str) -> Option<Row> {
    serde_json::from_str(text).ok()
}

/// The columns of a file; none if it cannot be read.
fn columns_in(path: &Path) -> BTreeMap<String, Column> {
    fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Adds columns to `all`: one that has several meanings has all of them.
fn unite(all: &mut BTreeMap<String, Column>, columns: impl IntoIterator<Item = (String, Column)>) {
    for (name, column) in columns {
        let known = all.entry(name).or_insert_with(|| column.clone());
        for part in column.meaning.split(" / ") {
            if !known.meaning.split(" / ").any(|other| other == part) {
                known.meaning = format!("{} / {part}", known.meaning);
            }
        }
    }
}

/// Whether a stored result stands for a new run: one that has failed may succeed elsewhere.
pub fn is_final(run: &RunResult) -> bool {
    matches!(run.status, Status::Done | Status::Outcome)
}

#[cfg(test)]
mod tests;
