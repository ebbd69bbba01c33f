//! Threads that run while their process ends: submitted records are in the trace, and no other thread takes
//! the rest.

use super::*;
use crate::wire::Region;
use ambulator_base::{Batch, RecordKind};
use ambulator_trace::wire::WireReader;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const EXIT_GROUP: i64 = 231;

/// A capture that records from the start, and the memory that it shares with nobody.
fn recording() -> (Capture, File) {
    // SAFETY: a new descriptor, which the file owns.
    let memory = unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0)) };
    let capture = Capture::with(Target::default(), 0, u64::MAX / 4, 0, 0, false);
    capture.lock().output = Some(Output::on(Region::in_file(&memory), &Target::default(), &[]));
    (capture, memory)
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

/// Loads on the wire, and whether it is finished.
fn loads(memory: File, dead: bool) -> (usize, bool) {
    let mut reader = WireReader::new(memory, 0, "test");
    let mut batch = Batch::default();
    while reader.take(&mut batch, dead).unwrap() {}
    if dead {
        reader.rest(&mut batch).unwrap();
    }
    let loads = batch.records.iter().filter(|record| record.kind == RecordKind::Load).count();
    (loads, reader.is_finished().unwrap())
}

#[test]
fn the_end_of_a_process_leaves_running_threads_alone() {
    let ((capture, memory), block) = (recording(), chase());
    std::thread::scope(|scope| {
        scope.spawn(|| (0..10).for_each(|_| run_block(&capture, 1, block))).join().unwrap();
    });
    assert_eq!(capture.threads[1].state.load(Ordering::SeqCst), state::RUNNING);
    // No thread requested the records: the process was killed.
    capture.end_process();
    // SAFETY: the thread has ended.
    let own = unsafe { capture.threads[1].own() }.as_mut().unwrap();
    assert_eq!(own.tracer.records.len(), 9, "the records are still the thread's; the tenth load is not retired");
    assert_eq!(loads(memory, false), (0, true));
}

#[test]
fn an_exiting_process_first_collects_its_running_threads_records() {
    let ((capture, memory), block) = (recording(), chase());
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
    let (found, finished) = loads(memory, false);
    let found = found as u64;
    assert!(finished && counted >= 100 && found >= counted, "{found} loads of at least {counted} + 1 are in the trace");
}

#[test]
fn a_killed_process_leaves_what_its_threads_have_recorded() {
    let ((capture, memory), block) = (recording(), chase());
    for cpu in [0, 1] {
        (0..10_000).for_each(|_| run_block(&capture, cpu, block));
    }
    // Nobody asks for anything any more.
    let executed = WireReader::new(memory.try_clone().unwrap(), 0, "test").executed().unwrap();
    assert_eq!(executed, 20_000);
    assert_eq!(loads(memory, true), (2 * 9_999, false), "the last load of each thread is not retired");
}
