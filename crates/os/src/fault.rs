//! Page faults and first touches.

use crate::vma::pages_of;
use crate::{HugeAdvice, HugeAllocation, Kernel, LedgerCause, Mapping, OsError, PageSizePolicy, PteFlags, Vma};
use ambulator_base::{AccessKind, MapKind, Page, PageSize, ProcessId, VirtAddr};

/// The kind of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Mapped a fresh page.
    Fresh(PageSize),
    /// Copied a shared page, or made a page writable that is no longer shared.
    CopyOnWrite,
    /// Read a page from swap.
    SwapIn,
    /// Found the page mapped already.
    Spurious,
    /// Mapped a page again whose entry a scan of NUMA balancing had taken away; it may have moved.
    Hint,
}

/// How a fault uses 2 MiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugeAtFault {
    /// Base pages only.
    No,
    /// The 2 MiB page at once.
    Whole,
    /// A reservation of 2 MiB that base pages fill one by one.
    Reserved,
}

impl Kernel {
    /// Serves a page fault.
    ///
    /// # Errors
    /// [`OsError::Segfault`] if no mapping allows the access, [`OsError::OutOfMemory`] or
    /// [`OsError::TableMemory`] if memory ran out.
    pub fn fault(&mut self, process: ProcessId, va: VirtAddr, access: AccessKind) -> Result<FaultKind, OsError> {
        self.alive(process)?;
        let vma = self.allowing(process, va, access)?;
        self.ledger.charge(LedgerCause::Fault, self.costs.fault);
        let state = self.page_state(process, va);
        let kind = if state.present() {
            if access == AccessKind::Store && state.copy_on_write() {
                self.copy_on_write(process, &vma, va)?;
                FaultKind::CopyOnWrite
            } else {
                self.counters.faults_spurious += 1;
                FaultKind::Spurious
            }
        } else if state.is_hinted() {
            self.hint_fault(process, va)?;
            FaultKind::Hint
        } else if state.swapped() {
            self.swap_in(process, &vma, va, access)?;
            FaultKind::SwapIn
        } else {
            FaultKind::Fresh(self.populate(process, &vma, va, access)?)
        };
        self.charge_shootdowns();
        Ok(kind)
    }

    fn allowing(&self, process: ProcessId, va: VirtAddr, access: AccessKind) -> Result<Vma, OsError> {
        let vmas = &self.process(process).vmas;
        let segfault = |why: String| OsError::Segfault { va, access, why };
        let vma = vmas.find(va).ok_or_else(|| segfault(vmas.describe_near(va)))?;
        if vma.protection.allows(access) {
            return Ok(*vma);
        }
        Err(segfault(format!("the mapping [{}, {}) has the rights {:?}", vma.start, vma.end, vma.protection)))
    }

    /// Touches the pages of a range in ascending order, as faults would serve them. Mapped pages stay.
    pub(crate) fn touch(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        len: u64,
        access: AccessKind,
    ) -> Result<(), OsError> {
        let (start, end) = pages_of(start, len).ok_or_else(|| {
            OsError::BadCall(format!(
                "a touch of {len} bytes at {start}: the range is empty or exceeds the address space (57 bits)"
            ))
        })?;
        let mut at = start;
        while at < end {
            let vma = self.allowing(process, at, access)?;
            let until = vma.end.min(end);
            while at < until {
                let state = self.page_state(process, at);
                let served = if state.present() && !(access == AccessKind::Store && state.copy_on_write()) {
                    if state.lazily_free() && access == AccessKind::Store {
                        self.cancel_lazy_free(process, at)?;
                    }
                    state.size()
                } else if state.present() || state.swapped() || state.is_hinted() {
                    self.fault(process, at, access)?;
                    PageSize::SIZE_4K
                } else {
                    self.ledger.charge(LedgerCause::Fault, self.costs.fault);
                    self.populate(process, &vma, at, access)?
                };
                at = at.align_down(served).offset(served.bytes());
            }
        }
        self.charge_shootdowns();
        Ok(())
    }

    /// Marks a page dirty again after `MADV_FREE`: a touch has no hardware access that would do so.
    fn cancel_lazy_free(&mut self, process: ProcessId, va: VirtAddr) -> Result<(), OsError> {
        let entry = self.entry(process, va)?;
        let flags = PteFlags { accessed: true, dirty: true, ..entry.flags };
        self.set_page_flags(process, entry.page, flags)?;
        let pages = &mut self.process_mut(process).pages;
        pages.change(entry.page.start.vpn(), entry.page.size, |state| state.with_lazily_free(false));
        Ok(())
    }

    fn allows_gigantic(&self, vma: &Vma) -> bool {
        self.spec.gigantic_pages && vma.kind != MapKind::File
    }

    /// The use of 2 MiB pages at a fault, by policy and area.
    pub(crate) fn huge_at_fault(&self, vma: &Vma) -> HugeAtFault {
        if vma.huge == HugeAdvice::NoHuge || vma.kind == MapKind::File {
            return HugeAtFault::No;
        }
        match self.spec.page_size_policy {
            PageSizePolicy::Always => HugeAtFault::Whole,
            PageSizePolicy::Madvise if vma.huge == HugeAdvice::Huge => HugeAtFault::Whole,
            PageSizePolicy::Reservation => HugeAtFault::Reserved,
            PageSizePolicy::Never | PageSizePolicy::Madvise | PageSizePolicy::Khugepaged => HugeAtFault::No,
        }
    }

    /// Maps a fresh page for `va`, of the size that the policy, the area and free memory allow.
    #[inline]
    fn populate(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        va: VirtAddr,
        access: AccessKind,
    ) -> Result<PageSize, OsError> {
        if let Some((_, recorded)) = self.placement.recorded(process, va) {
            return self.populate_recorded(process, vma, va, access, recorded);
        }
        let gigantic = Page::containing(va, PageSize::SIZE_1G);
        if self.allows_gigantic(vma) && self.populate_huge(process, vma, gigantic, access)? {
            self.counters.faults_1g += 1;
            return Ok(PageSize::SIZE_1G);
        }
        let huge = Page::containing(va, PageSize::SIZE_2M);
        match self.huge_at_fault(vma) {
            HugeAtFault::Whole if self.populate_huge(process, vma, huge, access)? => {
                self.counters.faults_2m += 1;
                return Ok(PageSize::SIZE_2M);
            }
            HugeAtFault::Reserved => {
                if let Some(size) = self.populate_reserved(process, vma, va, access)? {
                    return Ok(size);
                }
            }
            HugeAtFault::Whole | HugeAtFault::No => {}
        }
        self.populate_base(process, vma, va, access)
    }

    /// Maps a fresh base page for `va`.
    #[inline]
    pub(crate) fn populate_base(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        va: VirtAddr,
        access: AccessKind,
    ) -> Result<PageSize, OsError> {
        let page = Page::containing(va, PageSize::SIZE_4K);
        let frame = self.place_base(process, vma, page)?;
        self.map_fresh(process, vma, page, frame, access)?;
        self.counters.faults_4k += 1;
        Ok(PageSize::SIZE_4K)
    }

    /// Maps a fresh huge page if the area covers it, nothing is mapped in it, and a block is free.
    pub(crate) fn populate_huge(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        page: Page,
        access: AccessKind,
    ) -> Result<bool, OsError> {
        if page.start < vma.start || page.end() > vma.end || page.size.order() > self.frames.max_block_order() {
            return Ok(false);
        }
        if self.process(process).pages.next_known(page.start.vpn(), page.end().vpn()).is_some() {
            return Ok(false);
        }
        let Some(frame) = self.place_huge(process, vma, page)? else {
            return Ok(false);
        };
        self.charge_huge_allocation(page.size);
        match self.map_fresh(process, vma, page, frame, access) {
            Ok(()) => Ok(true),
            Err(OsError::PageSize { .. }) => {
                self.counters.huge_fallbacks += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Charges the allocation of a huge block, if the kernel compacts memory for it: at the current
    /// fragmentation. The cost of a fault includes taking a free block.
    pub(crate) fn charge_huge_allocation(&mut self, size: PageSize) {
        if self.spec.huge_allocation == HugeAllocation::FreeBlock {
            return;
        }
        let fmfi = self.frames.fmfi(size.order());
        // The block is allocated already. Where the cost table would have the allocation fail, the largest
        // cost applies.
        let cycles = self.costs.allocation(size.bytes(), fmfi).unwrap_or(self.costs.allocate_64m);
        self.ledger.charge(LedgerCause::Allocate, cycles);
    }

    /// Serves a store to a page that a fork shared.
    fn copy_on_write(&mut self, process: ProcessId, vma: &Vma, va: VirtAddr) -> Result<(), OsError> {
        // As in Linux: a shared huge page is split, and only the written base page is copied.
        while self.page_state(process, va).size() > PageSize::SIZE_4K {
            let page = self.mapped_page(process, va);
            if !self.owners.is_shared(self.page_state(process, page.start).frame(), page.size) {
                break;
            }
            self.split(process, va)?;
        }
        let page = self.mapped_page(process, va);
        let state = self.page_state(process, page.start);
        if !state.present() {
            return Ok(()); // the split needed memory, and reclaim evicted this page: the access faults again
        }
        let entry = self.entry(process, page.start)?;
        let flags = PteFlags { writable: vma.protection.write, accessed: true, dirty: true, ..entry.flags };
        if !self.owners.is_shared(state.frame(), page.size) {
            self.counters.reuses_on_write += 1;
            self.set_page_flags(process, page, flags)?;
            self.process_mut(process).pages.change(page.start.vpn(), page.size, |t| t.with_copy_on_write(false));
            return Ok(());
        }
        let frame = self.place_base(process, vma, page)?;
        // Reclaim may have evicted this very page to free a frame.
        if self.page_state(process, va) != state {
            self.return_frames(frame, page.size);
            return Ok(());
        }
        self.unmap_page(process, page)?;
        if let Err(error) = self.map_page(process, Mapping { page, frame, flags }, false) {
            self.return_frames(frame, page.size);
            self.restore_page(process, entry, true)?;
            return Err(error);
        }
        self.release_frames(entry.frame, page.size);
        self.counters.copies_on_write += 1;
        self.charge_copy(1);
        Ok(())
    }

    fn swap_in(&mut self, process: ProcessId, vma: &Vma, va: VirtAddr, access: AccessKind) -> Result<(), OsError> {
        let page = Page::containing(va, PageSize::SIZE_4K);
        let frame = self.place_base(process, vma, page)?;
        // The model keeps no copy in swap, so the page is dirty from the start.
        let flags = PteFlags { accessed: true, dirty: true, ..PteFlags::user(vma.protection) };
        debug_assert!(vma.protection.allows(access));
        if let Err(error) = self.map_page(process, Mapping { page, frame, flags }, false) {
            self.return_frames(frame, page.size);
            return Err(error);
        }
        self.counters.swap_ins += 1;
        self.ledger.charge(LedgerCause::Swap, self.costs.swap_in);
        self.swap.release();
        Ok(())
    }
}
