//! The life of processes: creation, context switches and exit.

use crate::{Kernel, LedgerCause, OsError, TableContext};
use ambulator_base::{Page, PageSize, ProcessId, VirtAddr};

impl Kernel {
    /// Creates a process without mappings.
    ///
    /// # Errors
    /// No memory for its page table or a companion.
    pub fn spawn(&mut self) -> Result<ProcessId, OsError> {
        let (asid, rolled_over) = self.processes.allocate_asid();
        if rolled_over {
            self.counters.asid_rollovers += 1;
            self.shootdowns.push_all();
        }
        let number = self.processes.next_number();
        let Kernel { factory, memory, frames, ledger, costs, .. } = self;
        match factory.new_process(number, asid, &mut TableContext { memory, frames, ledger, costs }) {
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
        self.shootdowns.push_space(self.process(process).asid());
        let mut removed = self.processes.remove(process);
        let footprint = removed.translations.footprint();
        self.exited.peak_bytes = self.exited.peak_bytes.max(footprint.peak_bytes);
        self.exited.largest_contiguous = self.exited.largest_contiguous.max(footprint.largest_contiguous);
        let Kernel { memory, frames, ledger, costs, .. } = self;
        removed.translations.destroy(&mut TableContext { memory, frames, ledger, costs });
        Ok(())
    }

    /// Charges a context switch. If the next process shares its address-space identifier, the switch flushes
    /// the identifier's TLB entries; the cost of a switch includes that.
    pub fn context_switch(&mut self, from: ProcessId, to: ProcessId) {
        self.counters.context_switches += 1;
        let both = [from, to].into_iter().filter_map(|process| self.processes.find(process));
        let registers: u64 = both.map(|process| process.translations.switch_cycles()).sum();
        self.ledger.charge(LedgerCause::Switch, self.costs.context_switch + registers);
        let Some(next) = self.processes.find(to) else { return };
        if self.processes.is_shared(next.asid()) {
            self.shootdowns.push_space(next.asid());
            self.shootdowns.take_counts();
        }
    }
}
