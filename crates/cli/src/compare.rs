//! `run` and `compare`.

use crate::arguments::{CompareArguments, ProgramArguments, RunArguments};
use crate::finished::FinishedRuns;
use crate::output::{JsonOutput, print, report, warn};
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress};
use ambulator_base::{InputFiles, Invalid, RecordSource, distinct_notes};
use ambulator_experiments::{Document, comparison_table, reasons, seconds};
use ambulator_simulator::spec::{
    PresetKind, Spec, SpecRequest, load, parse_count, parse_size, preset, program_request,
};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Status, open_mix};
use std::sync::Arc;

pub fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    let design = arguments.design.iter().cloned().collect::<Vec<_>>();
    compare_designs(&arguments.program, &design, 1)
}

pub fn compare(arguments: &CompareArguments) -> Result<u8, Failure> {
    compare_designs(&arguments.program, &arguments.designs, arguments.threads)
}

fn compare_designs(arguments: &ProgramArguments, designs: &[String], threads: usize) -> Result<u8, Failure> {
    let (jobs, mut inputs) = jobs(arguments, designs)?;
    inputs.extend(names(arguments).into_iter().filter(|name| is_file(name)));
    inputs.extend(arguments.command.first());
    let spec = &jobs[0].spec;
    let stop = interrupt::stop_flag();
    let programs = if arguments.live {
        vec![live(arguments, spec)?]
    } else {
        // Some programs now generate a graph of gigabytes.
        let (arguments, spec) = (arguments.clone(), spec.clone());
        interrupt::abandoned_when_stopped(move || open_programs(&arguments, &spec))?
    };
    let known = distinct_notes(programs.iter().flat_map(|program| program.notes()));
    known.iter().for_each(|note| warn(note));
    let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
    for job in &jobs {
        let problems = job.spec.validate_footprint(footprint);
        if !problems.is_empty() {
            return Err(Failure::bad(Invalid::lines(&problems)));
        }
    }
    let output = JsonOutput::prepare(arguments.json.as_deref(), &inputs)?;
    let to_stdout = output.as_ref().is_some_and(JsonOutput::takes_standard_output);
    let names: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    let shown = progress::bars(&names, !arguments.no_progress);
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
    let outcome = ambulator_simulator::compare(Comparison { jobs, programs, threads, stop, progress: finished })
        .map_err(Failure::bad)?;
    let took = began.elapsed().as_secs_f64();
    outcome.fewer_threads.iter().for_each(|why| warn(why));
    if !arguments.quiet && !to_stdout {
        show(&outcome, took);
    }
    // Notes that appeared only during the run.
    outcome.notes.iter().filter(|note| !known.contains(note)).for_each(|note| warn(note));
    for run in outcome.runs.iter().filter(|run| run.status != Status::Done) {
        let outcome = run.outcome.as_deref().unwrap_or("it did not complete");
        report(&format!("{} on {}: {outcome}", run.design, run.program));
    }
    let all_done = outcome.runs.iter().all(|run| run.status == Status::Done);
    if let Some(output) = output {
        let document = Document::new(command, outcome);
        output.write(serde_json::to_vec_pretty(&document).map_err(Failure::failed)?)?;
    }
    Ok(if all_done { DONE } else { SOME_FAILED })
}

fn show(outcome: &Outcome, took: f64) {
    let Some(first) = outcome.runs.first() else { return };
    let memory = first.spec.pointer("/memory/bytes").and_then(serde_json::Value::as_u64).unwrap_or(0);
    print(&format!(
        "{} ({}): {} instructions measured on each machine with {} of memory, seed {}\n",
        first.program,
        first.identity.detail.replace('\n', ", "),
        ambulator_experiments::count(first.simulated_instructions as f64),
        ambulator_experiments::bytes(memory as f64),
        first.seed
    ));
    print(&comparison_table(&outcome.runs));
    let why = reasons(&outcome.runs);
    if !why.is_empty() {
        print("");
        why.iter().for_each(|sentence| print(sentence));
    }
    let checked: u64 = outcome.runs.iter().map(|run| run.checked_translations).sum();
    let accesses: u64 = outcome.runs.iter().map(|run| run.simulated_accesses).sum();
    let executed: u64 = outcome.runs.iter().map(|run| run.simulated_instructions).sum();
    let busy: f64 = outcome.runs.iter().map(|run: &RunResult| run.sim_host_seconds - run.sim_host_setup_seconds).sum();
    let verdict = if checked > 0 {
        format!("the oracle checked {} translations", ambulator_experiments::count(checked as f64))
    } else {
        "the oracle was off".into()
    };
    print(&format!(
        "\n{verdict}. Simulator: {} in total, {:.1} M instructions and {:.1} M accesses per second and thread.",
        seconds(took),
        executed as f64 / busy.max(1e-9) / 1e6,
        accesses as f64 / busy.max(1e-9) / 1e6,
    ));
}

/// The jobs, and the files that describe them.
fn jobs(arguments: &ProgramArguments, designs: &[String]) -> Result<(Vec<Job>, InputFiles), Failure> {
    let mut options = Vec::new();
    for (key, value) in [("run.instructions", &arguments.instructions), ("run.warmup", &arguments.warmup)] {
        if let Some(value) = value {
            let count =
                parse_count(value).map_err(|e| Failure::bad(format!("--{}: {e}", key.trim_start_matches("run."))))?;
            options.push(format!("{key}={count}"));
        }
    }
    if let Some(seed) = arguments.seed {
        options.push(format!("run.seed={}", seed_text(seed)));
    }
    let mixed = names(arguments).len();
    if let Some(cores) = arguments.cores.or((mixed > 1).then_some(mixed as u32)) {
        options.push(format!("machine.cores={cores}"));
    }
    if arguments.spread_threads {
        options.push("run.spread_threads=true".into());
    }
    if arguments.functional {
        options.push("run.mode=\"functional\"".into());
    }
    if arguments.no_oracle {
        options.push("run.oracle=false".into());
    }
    options.extend(arguments.machine.set.iter().cloned());
    let designs: Vec<Option<String>> =
        if designs.is_empty() { vec![None] } else { designs.iter().map(|d| Some(d.trim().to_owned())).collect() };
    let (mut jobs, mut inputs) = (Vec::<Job>::new(), InputFiles::default());
    for design in designs {
        let loaded = load(&SpecRequest {
            machine: arguments.machine.machine.clone(),
            design: design.clone(),
            files: arguments.machine.spec.clone(),
            options: options.clone(),
        })
        .map_err(Failure::bad)?;
        inputs.extend(loaded.files);
        let name = design.unwrap_or(loaded.design);
        if jobs.iter().any(|job| job.design == name) {
            return Err(Failure::bad(format!("--designs: `{name}` is named twice; name each design once")));
        }
        jobs.push(Job { design: name, spec: loaded.spec });
    }
    Ok((jobs, inputs))
}

/// Whether a program's name is the path of a trace or of a workload.
fn is_file(name: &str) -> bool {
    ambulator_workloads::program(name).is_none() && preset(PresetKind::Workload, name).is_none()
}

/// The programs of a mix: names or trace files between commas.
fn names(arguments: &ProgramArguments) -> Vec<&str> {
    arguments.program.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// A program that runs under the capture.
fn live(arguments: &ProgramArguments, spec: &Spec) -> Result<Box<dyn RecordSource>, Failure> {
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
    crate::capture::live(&arguments.command, skip)
}

/// Seeds above the range of TOML's integers are written as text.
fn seed_text(seed: u64) -> String {
    if i64::try_from(seed).is_ok() { seed.to_string() } else { format!("\"{seed}\"") }
}

fn open_programs(arguments: &ProgramArguments, spec: &Spec) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
    let footprint = match &arguments.footprint {
        Some(text) => Some(parse_size(text).map_err(|e| Failure::bad(format!("--footprint: {e}")))?),
        None => None,
    };
    let names = names(arguments);
    let open = |name: &str, number: usize| {
        let seed = spec.run.seed.wrapping_add(number as u64);
        let request = program_request(name, &arguments.program_set, footprint, seed).map_err(|e| e.to_string())?;
        ambulator_workloads::open(&request).map_err(|e| e.to_string())
    };
    open_mix(&names, spec, open).map_err(Failure::bad)
}
