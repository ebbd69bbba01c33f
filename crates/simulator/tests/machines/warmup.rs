//! Warm-up without time: the measured region is as after a warm-up with time.

use crate::support;

use ambulator_base::RecordSource;
use ambulator_simulator::spec::{Spec, SpecRequest, load};
use ambulator_simulator::{Comparison, Job, Machine, Outcome, Phase, RunResult, SharedStream, Silent, Status, compare};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::Arc;
use support::counter;

const DESIGNS: [&str; 6] = ["radix", "thp", "utopia-4k", "lvm", "rmm", "revelator"];
const FUNCTIONAL: &str = "run.warmup_mode=functional";

fn spec(design: &str, settings: &[&str]) -> Spec {
    let options = ["memory.bytes=4GiB", "run.instructions=200000"]
        .iter()
        .chain(settings)
        .map(|option| (*option).to_owned())
        .collect();
    let request = SpecRequest { design: Some(design.to_owned()), options, ..SpecRequest::default() };
    load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec
}

fn program(name: &str, seed: u64) -> Box<dyn RecordSource> {
    let footprint = Some(48 << 20);
    let request = ProgramRequest { name: name.into(), footprint, seed, ..ProgramRequest::default() };
    open(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Each design with each of the settings, on one decoding of a program.
fn runs(designs: &[&str], name: &str, settings: &[&[&str]]) -> Vec<RunResult> {
    let job = |design: &str, settings: &[&str]| Job { design: design.into(), spec: spec(design, settings) };
    let jobs: Vec<Job> =
        settings.iter().flat_map(|settings| designs.iter().map(|design| job(design, settings))).collect();
    let run = &jobs[0].spec;
    let programs = if run.run.spread_threads { 1 } else { u64::from(run.machine.cores) };
    let programs = (1..=programs).map(|seed| program(name, seed)).collect();
    let Outcome { runs, .. } =
        compare(Comparison { jobs, programs, threads: 0, stop: Arc::default(), progress: Arc::new(Silent) })
            .unwrap_or_else(|error| panic!("{error}"));
    for run in &runs {
        assert_eq!(run.status, Status::Done, "{}: {:?}", run.design, run.outcome);
        assert!(run.checked_translations > 0);
    }
    runs
}

/// The relative difference of two values of which those below a hundred are noise.
fn difference(one: f64, other: f64) -> f64 {
    (one - other).abs() / one.max(other).max(100.0)
}

/// The greatest relative difference of walks and misses between two runs.
fn of_counts(one: &RunResult, other: &RunResult) -> f64 {
    let names =
        ["mmu.walks", "hierarchy.l2.demand_misses", "hierarchy.llc.demand_misses", "hierarchy.llc.table_misses"];
    let of = |name| difference(counter(one, name) as f64, counter(other, name) as f64);
    names.into_iter().map(of).fold(0.0, f64::max)
}

/// Walks and misses are within a hundredth, or `tolerance`; the speed of so short a region within a twentieth.
fn is_as_after_a_warmup_with_time(name: &str, cores: &[&'static str], designs: &[&str], tolerance: f64) {
    let with = |more: &[&'static str]| [cores, more].concat();
    let settings = [with(&["run.warmup=400000"]), with(&["run.warmup=400000", FUNCTIONAL]), with(&["run.warmup=2000"])];
    let all = runs(designs, name, &settings.each_ref().map(Vec::as_slice));
    let (timed, rest) = all.split_at(designs.len());
    let (functional, cold) = rest.split_at(designs.len());
    for ((timed, functional), cold) in timed.iter().zip(functional).zip(cold) {
        let design = &timed.design;
        let (counts, unwarmed) = (of_counts(timed, functional), of_counts(timed, cold));
        assert!(counts < tolerance, "{name}, {design}: counts are {counts:.4} off");
        assert!(unwarmed > 3.0 * tolerance, "{name}, {design}: a cold machine is {unwarmed:.4} off");
        let speed = difference(1e6 * timed.ipc, 1e6 * functional.ipc);
        assert!(speed < 0.05, "{name}, {design}: the speed is {speed:.4} off");
    }
}

#[test]
fn random_accesses_are_as_after_a_warmup_with_time() {
    // Which of the misses that wait for an MSHR comes first depends on times.
    is_as_after_a_warmup_with_time("gups", &["machine.cores=1"], &DESIGNS, 0.015);
}

#[test]
fn a_program_with_locality_is_as_after_a_warmup_with_time() {
    // Whether a range's refill is made depends on when the range table's walker is free.
    is_as_after_a_warmup_with_time("bfs", &["machine.cores=1"], &["rmm"], 0.03);
    is_as_after_a_warmup_with_time("bfs", &["machine.cores=1"], &["radix", "utopia-4k", "lvm", "revelator"], 0.01);
}

#[test]
fn several_cores_are_as_after_a_warmup_with_time() {
    is_as_after_a_warmup_with_time("gups", &["machine.cores=2"], &["radix", "utopia-4k"], 0.02);
}

#[test]
fn threads_on_cores_are_as_after_a_warmup_with_time() {
    is_as_after_a_warmup_with_time(
        "gups",
        &["machine.cores=2", "run.spread_threads=true"],
        &["radix", "utopia-4k"],
        0.03,
    );
}

#[test]
fn a_warmup_with_time_throughout_is_the_same_run() {
    let warmup = "run.warmup=100000";
    let settings = [&[warmup][..], &[warmup, FUNCTIONAL, "run.warmup_timing=100000"]];
    let all = runs(&DESIGNS[..3], "bfs", &settings);
    for (timed, other) in all[..3].iter().zip(&all[3..]) {
        assert_eq!((timed.cycles, &timed.counters), (other.cycles, &other.counters), "{}", timed.design);
    }
}

/// A machine that has run its set-up.
fn machine(design: &str, settings: &[&str]) -> (Machine, Spec) {
    let spec = spec(design, settings);
    let streams = (1..=u64::from(spec.machine.cores)).map(|seed| (SharedStream::new(program("gups", seed), 1), 0));
    let mut machine = Machine::new(&spec, streams.collect()).unwrap();
    while machine.phase() != Phase::Measure {
        machine.advance(1).unwrap();
    }
    (machine, spec)
}

/// Time that is switched off and on again: the region has cycles for the parts with time only, and each of these
/// is as fast as a region with time throughout.
#[test]
fn windows_with_time_between_parts_without_are_as_fast() {
    for (design, cores) in [("radix", "machine.cores=1"), ("utopia-4k", "machine.cores=2")] {
        let settings = ["run.instructions=400000", "run.warmup=100000", cores];
        let (mut plain, spec) = machine(design, &settings);
        while plain.advance(10_000).unwrap() {}
        let (mut switched, _) = machine(design, &settings);
        let (mut timed_instructions, mut cycles) = (0, 0);
        while switched.phase() == Phase::Measure {
            let before = switched.progress().0;
            let goes_on = switched.advance(10_000).unwrap();
            timed_instructions += switched.progress().0 - before;
            cycles = switched.result(design, &spec).0.cycles;
            if !goes_on {
                break;
            }
            switched.set_timed(false).unwrap();
            switched.advance(10_000).unwrap();
            if switched.phase() == Phase::Done {
                break;
            }
            switched.set_timed(true).unwrap();
            let after = switched.result(design, &spec).0.cycles;
            assert!(after.abs_diff(cycles) < 5_000, "{design}: {cycles} became {after} in no time");
        }
        let (plain, _) = plain.result(design, &spec);
        let (expected, found) = (plain.ipc, timed_instructions as f64 / cycles as f64);
        assert!((found / expected - 1.0).abs() < 0.05, "{design}, {cores}: IPC {found:.4}, not {expected:.4}");
    }
}

#[test]
fn a_machine_without_time_cannot_be_timed() {
    let (mut machine, _) = machine("radix", &["run.mode=functional", "run.warmup=1000"]);
    machine.set_timed(false).unwrap();
    let error = format!("{:?}", machine.set_timed(true).unwrap_err());
    assert!(error.contains("run.mode"), "{error}");
}
