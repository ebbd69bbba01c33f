//! Placement in the frames that a trace records ([`ambulator_base::VmEvent::Place`]).
//!
//! A page whose frame is recorded gets that frame when it is first touched, and has the recorded size, whatever
//! the kernel's policy: 4 KiB, or 2 MiB where the recorded page is as large or larger.
//!
//! The recorded memory stands in the machine's in aligned blocks of 2 MiB ([`blocks`]). When the trace first
//! names a frame of a block, all free frames of the block where it stands are reserved for recorded pages, so
//! that page tables do not take them, and frames of it that are freed are reserved again. An eighth of memory
//! stays free of that; a kernel that must reclaim frames takes all reserved ones first, and reserves no more.
//!
//! Where that is not possible:
//! - The recorded memory is larger than the machine's. Its blocks stand in other blocks of the machine, where
//!   contiguity within them, and if possible between neighbours, is kept.
//! - The frame is taken, by a page table, by the kernel, or by another page. The page gets any free frame.
//! - The trace does not name a frame for the page. It gets any free frame.
//!
//! A page that the trace names another frame for moves there, by a migration in the background.

mod blocks;
mod counters;
mod runs;

use crate::vma::pages_of;
use crate::{Kernel, OsError, PlaceContext, PlaceRequest, Placement, RecordedPlace, Vma};
use ambulator_base::{
    AccessKind, CounterSink, Counters, Page, PageSize, Pfn, PhysAddr, ProcessId, State, VirtAddr, VmEvent,
};
use blocks::{BLOCK_FRAMES, Blocks};
use counters::RecordedCounters;
use runs::{Run, Runs};
use rustc_hash::FxHashMap;

/// Share of memory, as a divisor, that stays free of reservations.
const FREE_SHARE: u64 = 8;

/// Places pages in the frames that a trace records.
#[derive(Debug, Default, State)]
pub struct RecordedPlacement {
    places: FxHashMap<ProcessId, Runs>,
    blocks: Blocks,
    /// Bit `f % 64` of word `f / 64`: frame `f` is reserved for the page that is recorded there.
    reserved: Vec<u64>,
    /// The kernel had to take reserved frames back.
    scarce: bool,
    counters: RecordedCounters,
}

impl RecordedPlacement {
    fn is_reserved(&self, frame: u64) -> bool {
        self.reserved.get((frame / 64) as usize).is_some_and(|word| word >> (frame % 64) & 1 != 0)
    }

    fn may_reserve(&self, os: &PlaceContext<'_>) -> bool {
        !self.scarce && os.frames.free_frames() > os.frames.total_frames() / FREE_SHARE
    }

    /// Reserves the free frames of a block.
    fn reserve_block(&mut self, block: u64, os: &mut PlaceContext<'_>) {
        if !self.may_reserve(os) {
            return;
        }
        self.reserved.resize(os.frames.total_frames().div_ceil(64) as usize, 0);
        let first = block * BLOCK_FRAMES;
        if os.frames.allocate_at(Pfn(first), PageSize::SIZE_2M.order()) {
            self.reserved[(first / 64) as usize..][..(BLOCK_FRAMES / 64) as usize].fill(!0);
            return;
        }
        for frame in first..first + BLOCK_FRAMES {
            if os.frames.allocate_at(Pfn(frame), 0) {
                self.reserved[(frame / 64) as usize] |= 1 << (frame % 64);
            }
        }
    }

    /// Ends the reservation of a frame; false if it had none. The frame stays allocated.
    fn end_reservation(&mut self, frame: u64) -> bool {
        let was = self.is_reserved(frame);
        if was {
            self.reserved[(frame / 64) as usize] &= !(1 << (frame % 64));
        }
        was
    }

    /// Takes consecutive frames, if each is reserved or free.
    fn take(&mut self, first: u64, frames: u64, os: &mut PlaceContext<'_>) -> bool {
        let mut range = first..first + frames;
        if !range.clone().all(|frame| self.is_reserved(frame) || os.frames.is_free(Pfn(frame))) {
            return false;
        }
        // An allocation fails all the same where a test injects faults.
        let refused = range.find(|&frame| !self.end_reservation(frame) && !os.frames.allocate_at(Pfn(frame), 0));
        if let Some(refused) = refused {
            (first..refused).for_each(|frame| os.frames.free(Pfn(frame), 0));
        }
        refused.is_none()
    }

    /// The consecutive frames of this machine in which the trace has the whole page, and how many of them are
    /// the recorded ones.
    fn target(&self, process: ProcessId, page: Page) -> Option<(u64, u64)> {
        let runs = self.places.get(&process)?;
        let (mut first, mut exact) = (None, 0);
        let (mut at, end) = (page.start.vpn().0, page.end().vpn().0);
        while at < end {
            let run = runs.find(at)?;
            let target = run.frame_of(at)?;
            let begin = *first.get_or_insert(target);
            if target != begin + (at - page.start.vpn().0) {
                return None;
            }
            let until = run.end().min(end);
            exact += if run.is_exact() { until - at } else { 0 };
            at = until;
        }
        first.map(|first| (first, exact))
    }

    fn count_placed(&mut self, frames: u64, exact: u64) {
        self.counters.exact += exact;
        self.counters.rebased += frames - exact;
    }

    /// Any free frames, for a page that does not get the recorded ones.
    fn anywhere(request: &PlaceRequest, os: &mut PlaceContext<'_>, counter: &mut u64) -> Option<Pfn> {
        let found = os.frames.allocate(request.page.size.order());
        if found.is_some() {
            *counter += request.page.size.frames();
        }
        found
    }
}

impl Placement for RecordedPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let PlaceRequest { process, page, .. } = *request;
        let runs = self.places.get(&process);
        if !runs.is_some_and(|runs| runs.overlaps(page.start.vpn().0, page.end().vpn().0)) {
            return Self::anywhere(request, os, &mut self.counters.unrecorded);
        }
        if let Some((first, exact)) = self.target(process, page)
            && first.is_multiple_of(page.size.frames())
            && self.take(first, page.size.frames(), os)
        {
            self.count_placed(page.size.frames(), exact);
            return Some(Pfn(first));
        }
        if page.size > PageSize::SIZE_4K {
            return None; // its base pages may each get their frame
        }
        let has_block = self.target(process, page).is_some();
        let why = if has_block { &mut self.counters.taken } else { &mut self.counters.no_room };
        Self::anywhere(request, os, why)
    }

    fn allocate_for_migration(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let frames = request.page.size.frames();
        let target = self.target(request.process, request.page).filter(|(first, _)| first.is_multiple_of(frames));
        let taken = target.filter(|(first, _)| self.take(*first, frames, os));
        match taken {
            Some(_) => self.counters.moved += frames,
            None => self.counters.stayed += frames,
        }
        taken.map(|(first, _)| Pfn(first))
    }

    fn heeds_places(&self) -> bool {
        true
    }

    fn record(&mut self, place: &RecordedPlace, os: &mut PlaceContext<'_>) {
        let huge = place.page >= PageSize::SIZE_2M;
        let (mut page, end) = (place.start.vpn().0, place.start.offset(place.len).vpn().0);
        let mut frame = place.at.pfn().0;
        while page < end {
            let pages = (end - page).min(BLOCK_FRAMES - frame % BLOCK_FRAMES);
            let (block, new) = self.blocks.stands_in(place.origin, frame / BLOCK_FRAMES, os.frames).unzip();
            if let (Some(block), Some(true)) = (block, new) {
                self.reserve_block(block, os);
            }
            let target = block.map(|block| block * BLOCK_FRAMES + frame % BLOCK_FRAMES);
            let run = Run { start: page, pages, target, recorded: frame, huge };
            let runs = self.places.entry(place.process).or_default();
            if !runs.has(&run) {
                self.counters.recorded += pages;
                runs.insert(run);
            }
            (page, frame) = (page + pages, frame + pages);
        }
    }

    fn recorded(&self, process: ProcessId, va: VirtAddr) -> Option<(Pfn, PageSize)> {
        let page = va.vpn().0;
        let run = self.places.get(&process)?.find(page)?;
        let size = if run.huge { PageSize::SIZE_2M } else { PageSize::SIZE_4K };
        // Without a block any frame will do.
        Some((Pfn(run.frame_of(page).unwrap_or(u64::MAX)), size))
    }

    fn process_ended(&mut self, process: ProcessId) {
        self.places.remove(&process);
    }

    fn take_back(&mut self, frame: Pfn, size: PageSize, os: &mut PlaceContext<'_>) -> bool {
        let reserves = size <= PageSize::SIZE_2M && self.blocks.is_used(frame.0 / BLOCK_FRAMES) && self.may_reserve(os);
        if reserves && !self.reserved.is_empty() {
            for frame in frame.0..frame.0 + size.frames() {
                self.reserved[(frame / 64) as usize] |= 1 << (frame % 64);
            }
            return true;
        }
        false
    }

    fn release_reserved(&mut self, os: &mut PlaceContext<'_>) -> u64 {
        self.scarce |= !self.reserved.is_empty();
        let mut released = 0;
        for (word, bits) in std::mem::take(&mut self.reserved).into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
            for frame in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                os.frames.free(Pfn(word as u64 * 64 + frame), 0);
                released += 1;
            }
        }
        released
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.trace"), sink);
    }
}

impl Kernel {
    /// The trace says where a range was: pages that are mapped elsewhere move there.
    pub(crate) fn record_place(
        &mut self,
        process: ProcessId,
        start: VirtAddr,
        len: u64,
        at: PhysAddr,
        page: PageSize,
    ) -> Result<(), OsError> {
        if !self.placement.heeds_places() {
            return Ok(());
        }
        let event = VmEvent::Place { start, len, at, page };
        let wrong =
            || OsError::BadCall(format!("{event:?}: the range is empty or exceeds the address space (57 bits)"));
        let (start, end) = pages_of(start, len).ok_or_else(wrong)?;
        let origin = self.process(process).origin;
        let (placement, mut context) = self.place_context();
        placement.record(&RecordedPlace { process, origin, start, len: end.0 - start.0, at, page }, &mut context);
        let mut va = start;
        while let Some((page, state)) = self.next_page(process, va, end) {
            va = page.end();
            let there = self.placement.recorded(process, page.start).is_some_and(|(frame, _)| frame == state.frame());
            if state.present() && !there {
                self.move_to_recorded(process, page)?;
            }
        }
        self.charge_shootdowns();
        Ok(())
    }

    fn move_to_recorded(&mut self, process: ProcessId, page: Page) -> Result<(), OsError> {
        let frame = self.page_state(process, page.start).frame();
        let Some(vma) = self.process(process).vmas.find(page.start).copied() else { return Ok(()) };
        let reserved = self.process(process).reservations.find(page.start).is_some();
        if reserved || self.owners.is_shared(frame, page.size) {
            return Ok(());
        }
        let asid = self.process(process).asid();
        let request = PlaceRequest { process, asid, page, vma_start: vma.start, vma_end: vma.end };
        let (placement, mut context) = self.place_context();
        if let Some(to) = placement.allocate_for_migration(&request, &mut context) {
            self.migrate(process, page, to)?;
        }
        Ok(())
    }

    /// Maps a fresh page of the recorded size, or a base page where that is not possible.
    pub(crate) fn populate_recorded(
        &mut self,
        process: ProcessId,
        vma: &Vma,
        va: VirtAddr,
        access: AccessKind,
        recorded: PageSize,
    ) -> Result<PageSize, OsError> {
        let huge = Page::containing(va, PageSize::SIZE_2M);
        if recorded >= huge.size && self.populate_huge(process, vma, huge, access)? {
            self.counters.faults_2m += 1;
            return Ok(huge.size);
        }
        self.populate_base(process, vma, va, access)
    }
}
