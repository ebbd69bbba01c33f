//! Huge pages in the background: reservations with promotion, and the promotion daemon.

use crate::kernel::{Kernel, process_mut};
use crate::{HugeAdvice, Mapping, OsError, PageSizePolicy, PteFlags, Vma};
use ambulator_base::{AccessKind, Cycle, MapKind, Page, PageSize, Pfn, ProcessId, VirtAddr};
use std::collections::BTreeMap;

/// A 2 MiB block held for the pages of one aligned 2 MiB of address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    /// First frame of the block.
    pub frame: Pfn,
    /// Pages of it that are mapped.
    pub used: u64,
}

/// Reservations of a process by the number of their 2 MiB.
pub(crate) type Reservations = BTreeMap<u64, Reservation>;

const BASE_PAGES: u64 = 512;

fn number_of(va: VirtAddr) -> u64 {
    va.0 >> PageSize::SIZE_2M.shift()
}

fn page_of(number: u64) -> Page {
    Page { start: VirtAddr(number << PageSize::SIZE_2M.shift()), size: PageSize::SIZE_2M }
}

impl Kernel {
    /// Maps the base page of `va` within its reservation, reserving if nothing of the 2 MiB is there yet, and promotes the
    /// reservation when enough of it is used. `None` where no reservation can be had.
    pub(crate) fn populate_reserved(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        va: VirtAddr,
        access: AccessKind,
    ) -> Result<Option<PageSize>, OsError> {
        let number = number_of(va);
        let huge = page_of(number);
        let held = self.process(process).reservations.get(&number).copied();
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
        process_mut!(self, process).reservations.insert(number, Reservation { used, ..reservation });
        if self.try_map_page(process, Mapping { page, frame, flags }, false).is_err() {
            // The table lacks memory. Reclaim may find some, and must be free to take it from this reservation.
            self.break_reservation(process, number);
            return Ok(None);
        }
        self.charge_zero(PageSize::SIZE_4K);
        self.counters.faults_4k += 1;
        if used as f64 >= self.spec.promotion_threshold * BASE_PAGES as f64
            && self.promote_reservation(process, vma, number)?
        {
            return Ok(Some(PageSize::SIZE_2M));
        }
        Ok(Some(PageSize::SIZE_4K))
    }

    /// The reservation becomes a 2 MiB page in place: what is used stays where it is, the rest is zeroed. False if the table
    /// has no memory for it now.
    fn promote_reservation(&mut self, process: ProcessId, vma: &Vma, number: u64) -> Result<bool, OsError> {
        let Some(reservation) = self.process(process).reservations.get(&number).copied() else {
            return Ok(false);
        };
        if self.collapse(process, vma, page_of(number), reservation.frame)?.is_none() {
            return Ok(false);
        }
        process_mut!(self, process).reservations.remove(&number);
        for _ in reservation.used..BASE_PAGES {
            self.charge_zero(PageSize::SIZE_4K);
        }
        self.counters.promotions += 1;
        Ok(true)
    }

    /// Maps one huge page where base pages are, and returns these; their frames stay taken. `None`, and all as it was, if the
    /// table has no memory for it now.
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

    /// Gives the unused frames of reservations that touch `[start, end)` back; their used pages become plain base pages.
    pub(crate) fn break_reservations(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) {
        if self.process(process).reservations.is_empty() {
            return;
        }
        let last = number_of(VirtAddr(end.0 - 1));
        let numbers: Vec<u64> =
            self.process(process).reservations.range(number_of(start)..=last).map(|(n, _)| *n).collect();
        for number in numbers {
            self.break_reservation(process, number);
        }
    }

    /// Returns how many frames that freed.
    fn break_reservation(&mut self, process: ProcessId, number: u64) -> u64 {
        let Some(reservation) = process_mut!(self, process).reservations.remove(&number) else {
            return 0;
        };
        self.counters.reservations_broken += 1;
        let huge = page_of(number);
        let mut freed = 0;
        for i in 0..BASE_PAGES {
            let frame = reservation.frame.offset(i);
            let truth = self.truth(process, huge.start.offset(i << 12));
            if !(truth.present() && truth.frame() == frame) {
                self.give_back(frame, PageSize::SIZE_4K);
                freed += 1;
            }
        }
        freed
    }

    /// Breaks the reservation with the fewest used pages of the first process that has any, and returns how many frames that
    /// freed. `None` if there is none.
    pub(crate) fn break_one_reservation(&mut self) -> Option<u64> {
        let (at, owner) = self
            .processes
            .iter()
            .enumerate()
            .find_map(|(at, p)| p.as_ref().filter(|p| !p.reservations.is_empty()).map(|p| (at, p)))?;
        let (number, _) = owner.reservations.iter().min_by_key(|(number, r)| (r.used, **number))?;
        let number = *number;
        Some(self.break_reservation(ProcessId(at as u32), number))
    }

    /// The background daemons' share of the time until `now`: `kswapd` while memory is scarce, `khugepaged` when its period
    /// has passed. Cheap while nothing is due. The core that calls it pays for what they do to tables and TLBs; it does
    /// not wait for swap.
    ///
    /// # Errors
    /// A table that broke its word.
    #[inline]
    pub fn tick(&mut self, _process: ProcessId, now: Cycle) -> Result<(), OsError> {
        if now.0 < self.next_scan && self.frames.free_frames() >= self.marks.low {
            return Ok(());
        }
        self.run_daemons(now)
    }

    #[cold]
    fn run_daemons(&mut self, now: Cycle) -> Result<(), OsError> {
        if self.frames.free_frames() < self.marks.low && now.0 >= self.next_reclaim && self.can_swap() {
            self.counters.background_reclaims += 1;
            if self.reclaim_in_background()? == 0 {
                self.next_reclaim = now.0 + self.spec.khugepaged_period;
            }
        }
        if now.0 >= self.next_scan {
            self.next_scan = now.0 + self.spec.khugepaged_period;
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
            let process = ProcessId(self.scan_next as u32);
            if self.is_alive(process) && !self.scan_for_promotion(process, &mut left)? {
                return Ok(());
            }
            self.scan_next = (self.scan_next + 1) % self.processes.len();
        }
        Ok(())
    }

    /// The promotion daemon's way over a process. False if it has looked at as many pages as it may before it was through.
    fn scan_for_promotion(&mut self, process: ProcessId, left: &mut u64) -> Result<bool, OsError> {
        let at = self.process(process).scan;
        let areas: Vec<Vma> = self.process(process).vmas.as_slice().to_vec();
        let eligible = |vma: &&Vma| vma.huge != HugeAdvice::NoHuge && vma.kind != MapKind::File;
        for vma in areas.iter().filter(eligible).filter(|vma| vma.end > at) {
            let mut huge = Page::containing(vma.start.max(at).align_up(PageSize::SIZE_2M), PageSize::SIZE_2M);
            while huge.end() <= vma.end {
                if *left < BASE_PAGES {
                    process_mut!(self, process).scan = huge.start;
                    return Ok(false);
                }
                // Empty stretches cost the daemon nothing, as skipped page-table pages cost Linux's.
                let Some((next, truth)) = self.next_page(process, huge.start, vma.end) else {
                    break;
                };
                if next.start >= huge.end() || truth.present() && truth.size() > PageSize::SIZE_4K {
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
        process_mut!(self, process).scan = VirtAddr(0);
        Ok(true)
    }

    /// Copies the base pages of an aligned 2 MiB into a fresh block, if they are enough and all of them are its own.
    fn try_promote(&mut self, process: ProcessId, vma: &Vma, huge: Page) -> Result<(), OsError> {
        let mut present = 0;
        let mut at = huge.start;
        while let Some((page, truth)) = self.next_page(process, at, huge.end()) {
            if !truth.present()
                || truth.copy_on_write()
                || page.size > PageSize::SIZE_4K
                || self.is_shared(truth.frame(), page.size)
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
