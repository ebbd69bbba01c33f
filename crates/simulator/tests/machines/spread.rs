//! Threads of one program on several cores.

use crate::support;
use ambulator_base::{MapKind, ProcessId, Protection, VirtAddr, VmEvent};
use ambulator_simulator::Status;
use support::{DATA, Scripted, counter, run};

const THREADS: u64 = 4;
const PAGES: u64 = 1024;
const EACH: u64 = 4000;

fn switch(program: &mut Scripted, thread: u64) {
    program.event(VmEvent::Switch { process: ProcessId(0), thread: thread as u32 });
}

/// Four threads that alternate every 100 loads, each scattered over its own part of the data.
fn four_threads() -> Scripted {
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES * 4096, true).begin();
    for turn in 0..EACH / 100 {
        for thread in 0..THREADS {
            switch(&mut program, thread);
            for i in 0..100 {
                let at = ((turn * 100 + i) * THREADS + thread) * 2_654_435_761;
                program.load(DATA + at % PAGES * 4096 + at / PAGES % 64 * 64);
            }
        }
    }
    program
}

#[test]
fn four_threads_on_four_cores_run_in_parallel() {
    let program = four_threads();
    let alone = run("radix", &[], &program);
    let spread = run("radix", &["machine.cores=4", "run.spread_threads=true"], &program);
    assert_eq!(spread.status, Status::Done, "{:?}", spread.outcome);
    assert_eq!(counter(&spread, "core.loads"), THREADS * EACH);
    assert_eq!(counter(&alone, "core.loads"), counter(&spread, "core.loads"));
    assert!(2 * spread.cycles < alone.cycles, "{} cycles against {} on one core", spread.cycles, alone.cycles);
    // One process, one table: the pages are mapped once.
    assert_eq!(spread.measures["pages_mapped"], alone.measures["pages_mapped"]);
    // Two cores have two threads each.
    let two = run("radix", &["machine.cores=2", "run.spread_threads=true"], &program);
    assert!(two.cycles > spread.cycles && two.cycles < alone.cycles);
}

#[test]
fn warm_up_is_not_measured() {
    let program = four_threads();
    let spread = |warmup: &str| {
        let options = ["machine.cores=4", "run.spread_threads=true", "run.instructions=1000", warmup];
        let done = run("radix", &options, &program);
        assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
        done
    };
    let (cold, warm) = (spread("run.warmup=0"), spread("run.warmup=2000"));
    assert_eq!((cold.simulated_instructions, warm.simulated_instructions), (4000, 4000));
    assert!(warm.cycles < cold.cycles, "{} cycles after a warm-up, {} without", warm.cycles, cold.cycles);
    // A thread that runs little does not keep the others from being measured.
    let mut uneven = Scripted::new(PAGES * 4096);
    uneven.touch(DATA, PAGES * 4096, true).begin();
    uneven.load(DATA);
    switch(&mut uneven, 1);
    for i in 0..10_000 {
        uneven.load(DATA + i % PAGES * 4096);
    }
    let options = ["machine.cores=2", "run.spread_threads=true", "run.instructions=1000", "run.warmup=2000"];
    let done = run("radix", &options, &uneven);
    assert_eq!((done.status, done.simulated_instructions), (Status::Done, 1000), "{:?}", done.outcome);
}

#[test]
fn the_first_thread_to_run_does_not_end_the_warm_up_of_the_others() {
    // Thread 0 prepares alone, on pages that nobody has touched; then all four work on others.
    let mut program = Scripted::new(PAGES * 4096);
    program.touch(DATA, PAGES / 2 * 4096, true).begin();
    let (own, shared) = (DATA + PAGES / 2 * 4096, DATA);
    for i in 0..PAGES / 2 {
        program.store(own + i * 4096).load(own + i * 4096 + 64);
    }
    // What follows a change of the address space waits for what is before it.
    program.map(DATA + (1 << 30), 4096, Protection::READ_WRITE, MapKind::Anonymous);
    for turn in 0..60 {
        for thread in 0..THREADS {
            switch(&mut program, thread);
            for i in 0..100 {
                program.load(shared + (turn * 100 + i) % (PAGES / 2) * 4096);
            }
        }
    }
    // 4 x 500 instructions of warm-up: the 1024 of thread 0, and about 250 of each.
    let options = ["machine.cores=4", "run.spread_threads=true", "run.instructions=1000", "run.warmup=500"];
    let done = run("radix", &options, &program);
    assert_eq!((done.status, done.simulated_instructions), (Status::Done, 4000), "{:?}", done.outcome);
    assert_eq!(counter(&done, "core.page_faults"), 0, "the preparation is warm-up");
    assert!(done.cores.iter().all(|core| core.instructions == 1000), "{:?}", done.cores);
}

#[test]
fn a_page_that_one_thread_unmaps_is_unreachable_for_others_in_stream_order() {
    // Thread 1 uses a page, thread 0 unmaps it and maps it again read-only: both in the stream's order,
    // whichever core is ahead.
    let page = DATA + 64 * 4096;
    let build = |store_after: bool| {
        let mut program = Scripted::new(PAGES * 4096);
        program.touch(DATA, PAGES * 4096, true).begin();
        switch(&mut program, 1);
        program.store(page);
        switch(&mut program, 0);
        for i in 0..500 {
            program.load(DATA + i % 64 * 4096);
        }
        program.event(VmEvent::Unmap { start: VirtAddr(page), len: 4096 });
        program.event(VmEvent::Map {
            start: VirtAddr(page),
            len: 4096,
            protection: Protection::READ,
            kind: MapKind::Anonymous,
        });
        switch(&mut program, 1);
        program.load(page);
        if store_after {
            program.store(page);
        }
        program
    };
    let spread = ["machine.cores=2", "run.spread_threads=true"];
    let done = run("radix", &spread, &build(false));
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    assert_eq!(counter(&done, "core.page_faults"), 1, "the new mapping faults once");
    let failed = run("radix", &spread, &build(true));
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.outcome.unwrap().contains("is not allowed"));
}

#[test]
fn cores_without_a_thread_and_programs_without_set_up_end() {
    let mut program = Scripted::new(PAGES * 4096);
    for i in 0..3000 {
        program.load(DATA + i % PAGES * 4096);
    }
    let settings = ["machine.cores=4", "run.spread_threads=true", "run.instructions=1000", "run.warmup=500"];
    let done = run("radix", &settings, &program);
    assert_eq!((done.status, done.simulated_instructions), (Status::Done, 1000), "{:?}", done.outcome);
}

#[test]
fn a_child_may_run_on_another_core() {
    let mut program = Scripted::new(16 * 4096);
    program.touch(DATA, 16 * 4096, true).begin();
    program.store(DATA);
    program.event(VmEvent::Fork { child: ProcessId(1) });
    program.event(VmEvent::Switch { process: ProcessId(1), thread: 1 });
    program.store(DATA);
    program.event(VmEvent::Switch { process: ProcessId(0), thread: 0 });
    program.store(DATA);
    program.event(VmEvent::Switch { process: ProcessId(1), thread: 1 });
    program.event(VmEvent::Exit { process: ProcessId(1) });
    program.event(VmEvent::Switch { process: ProcessId(0), thread: 0 });
    program.store(DATA + 4096);
    for design in ["radix", "thp"] {
        let done = run(design, &["machine.cores=2", "run.spread_threads=true"], &program);
        assert_eq!(done.status, Status::Done, "{design}: {:?}", done.outcome);
        assert_eq!(counter(&done, "core.context_switches"), 1, "the child's core switches to the child once");
    }
}

#[test]
fn threads_that_fault_in_the_same_part_of_a_table_wait_for_its_lock() {
    // Each thread's pages, adjacent or 2 MiB apart.
    let build = |apart: u64| {
        let mut program = Scripted::new(THREADS * 512 * 4096);
        program.touch(DATA, 4096, true).begin();
        for turn in 0..60 {
            for thread in 0..THREADS {
                switch(&mut program, thread);
                let page = if apart == 1 { THREADS * turn + thread } else { turn + thread * apart };
                program.load(DATA + (1 + page) * 4096);
            }
        }
        program
    };
    let settings = ["machine.cores=4", "run.spread_threads=true", "costs.lock_hold=1000"];
    let waited = |design: &str, apart: u64| {
        let done = run(design, &settings, &build(apart));
        assert_eq!(
            (done.status, counter(&done, "core.page_faults")),
            (Status::Done, 60 * THREADS),
            "{:?}",
            done.outcome
        );
        counter(&done, "core.lock_cycles")
    };
    let (near, far) = (waited("radix", 1), waited("radix", 512));
    assert!(near > 10_000 && far == 0, "{near} and {far} cycles");
    // One leaf of the index covers all of it, however far apart.
    assert!(waited("lvm", 1) > 10_000 && waited("lvm", 512) > 10_000);
    let alone = run("lvm", &[], &build(1));
    assert_eq!(counter(&alone, "core.lock_cycles"), 0);
}
