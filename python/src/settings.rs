//! Settings: their tree, checks of single ones, and whole specs.

use crate::conversion::to_python;
use crate::failure::{Failure, guarded};
use ambulator_simulator::spec::{
    self, Choice, Kind, LoadedSpec, Setting, SpecRequest, check_option as check, load, program_tree, tree,
};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The tree of settings as nested dicts: of specs, or with `programs` of programs. Each has `key`, `meaning`,
/// `unit`, `source`, `default`, `optional`, `kind` (group, integer, number, flag, text, choice or list), and
/// as its kind asks `children`, `least`, `greatest`, `choices`, `of`.
#[pyfunction]
#[pyo3(signature = (programs=false))]
pub fn settings_tree(py: Python<'_>, programs: bool) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &as_json(if programs { program_tree() } else { tree() }))
}

fn as_json(setting: &Setting) -> Value {
    let Setting { key, meaning, unit, source, default, optional, kind, since: _ } = setting;
    // A group's default is that of the settings below it.
    let default = if matches!(kind, Kind::Group(_)) { &Value::Null } else { default };
    let mut described = json!({"key": key, "meaning": meaning, "unit": unit, "source": source, "default": default,
        "optional": optional});
    let of_kind = of_kind(kind);
    if let (Some(all), Value::Object(more)) = (described.as_object_mut(), of_kind) {
        all.extend(more);
    }
    described
}

fn of_kind(kind: &Kind) -> Value {
    let finite = |bound: &f64| bound.is_finite().then_some(*bound);
    match kind {
        Kind::Group(children) => {
            json!({"kind": "group", "children": children.iter().map(as_json).collect::<Vec<_>>()})
        }
        // Bounds of 64 bits are those of the type, not of the setting.
        Kind::Integer { least, greatest } => json!({"kind": "integer", "least": i64::try_from(*least).ok(),
            "greatest": u64::try_from(*greatest).ok()}),
        Kind::Float { least, greatest } => {
            json!({"kind": "number", "least": finite(least), "greatest": finite(greatest)})
        }
        Kind::Flag => json!({"kind": "flag"}),
        Kind::Text => json!({"kind": "text"}),
        Kind::Choice(choices) => {
            let choice = |Choice { name, meaning }: &Choice| json!({"name": name, "meaning": meaning});
            json!({"kind": "choice", "choices": choices.iter().map(choice).collect::<Vec<_>>()})
        }
        Kind::List(of) => json!({"kind": "list", "of": of_kind(of)}),
    }
}

/// Checks a `key=value` text by itself.
#[pyfunction]
pub fn check_option(py: Python<'_>, option: &str) -> PyResult<()> {
    guarded(py, || check(option).map_err(Failure::from))
}

/// A machine preset (or TOML file), a design, spec files, and `key=value` texts.
#[derive(Debug, FromPyObject)]
pub struct MachineRequest {
    /// The machine.
    #[pyo3(item)]
    pub machine: Option<String>,
    /// The design.
    #[pyo3(item)]
    pub design: Option<String>,
    /// Spec files.
    #[pyo3(item)]
    pub files: Vec<PathBuf>,
    /// `key=value` texts.
    #[pyo3(item)]
    pub options: Vec<String>,
}

impl MachineRequest {
    /// Loads the spec and validates it.
    pub fn load(&self) -> Result<LoadedSpec, Failure> {
        let MachineRequest { machine, design, files, options } = self;
        let (machine, design, files, options) = (machine.clone(), design.clone(), files.clone(), options.clone());
        Ok(load(&SpecRequest { machine, design, files, options })?)
    }
}

/// The whole spec of a machine as nested dicts, with its `machine` and `design` names.
#[pyfunction]
pub fn spec_of(py: Python<'_>, request: MachineRequest) -> PyResult<Bound<'_, PyAny>> {
    let loaded = guarded(py, || request.load())?;
    let spec = serde_json::to_value(&loaded.spec).unwrap_or_default();
    to_python(py, &json!({"machine": loaded.machine, "design": loaded.design, "spec": spec}))
}

/// The whole spec of a machine as annotated TOML.
#[pyfunction]
pub fn show_spec(py: Python<'_>, request: MachineRequest) -> PyResult<String> {
    guarded(py, || request.load().map(|loaded| spec::show_spec(&loaded.spec)))
}
