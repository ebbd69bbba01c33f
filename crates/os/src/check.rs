//! The whole kernel's invariants, for tests.

use crate::Kernel;
use ambulator_base::{PageSize, ProcessId, VirtAddr};
use std::collections::BTreeMap;

impl Kernel {
    /// Checks that areas are sorted and disjoint, that every page lies in an area, that the table's bytes say of every
    /// page what the truth says, that rights agree with the area's, and that each frame has exactly the owners that are
    /// counted.
    ///
    /// # Errors
    /// A sentence about the first thing that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let mut owners: BTreeMap<u64, u16> = BTreeMap::new();
        let mut swapped = 0;
        for at in 0..self.processes.len() {
            let process = ProcessId(at as u32);
            if !self.is_alive(process) {
                continue;
            }
            let vmas = self.process(process).vmas.as_slice().to_vec();
            for pair in vmas.windows(2) {
                if pair[0].end > pair[1].start {
                    return Err(format!("areas of process {process} overlap: {pair:?}"));
                }
            }
            let mut va = VirtAddr(0);
            let mut pages = 0;
            while let Some((page, truth)) = self.next_page(process, va, VirtAddr(1 << 57)) {
                va = page.end();
                let Some(vma) = vmas.iter().find(|vma| vma.contains(page.start)) else {
                    return Err(format!("process {process} has a page at {} outside its areas", page.start));
                };
                if page.end() > vma.end {
                    return Err(format!(
                        "the {} page at {} passes the end of its area {}",
                        page.size, page.start, vma.end
                    ));
                }
                if !truth.present() {
                    swapped += 1;
                    continue;
                }
                pages += 1;
                let Some(entry) = self.process(process).table.lookup(page.start, &self.memory) else {
                    return Err(format!("the table of process {process} has nothing at {}", page.start));
                };
                if entry.page != page || entry.frame != truth.frame() || entry.flags.writable != truth.writable() {
                    return Err(format!("at {} the table says {entry:?}, the truth {truth:?}", page.start));
                }
                if truth.writable() && (truth.copy_on_write() || !vma.protection.write) {
                    return Err(format!("the page at {} is writable and must not be", page.start));
                }
                for i in 0..page.size.frames() {
                    let part = self.truth(process, page.start.offset(i << 12));
                    if part.frame().0 != truth.frame().0 + i || part.size() != page.size {
                        return Err(format!("part {i} of the {} page at {} is elsewhere", page.size, page.start));
                    }
                    *owners.entry(truth.frame().0 + i).or_default() += 1;
                }
            }
            let entries = self.process(process).table.footprint().entries;
            if entries != pages {
                return Err(format!(
                    "the table of process {process} counts {entries} entries, the truth has {pages} pages"
                ));
            }
            for (number, reservation) in &self.process(process).reservations {
                for i in 0..PageSize::SIZE_2M.frames() {
                    if self.frames.is_free(reservation.frame.offset(i)) {
                        return Err(format!("frame {i} of the reservation for 2 MiB number {number} is free"));
                    }
                }
            }
        }
        for (frame, n) in &owners {
            if self.frames.is_free(ambulator_base::Pfn(*frame)) {
                return Err(format!("frame {frame:#x} is mapped and free"));
            }
            if self.sharers[*frame as usize] + 1 != *n {
                return Err(format!(
                    "frame {frame:#x} has {n} owners and counts {}",
                    self.sharers[*frame as usize] + 1
                ));
            }
        }
        if swapped != self.swap_used {
            return Err(format!("{swapped} pages are in swap, {} are counted", self.swap_used));
        }
        Ok(())
    }
}
