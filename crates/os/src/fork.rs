//! Fork with copy-on-write.

use crate::kernel::{Kernel, process_mut, table_context};
use crate::{Mapping, OsError, PteFlags};
use ambulator_base::{FRAME_BYTES, ProcessId, VirtAddr};

impl Kernel {
    /// A child with the parent's areas and pages, every page shared until one of the two writes it.
    ///
    /// # Errors
    /// No memory for the child's table, or no swap for its share of the parent's swapped pages.
    pub fn fork(&mut self, parent: ProcessId) -> Result<ProcessId, OsError> {
        self.alive(parent)?;
        self.counters.forks += 1;
        let child = self.spawn()?;
        match self.copy_address_space(parent, child) {
            Ok(()) => {
                self.charge_shootdowns();
                Ok(child)
            }
            Err(error) => {
                self.exit(child)?;
                Err(error)
            }
        }
    }

    fn copy_address_space(&mut self, parent: ProcessId, child: ProcessId) -> Result<(), OsError> {
        let vmas = self.process(parent).vmas.clone();
        process_mut!(self, child).heap = self.process(parent).heap;
        for vma in vmas.as_slice() {
            let owner = process_mut!(self, child);
            owner.vmas.insert(*vma);
            owner.table.vma_added(vma.start, vma.len(), &mut table_context!(self));
        }
        // Reserved but unused frames stay the parent's alone.
        self.break_reservations(parent, VirtAddr(0), crate::vma::TOP);
        for vma in vmas.as_slice() {
            let mut at = vma.start;
            while let Some((page, truth)) = self.next_page(parent, at, vma.end) {
                at = page.end();
                if truth.swapped() {
                    if !self.can_swap() {
                        return Err(self.out_of_memory(page.start, FRAME_BYTES));
                    }
                    self.swap_used += 1;
                    process_mut!(self, child).pages.set(page.start.vpn(), truth);
                    continue;
                }
                let entry = self.entry(parent, page.start)?;
                let flags = PteFlags { writable: false, ..entry.flags };
                if entry.flags.writable {
                    self.set_page_flags(parent, page, flags)?;
                }
                process_mut!(self, parent).pages.change(page.start.vpn(), page.size, |t| t.with_copy_on_write(true));
                for owners in &mut self.sharers[entry.frame.0 as usize..(entry.frame.0 + page.size.frames()) as usize] {
                    *owners += 1;
                }
                let mapping = Mapping { page, frame: entry.frame, flags: PteFlags { accessed: false, ..flags } };
                if let Err(error) = self.map_page(child, mapping, true) {
                    self.release_frames(entry.frame, page.size);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
