//! Several designs over one decoding of the input, in parallel on the sim host's cores.

use crate::error::{SimError, Stop};
use crate::machine::{Machine, Phase};
use crate::result::{CounterMeaning, RunResult, Status};
use crate::spec::Spec;
use crate::stream::SharedStream;
use ambulator_base::{RecordSource, distinct_notes};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Records that a machine runs before another gets its turn on the sim host's core: long enough that the sim
/// host's caches are not refilled for nothing, short enough that the batches between the fastest and the
/// slowest machine stay few.
const TURN_RECORDS: usize = 1 << 17;

/// One design on one machine.
pub struct Job {
    /// The name that the result goes by.
    pub design: String,
    /// Everything about the machine.
    pub spec: Spec,
}

/// Hears how runs go on; called from several threads.
pub trait Progress: Send + Sync {
    /// A run has come this far in its phase: instructions done, and how many there are, where that is known.
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>);
    /// A run has ended.
    fn finished(&self, job: usize, result: &RunResult);
}

/// Hears nothing.
pub struct Silent;

impl Progress for Silent {
    fn advanced(&self, _job: usize, _phase: Phase, _instructions: u64, _of: Option<u64>) {}
    fn finished(&self, _job: usize, _result: &RunResult) {}
}

/// What to compare.
pub struct Comparison {
    /// The designs. The first is what speed-ups are relative to.
    pub jobs: Vec<Job>,
    /// One program a core (all jobs have as many cores), or with `run.spread_threads` a divisor of that;
    /// already opened.
    pub programs: Vec<Box<dyn RecordSource>>,
    /// Sim-host threads; 0 takes as many as the sim host has cores.
    pub threads: usize,
    /// Set to end all runs early, keeping what they have.
    pub stop: Arc<AtomicBool>,
    /// Who hears how it goes.
    pub progress: Arc<dyn Progress>,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// One result a job, in their order.
    pub runs: Vec<RunResult>,
    /// Unit and meaning of every counter that any run has.
    pub schema: BTreeMap<String, CounterMeaning>,
    /// What should be known of the programs as far as they were read, each sentence once
    /// ([`RecordSource::notes`]).
    pub notes: Vec<String>,
}

/// A job that waits for its turn or has it.
struct QueuedJob {
    job: usize,
    machine: Option<Machine>,
    turns: u64,
    busy: Duration,
    setup: Duration,
}

/// Jobs that wait for a turn, and the results of those that have ended.
struct RunQueue {
    /// Machines that wait for a turn.
    waiting: Vec<QueuedJob>,
    /// Machines that have not ended.
    open: usize,
    runs: Vec<Option<RunResult>>,
    schema: BTreeMap<String, CounterMeaning>,
}

/// Runs all jobs over one decoding of the programs.
///
/// # Errors
/// A spec that is wrong. What goes wrong while a job runs is that job's result, and the others go on.
pub fn compare(comparison: Comparison) -> Result<Outcome, SimError> {
    let Comparison { jobs, programs, threads, stop, progress } = comparison;
    if jobs.is_empty() {
        return Err(SimError::Spec(vec!["nothing to compare: name at least one design".into()]));
    }
    for job in &jobs {
        let problems = job.spec.validate();
        if !problems.is_empty() {
            return Err(SimError::Spec(
                problems.into_iter().map(|p| format!("design `{}`: {p}", job.design)).collect(),
            ));
        }
        let cores = job.spec.machine.cores as usize;
        let fits =
            if job.spec.run.spread_threads { cores.is_multiple_of(programs.len()) } else { cores == programs.len() };
        if programs.is_empty() || !fits {
            return Err(SimError::Spec(vec![format!(
                "design `{}` has {cores} cores, but there are {} programs: one program runs on each core, or with \
                 `run.spread_threads` each on an equal share of them",
                job.design,
                programs.len()
            )]));
        }
    }
    let streams: Vec<_> = programs.into_iter().map(|source| SharedStream::new(source, jobs.len())).collect();
    let queued = (0..jobs.len()).rev().map(|job| QueuedJob {
        job,
        machine: None,
        turns: 0,
        busy: Duration::ZERO,
        setup: Duration::ZERO,
    });
    let queue = Mutex::new(RunQueue {
        waiting: queued.collect(),
        open: jobs.len(),
        runs: jobs.iter().map(|_| None).collect(),
        schema: BTreeMap::new(),
    });
    let changed = Condvar::new();
    let threads = if threads == 0 { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { threads };

    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let Some(queued) = take_job(&queue, &changed) else { return };
                    turn(queued, &jobs, &streams, &stop, progress.as_ref(), &queue, &changed);
                }
            });
        }
    });

    let queue = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut runs: Vec<RunResult> = queue.runs.into_iter().flatten().collect();
    let base = runs.first().map_or(0.0, |run| run.ipc);
    for run in &mut runs {
        run.speedup = if base > 0.0 { run.ipc / base } else { 1.0 };
    }
    let notes = distinct_notes(streams.iter().flat_map(|stream| stream.notes()));
    Ok(Outcome { runs, schema: queue.schema, notes })
}

/// The waiting machine that is least far, or `None` when all have ended.
fn take_job(queue: &Mutex<RunQueue>, changed: &Condvar) -> Option<QueuedJob> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if queue.open == 0 {
            return None;
        }
        let least =
            queue.waiting.iter().enumerate().min_by_key(|(_, queued)| (queued.turns, queued.job)).map(|(at, _)| at);
        match least {
            Some(at) => return Some(queue.waiting.swap_remove(at)),
            None => queue = changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Gives a machine its turn, then puts it back or writes its result down.
fn turn(
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
    let ended = catch_unwind(AssertUnwindSafe(|| run_turn(&mut queued, job, streams, stop)));
    let took = began.elapsed();
    queued.busy += took;
    if let Some(machine) = &queued.machine
        && matches!(machine.phase(), Phase::Setup | Phase::Warmup)
    {
        queued.setup += took;
    }
    queued.turns += 1;
    let ended = ended.unwrap_or_else(|panic| {
        let what =
            panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Some(Err(Stop::Failed(format!(
            "an invariant of Ambulator's own was broken: {}",
            what.unwrap_or_else(|| "no message".into())
        ))))
    });
    let Some(ended) = ended else {
        if let Some(machine) = &queued.machine {
            let (done, of) = machine.progress();
            progress.advanced(queued.job, machine.phase(), done, of);
        }
        queue.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(queued);
        changed.notify_one();
        return;
    };
    for stream in streams {
        stream.leave(queued.job);
    }
    let (mut result, schema) = match &queued.machine {
        Some(machine) => {
            let (result, gathered) = machine.result(&job.design, &job.spec);
            (result, gathered.meanings)
        }
        None => (empty_result(job, streams), BTreeMap::new()),
    };
    match ended {
        Ok(()) if result.status == Status::Interrupted => {
            result.outcome = Some("interrupted before its end: what is there is of the part that ran".into());
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
    result.host_seconds = queued.busy.as_secs_f64();
    result.host_setup_seconds = queued.setup.as_secs_f64();
    progress.finished(queued.job, &result);
    drop(queued.machine.take());
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.runs[queued.job] = Some(result);
    queue.schema.extend(schema);
    queue.open -= 1;
    changed.notify_all();
}

/// Why a run that went to its end has measured no instruction.
fn why_nothing_counted(machine: Option<&Machine>, job: &Job) -> String {
    let executed = machine.map_or(0, |machine| machine.hw.cores.iter().map(|core| core.executed).max().unwrap_or(0));
    let (warmup, wanted) = (job.spec.run.warmup, job.spec.run.instructions);
    if executed == 0 || warmup == 0 {
        return "the program has no instructions in its region of interest: nothing was simulated".into();
    }
    // As many as are asked for, where there are so many, and half of them otherwise; in round numbers.
    let left = if executed > wanted { executed - wanted } else { executed / 2 };
    let step = 10u64.pow(left.max(1).ilog10().saturating_sub(1));
    format!(
        "the warm-up took the whole program: it has {executed} instructions, and `run.warmup` is {warmup} (on each core), so \
         that nothing was measured; ask for less warm-up, such as --warmup {}, or give a longer program",
        left - left % step
    )
}

/// `None` while the machine has more to do.
fn run_turn(
    queued: &mut QueuedJob,
    job: &Job,
    streams: &[Arc<SharedStream>],
    stop: &AtomicBool,
) -> Option<Result<(), Stop>> {
    if stop.load(Ordering::Relaxed) {
        return Some(Ok(()));
    }
    let machine = match &mut queued.machine {
        Some(machine) => machine,
        None => {
            let programs = streams.iter().map(|stream| (Arc::clone(stream), queued.job)).collect();
            match Machine::new(&job.spec, programs) {
                Ok(machine) => queued.machine.insert(machine),
                Err(error) => return Some(Err(Stop::Failed(error.to_string()))),
            }
        }
    };
    match machine.advance(TURN_RECORDS) {
        Ok(true) => None,
        Ok(false) => Some(Ok(())),
        Err(stop) => Some(Err(stop)),
    }
}

/// The result of a run whose machine was never built.
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
        checked_translations: 0,
        host_seconds: 0.0,
        host_setup_seconds: 0.0,
        measures: BTreeMap::new(),
        counters: BTreeMap::new(),
        histograms: BTreeMap::new(),
        spec: serde_json::to_value(&job.spec).unwrap_or_default(),
        identity,
        seed: job.spec.run.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
