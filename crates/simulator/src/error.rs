//! Why a machine cannot be built, or a run cannot continue.

use std::fmt;

/// Why no run could start.
#[derive(Debug)]
pub enum SimError {
    /// The spec is invalid: one sentence per problem.
    Spec(Vec<String>),
    /// The program cannot be opened.
    Program(String),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Spec(problems) => f.write_str(&problems.join("\n")),
            SimError::Program(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for SimError {}

/// Why one machine's run stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An outcome of the modelled machine: it ran out of memory, or of contiguous memory.
    Outcome(String),
    /// A failure: bad input, or a translation that disagrees with the kernel.
    Failed(String),
}
