//! Huge pages in the background: reservations with promotion, and the promotion daemon.

use crate::kernel::{Kernel, process_mut};
use crate::{HugeAdvice, Mapping, OsError, PageSizePolicy, Vma};
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
                let Some(frame) = self.place(process, vma, huge) else {
                    self.counters.huge_fallbacks += 1;
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
        process_mut!(self, process).reservations.insert(number, Reservation { used, ..reservation });
        // From here on the block is accounted for by the reservation, whatever mapping meets.
        if let Err(error) = self.map_reserved(process, vma, page, frame, access) {
            process_mut!(self, process).reservations.insert(number, reservation);
            self.break_reservations(process, huge.start, huge.end());
            return Err(error);
        }
        self.counters.faults_4k += 1;
        if used as f64 >= self.spec.promotion_threshold * BASE_PAGES as f64 {
            self.promote_reservation(process, vma, number)?;
            return Ok(Some(PageSize::SIZE_2M));
        }
        Ok(Some(PageSize::SIZE_4K))
    }

    fn map_reserved(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        page: Page,
        frame: Pfn,
        access: AccessKind,
    ) -> Result<(), OsError> {
        let flags = crate::PteFlags {
            accessed: true,
            dirty: access == AccessKind::Store,
            ..crate::PteFlags::user(vma.protection)
        };
        self.map_page(process, Mapping { page, frame, flags }, false)?;
        self.charge_zero(PageSize::SIZE_4K);
        Ok(())
    }

    /// The reservation becomes a 2 MiB page in place: what is used stays where it is, the rest is zeroed.
    fn promote_reservation(&mut self, process: ProcessId, vma: &Vma, number: u64) -> Result<(), OsError> {
        let Some(reservation) = process_mut!(self, process).reservations.remove(&number) else {
            return Ok(());
        };
        let huge = page_of(number);
        let (mut dirty, mut at) = (false, huge.start);
        while let Some((page, _)) = self.next_page(process, at, huge.end()) {
            dirty |= self.unmap_page(process, page)?.flags.dirty;
            at = page.end();
        }
        for _ in reservation.used..BASE_PAGES {
            self.charge_zero(PageSize::SIZE_4K);
        }
        self.counters.promotions += 1;
        let flags = crate::PteFlags { accessed: true, dirty, ..crate::PteFlags::user(vma.protection) };
        self.map_page(process, Mapping { page: huge, frame: reservation.frame, flags }, false)
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

    fn break_reservation(&mut self, process: ProcessId, number: u64) {
        let Some(reservation) = process_mut!(self, process).reservations.remove(&number) else {
            return;
        };
        self.counters.reservations_broken += 1;
        let huge = page_of(number);
        for i in 0..BASE_PAGES {
            let frame = reservation.frame.offset(i);
            let truth = self.truth(process, huge.start.offset(i << 12));
            if !(truth.present() && truth.frame() == frame) {
                self.frames.free(frame, 0);
                self.placement.freed(frame, PageSize::SIZE_4K);
            }
        }
    }

    /// Breaks the reservation with the fewest used pages of the first process that has any. False if there is none.
    pub(crate) fn break_one_reservation(&mut self) -> bool {
        for at in 0..self.processes.len() {
            let process = ProcessId(at as u32);
            if !self.is_alive(process) {
                continue;
            }
            let least = self.process(process).reservations.iter().min_by_key(|(n, r)| (r.used, **n)).map(|(n, _)| *n);
            if let Some(number) = least {
                self.break_reservation(process, number);
                return true;
            }
        }
        false
    }

    /// The background daemons' share of the time until `now`. Cheap while nothing is due.
    ///
    /// # Errors
    /// A table that ran out of memory in the middle of a promotion.
    #[inline]
    pub fn tick(&mut self, process: ProcessId, now: Cycle) -> Result<(), OsError> {
        if now.0 < self.next_scan {
            return Ok(());
        }
        self.next_scan = now.0 + self.spec.khugepaged_period;
        if self.spec.page_size_policy == PageSizePolicy::Khugepaged && self.is_alive(process) {
            self.scan_for_promotion(process)?;
            self.charge_shootdowns();
        }
        Ok(())
    }

    /// One round of the promotion daemon over a process.
    fn scan_for_promotion(&mut self, process: ProcessId) -> Result<(), OsError> {
        let mut left = self.spec.khugepaged_pages;
        let at = self.process(process).scan;
        let areas: Vec<Vma> = self.process(process).vmas.as_slice().to_vec();
        let eligible = |vma: &&Vma| vma.huge != HugeAdvice::NoHuge && vma.kind != MapKind::File;
        for vma in areas.iter().filter(eligible).filter(|vma| vma.end > at) {
            let mut huge = Page::containing(vma.start.max(at).align_up(PageSize::SIZE_2M), PageSize::SIZE_2M);
            while huge.end() <= vma.end {
                if left < BASE_PAGES {
                    process_mut!(self, process).scan = huge.start;
                    return Ok(());
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
                left -= BASE_PAGES;
                self.try_promote(process, vma, huge)?;
                huge = Page { start: huge.end(), ..huge };
            }
        }
        process_mut!(self, process).scan = VirtAddr(0);
        Ok(())
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
        let Some(frame) = self.place(process, vma, huge) else {
            self.counters.huge_fallbacks += 1;
            return Ok(());
        };
        self.charge_huge_allocation(PageSize::SIZE_2M);
        let (mut dirty, mut accessed, mut at) = (false, false, huge.start);
        while let Some((page, _)) = self.next_page(process, at, huge.end()) {
            let entry = self.unmap_page(process, page)?;
            dirty |= entry.flags.dirty;
            accessed |= entry.flags.accessed;
            self.release_frames(entry.frame, page.size);
            at = page.end();
        }
        self.charge_copy(present);
        for _ in present..BASE_PAGES {
            self.charge_zero(PageSize::SIZE_4K);
        }
        self.counters.promotions += 1;
        let flags = crate::PteFlags { accessed, dirty, ..crate::PteFlags::user(vma.protection) };
        self.map_page(process, Mapping { page: huge, frame, flags }, false)
    }
}
