//! Finished cells of a sweep, one JSON line each: a killed run loses at most its current cell.

use ambulator_base::OutputFile;
use ambulator_simulator::{Outcome, RunResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// One finished cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cell {
    key: String,
    run: RunResult,
}

/// The cells of a folder.
pub struct Store {
    path: PathBuf,
    file: File,
    cells: BTreeMap<String, RunResult>,
}

impl Store {
    /// Opens or creates the store in `folder`. A partial line of a killed run is dropped.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn open(folder: &Path) -> Result<Store, String> {
        let path = folder.join("cells.jsonl");
        let fail = |what: &str, cause: std::io::Error| format!("{}: {what} ({cause})", path.display());
        fs::create_dir_all(folder).map_err(|e| fail("its folder cannot be created", e))?;
        let mut cells = BTreeMap::new();
        let mut whole = Vec::new();
        let mut dropped = false;
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines() {
                let line = line.map_err(|e| fail("it cannot be read", e))?;
                match serde_json::from_str::<Cell>(&line) {
                    Ok(cell) => {
                        whole.extend_from_slice(line.as_bytes());
                        whole.push(b'\n');
                        cells.insert(cell.key, cell.run);
                    }
                    Err(_) => dropped = true,
                }
            }
        }
        if dropped {
            OutputFile::prepare(&path).and_then(|file| file.write(&whole)).map_err(|e| e.to_string())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|e| fail("it cannot be written", e))?;
        Ok(Store { path, file, cells })
    }

    /// The cell with that key, if it is finished.
    pub fn get(&self, key: &str) -> Option<&RunResult> {
        self.cells.get(key)
    }

    /// Adds a finished cell, on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written, for example to a full disk.
    pub fn add(&mut self, key: &str, run: &RunResult) -> Result<(), String> {
        let cell = Cell { key: key.to_owned(), run: run.clone() };
        let mut line = serde_json::to_vec(&cell).map_err(|e| e.to_string())?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|e| format!("{}: a result could not be added ({e})", self.path.display()))?;
        self.cells.insert(cell.key, cell.run);
        Ok(())
    }

    /// Adds all completed runs of an outcome under the keys that `key` returns.
    ///
    /// # Errors
    /// As [`Store::add`].
    pub fn add_all(&mut self, outcome: &Outcome, key: impl Fn(&RunResult) -> String) -> Result<(), String> {
        for run in &outcome.runs {
            if run.status == ambulator_simulator::Status::Done {
                self.add(&key(run), run)?;
            }
        }
        Ok(())
    }
}
