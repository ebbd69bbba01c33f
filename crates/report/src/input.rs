//! What reports are made of: stores, and the JSON documents that `run` and `compare` write.

use crate::study::{Cell, Study};
use ambulator_base::distinct_notes;
use ambulator_experiments::row::{CellInfo, run_of};
use ambulator_experiments::{Document, Store, is_of_this_build};
use ambulator_simulator::spec::{PresetKind, Spec, presets};
use ambulator_simulator::{RunResult, Schema};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
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
const RIGHT: &str = "a report is made of stores, and of files that `ambulator compare --json` or `run --json` wrote";
/// More cells than a page can show.
const MOST_CELLS: usize = 2000;
/// How designs begin that are there as the bound of others.
const BOUND: &str = "bound of ";

/// The runs of several inputs, of stores only those of the study `study`, if one is named.
///
/// # Errors
/// An input that cannot be read, is no result, or has no runs: the sentence names the file and the place.
pub fn read(paths: &[PathBuf], study: Option<&str>) -> Result<Study, InputError> {
    let mut all = Gathered::default();
    for path in paths {
        if path.is_dir() {
            all.add_store(path, study)?;
        } else {
            all.add_document(path)?;
        }
    }
    let mut study = Study::new(all.cells);
    study.commands = all.commands;
    study.notes = distinct_notes(all.notes);
    study.schema = ambulator_simulator::join_schemas(&all.schemas);
    Ok(study)
}

/// What has been read so far.
#[derive(Default)]
struct Gathered {
    cells: Vec<Cell>,
    commands: Vec<String>,
    notes: Vec<String>,
    schemas: Vec<Schema>,
    /// Inputs so far: cells of one are compared with each other.
    sources: usize,
    /// The conditions of files with one run, and their source.
    alone: Vec<(String, usize)>,
}

/// A study as its store describes it.
#[derive(Deserialize)]
struct Description {
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    axes: Vec<String>,
    cells: Vec<Place>,
}

/// The place of a cell in a study.
#[derive(Deserialize)]
struct Place {
    cell: String,
    machine: String,
    design: String,
    program: String,
    #[serde(default)]
    varied: Vec<String>,
    #[serde(default)]
    set: Vec<String>,
}

impl Place {
    /// Settings in which the cells of a study differ, by key.
    fn settings(&self, axes: &[String]) -> BTreeMap<String, Value> {
        // Numbers are written as numbers: figures draw lines over them.
        let value = |text: &str| match ambulator_simulator::spec::parse_size(text) {
            Ok(number) => number.into(),
            Err(_) => text.parse::<f64>().map_or_else(|_| text.into(), Value::from),
        };
        let own = self.set.iter().filter_map(|option| option.split_once('='));
        let varied = axes.iter().map(String::as_str).zip(self.varied.iter().map(String::as_str));
        varied.chain(own).map(|(key, text)| (key.to_owned(), value(text))).collect()
    }
}

impl Gathered {
    fn add_document(&mut self, path: &Path) -> Result<(), InputError> {
        let document = document(path)?;
        self.commands.push(shell_words(&document.command));
        self.notes.extend(document.notes);
        self.schemas.push(document.schema);
        let bounds = document.bounds.into_iter().map(|bound| (bound.run, true));
        let source = match document.runs.as_slice() {
            [run] => self.source_of(run),
            _ => self.new_source(),
        };
        for (run, is_bound) in document.runs.into_iter().map(|run| (run, false)).chain(bounds) {
            self.cells.push(Cell { run, source, is_bound, ..Cell::default() });
        }
        Ok(())
    }

    fn new_source(&mut self) -> usize {
        self.sources += 1;
        self.sources
    }

    /// The source of a single run: runs of the same program on the same machine are compared, whatever their
    /// files.
    fn source_of(&mut self, run: &RunResult) -> usize {
        let conditions = conditions_of(run);
        if let Some((_, source)) = self.alone.iter().find(|(known, _)| *known == conditions) {
            return *source;
        }
        let source = self.new_source();
        self.alone.push((conditions, source));
        source
    }

    /// The cells of a store: of its studies by their places, and all others by their settings. Of several
    /// builds of the models, the present one's alone, if there are any.
    fn add_store(&mut self, folder: &Path, only: Option<&str>) -> Result<(), InputError> {
        let fail = |what: String| InputError { path: folder.to_owned(), what };
        if !folder.join("cells").is_dir() {
            return Err(fail(format!("is a folder, but no store: it has no folder `cells`; {RIGHT}")));
        }
        let store = Store::open(folder).map_err(|what| fail(format!("cannot be read: {what}")))?;
        self.notes.extend(store.warnings().iter().cloned());
        let mut cells: BTreeMap<String, (CellInfo, RunResult)> = BTreeMap::new();
        let mut others = 0;
        let present = store.rows().any(|row| row.get("build").and_then(Value::as_str).is_some_and(is_of_this_build));
        let studies = studies(folder, only).map_err(fail)?;
        let wanted =
            |key: &str| only.is_none() || studies.iter().any(|study| study.cells.iter().any(|of| of.cell == key));
        for row in store.rows() {
            let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_bound = text("design").starts_with(BOUND);
            if !is_bound && !wanted(text("cell")) {
                continue;
            }
            if present && !is_of_this_build(text("build")) {
                others += 1;
                continue;
            }
            let cell = text("cell").to_owned();
            let spec = store.spec(text("spec"));
            let read = spec.ok_or_else(|| format!("its spec {} is missing or damaged", text("spec")));
            match read.and_then(|spec| run_of(&row, spec)) {
                Ok(found) => _ = cells.insert(cell, found),
                Err(why) => self.notes.push(format!("The cell {cell} of {} is left out: {why}.", folder.display())),
            }
        }
        if others > 0 {
            let folder = folder.display();
            self.notes.push(format!("{others} cells of {folder} are of other builds of Ambulator, and left out."));
        }
        if cells.is_empty() {
            return Err(fail(match only {
                Some(name) => format!("has no finished cells of the study `{name}`"),
                None => "has no finished cells".into(),
            }));
        }
        if cells.len() > MOST_CELLS {
            return Err(fail(format!(
                "has {} cells, and a report shows at most {MOST_CELLS}: name one of its studies with --study",
                cells.len()
            )));
        }
        let mut used = BTreeSet::new();
        for study in &studies {
            self.commands.push(shell_words(&study.command));
            let source = self.new_source();
            for place in &study.cells {
                let Some((info, run)) = cells.get(&place.cell) else { continue };
                used.insert(place.cell.clone());
                self.schemas.push(store.schema_of(run));
                self.cells.push(Cell {
                    run: RunResult { design: place.design.clone(), program: place.program.clone(), ..run.clone() },
                    machine: place.machine.clone(),
                    build: if present { String::new() } else { info.build.clone() },
                    set: place.settings(&study.axes),
                    source,
                    is_bound: false,
                });
            }
        }
        let source = self.new_source();
        let mut rest: Vec<(CellInfo, RunResult)> =
            cells.into_iter().filter(|(key, _)| !used.contains(key)).map(|(_, cell)| cell).collect();
        // Stores have no order: the design of the default page table is the baseline, then the others follow as
        // in lists.
        let default = Spec::default().design.page_table;
        let all = presets();
        rest.sort_by_key(|(_, run)| {
            let listed = all.iter().position(|preset| preset.kind == PresetKind::Design && preset.name == run.design);
            (run.program.clone(), run.design != default, listed.unwrap_or(usize::MAX), run.design.clone(), run.seed)
        });
        for (info, run) in rest {
            self.schemas.push(store.schema_of(&run));
            let is_bound = run.design.starts_with(BOUND);
            // Seeds are compared with each other.
            let set = info.set.into_iter().filter(|(key, _)| key != "run.seed").collect();
            let build = if present { String::new() } else { info.build };
            self.cells.push(Cell { run, machine: info.machine, build, set, source, is_bound });
        }
        Ok(())
    }
}

/// The descriptions of the studies of a store, or of the one that is named.
fn studies(folder: &Path, only: Option<&str>) -> Result<Vec<Description>, String> {
    let entries = fs::read_dir(folder.join("studies")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let name = |path: &Path| path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if let Some(only) = only {
        let names: Vec<String> = files.iter().map(|path| name(path)).collect();
        files.retain(|path| name(path) == only);
        if files.is_empty() {
            let there = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
            return Err(format!("has no study `{only}`; {there}"));
        }
    }
    let one = |path: &PathBuf| {
        let text = fs::read(path).map_err(|error| format!("studies/{}.json cannot be read ({error})", name(path)))?;
        serde_json::from_slice(&text).map_err(|error| format!("studies/{}.json: {error}", name(path)))
    };
    files.iter().map(one).collect()
}

/// What makes single runs comparable.
fn conditions_of(run: &RunResult) -> String {
    let machine = |key: &str| run.spec.pointer(key).map(Value::to_string).unwrap_or_default();
    format!(
        "{} {} {} {} {}",
        run.program,
        run.identity.footprint,
        run.simulated_instructions,
        machine("/machine"),
        machine("/dram")
    )
}

/// A document.
fn document(path: &Path) -> Result<Document, InputError> {
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
    Ok(document)
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
    use ambulator_experiments::build;

    fn failure(text: &str) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.json");
        fs::write(&path, text).unwrap();
        read(&[path], None).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_result_is_named_with_its_place() {
        let error = failure("{\n  \"version\": 3");
        assert!(error.contains("x.json: is not a result") && error.contains("line 2, column 14"), "{error}");
        assert!(error.ends_with("`ambulator compare --json` or `run --json` wrote"), "{error}");
        assert!(failure("[]").contains("is not a result"));
        let empty = r#"{"version":"1","command":[],"runs":[],"schema":{},"measures":{}}"#;
        assert!(failure(empty).contains("has no runs"));
        let missing = read(&[PathBuf::from("/nowhere/x.json")], None).unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere/x.json: cannot be read"), "{missing}");
    }

    /// A store with these cells: design, build, settings that differ.
    fn store(folder: &Path, cells: &[(&str, &str, Option<u64>)]) {
        let mut store = Store::open(folder).unwrap();
        for (number, (design, build, entries)) in cells.iter().enumerate() {
            let mut run = crate::study::tests::run("gups", design, 1000 - 100 * number as u64);
            run.spec = serde_json::json!({"mmu": {"entries": entries}});
            run.counters.insert("mmu.walks".into(), 5);
            let set = entries.iter().map(|entries| ("mmu.entries".to_owned(), Value::from(*entries))).collect();
            let info = CellInfo { cell: format!("c{number}"), build: (*build).into(), machine: "m".into(), set };
            store.add(&info, &run, &Schema::new()).unwrap();
        }
        store.finish().unwrap();
    }

    #[test]
    fn the_cells_of_a_store_are_compared_by_their_settings() {
        let folder = tempfile::tempdir().unwrap();
        let (build, with_code) = (build(), format!("{}-0123", build()));
        let cells = [("a", build, Some(1)), ("b", &with_code, Some(1)), ("a", build, Some(2)), ("b", "older", Some(2))];
        store(folder.path(), &cells);
        let study = read(&[folder.path().to_owned()], None).unwrap();
        let all: Vec<(&str, usize)> =
            study.comparisons.iter().map(|one| (one.label.as_str(), one.designs.len())).collect();
        assert_eq!(all, [("gups, mmu.entries 1", 2), ("gups, mmu.entries 2", 1)]);
        assert!(
            study.notes[0].starts_with("1 cells of ") && study.notes[0].contains("other builds"),
            "{:?}",
            study.notes
        );
        assert_eq!(study.cells[1].run.counters["mmu.walks"], 5);
    }

    #[test]
    fn a_study_names_its_designs_and_settings() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path(), &[("a", "x", None), ("a", "x", Some(64)), ("c", "x", None)]);
        let place = |cell: &str, design: &str, varied: &str| serde_json::json!({"cell": cell, "machine": "m", "design": design, "program": "GUPS", "varied": [varied], "set": []});
        let description = serde_json::json!({
            "command": ["ambulator", "sweep", "s.toml"], "axes": ["run.x"],
            "cells": [place("c0", "plain", "1Ki"), place("c1", "large", "1Ki"), place("gone", "plain", "2")],
        });
        Store::open(folder.path()).unwrap().write_study("s", &description).unwrap();
        let path = [folder.path().to_owned()];
        let study = read(&path, Some("s")).unwrap();
        let designs: Vec<&str> = study.comparisons[0].designs.iter().map(|design| design.name.as_str()).collect();
        assert_eq!((study.comparisons.len(), designs), (1, vec!["plain", "large"]));
        assert_eq!(
            (study.comparisons[0].label.as_str(), study.commands[0].as_str()),
            ("GUPS", "ambulator sweep s.toml")
        );
        assert_eq!(study.cells[0].set["run.x"], 1024);
        assert_eq!(read(&path, None).unwrap().cells.len(), 3);
        let error = read(&path, Some("t")).unwrap_err().to_string();
        assert!(error.ends_with("has no study `t`; it has s"), "{error}");
    }

    #[test]
    fn a_folder_that_is_no_store_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(&[folder.path().to_owned()], None).unwrap_err().to_string();
        assert!(error.contains("is a folder, but no store"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        store(folder.path(), &[]);
        assert!(read(&[folder.path().to_owned()], None).unwrap_err().to_string().ends_with("has no finished cells"));
    }

    #[test]
    fn commands_are_words_of_a_shell() {
        let words = ["/usr/bin/ambulator", "compare", "a b.amb", "it's", "--set", "mmu.x=1"].map(str::to_owned);
        assert_eq!(shell_words(&words), r"ambulator compare 'a b.amb' 'it'\''s' --set mmu.x=1");
    }
}
