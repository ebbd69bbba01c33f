//! System calls on address spaces.

use crate::fault::HugeAtFault;
use crate::process::Heap;
use crate::reservations::{BASE_PAGES, huge_page};
use crate::vma::{TOP, pages_of};
use crate::{HugeAdvice, Kernel, LedgerCause, Mapping, OsError, PageState, PteFlags, Vma};
use ambulator_base::{AccessKind, Advice, MapKind, Page, PageSize, ProcessId, Protection, VirtAddr, VmEvent};

fn range(start: VirtAddr, len: u64, call: &str) -> Result<(VirtAddr, VirtAddr), OsError> {
    pages_of(start, len).ok_or_else(|| {
        OsError::BadCall(format!(
            "{call} of {len} bytes at {start}: the range is empty or exceeds the address space (57 bits)"
        ))
    })
}

impl Kernel {
    /// Executes an event of the program's stream for this process.
    ///
    /// # Errors
    /// An invalid call, or memory that ran out. Areas and contents are then unchanged, with two exceptions:
    /// what `mmap` or `mremap` was to replace may be unmapped, and a touch may have reached some pages.
    pub fn event(&mut self, process: ProcessId, event: &VmEvent) -> Result<(), OsError> {
        self.alive(process)?;
        match *event {
            VmEvent::Touch { start, len, write } => {
                let access = if write { AccessKind::Store } else { AccessKind::Load };
                return self.touch(process, start, len, access);
            }
            VmEvent::Place { start, len, at, page } => return self.record_place(process, start, len, at, page),
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
            VmEvent::Touch { .. }
            | VmEvent::Place { .. }
            | VmEvent::RegionBegin
            | VmEvent::RegionEnd
            | VmEvent::Switch { .. } => {}
        }
        self.charge_shootdowns();
        Ok(())
    }

    /// `mmap`, which replaces existing mappings, as with `MAP_FIXED`.
    fn mmap(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        len: u64,
        protection: Protection,
        kind: MapKind,
    ) -> Result<(), OsError> {
        let (start, end) = range(start, len, "mmap")?;
        self.unmap_areas(process, start, end)?;
        let heap = &mut self.process_mut(process).heap;
        if kind == MapKind::Heap && heap.is_none() {
            *heap = Some(Heap { start, end, protection });
        }
        self.add_area(process, Vma { start, end, protection, kind, huge: HugeAdvice::None })
    }

    /// Adds an area to a free range, and maps the pages that the placement populates eagerly.
    fn add_area(&mut self, process: ProcessId, vma: Vma) -> Result<(), OsError> {
        self.insert_area(process, vma);
        let populated = self.populate_eagerly(process, &vma);
        if populated.is_err() {
            self.unmap_areas(process, vma.start, vma.end)?;
        }
        populated
    }

    pub(crate) fn insert_area(&mut self, process: ProcessId, vma: Vma) {
        let vmas = &mut self.process_mut(process).vmas;
        vmas.insert(vma);
        let merged = vmas.find(vma.start).map_or((vma.start, vma.end), |whole| (whole.start, whole.end));
        // A heap's reservation that reaches into the new area ends, unless the heap has grown into it.
        if merged.0 > huge_page(vma.start).start {
            self.break_reservations(process, vma.start, vma.end);
        }
        let (translations, mut os) = self.translations(process);
        translations.vma_extended(vma.start, vma.len(), merged, &mut os);
    }

    /// Maps the frames that the placement has allocated for a new area: with 2 MiB pages where a fault would get
    /// one and both addresses are aligned, else with base pages. Where it would, the pages up to the first border
    /// of 2 MiB are placed by themselves.
    fn populate_eagerly(&mut self, process: ProcessId, vma: &Vma) -> Result<(), OsError> {
        let huge = matches!(self.huge_at_fault(vma), HugeAtFault::Whole);
        self.prefer_nodes_of_page(Page::containing(vma.start, PageSize::SIZE_4K));
        let (placement, mut context) = self.place_context();
        let mut ranges = Vec::new();
        // Frames are aligned as blocks are. Behind the first border of 2 MiB, addresses are too.
        let border = VirtAddr(vma.start.0.next_multiple_of(PageSize::SIZE_2M.bytes())).min(vma.end);
        let border = if huge && vma.end.0 - border.0 >= PageSize::SIZE_2M.bytes() { border } else { vma.start };
        for (start, end) in [(vma.start, border), (border, vma.end)] {
            if start < end {
                ranges.extend(placement.vma_added(process, start, end, &mut context));
            }
        }
        if !ranges.is_empty() {
            // These frames are not those of a heap's last reservation, which the area may have grown into.
            self.break_reservations(process, vma.start, vma.end);
        }
        let flags = PteFlags { accessed: true, dirty: vma.protection.write, ..PteFlags::user(vma.protection) };
        let mut done = Ok(());
        for eager in ranges {
            let mut at = 0;
            while at < eager.pages {
                let (start, frame) = (eager.start.offset(at << 12), eager.frame.offset(at));
                let is_aligned = start.0 >> 12 & (BASE_PAGES - 1) == 0 && frame.0 & (BASE_PAGES - 1) == 0;
                let is_huge = huge && is_aligned && eager.pages - at >= BASE_PAGES && self.has_huge_frames(start);
                let mut size = if is_huge { PageSize::SIZE_2M } else { PageSize::SIZE_4K };
                if done.is_ok() {
                    let mapping = |size| Mapping { page: Page { start, size }, frame, flags };
                    done = self.map_page(process, mapping(size), false);
                    if is_huge && matches!(done, Err(OsError::PageSize { .. })) {
                        size = PageSize::SIZE_4K;
                        done = self.map_page(process, mapping(size), false);
                    }
                }
                match &done {
                    Ok(()) => {
                        self.huge_pages += u64::from(size == PageSize::SIZE_2M);
                        self.charge_zero(frame, size);
                    }
                    Err(_) => self.return_frames(frame, size),
                }
                at += size.bytes() >> 12;
            }
        }
        done
    }

    fn unmap_areas(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> Result<(), OsError> {
        if self.process(process).vmas.is_free(start, end) {
            return Ok(());
        }
        self.unmap_range(process, start, end)?;
        let gone = self.process_mut(process).vmas.remove(start, end);
        let asid = self.process(process).asid();
        for piece in gone {
            self.placement.vma_removed(process, piece.start, piece.end);
            let (translations, mut os) = self.translations(process);
            for (start, len) in translations.vma_removed(piece.start, piece.len(), &mut os) {
                self.shootdowns.push_area(asid, start, len);
            }
        }
        Ok(())
    }

    fn munmap(&mut self, process: ProcessId, start: VirtAddr, len: u64) -> Result<(), OsError> {
        let (start, end) = range(start, len, "munmap")?;
        self.unmap_areas(process, start, end)
    }

    /// `mprotect`. Pages without any rights stay in the table, readable like every present page of x86-64: a
    /// correct program does not access them. The first touch of an unmapped page faults and is denied.
    fn mprotect(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        len: u64,
        protection: Protection,
    ) -> Result<(), OsError> {
        let (start, end) = range(start, len, "mprotect")?;
        self.restore_hints(process, start, end)?;
        self.break_reservations(process, start, end);
        self.split_at(process, start)?;
        self.split_at(process, end)?;
        self.process_mut(process).vmas.change(start, end, |vma| vma.protection = protection);
        let mut at = start;
        while let Some((page, state)) = self.next_page(process, at, end) {
            if state.present() {
                let entry = self.entry(process, page.start)?;
                let flags = PteFlags {
                    // A shared page stays read-only until a store copies it.
                    writable: protection.write && !state.copy_on_write(),
                    executable: protection.execute,
                    ..entry.flags
                };
                self.set_page_flags(process, page, flags)?;
            }
            at = page.end();
        }
        Ok(())
    }

    /// `mremap`. Pages keep their frames, and existing mappings at the destination are replaced.
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
        let parts = self.process(process).vmas.parts(old, old_end);
        let covered: u64 = parts.iter().map(Vma::len).sum();
        let [vma] = parts[..] else {
            return Err(OsError::BadCall(format!(
                "mremap of [{old}, {old_end}): the range spans {} mappings; it must lie in one",
                parts.len()
            )));
        };
        if covered != old_end.0 - old.0 {
            return Err(OsError::BadCall(format!(
                "mremap of [{old}, {old_end}): only {covered} bytes of it are mapped"
            )));
        }
        if new == old {
            if new_end < old_end {
                return self.unmap_areas(process, new_end, old_end);
            }
            if new_end > old_end {
                if !self.process(process).vmas.is_free(old_end, new_end) {
                    return Err(OsError::BadCall(format!(
                        "mremap grows [{old}, {old_end}) to {new_end}, but the range after it is mapped; \
                         give a new address"
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
        // Every step that may fail for lack of memory comes before the first change.
        let moved = (old_end.0 - old.0).min(new_end.0 - new.0);
        let moved_end = old.offset(moved);
        self.restore_hints(process, old, old_end)?;
        self.break_reservations(process, old, old_end);
        for edge in [old, moved_end, old_end] {
            self.split_at(process, edge)?;
        }
        self.split_for_move(process, old, moved_end, new)?;
        self.unmap_areas(process, new, new_end)?;
        self.insert_area(process, Vma { start: new, end: new_end, ..vma });
        // Pages of a heap that move behind another part of it keep their frames.
        self.break_reservations(process, new, new_end);
        if let Err((until, error)) = self.move_pages(process, old, moved_end, new) {
            self.move_pages(process, new, new.offset(until.0 - old.0), old).map_err(|(_, error)| error)?;
            self.unmap_areas(process, new, new_end)?;
            return Err(error);
        }
        self.unmap_areas(process, old, old_end)?;
        if new.offset(moved) < new_end {
            self.populate_eagerly(process, &Vma { start: new.offset(moved), end: new_end, ..vma })?;
        }
        Ok(())
    }

    /// Splits the huge pages of `[from, end)` that would be misaligned if the range began at `to`.
    fn split_for_move(
        &mut self,
        process: ProcessId,
        from: VirtAddr,
        end: VirtAddr,
        to: VirtAddr,
    ) -> Result<(), OsError> {
        let distance = from.0.abs_diff(to.0);
        let mut at = from;
        while let Some((page, _)) = self.next_page(process, at, end) {
            if distance.is_multiple_of(page.size.bytes()) {
                at = page.end();
            } else {
                self.split(process, page.start)?;
            }
        }
        Ok(())
    }

    /// Moves the pages of `[from, end)` to `to`. They keep their frames. An error names the first page that
    /// could not move; the pages below it have moved.
    fn move_pages(
        &mut self,
        process: ProcessId,
        from: VirtAddr,
        end: VirtAddr,
        to: VirtAddr,
    ) -> Result<(), (VirtAddr, OsError)> {
        let mut at = from;
        while let Some((page, state)) = self.next_page(process, at, end) {
            let target = VirtAddr(to.0 + (page.start.0 - from.0));
            if state.present() {
                let entry = self.unmap_page(process, page).map_err(|error| (page.start, error))?;
                let mapping = Mapping { page: Page { start: target, size: page.size }, ..entry };
                if let Err(error) = self.map_page(process, mapping, state.copy_on_write()) {
                    self.restore_page(process, entry, state.copy_on_write()).map_err(|error| (page.start, error))?;
                    return Err((page.start, error));
                }
                if state.lazily_free() {
                    let pages = &mut self.process_mut(process).pages;
                    pages.change(target.vpn(), page.size, |state| state.with_lazily_free(true));
                }
            } else {
                let pages = &mut self.process_mut(process).pages;
                pages.set(page.start.vpn(), PageState::NONE);
                pages.set(target.vpn(), state);
            }
            at = page.end();
        }
        Ok(())
    }

    fn madvise(&mut self, process: ProcessId, start: VirtAddr, len: u64, advice: Advice) -> Result<(), OsError> {
        let (start, end) = range(start, len, "madvise")?;
        self.restore_hints(process, start, end)?;
        match advice {
            Advice::Huge | Advice::NoHuge => {
                // The ends of the range split areas, and no page may span two areas.
                self.break_reservations(process, start, end);
                self.split_at(process, start)?;
                self.split_at(process, end)?;
                let huge = if advice == Advice::Huge { HugeAdvice::Huge } else { HugeAdvice::NoHuge };
                self.process_mut(process).vmas.change(start, end, |vma| vma.huge = huge);
            }
            Advice::DontNeed => self.unmap_range(process, start, end)?,
            Advice::Free => self.free_lazily(process, start, end)?,
        }
        Ok(())
    }

    /// `MADV_FREE`: clears the dirty bit of entire private pages. Reclaim may drop them while it stays clear.
    fn free_lazily(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> Result<(), OsError> {
        let mut at = start;
        while let Some((page, state)) = self.next_page(process, at, end) {
            at = page.end();
            if !state.present() || state.copy_on_write() || page.start < start || page.end() > end {
                continue;
            }
            let entry = self.entry(process, page.start)?;
            self.set_page_flags(process, page, PteFlags { dirty: false, accessed: false, ..entry.flags })?;
            self.process_mut(process).pages.change(page.start.vpn(), page.size, |t| t.with_lazily_free(true));
        }
        Ok(())
    }

    /// `brk`: moves the end of the heap. The first call of a process without a heap sets its start. An end
    /// below the start empties the heap.
    fn brk(&mut self, process: ProcessId, end: VirtAddr) -> Result<(), OsError> {
        if end.0 > TOP.0 {
            return Err(OsError::BadCall(format!("brk to {end}: it exceeds the address space (57 bits)")));
        }
        let end = end.align_up(PageSize::SIZE_4K);
        let owner = self.process_mut(process);
        let fresh = Heap { start: end, end, protection: Protection::READ_WRITE };
        let heap = *owner.heap.get_or_insert(fresh);
        let end = end.max(heap.start);
        if end > heap.end {
            if !owner.vmas.is_free(heap.end, end) {
                return Err(OsError::BadCall(format!(
                    "brk to {end}: the range from the end of the heap, {}, is partly mapped",
                    heap.end
                )));
            }
            let (kind, protection) = (MapKind::Heap, heap.protection);
            self.add_area(process, Vma { start: heap.end, end, protection, kind, huge: HugeAdvice::None })?;
        } else if end < heap.end {
            self.unmap_areas(process, end, heap.end)?;
        }
        self.process_mut(process).heap = Some(Heap { end, ..heap });
        Ok(())
    }
}
