//! The life of processes: creation, context switches and exit.

use crate::{Kernel, LedgerCause, OsError, TableContext};
use ambulator_base::{Asid, Page, PageSize, ProcessId, VirtAddr};

impl Kernel {
    /// Creates a process without mappings.
    ///
    /// # Errors
    /// No memory for its page table or a companion, or too many live processes.
    pub fn spawn(&mut self) -> Result<ProcessId, OsError> {
        let asid = self.processes.allocate_asid().ok_or(OsError::Processes)?;
        let number = self.processes.next_number();
        self.prefer_nodes_of_tables();
        let Kernel { factory, memory, frames, ledger, costs, cores, .. } = self;
        let mut os = TableContext { memory, frames, ledger, costs, cores: *cores };
        match factory.new_process(number, asid, &mut os) {
            Ok(translations) => Ok(self.processes.add(asid, translations)),
            Err(error) => {
                self.processes.release_asid(asid);
                Err(self.table_error(error, Page { start: VirtAddr(0), size: PageSize::SIZE_4K }))
            }
        }
    }

    /// Ends a process and frees its pages and its table.
    pub(crate) fn exit(&mut self, process: ProcessId) -> Result<(), OsError> {
        for vma in self.process(process).vmas.as_slice().to_vec() {
            self.unmap_range(process, vma.start, vma.end)?;
        }
        let asid = self.process(process).asid();
        self.shootdowns.push_space(asid);
        self.identifiers.release(asid);
        self.placement.process_ended(process);
        let mut removed = self.processes.remove(process);
        let footprint = removed.translations.footprint();
        self.exited.peak_bytes = self.exited.peak_bytes.max(footprint.peak_bytes);
        self.exited.largest_contiguous = self.exited.largest_contiguous.max(footprint.largest_contiguous);
        let Kernel { memory, frames, ledger, costs, cores, .. } = self;
        removed.translations.destroy(&mut TableContext { memory, frames, ledger, costs, cores: *cores });
        Ok(())
    }

    /// Charges a switch of a core to another process. Returns the address space whose identifier the core
    /// takes back for it, if all of them were given: its entries must leave the core's TLBs. The cost of a
    /// switch includes that.
    pub fn context_switch(&mut self, core: usize, from: ProcessId, to: ProcessId) -> Option<Asid> {
        self.counters.context_switches += 1;
        let both = [from, to].into_iter().filter_map(|process| self.processes.find(process));
        let registers: u64 = both.clone().map(|process| process.translations.switch_cycles()).sum();
        self.ledger.charge(LedgerCause::Switch, self.costs.context_switch + registers);
        // The first process of a core runs from the start, without a switch to it.
        let lost = both.filter_map(|process| self.identifiers.run(core, process.asid())).last();
        self.counters.asid_recycles += u64::from(lost.is_some());
        lost
    }
}
