//! Threads that run while their process ends: submitted records are in the trace, and no other thread takes
//! the rest.

use super::*;
use ambulator_base::{Batch, RecordKind};
use ambulator_trace::{TraceOptions, open_trace};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const EXIT_GROUP: i64 = 231;

/// A capture that records from the start, into a file of this test.
fn recording(test: &str) -> Capture {
    let out = std::env::temp_dir().join(format!("ambulator-capture-{test}-{}.amb", std::process::id()));
    let out = out.to_string_lossy().into_owned();
    let target = Target { out, name: test.into(), level: 1, ..Target::default() };
    Capture::with(target, 0, u64::MAX / 4, 0, 0, false)
}

/// `mov rax, [rax]`, as a separate block.
fn chase() -> &'static Block {
    let mut factory = InstructionInfoFactory::new();
    let instructions = vec![decode::decode(0x1000, &[0x48, 0x8b, 0x00], &mut factory)];
    Box::leak(Box::new(Block { pc: 0x1000, instructions }))
}

/// What the emulator does for a block with one load.
fn run_block(capture: &Capture, cpu: c_uint, block: &'static Block) {
    // SAFETY: each test calls this for a number on one thread, and keeps nothing.
    if let Some((slot, own)) = unsafe { capture.own(cpu) } {
        capture.heed(cpu, slot, own);
        capture.execute(cpu, slot, own, block);
        own.tracer.access(0, 0x8000, 8, false);
    }
}

fn exit_group(capture: &Capture, cpu: c_uint) {
    // SAFETY: as in `run_block`.
    if let Some((slot, own)) = unsafe { capture.own(cpu) } {
        capture.enter_call(cpu, slot, own, EXIT_GROUP, [0; 6]);
    }
    capture.end_process();
}

/// Loads in the finished trace; deletes it.
fn loads(capture: &Capture) -> usize {
    let path = std::path::Path::new(&capture.target.out);
    let mut source = open_trace(path, &TraceOptions::default()).unwrap();
    let (mut batch, mut loads) = (Batch::default(), 0);
    while source.fill(&mut batch).unwrap() {
        loads += batch.records.iter().filter(|record| record.kind == RecordKind::Load).count();
    }
    std::fs::remove_file(path).unwrap();
    loads
}

#[test]
fn the_end_of_a_process_leaves_running_threads_alone() {
    let (capture, block) = (recording("alone"), chase());
    std::thread::scope(|scope| {
        scope.spawn(|| (0..10).for_each(|_| run_block(&capture, 1, block))).join().unwrap();
    });
    assert_eq!(capture.threads[1].state.load(Ordering::SeqCst), state::RUNNING);
    // No thread requested the records: the process was killed.
    capture.end_process();
    // SAFETY: the thread has ended.
    let own = unsafe { capture.threads[1].own() }.as_mut().unwrap();
    assert_eq!(own.tracer.records.len(), 9, "the records are still the thread's; the tenth load is not retired");
    assert_eq!(loads(&capture), 0);
}

#[test]
fn an_exiting_process_first_collects_its_running_threads_records() {
    let (capture, block) = (recording("exits"), chase());
    let (begun, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut counted = 0;
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut blocks = 0u64;
            while !done.load(Ordering::SeqCst) {
                run_block(&capture, 1, block);
                blocks += 1;
                begun.store(blocks, Ordering::SeqCst);
            }
        });
        run_block(&capture, 0, block);
        let patience = Instant::now();
        while begun.load(Ordering::SeqCst) < 100 && patience.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        counted = begun.load(Ordering::SeqCst);
        exit_group(&capture, 0);
        done.store(true, Ordering::SeqCst);
        worker.join().unwrap();
    });
    // The worker's last load before it submitted its records may not have retired.
    let found = loads(&capture) as u64;
    assert!(counted >= 100 && found >= counted, "{found} loads of at least {counted} + 1 are in the trace");
}
