//! The single entry point: opens a program by name, or a trace file by path, as a stream.

use crate::OpenError;
use crate::nearest::with_nearest_key;
use crate::registry::{program, programs};
use ambulator_base::{Batch, ProgramIdentity, RecordSource, SourceError, excerpt, nearest};
use ambulator_trace::{TraceOptions, open_trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// A request to [`open`] a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramRequest {
    /// A program's name (see [`programs`]) or the path of a trace file.
    #[schemars(extend("x-unit" = "name"))]
    pub name: String,
    /// Settings that differ from the program's defaults, by key. Sizes are plain numbers of bytes.
    #[schemars(extend("x-unit" = "map"))]
    pub settings: Map<String, Value>,
    /// Bytes of data that the program works on; overrides `settings`. `None` keeps theirs, or the default.
    #[schemars(extend("x-unit" = "bytes"))]
    pub footprint: Option<u64>,
    /// Seed of everything random in the program, unless `settings` has one.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Name that results show instead of the program's own.
    #[schemars(extend("x-unit" = "name"))]
    pub label: Option<String>,
}

/// Opens a program by name, or a trace file by path (its settings are those of [`TraceOptions`]). A name that
/// is both opens the program; `./gups` opens the file.
///
/// # Errors
/// An unknown name, unknown or invalid settings, or an unreadable file.
pub fn open(request: &ProgramRequest) -> Result<Box<dyn RecordSource>, OpenError> {
    if let Some(program) = program(&request.name) {
        let source = program.program(&request.settings, request.footprint, request.seed)?.open()?;
        return Ok(match &request.label {
            Some(label) => Box::new(Labelled { source, label: label.clone() }),
            None => source,
        });
    }
    let path = Path::new(&request.name);
    // A name that looks like a path gets an error about the file; any other gets the list of programs.
    let looks_like_a_path = path.components().count() > 1 || path.extension().is_some();
    if !looks_like_a_path && !path.exists() {
        return Err(unknown(&request.name));
    }
    let settings_error = |message| OpenError::Settings { program: request.name.clone(), message };
    if request.footprint.is_some() {
        return Err(settings_error("a trace has the footprint of its recording: omit `footprint`".into()));
    }
    let options: TraceOptions = serde_json::from_value(Value::Object(request.settings.clone()))
        .map_err(|e| settings_error(with_nearest_key(&e.to_string())))?;
    open_trace(path, &options).map_err(|e| OpenError::Trace(e.message))
}

/// A program under another name.
struct Labelled {
    source: Box<dyn RecordSource>,
    label: String,
}

impl RecordSource for Labelled {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: self.label.clone(), ..self.source.identity() }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.source.fill(batch)
    }

    fn skip(&mut self, count: usize) -> Result<usize, SourceError> {
        self.source.skip(count)
    }

    fn inner(&self) -> Option<&dyn RecordSource> {
        Some(&*self.source)
    }
}

fn unknown(name: &str) -> OpenError {
    let known: Vec<&str> = programs().iter().map(|program| program.info.name).collect();
    OpenError::UnknownProgram {
        name: excerpt(name),
        hint: nearest(name, known.iter().copied()).map_or_else(String::new, |n| format!(": did you mean `{n}`?")),
        known: known.join(", "),
    }
}
