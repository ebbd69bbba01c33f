//! Page colours in results: where a design's pages lie, and the warning that few colours cost misses.

use crate::support;
use support::{DATA, Scripted, counter, outcome, run};

/// Pages that the program touches and loads from, one in each of as many sets of the RestSeg.
const PAGES: u64 = 1024;
const SETTINGS: [&str; 4] = ["machine.cores=1", "l2.bytes=1MiB", "l2.ways=16", "utopia.segments=['256MiB/4KiB/16']"];

/// Loads a line of each of 256 pages, which a cache of 1 MiB holds, again and again.
fn program() -> Scripted {
    let mut program = Scripted::new(PAGES << 12);
    program.touch(DATA, PAGES << 12, true).begin();
    for at in (0..64).flat_map(|line| (0..256).map(move |page| page * 4096 + line % 16 * 64)) {
        program.load(DATA + at);
    }
    program
}

#[test]
fn a_warning_says_which_design_has_its_pages_in_few_colours() {
    let first = [&SETTINGS[..], &["utopia.free_way=first"]].concat();
    let jobs = [("radix", &SETTINGS[..3]), ("utopia-4k", &SETTINGS[..]), ("utopia-4k", &first[..])];
    let found = outcome(&jobs, vec![program()], 1);
    let share = |job: usize| found.runs[job].measure("l2_colour_share");
    assert!(share(0) > 0.9 && share(1) > 0.85 && share(2) < 0.15, "{} {} {}", share(0), share(1), share(2));
    let misses = |job: usize| found.runs[job].measure("l2_cache_mpki");
    assert!(misses(2) > 2.0 * misses(0), "{} and {}", misses(2), misses(0));
    assert_eq!(found.notes.iter().filter(|note| note.contains("page colours")).count(), 1, "{:?}", found.notes);
}

#[test]
fn the_shares_of_the_lookaside_and_of_the_operating_system_leave_faults_out() {
    let cold = [&SETTINGS[..], &["run.populate=false"]].concat();
    let run = run("utopia-4k", &cold, &program());
    // Each page faults once, after a walk that finds nothing; all of them are in the RestSeg.
    assert!(counter(&run, "mmu.faults") >= 256 && counter(&run, "mmu.walks") >= 256);
    assert_eq!(run.measure("lookaside_share"), 1.0);
    let outside = run.simulated_instructions as f64 / (run.cycles - counter(&run, "core.os_cycles")) as f64;
    assert!((run.measure("ipc_outside_os") / outside - 1.0).abs() < 1e-9 && outside > 1.1 * run.ipc);
}
