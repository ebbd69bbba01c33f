//! The OS half: what the kernel calls.

use super::node::{FRACTION, NODE_BYTES, Node, entry, is_of, order_of, pte_of, size_of, tag_of};
use super::store::Store;
use super::train::{self, Key, LINE_SLOTS, Leaf, Plan, least_slope, place, predictions, search_order};
use super::{LEVELS, LvmSpec, MAX_SEGMENTS};
use crate::pte::Pte;
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Page, PageSize, Pfn, PhysAddr, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext};
use std::collections::BTreeMap;

ambulator_base::counters! {
    /// What the OS half of learned page tables counts.
    pub struct LvmTableCounters {
        /// Times that the whole index was built anew.
        rebuilds: Events,
        /// Times that a leaf's model was trained anew.
        retrains: Events,
        /// Times that a leaf's table was extended without touching its model.
        rescales: Events,
        /// Of these, times that the table moved, since the memory behind it was taken.
        moves: Events,
        /// Pages inserted without any of that.
        plain_inserts: Events,
        /// Pages of which training made the place in a table.
        trained: Events,
        /// Entries that went to another line than the predicted one when they were placed.
        collisions: Events,
        /// The most bytes that the index ever had.
        peak_index_bytes: Bytes,
    }
}

ambulator_base::counters! {
    /// What a process's learned page table is in the end.
    pub struct LvmTableState {
        /// Bytes of the index: its nodes.
        index_bytes: Bytes,
        /// Nodes that are leaves with a table.
        leaves: Events,
        /// Levels of models, at most.
        depth: Events,
        /// Parts of the address space with an index of their own.
        segments: Events,
        /// Bytes of gapped page tables.
        table_bytes: Bytes,
    }
}

/// Pages that an index may grow by, however few it was built for.
const OUTGROWN_LEAST: u64 = 512;
/// What a run's page counts for where its size changes, against a page of gap.
const CHANGE_WEIGHT: u64 = 16;

/// A part of the address space with an index of its own: far from all others (Sec. 5.2, ASLR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first 4 KiB page: models count from it.
    pub start: u64,
    /// Its pages.
    pub pages: u64,
}

/// A leaf's table, as the kernel remembers its own allocation.
#[derive(Clone, Copy, Debug)]
struct Table {
    base: PhysAddr,
    slots: u64,
}

/// A node that a look-up in software came to.
struct Found {
    node: Node,
    at: PhysAddr,
    segment: usize,
    /// First page that it is responsible for, counted from the segment's start.
    from: u64,
    pages: u64,
}

/// A process's learned page table.
pub struct LvmTable {
    spec: LvmSpec,
    segments: Vec<Segment>,
    /// By level: where its nodes are, and how many.
    levels: [(PhysAddr, u64); LEVELS],
    /// By their first 4 KiB page.
    tables: BTreeMap<u64, Table>,
    store: Store,
    /// Pages mapped when the index was built.
    built_for: u64,
    /// Changes with the models: walkers drop what they hold.
    models: u64,
    generation: u64,
    footprint: Footprint,
    counters: LvmTableCounters,
}

/// A page, absolute, with its entry's word.
type Held = (u64, u32, Pte);

fn page_number(page: Page) -> (u64, u32) {
    (page.start.0 >> 12, page.size.order())
}

impl LvmTable {
    /// An empty table: the index is built with the first page.
    pub fn new(spec: &LvmSpec) -> LvmTable {
        LvmTable {
            spec: spec.clone(),
            segments: Vec::new(),
            levels: [(PhysAddr(0), 0); LEVELS],
            tables: BTreeMap::new(),
            store: Store::default(),
            built_for: 0,
            models: 0,
            generation: 0,
            footprint: Footprint::default(),
            counters: LvmTableCounters::default(),
        }
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    fn node(&self, level: usize, number: u64, memory: &PhysicalMemory) -> (Node, PhysAddr) {
        let at = self.levels[level].0.offset(number * NODE_BYTES);
        (Node::of_words(memory.read_words(at)), at)
    }

    /// The leaf that is responsible for a page: from the root down, as hardware goes.
    fn descend(&self, page: u64, memory: &PhysicalMemory) -> Option<Found> {
        let segment = self.segments.iter().position(|s| page.wrapping_sub(s.start) < s.pages)?;
        let Segment { start, pages } = self.segments[segment];
        let (mut from, mut pages, key) = (0, pages, page - start);
        let (mut node, mut at) = self.node(0, segment as u64, memory);
        for level in 1..=LEVELS {
            if node.leaf {
                return Some(Found { node, at, segment, from, pages });
            }
            let bits = FRACTION - node.slope.trailing_zeros();
            let child = key >> bits << bits;
            pages = (1 << bits).min(from + pages - child);
            from = child;
            (node, at) = self.node(level, node.predict(key), memory);
        }
        None
    }

    /// The slot that holds a page's entry, and its word.
    fn find(&self, page: u64, memory: &PhysicalMemory) -> Option<(PhysAddr, u64)> {
        let found = self.descend(page, memory)?;
        if found.node.is_empty() {
            return None;
        }
        let line = found.node.predict(page - self.segments[found.segment].start) / LINE_SLOTS;
        search_order(self.spec.max_extra).find_map(|distance| {
            let at = PhysAddr(line.wrapping_add_signed(distance) * 64);
            let words: [u64; 8] = memory.read_words(at);
            let slot = words.iter().position(|&word| is_of(word, page))?;
            Some((at.offset(8 * slot as u64), words[slot]))
        })
    }

    fn find_page(&self, page: Page, memory: &PhysicalMemory) -> Option<(PhysAddr, u64)> {
        let (number, order) = page_number(page);
        self.find(number, memory).filter(|(_, word)| order_of(*word) == order)
    }

    /// All pages of a leaf's table, ascending: from tags, and where the model would have them.
    fn pages_of(&self, start: u64, node: Node, table: Table, memory: &PhysicalMemory) -> Vec<Held> {
        let first = table.base.0 / 8;
        let mut pages: Vec<Held> = (first..first + table.slots)
            .filter_map(|slot| {
                let word = memory.read(PhysAddr(slot * 8));
                if word & Pte::PRESENT == 0 {
                    return None;
                }
                let order = order_of(word);
                let near = ((slot << FRACTION) as i64).wrapping_sub(node.intercept) / node.slope.max(1);
                let number = ((start as i64 + near) >> order) as u64;
                // The number with this tag that is nearest.
                let distance = (tag_of(word).wrapping_sub(number) & 0xfff) as i64;
                let distance = if distance >= 0x800 { distance - 0x1000 } else { distance };
                let number = number.wrapping_add_signed(distance);
                debug_assert!(is_of(word, number << order));
                Some((number << order, order, pte_of(word)))
            })
            .collect();
        pages.sort_unstable_by_key(|(page, ..)| *page);
        pages
    }

    fn all_pages(&self, memory: &PhysicalMemory) -> Vec<Held> {
        let mut all = Vec::new();
        for (&from, &table) in &self.tables {
            let Some(found) = self.descend(from, memory) else { continue };
            all.extend(self.pages_of(self.segments[found.segment].start, found.node, table, memory));
        }
        all
    }

    /// The parts of the address space that hold the pages. They divide at wide gaps, and where runs of one page size meet those of
    /// another, which no one line follows; at the most telling of those if there are more than there are registers. Each part begins and
    /// ends with room to grow.
    fn divide(&self, pages: &[Held]) -> Vec<Segment> {
        // Runs of one page size without a wide gap: first page, end, order.
        let mut runs: Vec<(u64, u64, u32)> = Vec::new();
        for &(from, order, _) in pages {
            let to = from + (1 << order);
            match runs.last_mut() {
                Some((_, end, same)) if *same == order && from - *end <= self.spec.segment_gap_pages => *end = to,
                _ => runs.push((from, to, order)),
            }
        }
        let telling = |at: usize| {
            let ((left, end, one), (from, right, other)) = (runs[at], runs[at + 1]);
            let (gap, shorter) = (from - end, (end - left).min(right - from));
            let change = if one != other { CHANGE_WEIGHT * shorter } else { 0 };
            if gap > self.spec.segment_gap_pages || change > 0 { gap + change } else { 0 }
        };
        let mut cuts: Vec<(u64, usize)> = (0..runs.len().saturating_sub(1)).map(|at| (telling(at), at)).collect();
        cuts.retain(|(score, _)| *score > 0);
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        cuts.truncate(MAX_SEGMENTS - 1);
        let mut parts: Vec<(u64, u64, u32)> = Vec::new();
        for (at, &(from, to, order)) in runs.iter().enumerate() {
            match parts.last_mut() {
                Some((_, end, most)) if !cuts.iter().any(|(_, cut)| cut + 1 == at) => {
                    (*end, *most) = (to, order.max(*most));
                }
                _ => parts.push((from, to, order)),
            }
        }
        // A segment begins at a multiple of its largest page, or its children would cut pages in two; parts that leave no room for that
        // are one.
        let mut at = 1;
        while at < parts.len() {
            let ((_, before, _), (from, end, order)) = (parts[at - 1], parts[at]);
            if from >> order << order >= before {
                at += 1;
                continue;
            }
            parts.remove(at);
            (parts[at - 1].1, parts[at - 1].2) = (end, parts[at - 1].2.max(order));
            at = at.saturating_sub(1).max(1);
        }
        let starts: Vec<u64> = parts
            .iter()
            .enumerate()
            .map(|(at, &(from, _, order))| {
                let before = if at == 0 { 0 } else { parts[at - 1].1 };
                // Half of what lies between belongs to the one below.
                let low = from.saturating_sub(self.spec.insertion_pages).max(before + (from - before) / 2);
                let aligned = low >> order.max(9) << order.max(9);
                if aligned >= before { aligned } else { from >> order << order }
            })
            .collect();
        let most = 1 << (self.spec.va_bits - 12);
        parts
            .iter()
            .enumerate()
            .map(|(at, &(_, to, _))| {
                let limit = starts.get(at + 1).copied().unwrap_or(most);
                let used = to - starts[at];
                let end = (to + self.spec.insertion_pages.max(used / 4)).min(limit);
                Segment { start: starts[at], pages: end - starts[at] }
            })
            .collect()
    }

    /// Builds the index anew for these pages, ascending. What was there before is in place until all has been had.
    fn build(&mut self, pages: &[Held], os: &mut TableContext<'_>) -> Result<(), MapError> {
        let segments = self.divide(pages);
        let mut most_slots = self.spec.max_table_bytes / 8;
        loop {
            match self.try_build(pages, &segments, most_slots, os) {
                Err(MapError::NoMemory { bytes }) if bytes > FRAME_BYTES && most_slots > FRAME_BYTES / 8 => {
                    // No such contiguity: more leaves with smaller tables (Sec. 4.3.2).
                    most_slots = (bytes / 8 / 2).min(most_slots / 2).max(FRAME_BYTES / 8);
                }
                done => return done,
            }
        }
    }

    fn try_build(
        &mut self,
        pages: &[Held],
        segments: &[Segment],
        most_slots: u64,
        os: &mut TableContext<'_>,
    ) -> Result<(), MapError> {
        // Level by level: nodes, and what to put behind those that are leaves.
        let mut levels: [Vec<Node>; LEVELS] = Default::default();
        let mut leaves: Vec<(usize, usize, u64, Leaf, &[Held])> = Vec::new();
        let mut rest = pages;
        let none = |bytes: u64| MapError::NoMemory { bytes };
        let mut open: Vec<(Plan, u64, u64, &[Held])> = Vec::new();
        for segment in segments {
            let (own, others) = rest.split_at(rest.partition_point(|(page, ..)| *page < segment.start + segment.pages));
            rest = others;
            let keys: Vec<Key> =
                own.iter().map(|(page, order, _)| Key { page: page - segment.start, order: *order }).collect();
            let plan = train::plan(&keys, 0, segment.pages, LEVELS as u32, most_slots, &self.spec);
            open.push((plan.ok_or(none(FRAME_BYTES))?, segment.start, 0, own));
        }
        for (level, nodes) in levels.iter_mut().enumerate() {
            let mut next = Vec::new();
            for (plan, start, from, own) in std::mem::take(&mut open) {
                match plan {
                    Plan::Empty => nodes.push(Node::EMPTY),
                    Plan::Leaf(leaf) => {
                        leaves.push((level, nodes.len(), start, leaf, own));
                        nodes.push(Node::EMPTY);
                    }
                    Plan::Inner { bits, children } => {
                        let slope = 1i64 << (FRACTION - bits);
                        let first = next.len() as i64;
                        let intercept = (first << FRACTION) - slope.wrapping_mul(from as i64);
                        nodes.push(Node { slope, intercept, leaf: false });
                        let mut rest = own;
                        for (child, plan) in children.into_iter().enumerate() {
                            let child_from = from + ((child as u64) << bits);
                            let end = start + child_from + (1 << bits);
                            let (own, others) = rest.split_at(rest.partition_point(|(page, ..)| *page < end));
                            rest = others;
                            next.push((plan, start, child_from, own));
                        }
                    }
                }
            }
            open = next;
        }
        // Memory for all of it, or for nothing.
        let mut store = Store::default();
        let mut arrays = [(PhysAddr(0), 0); LEVELS];
        let mut tables: Vec<Table> = Vec::new();
        let mut failed = None;
        for (array, nodes) in arrays.iter_mut().zip(&levels).filter(|(_, nodes)| !nodes.is_empty()) {
            let bytes = nodes.len() as u64 * NODE_BYTES;
            match store.allocate(bytes, &mut self.footprint, os) {
                Some(base) => *array = (base, nodes.len() as u64),
                None => failed = Some(bytes.min(FRAME_BYTES)),
            }
        }
        for (.., leaf, _) in &leaves {
            if failed.is_some() {
                break;
            }
            match store.allocate(leaf.slots * 8, &mut self.footprint, os) {
                Some(base) => tables.push(Table { base, slots: leaf.slots }),
                None => failed = Some(leaf.slots * 8),
            }
        }
        if let Some(bytes) = failed {
            for table in tables {
                store.release(table.base, table.slots * 8, &mut self.footprint, os);
            }
            for (base, count) in arrays.into_iter().filter(|(_, count)| *count > 0) {
                store.release(base, count * NODE_BYTES, &mut self.footprint, os);
            }
            store.clear(&mut self.footprint, os);
            return Err(none(bytes));
        }
        // The old index goes, and its bytes may be handed on; `pages` has all that it said.
        self.release(os);
        (self.store, self.levels) = (store, arrays);
        for ((level, number, start, leaf, own), table) in leaves.into_iter().zip(tables) {
            let node = based(leaf.node, table.base);
            levels[level][number] = node;
            self.tables.insert(start + leaf.from, table);
            self.counters.trained += own.len() as u64;
            self.counters.collisions += leaf.collisions.0;
            for ((page, order, pte), place) in own.iter().zip(&leaf.places) {
                os.memory.write(table.base.offset(8 * u64::from(*place)), entry(*pte, *page, *order));
            }
        }
        for ((base, _), nodes) in self.levels.iter().zip(&levels) {
            for (number, node) in nodes.iter().enumerate() {
                os.memory.write_words(base.offset(number as u64 * NODE_BYTES), &node.words());
            }
        }
        self.segments = segments.to_vec();
        self.built_for = pages.len() as u64;
        self.counters.rebuilds += 1;
        self.counters.peak_index_bytes = self.counters.peak_index_bytes.max(self.index_bytes());
        self.models += 1;
        self.generation += 1;
        os.ledger.charge(LedgerCause::Table, (pages.len() as u64) * os.costs.table_entry);
        Ok(())
    }

    fn index_bytes(&self) -> u64 {
        self.levels.iter().map(|(_, count)| count * NODE_BYTES).sum()
    }

    /// Gives all memory back.
    fn release(&mut self, os: &mut TableContext<'_>) {
        for (_, table) in std::mem::take(&mut self.tables) {
            self.store.release(table.base, table.slots * 8, &mut self.footprint, os);
        }
        for (base, count) in std::mem::replace(&mut self.levels, [(PhysAddr(0), 0); LEVELS]) {
            if count > 0 {
                self.store.release(base, count * NODE_BYTES, &mut self.footprint, os);
            }
        }
        self.store.clear(&mut self.footprint, os);
        self.segments.clear();
    }

    /// Trains a leaf anew with one page more. False if that gives no leaf that keeps the bounds.
    fn retrain(&mut self, found: &Found, new: Held, os: &mut TableContext<'_>) -> bool {
        let start = self.segments[found.segment].start;
        let old = self.tables.get(&(start + found.from)).copied();
        let mut pages = old.map_or_else(Vec::new, |table| self.pages_of(start, found.node, table, os.memory));
        let at = pages.partition_point(|(page, ..)| *page < new.0);
        pages.insert(at, new);
        let keys: Vec<Key> = pages.iter().map(|(page, order, _)| Key { page: page - start, order: *order }).collect();
        let most = self.spec.max_table_bytes / 8;
        let fits = |leaf: &Leaf| leaf.slots <= most && leaf.slots <= 512.max(16 * keys.len() as u64);
        let Some(leaf) = train::leaf(&keys, found.from, found.pages, &self.spec).filter(fits) else { return false };
        let Some(base) = self.store.allocate(leaf.slots * 8, &mut self.footprint, os) else { return false };
        for ((page, order, pte), place) in pages.iter().zip(&leaf.places) {
            os.memory.write(base.offset(8 * u64::from(*place)), entry(*pte, *page, *order));
        }
        os.memory.write_words(found.at, &based(leaf.node, base).words());
        if let Some(old) = old {
            self.store.release(old.base, old.slots * 8, &mut self.footprint, os);
        }
        self.tables.insert(start + found.from, Table { base, slots: leaf.slots });
        self.counters.retrains += 1;
        self.counters.trained += pages.len() as u64;
        self.counters.collisions += leaf.collisions.0;
        self.models += 1;
        self.generation += 1;
        os.ledger.charge(LedgerCause::Table, pages.len() as u64 * os.costs.table_entry);
        true
    }

    /// Puts a page into the table of its leaf where the model has room for it.
    fn insert_plainly(&self, found: &Found, (page, order, pte): Held, os: &mut TableContext<'_>) -> bool {
        let key = page - self.segments[found.segment].start;
        if found.node.is_empty() || found.node.slope < least_slope(order, self.spec.max_extra) {
            return false;
        }
        let is_free = |slot: u64| os.memory.read(PhysAddr(slot * 8)) & Pte::PRESENT == 0;
        let predicted = predictions(found.node, key, order);
        let Some((slot, _)) = place(predicted, self.spec.max_extra, is_free) else { return false };
        os.memory.write(PhysAddr(slot * 8), entry(pte, page, order));
        true
    }

    /// An insertion behind a segment whose root is a leaf: its table grows, its model stays (Sec. 4.3.4). False if it cannot.
    fn rescale(&mut self, page: u64, order: u32, os: &mut TableContext<'_>) -> bool {
        let end = page + (1 << order);
        let reach = self.spec.insertion_pages;
        let near = |s: &Segment| page >= s.start + s.pages && end <= s.start + s.pages + reach;
        let Some(at) = self.segments.iter().position(near) else { return false };
        let Segment { start, pages } = self.segments[at];
        let limit = self.segments.get(at + 1).map_or(1 << (self.spec.va_bits - 12), |next| next.start);
        let Some(found) = self.descend(start, os.memory) else { return false };
        let wanted = (start + pages + reach.max(pages / 4)).min(limit) - start;
        if found.pages != pages || found.node.is_empty() || start + wanted < end {
            return false;
        }
        let Some(&old) = self.tables.get(&start) else { return false };
        let last = found.node.predict(wanted - 1) - old.base.0 / 8;
        let slots = (last / LINE_SLOTS + 1 + u64::from(self.spec.max_extra)) * LINE_SLOTS;
        if slots * 8 > self.spec.max_table_bytes {
            return false;
        }
        let frames = |slots: u64| (slots * 8).div_ceil(FRAME_BYTES);
        let behind = old.base.pfn().offset(frames(old.slots));
        let more = frames(slots) - frames(old.slots);
        let whole = old.slots * 8 >= FRAME_BYTES;
        if whole && behind.0 + more <= os.frames.total_frames() && os.frames.allocate_range(behind, more) {
            os.memory.zero(behind.start(), more * FRAME_BYTES);
            self.footprint.bytes += more * FRAME_BYTES;
            self.footprint.peak_bytes = self.footprint.peak_bytes.max(self.footprint.bytes);
            self.footprint.largest_contiguous = self.footprint.largest_contiguous.max(frames(slots) * FRAME_BYTES);
            self.tables.insert(start, Table { slots, ..old });
        } else {
            let Some(base) = self.store.allocate(slots * 8, &mut self.footprint, os) else { return false };
            os.memory.copy(old.base, base, old.slots * 8);
            let intercept = found.node.intercept.wrapping_add(((base.0 / 8) << FRACTION) as i64);
            let intercept = intercept.wrapping_sub(((old.base.0 / 8) << FRACTION) as i64);
            os.memory.write_words(found.at, &Node { intercept, ..found.node }.words());
            self.store.release(old.base, old.slots * 8, &mut self.footprint, os);
            self.tables.insert(start, Table { base, slots });
            os.ledger.charge(LedgerCause::Table, old.slots * os.costs.table_entry / LINE_SLOTS);
            self.counters.moves += 1;
            self.models += 1;
        }
        self.segments[at].pages = wanted;
        self.counters.rescales += 1;
        self.generation += 1;
        true
    }
}

/// A leaf's model for a table at `base`: its output is a slot of physical memory.
fn based(node: Node, base: PhysAddr) -> Node {
    Node { intercept: node.intercept.wrapping_add(((base.0 / 8) << FRACTION) as i64), ..node }
}

impl PageTable for LvmTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let (page, order) = page_number(mapping.page);
        if order > PageSize::SIZE_1G.order() {
            return Err(MapError::PageSize);
        }
        if self.find(page, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        let pte = Pte::leaf(mapping.frame, mapping.flags, order > 0);
        let new = (page, order, pte);
        let covers = |found: &Found, start: u64| page - start + (1 << order) <= found.from + found.pages;
        // An index that was built for half as many pages has grown by patches: it is worth another.
        let outgrown = self.footprint.entries > 2 * self.built_for + OUTGROWN_LEAST;
        for extended in [false, true] {
            if outgrown {
                break;
            }
            if let Some(found) = self.descend(page, os.memory)
                && covers(&found, self.segments[found.segment].start)
            {
                if self.insert_plainly(&found, new, os) {
                    self.counters.plain_inserts += 1;
                    self.footprint.entries += 1;
                    return Ok(());
                }
                if self.retrain(&found, new, os) {
                    self.footprint.entries += 1;
                    return Ok(());
                }
                break;
            }
            if extended || !self.rescale(page, order, os) {
                break;
            }
        }
        let mut pages = self.all_pages(os.memory);
        let at = pages.partition_point(|(other, ..)| *other < page);
        pages.insert(at, new);
        self.build(&pages, os)?;
        self.footprint.entries += 1;
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let (at, word) = self.find_page(page, os.memory)?;
        // The index stays as it is, and the place stays free for what comes there again (Sec. 5.2).
        os.memory.write(at, 0);
        self.footprint.entries -= 1;
        let pte = pte_of(word);
        Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let Some((at, word)) = self.find_page(page, os.memory) else { return false };
        let (number, order) = page_number(page);
        os.memory.write(at, entry(Pte::leaf(pte_of(word).frame(), flags, order > 0), number, order));
        true
    }

    fn move_frame(&mut self, page: Page, frame: Pfn, os: &mut TableContext<'_>) -> bool {
        let Some((at, word)) = self.find_page(page, os.memory) else { return false };
        let (number, order) = page_number(page);
        os.memory.write(at, entry(pte_of(word).with_frame(frame), number, order));
        true
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let (_, word) = self.find(va.0 >> 12, memory)?;
        let pte = pte_of(word);
        Some(Mapping { page: Page::containing(va, size_of(word)), frame: pte.frame(), flags: pte.flags() })
    }

    fn registers(&self) -> Vec<u64> {
        let mut words = vec![self.models];
        words.extend(self.levels.iter().map(|(base, _)| base.0));
        words.extend(self.segments.iter().flat_map(|segment| [segment.start, segment.pages]));
        words
    }

    fn registers_generation(&self) -> u64 {
        self.generation
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.release(os);
        self.footprint.entries = 0;
        self.generation += 1;
        self.models += 1;
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.lvm"), sink);
    }

    fn inspect(&self, _memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        let state = LvmTableState {
            index_bytes: self.index_bytes(),
            leaves: self.tables.len() as u64,
            depth: self.levels.iter().filter(|(_, count)| *count > 0).count() as u64,
            segments: self.segments.len() as u64,
            table_bytes: self.tables.values().map(|table| table.slots * 8).sum(),
        };
        state.report(&format!("{prefix}.lvm"), sink);
    }
}
