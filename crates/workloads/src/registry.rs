//! All programs: the built-in ones, and those registered before the first use of the list.

use crate::benchmarks::BUILT_IN;
use crate::program::{BenchmarkSpec, ProgramDescriptor};
use ambulator_base::lock;
use std::sync::{Mutex, OnceLock};

/// Why a program could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name would not work on a command line or as a key of settings.
    #[error(
        "`{0}` cannot be a program's name: write lower-case letters, digits and hyphens, a letter first (`trace` is \
         reserved for trace files)"
    )]
    Name(String),
    /// Another program has the name.
    #[error("there is already a program called `{0}`: register each program once, under a unique name")]
    Taken(String),
    /// Programs have been listed or opened already; earlier uses would have missed this one.
    #[error("`{0}` is registered too late: register programs before any program is listed, explained or opened")]
    TooLate(String),
}

/// The programs registered so far; `None` once the list is in use.
static REGISTERED: Mutex<Option<Vec<ProgramDescriptor>>> = Mutex::new(Some(Vec::new()));

/// Registers a program of another crate for this process. It is listed, explained, suggested and opened by
/// name like the built-in ones. Call this first in `main`.
///
/// # Errors
/// The name is malformed or taken, or the list of programs is already in use.
pub fn register_program<T: BenchmarkSpec>() -> Result<(), RegisterError> {
    register_descriptor(ProgramDescriptor::of::<T>())
}

/// [`register_program`] for an existing descriptor.
///
/// # Errors
/// As for [`register_program`].
pub fn register_descriptor(program: ProgramDescriptor) -> Result<(), RegisterError> {
    let name = program.info.name;
    let well_formed = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !well_formed || name == "trace" {
        return Err(RegisterError::Name(name.into()));
    }
    let mut registered = lock(&REGISTERED);
    let Some(registered) = registered.as_mut() else {
        return Err(RegisterError::TooLate(name.into()));
    };
    if BUILT_IN.iter().chain(registered.iter()).any(|known| known.info.name == name) {
        return Err(RegisterError::Taken(name.into()));
    }
    registered.push(program);
    Ok(())
}

/// Every program, built in or registered, sorted by name. After the first call no more can be registered.
pub fn programs() -> &'static [ProgramDescriptor] {
    static PROGRAMS: OnceLock<Vec<ProgramDescriptor>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let mut all = BUILT_IN.to_vec();
        all.extend(lock(&REGISTERED).take().into_iter().flatten());
        all.sort_by_key(|program| program.info.name);
        all
    })
}

/// The program of that name.
pub fn program(name: &str) -> Option<&'static ProgramDescriptor> {
    programs().iter().find(|program| program.info.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_programs_are_listed_once_each_sorted_by_name() {
        assert!(BUILT_IN.windows(2).all(|pair| pair[0].info.name < pair[1].info.name));
    }
}
