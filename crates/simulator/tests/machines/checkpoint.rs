//! Runs that start from a checkpoint equal those that were not interrupted.

use ambulator_base::{Batch, ProgramIdentity, RecordSource, SourceError, VmEvent};
use ambulator_simulator::phases::PhaseProfile;
use ambulator_simulator::spec::{Kind, PresetKind, Sampling, Setting, Since, Spec, SpecRequest, load, presets, tree};
use ambulator_simulator::{
    Checkpoint, CheckpointStart, Comparison, Job, LoadState, Phase, Progress, RunResult, SaveState, Schema, Status,
    compare, compare_planned,
};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::{Arc, Mutex};

/// A checkpoint in memory.
#[derive(Default)]
struct Kept(Mutex<Option<(CheckpointStart, Vec<u8>)>>);

impl Checkpoint for Kept {
    fn start(&self) -> Result<Option<CheckpointStart>, String> {
        Ok(self.0.lock().unwrap().as_ref().map(|(start, _)| start.clone()))
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

/// Short runs: the warm-up maps some pages, fills the TLBs and has walks under way at its end.
const SMALL: [&str; 3] = ["run.instructions=9000", "run.warmup=12000", "run.warmup_timing=3000"];

fn spec(design: &str, options: &[&str]) -> Spec {
    // The segments of one of the designs are larger.
    let memory = if design == "utopia-restrictive" { "memory.bytes=64GiB" } else { "memory.bytes=2GiB" };
    let small = [memory].into_iter().chain(SMALL);
    let options = small.chain(options.iter().copied()).map(str::to_owned).collect();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec
}

type Programs<'a> = &'a dyn Fn() -> Vec<Box<dyn RecordSource>>;

fn run(specs: &[Spec], programs: Programs<'_>, checkpoints: Vec<Option<Arc<Kept>>>) -> Vec<RunResult> {
    let jobs = specs.iter().map(|spec| Job { design: "one".into(), spec: spec.clone() }).collect();
    let progress = Arc::new(Give(checkpoints));
    let comparison = Comparison { jobs, programs: programs(), threads: 1, stop: Arc::default(), progress };
    let profile = |spec: &Spec| PhaseProfile::read(spec, programs(), &mut |_| true).unwrap().unwrap();
    let plan = |spec: &Spec| (spec.run.sampling == Sampling::Phases).then(|| profile(spec).plan(&spec.run));
    let runs = compare_planned(comparison, specs.iter().map(plan).collect()).unwrap().runs;
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

/// Runs `of` making a checkpoint, and from it. The results are equal.
fn make(of: &Spec, programs: Programs<'_>, what: &str) -> (Arc<Kept>, RunResult) {
    let kept = Arc::<Kept>::default();
    let making = run(std::slice::from_ref(of), programs, vec![Some(Arc::clone(&kept))]).remove(0);
    assert!(kept.start().unwrap().is_some(), "{what}: there is no checkpoint");
    let restored = run(std::slice::from_ref(of), programs, vec![Some(Arc::clone(&kept))]);
    assert_equal(&making, &restored[0], what);
    assert_eq!((making.checkpoint.as_deref(), restored[0].checkpoint.as_deref()), (None, Some("kept")));
    (kept, making)
}

/// Runs `of` without a checkpoint, making one, and from it. All results are equal.
fn check(of: &Spec, programs: Programs<'_>, what: &str) -> Arc<Kept> {
    let (kept, making) = make(of, programs, what);
    let whole = run(std::slice::from_ref(of), programs, vec![None]);
    assert_equal(&whole[0], &making, what);
    kept
}

fn program(name: &str, seed: u64) -> Box<dyn RecordSource> {
    // The making of a graph takes longer than a run.
    let mebibytes = match name {
        "bfs" => 3,
        "memcached" => 20,
        _ => 12,
    };
    let footprint = Some(mebibytes << 20);
    open(&ProgramRequest { name: name.into(), footprint, seed, ..ProgramRequest::default() }).unwrap()
}

#[test]
fn a_restored_run_equals_an_uninterrupted_one() {
    check(&spec("radix", &[]), &|| vec![program("gups", 1)], "radix");
}

/// Each design preset, on which `act` does not panic.
fn for_each_design(act: impl Fn(&str) + std::panic::RefUnwindSafe) {
    let designs = presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name);
    let fails = |name: &&str| std::panic::catch_unwind(|| act(name)).is_err();
    let failed: Vec<&str> = designs.filter(fails).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_design_is_restored() {
    for_each_design(|name| _ = check(&spec(name, &[]), &|| vec![program("gups", 1)], name));
}

/// Everything that depends on time only differs from the defaults.
const OTHER_TIMES: [&str; 14] = [
    "core.width=6",
    "core.rob=320",
    "core.store_request=early",
    "core.mispredict_penalty=9",
    "l1d.latency=4",
    "l2.latency=19",
    "llc.latency=61",
    "llc.mshrs=8",
    "dram.data_rate=2400",
    "dram.channels=2",
    "mmu.l1_latency=2",
    "mmu.l2_tlb.latency=12",
    "mmu.walkers=1",
    "mmu.pwc.latency=4",
];

#[test]
fn every_design_is_restored_after_a_warmup_without_time_with_its_times_and_with_others() {
    for_each_design(|name| {
        let one = spec(name, &["run.warmup_mode=functional"]);
        let (kept, _) = make(&one, &|| vec![program("gups", 1)], name);
        let other = spec(name, &[&["run.warmup_mode=functional", "run.instructions=7000"], &OTHER_TIMES[..]].concat());
        assert_eq!(one.settings_of_warmup(false), other.settings_of_warmup(false));
        let programs = || vec![program("gups", 1)];
        let whole = run(std::slice::from_ref(&other), &programs, vec![None]);
        let restored = run(std::slice::from_ref(&other), &programs, vec![Some(kept)]);
        assert_equal(&whole[0], &restored[0], name);
    });
}

/// A spec in which a setting has another value than in `of`.
fn another(of: &Spec, options: &[&str], setting: &Setting) -> Spec {
    let default = serde_json::to_value(of).unwrap();
    let own = default.pointer(&format!("/{}", setting.key.replace('.', "/"))).unwrap().clone();
    let values: Vec<String> = match &setting.kind {
        Kind::Integer { .. } => {
            let own = own.as_i64().unwrap();
            [own * 2, own / 2, own + 1, own - 1, own + 2].map(|value| value.to_string()).into()
        }
        Kind::Float { .. } => [1.5, 0.75].map(|factor| (own.as_f64().unwrap() * factor + 0.5).to_string()).into(),
        Kind::Flag => vec![(!own.as_bool().unwrap()).to_string()],
        Kind::Choice(choices) => choices.iter().map(|choice| choice.name.clone()).collect(),
        other => panic!("{}: {other:?}", setting.key),
    };
    let specs = values.iter().filter_map(|value| {
        let own = format!("{}={value}", setting.key);
        let small = ["memory.bytes=2GiB"].into_iter().chain(SMALL);
        let options = small.chain(options.iter().copied()).chain([own.as_str()]).map(str::to_owned).collect();
        let request = SpecRequest { design: Some("thp".into()), options, ..SpecRequest::default() };
        let other = load(&request).ok()?.spec;
        (other != *of && other.validate().is_empty()).then_some(other)
    });
    let mut specs = specs;
    specs.next().unwrap_or_else(|| panic!("{} has no other value among {values:?}", setting.key))
}

/// Runs with another value of each setting of a kind: from one checkpoint, and uninterrupted.
fn try_each(since: Since) -> usize {
    let options = ["run.warmup_mode=functional"];
    let one = spec("thp", &options);
    let programs = || vec![program("stream", 1)];
    let kept = check(&one, &programs, "thp");
    let settings = tree().leaves().into_iter().filter(|setting| setting.since == since);
    // Parts of a period must fit into it.
    let settings: Vec<&Setting> = settings.filter(|setting| !setting.key.starts_with("run.sampl")).collect();
    for setting in &settings {
        let other = another(&one, &options, setting);
        assert_eq!(one.settings_of_warmup(false), other.settings_of_warmup(false), "{}", setting.key);
        let whole = run(std::slice::from_ref(&other), &programs, vec![None]);
        let restored = run(std::slice::from_ref(&other), &programs, vec![Some(Arc::clone(&kept))]);
        assert_equal(&whole[0], &restored[0], &setting.key);
    }
    settings.len()
}

#[test]
fn each_setting_of_times_may_differ_from_the_checkpoints() {
    assert!(try_each(Since::Time) > 50);
}

#[test]
fn each_setting_of_the_measured_region_may_differ_from_the_checkpoints() {
    assert!(try_each(Since::Region) > 10);
}

#[test]
fn settings_count_from_where_they_are_used() {
    let since = |key: &str| tree().find(key).unwrap().since;
    for key in ["core.width", "core.store_request", "l1d.latency", "llc.mshrs", "dram.t_cl", "dram.model"] {
        assert_eq!(since(key), Since::Time, "{key}");
    }
    for key in ["run.instructions", "run.interval", "run.sampling", "energy.core"] {
        assert!(tree().find(key).is_none_or(|setting| setting.since == Since::Region), "{key}");
    }
    for key in
        ["core.predictor", "llc.bytes", "l2.prefetcher", "mmu.l2_tlb.entries", "run.warmup", "run.seed", "costs.fault"]
    {
        assert_eq!(since(key), Since::Begin, "{key}");
    }
    // A warm-up with time depends on them all, but for those of the measured region.
    let [one, other] = ["core.width=4", "core.width=8"].map(|width| spec("radix", &[width]));
    assert_ne!(one.settings_of_warmup(true), other.settings_of_warmup(true));
    let [one, other] = ["run.instructions=1000", "run.instructions=2000"].map(|length| spec("radix", &[length]));
    assert_eq!(one.settings_of_warmup(true), other.settings_of_warmup(true));
}

#[test]
fn a_trace_is_restored() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mummer.amb");
    let open = || vec![open(&ProgramRequest { name: trace.into(), ..ProgramRequest::default() }).unwrap()];
    for mode in ["run.warmup_mode=timing", "run.warmup_mode=functional"] {
        check(&spec("lvm", &[mode]), &open, "a trace");
    }
}

#[test]
fn several_cores_and_programs_that_take_turns_are_restored() {
    for mode in ["run.warmup_mode=timing", "run.warmup_mode=functional"] {
        let two = spec("thp-khugepaged", &["machine.cores=2", mode]);
        check(&two, &|| vec![program("gups", 1), program("bfs", 2)], "two cores");
        let spread = spec("radix", &["machine.cores=2", "run.spread_threads=true", mode]);
        check(&spread, &|| vec![program("memcached", 1)], "threads on two cores");
        let turns = spec("utopia", &["run.time_slice=5000", mode]);
        let shared = || -> Vec<Box<dyn RecordSource>> {
            vec![Box::new(ambulator_workloads::TimeShared::new(vec![program("gups", 1), program("bfs", 2)], 5000))]
        };
        check(&turns, &shared, "two programs on one core");
    }
}

#[test]
fn runs_without_time_without_a_warmup_and_sampled_ones_are_restored() {
    check(&spec("rmm", &["run.mode=functional"]), &|| vec![program("bfs", 1)], "without time");
    check(&spec("thp", &["run.warmup=0", "run.interval=9000"]), &|| vec![program("bfs", 1)], "without a warm-up");
    check(&spec("lvm", &["run.profile=5", "run.interval=9000"]), &|| vec![program("bfs", 1)], "with a profile");
    let sampled = [
        "run.sampling=windows",
        "run.instructions=20000",
        "run.sample_period=10000",
        "run.sample_window=1000",
        "run.sample_timing=1000",
    ];
    check(&spec("radix", &sampled), &|| vec![program("gups", 1)], "sampled");
    let sampled = [&sampled[..], &["run.warmup_mode=functional"]].concat();
    check(&spec("radix", &sampled), &|| vec![program("gups", 1)], "sampled after a warm-up without time");
    let phases = [&sampled[1..], &["run.sampling=phases", "run.warmup_mode=functional"]].concat();
    let set_up = || -> Vec<Box<dyn RecordSource>> { vec![Box::new(SetUp { source: program("gups", 1), batches: 0 })] };
    check(&spec("radix", &phases), &set_up, "sampled by phases, after a set-up that runs");
}

/// A program whose first batch of records is set-up, as a mark after it says.
struct SetUp {
    source: Box<dyn RecordSource>,
    batches: usize,
}

impl RecordSource for SetUp {
    fn identity(&self) -> ProgramIdentity {
        self.source.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.source.fill(batch)?;
        self.batches += usize::from(!batch.records.is_empty());
        if self.batches == 2 {
            batch.events.insert(0, (0, VmEvent::RegionBegin));
        }
        Ok(more)
    }
}

#[test]
fn lanes_that_start_from_a_checkpoint_run_beside_lanes_that_warm_up() {
    let specs = ["radix", "thp", "lvm"].map(|name| spec(name, &["run.warmup_mode=functional"]));
    let programs = || vec![program("gups", 1)];
    let whole = run(&specs, &programs, vec![]);
    let kept: Vec<Arc<Kept>> = (0..3).map(|_| Arc::default()).collect();
    let given = |number: &[usize]| (0..3).map(|at| number.contains(&at).then(|| Arc::clone(&kept[at]))).collect();
    run(&specs, &programs, given(&[1]));
    assert!(kept[1].start().unwrap().is_some());
    // One starts from a checkpoint, one makes its own, and one has none.
    for given in [given(&[1, 2]), given(&[0, 1, 2]), given(&[0, 1, 2])] {
        let runs = run(&specs, &programs, given);
        runs.iter().zip(&whole).for_each(|(run, whole)| assert_equal(whole, run, "lanes"));
        assert!(runs[1].checkpoint.is_some());
    }
}

#[test]
fn a_state_of_another_machine_or_a_part_of_one_is_an_error() {
    let kept = check(&spec("radix", &[]), &|| vec![program("gups", 1)], "radix");
    let fails = |design: &str, kept: Arc<Kept>| {
        let jobs = vec![Job { design: "one".into(), spec: spec(design, &[]) }];
        let progress = Arc::new(Give(vec![Some(kept)]));
        let programs = vec![program("gups", 1)];
        let outcome = compare(Comparison { jobs, programs, threads: 1, stop: Arc::default(), progress }).unwrap();
        assert_eq!(outcome.runs[0].status, Status::Failed);
        outcome.runs[0].outcome.clone().unwrap()
    };
    for other in ["lvm", "ecpt", "rmm", "utopia", "nested"] {
        let copy = Kept(Mutex::new(kept.0.lock().unwrap().clone()));
        fails(other, Arc::new(copy));
    }
    let (start, bytes) = kept.0.lock().unwrap().clone().unwrap();
    for length in [0, 100, bytes.len() / 2, bytes.len() - 1] {
        let part = Kept(Mutex::new(Some((start.clone(), bytes[..length].to_vec()))));
        assert_eq!(fails("radix", Arc::new(part)), "it ends too early");
    }
}
