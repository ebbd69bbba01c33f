//! Studies: the files that the command's `sweep` reads.

use crate::conversion::to_python;
use crate::failure::Failure;
use crate::polled::{Shared, polled};
use crate::run::{RunRequest, run_through};
use crate::summary::Group;
use ambulator_experiments::{Bounds, Figure, Point, Size, Store, Study};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Runs a study: the file that the command's `sweep` reads. Returns the dict of `run_cells`, with `title` and
/// `axes` (the varied settings).
#[pyfunction]
pub fn run_study<'py>(
    py: Python<'py>,
    path: PathBuf,
    quick: bool,
    request: RunRequest,
    report: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let work = move |shared: &Arc<Shared>, stop: &Arc<AtomicBool>| {
        let began = Instant::now();
        let figure = Figure::read(&path)?;
        figure.check()?;
        let size = if quick { Size::Quick } else { Size::Full };
        let study = Study::of(&figure, size).map_err(Failure::Spec)?;
        if study.cells.is_empty() {
            let why = study.missing.join("\n");
            return Err(Failure::Program(
                format!("the study {} has no cells\n{why}", path.display()).trim().to_owned(),
            ));
        }
        if let Some(folder) = &request.store {
            let store = Store::open(folder).map_err(Failure::Run)?;
            store.write_study(&study.name, &study.description(&request.command)).map_err(Failure::Run)?;
        }
        let checkpoint = request.checkpoint.clone().or_else(|| figure.checkpoint.clone());
        let request = RunRequest { checkpoint, ..request };
        let mut finished = run_through(study.cells.clone(), in_groups(&study), &request, shared, stop)?;
        finished.seconds = began.elapsed().as_secs_f64();
        finished.command.clone_from(&request.command);
        finished.notes.extend(study.missing.iter().cloned());
        Ok((finished, study.title, study.axes))
    };
    let done = polled(py, report, work)?;
    let (finished, title, axes) = done.result.map_err(|failure| failure.raise(py))?;
    let dict = to_python(py, &finished.as_json())?;
    dict.set_item("interrupt", done.interrupt)?;
    dict.set_item("title", title)?;
    dict.set_item("axes", axes)?;
    Ok(dict)
}

/// The points of a study whose places differ in their designs only, together.
fn in_groups(study: &Study) -> Vec<Group> {
    let mut begun: Vec<&Point> = Vec::new();
    for point in &study.points {
        if !begun.iter().any(|other| other.place.is_beside(&point.place)) {
            begun.push(point);
        }
    }
    let group = |first: &Point| {
        let beside = study.points.iter().filter(|other| other.place.is_beside(&first.place));
        Group {
            cells: beside.map(|point| point.cells.clone()).collect(),
            bounds: Bounds::none(&[]),
            bound_runs: Vec::new(),
            lengths: Vec::new(),
        }
    };
    begun.into_iter().map(group).collect()
}
