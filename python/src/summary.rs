//! What cells that have run say together: rows, speed-ups, the verdict, the table.

use ambulator_base::distinct_notes;
use ambulator_experiments::row::{CellInfo, columns, counter_columns, row_of, spec_hash};
use ambulator_experiments::{Bounds, Document, SpeedUp, cautions, comparison_table, core_table, reasons};
use ambulator_simulator::{Outcome, RunResult, Schema, set_speedups};
use serde_json::{Map, Value, json};
use std::ops::Range;

/// Cells that are compared with each other.
pub struct Group {
    /// Their numbers; speed-ups are relative to the first.
    pub cells: Range<usize>,
    /// Which run bounds each.
    pub bounds: Bounds,
    /// The numbers of the runs that are bounds.
    pub bound_runs: Vec<usize>,
    /// Instructions of the whole program of each core, as far as they are known.
    pub lengths: Vec<Option<u64>>,
}

/// Cells that have run, and after them their bounds.
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

impl Finished {
    /// An object with `runs` (rows), `speedups` and `stored` by run, `bounds` (rows), `columns` (units and
    /// meanings), `specs` (JSON texts by hash), `verdict`, `reasons`, `notes`, `table`, `documents` (JSON
    /// texts, one for each group) and `seconds`.
    pub fn as_json(&self) -> Value {
        let cells = self.groups.last().map_or(0, |group| group.cells.end);
        let row = |at: usize| Value::Object(row_of(&self.infos[at], &self.runs[at]));
        let specs: Map<String, Value> =
            self.runs.iter().map(|run| (spec_hash(&run.spec), run.spec.to_string().into())).collect();
        let (mut speedups, mut verdict, mut why, mut tables, mut documents) = (vec![], vec![], vec![], vec![], vec![]);
        let mut notes = self.notes.clone();
        for group in &self.groups {
            let mut runs = self.runs[group.cells.clone()].to_vec();
            set_speedups(&mut runs);
            let bounds: Vec<RunResult> = group.bound_runs.iter().map(|at| self.runs[*at].clone()).collect();
            let of_group = group.bounds.verdict(&runs, &bounds);
            speedups.extend(runs.iter().map(|run| speedup(&runs[0], run)));
            why.extend(reasons(&runs, of_group.told.as_deref()));
            notes.extend(cautions(&runs, &group.lengths));
            tables.extend([Some(comparison_table(&runs, None)), core_table(&runs, None)].into_iter().flatten());
            let outcome = Outcome {
                runs: runs.clone(),
                schema: self.schema.clone(),
                notes: self.notes.clone(),
                fewer_threads: None,
            };
            let bounds = group.bounds.document(&runs, bounds);
            let document = Document {
                verdict: of_group.sentences.clone(),
                bounds,
                ..Document::new(self.command.clone(), outcome)
            };
            documents.push(serde_json::to_string_pretty(&document).unwrap_or_default());
            verdict.extend(of_group.sentences);
        }
        let mut known = columns();
        known.extend(counter_columns(&self.schema));
        json!({
            "runs": (0..cells).map(row).collect::<Vec<_>>(),
            "speedups": speedups,
            "stored": self.stored[..cells],
            "bounds": (cells..self.runs.len()).map(row).collect::<Vec<_>>(),
            "columns": known,
            "specs": specs,
            "verdict": verdict,
            "reasons": why,
            "notes": distinct_notes(notes),
            "table": tables.join("\n\n"),
            "documents": documents,
            "seconds": self.seconds,
        })
    }
}

/// The speed-up of a run over another, with its interval, as far as there are any.
fn speedup(base: &RunResult, run: &RunResult) -> Value {
    let speedup = SpeedUp::of(base, run);
    let bound = |sign: f64| speedup.and_then(|of| of.half.map(|half| (of.ratio + sign * half).max(0.0)));
    let weighted = speedup.map(|_| run.weighted_speedup);
    json!({"speedup": speedup.map(|of| of.ratio), "low": bound(-1.0), "high": bound(1.0), "weighted": weighted})
}
