//! Operations on single pages: map, unmap, split, and their frames. Tables and page states change together,
//! and only here.

use crate::{Kernel, LedgerCause, MapError, Mapping, OsError, PageState, PlaceRequest, PteFlags, Vma};
use ambulator_base::{AccessKind, FRAME_BYTES, Page, PageSize, Pfn, ProcessId, VirtAddr, falls_within, mix64};

fn missing_page(page: Page) -> OsError {
    OsError::Table(format!("it lacks the {} page at {}, which the kernel mapped", page.size, page.start))
}

impl Kernel {
    /// Allocates frames for a page from the placement. `None` if there are none.
    #[inline]
    pub(crate) fn place(&mut self, process: ProcessId, vma: &Vma, page: Page) -> Result<Option<Pfn>, OsError> {
        let request =
            PlaceRequest { process, asid: self.process(process).asid(), page, vma_start: vma.start, vma_end: vma.end };
        self.prefer_nodes_of_page(page);
        self.make_room(&request, false)?;
        self.prefer_nodes_of_page(page);
        let (placement, mut context) = self.place_context();
        Ok(placement.place(&request, &mut context))
    }

    /// Allocates a frame for a base page. Reclaims if there is none, or if reclaim itself might lack frames.
    #[inline]
    pub(crate) fn place_base(&mut self, process: ProcessId, vma: &Vma, page: Page) -> Result<Pfn, OsError> {
        if self.reclaim_schedule.is_scarce(self.frames.free_frames()) && self.swap.has_room() {
            self.reclaim(self.spec.reclaim_pages)?;
        }
        loop {
            if let Some(frame) = self.place(process, vma, page)? {
                return Ok(frame);
            }
            if self.demote_for_allocation()? == 0 && self.reclaim(self.spec.reclaim_pages)? == 0 {
                return Err(self.out_of_memory(page.start, page.size.bytes()));
            }
        }
    }

    /// Whether memory has frames for a huge page at `start`, as far as the spec limits them.
    pub(crate) fn has_huge_frames(&self, start: VirtAddr) -> bool {
        let within = self.spec.huge_limit == 0 || self.huge_pages < self.spec.huge_limit;
        within && falls_within(mix64(start.0), self.spec.huge_share)
    }

    /// Allocates frames for a huge page, if enough frames for reclaim remain and the spec allows one more.
    pub(crate) fn place_huge(&mut self, process: ProcessId, vma: &Vma, page: Page) -> Result<Option<Pfn>, OsError> {
        let affordable = self.reclaim_schedule.leaves_reserve(self.frames.free_frames(), page.size.frames());
        // What the recorded kernel had frames for is no question here.
        let recorded = self.placement.recorded(process, page.start).is_some_and(|(_, size)| size >= page.size);
        let allowed = recorded || affordable && self.has_huge_frames(page.start);
        let frame = if allowed { self.place(process, vma, page)? } else { None };
        match frame {
            Some(_) => self.huge_pages += 1,
            None => self.counters.huge_fallbacks += 1,
        }
        Ok(frame)
    }

    /// Frees frames without owners.
    pub(crate) fn return_frames(&mut self, frame: Pfn, size: PageSize) {
        let (placement, mut context) = self.place_context();
        if !placement.take_back(frame, size, &mut context) {
            self.frames.free(frame, size.order());
        }
        self.placement.freed(frame, size);
    }

    pub(crate) fn out_of_memory(&self, va: VirtAddr, needed: u64) -> OsError {
        OsError::OutOfMemory {
            va,
            needed,
            free_bytes: self.frames.free_frames() * FRAME_BYTES,
            swap_free: self.swap.free_bytes(),
        }
    }

    /// Maps a page and records its state. Reclaims if the table lacks memory.
    ///
    /// # Errors
    /// The table's error. Nothing has changed then, and the caller keeps the frames.
    #[inline]
    pub(crate) fn map_page(
        &mut self,
        process: ProcessId,
        mapping: Mapping,
        copy_on_write: bool,
    ) -> Result<(), OsError> {
        let mut freed = 0;
        loop {
            let error = match self.try_map_page(process, mapping, copy_on_write) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if !self.reclaim_for_table(error, &mut freed)? {
                return Err(self.table_error(error, mapping.page));
            }
        }
    }

    /// Reclaims for a table that lacks memory, and returns whether to try again. `freed` counts the frames
    /// freed over all tries.
    ///
    /// Freed frames form contiguous blocks only by chance. So it gives up for blocks above Linux's
    /// `PAGE_ALLOC_COSTLY_ORDER`, and once it has freed an eighth of memory.
    fn reclaim_for_table(&mut self, error: MapError, freed: &mut u64) -> Result<bool, OsError> {
        const COSTLY_BYTES: u64 = FRAME_BYTES << 3;
        let MapError::NoMemory { bytes } = error else { return Ok(false) };
        let enough = bytes > FRAME_BYTES && *freed > self.frames.total_frames() / 8;
        if bytes > COSTLY_BYTES || enough {
            return Ok(false);
        }
        let now = self.reclaim(self.spec.reclaim_pages)?;
        *freed += now;
        Ok(now > 0)
    }

    /// Maps a page and records its state, without reclaim.
    #[inline]
    pub(crate) fn try_map_page(
        &mut self,
        process: ProcessId,
        mapping: Mapping,
        copy_on_write: bool,
    ) -> Result<(), MapError> {
        let (translations, mut os) = self.translations(process);
        translations.map(mapping, &mut os)?;
        self.hold_lock(process, mapping.page);
        let Mapping { page, frame, flags } = mapping;
        let state =
            PageState::mapped(frame, page.size, flags.writable, flags.executable).with_copy_on_write(copy_on_write);
        let pages = &mut self.process_mut(process).pages;
        if page.size == PageSize::SIZE_4K {
            pages.set(page.start.vpn(), state);
        } else {
            pages.fill(page.start.vpn(), page.size, state);
        }
        Ok(())
    }

    /// On a machine with several cores, records that the action holds the lock of the page's part of the
    /// table.
    #[inline]
    fn hold_lock(&mut self, process: ProcessId, page: Page) {
        if self.cores > 1 {
            let lock = self.process(process).translations.lock_of(page);
            self.ledger.hold(lock);
        }
    }

    /// Unmaps a page, clears its state and adds a TLB shootdown. Its frames stay allocated.
    pub(crate) fn unmap_page(&mut self, process: ProcessId, page: Page) -> Result<Mapping, OsError> {
        let (translations, mut os) = self.translations(process);
        let entry = translations.unmap(page, &mut os).ok_or_else(|| missing_page(page))?;
        self.process_mut(process).pages.clear(page.start.vpn(), page.size);
        self.entry_changed(process, page);
        Ok(entry)
    }

    /// Changes the flags of a mapped page and its state, and adds a TLB shootdown.
    pub(crate) fn set_page_flags(&mut self, process: ProcessId, page: Page, flags: PteFlags) -> Result<(), OsError> {
        let (translations, mut os) = self.translations(process);
        if !translations.set_flags(page, flags, &mut os) {
            return Err(missing_page(page));
        }
        self.process_mut(process).pages.change(page.start.vpn(), page.size, |state| {
            state.with_writable(flags.writable).with_executable(flags.executable)
        });
        self.entry_changed(process, page);
        Ok(())
    }

    /// Charges the change of an entry and adds a TLB shootdown of the page.
    fn entry_changed(&mut self, process: ProcessId, page: Page) {
        self.hold_lock(process, page);
        self.shootdowns.push_page(self.process(process).asid(), page);
        self.ledger.charge(LedgerCause::Table, self.costs.table_entry);
    }

    /// The table entry of a mapped page.
    pub(crate) fn entry(&self, process: ProcessId, va: VirtAddr) -> Result<Mapping, OsError> {
        let found = self.process(process).translations.lookup(va, &self.memory);
        found.ok_or_else(|| OsError::Table(format!("it lacks {va}, which the kernel mapped")))
    }

    /// Removes one owner of each frame of a page, and frees frames without owners.
    pub(crate) fn release_frames(&mut self, frame: Pfn, size: PageSize) {
        if !self.owners.is_shared(frame, size) {
            self.return_frames(frame, size);
            return;
        }
        for frame in (0..size.frames()).map(|i| frame.offset(i)) {
            if self.owners.release(frame) {
                self.return_frames(frame, PageSize::SIZE_4K);
            }
        }
    }

    /// The page mapped at `va`. Meaningful only if present.
    pub(crate) fn mapped_page(&self, process: ProcessId, va: VirtAddr) -> Page {
        Page::containing(va, self.page_state(process, va).size())
    }

    /// The first page of `[from, to)` that is present or in swap, in its mapped size.
    pub(crate) fn next_page(&self, process: ProcessId, from: VirtAddr, to: VirtAddr) -> Option<(Page, PageState)> {
        let vpn = self.process(process).pages.next_known(from.vpn(), to.align_up(PageSize::SIZE_4K).vpn())?;
        let state = self.page_state(process, vpn.start());
        let size = if state.present() || state.is_hinted() { state.size() } else { PageSize::SIZE_4K };
        Some((Page::containing(vpn.start(), size), state))
    }

    /// Unmaps and frees every page of `[start, end)`. Splits the huge pages at its ends.
    ///
    /// # Errors
    /// No memory for a split. All pages are still mapped then.
    pub(crate) fn unmap_range(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> Result<(), OsError> {
        self.break_reservations(process, start, end);
        self.split_at(process, start)?;
        self.split_at(process, end)?;
        let mut at = start;
        while let Some((page, state)) = self.next_page(process, at, end) {
            if state.present() {
                let entry = self.unmap_page(process, page)?;
                self.release_frames(entry.frame, page.size);
            } else if state.is_hinted() {
                self.drop_hinted(process, page, state);
            } else {
                self.process_mut(process).pages.set(page.start.vpn(), PageState::NONE);
                self.swap.release();
            }
            at = page.end();
        }
        Ok(())
    }

    /// Splits the huge page that `va` lies in but does not start, if there is one.
    pub(crate) fn split_at(&mut self, process: ProcessId, va: VirtAddr) -> Result<(), OsError> {
        loop {
            let mut state = self.page_state(process, va);
            if state.is_hinted() && va != va.align_down(state.size()) {
                self.restore_hinted(process, Page::containing(va, state.size()), false)?;
                state = self.page_state(process, va);
            }
            if !state.present() || state.size() == PageSize::SIZE_4K || va == va.align_down(state.size()) {
                return Ok(());
            }
            self.split(process, va)?;
        }
    }

    /// Splits the huge page that holds `va`, if there is one, into the next smaller size (1 GiB into 2 MiB, 2
    /// MiB into 4 KiB), in place. Reclaims if the table lacks memory for the smaller pages; that may split or
    /// evict this very page.
    ///
    /// # Errors
    /// The table's error. The huge page is still mapped then.
    pub(crate) fn split(&mut self, process: ProcessId, va: VirtAddr) -> Result<(), OsError> {
        let mut freed = 0;
        while let Err((page, error)) = self.try_split(process, va)? {
            if !self.reclaim_for_table(error, &mut freed)? {
                return Err(self.table_error(error, page));
            }
        }
        Ok(())
    }

    /// As [`Kernel::split`], without reclaim. If the table lacks memory, the inner result is the page, which
    /// is still mapped, and the table's error.
    pub(crate) fn try_split(
        &mut self,
        process: ProcessId,
        va: VirtAddr,
    ) -> Result<Result<(), (Page, MapError)>, OsError> {
        let state = self.page_state(process, va);
        if !state.present() || state.size() == PageSize::SIZE_4K {
            return Ok(Ok(()));
        }
        let page = Page::containing(va, state.size());
        let smaller = if page.size > PageSize::SIZE_2M { PageSize::SIZE_2M } else { PageSize::SIZE_4K };
        let entry = self.unmap_page(process, page)?;
        let parts = page.size.bytes() / smaller.bytes();
        let part = |i: u64| Mapping {
            page: Page { start: page.start.offset(i * smaller.bytes()), size: smaller },
            frame: entry.frame.offset(i * smaller.frames()),
            flags: entry.flags,
        };
        for i in 0..parts {
            if let Err(error) = self.try_map_page(process, part(i), state.copy_on_write()) {
                for mapped in 0..i {
                    self.unmap_page(process, part(mapped).page)?;
                }
                self.restore_page(process, entry, state.copy_on_write())?;
                return Ok(Err((page, error)));
            }
        }
        self.counters.demotions += 1;
        self.ledger.charge(LedgerCause::Table, self.costs.table_entry * parts);
        Ok(Ok(()))
    }

    /// Maps a page again that was just unmapped, because its replacement could not be mapped.
    ///
    /// # Errors
    /// The table's error. The page is lost then, and its frames are free.
    pub(crate) fn restore_page(
        &mut self,
        process: ProcessId,
        entry: Mapping,
        copy_on_write: bool,
    ) -> Result<(), OsError> {
        self.try_map_page(process, entry, copy_on_write).map_err(|error| {
            self.release_frames(entry.frame, entry.page.size);
            self.table_error(error, entry.page)
        })
    }

    /// Maps fresh frames for a fault and charges their zeroing.
    pub(crate) fn map_fresh(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        page: Page,
        frame: Pfn,
        access: AccessKind,
    ) -> Result<(), OsError> {
        let flags = PteFlags { accessed: true, dirty: access == AccessKind::Store, ..PteFlags::user(vma.protection) };
        if let Err(error) = self.map_page(process, Mapping { page, frame, flags }, false) {
            self.return_frames(frame, page.size);
            return Err(error);
        }
        self.charge_zero(frame, page.size);
        Ok(())
    }

    pub(crate) fn charge_copy(&mut self, frames: u64) {
        self.counters.copied_bytes += frames * FRAME_BYTES;
        self.ledger.charge(LedgerCause::Copy, frames * self.costs.copy_4k);
    }

    /// Charges the TLB shootdowns of the current action.
    pub(crate) fn charge_shootdowns(&mut self) {
        let (pages, spaces) = self.shootdowns.take_counts();
        self.counters.shootdowns_page += pages;
        self.counters.shootdowns_space += spaces;
        let cycles = self.costs.shootdown_of(pages + spaces, self.cores);
        if cycles > 0 {
            self.ledger.charge(LedgerCause::Shootdown, cycles);
        }
    }
}
