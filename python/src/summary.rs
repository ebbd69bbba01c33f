//! What cells that have run say together: rows, speed-ups, the verdict, the table.

use ambulator_base::distinct_notes;
use ambulator_experiments::row::{CellInfo, Row, columns, counter_columns, spec_hash};
use ambulator_experiments::seed_row::{row_over_seeds, seeds_column};
use ambulator_experiments::{
    Bounds, Document, SpeedUp, cautions, comparison_table, core_table, mean_over_seeds, reasons,
};
use ambulator_simulator::{Outcome, RunResult, Schema, Status, set_speedups};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Cells that are compared with each other.
pub struct Group {
    /// By design: the numbers of its cells, one for each seed. Speed-ups are relative to the first design.
    pub cells: Vec<Vec<usize>>,
    /// Which run bounds each design.
    pub bounds: Bounds,
    /// By run that is a bound: the numbers of its cells, one for each seed.
    pub bound_runs: Vec<Vec<usize>>,
    /// Instructions of the whole program of each core, as far as they are known.
    pub lengths: Vec<Option<u64>>,
}

/// Cells that have run, their bounds among them.
#[derive(Default)]
pub struct Finished {
    /// What rows say besides the run.
    pub infos: Vec<CellInfo>,
    /// The runs.
    pub runs: Vec<RunResult>,
    /// Whether each was in the store.
    pub stored: Vec<bool>,
    /// Which cells are compared.
    pub groups: Vec<Group>,
    /// Units and meanings of the counters.
    pub schema: Schema,
    /// Notes on programs and warnings on runs.
    pub notes: Vec<String>,
    /// The command that made them.
    pub command: Vec<String>,
    /// Seconds of the sim host.
    pub seconds: f64,
}

/// The runs of a group.
struct Compared {
    /// By design: its run, or the mean over the seeds.
    runs: Vec<RunResult>,
    /// By run that is a bound: the same.
    bounds: Vec<RunResult>,
    /// The runs of each design with each seed.
    by_seed: Vec<OfSeed>,
}

/// A run with one seed.
struct OfSeed {
    /// The number of its cell.
    at: usize,
    /// The first design's run with this seed.
    base: RunResult,
    /// The run, with its speed-ups over it.
    run: RunResult,
}

impl Finished {
    /// An object with `runs` (rows), `by_seed` (rows of each seed), `bounds` and `bounds_by_seed` (rows),
    /// `stored` (cells that were in the store), `cells` and `done` (how many there are, and have run to their
    /// end), `columns` (units and meanings), `specs` (JSON texts by hash), `verdict`, `reasons`, `notes`,
    /// `table`, `documents` (JSON texts, one for each group) and `seconds`.
    pub fn as_json(&self) -> Value {
        let specs: Map<String, Value> =
            self.runs.iter().map(|run| (spec_hash(&run.spec), run.spec.to_string().into())).collect();
        let (mut rows, mut by_seed, mut bounds, mut bounds_by_seed) = (vec![], vec![], vec![], vec![]);
        let (mut verdict, mut why, mut tables, mut documents) = (vec![], vec![], vec![], vec![]);
        let mut notes = self.notes.clone();
        let row = |at: usize, run: &RunResult| row_over_seeds(&self.infos[at], run);
        for group in &self.groups {
            let Compared { runs, bounds: of_group, by_seed: of_seeds } = self.compared(group);
            let told = group.bounds.verdict(&runs, &of_group);
            let first = |cells: &Vec<Vec<usize>>, design: usize| cells[design][0];
            let with_speedup =
                |(at, base, run): (usize, &RunResult, &RunResult)| Value::Object(with_speedup(row(at, run), base, run));
            rows.extend(runs.iter().enumerate().map(|(d, run)| with_speedup((first(&group.cells, d), &runs[0], run))));
            by_seed.extend(of_seeds.iter().map(|OfSeed { at, base, run }| with_speedup((*at, base, run))));
            bounds.extend(
                of_group.iter().enumerate().map(|(b, run)| Value::Object(row(first(&group.bound_runs, b), run))),
            );
            bounds_by_seed.extend(group.bound_runs.iter().flatten().map(|at| Value::Object(row(*at, &self.runs[*at]))));
            why.extend(reasons(&runs, told.told.as_deref()));
            notes.extend(cautions(&runs, &group.lengths));
            let about = about_seeds(&runs).map_or_else(String::new, |about| about + "\n");
            tables.extend([Some(about + &comparison_table(&runs, None)), core_table(&runs, None)]);
            let notes = self.notes.clone();
            let outcome = Outcome { runs: runs.clone(), schema: self.schema.clone(), notes, fewer_threads: None };
            let bounds = group.bounds.document(&runs, of_group);
            let document =
                Document { verdict: told.sentences.clone(), bounds, ..Document::new(self.command.clone(), outcome) };
            documents.push(serde_json::to_string_pretty(&document).unwrap_or_default());
            verdict.extend(told.sentences);
        }
        let mut known = columns();
        known.extend(counter_columns(&self.schema));
        known.extend([("seeds".to_owned(), seeds_column())]);
        let cells: Vec<usize> = self.groups.iter().flat_map(|group| group.cells.iter().flatten().copied()).collect();
        let count = |is: &dyn Fn(usize) -> bool| cells.iter().filter(|at| is(**at)).count();
        json!({
            "runs": rows,
            "by_seed": by_seed,
            "bounds": bounds,
            "bounds_by_seed": bounds_by_seed,
            "stored": count(&|at| self.stored[at]),
            "cells": cells.len(),
            "done": count(&|at| self.runs[at].status == Status::Done),
            "columns": known,
            "specs": specs,
            "verdict": verdict,
            "reasons": why,
            "notes": distinct_notes(notes),
            "table": tables.into_iter().flatten().collect::<Vec<_>>().join("\n\n"),
            "documents": documents,
            "seconds": self.seconds,
        })
    }

    /// The runs of a group: means over the seeds that were not interrupted, if there are any.
    fn compared(&self, group: &Group) -> Compared {
        let all = || group.cells.iter().chain(&group.bound_runs);
        let seeds = all().map(Vec::len).max().unwrap_or(0);
        let run = |of: &Vec<usize>, seed: usize| of.get(seed).map(|at| &self.runs[*at]);
        let is_whole =
            |seed: &usize| all().filter_map(|of| run(of, *seed)).all(|run| run.status != Status::Interrupted);
        let whole: Vec<usize> = (0..seeds).filter(is_whole).collect();
        let kept = if whole.is_empty() { (0..seeds).collect() } else { whole };
        let mut means: Vec<Vec<RunResult>> = vec![Vec::new(); group.cells.len() + group.bound_runs.len()];
        let mut by_seed: BTreeMap<(usize, usize), OfSeed> = BTreeMap::new();
        for seed in 0..seeds {
            // A cell that cannot be is the same with each seed, and there once.
            let mut runs: Vec<RunResult> =
                all().filter_map(|cells| run(cells, seed).or(run(cells, 0))).cloned().collect();
            set_speedups(&mut runs);
            for (of, cells) in all().enumerate() {
                let Some(at) = cells.get(seed) else { continue };
                if of < group.cells.len() {
                    by_seed.insert((of, seed), OfSeed { at: *at, base: runs[0].clone(), run: runs[of].clone() });
                }
                if kept.contains(&seed) {
                    means[of].push(runs[of].clone());
                }
            }
        }
        let run_of = |(of, runs): (usize, Vec<RunResult>)| {
            let alone = || all().nth(of).and_then(|cells| run(cells, 0)).cloned().unwrap_or_default();
            mean_over_seeds(runs).unwrap_or_else(alone)
        };
        let mut runs: Vec<RunResult> = means.into_iter().enumerate().map(run_of).collect();
        let bounds = runs.split_off(group.cells.len());
        Compared { runs, bounds, by_seed: by_seed.into_values().collect() }
    }
}

/// What the numbers of a table are means of.
fn about_seeds(runs: &[RunResult]) -> Option<String> {
    let seeds = runs.iter().map(|run| run.over_seeds.len()).max().filter(|seeds| *seeds > 1)?;
    Some(format!("Means over {seeds} seeds, ± half of the 95% interval (Student's t):"))
}

/// The row with the speed-up of its run over another, as far as there is one, after `ipc`.
fn with_speedup(row: Row, base: &RunResult, run: &RunResult) -> Row {
    let speedup = SpeedUp::of(base, run);
    let bound = |sign: f64| speedup.and_then(|of| of.half.map(|half| (of.ratio + sign * half).max(0.0)));
    let weighted = SpeedUp::weighted(base, run).filter(|_| speedup.is_some());
    let mut values = vec![
        ("speedup", speedup.map(|of| of.ratio).into()),
        ("speedup ±", speedup.and_then(|of| of.half).into()),
        ("speedup.low", bound(-1.0).into()),
        ("speedup.high", bound(1.0).into()),
        ("speedup.differs", speedup.map(|of| of.differs()).into()),
        ("speedup.weighted", weighted.map(|of| of.ratio).into()),
        ("speedup.weighted ±", weighted.and_then(|of| of.half).into()),
    ];
    let after = if run.over_seeds.is_empty() { "ipc" } else { "ipc ±" };
    let mut all = Row::new();
    for (name, value) in row {
        let here = name == after;
        all.insert(name, value);
        if here {
            all.extend(values.drain(..).map(|(name, value): (&str, Value)| (name.to_owned(), value)));
        }
    }
    all
}
