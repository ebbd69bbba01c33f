//! The out-of-order core: reorder buffer, load and store queues, dependences, in-order commit, stores that
//! drain after commit.

use ambulator_base::{PhysAddr, Record, RecordKind};
use ambulator_hardware::{BranchPredictor, CoreSpec};
use std::collections::VecDeque;

/// A cycle that is not known yet.
pub const UNKNOWN: u64 = u64::MAX;

/// One instruction in the reorder buffer.
struct Slot {
    /// The cycle from which on it can commit.
    done: u64,
    /// Its record, if it has one.
    record: Option<u64>,
}

/// A record from its dispatch until it has left all queues.
pub struct Op {
    /// Its record.
    pub record: Record,
    /// The address of its data, once translated.
    pub at: PhysAddr,
    /// The cycle in which it was issued.
    pub issued: u64,
    /// Its instruction number, from the start of the program.
    slot: u64,
    /// Loads that it waits for before it can issue.
    waits: u8,
    known: bool,
    committed: bool,
    left: bool,
    /// A store: its line is in the L1 cache.
    pub owned: bool,
    pub mispredicted: bool,
    /// Records whose addresses are computed from it.
    dependents: Vec<u64>,
    /// Younger loads that wait for this store's data.
    pub forwards: Vec<u64>,
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
    predictor: BranchPredictor,
    /// The cycle from which on the front end delivers.
    front: u64,
    next: Option<Record>,
    gap: u32,
    /// Records that can issue in this cycle.
    pub ready: VecDeque<u64>,
    /// Stores that have just committed.
    pub senior: VecDeque<u64>,
}

impl Window {
    /// An empty window.
    pub fn new(spec: &CoreSpec) -> Window {
        Window {
            predictor: BranchPredictor::new(spec),
            spec: spec.clone(),
            rob: VecDeque::new(),
            committed: 0,
            ops: VecDeque::new(),
            first: 0,
            loads: 0,
            stores: VecDeque::new(),
            front: 0,
            next: None,
            gap: 0,
            ready: VecDeque::new(),
            senior: VecDeque::new(),
        }
    }

    /// A record that has not left.
    pub fn op(&mut self, id: u64) -> &mut Op {
        &mut self.ops[(id - self.first) as usize]
    }

    /// Whether no instruction is in flight or waits for dispatch.
    pub fn is_empty(&self) -> bool {
        self.next.is_none() && self.rob.is_empty() && self.stores.is_empty()
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
                self.senior.push_back(id);
            } else {
                op.left = true;
                self.loads -= usize::from(op.record.kind == RecordKind::Load);
            }
        }
    }

    /// The oldest store leaves the store queue when it has committed and its line has arrived, one per cycle.
    pub fn drain(&mut self) {
        if let Some(&id) = self.stores.front() {
            let op = self.op(id);
            if op.committed && op.owned {
                op.left = true;
                self.stores.pop_front();
            }
        }
        while self.ops.front().is_some_and(|op| op.left) {
            self.ops.pop_front();
            self.first += 1;
        }
    }

    /// Dispatches at most `width` instructions of the stream `feed`.
    pub fn dispatch(&mut self, now: u64, mut feed: impl FnMut() -> Option<Record>) {
        for _ in 0..self.spec.width {
            if now < self.front || self.rob.len() == self.spec.rob as usize {
                return;
            }
            while self.next.is_none() {
                let Some(record) = feed() else { return };
                self.gap += record.gap;
                if record.kind == RecordKind::Fetch {
                    self.enter(record, true); // not an instruction, but it counts for distances
                } else {
                    self.next = Some(record);
                }
            }
            if self.gap > 0 {
                self.gap -= 1;
                self.rob.push_back(Slot { done: now + 1, record: None });
                continue;
            }
            let Some(record) = self.next else { return };
            let room = match record.kind {
                RecordKind::Load => self.loads < self.spec.load_queue as usize,
                RecordKind::Store => self.stores.len() < self.spec.store_queue as usize,
                _ => true,
            };
            if !room {
                return;
            }
            self.next = None;
            let id = self.enter(record, false);
            match record.kind {
                RecordKind::Load => self.loads += 1,
                RecordKind::Store => self.stores.push_back(id),
                _ => {
                    if !self.predictor.resolve(record.pc, record.kind == RecordKind::BranchTaken) {
                        self.op(id).mispredicted = true;
                        self.front = UNKNOWN;
                    }
                }
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
        self.ops.push_back(Op {
            record,
            at: PhysAddr(0),
            issued: UNKNOWN,
            slot,
            waits,
            known: left,
            committed: left,
            left,
            owned: false,
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

    /// A mispredicted branch was resolved at `now`.
    pub fn redirect(&mut self, now: u64) {
        self.front = now + self.spec.mispredict_penalty;
    }

    /// The youngest store older than the load that writes its 8-byte word and has not left the store queue.
    pub fn older_store(&mut self, load: u64) -> Option<u64> {
        let word = self.op(load).record.va.0 / 8;
        let first = self.first;
        let writes = |id: &u64| self.ops[(*id - first) as usize].record.va.0 / 8 == word;
        self.stores.iter().rev().copied().filter(|id| *id < load).find(writes)
    }
}
