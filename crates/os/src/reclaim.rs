//! Reclaim under pressure: a clock on accessed bits, swap, and what `MADV_FREE` left.

use crate::kernel::{Kernel, process_mut};
use crate::{LedgerCause, OsError, PteFlags, Truth};
use ambulator_base::{FRAME_BYTES, PageSize, ProcessId, VirtAddr};

/// Rounds of a process's clock within one reclaim: the first clears accessed bits, the second finds pages without.
const ROUNDS: u32 = 2;

impl Kernel {
    /// Frees frames: first those that reservations hold unused, then pages. False if nothing could be freed.
    pub(crate) fn reclaim(&mut self) -> Result<bool, OsError> {
        if self.break_one_reservation() {
            return Ok(true);
        }
        let wanted = self.spec.reclaim_pages;
        let mut freed = 0;
        let processes = self.processes.len();
        for _ in 0..processes {
            let process = ProcessId(self.reclaim_next as u32);
            self.reclaim_next = (self.reclaim_next + 1) % processes;
            if self.is_alive(process) {
                freed += self.reclaim_from(process, wanted - freed)?;
            }
            if freed >= wanted {
                break;
            }
        }
        Ok(freed > 0)
    }

    fn can_swap(&self) -> bool {
        (self.swap_used + 1) * FRAME_BYTES <= self.spec.swap_bytes
    }

    /// Moves the clock hand of a process over its pages until `wanted` are freed or it has gone round twice.
    fn reclaim_from(&mut self, process: ProcessId, wanted: u64) -> Result<u64, OsError> {
        let top = VirtAddr(1 << 57);
        let mut freed = 0;
        let mut rounds = 0;
        let began = self.process(process).clock;
        let mut at = began;
        while freed < wanted {
            let Some((page, truth)) = self.next_page(process, at, top) else {
                rounds += 1;
                if rounds > ROUNDS {
                    break;
                }
                at = VirtAddr(0);
                continue;
            };
            at = page.end();
            if truth.present() {
                freed += self.age_or_evict(process, page.start)?;
            }
        }
        process_mut!(self, process).clock = at;
        Ok(freed)
    }

    /// A page that was used since the hand came by last loses its accessed bit; one that was not is evicted.
    fn age_or_evict(&mut self, process: ProcessId, va: VirtAddr) -> Result<u64, OsError> {
        let page = self.mapped_page(process, va);
        let truth = self.truth(process, page.start);
        let entry = self.entry(process, page.start)?;
        if self.is_shared(entry.frame, page.size) {
            return Ok(0); // freed only when all owners give it up
        }
        if entry.flags.accessed {
            self.set_page_flags(process, page, PteFlags { accessed: false, ..entry.flags })?;
            return Ok(0);
        }
        let droppable = truth.lazily_free() && !entry.flags.dirty;
        if !droppable && !self.can_swap() {
            return Ok(0);
        }
        if page.size > PageSize::SIZE_4K && !droppable {
            self.split(process, page.start)?;
            return self.age_or_evict(process, page.start);
        }
        let entry = self.unmap_page(process, page)?;
        self.release_frames(entry.frame, page.size);
        if droppable {
            self.counters.lazy_drops += 1;
        } else {
            self.counters.swap_outs += 1;
            self.swap_used += 1;
            self.ledger.charge(LedgerCause::Swap, self.costs.swap_out);
            process_mut!(self, process).pages.set(page.start.vpn(), Truth::in_swap());
        }
        Ok(page.size.frames())
    }
}
