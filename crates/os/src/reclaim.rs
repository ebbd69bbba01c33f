//! Reclaim under pressure: a clock on accessed bits, swap, and what `MADV_FREE` left.

use crate::{Kernel, LedgerCause, MapError, OsError, PageState, PteFlags};
use ambulator_base::{FRAME_BYTES, PageSize, ProcessId, VirtAddr};

/// Rounds of a process's clock within one reclaim: the first clears accessed bits, the second finds pages
/// without.
const ROUNDS: u32 = 2;

/// Whether a core waits for the swap device while reclaim writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SwapWait {
    /// That of a fault or a call does.
    Waits,
    /// The background daemon's does not.
    RunsOn,
}

impl Kernel {
    /// Frees frames for whoever waits for them: first those that reservations hold unused, then pages.
    /// Returns how many it freed. It does not call itself: what it needs on the way (a split's table) must
    /// come from the frames below the lowest watermark.
    #[cold]
    pub(crate) fn reclaim(&mut self, wanted: u64) -> Result<u64, OsError> {
        self.reclaim_round(wanted, SwapWait::Waits)
    }

    /// As [`Kernel::reclaim`], up to the highest watermark, and nobody waits for the swap device.
    pub(crate) fn reclaim_in_background(&mut self) -> Result<u64, OsError> {
        self.reclaim_round(self.reclaim_turns.wanted(self.frames.free_frames()), SwapWait::RunsOn)
    }

    fn reclaim_round(&mut self, wanted: u64, wait: SwapWait) -> Result<u64, OsError> {
        while let Some(freed) = self.break_one_reservation() {
            if freed > 0 {
                return Ok(freed);
            }
        }
        let mut freed = 0;
        let processes = self.processes.len();
        for _ in 0..processes {
            let process = self.reclaim_turns.take_turn(processes);
            if self.is_alive(process) {
                freed += self.reclaim_from(process, wanted.saturating_sub(freed), wait)?;
            }
            if freed >= wanted {
                break;
            }
        }
        Ok(freed)
    }

    /// Moves the clock hand of a process over its pages until `wanted` are freed or it has gone round twice.
    fn reclaim_from(&mut self, process: ProcessId, wanted: u64, wait: SwapWait) -> Result<u64, OsError> {
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
            if state.present() {
                let evicted = self.age_or_evict(process, page.start, wait)?;
                if evicted > 0 {
                    // Of a huge page that was split, only what is gone is behind the hand.
                    at = page.start.offset(evicted * FRAME_BYTES);
                }
                freed += evicted;
            }
        }
        self.process_mut(process).clock = at;
        Ok(freed)
    }

    /// A page that was used since the hand came by last loses its accessed bit; one that was not is evicted.
    fn age_or_evict(&mut self, process: ProcessId, va: VirtAddr, wait: SwapWait) -> Result<u64, OsError> {
        let page = self.mapped_page(process, va);
        let state = self.page_state(process, page.start);
        let entry = self.entry(process, page.start)?;
        if self.owners.is_shared(entry.frame, page.size) {
            return Ok(0); // freed only when all owners give it up
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
                Ok(()) => self.age_or_evict(process, page.start, wait),
                Err((_, MapError::NoMemory { .. })) => Ok(0), // for the table of its parts
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
            if wait == SwapWait::Waits {
                self.ledger.charge(LedgerCause::Swap, self.costs.swap_out);
            }
            self.process_mut(process).pages.set(page.start.vpn(), PageState::in_swap());
        }
        Ok(page.size.frames())
    }
}
