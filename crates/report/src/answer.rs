//! The answer that a report opens with: for each program which design helps, by how much, and why.

use crate::study::{Comparison, Study};
use ambulator_experiments::about_sampling;
use ambulator_simulator::Status;

/// The answer for one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Which design helps, and by how much; or that none does.
    pub what: String,
    /// Why, by counters; `None` if no run has any that tell.
    pub why: Option<String>,
    /// What else is known, one sentence each: bounds, and every other design's reason.
    pub more: Vec<String>,
    /// How the runs were sampled, one sentence each; none if they were not.
    pub sampling: Vec<String>,
    /// Warnings, one sentence each.
    pub cautions: Vec<String>,
    /// Runs without an end, and why, one sentence each.
    pub ended: Vec<String>,
}

impl Answer {
    /// The answer for a comparison.
    pub fn of(study: &Study, comparison: &Comparison) -> Answer {
        let runs = study.shown_runs(comparison);
        let own_intervals = runs.iter().all(|run| run.over_seeds.is_empty());
        let mut answer = Answer {
            cautions: study.cautions(comparison),
            sampling: about_sampling(runs, own_intervals),
            ..Answer::default()
        };
        for design in &comparison.designs {
            for run in design.cells.iter().map(|number| study.run(*number)).filter(|run| run.status != Status::Done) {
                let why = run.outcome.as_deref().unwrap_or("it did not complete");
                answer.ended.push(format!("{} on {} (seed {}): {why}.", run.design, run.program, run.seed));
            }
        }
        let verdict = study.verdict(comparison);
        let mut reasons = study.reasons(comparison, verdict.told.as_deref());
        let (best, rest): (Vec<String>, Vec<String>) =
            verdict.sentences.into_iter().partition(|sentence| sentence.starts_with("Best: "));
        let (why, rest): (Vec<String>, Vec<String>) = rest.into_iter().partition(|text| text.starts_with("Why: "));
        answer.why = why.into_iter().next();
        answer.more = rest;
        if let Some(best) = best.into_iter().next() {
            answer.what = best;
        } else {
            answer.what = match study.shown_runs(comparison).as_slice() {
                [] => "No run has reached its end.".into(),
                [one] => format!("Only {} has run to its end: there is nothing to compare it with.", one.design),
                runs if runs.iter().all(|run| run.ipc == 0.0) => "Without time there is no speed-up.".into(),
                _ => "No design of these can be built, or the baseline has not run to its end.".into(),
            };
        }
        // A reason without a cycle stack, or why nothing helps.
        if answer.why.is_none() {
            let of_none = answer.what.starts_with("Best: none");
            let at = reasons.iter().position(|reason| !of_none && answer.what.starts_with(&best_of(reason)));
            answer.why = match at {
                Some(at) => Some(reasons.remove(at)),
                None if !answer.more.is_empty() => Some(answer.more.remove(0)),
                None => (!reasons.is_empty()).then(|| reasons.remove(0)),
            };
        }
        answer.more.extend(reasons);
        answer
    }

    /// Both sentences.
    pub fn sentences(&self) -> String {
        self.why.iter().fold(self.what.clone(), |text, why| format!("{text} {why}"))
    }
}

/// How the sentence begins that names the design of a reason as the best.
fn best_of(reason: &str) -> String {
    format!("Best: {},", reason.split(" is ").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::{cell, run};
    use crate::study::{Cell, Study};

    fn answer(cells: Vec<Cell>) -> Answer {
        let study = Study::new(cells);
        Answer::of(&study, &study.comparisons[0])
    }

    #[test]
    fn the_best_design_is_told_with_its_reason() {
        let stack = |design: &str, cycles: u64, walks: u64| {
            let mut run = run("gups", design, cycles);
            run.counters.insert("core.window.stack_base".into(), 2000);
            run.counters.insert("core.window.stack_walk_dram".into(), walks);
            Cell { run, ..Cell::default() }
        };
        let found = answer(vec![stack("radix", 1000, 18_000), stack("thp", 500, 8000)]);
        assert!(found.what.starts_with("Best: thp, 2.000 times as fast as radix"), "{found:?}");
        let why = "Why: 500 fewer cycles per 1000 instructions: -500 for page walks and look-ups served by DRAM.";
        assert_eq!(found.why.as_deref(), Some(why));
    }

    #[test]
    fn no_difference_within_the_interval_is_called_one() {
        let mut noisy = cell("gups", "thp", 1000);
        noisy.run.windows = (1..=20).map(|i| (i * 1000, i * 990 + 200 * (i % 2))).collect();
        noisy.run.ipc = 1.01;
        let found = answer(vec![cell("gups", "radix", 1000), noisy]);
        assert_eq!(found.what, "Best: none. No design is faster than radix beyond the 95% interval.");
        let why = found.why.as_deref().unwrap();
        assert!(why.starts_with("No difference from radix beyond the 95% interval: thp (1.010"), "{why}");
        let all = [found.sentences(), found.more.concat()].concat();
        assert!(!all.contains("times as fast"), "{all}");
    }

    #[test]
    fn seeds_decide_where_there_are_several() {
        let seed = |design: &str, seed: u64, cycles: u64| {
            let mut cell = cell("gups", design, cycles);
            cell.run.seed = seed;
            cell
        };
        // The first seed alone has thp far ahead.
        let found =
            answer(vec![seed("radix", 1, 1000), seed("radix", 2, 1000), seed("thp", 1, 500), seed("thp", 2, 1100)]);
        assert_eq!(found.what, "Best: none. No design is faster than radix beyond the 95% interval.");
        assert!(!format!("{found:?}").contains("2.000"), "{found:?}");
    }

    #[test]
    fn runs_without_an_end_are_named() {
        let mut failed = cell("gups", "thp", 1000);
        failed.run.status = Status::Outcome;
        failed.run.outcome = Some("no memory is left".into());
        let found = answer(vec![cell("gups", "radix", 1000), failed]);
        assert_eq!(found.ended, ["thp on gups (seed 1): no memory is left."]);
        assert!(found.what.starts_with("Only radix has run to its end"), "{found:?}");
    }
}
