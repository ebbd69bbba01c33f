//! Programs that come through pipes: they are read once, by all cells of one comparison, and no store knows
//! them.

use crate::failure::Failure;
use crate::polled::{Kept, Shared};
use crate::programs::Mix;
use crate::run::{RunRequest, Wanted, announce, check_footprint, groups, not_started};
use crate::summary::Finished;
use ambulator_base::distinct_notes;
use ambulator_experiments::row::CellInfo;
use ambulator_simulator::{Comparison, Job, RunResult, Schema, Status, join_schemas};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs cells group by group, each on one decoding, without a store.
pub fn run_streams(
    mixes: &[Mix],
    wanted: &[Wanted],
    request: &RunRequest,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Result<Finished, Failure> {
    if request.seeds > 1 {
        let why = "`seeds`: what comes from a pipe can be read once only; save it as a file";
        return Err(Failure::Program(why.into()));
    }
    let mut groups = groups(wanted, request.bounds);
    let bounds = groups.iter().flat_map(|(_, more)| more.iter().map(|job| job.design.as_str()));
    let names: Vec<String> = wanted.iter().map(|cell| cell.name.as_str()).chain(bounds).map(str::to_owned).collect();
    let mut runs: Vec<Option<RunResult>> = vec![None; names.len()];
    let mut infos: Vec<CellInfo> = wanted.iter().map(|cell| cell.info.clone()).collect();
    infos.resize(names.len(), CellInfo::default());
    let (mut schemas, mut notes) = (Vec::<Schema>::new(), Vec::new());
    let mut further = wanted.len();
    let mut announced = false;
    for (group, more) in &mut groups {
        let own: Vec<usize> = group.cells.iter().flatten().copied().collect();
        let mut numbers: Vec<usize> = Vec::new();
        let mut jobs = Vec::new();
        for at in &own {
            let cell = &wanted[*at];
            match &cell.spec {
                Ok(spec) => {
                    numbers.push(*at);
                    jobs.push(Job { design: cell.name.clone(), spec: spec.clone() });
                }
                Err(why) => {
                    let run = not_started(&cell.name, "", &cell.spec);
                    runs[*at] = Some(RunResult { status: Status::Failed, outcome: Some(why.clone()), ..run });
                }
            }
        }
        for job in more.drain(..) {
            group.bound_runs.push(vec![further]);
            infos[further].machine.clone_from(&wanted[own[0]].info.machine);
            numbers.push(further);
            jobs.push(job);
            further += 1;
        }
        if jobs.is_empty() || stop.load(Ordering::SeqCst) {
            continue;
        }
        let programs = mixes[wanted[own[0]].mix].open(&jobs[0].spec)?;
        let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
        jobs.iter().try_for_each(|job| check_footprint(&job.spec, footprint))?;
        group.lengths = programs.iter().map(|program| program.instructions()).collect();
        if !announced {
            announce(shared, names.iter().map(String::as_str));
            announced = true;
        }
        let progress = Arc::new(Kept(Arc::clone(shared)).of(numbers.clone()));
        let comparison = Comparison { jobs, programs, threads: request.threads, stop: Arc::clone(stop), progress };
        let outcome = ambulator_simulator::compare(comparison).map_err(|error| Failure::Spec(error.to_string()))?;
        for (at, run) in numbers.into_iter().zip(outcome.runs) {
            runs[at] = Some(run);
        }
        schemas.push(outcome.schema);
        notes.extend(outcome.notes);
        notes.extend(outcome.fewer_threads);
    }
    let run = |(at, run): (usize, Option<RunResult>)| {
        let none = Err(String::new());
        run.unwrap_or_else(|| not_started(&names[at], "", wanted.get(at).map_or(&none, |cell| &cell.spec)))
    };
    let runs: Vec<RunResult> = runs.into_iter().enumerate().map(run).collect();
    let groups = groups.into_iter().map(|(group, _)| group).collect();
    let (stored, schema) = (vec![false; runs.len()], join_schemas(&schemas));
    Ok(Finished { infos, runs, stored, groups, schema, notes: distinct_notes(notes), ..Finished::default() })
}
