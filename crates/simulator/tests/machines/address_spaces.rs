//! Address spaces that run on several cores at once, and more of them than a core has identifiers: no
//! structure confuses two of them, and only what a core has of its own is lost with an identifier.

use crate::support;
use ambulator_base::{Advice, ProcessId, VirtAddr, VmEvent};
use ambulator_simulator::spec::presets;
use ambulator_simulator::{Status, spec::PresetKind};
use support::{DATA, Scripted, counter, outcome, run};

const PAGES: u64 = 24;

/// A process that forks `children`, all of which write their own copies of the same addresses, and run again
/// and again, one after the other.
fn relatives(children: u32, turns: u64) -> Scripted {
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES * 4096, true).begin();
    for child in 1..=children {
        program.event(VmEvent::Fork { child: ProcessId(child) });
    }
    for turn in 0..turns {
        for process in 0..=children {
            program.event(VmEvent::Switch { process: ProcessId(process), thread: 0 });
            for page in 0..PAGES {
                let at = DATA + (page * 7 + turn) % PAGES * 4096;
                if turn == 0 {
                    program.store(at)
                } else {
                    program.load(at)
                };
            }
        }
    }
    program
}

/// Machines small enough that translations are looked up everywhere.
const SMALL: [&str; 4] = ["mmu.l1d_4k.entries=4", "mmu.l2_tlb.entries=8", "mmu.l2_tlb.ways=4", "llc.bytes=128KiB"];

#[test]
fn what_cores_share_tells_their_processes_apart_however_few_identifiers_a_core_has() {
    for design in ["pom-tlb", "midgard", "revelator", "lvm"] {
        for bits in ["kernel.asid_bits=1", "kernel.asid_bits=2", "kernel.asid_bits=12"] {
            let settings = [&SMALL[..], &["machine.cores=4", "kernel.page_size_policy=never", bits]].concat();
            let done = outcome(&[(design, &settings)], vec![relatives(1, 6); 4], 1).runs.remove(0);
            assert_eq!(done.status, Status::Done, "{design}, {bits}: {:?}", done.outcome);
            // Behind the caches, Midgard translates only what misses all of them.
            assert!(done.checked_translations > 4 * PAGES, "{design}: {}", done.checked_translations);
            let recycled = counter(&done, "kernel.asid_recycles");
            // With one identifier, every switch takes it from the other of the two processes of a core.
            let switches = counter(&done, "kernel.context_switches");
            assert_eq!(recycled, if bits.ends_with("=1") { switches } else { 0 }, "{design}, {bits}");
        }
    }
}

#[test]
fn a_core_that_takes_an_identifier_back_loses_its_own_entries_and_no_shared_ones() {
    let of = |design, bits, children| {
        let settings = [&["kernel.page_size_policy=never"][..], &[bits]].concat();
        let done = run(design, &settings, &relatives(children, 6));
        assert_eq!(done.status, Status::Done, "{design}, {bits}: {:?}", done.outcome);
        done
    };
    // Three processes: with two bits each has an identifier, and everything is as with twelve.
    for design in ["radix", "pom-tlb", "midgard"] {
        let (few, many) = (of(design, "kernel.asid_bits=2", 2), of(design, "kernel.asid_bits=12", 2));
        assert_eq!((&few.counters, few.cycles), (&many.counters, many.cycles), "{design}");
    }
    // Four processes: with two bits, each has lost its identifier when its turn comes again.
    let (few, many) = (of("radix", "kernel.asid_bits=2", 3), of("radix", "kernel.asid_bits=12", 3));
    assert_eq!((counter(&few, "kernel.asid_recycles"), counter(&many, "kernel.asid_recycles")), (4 * 6 - 3, 0));
    let walks = |done| counter(done, "mmu.walks");
    assert!(walks(&few) > walks(&many) + 3 * 6 * PAGES, "{} and {}", walks(&few), walks(&many));
    // What lies in memory is looked up there instead of being walked for.
    let (few, many) = (of("pom-tlb", "kernel.asid_bits=2", 3), of("pom-tlb", "kernel.asid_bits=12", 3));
    assert_eq!(walks(&few), walks(&many));
    assert!(counter(&few, "mmu.lookaside.hits") > counter(&many, "mmu.lookaside.hits") + 3 * 6 * PAGES);
}

#[test]
fn a_page_that_goes_leaves_the_caches_of_its_own_process_however_few_identifiers_there_are() {
    let mut program = relatives(2, 2);
    for process in [2, 0, 1] {
        program.event(VmEvent::Switch { process: ProcessId(process), thread: 0 });
        program.event(VmEvent::Advise { start: VirtAddr(DATA), len: 8 * 4096, advice: Advice::DontNeed });
        for page in 0..PAGES {
            program.load(DATA + page * 4096);
        }
    }
    let walks = |bits| {
        let done = run("midgard", &[bits], &program);
        assert_eq!(done.status, Status::Done, "{bits}: {:?}", done.outcome);
        counter(&done, "mmu.walks")
    };
    assert_eq!(walks("kernel.asid_bits=1"), walks("kernel.asid_bits=12"));
}

#[test]
fn programs_on_all_cores_that_share_a_tlb_in_memory_run_with_few_identifiers_on_every_preset_of_it() {
    let of_it = presets().iter().filter(|preset| preset.kind == PresetKind::Design && preset.name.contains("pom"));
    for preset in of_it {
        let mut programs = Vec::new();
        for core in 0..4 {
            let mut program = relatives(core, 3);
            // All cores have the same addresses, each in another frame.
            program.event(VmEvent::Switch { process: ProcessId(0), thread: 0 });
            program.store(DATA).load(DATA + 4096);
            programs.push(program);
        }
        let settings = [&SMALL[..], &["machine.cores=4", "kernel.asid_bits=2"]].concat();
        let done = outcome(&[(preset.name, &settings)], programs, 1).runs.remove(0);
        assert_eq!(done.status, Status::Done, "{}: {:?}", preset.name, done.outcome);
    }
}
