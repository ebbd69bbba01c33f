//! Copies of migrated pages take the bandwidth of main memory, or with `kernel.copying` nothing.

use crate::support;
use support::{DATA, Scripted, counter, run};

const PAGES: u64 = 4096;

/// Loads lines of four times as many pages as the RestSeg holds, each as often as the others.
fn program() -> Scripted {
    let mut program = Scripted::new(PAGES << 12);
    program.touch(DATA, PAGES << 12, true).begin();
    for at in 0..40_000_u64 {
        let page = at * 2_654_435_761 % PAGES;
        program.load(DATA + page * 4096 + at % 64 * 64);
    }
    program
}

#[test]
fn copies_take_bandwidth_unless_they_are_free() {
    let of = |copying: &str| {
        let utopia = ["utopia.segments=['4MiB/4KiB/8']", "utopia.frequency_threshold=1", "utopia.cost_threshold=0"];
        let copying = format!("kernel.copying={copying}");
        run("utopia-4k", &[&utopia[..], &["machine.cores=1", &copying]].concat(), &program())
    };
    let (memory, free) = (of("memory"), of("free"));
    let moved = |run| counter(run, "kernel.migrations_in") + counter(run, "kernel.migrations_out");
    assert!(moved(&memory) > 100 && moved(&free) > 100, "{} and {}", moved(&memory), moved(&free));
    // 64 lines of each page are read and written; the program itself writes nothing back.
    let written = |run| counter(run, "hierarchy.dram.data_writes");
    assert!(written(&memory) > 60 * moved(&memory), "{} for {}", written(&memory), moved(&memory));
    assert!(written(&free) < written(&memory) / 20, "{}", written(&free));
    assert!(free.cycles < memory.cycles, "{} and {}", free.cycles, memory.cycles);
}
