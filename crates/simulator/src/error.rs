//! Why a machine cannot be built, or a run cannot go on.

use std::fmt;

/// Why nothing could be run at all.
#[derive(Debug)]
pub enum SimError {
    /// The spec is wrong: one sentence a problem.
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
    /// A mistake: bad input, or a translation that is not the kernel's.
    Failed(String),
}
