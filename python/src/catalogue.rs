//! What there is: presets, programs, counters, and what they mean.

use crate::failure::{Failure, guarded};
use ambulator_experiments::{Vocabulary, counter_catalogue};
use ambulator_simulator::spec::{self, CounterInfo, PresetKind};
use pyo3::prelude::*;
use std::sync::OnceLock;

fn kind_of(kind: &str) -> Result<PresetKind, Failure> {
    let kinds = [PresetKind::Machine, PresetKind::Design, PresetKind::Workload];
    let known = kinds.into_iter().find(|known| known.name() == kind);
    known.ok_or_else(|| Failure::Spec(format!("`{kind}` is no kind of preset: machine, design or workload")))
}

/// Name, description and paper of each preset of a kind: machine, design or workload.
#[pyfunction]
pub fn presets(py: Python<'_>, kind: &str) -> PyResult<Vec<(String, String, String)>> {
    guarded(py, || {
        let kind = kind_of(kind)?;
        let of_kind = spec::presets().iter().filter(|preset| preset.kind == kind);
        Ok(of_kind.map(|preset| (preset.name.to_owned(), preset.about.clone(), preset.paper.clone())).collect())
    })
}

/// The TOML text of a preset.
#[pyfunction]
pub fn preset_text(py: Python<'_>, kind: &str, name: &str) -> PyResult<Option<String>> {
    guarded(py, || Ok(spec::preset(kind_of(kind)?, name).map(|preset| preset.text().to_owned())))
}

/// Name, description, what it stands for, and default footprint of each program.
#[pyfunction]
pub fn programs() -> Vec<(String, String, String, u64)> {
    let info = ambulator_workloads::programs().iter().map(|program| program.info);
    info.map(|of| (of.name.into(), of.about.into(), of.stands_for.into(), of.default_footprint)).collect()
}

/// The counters and measures of results; found once, by brief runs of every preset.
fn known_counters() -> &'static [CounterInfo] {
    static COUNTERS: OnceLock<Vec<CounterInfo>> = OnceLock::new();
    COUNTERS.get_or_init(counter_catalogue)
}

/// Name, unit and meaning of each counter and measure. The first call takes a second or two.
#[pyfunction]
pub fn counters(py: Python<'_>) -> PyResult<Vec<(String, String, String)>> {
    guarded(py, || {
        let known = py.detach(known_counters).iter().cloned();
        Ok(known.map(|counter| (counter.name, counter.unit, counter.meaning)).collect())
    })
}

/// Everything else that has a name.
fn known_names() -> &'static Vocabulary {
    static NAMES: OnceLock<Vocabulary> = OnceLock::new();
    NAMES.get_or_init(|| Vocabulary::with(ambulator_report::terms()))
}

/// What a name means: a setting, a group of settings, a design, a program, a counter, a column, a row of a table, a
/// figure, a unit, a term of a paper; all settings without a name.
#[pyfunction]
#[pyo3(signature = (name=""))]
pub fn explain(py: Python<'_>, name: &str) -> PyResult<String> {
    guarded(py, || {
        // Counters take longer, so they are asked for only if nothing else has the name.
        let found = spec::explain(name, &[]).or_else(|_| spec::explain(name, py.detach(known_counters)));
        let error = match found {
            Ok(found) => return Ok(found.to_string().trim_end().to_owned()),
            Err(error) => error,
        };
        let Ok(found) = py.detach(|| known_names().explain(name)) else { return Err(error.into()) };
        let texts: Vec<String> = found.iter().map(|found| found.to_string().trim_end().to_owned()).collect();
        Ok(texts.join("\n\n"))
    })
}
