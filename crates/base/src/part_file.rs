//! Temporary files next to the outputs that they become. A living process holds a lock on its own, so those
//! of killed processes can be told from it and removed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Between the output's name and the process's number.
const MARK: &str = ".ambulator-";
/// The end of the name.
const END: &str = ".part";

/// A temporary file that this process has locked.
#[derive(Debug)]
pub(crate) struct PartFile {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl PartFile {
    /// Creates the temporary file of `target` in its folder, and removes those that killed processes left
    /// there.
    pub(crate) fn create(target: &Path) -> io::Result<PartFile> {
        /// More attempts fail only if somebody removes each file at once.
        const MOST_ATTEMPTS: u32 = 100;
        remove_abandoned(target);
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for attempt in 0..MOST_ATTEMPTS {
            let mut name = target.file_name().unwrap_or_default().to_owned();
            name.push(format!("{MARK}{}-{attempt}{END}", std::process::id()));
            let path = target.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // Until the file is locked, it looks abandoned to other processes.
                Ok(file) if lock(&file) != Lock::Taken && still_there(&file, &path) => {
                    return Ok(PartFile { path, _file: file });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// What came of an attempt to lock a file.
#[derive(Debug, PartialEq, Eq)]
enum Lock {
    /// It is ours.
    Ours,
    /// Another process, or another descriptor of this one, has it.
    Taken,
    /// The file system has no locks.
    Unknown,
}

#[cfg(unix)]
fn lock(file: &File) -> Lock {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Lock::Ours,
        Err(rustix::io::Errno::WOULDBLOCK) => Lock::Taken,
        Err(_) => Lock::Unknown,
    }
}

#[cfg(not(unix))]
fn lock(_file: &File) -> Lock {
    Lock::Unknown
}

/// Whether `path` is still the name of the open file.
#[cfg(unix)]
fn still_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = |there: &fs::Metadata| (there.dev(), there.ino());
    matches!((file.metadata(), fs::symlink_metadata(path)), (Ok(open), Ok(named)) if inode(&open) == inode(&named))
}

#[cfg(not(unix))]
fn still_there(_file: &File, _path: &Path) -> bool {
    true
}

/// Whether `name` is one that [`PartFile::create`] gives to a temporary file of `output`.
fn is_part_of(output: &OsStr, name: &OsStr) -> bool {
    let prefix: OsString = [output, OsStr::new(MARK)].into_iter().collect();
    let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let numbers = rest.and_then(|rest| rest.strip_suffix(END.as_bytes()));
    let number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    numbers.is_some_and(|numbers| {
        let mut parts = numbers.split(|byte| *byte == b'-');
        parts.next().is_some_and(number) && parts.next().is_some_and(number) && parts.next().is_none()
    })
}

/// Removes the temporary files of `target` that no living process has locked. It is only tidying, so errors
/// are ignored.
fn remove_abandoned(target: &Path) {
    let Some(output) = target.file_name() else { return };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if is_part_of(output, &entry.file_name())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = OpenOptions::new().write(true).open(&path)
            && lock(&file) == Lock::Ours
            && still_there(&file, &path)
        {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_abandoned_temporary_files_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let target = folder.join("out.json");
        let living = PartFile::create(&target).unwrap();
        let abandoned = ["out.json.ambulator-1-0.part", "out.json.ambulator-99999999-7.part"];
        let foreign = [
            "another.json.ambulator-1-0.part",
            "out.json.ambulator-1-0.part.bak",
            "out.json.ambulator-1.part",
            "out.json.ambulator-x-0.part",
            "out.json.part-12",
        ];
        for name in abandoned.iter().chain(&foreign) {
            fs::write(folder.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("another.json.ambulator-1-0.part", folder.join("out.json.ambulator-2-0.part"))
            .unwrap();
        let second = PartFile::create(&target).unwrap();
        let mut left: Vec<String> = foreign.iter().map(|name| (*name).to_owned()).collect();
        left.push("out.json.ambulator-2-0.part".into());
        for part in [&living, &second] {
            left.push(part.path().file_name().unwrap().to_str().unwrap().to_owned());
        }
        left.sort();
        assert_eq!(names(folder), left);
        // Their owner gone, the next one removes them. Programs that other tests start may hold the locks for
        // the moment between fork and exec.
        drop((living, second));
        for _ in 0..100 {
            drop(PartFile::create(&target).unwrap());
            if names(folder).len() == foreign.len() + 2 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("temporary files are left: {:?}", names(folder));
    }
}
