//! Progress on the terminal: a line for each design, with rate and time left.

use crate::output::report;
use ambulator_experiments::{count, seconds};
use ambulator_simulator::{Phase, Progress, RunResult, Schema, Status};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Progress of many cells: a bar for all of them on a terminal, and a line now and then elsewhere; silent
/// unless `wanted`. `count` is their number.
pub fn cells(count: usize, wanted: bool) -> Arc<dyn Progress> {
    if !wanted {
        return Arc::new(ambulator_simulator::Silent);
    }
    let bar = std::io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::new(1000);
        let template = "{bar:30} {msg}";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    });
    let began = Instant::now();
    let state = CellsState { parts: vec![Part::Waiting; count], failed: 0, shown: began };
    Arc::new(Cells { bar, began, state: Mutex::new(state) })
}

/// Progress of translations, of which `done` is told: a bar on a terminal, a line now and then elsewhere; silent
/// unless `wanted`.
pub fn translations(wanted: bool) -> impl Fn(usize, usize) + Sync {
    let bar = (wanted && std::io::stderr().is_terminal()).then(|| {
        let template = "{bar:30} {pos} of {len} translations, {elapsed}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::no_length().with_style(style)
    });
    let shown = Mutex::new(Instant::now());
    move |done, of| match &bar {
        Some(bar) => {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
            if done == of {
                bar.finish_and_clear();
            }
        }
        None if wanted => {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            if shown.elapsed() >= BETWEEN_LINES {
                *shown = Instant::now();
                report(&format!("{done} of {of} translations"));
            }
        }
        None => {}
    }
}

/// How far a cell is.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Waiting,
    /// The share of its instructions.
    Running(f64),
    /// It has run here.
    Done,
    /// It was in the store, or could not run.
    AtOnce,
}

struct CellsState {
    parts: Vec<Part>,
    failed: usize,
    /// When a line was last written.
    shown: Instant,
}

struct Cells {
    bar: Option<ProgressBar>,
    began: Instant,
    state: Mutex<CellsState>,
}

/// Between two lines of a log.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// How much of the work that is not in the store is done, 0 to 1, and a sentence on it.
fn so_far(state: &CellsState, took: Duration) -> (f64, String) {
    let share = |part: &Part| match part {
        Part::Waiting => Some(0.0),
        Part::Running(share) => Some(*share),
        Part::Done => Some(1.0),
        Part::AtOnce => None,
    };
    let shares: Vec<f64> = state.parts.iter().filter_map(share).collect();
    let done = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let done = if shares.is_empty() { 1.0 } else { done };
    let ended = state.parts.iter().filter(|part| matches!(part, Part::Done | Part::AtOnce)).count();
    let running = state.parts.iter().filter(|part| matches!(part, Part::Running(_))).count();
    let mut text = format!("{ended} of {} cells", state.parts.len());
    if running > 0 {
        text.push_str(&format!(", {running} running"));
    }
    if state.failed > 0 {
        text.push_str(&format!(", {} failed", state.failed));
    }
    text.push_str(&format!(", {}", seconds(took.as_secs_f64())));
    if done > 0.01 && done < 1.0 {
        text.push_str(&format!(", {} left", seconds(took.as_secs_f64() * (1.0 - done) / done)));
    }
    (done, text)
}

impl Cells {
    fn show(&self, state: &mut CellsState) {
        let (done, text) = so_far(state, self.began.elapsed());
        let all_ended = state.parts.iter().all(|part| matches!(part, Part::Done | Part::AtOnce));
        match &self.bar {
            Some(bar) => {
                bar.set_position((1000.0 * done) as u64);
                bar.set_message(text);
                if all_ended {
                    bar.finish_and_clear();
                }
            }
            None if all_ended || state.shown.elapsed() >= BETWEEN_LINES => {
                state.shown = Instant::now();
                report(&text);
            }
            None => {}
        }
    }
}

impl Progress for Cells {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = state.parts.get_mut(job) else { return };
        let share = of.map_or(0.0, |of| instructions as f64 / of.max(1) as f64);
        *part = Part::Running(if phase == Phase::Setup { 0.0 } else { share.min(1.0) });
        self.show(&mut state);
    }

    fn finished(&self, job: usize, result: &RunResult, _schema: &Schema) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = state.parts.get_mut(job) else { return };
        *part = if matches!(part, Part::Running(_)) { Part::Done } else { Part::AtOnce };
        state.failed += usize::from(result.status != Status::Done);
        self.show(&mut state);
    }
}

struct Bars {
    bars: Mutex<Vec<(ProgressBar, Phase)>>,
}

fn setup_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix}  {spinner} {msg} {elapsed}").unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn run_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix}  {bar:30} {percent:>3}%  {human_pos} instructions, {rate}, {eta} left {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            // An error here only truncates the display.
            let _ = out.write_str(&rate(state.per_sec()));
        })
}

/// Formats a rate of instructions a second.
fn rate(per_second: f64) -> String {
    format!("{}/s", count(per_second))
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

    fn finished(&self, job: usize, result: &RunResult, _schema: &Schema) {
        let bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((bar, _)) = bars.get(job) else { return };
        bar.set_style(setup_style());
        let rate = result.simulated_instructions as f64
            / (result.sim_host_seconds - result.sim_host_setup_seconds).max(1e-9)
            / 1e6;
        bar.finish_with_message(match result.status {
            Status::Done => format!("done, {rate:.1} M instructions/s of simulator time,"),
            _ => "ended early".into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{ProgressDrawTarget, TermLike};

    #[test]
    fn cells_tell_how_far_they_are_and_what_is_left() {
        let parts = vec![Part::AtOnce, Part::Done, Part::Running(0.5), Part::Waiting];
        let mut state = CellsState { parts, failed: 1, shown: Instant::now() };
        let (done, text) = so_far(&state, Duration::from_secs(30));
        assert!((done - 0.5).abs() < 1e-9, "{done}");
        assert_eq!(text, "2 of 4 cells, 1 running, 1 failed, 30.0 s, 30.0 s left");
        state.parts.truncate(1);
        assert_eq!(so_far(&state, Duration::ZERO), (1.0, "1 of 1 cells, 1 failed, 0.0 s".into()));
    }

    #[test]
    fn rates_have_three_digits_that_matter() {
        for (per_second, shown) in [(89_752_005.9, "89.8 M/s"), (1_234.7, "1235/s"), (0.0, "0/s"), (5.2e9, "5.20 G/s")]
        {
            assert_eq!(rate(per_second), shown);
        }
    }

    /// A terminal that remembers what was written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            200
        }

        fn move_cursor_up(&self, _n: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _n: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _n: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _n: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> std::io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_shows_its_rate_with_a_suffix() {
        let screen = Screen::default();
        let bar = ProgressBar::with_draw_target(Some(1 << 30), ProgressDrawTarget::term_like(Box::new(screen.clone())));
        bar.set_style(run_style());
        for step in 1..=20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            bar.set_position(step * 1_000_003);
        }
        bar.tick();
        let shown = screen.0.lock().unwrap().clone();
        let last = shown.rsplit(" instructions, ").next().unwrap();
        let rate = last.split("/s,").next().unwrap();
        assert!(rate.ends_with(" M") && rate.len() <= "99.9 M".len(), "`{rate}` in {last}");
    }
}
