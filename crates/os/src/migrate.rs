//! Page migration: out of a placement's segments to make room, and into them on a hint of the hardware.

use crate::{Copying, Kernel, LedgerCause, Mapping, OsError, PageState, PlaceRequest};
use ambulator_base::{Asid, Page, Pfn, ProcessId, State, VirtAddr};

/// A page that has moved. The copy runs concurrently with the program; an access to the page waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Migration {
    /// The address space.
    pub asid: Asid,
    /// The page.
    pub page: Page,
    /// The first old frame.
    pub from: Pfn,
    /// The first new frame.
    pub to: Pfn,
}

/// Migrated pages in order, until the machine copies them.
#[derive(Debug, Default, State)]
pub(crate) struct Migrations(Vec<Migration>);

impl Migrations {
    /// Adds a migration.
    pub fn push(&mut self, migration: Migration) {
        self.0.push(migration);
    }

    /// Moves all migrations to `into`.
    pub fn take(&mut self, into: &mut Vec<Migration>) {
        into.append(&mut self.0);
    }
}

impl Kernel {
    /// Moves the migrations since the last call whose pages are to be copied to `into`.
    pub fn take_migrations(&mut self, into: &mut Vec<Migration>) {
        match self.spec.copying {
            Copying::Memory => self.migrations.take(into),
            Copying::Free => self.migrations.0.clear(),
        }
    }

    /// Moves the blocks of frames that a guest kernel has returned to the hypervisor to `into`.
    pub fn take_released(&mut self, into: &mut Vec<(Pfn, u64)>) {
        self.placement.take_released(into);
    }

    /// Makes room for a page where the placement would put it, if that is occupied.
    pub(crate) fn make_room(&mut self, request: &PlaceRequest, migrates: bool) -> Result<(), OsError> {
        let (placement, mut context) = self.place_context();
        let candidates = placement.eviction_candidates(request, migrates, &mut context);
        if candidates.is_empty() {
            return Ok(());
        }
        let to_swap = placement.evicts_to_swap();
        for (process, page) in candidates {
            if (process, page) == (request.process, request.page) || !self.may_move(process, page) {
                continue;
            }
            if to_swap {
                if self.swap.has_room() {
                    self.swap_out(process, page)?;
                    return Ok(());
                }
                continue;
            }
            self.prefer_nodes_of_page(page);
            let Some(frame) = self.frames.allocate(page.size.order()) else { return Ok(()) };
            if self.migrate(process, page, frame)? {
                self.counters.migrations_out += 1;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a page is mapped with this size, unshared, in a frame that the placement owns.
    fn may_move(&self, process: ProcessId, page: Page) -> bool {
        if !self.is_alive(process) {
            return false;
        }
        let state = self.page_state(process, page.start);
        state.present()
            && state.size() == page.size
            && self.placement.owns(state.frame())
            && !self.pinned.holds(process, page)
            && !self.owners.is_shared(state.frame(), page.size)
    }

    /// Moves a page to other frames, which the caller has allocated. If the table cannot map it there, the
    /// frames are freed and the result is false.
    pub(crate) fn migrate(&mut self, process: ProcessId, page: Page, to: Pfn) -> Result<bool, OsError> {
        let copy_on_write = self.page_state(process, page.start).copy_on_write();
        let entry = self.unmap_page(process, page)?;
        if self.try_map_page(process, Mapping { frame: to, ..entry }, copy_on_write).is_err() {
            self.return_frames(to, page.size);
            self.restore_page(process, entry, copy_on_write)?;
            return Ok(false);
        }
        self.release_frames(entry.frame, page.size);
        let asid = self.process(process).asid();
        self.migrations.push(Migration { asid, page, from: entry.frame, to });
        Ok(true)
    }

    /// Writes a base page to swap. A larger page is split first.
    fn swap_out(&mut self, process: ProcessId, page: Page) -> Result<(), OsError> {
        let page = if page.size > ambulator_base::PageSize::SIZE_4K {
            self.split(process, page.start)?;
            self.mapped_page(process, page.start)
        } else {
            page
        };
        let entry = self.unmap_page(process, page)?;
        self.release_frames(entry.frame, page.size);
        self.counters.swap_outs += 1;
        self.swap.take();
        self.ledger.charge(LedgerCause::Swap, self.costs.swap_out);
        self.process_mut(process).pages.set(page.start.vpn(), PageState::in_swap());
        Ok(())
    }

    /// A hint of the hardware to migrate the page of `va` into a segment of the placement. Returns whether it
    /// moved: it may be there already, be shared, or find no room.
    ///
    /// # Errors
    /// A table that violated an invariant.
    pub fn migration_hint(&mut self, process: ProcessId, va: VirtAddr) -> Result<bool, OsError> {
        self.alive(process)?;
        let state = self.page_state(process, va);
        if !state.present() {
            return Ok(false);
        }
        let page = Page::containing(va, state.size());
        let frame = self.page_state(process, page.start).frame();
        let Some(vma) = self.process(process).vmas.find(va).copied() else { return Ok(false) };
        let reserved = self.process(process).reservations.find(page.start).is_some();
        if reserved || self.placement.owns(frame) || self.owners.is_shared(frame, page.size) {
            return Ok(false);
        }
        let asid = self.process(process).asid();
        let request = PlaceRequest { process, asid, page, vma_start: vma.start, vma_end: vma.end };
        self.prefer_nodes_of_page(page);
        self.make_room(&request, true)?;
        let (placement, mut context) = self.place_context();
        let Some(to) = placement.allocate_for_migration(&request, &mut context) else { return Ok(false) };
        let moved = self.migrate(process, page, to)?;
        self.counters.migrations_in += u64::from(moved);
        Ok(moved)
    }
}
