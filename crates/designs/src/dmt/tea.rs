//! A Translation Entry Area: a run of frames, each of them a table of the radix tree when there is one.

use ambulator_base::{FRAME_BYTES, Pfn, State};
use std::ops::Range;

/// log2 of the bytes that a table of each level covers: those whose entries map pages of 4 KiB, 2 MiB, 1 GiB.
pub(super) const SPANS: [u32; 3] = [21, 30, 39];

/// What the hypervisor has said of a TEA's frames, in a guest that asks it for contiguous memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(super) enum Backing {
    /// It was not asked.
    #[default]
    NotAsked,
    /// It has not answered yet.
    Asked,
    /// It has no contiguous memory, or no slot.
    Refused,
    /// They are contiguous and pinned; the slot in its table (the gTEA ID).
    Slot(u32),
}

/// A TEA. Tables have numbers: their first address divided by the bytes that they cover.
///
/// **Invariant.** Each table of the tree whose number is in `tables` is in the frame of the TEA for it.
#[derive(Debug, Default, State)]
pub(super) struct Tea {
    /// Index of [`SPANS`].
    pub level: usize,
    /// The tables that it covers.
    pub tables: Range<u64>,
    /// The first frame, and the number of the table for it; what it has beyond `tables` is spare.
    pub base: Pfn,
    pub first: u64,
    /// By frame: it is a table of the tree.
    pub used: Vec<bool>,
    /// How many of them are.
    pub in_use: u64,
    /// Pages that entries in it map: not counted for 4 KiB.
    pub pages: u64,
    pub backing: Backing,
}

impl Tea {
    /// A TEA over a run of free frames, the first of which is for table number `first`.
    pub fn new(level: usize, tables: Range<u64>, base: Pfn, first: u64, frames: u64) -> Tea {
        let used = vec![false; frames as usize];
        Tea { level, tables, base, first, used, in_use: 0, pages: 0, backing: Backing::NotAsked }
    }

    pub fn span(&self) -> u32 {
        SPANS[self.level]
    }

    /// Frames, spare ones included.
    pub fn frames(&self) -> u64 {
        self.used.len() as u64
    }

    /// The numbers of the tables for which it has frames.
    pub fn room(&self) -> Range<u64> {
        self.first..self.first + self.frames()
    }

    /// The frame of a table that it has a frame for.
    pub fn frame_of(&self, table: u64) -> Pfn {
        self.base.offset(table - self.first)
    }

    /// The table that a frame of it is for.
    pub fn table_in(&self, frame: Pfn) -> Option<u64> {
        let index = frame.0.checked_sub(self.base.0)?;
        (index < self.frames()).then_some(self.first + index)
    }

    /// Whether a table is in use.
    pub fn uses(&self, table: u64) -> bool {
        self.room().contains(&table) && self.used[(table - self.first) as usize]
    }

    /// A table comes into use, or goes out of it. Returns whether it changed.
    pub fn mark(&mut self, table: u64, used: bool) -> bool {
        let slot = &mut self.used[(table - self.first) as usize];
        if *slot == used {
            return false;
        }
        *slot = used;
        if used {
            self.in_use += 1;
        } else {
            self.in_use -= 1;
        }
        true
    }

    /// Whether hardware has a use for it: it holds entries of pages.
    pub fn serves(&self) -> bool {
        if self.level == 0 { self.in_use > 0 } else { self.pages > 0 }
    }

    /// The contents of its register: the first address, with the level in bits 1 and 2 and "present" in bit
    /// 0; the address after the last; the physical address of the entry for the first, with 1 + the gTEA ID
    /// in the lowest 12 bits if the hypervisor has pinned the TEA.
    pub fn register(&self) -> [u64; 3] {
        let (start, end) = (self.tables.start << self.span(), self.tables.end << self.span());
        let id = if let Backing::Slot(slot) = self.backing { u64::from(slot) + 1 } else { 0 };
        [start | (self.level as u64) << 1 | 1, end, self.frame_of(self.tables.start).start().0 | id]
    }

    /// Bytes of its frames.
    pub fn bytes(&self) -> u64 {
        self.frames() * FRAME_BYTES
    }
}

/// Joins ranges of tables of which at most a share `bubbles` of the joined range is in none of them.
pub(super) fn join(held: &[Range<u64>], bubbles: f64) -> Vec<Range<u64>> {
    let mut joined: Vec<(Range<u64>, u64)> = Vec::new();
    for own in held {
        let mut next = (own.clone(), own.end - own.start);
        // What it cannot join with the last alone it cannot join with more: they are further away.
        if let Some((last, occupied)) = joined.last()
            && is_dense(occupied + next.1, own.end - last.start, bubbles)
        {
            next = (last.start..own.end, occupied + next.1);
            joined.pop();
        }
        joined.push(next);
    }
    joined.into_iter().map(|(range, _)| range).collect()
}

/// Whether `occupied` of `tables` tables leave no more bubbles than that share.
pub(super) fn is_dense(occupied: u64, tables: u64, bubbles: f64) -> bool {
    (tables - occupied) as f64 <= bubbles * tables as f64
}
