//! Result files: checked before the work begins, and either complete or absent.

use crate::lock;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Why a result file could not be written.
#[derive(Debug)]
pub struct OutputError {
    path: PathBuf,
    cause: io::Error,
    what: &'static str,
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} ({}); name a file in a folder that exists, is writable and has room",
            self.path.display(),
            self.what,
            self.cause
        )
    }
}

impl std::error::Error for OutputError {}

/// Temporary files being written, for [`OutputFile::remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is written under a temporary name in its folder and renamed when it is complete. If the path
/// is a symbolic link, the target is replaced and the link stays. A device or a pipe is written directly.
#[derive(Debug)]
pub struct OutputFile {
    /// The path as given; errors name it.
    path: PathBuf,
    /// The file itself, with all symbolic links resolved.
    target: PathBuf,
    /// The temporary file; `None` writes to the target directly (a device or a pipe).
    part: Option<PathBuf>,
}

impl OutputFile {
    /// Checks that `path` can be written, before any work is done for it. Only a regular file is opened:
    /// closing a pipe would show its reader the end, and opening one without a reader would block.
    ///
    /// # Errors
    /// A missing or read-only folder, or a path that is a folder or a socket.
    pub fn prepare(path: &Path) -> Result<OutputFile, OutputError> {
        let fail = |what, cause| OutputError { path: path.to_owned(), cause, what };
        match fs::metadata(path) {
            Ok(there) if there.is_dir() => {
                return Err(fail("this is a folder, not a file", io::ErrorKind::IsADirectory.into()));
            }
            Ok(there) if is_socket(&there) => {
                return Err(fail("this is a socket, not a file", io::ErrorKind::Unsupported.into()));
            }
            Ok(there) if !there.is_file() => {
                return Ok(OutputFile { path: path.to_owned(), target: path.to_owned(), part: None });
            }
            _ => {}
        }
        let target = resolve_links(path).map_err(|cause| fail("the link cannot be resolved", cause))?;
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let part = target.with_file_name(name);
        lock(&UNFINISHED).push(part.clone());
        let file = OutputFile { path: path.to_owned(), target, part: Some(part.clone()) };
        File::create(part).map_err(|cause| fail("it cannot be written", cause))?;
        Ok(file)
    }

    /// Opens the file for writing from the beginning. Opening a pipe waits for its reader.
    ///
    /// # Errors
    /// A file that can no longer be written.
    pub fn open(&self) -> Result<File, OutputError> {
        let target = self.part.as_deref().unwrap_or(&self.target);
        OpenOptions::new()
            .write(true)
            .truncate(self.part.is_some())
            .open(target)
            .map_err(|cause| self.error("it cannot be written", cause))
    }

    /// Renames the complete file to its final name.
    ///
    /// # Errors
    /// A full disk, or a folder that can no longer be written. The old file is still there.
    pub fn finish(self) -> Result<(), OutputError> {
        let Some(part) = &self.part else { return Ok(()) };
        File::open(part).and_then(|file| file.sync_all()).map_err(|cause| self.error("writing failed", cause))?;
        fs::rename(part, &self.target).map_err(|cause| self.error("it could not be renamed", cause))
    }

    /// Writes the whole contents and renames the file to its final name.
    ///
    /// # Errors
    /// A full disk, or a file that can no longer be written. The old file is still there.
    pub fn write(self, contents: &[u8]) -> Result<(), OutputError> {
        let mut file = self.open()?;
        file.write_all(contents).map_err(|cause| self.error("writing failed", cause))?;
        drop(file);
        self.finish()
    }

    /// Removes the unfinished files of this process, for a process that is about to be interrupted.
    pub fn remove_unfinished() {
        for part in lock(&UNFINISHED).drain(..) {
            let _ = fs::remove_file(part);
        }
    }

    fn error(&self, what: &'static str, cause: io::Error) -> OutputError {
        OutputError { path: self.path.clone(), cause, what }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // A complete file has been renamed by now; an incomplete one is useless.
            let _ = fs::remove_file(part);
            lock(&UNFINISHED).retain(|other| other != part);
        }
    }
}

#[cfg(unix)]
fn is_socket(file: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&file.file_type())
}

#[cfg(not(unix))]
fn is_socket(_file: &fs::Metadata) -> bool {
    false
}

/// `path` with the symbolic links at its end resolved, whether the file exists or not.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    /// Linux follows as many.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|there| there.is_symlink()) {
            return Ok(path);
        }
        let named = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(named);
    }
    Err(io::Error::other("its symbolic links form a circle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_rejected_before_any_work() {
        let error = OutputFile::prepare(Path::new("/nowhere/at/all.json")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all.json"), "{error}");
    }

    #[test]
    fn a_full_disk_is_reported() {
        let file = OutputFile::prepare(Path::new("/dev/full")).unwrap();
        let error = file.write(b"{}").unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn an_unfinished_file_is_removed_and_the_old_one_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let path = folder.join("out.json");
        OutputFile::prepare(&path).unwrap().write(b"first").unwrap();
        drop(OutputFile::prepare(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_target_is_replaced() {
        use std::os::unix::fs::symlink;
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        fs::create_dir_all(folder.join("below")).unwrap();
        let (real, link, second) = (folder.join("below/real"), folder.join("link"), folder.join("second"));
        // The target of a link need not exist yet.
        symlink("below/real", &link).unwrap();
        symlink(&link, &second).unwrap();
        for contents in ["first", "another"] {
            OutputFile::prepare(&second).unwrap().write(contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&real).unwrap(), contents);
        }
        assert!(
            fs::symlink_metadata(&link).unwrap().is_symlink() && fs::symlink_metadata(&second).unwrap().is_symlink()
        );
        symlink("circle", folder.join("circle")).unwrap();
        assert!(OutputFile::prepare(&folder.join("circle")).unwrap_err().to_string().contains("circle"));
        assert_eq!(fs::read_dir(folder).unwrap().count(), 4, "nothing else is left");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let link = folder.join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        OutputFile::prepare(&link).unwrap().write(b"gone").unwrap();
        assert!(fs::metadata(&link).unwrap().file_type().is_char_device());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
