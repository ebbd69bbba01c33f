//! The columns of a row for who causes page walks and page faults (`run.profile`): lists by mapping and by
//! instruction, below `profile.`.

use crate::row::{Column, Row};
use ambulator_simulator::{Misses, Profile, ProfiledCode, ProfiledMapping};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Columns that begin so are of the profile.
pub(crate) const PROFILE: &str = "profile.";
const MAPPINGS: &str = "profile.mappings.";
const CODE: &str = "profile.code.";
const OTHER_MAPPINGS: &str = "profile.other_mappings";
const OTHER_CODE: &str = "profile.other_code";

/// The columns but those of costs: name below the prefix, unit, meaning.
const OF_MAPPINGS: [(&str, &str, &str); 4] = [
    ("name", "names", "By mapping: its file or its arrays; empty if that is not known."),
    ("start", "address", "By mapping: its first address; 0 of addresses that no mapping holds."),
    ("bytes", "bytes", "By mapping: its size."),
    ("kind", "choice", "By mapping: what is mapped; null of addresses that no mapping holds."),
];
const OF_CODE: [(&str, &str, &str); 4] = [
    ("pc", "address", "By instruction: its address."),
    ("file", "names", "By instruction: the file that is mapped there; empty if that is not known."),
    ("file_offset", "bytes", "By instruction: the byte of the file."),
    ("mapping", "number", "By instruction: which of the mappings it accesses; null for another."),
];
/// Units of costs, in their order.
const UNITS: [&str; 5] = ["events", "events", "cycles", "events", "cycles"];

fn list<T>(of: &[T], value: impl Fn(&T) -> Value) -> Value {
    Value::Array(of.iter().map(value).collect())
}

/// Adds the columns of `profile`.
pub(crate) fn put(row: &mut Row, profile: &Profile) {
    let Profile { mappings, other_mappings, code, other_code } = profile;
    let mut put = |prefix: &str, name: &str, value: Value| _ = row.insert(format!("{prefix}{name}"), value);
    put(MAPPINGS, "name", list(mappings, |of| of.name.as_str().into()));
    put(MAPPINGS, "start", list(mappings, |of| of.start.into()));
    put(MAPPINGS, "bytes", list(mappings, |of| of.bytes.into()));
    put(MAPPINGS, "kind", list(mappings, |of| serde_json::to_value(of.kind).unwrap_or_default()));
    put(CODE, "pc", list(code, |of| of.pc.into()));
    put(CODE, "file", list(code, |of| of.file.as_str().into()));
    put(CODE, "file_offset", list(code, |of| of.file_offset.into()));
    put(CODE, "mapping", list(code, |of| of.mapping.into()));
    for (at, name) in Misses::NAMES.into_iter().enumerate() {
        put(MAPPINGS, name, list(mappings, |of| of.misses.values()[at].into()));
        put(CODE, name, list(code, |of| of.misses.values()[at].into()));
    }
    put(OTHER_MAPPINGS, "", other_mappings.values().to_vec().into());
    put(OTHER_CODE, "", other_code.values().to_vec().into());
}

/// The profile of a row, if it has one.
///
/// # Errors
/// A sentence that names the column which is missing, or has something else than what it should.
pub(crate) fn read(row: &Row) -> Result<Option<Profile>, String> {
    let Some(other) = row.get(OTHER_MAPPINGS) else { return Ok(None) };
    let (names, starts) = (column::<String>(row, MAPPINGS, "name")?, column::<u64>(row, MAPPINGS, "start")?);
    let (bytes, kinds) = (column::<u64>(row, MAPPINGS, "bytes")?, column(row, MAPPINGS, "kind")?);
    let misses = costs(row, MAPPINGS)?;
    same_length(MAPPINGS, &[names.len(), starts.len(), bytes.len(), kinds.len(), misses.len()])?;
    let mappings = names.into_iter().zip(starts).zip(bytes).zip(kinds).zip(misses);
    let mappings = mappings
        .map(|((((name, start), bytes), kind), misses)| ProfiledMapping { name, start, bytes, kind, misses })
        .collect();
    let (pcs, files) = (column::<u64>(row, CODE, "pc")?, column::<String>(row, CODE, "file")?);
    let (offsets, of) = (column::<u64>(row, CODE, "file_offset")?, column(row, CODE, "mapping")?);
    let misses = costs(row, CODE)?;
    same_length(CODE, &[pcs.len(), files.len(), offsets.len(), of.len(), misses.len()])?;
    let code = pcs.into_iter().zip(files).zip(offsets).zip(of).zip(misses);
    let code = code
        .map(|((((pc, file), file_offset), mapping), misses)| ProfiledCode { pc, file, file_offset, mapping, misses })
        .collect();
    let other_code = row.get(OTHER_CODE).ok_or_else(|| format!("it has no column `{OTHER_CODE}`"))?;
    Ok(Some(Profile {
        mappings,
        other_mappings: cost(OTHER_MAPPINGS, other)?,
        code,
        other_code: cost(OTHER_CODE, other_code)?,
    }))
}

fn same_length(prefix: &str, lengths: &[usize]) -> Result<(), String> {
    match lengths.iter().all(|length| *length == lengths[0]) {
        true => Ok(()),
        false => Err(format!("its columns `{prefix}` are not of one length")),
    }
}

fn column<T: for<'de> Deserialize<'de>>(row: &Row, prefix: &str, name: &str) -> Result<Vec<T>, String> {
    let column = format!("{prefix}{name}");
    let value = row.get(&column).ok_or_else(|| format!("it has no column `{column}`"))?;
    Vec::deserialize(value).map_err(|_| format!("its column `{column}` is not a list of what it should have"))
}

fn cost(column: &str, value: &Value) -> Result<Misses, String> {
    let values = <[u64; 5]>::deserialize(value).map_err(|_| format!("its column `{column}` is not 5 whole numbers"))?;
    Ok(Misses::of_values(values))
}

/// The costs of each row.
fn costs(row: &Row, prefix: &str) -> Result<Vec<Misses>, String> {
    let mut all: Vec<[u64; 5]> = Vec::new();
    for (at, name) in Misses::NAMES.into_iter().enumerate() {
        let values: Vec<u64> = column(row, prefix, name)?;
        if at == 0 {
            all = vec![[0; 5]; values.len()];
        }
        same_length(prefix, &[all.len(), values.len()])?;
        all.iter_mut().zip(values).for_each(|(of, value)| of[at] = value);
    }
    Ok(all.into_iter().map(Misses::of_values).collect())
}

/// Unit and meaning of the columns.
pub(crate) fn columns() -> BTreeMap<String, Column> {
    let mut all = BTreeMap::new();
    for (prefix, whose, fixed) in [(MAPPINGS, "By mapping", OF_MAPPINGS), (CODE, "By instruction", OF_CODE)] {
        for (name, unit, meaning) in fixed {
            all.insert(format!("{prefix}{name}"), Column::new(unit, meaning));
        }
        for (name, unit) in Misses::NAMES.into_iter().zip(UNITS) {
            let meaning = format!("{whose}: {} of its translations.", name.replace('_', " ").replace("tlb", "TLB"));
            all.insert(format!("{prefix}{name}"), Column::new(unit, meaning));
        }
    }
    let order = Misses::NAMES.join(", ");
    for (name, whose) in [(OTHER_MAPPINGS, "mappings"), (OTHER_CODE, "instructions")] {
        all.insert(name.to_owned(), Column::new("list", format!("What all other {whose} cost: {order}.")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_unit_and_a_meaning() {
        let mut row = Row::new();
        put(&mut row, &Profile::default());
        let known = columns();
        for name in row.keys() {
            assert!(known.get(name).is_some_and(|of| !of.unit.is_empty() && of.meaning.ends_with('.')), "{name}");
        }
        assert_eq!(known.len(), row.len());
    }

    #[test]
    fn a_wrong_column_is_named() {
        let mut row = Row::new();
        let misses = Misses::of_values([1, 2, 3, 4, 5]);
        let profile = Profile { code: vec![ProfiledCode { misses, ..ProfiledCode::default() }], ..Profile::default() };
        put(&mut row, &profile);
        assert_eq!(read(&row).unwrap(), Some(profile));
        row.insert("profile.code.walks".into(), Value::Array(Vec::new()));
        assert_eq!(read(&row).unwrap_err(), "its columns `profile.code.` are not of one length");
        row.remove("profile.code.file");
        assert_eq!(read(&row).unwrap_err(), "it has no column `profile.code.file`");
    }
}
