//! `reproduce`.

use crate::arguments::ReproduceArguments;
use crate::output::{JsonOutput, report};
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress};
use ambulator_experiments::{Reproduction, Size, figures_of, reproduce as reproduce_figure};
use std::sync::atomic::Ordering;

pub fn reproduce(arguments: &ReproduceArguments) -> Result<u8, Failure> {
    let figures = figures_of(arguments.figure.as_deref()).map_err(Failure::bad)?;
    let output = JsonOutput::prepare(arguments.json.as_deref())?;
    let to_stdout = output.as_ref().is_some_and(JsonOutput::takes_standard_output);
    let stop = interrupt::stop_flag();
    let (mut results, mut code) = (Vec::new(), DONE);
    for (number, figure) in figures.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            code = SOME_FAILED;
            break;
        }
        if !arguments.no_progress {
            let (number, of) = (number + 1, figures.len());
            report(&format!("{number} of {of}: {}/{}: {}", figure.paper, figure.name, figure.title));
        }
        let how = Reproduction {
            size: if arguments.quick { Size::Quick } else { Size::Full },
            folder: arguments.out.clone(),
            threads: arguments.threads,
            stop: stop.clone(),
            progress: progress::bars(&figure.designs, !arguments.no_progress),
        };
        match reproduce_figure(figure, &how) {
            Ok(result) => {
                if !to_stdout {
                    print_folded(&format!("{}\n", result.table(terminal::width())), 2);
                }
                if !result.missing.is_empty() {
                    code = SOME_FAILED;
                }
                results.push(result);
            }
            Err(message) => {
                report(&format!("{}/{}: {message}", figure.paper, figure.name));
                code = SOME_FAILED;
            }
        }
    }
    if let Some(output) = output {
        let text = serde_json::to_vec_pretty(&results).map_err(Failure::failed)?;
        output.write(&text)?;
    }
    Ok(code)
}
