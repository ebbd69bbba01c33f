//! The cycle stack adds up, for every design.

use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Silent, compare};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::Arc;

/// Every design preset with more settings, on one program.
fn runs(program: &str, footprint: u64, settings: &[&str]) -> Outcome {
    let request =
        ProgramRequest { name: program.into(), footprint: Some(footprint), seed: 1, ..ProgramRequest::default() };
    let options: Vec<String> = ["memory.bytes=32GiB", "run.instructions=60000", "run.warmup=20000"]
        .iter()
        .chain(settings)
        .map(|option| (*option).to_owned())
        .collect();
    let job = |design: &str| {
        let request = SpecRequest { design: Some(design.into()), options: options.clone(), ..SpecRequest::default() };
        Job { design: design.into(), spec: load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec }
    };
    let designs = presets().iter().filter(|preset| preset.kind == PresetKind::Design);
    compare(Comparison {
        jobs: designs.map(|preset| job(preset.name)).collect(),
        programs: vec![open(&request).unwrap_or_else(|error| panic!("{program}: {error}"))],
        threads: 0,
        stop: Arc::default(),
        progress: Arc::new(Silent),
    })
    .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// A part of a run's cycle stack.
fn part(run: &RunResult, cause: &str) -> u64 {
    run.counters[&format!("core.window.stack_{cause}")]
}

/// Checks that a run's cycle stack adds up.
fn assert_adds_up(run: &RunResult) {
    let parts = run.counters.iter().filter(|(name, _)| name.starts_with("core.window.stack_"));
    let (stack, cycles) = (parts.map(|(_, value)| *value).sum::<u64>(), run.counters["core.window.cycles"]);
    assert!(cycles > 0 && stack == cycles, "{}: {stack} of {cycles} cycles", run.design);
}

#[test]
fn the_cycle_stack_of_every_design_adds_up_to_its_cycles() {
    let outcome = runs("gups", 64 << 20, &[]);
    let mut walked = 0;
    for run in &outcome.runs {
        assert_adds_up(run);
        let walks: u64 = ["walk_l1", "walk_l2", "walk_llc", "walk_dram"].iter().map(|level| part(run, level)).sum();
        assert!(walks == 0 || !run.design.starts_with("perfect-tlb"), "{}: {walks} cycles of walks", run.design);
        let data = part(run, "llc") + part(run, "dram");
        assert!(data * 10 > run.cycles, "{}: random accesses wait for data", run.design);
        walked += u64::from(walks * 100 > run.cycles);
    }
    assert!(walked > 10, "{walked} designs wait for walks");
}

#[test]
fn page_faults_count_as_the_operating_systems_cycles() {
    // Without set-up the region takes the faults.
    let outcome = runs("gups", 64 << 20, &["run.warmup=0", "run.populate=false"]);
    for run in &outcome.runs {
        assert_adds_up(run);
        let (os, charged) = (part(run, "os"), run.counters["core.os_cycles"]);
        assert!(charged > 0 && os >= charged && os < charged + charged / 10, "{}: {os}, {charged}", run.design);
    }
}
