//! Dispatch: when the next record enters the window, what it waits for there, and its entry.

use super::entry::{AWAITED, FORWARDS, Forward, NONE, splits};
use super::{AT_ONCE, AwaitedWalk, BRANCH, CoreWindow, FRONT, InFlightAccess, LOAD_QUEUE, ROB, STORE_QUEUE};
use crate::Served;
use crate::cycle_stack::Cause;
use crate::events::{Event, EventKind};
use crate::queues::UNKNOWN;
use ambulator_base::{Cycle, PhysAddr, Record, RecordKind};

impl CoreWindow {
    /// The cycle in which `record`, the next one, dispatches, or `None` while that depends on events that
    /// have not happened.
    #[inline(always)]
    pub fn plan(&mut self, record: &Record) -> Option<Cycle> {
        let cycle = self.plan_cycle(record);
        (cycle != UNKNOWN).then_some(Cycle(cycle))
    }

    /// As [`CoreWindow::plan`]; `u64::MAX` for `None`.
    #[inline(always)]
    pub fn plan_cycle(&mut self, record: &Record) -> u64 {
        if self.planned == UNKNOWN && !self.stuck {
            self.plan_dispatch(record);
        }
        self.planned_cycle
    }

    #[inline(always)]
    pub(super) fn set_planned(&mut self, slot: u64) {
        self.planned = slot;
        self.planned_cycle = self.cycle(slot);
    }

    /// Finds the slot in which `record` dispatches, and counts its stalls. If it is not known yet, the window
    /// is stuck until something happens that it can depend on.
    #[inline(always)]
    fn plan_dispatch(&mut self, record: &Record) {
        if self.unresolved || self.head.wrapping_sub(self.retired) as usize >= self.entries.len() {
            self.stuck = true;
            return;
        }
        let instructions = record.instructions();
        let mut slot = self.dispatched + instructions;
        if instructions > 0 {
            // The instruction `rob` before this one must have committed.
            let index = self.index + instructions;
            let committed = if index > self.rob { self.commit_of(index - self.rob) } else { 0 };
            let freed = match record.kind {
                RecordKind::Load => self.loads.room(),
                RecordKind::Store => self.stores.room(),
                _ => 0,
            };
            if committed.max(freed) > slot || self.front > self.dispatched {
                if committed.max(freed) == UNKNOWN {
                    self.stuck = true;
                    return;
                }
                slot = self.stalled(slot, instructions, (committed, freed), record.kind);
            }
        }
        self.planned_instructions = instructions;
        self.set_planned(slot);
    }

    /// The slot in which a record of `instructions` instructions dispatches, `slot` at the earliest: in front of
    /// it are the front end's stall, the reorder buffer and the queue of its `kind`, which have room from
    /// `room` on. Counts the stalls.
    #[inline]
    fn stalled(&mut self, slot: u64, instructions: u64, room: (u64, u64), kind: RecordKind) -> u64 {
        let mut slot = slot;
        if self.front > self.dispatched {
            slot = self.delayed(slot, self.front + instructions - 1, self.front_cause());
        }
        slot = self.delayed(slot, room.0, ROB);
        self.delayed(slot, room.1, if kind == RecordKind::Store { STORE_QUEUE } else { LOAD_QUEUE })
    }

    /// `slot`, or `until` if that is later; the difference is counted as stalls of `cause`.
    #[inline(always)]
    pub(super) fn delayed(&mut self, slot: u64, until: u64, cause: usize) -> u64 {
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
        match record.kind {
            RecordKind::Load | RecordKind::Store => return self.dispatch_access(record),
            RecordKind::Fetch => self.dispatch_fetch(record),
            RecordKind::BranchNotTaken | RecordKind::BranchTaken => self.dispatch_branch(record),
        }
        None
    }

    /// The next record, which is planned, enters the reorder buffer: what is the same for all kinds. Its place,
    /// its position, and its cycle of dispatch.
    #[inline(always)]
    fn enter(&mut self, record: &Record) -> (usize, u64, u64) {
        let (slot, cycle) = (self.planned, self.planned_cycle);
        let instructions = self.planned_instructions;
        (self.planned, self.planned_cycle) = (UNKNOWN, UNKNOWN);
        let position = self.position;
        self.position += 1;
        self.dispatched = slot;
        self.index += instructions;
        self.counters.instructions += instructions;
        let number = self.head;
        self.head = number.wrapping_add(1);
        let base = if self.retired == number { self.gap_base(slot, instructions) } else { slot };
        let place = self.place(number);
        let (index, late) = (self.index, self.late);
        let entry = &mut self.entries[place];
        entry.more = (instructions - 1) as u32;
        entry.position = position as u32;
        entry.kind = record.kind;
        entry.late = late;
        entry.index = index;
        entry.base = base;
        entry.translated = cycle;
        entry.waiter = NONE;
        (place, position, cycle)
    }

    /// Dispatches an explicit fetch, the next record, which is planned.
    #[inline(never)]
    fn dispatch_fetch(&mut self, record: &Record) {
        if self.planned_instructions == 0 {
            (self.planned, self.planned_cycle) = (UNKNOWN, UNKNOWN);
            self.set_value(self.position, 0);
            self.position += 1;
            return;
        }
        let (place, position, cycle) = self.enter(record);
        // The last instruction of the gap takes the place that the record has in other records.
        let entry = &mut self.entries[place];
        (entry.done, entry.issued) = (cycle, cycle);
        self.set_value(position, 0);
        self.retire();
    }

    /// Dispatches a branch, the next record, which is planned.
    #[inline(always)]
    pub fn dispatch_branch(&mut self, record: &Record) {
        let mispredicted = !self.resolve(record);
        let (place, position, cycle) = self.enter(record);
        let (known, unknown) = self.operands(place, position, record, cycle);
        let entry = &mut self.entries[place];
        entry.issued = known;
        if unknown == 0 {
            let resolved = known + 1;
            entry.done = resolved;
            self.counters.wait_dependences += known - cycle;
            if mispredicted {
                self.go_on_from(resolved);
            }
            self.set_value(position, resolved);
            self.retire();
        } else {
            entry.done = UNKNOWN;
            (entry.unknown, entry.mispredicted) = (unknown, mispredicted);
            self.unresolved = mispredicted;
            self.set_value(position, AWAITED | place as u64);
        }
    }

    /// Dispatches a load or a store, the next record, which is planned. As [`CoreWindow::dispatch`].
    #[inline(always)]
    pub fn dispatch_access(&mut self, record: &Record) -> Option<Event> {
        let (place, position, cycle) = self.enter(record);
        let (known, unknown) = self.operands(place, position, record, cycle);
        let link = self.enter_queue(record);
        let entry = &mut self.entries[place];
        (entry.pc, entry.va, entry.size) = (record.pc, record.va, record.size);
        entry.splits = splits(record);
        entry.link = link;
        entry.issued = known;
        entry.unknown = unknown;
        entry.done = UNKNOWN;
        entry.drained = UNKNOWN;
        entry.verified = 0;
        entry.translation = 0;
        entry.walk = AwaitedWalk::default();
        entry.served = Served::L1;
        self.set_value(position, AWAITED | place as u64);
        if unknown > 0 {
            return None;
        }
        self.counters.wait_dependences += known - cycle;
        if known == cycle && self.events.next() > cycle {
            return Some(Event { at: cycle, place: place as u32, kind: EventKind::Issue });
        }
        self.events.push(known, place, EventKind::Issue);
        None
    }

    /// The load or store that has just entered the reorder buffer enters its queue: the entry's link.
    #[inline(always)]
    fn enter_queue(&mut self, record: &Record) -> u32 {
        let number = self.head.wrapping_sub(1);
        let word = record.va.0 / 8;
        let forward = &mut self.forwards[(word % FORWARDS as u64) as usize];
        if record.kind == RecordKind::Load {
            self.counters.loads += 1;
            self.loads.enter();
            if forward.word == word { forward.number } else { NONE }
        } else {
            self.counters.stores += 1;
            *forward = Forward { word, number };
            self.stores.enter(number)
        }
    }

    /// When the operands of `record` are known, which has entered, `cycle` at the earliest, as far as that is
    /// known; and how many are not.
    #[inline(always)]
    fn operands(&mut self, place: usize, position: u64, record: &Record, cycle: u64) -> (u64, u8) {
        let (mut known, mut unknown) = (cycle, 0);
        if record.dep1 | record.dep2 != 0 {
            unknown = self.operand(place, position, 0, record.dep1, &mut known)
                + self.operand(place, position, 1, record.dep2, &mut known);
        }
        (known, unknown)
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

    /// Whether all operands of `record`, the next one, are known by the cycle of its dispatch, which is planned:
    /// it issues as it dispatches, if no event is due before.
    #[inline(always)]
    pub fn knows_operands(&self, record: &Record) -> bool {
        let mask = self.values.len() as u64 - 1;
        let known = |distance: u16| {
            let distance = u64::from(distance);
            // A value that is awaited is later than any cycle.
            distance == 0
                || distance > mask
                || self.values[(self.position.wrapping_sub(distance) & mask) as usize] <= self.planned_cycle
        };
        record.dep1 | record.dep2 == 0 || (known(record.dep1) && known(record.dep2))
    }

    /// Whether an older store may forward its value to `record`, the next one and a load.
    #[inline(always)]
    pub fn may_forward(&self, record: &Record) -> bool {
        let word = record.va.0 / 8;
        let Forward { word: stored, number } = self.forwards[(word % FORWARDS as u64) as usize];
        stored == word && self.head.wrapping_sub(number) as usize <= self.entries.len()
    }

    /// Whether the next record, a load that is planned and issues as it dispatches, also asks for its line at
    /// once, if a TLB translates its address at `translated`.
    #[inline(always)]
    pub fn asks_at_once(&self, translated: Cycle) -> bool {
        translated.0 <= self.planned_cycle + AT_ONCE
    }

    /// Dispatches a load of one line, the next record, which is planned, issues at once
    /// ([`CoreWindow::knows_operands`]), asks for its line at once ([`CoreWindow::asks_at_once`]) and takes its
    /// value from no store ([`CoreWindow::may_forward`]). A TLB translates its address at `translated`, and its
    /// value arrives from `served` at `ready`.
    ///
    /// The same as [`CoreWindow::dispatch`], [`CoreWindow::locate`] and [`CoreWindow::complete`] one after
    /// another: nobody can wait for its value in between.
    #[inline(always)]
    pub fn dispatch_load(&mut self, record: &Record, translated: Cycle, ready: Cycle, served: Served) {
        let (place, position) = self.enter_load(record, translated);
        let entry = &mut self.entries[place];
        entry.done = ready.0;
        entry.served = served;
        self.set_value(position, ready.0);
        self.retire();
    }

    /// [`CoreWindow::dispatch_load`] of a load whose data are at `at`, and which waits for main memory until
    /// `told` ([`CoreWindow::await_line`]).
    #[inline]
    pub fn dispatch_waiting_load(
        &mut self,
        record: &Record,
        at: PhysAddr,
        translated: Cycle,
        told: Cycle,
        served: Served,
    ) {
        let place = self.enter_awaited_load(record, translated);
        self.await_line(place, at, told, served);
    }

    /// [`CoreWindow::dispatch_load`] of a load of `flight` that waits for an MSHR of the first level, which is free at
    /// `free` ([`CoreWindow::stall`]).
    #[inline(never)]
    pub fn dispatch_stalled_load(&mut self, record: &Record, flight: InFlightAccess, asked: Cycle, free: Cycle) {
        let place = self.enter_awaited_load(record, flight.translated);
        self.stall(place, flight, asked, None, free);
    }

    /// [`CoreWindow::enter_load`] of a load whose value is awaited: its place.
    #[inline(always)]
    fn enter_awaited_load(&mut self, record: &Record, translated: Cycle) -> u32 {
        let (place, position) = self.enter_load(record, translated);
        let entry = &mut self.entries[place];
        entry.done = UNKNOWN;
        entry.drained = UNKNOWN;
        self.set_value(position, AWAITED | place as u64);
        place as u32
    }

    /// Whether an older store forwards its value to the load at `place`, which has issued.
    #[inline(always)]
    pub fn is_forwarded(&self, place: u32) -> bool {
        let entry = &self.entries[place as usize];
        entry.kind == RecordKind::Load && entry.drained != UNKNOWN
    }

    /// A load, the next record, which issues as it dispatches and which a TLB translates at `translated`, enters
    /// the reorder buffer and the load queue: its place and its position.
    #[inline(always)]
    fn enter_load(&mut self, record: &Record, translated: Cycle) -> (usize, u64) {
        let (place, position, cycle) = self.enter(record);
        self.counters.loads += 1;
        self.loads.enter();
        let entry = &mut self.entries[place];
        entry.issued = cycle;
        entry.translated = translated.0;
        entry.translation = 0;
        entry.verified = 0;
        (place, position)
    }

    /// Dispatches a store to one line, the next record, which is planned and issues at once
    /// ([`CoreWindow::knows_operands`]): a TLB translates its address to `at` at `translated`.
    ///
    /// The same as [`CoreWindow::dispatch`] and [`CoreWindow::locate`] one after another.
    #[inline(always)]
    pub fn dispatch_store(&mut self, record: &Record, at: PhysAddr, translated: Cycle) {
        let (place, position, cycle) = self.enter(record);
        let link = self.enter_queue(record);
        let asks_at_commit = self.asks_at_commit;
        let entry = &mut self.entries[place];
        (entry.pc, entry.va, entry.size) = (record.pc, record.va, record.size);
        entry.splits = false;
        entry.link = link;
        entry.issued = cycle;
        entry.translated = translated.0;
        entry.translation = 0;
        entry.verified = 0;
        entry.walk = AwaitedWalk::default();
        entry.served = Served::L1;
        entry.drained = UNKNOWN;
        entry.at = at;
        entry.done = translated.0.max(cycle + 1);
        if !asks_at_commit {
            self.events.push(translated.0, place, EventKind::Ask);
        }
        self.set_value(position, cycle);
        self.retire();
    }
}
