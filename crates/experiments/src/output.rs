//! Files that results go to: tried before the work begins, complete or not there at all.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a result could not be written, and where it is instead.
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
            "{}: {} ({}); name a file in a folder that exists, is writable and has room, or `-` for standard output",
            self.path.display(),
            self.what,
            self.cause
        )
    }
}

impl std::error::Error for OutputError {}

/// A file to be: written beside its name and renamed when it is whole.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// `None` writes straight to what is there (a device or a pipe) or to standard output.
    part: Option<PathBuf>,
}

impl OutputFile {
    /// Tries whether `path` can be written, before any work is done for it. `-` is standard output.
    ///
    /// # Errors
    /// A folder that is missing or not writable, or a path that is a folder.
    pub fn prepare(path: &Path) -> Result<OutputFile, OutputError> {
        let fail = |what, cause| OutputError { path: path.to_owned(), cause, what };
        if path == Path::new("-") {
            return Ok(OutputFile { path: path.to_owned(), part: None });
        }
        if path.is_dir() {
            return Err(fail("this is a folder, not a file", io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if path.exists() && !path.is_file() {
            OpenOptions::new().write(true).open(path).map_err(|cause| fail("it cannot be written", cause))?;
            return Ok(OutputFile { path: path.to_owned(), part: None });
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let part = path.with_file_name(name);
        File::create(&part).map_err(|cause| fail("it cannot be written", cause))?;
        Ok(OutputFile { path: path.to_owned(), part: Some(part) })
    }

    /// Writes the whole contents, and gives the file its name.
    ///
    /// # Errors
    /// A disk that is full, or a file that can no longer be written. What was there before is still there.
    pub fn write(self, contents: &[u8]) -> Result<(), OutputError> {
        let fail = |what, cause| OutputError { path: self.path.clone(), cause, what };
        if self.path == Path::new("-") {
            let mut out = io::stdout().lock();
            return out.write_all(contents).and_then(|()| out.flush()).map_err(|cause| fail("writing failed", cause));
        }
        let target = self.part.as_deref().unwrap_or(&self.path);
        let written = (|| {
            let mut file = OpenOptions::new().write(true).truncate(self.part.is_some()).open(target)?;
            file.write_all(contents)?;
            file.flush()?;
            if self.part.is_some() { file.sync_all() } else { Ok(()) }
        })();
        written.map_err(|cause| fail("writing failed", cause))?;
        match &self.part {
            Some(part) => fs::rename(part, &self.path).map_err(|cause| fail("it could not be given its name", cause)),
            None => Ok(()),
        }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Renamed if it is whole; otherwise nothing of it is of use.
            let _ = fs::remove_file(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_refused_before_any_work() {
        let error = OutputFile::prepare(Path::new("/nowhere/at/all.json")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all.json"), "{error}");
    }

    #[test]
    fn a_full_disk_is_told() {
        let file = OutputFile::prepare(Path::new("/dev/full")).unwrap();
        let error = file.write(b"{}").unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn what_is_not_written_leaves_nothing_behind_and_what_was_there_stays() {
        let folder = std::env::temp_dir().join(format!("ambulator-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("out.json");
        OutputFile::prepare(&path).unwrap().write(b"first").unwrap();
        drop(OutputFile::prepare(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
