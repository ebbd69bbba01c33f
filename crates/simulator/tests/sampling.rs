//! Sampled regions: what their windows measure is what the whole region has.

mod support;

use ambulator_base::RecordSource;
use ambulator_simulator::spec::{Spec, SpecRequest, load};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Silent, Status, compare};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::Arc;
use support::counter;

fn spec(design: &str, settings: &[&str]) -> Spec {
    let options = ["memory.bytes=4GiB", "run.warmup=50000"].iter().chain(settings).map(|of| (*of).to_owned()).collect();
    let request = SpecRequest { design: Some(design.to_owned()), options, ..SpecRequest::default() };
    load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec
}

fn program(name: &str, seed: u64) -> Box<dyn RecordSource> {
    let footprint = Some(32 << 20);
    let request = ProgramRequest { name: name.into(), footprint, seed, ..ProgramRequest::default() };
    open(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A design with each of the settings, on one decoding of a program.
fn runs(design: &str, name: &str, settings: &[&[&str]]) -> Vec<RunResult> {
    let job = |settings: &&[&str]| Job { design: design.into(), spec: spec(design, settings) };
    let jobs: Vec<Job> = settings.iter().map(job).collect();
    let programs = (1..=u64::from(jobs[0].spec.machine.cores)).map(|seed| program(name, seed)).collect();
    let Outcome { runs, .. } =
        compare(Comparison { jobs, programs, threads: 0, stop: Arc::default(), progress: Arc::new(Silent) })
            .unwrap_or_else(|error| panic!("{error}"));
    runs
}

const WINDOWS: &str = "run.sampling=windows";

#[test]
fn windows_side_by_side_are_the_whole_region() {
    let length = "run.instructions=400000";
    let settings: [&[&str]; 2] =
        [&[length], &[length, WINDOWS, "run.sample_period=20000", "run.sample_window=20000", "run.sample_timing=0"]];
    let [whole, windows] = &runs("radix", "gups", &settings)[..] else { panic!() };
    let sampled = windows.sampled.as_ref().unwrap();
    assert_eq!((sampled.windows, sampled.covered, sampled.timed), (20, sampled.covered, sampled.covered));
    assert_eq!(windows.simulated_instructions, whole.simulated_instructions);
    assert_eq!(windows.simulated_accesses, whole.simulated_accesses);
    assert_eq!(windows.cores[0].instructions, whole.cores[0].instructions);
    for name in ["mmu.walks", "core.loads", "mmu.l2_tlb_misses", "hierarchy.llc.demand_misses"] {
        let (one, other) = (counter(windows, name) as f64, counter(whole, name) as f64);
        assert!(one > 1000.0 && (one / other - 1.0).abs() < 0.001, "{name}: {one} and {other}");
    }
    // What is under way at a window's end completes before the next one's accesses meet it in main memory.
    assert!((windows.ipc / whole.ipc - 1.0).abs() < 0.01, "{} and {}", windows.ipc, whole.ipc);
    assert!(sampled.half["ipc"] > 0.0 && sampled.half["ipc"] < 0.05 * whole.ipc, "{}", sampled.half["ipc"]);
    assert_eq!(windows.windows.last(), Some(&(windows.simulated_instructions, windows.cycles)));
}

/// The sampled numbers of a program are within their intervals of those of the whole region.
fn is_within_its_intervals(design: &str, name: &str, more: &[&'static str]) -> [RunResult; 2] {
    let length = "run.instructions=1500000";
    let sampling = [WINDOWS, "run.sample_period=60000", "run.sample_window=8000", "run.sample_timing=8000", length];
    let settings = [[more, &[length]].concat(), [more, &sampling].concat()];
    let all = runs(design, name, &settings.each_ref().map(Vec::as_slice));
    let [whole, sampled] = <[RunResult; 2]>::try_from(all).unwrap();
    assert_eq!((whole.status, sampled.status), (Status::Done, Status::Done), "{:?}", sampled.outcome);
    let of = sampled.sampled.as_ref().unwrap();
    let cores = whole.cores.len() as u64;
    assert!((24..=26).contains(&of.windows), "{} windows", of.windows);
    assert!(of.covered >= 1_500_000 * cores && of.covered < 1_502_000 * cores);
    assert!(of.timed < of.covered / 3 && sampled.simulated_instructions < of.covered / 6);
    for name in ["ipc", "measures.l2_tlb_mpki", "measures.llc_mpki"] {
        let value = |run: &RunResult| name.strip_prefix("measures.").map_or(run.ipc, |name| run.measure(name));
        let (one, other, half) = (value(&sampled), value(&whole), of.half[name]);
        // Three standard errors, and a hundredth for so many beginnings of windows.
        assert!((one - other).abs() < 1.5 * half + 0.01 * other, "{design}, {name}: {one} ± {half}, and {other}");
        assert!(half < 0.15 * other.max(5.0), "{design}, {name}: {one} ± {half}");
    }
    [whole, sampled]
}

#[test]
fn sampled_numbers_are_within_their_intervals() {
    for design in ["radix", "thp", "lvm", "revelator"] {
        is_within_its_intervals(design, "gups", &[]);
    }
    is_within_its_intervals("radix", "bfs", &[]);
    is_within_its_intervals("radix", "gups", &["machine.cores=2"]);
}

#[test]
fn what_is_skipped_takes_its_faults_and_windows_are_warm() {
    let more = ["run.populate=false", "run.sample_warming=20000"];
    let length = "run.instructions=1500000";
    let sampling = [WINDOWS, "run.sample_period=60000", "run.sample_window=8000", "run.sample_timing=8000", length];
    let settings = [[&more[..1], &[length]].concat(), [&more[..], &sampling].concat()];
    let [whole, sampled] =
        <[RunResult; 2]>::try_from(runs("radix", "gups", &settings.each_ref().map(Vec::as_slice))).unwrap();
    // All pages are mapped in the end, whether measured, warmed or skipped.
    assert_eq!(whole.measure("pages_mapped"), sampled.measure("pages_mapped"));
    let (one, other) = (sampled.measure("l2_tlb_mpki"), whole.measure("l2_tlb_mpki"));
    assert!((one / other - 1.0).abs() < 0.05, "{one} and {other}");
    assert!(sampled.checked_translations < whole.checked_translations * 7 / 10, "skipped accesses are not translated");
}

#[test]
fn a_region_shorter_than_half_a_window_says_so() {
    let settings: [&[&str]; 1] = [&["run.instructions=20000", WINDOWS, "run.sample_window=1000000"]];
    let run = &runs("radix", "gups", &settings)[0];
    assert_eq!(run.status, Status::Failed);
    let outcome = run.outcome.as_deref().unwrap();
    assert!(outcome.contains("half a window of sampling needs 500000"), "{outcome}");
}

#[test]
fn settings_that_contradict_sampling_are_refused() {
    for (settings, says) in [
        (vec![WINDOWS, "run.sample_period=100000"], "it must be at least 150000"),
        (vec![WINDOWS, "run.mode=functional"], "windows are what is measured with time"),
        (vec![WINDOWS, "run.interval=1000000"], "it must be 0 with `run.sampling`"),
    ] {
        let options = settings.iter().map(|of| (*of).to_owned()).collect();
        let error = load(&SpecRequest { options, ..SpecRequest::default() }).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{settings:?}: {error}");
    }
}
