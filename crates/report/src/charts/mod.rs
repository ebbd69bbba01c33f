//! The figures, as Vega-Lite specifications without sizes and colours of their place: the page, notebooks
//! and papers add these.

mod distribution;
mod rows;
mod series;
mod speed_up;
mod stacks;

use crate::study::Study;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What a figure is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A page or a notebook: bars lie, so that names of designs have room and the figure grows downwards.
    Page,
    /// A paper: bars stand in groups of a program.
    Paper,
}

/// The numbers of a figure as a table, for those who cannot see it and those who copy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// Heads of the columns: name and unit. Columns named `program` and `design` say whose the row is.
    pub columns: Vec<(String, String)>,
    /// Rows, with a value for each column.
    pub rows: Vec<Vec<Value>>,
}

/// A figure.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Its name in files and in the page: letters, digits, `-`.
    pub id: String,
    /// Figures of one kind differ in their program.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// How to read it: a sentence or two.
    pub caption: String,
    /// The program, of a figure that has one alone.
    pub program: Option<String>,
    /// The Vega-Lite specification, data included; `usermeta.leastWidth` is the width in pixels below which
    /// its bars are too thin.
    pub spec: Value,
    /// Its numbers.
    pub table: Table,
}

/// All figures that the runs of a study have data for.
pub fn charts(study: &Study, form: Form) -> Vec<Chart> {
    let mut all = Vec::new();
    all.extend(speed_up::speed_up(study, form));
    all.extend(speed_up::over_setting(study));
    all.extend(stacks::cycles(study));
    all.extend(stacks::served(study));
    all.extend(distribution::walk_latency(study));
    all.extend(series::series(study));
    all.extend(stacks::tables(study));
    all.extend(stacks::segments(study));
    all.extend(stacks::lookaside(study));
    all.extend(stacks::cache_share(study));
    all.extend(stacks::energy(study));
    all
}

/// The frame of a specification: its data and what it shows, in words.
pub(crate) fn spec(description: &str, values: Vec<Value>, body: Value) -> Value {
    let mut spec = Map::new();
    spec.insert("$schema".into(), "https://vega.github.io/schema/vega-lite/v6.json".into());
    spec.insert("description".into(), description.into());
    spec.insert("data".into(), json!({ "values": values }));
    spec.extend(body.as_object().cloned().unwrap_or_default());
    Value::Object(spec)
}

/// A number with six significant digits: more cannot be seen, and pages stay small.
pub fn rounded(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let text = format!("{value:.5e}");
    let value: f64 = text.parse().unwrap_or(value);
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

/// A name for files and anchors: lower case, everything else than letters and digits as `-`.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "program".into() } else { slug.to_owned() }
}

/// Identifiers of figures of one kind for several programs, which must differ even if slugs do not.
fn ids(kind: &str, programs: &[&str]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for program in programs {
        let name = if programs.len() == 1 { kind.to_owned() } else { format!("{kind}-{}", slug(program)) };
        let mut id = name.clone();
        let mut number = 2;
        while ids.contains(&id) {
            id = format!("{name}-{number}");
            number += 1;
        }
        ids.push(id);
    }
    ids
}

#[cfg(test)]
mod tests;
