//! Everything that the command writes: standard output, standard error, and results as JSON.

use crate::Failure;
use ambulator_base::{OutputFile, lock};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Mutex;

/// Why writing to standard output failed the first time; nothing more is written then. [`finish`] tells.
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

/// Writes what is left of standard output, and says whether all of it could be written. A reader that has gone away (`| head`)
/// wants no more and is told nothing.
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

/// Writes a line to standard error. Where that cannot be written there is nowhere left to say so.
pub fn tell(text: &str) {
    let mut line = text.to_owned();
    line.push('\n');
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Tells what should be known although the command does what it was asked.
pub fn warn(text: &str) {
    tell(&format!("warning: {text}"));
}

/// Where a result goes as JSON.
pub enum JsonOutput {
    /// `-`.
    StandardOutput,
    /// A file.
    File(OutputFile),
}

impl JsonOutput {
    /// Tries whether the option's file can be written, so that a run of an hour does not end at a folder that is not there.
    pub fn prepare(path: Option<&Path>) -> Result<Option<JsonOutput>, Failure> {
        Ok(match path {
            None => None,
            Some(path) if path == Path::new("-") => Some(JsonOutput::StandardOutput),
            Some(path) => Some(JsonOutput::File(OutputFile::prepare(path).map_err(Failure::bad)?)),
        })
    }

    /// Whether standard output is for JSON alone.
    pub fn takes_standard_output(&self) -> bool {
        matches!(self, JsonOutput::StandardOutput)
    }

    /// Writes the result. What cannot be written where it should be goes to a temporary file: it is not lost.
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
        Err(second) => format!("{error}. They could not be kept elsewhere either: {second}"),
    })
}
