//! Checkpoints in a folder: one file for each machine and program that has been warmed, named by its key.
//!
//! The key is a hash of everything on which the state depends: the models, the programs, and the settings
//! that count before the checkpoint is taken. Cells that differ in other settings share a checkpoint.

mod file;
mod recording;

pub use file::Header;

pub(crate) use recording::Recordings;

use crate::cell::{Cell, is_of_this_build};
use crate::number::bytes as show_bytes;
use ambulator_base::lock;
use ambulator_simulator::{Checkpoint, CheckpointStart, LoadState, SaveState};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_128;

/// How the names of checkpoints end.
const SUFFIX: &str = "ckpt";
/// Settings that an error names, at most.
const MOST_NAMED: usize = 4;

/// A folder of checkpoints. Several processes may use one at a time.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    told: Arc<Mutex<Vec<String>>>,
}

impl Checkpoints {
    /// Opens or creates a folder.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(folder: &Path) -> Result<Checkpoints, String> {
        fs::create_dir_all(folder)
            .map_err(|error| format!("{}: the folder for checkpoints cannot be created ({error})", folder.display()))?;
        Ok(Checkpoints { folder: folder.to_owned(), told: Arc::default() })
    }

    /// What has been written and read, one sentence each, since the last call.
    pub fn take_told(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.told))
    }

    /// The checkpoint of a cell.
    ///
    /// # Errors
    /// The cell cannot have one.
    pub fn of(&self, cell: &Cell) -> Result<OfCell, String> {
        let spec = cell.spec.as_ref().map_err(Clone::clone)?;
        if !cell.is_known() {
            return Err(
                "a checkpoint cannot be found again without knowing what it is of: the program is a pipe, or the \
                        design has code of its own that has no digest; run without --checkpoint"
                    .into(),
            );
        }
        let timed = !spec.warms_up_without_time();
        let place = |timed: bool| {
            let settings = spec.settings_of_warmup(timed);
            let text =
                format!("{}\n{}\n{}", cell.info.build, cell.programs.identity(), Value::Object(settings.clone()));
            let key = format!("{:032x}", xxh3_128(text.as_bytes()));
            Place { path: self.folder.join(format!("{key}.{SUFFIX}")), key, settings }
        };
        Ok(OfCell {
            // Without time, the state depends on fewer settings, unless time was simulated before after all.
            places: if timed { vec![place(true)] } else { vec![place(false), place(true)] },
            build: cell.info.build.clone(),
            design: cell.design.clone(),
            programs: cell.programs.label.clone(),
            identity: cell.programs.identity().to_owned(),
            found: Mutex::default(),
            told: Arc::clone(&self.told),
        })
    }

    /// The recordings of the programs of cells that all start from checkpoints which are there; `None` unless they do.
    pub(crate) fn recordings(&self, stream: &str, cells: &[Option<Arc<OfCell>>]) -> Option<Recordings> {
        let mut firsts: Vec<usize> = Vec::new();
        for cell in cells {
            let batches = cell.as_ref()?.start().ok()??.batches;
            let own = batches.iter().map(|first| first.map_or(usize::MAX, |first| first as usize));
            let before = firsts.into_iter().chain(std::iter::repeat(usize::MAX));
            firsts = own.zip(before).map(|(own, before)| own.min(before)).collect();
        }
        // A program that has ended in the warm-up has no batch that is needed.
        let all_go_on = !firsts.is_empty() && firsts.iter().all(|first| *first != usize::MAX);
        all_go_on.then(|| Recordings::of(&self.folder, stream, &firsts, Arc::clone(&self.told)))
    }

    /// How many recordings of programs a folder has, and their bytes.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn recordings_in(folder: &Path) -> Result<(usize, u64), String> {
        let paths = paths(folder, recording::SUFFIX)?;
        Ok((paths.len(), paths.iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum()))
    }

    /// The checkpoints of a folder by name, with the bytes of each; or what is wrong with a file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(folder: &Path) -> Result<Vec<Result<Listed, String>>, String> {
        let paths = paths(folder, SUFFIX)?;
        let of = |path: PathBuf| file::open(&path).map(|opened| (path, opened.header, opened.bytes));
        Ok(paths.into_iter().map(of).collect())
    }
}

/// The files of a folder whose names end so, in order.
fn paths(folder: &Path, suffix: &str) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("{}: the folder cannot be read ({error})", folder.display());
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|own| own == suffix))
        .collect();
    paths.sort();
    Ok(paths)
}

/// A checkpoint of a folder: its file, what it says of itself, and its bytes.
pub type Listed = (PathBuf, Header, u64);

impl Header {
    /// Whether this program can start from it.
    pub fn is_of_this_build(&self) -> bool {
        is_of_this_build(&self.build)
    }
}

/// Where a cell's checkpoint is, or would be.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    key: String,
    settings: Map<String, Value>,
}

/// The checkpoint of a cell.
#[derive(Debug)]
pub struct OfCell {
    places: Vec<Place>,
    build: String,
    design: String,
    programs: String,
    identity: String,
    /// Which of the places has it.
    found: Mutex<Option<usize>>,
    told: Arc<Mutex<Vec<String>>>,
}

impl OfCell {
    /// Whether it is there.
    pub fn exists(&self) -> bool {
        self.places.iter().any(|place| place.path.exists())
    }

    /// The key of the file that the cell makes if it is not there, unless the state turns out to depend on
    /// more.
    pub fn key(&self) -> &str {
        &self.places[0].key
    }

    fn tell(&self, sentence: String) {
        lock(&self.told).push(sentence);
    }

    /// What is wrong with a file for this cell: it was renamed, or is of another build.
    fn check(&self, place: &Place, header: &Header) -> Result<(), String> {
        if header.key == place.key && header.build == self.build && header.identity == self.identity {
            return Ok(());
        }
        let mut differs = Vec::new();
        if header.build != self.build {
            differs.push(format!("it was made by another build of Ambulator (version {})", header.version));
        }
        if header.identity != self.identity {
            differs.push(format!("it is of {}, this run of {}", header.programs, self.programs));
        }
        let keys = place.settings.keys().chain(header.settings.keys().filter(|key| !place.settings.contains_key(*key)));
        let other: Vec<String> = keys
            .filter(|key| place.settings.get(*key) != header.settings.get(*key))
            .map(|key| {
                let show = |of: &Map<String, Value>| of.get(key).map_or("not set".to_owned(), Value::to_string);
                format!("{key} is {} there, here {}", show(&header.settings), show(&place.settings))
            })
            .collect();
        let more = other.len().saturating_sub(MOST_NAMED);
        differs.extend(other.into_iter().take(MOST_NAMED));
        if more > 0 {
            differs.push(format!("{more} more settings differ"));
        }
        if differs.is_empty() {
            differs.push(format!("its key is {}", header.key));
        }
        Err(format!(
            "{}: the checkpoint is not of this run: {}; remove the file, and the next run makes it again",
            place.path.display(),
            differs.join("; ")
        ))
    }
}

impl Checkpoint for OfCell {
    fn start(&self) -> Result<Option<CheckpointStart>, String> {
        let Some(at) = self.places.iter().position(|place| place.path.exists()) else { return Ok(None) };
        let header = file::open::<Header>(&self.places[at].path)?.header;
        self.check(&self.places[at], &header)?;
        *lock(&self.found) = Some(at);
        Ok(Some(header.start()))
    }

    fn name(&self) -> String {
        let at = lock(&self.found).unwrap_or(0);
        self.places[at].key.clone()
    }

    fn load(&self, load: &mut LoadState<'_>) -> Result<(), String> {
        let place = &self.places[lock(&self.found).unwrap_or(0)];
        let name = place.path.display();
        let began = Instant::now();
        let opened = file::open::<Header>(&place.path)?;
        self.check(place, &opened.header)?;
        let bytes = opened.bytes;
        opened.load(load).map_err(|error| format!("{name}: the checkpoint cannot be used ({error})"))?;
        self.tell(format!(
            "{} on {} starts from the checkpoint {name} ({}), loaded in {:.2} s",
            self.design,
            self.programs,
            show_bytes(bytes as f64),
            began.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    fn save(&self, start: &CheckpointStart, save: &mut SaveState<'_>) -> Result<(), String> {
        let at = if start.timed { self.places.len() - 1 } else { 0 };
        let place = &self.places[at];
        let header = Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: self.build.clone(),
            key: place.key.clone(),
            design: self.design.clone(),
            programs: self.programs.clone(),
            identity: self.identity.clone(),
            settings: place.settings.clone(),
            batches: start.batches.clone(),
            timed: start.timed,
            state_bytes: 0,
        };
        let began = Instant::now();
        let bytes = file::write(&place.path, header, save)?;
        self.tell(format!(
            "{} on {} has made the checkpoint {} ({}), written in {:.2} s",
            self.design,
            self.programs,
            place.path.display(),
            show_bytes(bytes as f64),
            began.elapsed().as_secs_f64()
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
