//! Ranges of addresses in contiguous pinned frames: what a hypervisor gives to the tables of its guests.

use crate::{Kernel, LedgerCause, MapError, Mapping, OsError, PteFlags, Vma};
use ambulator_base::{FRAME_BYTES, Page, PageSize, Pfn, ProcessId, VirtAddr};
use ambulator_memory::BuddyAllocator;

/// Pages moved into contiguous frames, and pages that were not there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    pub moved: u64,
    pub fresh: u64,
}

impl Kernel {
    /// Sees to it that the `frames` base pages from `start` on are in contiguous frames, and pins them.
    /// Pages that are elsewhere are copied; pages that are not there are zeroed; those that lie well stay.
    /// Returns the first frame with what has moved; `None` if there is no such memory, or a page cannot move.
    ///
    /// # Errors
    /// A range that no writable area covers, that is empty or not of whole pages; a table that violated an
    /// invariant.
    pub(crate) fn back_contiguously(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        frames: u64,
    ) -> Result<Option<(Pfn, Gathered)>, OsError> {
        self.alive(process)?;
        let end = start.offset(frames * FRAME_BYTES);
        let area = self.process(process).vmas.find(start).copied();
        let aligned = start.0.is_multiple_of(FRAME_BYTES) && frames > 0;
        let Some(vma) = area.filter(|vma| aligned && end <= vma.end && vma.protection.write) else {
            return Err(OsError::BadCall(format!("no writable area covers [{start}, {end}), which is to be pinned")));
        };
        let found = match self.contiguous(process, start, frames) {
            Some(first) => Some((first, Gathered::default())),
            None => self.gather(process, &vma, start, frames)?,
        };
        self.charge_shootdowns();
        if found.is_some() {
            self.pinned.pin(process, start, end);
        }
        Ok(found)
    }

    /// Ends the pin of a range; its pages stay where they are. False if it was not pinned.
    pub(crate) fn unpin(&mut self, process: ProcessId, start: VirtAddr, frames: u64) -> bool {
        self.pinned.unpin(process, start, start.offset(frames * FRAME_BYTES))
    }

    /// The first frame of base pages that are all there, writable, and in contiguous frames.
    pub(crate) fn contiguous(&self, process: ProcessId, start: VirtAddr, frames: u64) -> Option<Pfn> {
        let first = self.page_state(process, start).frame();
        let lies_well = |i: u64| {
            let state = self.page_state(process, start.offset(i * FRAME_BYTES));
            state.present() && state.writable() && state.frame() == first.offset(i)
        };
        (0..frames).all(lies_well).then_some(first)
    }

    /// Moves pages into a free run of frames.
    fn gather(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        start: VirtAddr,
        frames: u64,
    ) -> Result<Option<(Pfn, Gathered)>, OsError> {
        let bytes = frames * FRAME_BYTES;
        let order = BuddyAllocator::order_of_bytes(bytes).min(self.frames.max_block_order());
        let fmfi = if order == 0 { 0.0 } else { self.frames.nominal_fmfi(order) };
        let affordable = self.reclaim_schedule.leaves_reserve(self.frames.free_frames(), frames);
        let Some(cycles) = self.costs.allocation(bytes, fmfi).filter(|_| affordable) else { return Ok(None) };
        self.prefer_nodes_of_tables();
        let Some(first) = self.frames.allocate_run(frames, 0) else { return Ok(None) };
        self.ledger.charge(LedgerCause::Allocate, cycles);
        let mut gathered = Gathered::default();
        for i in 0..frames {
            let page = Page { start: start.offset(i * FRAME_BYTES), size: PageSize::SIZE_4K };
            if !self.move_into(process, vma, page, first.offset(i), &mut gathered)? {
                // The pages that have moved are well where they are, one by one.
                self.frames.free_range(first.offset(i), frames - i);
                return Ok(None);
            }
        }
        Ok(Some((first, gathered)))
    }

    /// Moves a base page into a frame, or maps a fresh one there. False if it cannot be; it is as before then,
    /// but for a split of its huge page.
    fn move_into(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        page: Page,
        to: Pfn,
        gathered: &mut Gathered,
    ) -> Result<bool, OsError> {
        while self.page_state(process, page.start).size() > page.size {
            match self.try_split(process, page.start)? {
                Ok(()) => {}
                Err((_, MapError::NoMemory { .. })) => return Ok(false),
                Err((page, error)) => return Err(self.table_error(error, page)),
            }
        }
        let state = self.page_state(process, page.start);
        let is_shared = state.present() && self.owners.is_shared(state.frame(), page.size);
        let is_reserved = self.process(process).reservations.find(page.start).is_some();
        if state.swapped() || state.is_hinted() || is_shared || is_reserved || self.pinned.holds(process, page) {
            return Ok(false);
        }
        let flags = PteFlags { accessed: true, dirty: true, ..PteFlags::user(vma.protection) };
        let before = if state.present() { Some(self.unmap_page(process, page)?) } else { None };
        if let Err(error) = self.try_map_page(process, Mapping { page, frame: to, flags }, false) {
            if let Some(entry) = before {
                self.restore_page(process, entry, false)?;
            }
            return match error {
                MapError::NoMemory { .. } => Ok(false),
                error => Err(self.table_error(error, page)),
            };
        }
        match before {
            Some(entry) => {
                self.release_frames(entry.frame, page.size);
                self.charge_copy(1);
                gathered.moved += 1;
            }
            None => {
                self.charge_zero(to, page.size);
                gathered.fresh += 1;
            }
        }
        Ok(true)
    }
}
