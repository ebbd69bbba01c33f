//! Promotion to huge pages: reservations, and the promotion daemon.

use crate::reservations::{BASE_PAGES, Reservation, huge_page};
use crate::{HugeAdvice, Kernel, Mapping, OsError, PageSizePolicy, PteFlags, Vma};
use ambulator_base::{AccessKind, Cycle, MapKind, Page, PageSize, Pfn, ProcessId, VirtAddr};

impl Kernel {
    /// Maps the base page of `va` in its reservation, and promotes the reservation if enough of it is used.
    /// The first page of a 2 MiB range makes the reservation. `None` if there can be no reservation.
    pub(crate) fn populate_reserved(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        va: VirtAddr,
        access: AccessKind,
    ) -> Result<Option<PageSize>, OsError> {
        let huge = huge_page(va);
        let held = self.process(process).reservations.find(va);
        let reservation = match held {
            Some(reservation) => reservation,
            None => {
                if !self.may_reserve(process, vma, huge) {
                    return Ok(None);
                }
                let Some(frame) = self.place_huge(process, vma, huge)? else {
                    return Ok(None);
                };
                self.charge_huge_allocation(PageSize::SIZE_2M);
                self.counters.reservations += 1;
                Reservation { frame, used: 0 }
            }
        };
        let page = Page::containing(va, PageSize::SIZE_4K);
        let frame = reservation.frame.offset((page.start.0 - huge.start.0) >> 12);
        let used = reservation.used + 1;
        let flags = PteFlags { accessed: true, dirty: access == AccessKind::Store, ..PteFlags::user(vma.protection) };
        self.process_mut(process).reservations.set(va, Reservation { used, ..reservation });
        if self.try_map_page(process, Mapping { page, frame, flags }, false).is_err() {
            // The table lacks memory. Reclaim may free some, also from this reservation.
            self.break_reservation(process, huge);
            return Ok(None);
        }
        self.charge_zero(frame, PageSize::SIZE_4K);
        self.counters.faults_4k += 1;
        if huge.end() <= vma.end
            && used as f64 >= self.spec.promotion_threshold * BASE_PAGES as f64
            && self.promote_reservation(process, vma, huge)?
        {
            return Ok(Some(PageSize::SIZE_2M));
        }
        Ok(Some(PageSize::SIZE_4K))
    }

    /// Whether a block may be reserved for `huge`: the area covers it, and nothing is in it yet. A heap's last
    /// block may end beyond the heap, which grows a few pages at a time, but not before the heap is as large as a
    /// block (Navarro et al., Sec. 4.2), and not over another area.
    fn may_reserve(&self, process: ProcessId, vma: &Vma, huge: Page) -> bool {
        let own = self.process(process);
        if huge.start < vma.start || own.pages.next_known(huge.start.vpn(), huge.end().vpn()).is_some() {
            return false;
        }
        let is_large_heap = vma.kind == MapKind::Heap && vma.len() >= huge.size.bytes();
        huge.end() <= vma.end || is_large_heap && own.vmas.is_free(vma.end, huge.end())
    }

    /// Promotes a reservation to a 2 MiB page in place: used frames stay, the others are zeroed. False if the
    /// table lacks memory for it.
    fn promote_reservation(&mut self, process: ProcessId, vma: &Vma, huge: Page) -> Result<bool, OsError> {
        let Some(reservation) = self.process(process).reservations.find(huge.start) else {
            return Ok(false);
        };
        let Some(base) = self.collapse(process, vma, huge, reservation.frame)? else {
            return Ok(false);
        };
        self.process_mut(process).reservations.remove(huge.start);
        self.charge_zero_rest(huge, reservation.frame, &base);
        self.counters.promotions += 1;
        Ok(true)
    }

    /// Replaces base pages by one huge page, and returns the base pages; their frames stay taken. `None` if
    /// the table lacks memory for it; nothing has changed then.
    fn collapse(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        huge: Page,
        frame: Pfn,
    ) -> Result<Option<Vec<Mapping>>, OsError> {
        let (mut base, mut at) = (Vec::with_capacity(BASE_PAGES as usize), huge.start);
        while let Some((page, _)) = self.next_page(process, at, huge.end()) {
            base.push(self.unmap_page(process, page)?);
            at = page.end();
        }
        let flags = PteFlags {
            accessed: base.iter().any(|entry| entry.flags.accessed),
            dirty: base.iter().any(|entry| entry.flags.dirty),
            ..PteFlags::user(vma.protection)
        };
        if self.try_map_page(process, Mapping { page: huge, frame, flags }, false).is_ok() {
            return Ok(Some(base));
        }
        for entry in base {
            self.restore_page(process, entry, false)?;
        }
        self.counters.huge_fallbacks += 1;
        Ok(None)
    }

    /// Breaks the reservations that overlap `[start, end)`: their unused frames are freed, and their used
    /// pages become ordinary base pages.
    pub(crate) fn break_reservations(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) {
        if self.process(process).reservations.is_empty() {
            return;
        }
        for huge in self.process(process).reservations.overlapping(start, end) {
            self.break_reservation(process, huge);
        }
    }

    /// Breaks a reservation and returns the number of freed frames.
    fn break_reservation(&mut self, process: ProcessId, huge: Page) -> u64 {
        let Some(reservation) = self.process_mut(process).reservations.remove(huge.start) else {
            return 0;
        };
        self.counters.reservations_broken += 1;
        let mut freed = 0;
        for i in 0..BASE_PAGES {
            let frame = reservation.frame.offset(i);
            let state = self.page_state(process, huge.start.offset(i << 12));
            if !(state.present() && state.frame() == frame) {
                self.return_frames(frame, PageSize::SIZE_4K);
                freed += 1;
            }
        }
        freed
    }

    /// Breaks the least used reservation of the first process that has any, and returns the number of freed
    /// frames. `None` if there are no reservations.
    pub(crate) fn break_one_reservation(&mut self) -> Option<u64> {
        let mut least = self.processes.live().filter_map(|(number, p)| Some((number, p.reservations.least_used()?)));
        let (process, huge) = least.next()?;
        drop(least);
        Some(self.break_reservation(process, huge))
    }

    /// Runs the background daemons that are due at `now`: `kswapd` while memory is scarce, `khugepaged` once
    /// per period. Cheap if none is due. The calling core pays for changes of tables and TLB shootdowns, but
    /// does not wait for swap.
    ///
    /// # Errors
    /// A table that violated an invariant.
    #[inline]
    pub fn tick(&mut self, _process: ProcessId, now: Cycle) -> Result<(), OsError> {
        if self.daemons_are_due(now) { self.run_daemons(now) } else { Ok(()) }
    }

    /// Whether [`Kernel::tick`] at `now` does anything.
    #[inline]
    pub fn daemons_are_due(&self, now: Cycle) -> bool {
        self.promotion_schedule.is_due(now)
            || self.reclaim_schedule.is_low(self.frames.free_frames())
            || self.numa_is_due(now)
    }

    #[cold]
    fn run_daemons(&mut self, now: Cycle) -> Result<(), OsError> {
        if self.reclaim_schedule.is_due(self.frames.free_frames(), now) && self.swap.has_room() {
            self.counters.background_reclaims += 1;
            if self.reclaim_in_background()? == 0 {
                self.reclaim_schedule.defer(self.promotion_schedule.next_round(now));
            }
        }
        if self.promotion_schedule.is_due(now) {
            self.promotion_schedule.begin(now);
            if self.spec.page_size_policy == PageSizePolicy::Khugepaged {
                self.promote_in_background()?;
            }
        }
        self.run_numa(now)?;
        self.charge_shootdowns();
        Ok(())
    }

    /// Runs one round of the promotion daemon. It continues where the last one ended, over all processes.
    fn promote_in_background(&mut self) -> Result<(), OsError> {
        let mut left = self.spec.khugepaged_pages;
        for _ in 0..self.processes.len() {
            let process = self.promotion_schedule.next_process();
            if self.is_alive(process) && !self.scan_for_promotion(process, &mut left)? {
                return Ok(());
            }
            self.promotion_schedule.advance(self.processes.len());
        }
        Ok(())
    }

    /// Scans a process for pages to promote. False if the round's page limit ends the scan early.
    fn scan_for_promotion(&mut self, process: ProcessId, left: &mut u64) -> Result<bool, OsError> {
        let at = self.process(process).scan;
        let areas: Vec<Vma> = self.process(process).vmas.as_slice().to_vec();
        let eligible = |vma: &&Vma| vma.huge != HugeAdvice::NoHuge && vma.kind != MapKind::File;
        for vma in areas.iter().filter(eligible).filter(|vma| vma.end > at) {
            let mut huge = Page::containing(vma.start.max(at).align_up(PageSize::SIZE_2M), PageSize::SIZE_2M);
            while huge.end() <= vma.end {
                if *left < BASE_PAGES {
                    self.process_mut(process).scan = huge.start;
                    return Ok(false);
                }
                // Empty ranges do not count, as Linux's daemon skips empty page-table pages.
                let Some((next, state)) = self.next_page(process, huge.start, vma.end) else {
                    break;
                };
                if next.start >= huge.end() || state.present() && state.size() > PageSize::SIZE_4K {
                    huge = Page::containing(next.end().max(huge.end()).align_up(PageSize::SIZE_2M), PageSize::SIZE_2M);
                    if next.size == PageSize::SIZE_4K {
                        huge = Page::containing(next.start, PageSize::SIZE_2M);
                    }
                    continue;
                }
                *left -= BASE_PAGES;
                self.try_promote(process, vma, huge)?;
                huge = Page { start: huge.end(), ..huge };
            }
        }
        self.process_mut(process).scan = VirtAddr(0);
        Ok(true)
    }

    /// Copies the base pages of an aligned 2 MiB range into a fresh huge page, if there are enough of them
    /// and none is shared.
    fn try_promote(&mut self, process: ProcessId, vma: &Vma, huge: Page) -> Result<(), OsError> {
        let mut present = 0;
        let mut at = huge.start;
        while let Some((page, state)) = self.next_page(process, at, huge.end()) {
            if !state.present()
                || state.copy_on_write()
                || page.size > PageSize::SIZE_4K
                || self.pinned.holds(process, page)
                || self.owners.is_shared(state.frame(), page.size)
            {
                return Ok(());
            }
            present += 1;
            at = page.end();
        }
        if present == 0 || BASE_PAGES - present > self.spec.khugepaged_max_none {
            return Ok(());
        }
        let Some(frame) = self.place_huge(process, vma, huge)? else {
            return Ok(());
        };
        self.charge_huge_allocation(PageSize::SIZE_2M);
        let Some(base) = self.collapse(process, vma, huge, frame)? else {
            self.return_frames(frame, PageSize::SIZE_2M);
            return Ok(());
        };
        for entry in &base {
            self.release_frames(entry.frame, PageSize::SIZE_4K);
        }
        self.charge_copy(present);
        self.charge_zero_rest(huge, frame, &base);
        self.counters.promotions += 1;
        Ok(())
    }
}
