//! Fork with copy-on-write.

use crate::{Kernel, Mapping, OsError, PteFlags};
use ambulator_base::{FRAME_BYTES, ProcessId, VirtAddr};

impl Kernel {
    /// Creates a child with the parent's areas and pages. Each page is shared until one of the two writes it.
    ///
    /// # Errors
    /// No memory for the child's table, or no swap for the child's copies of swapped pages.
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
        self.process_mut(child).heap = self.process(parent).heap;
        self.process_mut(child).origin = self.process(parent).origin;
        for vma in vmas.as_slice() {
            self.insert_area(child, *vma);
        }
        self.restore_hints(parent, VirtAddr(0), crate::vma::TOP)?;
        // Unused frames of reservations are not shared.
        self.break_reservations(parent, VirtAddr(0), crate::vma::TOP);
        for vma in vmas.as_slice() {
            let mut at = vma.start;
            while let Some((page, state)) = self.next_page(parent, at, vma.end) {
                at = page.end();
                if state.swapped() {
                    if !self.swap.has_room() {
                        return Err(self.out_of_memory(page.start, FRAME_BYTES));
                    }
                    self.swap.take();
                    self.process_mut(child).pages.set(page.start.vpn(), state);
                    continue;
                }
                let entry = self.entry(parent, page.start)?;
                let flags = PteFlags { writable: false, ..entry.flags };
                if entry.flags.writable {
                    self.set_page_flags(parent, page, flags)?;
                }
                self.process_mut(parent).pages.change(page.start.vpn(), page.size, |t| t.with_copy_on_write(true));
                self.owners.share(entry.frame, page.size);
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
