//! Reclaim under memory pressure: the clock algorithm on accessed bits, swap, and pages after `MADV_FREE`.

use crate::{Kernel, LedgerCause, MapError, OsError, PageState, PteFlags};
use ambulator_base::{FRAME_BYTES, PageSize, ProcessId, VirtAddr};

/// Rounds of a process's clock within one reclaim: the first clears accessed bits, the second finds them
/// clear.
const ROUNDS: u32 = 2;

/// Whether a core waits for writes to swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwapWrite {
    /// The core of a fault or a system call waits.
    Synchronous,
    /// The background daemon does not.
    Asynchronous,
}

impl Kernel {
    /// Frees frames for a fault or a system call: first unused frames of reservations, then pages. Returns
    /// the number of freed frames. It does not recurse: if a split needs memory for the table, that comes
    /// from the frames below the lowest watermark.
    #[cold]
    pub(crate) fn reclaim(&mut self, wanted: u64) -> Result<u64, OsError> {
        self.reclaim_round(wanted, SwapWrite::Synchronous)
    }

    /// As [`Kernel::reclaim`], up to the highest watermark, without waiting for writes to swap.
    pub(crate) fn reclaim_in_background(&mut self) -> Result<u64, OsError> {
        self.reclaim_round(self.reclaim_schedule.frames_to_free(self.frames.free_frames()), SwapWrite::Asynchronous)
    }

    fn reclaim_round(&mut self, wanted: u64, write: SwapWrite) -> Result<u64, OsError> {
        let (placement, mut context) = self.place_context();
        let released = placement.release_reserved(&mut context);
        if released > 0 {
            return Ok(released);
        }
        while let Some(freed) = self.break_one_reservation() {
            if freed > 0 {
                return Ok(freed);
            }
        }
        let mut freed = 0;
        let processes = self.processes.len();
        for _ in 0..processes {
            let process = self.reclaim_schedule.next_process(processes);
            if self.is_alive(process) {
                freed += self.reclaim_from(process, wanted.saturating_sub(freed), write)?;
            }
            if freed >= wanted {
                break;
            }
        }
        Ok(freed)
    }

    /// Moves the clock hand of a process over its pages until `wanted` frames are freed or it has made two
    /// rounds.
    fn reclaim_from(&mut self, process: ProcessId, wanted: u64, write: SwapWrite) -> Result<u64, OsError> {
        let top = crate::vma::TOP;
        let mut freed = 0;
        let mut rounds = 0;
        let began = self.process(process).clock;
        let mut at = began;
        while freed < wanted {
            let Some((page, state)) = self.next_page(process, at, top) else {
                rounds += 1;
                if rounds > ROUNDS {
                    break;
                }
                at = VirtAddr(0);
                continue;
            };
            at = page.end();
            if state.present() || state.is_hinted() && self.try_restore_hinted(process, page) {
                let evicted = self.age_or_evict(process, page.start, write)?;
                if evicted > 0 {
                    // If a huge page was split, the hand continues after the evicted part.
                    at = page.start.offset(evicted * FRAME_BYTES);
                }
                freed += evicted;
            }
        }
        self.process_mut(process).clock = at;
        Ok(freed)
    }

    /// Clears the accessed bit of a page that was accessed since the last round; evicts one that was not.
    fn age_or_evict(&mut self, process: ProcessId, va: VirtAddr, write: SwapWrite) -> Result<u64, OsError> {
        let page = self.mapped_page(process, va);
        let state = self.page_state(process, page.start);
        let entry = self.entry(process, page.start)?;
        if self.owners.is_shared(entry.frame, page.size) || self.pinned.holds(process, page) {
            return Ok(0); // freed only when all owners release it, or when it is unpinned
        }
        if entry.flags.accessed {
            self.set_page_flags(process, page, PteFlags { accessed: false, ..entry.flags })?;
            return Ok(0);
        }
        let droppable = state.lazily_free() && !entry.flags.dirty;
        if !droppable && !self.swap.has_room() {
            return Ok(0);
        }
        if page.size > PageSize::SIZE_4K && !droppable {
            return match self.try_split(process, page.start)? {
                Ok(()) => self.age_or_evict(process, page.start, write),
                Err((_, MapError::NoMemory { .. })) => Ok(0), // no memory for the table entries of its parts
                Err((page, error)) => Err(self.table_error(error, page)),
            };
        }
        let entry = self.unmap_page(process, page)?;
        self.release_frames(entry.frame, page.size);
        if droppable {
            self.counters.lazy_drops += 1;
        } else {
            self.counters.swap_outs += 1;
            self.swap.take();
            if write == SwapWrite::Synchronous {
                self.ledger.charge(LedgerCause::Swap, self.costs.swap_out);
            }
            self.process_mut(process).pages.set(page.start.vpn(), PageState::in_swap());
        }
        Ok(page.size.frames())
    }
}
