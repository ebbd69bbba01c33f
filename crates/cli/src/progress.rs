//! Progress on the terminal: a line for each design, with rate and time left.

use ambulator_experiments::count;
use ambulator_simulator::{Phase, Progress, RunResult, Schema, Status};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
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
