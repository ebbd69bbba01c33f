//! The out-of-order core: reorder buffer, load and store queues, dependences, in-order commit, stores that
//! drain after commit.

use super::events::Part;
use super::front::{Instruction, UNKNOWN};
use ambulator_base::{PhysAddr, Record, RecordKind, VirtAddr};
use ambulator_hardware::CoreSpec;
use std::collections::VecDeque;

/// One instruction in the reorder buffer.
struct Slot {
    /// The cycle from which on it can commit.
    done: u64,
    /// Its record, if it has one.
    record: Option<u64>,
}

/// A record from its dispatch until it has left all queues.
pub struct Op {
    pub record: Record,
    /// The addresses of its data, once translated: of its first line, and of its second if it crosses one.
    pub at: [PhysAddr; 2],
    pub lines: usize,
    /// The cycle in which it was issued.
    pub issued: u64,
    /// Its instruction number, from the start of the program.
    slot: u64,
    /// Loads that it waits for before it can issue.
    waits: u8,
    known: bool,
    pub committed: bool,
    left: bool,
    /// Lines whose translation has not arrived.
    pub untranslated: usize,
    /// Lines that have not arrived.
    pub outstanding: usize,
    pub mispredicted: bool,
    /// Records whose addresses are computed from it.
    dependents: Vec<u64>,
    /// Younger loads that wait for this store's data.
    pub forwards: Vec<u64>,
}

impl Op {
    /// The virtual address of one of its lines.
    pub fn va(&self, line: usize) -> VirtAddr {
        if line == 0 { self.record.va } else { VirtAddr((self.record.va.0 | 63) + 1) }
    }
}

/// The core's queues.
pub struct Window {
    spec: CoreSpec,
    rob: VecDeque<Slot>,
    /// Instructions committed so far: the instruction number of `rob[0]`.
    pub committed: u64,
    ops: VecDeque<Op>,
    /// The number of `ops[0]`.
    first: u64,
    loads: usize,
    stores: VecDeque<u64>,
    /// Records that can issue.
    pub ready: VecDeque<u64>,
    /// Lines of stores that have committed and are to be requested.
    pub senior: VecDeque<Part>,
}

impl Window {
    /// An empty window.
    pub fn new(spec: &CoreSpec) -> Window {
        Window {
            spec: spec.clone(),
            rob: VecDeque::new(),
            committed: 0,
            ops: VecDeque::new(),
            first: 0,
            loads: 0,
            stores: VecDeque::new(),
            ready: VecDeque::new(),
            senior: VecDeque::new(),
        }
    }

    /// A record that has not left.
    pub fn op(&mut self, id: u64) -> &mut Op {
        &mut self.ops[(id - self.first) as usize]
    }

    /// A record, if it has not left.
    pub fn find(&mut self, id: u64) -> Option<&mut Op> {
        self.ops.get_mut(id.checked_sub(self.first)? as usize)
    }

    /// Whether no instruction is between dispatch and commit.
    pub fn is_dry(&self) -> bool {
        self.rob.is_empty()
    }

    /// Whether no store waits to leave either.
    pub fn is_empty(&self) -> bool {
        self.rob.is_empty() && self.stores.is_empty()
    }

    /// Commits at most `width` completed instructions, in order.
    pub fn commit(&mut self, now: u64) {
        for _ in 0..self.spec.width {
            match self.rob.front() {
                Some(slot) if slot.done <= now => {}
                _ => break,
            }
            let record = self.rob.pop_front().and_then(|slot| slot.record);
            self.committed += 1;
            let Some(id) = record else { continue };
            let op = self.op(id);
            op.committed = true;
            if op.record.kind == RecordKind::Store {
                if op.untranslated == 0 {
                    self.ask_senior(id);
                }
            } else {
                op.left = true;
                self.loads -= usize::from(op.record.kind == RecordKind::Load);
            }
        }
    }

    /// The lines of a committed store, whose addresses are known, are to be requested.
    pub fn ask_senior(&mut self, id: u64) {
        let lines = self.op(id).lines;
        self.senior.extend((0..lines).map(|line| (id, line)));
    }

    /// The oldest store leaves the store queue when it has committed and its lines have arrived, one a cycle.
    pub fn drain(&mut self) {
        if let Some(&id) = self.stores.front() {
            let op = self.op(id);
            if op.committed && op.outstanding == 0 {
                op.left = true;
                self.stores.pop_front();
            }
        }
        while self.ops.front().is_some_and(|op| op.left) {
            self.ops.pop_front();
            self.first += 1;
        }
    }

    /// Dispatches at most `width` instructions of the front end's queue.
    pub fn dispatch(&mut self, now: u64, queue: &mut VecDeque<Instruction>) {
        let mut left = self.spec.width;
        while let Some(&next) = queue.front() {
            let (record, mispredicted) = match next {
                Instruction::Mark(record) => {
                    self.enter(record, true); // not an instruction, but it counts for distances
                    queue.pop_front();
                    continue;
                }
                _ if left == 0 || self.rob.len() == self.spec.rob as usize => return,
                Instruction::Plain => {
                    self.rob.push_back(Slot { done: now + 1, record: None });
                    queue.pop_front();
                    left -= 1;
                    continue;
                }
                Instruction::Recorded { record, mispredicted } => (record, mispredicted),
            };
            let room = match record.kind {
                RecordKind::Load => self.loads < self.spec.load_queue as usize,
                RecordKind::Store => self.stores.len() < self.spec.store_queue as usize,
                _ => true,
            };
            if !room {
                return;
            }
            queue.pop_front();
            left -= 1;
            let id = self.enter(record, false);
            self.op(id).mispredicted = mispredicted;
            match record.kind {
                RecordKind::Load => self.loads += 1,
                RecordKind::Store => self.stores.push_back(id),
                _ => {}
            }
            self.rob.push_back(Slot { done: UNKNOWN, record: Some(id) });
        }
    }

    fn enter(&mut self, record: Record, left: bool) -> u64 {
        let id = self.first + self.ops.len() as u64;
        let slot = self.committed + self.rob.len() as u64;
        let mut waits = 0;
        for distance in [record.dep1, record.dep2] {
            let Some(producer) = id.checked_sub(u64::from(distance)).filter(|p| distance > 0 && *p >= self.first)
            else {
                continue;
            };
            let producer = self.op(producer);
            if !producer.known {
                producer.dependents.push(id);
                waits += 1;
            }
        }
        let last = record.va.offset(u64::from(record.size.max(1)) - 1);
        let lines = if record.is_data() { 1 + usize::from(last.0 / 64 != record.va.0 / 64) } else { 0 };
        self.ops.push_back(Op {
            record,
            at: [PhysAddr(0); 2],
            lines,
            issued: UNKNOWN,
            slot,
            waits,
            known: left,
            committed: left,
            left,
            untranslated: lines,
            outstanding: lines,
            mispredicted: false,
            dependents: Vec::new(),
            forwards: Vec::new(),
        });
        if waits == 0 && !left {
            self.ready.push_back(id);
        }
        id
    }

    /// The record's value has arrived: records that waited only for it can issue.
    pub fn value(&mut self, id: u64) {
        let op = self.op(id);
        op.known = true;
        for dependent in std::mem::take(&mut op.dependents) {
            let op = self.op(dependent);
            op.waits -= 1;
            if op.waits == 0 {
                self.ready.push_back(dependent);
            }
        }
    }

    /// The record can commit from cycle `done` on.
    pub fn finish(&mut self, id: u64, done: u64) {
        let place = self.op(id).slot - self.committed;
        self.rob[place as usize].done = done;
    }

    /// The youngest store older than the load that writes its 8-byte word and has not left the store queue.
    pub fn older_store(&mut self, load: u64) -> Option<u64> {
        let word = self.op(load).record.va.0 / 8;
        let first = self.first;
        let writes = |id: &u64| self.ops[(*id - first) as usize].record.va.0 / 8 == word;
        self.stores.iter().rev().copied().filter(|id| *id < load).find(writes)
    }
}
