//! All programs: the built-in ones, and those registered before the first use of the list.

use crate::benchmarks::BUILT_IN;
use crate::program::{BenchmarkSpec, ProgramDescriptor};
use ambulator_base::{RegisterError, RegisterReason, lock};
use std::sync::{Mutex, OnceLock};

/// What is registered, as errors call it.
const PROGRAM: &str = "program";

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
    RegisterError::check(PROGRAM, name)?;
    let error = |reason| Err(RegisterError::new(PROGRAM, name, reason));
    if name == "trace" {
        return error(RegisterReason::Reserved("the group of settings of trace files"));
    }
    let mut registered = lock(&REGISTERED);
    let Some(registered) = registered.as_mut() else {
        return error(RegisterReason::TooLate);
    };
    if BUILT_IN.iter().chain(registered.iter()).any(|known| known.info.name == name) {
        return error(RegisterReason::Taken);
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

/// Whether programs of other crates are registered.
pub fn has_registered_programs() -> bool {
    programs().len() > BUILT_IN.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_programs_are_listed_once_each_sorted_by_name() {
        assert!(BUILT_IN.windows(2).all(|pair| pair[0].info.name < pair[1].info.name));
    }
}
