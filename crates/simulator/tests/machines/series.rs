//! The series of a run: its increments add up to the run's counters, and recording it changes nothing.

use crate::support;

use ambulator_base::RecordSource;
use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Series, Silent, Status, compare};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::Arc;
use support::{DATA, Scripted, counter, run};

const INTERVAL: u64 = 20_000;
const WITH_SERIES: &str = "run.interval=20000";

/// Designs on a program of 24 MiB whose region takes its page faults itself.
fn runs(designs: &[&str], program: &str, settings: &[&str]) -> Outcome {
    let job = |design: &&str| {
        let options = ["memory.bytes=32GiB", "run.instructions=90000", "run.warmup=20000", "run.populate=false"]
            .iter()
            .chain(settings)
            .map(|option| (*option).to_owned())
            .collect();
        let request = SpecRequest { design: Some((*design).to_owned()), options, ..SpecRequest::default() };
        let spec = load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec;
        Job { design: (*design).to_owned(), spec }
    };
    let jobs: Vec<Job> = designs.iter().map(job).collect();
    let programs = if jobs[0].spec.run.spread_threads { 1 } else { jobs[0].spec.machine.cores };
    let open = |seed| {
        let footprint = Some(24 << 20);
        let request = ProgramRequest { name: program.into(), footprint, seed, ..ProgramRequest::default() };
        open(&request).unwrap_or_else(|error| panic!("{program}: {error}"))
    };
    let programs: Vec<Box<dyn RecordSource>> = (1..=u64::from(programs)).map(open).collect();
    compare(Comparison { jobs, programs, threads: 0, stop: Arc::default(), progress: Arc::new(Silent) })
        .unwrap_or_else(|error| panic!("{error}"))
}

fn every_preset() -> Vec<&'static str> {
    presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name).collect()
}

fn series(run: &RunResult) -> &Series {
    run.series.as_ref().unwrap_or_else(|| panic!("{} has no series", run.design))
}

/// Checks that the series explains the run's counters; returns its number of intervals.
fn adds_up(run: &RunResult, outcome: &Outcome) -> usize {
    let (design, series) = (&run.design, series(run));
    let points = series.instructions.len();
    assert_eq!(series.instructions.last(), Some(&run.simulated_instructions), "{design}");
    assert_eq!((series.cycles.len(), series.cycles.last()), (points, Some(&run.cycles)), "{design}");
    assert!(series.instructions.is_sorted() && series.cycles.is_sorted(), "{design}");
    for (name, value) in &run.counters {
        if outcome.schema[name].gauge {
            let last = series.gauges.get(name).map(|values| *values.last().unwrap());
            assert!(!series.counters.contains_key(name), "{design}: {name} is a state");
            // Some states are read from whole tables, once.
            assert!(last.is_none_or(|last| last == *value as f64), "{design}: {name} is {value}, not {last:?}");
            continue;
        }
        let added: u64 = series.counters.get(name).map_or(0, |added| {
            assert_eq!(added.len(), points, "{design}: {name}");
            added.iter().sum()
        });
        let before = series.before.get(name).copied().unwrap_or(0);
        let counts_from_start = name.contains(".table.") || name.contains(".placement.");
        assert!(before == 0 || counts_from_start, "{design}: {name} is {before} at the region's begin");
        let is_constant = counts_from_start && !series.counters.contains_key(name);
        assert!(is_constant || before + added == *value, "{design}: {name} is {value}, not {before} + {added}");
    }
    let unknown = series.counters.keys().find(|name| !run.counters.contains_key(*name));
    assert_eq!(unknown, None, "{design}");
    assert_eq!(series.gauges["measures.table_bytes"].last(), Some(&run.measures["table_bytes"]), "{design}");
    assert!(series.counters["core.loads"].iter().sum::<u64>() > 0, "{design}");
    points
}

#[test]
fn increments_add_up_to_the_counters_of_every_preset_and_change_nothing() {
    let designs = every_preset();
    let (with, without) = (runs(&designs, "gups", &[WITH_SERIES]), runs(&designs, "gups", &[]));
    for (run, plain) in with.runs.iter().zip(&without.runs) {
        assert_eq!((run.status, &plain.series), (Status::Done, &None), "{}: {:?}", run.design, run.outcome);
        let points = adds_up(run, &with);
        assert!((4..=5).contains(&points), "{}: {points} intervals", run.design);
        assert_eq!((run.cycles, &run.counters), (plain.cycles, &plain.counters), "{}", run.design);
    }
}

#[test]
fn increments_add_up_without_time_and_on_several_cores() {
    let designs = ["utopia-4k", "lvm", "rmm", "revelator", "nested"];
    for settings in [
        &[WITH_SERIES, "run.mode=functional"][..],
        &[WITH_SERIES, "machine.cores=3"],
        &[WITH_SERIES, "machine.cores=2", "run.spread_threads=true", "run.mode=functional"],
        &[WITH_SERIES, "machine.cores=2", "run.spread_threads=true"],
    ] {
        let outcome = runs(&designs, "bfs", settings);
        for run in &outcome.runs {
            assert_eq!(run.status, Status::Done, "{}: {:?}", run.design, run.outcome);
            let points = adds_up(run, &outcome) as u64;
            let intervals = run.simulated_instructions / INTERVAL;
            assert!((intervals / 2..=intervals + 1).contains(&points), "{}: {points} of {intervals}", run.design);
        }
    }
}

#[test]
fn a_phase_shows_in_the_intervals_in_which_it_runs() {
    let mut program = Scripted::new(64 << 20);
    program.batch = 4096;
    program.touch(DATA, 64 << 20, true).begin();
    // Misses only in the second half.
    (0..40_000).for_each(|at| _ = program.load(DATA + at % 8 * 64));
    (0..40_000).for_each(|at| _ = program.load(DATA + at * 4099 % (16 << 10) * 4096));
    let run = run("radix", &["run.interval=10000"], &program);
    let series = series(&run);
    assert_eq!(series.instructions.len(), 8, "{:?}", series.instructions);
    let (walks, loads) = (&series.counters["mmu.walks"], &series.counters["core.loads"]);
    assert_eq!(walks.iter().sum::<u64>(), counter(&run, "mmu.walks"));
    assert!(walks[1..3].iter().all(|walks| *walks == 0) && walks[4..].iter().all(|walks| *walks > 2000), "{walks:?}");
    assert!(loads.iter().all(|loads| (5_000..15_000).contains(loads)), "{loads:?}");
}

#[test]
fn a_run_that_ends_in_its_first_interval_has_one() {
    let mut program = Scripted::new(1 << 20);
    program.begin().load(DATA).load(DATA + 4096);
    let run = run("radix", &["run.interval=1000000"], &program);
    let series = series(&run);
    assert_eq!((series.interval, series.instructions.as_slice()), (1_000_000, &[2][..]));
    assert_eq!(series.counters["core.loads"], [2]);
}
