//! Zeroing of fresh pages takes the bandwidth of main memory.

use crate::support;

use ambulator_base::{MapKind, Protection, RecordKind, VirtAddr, VmEvent};
use support::{DATA, Scripted, counter, outcome, run};

const HUGE: u64 = 2 << 20;
const LINES: u64 = HUGE / 64;
const ALWAYS: &str = "kernel.page_size_policy=\"always\"";
const CYCLES_ONLY: &str = "kernel.zeroing=\"cycles-only\"";

/// Maps `pages` pages of 2 MiB and one more, which its set-up touches, and stores to each of the others.
fn first_touches(pages: u64) -> Scripted {
    let mut program = Scripted::new((pages + 1) * HUGE);
    program.touch(DATA, HUGE, true).begin();
    for page in 1..=pages {
        program.store(DATA + page * HUGE);
    }
    program
}

/// Loads of `lines` lines, which the set-up has touched.
fn loads(lines: u64) -> Scripted {
    let mut program = Scripted::new((lines * 64).next_multiple_of(HUGE));
    program.touch(DATA, lines * 64, true).begin();
    for line in 0..lines {
        program.access(RecordKind::Load, DATA + line * 64, 0, 0);
    }
    program
}

#[test]
fn every_line_of_a_fresh_page_is_written_once_and_those_of_the_set_up_are_not() {
    for (settings, lines) in [(&[ALWAYS][..], 3 * LINES), (&[], 3 * 64), (&[ALWAYS, CYCLES_ONLY], 0)] {
        for timing in [true, false] {
            let settings =
                [settings, &[if timing { "run.mode=\"timing\"" } else { "run.mode=\"functional\"" }]].concat();
            let run = run("radix", &settings, &first_touches(3));
            assert_eq!(counter(&run, "hierarchy.zeroing.lines"), lines, "{settings:?}");
            let written = counter(&run, "hierarchy.dram.data_writes");
            assert!((lines..lines + 8).contains(&written), "{written} writes with {settings:?}");
            assert_eq!(counter(&run, "kernel.zeroed_bytes"), if settings[0] == ALWAYS { 3 * HUGE } else { 3 * 4096 });
        }
    }
}

#[test]
fn a_huge_fault_takes_the_bus_from_other_cores() {
    // The second core reads as fast as the only channel delivers, and ends last. Each line that the first
    // core's fault writes costs it the 5 cycles that a line takes on the bus, and a share of the turns of the
    // bus and of the rows that writes close.
    let channel: &[&str] =
        &[ALWAYS, "dram.channels=1", "dram.mapping=\"ro-co-ra-ba-ch\"", "dram.t_refi_ns=0", "machine.cores=2"];
    let core: &[&str] = &["l1d.mshrs=64", "l2.mshrs=64", "core.rob=512", "llc.mshrs=128"];
    let settings = [channel, core].concat();
    let without = [&settings[..], &[CYCLES_ONLY]].concat();
    let programs = || vec![first_touches(1), loads(60_000)];
    let cycles = |settings: &[&str]| {
        let run = outcome(&[("perfect-tlb", settings)], programs(), 1).runs.remove(0);
        (run.cycles, counter(&run, "hierarchy.zeroing.lines"))
    };
    let ((with, lines), (without, none)) = (cycles(&settings), cycles(&without));
    assert_eq!((lines, none), (LINES, 0));
    let each = (with - without) as f64 / lines as f64;
    assert!((5.0..10.0).contains(&each), "{without} and {with} cycles, {each:.2} a line");
}

#[test]
fn in_a_virtual_machine_the_hypervisor_zeroes_what_it_backs_and_the_guest_what_it_reuses() {
    const PAGES: u64 = 16;
    // Each round maps pages, stores to each, and unmaps them.
    let program = |rounds: u64| {
        let mut program = Scripted::new(HUGE);
        program.touch(DATA, HUGE, true).begin();
        for _ in 0..rounds {
            let (start, len) = (DATA + HUGE, PAGES * 4096);
            program.map(start, len, Protection::READ_WRITE, MapKind::Anonymous);
            for page in 0..PAGES {
                program.store(start + page * 4096);
            }
            program.event(VmEvent::Unmap { start: VirtAddr(start), len });
        }
        program.load(DATA).clone()
    };
    let lines = |settings, rounds| counter(&run("nested", settings, &program(rounds)), "hierarchy.zeroing.lines");
    let [one, two, three] = [1, 2, 3].map(|rounds| lines(&[], rounds));
    // The hypervisor also backs the guest's table: its root, one frame of the next level, two (code and data) of
    // the third and three of the last.
    assert_eq!(one, (PAGES + 7) * 64);
    assert_eq!((two - one, three - two), (PAGES * 64, PAGES * 64));
    assert_eq!(lines(&[CYCLES_ONLY], 2), 0);
}
