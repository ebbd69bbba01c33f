//! The L2P table: the chunks of the ways of a process's tables.

use super::MeHptSpec;
use crate::ecpt::{Backing, Contiguous, SIZES, Space, StoreParts};
use ambulator_base::{CounterSink, Counters, State};
use ambulator_os::MapError;
use ambulator_structures::elastic::{MAX_WAYS, ResizeMode, Side};

ambulator_base::counters! {
    /// Counters of the L2P table of a process.
    pub(crate) struct L2pCounters {
        /// Entries in use.
        entries: Events gauge,
        /// The most entries in use at once.
        peak_entries: Events gauge,
        /// Times that a subtable stole the entries of the 1 GiB subtable.
        steals: Events,
        /// Times that a way changed to larger chunks.
        chunk_upsizes: Events,
        /// Times that a way changed to smaller chunks.
        chunk_downsizes: Events,
        /// Changes of chunk size made at once, for lack of free entries for both tables.
        switches_at_once: Events,
    }
}

/// Number of the 4 KiB, 2 MiB and 1 GiB subtables.
const SMALL: usize = 0;
const LARGE: usize = 1;
const HUGE: usize = 2;

/// A way's row of the L2P table (ME-HPT Fig. 6): the 4 KiB subtable grows from its low end, the 2 MiB
/// subtable from its high end, and the 1 GiB subtable has the middle until one of them steals it.
///
/// With 32 entries a subtable: entry `i` of 4 KiB is the row's entry `i`, of 2 MiB `95 - i`, of 1 GiB `32 +
/// i`; or, if the 4 KiB subtable has stolen those, `64 + i`, the most significant of the 2 MiB subtable; or,
/// if the 2 MiB subtable has, `31 - i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) struct Row {
    /// Entries of each subtable, by [`Side`]. During a resize out of place the new table has any free
    /// entries.
    used: [[u32; 2]; SIZES.len()],
    /// The subtable that has stolen the entries of the 1 GiB one.
    stolen_by: Option<usize>,
}

impl Row {
    /// Entries in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.used.iter().flatten().sum()
    }

    /// Entries of a subtable's current table.
    fn of(&self, size: usize) -> u32 {
        self.used[size][Side::Old as usize]
    }

    /// The most entries of a subtable, given those of the others, in rows of `share` entries per subtable.
    fn capacity(&self, size: usize, share: u32) -> u32 {
        let by_rule = match (size, self.stolen_by) {
            (HUGE, None) => share,
            // It uses the free entries of the other subtable, except one that stays reserved for that
            // subtable.
            (HUGE, Some(thief)) => share.saturating_sub(self.of(if thief == SMALL { LARGE } else { SMALL }).max(1)),
            (_, Some(thief)) if thief == size => 2 * share,
            // The entries of the 1 GiB subtable are in this one.
            (_, Some(_)) => share.saturating_sub(self.of(HUGE)),
            (_, None) if self.of(HUGE) == 0 => 2 * share,
            (_, None) => share,
        };
        // While another subtable changes its chunk size, its new table has some of the free entries.
        by_rule.min(self.of(size) + (3 * share).saturating_sub(self.in_use()))
    }

    /// The row's entry for entry `i` of a subtable's current table.
    #[cfg(test)]
    pub(crate) fn position(&self, size: usize, i: u32, share: u32) -> u32 {
        match (size, self.stolen_by) {
            (SMALL, _) => i,
            (LARGE, _) => 3 * share - 1 - i,
            (_, None) => share + i,
            (_, Some(SMALL)) => 2 * share + i,
            (_, Some(_)) => share - 1 - i,
        }
    }

    /// The subtable of each of the row's entries: current tables at the positions of their subtable, the new
    /// tables of resizes in any free entries. Panics if two subtables have the same entry.
    #[cfg(test)]
    pub(crate) fn layout(&self, share: u32) -> Vec<Option<usize>> {
        let mut row = vec![None; 3 * share as usize];
        for size in 0..SIZES.len() {
            for i in 0..self.of(size) {
                let at = &mut row[self.position(size, i, share) as usize];
                assert_eq!(*at, None, "{self:?}: two subtables have an entry");
                *at = Some(size);
            }
        }
        for size in 0..SIZES.len() {
            for _ in 0..self.used[size][Side::New as usize] {
                let free = row.iter().position(Option::is_none).expect("more entries than the row has");
                row[free] = Some(size);
            }
        }
        row
    }
}

/// Chunks for the ways of all page sizes, within the limits of the L2P table; or, without one, one block per
/// way.
#[derive(Clone, Debug, State)]
pub(crate) struct L2p {
    #[state(skip)]
    spec: MeHptSpec,
    rows: [Row; MAX_WAYS],
    counters: L2pCounters,
}

/// Chunks of `chunk` bytes in a way of `bytes`: at least one, which the way may fill only in part.
fn chunks(bytes: u64, chunk: u64) -> u64 {
    (bytes / chunk).max(1)
}

impl L2p {
    /// An empty L2P table of a validated spec.
    pub(crate) fn new(spec: &MeHptSpec) -> L2p {
        L2p { spec: spec.clone(), rows: [Row::default(); MAX_WAYS], counters: L2pCounters::default() }
    }

    /// The rows, one for each way.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows[..self.spec.cuckoo.ways as usize]
    }

    /// Its counters.
    #[cfg(test)]
    pub(crate) fn counters(&self) -> &L2pCounters {
        &self.counters
    }

    /// The chunk sizes that ways may have, smallest first.
    fn sizes(&self) -> &[u64] {
        if self.spec.dynamic_chunks {
            &self.spec.chunk_bytes
        } else {
            std::slice::from_ref(&self.spec.fixed_chunk_bytes)
        }
    }

    /// Updates a row after a change of the way's memory.
    fn note(&mut self, id: usize, way: usize, spaces: &[Space; 2]) {
        let share = self.spec.l2p_entries;
        let row = &mut self.rows[way];
        row.used[id] = [Side::Old, Side::New].map(|side| spaces[side as usize].chunks.len() as u32);
        let over = |row: &Row, size: usize| row.of(size) > share;
        if let Some(thief) = row.stolen_by
            && !over(row, thief)
        {
            // The 1 GiB subtable's entries move back to their own positions.
            row.stolen_by = None;
        } else if row.stolen_by.is_none()
            && let Some(thief) = [SMALL, LARGE].into_iter().find(|&size| over(row, size))
        {
            row.stolen_by = Some(thief);
            self.counters.steals += 1;
        }
        self.counters.entries = self.rows.iter().map(|row| u64::from(row.in_use())).sum();
        self.counters.peak_entries = self.counters.peak_entries.max(self.counters.entries);
    }

    /// Whether the row has `count` free entries for the new table of a resize.
    fn has_room_for_both(&self, way: usize, count: u64) -> bool {
        u64::from(self.rows[way].in_use()) + count <= u64::from(3 * self.spec.l2p_entries)
    }

    /// The smallest chunk size, at least `least`, with which a way of `bytes` fits into its subtable.
    fn chunk_for(&self, id: usize, way: usize, bytes: u64, least: u64) -> Option<u64> {
        let capacity = u64::from(self.rows[way].capacity(id, self.spec.l2p_entries));
        self.sizes().iter().copied().find(|&chunk| chunk >= least && chunks(bytes, chunk) <= capacity)
    }

    /// Allocates the way's new table in chunks of `chunk` bytes.
    fn begin_out_of_place(
        &mut self,
        id: usize,
        way: usize,
        to: u64,
        chunk: u64,
        parts: &mut StoreParts<'_, '_>,
    ) -> Result<ResizeMode, MapError> {
        let count = chunks(to, chunk);
        let mut space = Space { chunk_shift: chunk.trailing_zeros(), chunk_bytes: chunk, chunks: Vec::new() };
        space.grow(count as usize, parts.footprint, parts.os)?;
        let old = parts.spaces[Side::Old as usize].chunk_bytes;
        if chunk != old {
            *(if chunk > old { &mut self.counters.chunk_upsizes } else { &mut self.counters.chunk_downsizes }) += 1;
        }
        let mode = if self.has_room_for_both(way, count) {
            ResizeMode::OutOfPlace
        } else {
            self.counters.switches_at_once += 1;
            ResizeMode::AtOnce
        };
        parts.spaces[Side::New as usize] = space;
        if mode == ResizeMode::OutOfPlace {
            self.note(id, way, parts.spaces);
        }
        Ok(mode)
    }
}

impl Backing for L2p {
    fn begin(
        &mut self,
        id: usize,
        way: usize,
        from: u64,
        to: u64,
        parts: &mut StoreParts<'_, '_>,
    ) -> Result<ResizeMode, MapError> {
        if !self.spec.l2p {
            return Contiguous.begin(id, way, from, to, parts);
        }
        let none = MapError::NoMemory { bytes: to };
        if from == 0 {
            let chunk = self.chunk_for(id, way, to, 0).ok_or(none)?;
            let mut space = Space { chunk_shift: chunk.trailing_zeros(), chunk_bytes: chunk, chunks: Vec::new() };
            space.grow(chunks(to, chunk) as usize, parts.footprint, parts.os)?;
            parts.spaces[Side::Old as usize] = space;
            self.note(id, way, parts.spaces);
            return Ok(ResizeMode::InPlace);
        }
        let now = parts.spaces[Side::Old as usize].chunk_bytes;
        let capacity = u64::from(self.rows[way].capacity(id, self.spec.l2p_entries));
        if to < from && to < now {
            // Use chunks of the next smaller size if the subtable has entries for them. Otherwise the chunk
            // stays and is less full.
            let smaller = self.sizes().iter().copied().rev().find(|&chunk| chunk < now);
            if let Some(chunk) = smaller.filter(|&chunk| chunks(to, chunk) <= capacity) {
                return self.begin_out_of_place(id, way, to, chunk, parts);
            }
        }
        let needed = chunks(to, now);
        // Without resizing in place the subtable must hold both tables, unless the chunk size changes.
        let both = if self.spec.in_place { needed } else { needed + chunks(from, now) };
        if both <= capacity {
            if !self.spec.in_place {
                return self.begin_out_of_place(id, way, to, now, parts);
            }
            let StoreParts { spaces, footprint, os } = parts;
            let old = &mut spaces[Side::Old as usize];
            let count = (needed as usize).max(old.chunks.len());
            old.grow(count, footprint, os)?;
            self.note(id, way, parts.spaces);
            return Ok(ResizeMode::InPlace);
        }
        let chunk = self.chunk_for(id, way, to, now + 1).ok_or(none)?;
        self.begin_out_of_place(id, way, to, chunk, parts)
    }

    fn end(&mut self, id: usize, way: usize, to: u64, in_place: bool, parts: &mut StoreParts<'_, '_>) {
        if !self.spec.l2p {
            return Contiguous.end(id, way, to, in_place, parts);
        }
        if in_place {
            let StoreParts { spaces, footprint, os } = parts;
            let old = &mut spaces[Side::Old as usize];
            old.shrink(chunks(to, old.chunk_bytes) as usize, footprint, os);
        } else {
            parts.replace_old();
        }
        self.note(id, way, parts.spaces);
    }

    fn abandon(&mut self, id: usize, way: usize, from: u64, in_place: bool, parts: &mut StoreParts<'_, '_>) {
        if !self.spec.l2p {
            return Contiguous.abandon(id, way, from, in_place, parts);
        }
        if from == 0 {
            parts.drop_side(Side::Old);
        } else if in_place {
            let StoreParts { spaces, footprint, os } = parts;
            let old = &mut spaces[Side::Old as usize];
            old.shrink(chunks(from, old.chunk_bytes) as usize, footprint, os);
        } else {
            parts.drop_side(Side::New);
        }
        self.note(id, way, parts.spaces);
    }

    fn switch_cycles(&self) -> u64 {
        self.counters.entries * self.spec.l2p_entry_switch
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.l2p"), sink);
    }
}
