//! The translations of a process: its page table together with companions and an intermediate address map.

use crate::{
    Companion, CompanionFactory, Entry, Footprint, IntermediateMap, IntermediateMapFactory, MapError, Mapping,
    PageTable, PteFlags, TableContext, TableFactory, TableLock,
};
use ambulator_base::{Asid, CounterSink, FRAME_BYTES, Page, PageSize, Pfn, ProcessId, State, VirtAddr};
use ambulator_memory::PhysicalMemory;

/// Creates the translations of new processes.
pub struct TranslationsFactory {
    /// Creates page tables.
    pub tables: Box<dyn TableFactory>,
    /// Create the companions of each page table.
    pub companions: Vec<Box<dyn CompanionFactory>>,
    /// Creates the intermediate address map of each process, if there is an intermediate address space.
    pub intermediate: Option<Box<dyn IntermediateMapFactory>>,
}

impl TranslationsFactory {
    /// Page tables without companions or intermediate address space.
    pub fn plain(tables: Box<dyn TableFactory>) -> TranslationsFactory {
        TranslationsFactory { tables, companions: Vec::new(), intermediate: None }
    }

    /// Creates translations without pages: first the table, then its companions from the last to the first,
    /// then the intermediate address map.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if there are no frames for a part. All frames have been freed then.
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

/// The translations of a process. Its interface uses virtual addresses. With an intermediate address space,
/// page table and companions use intermediate addresses.
#[derive(State)]
pub struct Translations {
    table: Box<dyn PageTable>,
    #[state(each)]
    companions: Vec<Box<dyn Companion>>,
    #[state(each)]
    intermediate: Option<Box<dyn IntermediateMap>>,
}

/// Clears the range bit, which the kernel neither sets nor sees.
fn without_range_bit(mapping: Mapping) -> Mapping {
    Mapping { flags: PteFlags { ranged: false, ..mapping.flags }, ..mapping }
}

impl Translations {
    /// Maps a page that is not mapped.
    ///
    /// # Errors
    /// The error of the part that was to hold it. All parts are unchanged then.
    pub fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let mapping = without_range_bit(mapping);
        let Some(map) = &mut self.intermediate else { return self.map_table_page(mapping, os) };
        if let Some(page) = map.page(mapping.page, os.memory) {
            return self.map_table_page(Mapping { page, ..mapping }, os);
        }
        let page = map.assign(mapping.page, os)?;
        self.map_table_page(Mapping { page, ..mapping }, os).inspect_err(|_| {
            if let Some(map) = &mut self.intermediate {
                map.unassign(mapping.page, os);
            }
        })
    }

    fn map_table_page(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
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

    /// Unmaps exactly this page (address and size) and returns its entry, including accessed and dirty bits.
    /// `None` if no such page is mapped.
    pub fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let removed = self.unmap_table_page(self.table_page(page, os.memory)?, os)?;
        Some(Mapping { page, ..without_range_bit(removed) })
    }

    fn unmap_table_page(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
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

    /// Changes the flags of a mapped page (such as rights, or accessed and dirty bits). False if it is not
    /// mapped.
    pub fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let flags = PteFlags { ranged: false, ..flags };
        let Some(page) = self.table_page(page, os.memory) else { return false };
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

    /// Looks up `va` in the bytes of all parts (the software walk).
    pub fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let Some(map) = &self.intermediate else { return self.find(va, memory).map(without_range_bit) };
        let intermediate = map.address(va, memory)?;
        let found = self.find(intermediate, memory).map(without_range_bit)?;
        let start = VirtAddr(va.0 - (intermediate.0 - found.page.start.0));
        Some(Mapping { page: Page { start, ..found.page }, ..found })
    }

    fn find(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Mapping> {
        self.holder(va, memory).map(|(_, held)| held).or_else(|| self.table.lookup(va, memory))
    }

    /// The companion that holds the page of `va`, by its index.
    fn holder(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<(usize, Mapping)> {
        self.companions.iter().enumerate().find_map(|(at, companion)| Some((at, companion.held(va, memory)?)))
    }

    /// The page as page table and companions see it.
    fn table_page(&self, page: Page, memory: &PhysicalMemory) -> Option<Page> {
        match &self.intermediate {
            None => Some(page),
            Some(map) => map.page(page, memory),
        }
    }

    /// The start of an area as page table and companions see it.
    fn table_area_start(&self, start: VirtAddr, memory: &PhysicalMemory) -> Option<VirtAddr> {
        self.table_page(Page { start, size: PageSize::SIZE_4K }, memory).map(|page| page.start)
    }

    /// The kernel announces a VMA before its pages.
    pub fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.vma_extended(start, len, (start, start.offset(len)), os);
    }

    /// The kernel announces `len` bytes from `start` on before their pages; with what it has merged them
    /// with, they are the VMA from the first to before the second address of `vma`.
    pub fn vma_extended(&mut self, start: VirtAddr, len: u64, vma: (VirtAddr, VirtAddr), os: &mut TableContext<'_>) {
        if let Some(map) = &mut self.intermediate {
            map.add_area(start, len, vma, os);
        }
        if let Some(start) = self.table_area_start(start, os.memory) {
            self.table.vma_added(start, len, os);
            for companion in &mut self.companions {
                companion.vma_added(start, len, os);
            }
        }
    }

    /// The kernel announces that a VMA has gone; its pages are unmapped already. Returns the parts of areas
    /// of an intermediate address space that it took away, each with its first address and its bytes.
    pub fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) -> Vec<(VirtAddr, u64)> {
        if let Some(start) = self.table_area_start(start, os.memory) {
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

    /// The hypervisor's answer to the page table's request for contiguous memory.
    pub(crate) fn area_answered(&mut self, first: Pfn, slot: Option<u32>) {
        self.table.area_answered(first, slot);
    }

    /// The contents of the page table's registers.
    pub fn registers(&self) -> Vec<u64> {
        self.table.registers()
    }

    /// The contents of the companions' registers. With several companions, the length precedes the contents
    /// of each.
    pub fn companion_registers(&self) -> Vec<u64> {
        let mut with = self.companions.iter().filter(|companion| companion.has_registers());
        match (with.next(), with.next()) {
            (Some(only), None) => only.registers(),
            (first, second) => {
                let each = first.into_iter().chain(second).chain(with).map(|companion| companion.registers());
                each.flat_map(|own| std::iter::once(own.len() as u64).chain(own)).collect()
            }
        }
    }

    /// The contents of the registers of the intermediate address map; empty without one.
    pub fn intermediate_registers(&self) -> Vec<u64> {
        self.intermediate.as_ref().map_or_else(Vec::new, |map| map.registers())
    }

    /// Changes whenever registers of any part change.
    pub fn registers_generation(&self) -> u64 {
        let companions: u64 = self.companions.iter().map(|companion| companion.registers_generation()).sum();
        let map = self.intermediate.as_ref().map_or(0, |map| map.registers_generation());
        self.table.registers_generation() + companions + map
    }

    /// Additional cycles of a context switch to or from this process, for all parts.
    pub fn switch_cycles(&self) -> u64 {
        let companions: u64 = self.companions.iter().map(|companion| companion.switch_cycles()).sum();
        let map = self.intermediate.as_ref().map_or(0, |map| map.switch_cycles());
        self.table.switch_cycles() + companions + map
    }

    /// The memory of all parts; the entries are the mapped pages.
    pub fn footprint(&self) -> Footprint {
        let companions = self.companions.iter().map(|companion| companion.footprint());
        let sum = companions.fold(self.table.footprint(), |sum, own| Footprint {
            entries: sum.entries + own.entries,
            ..sum.combined_with(own)
        });
        self.intermediate.as_ref().map_or(sum, |map| sum.combined_with(map.footprint()))
    }

    /// Frees all frames of all parts at process exit. The pages are unmapped already.
    pub fn destroy(&mut self, os: &mut TableContext<'_>) {
        if let Some(map) = &mut self.intermediate {
            map.destroy(os);
        }
        for companion in &mut self.companions {
            companion.destroy(os);
        }
        self.table.destroy(os);
    }

    /// Prefetches the bytes that a walk for `va` reads last into the sim host's cache (simulator speed only).
    #[inline]
    pub fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        if self.intermediate.is_none() {
            self.table.prefetch_sim_host(va, memory);
        }
    }

    /// Reports the counters of the software halves to `sink`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.table.report(prefix, sink);
        for companion in self.companions.iter().rev() {
            companion.report(prefix, sink);
        }
        if let Some(map) = &self.intermediate {
            map.report(prefix, sink);
        }
    }

    /// Reports statistics of the current bytes to `sink`, once at the end of a run.
    pub fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        self.table.inspect(memory, prefix, sink);
        for companion in self.companions.iter().rev() {
            companion.inspect(memory, prefix, sink);
        }
    }
}
