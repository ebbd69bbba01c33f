//! Everything that the command writes: standard output, standard error, and results as JSON.

use crate::{Failure, interrupt};
use ambulator_base::{InputFiles, OutputFile, lock};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Mutex;

/// The first error on standard output, after which nothing more is written; [`finish`] reports it.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line to standard output.
pub fn print(text: &str) {
    write(&[text.as_bytes(), b"\n"]);
}

/// Writes bytes to standard output as they are.
pub fn print_bytes(bytes: &[u8]) {
    write(&[bytes]);
}

fn write(pieces: &[&[u8]]) {
    let mut failed = lock(&FAILED);
    if failed.is_some() {
        return;
    }
    let mut out = io::stdout().lock();
    if closed::standard_output() {
        *failed = Some(io::Error::other("it is closed"));
        return;
    }
    *failed = pieces.iter().try_for_each(|piece| out.write_all(piece)).err();
}

/// Flushes standard output, and reports whether all of it was written. A closed pipe (`| head`) is not an
/// error.
pub fn finish() -> Result<(), Failure> {
    let mut failed = lock(&FAILED);
    let first = failed.take().or_else(|| io::stdout().lock().flush().err());
    match first {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error; a failure to do so cannot be reported anywhere.
pub fn report(text: &str) {
    let mut line = text.to_owned();
    line.push('\n');
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Writes a warning to standard error.
pub fn warn(text: &str) {
    report(&format!("warning: {text}"));
}

/// Where a JSON result is written.
pub enum JsonOutput {
    /// `-`.
    StandardOutput,
    /// A file.
    File(OutputFile),
}

/// Makes the text of what is finished so far; `None` if that is nothing.
type SoFar = Box<dyn Fn() -> Option<Vec<u8>> + Send>;

/// A result that is on its way.
struct Pending {
    /// The file, unless the result goes to a pipe or standard output, or is being written already.
    file: Option<OutputFile>,
    so_far: SoFar,
}

/// What [`keep_finished`] saves.
static PENDING: Mutex<Option<Pending>> = Mutex::new(None);

impl JsonOutput {
    /// Checks that the option's file can be written and is none of `inputs`, so that a long run does not fail
    /// at its end on a missing folder, and no input is lost.
    pub fn prepare(path: Option<&Path>, inputs: &InputFiles) -> Result<Option<JsonOutput>, Failure> {
        Ok(match path {
            None => None,
            Some(path) if path == Path::new("-") => {
                check_standard_output(inputs)?;
                Some(JsonOutput::StandardOutput)
            }
            Some(path) => Some(JsonOutput::File(OutputFile::prepare_beside(path, inputs).map_err(Failure::bad)?)),
        })
    }

    /// Whether standard output is reserved for JSON.
    pub fn takes_standard_output(&self) -> bool {
        matches!(self, JsonOutput::StandardOutput)
    }

    /// From now on, a process that is ended by a second signal keeps what is finished: `so_far` makes its
    /// text.
    pub fn keep_if_ended(self, so_far: impl Fn() -> Option<Vec<u8>> + Send + 'static) -> KeptOutput {
        let file = match self {
            JsonOutput::StandardOutput => None,
            JsonOutput::File(file) => Some(file),
        };
        let kept = KeptOutput { standard_output: file.is_none() };
        *lock(&PENDING) = Some(Pending { file, so_far: Box::new(so_far) });
        kept
    }
}

/// A [`JsonOutput`] whose results are kept if the process is ended.
pub struct KeptOutput {
    standard_output: bool,
}

impl KeptOutput {
    /// Writes the result; if that fails, saves it to a temporary file instead.
    pub fn write(self, text: Vec<u8>) -> Result<(), Failure> {
        let stop = interrupt::stop_flag();
        let mut pending = lock(&PENDING);
        let Some(Pending { file, .. }) = pending.take() else {
            drop(pending);
            // A second signal has taken the result, and ends the process when it is saved.
            loop {
                std::thread::park();
            }
        };
        let written = match file {
            // A second signal waits for this.
            Some(file) if file.is_replaced_as_a_whole() => file.write_unless(&text, &stop).map_err(|e| e.to_string()),
            // This may wait for a reader, for ever: a second signal then saves the same text elsewhere.
            file => {
                let copy = text.clone();
                *pending = Some(Pending { file: None, so_far: Box::new(move || Some(copy.clone())) });
                drop(pending);
                let written = match file {
                    Some(file) => file.write_unless(&text, &stop).map_err(|error| error.to_string()),
                    None if self.standard_output => {
                        print_bytes(&text);
                        finish().map_err(|failure| failure.message)
                    }
                    None => Err("the result has no output".into()),
                };
                pending = lock(&PENDING);
                written
            }
        };
        *pending = None;
        written.map_err(|error| keep_elsewhere(&error, &text))
    }
}

impl Drop for KeptOutput {
    fn drop(&mut self) {
        // Of a command that failed before there was a result: the output stays as it was.
        drop(lock(&PENDING).take());
    }
}

/// Saves what is finished, for a process that is about to end: to its output if that is a file, or else to a
/// temporary file. Says where. Waits for a file that is being written.
pub fn keep_finished() {
    let Some(Pending { file, so_far }) = lock(&PENDING).take() else { return };
    let Some(text) = so_far() else { return };
    let failed = match file.filter(OutputFile::is_replaced_as_a_whole) {
        Some(file) => {
            let name = file.path().display().to_string();
            match file.write(&text) {
                Ok(()) => return report(&format!("the results that were finished are in {name}")),
                Err(error) => error.to_string(),
            }
        }
        None => "the result could not be written before the end".to_owned(),
    };
    report(&format!("error: {}", keep_elsewhere(&failed, &text).message));
}

/// Refuses standard output that has been redirected to one of `inputs`.
pub fn check_standard_output(inputs: &InputFiles) -> Result<(), Failure> {
    match inputs.same_as_standard_output() {
        Ok(Some(input)) => Err(Failure::bad(format!(
            "standard output goes to {}, which is an input, and would be written into it; redirect it elsewhere",
            input.display()
        ))),
        _ => Ok(()),
    }
}

fn keep_elsewhere(error: &str, text: &[u8]) -> Failure {
    let kept = tempfile::Builder::new().prefix("ambulator-").suffix(".json").tempfile().and_then(|mut file| {
        file.write_all(text)?;
        Ok(file.into_temp_path().keep()?)
    });
    Failure::failed(match kept {
        Ok(place) => format!("{error}. The results are in {} instead", place.display()),
        Err(second) => format!("{error}. They could not be saved elsewhere either: {second}"),
    })
}

/// Whether the process was started without a standard output (`>&-`). Rust's runtime opens `/dev/null` in its
/// place before `main`, so that whatever is written there vanishes without an error: the question must be
/// asked earlier.
#[cfg(unix)]
mod closed {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    // Before `main`, most of the standard library may not be used; a system call and an atomic may.
    #[ctor::ctor(unsafe)]
    fn ask() {
        let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
        CLOSED.store(flags == Err(rustix::io::Errno::BADF), Ordering::Relaxed);
    }

    pub fn standard_output() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }
}

#[cfg(not(unix))]
mod closed {
    pub fn standard_output() -> bool {
        false
    }
}
