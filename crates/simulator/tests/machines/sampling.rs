//! Sampled regions: what their windows measure is what the whole region has.

use crate::support;

use ambulator_base::{
    Batch, MapKind, ProgramIdentity, Protection, Random, Record, RecordSource, SourceError, VirtAddr, VmEvent,
};
use ambulator_simulator::phases::PhaseProfile;
use ambulator_simulator::spec::{Sampling, Spec, SpecRequest, load};
use ambulator_simulator::{
    Comparison, CoreResult, HistogramResult, Job, Outcome, RunResult, Silent, Status, compare, compare_planned,
};
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
    let mut request = ProgramRequest { name: name.into(), footprint, seed, ..ProgramRequest::default() };
    if name == "sysbench-memory" {
        request.settings.insert("threads".into(), 2.into());
    }
    open(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A design with each of the settings, on one decoding of a program.
fn runs(design: &str, name: &str, settings: &[&[&str]]) -> Vec<RunResult> {
    runs_of(design, settings, &|core| program(name, core))
}

/// [`runs`] of the program that `open` opens for each core, from 1 on.
fn runs_of(design: &str, settings: &[&[&str]], open: &dyn Fn(u64) -> Box<dyn RecordSource>) -> Vec<RunResult> {
    let job = |settings: &&[&str]| Job { design: design.into(), spec: spec(design, settings) };
    let jobs: Vec<Job> = settings.iter().map(job).collect();
    let streams = match jobs[0].spec.run.spread_threads {
        true => 1,
        false => u64::from(jobs[0].spec.machine.cores),
    };
    let programs = || (1..=streams).map(open).collect();
    let plan = |job: &Job| {
        let profile = || PhaseProfile::read(&job.spec, programs(), &mut |_| true).unwrap().unwrap();
        (job.spec.run.sampling == Sampling::Phases).then(|| profile().plan(&job.spec.run))
    };
    let plans = jobs.iter().map(plan).collect();
    let programs = programs();
    let comparison = Comparison { jobs, programs, threads: 0, stop: Arc::default(), progress: Arc::new(Silent) };
    let Outcome { runs, .. } = compare_planned(comparison, plans).unwrap_or_else(|error| panic!("{error}"));
    runs
}

const WINDOWS: &str = "run.sampling=windows";
const PHASES: &str = "run.sampling=phases";

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
    assert!(sampled.half["ipc"] > 0.0 && sampled.half["ipc"] < 0.08 * whole.ipc, "{}", sampled.half["ipc"]);
    assert_eq!(windows.windows.last(), Some(&(windows.simulated_instructions, windows.cycles)));
}

/// The sampled numbers of a program are within their intervals of those of the whole region.
fn is_within_its_intervals(design: &str, name: &str, more: &[&'static str]) -> [RunResult; 2] {
    let length = "run.instructions=1000000";
    let sampling = [WINDOWS, "run.sample_period=40000", "run.sample_window=6000", "run.sample_timing=6000", length];
    let settings = [[more, &[length]].concat(), [more, &sampling].concat()];
    let all = runs(design, name, &settings.each_ref().map(Vec::as_slice));
    let [whole, sampled] = <[RunResult; 2]>::try_from(all).unwrap();
    assert_eq!((whole.status, sampled.status), (Status::Done, Status::Done), "{:?}", sampled.outcome);
    let of = sampled.sampled.as_ref().unwrap();
    let cores = whole.cores.len() as u64;
    assert!((24..=26).contains(&of.windows), "{} windows", of.windows);
    assert!(of.covered >= 1_000_000 * cores && of.covered < 1_002_000 * cores);
    assert!(of.timed < of.covered / 3 && sampled.simulated_instructions < of.covered / 6);
    for name in ["ipc", "measures.l2_tlb_mpki", "measures.llc_mpki"] {
        let value = |run: &RunResult| name.strip_prefix("measures.").map_or(run.ipc, |name| run.measure(name));
        let (one, other, half) = (value(&sampled), value(&whole), of.half[name]);
        // Three standard errors, and a hundredth for so many beginnings of windows.
        assert!((one - other).abs() < 1.5 * half + 0.01 * other, "{design}, {name}: {one} ± {half}, and {other}");
        assert!(half < 0.15 * other.max(5.0), "{design}, {name}: {one} ± {half}");
    }
    for (number, (one, other)) in sampled.cores.iter().zip(&whole.cores).enumerate() {
        let half = of.half[&format!("cores.{number}.ipc")];
        assert!(
            (one.ipc - other.ipc).abs() < 1.5 * half + 0.01 * other.ipc,
            "core {number}: {one:?} ± {half}, {other:?}"
        );
        assert!(half < 0.3 * other.ipc, "core {number}: {one:?} ± {half}");
        assert!(cores == 1 || (20..=30).contains(&one.windows.len()), "{:?}", one.windows);
    }
    for percentile in ["p50", "p90", "p99"] {
        let value = |run: &RunResult| {
            let HistogramResult { p50, p90, p99, .. } = run.histograms["walk_latency"];
            [("p50", p50), ("p90", p90), ("p99", p99)].into_iter().find(|of| of.0 == percentile).unwrap().1 as f64
        };
        let Some(half) = of.half.get(&format!("walk_latency.{percentile}")) else {
            let walks = sampled.histograms["walk_latency"].count;
            assert!(percentile == "p99" && walks < 1000, "{design}: {walks} walks are enough for {percentile}");
            continue;
        };
        let (one, other) = (value(&sampled), value(&whole));
        // And the width of a bucket.
        assert!((one - other).abs() < 1.5 * half + 0.07 * other, "{design}, {percentile}: {one} ± {half}, and {other}");
    }
    has_an_interval_for_every_number(&sampled);
    [whole, sampled]
}

/// Every number has an interval but those that are known: states at the end, and what is of the set-up.
fn has_an_interval_for_every_number(run: &RunResult) {
    const KNOWN: [&str; 8] =
        ["table_", "setup_", "census_", "pages_mapped", "l2_colour_", "llc_colour_", "fragmentation_", "pressure_"];
    let half = &run.sampled.as_ref().unwrap().half;
    for name in run.measures.keys().filter(|name| !KNOWN.iter().any(|known| name.starts_with(known))) {
        assert!(half.contains_key(&format!("measures.{name}")), "{name}");
    }
    let of_histograms = run.histograms.keys().flat_map(|name| ["count", "mean"].map(|of| format!("{name}.{of}")));
    let of_cores = |(number, core): (usize, &CoreResult)| {
        let stack = core.stack.keys().map(|part| format!("stack.{part}"));
        let all: Vec<String> = stack.chain(["instructions", "cycles", "ipc"].map(String::from)).collect();
        all.into_iter().map(move |name| format!("cores.{number}.{name}"))
    };
    let of_cores = run.cores.iter().enumerate().flat_map(of_cores);
    for name in of_histograms.chain(of_cores).chain(["ipc", "cycles", "accesses"].map(String::from)) {
        assert!(half.contains_key(&name), "{name}");
    }
    let counted =
        run.counters.iter().filter(|(_, value)| **value > 0).filter(|(name, _)| half.contains_key(*name)).count();
    assert!(counted > 40, "{counted} counters");
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
fn a_program_that_is_fast_ends_first_as_with_time() {
    let length = ["machine.cores=2", "run.instructions=1000000"];
    let sampling = [WINDOWS, "run.sample_period=40000", "run.sample_window=6000", "run.sample_timing=6000"];
    let windows = [&length[..], &sampling].concat();
    let open = |core: u64| program(if core == 1 { "bfs" } else { "gups" }, core);
    let [whole, sampled] = &runs_of("radix", &[&length, &windows], &open)[..] else { panic!() };
    assert!(whole.cores[0].cycles > 2 * whole.cores[1].cycles, "one is twice as fast");
    for name in ["ipc", "measures.l2_tlb_mpki"] {
        let value = |run: &RunResult| name.strip_prefix("measures.").map_or(run.ipc, |name| run.measure(name));
        let (one, other, half) = (value(sampled), value(whole), sampled.sampled.as_ref().unwrap().half[name]);
        assert!((one - other).abs() < 1.5 * half + 0.01 * other, "{name}: {one} ± {half}, and {other}");
        assert!(half < 0.25 * other, "{name}: {one} ± {half}");
    }
}

#[test]
fn intervals_side_by_side_are_the_whole_region() {
    // Every interval is chosen, so that each counts once.
    let length = "run.instructions=400000";
    let settings: [&[&str]; 2] =
        [&[length], &[length, PHASES, "run.sample_period=20000", "run.sample_window=20000", "run.sample_timing=0"]];
    let [whole, phases] = &runs("radix", "gups", &settings)[..] else { panic!() };
    let sampled = phases.sampled.as_ref().unwrap();
    assert_eq!((sampled.windows, sampled.intervals.len()), (20, 20));
    assert!(sampled.intervals.iter().all(|of| of.weight == 1));
    // The machine sees that it is warm some records late, and the first interval has begun by then.
    let (own, all) = (phases.simulated_instructions, whole.simulated_instructions);
    assert!(sampled.timed == own && own <= all && own > all - 8000, "{own} and {all}");
    for name in ["mmu.walks", "core.loads", "mmu.l2_tlb_misses", "hierarchy.llc.demand_misses"] {
        let (one, other) = (counter(phases, name) as f64, counter(whole, name) as f64);
        assert!(one > 1000.0 && (one / other - 1.0).abs() < 0.02, "{name}: {one} and {other}");
    }
    assert!((phases.ipc / whole.ipc - 1.0).abs() < 0.01, "{} and {}", phases.ipc, whole.ipc);
    assert_eq!(sampled.half["ipc"], 0.0, "nothing is left that was not measured");
}

#[test]
fn numbers_of_phases_are_estimates_of_the_region_within_their_intervals() {
    for (design, name, more) in [
        ("radix", "gups", &["machine.cores=1"][..]),
        ("lvm", "bfs", &["run.warmup=0"]),
        ("radix", "gups", &["machine.cores=2"]),
        ("thp", "sysbench-memory", &["machine.cores=2", "run.spread_threads=true"]),
    ] {
        let length = "run.instructions=800000";
        let sampling = [PHASES, "run.sample_period=27000", "run.sample_window=4000", "run.sample_timing=4000", length];
        let settings = [[more, &[length]].concat(), [more, &sampling].concat()];
        let all = runs(design, name, &settings.each_ref().map(Vec::as_slice));
        let [whole, sampled] = <[RunResult; 2]>::try_from(all).unwrap();
        assert_eq!((whole.status, sampled.status), (Status::Done, Status::Done), "{:?}", sampled.outcome);
        let of = sampled.sampled.as_ref().unwrap();
        assert!(of.windows >= 28 && of.timed < of.covered * 2 / 5, "{} of {}", of.timed, of.covered);
        let phases = of.phases();
        // Where a thread ends first, the rest of its program has intervals of one core.
        let intervals: u64 = phases.iter().map(|(intervals, _)| intervals).sum();
        assert!((200..=if name == "sysbench-memory" { 210 } else { 200 }).contains(&intervals), "{name}: {phases:?}");
        assert!(phases.iter().all(|(intervals, measured)| *measured >= 2.min(*intervals)), "{phases:?}");
        // Counters are of the whole region, not of the part that was measured.
        for (one, other) in [
            (sampled.simulated_instructions, whole.simulated_instructions),
            (sampled.simulated_accesses, whole.simulated_accesses),
        ] {
            assert!((one as f64 / other as f64 - 1.0).abs() < 0.04, "{design}, {name}: {one} and {other}");
        }
        for name in ["ipc", "measures.l2_tlb_mpki", "measures.llc_mpki"] {
            let value = |run: &RunResult| name.strip_prefix("measures.").map_or(run.ipc, |name| run.measure(name));
            let (one, other, half) = (value(&sampled), value(&whole), of.half[name]);
            assert!((one - other).abs() < 1.5 * half + 0.02 * other, "{design}, {name}: {one} ± {half}, and {other}");
            assert!(half < 0.2 * other.max(5.0), "{design}, {name}: {one} ± {half}");
        }
        has_an_interval_for_every_number(&sampled);
        for core in sampled.cores.iter().filter(|_| sampled.cores.len() > 1) {
            assert_eq!(core.intervals.len(), of.intervals.len(), "{core:?}");
        }
    }
}

/// A program that ends after so many records.
struct Ending {
    source: Box<dyn RecordSource>,
    left: usize,
}

impl RecordSource for Ending {
    fn identity(&self) -> ProgramIdentity {
        self.source.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.left == 0 {
            return Ok(false);
        }
        self.source.fill(batch)?;
        batch.records.truncate(self.left);
        let kept = batch.records.len();
        batch.events.retain(|(at, _)| *at as usize <= kept);
        self.left -= kept;
        Ok(true)
    }
}

/// The whole plan is measured, though some of the cores run nothing, or end early.
fn is_measured_to_its_end(what: &str, more: &[&'static str], open: &dyn Fn(u64) -> Box<dyn RecordSource>) {
    let length = "run.instructions=600000";
    let sampling = ["run.sample_period=20000", "run.sample_window=3000", "run.sample_timing=3000", length];
    let of = |method| [more, &sampling, &[method]].concat();
    let settings = [[more, &[length]].concat(), of(PHASES), of(WINDOWS)];
    let all = runs_of("radix", &settings.each_ref().map(Vec::as_slice), open);
    let [whole, phases, windows] = <[RunResult; 3]>::try_from(all).unwrap();
    for (sampled, method) in [(&phases, "phases"), (&windows, "windows")] {
        assert_eq!((whole.status, sampled.status), (Status::Done, Status::Done), "{what}: {:?}", sampled.outcome);
        let of = sampled.sampled.as_ref().unwrap();
        // A window stands for a period of all cores that run, of which one may end early.
        let expected = if method == "phases" { 29..=31 } else { 27..=31 };
        assert!(expected.contains(&of.windows) && of.timed < of.covered * 2 / 5, "{what}, {method}: {}", of.windows);
        for name in ["ipc", "measures.l2_tlb_mpki"] {
            let value = |run: &RunResult| name.strip_prefix("measures.").map_or(run.ipc, |name| run.measure(name));
            let (one, other, half) = (value(sampled), value(&whole), of.half[name]);
            assert!(
                (one - other).abs() < 1.5 * half + 0.02 * other,
                "{what}, {method}, {name}: {one} ± {half}, {other}"
            );
        }
    }
    let intervals = phases.sampled.unwrap().intervals;
    assert_eq!(
        intervals.iter().map(|of| of.weight).sum::<u64>(),
        200,
        "{what}: a part of the plan was not measured: {intervals:?}"
    );
    assert!(intervals.last().unwrap().interval > 185, "{what}");
    let (one, other) = (phases.simulated_instructions, whole.simulated_instructions);
    assert!((one as f64 / other as f64 - 1.0).abs() < 0.05, "{what}: {one} and {other}");
}

#[test]
fn a_plan_is_measured_to_its_end_with_fewer_threads_than_cores() {
    let idle = ["machine.cores=2", "run.spread_threads=true"];
    is_measured_to_its_end("one thread on two cores", &idle, &|core| program("gups", core));
}

#[test]
fn a_plan_is_measured_to_its_end_with_programs_of_unequal_length_and_speed() {
    let short = |records: usize| {
        move |core: u64| -> Box<dyn RecordSource> {
            match core {
                1 => Box::new(Ending { source: program("stream", 1), left: records }),
                _ => program("gups", core),
            }
        }
    };
    // After a warm-up with time the fast program is far ahead of the slow one; it ends early, or in the warm-up.
    for (what, records, mode) in [
        ("one ends early", 100_000, "run.warmup_mode=functional"),
        ("one is fast and ends early", 200_000, "run.warmup_mode=timing"),
        ("one ends in the warm-up", 3000, "run.warmup_mode=functional"),
    ] {
        is_measured_to_its_end(what, &["machine.cores=2", mode], &short(records));
    }
}

/// A program of two phases in turn, of uneven lengths: it walks over a small array, or jumps over a large
/// one.
struct TwoPhases {
    random: Random,
    at: u64,
}

impl TwoPhases {
    const BASE: u64 = 1 << 32;
    const LARGE: u64 = 64 << 20;
}

impl RecordSource for TwoPhases {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: "two".into(), footprint: TwoPhases::LARGE, ..ProgramIdentity::default() }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.at == 0 {
            let (start, len) = (VirtAddr(TwoPhases::BASE), TwoPhases::LARGE);
            let map = |start, len, protection, kind| VmEvent::Map { start, len, protection, kind };
            batch.push_event(map(VirtAddr(0x40_1000), 4096, Protection::READ_EXECUTE, MapKind::File));
            batch.push_event(map(start, len, Protection::READ_WRITE, MapKind::Anonymous));
            batch.push_event(VmEvent::Touch { start, len, write: true });
            batch.push_event(VmEvent::RegionBegin);
        }
        for _ in 0..10_000 {
            // 37 of 50 stretches of 12,000 records are near.
            let near = self.at / 12_000 * 37 % 50 < 37;
            let offset = if near { self.at * 8 % (16 << 10) } else { self.random.below(TwoPhases::LARGE / 8) * 8 };
            let va = VirtAddr(TwoPhases::BASE + offset);
            batch.records.push(Record { pc: VirtAddr(0x40_1000), va, gap: 3, size: 8, ..Record::default() });
            self.at += 1;
        }
        Ok(true)
    }
}

#[test]
fn phases_are_told_apart_and_make_intervals_narrow() {
    let parts = ["run.instructions=4000000", "run.sample_window=8000", "run.sample_timing=4000", "run.warmup=0"];
    let sampled = |method| [&parts[..], &["run.sample_period=100000", "run.sample_warming=20000", method]].concat();
    let settings = [parts[..1].to_vec(), sampled(WINDOWS), sampled(PHASES)];
    let all = runs_of("radix", &settings.each_ref().map(Vec::as_slice), &|core| {
        Box::new(TwoPhases { random: Random::new(core), at: 0 })
    });
    assert!(all.iter().all(|run| run.status == Status::Done), "{:?}", all[2].outcome);
    let [whole, windows, phases] = <[RunResult; 3]>::try_from(all).unwrap();
    let (of_windows, of_phases) = (windows.sampled.unwrap(), phases.sampled.unwrap());
    assert!(of_phases.windows.abs_diff(of_windows.windows) <= 4, "{} and {}", of_phases.windows, of_windows.windows);
    let sizes = of_phases.phases();
    assert!(sizes.len() >= 2, "{sizes:?}");
    for name in ["ipc", "measures.l2_tlb_mpki"] {
        let (wide, narrow) = (of_windows.half[name], of_phases.half[name]);
        assert!(narrow < 0.5 * wide, "{name}: {narrow} and {wide}");
    }
    let (one, other) = (phases.measures["l2_tlb_mpki"], whole.measures["l2_tlb_mpki"]);
    assert!((one - other).abs() < 1.5 * of_phases.half["measures.l2_tlb_mpki"] + 0.02 * other, "{one} and {other}");
}

#[test]
fn phases_without_a_second_reading_are_refused() {
    let jobs = vec![Job { design: "radix".into(), spec: spec("radix", &[PHASES]) }];
    let programs = vec![program("gups", 1)];
    let comparison = Comparison { jobs, programs, threads: 1, stop: Arc::default(), progress: Arc::new(Silent) };
    let error = compare(comparison).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("can be read once only: save it as a file"), "{error}");
}

#[test]
fn what_the_operating_system_does_between_windows_is_in_the_time_of_the_region() {
    // Pages are touched first in the region, and the table grows a few times.
    let region: [&str; 4] = ["run.populate=false", "run.warmup=0", "run.instructions=600000", "memory.bytes=4GiB"];
    let sampled =
        [&region[..], &[WINDOWS, "run.sample_period=20000", "run.sample_window=1000", "run.sample_timing=500"]];
    let [whole, windows] = &runs("ecpt", "gups", &[&region, &sampled.concat()])[..] else { panic!() };
    let all = counter(whole, "core.os_cycles");
    assert_eq!(whole.measure("region_ipc"), whole.ipc);
    assert_eq!(whole.measure("region_os_share"), whole.measure("os_cycles_share"));
    let of = windows.sampled.as_ref().unwrap();
    let cycles = of.covered as f64 / windows.measure("region_ipc");
    let charged = windows.measure("region_os_share") * cycles;
    assert!((charged / all as f64 - 1.0).abs() < 0.001, "{charged} and {all}");
    assert!(counter(windows, "core.os_cycles") < all / 10, "most of it is not in windows");
    let half = of.half["measures.region_ipc"];
    let error = windows.measure("region_ipc") - whole.ipc;
    assert!(half < 0.1 * whole.ipc && error.abs() < half + 0.02 * whole.ipc, "{error} of {}, {half}", whole.ipc);
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
        (vec![PHASES, "run.mode=functional"], "is \"phases\", and `run.mode` \"functional\""),
        (vec![PHASES, "run.sample_phases=0"], "sample_phases"),
        (vec![WINDOWS, "run.interval=1000000"], "it must be 0 with `run.sampling`"),
    ] {
        let options = settings.iter().map(|of| (*of).to_owned()).collect();
        let error = load(&SpecRequest { options, ..SpecRequest::default() }).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{settings:?}: {error}");
    }
}
