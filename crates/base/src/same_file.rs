//! Whether two paths name one file, and which files a command reads: none of them may be its output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Which file a path names, however it is spelled: through symbolic links, hard links, `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// An existing file: device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// A file that does not exist yet (or any file, where there are no inodes).
    Path(PathBuf),
}

impl FileIdentity {
    /// The identity of the file at `path`, which has no symbolic link at its end if it does not exist. `None`
    /// for devices, pipes and folders, which writing does not replace, and for paths below a missing folder.
    pub(crate) fn of(path: &Path) -> Option<FileIdentity> {
        match fs::metadata(path) {
            Ok(there) => FileIdentity::of_existing(&there, path),
            Err(_) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                Some(FileIdentity::Path(fs::canonicalize(folder).ok()?.join(path.file_name()?)))
            }
        }
    }

    #[cfg(unix)]
    fn of_existing(there: &fs::Metadata, _path: &Path) -> Option<FileIdentity> {
        use std::os::unix::fs::MetadataExt;
        there.is_file().then(|| FileIdentity::Inode(there.dev(), there.ino()))
    }

    #[cfg(not(unix))]
    fn of_existing(there: &fs::Metadata, path: &Path) -> Option<FileIdentity> {
        fs::canonicalize(path).ok().filter(|_| there.is_file()).map(FileIdentity::Path)
    }

    /// The file behind an open descriptor.
    #[cfg(unix)]
    fn of_descriptor(descriptor: impl std::os::fd::AsFd) -> io::Result<Option<FileIdentity>> {
        let file = fs::File::from(descriptor.as_fd().try_clone_to_owned()?);
        Ok(FileIdentity::of_existing(&file.metadata()?, Path::new("")))
    }
}

/// The files that a command reads. Every output of the command is compared with them before anything is
/// written, by [`OutputFile::prepare_beside`](crate::OutputFile::prepare_beside).
///
/// ```
/// use ambulator_base::{InputFiles, OutputFile};
/// let folder = std::env::temp_dir();
/// let inputs = InputFiles::from_iter([folder.join("a.toml")]);
/// assert!(OutputFile::prepare_beside(&folder.join("b.json"), &inputs).is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputFiles {
    files: Vec<PathBuf>,
}

impl InputFiles {
    /// Adds a file that the command reads; it need not exist.
    pub fn add(&mut self, path: impl Into<PathBuf>) {
        self.files.push(path.into());
    }

    /// Adds those of `others`.
    pub fn append(&mut self, others: InputFiles) {
        self.files.extend(others.files);
    }

    /// The input that is the same file as the one at `path`.
    pub fn same_as(&self, path: &Path) -> Option<&Path> {
        self.find(&FileIdentity::of(path)?)
    }

    /// The input that is also the file to which standard output has been redirected (`>>`, `1<>`).
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn same_as_standard_output(&self) -> io::Result<Option<&Path>> {
        #[cfg(unix)]
        if let Some(output) = FileIdentity::of_descriptor(io::stdout())? {
            return Ok(self.find(&output));
        }
        Ok(None)
    }

    fn find(&self, wanted: &FileIdentity) -> Option<&Path> {
        let same = |path: &&PathBuf| fs::metadata(path).is_ok() && FileIdentity::of(path).as_ref() == Some(wanted);
        self.files.iter().find(same).map(PathBuf::as_path)
    }
}

impl<P: Into<PathBuf>> FromIterator<P> for InputFiles {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> InputFiles {
        InputFiles { files: paths.into_iter().map(Into::into).collect() }
    }
}

impl<P: Into<PathBuf>> Extend<P> for InputFiles {
    fn extend<I: IntoIterator<Item = P>>(&mut self, paths: I) {
        self.files.extend(paths.into_iter().map(Into::into));
    }
}

/// The standard stream (output or error) that has been redirected to the file at `path`.
pub(crate) fn standard_stream_at(path: &Path) -> Option<&'static str> {
    #[cfg(unix)]
    {
        let wanted = FileIdentity::of(path)?;
        let is = |found: io::Result<Option<FileIdentity>>| found.is_ok_and(|found| found.as_ref() == Some(&wanted));
        if is(FileIdentity::of_descriptor(io::stdout())) {
            return Some("standard output");
        }
        if is(FileIdentity::of_descriptor(io::stderr())) {
            return Some("standard error");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn one_file_is_recognised_by_every_name() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let at = |name: &str| folder.join(name);
        fs::create_dir(at("below")).unwrap();
        fs::write(at("a"), "x").unwrap();
        fs::write(at("other"), "x").unwrap();
        symlink("a", at("soft")).unwrap();
        symlink(at("below"), at("way")).unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        let inputs = InputFiles::from_iter([at("missing"), at("a")]);
        for spelling in ["a", "soft", "hard", "./a", "below/../a", "way/../a"] {
            assert_eq!(inputs.same_as(&at(spelling)), Some(at("a").as_path()), "{spelling}");
        }
        for different in ["other", "missing", "below", "new"] {
            assert_eq!(inputs.same_as(&at(different)), None, "{different}");
        }
        // Reading and writing the same device is no harm.
        assert_eq!(InputFiles::from_iter(["/dev/null"]).same_as(Path::new("/dev/null")), None);
        // Files that do not exist yet are one file if their folders are.
        assert_eq!(FileIdentity::of(&at("new")), FileIdentity::of(&at("way/../new")));
        assert_ne!(FileIdentity::of(&at("new")), FileIdentity::of(&at("below/new")));
        assert_eq!(FileIdentity::of(&at("nowhere/new")), None);
    }
}
