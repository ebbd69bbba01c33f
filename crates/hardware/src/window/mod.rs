//! The window of one out-of-order core.
//!
//! Instructions dispatch in order, at most `width` a cycle, while the reorder buffer and the load and store
//! queues have room; they complete out of order and commit in order, at most `width` a cycle. There is no
//! cycle loop: a load or a store has an event when its address is known ([`EventKind::Issue`]), one when
//! it asks for its line ([`EventKind::Ask`], or [`EventKind::Join`] after another's walk), again if it waited for an
//! MSHR ([`EventKind::Admit`]), and one when the line arrives from main memory, where later requests may have changed
//! the time ([`EventKind::Arrive`], [`EventKind::Own`]). The machine carries out these events and the dispatch of the next record in the order of their times, so that a core's accesses reach the memory
//! hierarchy in that order. All other times follow from the times of earlier records, as soon as those are known. Time within
//! the window is counted in *slots*, `width` of which make a cycle, so that "the third instruction of this
//! cycle" is a number.
//!
//! The model omits the scheduler's size and the functional units (an instruction whose operands are ready
//! starts when it dispatches, and one that accesses no memory completes a cycle later), and wrong-path
//! instructions (a misprediction costs time, but fetches nothing). A dispatch stall within a gap is placed at
//! the gap's beginning.

mod awaited_walk;
mod commit;
mod dispatch;
mod entry;
mod functional;
mod stalled;
mod waiting;

use crate::cycle_stack::{Cause, CycleStack};
#[cfg(doc)]
use crate::events::EventKind;
use crate::events::{Event, EventQueue};
use crate::queues::{Queue, StoreQueue, UNKNOWN};
use crate::reservation_table::divide;
use crate::{BranchPredictor, CoreCounters, CoreSpec, Served, StoreRequest};
use ambulator_base::{CounterSink, Counters, Cycle, PhysAddr, Record, RecordKind, State};
pub use awaited_walk::{AwaitedWalk, WalkInFlight};
use commit::commit_slot;
use entry::{Entry, FORWARDS, Forward, NONE};
pub use entry::{InFlight, InFlightAccess};
pub use stalled::Stalled;
use std::collections::VecDeque;

/// A load whose translation takes no longer than this asks for its line in the same event: cycles.
const AT_ONCE: u64 = 2;

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
    /// Cycles that a hit of the L1 TLB delays an access, and what one waits for that it delays longer.
    l1_tlb: u64,
    #[state(skip)]
    beyond_l1_tlb: Cause,
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
    /// The slot in which the next record dispatches once that is known, or `UNKNOWN`; its cycle or `UNKNOWN`;
    /// and the record's instructions.
    planned: u64,
    planned_cycle: u64,
    planned_instructions: u64,
    /// The next record's dispatch depends on what has not happened: nothing has committed, left the store
    /// queue or been resolved since that was found. Affects speed only.
    #[state(skip)]
    stuck: bool,
    /// Cycle in which each past record's value is ready, or who produces it.
    values: Box<[u64]>,
    position: u64,
    events: EventQueue,
    loads: Queue,
    stores: StoreQueue,
    drained: u64,
    forwards: Box<[Forward]>,
    /// Records in flight whose values have just become known, by their places, with these values.
    woken: Vec<(u32, u64)>,
    /// What waits for an MSHR of the first level, the first that came first.
    stalled: VecDeque<Stalled>,
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
            l1_tlb: 0,
            beyond_l1_tlb: Cause::JoinedWalk,
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
            planned_cycle: UNKNOWN,
            planned_instructions: 0,
            stuck: false,
            // A producer further back than the length of the reorder buffer has committed. Explicit fetches
            // also take places.
            values: vec![0; 4 * places].into_boxed_slice(),
            position: 0,
            events: EventQueue::new(places + spec.store_queue as usize),
            loads: Queue::new(spec.load_queue as usize),
            stores: StoreQueue::new(spec.store_queue as usize),
            drained: 0,
            forwards: vec![Forward { word: UNKNOWN, number: 0 }; FORWARDS].into_boxed_slice(),
            woken: Vec::with_capacity(places),
            stalled: VecDeque::with_capacity(places + spec.store_queue as usize),
            predictor: BranchPredictor::new(spec),
            counters: CoreCounters::default(),
            stack: CycleStack::default(),
            waited: Cause::Base,
            late: Cause::Base,
            stalls: [0; 6],
            counted_from: 0,
        }
    }

    /// The same beside an L1 TLB whose hits delay an access by `cycles`, for the cycle stack. What an L1 TLB alone is
    /// said to translate and takes longer has joined a walk, or, if `with_second`, the level behind it has translated it.
    pub fn with_l1_tlb(self, cycles: u64, with_second: bool) -> Self {
        let beyond_l1_tlb = if with_second { Cause::L2Tlb } else { Cause::JoinedWalk };
        CoreWindow { l1_tlb: cycles, beyond_l1_tlb, ..self }
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.entries.len() - 1)
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
    pub fn record(&self, place: u32) -> Record {
        self.entries[place as usize].record()
    }

    /// The load or store of an event that asks for its line.
    #[inline(always)]
    pub fn in_flight(&self, place: u32) -> InFlight {
        let entry = &self.entries[place as usize];
        InFlight {
            record: entry.record(),
            issued: Cycle(entry.issued),
            at: entry.at,
            second: entry.second,
            translated: Cycle(entry.translated),
            verified: Cycle(entry.verified),
            translation: entry.translation,
            walk: entry.walk,
        }
    }

    /// The load or store of an event, if it accesses one line.
    #[inline(always)]
    pub fn access_in_flight(&self, place: u32) -> Option<InFlightAccess> {
        let entry = &self.entries[place as usize];
        if entry.splits {
            return None;
        }
        Some(InFlightAccess {
            pc: entry.pc,
            va: entry.va,
            is_store: entry.kind == RecordKind::Store,
            crosses: false,
            second: entry.at,
            issued: Cycle(entry.issued),
            at: entry.at,
            translated: Cycle(entry.translated),
            translation: entry.translation,
            walk: entry.walk,
        })
    }

    /// The record at `place` has issued and is translated, as `flight` says. Returns whether the machine lets
    /// it ask for its line at once: a load whose translation took hardly any time, or whose value comes from
    /// the store queue. Otherwise an [`EventKind::Ask`] follows.
    pub fn locate(&mut self, place: u32, flight: &InFlight) -> bool {
        let entry = &mut self.entries[place as usize];
        entry.issued = flight.issued.0;
        entry.translation = flight.translation;
        entry.walk = flight.walk;
        entry.verified = flight.verified.0;
        entry.second = flight.second;
        entry.translated = flight.translated.0;
        if entry.kind == RecordKind::Load {
            return self.locate_load(place, flight.issued, flight.at, flight.translated);
        }
        self.locate_store(place, flight.issued, flight.at, flight.translated);
        false
    }

    /// [`CoreWindow::locate`] of a load or a store of one line that a TLB translates, or that has `joined` the walk which
    /// fills an entry of it.
    #[inline(always)]
    pub fn locate_hit(
        &mut self,
        place: u32,
        is_store: bool,
        issued: Cycle,
        at: PhysAddr,
        (translated, joined): (Cycle, bool),
    ) -> bool {
        let entry = &mut self.entries[place as usize];
        entry.issued = issued.0;
        entry.translated = translated.0;
        entry.walk = if joined { AwaitedWalk::JOINED } else { AwaitedWalk::default() };
        if !is_store {
            return self.locate_load(place, issued, at, translated);
        }
        self.locate_store(place, issued, at, translated);
        false
    }

    #[inline(always)]
    fn locate_load(&mut self, place: u32, issued: Cycle, at: PhysAddr, translated: Cycle) -> bool {
        let place = place as usize;
        let forwards = self.entries[place].link;
        // A value from the store queue does not wait for the translation.
        if forwards != NONE
            && let Some(data) = self.forwarding(forwards, issued.0)
        {
            self.entries[place].drained = issued.0.max(data) + self.forward_latency;
            return true;
        }
        let entry = &mut self.entries[place];
        if translated.0 <= issued.0 + AT_ONCE && entry.walk.is_none() {
            return true;
        }
        entry.at = at;
        if !entry.walk.waits_for_walker() {
            let asks = entry.asks();
            self.events.push(translated.0, place, asks);
        }
        false
    }

    #[inline(always)]
    fn locate_store(&mut self, place: u32, issued: Cycle, at: PhysAddr, translated: Cycle) {
        let place = place as usize;
        let entry = &mut self.entries[place];
        entry.at = at;
        // The store commits once it is translated and its data are ready; its line may arrive later. Whether a walk has
        // ended by then is asked then.
        let awaits_walk = !entry.walk.is_none();
        entry.done = if awaits_walk { UNKNOWN } else { translated.0.max(issued.0 + 1) };
        // Of a walk that waits for a walker, that is known only when it has it.
        if (awaits_walk || !self.asks_at_commit) && !entry.walk.waits_for_walker() {
            let asks = entry.asks();
            self.events.push(translated.0, place, asks);
        }
        self.become_known(place, issued.0);
        self.retire();
    }

    /// The load's value arrives from `served`, or the store's line is owned, at `ready`. Returns the cycle in
    /// which the value is ready, which is earlier than `ready` when an older store forwards it.
    #[inline(always)]
    pub fn complete(&mut self, place: u32, ready: Cycle, served: Served) -> Cycle {
        if self.entries[place as usize].kind == RecordKind::Store {
            let issued = self.entries[place as usize].issued;
            self.complete_store(place, ready);
            return Cycle(issued);
        }
        self.complete_load(place, ready, served)
    }

    /// [`CoreWindow::complete`] of a store.
    #[inline(always)]
    fn complete_store(&mut self, place: u32, ready: Cycle) {
        self.own(self.entries[place as usize].link, ready);
    }

    /// The store at place `queue` of the store queue owns its line from `ready` on.
    #[inline(always)]
    fn own(&mut self, queue: u32, ready: Cycle) {
        self.stores.stores[queue as usize].owned = ready.0;
        self.drain();
    }

    /// [`CoreWindow::complete`] of a load.
    #[inline(always)]
    fn complete_load(&mut self, place: u32, ready: Cycle, served: Served) -> Cycle {
        let place = place as usize;
        let entry = &mut self.entries[place];
        let mut value = ready.0;
        entry.served = served;
        if entry.drained < value {
            self.counters.forwards += 1;
            value = entry.drained;
            entry.served = Served::L1;
        }
        entry.done = value.max(entry.verified);
        entry.verified = entry.done - value;
        self.become_known(place, value);
        self.retire();
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
        let has_issued = store.done != UNKNOWN || !store.walk.is_none();
        (has_issued && store.drained > issued).then_some(store.issued)
    }

    /// The cycle of a slot.
    #[inline(always)]
    fn cycle(&self, slot: u64) -> u64 {
        if self.reciprocal == 0 { slot } else { divide(slot, self.reciprocal) }
    }

    /// When the store that was dispatched last asks for its line, if it issued at `issued`, its address is
    /// translated at `translated`, and all records before it have committed: then, or when it commits.
    pub fn store_asks(&self, issued: Cycle, translated: Cycle) -> Cycle {
        if !self.asks_at_commit {
            return translated;
        }
        let entry = &self.entries[self.place(self.head.wrapping_sub(1))];
        let done = translated.0.max(issued.0 + 1) * self.width;
        Cycle(self.cycle(commit_slot(entry, self.committed, done)))
    }

    /// Whether an access that has joined a page walk as it dispatches has to ask whether that is late. A store that asks
    /// for its line at commit has not: the walk is of an older access, which commits before it, and later than the walk
    /// ends.
    #[inline(always)]
    pub fn awaits_joined_walk(&self, is_store: bool) -> bool {
        !(is_store && self.asks_at_commit)
    }

    /// Whether stores ask for their lines when they commit ([`StoreRequest::Commit`]).
    #[inline(always)]
    pub fn asks_at_commit(&self) -> bool {
        self.asks_at_commit
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
            self.set_planned(self.planned.max(end + self.planned_instructions));
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
                let planned = self.delayed(self.planned, slot + self.planned_instructions - 1, FRONT);
                self.set_planned(planned);
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

    /// The slot that the last instruction's dispatch and the front end have reached when [`CoreWindow::now`] is
    /// later than cycle `until`.
    #[inline(always)]
    pub fn slot_after(&self, until: u64) -> u64 {
        until.saturating_add(1).saturating_mul(self.width)
    }

    /// Whether [`CoreWindow::now`] has reached a slot of [`CoreWindow::slot_after`].
    #[inline(always)]
    pub fn has_reached(&self, slot: u64) -> bool {
        self.dispatched.max(self.front) >= slot
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
        (self.planned, self.planned_cycle) = (UNKNOWN, UNKNOWN);
        self.stuck = false;
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
            stack_tlb_l1: of(Cause::L1Tlb),
            stack_tlb_l2: of(Cause::L2Tlb),
            stack_walk_joined: of(Cause::JoinedWalk),
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
