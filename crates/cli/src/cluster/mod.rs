//! A study on more than one machine: workers that share its cells, shards, and how far they are.

mod slurm;
mod status;

use crate::arguments::SweepArguments;
use crate::output::{report, warn};
use crate::{Failure, SOME_FAILED, progress, store};
use ambulator_base::lock;
use ambulator_experiments::{
    CLAIM_TIMEOUT, Claims, Estimate, Holder, LEAST_BATCH, Reuse, Runner, Store, Study, Worked, Worker, seconds,
    shard_of,
};
use clap::Args;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// More than one process.
#[derive(Args)]
#[command(next_help_heading = "Beyond one machine")]
pub struct ClusterArguments {
    /// Be one of any number of workers, on any machines with this store's folder: take cells that no other
    /// worker has, until none is left.
    #[arg(long, conflicts_with_all = ["shard", "status", "slurm", "dry_run", "fresh", "csv", "markdown", "latex"])]
    pub worker: bool,
    /// Run one of N parts of the study, such as 3/16: each is the same everywhere, and knows nothing of the
    /// others. Copy the files of their stores into one folder to merge them.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["status", "slurm", "dry_run", "csv", "markdown", "latex"])]
    pub shard: Option<String>,
    /// Run nothing; say what is done, what runs where, what has failed, what is missing, and when it will end.
    /// The exit status is 0 when every cell is done.
    #[arg(long, conflicts_with_all = ["slurm", "dry_run"])]
    pub status: bool,
    /// Submit workers for what is missing as a Slurm job array, with these options of sbatch, such as
    /// "--time=4:00:00 --cpus-per-task=8 --mem=32G"; the script is written beside the study. With --dry-run it
    /// is written and not submitted. Run the same command again to replace workers that have died.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true,
          conflicts_with_all = ["fresh", "csv", "markdown", "latex"])]
    pub slurm: Option<String>,
    /// With --slurm: workers at a time, those that are queued or running included.
    #[arg(long, value_name = "COUNT", requires = "slurm", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workers: u32,
    /// Cells of one program's stream that a worker takes at a time, and runs from one decoding; by default as
    /// many as it has threads, and 4 at least.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Seconds without a sign of life after which the cells of a worker are given to others.
    #[arg(long, value_name = "SECONDS", default_value_t = CLAIM_TIMEOUT.as_secs(),
          value_parser = clap::value_parser!(u64).range(2..=86_400))]
    pub claim_timeout: u64,
}

impl ClusterArguments {
    /// Whether this is another way to run a study than in this process alone.
    pub fn is_asked(&self) -> bool {
        self.worker || self.shard.is_some() || self.status || self.slurm.is_some()
    }

    fn claims(&self, store: &Mutex<Store>, threads: usize) -> Result<Claims, Failure> {
        let timeout = Duration::from_secs(self.claim_timeout);
        Claims::open(lock(store).folder(), Holder::this(threads), timeout).map_err(Failure::failed)
    }
}

/// Does what the arguments ask for with a study that is not empty.
pub fn sweep(arguments: &SweepArguments, study: &Study, runner: Runner) -> Result<u8, Failure> {
    let cluster = &arguments.cluster;
    let part = cluster.shard.as_deref().map(shard).transpose()?;
    let Some(store) = runner.store.clone() else {
        return Err(Failure::bad("workers and shards need a store: name its folder with --store"));
    };
    if cluster.status {
        return status::show(study, &store, &cluster.claims(&store, 1)?, &runner);
    }
    describe(study, &store);
    if let Some(options) = &cluster.slurm {
        return slurm::submit(arguments, options, study, &store, &cluster.claims(&store, 1)?);
    }
    match part {
        Some((number, of)) => run_shard(arguments, study, runner, number, of),
        None => work(arguments, study, &runner, &store),
    }
}

/// Keeps the description of the study in the store.
fn describe(study: &Study, store: &Mutex<Store>) {
    let command: Vec<String> = std::env::args().collect();
    if let Err(error) = lock(store).write_study(&study.name, &study.description(&command)) {
        warn(&error);
    }
}

/// The number of a shard and of how many it is one.
fn shard(text: &str) -> Result<(usize, usize), Failure> {
    let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((number, of)) if (1..=of).contains(&number) => Ok((number, of)),
        _ => Err(Failure::bad(format!("--shard {text}: write which of how many, such as 1/16 to 16/16"))),
    }
}

fn run_shard(
    arguments: &SweepArguments,
    study: &Study,
    mut runner: Runner,
    number: usize,
    of: usize,
) -> Result<u8, Failure> {
    let numbers = shard_of(&study.cells, number, of);
    runner.progress = progress::cells(numbers.len(), !arguments.no_progress);
    let finished = runner.run(numbers.iter().map(|at| study.cells[*at].clone()).collect());
    let code = store::finish(&arguments.store, runner.store.as_ref(), finished.not_stored.as_ref());
    finished.checkpoints.iter().filter(|_| !arguments.quiet).for_each(|told| report(told));
    finished.fewer_threads.iter().chain(&finished.notes).for_each(|note| warn(note));
    let ended = || finished.cells.iter().flatten();
    let stored = ended().filter(|ended| ended.stored).count();
    let failed = ended().filter(|ended| ended.run.status == ambulator_simulator::Status::Failed).count();
    let open = numbers.len() - ended().filter(|ended| is_kept(ended.run.status)).count();
    if !arguments.quiet {
        report(&format!(
            "shard {number} of {of}: {} of the study's {} cells, {stored} of them were in the store{}{}",
            numbers.len(),
            study.cells.len(),
            if failed > 0 { format!(", {failed} have failed") } else { String::new() },
            if open > 0 { format!(", {open} have not run; the same command runs them") } else { String::new() },
        ));
    }
    Ok(if open > 0 || finished.not_stored.is_some() { SOME_FAILED } else { code })
}

fn is_kept(status: ambulator_simulator::Status) -> bool {
    status != ambulator_simulator::Status::Interrupted
}

/// Takes cells until none is left.
fn work(arguments: &SweepArguments, study: &Study, runner: &Runner, store: &Arc<Mutex<Store>>) -> Result<u8, Failure> {
    let threads = match runner.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        threads => threads,
    };
    let batch = arguments.cluster.batch.map_or(threads.max(LEAST_BATCH), |batch| batch as usize);
    let claims = arguments.cluster.claims(store, threads)?;
    let began = Instant::now();
    let mut worker = Worker { runner, claims, batch, retry_failed: arguments.retry_failed };
    let told = |so_far: &Worked| {
        if !arguments.no_progress {
            report(&format!("{}, {} left", described(so_far), so_far.left));
        }
    };
    let worked = worker.work(&study.cells, told);
    drop(worker);
    let code = store::finish(&arguments.store, Some(store), None);
    let worked = worked.map_err(Failure::failed)?;
    worked.checkpoints.iter().filter(|_| !arguments.quiet).for_each(|told| report(told));
    worked.fewer_threads.iter().chain(&worked.notes).for_each(|note| warn(note));
    if !arguments.quiet {
        let stopped = runner.stop.load(Ordering::Relaxed);
        let rest = match worked.left {
            0 => "the study has no cells left".to_owned(),
            left if stopped => format!("{left} cells are left; the same command runs them"),
            left => format!("{left} cells are with other workers"),
        };
        report(&format!("{} in {}; {rest}", described(&worked), seconds(began.elapsed().as_secs_f64())));
    }
    Ok(if runner.stop.load(Ordering::Relaxed) && worked.left > 0 { SOME_FAILED } else { code })
}

fn described(worked: &Worked) -> String {
    let Worked { computed, failed, taken_over, .. } = *worked;
    let mut text = format!("{computed} cells computed");
    if failed > 0 {
        text += &format!(" ({failed} have failed)");
    }
    if taken_over > 0 {
        text += &format!(", {taken_over} of them after a worker that had ended");
    }
    text
}

/// Seconds that one thread takes for what is not in the store; `None` if that is not known.
fn thread_seconds(study: &Study, store: &Mutex<Store>, runner: &Runner) -> Option<f64> {
    let Estimate { seconds, .. } =
        ambulator_experiments::estimate(&study.cells, Some(&lock(store)), Reuse::All, runner, None);
    seconds
}
