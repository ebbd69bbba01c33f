//! `run` and `compare`.

use crate::arguments::{CompareArguments, ProgramArguments, RunArguments};
use crate::bounds::Bounds;
use crate::finished::FinishedRuns;
use crate::output::{JsonOutput, print, report, warn};
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress, requests};
use ambulator_base::{Invalid, RecordSource, distinct_notes};
use ambulator_experiments::{Document, Verdict, cautions, comparison_table, core_table, reasons, seconds};
use ambulator_simulator::spec::{Spec, parse_count, parse_size, program_request};
use ambulator_simulator::{Comparison, Outcome, RunResult, Status, open_mix};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let design = arguments.design.iter().cloned().collect::<Vec<_>>();
    compare_designs(&arguments.program, &design, 1, false)
}

pub fn compare(arguments: &CompareArguments) -> Result<u8, Failure> {
    let designs = requests::design_names(&arguments.designs);
    compare_designs(&arguments.program, &designs, arguments.threads, !arguments.no_bounds)
}

fn compare_designs(
    arguments: &ProgramArguments,
    designs: &[String],
    threads: usize,
    with_bounds: bool,
) -> Result<u8, Failure> {
    requests::check_live(arguments)?;
    let (mut jobs, mut inputs) = requests::jobs(arguments, designs)?;
    inputs.extend(requests::program_names(arguments).into_iter().filter(|name| requests::is_file(name)));
    inputs.extend(arguments.command.first());
    // Without time there is no speed, and so no bound.
    let (bounds, more) = match with_bounds && !arguments.functional {
        true => Bounds::of(&jobs),
        false => (Bounds::none(&jobs), Vec::new()),
    };
    let spec = jobs[0].spec.clone();
    let spec = &spec;
    let stop = interrupt::stop_flag();
    let program_failed = Arc::new(AtomicBool::new(false));
    let programs = if arguments.live {
        vec![live(arguments, spec, &program_failed)?]
    } else {
        // Some programs now generate a graph of gigabytes.
        let (arguments, spec) = (arguments.clone(), spec.clone());
        interrupt::abandoned_when_stopped(move || open_programs(&arguments, &spec))?
    };
    let lengths: Vec<Option<u64>> = programs.iter().map(|program| program.instructions()).collect();
    let known = distinct_notes(programs.iter().flat_map(|program| program.notes()));
    known.iter().for_each(|note| warn(note));
    let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
    for job in &jobs {
        let problems = job.spec.validate_footprint(footprint);
        if !problems.is_empty() {
            return Err(Failure::bad(Invalid::lines(&problems)));
        }
    }
    let asked = arguments.instructions.as_ref().filter(|_| !spec.run.spread_threads);
    let asked = asked.map(|_| spec.run.instructions.saturating_mul(u64::from(spec.machine.cores)));
    let output = JsonOutput::prepare(arguments.json.as_deref(), &inputs)?;
    let to_stdout = output.as_ref().is_some_and(JsonOutput::takes_standard_output);
    let names: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    jobs.extend(more);
    let bars: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    let shown = progress::bars(&bars, !arguments.no_progress);
    let finished = Arc::new(FinishedRuns::new(names, shown));
    let command: Vec<String> = std::env::args().collect();
    let output = output.map(|output| {
        let (finished, command, known) = (Arc::clone(&finished), command.clone(), known.clone());
        output.keep_if_ended(move || {
            let document = finished.document(command.clone(), known.clone())?;
            serde_json::to_vec_pretty(&document).ok()
        })
    });
    let began = std::time::Instant::now();
    let mut outcome = ambulator_simulator::compare(Comparison { jobs, programs, threads, stop, progress: finished })
        .map_err(Failure::bad)?;
    let took = began.elapsed().as_secs_f64();
    outcome.fewer_threads.iter().for_each(|why| warn(why));
    let bound_runs = outcome.runs.split_off(designs.len().max(1));
    let verdict = bounds.verdict(&outcome.runs, &bound_runs);
    if !arguments.quiet && !to_stdout {
        show(&outcome, &verdict, &bound_runs, took);
    }
    let cautions = cautions(&outcome.runs, &lengths);
    cautions.iter().for_each(|sentence| warn(sentence));
    // Notes that appeared only during the run.
    outcome.notes.iter().filter(|note| !known.contains(note)).for_each(|note| warn(note));
    let short = outcome.runs.iter().find(|run| run.status == Status::Done);
    if let Some((run, asked)) = short.zip(asked).filter(|(run, asked)| run.simulated_instructions < *asked) {
        let ran = run.simulated_instructions;
        warn(&format!("{} ended after {ran} of the {asked} instructions that --instructions asks for", run.program));
    }
    for run in outcome.runs.iter().filter(|run| run.status != Status::Done) {
        let outcome = run.outcome.as_deref().unwrap_or("it did not complete");
        report(&format!("{} on {}: {outcome}", run.design, run.program));
    }
    let all_done = outcome.runs.iter().all(|run| run.status == Status::Done);
    if let Some(output) = output {
        let bounds = bounds.document(&outcome.runs, bound_runs);
        outcome.notes.extend(cautions);
        let document = Document { verdict: verdict.sentences, bounds, ..Document::new(command, outcome) };
        output.write(serde_json::to_vec_pretty(&document).map_err(Failure::failed)?)?;
    }
    let all_well = all_done && !program_failed.load(Ordering::SeqCst);
    Ok(if all_well { DONE } else { SOME_FAILED })
}

/// Prints the results; nothing of runs that have none, whose failures are reported.
fn show(outcome: &Outcome, verdict: &Verdict, bounds: &[RunResult], took: f64) {
    let shown: Vec<&RunResult> = outcome.runs.iter().filter(|run| run.simulated_instructions > 0).collect();
    let Some(first) = shown.first() else { return };
    let memory = first.spec.pointer("/memory/bytes").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let heading = format!(
        "{} ({}): {} instructions measured on each machine with {} of memory, seed {}\n",
        first.program,
        first.identity.detail.replace('\n', ", "),
        ambulator_experiments::count(first.simulated_instructions as f64),
        ambulator_experiments::bytes(memory as f64),
        first.seed
    );
    print_folded(&heading, 0);
    if !verdict.sentences.is_empty() {
        verdict.sentences.iter().for_each(|sentence| print_folded(sentence, 0));
        print("");
    }
    print(&comparison_table(&outcome.runs, terminal::width()));
    if let Some(table) = core_table(&outcome.runs, terminal::width()) {
        print("");
        print(&table);
    }
    let why = reasons(&outcome.runs, verdict.told.as_deref());
    if !why.is_empty() {
        print("");
        why.iter().for_each(|sentence| print_folded(sentence, 0));
    }
    let shown: Vec<&RunResult> = shown.into_iter().chain(bounds).collect();
    let checked: u64 = shown.iter().map(|run| run.checked_translations).sum();
    let accesses: u64 = shown.iter().map(|run| run.simulated_accesses).sum();
    let executed: u64 = shown.iter().map(|run| run.simulated_instructions).sum();
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
        accesses as f64 / busy.max(1e-9) / 1e6,
    );
    print_folded(&end, 0);
}

/// A program that runs under the capture; sets `failed` if it crashes or reports a failure.
fn live(arguments: &ProgramArguments, spec: &Spec, failed: &Arc<AtomicBool>) -> Result<Box<dyn RecordSource>, Failure> {
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
    crate::capture::live(&arguments.command, skip, Arc::clone(failed))
}

pub fn open_programs(arguments: &ProgramArguments, spec: &Spec) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
    let footprint = match &arguments.footprint {
        Some(text) => Some(parse_size(text).map_err(|e| Failure::bad(format!("--footprint: {e}")))?),
        None => None,
    };
    let names = requests::program_names(arguments);
    let part = requests::selection(arguments)?;
    let open = |name: &str, number: usize| {
        let seed = spec.run.seed.wrapping_add(number as u64);
        let mut request = program_request(name, &arguments.program_set, footprint, seed).map_err(|e| e.to_string())?;
        if let (Some((key, _)), Some(_)) = (part.first(), ambulator_workloads::program(&request.name)) {
            return Err(format!("{name} is generated, not a trace: it has no part to {key}; use --warmup"));
        }
        part.iter().for_each(|(key, value)| _ = request.settings.insert((*key).to_owned(), (*value).into()));
        ambulator_workloads::open(&request).map_err(|e| e.to_string())
    };
    open_mix(&names, spec, open).map_err(Failure::bad)
}
