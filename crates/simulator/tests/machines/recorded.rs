//! Machines that place pages where a trace has recorded them.

use crate::support;

use ambulator_base::{PageSize, RecordSource};
use ambulator_simulator::{Comparison, Job, Silent, Status, compare};
use std::sync::Arc;
use support::{DATA, Scripted, counter, run, spec};

const HUGE: u64 = 2 << 20;

/// 16 pages each that are contiguous on both sides, `runs` times, in frames far apart.
fn fragments(runs: u64) -> Scripted {
    let mut program = Scripted::new(runs << 16);
    for run in 0..runs {
        program.place(DATA + (run << 16), 1 << 16, 0x400_0000 + run * 0x3_0000, PageSize::SIZE_4K);
    }
    program.touch(DATA, runs << 16, true);
    program.begin();
    for page in 0..runs << 4 {
        program.load(DATA + (page << 12));
    }
    program
}

#[test]
fn ranges_are_the_contiguity_of_the_trace() {
    for runs in [3, 20] {
        let program = fragments(runs);
        let result = run("rmm", &["design.placement=trace"], &program);
        assert_eq!((result.status, result.outcome.as_deref()), (Status::Done, None));
        assert_eq!(counter(&result, "kernel.table.ranges_now.ranges"), runs);
        assert_eq!(counter(&result, "kernel.placement.trace.exact"), runs * 16);
        assert_eq!(counter(&result, "kernel.placement.trace.taken"), 0);
        // Eager paging puts all of it into one range or two; demand paging into one that grows.
        let eager = run("rmm", &[], &program);
        assert!(counter(&eager, "kernel.table.ranges_now.ranges") < runs, "{runs}");
    }
}

#[test]
fn recorded_huge_pages_take_one_entry_of_a_tlb() {
    let mut program = Scripted::new(8 * HUGE);
    program.place(DATA, 8 * HUGE, 0x1_0000_0000, PageSize::SIZE_2M);
    program.touch(DATA, 8 * HUGE, true).begin();
    for page in 0..8 * 512 {
        program.load(DATA + (page << 12));
    }
    let result = run("radix", &["design.placement=trace"], &program);
    assert_eq!(counter(&result, "kernel.placement.trace.rebased"), 8 * 512, "beyond 1 GiB");
    let base = run("radix", &[], &program);
    let misses = |result| counter(result, "mmu.l1d_tlb_misses");
    // Those that are in flight together with the first miss of a page miss, too.
    assert!(misses(&result) < 512 && misses(&base) >= 4096, "{} {}", misses(&result), misses(&base));
}

/// Every design that has no placement of its own, native and nested, with the oracle on: a page that moves while
/// the program uses it is found where it is.
#[test]
fn all_page_tables_find_recorded_pages_that_move() {
    let mut program = Scripted::new(HUGE);
    program.place(DATA, HUGE, 0x800_0000, PageSize::SIZE_4K);
    program.touch(DATA, HUGE, true).begin();
    for round in 0..4_u64 {
        for page in 0..64 {
            program.store(DATA + (page << 12)).pause();
        }
        program.place(DATA + (round << 14), 1 << 14, 0x1000_0000 + (round << 20), PageSize::SIZE_4K);
    }
    for page in 0..64 {
        program.load(DATA + (page << 12));
    }
    for design in ["radix", "thp", "ecpt", "me-hpt", "lvm", "rmm", "hashed", "pom-tlb", "asap", "ideal"] {
        for mode in ["none", "nested"] {
            let mode = format!("virtualization.mode={mode}");
            let result = run(design, &["design.placement=trace", &mode], &program);
            assert_eq!((result.status, result.outcome.as_deref()), (Status::Done, None), "{design} {mode}");
            assert_eq!(counter(&result, "kernel.placement.trace.exact"), 512, "{design} {mode}");
            assert_eq!(counter(&result, "kernel.placement.trace.moved"), 16, "{design} {mode}");
            assert!(result.checked_translations > 300, "{design} {mode}");
        }
    }
}

#[test]
fn the_same_trace_on_two_cores_is_two_recorded_machines() {
    let program = fragments(8);
    let job = Job { design: "radix".into(), spec: spec("radix", &["design.placement=trace", "machine.cores=2"]) };
    let programs = vec![Box::new(program.clone()) as Box<dyn RecordSource>, Box::new(program)];
    let both =
        compare(Comparison { jobs: vec![job], programs, threads: 1, stop: Arc::default(), progress: Arc::new(Silent) });
    let result = both.unwrap().runs.remove(0);
    let trace = |name: &str| counter(&result, &format!("kernel.placement.trace.{name}"));
    assert_eq!((trace("exact"), trace("rebased"), trace("taken")), (128, 128, 0));
}

#[test]
fn a_program_without_physical_addresses_is_refused() {
    let mut program = Scripted::new(4096);
    program.begin().load(DATA);
    let refused = run("radix", &["design.placement=trace"], &program);
    assert_eq!(refused.status, Status::Failed);
    let why = refused.outcome.unwrap();
    assert!(why.contains("scripted has no physical addresses: run a trace that records them"), "{why}");
}
