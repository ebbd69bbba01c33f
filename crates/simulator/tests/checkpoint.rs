//! Runs that start from a checkpoint equal those that were not interrupted.

use ambulator_base::RecordSource;
use ambulator_simulator::spec::{PresetKind, Spec, SpecRequest, load, presets};
use ambulator_simulator::{
    Checkpoint, CheckpointStart, Comparison, Job, LoadState, Phase, Progress, RunResult, SaveState, Schema, Status,
    compare,
};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::{Arc, Mutex};

/// A checkpoint in memory.
#[derive(Default)]
struct Kept(Mutex<Option<(CheckpointStart, Vec<u8>)>>);

impl Checkpoint for Kept {
    fn start(&self) -> Option<CheckpointStart> {
        self.0.lock().unwrap().as_ref().map(|(start, _)| start.clone())
    }

    fn name(&self) -> String {
        "kept".into()
    }

    fn load(&self, load: &mut LoadState<'_>) -> Result<(), String> {
        let kept = self.0.lock().unwrap();
        let (_, bytes) = kept.as_ref().unwrap();
        load(&mut bytes.as_slice()).map(drop)
    }

    fn save(&self, start: &CheckpointStart, save: &mut SaveState<'_>) -> Result<(), String> {
        let mut bytes = Vec::new();
        save(&mut bytes)?;
        *self.0.lock().unwrap() = Some((start.clone(), bytes));
        Ok(())
    }
}

/// Gives each job its checkpoint.
struct Give(Vec<Option<Arc<Kept>>>);

impl Progress for Give {
    fn advanced(&self, _job: usize, _phase: Phase, _instructions: u64, _of: Option<u64>) {}
    fn finished(&self, _job: usize, _result: &RunResult, _schema: &Schema) {}
    fn checkpoint(&self, job: usize) -> Option<Arc<dyn Checkpoint>> {
        self.0.get(job)?.clone().map(|kept| kept as Arc<dyn Checkpoint>)
    }
}

fn spec(design: &str, options: &[&str]) -> Spec {
    let small = ["memory.bytes=512MiB", "run.instructions=60000", "run.warmup=60000", "run.warmup_timing=20000"];
    let options = small.iter().chain(options).map(|option| (*option).to_owned()).collect();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec
}

type Programs<'a> = &'a dyn Fn() -> Vec<Box<dyn RecordSource>>;

fn run(specs: &[Spec], programs: Programs<'_>, checkpoints: Vec<Option<Arc<Kept>>>) -> Vec<RunResult> {
    let jobs = specs.iter().map(|spec| Job { design: "one".into(), spec: spec.clone() }).collect();
    let progress = Arc::new(Give(checkpoints));
    let comparison = Comparison { jobs, programs: programs(), threads: 1, stop: Arc::default(), progress };
    let runs = compare(comparison).unwrap().runs;
    for run in &runs {
        assert!(matches!(run.status, Status::Done | Status::Outcome), "{:?}", run.outcome);
    }
    runs
}

fn text(run: &RunResult) -> String {
    serde_json::to_string_pretty(&run.clone().without_sim_host_times()).unwrap()
}

fn assert_equal(one: &RunResult, other: &RunResult, what: &str) {
    let (one, other) = (text(one), text(other));
    if let Some((one, other)) = one.lines().zip(other.lines()).find(|(one, other)| one != other) {
        panic!("{what}: {one}, restored {other}");
    }
    assert_eq!(one.len(), other.len(), "{what}");
}

/// Runs `of` without a checkpoint, making one, and from it. All results are equal.
fn check(of: &Spec, programs: Programs<'_>, what: &str) -> Arc<Kept> {
    let kept = Arc::<Kept>::default();
    let whole = run(std::slice::from_ref(of), programs, vec![None]);
    let making = run(std::slice::from_ref(of), programs, vec![Some(Arc::clone(&kept))]);
    assert!(kept.start().is_some(), "{what}: there is no checkpoint");
    let restored = run(std::slice::from_ref(of), programs, vec![Some(Arc::clone(&kept))]);
    assert_equal(&whole[0], &making[0], what);
    assert_equal(&whole[0], &restored[0], what);
    assert_eq!((making[0].checkpoint.as_deref(), restored[0].checkpoint.as_deref()), (None, Some("kept")));
    kept
}

fn program(name: &str, seed: u64) -> Box<dyn RecordSource> {
    open(&ProgramRequest { name: name.into(), footprint: Some(24 << 20), seed, ..ProgramRequest::default() }).unwrap()
}

#[test]
fn a_restored_run_equals_an_uninterrupted_one() {
    check(&spec("radix", &[]), &|| vec![program("gups", 1)], "radix");
}

#[test]
fn every_design_is_restored() {
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Design) {
        check(&spec(preset.name, &[]), &|| vec![program("gups", 1)], preset.name);
    }
}

#[test]
fn every_design_is_restored_after_a_warmup_without_time() {
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Design) {
        let functional = spec(preset.name, &["run.warmup_mode=functional"]);
        check(&functional, &|| vec![program("gups", 1)], preset.name);
    }
}
