//! Claims: which worker computes which cell of a store, so that two do not compute the same.
//!
//! A claim is a file `claims/KEY` in the store's folder that is created exclusively (`O_EXCL`), so that shared
//! folders without locks serve. It says who computes the cell; its time of change is the worker's heartbeat. A
//! claim whose worker is known to have ended, or that has been silent for longer than the timeout, is taken
//! over. Two workers that compute one cell nevertheless harm nothing: their rows are equal.

mod holder;

pub use holder::Holder;

use ambulator_base::lock;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Silence of a worker after which others take its cells over, unless they are told another.
pub const CLAIM_TIMEOUT: Duration = Duration::from_secs(300);
/// Between two heartbeats, at most.
const MOST_BETWEEN: Duration = Duration::from_secs(30);
/// Heartbeats that a living worker may miss.
const MISSED: u32 = 3;
/// A file that is written to know the time of the file server, whose clock may differ from this machine's.
const CLOCK: &str = ".clock";
/// The end of the names of claims on cells that have failed again.
const FAILED: &str = ".failed";

/// Claims of a store.
pub struct Claims {
    folder: PathBuf,
    own: Holder,
    timeout: Duration,
    held: Arc<Mutex<BTreeSet<String>>>,
    /// Ends the heartbeats when it is dropped.
    beats: Option<(Sender<()>, JoinHandle<()>)>,
}

/// A claim as it is found.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The key of the cell.
    pub cell: String,
    /// Who has it; `None` while that is being written.
    pub holder: Option<Holder>,
    /// Since its last heartbeat.
    pub silent: Duration,
    /// Its worker has ended: the cell is free.
    pub is_abandoned: bool,
}

impl Claims {
    /// The claims of the store in `folder`, for a worker that is silent for `timeout` if it has ended.
    ///
    /// # Errors
    /// The folder of the claims cannot be created.
    pub fn open(folder: &Path, own: Holder, timeout: Duration) -> Result<Claims, String> {
        let folder = folder.join("claims");
        fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: the folder of claims cannot be created ({error})", folder.display()))?;
        Ok(Claims { folder, own, timeout, held: Arc::default(), beats: None })
    }

    /// Between two heartbeats of a worker.
    pub fn between_beats(&self) -> Duration {
        MOST_BETWEEN.min(self.timeout / (MISSED + 1))
    }

    /// Whether the worker of a claim has missed heartbeats, and may have ended.
    pub fn is_doubtful(&self, claim: &Claim) -> bool {
        claim.silent > self.between_beats() * MISSED
    }

    /// Every claim, by key.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn all(&self) -> Result<Vec<Claim>, String> {
        let problem = |error: io::Error| format!("{}: claims cannot be read ({error})", self.folder.display());
        let names = fs::read_dir(&self.folder).map_err(problem)?;
        let names = names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>().map_err(problem)?;
        names.retain(|name| is_key(name));
        names.sort();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.now().map_err(problem)?;
        Ok(names.iter().filter_map(|name| self.read(name, now).ok()).collect())
    }

    /// Claims a cell, also from a worker that has ended. False if another has it.
    ///
    /// # Errors
    /// The claim cannot be written.
    pub fn take(&mut self, cell: &str) -> Result<bool, String> {
        let problem = |error: io::Error| format!("{}: it cannot be written ({error})", self.path(cell).display());
        let mut is_own = self.create(cell).map_err(problem)?;
        if !is_own {
            let now = self.now().map_err(problem)?;
            let Ok(claim) = self.read(cell, now) else { return Ok(false) };
            is_own = claim.is_abandoned && self.displace(&claim) && self.create(cell).map_err(problem)?;
        }
        if is_own {
            lock(&self.held).insert(cell.to_owned());
            self.begin_beats()?;
        }
        Ok(is_own)
    }

    /// Gives a cell free, when its row is in the store or it was not computed.
    pub fn release(&self, cell: &str) {
        lock(&self.held).remove(cell);
        // What is left of it is taken over.
        if self.is_own(cell) {
            let _ = fs::remove_file(self.path(cell));
        }
    }

    /// Notes that a cell has failed here, so that the other workers of this job do not try it again.
    pub fn note_failed(&self, cell: &str) {
        let _ = fs::write(self.path(&format!("{cell}{FAILED}")), self.own.text());
    }

    /// Whether a worker of the same job has noted that a cell failed, or any since `began`
    /// ([`Claims::server_time`]).
    pub fn has_failed_since(&self, cell: &str, began: Option<SystemTime>) -> bool {
        let Ok((text, changed)) = read_with_time(&self.path(&format!("{cell}{FAILED}"))) else { return false };
        let of_job = Holder::parse(&text).is_some_and(|by| by.array.is_some() && by.array == self.own.array);
        of_job || began.is_some_and(|began| changed >= began)
    }

    /// The time by the clock of the file server.
    pub fn server_time(&self) -> Option<SystemTime> {
        self.now().ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Creates a claim, if there is none.
    fn create(&self, cell: &str) -> io::Result<bool> {
        let path = self.path(cell);
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        };
        let written = file.write_all(self.own.text().as_bytes());
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written.map(|()| true)
    }

    fn read(&self, cell: &str, now: SystemTime) -> io::Result<Claim> {
        let (text, changed) = read_with_time(&self.path(cell))?;
        let holder = Holder::parse(&text);
        // A claim that is newer than now has just been written.
        let silent = now.duration_since(changed).unwrap_or_default();
        let is_abandoned = silent > self.timeout || holder.as_ref().is_some_and(Holder::has_ended);
        Ok(Claim { cell: cell.to_owned(), holder, silent, is_abandoned })
    }

    /// Removes the claim of a worker that has ended. False if another was faster.
    fn displace(&self, claim: &Claim) -> bool {
        let (path, aside) = (self.path(&claim.cell), self.path(&format!("{}.{}", claim.cell, self.own.token)));
        if fs::rename(&path, &aside).is_err() {
            return false;
        }
        let is_same = fs::read_to_string(&aside).is_ok_and(|text| Holder::parse(&text) == claim.holder);
        if !is_same {
            // That of another, which has taken the cell over meanwhile.
            let _ = fs::hard_link(&aside, &path);
        }
        let _ = fs::remove_file(&aside);
        is_same
    }

    fn is_own(&self, cell: &str) -> bool {
        fs::read_to_string(self.path(cell)).is_ok_and(|text| Holder::parse(&text).as_ref() == Some(&self.own))
    }

    /// The time of the file server.
    fn now(&self) -> io::Result<SystemTime> {
        let path = self.path(CLOCK);
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        file.metadata()?.modified()
    }

    /// Starts the thread of heartbeats.
    fn begin_beats(&mut self) -> Result<(), String> {
        if self.beats.is_some() {
            return Ok(());
        }
        let (sender, receiver) = channel::<()>();
        let (held, between) = (Arc::clone(&self.held), self.between_beats());
        let (folder, own) = (self.folder.clone(), self.own.clone());
        let beat = move || {
            while receiver.recv_timeout(between) == Err(RecvTimeoutError::Timeout) {
                let cells: Vec<String> = lock(&held).iter().cloned().collect();
                for cell in cells {
                    let path = folder.join(cell);
                    let is_own =
                        fs::read_to_string(&path).is_ok_and(|text| Holder::parse(&text).as_ref() == Some(&own));
                    // The same text again, so that the file server sets the time.
                    if is_own && let Ok(mut file) = OpenOptions::new().write(true).open(&path) {
                        let _ = file.write_all(own.text().as_bytes());
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().spawn(beat);
        let thread = thread.map_err(|error| format!("cannot start the thread of heartbeats: {error}"))?;
        self.beats = Some((sender, thread));
        Ok(())
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.beats.take() {
            drop(sender);
            let _ = thread.join();
        }
        let held = std::mem::take(&mut *lock(&self.held));
        held.iter().for_each(|cell| self.release(cell));
    }
}

/// Whether a file's name is a cell's key.
fn is_key(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The text of a file and its time of change, which is current because the file is open.
fn read_with_time(path: &Path) -> io::Result<(String, SystemTime)> {
    let mut file = File::open(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((text, file.metadata()?.modified()?))
}

#[cfg(test)]
mod tests;
