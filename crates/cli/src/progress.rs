//! Progress on the terminal: a line a design, with rate and time left.

use ambulator_simulator::{Phase, Progress, RunResult, Status};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

/// Bars for designs of these names; silent unless standard error is a terminal and `wanted`.
pub fn bars(names: &[String], wanted: bool) -> Arc<dyn Progress> {
    if !wanted || !std::io::stderr().is_terminal() {
        return Arc::new(ambulator_simulator::Silent);
    }
    let all = MultiProgress::new();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let bars = names.iter().map(|name| {
        let bar = all.add(ProgressBar::no_length());
        bar.set_prefix(format!("{name:width$}"));
        bar.set_style(setup_style());
        bar.set_message("set-up");
        (bar, Phase::Setup)
    });
    Arc::new(Bars { bars: Mutex::new(bars.collect()) })
}

struct Bars {
    bars: Mutex<Vec<(ProgressBar, Phase)>>,
}

fn setup_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix}  {spinner} {msg} {elapsed}").unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn run_style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{prefix}  {bar:30} {percent:>3}%  {human_pos} instructions, {per_sec}, {eta} left {msg}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Bars {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((bar, shown)) = bars.get_mut(job) else { return };
        if *shown != phase {
            *shown = phase;
            bar.reset();
            match of {
                Some(of) => {
                    bar.set_style(run_style());
                    bar.set_length(of);
                    bar.set_message(if phase == Phase::Warmup { "(warm-up)" } else { "" });
                }
                None => bar.set_style(setup_style()),
            }
        }
        bar.set_position(instructions);
    }

    fn finished(&self, job: usize, result: &RunResult) {
        let bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((bar, _)) = bars.get(job) else { return };
        bar.set_style(setup_style());
        let rate =
            result.simulated_instructions as f64 / (result.host_seconds - result.host_setup_seconds).max(1e-9) / 1e6;
        bar.finish_with_message(match result.status {
            Status::Done => format!("done, {rate:.1} M instructions/s of host time,"),
            _ => "ended early".into(),
        });
    }
}
