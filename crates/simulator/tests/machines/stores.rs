//! When stores ask for their lines, on a machine where each miss takes equally long.

use crate::support;

use ambulator_base::RecordKind;
use support::{DATA, Scripted, counter, run};

/// Cycles of a miss: 56 of the LLC's round trip, and 60 ns of main memory at 2 GHz.
const MISS: f64 = 56.0 + 120.0;
const ROUNDS: u64 = 500;
const BYTES: u64 = 128 << 20;
const MACHINE: [&str; 3] = ["dram.model=\"fixed\"", "dram.fixed_ns=60", "kernel.page_size_policy=\"always\""];

/// Rounds of two dependent loads and a store, all of which miss, on lines `stride` bytes apart. The store
/// begins `before` bytes before its line.
fn program(stride: u64, before: u64) -> Scripted {
    let mut program = Scripted::new(BYTES);
    program.touch(DATA, BYTES, true).begin();
    for round in 0..ROUNDS {
        let line = |i: u64| DATA + (round * 6 + i) * stride;
        program.access(RecordKind::Load, line(0), 0, 0).access(RecordKind::Load, line(1), 0, 1);
        program.store(line(2) - before);
    }
    program
}

fn cycles_a_round(settings: &[&str], program: &Scripted) -> f64 {
    run("perfect-tlb", &[&MACHINE, settings].concat(), program).cycles as f64 / ROUNDS as f64
}

#[track_caller]
fn about(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.02, "{found:.1} cycles a round, not {expected:.1}");
}

#[test]
fn a_store_asks_when_it_commits_unless_the_core_asks_early() {
    // One place in the store queue. A round's loads dispatch with the store before; its own store dispatches
    // when that one has its line. Asking early, it has the line a miss later. Asking at commit, it first waits
    // for its loads: two rounds take two misses for the loads and one for the line.
    let one = "core.store_queue=1";
    about(cycles_a_round(&[one], &program(64, 0)), 1.5 * MISS);
    about(cycles_a_round(&[one, "core.store_request=\"early\""], &program(64, 0)), MISS);
}

#[test]
fn a_store_of_two_lines_asks_for_both_when_it_commits() {
    // The first is that of the second load.
    let one = "core.store_queue=1";
    about(cycles_a_round(&[one], &program(64, 4)), 1.5 * MISS);
    about(cycles_a_round(&[one, "core.store_request=\"early\""], &program(64, 4)), MISS);
    let run = run("perfect-tlb", &MACHINE, &program(64, 4));
    assert_eq!(counter(&run, "core.split_lines"), ROUNDS);
    assert_eq!(counter(&run, "hierarchy.l1d.demand_misses"), 3 * ROUNDS);
}

#[test]
fn behind_the_caches_a_store_is_translated_once_it_has_asked() {
    // Each line is on a page with a table line of its own, which is loaded once the line has missed the last
    // level: a miss takes longer, and that of a store begins at its commit.
    let program = program(8 * 4096, 0);
    let round = |request| {
        let settings = ["dram.model=\"fixed\"", "dram.fixed_ns=60", "core.store_queue=1", request];
        run("midgard", &settings, &program).cycles as f64 / ROUNDS as f64
    };
    let (commit, early) = (round("core.store_request=\"commit\""), round("core.store_request=\"early\""));
    assert!(early > 1.2 * MISS, "{early:.1} cycles a round, and {MISS} a miss without translation");
    about(commit, 1.5 * early);
}
