//! The store of a command: which folder, and what is said of it.

use crate::arguments::StoreArguments;
use crate::output::warn;
use crate::{Failure, SOME_FAILED};
use ambulator_base::{InputFiles, lock};
use ambulator_experiments::{Checkpoints, DEFAULT_STORE, Finished, Reuse, Store};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The environment variable with the folder of the store.
const VARIABLE: &str = "AMBULATOR_STORE";
/// Instead of a folder: no store.
const NONE: &str = "none";

/// The folder of the store, and whether somebody has named it. `None` without one.
fn folder(arguments: &StoreArguments) -> Option<(PathBuf, bool)> {
    let of_environment = || std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let named = arguments.store.clone().or_else(of_environment);
    let is_named = named.is_some();
    let folder = named.unwrap_or_else(|| DEFAULT_STORE.into());
    (folder.as_os_str() != NONE).then_some((folder, is_named))
}

/// The results that a command reads: those that are named, or else the store.
pub fn results(named: &[PathBuf]) -> Vec<PathBuf> {
    let store = || folder(&StoreArguments::default()).map(|(folder, _)| folder);
    if named.is_empty() { store().into_iter().collect() } else { named.to_vec() }
}

/// The files of the store, which no output may replace.
pub fn inputs(arguments: &StoreArguments) -> InputFiles {
    folder(arguments).map(|(folder, _)| Store::files_in(&folder)).into_iter().flatten().collect()
}

/// Opens the store, if there is one. Where the default one cannot be, there is none, and a warning.
pub fn open(arguments: &StoreArguments) -> Result<Option<Arc<Mutex<Store>>>, Failure> {
    let Some((folder, is_named)) = folder(arguments) else { return Ok(None) };
    match Store::open(&folder) {
        Ok(store) => {
            store.warnings().iter().for_each(|warning| warn(warning));
            Ok(Some(Arc::new(Mutex::new(store))))
        }
        Err(error) if is_named => Err(Failure::bad(error)),
        Err(error) => {
            warn(&format!("{error}; results are not kept (--store FOLDER keeps them elsewhere, --store none nowhere)"));
            Ok(None)
        }
    }
}

/// The folder of checkpoints, created if it is missing.
pub fn checkpoints(folder: Option<&Path>) -> Result<Option<Arc<Checkpoints>>, Failure> {
    folder.map(|folder| Checkpoints::open(folder).map(Arc::new).map_err(Failure::bad)).transpose()
}

/// Rejects checkpoints of what comes from a pipe or from a program that runs now.
pub fn no_checkpoint_of_a_live_program(arguments: &StoreArguments) -> Result<(), Failure> {
    match arguments.checkpoint {
        None => Ok(()),
        Some(_) => Err(Failure::bad(
            "--checkpoint: what comes from a pipe or a live program cannot be rewound to where a checkpoint was taken; \
             save it as a file (of a live program, --keep FILE), and run that",
        )),
    }
}

/// Opens a store that must exist, to look at it.
pub fn existing(named: Option<&PathBuf>) -> Result<Store, Failure> {
    let Some((folder, _)) = folder(&StoreArguments { store: named.cloned(), ..StoreArguments::default() }) else {
        return Err(Failure::bad("there is no store: name its folder with --store"));
    };
    if !folder.join("cells").is_dir() {
        return Err(Failure::bad(format!(
            "{}: this is no store: name the folder that `run`, `compare` or `sweep` kept results in",
            folder.display()
        )));
    }
    let store = Store::open(&folder).map_err(Failure::bad)?;
    store.warnings().iter().for_each(|warning| warn(warning));
    Ok(store)
}

/// Which stored results are used.
pub fn reuse(arguments: &StoreArguments) -> Reuse {
    if arguments.fresh { Reuse::Nothing } else { Reuse::Final }
}

/// Says how many of the cells were in the store; their sim-host times are not of this command.
pub fn told(store: Option<&Arc<Mutex<Store>>>, finished: &Finished) -> Option<String> {
    let stored = finished.cells.iter().flatten().filter(|ended| ended.stored).count();
    let folder = lock(store?).folder().display().to_string();
    (stored > 0).then(|| {
        format!(
            "{stored} of {} runs were in the store {folder}, with the simulator's speeds of the time when they were \
             computed; --fresh runs them again",
            finished.cells.len()
        )
    })
}

/// Ends the use of a store, with a warning for what could not be written. That is a failure if somebody has
/// named the store: the exit status.
pub fn finish(arguments: &StoreArguments, store: Option<&Arc<Mutex<Store>>>, not_stored: Option<&String>) -> u8 {
    let finished = store.map_or(Ok(()), |store| lock(store).finish());
    let errors: Vec<&String> = not_stored.into_iter().chain(finished.as_ref().err()).collect();
    errors.iter().for_each(|error| warn(error));
    let is_named = folder(arguments).is_some_and(|(_, is_named)| is_named);
    if errors.is_empty() || !is_named { crate::DONE } else { SOME_FAILED }
}
