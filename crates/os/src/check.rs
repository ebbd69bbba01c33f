//! The invariants of the kernel, for tests.

use crate::Kernel;
use ambulator_base::{FRAME_BYTES, PageSize, Pfn, VirtAddr};

impl Kernel {
    /// Checks that areas are sorted and disjoint, that every page lies in an area, that the bytes of the
    /// table match every page state, that rights match the area's, that a reservation is one area's, and that
    /// the owners of each frame are counted correctly.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub fn check(&self) -> Result<(), String> {
        let mut owners = vec![0u16; self.owners.frames()];
        let mut swapped = 0;
        for process in self.live_processes() {
            let vmas = self.process(process).vmas.as_slice().to_vec();
            for vma in &vmas {
                let aligned = vma.start.0 % FRAME_BYTES == 0 && vma.end.0 % FRAME_BYTES == 0;
                if vma.start >= vma.end || !aligned {
                    return Err(format!("process {process} has an invalid area: {vma:?}"));
                }
            }
            for pair in vmas.windows(2) {
                if pair[0].end > pair[1].start {
                    return Err(format!("areas of process {process} overlap: {pair:?}"));
                }
            }
            let mut va = VirtAddr(0);
            let mut pages = 0;
            while let Some((page, state)) = self.next_page(process, va, crate::vma::TOP) {
                va = page.end();
                let Some(vma) = vmas.iter().find(|vma| vma.contains(page.start)) else {
                    return Err(format!("process {process} has a page at {} outside its areas", page.start));
                };
                if page.end() > vma.end {
                    return Err(format!(
                        "the {} page at {} exceeds the end of its area {}",
                        page.size, page.start, vma.end
                    ));
                }
                if state.is_hinted() {
                    if self.process(process).translations.lookup(page.start, &self.memory).is_some() {
                        return Err(format!("the table has an entry at {}, which a scan took away", page.start));
                    }
                    for i in 0..page.size.frames() {
                        owners[(state.frame().0 + i) as usize] += 1;
                    }
                    continue;
                }
                if !state.present() {
                    swapped += 1;
                    continue;
                }
                pages += 1;
                let Some(entry) = self.process(process).translations.lookup(page.start, &self.memory) else {
                    return Err(format!("the table of process {process} has no entry at {}", page.start));
                };
                if entry.page != page || entry.frame != state.frame() || entry.flags.writable != state.writable() {
                    return Err(format!("at {} the table has {entry:?}, the kernel {state:?}", page.start));
                }
                if state.writable() && (state.copy_on_write() || !vma.protection.write) {
                    return Err(format!("the page at {} is writable and must not be", page.start));
                }
                if !state.writable() && !state.copy_on_write() && vma.protection.write {
                    return Err(format!("the page at {} is not writable, but should be", page.start));
                }
                if state.executable() != vma.protection.execute || entry.flags.executable != vma.protection.execute {
                    return Err(format!("the execute right of the page at {} differs from its area", page.start));
                }
                if !self.process(process).reservations.matches(page, state.frame()) {
                    return Err(format!("the page at {} is not in the frame of its reservation", page.start));
                }
                for i in 0..page.size.frames() {
                    let part = self.page_state(process, page.start.offset(i << 12));
                    if part.frame().0 != state.frame().0 + i || part.size() != page.size {
                        return Err(format!(
                            "part {i} of the {} page at {} is in another frame",
                            page.size, page.start
                        ));
                    }
                    owners[(state.frame().0 + i) as usize] += 1;
                }
            }
            let entries = self.process(process).translations.footprint().entries;
            if entries != pages {
                return Err(format!("the table of process {process} has {entries} entries, the kernel {pages} pages"));
            }
            for (huge, reservation) in self.process(process).reservations.all() {
                let areas = self.process(process).vmas.parts(huge.start, huge.end());
                if !matches!(areas[..], [area] if area.start == huge.start) {
                    return Err(format!("{huge:?} is reserved, but is not the start of one area: {areas:?}"));
                }
                let mut used = 0;
                for i in 0..PageSize::SIZE_2M.frames() {
                    if self.frames.is_free(reservation.frame.offset(i)) {
                        return Err(format!("frame {i} of the reservation for {huge:?} is free"));
                    }
                    let va = huge.start.offset(i * FRAME_BYTES);
                    used += u64::from(self.page_state(process, va).present());
                }
                if used != reservation.used {
                    return Err(format!("{huge:?} has {used} pages, its reservation {reservation:?}"));
                }
            }
        }
        for (frame, owners) in owners.iter().enumerate() {
            if *owners > 0 && self.frames.is_free(Pfn(frame as u64)) {
                return Err(format!("frame {frame:#x} is mapped but free"));
            }
            if self.owners.beyond_first(frame) != owners.saturating_sub(1) {
                return Err(format!(
                    "frame {frame:#x} has {owners} owners, and {} beyond the first are counted",
                    self.owners.beyond_first(frame)
                ));
            }
        }
        self.processes.check()?;
        if swapped != self.swap.used() {
            return Err(format!("{swapped} pages are in swap, but {} are counted", self.swap.used()));
        }
        Ok(())
    }

    /// Checks that every frame is accounted for: free, taken before the kernel started, mapped, reserved, or
    /// part of a table. Valid only if nothing else takes frames, as with [`crate::BuddyPlacement`].
    ///
    /// # Errors
    /// The number of missing frames.
    pub fn check_frames(&self) -> Result<(), String> {
        let mut mapped = vec![false; self.owners.frames()];
        let mut tables = 0;
        for (number, process) in self.processes.live() {
            tables += process.translations.footprint().bytes / FRAME_BYTES;
            for (_, reservation) in process.reservations.all() {
                let first = reservation.frame.0 as usize;
                mapped[first..first + PageSize::SIZE_2M.frames() as usize].fill(true);
            }
            let mut va = VirtAddr(0);
            while let Some((page, state)) = self.next_page(number, va, crate::vma::TOP) {
                va = page.end();
                if state.present() || state.is_hinted() {
                    let first = state.frame().0 as usize;
                    mapped[first..first + page.size.frames() as usize].fill(true);
                }
            }
        }
        let pages = mapped.iter().filter(|mapped| **mapped).count() as u64;
        let taken = self.frames.total_frames() - self.frames.free_frames() - self.initially_taken;
        if taken == pages + tables {
            return Ok(());
        }
        Err(format!("{taken} frames are taken; {pages} are mapped or reserved, {tables} are part of tables"))
    }
}
