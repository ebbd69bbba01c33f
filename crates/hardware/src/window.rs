//! The window of one out-of-order core.
//!
//! Instructions dispatch in order, at most `width` a cycle, while the reorder buffer and the load and store
//! queues have room; they complete out of order and commit in order, at most `width` a cycle. There is no
//! cycle loop: a load or a store has an event when its address is known ([`EventKind::Issue`]) and one when
//! it asks for its line ([`EventKind::Ask`]), and the machine carries out these events and the dispatch of
//! the next record in the order of their times, so that a core's accesses reach the memory hierarchy in that
//! order. All other times follow from the times of earlier records, as soon as those are known. Time within
//! the window is counted in *slots*, `width` of which make a cycle, so that "the third instruction of this
//! cycle" is a number.
//!
//! The model omits the scheduler's size and the functional units (an instruction whose operands are ready
//! starts when it dispatches, and one that accesses no memory completes a cycle later), and wrong-path
//! instructions (a misprediction costs time, but fetches nothing). A dispatch stall within a gap is placed at
//! the gap's beginning.

use crate::cycle_stack::{Cause, CycleStack};
use crate::events::{Event, EventKind, EventQueue};
use crate::queues::{Queue, StoreEntry, UNKNOWN};
use crate::reservation_table::divide;
use crate::{BranchPredictor, CoreCounters, CoreSpec, Served, StoreRequest};
use ambulator_base::{CounterSink, Counters, Cycle, PhysAddr, Record, RecordKind, State};

/// Flag of a value that is not known yet; the other bits are the place of the record that produces it.
const AWAITED: u64 = 1 << 63;
/// No record.
const NONE: u32 = u32::MAX;
/// A load whose translation takes no longer than this asks for its line in the same event: cycles.
const AT_ONCE: u64 = 2;

/// A record in flight.
#[derive(Clone, Copy, Debug, Default, State)]
struct Entry {
    record: Record,
    /// Index of the record's instruction, counted from 1.
    index: u64,
    /// Slot of dispatch. When all records before this one have committed: the slot `base` such that the
    /// `k`-th instruction of the gap commits at `base + k`.
    base: u64,
    /// Cycle in which the record can commit, or `UNKNOWN`. Once it has committed: the slot in which it did.
    done: u64,
    /// Cycle from which on its operands are known, as far as they are known; then the cycle of its issue.
    issued: u64,
    /// Where its data are, and when that is known; before that, the cycle of dispatch.
    at: PhysAddr,
    translated: u64,
    /// Where the second line is, of a store that crosses a line.
    second: PhysAddr,
    /// A load that computes with a prediction: the cycle before which it does not commit; once its value is
    /// ready, the cycles between. Else 0.
    verified: u64,
    /// Cycle in which a store leaves the store queue, or a load's value arrives from there; else `UNKNOWN`.
    drained: u64,
    /// Position in the stream of records.
    position: u64,
    /// Number of the youngest older store to the same word (a load), or `NONE`.
    forwards: u32,
    /// Place in the load or store queue.
    queue: u32,
    /// The first operand that waits for this record's value, and the next ones that wait for the same values
    /// as this record's operands: `2 * place + operand`.
    waiter: u32,
    next: [u32; 2],
    /// Operands that are not known yet.
    unknown: u8,
    /// A branch that was predicted wrongly.
    mispredicted: bool,
    /// How it was translated.
    translation: u8,
    /// What served a load's line.
    served: Served,
    /// Why it dispatched late, if it did.
    late: Cause,
}

/// A store in the table of forwarding stores, which is direct-mapped by 8-byte word.
#[derive(Clone, Copy, Debug, Default, State)]
struct Forward {
    word: u64,
    number: u32,
}

/// Entries of the table of forwarding stores.
const FORWARDS: usize = 128;

/// A record in flight as the machine sees it.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// The record.
    pub record: Record,
    /// When it issued.
    pub issued: Cycle,
    /// Where its data are, once it is translated.
    pub at: PhysAddr,
    /// Where its second line is, if it is a store that crosses a line and asks at commit.
    pub second: PhysAddr,
    /// When both are known.
    pub translated: Cycle,
    /// A load does not commit before: it computes with an address that is verified only then.
    pub verified: Cycle,
    /// How it was translated: 0 by TLBs alone. Otherwise the low bits are 1 plus the [`Served`] of the
    /// slowest load of the walk or the lookaside; others are the machine's.
    pub translation: u8,
}

/// One out-of-order core's window.
#[derive(Clone, Debug, State)]
#[state(timed)]
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
    /// A branch that was predicted wrongly and is not resolved yet: nothing dispatches.
    unresolved: bool,
    /// Index of the last instruction dispatched.
    index: u64,
    /// Records in flight, by their number: `tail <= retired <= head`. Records before `retired` have a known
    /// slot of commit; those before `tail` are needed no longer.
    entries: Box<[Entry]>,
    head: u32,
    retired: u32,
    tail: u32,
    /// The slot in which the next record dispatches once that is known, or `UNKNOWN`, and its instructions.
    planned: u64,
    planned_instructions: u64,
    /// Cycle in which each past record's value is ready, or who produces it.
    values: Box<[u64]>,
    position: u64,
    events: EventQueue,
    loads: Queue,
    stores: Queue,
    drained: u64,
    forwards: Box<[Forward]>,
    /// Records in flight whose values have just become known, by their places, with these values.
    woken: Vec<(u32, u64)>,
    #[state(always)]
    predictor: BranchPredictor,
    #[state(always)]
    counters: CoreCounters,
    stack: CycleStack,
    /// What the oldest instruction last waited for, and why dispatch was late last.
    waited: Cause,
    late: Cause,
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
            unresolved: false,
            index: 0,
            entries: vec![Entry::default(); places].into_boxed_slice(),
            head: 0,
            retired: 0,
            tail: 0,
            planned: UNKNOWN,
            planned_instructions: 0,
            // A producer further back than the length of the reorder buffer has committed. Explicit fetches
            // also take places.
            values: vec![0; 4 * places].into_boxed_slice(),
            position: 0,
            events: EventQueue::new(places + spec.store_queue as usize),
            loads: Queue::new(spec.load_queue as usize),
            stores: Queue::new(spec.store_queue as usize),
            drained: 0,
            forwards: vec![Forward { word: UNKNOWN, number: 0 }; FORWARDS].into_boxed_slice(),
            woken: Vec::with_capacity(places),
            predictor: BranchPredictor::new(spec),
            counters: CoreCounters::default(),
            stack: CycleStack::default(),
            waited: Cause::Base,
            late: Cause::Base,
            stalls: [0; 6],
            counted_from: 0,
        }
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.entries.len() - 1)
    }

    /// The cycle in which `record`, the next one, dispatches, or `None` while that depends on events that
    /// have not happened.
    #[inline(always)]
    pub fn plan(&mut self, record: &Record) -> Option<Cycle> {
        if self.planned == UNKNOWN && !self.plan_dispatch(record) {
            return None;
        }
        Some(Cycle(self.cycle(self.planned)))
    }

    /// Finds the slot in which `record` dispatches, and counts its stalls. False if it is not known yet.
    #[inline(always)]
    fn plan_dispatch(&mut self, record: &Record) -> bool {
        if self.unresolved || self.head.wrapping_sub(self.retired) as usize >= self.entries.len() {
            return false;
        }
        let instructions = record.instructions();
        let mut slot = self.dispatched + instructions;
        if instructions > 0 {
            // The instruction `rob` before this one must have committed.
            let index = self.index + instructions;
            let committed = if index > self.rob { self.commit_of(index - self.rob) } else { 0 };
            let (freed, cause) = match record.kind {
                RecordKind::Load => (self.loads.room(), LOAD_QUEUE),
                RecordKind::Store => (self.stores.room(), STORE_QUEUE),
                _ => (0, LOAD_QUEUE),
            };
            if committed == UNKNOWN || freed == UNKNOWN {
                return false;
            }
            if self.front > self.dispatched {
                slot = self.delayed(slot, self.front + instructions - 1, self.front_cause());
            }
            slot = self.delayed(slot, committed, ROB);
            slot = self.delayed(slot, freed, cause);
        }
        (self.planned, self.planned_instructions) = (slot, instructions);
        true
    }

    /// `slot`, or `until` if that is later; the difference is counted as stalls of `cause`.
    #[inline(always)]
    fn delayed(&mut self, slot: u64, until: u64, cause: usize) -> u64 {
        if until <= slot {
            return slot;
        }
        self.stalls[cause] += until - slot;
        self.late = match cause {
            BRANCH => Cause::Branch,
            FRONT => Cause::Front,
            STORE_QUEUE => Cause::Stores,
            // The reorder buffer or the load queue was full of what waited.
            _ => self.waited,
        };
        until
    }

    /// The cause of the front end's latest stall.
    #[inline(always)]
    fn front_cause(&self) -> usize {
        if self.front_branch { BRANCH } else { FRONT }
    }

    /// Dispatches the record's gap instructions and the record itself, the next one, whose
    /// [`CoreWindow::plan`] is known. Returns its event if its address is known at once: the machine carries
    /// it out now. All other events come from [`CoreWindow::take_event`].
    ///
    /// # Panics
    /// If the time of dispatch is not known.
    #[inline(always)]
    pub fn dispatch(&mut self, record: &Record) -> Option<Event> {
        assert!(self.plan(record).is_some(), "the record's dispatch depends on pending events");
        let slot = std::mem::replace(&mut self.planned, UNKNOWN);
        let instructions = self.planned_instructions;
        let position = self.position;
        self.position += 1;
        if instructions == 0 {
            self.set_value(position, 0);
            return None;
        }
        self.dispatched = slot;
        self.index += instructions;
        self.counters.instructions += instructions;
        let number = self.head;
        self.head = number.wrapping_add(1);
        let cycle = self.cycle(slot);
        let base = if self.retired == number { self.gap_base(slot, instructions) } else { slot };
        let place = self.place(number);
        let mut known = cycle;
        let mut unknown = 0;
        if record.dep1 | record.dep2 != 0 && record.kind != RecordKind::Fetch {
            unknown = self.operand(place, position, 0, record.dep1, &mut known)
                + self.operand(place, position, 1, record.dep2, &mut known);
        }
        let entry = &mut self.entries[place];
        entry.record = *record;
        entry.index = self.index;
        entry.base = base;
        entry.done = UNKNOWN;
        entry.issued = known;
        entry.translated = cycle;
        entry.verified = 0;
        entry.drained = UNKNOWN;
        entry.position = position;
        entry.waiter = NONE;
        entry.unknown = unknown;
        entry.translation = 0;
        entry.served = Served::L1;
        entry.late = self.late;
        let word = record.va.0 / 8;
        let forward = &mut self.forwards[(word % FORWARDS as u64) as usize];
        match record.kind {
            RecordKind::Load => {
                self.counters.loads += 1;
                entry.queue = self.loads.enter(number);
                entry.forwards = if forward.word == word { forward.number } else { NONE };
            }
            RecordKind::Store => {
                self.counters.stores += 1;
                entry.queue = self.stores.enter(number);
                *forward = Forward { word, number };
            }
            RecordKind::Fetch => {
                // The last instruction of the gap takes the place that the record has in other records.
                entry.done = cycle;
                self.set_value(position, 0);
                self.retire();
                return None;
            }
            _ => {
                let mispredicted = !self.resolve(record);
                self.entries[place].mispredicted = mispredicted;
                self.unresolved = mispredicted;
            }
        }
        self.set_value(position, AWAITED | place as u64);
        if unknown > 0 {
            return None;
        }
        self.counters.wait_dependences += known - cycle;
        if !record.is_data() {
            self.resolved(place);
            self.wake();
            return None;
        }
        if known == cycle && self.events.next() > cycle {
            return Some(Event { at: cycle, place: place as u32, kind: EventKind::Issue });
        }
        self.events.push(known, place, EventKind::Issue);
        None
    }

    /// Operand `which` of the record that takes `place`, which is produced `distance` records before it. Its
    /// value is known at `known` at the earliest. Returns 1 if that is not known yet.
    #[inline(always)]
    fn operand(&mut self, place: usize, position: u64, which: usize, distance: u16, known: &mut u64) -> u8 {
        let distance = u64::from(distance);
        let mask = self.values.len() as u64 - 1;
        if distance == 0 || distance > mask {
            return 0;
        }
        let value = self.values[(position.wrapping_sub(distance) & mask) as usize];
        if value & AWAITED == 0 {
            *known = value.max(*known);
            return 0;
        }
        let producer = &mut self.entries[(value & !AWAITED) as usize];
        let next = std::mem::replace(&mut producer.waiter, (place as u32) << 1 | which as u32);
        self.entries[place].next[which] = next;
        1
    }

    /// The earliest event's cycle; `u64::MAX` if there is none.
    #[inline(always)]
    pub fn next_event(&self) -> u64 {
        self.events.next()
    }

    /// Takes the earliest event, for the machine to carry out.
    #[inline(always)]
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The load or store of an event that issues.
    #[inline(always)]
    pub fn record(&self, place: u32) -> &Record {
        &self.entries[place as usize].record
    }

    /// The load or store of an event that asks for its line.
    #[inline(always)]
    pub fn in_flight(&self, place: u32) -> InFlight {
        let Entry { record, issued, at, second, translated, verified, translation, .. } = self.entries[place as usize];
        InFlight {
            record,
            issued: Cycle(issued),
            at,
            second,
            translated: Cycle(translated),
            verified: Cycle(verified),
            translation,
        }
    }

    /// The record at `place` has issued and is translated, as `flight` says. Returns whether the machine lets
    /// it ask for its line at once: a load whose translation took hardly any time, or whose value comes from
    /// the store queue. Otherwise an [`EventKind::Ask`] follows. `known` is when the frame is known: later
    /// than `flight.translated` where pages are translated after the last level.
    #[inline(always)]
    pub fn locate(&mut self, place: u32, flight: &InFlight, known: Cycle) -> bool {
        let place = place as usize;
        let (issued, translated) = (flight.issued.0, flight.translated.0);
        let entry = &mut self.entries[place];
        entry.issued = issued;
        entry.translation = flight.translation;
        entry.translated = translated;
        entry.verified = flight.verified.0;
        if entry.record.kind == RecordKind::Load {
            entry.translated = known.0.max(translated);
            // A value from the store queue does not wait for the translation.
            let forwards = entry.forwards;
            if forwards != NONE
                && let Some(data) = self.forwarding(forwards, issued)
            {
                self.entries[place].drained = issued.max(data) + self.forward_latency;
                return true;
            }
            if translated <= issued + AT_ONCE {
                return true;
            }
        }
        let entry = &mut self.entries[place];
        entry.at = flight.at;
        entry.second = flight.second;
        if entry.record.kind == RecordKind::Load {
            self.events.push(translated, place, EventKind::Ask);
            return false;
        }
        // The store commits once its data are ready; its line may arrive later.
        entry.done = issued + 1;
        if self.asks_at_commit {
            entry.done = entry.done.max(translated);
        } else {
            self.events.push(translated, place, EventKind::Ask);
        }
        self.become_known(place, issued);
        self.wake();
        false
    }

    /// The load's value arrives from `served`, or the store's line is owned, at `ready`. Returns the cycle in
    /// which the value is ready, which is earlier than `ready` when an older store forwards it.
    #[inline(always)]
    pub fn complete(&mut self, place: u32, ready: Cycle, served: Served) -> Cycle {
        let place = place as usize;
        let Entry { issued, drained, queue, .. } = self.entries[place];
        if self.entries[place].record.kind == RecordKind::Store {
            self.stores.stores[queue as usize].owned = ready.0;
            self.drain();
            return Cycle(issued);
        }
        let mut value = ready.0;
        self.entries[place].served = served;
        if drained < value {
            self.counters.forwards += 1;
            value = drained;
            self.entries[place].served = Served::L1;
        }
        let entry = &mut self.entries[place];
        entry.done = value.max(entry.verified);
        entry.verified = entry.done - value;
        self.become_known(place, value);
        self.wake();
        Cycle(value)
    }

    /// When the data of store `number` are ready, if it is still in the store queue at `issued`.
    #[inline(always)]
    fn forwarding(&self, number: u32, issued: u64) -> Option<u64> {
        if self.head.wrapping_sub(number) as usize > self.entries.len() {
            return None;
        }
        let store = &self.entries[self.place(number)];
        // A store that has not issued yet has no data.
        (store.done != UNKNOWN && store.drained > issued).then_some(store.issued)
    }

    /// The value of the record at `place` is ready at `value`.
    #[inline(always)]
    fn become_known(&mut self, place: usize, value: u64) {
        let entry = &self.entries[place];
        let known = &mut self.values[entry.position as usize & (self.values.len() - 1)];
        // Long after, another record may have taken the place.
        if *known == AWAITED | place as u64 {
            *known = value;
        }
        if entry.waiter != NONE {
            self.woken.push((place as u32, value));
        }
    }

    /// Lets records issue that waited for values which have become known, and commits what can commit.
    #[inline(always)]
    fn wake(&mut self) {
        while let Some((producer, value)) = self.woken.pop() {
            let mut waiter = std::mem::replace(&mut self.entries[producer as usize].waiter, NONE);
            while waiter != NONE {
                let place = (waiter >> 1) as usize;
                let entry = &mut self.entries[place];
                waiter = entry.next[waiter as usize & 1];
                entry.issued = entry.issued.max(value);
                entry.unknown -= 1;
                if entry.unknown == 0 {
                    self.counters.wait_dependences += entry.issued - entry.translated;
                    if entry.record.is_data() {
                        self.events.push(entry.issued, place, EventKind::Issue);
                    } else {
                        self.resolved(place);
                    }
                }
            }
        }
        self.retire();
    }

    /// The branch at `place` is resolved a cycle after it issued.
    #[inline(always)]
    fn resolved(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        let resolved = entry.issued + 1;
        entry.done = resolved;
        if entry.mispredicted {
            self.unresolved = false;
            let resumes = (resolved + self.penalty) * self.width;
            if resumes > self.front {
                self.front = resumes;
                self.front_branch = true;
            }
        }
        self.become_known(place, resolved);
    }

    /// Commits the records whose turn it is.
    #[inline(always)]
    fn retire(&mut self) {
        while self.retired != self.head {
            let place = self.place(self.retired);
            if self.entries[place].done == UNKNOWN {
                return;
            }
            let commit = self.commit_slot(&self.entries[place], self.entries[place].done);
            if commit > self.committed + self.entries[place].record.instructions() {
                self.waited_for(place, commit);
            }
            self.committed = commit;
            let entry = &mut self.entries[place];
            entry.done = commit;
            let queue = entry.queue as usize;
            match entry.record.kind {
                RecordKind::Load => self.loads.leave(commit),
                RecordKind::Store => {
                    self.stores.stores[queue].committed = commit;
                    if self.asks_at_commit {
                        self.events.push(self.cycle(commit), place, EventKind::Ask);
                    } else {
                        self.drain();
                    }
                }
                _ => {}
            }
            self.retired = self.retired.wrapping_add(1);
            if self.retired != self.head {
                let next = self.place(self.retired);
                let Entry { base, record, .. } = &self.entries[next];
                self.entries[next].base = self.gap_base(*base, record.instructions());
            }
        }
    }

    /// The record at `place`, the oldest one, commits at `commit`, later than at full width after the last
    /// one: adds the slots between to the cycle stack. It dispatched late; then it waited for its operands,
    /// its translation and its data, of which the latest counts first.
    #[inline]
    fn waited_for(&mut self, place: usize, commit: u64) {
        let Entry { record, base, done, translated, verified, issued, translation, served, late, .. } =
            self.entries[place];
        self.stack.add(late, base.saturating_sub(self.committed));
        let left = commit.saturating_sub(base.max(self.committed) + record.instructions());
        let (mut data, mut translating) = (0, 0);
        if record.kind == RecordKind::Load {
            // The walk that verifies a prediction may end after the data are there.
            translating = left.min(verified * self.width);
            data = (left - translating).min((done - verified).saturating_sub(translated) * self.width);
        }
        if record.is_data() {
            let rest = left - data - translating;
            translating += rest.min(translated.min(done).saturating_sub(issued) * self.width);
        }
        let (of_data, of_translation) = (Cause::of_data(served), Cause::of_translation(translation));
        self.stack.add(of_data, data);
        self.stack.add(of_translation, translating);
        if data + translating > 0 {
            self.waited = if data >= translating { of_data } else { of_translation };
        }
    }

    /// Stores leave the store queue in order, one a cycle, when they have committed and own their lines.
    #[inline(always)]
    fn drain(&mut self) {
        // The place that is entered next may be empty.
        while self.stores.released[self.stores.oldest as usize] == UNKNOWN {
            let StoreEntry { owned, committed, number } = self.stores.stores[self.stores.oldest as usize];
            if owned == UNKNOWN || committed == UNKNOWN {
                return;
            }
            self.drained = (self.cycle(committed) + 1).max(owned).max(self.drained + 1);
            self.stores.leave(self.drained * self.width);
            if self.head.wrapping_sub(number) as usize <= self.entries.len() {
                let place = self.place(number);
                self.entries[place].drained = self.drained;
            }
        }
    }

    /// `base` of a record that dispatches at `slot`, when all records before it have committed.
    #[inline(always)]
    fn gap_base(&self, slot: u64, instructions: u64) -> u64 {
        self.committed.max(slot - instructions + self.width)
    }

    /// The slot in which the oldest record in flight commits, if it is done at `cycle`.
    #[inline(always)]
    fn commit_slot(&self, entry: &Entry, cycle: u64) -> u64 {
        let gap_end = entry.base + entry.record.instructions() - 1;
        (cycle * self.width).max(gap_end.max(self.committed) + 1)
    }

    /// The cycle of a slot.
    #[inline(always)]
    fn cycle(&self, slot: u64) -> u64 {
        if self.reciprocal == 0 { slot } else { divide(slot, self.reciprocal) }
    }

    /// The slot in which instruction `index` commits, or `UNKNOWN` while that depends on pending events.
    #[inline(always)]
    fn commit_of(&mut self, index: u64) -> u64 {
        if index > self.index {
            // Within the gap that dispatches next: it commits at full width after the last commit.
            if self.retired != self.head {
                return UNKNOWN;
            }
            self.tail = self.head;
            return self.committed + (index - self.index);
        }
        while self.tail != self.retired && self.entries[self.place(self.tail)].index < index {
            self.tail = self.tail.wrapping_add(1);
        }
        if self.tail == self.head {
            return self.committed;
        }
        let entry = &self.entries[self.place(self.tail)];
        let commit = if self.tail == self.retired { UNKNOWN } else { entry.done };
        if index >= entry.index {
            return commit;
        }
        let before = entry.index - entry.record.instructions();
        (entry.base + index.saturating_sub(before)).min(commit)
    }

    /// When the store that was dispatched last asks for its line, if it issued at `issued`, its address is
    /// translated at `translated`, and all records before it have committed: then, or when it commits.
    pub fn store_asks(&self, issued: Cycle, translated: Cycle) -> Cycle {
        if !self.asks_at_commit {
            return translated;
        }
        let entry = &self.entries[self.place(self.head.wrapping_sub(1))];
        Cycle(self.cycle(self.commit_slot(entry, translated.0.max(issued.0 + 1))))
    }

    /// Whether stores ask for their lines when they commit ([`StoreRequest::Commit`]).
    #[inline(always)]
    pub fn asks_at_commit(&self) -> bool {
        self.asks_at_commit
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

    /// Functional mode: a branch trains the predictor. Its instructions are counted with others'
    /// ([`CoreWindow::count_all`]).
    #[inline(always)]
    pub fn train(&mut self, record: &Record) {
        self.resolve(record);
    }

    /// Functional mode: counts instructions, and the loads and stores among them.
    #[inline(always)]
    pub fn count_all(&mut self, instructions: u64, loads: u64, stores: u64) {
        self.counters.instructions += instructions;
        self.counters.loads += loads;
        self.counters.stores += stores;
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
    fn set_value(&mut self, position: u64, value: u64) {
        let mask = self.values.len() as u64 - 1;
        self.values[(position & mask) as usize] = value;
    }

    /// Stalls dispatch until `cycles` after all instructions in flight have committed (page faults, system
    /// calls, context switches).
    pub fn serialize(&mut self, cycles: u64) {
        // Whole cycles: the next instruction begins a new one.
        let end = (self.committed.max(self.dispatched).div_ceil(self.width) + cycles) * self.width;
        self.stalls[SERIALIZE] += end - self.dispatched;
        self.stack.add(Cause::Os, end.saturating_sub(self.committed));
        self.dispatched = end;
        self.committed = self.committed.max(end);
        if self.planned != UNKNOWN {
            self.planned = self.planned.max(end + self.planned_instructions);
        }
        self.counters.serializations += 1;
    }

    /// The front end delivers nothing before `at` (an L1 I-TLB or L1I miss).
    #[inline(always)]
    pub fn stall_front(&mut self, at: Cycle) {
        let slot = at.0 * self.width;
        if slot > self.front {
            self.front = slot;
            self.front_branch = false;
            if self.planned != UNKNOWN && self.planned_instructions > 0 {
                self.planned = self.delayed(self.planned, slot + self.planned_instructions - 1, FRONT);
            }
        }
    }

    /// A load has computed with a wrong prediction: what is younger dispatches at `at` at the earliest.
    /// Records that are in flight already stay.
    pub fn flush(&mut self, at: Cycle) {
        self.stall_front(at);
        self.front_branch |= self.front == at.0 * self.width;
    }

    /// The cycle of dispatch.
    #[inline(always)]
    pub fn now(&self) -> Cycle {
        Cycle(self.cycle(self.dispatched.max(self.front)))
    }

    /// The cycle in which everything so far has committed whose time of commit is known: with no event
    /// pending, the run's length.
    #[inline(always)]
    pub fn retired_cycle(&self) -> Cycle {
        Cycle(self.committed.div_ceil(self.width))
    }

    /// Lets time pass up to `now`, which is not before anything so far, without any instruction: nothing is
    /// in flight, and the time between counts for nothing. (Instructions that take no time ran then.)
    pub fn skip_to(&mut self, now: Cycle) {
        self.counted_from += now.since(self.retired_cycle());
        let slot = now.0 * self.width;
        (self.dispatched, self.committed) = (slot.max(self.dispatched), slot.max(self.committed));
        self.planned = UNKNOWN;
    }

    /// Instructions dispatched since the counters were last reset.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        self.counters.instructions
    }

    /// The counters so far.
    pub fn counters(&self) -> CoreCounters {
        let cycles = |cause: usize| self.stalls[cause] / self.width;
        let total = self.retired_cycle().0 - self.counted_from;
        let of = |cause: Cause| self.stack.slots(cause) / self.width;
        let others: u64 = Cause::ALL.into_iter().map(of).sum();
        CoreCounters {
            cycles: total,
            stack_base: total.saturating_sub(others),
            stack_branch: of(Cause::Branch),
            stack_front: of(Cause::Front),
            stack_tlb: of(Cause::Tlb),
            stack_walk_l1: of(Cause::WalkL1),
            stack_walk_l2: of(Cause::WalkL2),
            stack_walk_llc: of(Cause::WalkLlc),
            stack_walk_dram: of(Cause::WalkDram),
            stack_l1: of(Cause::L1),
            stack_l2: of(Cause::L2),
            stack_llc: of(Cause::Llc),
            stack_dram: of(Cause::Dram),
            stack_stores: of(Cause::Stores),
            stack_os: of(Cause::Os),
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
        self.stack = CycleStack::default();
        self.stalls = [0; 6];
        self.counted_from = self.retired_cycle().0;
    }
}
