//! Runs: cells, which are found in a store or computed, and what they say together.

use crate::conversion::to_python;
use crate::design::{PageTableRequest, code_of};
use crate::failure::{Failure, guarded};
use crate::polled::{Kept, Shared, polled};
use crate::programs::{Mix, MixRequest};
use crate::settings::MachineRequest;
use crate::streams::run_streams;
use crate::summary::{Finished, Group};
use ambulator_base::{Invalid, distinct_notes, lock};
use ambulator_experiments::row::CellInfo;
use ambulator_experiments::{
    BOUND, Bounds, Cell, Checkpoints, Programs, Reuse, Runner, Store, difference_from_presets, memory_available,
};
use ambulator_simulator::spec::{RunMode, Spec, SpecRequest, option_settings, unused};
use ambulator_simulator::{Job, RunResult, Status, check_mix, colour_warnings};
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

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
    pub bounds: bool,
    /// Whether a cell that cannot be built is an error; otherwise it is a cell that has failed.
    #[pyo3(item)]
    pub(crate) strict: bool,
    /// Threads, 0 for as many as there are cores.
    #[pyo3(item)]
    pub threads: usize,
    /// With how many seeds each cell runs, from its own on.
    #[pyo3(item)]
    pub seeds: u32,
    /// The folder of the store, if there is one.
    #[pyo3(item)]
    pub store: Option<PathBuf>,
    /// Whether stored results are not used.
    #[pyo3(item)]
    pub(crate) fresh: bool,
    /// The folder of checkpoints, if there is one.
    #[pyo3(item)]
    pub checkpoint: Option<PathBuf>,
    /// The command that results say made them.
    #[pyo3(item)]
    pub command: Vec<String>,
}

/// A cell whose spec is loaded.
pub struct Wanted {
    /// Its machine, and the settings that differ from presets.
    pub info: CellInfo,
    /// The design's name.
    pub name: String,
    /// The preset or file that its settings are from.
    preset: Option<String>,
    /// The spec, or why there is none.
    pub spec: Result<Spec, String>,
    /// The number of its mix.
    pub mix: usize,
    /// The number of its group.
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
        check(&wanted, &cells)?;
        Ok((mixes, wanted))
    })?;
    let streams = mixes.iter().any(Mix::is_stream);
    let work = move |shared: &Arc<Shared>, stop: &Arc<AtomicBool>| {
        let began = Instant::now();
        let mut finished = match streams {
            true => run_streams(&mixes, &wanted, &request, shared, stop)?,
            false => run_known(&mixes, &wanted, &request, shared, stop)?,
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

impl CellRequest {
    fn load(&self, py: Python<'_>, strict: bool) -> Result<Wanted, Failure> {
        let CellRequest { name, machine, page_table, mix, group } = self;
        let wanted = |info: CellInfo, spec: Result<Spec, String>| Wanted {
            info,
            name: name.clone(),
            preset: machine.design.clone(),
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
fn check(wanted: &[Wanted], cells: &[CellRequest]) -> Result<(), Failure> {
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
    let options: BTreeSet<&String> = cells.iter().flat_map(|cell| &cell.machine.options).collect();
    for option in options {
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

/// The groups of cells, with the further jobs that bound them. Each cell has its own number, for one seed.
pub fn groups(wanted: &[Wanted], with_bounds: bool) -> Vec<(Group, Vec<Job>)> {
    let mut first = 0;
    let group = |cells: &[Wanted]| {
        let cell = |cell: &Wanted| Some(Job { design: cell.name.clone(), spec: cell.spec.as_ref().ok()?.clone() });
        let jobs: Vec<Job> = cells.iter().filter_map(cell).collect();
        let timing = jobs.iter().all(|job| job.spec.run.mode == RunMode::default());
        let (bounds, more) = match with_bounds && timing && jobs.len() == cells.len() {
            true => Bounds::of(&jobs),
            false => (Bounds::none(&jobs), Vec::new()),
        };
        let cells = (first..first + cells.len()).map(|at| vec![at]).collect::<Vec<_>>();
        first += cells.len();
        (Group { cells, bounds, bound_runs: Vec::new(), lengths: Vec::new() }, more)
    };
    wanted.chunk_by(|one, other| one.group == other.group).map(group).collect()
}

/// Checks that programs of so many bytes fit.
pub fn check_footprint(spec: &Spec, footprint: u64) -> Result<(), Failure> {
    let problems = spec.validate_footprint(footprint);
    if problems.is_empty() { Ok(()) } else { Err(Failure::Spec(Invalid::lines(&problems))) }
}

/// Shows all cells, in the order of their numbers, as about to be set up.
pub fn announce<'n>(shared: &Shared, names: impl Iterator<Item = &'n str>) {
    *lock(&shared.progress) = names.map(|name| (name.to_owned(), "set-up", 0, None)).collect();
    shared.running.store(true, Ordering::SeqCst);
}

/// A run that was not started.
pub fn not_started(design: &str, program: &str, spec: &Result<Spec, String>) -> RunResult {
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

/// Runs cells of programs that can be opened again: through the machinery of the command, with its store.
fn run_known(
    mixes: &[Mix],
    wanted: &[Wanted],
    request: &RunRequest,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> Result<Finished, Failure> {
    let mut identified: Vec<(usize, u64, Arc<Programs>)> = Vec::new();
    let mut identify = |mix: usize, spec: &Spec| -> Result<Arc<Programs>, Failure> {
        let seed = spec.run.seed;
        if let Some((.., known)) = identified.iter().find(|(of, with, _)| (*of, *with) == (mix, seed)) {
            return Ok(Arc::clone(known));
        }
        let programs = Arc::new(mixes[mix].identify(spec)?);
        identified.push((mix, seed, Arc::clone(&programs)));
        Ok(programs)
    };
    let with_seed = |spec: &Spec, seed: u32| {
        let mut spec = spec.clone();
        spec.run.seed = spec.run.seed.wrapping_add(u64::from(seed));
        spec
    };
    let mut cells: Vec<Cell> = Vec::new();
    let mut groups = groups(wanted, request.bounds);
    for (group, more) in &mut groups {
        let own: Vec<&Wanted> = group.cells.iter().flatten().map(|at| &wanted[*at]).collect();
        group.cells.clear();
        for one in &own {
            let first = cells.len();
            for seed in 0..request.seeds {
                let spec = match &one.spec {
                    Ok(spec) => with_seed(spec, seed),
                    Err(why) => {
                        let programs = identify(one.mix, &Spec::default())?;
                        let options = one.info.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
                        let machine = Some(one.info.machine.clone());
                        let of = SpecRequest { machine, options, ..SpecRequest::default() };
                        cells.push(Cell::failed(&of, &one.name, why.clone(), programs));
                        break;
                    }
                };
                let programs = identify(one.mix, &spec)?;
                if request.strict {
                    let names: Vec<&str> = programs.requests.iter().map(|request| request.name.as_str()).collect();
                    check_mix(&names, &spec).map_err(Failure::Program)?;
                    check_footprint(&spec, programs.footprint_on(&spec))?;
                }
                let mut set = one.info.set.clone();
                if seed > 0 {
                    set.insert("run.seed".into(), spec.run.seed.into());
                }
                cells.push(known_by_code(Cell::new(&one.info.machine, &one.name, spec, set, programs)));
            }
            group.cells.push((first..cells.len()).collect());
        }
        let mix = own[0].mix;
        if let Ok(spec) = &own[0].spec {
            group.lengths = identify(mix, spec)?.instructions_on(spec);
        }
        for job in more.drain(..) {
            let machine = &own[0].info.machine;
            let bounded = own.iter().find(|one| job.design.strip_prefix(BOUND) == Some(&one.name));
            let design = bounded.and_then(|one| one.preset.clone());
            let presets = SpecRequest { machine: Some(machine.clone()), design, ..SpecRequest::default() };
            let first = cells.len();
            for seed in 0..request.seeds {
                let spec = with_seed(&job.spec, seed);
                let (set, programs) = (difference_from_presets(&presets, &spec), identify(mix, &spec)?);
                cells.push(known_by_code(Cell::new(machine, &job.design, spec, set, programs)));
            }
            group.bound_runs.push((first..cells.len()).collect());
        }
    }
    run_through(cells, groups.into_iter().map(|(group, _)| group).collect(), request, shared, stop)
}

/// A cell with page tables in Python, which the build does not know, is known by their code.
fn known_by_code(cell: Cell) -> Cell {
    let Ok(spec) = &cell.spec else { return cell };
    let tables = [spec.design.page_table.clone(), spec.virtualization.hypervisor_table.clone()];
    tables.iter().filter_map(|table| code_of(table)).fold(cell, |cell, code| match code {
        Some(code) => cell.with_code(&code),
        None => cell.without_key(),
    })
}

/// Runs cells through the machinery of the command, with its store.
pub fn run_through(
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
    let checkpoints = request.checkpoint.as_deref().map(Checkpoints::open).transpose().map_err(Failure::Run)?;
    let runner = Runner {
        store: store.clone(),
        reuse: if request.fresh { Reuse::Nothing } else { Reuse::Final },
        checkpoints: checkpoints.map(Arc::new),
        threads: request.threads,
        memory: memory_available(),
        stop: Arc::clone(stop),
        progress: Arc::new(Kept(Arc::clone(shared))),
    };
    let done = runner.run(cells.clone());
    let schema = done.schema(0..cells.len());
    warnings.extend(done.checkpoints);
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
