//! The common case without time does what each record would do by itself: with a watch, none goes through it.

use crate::result::RunResult;
use crate::spec::{Spec, SpecRequest, load};
use crate::{Machine, Phase, SharedStream};
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

#[test]
fn the_common_case_counts_as_record_by_record() {
    for (design, program, options) in [
        ("radix", "gups", vec!["run.mode=functional"]),
        ("thp", "bfs", vec!["run.mode=functional", "machine.cores=2"]),
        ("utopia", "gups", vec!["run.mode=functional", "run.warmup=20000"]),
        ("nested", "bfs", vec!["run.mode=functional"]),
        ("radix", "gups", vec!["run.warmup=40000", "run.warmup_mode=functional"]),
    ] {
        let options = options.into_iter().chain(["memory.bytes=4GiB", "run.instructions=30000"]);
        let options = options.map(str::to_owned).collect();
        let spec = load(&SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() }).unwrap().spec;
        let (plain, watched) = (run(&spec, program, false), run(&spec, program, true));
        assert!(plain.simulated_instructions >= 30_000 && plain.checked_translations > 0, "{design} on {program}");
        assert_eq!(plain.counters, watched.counters, "{design} on {program}");
        assert_eq!(plain.checked_translations, watched.checked_translations, "{design} on {program}");
    }
}
