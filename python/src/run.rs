//! Runs: cells, which are found in a store or computed, and what they say together.

use crate::accesses::Accesses;
use crate::conversion::to_python;
use crate::design::PageTableRequest;
use crate::failure::{Failure, guarded};
use crate::polled::{Kept, Shared, polled};
use crate::settings::MachineRequest;
use crate::summary::{Finished, Group};
use ambulator_base::{Invalid, RecordSource, distinct_notes, lock};
use ambulator_experiments::row::CellInfo;
use ambulator_experiments::{
    BOUND, Bounds, Cell, Figure, Point, Programs, Reuse, Runner, Size, Store, Study, difference_from_presets,
    memory_available,
};
use ambulator_simulator::spec::{RunMode, Spec, SpecRequest, option_settings, parse_size, program_request, unused};
use ambulator_simulator::{
    Comparison, Job, RunResult, Schema, Status, check_mix, colour_warnings, join_schemas, open_mix,
};
use ambulator_workloads::ProgramRequest;
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A program: a name or path, or arrays.
#[derive(Debug, FromPyObject)]
pub enum ProgramArgument {
    /// Arrays.
    Accesses(Py<Accesses>),
    /// A program, a workload or a trace.
    Name(String),
}

/// Programs that run together, one on each core.
#[derive(Debug, FromPyObject)]
pub struct MixRequest {
    /// The programs.
    #[pyo3(item)]
    programs: Vec<ProgramArgument>,
    /// Bytes of data of each, such as `8GiB`.
    #[pyo3(item)]
    footprint: Option<String>,
    /// `key=value` texts for them.
    #[pyo3(item)]
    program_set: Vec<String>,
}

/// A design on a machine with programs.
#[derive(Debug, FromPyObject)]
pub struct CellRequest {
    /// The design's name in results.
    #[pyo3(item)]
    name: String,
    /// The machine with the design's preset.
    #[pyo3(item)]
    machine: MachineRequest,
    /// The page table, if it is in Python.
    #[pyo3(item)]
    page_table: Option<PageTableRequest>,
    /// The number of its mix.
    #[pyo3(item)]
    mix: usize,
    /// Cells of a group are compared with its first, and share one decoding. Groups follow each other.
    #[pyo3(item)]
    group: usize,
}

/// How to run cells.
#[derive(Debug, FromPyObject)]
pub struct RunRequest {
    /// Whether to run the bounds of each group.
    #[pyo3(item)]
    bounds: bool,
    /// Whether a cell that cannot be built is an error; otherwise it is a cell that has failed.
    #[pyo3(item)]
    strict: bool,
    /// Threads, 0 for as many as there are cores.
    #[pyo3(item)]
    threads: usize,
    /// The folder of the store, if there is one.
    #[pyo3(item)]
    store: Option<PathBuf>,
    /// Whether stored results are not used.
    #[pyo3(item)]
    fresh: bool,
    /// The command that results say made them.
    #[pyo3(item)]
    command: Vec<String>,
}

/// The programs of a mix, apart from Python.
struct Mix {
    programs: Vec<Program>,
    footprint: Option<u64>,
    program_set: Vec<String>,
}

/// A program, apart from Python.
enum Program {
    Name(String),
    Accesses(Py<Accesses>),
}

/// A cell whose spec is loaded.
struct Wanted {
    info: CellInfo,
    name: String,
    spec: Result<Spec, String>,
    mix: usize,
    group: usize,
}

/// Runs cells. Returns a dict: see `summary.rs`; its `interrupt` is the exception that ended it early.
#[pyfunction]
pub fn run_cells<'py>(
    py: Python<'py>,
    mixes: Vec<MixRequest>,
    cells: Vec<CellRequest>,
    request: RunRequest,
    report: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (mixes, wanted) = guarded(py, || {
        let mixes = mixes.iter().map(|mix| mix.without_python(py)).collect::<Result<Vec<_>, _>>()?;
        let wanted = cells.iter().map(|cell| cell.load(py, request.strict)).collect::<Result<Vec<_>, _>>()?;
        if wanted.iter().any(|cell| cell.mix >= mixes.len()) {
            return Err(Failure::Internal("a cell names a mix that there is not".into()));
        }
        check(&wanted, &cells, request.strict)?;
        Ok((mixes, wanted))
    })?;
    // Their results depend on more than a spec says, or on what cannot be opened again.
    let known = cells.iter().all(|cell| cell.page_table.is_none()) && mixes.iter().all(Mix::is_known);
    let work = move |shared: &Arc<Shared>, stop: &Arc<AtomicBool>| {
        let began = Instant::now();
        let mut finished = match known {
            true => run_known(&mixes, wanted, &request, shared, stop)?,
            false => run_unknown(&mixes, wanted, &request, shared, stop)?,
        };
        finished.seconds = began.elapsed().as_secs_f64();
        finished.command = request.command;
        Ok(finished)
    };
    let done = polled(py, report, work)?;
    let finished = done.result.map_err(|failure| failure.raise(py))?;
    let dict = to_python(py, &finished.as_json())?;
    dict.set_item("interrupt", done.interrupt)?;
    Ok(dict)
}

impl MixRequest {
    fn without_python(&self, py: Python<'_>) -> Result<Mix, Failure> {
        let footprint = match &self.footprint {
            Some(text) => Some(parse_size(text).map_err(|error| Failure::Program(format!("`footprint`: {error}")))?),
            None => None,
        };
        let program = |of: &ProgramArgument| match of {
            ProgramArgument::Name(name) => Program::Name(name.clone()),
            ProgramArgument::Accesses(accesses) => Program::Accesses(accesses.clone_ref(py)),
        };
        let arrays = self.programs.iter().any(|program| matches!(program, ProgramArgument::Accesses(_)));
        if arrays && footprint.is_some() {
            return Err(Failure::Program("an array of accesses has its own footprint: omit `footprint`".into()));
        }
        if let Some(option) = self.program_set.first().filter(|_| arrays) {
            return Err(Failure::Program(format!("an array of accesses has no settings: omit `{option}`")));
        }
        let programs = self.programs.iter().map(program).collect();
        Ok(Mix { programs, footprint, program_set: self.program_set.clone() })
    }
}

impl CellRequest {
    fn load(&self, py: Python<'_>, strict: bool) -> Result<Wanted, Failure> {
        let CellRequest { name, machine, page_table, mix, group } = self;
        let wanted = |info: CellInfo, spec: Result<Spec, String>| Wanted {
            info,
            name: name.clone(),
            spec,
            mix: *mix,
            group: *group,
        };
        let loaded = match machine.load() {
            Ok(loaded) => loaded,
            Err(Failure::Spec(why)) if !strict => {
                let machine_name = machine.machine.clone().unwrap_or_default();
                let set = machine.options.iter().flat_map(|option| option_settings(option)).collect();
                return Ok(wanted(CellInfo { machine: machine_name, set, ..CellInfo::default() }, Err(why)));
            }
            Err(failure) => return Err(failure),
        };
        let mut spec = loaded.spec;
        let presets =
            SpecRequest { machine: machine.machine.clone(), design: machine.design.clone(), ..SpecRequest::default() };
        let set: Map<String, Value> = difference_from_presets(&presets, &spec);
        if let Some(table) = page_table {
            spec.design.page_table = table.register(py)?;
            let wrong = spec.validate();
            if !wrong.is_empty() {
                return Err(Failure::Spec(Invalid::lines(&wrong)));
            }
        }
        Ok(wanted(CellInfo { machine: loaded.machine, set, ..CellInfo::default() }, Ok(spec)))
    }
}

/// Checks that cells of a group can be compared, and that every option has an effect on some cell.
fn check(wanted: &[Wanted], cells: &[CellRequest], strict: bool) -> Result<(), Failure> {
    if wanted.is_empty() {
        return Err(Failure::Spec("nothing to run: name at least one design".into()));
    }
    for group in wanted.chunk_by(|one, other| one.group == other.group) {
        if let Some((twice, _)) = group.iter().enumerate().find_map(|(at, cell)| {
            group[..at].iter().find(|other| other.name == cell.name).map(|other| (&cell.name, other))
        }) {
            return Err(Failure::Spec(format!("`{twice}` is named twice; name each design once")));
        }
        check_shared(group)?;
    }
    for option in cells.iter().flat_map(|cell| &cell.machine.options).filter(|_| strict) {
        for (key, _) in option_settings(option) {
            let why = wanted.iter().map(|cell| cell.spec.as_ref().ok().and_then(|spec| unused(spec, &key)));
            let why: Option<Vec<String>> = why.collect();
            if let Some(why) = why.as_deref().and_then(<[String]>::first) {
                return Err(Failure::Spec(format!("`{option}` has no effect: {why}")));
            }
        }
    }
    Ok(())
}

/// Checks that designs agree on what decides about the programs, which they share.
fn check_shared(group: &[Wanted]) -> Result<(), Failure> {
    let mut specs = group.iter().filter_map(|cell| Some((&cell.name, cell.spec.as_ref().ok()?)));
    let Some((first, of_first)) = specs.next() else { return Ok(()) };
    let shared = |spec: &Spec| {
        [
            ("machine.cores", u64::from(spec.machine.cores)),
            ("run.seed", spec.run.seed),
            ("run.time_slice", spec.run.time_slice),
            ("run.spread_threads", u64::from(spec.run.spread_threads)),
        ]
    };
    for (other, spec) in specs {
        for ((key, one), (_, two)) in shared(of_first).into_iter().zip(shared(spec)) {
            if one != two {
                return Err(Failure::Spec(format!(
                    "the designs of a comparison share their programs, but `{key}` is {one} with `{first}` and {two} with \
                     `{other}`: compare them in two runs, or set it for all"
                )));
            }
        }
    }
    Ok(())
}

impl Mix {
    /// Whether its programs can be opened again, and be known by their contents.
    fn is_known(&self) -> bool {
        let known = |program: &Program| match program {
            Program::Name(name) => {
                !Programs::is_stream(&ProgramRequest { name: name.clone(), ..ProgramRequest::default() })
            }
            Program::Accesses(_) => false,
        };
        self.programs.iter().all(known)
    }

    /// The request for a program of a name; copies and other programs of a mix have other seeds.
    fn request(&self, name: &str, number: usize, spec: &Spec) -> Result<ProgramRequest, Failure> {
        let seed = spec.run.seed.wrapping_add(number as u64);
        let asked = program_request(name, &self.program_set, self.footprint, seed);
        asked.map_err(|error| match Failure::from(error) {
            Failure::Spec(message) => Failure::Program(message),
            other => other,
        })
    }

    /// The requests for its programs, none of which is an array.
    fn requests(&self, spec: &Spec) -> Result<Vec<ProgramRequest>, Failure> {
        let request = |(number, program): (usize, &Program)| match program {
            Program::Name(name) => self.request(name, number, spec),
            Program::Accesses(_) => Err(Failure::Internal("an array of accesses has no request".into())),
        };
        self.programs.iter().enumerate().map(request).collect()
    }

    /// Opens its programs, one for each core.
    fn open(&self, spec: &Spec) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
        let numbers: Vec<String> = (0..self.programs.len()).map(|number| number.to_string()).collect();
        let names: Vec<&str> = numbers.iter().map(String::as_str).collect();
        open_mix(&names, spec, |_, number| match &self.programs[number % self.programs.len()] {
            Program::Accesses(accesses) => Ok(accesses.get().source()),
            Program::Name(name) => {
                let request = self.request(name, number, spec).map_err(|failure| failure.message().to_owned())?;
                ambulator_workloads::open(&request).map_err(|error| error.to_string())
            }
        })
        .map_err(Failure::Program)
    }
}

/// The groups of cells, with the further jobs that bound them.
fn groups(wanted: &[Wanted], with_bounds: bool) -> Vec<(Group, Vec<Job>)> {
    let mut first = 0;
    let group = |cells: &[Wanted]| {
        let cell = |cell: &Wanted| Some(Job { design: cell.name.clone(), spec: cell.spec.as_ref().ok()?.clone() });
        let jobs: Vec<Job> = cells.iter().filter_map(cell).collect();
        let timing = jobs.iter().all(|job| job.spec.run.mode == RunMode::default());
        let (bounds, more) = match with_bounds && timing && jobs.len() == cells.len() {
            true => Bounds::of(&jobs),
            false => (Bounds::none(&jobs), Vec::new()),
        };
        let cells = first..first + cells.len();
        first = cells.end;
        (Group { cells, bounds, bound_runs: Vec::new(), lengths: Vec::new() }, more)
    };
    wanted.chunk_by(|one, other| one.group == other.group).map(group).collect()
}

/// Shows all cells, in the order of their numbers, as about to be set up.
fn announce<'n>(shared: &Shared, names: impl Iterator<Item = &'n str>) {
    *lock(&shared.progress) = names.map(|name| (name.to_owned(), "set-up", 0, None)).collect();
    shared.running.store(true, Ordering::SeqCst);
}

/// A run that was not started.
fn not_started(design: &str, program: &str, spec: &Result<Spec, String>) -> RunResult {
    RunResult {
        design: design.to_owned(),
        program: program.to_owned(),
        status: Status::Interrupted,
        outcome: Some("interrupted before it started".into()),
        spec: spec.as_ref().ok().and_then(|spec| serde_json::to_value(spec).ok()).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..RunResult::default()
    }
}

/// Runs cells of programs that are known by their contents: through the machinery of the command, with its
/// store.
fn run_known(
    mixes: &[Mix],
    wanted: Vec<Wanted>,
    request: &RunRequest,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Result<Finished, Failure> {
    let mut groups = groups(&wanted, request.bounds);
    let mut identified: Vec<(usize, u64, Arc<Programs>)> = Vec::new();
    let mut identify = |mix: usize, spec: &Spec| -> Result<Arc<Programs>, Failure> {
        let seed = spec.run.seed;
        if let Some((.., known)) = identified.iter().find(|(of, with, _)| (*of, *with) == (mix, seed)) {
            return Ok(Arc::clone(known));
        }
        let requests = mixes[mix].requests(spec)?;
        let programs = Arc::new(Programs::identify(None, requests).map_err(Failure::Program)?);
        identified.push((mix, seed, Arc::clone(&programs)));
        Ok(programs)
    };
    let any = Spec::default();
    let mut cells = Vec::new();
    for one in &wanted {
        let programs = identify(one.mix, one.spec.as_ref().unwrap_or(&any))?;
        let Ok(spec) = &one.spec else {
            let why = one.spec.as_ref().err().cloned().unwrap_or_default();
            let options = one.info.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let of = SpecRequest { machine: Some(one.info.machine.clone()), options, ..SpecRequest::default() };
            cells.push(Cell::failed(&of, &one.name, why, programs));
            continue;
        };
        if request.strict {
            let names: Vec<&str> = programs.requests.iter().map(|request| request.name.as_str()).collect();
            check_mix(&names, spec).map_err(Failure::Program)?;
            let problems = spec.validate_footprint(programs.footprint_on(spec));
            if !problems.is_empty() {
                return Err(Failure::Spec(Invalid::lines(&problems)));
            }
        }
        cells.push(Cell::new(&one.info.machine, &one.name, spec.clone(), one.info.set.clone(), programs));
    }
    for (group, more) in &mut groups {
        let of = &cells[group.cells.start];
        let (machine, programs) = (of.info.machine.clone(), Arc::clone(&of.programs));
        if let Ok(spec) = &of.spec {
            group.lengths = programs.instructions_on(spec);
        }
        for job in more.drain(..) {
            let design = job.design.strip_prefix(BOUND).unwrap_or_default().to_owned();
            let presets =
                SpecRequest { machine: Some(machine.clone()), design: Some(design), ..SpecRequest::default() };
            let set = difference_from_presets(&presets, &job.spec);
            cells.push(Cell::new(&machine, &job.design, job.spec, set, Arc::clone(&programs)));
            group.bound_runs.push(cells.len() - 1);
        }
    }
    let groups = groups.into_iter().map(|(group, _)| group).collect();
    run_through(cells, groups, request, shared, stop)
}

/// Runs cells through the machinery of the command, with its store.
fn run_through(
    cells: Vec<Cell>,
    groups: Vec<Group>,
    request: &RunRequest,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Result<Finished, Failure> {
    let store = match &request.store {
        Some(folder) => Some(Arc::new(Mutex::new(Store::open(folder).map_err(Failure::Run)?))),
        None => None,
    };
    let mut warnings = store.as_ref().map_or_else(Vec::new, |store| lock(store).warnings().to_vec());
    announce(shared, cells.iter().map(|cell| cell.design.as_str()));
    let runner = Runner {
        store: store.clone(),
        reuse: if request.fresh { Reuse::Nothing } else { Reuse::Final },
        threads: request.threads,
        memory: memory_available(),
        stop: Arc::clone(stop),
        progress: Arc::new(Kept(Arc::clone(shared))),
    };
    let done = runner.run(cells.clone());
    let schema = done.schema(0..cells.len());
    warnings.extend(done.not_stored);
    warnings.extend(store.and_then(|store| lock(&store).finish().err()));
    warnings.extend(done.fewer_threads);
    let stored = done.cells.iter().map(|ended| ended.as_ref().is_some_and(|ended| ended.stored)).collect();
    let runs: Vec<RunResult> = cells
        .iter()
        .zip(done.cells)
        .map(|(cell, ended)| {
            let spec = cell.spec.as_ref().map(|spec| (**spec).clone()).map_err(Clone::clone);
            ended.map_or_else(|| not_started(&cell.design, &cell.programs.label, &spec), |ended| ended.run)
        })
        .collect();
    let notes = distinct_notes(done.notes.into_iter().chain(colour_warnings(&runs)).chain(warnings));
    let infos = cells.into_iter().map(|cell| cell.info).collect();
    Ok(Finished { infos, runs, stored, groups, schema, notes, command: Vec::new(), seconds: 0.0 })
}

/// Runs a study: the file that the command's `sweep` reads. Returns the dict of `run_cells`, with `title`,
/// `missing` (programs that cannot be opened) and `axes` (the varied settings).
#[pyfunction]
pub fn run_study<'py>(
    py: Python<'py>,
    path: PathBuf,
    quick: bool,
    request: RunRequest,
    report: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let work = move |shared: &Arc<Shared>, stop: &Arc<AtomicBool>| {
        let began = Instant::now();
        let figure = Figure::read(&path)?;
        figure.check()?;
        let size = if quick { Size::Quick } else { Size::Full };
        let study = Study::of(&figure, size).map_err(Failure::Spec)?;
        let (cells, groups) = in_groups(&study);
        if cells.is_empty() {
            let why = study.missing.join("\n");
            return Err(Failure::Program(
                format!("the study {} has no cells\n{why}", path.display()).trim().to_owned(),
            ));
        }
        if let Some(folder) = &request.store {
            let store = Store::open(folder).map_err(Failure::Run)?;
            store.write_study(&study.name, &study.description(&request.command)).map_err(Failure::Run)?;
        }
        let mut finished = run_through(cells, groups, &request, shared, stop)?;
        finished.seconds = began.elapsed().as_secs_f64();
        finished.command.clone_from(&request.command);
        finished.notes.extend(study.missing.iter().cloned());
        Ok((finished, study.title, study.axes))
    };
    let done = polled(py, report, work)?;
    let (finished, title, axes) = done.result.map_err(|failure| failure.raise(py))?;
    let dict = to_python(py, &finished.as_json())?;
    dict.set_item("interrupt", done.interrupt)?;
    dict.set_item("title", title)?;
    dict.set_item("axes", axes)?;
    Ok(dict)
}

/// The cells of a study, such that those which differ in their designs only follow each other.
fn in_groups(study: &Study) -> (Vec<Cell>, Vec<Group>) {
    let (mut cells, mut groups) = (Vec::new(), Vec::new());
    let mut begun: Vec<&Point> = Vec::new();
    for point in &study.points {
        if begun.iter().any(|other| other.place.is_beside(&point.place)) {
            continue;
        }
        begun.push(point);
        let beside: Vec<&Point> = study.points.iter().filter(|other| other.place.is_beside(&point.place)).collect();
        for seed in 0..point.cells.len() {
            let first = cells.len();
            let numbers = beside.iter().filter_map(|point| point.cells.get(seed));
            cells.extend(numbers.map(|at| study.cells[*at].clone()));
            groups.push(Group {
                cells: first..cells.len(),
                bounds: Bounds::none(&[]),
                bound_runs: Vec::new(),
                lengths: Vec::new(),
            });
        }
    }
    (cells, groups)
}

/// Runs cells of arrays, or with designs in Python: group by group, each on one decoding, without a store.
fn run_unknown(
    mixes: &[Mix],
    wanted: Vec<Wanted>,
    request: &RunRequest,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Result<Finished, Failure> {
    let mut groups = groups(&wanted, request.bounds);
    let bounds = groups.iter().flat_map(|(_, more)| more.iter().map(|job| job.design.as_str()));
    let names: Vec<String> = wanted.iter().map(|cell| cell.name.as_str()).chain(bounds).map(str::to_owned).collect();
    let mut runs: Vec<Option<RunResult>> = vec![None; names.len()];
    let mut infos: Vec<CellInfo> = wanted.iter().map(|cell| cell.info.clone()).collect();
    infos.resize(names.len(), CellInfo::default());
    let (mut schemas, mut notes) = (Vec::<Schema>::new(), Vec::new());
    let mut further = wanted.len();
    let mut announced = false;
    for (group, more) in &mut groups {
        let cells = &wanted[group.cells.clone()];
        let mut numbers: Vec<usize> = Vec::new();
        let mut jobs = Vec::new();
        for (at, cell) in group.cells.clone().zip(cells) {
            match &cell.spec {
                Ok(spec) => {
                    numbers.push(at);
                    jobs.push(Job { design: cell.name.clone(), spec: spec.clone() });
                }
                Err(why) => {
                    let run = not_started(&cell.name, "", &cell.spec);
                    runs[at] = Some(RunResult { status: Status::Failed, outcome: Some(why.clone()), ..run });
                }
            }
        }
        for job in more.drain(..) {
            group.bound_runs.push(further);
            infos[further].machine.clone_from(&cells[0].info.machine);
            numbers.push(further);
            jobs.push(job);
            further += 1;
        }
        if jobs.is_empty() || stop.load(Ordering::SeqCst) {
            continue;
        }
        let programs = mixes[cells[0].mix].open(&jobs[0].spec)?;
        let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
        for job in &jobs {
            let problems = job.spec.validate_footprint(footprint);
            if !problems.is_empty() {
                return Err(Failure::Spec(Invalid::lines(&problems)));
            }
        }
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
    let runs: Vec<RunResult> = runs
        .into_iter()
        .enumerate()
        .map(|(at, run)| {
            let none = Err(String::new());
            let spec = wanted.get(at).map_or(&none, |cell| &cell.spec);
            run.unwrap_or_else(|| not_started(&names[at], "", spec))
        })
        .collect();
    let groups = groups.into_iter().map(|(group, _)| group).collect();
    let stored = vec![false; runs.len()];
    let schema = join_schemas(&schemas);
    Ok(Finished {
        infos,
        runs,
        stored,
        groups,
        schema,
        notes: distinct_notes(notes),
        command: Vec::new(),
        seconds: 0.0,
    })
}
