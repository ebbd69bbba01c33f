//! Resizes: how they begin, advance and are cancelled.

use super::table::{Arena, Elastic, REINSERTION_BUCKETS, ResizeMode};
use super::{MAX_WAYS, Place, Resize, Side, Way};

impl Elastic {
    pub(super) fn grow_when_full<A: Arena>(&mut self, arena: &mut A) -> Result<(), A::Error> {
        if self.all_ways() {
            return if self.is_full_in_all() { self.grow_all(arena) } else { Ok(()) };
        }
        for way in 0..self.spec.ways {
            if self.is_full(way) && self.may_grow(way) && !self.must_wait() {
                self.begin(arena, way, true)?;
            }
        }
        Ok(())
    }

    /// The table is not full, but an insertion found no slot.
    pub(super) fn grow_early<A: Arena>(&mut self, arena: &mut A) -> Result<(), A::Error> {
        let smallest = (0..self.spec.ways).min_by_key(|&way| self.ways[way].target()).unwrap_or(0);
        self.counters.early_upsizes += 1;
        if self.all_ways() { self.grow_all(arena) } else { self.begin(arena, smallest, true) }
    }

    fn grow_all<A: Arena>(&mut self, arena: &mut A) -> Result<(), A::Error> {
        // All ways have the same size, unless a downsize was cancelled half-way.
        let least = self.ways().iter().map(Way::target).min().unwrap_or(0);
        for way in 0..self.spec.ways {
            if self.ways[way].target() == least {
                self.begin(arena, way, true)?;
            }
        }
        Ok(())
    }

    /// Begins to double or to halve a way. A resize that still grows it is completed first. A resize that
    /// shrinks it is cancelled, which suffices to grow.
    fn begin<A: Arena>(&mut self, arena: &mut A, way: usize, grow: bool) -> Result<(), A::Error> {
        if self.ways[way].shrinks() {
            self.cancel(arena, way);
            if grow {
                return Ok(());
            }
        }
        if self.ways[way].resize.is_some() {
            self.counters.hurried += 1;
            self.finish_way(arena, way);
        }
        let from = self.ways[way].slots;
        let to = if grow { 2 * from } else { from / 2 };
        let mode = arena.begin(way, from, to)?;
        let in_place = mode == ResizeMode::InPlace;
        self.fresh[way] = true;
        self.set_way(way, Way { slots: from, resize: Some(Resize { to, pointer: 0, in_place }) });
        let counter = if grow { &mut self.counters.upsizes } else { &mut self.counters.downsizes };
        counter[way] += 1;
        self.counters.out_of_place += u64::from(!in_place);
        if mode == ResizeMode::AtOnce {
            self.counters.hurried += 1;
            self.finish_way(arena, way);
        }
        Ok(())
    }

    /// Completes the resizes of ways that are about to need another, so that growing never finds one in
    /// progress.
    pub(super) fn end_when_due<A: Arena>(&mut self, arena: &mut A) {
        for way in 0..self.spec.ways {
            let state = self.ways[way];
            if state.resize.is_none() {
                continue;
            }
            let full = if self.all_ways() { self.is_full_in_all() } else { self.is_full(way) };
            if full && state.grows() {
                self.counters.hurried += 1;
                self.finish_way(arena, way);
            } else if full {
                self.cancel(arena, way);
            }
        }
    }

    pub(super) fn shrink_when_empty<A: Arena>(&mut self, arena: &mut A) {
        let least = self.spec.initial_slots;
        if self.all_ways() {
            if self.resizes() {
                return;
            }
            let empty = (self.len() as f64) < self.spec.downsize_at * self.slots_in_all() as f64;
            if empty && self.ways().iter().all(|way| way.slots > least) {
                let most = self.ways().iter().map(Way::target).max().unwrap_or(0);
                for way in 0..self.spec.ways {
                    // Without room for the smaller table the larger one stays: a downsize only saves memory.
                    if self.ways[way].slots == most && self.begin(arena, way, false).is_err() {
                        return self.cancel_new(arena);
                    }
                }
            }
            return;
        }
        for way in 0..self.spec.ways {
            let state = self.ways[way];
            let empty = (self.occupied[way] as f64) < self.spec.downsize_at * state.target() as f64;
            // A shrinking way may still be cancelled, and then has its old size.
            let balanced = self.ways().iter().all(|other| state.slots >= other.target().max(other.slots));
            if empty && balanced && state.resize.is_none() && state.slots > least && !self.must_wait() {
                let _kept = self.begin(arena, way, false);
            }
        }
    }

    /// Advances current resizes by the steps of one insertion or removal.
    pub(super) fn rehash<A: Arena>(&mut self, arena: &mut A) {
        for _ in 0..self.spec.rehash_slots {
            let ways = self.spec.ways;
            let Some(way) = (0..ways).map(|i| (self.next_way + i) % ways).find(|&way| self.ways[way].resize.is_some())
            else {
                return;
            };
            self.next_way = (way + 1) % ways;
            self.step(arena, way);
        }
    }

    pub(super) fn finish_way<A: Arena>(&mut self, arena: &mut A, way: usize) {
        while self.ways[way].resize.is_some() {
            self.step(arena, way);
        }
    }

    /// Advances a way's rehash pointer by one slot and rehashes its entry (ME-HPT Sec. IV-C "Detailed Rehash
    /// Algorithm").
    fn step<A: Arena>(&mut self, arena: &mut A, way: usize) {
        let state = self.ways[way];
        let Some(Resize { to, pointer, in_place }) = state.resize else { return };
        let from = Place { way, side: Side::Old, index: pointer };
        self.set_way(way, Way { resize: Some(Resize { to, pointer: pointer + 1, in_place }), ..state });
        if let Some(hashes) = arena.hashes_at(from) {
            let (side, index) = self.ways[way].locate(hashes[way]);
            if (side, index) == (Side::Old, pointer) {
                self.counters.rehashes[0] += 1;
                *(if state.grows() {
                    &mut self.counters.upsize_stayed
                } else {
                    &mut self.counters.downsize_rehashed
                }) += 1;
            } else if !self.step_entry(arena, from, way) {
                self.ways[way].resize = Some(Resize { to, pointer, in_place });
                self.cancel(arena, way);
                return;
            }
        }
        if pointer + 1 == state.slots {
            arena.end(way, to, in_place);
            self.set_way(way, Way { slots: to, resize: None });
        }
    }

    /// Moves the entry at `from`. False if it found no slot and is still at `from`.
    fn step_entry<A: Arena>(&mut self, arena: &mut A, from: Place, way: usize) -> bool {
        let Some(entry) = arena.exchange(from, None) else { return true };
        self.occupied[way] -= 1;
        match self.push(arena, entry, way) {
            Ok(pushed) => {
                self.counters.rehashes[pushed.min(REINSERTION_BUCKETS - 1)] += 1;
                *(if self.ways[way].grows() {
                    &mut self.counters.upsize_moved
                } else {
                    &mut self.counters.downsize_rehashed
                }) += 1;
                true
            }
            Err(entry) => {
                arena.exchange(from, Some(entry));
                self.occupied[way] += 1;
                false
            }
        }
    }

    /// Cancels a downsize: the rehash pointer returns to the start, and so do the entries that it moved. None
    /// of their old slots can be occupied.
    fn cancel<A: Arena>(&mut self, arena: &mut A, way: usize) {
        let state = self.ways[way];
        let Some(Resize { to, pointer, in_place }) = state.resize else { return };
        for index in (0..pointer).rev() {
            self.ways[way].resize = Some(Resize { to, pointer: index, in_place });
            let side = if in_place { Side::Old } else { Side::New };
            let moved = Place { way, side, index: index & (to - 1) };
            let home = Place { way, side: Side::Old, index };
            let is_its = |hashes: [u32; MAX_WAYS]| u64::from(hashes[way]) & (state.slots - 1) == index;
            if moved != home && arena.hashes_at(moved).is_some_and(is_its) {
                let entry = arena.exchange(moved, None);
                let there = arena.exchange(home, entry);
                debug_assert!(there.is_none(), "{home:?} was occupied");
            }
        }
        self.set_way(way, Way { resize: None, ..state });
        self.counters.cancelled += 1;
        arena.abandon(way, state.slots, in_place);
    }
}
