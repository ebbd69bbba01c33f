//! The whole machine: time, faults, processes, cores, determinism, failures.

use crate::support;
use ambulator_base::{MapKind, ProcessId, Protection, RecordKind, VirtAddr, VmEvent};
use ambulator_simulator::spec::{SpecRequest, load};
use ambulator_simulator::{Comparison, Job, Phase, Progress, RunResult, Schema, Status, compare};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{DATA, Scripted, counter, outcome, run, spec};

const PAGES: u64 = 4096;

/// Loads of lines scattered over 16 MiB, each dependent on the previous one or not.
fn scattered(dependent: bool) -> Scripted {
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES * 4096, true).begin();
    for i in 0..3000_u64 {
        let va = DATA + (i * 1_103_515_245 % PAGES) * 4096 + (i % 64) * 64;
        program.access(RecordKind::Load, va, 2, u16::from(dependent && i > 0));
    }
    program
}

#[test]
fn a_chain_of_loads_takes_the_sum_and_independent_loads_overlap() {
    let chain = run("perfect-tlb", &[], &scattered(true));
    let free = run("perfect-tlb", &[], &scattered(false));
    assert_eq!(chain.simulated_instructions, free.simulated_instructions);
    assert!(chain.cycles > 4 * free.cycles, "chain {} cycles, independent {}", chain.cycles, free.cycles);
}

#[test]
fn mshrs_and_the_window_bound_the_overlap() {
    let program = scattered(false);
    let wide = run("perfect-tlb", &[], &program).cycles;
    assert!(run("perfect-tlb", &["l1d.mshrs=1"], &program).cycles > 2 * wide);
    assert!(run("perfect-tlb", &["core.rob=16"], &program).cycles > wide);
    assert!(run("perfect-tlb", &["core.load_queue=2"], &program).cycles > wide);
}

#[test]
fn a_fault_costs_its_cycles_once_and_set_up_costs_none() {
    let mut touched = Scripted::new(PAGES * 4096);
    touched.touch(DATA, PAGES * 4096, true).begin();
    let mut fresh = Scripted::new(PAGES * 4096);
    fresh.begin();
    for program in [&mut touched, &mut fresh] {
        for page in 0..100 {
            program.load(DATA + page * 4096);
        }
    }
    let before = run("radix", &[], &touched);
    let in_region = run("radix", &[], &fresh);
    assert_eq!(counter(&before, "core.page_faults"), 0);
    assert_eq!(counter(&before, "core.os_cycles"), 0);
    assert_eq!(counter(&in_region, "core.page_faults"), 100);
    // 1000 cycles of fault and 512 of zeroing each, as the default cost table says, and nothing else.
    assert_eq!(counter(&in_region, "core.os_cycles"), 100 * 1512 + counter(&in_region, "kernel.cycles.allocate"));
    assert!(in_region.cycles >= before.cycles + 100 * 1512);
}

#[test]
fn a_table_that_needs_unavailable_contiguity_ends_its_own_run_only() {
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES * 4096, true).begin();
    for page in 0..100 {
        program.load(DATA + page * 40 * 4096);
    }
    // The longest runs have 16 KiB. 512 slots of a line need three ways of 32 KiB.
    let small = "ecpt.initial_bytes=8192";
    let fragmented: &[&str] =
        &["memory.fragmentation.fmfi=1.0", "memory.fragmentation.order=3", "memory.fragmentation.grain=1", small];
    let outcome =
        outcome(&[("ecpt", fragmented), ("me-hpt", fragmented), ("ecpt", &[small])], vec![program.clone()], 1);
    let [ecpt, me_hpt, ample] = outcome.runs.as_slice() else { panic!("three runs") };
    assert_eq!((ecpt.status, me_hpt.status, ample.status), (Status::Outcome, Status::Done, Status::Done));
    let said = ecpt.outcome.as_deref().unwrap_or_default();
    assert!(said.contains("needed 32768 contiguous bytes"), "{said}");
    assert_eq!(
        (me_hpt.measure("table_largest_contiguous"), ample.measure("table_largest_contiguous")),
        (8192.0, 32768.0)
    );
}

#[test]
fn after_a_fork_the_writer_gets_its_own_page_and_the_oracle_agrees() {
    let mut program = Scripted::new(16 * 4096);
    program.touch(DATA, 16 * 4096, true).begin();
    program.load(DATA).store(DATA + 4096);
    program.event(VmEvent::Fork { child: ProcessId(7) });
    program.event(VmEvent::Switch { process: ProcessId(7), thread: 0 });
    for page in 0..16 {
        program.load(DATA + page * 4096).store(DATA + page * 4096);
    }
    program.event(VmEvent::Switch { process: ProcessId(0), thread: 0 });
    for page in 0..16 {
        program.store(DATA + page * 4096);
    }
    program.event(VmEvent::Exit { process: ProcessId(7) });
    program.load(DATA);
    for design in
        ["radix", "thp", "flattened", "asap", "dmt", "spot-thp", "ideal", "nested", "nested-spot", "perfect-tlb"]
    {
        let done = run(design, &[], &program);
        assert_eq!(done.status, Status::Done, "{design}: {:?}", done.outcome);
        assert!(counter(&done, "kernel.copies_on_write") >= 16, "{design}");
        assert!(counter(&done, "kernel.reuses_on_write") >= 1, "{design}: the last owner need not copy");
        assert!(counter(&done, "core.context_switches") == 2, "{design}");
    }
}

#[test]
fn an_unmapped_or_protected_page_is_no_longer_reached_through_the_tlb() {
    let mut moved = Scripted::new(16 * 4096);
    moved.touch(DATA, 16 * 4096, true).begin().store(DATA).store(DATA + 4096);
    let new = DATA + (1 << 30);
    moved.event(VmEvent::Remap { old: VirtAddr(DATA), old_len: 16 * 4096, new: VirtAddr(new), new_len: 32 * 4096 });
    moved.store(new).store(new + 4096).load(new + 20 * 4096);
    let done = run("radix", &[], &moved);
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);

    let mut gone = moved.clone();
    gone.load(DATA);
    let failed = run("radix", &[], &gone);
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.outcome.unwrap().contains("no mapping holds it"));

    let mut protected = moved.clone();
    protected.event(VmEvent::Protect { start: VirtAddr(new), len: 4096, protection: Protection::READ });
    protected.load(new).store(new);
    let failed = run("thp", &[], &protected);
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.outcome.unwrap().contains("is not allowed"));
}

#[test]
fn cores_share_the_last_level_cache_and_results_do_not_depend_on_threads() {
    let programs = || vec![scattered(false), scattered(true)];
    let jobs: [(&str, &[&str]); 3] =
        [("radix", &["machine.cores=2"]), ("thp", &["machine.cores=2"]), ("nested", &["machine.cores=2"])];
    let bytes = |threads| {
        let runs = outcome(&jobs, programs(), threads).runs;
        runs.into_iter()
            .map(|run| {
                assert_eq!(run.status, Status::Done, "{:?}", run.outcome);
                serde_json::to_string(&run.without_sim_host_times()).unwrap()
            })
            .collect::<Vec<_>>()
    };
    let one = bytes(1);
    assert_eq!(one, bytes(2));
    let alone = outcome(&jobs[..1], programs(), 1).runs.remove(0).without_sim_host_times();
    assert_eq!(one[0], serde_json::to_string(&alone).unwrap(), "alone or among others");
    assert_eq!(alone.simulated_instructions, 2 * run("radix", &[], &scattered(false)).simulated_instructions);
}

#[test]
fn functional_mode_counts_what_timing_mode_counts() {
    let program = scattered(false);
    for design in ["radix", "thp", "ideal"] {
        let timed = run(design, &[], &program);
        let counted = run(design, &["run.mode=\"functional\""], &program);
        assert_eq!(counted.cycles, 0);
        assert_eq!(timed.measure("table_bytes"), counted.measure("table_bytes"));
        for name in ["mmu.walks", "core.loads", "core.instructions", "core.fetches", "hierarchy.l1d.demand_misses"] {
            assert_eq!(counter(&timed, name), counter(&counted, name), "{design}: {name}");
        }
        // With timing, a walk cache whose entry is still in flight is skipped; without timing it never is.
        let (timed, counted) = (counter(&timed, "mmu.walk_accesses"), counter(&counted, "mmu.walk_accesses"));
        assert!(counted <= timed && timed <= counted + counted / 50 + 8, "{design}: {timed} and {counted} walk loads");
    }
}

#[test]
fn a_machine_out_of_memory_is_an_outcome_and_the_others_continue() {
    let mut program = Scripted::new(256 << 20);
    program.touch(DATA, 256 << 20, true).begin().load(DATA);
    let small: &[&str] = &["memory.bytes=64MiB"];
    let runs = outcome(&[("radix", small), ("radix", &[])], vec![program], 2).runs;
    assert_eq!(runs[0].status, Status::Outcome);
    assert!(runs[0].outcome.as_ref().unwrap().contains("has no memory left"), "{:?}", runs[0].outcome);
    assert_eq!(runs[1].status, Status::Done, "{:?}", runs[1].outcome);
}

#[test]
fn swap_lets_a_program_exceed_memory_at_a_cost() {
    let mut program = Scripted::new(96 << 20);
    program.touch(DATA, 96 << 20, true).begin();
    for page in 0..1000 {
        program.load(DATA + page * 4096);
    }
    let done = run("radix", &["memory.bytes=64MiB", "kernel.swap_bytes=128MiB"], &program);
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    assert!(counter(&done, "kernel.swap_ins") >= 1000, "the first pages were swapped out first");
    assert!(counter(&done, "kernel.cycles.swap") >= 1000 * 100_000);
}

#[test]
fn a_damaged_stream_fails_with_its_message() {
    let mut program = scattered(false);
    program.fails_at_end = true;
    let done = run("radix", &[], &program);
    assert_eq!(done.status, Status::Failed);
    assert_eq!(done.outcome.as_deref(), Some("the script is damaged at its end"));
    assert!(done.simulated_instructions > 0, "what ran is kept");
}

#[test]
fn a_run_that_simulates_nothing_fails() {
    let mut program = Scripted::new(4096);
    program.begin();
    let done = run("radix", &[], &program);
    assert_eq!(done.status, Status::Failed);
    assert!(done.outcome.unwrap().contains("nothing was simulated"));
}

/// Stops all runs when one has advanced in a phase.
struct StopIn(Phase, Arc<AtomicBool>);

impl Progress for StopIn {
    fn advanced(&self, _: usize, phase: Phase, instructions: u64, _: Option<u64>) {
        if phase == self.0 && instructions > 0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    fn finished(&self, _: usize, _: &RunResult, _: &Schema) {}
}

#[test]
fn an_interrupted_run_has_what_was_measured_until_then() {
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES * 4096, true).begin();
    for i in 0..400_000 {
        program.load(DATA + (i % PAGES) * 4096);
    }
    let stopped_in = |phase| {
        let stop = Arc::new(AtomicBool::new(false));
        let done = compare(Comparison {
            jobs: vec![Job { design: "radix".into(), spec: spec("radix", &["run.warmup=200000"]) }],
            programs: vec![Box::new(program.clone())],
            threads: 1,
            stop: Arc::clone(&stop),
            progress: Arc::new(StopIn(phase, stop)),
        });
        done.unwrap().runs.remove(0)
    };
    let run = stopped_in(Phase::Measure);
    assert_eq!(run.status, Status::Interrupted);
    assert!(run.simulated_instructions > 0 && run.simulated_instructions < 200_000, "{}", run.simulated_instructions);
    let run = stopped_in(Phase::Warmup);
    assert_eq!((run.status, run.simulated_instructions, run.cycles), (Status::Interrupted, 0, 0));
    assert_eq!(run.outcome.as_deref(), Some("interrupted before its measured region began: nothing was measured"));
}

#[test]
fn invalid_specs_are_rejected_with_the_key() {
    for (setting, key) in [
        ("l1d.ways=0", "l1d"),
        ("l1d.bytes=48000", "l1d"),
        ("mmu.walkers=0", "mmu.walkers"),
        ("mmu.l1d_4k.entries=0", "mmu.l1d_4k.entries"),
        ("memory.bytes=0", "memory.bytes"),
        ("machine.cores=17", "machine.cores"),
        ("dram.channels=3", "dram.channels"),
        ("run.instructions=0", "run.instructions"),
    ] {
        let request = SpecRequest { options: vec![setting.into()], ..SpecRequest::default() };
        let error = load(&request).expect_err(setting).to_string();
        assert!(error.contains(key), "{setting}: {error}");
    }
}

#[test]
fn background_promotion_makes_huge_pages_in_the_run() {
    let mut program = Scripted::new(8 << 20);
    program.touch(DATA, 8 << 20, true).begin();
    for i in 0..40_000_u64 {
        program.access(RecordKind::Load, DATA + (i * 7919 % 2048) * 4096, 50, 0);
    }
    let small = ["mmu.l2_tlb.entries=64", "mmu.l2_tlb.ways=4", "kernel.khugepaged_period=10000"];
    let done = run("thp-khugepaged", &small, &program);
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    assert!(counter(&done, "kernel.promotions") >= 4, "{}", counter(&done, "kernel.promotions"));
    let never = run("radix", &small, &program);
    assert!(2 * counter(&done, "mmu.walks") < counter(&never, "mmu.walks"));
}

#[test]
fn code_is_fetched_through_the_instruction_tlb() {
    let mut program = Scripted::new(4096);
    let code = support::CODE + (1 << 20);
    program.map(code, 64 * 4096, Protection::READ_EXECUTE, MapKind::File).touch(code, 64 * 4096, false);
    program.touch(DATA, 4096, true).begin();
    for page in 0..64 {
        program.access(RecordKind::Fetch, code + page * 4096, 0, 0);
        program.load(DATA);
    }
    let done = run("radix", &[], &program);
    assert_eq!(counter(&done, "mmu.l1i_tlb_misses"), 64 + 1);
}

#[test]
fn instructions_before_a_fetch_take_as_long_as_before_a_load() {
    let program = |fetches: bool| {
        let mut program = Scripted::new(4096);
        program.touch(DATA, 4096, true).begin();
        for _ in 0..2000 {
            if fetches {
                program.access(RecordKind::Fetch, support::CODE, 40, 0);
            }
            program.access(RecordKind::Load, DATA, if fetches { 0 } else { 40 }, 0);
        }
        program
    };
    let (plain, fetched) = (run("radix", &[], &program(false)), run("radix", &[], &program(true)));
    assert_eq!(fetched.simulated_instructions, plain.simulated_instructions);
    assert_eq!(counter(&fetched, "core.window.instructions"), fetched.simulated_instructions);
    assert!(fetched.cycles.abs_diff(plain.cycles) < plain.cycles / 50, "{} and {}", fetched.cycles, plain.cycles);
    let functional = run("radix", &["run.mode=functional"], &program(true));
    assert_eq!(counter(&functional, "core.window.instructions"), functional.simulated_instructions);
}

#[test]
fn cached_lines_need_no_page_and_changed_pages_leave_the_caches() {
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES * 4096, true).begin();
    for _ in 0..20 {
        for page in 0..8 {
            program.load(DATA + page * 4096);
        }
    }
    // One walk for each line, and one for the line of code.
    let around = run("midgard", &[], &program);
    assert_eq!((around.status, counter(&around, "mmu.walks")), (Status::Done, 9), "{:?}", around.outcome);
    assert_eq!(counter(&around, "mmu.front_side.l2_hits") + counter(&around, "mmu.front_side.walks"), 9);
    // A page that is mapped again is in no cache: its line needs a walk again.
    program.event(VmEvent::Advise { start: VirtAddr(DATA), len: 4096, advice: ambulator_base::Advice::DontNeed });
    program.load(DATA);
    let again = run("midgard", &[], &program);
    assert_eq!((counter(&again, "mmu.walks"), counter(&again, "core.page_faults")), (10, 1));
    // A page that a child copies on write has another address for the child.
    program.event(VmEvent::Fork { child: ProcessId(1) });
    program.event(VmEvent::Switch { process: ProcessId(1), thread: 1 });
    for page in 0..8 {
        program.store(DATA + page * 4096);
    }
    program.event(VmEvent::Unmap { start: VirtAddr(DATA), len: 4 * 4096 });
    program.load(DATA + 5 * 4096);
    for design in ["midgard", "midgard-lvm"] {
        let forked = run(design, &["kernel.page_size_policy=always"], &program);
        assert_eq!(forked.status, Status::Done, "{design}: {:?}", forked.outcome);
        assert!(counter(&forked, "kernel.copies_on_write") > 0);
    }
    // With a TLB for pages after the last level, the lines of one page need one walk.
    let mut lines = Scripted::new(PAGES * 4096);
    lines.touch(DATA, PAGES * 4096, true).begin();
    for line in 0..64 * 16 {
        lines.load(DATA + line * 64);
    }
    let buffered = run("midgard", &["midgard.mlb_entries=64"], &lines);
    assert!(counter(&run("midgard", &[], &lines), "mmu.walks") > 1000);
    assert!(counter(&buffered, "mmu.walks") <= 20, "{}", counter(&buffered, "mmu.walks"));
}

#[test]
fn what_hardware_holds_of_an_area_goes_with_the_part_that_had_no_pages() {
    let (part, whole) = (DATA + 8 * 4096, 64 * 4096);
    let mut program = Scripted::new(whole);
    // The area is held from here on. Its untouched middle goes, and is mapped again elsewhere.
    program.begin().store(DATA).pause();
    program.event(VmEvent::Unmap { start: VirtAddr(part), len: 8 * 4096 });
    program.map(part, 8 * 4096, Protection::READ_WRITE, MapKind::Anonymous);
    for page in 0..64 {
        program.store(DATA + page * 4096);
    }
    for design in ["midgard", "midgard-lvm"] {
        let done = run(design, &[], &program);
        assert_eq!(done.status, Status::Done, "{design}: {:?}", done.outcome);
    }
    // Pages that were there are shot down themselves: their area is not named once more.
    let shootdowns = |touched| {
        let mut program = Scripted::new(whole);
        program.touch(DATA, touched, true).begin().load(DATA).pause();
        program.event(VmEvent::Unmap { start: VirtAddr(part), len: 8 * 4096 });
        program.load(DATA);
        counter(&run("midgard", &[], &program), "kernel.shootdowns_page")
    };
    assert_eq!((shootdowns(whole), shootdowns(4096)), (8, 1));
}

#[test]
fn midgard_on_a_machine_that_cannot_have_it_is_refused() {
    for (options, key) in [
        (["memory.bytes=8TiB", "run.seed=1"], "`memory.bytes` is 8TiB"),
        (["virtualization.mode=nested", "run.seed=1"], "`virtualization.mode`"),
        (["mmu.perfect=true", "run.seed=1"], "`mmu.perfect`"),
        (["design.lookaside=rmm", "run.seed=1"], "`design.front_side` is \"midgard\""),
    ] {
        let request = SpecRequest {
            design: Some("midgard".into()),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..SpecRequest::default()
        };
        let said = load(&request).unwrap_err().to_string();
        assert!(said.contains(key), "{said}");
    }
}

#[test]
fn tables_of_every_kind_work_with_swap() {
    let mut program = Scripted::new(48 << 20);
    program.touch(DATA, 48 << 20, true).begin();
    for i in 0..3000_u64 {
        program.store(DATA + i * 7919 % 12288 * 4096);
    }
    let little: &[&str] = &["memory.bytes=32MiB", "kernel.swap_bytes=256MiB"];
    let designs = ["radix", "ecpt", "me-hpt", "me-hpt-thp", "lvm", "lvm-thp", "midgard", "midgard+thp"];
    let jobs: Vec<(&str, &[&str])> = designs.iter().map(|design| (*design, little)).collect();
    for done in outcome(&jobs, vec![program], 2).runs {
        assert_eq!(done.status, Status::Done, "{}: {:?}", done.design, done.outcome);
        assert!(counter(&done, "kernel.swap_outs") > 1000, "{}", done.design);
    }
}

#[test]
fn midgard_splits_a_huge_page_across_two_areas() {
    let mut program = Scripted::new(3 << 20);
    program.map(DATA + (3 << 20), 5 << 20, Protection::READ_WRITE, MapKind::Anonymous);
    program.touch(DATA, 8 << 20, true).begin().load(DATA + (3 << 20)).load(DATA + (3 << 20) - 8);
    let done = run("midgard+thp", &[], &program);
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
}

#[test]
fn memory_is_fragmented_to_the_requested_share_and_order() {
    let mut program = Scripted::new(1 << 20);
    program.begin().load(DATA);
    let shared = run("radix", &["memory.fragmentation.free_share=0.25"], &program);
    assert!((shared.measure("fragmentation_free_share") - 0.25).abs() < 0.01);
    let small = ["memory.fragmentation.fmfi=0.7", "memory.fragmentation.order=4"];
    let reached = run("radix", &small, &program).measure("fragmentation_reached");
    assert!((reached - 0.7).abs() < 0.01, "{reached} at order 4");
}

#[test]
fn a_run_shorter_than_an_epoch_samples_its_caches_at_the_end() {
    let done = run("radix", &[], &scattered(false));
    assert!(done.simulated_instructions < 1_000_000 && done.measure("l2_translation_share") > 0.0);
}

#[test]
fn programs_that_request_huge_pages_get_them_and_others_do_not() {
    let mut program = Scripted::new(8 << 20);
    program.begin();
    for page in 0..2048 {
        program.store(DATA + page * 4096);
    }
    let huge = |settings: &[&str]| counter(&run("thp-madvise", settings, &program), "kernel.faults_2m");
    assert_eq!((huge(&[]), huge(&["run.advise_huge=true"])), (0, 4));
}
