//! Figures whose bars lie: a row for each design, under a heading for each program if there are several.

use super::rounded;
use crate::study::{Comparison, Study};
use ambulator_simulator::RunResult;
use serde_json::{Map, Value, json};

/// Between the program and the design in the key of a row: a separator that nobody sees, and XML allows.
pub const SEPARATOR: char = '\u{2063}';

/// The axis of the rows: the design alone, and programs in bold.
pub fn axis() -> Value {
    json!({
        "field": "row", "type": "nominal", "sort": null, "title": null,
        "axis": {
            "labelExpr": format!("indexof(datum.value, '{SEPARATOR}') < 0 ? datum.value : split(datum.value, '{SEPARATOR}')[1]"),
            "labelFontWeight": {
                "condition": {"test": format!("indexof(datum.value, '{SEPARATOR}') < 0"), "value": "bold"},
                "value": "normal",
            },
            "ticks": false, "domain": false, "grid": false, "labelPadding": 6,
        },
    })
}

/// The rows of those runs for which `values` has any: first the heading of a program, if there are several
/// programs, with `nothing` for the quantity `field`; then the values of each design.
pub fn rows(
    study: &Study,
    field: &str,
    nothing: f64,
    mut values: impl FnMut(&Comparison, &RunResult) -> Vec<Map<String, Value>>,
) -> Vec<Value> {
    let mut all = Vec::new();
    for comparison in &study.comparisons {
        let mut of_program = Vec::new();
        for run in study.shown_runs(comparison) {
            for mut value in values(comparison, run) {
                value.insert("row".into(), format!("{}{SEPARATOR}{}", comparison.label, run.design).into());
                value.insert("program".into(), comparison.label.clone().into());
                value.insert("design".into(), run.design.clone().into());
                of_program.push(Value::Object(value));
            }
        }
        if !of_program.is_empty() && study.comparisons.len() > 1 {
            let mut heading = Map::new();
            heading.insert("row".into(), comparison.label.clone().into());
            heading.insert("program".into(), comparison.label.clone().into());
            heading.insert(field.to_owned(), rounded(nothing));
            all.push(Value::Object(heading));
        }
        all.extend(of_program);
    }
    all
}

/// The values of a row that are named.
pub fn object<const N: usize>(values: [(&str, Value); N]) -> Map<String, Value> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
