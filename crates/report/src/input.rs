//! What reports are made of: JSON documents that `run` and `compare` write.

use crate::study::{Cell, Series, Study};
use ambulator_base::distinct_notes;
use ambulator_experiments::Document;
use ambulator_simulator::RunResult;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Why an input could not be read.
#[derive(Debug)]
pub struct InputError {
    path: PathBuf,
    what: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for InputError {}

/// What is right instead of a file that is no result.
const RIGHT: &str = "a report is made of files that `ambulator compare --json` or `run --json` wrote";

/// The runs of several inputs.
///
/// # Errors
/// An input that cannot be read, is no result, or has no runs: the sentence names the file and the place.
pub fn read(paths: &[PathBuf]) -> Result<Study, InputError> {
    let mut documents = Vec::new();
    for path in paths {
        documents.push(document(path)?);
    }
    let mut cells = Vec::new();
    let (mut commands, mut notes, mut schemas) = (Vec::new(), Vec::new(), Vec::new());
    let mut sources: Vec<String> = Vec::new();
    for (number, (document, series)) in documents.into_iter().enumerate() {
        commands.push(shell_words(&document.command));
        notes.extend(document.notes);
        schemas.push(document.schema);
        let bounds = document.bounds.into_iter().map(|bound| (bound.run, true));
        let one = document.runs.len() == 1;
        let source = if one { source_of(&document.runs[0], &mut sources) } else { usize::MAX / 2 + number };
        let series = series.into_iter().chain(std::iter::repeat(None));
        for ((run, is_bound), series) in document.runs.into_iter().map(|run| (run, false)).chain(bounds).zip(series) {
            cells.push(Cell { run, source, is_bound, series, ..Cell::default() });
        }
    }
    let mut study = Study::new(cells);
    study.commands = commands;
    study.notes = distinct_notes(notes);
    study.schema = ambulator_simulator::join_schemas(&schemas);
    Ok(study)
}

/// The number of the comparison that a single run belongs to: runs of the same program on the same machine
/// are compared, whatever their files.
fn source_of(run: &RunResult, known: &mut Vec<String>) -> usize {
    let machine = |key: &str| run.spec.pointer(key).map(Value::to_string).unwrap_or_default();
    let conditions = format!(
        "{} {} {} {} {}",
        run.program,
        run.identity.footprint,
        run.simulated_instructions,
        machine("/machine"),
        machine("/dram")
    );
    known.iter().position(|of| *of == conditions).unwrap_or_else(|| {
        known.push(conditions);
        known.len() - 1
    })
}

/// A document, and the series of its runs.
fn document(path: &Path) -> Result<(Document, Vec<Option<Series>>), InputError> {
    let fail = |what: String| InputError { path: path.to_owned(), what };
    let text = fs::read(path).map_err(|error| fail(format!("cannot be read ({error}); {RIGHT}")))?;
    let document: Document = serde_json::from_slice(&text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        fail(
            format!("is not a result: {error} ({place}); {RIGHT}")
                .replace(&format!(" at {}", place.replace(',', "")), ""),
        )
    })?;
    if document.runs.is_empty() {
        return Err(fail(format!("has no runs; {RIGHT}")));
    }
    Ok((document, series(&text)))
}

/// The series of the runs of a document that has been read.
fn series(text: &[u8]) -> Vec<Option<Series>> {
    #[derive(Deserialize)]
    struct Run {
        #[serde(default)]
        series: Option<Series>,
    }
    #[derive(Deserialize)]
    struct Runs {
        runs: Vec<Run>,
    }
    serde_json::from_slice::<Runs>(text).map_or(Vec::new(), |all| all.runs.into_iter().map(|run| run.series).collect())
}

/// A command line that a shell reads as these words.
fn shell_words(words: &[String]) -> String {
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./,:+%@".contains(c));
    let quoted = words.iter().enumerate().map(|(at, word)| match at {
        // Where the program lay does not matter.
        0 => Path::new(word).file_name().map_or_else(|| word.clone(), |name| name.to_string_lossy().into_owned()),
        _ if plain(word) => word.clone(),
        _ => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.json");
        fs::write(&path, text).unwrap();
        read(&[path]).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_result_is_named_with_its_place() {
        let error = failure("{\n  \"version\": 3");
        assert!(error.contains("x.json: is not a result") && error.contains("line 2, column 14"), "{error}");
        assert!(error.ends_with("`ambulator compare --json` or `run --json` wrote"), "{error}");
        assert!(failure("[]").contains("is not a result"));
        let empty = r#"{"version":"1","command":[],"runs":[],"schema":{},"measures":{}}"#;
        assert!(failure(empty).contains("has no runs"));
        let missing = read(&[PathBuf::from("/nowhere/x.json")]).unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere/x.json: cannot be read"), "{missing}");
    }

    #[test]
    fn commands_are_words_of_a_shell() {
        let words = ["/usr/bin/ambulator", "compare", "a b.amb", "it's", "--set", "mmu.x=1"].map(str::to_owned);
        assert_eq!(shell_words(&words), r"ambulator compare 'a b.amb' 'it'\''s' --set mmu.x=1");
    }
}
