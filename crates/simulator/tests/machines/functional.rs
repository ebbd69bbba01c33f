//! Functional mode against timing mode: every preset, every count that needs no time.
//!
//! A counter says itself whether it depends on time (`timed`). What is compared begins in a steady state: while
//! a structure is cold, as many accesses miss it as a core has in flight, and what these misses load elsewhere
//! stays there. So programs first visit their memory one access at a time.

use ambulator_base::{Batch, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, Unit, VirtAddr, VmEvent};
use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Silent, Status, compare};
use ambulator_workloads::layout::TEXT;
use ambulator_workloads::{ProgramRequest, open};
use std::sync::Arc;

/// Relative difference that a count may have.
const TOLERANCE: f64 = 0.02;
/// Absolute difference that a count may have besides: the loads that a core holds in flight. They may come
/// while something is loaded that they would find in functional mode.
const SLACK: u64 = 64;
/// Instructions between two accesses of the first visit: each ends before the next begins.
const PAUSE: u32 = 10_000;
/// Bytes from one access of the first visit to the next.
const STEP: u64 = 64 << 10;

/// A program by name, of `footprint` bytes.
fn program(name: &str, footprint: u64) -> Box<dyn RecordSource> {
    let request =
        ProgramRequest { name: name.into(), footprint: Some(footprint), seed: 1, ..ProgramRequest::default() };
    open(&request).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The accesses of the first visit: a load for each step of what a program's set-up touches.
fn visit(name: &str, footprint: u64) -> Vec<Record> {
    let (mut source, mut batch, mut records) = (program(name, footprint), Batch::default(), Vec::new());
    loop {
        assert!(source.fill(&mut batch).unwrap(), "{name} has no region of interest");
        for (_, event) in &batch.events {
            match *event {
                VmEvent::RegionBegin => return records,
                VmEvent::Touch { start, len, .. } => records.extend((0..len.div_ceil(STEP)).map(|step| Record {
                    pc: VirtAddr(TEXT),
                    va: start.offset(step * STEP),
                    gap: PAUSE,
                    size: 1,
                    kind: RecordKind::Load,
                    ..Record::default()
                })),
                _ => {}
            }
        }
    }
}

/// A program that first visits its memory.
struct Visited {
    source: Box<dyn RecordSource>,
    visit: Vec<Record>,
}

impl RecordSource for Visited {
    fn identity(&self) -> ProgramIdentity {
        self.source.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.source.fill(batch)?;
        let begins = batch.events.iter().position(|(_, event)| *event == VmEvent::RegionBegin);
        if let Some(at) = begins {
            let (first, count) = (batch.events[at].0 as usize, self.visit.len() as u32);
            batch.records.splice(first..first, self.visit.drain(..));
            batch.events[at + 1..].iter_mut().for_each(|(at, _)| *at += count);
        }
        Ok(more)
    }
}

/// Every design preset in a mode, on one decoding of the program.
fn runs(mode: &str, name: &str, footprint: u64) -> Outcome {
    let visit = visit(name, footprint);
    let warmup = 20_000 + visit.iter().map(Record::instructions).sum::<u64>();
    let job = |design: &str| {
        // A window of one instruction: in both modes, accesses are translated in program order.
        let options = ["memory.bytes=32GiB", "run.instructions=50000", "core.rob=1"].map(str::to_owned);
        let more = [format!("run.warmup={warmup}"), format!("run.mode={mode}")];
        let options = options.into_iter().chain(more).collect();
        let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
        Job { design: design.into(), spec: load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec }
    };
    let designs = presets().iter().filter(|preset| preset.kind == PresetKind::Design);
    compare(Comparison {
        jobs: designs.map(|preset| job(preset.name)).collect(),
        programs: vec![Box::new(Visited { source: program(name, footprint), visit })],
        threads: 0,
        stop: Arc::default(),
        progress: Arc::new(Silent),
    })
    .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The difference that two values may have.
fn allowed(a: u64, b: u64) -> u64 {
    (a.max(b) as f64 * TOLERANCE) as u64 + SLACK
}

/// Whether a design's lookaside works in the background so much that what it finds depends on when: more than
/// 2% of its refills were not made because an earlier one was still under way.
fn refills_all_the_time(timed: &RunResult) -> bool {
    let count = |name: &str| timed.counters.get(name).copied().unwrap_or(0);
    count("mmu.lookaside.busy") as f64 > TOLERANCE * count("mmu.lookaside.walks") as f64
}

/// Whether a count depends on which refills were made: which of the L2 TLB and the lookaside served an L1 TLB
/// miss, and the loads of the refills.
fn depends_on_refills(name: &str) -> bool {
    name.starts_with("mmu.lookaside")
        || name.starts_with("mmu.l2_tlb_")
        || name.starts_with("mmu.walk_served")
        || name.starts_with("hierarchy") && name.contains(".table_")
}

/// Whether a design fetched data before their walks ended.
fn foresees_data(timed: &RunResult) -> bool {
    timed.counters.get("mmu.speculated_data").is_some_and(|fetched| *fetched > 0)
}

/// The counts of a run that differ by more than they may, as lines.
fn differences(timed: &RunResult, counted: &RunResult, is_timed: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    let of = |run: &RunResult, name: &str| run.counters.get(name).copied().unwrap_or(u64::MAX);
    let mut compare = |name: &str, expected: u64, found: u64| {
        if found.abs_diff(expected) > allowed(expected, found) {
            lines.push(format!("{}: {name}: {expected} in timing mode, {found} in functional mode", timed.design));
        }
    };
    for name in timed.counters.keys() {
        let (expected, found) = (of(timed, name), of(counted, name));
        if !is_timed(name) {
            if !(refills_all_the_time(timed) && depends_on_refills(name)) {
                compare(name, expected, found);
            }
        } else if let Some(misses) = name.strip_suffix("_hits").map(|start| format!("{start}_misses"))
            && timed.counters.contains_key(&misses)
            && is_timed(&misses)
            && !name.starts_with("hierarchy")
        {
            // What is under way turns hits into misses and nothing else.
            compare(&format!("{name} and misses"), expected + of(timed, &misses), found + of(counted, &misses));
            compare(&format!("{name}, of which none is lost"), expected, found.min(expected));
        }
    }
    // Without time no line is on its way from DRAM: one that was foreseen is in a cache by then. Where the walk found
    // its entry does not depend on that, and without foresight nothing does.
    for translation in ["dram", "cached"] {
        let names = ["dram", "cached"].map(|data| format!("core.{translation}_translation_{data}_data"));
        let walked = |run| names.iter().map(|name| of(run, name)).sum();
        compare(&format!("accesses with {translation}_translation"), walked(timed), walked(counted));
        if !foresees_data(timed) {
            names.iter().for_each(|name| compare(name, of(timed, name), of(counted, name)));
        }
    }
    if refills_all_the_time(timed) {
        let served = |run| of(run, "mmu.l2_tlb_hits") + of(run, "mmu.lookaside_hits");
        compare("L1 TLB misses that L2 TLB and lookaside served", served(timed), served(counted));
    }
    lines
}

fn functional_agrees_with_timing(name: &str, footprint: u64) {
    let (timing, functional) = (runs("timing", name, footprint), runs("functional", name, footprint));
    let mut wrong = Vec::new();
    for (timed, counted) in timing.runs.iter().zip(&functional.runs) {
        let done = (timed.status, counted.status) == (Status::Done, Status::Done);
        assert!(done, "{}: {:?} {:?}", timed.design, timed.outcome, counted.outcome);
        assert_eq!(counted.cycles, 0, "{}", counted.design);
        wrong.extend(differences(timed, counted, |name| timing.schema[name].timed));
        for (name, value) in &counted.counters {
            let meaning = &functional.schema[name];
            if meaning.timed && meaning.unit == Unit::Cycles && *value != 0 {
                wrong.push(format!("{}: {name} is a time, but {value}", counted.design));
            }
        }
    }
    let busy: Vec<&str> =
        timing.runs.iter().filter(|run| refills_all_the_time(run)).map(|run| run.design.as_str()).collect();
    assert!(busy.len() <= 1, "{busy:?} refill all the time");
    assert!(wrong.is_empty(), "{name}: {} counts differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_preset_counts_the_same_on_random_accesses() {
    functional_agrees_with_timing("gups", 32 << 20);
}

#[test]
fn every_preset_counts_the_same_on_a_program_with_locality() {
    functional_agrees_with_timing("mcf", 24 << 20);
}
