//! A process's translations: its page table, the companions beside it, and the intermediate address space in
//! front of it, as one.

use crate::{
    Companion, CompanionFactory, Entry, Footprint, IntermediateMap, IntermediateMapFactory, MapError, Mapping,
    PageTable, PteFlags, TableContext, TableFactory, TableLock,
};
use ambulator_base::{Asid, CounterSink, FRAME_BYTES, Page, PageSize, ProcessId, VirtAddr};
use ambulator_memory::PhysicalMemory;

/// Makes the translations of new processes.
pub struct TranslationsFactory {
    /// Makes page tables.
    pub tables: Box<dyn TableFactory>,
    /// Make what stands beside each page table.
    pub companions: Vec<Box<dyn CompanionFactory>>,
    /// Makes the map in front of each page table, if there is an intermediate address space.
    pub intermediate: Option<Box<dyn IntermediateMapFactory>>,
}

impl TranslationsFactory {
    /// Page tables with nothing beside them.
    pub fn plain(tables: Box<dyn TableFactory>) -> TranslationsFactory {
        TranslationsFactory { tables, companions: Vec::new(), intermediate: None }
    }

    /// Translations without any page: the table first, then its companions, the last of the list first, then
    /// the map in front of it.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when the first frames of any part cannot be had; all frames have gone back.
    pub fn new_process(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Translations, MapError> {
        if !self.companions.iter_mut().all(|factory| factory.reserve(os.frames)) {
            return Err(MapError::NoMemory { bytes: FRAME_BYTES });
        }
        let table = self.tables.new_table(process, asid, os)?;
        let mut made = Translations { table, companions: Vec::new(), intermediate: None };
        match self.complete(&mut made, process, asid, os) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.destroy(os);
                Err(error)
            }
        }
    }

    fn complete(
        &mut self,
        made: &mut Translations,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<(), MapError> {
        for factory in self.companions.iter_mut().rev() {
            made.companions.insert(0, factory.new_companion(process, asid, os)?);
        }
        if let Some(factory) = &mut self.intermediate {
            made.intermediate = Some(factory.new_map(process, asid, os)?);
        }
        Ok(())
    }
}

/// The translations of a process. Pages are named by their virtual addresses here; with an intermediate
/// address space, page table and companions see them by their addresses there.
pub struct Translations {
    table: Box<dyn PageTable>,
    companions: Vec<Box<dyn Companion>>,
    intermediate: Option<Box<dyn IntermediateMap>>,
}

/// The kernel does not know of ranges: what it hands over and gets back has no range bit.
fn without_range_bit(mapping: Mapping) -> Mapping {
    Mapping { flags: PteFlags { ranged: false, ..mapping.flags }, ..mapping }
}

impl Translations {
    /// Maps a page that is not mapped.
    ///
    /// # Errors
    /// What the part that was to hold it says; every part is as it was.
    pub fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let mapping = without_range_bit(mapping);
        let Some(map) = &mut self.intermediate else { return self.map_behind(mapping, os) };
        if let Some(page) = map.page(mapping.page, os.memory) {
            return self.map_behind(Mapping { page, ..mapping }, os);
        }
        let page = map.assign(mapping.page, os)?;
        self.map_behind(Mapping { page, ..mapping }, os).inspect_err(|_| {
            if let Some(map) = &mut self.intermediate {
                map.remove_area(mapping.page.start, mapping.page.size.bytes(), os);
            }
        })
    }

    fn map_behind(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        if let Some(at) = self.companions.iter().position(|companion| companion.claims(&mapping)) {
            if self.find(mapping.page.start, os.memory).is_some() {
                return Err(MapError::Occupied);
            }
            self.companions[at].hold(&mapping, os);
            return Ok(());
        }
        let Translations { table, companions, .. } = self;
        let mut entry = mapping;
        for companion in &*companions {
            entry.flags = companion.new_entry_flags(&entry, table.as_ref(), os.memory);
        }
        table.map(entry, os)?;
        for companion in companions {
            companion.mapped(&entry, table.as_mut(), os);
        }
        Ok(())
    }

    /// Unmaps exactly this page (address and size), returning what its entry said, accessed and dirty bits
    /// included. `None` if no such page is mapped.
    pub fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let gone = self.unmap_behind(self.behind(page, os.memory)?, os)?;
        Some(Mapping { page, ..without_range_bit(gone) })
    }

    fn unmap_behind(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        if let Some((at, held)) = self.holder(page.start, os.memory) {
            if held.page != page {
                return None;
            }
            self.companions[at].release(page, os);
            return Some(held);
        }
        let Translations { table, companions, .. } = self;
        if !companions.is_empty() {
            let entry = table.lookup(page.start, os.memory).filter(|entry| entry.page == page)?;
            for companion in companions {
                companion.unmapping(&entry, table.as_mut(), os);
            }
        }
        table.unmap(page, os)
    }

    /// Rewrites the flags of a mapped page (protect; clearing accessed or dirty bits). False if it is not
    /// mapped.
    pub fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let flags = PteFlags { ranged: false, ..flags };
        let Some(page) = self.behind(page, os.memory) else { return false };
        if let Some((at, held)) = self.holder(page.start, os.memory) {
            if held.page == page {
                self.companions[at].set_held_flags(page, flags, os);
            }
            return held.page == page;
        }
        let Translations { table, companions, .. } = self;
        if companions.is_empty() {
            return table.set_flags(page, flags, os);
        }
        let Some(entry) = table.lookup(page.start, os.memory).filter(|entry| entry.page == page) else {
            return false;
        };
        let mut written = flags;
        for companion in &mut *companions {
            written = companion.changing_flags(&entry, written, table.as_mut(), os);
        }
        if !table.set_flags(page, written, os) {
            return false;
        }
        for companion in companions {
            companion.changed_flags(&entry, written, table.as_mut(), os);
        }
        true
    }

    /// What the bytes say about `va`: the software walk.
    pub fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let Some(map) = &self.intermediate else { return self.find(va, memory).map(without_range_bit) };
        let there = map.address(va, memory)?;
        let found = self.find(there, memory).map(without_range_bit)?;
        let start = VirtAddr(va.0 - (there.0 - found.page.start.0));
        Some(Mapping { page: Page { start, ..found.page }, ..found })
    }

    fn find(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Mapping> {
        self.holder(va, memory).map(|(_, held)| held).or_else(|| self.table.lookup(va, memory))
    }

    /// The companion that holds the page around `va`, by its place in the list.
    fn holder(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<(usize, Mapping)> {
        self.companions.iter().enumerate().find_map(|(at, companion)| Some((at, companion.held(va, memory)?)))
    }

    /// The page as table and companions see it.
    fn behind(&self, page: Page, memory: &PhysicalMemory) -> Option<Page> {
        match &self.intermediate {
            None => Some(page),
            Some(map) => map.page(page, memory),
        }
    }

    /// Where an area begins as table and companions see it.
    fn area_behind(&self, start: VirtAddr, memory: &PhysicalMemory) -> Option<VirtAddr> {
        self.behind(Page { start, size: PageSize::SIZE_4K }, memory).map(|page| page.start)
    }

    /// The kernel announces a VMA before its pages.
    pub fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        if let Some(map) = &mut self.intermediate {
            map.add_area(start, len, os);
        }
        if let Some(start) = self.area_behind(start, os.memory) {
            self.table.vma_added(start, len, os);
            for companion in &mut self.companions {
                companion.vma_added(start, len, os);
            }
        }
    }

    /// The kernel announces that a VMA has gone; its pages are unmapped already. Returns the parts of areas of an
    /// intermediate address space that it took away, each with its first address and its bytes.
    pub fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) -> Vec<(VirtAddr, u64)> {
        if let Some(start) = self.area_behind(start, os.memory) {
            for companion in &mut self.companions {
                companion.vma_removed(start, len, os);
            }
            self.table.vma_removed(start, len, os);
        }
        self.intermediate.as_mut().map_or_else(Vec::new, |map| map.remove_area(start, len, os))
    }

    /// The lock of the part of the page table that holds this page's entry.
    pub fn lock_of(&self, page: Page) -> TableLock {
        self.table.lock_of(page)
    }

    /// The words of the page table's registers.
    pub fn registers(&self) -> Vec<u64> {
        self.table.registers()
    }

    /// The words of the companions' registers. Where there are several companions, each one's words follow their number.
    pub fn companion_registers(&self) -> Vec<u64> {
        match self.companions.as_slice() {
            [only] => only.registers(),
            several => {
                let each = several.iter().map(|companion| companion.registers());
                each.flat_map(|own| std::iter::once(own.len() as u64).chain(own)).collect()
            }
        }
    }

    /// The words of the registers of the intermediate map; none without one.
    pub fn intermediate_registers(&self) -> Vec<u64> {
        self.intermediate.as_ref().map_or_else(Vec::new, |map| map.registers())
    }

    /// Changes whenever registers of any part do.
    pub fn registers_generation(&self) -> u64 {
        let companions: u64 = self.companions.iter().map(|companion| companion.registers_generation()).sum();
        let map = self.intermediate.as_ref().map_or(0, |map| map.registers_generation());
        self.table.registers_generation() + companions + map
    }

    /// Cycles that a context switch to or from this process takes beyond what any does: those of all parts.
    pub fn switch_cycles(&self) -> u64 {
        let companions: u64 = self.companions.iter().map(|companion| companion.switch_cycles()).sum();
        let map = self.intermediate.as_ref().map_or(0, |map| map.switch_cycles());
        self.table.switch_cycles() + companions + map
    }

    /// What all parts take; the entries are the pages that are mapped.
    pub fn footprint(&self) -> Footprint {
        let companions = self.companions.iter().map(|companion| companion.footprint());
        let sum = companions.fold(self.table.footprint(), |sum, own| Footprint {
            entries: sum.entries + own.entries,
            ..sum.beside(own)
        });
        self.intermediate.as_ref().map_or(sum, |map| sum.beside(map.footprint()))
    }

    /// Frees all frames of all parts (process exit; its pages are unmapped already).
    pub fn destroy(&mut self, os: &mut TableContext<'_>) {
        if let Some(map) = &mut self.intermediate {
            map.destroy(os);
        }
        for companion in &mut self.companions {
            companion.destroy(os);
        }
        self.table.destroy(os);
    }

    /// A hint to the host only: the bytes that a walk for `va` will read last are wanted in the host's cache
    /// soon.
    #[inline]
    pub fn prefetch_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        if self.intermediate.is_none() {
            self.table.prefetch_host(va, memory);
        }
    }

    /// Hands the software halves' own counters to `sink`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.table.report(prefix, sink);
        for companion in self.companions.iter().rev() {
            companion.report(prefix, sink);
        }
        if let Some(map) = &self.intermediate {
            map.report(prefix, sink);
        }
    }

    /// Hands what can be read from the bytes as they are now to `sink`: asked once, when a run ends.
    pub fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        self.table.inspect(memory, prefix, sink);
        for companion in self.companions.iter().rev() {
            companion.inspect(memory, prefix, sink);
        }
    }
}
