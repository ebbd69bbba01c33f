//! The window of one out-of-order core.
//!
//! Instructions dispatch in order, at most `width` a cycle, while the reorder buffer and the load and store
//! queues have room; they complete out of order and commit in order, at most `width` a cycle. There is no
//! cycle loop: the times of each record are computed once, from those of the records before it. Time within
//! the window is counted in *slots*, `width` of which make a cycle, so that "the third instruction of this
//! cycle" is a number.
//!
//! The model omits the scheduler's size and the functional units (an instruction whose operands are ready
//! starts when it dispatches, and one that accesses no memory completes a cycle later), and wrong-path
//! instructions (a misprediction costs time, but fetches nothing). A dispatch stall within a gap is placed at
//! the gap's beginning.

use crate::reservation_table::divide;
use crate::{BranchPredictor, CoreSpec, StoreRequest};
use ambulator_base::{CounterSink, Counters, Cycle, Record, RecordKind, counters};

counters! {
    /// Counters of a core's window.
    pub struct CoreCounters {
        /// Instructions dispatched.
        instructions: Instructions,
        /// Cycles until everything so far has committed.
        cycles: Cycles timed,
        /// Loads completed.
        loads: Events,
        /// Stores completed.
        stores: Events,
        /// Loads that took their value from the store queue.
        forwards: Events timed,
        /// Branches resolved.
        branches: Events,
        /// Branches whose direction was predicted wrongly.
        mispredictions: Events,
        /// Cycles in which dispatch waited for room in the reorder buffer.
        stall_rob: Cycles timed,
        /// Cycles in which dispatch waited for room in the load queue.
        stall_load_queue: Cycles timed,
        /// Cycles in which dispatch waited for room in the store queue.
        stall_store_queue: Cycles timed,
        /// Cycles in which dispatch waited for the correct path after a misprediction.
        stall_branch: Cycles timed,
        /// Cycles in which dispatch waited for instruction fetch or its translation.
        stall_front: Cycles timed,
        /// Cycles in which dispatch waited for serialising events and during them.
        stall_serialize: Cycles timed,
        /// Cycles that dispatched instructions waited for the loads that they depend on (overlapping).
        wait_dependences: Cycles timed,
        /// Serialising events (faults, system calls, context switches).
        serializations: Events,
    }
}

/// The reorder buffer's entry of one record: when its gap and the record itself commit.
#[derive(Clone, Copy, Debug, Default)]
struct Retirement {
    /// Index of the record's instruction, counted from 1.
    index: u64,
    /// The `k`-th instruction of the gap commits at slot `gap_base + k`.
    gap_base: u64,
    /// Index of the last instruction before the gap.
    before: u64,
    /// Slot in which the record itself commits.
    commit: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Forward {
    word: u64,
    /// The cycle at which the store's data are ready.
    data: u64,
    /// The cycle in which the store leaves the store queue.
    drained: u64,
}

/// Entries of the table of forwarding stores, which is direct-mapped by 8-byte word.
const FORWARDS: usize = 128;

/// One out-of-order core's window.
#[derive(Clone, Debug)]
pub struct CoreWindow {
    width: u64,
    /// For divisions by the width; 0 when it is 1.
    reciprocal: u64,
    rob: u64,
    penalty: u64,
    forward_latency: u64,
    /// Stores ask for their lines when they commit.
    asks_at_commit: bool,
    /// Slot in which the last instruction dispatched.
    dispatched: u64,
    /// Slot in which the last instruction committed.
    committed: u64,
    /// Slot before which nothing dispatches, and whether a misprediction is the cause.
    front: u64,
    front_branch: bool,
    index: u64,
    /// The record that was dispatched last, until it completes.
    pending: Retirement,
    retirements: Box<[Retirement]>,
    /// Next place to write, and the oldest that may still be needed.
    head: usize,
    tail: usize,
    /// Cycle in which each past record's value is ready.
    values: Box<[u64]>,
    position: u64,
    /// Slots in which the last loads left the load queue, and the last stores the store queue.
    loads: Ring,
    stores: Ring,
    drained: u64,
    forwards: Box<[Forward]>,
    predictor: BranchPredictor,
    counters: CoreCounters,
    /// Stall counters in slots, because a stall may be shorter than a cycle.
    stalls: [u64; 6],
    counted_from: u64,
}

const ROB: usize = 0;
const LOAD_QUEUE: usize = 1;
const STORE_QUEUE: usize = 2;
const BRANCH: usize = 3;
const FRONT: usize = 4;
const SERIALIZE: usize = 5;

/// The most recent release times of a queue, one for each entry. The oldest frees the place for the next
/// entry.
#[derive(Clone, Debug)]
struct Ring {
    released: Box<[u64]>,
    next: usize,
}

impl Ring {
    fn new(entries: usize) -> Ring {
        Ring { released: vec![0; entries.max(1)].into_boxed_slice(), next: 0 }
    }

    #[inline(always)]
    fn oldest(&self) -> u64 {
        self.released[self.next]
    }

    #[inline(always)]
    fn push(&mut self, released: u64) {
        self.released[self.next] = released;
        self.next = if self.next + 1 == self.released.len() { 0 } else { self.next + 1 };
    }
}

impl CoreWindow {
    /// The window of an idle core at cycle 0.
    pub fn new(spec: &CoreSpec) -> Self {
        let places = (spec.rob as usize + 2).next_power_of_two();
        CoreWindow {
            width: u64::from(spec.width.max(1)),
            reciprocal: if spec.width > 1 { u64::MAX / u64::from(spec.width) + 1 } else { 0 },
            rob: u64::from(spec.rob.max(1)),
            penalty: spec.mispredict_penalty,
            forward_latency: spec.forward_latency,
            asks_at_commit: spec.store_request == StoreRequest::Commit,
            dispatched: 0,
            committed: 0,
            front: 0,
            front_branch: false,
            index: 0,
            pending: Retirement::default(),
            retirements: vec![Retirement::default(); places].into_boxed_slice(),
            head: 0,
            tail: 0,
            // A producer further back than the length of the reorder buffer has committed. Explicit fetches
            // also take places.
            values: vec![0; 4 * places].into_boxed_slice(),
            position: 0,
            loads: Ring::new(spec.load_queue as usize),
            stores: Ring::new(spec.store_queue as usize),
            drained: 0,
            forwards: vec![Forward::default(); FORWARDS].into_boxed_slice(),
            predictor: BranchPredictor::new(spec),
            counters: CoreCounters::default(),
            stalls: [0; 6],
            counted_from: 0,
        }
    }

    /// Dispatches the record's gap instructions and the record itself; returns the earliest cycle in which
    /// its address is known and it can issue. Must be followed by [`CoreWindow::complete`] for this record.
    #[inline]
    pub fn dispatch(&mut self, record: &Record) -> Cycle {
        let instructions = u64::from(record.gap) + 1;
        let before = self.index;
        self.index += instructions;
        let free_running = self.dispatched + instructions;
        let mut slot = free_running;
        if self.front > self.dispatched {
            let resumed = self.front + instructions - 1;
            if resumed > slot {
                self.stalls[if self.front_branch { BRANCH } else { FRONT }] += resumed - slot;
                slot = resumed;
            }
        }
        // The instruction `rob` before this one must have committed.
        if self.index > self.rob {
            let freed = self.commit_of(self.index - self.rob, before);
            if freed > slot {
                self.stalls[ROB] += freed - slot;
                slot = freed;
            }
        }
        match record.kind {
            RecordKind::Load => {
                let freed = self.loads.oldest();
                if freed > slot {
                    self.stalls[LOAD_QUEUE] += freed - slot;
                    slot = freed;
                }
            }
            RecordKind::Store => {
                let freed = self.stores.oldest();
                if freed > slot {
                    self.stalls[STORE_QUEUE] += freed - slot;
                    slot = freed;
                }
            }
            _ => {}
        }
        self.pending = Retirement {
            index: self.index,
            before,
            gap_base: self.committed.max(slot - instructions + self.width),
            commit: 0,
        };
        self.dispatched = slot;
        self.counters.instructions += instructions;
        let cycle = self.cycle(slot);
        let known = self.value(record.dep1).max(self.value(record.dep2));
        self.counters.wait_dependences += known.saturating_sub(cycle);
        Cycle(cycle.max(known))
    }

    /// The cycle of a slot.
    #[inline(always)]
    fn cycle(&self, slot: u64) -> u64 {
        if self.reciprocal == 0 { slot } else { divide(slot, self.reciprocal) }
    }

    /// The slot in which instruction `index` (before the one being dispatched) commits.
    #[inline(always)]
    fn commit_of(&mut self, index: u64, before: u64) -> u64 {
        if index > before {
            // Within the gap that is being dispatched: it commits at full width after the last commit.
            return self.committed + (index - before);
        }
        let mask = self.retirements.len() - 1;
        while self.tail != self.head && self.retirements[self.tail & mask].index < index {
            self.tail += 1;
        }
        if self.tail == self.head {
            return self.committed;
        }
        let entry = &self.retirements[self.tail & mask];
        if index == entry.index {
            entry.commit
        } else {
            (entry.gap_base + index.saturating_sub(entry.before)).min(entry.commit)
        }
    }

    #[inline(always)]
    fn value(&self, distance: u16) -> u64 {
        let distance = u64::from(distance);
        let mask = self.values.len() as u64 - 1;
        if distance == 0 || distance > mask {
            0
        } else {
            self.values[(self.position.wrapping_sub(distance) & mask) as usize]
        }
    }

    /// Whether stores ask for their lines when they commit ([`StoreRequest::Commit`]).
    #[inline(always)]
    pub fn asks_at_commit(&self) -> bool {
        self.asks_at_commit
    }

    /// When the store that was dispatched last asks for its line, if it issued at `issued` and its address is
    /// translated at `translated`: then, or when it commits.
    #[inline(always)]
    pub fn store_asks(&self, issued: Cycle, translated: Cycle) -> Cycle {
        if self.asks_at_commit {
            Cycle(self.cycle(self.commit_slot(translated.0.max(issued.0 + 1))))
        } else {
            translated
        }
    }

    /// The address of the store that was dispatched last is translated at `translated`, after it issued at
    /// `issued`. Returns when it asks for its line. If that is when it commits, it commits now.
    #[inline(always)]
    pub fn commit_store(&mut self, issued: Cycle, translated: Cycle) -> Cycle {
        if !self.asks_at_commit {
            return translated;
        }
        self.retire(translated.0.max(issued.0 + 1));
        Cycle(self.cycle(self.committed))
    }

    /// The load's value arrives at `ready`, or the store's line is owned at `ready`, after the record issued
    /// at `issued` (not before the cycle that [`CoreWindow::dispatch`] returned). Returns the cycle in which
    /// the value is ready, which is earlier than `ready` when an older store forwards it. A store that
    /// [`CoreWindow::commit_store`] has not committed commits now.
    #[inline]
    pub fn complete(&mut self, record: &Record, issued: Cycle, ready: Cycle) -> Cycle {
        let word = record.va.0 / 8;
        let place = (word % FORWARDS as u64) as usize;
        let mut value = ready.0;
        if record.kind == RecordKind::Load {
            self.counters.loads += 1;
            let forward = self.forwards[place];
            if forward.word == word && forward.drained > issued.0 {
                let forwarded = issued.0.max(forward.data) + self.forward_latency;
                if forwarded < value {
                    self.counters.forwards += 1;
                    value = forwarded;
                }
            }
            self.retire(value);
            self.loads.push(self.committed);
        } else {
            self.counters.stores += 1;
            // The store commits once its data are ready; its line may arrive later.
            let data = issued.0;
            if !self.is_retired() {
                self.retire(data + 1);
            }
            let drained = (self.cycle(self.committed) + 1).max(ready.0).max(self.drained + 1);
            self.drained = drained;
            self.stores.push(drained * self.width);
            self.forwards[place] = Forward { word, data, drained };
            value = data;
        }
        self.push_value(value);
        Cycle(value)
    }

    /// A branch record: dispatches it, predicts it, and stalls the front end if the prediction was wrong.
    #[inline]
    pub fn branch(&mut self, record: &Record) {
        let issue = self.dispatch(record);
        let resolved = issue.0 + 1;
        if !self.resolve(record) {
            let resumes = (resolved + self.penalty) * self.width;
            if resumes > self.front {
                self.front = resumes;
                self.front_branch = true;
            }
        }
        self.retire(resolved);
        self.push_value(resolved);
    }

    /// An explicit fetch record: its gap's instructions dispatch and commit as those of any other record do.
    /// The record itself is not an instruction, and only counts for dependence distances.
    #[inline]
    pub fn skip_fetch(&mut self, record: &Record) {
        if let Some(before_last) = record.gap.checked_sub(1) {
            // The last instruction of the gap takes the place that the record itself has in other records.
            let dispatched = self.dispatch(&Record { gap: before_last, kind: RecordKind::Fetch, ..Record::default() });
            self.retire(dispatched.0);
        }
        self.push_value(0);
    }

    /// Functional mode: counts what needs no time. Branches train the predictor.
    #[inline(always)]
    pub fn count(&mut self, record: &Record) {
        self.counters.instructions += record.instructions();
        match record.kind {
            RecordKind::Load => self.counters.loads += 1,
            RecordKind::Store => self.counters.stores += 1,
            RecordKind::BranchNotTaken | RecordKind::BranchTaken => {
                self.resolve(record);
            }
            RecordKind::Fetch => {}
        }
    }

    /// Functional mode: counts an event that serialises.
    pub fn count_serialization(&mut self) {
        self.counters.serializations += 1;
    }

    /// Counts a branch and trains the predictor. Returns whether it predicted the branch.
    #[inline(always)]
    fn resolve(&mut self, record: &Record) -> bool {
        self.counters.branches += 1;
        let right = self.predictor.resolve(record.pc, record.kind == RecordKind::BranchTaken);
        self.counters.mispredictions += u64::from(!right);
        right
    }

    #[inline(always)]
    fn push_value(&mut self, value: u64) {
        let mask = self.values.len() as u64 - 1;
        self.values[(self.position & mask) as usize] = value;
        self.position += 1;
    }

    /// The slot in which the pending record commits, if its value is ready at `cycle`.
    #[inline(always)]
    fn commit_slot(&self, cycle: u64) -> u64 {
        let entry = &self.pending;
        let gap_end = entry.gap_base + (entry.index - entry.before - 1);
        (cycle * self.width).max(gap_end.max(self.committed) + 1)
    }

    /// Whether the record that was dispatched last has committed.
    #[inline(always)]
    fn is_retired(&self) -> bool {
        let mask = self.retirements.len() - 1;
        self.retirements[self.head.wrapping_sub(1) & mask].index == self.index
    }

    /// Commits the pending record, whose value is ready at `cycle`.
    #[inline(always)]
    fn retire(&mut self, cycle: u64) {
        let entry = Retirement { commit: self.commit_slot(cycle), ..self.pending };
        self.committed = entry.commit;
        let mask = self.retirements.len() - 1;
        self.retirements[self.head & mask] = entry;
        self.head += 1;
        // Records older than the ring have left the reorder buffer.
        self.tail = self.tail.max(self.head.saturating_sub(mask + 1));
    }

    /// Stalls dispatch until `cycles` after all instructions in flight have committed (page faults, system
    /// calls, context switches).
    pub fn serialize(&mut self, cycles: u64) {
        // Whole cycles: the next instruction begins a new one.
        let end = (self.committed.max(self.dispatched).div_ceil(self.width) + cycles) * self.width;
        self.stalls[SERIALIZE] += end - self.dispatched;
        self.dispatched = end;
        self.committed = self.committed.max(end);
        self.counters.serializations += 1;
    }

    /// The front end delivers nothing before `at` (an L1 I-TLB or L1I miss).
    #[inline(always)]
    pub fn stall_front(&mut self, at: Cycle) {
        let slot = at.0 * self.width;
        if slot > self.front {
            self.front = slot;
            self.front_branch = false;
        }
    }

    /// The cycle of dispatch, by which the machine interleaves its cores.
    #[inline(always)]
    pub fn now(&self) -> Cycle {
        Cycle(self.cycle(self.dispatched.max(self.front)))
    }

    /// The cycle in which everything dispatched so far has committed: the run's length.
    #[inline(always)]
    pub fn retired_cycle(&self) -> Cycle {
        Cycle(self.committed.div_ceil(self.width))
    }

    /// Instructions dispatched since the counters were last reset.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.counters.instructions
    }

    /// The counters so far.
    pub fn counters(&self) -> CoreCounters {
        let cycles = |cause: usize| self.stalls[cause] / self.width;
        CoreCounters {
            cycles: self.retired_cycle().0 - self.counted_from,
            stall_rob: cycles(ROB),
            stall_load_queue: cycles(LOAD_QUEUE),
            stall_store_queue: cycles(STORE_QUEUE),
            stall_branch: cycles(BRANCH),
            stall_front: cycles(FRONT),
            stall_serialize: cycles(SERIALIZE),
            ..self.counters.clone()
        }
    }

    /// Reports the counters to `sink` under `prefix`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters().report(prefix, sink);
    }

    /// Sets the counters to zero (the end of warm-up); time goes on.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.stalls = [0; 6];
        self.counted_from = self.retired_cycle().0;
    }
}
