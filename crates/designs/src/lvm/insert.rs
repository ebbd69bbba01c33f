//! Insertions that need no new index: into a gap, by retraining a leaf, or by extending its table (LVM Sec.
//! 4.3.4).

use super::build::based;
use super::node::{FRACTION, Node, entry};
use super::table::{Found, LvmTable, PageEntry, Segment, Table};
use super::train::{self, LINE_SLOTS, Leaf, count, is_wasteful, least_slope, place, predictions, slice};
use ambulator_base::{FRAME_BYTES, PhysAddr};
use ambulator_os::{LedgerCause, TableContext, TableLock};
use ambulator_structures::pte::Pte;

impl LvmTable {
    /// Retrains a leaf with one more page. False if no such leaf is within the bounds.
    pub(super) fn retrain(&mut self, found: &Found, new: PageEntry, os: &mut TableContext<'_>) -> bool {
        let start = self.segments[found.segment].start;
        let old = self.tables.get(&(start + found.from)).copied();
        let mut pages = old.map_or_else(Vec::new, |table| self.pages_of(start, found.node, table, os.memory));
        let at = pages.partition_point(|(page, ..)| *page < new.0);
        pages.insert(at, new);
        let (from, to) = (start + found.from, start + found.from + found.pages);
        if self.spec.plan_ahead > 0 {
            self.areas.plan_new(from, to, self.spec.insertion_pages);
        }
        let keys = slice(&self.areas.keys(&pages, from, to), from, to, start);
        let most = self.spec.max_table_bytes / 8;
        // A mostly empty table is acceptable if it is small compared with all others.
        let sparse = |leaf: &Leaf| {
            leaf.slots <= self.built_for / 16 || !is_wasteful(leaf.slots, count(&keys), found.place.0 == 0, &self.spec)
        };
        let trained = train::leaf(&keys, found.from, found.pages, most, &self.spec).filter(sparse);
        let Some(leaf) = trained else { return false };
        let Some(base) = self.store.allocate(leaf.slots * 8, &mut self.footprint, os) else { return false };
        let places = leaf.slots_of(pages.iter().map(|(page, order, _)| (page - start, *order)));
        for ((page, order, pte), place) in pages.iter().zip(places) {
            os.memory.write(base.offset(8 * place), entry(*pte, *page, *order));
        }
        os.memory.write_words(found.at, &based(leaf.node, base).words());
        if let Some(old) = old {
            self.store.release(old.base, old.slots * 8, &mut self.footprint, os);
        }
        self.tables.insert(start + found.from, Table { base, slots: leaf.slots });
        self.counters.retrains += 1;
        self.counters.trained += pages.len() as u64;
        self.counters.collisions += leaf.collisions.0 >> FRACTION;
        self.model_changed(found.place);
        // The parent's lock keeps all others out (Sec. 5.2).
        os.ledger.hold(TableLock::Whole);
        os.ledger.charge(LedgerCause::Table, pages.len() as u64 * os.costs.table_entry);
        true
    }

    /// A model has changed: walkers must drop their cached copy.
    fn model_changed(&mut self, place: (usize, u64)) {
        (self.changes, self.changed) = (self.changes + 1, place);
        self.generation += 1;
    }

    /// Inserts a page into the table of its leaf if there is a free slot near the prediction.
    pub(super) fn insert_into_gap(
        &self,
        found: &Found,
        (page, order, pte): PageEntry,
        os: &mut TableContext<'_>,
    ) -> bool {
        let key = page - self.segments[found.segment].start;
        if found.node.is_empty() || found.node.slope < least_slope(order, self.spec.max_extra) {
            return false;
        }
        let is_free = |slot: u64| os.memory.read(PhysAddr(slot * 8)) & Pte::PRESENT == 0;
        let predicted = predictions(found.node, key, order);
        let Some(slot) = place(predicted, self.spec.max_extra, is_free) else { return false };
        os.memory.write(PhysAddr(slot * 8), entry(pte, page, order));
        true
    }

    /// Insertion after a segment whose root is a leaf: the table grows, the model stays (Sec. 4.3.4). False
    /// if that is not possible.
    pub(super) fn rescale(&mut self, page: u64, order: u32, os: &mut TableContext<'_>) -> bool {
        let end = page + (1 << order);
        let reach = self.spec.insertion_pages;
        let near = |s: &Segment| page >= s.start + s.pages && end <= s.start + s.pages + reach;
        let Some(at) = self.segments.iter().position(near) else { return false };
        let Segment { start, pages } = self.segments[at];
        let limit = self.segments.get(at + 1).map_or(1 << (self.va_bits - 12), |next| next.start);
        let Some(found) = self.descend(start, os.memory) else { return false };
        let new_pages = (start + pages + reach).min(limit) - start;
        if found.pages != pages || found.node.is_empty() || start + new_pages < end {
            return false;
        }
        let Some(&old) = self.tables.get(&start) else { return false };
        let extra = u64::from(self.spec.max_extra);
        let slots_for = |pages: u64| {
            let last = found.node.predict(pages - 1) - old.base.0 / 8;
            (last / LINE_SLOTS + 1 + extra) * LINE_SLOTS
        };
        let most = self.spec.max_table_bytes / 8;
        if slots_for(new_pages) > most {
            return false;
        }
        if slots_for(new_pages) > old.slots && !self.extend_in_place(start, old, slots_for(new_pages), os) {
            // With room for the next growths, so that a growing table rarely moves.
            let slots = slots_for(new_pages + new_pages / 4).min(most);
            let Some(base) = self.store.allocate(slots * 8, &mut self.footprint, os) else { return false };
            os.memory.copy(old.base, base, old.slots * 8);
            let intercept = found.node.intercept.wrapping_add(((base.0 / 8) << FRACTION) as i64);
            let intercept = intercept.wrapping_sub(((old.base.0 / 8) << FRACTION) as i64);
            os.memory.write_words(found.at, &Node { intercept, ..found.node }.words());
            self.store.release(old.base, old.slots * 8, &mut self.footprint, os);
            self.tables.insert(start, Table { base, slots });
            os.ledger.charge(LedgerCause::Table, old.slots * os.costs.table_entry / LINE_SLOTS);
            self.counters.moves += 1;
            self.model_changed(found.place);
        }
        os.ledger.hold(TableLock::Whole);
        self.segments[at].pages = new_pages;
        self.counters.rescales += 1;
        self.generation += 1;
        true
    }

    /// Extends a table to `slots` slots by the frames after it. False if these are in use.
    fn extend_in_place(&mut self, start: u64, old: Table, slots: u64, os: &mut TableContext<'_>) -> bool {
        let frames = |slots: u64| (slots * 8).div_ceil(FRAME_BYTES);
        let next = old.base.pfn().offset(frames(old.slots));
        let more = frames(slots) - frames(old.slots);
        let whole = old.slots * 8 >= FRAME_BYTES;
        if !whole || next.0 + more > os.frames.total_frames() || !os.frames.allocate_range(next, more) {
            return false;
        }
        os.memory.zero(next.start(), more * FRAME_BYTES);
        self.footprint.bytes += more * FRAME_BYTES;
        self.footprint.peak_bytes = self.footprint.peak_bytes.max(self.footprint.bytes);
        self.footprint.largest_contiguous = self.footprint.largest_contiguous.max(frames(slots) * FRAME_BYTES);
        self.tables.insert(start, Table { slots, ..old });
        true
    }
}
