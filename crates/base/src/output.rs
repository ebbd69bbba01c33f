//! Result files: checked before the work begins, and either complete or absent.

use crate::part_file::PartFile;
use crate::same_file::{FileIdentity, InputFiles, standard_stream_at};
use crate::{lock, pipe};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Why a result file could not be written.
#[derive(Debug)]
pub struct OutputError {
    path: PathBuf,
    what: String,
    advice: &'static str,
}

const WRITABLE: &str = "name a file in a folder that exists, is writable and has room";
const ANOTHER: &str = "name another file";

impl OutputError {
    fn new(path: &Path, what: impl Into<String>, advice: &'static str) -> OutputError {
        OutputError { path: path.to_owned(), what: what.into(), advice }
    }

    fn io(path: &Path, what: &str, cause: &io::Error) -> OutputError {
        OutputError::new(path, format!("{what} ({cause})"), WRITABLE)
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path.display(), self.what, self.advice)
    }
}

impl std::error::Error for OutputError {}

/// The files that this process is writing: the temporary file of each, and what it will replace.
static UNFINISHED: Mutex<Vec<(PathBuf, Option<FileIdentity>)>> = Mutex::new(Vec::new());

/// A file that is written under a temporary name in its folder and renamed when it is complete. If the path
/// is a symbolic link, the target is replaced and the link stays. A device or a pipe is written directly.
///
/// Temporary files of processes that were killed are removed by the next one that prepares the same output.
#[derive(Debug)]
pub struct OutputFile {
    /// The path as given; errors name it.
    path: PathBuf,
    /// The file itself, with all symbolic links resolved.
    target: PathBuf,
    /// The temporary file; `None` writes to the target directly (a device or a pipe).
    part: Option<PartFile>,
}

impl OutputFile {
    /// Checks that `path` can be written, before any work is done for it. Only a regular file is opened:
    /// closing a pipe would show its reader the end, and opening one without a reader would block.
    ///
    /// # Errors
    /// A missing or read-only folder, a path that is a folder or a socket, or a file that is already being
    /// written: as another output of this process, or because standard output or error goes to it.
    pub fn prepare(path: &Path) -> Result<OutputFile, OutputError> {
        OutputFile::prepare_beside(path, &InputFiles::default())
    }

    /// As [`OutputFile::prepare`], for a command that reads `inputs`.
    ///
    /// # Errors
    /// As there, or the file is one of the inputs under whatever name.
    pub fn prepare_beside(path: &Path, inputs: &InputFiles) -> Result<OutputFile, OutputError> {
        let fail = |what: &str, cause: io::Error| OutputError::io(path, what, &cause);
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
        if let Some(input) = inputs.same_as(&target) {
            let what = if input == path {
                "this file is an input, which the output would replace".to_owned()
            } else {
                format!("this file is also the input {}, which the output would replace", input.display())
            };
            return Err(OutputError::new(path, what, ANOTHER));
        }
        if let Some(stream) = standard_stream_at(&target) {
            let what = format!("{stream} goes to this file already, and one would replace the other");
            return Err(OutputError::new(path, what, "name another file, or `-` for standard output"));
        }
        let identity = FileIdentity::of(&target);
        let mut unfinished = lock(&UNFINISHED);
        if identity.is_some() && unfinished.iter().any(|(_, other)| *other == identity) {
            return Err(OutputError::new(path, "another output goes to this file already", ANOTHER));
        }
        let part = PartFile::create(&target).map_err(|cause| fail("it cannot be written", cause))?;
        unfinished.push((part.path().to_owned(), identity));
        Ok(OutputFile { path: path.to_owned(), target, part: Some(part) })
    }

    /// Whether the file is written under a temporary name and renamed: it is neither a device nor a pipe.
    pub fn is_replaced_as_a_whole(&self) -> bool {
        self.part.is_some()
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for writing from the beginning. Opening a pipe waits for its reader, up to a minute.
    ///
    /// # Errors
    /// A file that can no longer be written, or a pipe that nobody reads.
    pub fn open(&self) -> Result<File, OutputError> {
        self.open_unless(&AtomicBool::new(false))
    }

    /// As [`OutputFile::open`]; waits no longer for a pipe's reader once `stop` is set.
    ///
    /// # Errors
    /// As there.
    pub fn open_unless(&self, stop: &AtomicBool) -> Result<File, OutputError> {
        let opened = match &self.part {
            Some(part) => OpenOptions::new().write(true).truncate(true).open(part.path()),
            None if pipe::is_pipe(&self.target) => pipe::open_for_writing(&self.target, pipe::PATIENCE, stop),
            None => OpenOptions::new().write(true).open(&self.target),
        };
        opened.map_err(|cause| match cause.kind() {
            io::ErrorKind::TimedOut => OutputError::new(&self.path, cause.to_string(), "start its reader first"),
            _ => self.error("it cannot be written", &cause),
        })
    }

    /// Renames the complete file to its final name.
    ///
    /// # Errors
    /// A full disk, or a folder that can no longer be written. The old file is still there.
    pub fn finish(self) -> Result<(), OutputError> {
        let Some(part) = &self.part else { return Ok(()) };
        let synced = File::open(part.path()).and_then(|file| file.sync_all());
        synced.map_err(|cause| self.error("writing failed", &cause))?;
        fs::rename(part.path(), &self.target).map_err(|cause| self.error("it could not be renamed", &cause))
    }

    /// Writes the whole contents and renames the file to its final name.
    ///
    /// # Errors
    /// A full disk, or a file that can no longer be written. The old file is still there.
    pub fn write(self, contents: &[u8]) -> Result<(), OutputError> {
        self.write_unless(contents, &AtomicBool::new(false))
    }

    /// As [`OutputFile::write`]; waits no longer for a pipe's reader once `stop` is set.
    ///
    /// # Errors
    /// As there.
    pub fn write_unless(self, contents: &[u8], stop: &AtomicBool) -> Result<(), OutputError> {
        let mut file = self.open_unless(stop)?;
        file.write_all(contents).map_err(|cause| self.error("writing failed", &cause))?;
        drop(file);
        self.finish()
    }

    /// Removes the unfinished files of this process, for a process that is about to be interrupted.
    pub fn remove_unfinished() {
        for (part, _) in lock(&UNFINISHED).drain(..) {
            let _ = fs::remove_file(part);
        }
    }

    fn error(&self, what: &str, cause: &io::Error) -> OutputError {
        OutputError::io(&self.path, what, cause)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // A complete file has been renamed by now; an incomplete one is useless.
            let _ = fs::remove_file(part.path());
            lock(&UNFINISHED).retain(|(other, _)| other != part.path());
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

    #[test]
    fn an_output_is_neither_an_input_nor_another_output() {
        let scratch = tempfile::tempdir().unwrap();
        let (input, new) = (scratch.path().join("input"), scratch.path().join("new"));
        fs::write(&input, b"precious").unwrap();
        let inputs = InputFiles::from_iter([&input]);
        let error = OutputFile::prepare_beside(&input, &inputs).unwrap_err().to_string();
        assert!(error.contains("input: this file is an input"), "{error}");
        let first = OutputFile::prepare_beside(&new, &inputs).unwrap();
        let around = scratch.path().join(".").join("new");
        let error = OutputFile::prepare_beside(&around, &inputs).unwrap_err().to_string();
        assert!(error.contains("another output goes to this file already"), "{error}");
        first.write(b"first").unwrap();
        OutputFile::prepare_beside(&around, &inputs).unwrap().write(b"second").unwrap();
        assert_eq!((fs::read(&input).unwrap(), fs::read(&new).unwrap()), (b"precious".into(), b"second".into()));
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_hide_an_input() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::write(at("input"), b"precious").unwrap();
        std::os::unix::fs::symlink("input", at("soft")).unwrap();
        fs::hard_link(at("input"), at("hard")).unwrap();
        for (input, output) in [("input", "soft"), ("soft", "input"), ("input", "hard"), ("hard", "soft")] {
            let error = OutputFile::prepare_beside(&at(output), &InputFiles::from_iter([at(input)])).unwrap_err();
            assert!(error.to_string().contains(&format!("also the input {}", at(input).display())), "{error}");
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 3, "nothing else was created");
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
