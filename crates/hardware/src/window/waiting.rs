//! What waits for main memory: it is told a time, and asks again when that has come.

use super::CoreWindow;
use super::awaited_walk::AwaitedWalk;
use crate::Served;
use crate::events::{Event, EventKind, NO_PLACE};
use crate::queues::UNKNOWN;
use ambulator_base::{Cycle, PhysAddr, RecordKind};

impl CoreWindow {
    /// A load or a store that was to ask for its line is translated only at `translated`, when its walk ends: it
    /// asks then.
    pub fn ask_later(&mut self, place: u32, translated: Cycle) {
        let entry = &mut self.entries[place as usize];
        entry.translated = translated.0;
        let asks = entry.asks();
        self.events.push(translated.0, place as usize, asks);
    }

    /// The page walk of a load or a store has its walker, which it waited for, so that the access is translated at `ready`: it
    /// asks for its line then, or when another page is translated, too, that it also accesses.
    pub fn translated_later(&mut self, place: u32, ready: Cycle) {
        let translated = Cycle(self.entries[place as usize].translated);
        self.ask_later(place, translated.max(ready));
    }

    /// The page walk of the access at `place` is to get its walker at `start`: whether it does is asked then.
    pub fn begin_later(&mut self, place: u32, start: Cycle) {
        self.events.push(start.0, place as usize, EventKind::Begin);
    }

    /// A page behind the caches gets a walker at `start`, if it is free then.
    pub fn walk_later(&mut self, start: Cycle) {
        self.events.push(start.0, NO_PLACE, EventKind::Begin);
    }

    /// The page walk number `walk` behind the caches is said to end at `ready`.
    pub fn know_later(&mut self, walk: u32, ready: Cycle) {
        self.events.push(ready.0, walk as usize, EventKind::Known);
    }

    /// The page of the load at `place`, whose line at `at` has missed all caches, is known at `now`; `translation` says
    /// how, as [`InFlight::translation`](crate::InFlight::translation).
    pub fn known_behind(&mut self, place: u32, at: PhysAddr, now: Cycle, translation: u8) {
        let entry = &mut self.entries[place as usize];
        if entry.kind == RecordKind::Load && entry.done == UNKNOWN && entry.at == at {
            (entry.translated, entry.translation) = (now.0, translation);
        }
    }

    /// The access of an [`EventKind::Ask`] or [`EventKind::Join`] at `now` is translated. Returns whether it asks for its
    /// line: a store that waited for its walk to commit may do so only when it commits.
    #[inline(always)]
    pub fn asks_now(&mut self, place: u32, now: Cycle) -> bool {
        let entry = &self.entries[place as usize];
        if entry.kind == RecordKind::Load || entry.done != UNKNOWN {
            return true;
        }
        self.end_walk(place, now);
        !self.asks_at_commit
    }

    /// The page walk of a store has ended at `now`.
    #[inline(never)]
    fn end_walk(&mut self, place: u32, now: Cycle) {
        let entry = &mut self.entries[place as usize];
        entry.walk = AwaitedWalk::default();
        entry.done = now.0.max(entry.issued + 1);
        self.retire();
    }

    /// As [`CoreWindow::complete`], for a line at `at` that main memory says will be there at `told`. Whether it is
    /// is asked then ([`EventKind::Arrive`], [`EventKind::Own`]), unless an older store forwards the value.
    #[inline(always)]
    pub fn await_line(&mut self, place: u32, at: PhysAddr, told: Cycle, served: Served) {
        let entry = &mut self.entries[place as usize];
        if entry.kind == RecordKind::Store {
            let queue = entry.link;
            self.await_ownership(queue, at, told);
        } else if entry.drained != UNKNOWN {
            self.complete_load(place, told, served);
        } else {
            (entry.at, entry.served) = (at, served);
            self.events.push(told.0, place as usize, EventKind::Arrive);
        }
    }

    /// [`CoreWindow::await_line`] of the store at place `queue` of the store queue.
    #[inline(always)]
    pub(super) fn await_ownership(&mut self, queue: u32, at: PhysAddr, told: Cycle) {
        self.stores.stores[queue as usize].at = at;
        self.events.push(told.0, queue as usize, EventKind::Own);
    }

    /// Where the data are of the load or the store of an [`EventKind::Arrive`] or [`EventKind::Own`].
    #[inline(always)]
    pub fn awaits(&self, event: Event) -> PhysAddr {
        match event.kind {
            EventKind::Own => self.stores.stores[event.place as usize].at,
            _ => self.entries[event.place as usize].at,
        }
    }

    /// The load or the store of an [`EventKind::Arrive`] or [`EventKind::Own`] has one of its lines, and waits for the other.
    pub fn await_other(&mut self, event: Event, at: PhysAddr) {
        match event.kind {
            EventKind::Own => self.stores.stores[event.place as usize].at = at,
            _ => self.entries[event.place as usize].at = at,
        }
    }

    /// Of a load or a store at `place`: the place of its events once it has asked for its line.
    pub fn place_of_arrival(&self, place: u32) -> u32 {
        let entry = &self.entries[place as usize];
        if entry.kind == RecordKind::Store { entry.link } else { place }
    }

    /// The line of [`EventKind::Arrive`] or [`EventKind::Own`] is there at `ready`: now, or later than was said,
    /// and then the event comes again.
    #[inline(always)]
    pub fn arrived(&mut self, event: Event, ready: Cycle) {
        if ready.0 > event.at {
            self.events.push(ready.0, event.place as usize, event.kind);
        } else if event.kind == EventKind::Own {
            self.own(event.place, ready);
        } else {
            let served = self.entries[event.place as usize].served;
            self.complete_load(event.place, ready, served);
        }
    }
}
