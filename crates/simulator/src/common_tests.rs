//! The common cases of the run loop do what each record would do by itself: with a watch, none goes through
//! them.

use crate::fuzz::{COMPOSED, FUNCTIONAL, FUZZ_MACHINE_BYTES, SPREAD, TRACE, assemble};
use crate::result::RunResult;
use crate::spec::{Spec, SpecRequest, load};
use crate::{Machine, Phase, SharedStream};
use ambulator_base::Random;
use ambulator_base::watch::watch;
use ambulator_workloads::{ProgramRequest, open};

fn machine(spec: &Spec, program: &str) -> Machine {
    let programs = (0..spec.machine.cores.into()).map(|seed| {
        let (name, footprint) = (program.to_owned(), Some(8 << 20));
        let request = ProgramRequest { name, footprint, seed, ..ProgramRequest::default() };
        (SharedStream::new(open(&request).unwrap(), 1), 0)
    });
    Machine::new(spec, programs.collect()).unwrap()
}

/// The result of a whole run.
fn run(spec: &Spec, program: &str, watched: bool) -> RunResult {
    let mut machine = machine(spec, program);
    let mut goes_on = true;
    while goes_on {
        goes_on = if watched && machine.phase() != Phase::Setup {
            watch(|| machine.advance(200)).0.unwrap()
        } else {
            machine.advance(200).unwrap()
        };
    }
    machine.result("a design", spec).0
}

fn compare(design: &str, program: &str, options: &[&str]) {
    let options = options.iter().chain(&["memory.bytes=4GiB", "run.instructions=8000"]);
    let options = options.map(|&option| option.to_owned()).collect();
    let spec = load(&SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() }).unwrap().spec;
    let (plain, watched) = (run(&spec, program, false), run(&spec, program, true));
    assert!(plain.simulated_instructions >= 8000, "{design} on {program}");
    assert_eq!(plain.checked_translations > 0, spec.run.oracle, "{design} on {program}");
    assert_eq!(plain.counters, watched.counters, "{design} on {program}");
    assert_eq!(plain.checked_translations, watched.checked_translations, "{design} on {program}");
}

#[test]
fn the_common_case_without_time_counts_as_record_by_record() {
    compare("radix", "gups", &["run.mode=functional"]);
    compare("thp", "bfs", &["run.mode=functional", "machine.cores=2"]);
    compare("utopia", "gups", &["run.mode=functional", "run.warmup=20000"]);
    compare("nested", "bfs", &["run.mode=functional"]);
    compare("radix", "gups", &["run.warmup=40000", "run.warmup_mode=functional"]);
    // Hits of the line accessed last change something there.
    compare("radix", "gups", &["run.mode=functional", "l1d.replacement=srrip", "mmu.walk_entry=l1"]);
    compare("radix", "bfs", &["run.mode=functional", "l1d.prefetcher=ip-stride", "l1d.replacement=tree-plru"]);
    compare("thp", "pagerank", &["run.mode=functional", "l1d.replacement=random", "l2.prefetcher=stream"]);
    compare("revelator", "gups", &["run.mode=functional", "run.warmup=20000"]);
    compare("tlb-agile", "bfs", &["run.mode=functional"]);
}

#[test]
fn the_common_case_with_time_counts_as_record_by_record() {
    compare("radix", "gups", &[]);
    compare("thp", "bfs", &["machine.cores=2"]);
    compare("perfect-tlb", "stream", &[]);
    compare("perfect-tlb", "bfs", &["core.store_request=early", "core.width=1"]);
    compare("revelator", "gups", &["core.store_request=early", "run.warmup=4000"]);
    compare("nested", "stream", &["core.rob=16", "core.load_queue=2", "core.store_queue=1"]);
    compare("ecpt", "gups", &["run.oracle=false", "machine.cores=2"]);
    compare("radix", "bfs", &["mmu.l1_latency=5", "core.forward_latency=9", "core.predictor=bimodal"]);
}

/// Everything that a run of any program on any small machine counts, and how it ended.
fn fuzzed(bytes: &[u8], watched: bool) -> Option<(RunResult, String)> {
    let (spec, mut machine) = assemble(bytes)?;
    let mut ended = String::new();
    for _ in 0..200 {
        let advanced = if watched { watch(|| machine.advance(300)).0 } else { machine.advance(300) };
        match advanced {
            Ok(true) => {}
            Ok(false) => break,
            Err(stop) => {
                ended = format!("{stop:?}");
                break;
            }
        }
    }
    Some((machine.result("a design", &spec).0, ended))
}

fn any_program(functional: bool) {
    let mut random = Random::new(26);
    let (mut checked, mut faults, mut walks) = (0, 0, 0);
    for round in 0..12 {
        let mut bytes: Vec<u8> = (0..FUZZ_MACHINE_BYTES + 4 * 150).map(|_| random.next_u64() as u8).collect();
        bytes[0] &= !(FUNCTIONAL | COMPOSED | SPREAD | TRACE);
        bytes[0] |= if functional { FUNCTIONAL } else { 0 };
        let (Some(plain), Some(watched)) = (fuzzed(&bytes, false), fuzzed(&bytes, true)) else { continue };
        assert_eq!(plain.0.counters, watched.0.counters, "round {round}");
        assert_eq!(plain.0.checked_translations, watched.0.checked_translations, "round {round}");
        assert_eq!(plain.1, watched.1, "round {round}");
        let of = |name: &str| plain.0.counters.get(name).copied().unwrap_or_default();
        checked += plain.0.checked_translations;
        faults += of("core.page_faults");
        walks += of("mmu.walks");
    }
    assert!(checked > 3000 && faults > 30 && walks > 300, "{checked} checked, {faults} faults, {walks} walks");
}

#[test]
fn any_program_on_any_machine_without_time_counts_as_record_by_record() {
    any_program(true);
}

#[test]
fn any_program_on_any_machine_with_time_counts_as_record_by_record() {
    any_program(false);
}
