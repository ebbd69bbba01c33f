//! System calls: what programs do to their address spaces.

use crate::kernel::{Kernel, process_mut, table_context};
use crate::vma::pages_of;
use crate::{HugeAdvice, LedgerCause, Mapping, OsError, PteFlags, Vma};
use ambulator_base::{AccessKind, Advice, MapKind, Page, PageSize, ProcessId, Protection, VirtAddr, VmEvent};

fn range(start: VirtAddr, len: u64, call: &str) -> Result<(VirtAddr, VirtAddr), OsError> {
    pages_of(start, len).ok_or_else(|| {
        OsError::BadCall(format!(
            "{call} of {len} bytes at {start}: the range is empty or passes the end of the address space (57 bits)"
        ))
    })
}

impl Kernel {
    /// Does what an event of the program's stream asks of this process.
    ///
    /// # Errors
    /// A call that makes no sense, or memory that ran out.
    pub fn event(&mut self, process: ProcessId, event: &VmEvent) -> Result<(), OsError> {
        match *event {
            VmEvent::Touch { start, len, write } => {
                let access = if write { AccessKind::Store } else { AccessKind::Load };
                return self.touch(process, start, len, access);
            }
            VmEvent::RegionBegin | VmEvent::RegionEnd | VmEvent::Switch { .. } => return Ok(()),
            _ => {}
        }
        self.counters.syscalls += 1;
        self.ledger.charge(LedgerCause::Syscall, self.costs.syscall);
        match *event {
            VmEvent::Map { start, len, protection, kind } => self.mmap(process, start, len, protection, kind)?,
            VmEvent::Unmap { start, len } => self.munmap(process, start, len)?,
            VmEvent::Protect { start, len, protection } => self.mprotect(process, start, len, protection)?,
            VmEvent::Remap { old, old_len, new, new_len } => self.mremap(process, old, old_len, new, new_len)?,
            VmEvent::Advise { start, len, advice } => self.madvise(process, start, len, advice)?,
            VmEvent::Brk { end } => self.brk(process, end)?,
            VmEvent::Exit { .. } => self.exit(process)?,
            VmEvent::Fork { .. } => {
                self.fork(process)?;
            }
            VmEvent::Touch { .. } | VmEvent::RegionBegin | VmEvent::RegionEnd | VmEvent::Switch { .. } => {}
        }
        self.charge_shootdowns();
        Ok(())
    }

    /// `mmap`: what was mapped there before goes, as with `MAP_FIXED`.
    fn mmap(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        len: u64,
        protection: Protection,
        kind: MapKind,
    ) -> Result<(), OsError> {
        let (start, end) = range(start, len, "mmap")?;
        self.drop_areas(process, start, end)?;
        self.add_area(process, Vma { start, end, protection, kind, huge: HugeAdvice::None })
    }

    /// Puts an area where there is none, and tells table and placement.
    fn add_area(&mut self, process: ProcessId, vma: Vma) -> Result<(), OsError> {
        let owner = process_mut!(self, process);
        owner.vmas.insert(vma);
        owner.table.vma_added(vma.start, vma.len(), &mut table_context!(self));
        let (placement, mut context) = self.place_context();
        for eager in placement.vma_added(process, vma.start, vma.end, &mut context) {
            for i in 0..eager.pages {
                let page = Page { start: eager.start.offset(i << 12), size: PageSize::SIZE_4K };
                let flags = PteFlags { accessed: true, dirty: vma.protection.write, ..PteFlags::user(vma.protection) };
                self.map_page(process, Mapping { page, frame: eager.frame.offset(i), flags }, false)?;
                self.charge_zero(PageSize::SIZE_4K);
            }
        }
        Ok(())
    }

    fn drop_areas(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> Result<(), OsError> {
        if self.process(process).vmas.is_free(start, end) {
            return Ok(());
        }
        self.unmap_range(process, start, end)?;
        let owner = process_mut!(self, process);
        for piece in owner.vmas.remove(start, end) {
            owner.table.vma_removed(piece.start, piece.len(), &mut table_context!(self));
        }
        Ok(())
    }

    fn munmap(&mut self, process: ProcessId, start: VirtAddr, len: u64) -> Result<(), OsError> {
        let (start, end) = range(start, len, "munmap")?;
        self.drop_areas(process, start, end)
    }

    fn mprotect(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        len: u64,
        protection: Protection,
    ) -> Result<(), OsError> {
        let (start, end) = range(start, len, "mprotect")?;
        process_mut!(self, process).vmas.change(start, end, |vma| vma.protection = protection);
        self.break_reservations(process, start, end);
        self.split_at(process, start)?;
        self.split_at(process, end)?;
        let mut at = start;
        while let Some((page, truth)) = self.next_page(process, at, end) {
            if truth.present() {
                let entry = self.entry(process, page.start)?;
                let flags = PteFlags {
                    // A shared page stays read-only until a store copies it.
                    writable: protection.write && !truth.copy_on_write(),
                    executable: protection.execute,
                    ..entry.flags
                };
                self.set_page_flags(process, page, flags)?;
            }
            at = page.end();
        }
        Ok(())
    }

    /// `mremap`: pages keep their frames. What lay at the new place goes.
    fn mremap(
        &mut self,
        process: ProcessId,
        old: VirtAddr,
        old_len: u64,
        new: VirtAddr,
        new_len: u64,
    ) -> Result<(), OsError> {
        let (old, old_end) = range(old, old_len, "mremap")?;
        let (new, new_end) = range(new, new_len, "mremap")?;
        let pieces = self.process(process).vmas.pieces(old, old_end);
        let covered: u64 = pieces.iter().map(Vma::len).sum();
        let [vma] = pieces[..] else {
            return Err(OsError::BadCall(format!(
                "mremap of [{old}, {old_end}): the range lies in {} mappings; it must lie in one",
                pieces.len()
            )));
        };
        if covered != old_end.0 - old.0 {
            return Err(OsError::BadCall(format!(
                "mremap of [{old}, {old_end}): only {covered} bytes of it are mapped"
            )));
        }
        if new == old {
            if new_end < old_end {
                return self.drop_areas(process, new_end, old_end);
            }
            if new_end > old_end {
                if !self.process(process).vmas.is_free(old_end, new_end) {
                    return Err(OsError::BadCall(format!(
                        "mremap grows [{old}, {old_end}) to {new_end}, but something is mapped behind it; say where it moved to"
                    )));
                }
                return self.add_area(process, Vma { start: old_end, end: new_end, ..vma });
            }
            return Ok(());
        }
        if new < old_end && old < new_end {
            return Err(OsError::BadCall(format!(
                "mremap from [{old}, {old_end}) to [{new}, {new_end}): the ranges overlap"
            )));
        }
        self.drop_areas(process, new, new_end)?;
        self.add_area(process, Vma { start: new, end: new_end, ..vma })?;
        self.break_reservations(process, old, old_end);
        self.split_at(process, old)?;
        self.split_at(process, old_end)?;
        let mut at = old;
        while let Some((page, truth)) = self.next_page(process, at, old_end) {
            let to = VirtAddr(new.0 + (page.start.0 - old.0));
            if to.offset(page.size.bytes()) > new_end && to.0 + page.size.bytes() > new_end.0 {
                if page.size > PageSize::SIZE_4K && to < new_end {
                    self.split(process, page.start)?;
                    continue;
                }
                break; // the tail that shrinking drops
            }
            if truth.present() {
                if to != to.align_down(page.size) {
                    self.split(process, page.start)?;
                    continue;
                }
                let entry = self.unmap_page(process, page)?;
                let mapping = Mapping { page: Page { start: to, size: page.size }, ..entry };
                self.map_page(process, mapping, truth.copy_on_write())?;
            } else {
                let pages = &mut process_mut!(self, process).pages;
                pages.set(page.start.vpn(), crate::Truth::NONE);
                pages.set(to.vpn(), truth);
            }
            at = page.end();
        }
        self.drop_areas(process, old, old_end)
    }

    fn madvise(&mut self, process: ProcessId, start: VirtAddr, len: u64, advice: Advice) -> Result<(), OsError> {
        let (start, end) = range(start, len, "madvise")?;
        match advice {
            Advice::Huge | Advice::NoHuge => {
                // The ends cut an area in two, and no page may lie in both parts.
                self.break_reservations(process, start, end);
                self.split_at(process, start)?;
                self.split_at(process, end)?;
                let huge = if advice == Advice::Huge { HugeAdvice::Huge } else { HugeAdvice::NoHuge };
                process_mut!(self, process).vmas.change(start, end, |vma| vma.huge = huge);
            }
            Advice::DontNeed => self.unmap_range(process, start, end)?,
            Advice::Free => self.free_lazily(process, start, end)?,
        }
        Ok(())
    }

    /// `MADV_FREE`: whole private pages lose their dirty bit; reclaim may drop them while they have none.
    fn free_lazily(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> Result<(), OsError> {
        let mut at = start;
        while let Some((page, truth)) = self.next_page(process, at, end) {
            at = page.end();
            if !truth.present() || truth.copy_on_write() || page.start < start || page.end() > end {
                continue;
            }
            let entry = self.entry(process, page.start)?;
            self.set_page_flags(process, page, PteFlags { dirty: false, accessed: false, ..entry.flags })?;
            process_mut!(self, process).pages.change(page.start.vpn(), page.size, |t| t.with_lazily_free(true));
        }
        Ok(())
    }

    /// `brk`: the heap's end moves. The first call of a process without a heap says where it begins.
    fn brk(&mut self, process: ProcessId, end: VirtAddr) -> Result<(), OsError> {
        let end = end.align_up(PageSize::SIZE_4K);
        let Some(heap) = self.process(process).vmas.last_of(MapKind::Heap).copied() else {
            return self.add_area(
                process,
                Vma {
                    start: end,
                    end: end.offset(ambulator_base::FRAME_BYTES),
                    protection: Protection::READ_WRITE,
                    kind: MapKind::Heap,
                    huge: HugeAdvice::None,
                },
            );
        };
        if end > heap.end {
            if !self.process(process).vmas.is_free(heap.end, end) {
                return Err(OsError::BadCall(format!(
                    "brk to {end}: something is mapped between the heap's end {} and it",
                    heap.end
                )));
            }
            return self.add_area(process, Vma { start: heap.end, end, ..heap });
        }
        if end < heap.end {
            return self.drop_areas(process, end.max(heap.start), heap.end);
        }
        Ok(())
    }
}
