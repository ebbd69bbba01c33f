//! The columns of a row for its counters over time (`run.interval`): lists by interval, below `series.`.

use crate::row::{Column, Row};
use ambulator_simulator::{MEASURES, Schema, Series};
use serde_json::Value;
use std::collections::BTreeMap;

/// Columns that begin so are of the series.
pub(crate) const SERIES: &str = "series.";
pub(crate) const COUNTERS: &str = "series.counters.";
pub(crate) const BEFORE: &str = "series.before.";
pub(crate) const GAUGES: &str = "series.gauges.";

/// The columns that every row with a series has: name, unit, meaning.
pub(crate) const FIXED: [(&str, &str, &str); 3] = [
    ("series.interval", "instructions", "Instructions of an interval."),
    ("series.instructions", "instructions", "By interval: instructions from the region's begin to its end."),
    ("series.cycles", "cycles", "By interval: cycles from the region's begin to its end."),
];

/// Adds the columns of `series`.
pub(crate) fn put(row: &mut Row, series: &Series) {
    row.insert(FIXED[0].0.into(), series.interval.into());
    row.insert(FIXED[1].0.into(), series.instructions.clone().into());
    row.insert(FIXED[2].0.into(), series.cycles.clone().into());
    row.extend(series.counters.iter().map(|(name, values)| (format!("{COUNTERS}{name}"), values.clone().into())));
    row.extend(series.before.iter().map(|(name, value)| (format!("{BEFORE}{name}"), (*value).into())));
    row.extend(series.gauges.iter().map(|(name, values)| (format!("{GAUGES}{name}"), values.clone().into())));
}

/// The series of a row, if it has one.
///
/// # Errors
/// A sentence that names the column which is missing, or has something else than what it should.
pub(crate) fn read(row: &Row) -> Result<Option<Series>, String> {
    let Some(interval) = row.get(FIXED[0].0) else { return Ok(None) };
    let mut series = Series { interval: whole(FIXED[0].0, interval)?, ..Series::default() };
    for (name, to) in [(FIXED[1].0, &mut series.instructions), (FIXED[2].0, &mut series.cycles)] {
        *to = list(name, row.get(name).ok_or_else(|| format!("it has no column `{name}`"))?, whole)?;
    }
    for (name, value) in row {
        if let Some(of) = name.strip_prefix(COUNTERS) {
            series.counters.insert(of.to_owned(), list(name, value, whole)?);
        } else if let Some(of) = name.strip_prefix(BEFORE) {
            series.before.insert(of.to_owned(), whole(name, value)?);
        } else if let Some(of) = name.strip_prefix(GAUGES) {
            series.gauges.insert(of.to_owned(), list(name, value, number)?);
        }
    }
    Ok(Some(series))
}

/// Unit and meaning of the columns of `series`, whose counters `schema` knows.
pub(crate) fn columns(series: &Series, schema: &Schema) -> BTreeMap<String, Column> {
    let of = |name: &str, when: &str| match name.strip_prefix("measures.") {
        Some(name) => {
            let measure = MEASURES.iter().find(|measure| measure.name == name)?;
            Some(Column::new(measure.unit, format!("{when}: {}", measure.meaning)))
        }
        None => {
            let counter = schema.get(name)?;
            Some(Column::new(counter.unit.to_string(), format!("{when}: {}", counter.meaning)))
        }
    };
    let fixed = FIXED.iter().map(|(name, unit, meaning)| ((*name).to_owned(), Column::new(*unit, *meaning)));
    let counters = series.counters.keys().map(|name| (COUNTERS, name, "Added in each interval"));
    let before = series.before.keys().map(|name| (BEFORE, name, "At the region's begin"));
    let gauges = series.gauges.keys().map(|name| (GAUGES, name, "At the end of each interval"));
    let named = counters.chain(before).chain(gauges);
    fixed.chain(named.filter_map(|(kind, name, when)| Some((format!("{kind}{name}"), of(name, when)?)))).collect()
}

fn whole(column: &str, value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("its column `{column}` is not of whole numbers"))
}

fn number(column: &str, value: &Value) -> Result<f64, String> {
    if value.is_null() {
        return Ok(f64::NAN);
    }
    value.as_f64().ok_or_else(|| format!("its column `{column}` is not of numbers"))
}

fn list<T>(column: &str, value: &Value, of: impl Fn(&str, &Value) -> Result<T, String>) -> Result<Vec<T>, String> {
    let values = value.as_array().ok_or_else(|| format!("its column `{column}` is not a list"))?;
    values.iter().map(|value| of(column, value)).collect()
}
