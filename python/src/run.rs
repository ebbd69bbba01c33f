//! Runs: on threads of their own, while Python's thread waits for signals and shows progress.

use crate::accesses::Accesses;
use crate::conversion::to_python;
use crate::design::PageTableRequest;
use crate::failure::{Failure, guarded};
use crate::settings::MachineRequest;
use ambulator_base::{Invalid, RecordSource, distinct_notes, lock, sim_host_limits};
use ambulator_experiments::row::{CellInfo, columns, counter_columns, row_of, spec_hash};
use ambulator_experiments::{Bounds, Document, SpeedUp, Verdict, cautions, comparison_table, core_table, reasons};
use ambulator_simulator::spec::{Spec, option_settings, parse_size, program_request, unused};
use ambulator_simulator::{Comparison, Job, Outcome, Phase, Progress, RunResult, Schema, open_mix};
use pyo3::prelude::*;
use pyo3::types::PyList;
use serde_json::{Map, Value, json};
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
/// After an interrupt, how long runs may take to notice it.
const GRACE: Duration = Duration::from_secs(5);

/// What the thread that runs and the thread that waits share.
#[derive(Default)]
pub struct Shared {
    /// Ends all runs early.
    pub stop: Arc<AtomicBool>,
    /// Runs have begun: an interrupt waits for what they have so far.
    pub running: AtomicBool,
    /// By job: its phase, instructions, and their total.
    pub progress: Mutex<Vec<(String, &'static str, u64, Option<u64>)>>,
}

/// How polled work ended.
pub struct Polled<T> {
    /// Its result.
    pub result: Result<T, Failure>,
    /// The exception that interrupted it: Python's KeyboardInterrupt, or one of the function that shows progress.
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
                interrupt = Some((error, Instant::now()));
            }
            // A second interrupt does not wait.
            (Err(error), Some(_)) => return Err(error),
            (Ok(()), Some((_, since))) if since.elapsed() > GRACE => {
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
struct Kept(Arc<Shared>);

impl Progress for Kept {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        if let Some(slot) = lock(&self.0.progress).get_mut(job) {
            let phase = match phase {
                Phase::Setup => "set-up",
                Phase::Warmup => "warm-up",
                _ => "run",
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

/// A program: a name or path, or arrays.
#[derive(Debug, FromPyObject)]
pub enum ProgramArgument {
    /// Arrays.
    Accesses(Py<Accesses>),
    /// A program, a workload or a trace.
    Name(String),
}

/// A design on a machine.
#[derive(Debug, FromPyObject)]
pub struct DesignRequest {
    /// Its name in results.
    #[pyo3(item)]
    name: String,
    /// The machine with the design's preset.
    #[pyo3(item)]
    machine: MachineRequest,
    /// The page table, if it is in Python.
    #[pyo3(item)]
    page_table: Option<PageTableRequest>,
}

/// What to run, apart from designs and programs.
#[derive(Debug, FromPyObject)]
pub struct RunRequest {
    /// Bytes of data of each program, such as `8GiB`.
    #[pyo3(item)]
    footprint: Option<String>,
    /// `key=value` texts for programs.
    #[pyo3(item)]
    program_set: Vec<String>,
    /// Whether to run the bounds.
    #[pyo3(item)]
    bounds: bool,
    /// Threads, 0 for as many as there are cores.
    #[pyo3(item)]
    threads: usize,
    /// The command that results say made them.
    #[pyo3(item)]
    command: Vec<String>,
}

/// An opened program's source.
enum Program {
    Name(String),
    Accesses(Box<dyn Fn() -> Box<dyn RecordSource> + Send>),
}

/// A job, and what its row says besides the run.
struct Cell {
    info: CellInfo,
    name: String,
    spec: Spec,
}

/// What a comparison leaves.
struct Finished {
    cells: Vec<CellInfo>,
    outcome: Outcome,
    bound_runs: Vec<RunResult>,
    verdict: Verdict,
    notes: Vec<String>,
    document: Document,
    took: f64,
}

/// Runs designs on programs. Returns a dict with `runs` (rows with speed-ups), `columns` (units and meanings),
/// `specs` (JSON by hash), `verdict`, `reasons`, `notes`, `table`, `bounds`, `document` (JSON), and `interrupt`,
/// the exception that ended it early.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    programs: Vec<ProgramArgument>,
    designs: Vec<DesignRequest>,
    request: RunRequest,
    report: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let cells = guarded(py, || cells(py, &designs))?;
    let programs: Vec<Program> = programs
        .iter()
        .map(|program| match program {
            ProgramArgument::Name(name) => Program::Name(name.clone()),
            ProgramArgument::Accesses(accesses) => {
                let accesses = accesses.clone_ref(py);
                Program::Accesses(Box::new(move || accesses.get().source()))
            }
        })
        .collect();
    let done = polled(py, report, move |shared, stop| run(cells, &programs, request, shared, stop))?;
    let finished = done.result.map_err(|failure| failure.raise(py))?;
    let dict = to_python(py, &finished.as_json())?;
    dict.set_item("interrupt", done.interrupt)?;
    Ok(dict)
}

/// Loads the specs of designs and checks that they can be compared.
fn cells(py: Python<'_>, designs: &[DesignRequest]) -> Result<Vec<Cell>, Failure> {
    let mut cells: Vec<Cell> = Vec::new();
    for DesignRequest { name, machine, page_table } in designs {
        let loaded = machine.load()?;
        let mut spec = loaded.spec;
        if let Some(table) = page_table {
            spec.design.page_table = table.register(py)?;
            let wrong = spec.validate();
            if !wrong.is_empty() {
                return Err(Failure::Spec(Invalid::lines(&wrong)));
            }
        }
        if cells.iter().any(|cell| cell.name == *name) {
            return Err(Failure::Spec(format!("`{name}` is named twice; name each design once")));
        }
        let set: Map<String, Value> = machine.options.iter().flat_map(|option| option_settings(option)).collect();
        let info = CellInfo { machine: loaded.machine, set, ..CellInfo::default() };
        cells.push(Cell { info, name: name.clone(), spec });
    }
    check_shared(&cells)?;
    for option in designs.iter().flat_map(|design| &design.machine.options) {
        for (key, _) in option_settings(option) {
            let why: Option<Vec<String>> = cells.iter().map(|cell| unused(&cell.spec, &key)).collect();
            if let Some(why) = why.as_deref().and_then(<[String]>::first) {
                return Err(Failure::Spec(format!("`{option}` has no effect: {why}")));
            }
        }
    }
    Ok(cells)
}

/// Checks that designs agree on what decides about the programs, which they share.
fn check_shared(cells: &[Cell]) -> Result<(), Failure> {
    let Some((first, others)) = cells.split_first() else {
        return Err(Failure::Spec("nothing to compare: name at least one design".into()));
    };
    let shared = |cell: &Cell| {
        let (machine, run) = (&cell.spec.machine, &cell.spec.run);
        [
            ("machine.cores", u64::from(machine.cores)),
            ("run.seed", run.seed),
            ("run.time_slice", run.time_slice),
            ("run.spread_threads", u64::from(run.spread_threads)),
        ]
    };
    for other in others {
        for ((key, one), (_, two)) in shared(first).into_iter().zip(shared(other)) {
            if one != two {
                return Err(Failure::Spec(format!(
                    "the designs of a comparison share their programs, but `{key}` is {one} with `{}` and {two} with \
                     `{}`: compare them in two runs, or set it for all",
                    first.name, other.name
                )));
            }
        }
    }
    Ok(())
}

/// Opens the programs and runs all cells.
fn run(
    cells: Vec<Cell>,
    programs: &[Program],
    request: RunRequest,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Result<Finished, Failure> {
    let spec = cells[0].spec.clone();
    let footprint = match &request.footprint {
        Some(text) => Some(parse_size(text).map_err(|error| Failure::Program(format!("`footprint`: {error}")))?),
        None => None,
    };
    let numbers: Vec<String> = (0..programs.len()).map(|number| number.to_string()).collect();
    let names: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let opened = open_mix(&names, &spec, |place, number| {
        // `open_mix` repeats and orders programs by what it takes for their names.
        let program = place.parse::<usize>().ok().and_then(|place| programs.get(place));
        match program.ok_or("there is no such program")? {
            Program::Accesses(source) => match (footprint, request.program_set.first()) {
                (Some(_), _) => Err("an array of accesses has its own footprint: omit `footprint`".into()),
                (_, Some(option)) => Err(format!("an array of accesses has no settings: omit `{option}`")),
                (None, None) => Ok(source()),
            },
            Program::Name(name) => {
                let seed = spec.run.seed.wrapping_add(number as u64);
                let asked = program_request(name, &request.program_set, footprint, seed);
                let asked = asked.map_err(|error| match Failure::from(error) {
                    Failure::Spec(message) => message,
                    other => format!("{other:?}"),
                })?;
                ambulator_workloads::open(&asked).map_err(|error| error.to_string())
            }
        }
    });
    let programs = opened.map_err(Failure::Program)?;
    let known = distinct_notes(programs.iter().flat_map(|program| program.notes()));
    let lengths: Vec<Option<u64>> = programs.iter().map(|program| program.instructions()).collect();
    let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
    for cell in &cells {
        let problems = cell.spec.validate_footprint(footprint);
        if !problems.is_empty() {
            return Err(Failure::Spec(Invalid::lines(&problems)));
        }
    }
    let (infos, mut jobs): (Vec<CellInfo>, Vec<Job>) =
        cells.into_iter().map(|cell| (cell.info, Job { design: cell.name, spec: cell.spec })).unzip();
    let functional = jobs.iter().any(|job| job.spec.run.mode != ambulator_simulator::spec::RunMode::default());
    let (bounds, more) = match request.bounds && !functional {
        true => Bounds::of(&jobs),
        false => (Bounds::none(&jobs), Vec::new()),
    };
    let designs = jobs.len();
    jobs.extend(more);
    *lock(&shared.progress) = jobs.iter().map(|job| (job.design.clone(), "set-up", 0, None)).collect();
    shared.running.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let progress = Arc::new(Kept(Arc::clone(shared)));
    let comparison = Comparison { jobs, programs, threads: request.threads, stop: Arc::clone(stop), progress };
    let mut outcome = ambulator_simulator::compare(comparison).map_err(|error| Failure::Spec(error.to_string()))?;
    let took = began.elapsed().as_secs_f64();
    let bound_runs = outcome.runs.split_off(designs);
    let verdict = bounds.verdict(&outcome.runs, &bound_runs);
    let told = [known, outcome.notes.clone(), cautions(&outcome.runs, &lengths)].concat();
    let notes = distinct_notes(told.into_iter().chain(outcome.fewer_threads.clone()));
    let copy = Outcome {
        runs: outcome.runs.clone(),
        schema: outcome.schema.clone(),
        notes: notes.clone(),
        fewer_threads: None,
    };
    let bounds = bounds.document(&outcome.runs, bound_runs.clone());
    let document = Document { verdict: verdict.sentences.clone(), bounds, ..Document::new(request.command, copy) };
    Ok(Finished { cells: infos, outcome, bound_runs, verdict, notes, document, took })
}

impl Finished {
    fn as_json(&self) -> Value {
        let Finished { cells, outcome, bound_runs, verdict, notes, document, took } = self;
        let runs = &outcome.runs;
        let mut specs = Map::new();
        let mut row = |info: &CellInfo, run: &RunResult| {
            specs.insert(spec_hash(&run.spec), run.spec.to_string().into());
            Value::Object(row_of(info, run))
        };
        let rows: Vec<Value> = cells.iter().zip(runs).map(|(info, run)| row(info, run)).collect();
        let of_bounds = CellInfo { machine: cells[0].machine.clone(), ..CellInfo::default() };
        let bounds: Vec<Value> = bound_runs.iter().map(|run| row(&of_bounds, run)).collect();
        let speedup = |run: &RunResult| {
            let speedup = SpeedUp::of(&runs[0], run);
            let bound = |sign: f64| speedup.and_then(|of| of.half.map(|half| (of.ratio + sign * half).max(0.0)));
            json!({"speedup": speedup.map(|of| of.ratio), "low": bound(-1.0), "high": bound(1.0),
                "weighted": run.weighted_speedup})
        };
        let mut known = columns();
        known.extend(counter_columns(&outcome.schema));
        let tables = [Some(comparison_table(runs, None)), core_table(runs, None)];
        json!({
            "runs": rows,
            "speedups": runs.iter().map(speedup).collect::<Vec<_>>(),
            "bounds": bounds,
            "columns": known,
            "specs": specs,
            "verdict": verdict.sentences,
            "reasons": reasons(runs, verdict.told.as_deref()),
            "notes": notes,
            "table": tables.into_iter().flatten().collect::<Vec<_>>().join("\n\n"),
            "document": serde_json::to_string_pretty(document).unwrap_or_default(),
            "seconds": took,
        })
    }
}
