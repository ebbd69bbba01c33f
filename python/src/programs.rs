//! Programs of runs: by name, or as arrays.

use crate::accesses::Accesses;
use crate::failure::Failure;
use ambulator_base::RecordSource;
use ambulator_experiments::{GivenProgram, ProgramSource, Programs};
use ambulator_simulator::open_mix;
use ambulator_simulator::spec::{Spec, parse_size, program_request};
use ambulator_workloads::ProgramRequest;
use pyo3::prelude::*;
use std::sync::Arc;

/// A program: a name or path, or arrays.
#[derive(Debug, FromPyObject)]
pub enum ProgramArgument {
    /// Arrays.
    Accesses(Py<Accesses>),
    /// A program, a workload or a trace.
    Name(String),
}

/// Programs that run together, one on each core.
#[derive(Debug, FromPyObject)]
pub struct MixRequest {
    /// The programs.
    #[pyo3(item)]
    programs: Vec<ProgramArgument>,
    /// Bytes of data of each, such as `8GiB`.
    #[pyo3(item)]
    footprint: Option<String>,
    /// `key=value` texts for them.
    #[pyo3(item)]
    program_set: Vec<String>,
}

/// The programs of a mix, apart from Python.
pub struct Mix {
    programs: Vec<Program>,
    footprint: Option<u64>,
    program_set: Vec<String>,
}

/// A program, apart from Python.
enum Program {
    Name(String),
    Given(GivenProgram),
}

impl MixRequest {
    /// The mix, checked as far as that is possible without opening it.
    pub fn without_python(&self, py: Python<'_>) -> Result<Mix, Failure> {
        let footprint = match &self.footprint {
            Some(text) => Some(parse_size(text).map_err(|error| Failure::Program(format!("`footprint`: {error}")))?),
            None => None,
        };
        let program = |of: &ProgramArgument| match of {
            ProgramArgument::Name(name) => Program::Name(name.clone()),
            ProgramArgument::Accesses(accesses) => {
                let accesses = Arc::new(accesses.clone_ref(py));
                Program::Given(GivenProgram::new(move || accesses.get().source()))
            }
        };
        let arrays = self.programs.iter().any(|program| matches!(program, ProgramArgument::Accesses(_)));
        if arrays && footprint.is_some() {
            return Err(Failure::Program("an array of accesses has its own footprint: omit `footprint`".into()));
        }
        if let Some(option) = self.program_set.first().filter(|_| arrays) {
            return Err(Failure::Program(format!("an array of accesses has no settings: omit `{option}`")));
        }
        let programs = self.programs.iter().map(program).collect();
        Ok(Mix { programs, footprint, program_set: self.program_set.clone() })
    }
}

impl Mix {
    /// Whether one of its programs can be read only once: what comes from a pipe.
    pub fn is_stream(&self) -> bool {
        let is_stream = |program: &Program| match program {
            Program::Name(name) => {
                Programs::is_stream(&ProgramRequest { name: name.clone(), ..ProgramRequest::default() })
            }
            Program::Given(_) => false,
        };
        self.programs.iter().any(is_stream)
    }

    /// The request for a program of a name; copies and other programs of a mix have other seeds.
    fn request(&self, name: &str, number: usize, spec: &Spec) -> Result<ProgramRequest, Failure> {
        let seed = spec.run.seed.wrapping_add(number as u64);
        let asked = program_request(name, &self.program_set, self.footprint, seed);
        asked.map_err(|error| match Failure::from(error) {
            Failure::Spec(message) => Failure::Program(message),
            other => other,
        })
    }

    /// Its programs, as they are known in stores.
    pub fn identify(&self, spec: &Spec) -> Result<Programs, Failure> {
        let source = |(number, program): (usize, &Program)| match program {
            Program::Name(name) => self.request(name, number, spec).map(ProgramSource::Named),
            Program::Given(given) => Ok(ProgramSource::Given(given.clone())),
        };
        let sources = self.programs.iter().enumerate().map(source).collect::<Result<Vec<_>, _>>()?;
        Programs::identify_sources(None, sources).map_err(Failure::Program)
    }

    /// Opens its programs, one for each core.
    pub fn open(&self, spec: &Spec) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
        let numbers: Vec<String> = (0..self.programs.len()).map(|number| number.to_string()).collect();
        let names: Vec<&str> = numbers.iter().map(String::as_str).collect();
        open_mix(&names, spec, |_, number| match &self.programs[number % self.programs.len()] {
            Program::Given(given) => Ok(given.open()),
            Program::Name(name) => {
                let request = self.request(name, number, spec).map_err(|failure| failure.message().to_owned())?;
                ambulator_workloads::open(&request).map_err(|error| error.to_string())
            }
        })
        .map_err(Failure::Program)
    }
}
