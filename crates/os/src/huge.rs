//! Huge pages in the background: reservations with promotion, and the promotion daemon.

use crate::reservations::{BASE_PAGES, Reservation, huge_page};
use crate::{HugeAdvice, Kernel, Mapping, OsError, PageSizePolicy, PteFlags, Vma};
use ambulator_base::{AccessKind, Cycle, MapKind, Page, PageSize, Pfn, ProcessId, VirtAddr};

impl Kernel {
    /// Maps the base page of `va` within its reservation, reserving if nothing of the 2 MiB is there yet, and
    /// promotes the reservation when enough of it is used. `None` where no reservation can be had.
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
                if huge.start < vma.start
                    || huge.end() > vma.end
                    || self.process(process).pages.next_known(huge.start.vpn(), huge.end().vpn()).is_some()
                {
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
            // The table lacks memory. Reclaim may find some, and must be free to take it from this
            // reservation.
            self.break_reservation(process, huge);
            return Ok(None);
        }
        self.charge_zero(PageSize::SIZE_4K);
        self.counters.faults_4k += 1;
        if used as f64 >= self.spec.promotion_threshold * BASE_PAGES as f64
            && self.promote_reservation(process, vma, huge)?
        {
            return Ok(Some(PageSize::SIZE_2M));
        }
        Ok(Some(PageSize::SIZE_4K))
    }

    /// The reservation becomes a 2 MiB page in place: what is used stays where it is, the rest is zeroed.
    /// False if the table has no memory for it now.
    fn promote_reservation(&mut self, process: ProcessId, vma: &Vma, huge: Page) -> Result<bool, OsError> {
        let Some(reservation) = self.process(process).reservations.find(huge.start) else {
            return Ok(false);
        };
        if self.collapse(process, vma, huge, reservation.frame)?.is_none() {
            return Ok(false);
        }
        self.process_mut(process).reservations.remove(huge.start);
        for _ in reservation.used..BASE_PAGES {
            self.charge_zero(PageSize::SIZE_4K);
        }
        self.counters.promotions += 1;
        Ok(true)
    }

    /// Maps one huge page where base pages are, and returns these; their frames stay taken. `None`, and all
    /// as it was, if the table has no memory for it now.
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

    /// Gives the unused frames of reservations that touch `[start, end)` back; their used pages become plain
    /// base pages.
    pub(crate) fn break_reservations(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) {
        if self.process(process).reservations.is_empty() {
            return;
        }
        for huge in self.process(process).reservations.touching(start, end) {
            self.break_reservation(process, huge);
        }
    }

    /// Returns how many frames that freed.
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
                self.give_back(frame, PageSize::SIZE_4K);
                freed += 1;
            }
        }
        freed
    }

    /// Breaks the reservation with the fewest used pages of the first process that has any, and returns how
    /// many frames that freed. `None` if there is none.
    pub(crate) fn break_one_reservation(&mut self) -> Option<u64> {
        let mut least = self.processes.live().filter_map(|(number, p)| Some((number, p.reservations.least_used()?)));
        let (process, huge) = least.next()?;
        drop(least);
        Some(self.break_reservation(process, huge))
    }

    /// The background daemons' share of the time until `now`: `kswapd` while memory is scarce, `khugepaged`
    /// when its period has passed. Cheap while nothing is due. The core that calls it pays for what they do
    /// to tables and TLBs; it does not wait for swap.
    ///
    /// # Errors
    /// A table that violated an invariant.
    #[inline]
    pub fn tick(&mut self, _process: ProcessId, now: Cycle) -> Result<(), OsError> {
        if !self.promotion_turns.is_due(now) && !self.reclaim_turns.is_low(self.frames.free_frames()) {
            return Ok(());
        }
        self.run_daemons(now)
    }

    #[cold]
    fn run_daemons(&mut self, now: Cycle) -> Result<(), OsError> {
        if self.reclaim_turns.is_due(self.frames.free_frames(), now) && self.swap.has_room() {
            self.counters.background_reclaims += 1;
            if self.reclaim_in_background()? == 0 {
                self.reclaim_turns.put_off(self.promotion_turns.later(now));
            }
        }
        if self.promotion_turns.is_due(now) {
            self.promotion_turns.begin(now);
            if self.spec.page_size_policy == PageSizePolicy::Khugepaged {
                self.promote_in_background()?;
            }
        }
        self.charge_shootdowns();
        Ok(())
    }

    /// One round of the promotion daemon: it goes on where the last one ended, from process to process.
    fn promote_in_background(&mut self) -> Result<(), OsError> {
        let mut left = self.spec.khugepaged_pages;
        for _ in 0..self.processes.len() {
            let process = self.promotion_turns.process();
            if self.is_alive(process) && !self.scan_for_promotion(process, &mut left)? {
                return Ok(());
            }
            self.promotion_turns.pass(self.processes.len());
        }
        Ok(())
    }

    /// The promotion daemon's way over a process. False if it has looked at as many pages as it may before it
    /// was through.
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
                // Empty stretches cost the daemon nothing, as skipped page-table pages cost Linux's.
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

    /// Copies the base pages of an aligned 2 MiB into a fresh block, if they are enough and all of them are
    /// its own.
    fn try_promote(&mut self, process: ProcessId, vma: &Vma, huge: Page) -> Result<(), OsError> {
        let mut present = 0;
        let mut at = huge.start;
        while let Some((page, state)) = self.next_page(process, at, huge.end()) {
            if !state.present()
                || state.copy_on_write()
                || page.size > PageSize::SIZE_4K
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
            self.give_back(frame, PageSize::SIZE_2M);
            return Ok(());
        };
        for entry in base {
            self.release_frames(entry.frame, PageSize::SIZE_4K);
        }
        self.charge_copy(present);
        for _ in present..BASE_PAGES {
            self.charge_zero(PageSize::SIZE_4K);
        }
        self.counters.promotions += 1;
        Ok(())
    }
}
