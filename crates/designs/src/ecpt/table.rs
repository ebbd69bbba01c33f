//! The OS half.

use super::slot::{Cluster, Header};
use super::store::{Backing, Context, CuckooTable};
use super::walk_tables::{PMD, PUD, WalkTables};
use super::{EcptSpec, SIZES, key_of};
use ambulator_base::{CounterSink, Counters, Page, PageSize, PhysAddr, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator_structures::elastic::{ElasticCounters, MAX_WAYS, Resizing};
use ambulator_structures::pte::Pte;

ambulator_base::counters! {
    /// Counters of the OS half of an elastic cuckoo page table, for one page size.
    pub(crate) struct CuckooTableCounters {
        /// Times that way 0 began to double.
        upsizes_way0: Events,
        /// Times that way 1 began to double.
        upsizes_way1: Events,
        /// Times that way 2 began to double.
        upsizes_way2: Events,
        /// Times that way 3 began to double.
        upsizes_way3: Events,
        /// Times that a way began to halve.
        downsizes: Events,
        /// Upsizes because an insertion displaced too many slots.
        early_upsizes: Events,
        /// Resizes that copied a way into other memory instead of growing it in place.
        out_of_place: Events,
        /// Slots that upsizes moved.
        upsize_moved: Events,
        /// Slots that stayed in upsizes in place.
        upsize_stayed: Events,
        /// Slots that downsizes rehashed.
        downsize_rehashed: Events,
        /// Slots inserted.
        insertions: Events,
        /// Slots inserted without displacing another.
        insertions_at_once: Events,
        /// Slots rehashed by resizes.
        rehashes: Events,
        /// Slots rehashed without displacing another.
        rehashes_at_once: Events,
        /// Slots displaced (re-inserted) by insertions and rehashes.
        reinsertions: Events,
    }
}

ambulator_base::counters! {
    /// State of a process's elastic cuckoo page table, for one page size.
    pub(crate) struct CuckooTableState {
        /// Bytes of way 0.
        way0: Bytes gauge,
        /// Bytes of way 1.
        way1: Bytes gauge,
        /// Bytes of way 2.
        way2: Bytes gauge,
        /// Bytes of way 3.
        way3: Bytes gauge,
        /// Occupied slots, of eight entries each.
        slots_taken: Events gauge,
    }
}

impl CuckooTableCounters {
    fn of(c: &ElasticCounters) -> CuckooTableCounters {
        let [upsizes_way0, upsizes_way1, upsizes_way2, upsizes_way3] = c.upsizes;
        CuckooTableCounters {
            upsizes_way0,
            upsizes_way1,
            upsizes_way2,
            upsizes_way3,
            downsizes: c.downsizes.iter().sum(),
            early_upsizes: c.early_upsizes,
            out_of_place: c.out_of_place,
            upsize_moved: c.upsize_moved,
            upsize_stayed: c.upsize_stayed,
            downsize_rehashed: c.downsize_rehashed,
            insertions: c.insertions.iter().sum(),
            insertions_at_once: c.insertions[0],
            rehashes: c.rehashes.iter().sum(),
            rehashes_at_once: c.rehashes[0],
            reinsertions: c.reinsertions,
        }
    }
}

/// Names of the page sizes' tables in counters.
const TABLE_NAMES: [&str; 3] = ["pte", "pmd", "pud"];

/// A process's elastic cuckoo page table: one cuckoo table for each page size that it has used, and two walk
/// tables.
#[derive(State)]
pub(crate) struct CuckooPageTable<B: Backing> {
    tables: [CuckooTable<Cluster>; 3],
    walk: WalkTables,
    backing: B,
    /// Pages mapped, by size.
    mapped: [u64; 3],
    #[state(skip)]
    reinsertion_cycles: u64,
    footprint: Footprint,
}

/// The number of a page's size, the key of its slot, and its position in the slot.
#[inline(always)]
fn slot_of(page: Page) -> Option<(usize, u64, usize)> {
    let size = SIZES.iter().position(|known| *known == page.size)?;
    let number = page.start.0 >> page.size.shift();
    Some((size, key_of(page.start, page.size), (number % Cluster::PAGES) as usize))
}

impl<B: Backing> CuckooPageTable<B> {
    /// A table of a validated spec whose ways get their memory from `backing`. The table of a page size is
    /// created with the first page of that size, the walk tables immediately.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if the initial memory cannot be allocated.
    pub(crate) fn new(
        spec: &EcptSpec,
        resizing: Resizing,
        reinsertion_cycles: u64,
        backing: B,
        os: &mut TableContext<'_>,
    ) -> Result<CuckooPageTable<B>, MapError> {
        let mut footprint = Footprint::default();
        let walk = WalkTables::new(spec, &mut footprint, os)?;
        let tables = [0, 1, 2].map(|id| CuckooTable::new(id, &spec.elastic(resizing, id as u64), spec.hash));
        Ok(CuckooPageTable { tables, walk, backing, mapped: [0; 3], reinsertion_cycles, footprint })
    }

    /// The cuckoo table of a page size, by its number.
    #[cfg(test)]
    pub(crate) fn table(&self, size: usize) -> &CuckooTable<Cluster> {
        &self.tables[size]
    }

    /// The allocator of the ways' memory.
    #[cfg(test)]
    pub(crate) fn backing(&self) -> &B {
        &self.backing
    }

    /// The address of a page's entry, and the entry.
    #[inline]
    fn find(&self, page: Page, memory: &PhysicalMemory) -> Option<(PhysAddr, Pte)> {
        let (size, key, number) = slot_of(page)?;
        let (_, at) = self.tables[size].find(key, memory)?;
        let words = memory.read_words(at);
        Some((at.offset(8 * number as u64), Cluster::entry(&words, number)?))
    }

    /// Changes the entry of a page that stays mapped.
    fn change(&mut self, page: Page, os: &mut TableContext<'_>, to: impl Fn(Pte) -> Pte) -> bool {
        let Some((at, pte)) = self.find(page, os.memory) else { return false };
        let word = os.memory.read(at);
        os.memory.write(at, Cluster::with_entry(word, to(pte)));
        true
    }

    /// Adds a slot for a page that has none.
    fn add_slot(&mut self, page: Page, pte: Pte, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let (size, key, number) = slot_of(page).ok_or(MapError::PageSize)?;
        let mut words = Cluster::of_key(key);
        words[number] = Cluster::with_entry(words[number], pte);
        let CuckooPageTable { tables, backing, footprint, .. } = self;
        let table = &mut tables[size];
        let mut cx = Context { backing, footprint, os };
        let created = !table.elastic.exists();
        if created {
            table.create(&mut cx)?;
        }
        let inserted = table.insert(words, &mut cx);
        let way = table.find(key, os.memory).map_or(0, |(place, _)| place.way);
        let added = inserted.and_then(|()| self.describe(page, way, os));
        if let Err(error) = added {
            let CuckooPageTable { tables, backing, footprint, .. } = self;
            let table = &mut tables[size];
            let place = table.find(key, os.memory).map(|(place, _)| place);
            let mut cx = Context { backing, footprint, os };
            if let Some(place) = place {
                table.remove(place, &mut cx);
            }
            table.cancel_new(&mut cx);
            if created {
                table.destroy(&mut cx);
            }
            self.follow_ways(size, os);
            return Err(error);
        }
        self.settle(size, os);
        Ok(())
    }

    /// Updates the walk tables for a newly mapped page in a section that they do not describe yet. If that
    /// fails, nothing has changed.
    fn describe(&mut self, page: Page, way: usize, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let CuckooPageTable { walk, footprint, .. } = self;
        let Page { start, size } = page;
        if size == PageSize::SIZE_1G {
            return walk.set(PUD, start, Header::page_in(way), footprint, os);
        }
        let bit = if size == PageSize::SIZE_2M { Header::LARGE } else { Header::SMALL };
        let gigabyte = walk.get(PUD, start, os.memory);
        walk.set(PUD, start, Header(gigabyte.0 | bit), footprint, os)?;
        let section = if size == PageSize::SIZE_2M { Header::page_in(way) } else { Header(Header::SMALL) };
        let described = walk.set(PMD, start, section, footprint, os);
        if described.is_err() {
            walk.restore(PUD, start, gigabyte, footprint, os);
        }
        described
    }

    /// Whether another slot has 4 KiB pages of the same 2 MiB section.
    fn section_has_any(&self, page: Page, memory: &PhysicalMemory) -> bool {
        let (_, key, _) = slot_of(page).unwrap_or_default();
        let slots = (1 << (PageSize::SIZE_2M.shift() - PageSize::SIZE_4K.shift())) / Cluster::PAGES;
        let first = key / slots * slots;
        page.size == PageSize::SIZE_4K
            && (first..first + slots).rev().any(|other| other != key && self.tables[0].find(other, memory).is_some())
    }

    /// Updates the walk tables after the last page of a slot, or a page of 2 MiB or 1 GiB, was unmapped.
    fn forget(&mut self, page: Page, os: &mut TableContext<'_>) {
        let Page { start, size } = page;
        let CuckooPageTable { walk, footprint, .. } = self;
        // A header that only loses bits already has a slot, so nothing here can fail.
        let mut set = |walk: &mut WalkTables, table, header, os: &mut TableContext<'_>| {
            let _never_fails = walk.set(table, start, header, footprint, os);
        };
        if size == PageSize::SIZE_1G {
            return set(walk, PUD, Header::NONE, os);
        }
        set(walk, PMD, Header::NONE, os);
        let bit = if size == PageSize::SIZE_4K { Header::SMALL } else { Header::LARGE };
        let same = |header: Header| if bit == Header::SMALL { header.0 == bit } else { header.way().is_some() };
        if !walk.any_in_gigabyte(start, os.memory, same) {
            let gigabyte = walk.get(PUD, start, os.memory);
            set(walk, PUD, Header(gigabyte.0 & !bit), os);
        }
    }

    /// Advances the resizes of a table and of the walk tables after a completed change.
    fn settle(&mut self, size: usize, os: &mut TableContext<'_>) {
        let work = |c: &ElasticCounters| (c.upsize_moved + c.upsize_stayed + c.downsize_rehashed, c.reinsertions);
        let CuckooPageTable { tables, backing, footprint, walk, .. } = self;
        let before = work(&tables[size].elastic.counters);
        tables[size].advance(&mut Context { backing, footprint, os });
        walk.advance(footprint, os);
        let after = work(&tables[size].elastic.counters);
        let cycles = (after.0 - before.0) * os.costs.table_entry + (after.1 - before.1) * self.reinsertion_cycles;
        os.ledger.charge(LedgerCause::Table, cycles);
        self.follow_ways(size, os);
    }

    /// Updates the walk tables with the current ways of the slots of large pages.
    fn follow_ways(&mut self, size: usize, os: &mut TableContext<'_>) {
        if size == 0 {
            return self.tables[0].forget_placed();
        }
        let table = size - 1;
        while let Some(key) = self.tables[size].next_placed() {
            let Some((place, at)) = self.tables[size].find(key, os.memory) else { continue };
            let words = os.memory.read_words(at);
            for number in (0..Cluster::PAGES).filter(|&number| Cluster::entry(&words, number as usize).is_some()) {
                let va = VirtAddr((key * Cluster::PAGES + number) << SIZES[size].shift());
                // Its slot exists, unless the mapping of its page has just failed; then there is nothing to
                // find.
                let _never_fails = self.walk.set(table, va, Header::page_in(place.way), &mut self.footprint, os);
            }
        }
    }

    fn count(&mut self, size: usize, change: impl Fn(u64) -> u64) {
        self.mapped[size] = change(self.mapped[size]);
        self.footprint.entries = self.mapped.iter().sum();
    }
}

impl<B: Backing> PageTable for CuckooPageTable<B> {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let Page { start, size } = mapping.page;
        let (number, key, _) = slot_of(mapping.page).ok_or(MapError::PageSize)?;
        if self.lookup(start, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        let pte = Pte::leaf(mapping.frame, mapping.flags, size > PageSize::SIZE_4K);
        if let Some((place, at)) = self.tables[number].find(key, os.memory) {
            let at = at.offset(8 * slot_of(mapping.page).map_or(0, |(_, _, number)| number as u64));
            let word = os.memory.read(at);
            os.memory.write(at, Cluster::with_entry(word, pte));
            if number > 0
                && let Err(error) = self.describe(mapping.page, place.way, os)
            {
                os.memory.write(at, word);
                return Err(error);
            }
        } else {
            self.add_slot(mapping.page, pte, os)?;
        }
        self.count(number, |mapped| mapped + 1);
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let (size, key, number) = slot_of(page)?;
        let (place, at) = self.tables[size].find(key, os.memory)?;
        let mut words = os.memory.read_words(at);
        let pte = Cluster::entry(&words, number)?;
        words[number] = Cluster::with_entry(words[number], Pte::default());
        os.memory.write(at.offset(8 * number as u64), words[number]);
        let empty = (0..Cluster::PAGES as usize).all(|other| Cluster::entry(&words, other).is_none());
        if empty {
            // The elastic table removes only slots that are not empty: mark this one as present until then.
            os.memory.write(at.offset(8 * number as u64), words[number] | Pte::PRESENT);
            let CuckooPageTable { tables, backing, footprint, .. } = self;
            tables[size].remove(place, &mut Context { backing, footprint, os });
        }
        if size > 0 || (empty && !self.section_has_any(page, os.memory)) {
            self.forget(page, os);
        }
        if empty {
            self.settle(size, os);
        }
        self.count(size, |mapped| mapped - 1);
        Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        self.change(page, os, |pte| Pte::leaf(pte.frame(), flags, pte.large()))
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        SIZES.iter().zip(self.mapped).filter(|(_, mapped)| *mapped > 0).find_map(|(&size, _)| {
            let page = Page::containing(va, size);
            let (_, pte) = self.find(page, memory)?;
            Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
        })
    }

    fn registers(&self) -> Vec<u64> {
        let mut words = vec![self.walk.generation()];
        self.tables.iter().for_each(|table| table.write_registers(&mut words));
        self.walk.tables.iter().for_each(|table| table.write_registers(&mut words));
        words
    }

    fn registers_generation(&self) -> u64 {
        self.walk.generation() + self.tables.iter().map(|table| table.elastic.generation()).sum::<u64>()
    }

    fn switch_cycles(&self) -> u64 {
        self.backing.switch_cycles()
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        let CuckooPageTable { tables, backing, footprint, .. } = self;
        tables.iter_mut().for_each(|table| {
            table.destroy(&mut Context { backing: &mut *backing, footprint: &mut *footprint, os: &mut *os })
        });
        self.walk.destroy(&mut self.footprint, os);
        self.mapped = [0; 3];
        self.footprint.entries = 0;
    }

    fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        for (size, table) in self.tables.iter().enumerate().filter(|(size, _)| self.mapped[*size] > 0) {
            table.prefetch_sim_host(key_of(va, SIZES[size]), memory);
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        for (name, table) in TABLE_NAMES.iter().zip(&self.tables) {
            let prefix = format!("{prefix}.{name}");
            CuckooTableCounters::of(&table.elastic.counters).report(&prefix, sink);
            let mut bytes = [0; MAX_WAYS];
            for (bytes, way) in bytes.iter_mut().zip(table.elastic.ways()) {
                *bytes = way.target() * <Cluster as super::slot::Slot>::BYTES;
            }
            let [way0, way1, way2, way3] = bytes;
            let state = CuckooTableState { way0, way1, way2, way3, slots_taken: table.elastic.len() };
            state.report(&prefix, sink);
        }
        self.backing.report(prefix, sink);
    }
}
