//! Why a program could not be opened.

use ambulator_base::Invalid;

/// Why a program could not be opened. Each message says what is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Neither a program nor a file has that name.
    #[error("no program or trace file is called `{name}`{hint}; the programs are {known}")]
    UnknownProgram {
        /// The requested name.
        name: String,
        /// `: did you mean ...?`, or empty.
        hint: String,
        /// The programs' names.
        known: String,
    },
    /// The settings do not belong to the program: an unknown key, or a value of the wrong type.
    #[error("settings of `{program}`: {message}")]
    Settings {
        /// The program.
        program: String,
        /// What is wrong with which key.
        message: String,
    },
    /// The settings are well-formed but invalid.
    #[error("{}", Invalid::lines(.0))]
    Invalid(Vec<Invalid>),
    /// The trace file cannot be read.
    #[error("{0}")]
    Trace(String),
}
