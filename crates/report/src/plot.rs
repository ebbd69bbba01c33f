//! The figures as files, for papers: Vega-Lite, SVG and PDF in the widths of a two-column page.

use crate::charts::{Form, charts};
use crate::study::Study;
use crate::theme::{PaperWidth, for_paper};
use ambulator_base::OutputFile;
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A format of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// Portable Document Format, with its fonts.
    Pdf,
    /// Portable Network Graphics, 300 dots per inch.
    Png,
    /// The Vega-Lite specification.
    VegaLite,
}

impl Format {
    /// The end of names of files.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Pdf => "pdf",
            Format::Png => "png",
            Format::VegaLite => "vl.json",
        }
    }
}

/// Why figures could not be written.
#[derive(Debug)]
pub struct PlotError(String);

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlotError {}

/// Files that were written.
#[derive(Debug, Default)]
pub struct Plotted {
    /// Their paths, in the order of the figures.
    pub files: Vec<PathBuf>,
}

/// Draws specifications that it reads as JSON, one a line, from standard input: `{"spec", "to", "format"}`.
const CONVERTER: &str = include_str!("../assets/convert.py");

/// What to do where the converter is missing.
const INSTALL: &str = "SVG, PDF and PNG are drawn by the Python package vl-convert-python: install it with \
    `python3 -m pip install vl-convert-python` (a virtual environment's python3 is found by PATH), or ask for \
    `--format vl`, which needs nothing";

/// Writes every figure of a study in each width and format into `folder`, which is created if it is missing.
///
/// # Errors
/// No figure, a folder that cannot be written, or a converter that is missing or fails. Files that are
/// complete stay.
pub fn plot(study: &Study, folder: &Path, formats: &[Format]) -> Result<Plotted, PlotError> {
    let charts = charts(study, Form::Paper);
    if charts.is_empty() {
        return Err(PlotError("there is nothing to draw: no run has reached its end".into()));
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| PlotError(format!("the folder {} cannot be created: {error}", folder.display())))?;
    let mut plotted = Plotted::default();
    let mut drawings = Vec::new();
    for chart in &charts {
        for width in PaperWidth::ALL {
            let spec = for_paper(&chart.spec, width);
            for format in formats {
                let file = folder.join(format!("{}-{}.{}", chart.id, width.name(), format.extension()));
                match format {
                    Format::VegaLite => write(&file, &spec)?,
                    _ => drawings.push(json!({
                        "spec": spec, "to": file.to_string_lossy(), "format": format.extension(), "points": width.points(),
                    })),
                }
                plotted.files.push(file);
            }
        }
    }
    if !drawings.is_empty() {
        convert(&drawings)?;
    }
    Ok(plotted)
}

fn write(path: &Path, spec: &Value) -> Result<(), PlotError> {
    let file = OutputFile::prepare(path).map_err(|error| PlotError(error.to_string()))?;
    let text = serde_json::to_vec_pretty(spec).map_err(|error| PlotError(error.to_string()))?;
    file.write(&text).map_err(|error| PlotError(error.to_string()))
}

/// Has drawings made by the converter, in one process: its start takes longer than a figure.
fn convert(drawings: &[Value]) -> Result<(), PlotError> {
    let missing = |why: String| PlotError(format!("{why}; {INSTALL}"));
    let mut python = Command::new("python3")
        .args(["-c", CONVERTER])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(format!("python3 cannot be started ({error})")))?;
    let mut text = String::new();
    for drawing in drawings {
        text.push_str(&drawing.to_string());
        text.push('\n');
    }
    // If it ends early, its own message says why.
    let sent = python.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes()));
    let ended = python.wait_with_output().map_err(|error| PlotError(format!("python3: {error}")))?;
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    match ended.status.code() {
        Some(0) => sent.map_err(|error| PlotError(format!("python3: {error}"))),
        Some(3) => Err(missing(said)),
        _ => Err(PlotError(format!("a figure could not be drawn: {said}"))),
    }
}
