//! Runs cells: those that the store has not, as many at once as there are threads and memory, with one
//! decoding of a stream for all that share it. Whatever runs cells, runs them through here.

use crate::cell::Cell;
use crate::checkpoints::{Checkpoints, OfCell, Recordings};
use crate::memory::sim_host_bytes;
use crate::store::{Store, is_final};
use ambulator_base::{Abandoned, Invalid, RecordSource, distinct_notes, lock, unless_stopped};
use ambulator_simulator::phases::PhasePlan;
use ambulator_simulator::spec::{Sampling, Spec};
use ambulator_simulator::{
    Checkpoint, Comparison, Job, Phase, Progress, RunResult, Schema, Status, TimelinePart, colour_warnings,
    compare_planned, join_schemas, open_mix,
};
use ambulator_workloads::ProgramRequest;
use ambulator_workloads::graph::GraphKeeper;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Which stored results stand for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// None: everything runs again.
    Nothing,
    /// Those that have not failed.
    Final,
    /// All; a cell that has failed is not tried again.
    All,
}

/// How cells are run.
pub struct Runner {
    /// Where finished cells are found and kept; without one, everything runs.
    pub store: Option<Arc<Mutex<Store>>>,
    /// Which of them are used.
    pub reuse: Reuse,
    /// Where machines that have been warmed are found and kept; without, each run warms its own.
    pub checkpoints: Option<Arc<Checkpoints>>,
    /// Threads of the simulator; 0 for as many as the sim host has.
    pub threads: usize,
    /// Bytes of the sim host's memory that cells may take together, by what they declare
    /// ([`crate::sim_host_bytes`]). A cell that needs more runs alone.
    pub memory: u64,
    /// Set it to stop after the slices in progress.
    pub stop: Arc<AtomicBool>,
    /// Observes the runs, by the number of their cell. Stored ones finish at once.
    pub progress: Arc<dyn Progress>,
}

/// The result of a cell.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The result, under the cell's names. Speed-ups are 1.
    pub run: RunResult,
    /// It was in the store: its host times are those of the run that computed it.
    pub stored: bool,
}

/// What came of cells.
#[derive(Debug, Default)]
pub struct Finished {
    /// By cell; `None` if it was not started before the stop.
    pub cells: Vec<Option<Ended>>,
    /// By cell: unit and meaning of its counters.
    schemas: Vec<Schema>,
    /// Notes on the programs, each sentence once.
    pub notes: Vec<String>,
    /// What was read from checkpoints and written to them, one sentence each.
    pub checkpoints: Vec<String>,
    /// Why the first that could not be stored could not.
    pub not_stored: Option<String>,
    /// Why there were fewer threads than asked for, if the sim host refused some.
    pub fewer_threads: Option<String>,
}

impl Finished {
    /// Unit and meaning of every counter of these cells.
    pub fn schema(&self, cells: impl IntoIterator<Item = usize>) -> Schema {
        join_schemas(cells.into_iter().filter_map(|at| self.schemas.get(at)))
    }
}

/// Opened programs.
type Programs = Vec<Box<dyn RecordSource>>;

/// Cells that run on one decoding.
struct Batch {
    /// By their numbers.
    cells: Vec<usize>,
    /// Bytes of the sim host's memory.
    memory: u64,
}

/// What batches share.
struct Shared {
    cells: Vec<Cell>,
    /// By cell.
    checkpoints: Vec<Option<Arc<OfCell>>>,
    store: Option<Arc<Mutex<Store>>>,
    progress: Arc<dyn Progress>,
    finished: Mutex<Finished>,
}

impl Shared {
    /// Keeps a result that a run has given: in the store, if it stands for other runs.
    fn keep(&self, at: usize, run: &RunResult, schema: &Schema) {
        if run.status != Status::Interrupted
            && self.cells[at].is_known()
            && let Some(store) = &self.store
            && let Err(error) = lock(store).add(&self.cells[at].info, run, schema)
        {
            lock(&self.finished).not_stored.get_or_insert(error);
        }
        self.end(at, run.clone(), schema, false);
    }

    fn end(&self, at: usize, run: RunResult, schema: &Schema, stored: bool) {
        {
            let mut finished = lock(&self.finished);
            finished.schemas[at].clone_from(schema);
            finished.cells[at] = Some(Ended { run: run.clone(), stored });
        }
        self.progress.finished(at, &run, schema);
    }

    /// A cell that cannot run is a result with its reason.
    fn fail(&self, at: usize, why: String) {
        let cell = &self.cells[at];
        let spec = cell.spec.as_ref().ok().and_then(|spec| serde_json::to_value(&**spec).ok()).unwrap_or_default();
        let seed = spec.pointer("/run/seed").and_then(Value::as_u64).unwrap_or(0);
        let run = RunResult {
            design: cell.design.clone(),
            program: cell.programs.label.clone(),
            status: Status::Failed,
            outcome: Some(why),
            speedup: 1.0,
            weighted_speedup: 1.0,
            spec,
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..RunResult::default()
        };
        self.keep(at, &run, &Schema::new());
    }
}

/// The progress of a batch as that of its cells.
struct OfBatch {
    cells: Vec<usize>,
    shared: Arc<Shared>,
}

impl Progress for OfBatch {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        self.shared.progress.advanced(self.cells[job], phase, instructions, of);
    }

    fn finished(&self, job: usize, result: &RunResult, schema: &Schema) {
        // Speed-ups are relative to other cells.
        let run = RunResult { speedup: 1.0, weighted_speedup: 1.0, ..result.clone() };
        self.shared.keep(self.cells[job], &run, schema);
    }

    fn timeline(&self, job: usize) -> Option<TimelinePart> {
        self.shared.progress.timeline(self.cells[job])
    }

    fn checkpoint(&self, job: usize) -> Option<Arc<dyn Checkpoint>> {
        let checkpoint = Arc::clone(self.shared.checkpoints[self.cells[job]].as_ref()?);
        Some(checkpoint)
    }
}

impl Runner {
    /// Runs cells. A cell that fails is a result, and the others go on.
    pub fn run(&self, cells: Vec<Cell>) -> Finished {
        let count = cells.len();
        let finished =
            Finished { cells: vec![None; count], schemas: vec![Schema::new(); count], ..Finished::default() };
        let (store, progress) = (self.store.clone(), Arc::clone(&self.progress));
        let of = |cell: &Cell| self.checkpoints.as_ref().map(|checkpoints| checkpoints.of(cell));
        let (mut checkpoints, mut without) = (Vec::with_capacity(count), Vec::new());
        for (at, cell) in cells.iter().enumerate() {
            let of = if cell.spec.is_ok() { of(cell).transpose() } else { Ok(None) };
            without.extend(of.as_ref().err().map(|why| (at, why.clone())));
            checkpoints.push(of.unwrap_or_default().map(Arc::new));
        }
        let shared = Arc::new(Shared { cells, checkpoints, store, progress, finished: Mutex::new(finished) });
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut wanted, mut repeated) = (Vec::new(), Vec::new());
        for (at, cell) in shared.cells.iter().enumerate() {
            match first.get(cell.key()).filter(|_| cell.is_known()) {
                Some(other) => repeated.push((at, *other)),
                None => {
                    first.insert(cell.key(), at);
                    if !self.take_stored(&shared, at) {
                        match &cell.spec {
                            Ok(_) => match without.iter().find(|(cell, _)| *cell == at) {
                                Some((_, why)) => shared.fail(at, why.clone()),
                                None => wanted.push(at),
                            },
                            Err(why) => shared.fail(at, why.clone()),
                        }
                    }
                }
            }
        }
        // Of cells that share a checkpoint that is not there, one makes it, and the others start from it.
        let mut made = BTreeSet::new();
        let is_first = |at: &usize| match &shared.checkpoints[*at] {
            Some(checkpoint) => !checkpoint.exists() && made.insert(checkpoint.key().to_owned()),
            None => true,
        };
        let (first, rest): (Vec<usize>, Vec<usize>) = wanted.into_iter().partition(is_first);
        self.run_batches(self.batches(&shared.cells, first), &shared);
        self.run_batches(self.batches(&shared.cells, rest), &shared);
        for (at, other) in repeated {
            let known = lock(&shared.finished).cells[other].clone();
            let schema = lock(&shared.finished).schemas[other].clone();
            if let Some(mut known) = known {
                shared.cells[at].name(&mut known.run);
                shared.end(at, known.run, &schema, known.stored);
            }
        }
        let mut finished = std::mem::take(&mut *lock(&shared.finished));
        let of_programs = shared.cells.iter().flat_map(|cell| cell.programs.notes.iter().cloned());
        let all = of_programs.chain(std::mem::take(&mut finished.notes)).collect::<Vec<_>>();
        finished.notes = distinct_notes(all);
        finished.checkpoints = self.checkpoints.as_ref().map_or_else(Vec::new, |checkpoints| checkpoints.take_told());
        finished
    }

    /// Uses a stored result, if there is one that may be used.
    fn take_stored(&self, shared: &Shared, at: usize) -> bool {
        let (Some(store), cell) = (&shared.store, &shared.cells[at]) else { return false };
        if self.reuse == Reuse::Nothing || !cell.is_known() {
            return false;
        }
        let store = lock(store);
        let Some((_, mut run)) = store.get(cell.key()) else { return false };
        if self.reuse == Reuse::Final && !is_final(&run) {
            return false;
        }
        let schema = store.schema_of(&run);
        drop(store);
        cell.name(&mut run);
        shared.end(at, run, &schema, true);
        true
    }

    /// Divides cells into batches: each of one stream, and of as many cells as fit into memory.
    fn batches(&self, cells: &[Cell], wanted: Vec<usize>) -> VecDeque<Batch> {
        let mut streams: Vec<(String, Vec<Batch>)> = Vec::new();
        for at in wanted {
            let (Ok(spec), Some(stream)) = (&cells[at].spec, cells[at].stream()) else { continue };
            let footprint = cells[at].programs.footprint_on(spec);
            let memory = sim_host_bytes(spec, footprint);
            let of = match streams.iter().position(|(of, _)| *of == stream) {
                Some(of) => of,
                None => {
                    streams.push((stream, Vec::new()));
                    streams.len() - 1
                }
            };
            let batches = &mut streams[of].1;
            match batches.last_mut().filter(|batch| batch.memory.saturating_add(memory) <= self.memory) {
                Some(batch) => {
                    batch.cells.push(at);
                    batch.memory += memory;
                }
                None => {
                    batches.push(Batch { cells: vec![at], memory: memory + cells[at].programs.sim_host_bytes_on(spec) })
                }
            }
        }
        streams.into_iter().flat_map(|(_, batches)| batches).collect()
    }

    /// Runs batches, at once as far as threads and memory allow.
    fn run_batches(&self, batches: VecDeque<Batch>, shared: &Arc<Shared>) {
        struct Free {
            batches: VecDeque<Batch>,
            threads: usize,
            memory: u64,
            running: usize,
        }
        let all =
            if self.threads == 0 { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { self.threads };
        let keeper = GraphKeeper::new();
        let state = Mutex::new(Free { batches, threads: all, memory: self.memory, running: 0 });
        let changed = Condvar::new();
        std::thread::scope(|scope| {
            loop {
                let mut free = lock(&state);
                let batch = loop {
                    if free.batches.is_empty() || self.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let fits = free.batches.iter().position(|batch| batch.memory <= free.memory);
                    // One that is larger than all memory runs alone.
                    let next = fits.or((free.running == 0).then_some(0));
                    if let Some(at) = next.filter(|_| free.threads > 0) {
                        break free.batches.remove(at);
                    }
                    free = changed.wait(free).unwrap_or_else(PoisonError::into_inner);
                };
                let Some(batch) = batch else { continue };
                if batch.memory.saturating_add(keeper.sim_host_bytes()) > free.memory {
                    keeper.forget();
                }
                let (threads, memory) = (batch.cells.len().min(free.threads), batch.memory.min(free.memory));
                free.threads -= threads;
                free.memory -= memory;
                free.running += 1;
                let alone = free.batches.is_empty() && free.running == 1;
                drop(free);
                let (state, changed) = (&state, &changed);
                let work = move || {
                    self.run_batch(&batch, threads, shared);
                    let mut free = lock(state);
                    free.threads += threads;
                    free.memory += memory;
                    free.running -= 1;
                    changed.notify_all();
                };
                // Without a thread to spare, or another batch to start, this one does it.
                if alone || threads == all {
                    work();
                } else {
                    let work = Arc::new(Mutex::new(Some(work)));
                    let own = Arc::clone(&work);
                    let started = std::thread::Builder::new().spawn_scoped(scope, move || {
                        let work = lock(&own).take();
                        if let Some(work) = work {
                            work();
                        }
                    });
                    let left = if started.is_err() { lock(&work).take() } else { None };
                    if let Some(work) = left {
                        work();
                    }
                }
            }
        });
    }

    /// Opens the programs of a cell; `None` if the stop came first. Some generate a graph of gigabytes, which
    /// is then abandoned.
    fn open_unless_stopped(&self, cell: &Cell) -> Option<Result<Programs, String>> {
        let own = cell.clone();
        match unless_stopped(&self.stop, move || open_all(&own)) {
            Ok(opened) => Some(opened),
            Err(Abandoned::Stopped) => None,
            Err(Abandoned::NoThread(why)) => Some(Err(why)),
            Err(Abandoned::Panicked(_)) => {
                Some(Err("the program could not be opened: its generation panicked".to_owned()))
            }
        }
    }

    /// Opens the programs of a batch. If all of its cells start from checkpoints, their programs are read from
    /// recordings of what comes then, or recorded.
    fn open_batch(&self, batch: &Batch, shared: &Shared) -> Option<Result<Programs, String>> {
        let cell = &shared.cells[batch.cells[0]];
        let (Some(recordings), own) = (self.recordings(batch, shared), cell.clone()) else {
            return self.open_unless_stopped(cell);
        };
        if let Some(programs) = recordings.replay(Arc::new(move || open_all(&own))) {
            return Some(Ok(programs));
        }
        let programs = self.open_unless_stopped(cell)?;
        Some(programs.map(|programs| recordings.record(programs)))
    }

    fn recordings(&self, batch: &Batch, shared: &Shared) -> Option<Recordings> {
        let (checkpoints, cell) = (self.checkpoints.as_ref()?, &shared.cells[batch.cells[0]]);
        // A trace that knows its instructions has an index, by which it gets to any place as fast.
        let has_index = cell.programs.instructions_on(cell.spec.as_ref().ok()?).iter().any(Option::is_some);
        let of_cells: Vec<Option<Arc<OfCell>>> = batch.cells.iter().map(|at| shared.checkpoints[*at].clone()).collect();
        // Results have the names that the program was asked for by.
        let names: Vec<_> = cell.programs.requests.iter().map(|request| &request.label).collect();
        let stream = format!("{}\n{names:?}", cell.stream()?);
        if has_index { None } else { checkpoints.recordings(&stream, &of_cells) }
    }

    /// The plans of the cells of a batch that measure phases. A program is read through once for all of them;
    /// `None` if the stop came first.
    fn plans(
        &self,
        batch: &Batch,
        shared: &Shared,
        open: &dyn Fn(&Cell) -> Option<Result<Programs, String>>,
    ) -> Option<Result<Vec<Option<PhasePlan>>, String>> {
        let mut plans = Vec::with_capacity(batch.cells.len());
        for at in &batch.cells {
            let cell = &shared.cells[*at];
            let planned = match &cell.spec {
                Ok(spec) if spec.run.sampling == Sampling::Phases => {
                    let mut goes_on = |instructions| {
                        shared.progress.advanced(*at, Phase::Setup, instructions, None);
                        !self.stop.load(Ordering::Relaxed)
                    };
                    match crate::phases::profile(cell, spec, open, &mut goes_on)? {
                        Ok(profile) => Some(profile.plan(&spec.run)),
                        Err(error) => return Some(Err(error)),
                    }
                }
                _ => None,
            };
            plans.push(planned);
        }
        Some(Ok(plans))
    }

    fn run_batch(&self, batch: &Batch, threads: usize, shared: &Arc<Shared>) {
        let open = |cell: &Cell| self.open_unless_stopped(cell);
        let opened = match self.plans(batch, shared, &open) {
            Some(Ok(plans)) => self.open_batch(batch, shared).map(|programs| Ok((plans, programs?))),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        let (all_plans, programs) = match opened {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => return batch.cells.iter().for_each(|at| shared.fail(*at, error.clone())),
            None => return,
        };
        let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
        let (mut jobs, mut cells, mut plans) = (Vec::new(), Vec::new(), Vec::new());
        for (at, plan) in batch.cells.iter().zip(all_plans) {
            let Ok(spec) = &shared.cells[*at].spec else { continue };
            let problems = spec.validate_footprint(footprint);
            if problems.is_empty() {
                plans.push(plan);
                jobs.push(Job { design: shared.cells[*at].design.clone(), spec: (**spec).clone() });
                cells.push(*at);
            } else {
                shared.fail(*at, Invalid::lines(&problems));
            }
        }
        if jobs.is_empty() {
            return;
        }
        let progress = Arc::new(OfBatch { cells: cells.clone(), shared: Arc::clone(shared) });
        let comparison = Comparison { jobs, programs, threads, stop: Arc::clone(&self.stop), progress };
        match compare_planned(comparison, plans) {
            Ok(outcome) => {
                let mut finished = lock(&shared.finished);
                // Those compare with cells that ran here, and not with stored ones.
                let of_runs = colour_warnings(&outcome.runs);
                finished.notes.extend(outcome.notes.into_iter().filter(|note| !of_runs.contains(note)));
                finished.fewer_threads = finished.fewer_threads.take().or(outcome.fewer_threads);
            }
            Err(error) => cells.iter().for_each(|at| shared.fail(*at, error.to_string())),
        }
    }
}

/// Opens the programs of a cell, one for each core; copies of a program have different seeds.
fn open_all(cell: &Cell) -> Result<Programs, String> {
    let programs = &cell.programs;
    let requests = &programs.requests;
    let spec: &Spec = cell.spec.as_ref().map_err(Clone::clone)?;
    let names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
    let open = |_: &str, number: usize| {
        let at = number % requests.len();
        if let Some(given) = &programs.given[at] {
            return Ok(given.open());
        }
        let seed = requests[at].seed.wrapping_add((number - at) as u64);
        let request = ProgramRequest { seed, ..requests[at].clone() };
        let source = ambulator_workloads::open(&request).map_err(|error| error.to_string())?;
        if programs.digests[at].is_some_and(|digest| digest != source.identity().digest) {
            return Err(format!("{}: the trace changed between its opening and its run; run again", request.name));
        }
        Ok(source)
    };
    open_mix(&names, spec, open)
}

#[cfg(test)]
mod tests;
