//! `run` and `compare`.

use crate::arguments::{CompareArguments, ProgramArguments, RunArguments, TableArguments};
use crate::finished::FinishedRuns;
use crate::output::{JsonOutput, print, report, warn};
use crate::table_files::TableFiles;
use crate::terminal::{self, print_folded};
use crate::timeline::TimelineFile;
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress, requests, store};
use ambulator_base::{Invalid, RecordSource, distinct_notes};
use ambulator_experiments::{
    BOUND, Bounds, Cell, Document, Programs, Reuse, Runner, Verdict, cautions, comparison_grid, comparison_table,
    core_table, difference_from_presets, mean_over_seeds, memory_available, reasons, runs_grid, sampled_as, seconds,
    stack_table,
};
use ambulator_simulator::spec::{Sampling, Spec, SpecRequest, parse_count, parse_size, program_request};
use ambulator_simulator::{
    Comparison, Job, Outcome, READ_ONCE, RunResult, Status, check_mix, colour_warnings, open_mix, set_speedups,
};
use ambulator_workloads::ProgramRequest;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let design = arguments.design.iter().cloned().collect::<Vec<_>>();
    let none = TableArguments { csv: None, markdown: None, latex: None };
    compare_designs(&arguments.program, &design, &Extent { threads: 1, bounds: false, seeds: 1, tables: &none })
}

pub fn compare(arguments: &CompareArguments) -> Result<u8, Failure> {
    let designs = requests::design_names(&arguments.designs);
    let CompareArguments { threads, seeds, no_bounds, table, .. } = arguments;
    let extent = Extent { threads: *threads, bounds: !no_bounds, seeds: *seeds, tables: table };
    compare_designs(&arguments.program, &designs, &extent)
}

/// What a comparison has beyond its designs.
struct Extent<'a> {
    threads: usize,
    bounds: bool,
    seeds: u32,
    tables: &'a TableArguments,
}

fn compare_designs(arguments: &ProgramArguments, designs: &[String], extent: &Extent<'_>) -> Result<u8, Failure> {
    requests::check_live(arguments)?;
    let requests::Jobs { mut jobs, machine, machine_preset, mut inputs } = requests::jobs(arguments, designs)?;
    let traces = requests::program_names(arguments).into_iter().filter(|name| requests::is_file(name));
    inputs.extend(traces.flat_map(|name| ambulator_trace::trace_files(std::path::Path::new(name))));
    inputs.extend(arguments.command.first());
    inputs.append(store::inputs(&arguments.store));
    // Without time there is no speed, and so no bound.
    let (bounds, more) = match extent.bounds && !arguments.functional {
        true => Bounds::of(&jobs),
        false => (Bounds::none(&jobs), Vec::new()),
    };
    let spec = jobs[0].spec.clone();
    let spec = &spec;
    let stop = interrupt::stop_flag();
    let program_failed = Arc::new(AtomicBool::new(false));
    // Before a live program runs.
    let output = JsonOutput::prepare(arguments.json.as_deref(), &inputs)?;
    let files = TableFiles::prepare(extent.tables, &inputs)?;
    let recorded = TimelineFile::prepare(arguments, spec, &inputs)?;
    let source = Source::of(arguments, spec, &program_failed)?;
    let (lengths, known, footprint) = source.known(spec);
    known.iter().for_each(|note| warn(note));
    for job in &jobs {
        let problems = job.spec.validate_footprint(footprint);
        if !problems.is_empty() {
            return Err(Failure::bad(Invalid::lines(&problems)));
        }
    }
    let asked = arguments.instructions.as_ref().filter(|_| !spec.run.spread_threads);
    let asked = asked.map(|_| spec.run.instructions.saturating_mul(u64::from(spec.machine.cores)));
    let to_stdout = output.as_ref().is_some_and(JsonOutput::takes_standard_output) || files.take_standard_output();
    let names: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    jobs.extend(more);
    let bars: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    let shown = progress::bars(&bars, !arguments.no_progress);
    let timeline = recorded.as_ref().map(|file| Arc::clone(&file.timeline));
    let finished = Arc::new(FinishedRuns::new(names, shown).recorded(timeline));
    let command: Vec<String> = std::env::args().collect();
    let output = output.map(|output| {
        let (finished, command, known) = (Arc::clone(&finished), command.clone(), known.clone());
        output.keep_if_ended(move || {
            let document = finished.document(command.clone(), known.clone())?;
            serde_json::to_vec_pretty(&document).ok()
        })
    });
    if recorded.is_some() && arguments.store.checkpoint.is_some() {
        return Err(Failure::bad(
            "--checkpoint: a run that is recorded (--timeline) warms its own machine; leave one of them out",
        ));
    }
    let began = std::time::Instant::now();
    let Ran { mut outcome, stored, told, status } = match source {
        Source::Stream(programs) => {
            store::no_checkpoint_of_a_live_program(&arguments.store)?;
            if extent.seeds > 1 {
                return Err(Failure::bad("--seeds: what comes from a pipe can be read once only; save it as a file"));
            }
            let comparison = Comparison { jobs, programs, threads: extent.threads, stop, progress: finished };
            let outcome = ambulator_simulator::compare(comparison).map_err(Failure::bad)?;
            Ran { outcome, stored: Vec::new(), told: Vec::new(), status: DONE }
        }
        Source::Known(programs, _while_it_runs) => {
            let runner = Runner {
                store: store::open(&arguments.store)?,
                // What is recorded must run.
                reuse: if recorded.is_some() { Reuse::Nothing } else { store::reuse(&arguments.store) },
                checkpoints: store::checkpoints(arguments.store.checkpoint.as_deref())?,
                threads: extent.threads,
                memory: memory_available(),
                stop,
                progress: finished,
            };
            run_cells(jobs, (&machine, &machine_preset), &programs, arguments, &runner, extent.seeds)?
        }
    };
    let took = began.elapsed().as_secs_f64();
    outcome.fewer_threads.iter().for_each(|why| warn(why));
    let bound_runs = outcome.runs.split_off(designs.len().max(1));
    let verdict = bounds.verdict(&outcome.runs, &bound_runs);
    if !arguments.quiet && !to_stdout {
        show(&outcome, &verdict, &bound_runs, took);
    }
    told.iter().filter(|_| !arguments.quiet).for_each(|told| report(told));
    let cautions = cautions(&outcome.runs, &lengths);
    cautions.iter().for_each(|sentence| warn(sentence));
    // Notes that appeared only during the run.
    outcome.notes.iter().filter(|note| !known.contains(note)).for_each(|note| warn(note));
    let short = outcome.runs.iter().find(|run| run.status == Status::Done);
    if let Some((run, asked)) = short.zip(asked).filter(|(run, asked)| ran(run) < *asked) {
        let ran = ran(run);
        warn(&format!("{} ended after {ran} of the {asked} instructions that --instructions asks for", run.program));
    }
    for run in outcome.runs.iter().filter(|run| run.status != Status::Done) {
        let outcome = run.outcome.as_deref().unwrap_or("it did not complete");
        report(&format!("{} on {}: {outcome}", run.design, run.program));
    }
    let tables = files.write(&runs_grid(&outcome.runs), &comparison_grid(&outcome.runs));
    let all_done = outcome.runs.iter().all(|run| run.status == Status::Done);
    let all_recorded = recorded.is_none_or(|file| file.finish(arguments.quiet));
    let mut written = vec![tables];
    if let Some(output) = output {
        let bounds = bounds.document(&outcome.runs, bound_runs);
        outcome.notes.extend(cautions);
        let document = Document { verdict: verdict.sentences, bounds, stored, ..Document::new(command, outcome) };
        written.push(output.write(serde_json::to_vec_pretty(&document).map_err(Failure::failed)?));
    }
    Failure::of_outputs(written)?;
    let all_well = all_done && all_recorded && !program_failed.load(Ordering::SeqCst);
    Ok(if all_well { status } else { SOME_FAILED })
}

/// Instructions that a run simulated, with time or without; its warm-up is not among them.
fn ran(run: &RunResult) -> u64 {
    run.sampled.as_ref().map_or(run.simulated_instructions, |sampled| sampled.covered)
}

/// Prints the results; nothing of runs that have none, whose failures are reported.
fn show(outcome: &Outcome, verdict: &Verdict, bounds: &[RunResult], took: f64) {
    let shown: Vec<&RunResult> = outcome.runs.iter().filter(|run| run.simulated_instructions > 0).collect();
    let Some(first) = shown.first() else { return };
    let memory = first.spec.pointer("/memory/bytes").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let seeds = match &first.over_seeds[..] {
        [one, .., last] => format!("seeds {} to {}, means ± half of the 95% interval", one.seed, last.seed),
        _ => format!("seed {}", first.seed),
    };
    let measured = sampled_as(first).unwrap_or_else(|| {
        format!("{} instructions measured", ambulator_experiments::count(first.simulated_instructions as f64))
    });
    let heading = format!(
        "{} ({}): {measured} on each machine with {} of memory, {seeds}\n",
        first.program,
        first.identity.detail.replace('\n', ", "),
        ambulator_experiments::bytes(memory as f64),
    );
    print_folded(&heading, 0);
    if !verdict.sentences.is_empty() {
        verdict.sentences.iter().for_each(|sentence| print_folded(sentence, 0));
        print("");
    }
    print(&comparison_table(&outcome.runs, terminal::width()));
    if let Some(table) = stack_table(&outcome.runs, terminal::width()) {
        print("");
        print(&table);
    }
    if let Some(table) = core_table(&outcome.runs, terminal::width()) {
        print("");
        print(&table);
    }
    let why = reasons(&outcome.runs, verdict.told.as_deref());
    if !why.is_empty() {
        print("");
        why.iter().for_each(|sentence| print_folded(sentence, 0));
    }
    let seeds = first.over_seeds.len().max(1) as u64;
    let shown: Vec<&RunResult> = shown.into_iter().chain(bounds).collect();
    let checked: u64 = shown.iter().map(|run| run.checked_translations).sum();
    let executed: u64 = seeds * shown.iter().map(|run| ran(run)).sum::<u64>();
    // Of a sampled region, as many for each instruction as where it was measured.
    let share = |run: &RunResult| ran(run) as f64 / run.simulated_instructions.max(1) as f64;
    let accesses = |run: &RunResult| run.simulated_accesses as f64 * share(run);
    let accesses = seeds as f64 * shown.iter().map(|run| accesses(run)).sum::<f64>();
    let busy: f64 = shown.iter().map(|run| run.sim_host_seconds - run.sim_host_setup_seconds).sum();
    let verdict = if checked > 0 {
        format!("the oracle checked {} translations", ambulator_experiments::count(checked as f64))
    } else {
        "the oracle was off".into()
    };
    let end = format!(
        "\n{verdict}. Simulator: {} in total, {:.1} M instructions and {:.1} M accesses per second and thread.",
        seconds(took),
        executed as f64 / busy.max(1e-9) / 1e6,
        accesses / busy.max(1e-9) / 1e6,
    );
    print_folded(&end, 0);
}

/// A program that runs under the capture; sets `failed` if it crashes or reports a failure.
fn live(arguments: &ProgramArguments, spec: &Spec, failed: &Arc<AtomicBool>) -> Result<Source, Failure> {
    if spec.machine.cores > 1 && !spec.run.spread_threads {
        return Err(Failure::bad(
            "--live runs one program: to use several cores, spread its threads with --spread-threads",
        ));
    }
    if arguments.footprint.is_some() || !arguments.program_set.is_empty() {
        return Err(Failure::bad("--live: a captured program has no --footprint and no --program-set"));
    }
    let skip = match &arguments.skip {
        Some(text) => parse_count(text).map_err(|e| Failure::bad(format!("--skip: {e}")))?,
        None => 0,
    };
    let (line, failed) = (&arguments.command, Arc::clone(failed));
    // What is read twice, or again later, must be a file.
    let (path, folder) = match &arguments.keep {
        Some(path) => (path.clone(), None),
        None if spec.run.sampling == Sampling::Phases => {
            let folder = tempfile::tempdir();
            let folder = folder.map_err(|e| Failure::failed(format!("a folder for a trace cannot be made: {e}")))?;
            (folder.path().join("live.amb"), Some(folder))
        }
        None => return Ok(Source::Stream(vec![crate::capture::live(line, skip, failed)?])),
    };
    crate::capture::kept(line, skip, (spec, &path), failed, !arguments.no_progress)?;
    let request = program_request(&path.to_string_lossy(), &[], None, spec.run.seed).map_err(Failure::bad)?;
    let programs = Programs::identify(None, vec![request]).map_err(Failure::bad)?;
    Ok(Source::Known(Arc::new(programs), folder))
}

/// Opens the programs of the machine's cores.
fn open_all(requests: &[ProgramRequest], spec: &Spec) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
    let names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
    let open = |_: &str, number: usize| {
        let request = &requests[number % requests.len()];
        ambulator_workloads::open(request).map_err(|error| error.to_string())
    };
    open_mix(&names, spec, open).map_err(Failure::bad)
}

/// Opens the programs that are asked for, none of which is captured live.
pub fn open_programs(arguments: &ProgramArguments, spec: &Spec) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
    let requests = program_requests(arguments, spec).map_err(Failure::bad)?;
    let spec = spec.clone();
    interrupt::abandoned_when_stopped(move || open_all(&requests, &spec))
}

/// Where the records of a comparison come from.
pub enum Source {
    /// Programs and traces that can be opened again: their results are stored. With the folder of a trace that
    /// is of use only as long as they run.
    Known(Arc<Programs>, Option<TempDir>),
    /// A live capture, or a pipe.
    Stream(Vec<Box<dyn RecordSource>>),
}

impl Source {
    /// The records that options ask for; sets `failed` if a captured program crashes or reports a failure.
    pub fn of(arguments: &ProgramArguments, spec: &Spec, failed: &Arc<AtomicBool>) -> Result<Source, Failure> {
        let read_twice = spec.run.sampling == Sampling::Phases;
        if arguments.live {
            return live(arguments, spec, failed);
        }
        let requests = program_requests(arguments, spec).map_err(Failure::bad)?;
        // Whether the programs fit the machine.
        let names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
        let spec = spec.clone();
        if let Some(stream) = requests.iter().find(|request| Programs::is_stream(request)) {
            if read_twice {
                return Err(Failure::bad(format!("{}: {READ_ONCE}", stream.name)));
            }
            return interrupt::abandoned_when_stopped(move || open_all(&requests, &spec)).map(Source::Stream);
        }
        check_mix(&names, &spec).map_err(Failure::bad)?;
        let identify = move || Programs::identify(None, requests).map_err(Failure::bad);
        Ok(Source::Known(Arc::new(interrupt::abandoned_when_stopped(identify)?), None))
    }

    /// The lengths of the programs, notes on them, and their footprint, as far as they are known.
    pub fn known(&self, spec: &Spec) -> (Vec<Option<u64>>, Vec<String>, u64) {
        match self {
            Source::Known(programs, _) => {
                (programs.instructions_on(spec), distinct_notes(programs.notes.clone()), programs.footprint_on(spec))
            }
            Source::Stream(programs) => (
                programs.iter().map(|program| program.instructions()).collect(),
                distinct_notes(programs.iter().flat_map(|program| program.notes())),
                programs.iter().map(|program| program.identity().footprint).sum(),
            ),
        }
    }
}

/// What ran, and what is said of it.
pub struct Ran {
    pub outcome: Outcome,
    /// Designs whose runs were in the store.
    pub stored: Vec<String>,
    /// How many of them, in a sentence.
    pub told: Vec<String>,
    /// The exit status, as far as the store decides it.
    pub status: u8,
}

/// Runs jobs as cells, each with as many seeds, from their own on; with several, results are means over them.
/// `machine` is its name, and the preset or file that has it.
pub fn run_cells(
    jobs: Vec<Job>,
    (machine, machine_preset): (&str, &str),
    programs: &Arc<Programs>,
    arguments: &ProgramArguments,
    runner: &Runner,
    seeds: u32,
) -> Result<Ran, Failure> {
    let cell = |job: &Job, programs: &Arc<Programs>, seed: u64| {
        let mut spec = job.spec.clone();
        spec.run.seed = spec.run.seed.wrapping_add(seed);
        let presets = SpecRequest {
            machine: Some(machine_preset.to_owned()),
            design: Some(job.design.strip_prefix(BOUND).unwrap_or(&job.design).to_owned()),
            ..SpecRequest::default()
        };
        let set = difference_from_presets(&presets, &spec);
        Cell::new(machine, &job.design, spec, set, Arc::clone(programs))
    };
    // The jobs with the first seed come first: their progress is shown.
    let mut cells: Vec<Cell> = jobs.iter().map(|job| cell(job, programs, 0)).collect();
    for seed in 1..u64::from(seeds) {
        let of_seed =
            |request: &ProgramRequest| ProgramRequest { seed: request.seed.wrapping_add(seed), ..request.clone() };
        let requests = programs.requests.iter().map(of_seed).collect();
        let programs = Arc::new(Programs::identify(None, requests).map_err(Failure::bad)?);
        cells.extend(jobs.iter().map(|job| cell(job, &programs, seed)));
    }
    let finished = runner.run(cells);
    if finished.cells.iter().all(Option::is_none) {
        return Err(Failure::failed("interrupted before anything ran: there is no result"));
    }
    let unmeasured = |run: &RunResult| run.status == Status::Interrupted && run.simulated_instructions == 0;
    if finished.cells.iter().flatten().all(|ended| unmeasured(&ended.run)) {
        return Err(Failure::failed("interrupted before anything was measured: there is no result"));
    }
    let all_stored = |at: usize| {
        let mut of_job = finished.cells.iter().skip(at).step_by(jobs.len());
        of_job.all(|ended| ended.as_ref().is_some_and(|ended| ended.stored))
    };
    let stored = (0..jobs.len()).filter(|at| all_stored(*at)).map(|at| jobs[at].design.clone()).collect();
    let status = store::finish(&arguments.store, runner.store.as_ref(), finished.not_stored.as_ref());
    let told: Vec<String> =
        finished.checkpoints.iter().cloned().chain(store::told(runner.store.as_ref(), &finished)).collect();
    let schema = finished.schema(0..finished.cells.len());
    let notes = finished.notes;
    let mut of_jobs: Vec<Vec<RunResult>> = vec![Vec::new(); jobs.len()];
    let mut ended = finished.cells.into_iter();
    for _ in 0..seeds {
        let run = |job: &Job| match ended.next().flatten() {
            Some(ended) => ended.run,
            None => RunResult {
                design: job.design.clone(),
                program: programs.label.clone(),
                status: Status::Interrupted,
                outcome: Some("interrupted before it started".into()),
                ..RunResult::default()
            },
        };
        let mut runs: Vec<RunResult> = jobs.iter().map(run).collect();
        set_speedups(&mut runs);
        of_jobs.iter_mut().zip(runs).for_each(|(of_job, run)| of_job.push(run));
    }
    let runs: Vec<RunResult> = of_jobs.into_iter().filter_map(mean_over_seeds).collect();
    let notes = distinct_notes(notes.into_iter().chain(colour_warnings(&runs)));
    Ok(Ran { outcome: Outcome { runs, schema, notes, fewer_threads: finished.fewer_threads }, stored, told, status })
}

/// The requests for the programs of a mix, in its order.
fn program_requests(arguments: &ProgramArguments, spec: &Spec) -> Result<Vec<ProgramRequest>, String> {
    let footprint = match &arguments.footprint {
        Some(text) => Some(parse_size(text).map_err(|e| format!("--footprint: {e}"))?),
        None => None,
    };
    let part = requests::selection(arguments).map_err(|failure| failure.message)?;
    let request = |(number, name): (usize, &str)| {
        let seed = spec.run.seed.wrapping_add(number as u64);
        let mut request = program_request(name, &arguments.program_set, footprint, seed).map_err(|e| e.to_string())?;
        if let (Some((key, _)), Some(_)) = (part.first(), ambulator_workloads::program(&request.name)) {
            return Err(format!("{name} is generated, not a trace: it has no part to {key}; use --warmup"));
        }
        part.iter().for_each(|(key, value)| _ = request.settings.insert((*key).to_owned(), (*value).into()));
        Ok(request)
    };
    requests::program_names(arguments).into_iter().enumerate().map(request).collect()
}
