//! A program's public description: its name, its settings, and the stream that they create.

use crate::OpenError;
use crate::benchmarks::Density;
use crate::nearest::with_nearest_key;
use ambulator_base::{Invalid, RecordSource, out_of_range, values_out_of_range};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A program's description, for lists and help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Its name: lower-case letters, digits and hyphens, beginning with a letter.
    pub name: &'static str,
    /// One line: what it does.
    pub about: &'static str,
    /// The program or class of programs that it stands for.
    pub stands_for: &'static str,
    /// Default bytes of data.
    pub default_footprint: u64,
}

/// The settings of a program.
///
/// Reject unknown keys (`#[serde(deny_unknown_fields, default)]`). The doc comment of each field is its
/// meaning; `#[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "..."))]` gives its
/// range, unit and source. A request's footprint goes to a field called `footprint` (bytes), and the run's seed to one called `seed`
/// where there is one.
pub trait BenchmarkSpec: Serialize + DeserializeOwned + JsonSchema + Default + 'static {
    /// The program's description.
    const INFO: ProgramInfo;

    /// What the compiled program executes for each unit of its work, in the settings in which that was measured.
    const DENSITIES: &[Density] = &[];

    /// The problems of settings that are all in the ranges which their fields declare
    /// (`#[schemars(range(...))]`); each names its key under `at`.
    fn validate(&self, _at: &str) -> Vec<Invalid> {
        Vec::new()
    }

    /// The settings outside of their ranges; if there are none, the problems of [`BenchmarkSpec::validate`].
    fn invalid(&self, at: &str) -> Vec<Invalid> {
        let wrong = out_of_range(self, at);
        if wrong.is_empty() { self.validate(at) } else { wrong }
    }

    /// Bytes of the sim host's memory that the program's data take while it runs, if they depend on more than the
    /// footprint. The settings must be valid.
    fn sim_host_bytes(&self) -> Option<u64> {
        None
    }

    /// The program as a stream. The settings must be valid.
    fn source(&self) -> Box<dyn RecordSource>;
}

/// A program in the registry: its description, and its settings as data.
#[derive(Clone, Copy)]
pub struct ProgramDescriptor {
    /// Its description.
    pub info: ProgramInfo,
    /// What the compiled program executes for each unit of its work; empty if that was not measured.
    pub densities: &'static [Density],
    schema: fn() -> Value,
    default: fn() -> Value,
    read: fn(Value) -> serde_json::Result<Box<dyn Erased>>,
}

impl ProgramDescriptor {
    /// The program with settings of type `T`.
    pub const fn of<T: BenchmarkSpec>() -> ProgramDescriptor {
        ProgramDescriptor {
            info: T::INFO,
            densities: T::DENSITIES,
            schema: || serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default(),
            default: || serde_json::to_value(T::default()).unwrap_or_default(),
            read: |settings| Ok(Box::new(serde_json::from_value::<T>(settings)?)),
        }
    }

    /// JSON schema of its settings; units are `x-unit`, sources `x-source`.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// Its settings with their defaults.
    pub fn default_settings(&self) -> Value {
        (self.default)()
    }

    /// The program with its defaults, overridden by `settings` (by key) and `footprint` (bytes). `seed`
    /// applies if the settings contain none and the program has one.
    ///
    /// # Errors
    /// [`OpenError::Invalid`] for a number out of range, [`OpenError::Settings`] for an unknown key or a value of
    /// the wrong type.
    pub fn program(
        &self,
        settings: &Map<String, Value>,
        footprint: Option<u64>,
        seed: u64,
    ) -> Result<Program, OpenError> {
        let mut settings = settings.clone();
        if let Some(footprint) = footprint {
            settings.insert("footprint".into(), Value::from(footprint));
        }
        if self.default_settings().get("seed").is_some() {
            settings.entry("seed").or_insert(Value::from(seed));
        }
        let settings = Value::Object(settings);
        let wrong = values_out_of_range(&self.schema(), &settings, self.info.name);
        if !wrong.is_empty() {
            return Err(OpenError::Invalid(wrong));
        }
        match (self.read)(settings) {
            Ok(spec) => Ok(Program { name: self.info.name, spec }),
            Err(e) => {
                let message = with_nearest_key(&e.to_string());
                Err(OpenError::Settings { program: self.info.name.into(), message })
            }
        }
    }
}

impl std::fmt::Debug for ProgramDescriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProgramDescriptor").field(&self.info).finish()
    }
}

/// A program with all of its settings.
pub struct Program {
    name: &'static str,
    spec: Box<dyn Erased>,
}

impl Program {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Every setting, by key.
    pub fn settings(&self) -> Value {
        self.spec.settings()
    }

    /// Validates the settings; each problem names its key under `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        self.spec.validate(at)
    }

    /// Bytes of the sim host's memory that its data take while it runs, if it knows. The settings must be valid.
    pub fn sim_host_bytes(&self) -> Option<u64> {
        self.spec.sim_host_bytes()
    }

    /// The program as a stream.
    ///
    /// # Errors
    /// [`OpenError::Invalid`] with the problems that [`Program::validate`] finds.
    pub fn open(&self) -> Result<Box<dyn RecordSource>, OpenError> {
        let problems = self.validate(self.name);
        if !problems.is_empty() {
            return Err(OpenError::Invalid(problems));
        }
        Ok(self.spec.source())
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

/// [`BenchmarkSpec`] without its type.
trait Erased {
    fn settings(&self) -> Value;
    fn validate(&self, at: &str) -> Vec<Invalid>;
    fn sim_host_bytes(&self) -> Option<u64>;
    fn source(&self) -> Box<dyn RecordSource>;
}

impl<T: BenchmarkSpec> Erased for T {
    fn settings(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn validate(&self, at: &str) -> Vec<Invalid> {
        BenchmarkSpec::invalid(self, at)
    }

    fn sim_host_bytes(&self) -> Option<u64> {
        BenchmarkSpec::sim_host_bytes(self)
    }

    fn source(&self) -> Box<dyn RecordSource> {
        BenchmarkSpec::source(self)
    }
}
