//! Mixes: which programs run on which cores, and which share a core.

use crate::spec::Spec;
use ambulator_base::RecordSource;
use ambulator_workloads::TimeShared;

/// Opens the programs of a mix, one stream for each core of the machine (with `run.spread_threads`, one for
/// each program).
///
/// If there are as many programs as cores, each core runs one; if their number divides the number of cores,
/// they repeat. If it is a multiple, adjacent programs in `names` share a core: round-robin multiprogramming
/// with time slices of `run.time_slice` instructions. `open` opens the program of a name; its second argument
/// is the program's number in the mix, from which its seed derives.
///
/// # Errors
/// A mix that does not fit the machine, and the errors of `open`.
pub fn open_mix(
    names: &[&str],
    spec: &Spec,
    mut open: impl FnMut(&str, usize) -> Result<Box<dyn RecordSource>, String>,
) -> Result<Vec<Box<dyn RecordSource>>, String> {
    check_mix(names, spec)?;
    let cores = spec.machine.cores as usize;
    if names.len() > cores {
        let each = names.len() / cores;
        return (0..cores)
            .map(|core| {
                let own = (core * each..(core + 1) * each).map(|number| open(names[number], number));
                let shared = TimeShared::new(own.collect::<Result<_, _>>()?, spec.run.time_slice);
                Ok(Box::new(shared) as Box<dyn RecordSource>)
            })
            .collect();
    }
    let programs = if spec.run.spread_threads { names.len() } else { cores };
    (0..programs).map(|number| open(names[number % names.len()], number)).collect()
}

/// Checks that a mix fits the machine, before anything is opened.
///
/// # Errors
/// It does not.
pub fn check_mix(names: &[&str], spec: &Spec) -> Result<(), String> {
    let cores = spec.machine.cores as usize;
    let take_turns = names.len() > cores && names.len().is_multiple_of(cores) && !spec.run.spread_threads;
    if take_turns || (!names.is_empty() && cores.is_multiple_of(names.len())) {
        return Ok(());
    }
    Err(format!(
        "{} programs for {cores} cores: give one program, as many as cores, a divisor of that number (the \
         programs repeat), or a multiple of it (round-robin on each core, see `run.time_slice`; not with \
         --spread-threads)",
        names.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Batch, ProgramIdentity, SourceError};

    struct Named(String);

    impl RecordSource for Named {
        fn identity(&self) -> ProgramIdentity {
            ProgramIdentity { name: self.0.clone(), ..ProgramIdentity::default() }
        }

        fn fill(&mut self, _batch: &mut Batch) -> Result<bool, SourceError> {
            Ok(false)
        }
    }

    fn mix(names: &[&str], cores: u32, spread_threads: bool) -> Result<Vec<String>, String> {
        let mut spec = Spec::default();
        spec.machine.cores = cores;
        spec.run.spread_threads = spread_threads;
        let open = |name: &str, number| Ok(Box::new(Named(format!("{name}{number}"))) as Box<dyn RecordSource>);
        Ok(open_mix(names, &spec, open)?.iter().map(|program| program.identity().name).collect())
    }

    #[test]
    fn programs_repeat_share_cores_or_are_rejected() {
        assert_eq!(mix(&["a", "b"], 2, false).unwrap(), ["a0", "b1"]);
        assert_eq!(mix(&["a", "b"], 4, false).unwrap(), ["a0", "b1", "a2", "b3"]);
        assert_eq!(mix(&["a", "b", "c", "d"], 2, false).unwrap(), ["a0|b1", "c2|d3"]);
        assert_eq!(mix(&["a", "b"], 4, true).unwrap(), ["a0", "b1"]);
        assert!(mix(&["a", "b", "c"], 2, false).is_err() && mix(&[], 2, false).is_err());
        assert!(mix(&["a", "b", "c", "d"], 2, true).is_err());
    }
}
