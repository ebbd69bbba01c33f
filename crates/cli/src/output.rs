//! Everything that the command writes: standard output, standard error, and results as JSON.

use crate::Failure;
use ambulator_base::{OutputFile, lock};
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

impl JsonOutput {
    /// Checks that the option's file can be written, so that a long run does not fail at its end on a missing
    /// folder.
    pub fn prepare(path: Option<&Path>) -> Result<Option<JsonOutput>, Failure> {
        Ok(match path {
            None => None,
            Some(path) if path == Path::new("-") => Some(JsonOutput::StandardOutput),
            Some(path) => Some(JsonOutput::File(OutputFile::prepare(path).map_err(Failure::bad)?)),
        })
    }

    /// Whether standard output is reserved for JSON.
    pub fn takes_standard_output(&self) -> bool {
        matches!(self, JsonOutput::StandardOutput)
    }

    /// Writes the result; if that fails, saves it to a temporary file instead.
    pub fn write(self, text: &[u8]) -> Result<(), Failure> {
        let written = match self {
            JsonOutput::File(file) => file.write(text).map_err(|error| error.to_string()),
            JsonOutput::StandardOutput => {
                print_bytes(text);
                finish().map_err(|failure| failure.message)
            }
        };
        written.map_err(|error| keep_elsewhere(&error, text))
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
