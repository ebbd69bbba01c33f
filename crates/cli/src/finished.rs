//! The runs of a comparison that have ended, while others still run.

use ambulator_base::lock;
use ambulator_experiments::Document;
use ambulator_simulator::{
    Outcome, Phase, Progress, RunResult, Schema, Status, Timeline, TimelinePart, join_schemas, set_speedups,
};
use std::sync::{Arc, Mutex};

/// Keeps the results of runs as they end, and passes on their progress.
pub struct FinishedRuns {
    shown: Arc<dyn Progress>,
    names: Vec<String>,
    runs: Mutex<Vec<Option<(RunResult, Schema)>>>,
    timeline: Option<Arc<Timeline>>,
}

impl FinishedRuns {
    /// No run of these designs has ended yet.
    pub fn new(names: Vec<String>, shown: Arc<dyn Progress>) -> FinishedRuns {
        let runs = Mutex::new(names.iter().map(|_| None).collect());
        FinishedRuns { shown, names, runs, timeline: None }
    }

    /// Windows of the runs are recorded.
    #[must_use]
    pub fn recorded(self, timeline: Option<Arc<Timeline>>) -> FinishedRuns {
        FinishedRuns { timeline, ..self }
    }

    /// The document of the runs that are done, with `notes` on the programs; `None` if there are none. A note
    /// names the others.
    pub fn document(&self, command: Vec<String>, mut notes: Vec<String>) -> Option<Document> {
        let runs = lock(&self.runs);
        let done = |run: &&(RunResult, Schema)| run.0.status == Status::Done;
        let (mut results, schemas): (Vec<RunResult>, Vec<Schema>) = runs.iter().flatten().filter(done).cloned().unzip();
        if results.is_empty() {
            return None;
        }
        // Without the first design there is nothing to be faster than.
        if runs[0].as_ref().filter(done).is_some() {
            set_speedups(&mut results);
        }
        let open = self.names.iter().zip(runs.iter()).filter(|(_, run)| run.as_ref().filter(done).is_none());
        let open: Vec<&str> = open.map(|(name, _)| name.as_str()).collect();
        if !open.is_empty() {
            notes.push(format!("the process was ended before these runs: {}", open.join(", ")));
        }
        let schema = join_schemas(&schemas);
        Some(Document::new(command, Outcome { runs: results, schema, notes, fewer_threads: None }))
    }
}

impl Progress for FinishedRuns {
    fn advanced(&self, job: usize, phase: Phase, instructions: u64, of: Option<u64>) {
        self.shown.advanced(job, phase, instructions, of);
    }

    fn finished(&self, job: usize, result: &RunResult, schema: &Schema) {
        if let Some(slot) = lock(&self.runs).get_mut(job) {
            *slot = Some((result.clone(), schema.clone()));
        }
        self.shown.finished(job, result, schema);
    }

    fn timeline(&self, job: usize) -> Option<TimelinePart> {
        // Those after the designs are bounds, and repetitions with other seeds.
        self.timeline.as_ref().filter(|_| job < self.names.len()).map(|timeline| timeline.part(job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::Silent;

    fn run(design: &str, ipc: f64, status: Status) -> RunResult {
        RunResult { design: design.into(), ipc, status, ..RunResult::default() }
    }

    #[test]
    fn the_document_has_what_is_done_and_names_the_rest() {
        let names = ["radix", "thp", "ideal"].map(str::to_owned).to_vec();
        let runs = FinishedRuns::new(names, Arc::new(Silent));
        let document = |runs: &FinishedRuns| runs.document(vec!["ambulator".into()], vec!["a note".into()]);
        runs.finished(1, &run("thp", 3.0, Status::Interrupted), &Schema::new());
        assert!(document(&runs).is_none());
        runs.finished(2, &run("ideal", 3.0, Status::Done), &Schema::new());
        let some = document(&runs).unwrap();
        assert_eq!((some.runs.len(), some.runs[0].design.as_str(), some.runs[0].speedup), (1, "ideal", 0.0));
        assert_eq!(some.notes, ["a note", "the process was ended before these runs: radix, thp"]);
        runs.finished(0, &run("radix", 2.0, Status::Done), &Schema::new());
        let both = document(&runs).unwrap();
        let speedups: Vec<_> = both.runs.iter().map(|run| (run.design.as_str(), run.speedup)).collect();
        assert_eq!(speedups, [("radix", 1.0), ("ideal", 1.5)]);
    }
}
