//! `sweep`: a study's cells, those that are missing, and their table.

use crate::arguments::SweepArguments;
use crate::output::{report, warn};
use crate::table_files::TableFiles;
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, SOME_FAILED, cluster, interrupt, progress, requests, store};
use ambulator_base::{InputFiles, distinct_notes, lock, split_names};
use ambulator_experiments::{
    Estimate, Extent, Figure, FigureProgram, Reuse, Runner, Seeds, Size, Study, Trials, bytes, estimate,
    memory_available, numbered, seconds, short_hash, traces_of, untimed_daemons,
};
use ambulator_simulator::Silent;
use ambulator_simulator::spec::{PresetKind, parse_size, preset};
use serde_json::{Map, Value};
use std::sync::Arc;

pub fn sweep(arguments: &SweepArguments) -> Result<u8, Failure> {
    let figure = figure(arguments)?;
    let mut inputs: InputFiles = traces_of(&figure).into_iter().chain(arguments.study.clone()).collect();
    inputs.append(store::inputs(&arguments.store));
    let memory = match &arguments.memory {
        Some(text) => parse_size(text).map_err(|error| Failure::bad(format!("--memory: {error}")))?,
        None => memory_available(),
    };
    let files = TableFiles::prepare(&arguments.table, &inputs)?;
    let stop = interrupt::stop_flag();
    let size = if arguments.quick { Size::Quick } else { Size::Full };
    let study = {
        let figure = figure.clone();
        interrupt::abandoned_when_stopped(move || Study::of(&figure, size).map_err(Failure::bad))?
    };
    study.missing.iter().for_each(|missing| warn(missing));
    if study.cells.is_empty() {
        return Err(Failure::bad("the study has no cells"));
    }
    if let Some((option, why)) = study.without_effect(&options(&figure)).first() {
        return Err(Failure::bad(format!("`{option}` has no effect in any cell of the study: {why}")));
    }
    let store = store::open(&arguments.store)?;
    let reuse = match arguments.store.fresh {
        true => Reuse::Nothing,
        false if arguments.retry_failed => Reuse::Final,
        false => Reuse::All,
    };
    let mut runner = Runner {
        store: store.clone(),
        reuse,
        checkpoints: store::checkpoints(arguments.store.checkpoint.as_deref().or(figure.checkpoint.as_deref()))?,
        threads: arguments.threads,
        memory,
        stop,
        progress: Arc::new(Silent),
    };
    if arguments.cluster.is_asked() {
        return cluster::sweep(arguments, &study, runner);
    }
    let known = store.as_ref().map(|store| lock(store));
    let mut trials = arguments.dry_run.then(Trials::default);
    let estimate = estimate(&study.cells, known.as_deref(), reuse, &runner, trials.as_mut());
    drop(known);
    let plan = plan(&study, &estimate, &runner);
    if arguments.dry_run {
        plan.iter().for_each(|line| print_folded(line, 2));
        return Ok(DONE);
    }
    if !arguments.no_progress {
        plan.iter().for_each(|line| report(line));
    }
    let command: Vec<String> = std::env::args().collect();
    if let Some(store) = &store {
        // A study that cannot be described is one whose results cannot be kept: that is told with the first.
        if let Err(error) = lock(store).write_study(&study.name, &study.description(&command)) {
            warn(&error);
        }
    }
    runner.progress = progress::cells(study.cells.len(), !arguments.no_progress);
    let mut finished = runner.run(study.cells.clone());
    study.set_speedups(&mut finished);
    let mut code = store::finish(&arguments.store, store.as_ref(), finished.not_stored.as_ref());
    finished.fewer_threads.iter().for_each(|why| warn(why));
    finished.notes.iter().for_each(|note| warn(note));
    let cautions: Vec<String> =
        finished.cells.iter().flatten().filter_map(|ended| untimed_daemons(&ended.run)).collect();
    distinct_notes(cautions).iter().for_each(|caution| warn(caution));
    let grid = study.grid(&finished, Extent::Brief);
    if !arguments.quiet && !files.take_standard_output() {
        if !study.title.is_empty() {
            print_folded(&format!("{}\n", study.title), 0);
        }
        crate::output::print(&grid.terminal(terminal::width()));
        let summary = study.summary(&finished);
        crate::output::print("");
        let sentences = study.about_intervals(&finished).into_iter().chain(summary);
        sentences.for_each(|sentence| print_folded(&sentence, 0));
    }
    finished.checkpoints.iter().filter(|_| !arguments.quiet).for_each(|told| report(told));
    store::told(store.as_ref(), &finished).filter(|_| !arguments.quiet).iter().for_each(|told| report(told));
    let failures = study.failures(&finished);
    failures.iter().for_each(|failure| report(failure));
    let open = finished.cells.iter().filter(|ended| ended.is_none()).count();
    if open > 0 {
        report(&format!("{open} cells have not run; the same command runs them"));
    }
    if !failures.is_empty() && reuse == Reuse::All {
        report("cells that have failed are not tried again, unless --retry-failed asks for it");
    }
    if !failures.is_empty() || open > 0 || !study.missing.is_empty() || finished.not_stored.is_some() {
        code = SOME_FAILED;
    }
    files.write(&study.grid(&finished, Extent::All), &study.grid(&finished, Extent::Page))?;
    Ok(code)
}

/// The study of the arguments.
fn figure(arguments: &SweepArguments) -> Result<Figure, Failure> {
    let mut figure = match &arguments.study {
        Some(path) => Figure::read(path).map_err(Failure::bad)?,
        None => of_options(arguments)?,
    };
    figure.set.extend(arguments.set.iter().cloned());
    let asked = |own: Option<String>, asked: &Option<String>| asked.clone().or(own);
    figure.footprint = asked(figure.footprint, &arguments.footprint);
    figure.instructions = asked(figure.instructions, &arguments.instructions);
    figure.warmup = asked(figure.warmup, &arguments.warmup);
    if let Some(count) = arguments.seeds {
        figure.seeds = Some(Seeds::Count(count));
    }
    figure.check().map_err(Failure::bad)?;
    Ok(figure)
}

/// The study of a grid on the command line.
fn of_options(arguments: &SweepArguments) -> Result<Figure, Failure> {
    if arguments.designs.is_empty() || arguments.programs.is_empty() {
        return Err(Failure::bad(
            "nothing to run: name the file of a study, or both --designs and --programs, such as `ambulator sweep --designs \
             radix,thp --programs gups`",
        ));
    }
    let known =
        |name: &str| ambulator_workloads::program(name).is_some() || preset(PresetKind::Workload, name).is_some();
    let programs = arguments.programs.iter().flat_map(|list| split_names(list, ',', known, requests::is_file));
    let programs = programs.filter(|name| !name.is_empty());
    let more_programs =
        programs.map(|name| FigureProgram { name: name.to_owned(), ..FigureProgram::default() }).collect();
    let is_machine = |name: &str| preset(PresetKind::Machine, name).is_some();
    let machines = arguments.machine.iter().flat_map(|list| split_names(list, ',', is_machine, requests::is_file));
    let machines = machines.map(str::to_owned).collect();
    let mut vary = Map::new();
    for option in &arguments.vary {
        let Some((key, values)) = option.split_once('=') else {
            let what = "write the setting and its values, such as --vary mmu.l2_tlb.entries=512,1024";
            return Err(Failure::bad(format!("`--vary {option}` has no `=`: {what}")));
        };
        let values: Vec<Value> = values.split(',').map(|value| value.trim().into()).collect();
        if vary.insert(key.trim().to_owned(), values.into()).is_some() {
            return Err(Failure::bad(format!(
                "`{}` is varied twice: give all of its values in one --vary",
                key.trim()
            )));
        }
    }
    let text = format!("{:?} {:?} {:?} {:?}", arguments.designs, arguments.programs, arguments.machine, arguments.vary);
    let name = format!("sweep-{:08x}", short_hash(&text));
    let designs = requests::design_names(&arguments.designs);
    Ok(Figure::grid(name, machines, designs, more_programs, vary))
}

/// The settings of a study, as options.
fn options(figure: &Figure) -> Vec<String> {
    let varied = figure.axes().into_iter().filter_map(|(key, values)| Some(format!("{key}={}", values.first()?)));
    figure.set.iter().cloned().chain(varied).collect()
}

/// How times are known.
pub fn known_by(estimate: &Estimate) -> String {
    let by = [
        "stored cells of the same design and program",
        "stored cells of the same program",
        "other stored cells",
        "a trial of 100,000 instructions",
    ];
    let known = by.iter().zip(estimate.known_by).filter(|(_, count)| *count > 0);
    known.map(|(by, count)| format!("{count} by {by}")).collect::<Vec<_>>().join(", ")
}

/// What will run, and what that takes.
fn plan(study: &Study, estimate: &Estimate, runner: &Runner) -> Vec<String> {
    let Estimate { cells, stored, failed, impossible, streams, .. } = *estimate;
    let missing = cells - stored - impossible;
    let mut lines = vec![format!(
        "{} ({}, {}): {stored} in the store{}{}, {missing} to run from {}",
        numbered(cells, "cell"),
        numbered(study.points.len(), "place"),
        numbered(study.seeds.len(), "seed"),
        if failed > 0 { format!(" ({failed} have failed)") } else { String::new() },
        if impossible > 0 { format!(", {impossible} impossible") } else { String::new() },
        numbered(streams, "decoded stream"),
    )];
    if missing == 0 {
        return lines;
    }
    let threads = match runner.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        threads => threads,
    };
    let threads = threads.min(missing);
    lines.push(match estimate.seconds {
        Some(time) => {
            format!("time: about {} on {threads} threads ({})", seconds(time / threads as f64), known_by(estimate))
        }
        None => "time: not known, because the store has no cells like these (--dry-run tries them)".to_owned(),
    });
    lines.push(format!(
        "memory: up to {} for a cell and its program, {} for all of a stream at once; {} may be used",
        bytes(estimate.largest_cell as f64),
        bytes(estimate.largest_stream as f64),
        bytes(runner.memory as f64)
    ));
    if estimate.largest_cell > runner.memory {
        lines.push("warning: the largest cell needs more memory than may be used; it runs alone".to_owned());
    }
    lines
}
