//! The kernel's range: one learned index for the upper half of all address spaces (LVM Sec. 5.2, kernel
//! mappings).

use super::{LvmSpec, LvmTable};
use ambulator_base::{CounterSink, Page, State, VirtAddr, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableLock};
use std::sync::{Arc, Mutex, MutexGuard};

/// The first address of the upper half: canonical addresses repeat their highest bit.
pub(crate) fn kernel_base(va_bits: u32) -> u64 {
    u64::MAX << (va_bits - 1)
}

/// The index of the kernel's range, one for all processes of a machine.
pub(crate) type KernelIndex = Arc<Mutex<LvmTable>>;

/// A process's table: its own index for the lower half, the shared one for the upper half.
#[derive(State)]
pub(crate) struct ProcessTable {
    own: LvmTable,
    kernel: KernelIndex,
    #[state(skip)]
    base: u64,
}

impl ProcessTable {
    /// An empty lower half, with the shared index of the kernel's range.
    pub(crate) fn new(spec: &LvmSpec, va_bits: u32, kernel: KernelIndex) -> ProcessTable {
        ProcessTable { own: LvmTable::new(spec, va_bits), kernel, base: kernel_base(va_bits) }
    }

    fn kernel(&self) -> MutexGuard<'_, LvmTable> {
        lock(&self.kernel)
    }

    /// The page relative to the kernel's range, if it is in it.
    fn upper(&self, page: Page) -> Option<Page> {
        let start = page.start.0.checked_sub(self.base)?;
        Some(Page { start: VirtAddr(start), size: page.size })
    }

    fn absolute(&self, mapping: Mapping) -> Mapping {
        let page = Page { start: VirtAddr(mapping.page.start.0 + self.base), size: mapping.page.size };
        Mapping { page, ..mapping }
    }
}

impl PageTable for ProcessTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        match self.upper(mapping.page) {
            None => self.own.map(mapping, os),
            Some(page) => self.kernel().map(Mapping { page, ..mapping }, os),
        }
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        match self.upper(page) {
            None => self.own.unmap(page, os),
            Some(page) => {
                let found = self.kernel().unmap(page, os);
                found.map(|mapping| self.absolute(mapping))
            }
        }
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        match self.upper(page) {
            None => self.own.set_flags(page, flags, os),
            Some(page) => self.kernel().set_flags(page, flags, os),
        }
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        match va.0.checked_sub(self.base) {
            None => self.own.lookup(va, memory),
            Some(within) => {
                let found = self.kernel().lookup(VirtAddr(within), memory);
                found.map(|mapping| self.absolute(mapping))
            }
        }
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        match start.0.checked_sub(self.base) {
            None => self.own.vma_added(start, len, os),
            Some(within) => self.kernel().vma_added(VirtAddr(within), len, os),
        }
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        match start.0.checked_sub(self.base) {
            None => self.own.vma_removed(start, len, os),
            Some(within) => self.kernel().vma_removed(VirtAddr(within), len, os),
        }
    }

    fn lock_of(&self, page: Page) -> TableLock {
        self.own.lock_of(page)
    }

    /// The number of words of the process's own registers, those words, and the words of the kernel's.
    fn registers(&self) -> Vec<u64> {
        let own = self.own.registers();
        [vec![own.len() as u64], own, self.kernel().registers()].concat()
    }

    fn registers_generation(&self) -> u64 {
        self.own.registers_generation() + self.kernel().registers_generation()
    }

    /// The footprint of the process alone: the kernel's index belongs to no process.
    fn footprint(&self) -> Footprint {
        self.own.footprint()
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.own.destroy(os);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.own.report(prefix, sink);
    }
}
