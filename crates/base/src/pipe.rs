//! Named pipes as outputs: waiting for a reader, but not for ever.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the writer of a pipe waits for its reader.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is a named pipe at `path`.
#[cfg(unix)]
pub(crate) fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
}

#[cfg(not(unix))]
pub(crate) fn is_pipe(_path: &Path) -> bool {
    false
}

/// Opens a named pipe for writing as soon as it has a reader.
///
/// # Errors
/// `TimedOut` if no reader has come when `patience` is over or `stop` is set; or the pipe cannot be opened.
#[cfg(unix)]
pub(crate) fn open_for_writing(path: &Path, patience: Duration, stop: &AtomicBool) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use std::os::unix::fs::OpenOptionsExt;
    use std::sync::atomic::Ordering;
    const PAUSE: Duration = Duration::from_millis(20);
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let no_reader = rustix::io::Errno::NXIO.raw_os_error();
    let began = std::time::Instant::now();
    loop {
        match std::fs::OpenOptions::new().write(true).custom_flags(nonblocking).open(path) {
            Ok(file) => {
                let flags = fcntl_getfl(&file)?;
                fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == Some(no_reader) => {}
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) || began.elapsed() >= patience {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads this pipe"));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(not(unix))]
pub(crate) fn open_for_writing(path: &Path, _patience: Duration, _stop: &AtomicBool) -> io::Result<File> {
    std::fs::OpenOptions::new().write(true).open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn pipe(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let error = open_for_writing(&path, Duration::from_millis(50), &AtomicBool::new(false)).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, "nobody reads this pipe"));
        let stopped = open_for_writing(&path, Duration::from_secs(3600), &AtomicBool::new(true));
        assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_reader_that_comes_later_gets_everything() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let reader = path.clone();
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60));
            let (mut file, mut all) = (File::open(reader).unwrap(), Vec::new());
            // More than a pipe holds, read slowly: the writer must block, not fail.
            std::thread::sleep(Duration::from_millis(60));
            file.read_to_end(&mut all).unwrap();
            all.len()
        });
        let mut file = open_for_writing(&path, Duration::from_secs(60), &AtomicBool::new(false)).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        drop(file);
        assert_eq!(reader.join().unwrap(), 1 << 20);
    }
}
