//! The OS half.

use super::areas::Areas;
use super::node::{FRACTION, NODE_BYTES, Node, entry, is_of, order_of, pte_of, size_of, tag_of};
use super::store::Store;
use super::train::{LINE_SLOTS, search_order};
use super::{LEVELS, LvmSpec};
use ambulator_base::{CounterSink, Counters, Page, PageSize, PhysAddr, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableLock};
use ambulator_structures::pte::Pte;
use std::collections::BTreeMap;

ambulator_base::counters! {
    /// Counters of the OS half of learned page tables.
    pub(crate) struct LvmTableCounters {
        /// Rebuilds of the whole index.
        rebuilds: Events,
        /// Times that a leaf's model was retrained.
        retrains: Events,
        /// Times that a leaf's table was extended without retraining its model.
        rescales: Events,
        /// Of these, times that the table moved because the memory after it was in use.
        moves: Events,
        /// Pages inserted into a gap, without any of that.
        plain_inserts: Events,
        /// Pages placed into a table by training.
        trained: Events,
        /// Entries that look-ups do not find in the predicted line; by the share of their 4 KiB pages.
        collisions: Events,
        /// Largest size of the index.
        peak_index_bytes: Bytes gauge,
    }
}

ambulator_base::counters! {
    /// State of a process's learned page table.
    pub(crate) struct LvmTableState {
        /// Bytes of the index: its nodes.
        index_bytes: Bytes gauge,
        /// Nodes that are leaves with a table.
        leaves: Events gauge,
        /// Levels of models.
        depth: Events gauge,
        /// Parts of the address space with their own index.
        segments: Events gauge,
        /// Bytes of gapped page tables.
        table_bytes: Bytes gauge,
    }
}

/// Pages by which an index may always grow, even if it was built for few.
const OUTGROWN_LEAST: u64 = 512;
/// Leaves retrained since an index was built from which it is rebuilt, if it also has outgrown its initial
/// size.
const OUTGROWN_PATCHES: u64 = 8;

/// A part of the address space with its own index, far from all others (Sec. 5.2, ASLR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) struct Segment {
    /// Its first 4 KiB page, from which models count.
    pub(crate) start: u64,
    /// Its pages.
    pub(crate) pages: u64,
}

/// A leaf's table, as the kernel records its allocation.
#[derive(Clone, Copy, Debug, Default, State)]
pub(super) struct Table {
    /// Its first slot.
    pub(crate) base: PhysAddr,
    /// Its slots.
    pub(crate) slots: u64,
}

/// The leaf that a look-up in software found.
pub(super) struct Found {
    /// The node.
    pub(crate) node: Node,
    /// Its address.
    pub(crate) at: PhysAddr,
    /// Its level and its number in that level.
    pub(crate) place: (usize, u64),
    /// Its segment.
    pub(crate) segment: usize,
    /// First page of the leaf, counted from the segment's start.
    pub(crate) from: u64,
    /// Its pages.
    pub(crate) pages: u64,
}

/// A process's learned page table.
#[derive(State)]
pub(crate) struct LvmTable {
    #[state(skip)]
    pub(super) spec: LvmSpec,
    #[state(skip)]
    pub(super) va_bits: u32,
    pub(super) segments: Vec<Segment>,
    /// By level: the address and the number of its nodes.
    pub(super) levels: [(PhysAddr, u64); LEVELS],
    /// By their first 4 KiB page.
    pub(super) tables: BTreeMap<u64, Table>,
    pub(super) store: Store,
    /// The announced areas.
    pub(super) areas: Areas,
    /// Pages that the index was built for, mapped or planned.
    pub(super) built_for: u64,
    /// Value of `counters.retrains` at that time.
    pub(super) retrains_before: u64,
    /// Indexes built so far; walkers drop models of earlier ones.
    pub(super) indexes: u64,
    /// Models changed since; walkers drop the last one (Sec. 5.2, LWC flushes).
    pub(super) changes: u64,
    /// Level and number of the last changed model.
    pub(super) changed: (usize, u64),
    pub(super) generation: u64,
    pub(super) footprint: Footprint,
    pub(super) counters: LvmTableCounters,
}

/// A page: its absolute number, the log2 of its frames, and its entry.
pub(super) type PageEntry = (u64, u32, Pte);

fn page_number(page: Page) -> (u64, u32) {
    (page.start.0 >> 12, page.size.order())
}

impl LvmTable {
    /// An empty table: the index is built with the first page.
    pub(crate) fn new(spec: &LvmSpec, va_bits: u32) -> LvmTable {
        LvmTable {
            va_bits,
            spec: spec.clone(),
            segments: Vec::new(),
            levels: [(PhysAddr(0), 0); LEVELS],
            tables: BTreeMap::new(),
            store: Store::default(),
            areas: Areas::default(),
            built_for: 0,
            retrains_before: 0,
            indexes: 0,
            changes: 0,
            changed: (0, 0),
            generation: 0,
            footprint: Footprint::default(),
            counters: LvmTableCounters::default(),
        }
    }

    pub(super) fn node(&self, level: usize, number: u64, memory: &PhysicalMemory) -> (Node, PhysAddr) {
        let at = self.levels[level].0.offset(number * NODE_BYTES);
        (Node::of_words(memory.read_words(at)), at)
    }

    /// The leaf of a page, found from the root as the hardware does.
    pub(super) fn descend(&self, page: u64, memory: &PhysicalMemory) -> Option<Found> {
        let segment = self.segments.iter().position(|s| page.wrapping_sub(s.start) < s.pages)?;
        let Segment { start, pages } = self.segments[segment];
        let (mut from, mut pages, key) = (0, pages, page - start);
        let mut number = segment as u64;
        let (mut node, mut at) = self.node(0, number, memory);
        for level in 1..=LEVELS {
            if node.leaf {
                return Some(Found { node, at, place: (level - 1, number), segment, from, pages });
            }
            number = node.predict(key);
            let (child, end) = (node.first_page(number), node.first_page(number + 1));
            pages = end.min(from + pages) - child;
            from = child;
            (node, at) = self.node(level, number, memory);
        }
        None
    }

    /// The address of the slot with a page's entry, and its word.
    pub(super) fn find(&self, page: u64, memory: &PhysicalMemory) -> Option<(PhysAddr, u64)> {
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

    pub(super) fn find_page(&self, page: Page, memory: &PhysicalMemory) -> Option<(PhysAddr, u64)> {
        let (number, order) = page_number(page);
        self.find(number, memory).filter(|(_, word)| order_of(*word) == order)
    }

    /// All pages of a leaf's table, ascending. Their numbers follow from their tags and the inverse of the
    /// model.
    pub(super) fn pages_of(&self, start: u64, node: Node, table: Table, memory: &PhysicalMemory) -> Vec<PageEntry> {
        let first = table.base.0 / 8;
        let mut pages: Vec<PageEntry> = (first..first + table.slots)
            .filter_map(|slot| {
                let word = memory.read(PhysAddr(slot * 8));
                if word & Pte::PRESENT == 0 {
                    return None;
                }
                let order = order_of(word);
                let near = ((slot << FRACTION) as i64).wrapping_sub(node.intercept) / node.slope.max(1);
                let number = ((start as i64 + near) >> order) as u64;
                // The nearest number with this tag.
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

    pub(super) fn all_pages(&self, memory: &PhysicalMemory) -> Vec<PageEntry> {
        let mut all = Vec::new();
        for (&from, &table) in &self.tables {
            let Some(found) = self.descend(from, memory) else { continue };
            all.extend(self.pages_of(self.segments[found.segment].start, found.node, table, memory));
        }
        all
    }
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
        self.areas.mapped(page, order);
        let covers = |found: &Found, start: u64| page - start + (1 << order) <= found.from + found.pages;
        // Rebuild an index that has doubled since it was built and whose leaves were often retrained.
        let patched = self.counters.retrains - self.retrains_before >= OUTGROWN_PATCHES;
        let outgrown = patched && self.footprint.entries > 2 * self.built_for + OUTGROWN_LEAST;
        for extended in [false, true] {
            if outgrown {
                break;
            }
            if let Some(found) = self.descend(page, os.memory)
                && covers(&found, self.segments[found.segment].start)
            {
                if self.insert_into_gap(&found, new, os) {
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
        // The index stays unchanged, and the slot stays free for a later mapping (Sec. 5.2).
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

    fn lock_of(&self, page: Page) -> TableLock {
        let (number, _) = page_number(page);
        self.tables.range(..=number).next_back().map_or(TableLock::Whole, |(leaf, _)| TableLock::Part(*leaf))
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, _os: &mut TableContext<'_>) {
        self.areas.add(start.0 >> 12, (start.0 + len) >> 12);
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, _os: &mut TableContext<'_>) {
        self.areas.remove(start.0 >> 12, (start.0 + len) >> 12);
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let (_, word) = self.find(va.0 >> 12, memory)?;
        let pte = pte_of(word);
        Some(Mapping { page: Page::containing(va, size_of(word)), frame: pte.frame(), flags: pte.flags() })
    }

    fn registers(&self) -> Vec<u64> {
        let mut words = vec![self.indexes, self.changes, (self.changed.0 as u64) << 32 | self.changed.1];
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
        self.indexes += 1;
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        let prefix = format!("{prefix}.lvm");
        self.counters.report(&prefix, sink);
        let state = LvmTableState {
            index_bytes: self.index_bytes(),
            leaves: self.tables.len() as u64,
            depth: self.levels.iter().filter(|(_, count)| *count > 0).count() as u64,
            segments: self.segments.len() as u64,
            table_bytes: self.tables.values().map(|table| table.slots * 8).sum(),
        };
        state.report(&prefix, sink);
    }
}
