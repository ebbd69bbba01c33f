//! `reproduce`.

use crate::arguments::ReproduceArguments;
use crate::output::{JsonOutput, report, warn};
use crate::sweep::known_by;
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress, store};
use ambulator_base::{InputFiles, OutputFile, lock};
use ambulator_experiments::{
    Cell, Estimate, Figure, FigureResult, Runner, Size, Trials, Whole, bytes, cells_of, estimate, figures_of,
    memory_available, numbered, reproduce as reproduce_figure, seconds, traces_of,
};
use ambulator_report::published_report;
use ambulator_simulator::Silent;
use ambulator_simulator::spec::parse_count;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

pub fn reproduce(arguments: &ReproduceArguments) -> Result<u8, Failure> {
    let figures = figures(arguments.figure.as_deref())?;
    let whole = whole(arguments.whole.as_deref())?;
    let mut inputs: InputFiles = figures.iter().flat_map(traces_of).collect();
    inputs.extend(arguments.figure.as_ref().filter(|name| Path::new(name).is_file()));
    inputs.append(store::inputs(&arguments.store));
    let output = JsonOutput::prepare(arguments.json.as_deref(), &inputs)?;
    let report_file = arguments.report.as_deref().map(|path| OutputFile::prepare_beside(path, &inputs));
    let report_file = report_file.transpose().map_err(Failure::bad)?;
    let to_stdout = output.as_ref().is_some_and(JsonOutput::takes_standard_output);
    let store = store::open(&arguments.store)?;
    let stop = interrupt::stop_flag();
    let results = Arc::new(Mutex::new(Vec::<FigureResult>::new()));
    let output = output.map(|output| {
        let results = Arc::clone(&results);
        output.keep_if_ended(move || {
            let results = lock(&results);
            if results.is_empty() { None } else { serde_json::to_vec_pretty(&*results).ok() }
        })
    });
    let mut code = DONE;
    let checkpoints = store::checkpoints(arguments.store.checkpoint.as_deref())?;
    let size = if arguments.quick { Size::Quick } else { Size::Full };
    if arguments.dry_run {
        let runner = Runner {
            store,
            reuse: store::reuse(&arguments.store),
            checkpoints,
            threads: arguments.threads,
            memory: memory_available(),
            stop,
            progress: Arc::new(Silent),
        };
        return plan(&figures, size, whole, &runner, !arguments.no_progress);
    }
    for (number, figure) in figures.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            code = SOME_FAILED;
            break;
        }
        if !arguments.no_progress {
            let (number, of) = (number + 1, figures.len());
            report(&format!("{number} of {of}: {}: {}", figure.full_name(), figure.title));
        }
        let runner = Runner {
            store: store.clone(),
            reuse: store::reuse(&arguments.store),
            checkpoints: checkpoints.clone(),
            threads: arguments.threads,
            memory: memory_available(),
            stop: stop.clone(),
            progress: progress::cells(figure.count() * if whole.is_some() { 2 } else { 1 }, !arguments.no_progress),
        };
        match reproduce_figure(figure, size, whole, &runner) {
            Ok(result) => {
                if to_stdout {
                    result.missing.iter().for_each(|missing| report(&format!("{}: {missing}", result.figure)));
                } else {
                    print_folded(&format!("{}\n", result.table(terminal::width())), 2);
                }
                result.notes.iter().for_each(|note| warn(note));
                result.checkpoints.iter().for_each(|told| report(told));
                if !result.missing.is_empty() {
                    code = SOME_FAILED;
                }
                lock(&results).push(result);
            }
            Err(message) => {
                report(&format!("{}: {message}", figure.full_name()));
                code = SOME_FAILED;
            }
        }
    }
    code = code.max(store::finish(&arguments.store, store.as_ref(), None));
    let mut written = Vec::new();
    if let Some(output) = output {
        let text = serde_json::to_vec_pretty(&*lock(&results)).map_err(Failure::failed)?;
        written.push(output.write(text));
    }
    if let Some(file) = report_file {
        let page = published_report(&lock(&results), &figures.iter().collect::<Vec<_>>());
        written.push(file.write(page.as_bytes()).map_err(Failure::failed));
    }
    Failure::of_outputs(written)?;
    Ok(code)
}

/// What each figure will take, and all of them, without running them.
fn plan(
    figures: &[Figure],
    size: Size,
    whole: Option<Whole>,
    runner: &Runner,
    shows_progress: bool,
) -> Result<u8, Failure> {
    let (mut trials, mut counted) = (Trials::default(), BTreeSet::new());
    let mut all = Estimate { seconds: Some(0.0), ..Estimate::default() };
    for (number, figure) in figures.iter().enumerate() {
        if shows_progress && figures.len() > 1 {
            report(&format!("{} of {}: {}: trying its programs", number + 1, figures.len(), figure.full_name()));
        }
        let cells = cells_of(figure, size, whole).map_err(Failure::bad)?;
        let quick = cells_of(figure, Size::Quick, whole).map_err(Failure::bad)?;
        if quick.len() == cells.len() {
            cells.iter().zip(&quick).for_each(|(cell, quick)| trials.try_instead(cell, quick));
        }
        // Figures share cells.
        let new: Vec<Cell> = cells.iter().filter(|cell| counted.insert(cell.key().to_owned())).cloned().collect();
        let store = runner.store.as_ref().map(|store| lock(store));
        let own = estimate(&new, store.as_deref(), runner.reuse, runner, Some(&mut trials));
        if runner.stop.load(Ordering::Relaxed) {
            return Ok(SOME_FAILED);
        }
        let shared = if new.len() < cells.len() { ", without those of figures above" } else { "" };
        print_folded(&format!("{}: {}{shared}", figure.full_name(), described(&own, runner)), 2);
        all.add(&own);
    }
    if figures.len() > 1 {
        print_folded(&format!("all {} figures: {}", figures.len(), described(&all, runner)), 2);
    }
    Ok(DONE)
}

/// What cells take, in a line.
fn described(estimate: &Estimate, runner: &Runner) -> String {
    let Estimate { cells, stored, impossible, .. } = *estimate;
    let missing = cells - stored - impossible;
    let impossible = if impossible > 0 { format!(", {impossible} impossible") } else { String::new() };
    let mut text = format!("{cells} runs, {stored} of them in the store{impossible}, {missing} to run");
    if missing > 0 {
        let threads = match runner.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            threads => threads,
        };
        let threads = threads.min(missing);
        text += &match estimate.seconds {
            Some(time) => format!(
                ": about {} on {} ({})",
                seconds(time / threads as f64),
                numbered(threads, "thread"),
                known_by(estimate)
            ),
            None => ": the time is not known".to_owned(),
        };
        text += &format!(", and up to {} of memory for one", bytes(estimate.largest_cell as f64));
    }
    text
}

/// How whole programs run, if they do.
fn whole(asked: Option<&str>) -> Result<Option<Whole>, Failure> {
    let count = |text: &str| match parse_count(text) {
        Ok(0) => {
            Err(Failure::bad("--whole: 0 instructions are no program; leave the number out, or give one such as 1G"))
        }
        Ok(count) => Ok(count),
        Err(error) => Err(Failure::bad(format!("--whole: {error}"))),
    };
    let Some(text) = asked else { return Ok(None) };
    let instructions = Some(text).filter(|text| !text.is_empty()).map(count).transpose()?;
    Ok(Some(Whole { instructions }))
}

/// The figures of a name, or the one of a user's file.
fn figures(what: Option<&str>) -> Result<Vec<Figure>, Failure> {
    let file = what.filter(|what| what.ends_with(".toml") || Path::new(what).is_file()).map(Path::new);
    let Some(file) = file else {
        return figures_of(what).map(|all| all.into_iter().cloned().collect()).map_err(Failure::bad);
    };
    let figure = Figure::read(file).map_err(Failure::bad)?;
    if figure.metrics.is_empty() {
        return Err(Failure::bad(format!(
            "{0}: it has no metrics, so there is nothing to compare with a publication: add [[metrics]], or run it with \
             `ambulator sweep {0}`",
            file.display()
        )));
    }
    Ok(vec![figure])
}
