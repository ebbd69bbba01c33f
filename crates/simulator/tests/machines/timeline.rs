//! Timelines: what is on them is what the run's counters count, and recording changes nothing of the run.

use crate::support;
use ambulator_base::{RecordSource, lock};
use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
use ambulator_simulator::{
    Comparison, Job, Phase, Progress, RecordedWindow, RunResult, Schema, Status, Timeline, TimelinePart,
    TimelineRequest, WindowEnd, compare,
};
use ambulator_timeline::{ReadSlice, ReadTrace, read};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Arc, Mutex};
use support::{DATA, Scripted, spec};

/// A file in memory, which has room for a number of bytes.
#[derive(Clone)]
struct Shared {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut all = lock(&self.bytes);
        if all.len() + bytes.len() > self.room {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Recorded(Option<Arc<Timeline>>);

impl Progress for Recorded {
    fn advanced(&self, _job: usize, _phase: Phase, _instructions: u64, _of: Option<u64>) {}
    fn finished(&self, _job: usize, _result: &RunResult, _schema: &Schema) {}
    fn timeline(&self, job: usize) -> Option<TimelinePart> {
        self.0.as_ref().map(|timeline| timeline.part(job))
    }
}

/// Everything of the measured region.
const ALL: TimelineRequest = TimelineRequest { from: 0, instructions: u64::MAX, most_bytes: u64::MAX };

/// Touches the first 4 MiB of 8, and then loads and stores in all of them, with pages that are unmapped and
/// mapped again.
fn program() -> Scripted {
    let mut program = Scripted::new(8 << 20);
    program.touch(DATA, 4 << 20, true).begin();
    for i in 0..3000_u64 {
        let page = DATA + i * 37 % 2048 * 4096;
        if i % 3 == 0 {
            program.store(page + 8 * (i % 64))
        } else {
            program.load(page + 64)
        };
        if i % 1000 == 999 {
            let (start, len) = (ambulator_base::VirtAddr(DATA + (7 << 20)), 64 << 10);
            program.event(ambulator_base::VmEvent::Unmap { start, len });
            program.map(start.0, len, ambulator_base::Protection::READ_WRITE, ambulator_base::MapKind::Anonymous);
        }
    }
    program
}

fn run(jobs: Vec<Job>, programs: usize, timeline: Option<&Arc<Timeline>>) -> Vec<RunResult> {
    let programs = (0..programs).map(|_| Box::new(program()) as Box<dyn RecordSource>).collect();
    let progress = Arc::new(Recorded(timeline.cloned()));
    let outcome = compare(Comparison { jobs, programs, threads: 2, stop: Arc::default(), progress });
    outcome.unwrap_or_else(|error| panic!("{error}")).runs
}

/// Runs jobs with a timeline; the trace, the windows, and the results.
fn recorded(
    jobs: Vec<Job>,
    programs: usize,
    request: TimelineRequest,
) -> (ReadTrace, Vec<RecordedWindow>, Vec<RunResult>) {
    let file = Shared { bytes: Arc::default(), room: usize::MAX };
    let timeline = Timeline::new(request, Box::new(file.clone()));
    let runs = run(jobs, programs, Some(&timeline));
    let windows = timeline.finish().unwrap();
    let bytes = lock(&file.bytes).clone();
    assert_eq!(windows.iter().map(|window| window.bytes).sum::<u64>(), bytes.len() as u64);
    (read(&bytes).unwrap_or_else(|error| panic!("{error}")), windows, runs)
}

fn job(design: &str, settings: &[&str]) -> Job {
    Job { design: design.into(), spec: spec(design, settings) }
}

/// The name of a track's outermost parent: the design.
fn design_of(trace: &ReadTrace, mut track: u64) -> &str {
    while let Some(parent) = trace.tracks[&track].parent {
        track = parent;
    }
    &trace.tracks[&track].name
}

/// The slices of a design.
fn slices<'t>(trace: &'t ReadTrace, design: &str) -> Vec<&'t ReadSlice> {
    trace.slices.iter().filter(|slice| design_of(trace, slice.track) == design).collect()
}

fn count(slices: &[&ReadSlice], is: impl Fn(&ReadSlice) -> bool) -> u64 {
    slices.iter().filter(|slice| is(slice)).count() as u64
}

/// From one activation of a bank to the next, at least: nanoseconds of the timeline, less what is cut.
fn t_rc(spec: &serde_json::Value) -> u64 {
    let number = |at: &str| spec.pointer(at).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("no {at}"));
    let clocks = number("/dram/t_ras") + number("/dram/t_rp");
    (clocks * 2000.0 / number("/dram/data_rate") * number("/machine/clock_mhz")) as u64 - 40
}

/// What holds in every window: loads lie within their walks, and banks obey the device's times.
fn check_shape(trace: &ReadTrace, run: &RunResult) {
    let design = run.design.as_str();
    let slices = slices(trace, design);
    let core = |slice: &ReadSlice| trace.tracks[&slice.track].parent;
    let walks: HashMap<_, _> = slices
        .iter()
        .filter(|slice| slice.category == "walk")
        .map(|walk| ((core(walk), walk.number("walk")), (walk.from, walk.until)))
        .collect();
    for load in slices.iter().filter(|slice| slice.category == "load" && !slice.flag("behind")) {
        if load.number("walk").is_some() {
            let (from, until) = walks[&(core(load), load.number("walk"))];
            assert!(from <= load.from && load.until <= until, "{design}: {load:?} is outside of its walk");
        }
    }
    for slice in &slices {
        if let Some(around) = slice.inside.map(|around| &trace.slices[around]) {
            assert!(around.from <= slice.from && slice.until <= around.until, "{design}: {slice:?} in {around:?}");
        }
    }
    // The commands of a bank are one after the other, and a row stays open for tRAS before it is closed.
    let mut banks: BTreeMap<u64, Vec<&ReadSlice>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.category == "dram") {
        assert_eq!(slice.inside, None, "{design}: {slice:?} overlaps another command of its bank");
        banks.entry(slice.track).or_default().push(slice);
    }
    for commands in banks.values_mut() {
        commands.sort_by_key(|command| (command.from, command.until));
        assert!(commands.windows(2).all(|pair| pair[0].until <= pair[1].from), "{design}: {commands:?}");
        let activates: Vec<u64> =
            commands.iter().filter(|command| command.name == "activate").map(|command| command.from).collect();
        let least = t_rc(&run.spec);
        assert!(activates.windows(2).all(|pair| pair[1] - pair[0] >= least), "{design}: tRC: {activates:?}");
    }
    // Each flow ends at most once, at a read that is not over before the load.
    let begun: HashMap<u64, &ReadSlice> =
        slices.iter().flat_map(|slice| slice.flows.iter().map(|flow| (*flow, *slice))).collect();
    for read in &slices {
        for flow in &read.ended_flows {
            let load = begun[flow];
            assert!(read.name == "read" && load.from <= read.until, "{design}: {load:?} and {read:?}");
            assert_eq!(read.number("at"), load.number("at").map(|at| at & !63), "{design}");
        }
    }
}

/// The events of a whole run are what its counters count.
fn check_counts(trace: &ReadTrace, run: &RunResult) {
    let design = run.design.as_str();
    let slices = slices(trace, design);
    let counter = |name: &str| run.counters.get(name).copied().unwrap_or(0);
    let misses = |fetch: bool| {
        count(&slices, |slice| {
            slice.category == "miss" && (slice.name == "fetch") == fetch && !slice.flag("l1_tlb_hit")
        })
    };
    assert_eq!(misses(false), counter("mmu.l1d_tlb_misses"), "{design}: L1 data TLB");
    assert_eq!(misses(true), counter("mmu.l1i_tlb_misses"), "{design}: L1 instruction TLB");
    let second = |hit: bool| {
        let is = |slice: &ReadSlice| {
            slice.category == "miss" && slice.arguments.contains_key("l2_tlb_hit") && slice.flag("l2_tlb_hit") == hit
        };
        count(&slices, is)
    };
    assert_eq!((second(true), second(false)), (counter("mmu.l2_tlb_hits"), counter("mmu.l2_tlb_misses")), "{design}");
    let walks = count(&slices, |slice| slice.category == "walk" && slice.name == "page walk");
    assert_eq!(walks, run.histograms["walk_latency"].count, "{design}: walks");
    let faults = count(&slices, |slice| slice.category == "miss" && slice.text("outcome") == "page fault");
    assert_eq!(faults, counter("mmu.faults"), "{design}: faults that walks find");
    let served = count(&slices, |slice| slice.category == "os" && slice.name == "page fault");
    assert_eq!(served, counter("core.page_faults"), "{design}: faults that the kernel serves");
    let cycles: u64 =
        slices.iter().filter(|slice| slice.category == "os").filter_map(|slice| slice.number("cycles")).sum();
    assert_eq!(cycles, counter("core.os_cycles"), "{design}: cycles of the operating system");
    let guesses = count(&slices, |slice| slice.category == "fetch" && slice.name != "prefetch of a table line");
    assert_eq!(guesses, counter("mmu.speculated_data") + counter("mmu.speculated_table"), "{design}: guesses");
    // What the kernel counts.
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.category == "count") {
        *counted.entry(&slice.name).or_default() += slice.number("count").unwrap_or(0);
    }
    assert!(
        counted.contains_key("kernel.faults_4k") || counted.contains_key("kernel.faults_2m"),
        "{design}: {counted:?}"
    );
    // Those of placements and tables count from the machine's start; the window says what they added.
    let span = slices.iter().find(|slice| slice.name == "window").unwrap_or_else(|| panic!("{design}: no window"));
    for (name, sum) in counted {
        assert_eq!(Some(sum), span.number(&format!("counters.{name}")), "{design}: {name}");
    }
    // Main memory.
    let commands = |name: &str| count(&slices, |slice| slice.category == "dram" && slice.name == name);
    let dram = |name: &str| counter(&format!("hierarchy.dram.{name}"));
    let reads = dram("data_reads") + dram("table_reads") - dram("reads_forwarded");
    let writes = dram("data_writes") + dram("table_writes") - dram("writes_merged");
    assert_eq!(span.number("dram_reads_before"), Some(0), "{design}");
    assert_eq!((commands("read"), commands("write")), (reads, writes), "{design}: reads and writes");
    assert_eq!(commands("activate"), dram("activates"), "{design}: activations");
    let conflicts = dram("data_row_conflicts") + dram("table_row_conflicts");
    // Those of rows that a refresh closes before they are used serve no access.
    let mut banks: BTreeMap<u64, Vec<&ReadSlice>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.category == "dram") {
        banks.entry(slice.track).or_default().push(slice);
    }
    let unused = |bank: &mut Vec<&ReadSlice>| {
        bank.sort_by_key(|command| command.from);
        let serves = |at: usize| bank.get(at).is_some_and(|command| command.name == "read" || command.name == "write");
        (0..bank.len()).filter(|&at| bank[at].name == "precharge" && !serves(at + 2)).count() as u64
    };
    let unused: u64 = banks.values_mut().map(unused).sum();
    assert_eq!(commands("precharge"), conflicts + unused, "{design}: rows stay open until another is needed");
    assert!(unused * 50 < conflicts, "{design}: {unused} rows are not used");
    let of_tables = count(&slices, |slice| slice.name == "read" && slice.category == "dram" && slice.flag("table"));
    assert!(of_tables > 0 && of_tables <= dram("table_reads"), "{design}");
}

fn check_design(design: &str, settings: &[&str]) -> (ReadTrace, RunResult) {
    let (trace, windows, mut runs) = recorded(vec![job(design, settings)], 1, ALL);
    let run = runs.remove(0);
    assert_eq!(run.status, Status::Done, "{design}: {:?}", run.outcome);
    assert_eq!((windows[0].end, windows[0].instructions), (Some(WindowEnd::RunEnded), run.simulated_instructions));
    check_shape(&trace, &run);
    check_counts(&trace, &run);
    assert_eq!(text(&run), text(&unrecorded(design, settings)), "{design}: recording changes the run");
    (trace, run)
}

/// The run without a recording.
fn unrecorded(design: &str, settings: &[&str]) -> RunResult {
    run(vec![job(design, settings)], 1, None).remove(0)
}

/// All of a result but the sim host's times.
fn text(run: &RunResult) -> String {
    serde_json::to_string(&run.clone().without_sim_host_times()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_events_of_radix_and_huge_pages_are_what_the_counters_count() {
    let (trace, run) = check_design("radix", &[]);
    let loads = trace.slices.iter().filter(|slice| slice.category == "load" && slice.number("walk").is_some()).count();
    assert_eq!(loads as u64, run.counters["mmu.walk_accesses"], "loads of walks");
    assert!(trace.slices.iter().any(|slice| !slice.ended_flows.is_empty()), "walks wait for main memory");
    assert!(trace.slices.iter().any(|slice| slice.category == "os" && slice.name == "munmap"));
    let levels = |name: &str| trace.tracks.values().find(|track| track.name == name).map(|track| track.values.clone());
    for name in ["page walks under way", "reads waiting"] {
        let values = levels(name).unwrap_or_default();
        assert!(values.iter().any(|(_, value)| *value > 0.0), "{name}: {values:?}");
        assert_eq!(values.last().map(|(_, value)| *value), Some(0.0), "{name}");
    }
    check_design("thp", &[]);
}

#[test]
fn the_events_of_other_page_tables_are_what_the_counters_count() {
    let (trace, _) = check_design("ecpt", &[]);
    let beside = |slice: &&ReadSlice| trace.tracks[&slice.track].name.contains("in parallel");
    assert!(trace.slices.iter().filter(beside).any(|slice| slice.category == "load"), "ways are loaded in parallel");
    check_design("lvm", &[]);
}

#[test]
fn the_events_of_speculation_and_lookasides_are_what_the_counters_count() {
    let (trace, _) = check_design("revelator", &[]);
    let judged = |right: bool| {
        let is = move |slice: &&ReadSlice| {
            slice.category == "fetch" && slice.arguments.contains_key("right") && slice.flag("right") == right
        };
        trace.slices.iter().filter(is).count()
    };
    assert!(judged(true) > 0, "guesses say whether they were right");
    check_design("utopia", &["memory.bytes=32GiB"]);
}

#[test]
fn nested_walks_have_the_hypervisors_inside() {
    let (trace, windows, runs) = recorded(vec![job("nested", &[])], 1, ALL);
    check_shape(&trace, &runs[0]);
    assert_eq!(windows[0].instructions, runs[0].simulated_instructions);
    let inner = trace.slices.iter().filter(|slice| slice.name == "walk of the hypervisor's table").count();
    assert!(inner > 0);
    assert!(trace.slices.iter().any(|slice| slice.name == "hypervisor fault"));
}

#[test]
fn a_window_within_the_run_has_its_own_counts_and_designs_are_side_by_side() {
    let request = TimelineRequest { from: 1000, instructions: 500, most_bytes: u64::MAX };
    let settings: &[&str] = &["machine.cores=2"];
    let (trace, windows, runs) = recorded(vec![job("radix", settings), job("midgard", settings)], 2, request);
    for (window, run) in windows.iter().zip(&runs) {
        let design = run.design.as_str();
        check_shape(&trace, run);
        assert_eq!((window.design.as_str(), window.end), (design, Some(WindowEnd::Complete)));
        assert!((1000..1200).contains(&window.from) && (500..700).contains(&window.instructions), "{window:?}");
        let slices = slices(&trace, design);
        let span = slices.iter().find(|slice| slice.name == "window").unwrap();
        assert_eq!(span.number("begin_instruction"), Some(window.from));
        let counted = |name: &str| span.number(&format!("counters.{name}")).unwrap_or(0);
        assert_eq!(counted("core.instructions"), window.instructions);
        let walks = count(&slices, |slice| slice.category == "walk");
        assert!(walks > 0 && walks == counted("mmu.walks") + counted("mmu.dirty_assists"), "{design}: {walks}");
        let asked = count(&slices, |slice| {
            slice.category == "dram" && slice.name == "read" && !slice.flag("asked_before_window")
        });
        let reads = counted("hierarchy.dram.data_reads") + counted("hierarchy.dram.table_reads");
        let earlier = span.number("dram_reads_before").unwrap();
        assert_eq!(asked + counted("hierarchy.dram.reads_forwarded") + earlier, reads, "{design}");
        assert!(slices.iter().all(|slice| slice.from <= span.until || slice.category != "miss"), "{design}");
    }
    let cores: Vec<&str> = trace
        .tracks
        .values()
        .map(|track| track.name.as_str())
        .filter(|name| ["core 0", "core 1"].contains(name))
        .collect();
    assert_eq!(cores.len(), 4, "two cores of two designs");
    let plain = run(vec![job("radix", settings), job("midgard", settings)], 2, None);
    for (with, without) in runs.iter().zip(&plain) {
        assert_eq!(text(with), text(without), "recording changes the run");
    }
}

#[test]
fn a_file_that_is_full_loses_no_result() {
    let file = Shared { bytes: Arc::default(), room: 100_000 };
    let timeline = Timeline::new(ALL, Box::new(file.clone()));
    let runs = run(vec![job("radix", &[])], 1, Some(&timeline));
    let error = timeline.finish().unwrap_err();
    assert!(error.contains("no storage space"), "{error}");
    assert_eq!(text(&runs[0]), text(&unrecorded("radix", &[])));
    // A limit that was asked for is no error.
    let (trace, windows, runs) = recorded(vec![job("radix", &[])], 1, TimelineRequest { most_bytes: 100_000, ..ALL });
    check_shape(&trace, &runs[0]);
    assert_eq!(windows[0].end, Some(WindowEnd::FileFull));
    assert!(windows[0].instructions < runs[0].simulated_instructions && runs[0].status == Status::Done);
    assert!(trace.slices.iter().any(|slice| slice.name.contains("reached its size")));
}

#[test]
fn a_window_that_the_run_does_not_reach_is_told() {
    let (trace, windows, runs) =
        recorded(vec![job("radix", &[])], 1, TimelineRequest { from: 1 << 40, instructions: 1, most_bytes: u64::MAX });
    assert_eq!((trace.slices.len(), windows[0].end, windows[0].from), (0, None, runs[0].simulated_instructions));
}

/// Every `of`th design preset from `from` on has a timeline that holds together.
fn check_presets(from: usize, of: usize) {
    let names = presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name);
    let jobs: Vec<Job> = names
        .skip(from)
        .step_by(of)
        .map(|name| {
            let options = ["memory.bytes=32GiB", "run.warmup=0"].map(str::to_owned).to_vec();
            let request = SpecRequest { design: Some(name.into()), options, ..SpecRequest::default() };
            Job { design: name.into(), spec: load(&request).unwrap_or_else(|error| panic!("{name}: {error}")).spec }
        })
        .collect();
    let names: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    let (trace, windows, runs) = recorded(jobs, 1, TimelineRequest { from: 500, instructions: 800, ..ALL });
    assert_eq!(windows.len(), names.len());
    for ((name, window), run) in names.iter().zip(&windows).zip(&runs) {
        assert_eq!((run.status, window.end), (Status::Done, Some(WindowEnd::Complete)), "{name}: {:?}", run.outcome);
        check_shape(&trace, run);
        let slices = slices(&trace, name);
        let span = slices.iter().find(|slice| slice.name == "window").unwrap_or_else(|| panic!("{name}: no window"));
        let counted = |counter: &str| span.number(&format!("counters.{counter}")).unwrap_or(0);
        let walks = count(&slices, |slice| slice.category == "walk" && slice.name == "page walk");
        assert!(
            walks >= counted("mmu.walks") && walks <= counted("mmu.walks") + counted("mmu.dirty_assists"),
            "{name}"
        );
        let faults = count(&slices, |slice| slice.category == "os" && slice.name == "page fault");
        assert_eq!(faults, counted("core.page_faults"), "{name}");
    }
}

#[test]
fn every_preset_has_a_timeline_1() {
    check_presets(0, 4);
}

#[test]
fn every_preset_has_a_timeline_2() {
    check_presets(1, 4);
}

#[test]
fn every_preset_has_a_timeline_3() {
    check_presets(2, 4);
}

#[test]
fn every_preset_has_a_timeline_4() {
    check_presets(3, 4);
}
