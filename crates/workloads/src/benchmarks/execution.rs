//! Programs written as plain code: the algorithm runs on its own thread of the simulator and passes its
//! stream in batches.
//!
//! A [`Program`] computes on real data and reports, through an [`Execution`], what the compiled program does
//! to its memory: loads, stores and branches with the loads that they depend on, instructions in between, and
//! heap calls. Before [`Execution::begin_region`] no records are emitted, only first touches in the program's
//! order, so the same code can build a structure in set-up and change it in the region. Batches wait in a
//! short queue, so the thread runs only a little ahead of the simulation.
//!
//! [`Execution::thread`] selects the program's running thread: the algorithm executes all of them on one
//! thread of the simulator, and the stream names the thread of each record. Dependences do not cross such a
//! switch.

use crate::heap::{Heap, HeapModel};
use crate::layout::{AddressSpace, Array};
use ambulator_base::{
    Batch, FRAME_BYTES, ProcessId, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr, VmEvent,
};
use ambulator_trace::FirstTouches;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// An algorithm that reports what it does to memory.
pub(crate) trait Program: Send + 'static {
    /// Sets up, begins the region of interest, and returns when the program ends.
    fn run(self: Box<Self>, on: &mut Execution);
}

/// A load that a later record may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(u64);

impl Value {
    /// Computed from no load: constants, induction variables.
    pub const NONE: Value = Value(0);
}

/// Batches that may be queued for the simulation.
const AHEAD: usize = 3;
/// Events of one batch.
const EVENTS: usize = 1 << 14;

/// Ends the program's thread when the stream has no reader any more.
struct NoReader;

/// A running program and its output stream.
pub struct Execution {
    /// The program's address space. Events pushed to it are emitted with the next record or heap call.
    pub space: AddressSpace,
    heap: Heap,
    batch: Batch,
    sender: SyncSender<Batch>,
    /// Records in earlier batches.
    before: u64,
    /// The number of the first record since the last change of thread.
    turn: u64,
    gap: u32,
    thread: u32,
    in_region: bool,
    touched: FirstTouches,
}

impl Execution {
    fn new(space: AddressSpace, sender: SyncSender<Batch>) -> Execution {
        let heap = Heap::new(HeapModel::default(), &space);
        let mut on = Execution {
            space,
            heap,
            batch: Batch::default(),
            sender,
            before: 1,
            turn: 1,
            gap: 0,
            thread: 0,
            in_region: false,
            touched: FirstTouches::default(),
        };
        on.take_events();
        on
    }

    /// Allocates from this heap instead of the C library's; call it before the first allocation.
    pub fn use_heap(&mut self, model: HeapModel) {
        self.heap = Heap::new(model, &self.space);
    }

    /// Number of the next record; the first is 1.
    #[inline(always)]
    fn next(&self) -> u64 {
        self.before + self.batch.records.len() as u64
    }

    #[inline(always)]
    fn distance(&self, value: Value) -> u16 {
        if value.0 < self.turn { 0 } else { u16::try_from(self.next() - value.0).unwrap_or(0) }
    }

    #[inline(always)]
    fn push(&mut self, pc: u64, va: VirtAddr, size: u8, kind: RecordKind, dependences: [Value; 2]) -> Value {
        if !self.in_region {
            self.touch_in_setup(va, u64::from(size), kind);
            return Value::NONE;
        }
        let number = self.next();
        let record = Record {
            pc: VirtAddr(pc),
            va,
            gap: self.gap,
            dep1: self.distance(dependences[0]),
            dep2: self.distance(dependences[1]),
            size,
            kind,
        };
        self.gap = 0;
        self.batch.records.push(record);
        if self.batch.records.len() >= Batch::TARGET_RECORDS {
            self.flush();
        }
        Value(number)
    }

    /// A load of `size` bytes (1 to 64) whose address is computed from `address`.
    #[inline(always)]
    pub fn load(&mut self, pc: u64, va: VirtAddr, size: u8, address: Value) -> Value {
        self.push(pc, va, size, RecordKind::Load, [address, Value::NONE])
    }

    /// A load whose address is computed from two loads.
    #[inline(always)]
    pub fn load2(&mut self, pc: u64, va: VirtAddr, size: u8, address: [Value; 2]) -> Value {
        self.push(pc, va, size, RecordKind::Load, address)
    }

    /// A store of `size` bytes whose address is computed from `address`.
    #[inline(always)]
    pub fn store(&mut self, pc: u64, va: VirtAddr, size: u8, address: Value) {
        self.push(pc, va, size, RecordKind::Store, [address, Value::NONE]);
    }

    /// An instruction that reads and writes memory (`add %rax,(%rdi)`): one instruction, two records.
    #[inline(always)]
    pub fn update(&mut self, pc: u64, va: VirtAddr, size: u8, address: Value) {
        // The load's own instruction is taken from the preceding gap, if there is one.
        self.gap = self.gap.saturating_sub(1);
        let loaded = self.load(pc, va, size, address);
        self.push(pc, va, size, RecordKind::Store, [address, loaded]);
    }

    /// A conditional branch whose outcome is computed from `on`.
    #[inline(always)]
    pub fn branch(&mut self, pc: u64, target: u64, taken: bool, on: Value) {
        self.branch2(pc, target, taken, [on, Value::NONE]);
    }

    /// A conditional branch whose outcome is computed from two loads.
    #[inline(always)]
    pub fn branch2(&mut self, pc: u64, target: u64, taken: bool, on: [Value; 2]) {
        if self.in_region {
            let kind = if taken { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
            self.push(pc, VirtAddr(target), 1, kind, on);
        }
    }

    /// `instructions` that touch no memory (jumps among them).
    #[inline(always)]
    pub fn work(&mut self, instructions: u32) {
        self.gap = self.gap.saturating_add(instructions);
    }

    /// Switches to this thread for the following records. Dependences do not reach back across the switch.
    pub fn thread(&mut self, thread: u32) {
        if thread == self.thread {
            return;
        }
        self.thread = thread;
        self.turn = self.next();
        if self.in_region {
            self.event(VmEvent::Switch { process: ProcessId(0), thread });
        }
    }

    /// Emits a VM event now.
    pub fn event(&mut self, event: VmEvent) {
        if !self.in_region
            && let Some(run) = self.touched.event(&event)
        {
            self.batch.push_event(run);
        }
        self.batch.push_event(event);
        if self.batch.events.len() >= EVENTS {
            self.flush();
        }
    }

    /// Emits the events that were pushed to the address space.
    pub fn take_events(&mut self) {
        if self.space.has_events() {
            for event in self.space.take_events() {
                self.event(event);
            }
        }
    }

    /// `malloc`.
    #[inline]
    pub fn allocate(&mut self, bytes: u64) -> VirtAddr {
        let at = self.heap.allocate(bytes, &mut self.space);
        self.take_events();
        VirtAddr(at)
    }

    /// `free` of a block of that many bytes from [`Execution::allocate`].
    #[inline]
    pub fn free(&mut self, at: VirtAddr, bytes: u64) {
        self.heap.free(at.0, bytes, &mut self.space);
        self.take_events();
    }

    /// `malloc` of an array, not touched yet.
    pub fn array(&mut self, element: u64, len: u64) -> Array {
        let base = self.allocate(element * len).0;
        Array { base, element, len }
    }

    /// `malloc` of an array that is then filled in ascending order, in set-up.
    pub fn filled_array(&mut self, element: u64, len: u64) -> Array {
        let array = self.array(element, len);
        self.event(array.touch(true));
        array
    }

    /// `free` of an array.
    pub fn free_array(&mut self, array: &Array) {
        self.free(VirtAddr(array.base), array.bytes());
    }

    fn touch_in_setup(&mut self, va: VirtAddr, bytes: u64, kind: RecordKind) {
        if let Some(run) = self.touched.touch(va, bytes, kind == RecordKind::Store) {
            self.batch.push_event(run);
            if self.batch.events.len() >= EVENTS {
                self.flush();
            }
        }
    }

    /// Set-up writes `bytes` bytes from `va` on, in ascending order.
    pub fn fill(&mut self, va: VirtAddr, bytes: u64) {
        let (mut at, end) = (va.0, va.0 + bytes);
        while at < end {
            let next = (at / FRAME_BYTES + 1) * FRAME_BYTES;
            self.touch_in_setup(VirtAddr(at), next.min(end) - at, RecordKind::Store);
            at = next;
        }
    }

    /// Begins the region of interest: from here on records are emitted.
    pub fn begin_region(&mut self) {
        if self.in_region {
            return;
        }
        self.take_events();
        if let Some(run) = self.touched.take_run() {
            self.batch.push_event(run);
        }
        self.touched = FirstTouches::default();
        self.in_region = true;
        self.gap = 0;
        self.batch.push_event(VmEvent::RegionBegin);
    }

    fn flush(&mut self) {
        self.before += self.batch.records.len() as u64;
        let fresh = Batch { records: Vec::with_capacity(Batch::TARGET_RECORDS), events: Vec::new() };
        let full = std::mem::replace(&mut self.batch, fresh);
        if !full.is_empty() && self.sender.send(full).is_err() {
            // Unwinds the thread's stack as a panic does, but without a message.
            resume_unwind(Box::new(NoReader));
        }
    }

    fn end(&mut self) {
        self.begin_region();
        self.take_events();
        self.batch.push_event(VmEvent::RegionEnd);
        self.flush();
    }
}

/// A [`Program`] as a source; its thread starts when the first batch is requested.
pub(crate) struct ProgramSource {
    identity: ProgramIdentity,
    waiting: Option<(AddressSpace, Box<dyn Program>)>,
    receiver: Option<Receiver<Batch>>,
    /// The last batch has been received.
    ended: bool,
}

impl ProgramSource {
    /// A program that starts in an address space as loaded before `main`.
    pub fn boxed(identity: ProgramIdentity, space: AddressSpace, program: impl Program) -> Box<dyn RecordSource> {
        Box::new(ProgramSource { identity, waiting: Some((space, Box::new(program))), receiver: None, ended: false })
    }
}

/// Stack of a program's thread in the simulator. Recursive searches keep their own stacks; this is plenty.
const THREAD_STACK: usize = 16 << 20;

fn start(space: AddressSpace, program: Box<dyn Program>) -> std::io::Result<Receiver<Batch>> {
    let (sender, receiver) = sync_channel(AHEAD);
    std::thread::Builder::new().name("program".into()).stack_size(THREAD_STACK).spawn(move || {
        let run = || {
            let mut on = Execution::new(space, sender);
            program.run(&mut on);
            on.end();
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Err(cause) if !cause.is::<NoReader>() => resume_unwind(cause),
            _ => {}
        }
    })?;
    Ok(receiver)
}

impl RecordSource for ProgramSource {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        if let Some((space, program)) = self.waiting.take() {
            let started = start(space, program);
            self.receiver = Some(started.map_err(|error| {
                let (name, limits) = (&self.identity.name, ambulator_base::sim_host_limits());
                SourceError::new(format!("{name}: cannot start a thread to run it on: {error}; {limits}"))
            })?);
        }
        match self.receiver.as_ref().map(Receiver::recv) {
            Some(Ok(next)) => {
                *batch = next;
                self.ended = matches!(batch.events.last(), Some((_, VmEvent::RegionEnd)));
                Ok(true)
            }
            _ => Err(SourceError::new(format!("{} stopped before its end: a defect in its code", self.identity.name))),
        }
    }
}

/// Runs a program within a test and returns what it computed and its whole stream.
#[cfg(test)]
pub(crate) fn trace_of<R>(space: AddressSpace, run: impl FnOnce(&mut Execution) -> R) -> (R, Vec<Batch>) {
    let (sender, receiver) = sync_channel(AHEAD);
    let listener = std::thread::spawn(move || receiver.iter().collect::<Vec<Batch>>());
    let mut on = Execution::new(space, sender);
    let result = run(&mut on);
    on.end();
    drop(on);
    (result, listener.join().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Example {
        rounds: u64,
    }

    impl Program for Example {
        fn run(self: Box<Self>, on: &mut Execution) {
            let array = on.array(8, 1 << 14);
            for i in 0..array.len {
                on.store(0x10, array.at(i), 8, Value::NONE);
            }
            on.begin_region();
            for i in 0..self.rounds {
                on.thread((i / 100 % 2) as u32);
                on.work(3);
                let a = on.load(0x20, array.at(i % array.len), 8, Value::NONE);
                let b = on.load(0x24, array.at(0), 8, a);
                on.branch(0x28, 0x20, true, b);
                on.update(0x2c, array.at(1), 8, a);
            }
        }
    }

    fn all(rounds: u64) -> Vec<Batch> {
        let identity = ProgramIdentity { name: "example".into(), ..ProgramIdentity::default() };
        let mut source = ProgramSource::boxed(identity, AddressSpace::new(), Example { rounds });
        let mut batches = Vec::new();
        let mut batch = Batch::default();
        while source.fill(&mut batch).unwrap() {
            batches.push(batch.clone());
        }
        assert!(!source.fill(&mut batch).unwrap(), "it stays ended");
        batches
    }

    #[test]
    fn set_up_emits_touches_and_the_region_emits_records() {
        let batches = all(1000);
        let events: Vec<&VmEvent> = batches.iter().flat_map(|b| b.events.iter().map(|(_, e)| e)).collect();
        let begin = events.iter().position(|e| **e == VmEvent::RegionBegin).unwrap();
        let touched: u64 = events[..begin]
            .iter()
            .filter_map(|e| match e {
                VmEvent::Touch { len, write: true, .. } => Some(*len),
                _ => None,
            })
            .sum();
        assert!(touched > 8 << 14, "the array's pages are touched: {touched}");
        assert_eq!(events.last(), Some(&&VmEvent::RegionEnd));
        let records: Vec<Record> = batches.iter().flat_map(|b| b.records.clone()).collect();
        assert_eq!(records.len(), 5000);
        assert_eq!((records[5].gap, records[6].gap, records[6].dep1, records[7].dep1), (3, 0, 1, 1));
        assert_eq!((records[8].dep1, records[9].dep1, records[9].dep2), (3, 4, 1));
    }

    #[test]
    fn dependences_stop_at_thread_switches_and_batches_do_not_matter() {
        let batches = all(40_000);
        assert!(batches.len() > 5);
        let mut switches = 0;
        for batch in &batches {
            switches += batch.events.iter().filter(|(_, e)| matches!(e, VmEvent::Switch { .. })).count();
            for (at, _) in batch.events.iter().filter(|(_, e)| matches!(e, VmEvent::Switch { .. })) {
                for (i, record) in batch.records.iter().enumerate().skip(*at as usize).take(20) {
                    assert!(usize::from(record.dep1.max(record.dep2)) <= i - *at as usize);
                }
            }
        }
        assert_eq!(switches, 399);
        let records: Vec<Record> = batches.iter().flat_map(|b| b.records.clone()).collect();
        assert!(records.chunks(5).all(|r| r[1].dep1 == 1 && r[2].dep1 == 1 && r[4].dep2 == 1));
    }

    #[test]
    fn a_program_without_a_reader_ends() {
        let mut source =
            ProgramSource::boxed(ProgramIdentity::default(), AddressSpace::new(), Example { rounds: u64::MAX });
        let mut batch = Batch::default();
        for _ in 0..4 {
            assert!(source.fill(&mut batch).unwrap());
        }
    }
}
