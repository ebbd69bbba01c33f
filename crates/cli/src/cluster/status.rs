//! `sweep --status`.

use super::{slurm, thread_seconds};
use crate::terminal::print_folded;
use crate::{DONE, Failure, SOME_FAILED};
use ambulator_base::lock;
use ambulator_experiments::{Claims, Progression, Runner, Store, Study, seconds};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Cells, workers or failures that are named one by one.
const MOST_NAMED: usize = 12;

pub fn show(study: &Study, store: &Mutex<Store>, claims: &Claims, runner: &Runner) -> Result<u8, Failure> {
    let so_far = Progression::of(&study.cells, store, claims).map_err(Failure::failed)?;
    let folder = lock(store).folder().display().to_string();
    for line in lines(study, &so_far, &folder) {
        print_folded(&line, 4);
    }
    if let Some(jobs) = slurm::active(study, store) {
        let slurm::Active { running, waiting } = jobs;
        if running + waiting > 0 {
            print_folded(&format!("Slurm: {running} tasks run, {waiting} wait"), 4);
        }
    }
    if !so_far.running.is_empty() || !so_far.missing.is_empty() {
        print_folded(&expected(thread_seconds(study, store, runner), &so_far, now()), 4);
    }
    Ok(if so_far.done == so_far.cells { DONE } else { SOME_FAILED })
}

fn lines(study: &Study, so_far: &Progression, folder: &str) -> Vec<String> {
    let named = |cells: &[usize]| {
        let names: Vec<String> = cells.iter().take(MOST_NAMED).map(|at| study.cell_name(*at)).collect();
        let more = cells.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        format!("{}{more}", names.join("; "))
    };
    let Progression { cells, done, failed, running, missing, abandoned } = so_far;
    let mut lines = vec![format!(
        "{}: {cells} cells in {folder}: {done} done, {} running, {} failed, {} missing",
        study.name,
        running.len(),
        failed.len(),
        missing.len()
    )];
    let workers = so_far.workers();
    for (claim, cells) in workers.iter().take(MOST_NAMED) {
        let who = claim.holder.as_ref().map_or("a worker that has just begun".to_owned(), |of| of.described());
        let silent = seconds(claim.silent.as_secs_f64());
        lines.push(format!("running: {who} (last heartbeat {silent} ago): {}", named(cells)));
    }
    if workers.len() > MOST_NAMED {
        lines.push(format!("running: {} workers more", workers.len() - MOST_NAMED));
    }
    let mut reasons: Vec<(&str, Vec<usize>)> = Vec::new();
    for (at, why) in failed {
        match reasons.iter_mut().find(|(of, _)| of == why) {
            Some((_, cells)) => cells.push(*at),
            None => reasons.push((why, vec![*at])),
        }
    }
    lines.extend(reasons.iter().map(|(why, cells)| format!("failed: {}: {why}", named(cells))));
    if !failed.is_empty() {
        lines.push("failed cells run again with --retry-failed".to_owned());
    }
    if !missing.is_empty() {
        let of_dead = match abandoned {
            0 => String::new(),
            count => format!(" ({count} of them were left by workers that have ended)"),
        };
        lines.push(format!("missing: {}{of_dead}", named(missing)));
    }
    lines
}

/// When it will end.
fn expected(thread_seconds: Option<f64>, so_far: &Progression, now: u64) -> String {
    let workers = so_far.workers();
    let threads: usize =
        workers.iter().filter_map(|(claim, _)| claim.holder.as_ref()).map(|of| of.threads.max(1)).sum();
    match (thread_seconds, threads) {
        (None, _) => "expected end: not known until a cell is done".to_owned(),
        (Some(time), 0) => format!("nothing runs; what is left takes about {} on one thread", seconds(time)),
        (Some(time), threads) => {
            let left = time / threads as f64;
            let (hours, minutes) = ((now + left as u64) / 3600 % 24, (now + left as u64) / 60 % 60);
            format!(
                "expected end: in {} at most, at {hours:02}:{minutes:02} UTC, with {} workers of {threads} threads \
                 together",
                seconds(left),
                workers.len()
            )
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_experiments::{Claim, Holder};
    use std::time::Duration;

    #[test]
    fn the_end_is_expected_by_the_threads_that_run() {
        let holder = Holder { token: "x".into(), threads: 4, ..Holder::default() };
        let claim = Claim { cell: "c".into(), holder: Some(holder), silent: Duration::ZERO, is_abandoned: false };
        let so_far = Progression { running: vec![(0, claim.clone()), (1, claim)], ..Progression::default() };
        let text = expected(Some(7200.0), &so_far, 23 * 3600 + 45 * 60);
        assert_eq!(text, "expected end: in 30 min 0 s at most, at 00:15 UTC, with 1 workers of 4 threads together");
        assert!(expected(None, &so_far, 0).contains("not known"));
        assert!(expected(Some(60.0), &Progression::default(), 0).starts_with("nothing runs"));
    }
}
