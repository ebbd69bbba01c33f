//! Runs several designs on one decoding of the input, in parallel on the sim host's cores.

use crate::checkpoint::{Checkpoint, CheckpointStart};
use crate::colours::colour_warnings;
use crate::error::{SimError, Stop};
use crate::machine::{Machine, Phase};
use crate::phases::PhasePlan;
use crate::result::{CoreResult, RunResult, Schema, Status, join_schemas};
use crate::spec::{Sampling, Spec};
use crate::stream::SharedStream;
use crate::timeline::TimelinePart;
use ambulator_base::{RecordSource, SimHostRefusal, address_space_left, distinct_notes, lock, sim_host_limits};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Records that a machine runs in one slice of a sim-host thread: enough to amortise refilling the sim host's
/// caches, and few enough to bound the number of batches between the fastest and the slowest machine.
const SLICE_RECORDS: usize = 1 << 17;

/// Why a program that is read once has no phases.
pub const READ_ONCE: &str = "`run.sampling` is \"phases\", for which a program is read twice, and what comes from a pipe \
                             can be read once only: save it as a file, or use \"windows\"";

/// One design on one machine.
pub struct Job {
    /// The design's name in the result.
    pub design: String,
    /// The machine, its design and the run.
    pub spec: Spec,
}

/// Observes the progress of runs; called from several threads.
pub trait Progress: Send + Sync {
    /// Progress of a run in its phase: instructions executed, and their total if it is known.
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>);
    /// A run has ended. The result has no speed-up over other runs yet; `schema` has unit and meaning of its
    /// counters.
    fn finished(&self, job: usize, result: &RunResult, schema: &Schema);
    /// Where a window of a run is recorded, if it is; asked when its machine has been built.
    fn timeline(&self, _job: usize) -> Option<TimelinePart> {
        None
    }
    /// The checkpoint that a run starts from, or that it makes; asked before anything runs. A run whose
    /// window is recorded has none.
    fn checkpoint(&self, _job: usize) -> Option<Arc<dyn Checkpoint>> {
        None
    }
}

/// Ignores all progress.
pub struct Silent;

impl Progress for Silent {
    fn advanced(&self, _job: usize, _phase: Phase, _instructions: u64, _of: Option<u64>) {}
    fn finished(&self, _job: usize, _result: &RunResult, _schema: &Schema) {}
}

/// A comparison of designs.
pub struct Comparison {
    /// The designs. Speed-ups are relative to the first.
    pub jobs: Vec<Job>,
    /// The opened programs: one for each core (all jobs have the same number of cores), or with
    /// `run.spread_threads` a divisor of that.
    pub programs: Vec<Box<dyn RecordSource>>,
    /// Sim-host threads; 0 uses one for each of the sim host's cores.
    pub threads: usize,
    /// Set to end all runs early and keep their results so far.
    pub stop: Arc<AtomicBool>,
    /// Observes the runs.
    pub progress: Arc<dyn Progress>,
}

/// The outcome of a comparison.
#[derive(Debug)]
pub struct Outcome {
    /// One result per job, in their order.
    pub runs: Vec<RunResult>,
    /// Unit and meaning of every counter that any run has ([`join_schemas`]).
    pub schema: Schema,
    /// Notes on the programs as far as they were read ([`RecordSource::notes`]), and warnings on the runs
    /// ([`crate::colour_warnings`]), each sentence once.
    pub notes: Vec<String>,
    /// Why there were fewer threads than asked for, if the sim host refused some: a sentence. The results are
    /// the same.
    pub fewer_threads: Option<String>,
}

/// A job that waits or runs.
struct QueuedJob {
    job: usize,
    /// Of its phases, until its machine has it.
    plan: Option<PhasePlan>,
    machine: Option<Machine>,
    /// Where it starts from, or what it makes.
    checkpoint: Result<Option<OfJob>, String>,
    slices: u64,
    busy: Duration,
    setup: Duration,
}

/// The jobs that have not ended, and the results of those that have.
struct RunQueue {
    /// Jobs that wait for a thread.
    waiting: Vec<QueuedJob>,
    /// Number of jobs that have not ended.
    open: usize,
    /// Number of jobs that warm up. Those that start from checkpoints wait for them: they would have to keep
    /// what lies between.
    warming: usize,
    /// Sentences on checkpoints that could not be written.
    notes: Vec<String>,
    /// By job.
    runs: Vec<Option<RunResult>>,
    /// By job: the order in which runs end must not show.
    schemas: Vec<Schema>,
}

/// Runs all jobs on one decoding of the programs.
///
/// # Errors
/// An invalid spec, or one that needs a plan of phases ([`compare_planned`]). A failure while a job runs is
/// that job's result, and the others continue.
pub fn compare(comparison: Comparison) -> Result<Outcome, SimError> {
    let plans = comparison.jobs.iter().map(|_| None).collect();
    compare_planned(comparison, plans)
}

/// [`compare`] with a plan for each job whose spec has `run.sampling = "phases"`; it is of the same programs.
///
/// # Errors
/// As [`compare`], and a plan that is missing.
pub fn compare_planned(comparison: Comparison, mut plans: Vec<Option<PhasePlan>>) -> Result<Outcome, SimError> {
    let Comparison { jobs, programs, threads, stop, progress } = comparison;
    plans.resize(jobs.len(), None);
    if jobs.is_empty() {
        return Err(SimError::Spec(vec!["nothing to compare: name at least one design".into()]));
    }
    for (job, plan) in jobs.iter().zip(&plans) {
        let problems = job.spec.validate();
        if !problems.is_empty() {
            return Err(SimError::Spec(
                problems.into_iter().map(|p| format!("design `{}`: {p}", job.design)).collect(),
            ));
        }
        if job.spec.run.sampling == Sampling::Phases && plan.is_none() {
            return Err(SimError::Spec(vec![format!("design `{}`: {READ_ONCE}", job.design)]));
        }
        let cores = job.spec.machine.cores as usize;
        let fits =
            if job.spec.run.spread_threads { cores.is_multiple_of(programs.len()) } else { cores == programs.len() };
        if programs.is_empty() || !fits {
            return Err(SimError::Spec(vec![format!(
                "design `{}` has {cores} cores, but there are {} programs: each core runs one program, or \
                 with `run.spread_threads` each program runs on an equal share of the cores",
                job.design,
                programs.len()
            )]));
        }
    }
    let streams: Vec<_> = programs.into_iter().map(|source| SharedStream::new(source, jobs.len())).collect();
    let queued: Vec<QueuedJob> = (0..jobs.len())
        .rev()
        .zip(plans.into_iter().rev())
        .map(|(job, plan)| QueuedJob {
            job,
            plan,
            machine: None,
            checkpoint: checkpoint(progress.as_ref(), job, &streams),
            slices: 0,
            busy: Duration::ZERO,
            setup: Duration::ZERO,
        })
        .collect();
    let queue = Mutex::new(RunQueue {
        open: jobs.len(),
        warming: queued.iter().filter(|queued| !queued.is_restored()).count(),
        notes: Vec::new(),
        waiting: queued,
        runs: jobs.iter().map(|_| None).collect(),
        schemas: vec![Schema::new(); jobs.len()],
    });
    let changed = Condvar::new();
    let threads = if threads == 0 { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { threads };

    let work = || {
        while let Some(queued) = take_job(&queue, &changed) {
            run_slice(queued, &jobs, &streams, &stop, progress.as_ref(), &queue, &changed);
        }
    };
    // This thread works too, so that a sim host without threads to spare only takes longer.
    let helpers = threads.min(jobs.len()) - 1;
    let fewer_threads = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).err();
        let refused = (0..helpers).find_map(start);
        work();
        refused.map(|error| format!("not all {} threads could be started: {error}; {}", helpers + 1, sim_host_limits()))
    });

    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    let unwritten = queue.notes;
    let mut runs: Vec<RunResult> = queue.runs.into_iter().flatten().collect();
    set_speedups(&mut runs);
    let schema = join_schemas(&queue.schemas);
    let told = streams.iter().flat_map(|stream| stream.notes());
    let notes = distinct_notes(told.chain(colour_warnings(&runs)).chain(unwritten));
    Ok(Outcome { runs, schema, notes, fewer_threads })
}

/// A job's checkpoint, and if it is there, what the job must know before it starts.
type OfJob = (Arc<dyn Checkpoint>, Option<CheckpointStart>);

/// The checkpoint of a job. If it is there, the job reads its streams from that place on.
///
/// # Errors
/// It cannot be used.
fn checkpoint(progress: &dyn Progress, job: usize, streams: &[Arc<SharedStream>]) -> Result<Option<OfJob>, String> {
    let Some(checkpoint) = progress.checkpoint(job) else { return Ok(None) };
    let start = checkpoint.start()?;
    for (stream, first) in streams.iter().zip(start.iter().flat_map(|start| &start.batches)) {
        stream.begin_at(job, first.map_or(usize::MAX, |first| first as usize));
    }
    Ok(Some((checkpoint, start)))
}

impl QueuedJob {
    /// Whether it starts from a checkpoint.
    fn is_restored(&self) -> bool {
        matches!(self.checkpoint, Ok(Some((_, Some(_)))))
    }

    /// Whether its machine has yet to be warmed.
    fn warms(&self) -> bool {
        let phase = self.machine.as_ref().map_or(Phase::Setup, Machine::phase);
        !self.is_restored() && matches!(phase, Phase::Setup | Phase::Warmup)
    }

    /// Takes the checkpoint if the machine is where it is taken. The run goes on without it if it cannot be
    /// written.
    fn take_checkpoint(&mut self) -> Result<(), String> {
        let (Some(machine), Ok(Some((checkpoint, None)))) = (&mut self.machine, &self.checkpoint) else {
            return Ok(());
        };
        if !machine.waits_for_checkpoint() {
            return Ok(());
        }
        let start = machine.checkpoint_start();
        let saved = checkpoint.save(&start, &mut |to| machine.save_state(to));
        machine.pass_checkpoint();
        saved
    }
}

/// Sets the speed-up of each run over the first.
pub fn set_speedups(runs: &mut [RunResult]) {
    let Some(first) = runs.first() else { return };
    let (base, cores) = (first.speed(), first.cores.clone());
    for run in runs {
        run.speedup = if base > 0.0 { run.speed() / base } else { 1.0 };
        let weighted = if cores.len() > 1 { weighted_speedup(&cores, &run.cores) } else { None };
        run.weighted_speedup = weighted.unwrap_or(run.speedup);
    }
}

/// The mean over the cores of the ratio of their instructions per cycle; `None` if no core of the base has run.
pub fn weighted_speedup(base: &[CoreResult], cores: &[CoreResult]) -> Option<f64> {
    let ratios = cores.iter().zip(base).filter(|(_, base)| base.ipc > 0.0).map(|(own, base)| own.ipc / base.ipc);
    let (count, sum) = ratios.fold((0, 0.0), |(count, sum), ratio| (count + 1, sum + ratio));
    (count > 0).then(|| sum / f64::from(count))
}

/// The waiting job with the fewest slices, or `None` when all have ended.
fn take_job(queue: &Mutex<RunQueue>, changed: &Condvar) -> Option<QueuedJob> {
    let mut queue = lock(queue);
    loop {
        if queue.open == 0 {
            return None;
        }
        let (warming, waiting) = (queue.warming, queue.waiting.iter().enumerate());
        let ready = waiting.filter(|(_, queued)| warming == 0 || !queued.is_restored());
        let least = ready.min_by_key(|(_, queued)| (queued.slices, queued.job)).map(|(at, _)| at);
        match least {
            Some(at) => return Some(queue.waiting.swap_remove(at)),
            None => queue = changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Runs one slice of a job, then queues it again or records its result.
fn run_slice(
    mut queued: QueuedJob,
    jobs: &[Job],
    streams: &[Arc<SharedStream>],
    stop: &AtomicBool,
    progress: &dyn Progress,
    queue: &Mutex<RunQueue>,
    changed: &Condvar,
) {
    let job = &jobs[queued.job];
    let began = Instant::now();
    let warmed = queued.warms();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let ended = advance(&mut queued, job, streams, stop, progress);
        let note = queued.take_checkpoint().err();
        (ended, note)
    }));
    let (ended, note) = match ended {
        Ok((ended, note)) => (Ok(ended), note),
        Err(panic) => (Err(panic), None),
    };
    {
        let mut queue = lock(queue);
        queue.notes.extend(note);
        if warmed && !(matches!(ended, Ok(None)) && queued.warms()) {
            queue.warming -= 1;
            changed.notify_all();
        }
    }
    let took = began.elapsed();
    queued.busy += took;
    if let Some(machine) = &queued.machine {
        queued.setup += machine.set_up_since(began).min(took);
    }
    queued.slices += 1;
    let ended = ended.unwrap_or_else(|panic| {
        let what =
            panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        if let Some(SimHostRefusal(sentence)) = panic.downcast_ref::<SimHostRefusal>() {
            return Some(Err(Stop::Failed(sentence.clone())));
        }
        Some(Err(Stop::Failed(format!(
            "an internal invariant of Ambulator was violated: {}",
            what.unwrap_or_else(|| "no message".into())
        ))))
    });
    let Some(ended) = ended else {
        if let Some(machine) = &queued.machine {
            let (done, of) = machine.progress();
            progress.advanced(queued.job, machine.phase(), done, of);
        }
        lock(queue).waiting.push(queued);
        changed.notify_one();
        return;
    };
    for stream in streams {
        stream.leave(queued.job);
    }
    let restored = match &queued.checkpoint {
        Ok(Some((checkpoint, Some(_)))) => Some(checkpoint.name()),
        _ => None,
    };
    if let Some(machine) = &mut queued.machine {
        machine.end_timeline();
    }
    let (mut result, schema) = match &queued.machine {
        Some(machine) => {
            let (result, gathered) = machine.result(&job.design, &job.spec);
            (result, gathered.meanings)
        }
        None => (empty_result(job, streams), Schema::new()),
    };
    // An interrupted source ends early, which to the machine is the end of its program.
    let unfinished = queued.machine.as_ref().is_some_and(|machine| {
        let (done, of) = machine.progress();
        of.is_none_or(|of| done < of)
    });
    let interrupted = result.status == Status::Interrupted || (unfinished && stop.load(Ordering::Relaxed));
    match ended {
        Ok(()) if interrupted && queued.machine.as_ref().is_none_or(|machine| !machine.has_measured()) => {
            // What has run is set-up and warm-up.
            result = empty_result(job, streams);
            result.outcome = Some("interrupted before its measured region began: nothing was measured".into());
        }
        Ok(()) if interrupted => {
            result.status = Status::Interrupted;
            result.outcome = Some("interrupted before its end: the result is that of the part that ran".into());
        }
        Ok(()) if result.simulated_instructions == 0 => {
            result.status = Status::Failed;
            result.outcome = Some(why_nothing_counted(queued.machine.as_ref(), job));
        }
        Ok(()) => {}
        Err(Stop::Outcome(message)) => {
            result.status = Status::Outcome;
            result.outcome = Some(message);
        }
        Err(Stop::Failed(message)) => {
            result.status = Status::Failed;
            result.outcome = Some(message);
        }
    }
    result.checkpoint = restored;
    result.sim_host_seconds = queued.busy.as_secs_f64();
    result.sim_host_setup_seconds = queued.setup.as_secs_f64();
    progress.finished(queued.job, &result, &schema);
    drop(queued.machine.take());
    let mut queue = lock(queue);
    queue.runs[queued.job] = Some(result);
    queue.schemas[queued.job] = schema;
    queue.open -= 1;
    changed.notify_all();
}

/// Why a run that reached its end has measured no instruction.
fn why_nothing_counted(machine: Option<&Machine>, job: &Job) -> String {
    let executed = machine.map_or(0, |machine| machine.hw.cores.iter().map(|core| core.executed).max().unwrap_or(0));
    let (warmup, requested) = (job.spec.run.warmup, job.spec.run.instructions);
    if job.spec.run.sampling != Sampling::None && executed > warmup {
        return format!(
            "the program has {} instructions in its measured region, and half a window of sampling needs {}: nothing \
             was measured; use a shorter `run.sample_window`, or no `run.sampling`",
            executed - warmup,
            job.spec.run.sample_window / 2
        );
    }
    if executed == 0 || warmup == 0 {
        return "the program has no instructions in its region of interest: nothing was simulated".into();
    }
    // Leaves the requested instructions if there are enough, or else half of all; in round numbers.
    let left = if executed > requested { executed - requested } else { executed / 2 };
    let step = 10u64.pow(left.max(1).ilog10().saturating_sub(1));
    format!(
        "the warm-up consumed the whole program: it has {executed} instructions, and `run.warmup` is {warmup} (on each \
         core), so nothing was measured; use a shorter warm-up, such as --warmup {}, or a longer program",
        left - left % step
    )
}

/// Builds the machine if necessary and advances it. `None` while it has not ended.
fn advance(
    queued: &mut QueuedJob,
    job: &Job,
    streams: &[Arc<SharedStream>],
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Option<Result<(), Stop>> {
    if stop.load(Ordering::Relaxed) {
        return Some(Ok(()));
    }
    let machine = match &mut queued.machine {
        Some(machine) => machine,
        None => {
            let programs = streams.iter().map(|stream| (Arc::clone(stream), queued.job)).collect();
            match Machine::new(&job.spec, programs) {
                Ok(mut machine) => {
                    if let Some(sentence) = too_little_address_space() {
                        return Some(Err(Stop::Failed(sentence)));
                    }
                    if let Some(plan) = queued.plan.take() {
                        machine.follow(&job.spec.run, plan);
                    }
                    if let Some(part) = progress.timeline(queued.job) {
                        machine.record_timeline(part, &job.design);
                    }
                    if let Err(why) = begin(&mut machine, &queued.checkpoint) {
                        return Some(Err(Stop::Failed(why)));
                    }
                    queued.machine.insert(machine)
                }
                Err(error) => return Some(Err(Stop::Failed(error.to_string()))),
            }
        }
    };
    match machine.advance(SLICE_RECORDS) {
        Ok(true) => None,
        Ok(false) => Some(Ok(())),
        Err(stop) => Some(Err(stop)),
    }
}

/// Begins a machine where its checkpoint says.
///
/// # Errors
/// The checkpoint cannot be used.
fn begin(machine: &mut Machine, checkpoint: &Result<Option<OfJob>, String>) -> Result<(), String> {
    match checkpoint.as_ref().map_err(Clone::clone)? {
        Some((checkpoint, Some(start))) => checkpoint.load(&mut |from| machine.load_state(start, from)),
        Some((_, None)) => {
            machine.stop_at_checkpoint();
            Ok(())
        }
        None => Ok(()),
    }
}

/// Why a machine that has just been built cannot run here: ordinary allocations that the sim host refuses end
/// the whole process, so some address space must be left for them.
fn too_little_address_space() -> Option<String> {
    /// What caches, tables and batches of records take while a machine runs, generously.
    const LEFT: u64 = 64 << 20;
    let left = address_space_left().filter(|left| *left < LEFT)?;
    Some(format!(
        "the sim host has only {} MiB of address space left for running this machine, and {} MiB are needed: {}",
        left >> 20,
        LEFT >> 20,
        sim_host_limits()
    ))
}

/// The result of a run whose machine could not be built.
fn empty_result(job: &Job, streams: &[Arc<SharedStream>]) -> RunResult {
    let identity = streams[0].identity().clone();
    RunResult {
        design: job.design.clone(),
        program: identity.name.clone(),
        status: Status::Interrupted,
        outcome: None,
        simulated_instructions: 0,
        simulated_accesses: 0,
        cycles: 0,
        ipc: 0.0,
        speedup: 0.0,
        weighted_speedup: 0.0,
        windows: Vec::new(),
        series: None,
        sampled: None,
        profile: None,
        cores: Vec::new(),
        checked_translations: 0,
        sim_host_seconds: 0.0,
        sim_host_setup_seconds: 0.0,
        measures: BTreeMap::new(),
        counters: BTreeMap::new(),
        histograms: BTreeMap::new(),
        spec: serde_json::to_value(&job.spec).unwrap_or_default(),
        identity,
        seed: job.spec.run.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        over_seeds: Vec::new(),
        checkpoint: None,
    }
}
