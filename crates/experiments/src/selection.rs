//! Cells of a store by what they are: design, program, machine, status, study, and any setting or column.

use crate::number::short;
use crate::row::Row;
use crate::store::Store;
use ambulator_base::nearest;
use ambulator_simulator::spec::{parse_count, parse_size};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer digits of a key could be a word.
const LEAST_DIGITS: usize = 4;
/// A study is named by this.
const STUDY: &str = "study";

/// What cells must have: a column or a setting, and the values of which one is theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// All of these must hold.
    pub conditions: Vec<(String, Vec<String>)>,
}

impl Selection {
    /// Adds a condition, if there are values.
    pub fn add(&mut self, key: &str, values: impl IntoIterator<Item = String>) {
        let values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
        if !values.is_empty() {
            self.conditions.push((key.to_owned(), values));
        }
    }

    /// Reads `design=thp,program=gups`; `design=thp|radix` is either.
    ///
    /// # Errors
    /// A part without `=`.
    pub fn parse(text: &str) -> Result<Selection, String> {
        let mut selection = Selection::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, values) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` has no `=`: write a column or a setting and its value, such as design=thp")
            })?;
            selection.add(key.trim(), values.split('|').map(|value| value.trim().to_owned()));
        }
        Ok(selection)
    }
}

/// A cell of a store.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Its row.
    pub row: Row,
    /// Its whole spec; null if that is lost.
    pub spec: Value,
}

impl Selected {
    /// The value of a column, or of a setting by its key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        let of_row = self.row.get(key).or_else(|| self.row.get(&format!("set.{key}")));
        of_row.or_else(|| key.split('.').try_fold(&self.spec, |at, part| at.get(part)).filter(|at| !at.is_object()))
    }

    /// The value of a column as text; empty if there is none.
    pub fn text(&self, key: &str) -> String {
        self.value(key).map(plain).unwrap_or_default()
    }

    /// The first digits of its key.
    pub fn short_key(&self) -> String {
        self.text("cell").chars().take(8).collect()
    }

    /// Its settings that differ from the presets, as `KEY` and value.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.row.iter().filter_map(|(name, value)| Some((name.strip_prefix("set.")?, value)))
    }
}

/// A value without the quotes of JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(number) => number.as_u64().map_or_else(
            || {
                number.as_f64().map_or_else(
                    || number.to_string(),
                    |value| if value == value.trunc() { value.to_string() } else { short(value) },
                )
            },
            |whole| whole.to_string(),
        ),
        other => other.to_string(),
    }
}

/// Whether a value is the one that a user has written: sizes and counts may have suffixes.
fn is_meant(value: &Value, written: &str) -> bool {
    let exact = match value {
        Value::String(text) => return text == written,
        other => other.to_string(),
    };
    let number = value.as_f64();
    let same = |other: Option<f64>| other.is_some() && other == number;
    exact == written
        || same(written.parse().ok())
        || same(parse_size(written).ok().map(|bytes| bytes as f64))
        || same(parse_count(written).ok().map(|count| count as f64))
}

impl Store {
    /// The cells that a selection holds for: by program, design, machine, settings and seed.
    ///
    /// # Errors
    /// A study that the store does not have, or a column or setting that none of its cells has.
    pub fn select(&self, selection: &Selection) -> Result<Vec<Selected>, String> {
        let mut studies: Vec<BTreeSet<String>> = Vec::new();
        for (_, names) in selection.conditions.iter().filter(|(key, _)| key == STUDY) {
            let keys: Result<Vec<_>, _> = names.iter().map(|name| self.keys_of_study(name)).collect();
            studies.push(keys?.into_iter().flatten().collect());
        }
        let others: Vec<&(String, Vec<String>)> = selection.conditions.iter().filter(|(key, _)| key != STUDY).collect();
        let mut specs: BTreeMap<String, Value> = BTreeMap::new();
        let mut known = vec![false; others.len()];
        let mut found = Vec::new();
        for row in self.rows() {
            let key = row.get("cell").and_then(Value::as_str).unwrap_or_default();
            let in_studies = studies.iter().all(|study| study.contains(key));
            let hash = row.get("spec").and_then(Value::as_str).unwrap_or_default().to_owned();
            let spec = specs.entry(hash).or_insert_with_key(|hash| self.spec(hash).unwrap_or_default()).clone();
            let cell = Selected { row, spec };
            let holds = |(at, (key, values)): (usize, &&(String, Vec<String>))| {
                let value = cell.value(key);
                known[at] |= value.is_some();
                // A key may be given by its first digits.
                let is = |written: &String| match value {
                    Some(Value::String(whole)) if key == "cell" => whole.starts_with(written.as_str()),
                    Some(value) => is_meant(value, written),
                    None => false,
                };
                values.iter().any(is)
            };
            let all: Vec<bool> = others.iter().enumerate().map(holds).collect();
            if in_studies && all.into_iter().all(|holds| holds) {
                found.push(cell);
            }
        }
        if let Some((key, _)) =
            others.iter().zip(&known).find(|(_, known)| !**known && !self.is_empty()).map(|(of, _)| of)
        {
            let columns = self.columns().keys().map(String::as_str).chain([STUDY]);
            let meant = nearest(key, columns).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            return Err(format!("no cell of the store has a column or a setting `{key}`{meant}"));
        }
        // Numbers in their order.
        let padded = |value: &Value| if value.is_number() { format!("{:>24}", plain(value)) } else { plain(value) };
        let order = |of: &Selected| {
            let names = ["program", "design", "machine"].map(|column| of.text(column));
            let settings = of.settings().map(|(key, value)| (key.to_owned(), padded(value)));
            (names, settings.collect::<Vec<_>>(), of.row.get("seed").and_then(Value::as_u64))
        };
        found.sort_by_cached_key(order);
        Ok(found)
    }

    /// The one cell whose key begins so.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn cell_by_prefix(&self, prefix: &str) -> Result<Selected, String> {
        if prefix.len() < LEAST_DIGITS || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!(
                "`{prefix}` is no key of a cell: write {LEAST_DIGITS} or more of its first digits (`ambulator results` \
                 lists them)"
            ));
        }
        let conditions = vec![("cell".to_owned(), vec![prefix.to_ascii_lowercase()])];
        let mut cells = self.select(&Selection { conditions })?;
        match cells.len() {
            0 => Err(format!("no cell of {} has a key that begins with {prefix}", self.folder().display())),
            1 => Ok(cells.remove(0)),
            count => Err(format!("{count} cells have keys that begin with {prefix}: write more of its digits")),
        }
    }

    /// The names of the studies that are described.
    pub fn studies(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder().join("studies")).into_iter().flatten().flatten();
        let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned);
        let mut names: Vec<String> = entries.filter_map(name).filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    fn keys_of_study(&self, name: &str) -> Result<Vec<String>, String> {
        let unknown = || {
            let known = self.studies();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            format!("the store {} has no study `{name}`: {known}", self.folder().display())
        };
        if !self.studies().iter().any(|known| known == name) {
            return Err(unknown());
        }
        let path = self.folder().join("studies").join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let study: Value = serde_json::from_str(&text).map_err(|error| {
            format!("{}: it is damaged ({error}); running the study writes it again", path.display())
        })?;
        let cells = study.get("cells").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(cells.iter().filter_map(|cell| cell.get("cell")?.as_str().map(str::to_owned)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::CellInfo;
    use ambulator_simulator::{RunResult, Schema};
    use serde_json::json;

    fn store(folder: &std::path::Path) -> Store {
        let mut store = Store::open(folder).unwrap();
        for (at, design, entries) in [(0, "radix", 512), (1, "radix", 1024), (2, "thp", 512)] {
            let set = json!({"mmu.l2_tlb.entries": entries}).as_object().unwrap().clone();
            let info = CellInfo { cell: format!("{at:08x}{:024x}", 7), build: "b".into(), machine: "m".into(), set };
            let spec = json!({"memory": {"bytes": 1u64 << 28}, "mmu": {"l2_tlb": {"entries": entries}}});
            let run = RunResult { design: design.into(), program: "gups".into(), spec, ..RunResult::default() };
            store.add(&info, &run, &Schema::new()).unwrap();
        }
        store.write_study("s", &json!({"cells": [{"cell": format!("{:08x}{:024x}", 1, 7)}]})).unwrap();
        store
    }

    #[test]
    fn cells_are_found_by_columns_settings_and_studies() {
        let scratch = tempfile::tempdir().unwrap();
        let store = store(scratch.path());
        for (text, count) in [
            ("", 3),
            ("design=radix", 2),
            ("design=radix|thp", 3),
            ("design=radix, mmu.l2_tlb.entries=512", 1),
            ("memory.bytes=256MiB", 3),
            ("mmu.l2_tlb.entries=2k", 0),
            ("study=s", 1),
            ("study=s,design=thp", 0),
            ("cell=00000002", 1),
            ("status=done", 3),
        ] {
            assert_eq!(store.select(&Selection::parse(text).unwrap()).unwrap().len(), count, "{text}");
        }
        for (text, wrong) in [
            ("desing=thp", "did you mean `design`?"),
            ("study=t", "no study `t`: it has s"),
            ("thp", "`thp` has no `=`"),
        ] {
            let error = Selection::parse(text).and_then(|of| store.select(&of).map(|_| ())).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_key_is_known_by_its_first_digits() {
        let scratch = tempfile::tempdir().unwrap();
        let store = store(scratch.path());
        assert_eq!(store.cell_by_prefix("00000002").unwrap().text("design"), "thp");
        assert!(store.cell_by_prefix("000").unwrap_err().contains("4 or more"));
        assert!(store.cell_by_prefix("0000").unwrap_err().contains("3 cells"));
        assert!(store.cell_by_prefix("abcd").unwrap_err().contains("no cell"));
    }
}
