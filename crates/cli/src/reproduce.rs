//! `reproduce`.

use crate::arguments::ReproduceArguments;
use crate::output::{JsonOutput, report, warn};
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress, store};
use ambulator_base::{InputFiles, OutputFile, lock};
use ambulator_experiments::{
    Figure, FigureResult, Runner, Size, Whole, figures_of, memory_available, reproduce as reproduce_figure, traces_of,
};
use ambulator_report::published_report;
use ambulator_simulator::spec::parse_count;
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
    for (number, figure) in figures.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            code = SOME_FAILED;
            break;
        }
        if !arguments.no_progress {
            let (number, of) = (number + 1, figures.len());
            report(&format!("{number} of {of}: {}: {}", figure.full_name(), figure.title));
        }
        let size = if arguments.quick { Size::Quick } else { Size::Full };
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
