//! Profiles of programs' phases: a program is read through once for all cells that need the same one.

use crate::cell::Cell;
use ambulator_base::{RecordSource, lock};
use ambulator_simulator::phases::{PhaseKey, PhaseProfile};
use ambulator_simulator::spec::Spec;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Profiles that are kept: those of a program's batches follow one another.
const KEPT: usize = 8;

/// What a profile is of: the programs, and what of the run it depends on.
type Key = (String, PhaseKey);

static PROFILES: Mutex<VecDeque<(Key, Arc<PhaseProfile>)>> = Mutex::new(VecDeque::new());

/// Opened programs.
type Programs = Vec<Box<dyn RecordSource>>;

/// The profile of a cell's programs, from memory if it is known. `open` opens them; `goes_on` is told of the
/// instructions read. `None` if either stopped.
pub(crate) fn profile(
    cell: &Cell,
    spec: &Spec,
    open: &dyn Fn(&Cell) -> Option<Result<Programs, String>>,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Option<Result<Arc<PhaseProfile>, String>> {
    let key = (cell.stream().unwrap_or_default(), PhaseKey::of(spec));
    let known = lock(&PROFILES).iter().find(|(of, _)| *of == key).map(|(_, profile)| Arc::clone(profile));
    if let Some(known) = known {
        return Some(Ok(known));
    }
    let programs = match open(cell)? {
        Ok(programs) => programs,
        Err(error) => return Some(Err(error)),
    };
    let profile = match PhaseProfile::read(spec, programs, goes_on) {
        Ok(profile) => Arc::new(profile?),
        Err(error) => return Some(Err(error.message)),
    };
    let mut profiles = lock(&PROFILES);
    if profiles.len() == KEPT {
        profiles.pop_front();
    }
    profiles.push_back((key, Arc::clone(&profile)));
    Some(Ok(profile))
}
