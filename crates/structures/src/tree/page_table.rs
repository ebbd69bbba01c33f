//! Every tree is a page table.

use super::{Layout, Tree};
use ambulator_base::{CounterSink, Page, Pfn, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext};

impl<L: Layout> PageTable for Tree<L> {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        Tree::map(self, mapping, os)
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        Tree::unmap(self, page, os)
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        Tree::set_flags(self, page, flags, os)
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        Tree::lookup(self, va, memory)
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.layout.vma_added(start, len, &mut self.footprint, os);
        self.move_nodes(os);
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.layout.vma_removed(start, len, &mut self.footprint, os);
        self.move_nodes(os);
    }

    fn registers(&self) -> Vec<u64> {
        let mut registers = Tree::registers(self).to_vec();
        self.layout.registers(&mut registers);
        registers
    }

    fn registers_generation(&self) -> u64 {
        self.layout.generation()
    }

    fn switch_cycles(&self) -> u64 {
        self.layout.switch_cycles()
    }

    fn area_answered(&mut self, first: Pfn, slot: Option<u32>) {
        self.layout.area_answered(first, slot);
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        Tree::destroy(self, os);
    }

    fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        Tree::prefetch_sim_host(self, va, memory);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.layout.report(prefix, sink);
    }
}
