//! The figures and the report of results, from their rows.

use crate::failure::{Failure, guarded};
use ambulator_experiments::row::run_of;
use ambulator_report::{Cell, Form, Study, report as page};
use pyo3::prelude::*;
use serde_json::Value;

/// The study of cells: a JSON list of objects with `row`, `spec` and `bound`.
fn study(cells: &str) -> Result<Study, Failure> {
    let wrong = |what: String| Failure::Run(format!("these rows are no results: {what}"));
    let cells: Vec<Value> = serde_json::from_str(cells).map_err(|error| wrong(error.to_string()))?;
    let cell = |cell: Value| {
        let row = cell["row"].as_object().ok_or_else(|| wrong("one is no object".into()))?;
        let (info, run) = run_of(row, cell["spec"].clone()).map_err(wrong)?;
        // Seeds are compared with each other.
        let set = info.set.into_iter().filter(|(key, _)| key != "run.seed").collect();
        Ok(Cell { run, machine: info.machine, set, is_bound: cell["bound"] == true, ..Cell::default() })
    };
    let mut cells = cells.into_iter().map(cell).collect::<Result<Vec<_>, Failure>>()?;
    // What all have in common distinguishes none.
    if let Some(first) = cells.first().map(|cell| cell.set.clone()) {
        let common = |key: &String, value: &Value| cells.iter().all(|cell| cell.set.get(key) == Some(value));
        let common: Vec<String> =
            first.into_iter().filter(|(key, value)| common(key, value)).map(|(key, _)| key).collect();
        cells.iter_mut().for_each(|cell| cell.set.retain(|key, _| !common.contains(key)));
    }
    Ok(Study::new(cells))
}

/// The figures that cells have data for, as a JSON list: each with its Vega-Lite specification.
#[pyfunction]
pub fn charts(py: Python<'_>, cells: &str) -> PyResult<String> {
    guarded(py, || {
        let mut charts = ambulator_report::charts(&study(cells)?, Form::Page);
        for chart in &mut charts {
            if let Some(spec) = chart.spec.as_object_mut() {
                spec.insert("config".into(), ambulator_report::plain_config());
            }
        }
        serde_json::to_string(&charts).map_err(|error| Failure::Internal(error.to_string()))
    })
}

/// The report of cells, as one HTML page.
#[pyfunction]
pub fn report(py: Python<'_>, cells: &str) -> PyResult<String> {
    guarded(py, || Ok(page(&study(cells)?)))
}
