//! The front end of a core: reads the program, predicts branches, fetches lines of code, and delivers
//! instructions in order to a queue from which they are dispatched.
//!
//! A record's program counter names the line that it was fetched from, with the instructions before it that
//! access no memory. Lines that were decoded lately are in a buffer, as in the simulator. Before an event of
//! the address space and before an access that faults, the core runs dry.

use super::predictors::Directions;
use ambulator_base::{AccessKind, Batch, ProcessId, Record, RecordKind, RecordSource, VirtAddr, VmEvent};
use ambulator_hardware::CoreSpec;
use ambulator_os::Kernel;
use std::collections::VecDeque;

/// A cycle that is not known yet.
pub const UNKNOWN: u64 = u64::MAX;
/// Lines of decoded code: about 1500 micro-operations, as large cores have.
const DECODED: usize = 64;
/// Instructions between fetch and dispatch: the allocation queues of large cores have 64 to 144.
const QUEUE: usize = 64;

/// An instruction that waits for dispatch.
#[derive(Clone, Copy, Debug)]
pub enum Instruction {
    /// One that accesses no memory.
    Plain,
    /// One with a record.
    Recorded { record: Record, mispredicted: bool },
    /// A record that is no instruction: an explicit fetch.
    Mark(Record),
}

/// A step of a program's stream.
enum Step {
    Record(Record),
    Event(VmEvent),
    End,
}

/// A program's stream.
struct Feed {
    source: Box<dyn RecordSource>,
    batch: Batch,
    at: usize,
    event: usize,
}

impl Feed {
    fn next(&mut self) -> Step {
        loop {
            if let Some((at, event)) = self.batch.events.get(self.event)
                && *at as usize <= self.at
            {
                self.event += 1;
                return Step::Event(event.clone());
            }
            if let Some(record) = self.batch.records.get(self.at) {
                self.at += 1;
                return Step::Record(*record);
            }
            (self.at, self.event) = (0, 0);
            self.batch.records.clear();
            self.batch.events.clear();
            if !self.source.fill(&mut self.batch).unwrap_or_else(|e| panic!("the program's stream ended: {e}")) {
                return Step::End;
            }
        }
    }
}

/// What the front end waits for.
#[derive(Debug)]
pub enum Need {
    /// A line of code.
    Line(VirtAddr),
    /// The kernel serves an event.
    Event(VmEvent),
    /// The kernel serves a page fault.
    Fault(VirtAddr, AccessKind),
}

/// The record whose instructions are being delivered.
struct Current {
    record: Record,
    /// Instructions before it that remain.
    gap: u32,
    /// Its pages are mapped, its line is here.
    fetched: bool,
}

/// A core's front end.
pub struct Front {
    feed: Feed,
    process: ProcessId,
    limit: usize,
    /// Whether lines of code are fetched at all.
    fetches: bool,
    directions: Directions,
    decoded: [u64; DECODED],
    current: Option<Current>,
    /// Instructions for dispatch.
    pub queue: VecDeque<Instruction>,
    /// The cycle from which on it delivers.
    pub stopped: u64,
    /// A line of code is under way.
    pub fetching: bool,
    /// The kernel has to act once the core has run dry.
    pub barrier: Option<Need>,
    /// The program or its region has ended.
    pub ended: bool,
}

impl Front {
    /// A front end at the start of a program. `ahead`: it fetches ahead of dispatch.
    pub fn new(
        spec: &CoreSpec,
        source: Box<dyn RecordSource>,
        process: ProcessId,
        fetches: bool,
        ahead: bool,
    ) -> Front {
        Front {
            feed: Feed { source, batch: Batch::default(), at: 0, event: 0 },
            process,
            limit: if ahead { QUEUE } else { spec.width as usize },
            fetches,
            directions: Directions::new(spec),
            decoded: [u64::MAX; DECODED],
            current: None,
            queue: VecDeque::new(),
            stopped: 0,
            fetching: false,
            barrier: None,
            ended: false,
        }
    }

    /// Everything before the first record: the program's set-up. The kernel serves its events, untimed.
    pub fn set_up(&mut self, mut event: impl FnMut(&VmEvent)) {
        loop {
            match self.feed.next() {
                Step::Event(VmEvent::RegionEnd) | Step::End => break,
                Step::Event(at_start) => event(&at_start),
                Step::Record(record) => {
                    self.current = Some(Current { record, gap: record.gap, fetched: false });
                    return;
                }
            }
        }
        self.ended = true;
    }

    /// Delivers instructions in this cycle, of which `budget` remain; returns what it needs to deliver more.
    pub fn fetch(&mut self, now: u64, budget: &mut u32, kernel: &Kernel) -> Option<Need> {
        while *budget > 0 && now >= self.stopped && !self.fetching && !self.ended && self.barrier.is_none() {
            if self.queue.len() >= self.limit {
                return None;
            }
            let Some(current) = &mut self.current else {
                match self.feed.next() {
                    Step::Record(record) => {
                        self.current = Some(Current { record, gap: record.gap, fetched: false });
                    }
                    Step::Event(VmEvent::RegionEnd) | Step::End => self.ended = true,
                    // Threads of the one process take turns.
                    Step::Event(VmEvent::RegionBegin | VmEvent::Switch { process: ProcessId(0), .. }) => {}
                    Step::Event(event) => return Some(Need::Event(event)),
                }
                continue;
            };
            let record = current.record;
            if !current.fetched {
                if let Some((va, kind)) = fault(kernel, self.process, &record, self.fetches) {
                    return Some(Need::Fault(va, kind));
                }
                current.fetched = true;
                let decoded = &mut self.decoded[(record.pc.0 >> 6) as usize % DECODED];
                if self.fetches && record.kind != RecordKind::Fetch && *decoded != record.pc.0 >> 6 {
                    *decoded = record.pc.0 >> 6;
                    return Some(Need::Line(record.pc));
                }
            }
            if current.gap > 0 {
                current.gap -= 1;
                *budget -= 1;
                self.queue.push_back(Instruction::Plain);
                continue;
            }
            self.current = None;
            match record.kind {
                RecordKind::Fetch => {
                    self.queue.push_back(Instruction::Mark(record));
                    if self.fetches {
                        return Some(Need::Line(record.va));
                    }
                }
                RecordKind::Load | RecordKind::Store => {
                    *budget -= 1;
                    self.queue.push_back(Instruction::Recorded { record, mispredicted: false });
                }
                RecordKind::BranchTaken | RecordKind::BranchNotTaken => {
                    *budget -= 1;
                    let mispredicted = !self.directions.predicts(record.pc, record.kind == RecordKind::BranchTaken);
                    self.queue.push_back(Instruction::Recorded { record, mispredicted });
                    if mispredicted {
                        self.stopped = UNKNOWN;
                    }
                }
            }
        }
        None
    }
}

/// The first access of a record that the kernel has to serve a page fault for.
fn fault(kernel: &Kernel, process: ProcessId, record: &Record, fetches: bool) -> Option<(VirtAddr, AccessKind)> {
    let faults = |va: VirtAddr, kind: AccessKind| {
        let state = kernel.page_state(process, va);
        let allowed = state.present()
            && (kind != AccessKind::Store || state.writable())
            && (kind != AccessKind::Fetch || state.executable());
        (!allowed).then_some((va, kind))
    };
    let code = if record.kind == RecordKind::Fetch { record.va } else { record.pc };
    if fetches && let Some(fault) = faults(code, AccessKind::Fetch) {
        return Some(fault);
    }
    let kind = match record.kind {
        RecordKind::Load => AccessKind::Load,
        RecordKind::Store => AccessKind::Store,
        _ => return None,
    };
    let last = record.va.offset(u64::from(record.size.max(1)) - 1);
    faults(record.va, kind).or_else(|| faults(last, kind))
}
