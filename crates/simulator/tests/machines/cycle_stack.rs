//! The cycle stack adds up, for every design, and says what the program waits for.

use crate::support;

use ambulator_base::{Random, RecordKind, VirtAddr, VmEvent};
use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Silent, compare};
use ambulator_workloads::{ProgramRequest, open};
use std::sync::Arc;

/// Every design preset.
fn every_preset() -> Vec<&'static str> {
    presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name).collect()
}

/// Designs with more settings, on one program.
fn runs(designs: &[&str], program: &str, footprint: u64, settings: &[&str]) -> Outcome {
    let request = |seed| {
        let mut request =
            ProgramRequest { name: program.into(), footprint: Some(footprint), seed, ..ProgramRequest::default() };
        if program == "pointer-chase" {
            // A node to a page, and a line to a node, not all in the same set of a cache.
            request.settings.insert("node_bytes".into(), if footprint < 32 << 20 { 4160 } else { 64 }.into());
        }
        request
    };
    let options: Vec<String> = ["memory.bytes=32GiB", "run.instructions=60000", "run.warmup=20000"]
        .iter()
        .chain(settings)
        .map(|option| (*option).to_owned())
        .collect();
    let job = |design: &str| {
        let request = SpecRequest { design: Some(design.into()), options: options.clone(), ..SpecRequest::default() };
        Job { design: design.into(), spec: load(&request).unwrap_or_else(|error| panic!("{design}: {error}")).spec }
    };
    let jobs: Vec<Job> = designs.iter().map(|design| job(design)).collect();
    let programs = if jobs[0].spec.run.spread_threads { 1 } else { jobs[0].spec.machine.cores };
    let open = |seed| open(&request(seed)).unwrap_or_else(|error| panic!("{program}: {error}"));
    compare(Comparison {
        jobs,
        programs: (1..=u64::from(programs)).map(open).collect(),
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
    for (number, core) in run.cores.iter().enumerate() {
        let stack: u64 = core.stack.values().sum();
        assert!(stack == core.cycles, "{}, core {number}: {stack} of {} cycles", run.design, core.cycles);
    }
    let all: u64 = run.cores.iter().map(|core| core.cycles).sum();
    assert_eq!(all, cycles, "{}: the cores' cycles", run.design);
    let cpi = run.measures.iter().filter(|(name, _)| name.starts_with("cpi_")).map(|(_, part)| part).sum::<f64>();
    assert!((cpi / run.measure("cpi") - 1.0).abs() < 1e-9, "{}: {cpi} of {}", run.design, run.measure("cpi"));
}

/// The part of a run's cycles that causes have.
fn share(run: &RunResult, causes: &[&str]) -> f64 {
    let of: u64 = causes.iter().map(|cause| part(run, cause)).sum();
    of as f64 / run.counters["core.window.cycles"] as f64
}
const WALKS: [&str; 5] = ["walk_l1", "walk_l2", "walk_llc", "walk_dram", "walk_joined"];

#[test]
fn the_cycle_stack_of_every_design_adds_up_to_its_cycles() {
    let outcome = runs(&every_preset(), "gups", 64 << 20, &[]);
    let mut walked = 0;
    for run in &outcome.runs {
        assert_adds_up(run);
        let walks: u64 = WALKS.iter().map(|level| part(run, level)).sum();
        assert!(walks == 0 || !run.design.starts_with("perfect-tlb"), "{}: {walks} cycles of walks", run.design);
        // Revelator's are on their way to the L2.
        let data = part(run, "l2") + part(run, "llc") + part(run, "dram");
        assert!(data * 5 > run.cycles, "{}: random accesses wait for data", run.design);
        walked += u64::from(walks * 100 > run.cycles);
    }
    assert!(walked > 10, "{walked} designs wait for walks");
}

#[test]
fn page_faults_count_as_the_operating_systems_cycles() {
    // Without set-up the region takes the faults.
    let outcome = runs(&every_preset(), "gups", 64 << 20, &["run.warmup=0", "run.populate=false"]);
    for run in &outcome.runs {
        assert_adds_up(run);
        let (os, charged) = (part(run, "os"), run.counters["core.os_cycles"]);
        assert!(charged > 0 && os >= charged && os < charged + charged / 10, "{}: {os}, {charged}", run.design);
    }
}

/// Presets that describe no machine of their own and can run in a guest.
const IN_A_GUEST: [&str; 6] = ["radix", "thp", "ecpt", "me-hpt", "lvm", "hashed"];

#[test]
fn it_adds_up_on_nested_machines_with_faults() {
    let settings = ["virtualization.mode=nested", "run.populate=false", "run.instructions=20000", "run.warmup=5000"];
    for run in &runs(&IN_A_GUEST, "gups", 16 << 20, &settings).runs {
        assert_adds_up(run);
        assert!(share(run, &["os"]) > 0.1, "{}: the guest and the hypervisor fault", run.design);
    }
}

#[test]
fn it_adds_up_on_several_cores() {
    let settings = ["machine.cores=2", "run.instructions=15000", "run.warmup=5000"];
    for run in &runs(&every_preset(), "gups", 16 << 20, &settings).runs {
        assert_eq!(run.cores.len(), 2, "{}", run.design);
        assert_adds_up(run);
    }
    let spread = ["machine.cores=2", "run.spread_threads=true", "run.populate=false", "run.instructions=15000"];
    runs(&["radix", "thp", "lvm"], "xsbench", 64 << 20, &spread).runs.iter().for_each(assert_adds_up);
}

#[test]
fn it_adds_up_after_a_functional_warm_up_and_in_each_interval() {
    let settings =
        ["run.warmup_mode=functional", "run.warmup_timing=2000", "run.interval=5000", "run.instructions=20000"];
    for run in &runs(&every_preset(), "gups", 16 << 20, &settings).runs {
        assert_adds_up(run);
        let series = run.series.as_ref().unwrap();
        let counter = |name: &str, at: usize| series.counters.get(name).map_or(0, |values| values[at]);
        for at in 0..series.cycles.len() {
            let parts = series.counters.keys().filter(|name| name.starts_with("core.window.stack_"));
            let stack: u64 = parts.map(|name| counter(name, at)).sum();
            assert_eq!(stack, counter("core.window.cycles", at), "{}, interval {at}", run.design);
        }
    }
}

#[test]
fn a_chase_through_main_memory_waits_for_dram() {
    for run in &runs(&["perfect-tlb", "thp"], "pointer-chase", 256 << 20, &[]).runs {
        assert_adds_up(run);
        assert!(share(run, &["dram"]) > 0.75, "{}: {:?}", run.design, run.cores[0].stack);
    }
}

#[test]
fn a_chase_within_the_l2_cache_that_misses_the_tlbs_waits_for_translation() {
    let outcome = runs(&["radix", "perfect-tlb"], "pointer-chase", 16 << 20, &[]);
    let [radix, perfect] = &outcome.runs[..] else { panic!("two runs") };
    let translation: Vec<&str> = WALKS.into_iter().chain(["tlb_l1", "tlb_l2"]).collect();
    assert!(share(radix, &WALKS) > share(radix, &["l1", "l2", "llc", "dram"]), "{:?}", radix.cores[0].stack);
    assert!(share(radix, &translation) > 0.5, "{:?}", radix.cores[0].stack);
    assert!(share(perfect, &["l2"]) > 0.75, "{:?}", perfect.cores[0].stack);
}

#[test]
fn branches_that_nobody_can_predict_count_as_such() {
    let mut program = support::Scripted::new(1 << 12);
    program.touch(support::DATA, 1 << 12, true).begin();
    let mut random = Random::new(5);
    for _ in 0..20_000 {
        let kind = if random.below(2) == 0 { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
        program.access(kind, support::CODE, 3, 0);
    }
    program.event(VmEvent::RegionEnd);
    let run = support::run("radix", &["run.instructions=80000", "run.warmup=0"], &program);
    assert_adds_up(&run);
    assert!(share(&run, &["branch"]) > 0.7, "{:?}", run.cores[0].stack);
}

#[test]
fn a_storm_of_page_faults_is_the_operating_systems() {
    let bytes = 8 << 20;
    let mut program = support::Scripted::new(bytes);
    program.begin();
    (0..bytes / 4096).for_each(|page| _ = program.store(support::DATA + page * 4096));
    program.event(VmEvent::RegionEnd);
    let run = support::run("radix", &["run.warmup=0"], &program);
    assert_adds_up(&run);
    assert!(share(&run, &["os"]) > 0.9, "{:?}", run.cores[0].stack);
}

#[test]
fn a_profile_names_who_misses_and_its_parts_add_up_to_the_counters() {
    // Two adjacent mappings, of which the second is walked four times as often, by another instruction.
    let bytes = 32 << 20;
    let (first, second) = (support::DATA, support::DATA + bytes);
    let mut program = support::Scripted::new(bytes);
    program.map(second, bytes, ambulator_base::Protection::READ_WRITE, ambulator_base::MapKind::Anonymous);
    program.touch(first, 2 * bytes, true).begin();
    let mut random = Random::new(9);
    for at in 0..20_000u64 {
        let page = random.below(bytes / 4096) * 4096;
        program.load(if at % 5 == 0 { first + page } else { second + page });
        if at % 5 != 0
            && let Some(support::Step::Access(record)) = program.steps.last_mut()
        {
            record.pc = VirtAddr(support::CODE + 64);
        }
    }
    program.event(VmEvent::RegionEnd);
    let plain = support::run("radix", &["memory.bytes=16GiB", "run.warmup=2000"], &program);
    for design in ["radix", "lvm", "utopia", "nested"] {
        let run = support::run(design, &["memory.bytes=16GiB", "run.warmup=2000", "run.profile=8"], &program);
        if design == "radix" {
            assert_eq!(run.counters, plain.counters, "a profile changes nothing");
            assert_eq!(plain.profile, None);
        }
        let profile = run.profile.as_ref().unwrap_or_else(|| panic!("{design}: {:?}", run.outcome));
        let total = profile.total();
        assert_eq!(total.walk_cycles, run.counters["mmu.walk_cycles"], "{design}");
        assert_eq!(total.walks, run.counters["mmu.walks"], "{design}");
        assert_eq!(total.l2_tlb_misses, run.counters["mmu.l2_tlb_misses"], "{design}");
        let mut code = profile.other_code;
        profile.code.iter().for_each(|row| code.add(&row.misses));
        assert_eq!(code, total, "{design}: every miss has an instruction");
        if design == "utopia" {
            continue; // Its pages are in RestSegs: there are hardly any walks.
        }
        assert_eq!((profile.mappings[0].start, profile.mappings[1].start), (second, first), "{design}");
        let walks = [0, 1].map(|at| profile.mappings[at].misses.walks as f64);
        // Four times the accesses find their pages in the TLBs a little more often.
        assert!((3.0..4.0).contains(&(walks[0] / walks[1])), "{design}: {walks:?}");
        assert_eq!((profile.code[0].pc, profile.code[0].mapping), (support::CODE + 64, Some(0)), "{design}");
    }
}

#[test]
fn each_level_of_tlbs_has_its_part() {
    // 500 pages are more than the L1 TLB holds, and within the L2 TLB; their lines fit in the L1 cache.
    let parts = |run: &RunResult| {
        assert_adds_up(run);
        [share(run, &["tlb_l1"]), share(run, &["tlb_l2"]), share(run, &WALKS)]
    };
    let [first, second, walks] = parts(&runs(&["radix"], "pointer-chase", 2 << 20, &[]).runs[0]);
    assert!(first == 0.0 && second > 0.5 && walks < 0.05, "{first}, {second}, {walks}");
    // Pages that the L1 TLB holds: one cycle of its look-up overlaps that of the cache, the others do not.
    let mut program = support::Scripted::new(16 << 12);
    program.touch(support::DATA, 16 << 12, true).begin();
    (0..20_000u64)
        .for_each(|at| _ = program.access(RecordKind::Load, support::DATA + at % 16 * 4160 % (16 << 12), 0, 1));
    program.event(VmEvent::RegionEnd);
    let [first, second, walks] = parts(&support::run("radix", &["mmu.l1_latency=9"], &program));
    assert!(first > 0.5 && second < 0.05 && walks < 0.05, "{first}, {second}, {walks}");
}

#[test]
fn a_load_that_joins_a_walk_waits_for_that_walk() {
    let bytes = 256 << 20;
    // Loads of one line, and of two, which are translated apart from what is common.
    for offset in [0, 60] {
        let mut program = support::Scripted::new(bytes);
        program.touch(support::DATA, bytes, true).begin();
        let mut random = Random::new(7);
        for _ in 0..3000 {
            // The third load needs nothing of this round and begins the page's walk; the second, which is older, joins it.
            let page = support::DATA + random.below(bytes / 4096) * 4096;
            program.access(RecordKind::Load, support::DATA, 0, 2);
            program.access(RecordKind::Load, page + offset, 0, 1);
            program.access(RecordKind::Load, page + 8, 0, 4);
        }
        program.event(VmEvent::RegionEnd);
        let run = support::run("radix", &[], &program);
        assert_adds_up(&run);
        assert!(run.counters["mmu.joined"] > 2800, "{}", run.counters["mmu.joined"]);
        let (joined, own) = (share(&run, &["walk_joined"]), share(&run, &WALKS[..4]));
        assert!(joined > 0.1 && own < joined / 10.0, "{offset}: {joined}, {own}: {:?}", run.cores[0].stack);
    }
}
