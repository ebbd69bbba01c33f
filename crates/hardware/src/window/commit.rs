//! The other end of a core's window: values become known and wake what waits for them, and records commit.

use super::CoreWindow;
use super::entry::{AWAITED, Entry, NONE};
use crate::cycle_stack::{Cause, CycleStack};
use crate::events::EventKind;
use crate::queues::UNKNOWN;
use ambulator_base::RecordKind;

impl CoreWindow {
    /// The value of the record at `place` is ready at `value`: what waited for it may issue.
    #[inline(always)]
    pub(super) fn become_known(&mut self, place: usize, value: u64) {
        let entry = &self.entries[place];
        let known = &mut self.values[entry.position as usize & (self.values.len() - 1)];
        // Long after, another record may have taken the place.
        if *known == AWAITED | place as u64 {
            *known = value;
        }
        if entry.waiter != NONE {
            self.wake(place, value);
        }
    }

    /// Lets records issue that waited for the value of the record at `place`, and for those of the branches
    /// among them.
    #[inline(never)]
    fn wake(&mut self, place: usize, value: u64) {
        self.woken.push((place as u32, value));
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
                    if entry.is_data() {
                        self.events.push(entry.issued, place, EventKind::Issue);
                    } else {
                        self.resolved(place);
                    }
                }
            }
        }
    }

    /// The branch at `place` is resolved a cycle after it issued.
    fn resolved(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        let resolved = entry.issued + 1;
        entry.done = resolved;
        let (mispredicted, position, waiter) = (entry.mispredicted, entry.position, entry.waiter);
        if mispredicted {
            self.go_on_from(resolved);
        }
        let known = &mut self.values[position as usize & (self.values.len() - 1)];
        if *known == AWAITED | place as u64 {
            *known = resolved;
        }
        if waiter != NONE {
            self.woken.push((place as u32, resolved));
        }
    }

    /// A branch that was predicted wrongly is resolved in cycle `resolved`: the correct path dispatches.
    #[inline(always)]
    pub(super) fn go_on_from(&mut self, resolved: u64) {
        self.unresolved = false;
        self.stuck = false;
        let resumes = (resolved + self.penalty) * self.width;
        if resumes > self.front {
            self.front = resumes;
            self.front_branch = true;
        }
    }

    /// Commits the records whose turn it is.
    #[inline(always)]
    pub(super) fn retire(&mut self) {
        if self.retired != self.head && self.entries[self.place(self.retired)].done != UNKNOWN {
            self.commit();
        }
    }

    /// Commits the oldest record in flight, which is done, and those after it that are.
    #[inline(never)]
    fn commit(&mut self) {
        self.stuck = false;
        let (mut number, mut committed, width) = (self.retired, self.committed, self.width);
        loop {
            let place = self.place(number);
            let entry = &mut self.entries[place];
            if entry.done == UNKNOWN {
                break;
            }
            let commit = commit_slot(entry, committed, entry.done * width);
            if commit > committed + entry.instructions() {
                let beyond_l1 = (self.l1_tlb, self.beyond_l1_tlb);
                waited_for(entry, committed, commit, width, beyond_l1, &mut self.stack, &mut self.waited);
            }
            committed = commit;
            entry.done = commit;
            match entry.kind {
                RecordKind::Load => self.loads.leave(commit),
                RecordKind::Store => {
                    let queue = entry.link as usize;
                    self.stores.stores[queue].committed = commit;
                    if self.asks_at_commit {
                        self.events.push(self.cycle(commit), place, EventKind::Ask);
                    } else {
                        self.drain();
                    }
                }
                _ => {}
            }
            number = number.wrapping_add(1);
            if number == self.head {
                break;
            }
            let next = self.place(number);
            let next = &mut self.entries[next];
            next.base = committed.max(next.base - next.instructions() + width);
        }
        (self.retired, self.committed) = (number, committed);
    }

    /// Stores leave the store queue in order, one a cycle, when they have committed and own their lines.
    #[inline(always)]
    pub(super) fn drain(&mut self) {
        while let Some(store) = self.stores.ready() {
            self.stuck = false;
            self.drained = (self.cycle(store.committed) + 1).max(store.owned).max(self.drained + 1);
            self.stores.leave(self.drained * self.width);
            if self.head.wrapping_sub(store.number) as usize <= self.entries.len() {
                let place = self.place(store.number);
                self.entries[place].drained = self.drained;
            }
        }
    }

    /// `base` of a record that dispatches at `slot`, when all records before it have committed.
    #[inline(always)]
    pub(super) fn gap_base(&self, slot: u64, instructions: u64) -> u64 {
        self.committed.max(slot - instructions + self.width)
    }

    /// The slot in which instruction `index` commits, or `UNKNOWN` while that depends on pending events.
    #[inline(always)]
    pub(super) fn commit_of(&mut self, index: u64) -> u64 {
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
        let before = entry.index - entry.instructions();
        (entry.base + index.saturating_sub(before)).min(commit)
    }
}

/// The slot in which the oldest record in flight commits, after slot `committed`, if it is done at slot `done`.
#[inline(always)]
pub(super) fn commit_slot(entry: &Entry, committed: u64, done: u64) -> u64 {
    let gap_end = entry.base + u64::from(entry.more);
    done.max(gap_end.max(committed) + 1)
}

/// The oldest record commits at `commit`, later than at full width after `committed`, when the last one did:
/// adds the slots between to the cycle stack. It dispatched late; then it waited for its operands, its
/// translation and its data, of which the latest counts first. A hit of the L1 TLB that takes longer than its cycles
/// waits for what `beyond_l1` names: a walk that fills the entry.
#[inline(never)]
fn waited_for(
    entry: &Entry,
    committed: u64,
    commit: u64,
    width: u64,
    (l1_tlb, beyond_l1): (u64, Cause),
    stack: &mut CycleStack,
    waited: &mut Cause,
) {
    let Entry { base, done, translated, verified, issued, translation, served, late, .. } = *entry;
    stack.add(late, base.saturating_sub(committed));
    if !entry.is_data() {
        return;
    }
    let left = commit.saturating_sub(base.max(committed) + entry.instructions());
    let (mut data, mut translating) = (0, 0);
    if entry.kind == RecordKind::Load {
        // The walk that verifies a prediction may end after the data are there.
        translating = left.min(verified * width);
        data = (left - translating).min((done - verified).saturating_sub(translated) * width);
    }
    let rest = left - data - translating;
    translating += rest.min(translated.min(done).saturating_sub(issued) * width);
    let beyond = translation == 0 && translated.saturating_sub(issued) > l1_tlb;
    let of_translation = if beyond { beyond_l1 } else { Cause::of_translation(translation) };
    let of_data = Cause::of_data(served);
    stack.add(of_data, data);
    stack.add(of_translation, translating);
    if data + translating > 0 {
        *waited = if data >= translating { of_data } else { of_translation };
    }
}
