//! Work on threads of its own, while Python's thread waits for signals and shows progress.

use crate::failure::Failure;
use crate::threads;
use ambulator_base::{lock, sim_host_limits};
use ambulator_simulator::{Phase, Progress, RunResult, Schema};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of stack of the thread that runs: as many as a main thread has.
const STACK: usize = 8 << 20;
/// Between two looks for signals.
const BETWEEN: Duration = Duration::from_millis(50);
/// Between two reports of progress.
const REPORT: Duration = Duration::from_millis(200);
/// After an interrupt, how long runs may take to notice it. Then what runs in Python is interrupted too;
/// after the same time again, the runs are abandoned.
const GRACE: Duration = Duration::from_secs(3);

/// A run's design, phase, instructions, and their total if it is known.
type Told = (String, &'static str, u64, Option<u64>);

/// What the thread that runs and the thread that waits share.
#[derive(Default)]
pub struct Shared {
    /// Ends all runs early.
    pub stop: Arc<AtomicBool>,
    /// Runs have begun: an interrupt waits for what they have so far.
    pub running: AtomicBool,
    /// The work does not look at `stop`: an interrupt reaches what it runs in Python at once.
    pub all_in_python: AtomicBool,
    /// By job: its phase, instructions, and their total.
    pub progress: Mutex<Vec<Told>>,
}

/// How polled work ended.
pub struct Polled<T> {
    /// Its result.
    pub result: Result<T, Failure>,
    /// The exception that interrupted it: Python's KeyboardInterrupt, or one of the function that shows
    /// progress.
    pub interrupt: Option<PyErr>,
}

/// Runs `work` on a thread of its own. This thread has released the GIL meanwhile, and looks for signals.
///
/// # Errors
/// The thread cannot be started, or an interrupt came when there were no results to wait for.
pub fn polled<T: Send + 'static>(
    py: Python<'_>,
    report: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<Shared>, &Arc<AtomicBool>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<Polled<T>> {
    let shared = Arc::new(Shared::default());
    let (sender, receiver) = channel();
    let of_worker = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name("ambulator".into()).stack_size(STACK).spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(&of_worker, &of_worker.stop)));
        // There is no receiver if the work was abandoned.
        let _ = sender.send(done.unwrap_or_else(|panic| Err(Failure::of_panic(panic.as_ref()))));
    });
    if let Err(error) = thread {
        return Err(Failure::Run(format!("cannot start a thread: {error}; {}", sim_host_limits())).raise(py));
    }
    // The receiver is for one thread at a time.
    let receiver = Mutex::new(receiver);
    let mut interrupt: Option<(PyErr, Instant)> = None;
    let mut raised = false;
    let mut reported = Instant::now();
    loop {
        let received = py.detach(|| lock(&receiver).recv_timeout(BETWEEN));
        match received {
            Ok(result) => {
                if let (Some(report), None, Ok(_)) = (report, &interrupt, &result) {
                    show(report, &shared)?;
                }
                return Ok(Polled { result, interrupt: interrupt.map(|(interrupt, _)| interrupt) });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Internal("the work ended without a result".into()).raise(py));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let mut came = py.check_signals();
        if came.is_ok()
            && interrupt.is_none()
            && let Some(report) = report.filter(|_| reported.elapsed() >= REPORT)
        {
            reported = Instant::now();
            came = show(report, &shared);
        }
        match (came, &interrupt) {
            (Err(error), None) => {
                shared.stop.store(true, Ordering::SeqCst);
                // Some programs now generate a graph of gigabytes: the work is abandoned.
                if !shared.running.load(Ordering::SeqCst) {
                    return Err(error);
                }
                if shared.all_in_python.load(Ordering::SeqCst) {
                    raised = true;
                    threads::interrupt(py);
                }
                interrupt = Some((error, Instant::now()));
            }
            // A second interrupt does not wait.
            (Err(error), Some(_)) => {
                threads::interrupt(py);
                return Err(error);
            }
            (Ok(()), Some((_, since))) if since.elapsed() > GRACE && !raised => {
                raised = true;
                threads::interrupt(py);
            }
            (Ok(()), Some((_, since))) if since.elapsed() > 2 * GRACE => {
                let (error, _) = interrupt.take().unwrap_or_else(|| unreachable!("it was there above"));
                return Err(error);
            }
            (Ok(()), _) => {}
        }
    }
}

/// Calls the function that shows progress.
fn show(report: &Bound<'_, PyAny>, shared: &Shared) -> PyResult<()> {
    let progress = lock(&shared.progress).clone();
    report.call1((PyList::new(report.py(), progress)?,)).map(drop)
}

/// Keeps the progress of runs for the thread that waits.
pub struct Kept(pub Arc<Shared>);

impl Kept {
    /// The progress of jobs that have these numbers.
    pub fn of(self, numbers: Vec<usize>) -> Numbered {
        Numbered { kept: self, numbers }
    }
}

impl Progress for Kept {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        if let Some(slot) = lock(&self.0.progress).get_mut(job) {
            let phase = match phase {
                Phase::Setup => "set-up",
                Phase::Warmup => "warm-up",
                Phase::Measure | Phase::Done => "run",
            };
            (slot.1, slot.2, slot.3) = (phase, instructions, of);
        }
    }

    fn finished(&self, job: usize, result: &RunResult, _schema: &Schema) {
        if let Some(slot) = lock(&self.0.progress).get_mut(job) {
            (slot.1, slot.2) = ("done", slot.3.unwrap_or(result.simulated_instructions));
        }
    }
}

/// The progress of jobs under other numbers.
pub struct Numbered {
    kept: Kept,
    numbers: Vec<usize>,
}

impl Progress for Numbered {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        self.kept.advanced(self.numbers[job], phase, instructions, of);
    }

    fn finished(&self, job: usize, result: &RunResult, schema: &Schema) {
        self.kept.finished(self.numbers[job], result, schema);
    }
}
