//! `--trace-events`: a window of the runs as a timeline.

use crate::arguments::{ProgramArguments, TimelineArguments};
use crate::output::{report, warn};
use crate::{Failure, interrupt};
use ambulator_base::{InputFiles, OutputFile};
use ambulator_simulator::spec::{Spec, parse_count, parse_size};
use ambulator_simulator::{RecordedWindow, Timeline, TimelineRequest, WindowEnd};
use std::sync::Arc;

/// A file for timelines, which is written while designs run.
pub struct TimelineFile {
    file: OutputFile,
    /// Where runs are recorded.
    pub timeline: Arc<Timeline>,
    request: TimelineRequest,
}

fn counted(option: &str, text: &str) -> Result<u64, Failure> {
    parse_count(text).map_err(|error| Failure::bad(format!("{option}: {error}")))
}

/// The window that is asked for.
fn request(arguments: &TimelineArguments) -> Result<TimelineRequest, Failure> {
    let from = counted("--trace-from", arguments.trace_from.as_deref().unwrap_or("0"))?;
    let instructions = counted("--trace-for", arguments.trace_for.as_deref().unwrap_or("100K"))?;
    if instructions == 0 {
        return Err(Failure::bad("--trace-for: a window of 0 instructions has no events; ask for one at least"));
    }
    let limit = arguments.trace_limit.as_deref().unwrap_or("256MiB");
    let most_bytes = parse_size(limit).map_err(|error| Failure::bad(format!("--trace-limit: {error}")))?;
    Ok(TimelineRequest { from, instructions, most_bytes })
}

impl TimelineFile {
    /// The file that is asked for, if one is. It can be written, and the window begins within the run as far
    /// as that is known.
    pub fn prepare(
        arguments: &ProgramArguments,
        spec: &Spec,
        inputs: &InputFiles,
    ) -> Result<Option<TimelineFile>, Failure> {
        let Some(path) = &arguments.timeline.trace_events else { return Ok(None) };
        let request = request(&arguments.timeline)?;
        if arguments.functional {
            return Err(Failure::bad("--trace-events: a timeline has times, which --functional does not model"));
        }
        let measured = spec.run.instructions.saturating_mul(u64::from(spec.machine.cores));
        if !spec.run.spread_threads && request.from >= measured {
            return Err(Failure::bad(format!(
                "--trace-from: the window begins after {} instructions, and {measured} are measured (--instructions, on \
                 all cores together): begin it earlier",
                request.from
            )));
        }
        let file = OutputFile::prepare_beside(path, inputs).map_err(Failure::bad)?;
        let out = file.open_unless(&interrupt::stop_flag()).map_err(Failure::bad)?;
        Ok(Some(TimelineFile { file, timeline: Timeline::new(request, Box::new(out)), request }))
    }

    /// The runs have ended: completes the file, and says what is in it. False if something is missing.
    pub fn finish(self, quiet: bool) -> bool {
        let TimelineFile { file, timeline, request } = self;
        let path = file.path().display().to_string();
        let windows = match timeline.finish() {
            Ok(windows) => windows,
            Err(error) => {
                report(&format!("error: --trace-events: {path}: writing failed ({error}); the results are complete"));
                return false;
            }
        };
        let mut complete = true;
        for window in &windows {
            match ending(window, &request) {
                Some(sentence) if window.end.is_none() => {
                    report(&format!("error: --trace-events: {sentence}"));
                    complete = false;
                }
                Some(sentence) => warn(&format!("--trace-events: {sentence}")),
                None => {}
            }
        }
        let recorded: Vec<&RecordedWindow> = windows.iter().filter(|window| window.end.is_some()).collect();
        if recorded.is_empty() {
            if windows.is_empty() {
                report(&format!("error: --trace-events: nothing ran, so {path} was not written"));
            }
            return false;
        }
        if let Err(error) = file.finish() {
            report(&format!("error: --trace-events: {error}"));
            return false;
        }
        if !quiet {
            let events: u64 = recorded.iter().map(|window| window.events).sum();
            let bytes: u64 = recorded.iter().map(|window| window.bytes).sum();
            let each: Vec<String> = recorded
                .iter()
                .map(|window| {
                    format!("{} {} instructions in {} cycles", window.design, window.instructions, window.cycles)
                })
                .collect();
            report(&format!(
                "timeline in {path}: {events} events, {}; {}. Open it in ui.perfetto.dev: a microsecond there is a cycle",
                ambulator_experiments::bytes(bytes as f64),
                each.join(", ")
            ));
        }
        complete
    }
}

/// Why a window is not what was asked for, if so.
fn ending(window: &RecordedWindow, request: &TimelineRequest) -> Option<String> {
    let RecordedWindow { design, from, instructions, .. } = window;
    match window.end {
        None => Some(format!(
            "{design} ended after {from} instructions of its measured region, before the window that begins after {}: \
             begin it earlier (--trace-from)",
            request.from
        )),
        Some(WindowEnd::RunEnded) if *instructions < request.instructions => Some(format!(
            "{design}: the window ended with the run, after {instructions} of its {} instructions",
            request.instructions
        )),
        Some(WindowEnd::FileFull) => Some(format!(
            "{design}: the window ended after {instructions} of its {} instructions, because the file had {}: ask for \
             more (--trace-limit), or for fewer instructions (--trace-for)",
            request.instructions,
            ambulator_experiments::bytes(request.most_bytes as f64)
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_not_what_was_asked_for_is_explained() {
        let asked = request(&TimelineArguments::default()).unwrap_or_else(|failure| panic!("{}", failure.message));
        assert_eq!(asked, TimelineRequest { from: 0, instructions: 100_000, most_bytes: 256 << 20 });
        let mut window = RecordedWindow {
            design: "radix".into(),
            from: 0,
            instructions: 100_020,
            cycles: 5,
            events: 9,
            bytes: 90,
            end: Some(WindowEnd::Complete),
        };
        assert_eq!(ending(&window, &asked), None);
        window.end = Some(WindowEnd::RunEnded);
        assert_eq!(ending(&window, &asked), None, "it was long enough");
        window.instructions = 70;
        assert!(ending(&window, &asked).unwrap().contains("after 70 of its 100000 instructions"));
        window.end = Some(WindowEnd::FileFull);
        assert!(ending(&window, &asked).unwrap().contains("--trace-limit"));
        window.end = None;
        assert!(ending(&window, &asked).unwrap().contains("--trace-from"));
    }

    #[test]
    fn counts_that_mean_nothing_name_their_option() {
        for (option, arguments) in [
            ("--trace-from", TimelineArguments { trace_from: Some("soon".into()), ..TimelineArguments::default() }),
            ("--trace-for", TimelineArguments { trace_for: Some("0".into()), ..TimelineArguments::default() }),
            ("--trace-limit", TimelineArguments { trace_limit: Some("all".into()), ..TimelineArguments::default() }),
        ] {
            let Err(failure) = request(&arguments) else { panic!("{option} is accepted") };
            assert!(failure.message.starts_with(option), "{}", failure.message);
        }
    }
}
