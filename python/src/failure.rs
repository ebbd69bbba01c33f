//! Why something cannot be done, and the exception that says so.

use ambulator_simulator::spec::{Problem, SpecError};
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure that becomes an exception of `ambulator.errors`.
#[derive(Debug)]
pub enum Failure {
    /// A machine, a design or a setting is wrong.
    Spec(String),
    /// A program, a trace or an array cannot be run.
    Program(String),
    /// A run cannot start or go on.
    Run(String),
    /// A mistake in Ambulator.
    Internal(String),
}

impl Failure {
    /// The exception.
    pub fn raise(&self, py: Python<'_>) -> PyErr {
        let class = match self {
            Failure::Spec(_) => "SpecError",
            Failure::Program(_) => "ProgramError",
            Failure::Run(_) => "RunError",
            Failure::Internal(_) => "InternalError",
        };
        exception(py, class, self.message())
    }

    /// Its sentence.
    pub fn message(&self) -> &str {
        let (Failure::Spec(of) | Failure::Program(of) | Failure::Run(of) | Failure::Internal(of)) = self;
        of
    }

    /// What a panic said.
    pub fn of_panic(panic: &(dyn Any + Send)) -> Failure {
        if let Some(refusal) = panic.downcast_ref::<ambulator_base::SimHostRefusal>() {
            return Failure::Run(refusal.0.clone());
        }
        let what = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let what = what.unwrap_or("no message");
        Failure::Internal(format!("an internal invariant of Ambulator was violated: {what}"))
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        // An option has no lines of its own: its text is the key and the value that the sentence names.
        let of_file = |problem: &Problem| problem.place.as_ref().is_some_and(|at| !at.source.name.starts_with("--"));
        if error.problems.iter().any(of_file) {
            return Failure::Spec(error.render(false));
        }
        Failure::Spec(error.problems.iter().map(sentence).collect::<Vec<_>>().join("\n"))
    }
}

/// A problem as one sentence.
fn sentence(problem: &Problem) -> String {
    match &problem.help {
        Some(help) => format!("{}: {help}", problem.title),
        None => problem.title.clone(),
    }
}

/// The exception of this class of `ambulator.errors`.
pub fn exception(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let class = py.import("ambulator.errors").and_then(|module| module.getattr(class));
    class.and_then(|class| class.call1((message,))).map_or_else(|error| error, PyErr::from_value)
}

/// Runs `work` such that a panic in it is an exception like others.
pub fn guarded<T>(py: Python<'_>, work: impl FnOnce() -> Result<T, Failure>) -> PyResult<T> {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Failure::of_panic(panic.as_ref())));
    done.map_err(|failure| failure.raise(py))
}
