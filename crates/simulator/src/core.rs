//! One simulated core: its window, its MMU, and its position in its program.

use crate::awaited::OthersInFlight;
use crate::behind::WalksBehind;
use crate::execute::WALKED;
use crate::look_ahead::LookAhead;
use crate::profile::Misses;
use crate::stream::SharedStream;
use crate::waiting_walks::Joined;
use ambulator_base::{AccessKind, Archive, Batch, Cycle, PhysAddr, ProcessId, Record, RecordKind, State};
use ambulator_hardware::{
    Access, BY_JOINED_WALK, BY_L2_TLB, CoreWindow, Event, Hierarchy, InFlightAccess, Served, Stalled,
};
use ambulator_mmu::{AwaitedTable, Mmu, MmuCounters, WalkTraffic};
use std::sync::Arc;

ambulator_base::counters! {
    /// Counters of the run loop, for each core.
    pub struct CoreRunCounters {
        /// Instructions executed.
        instructions: Instructions,
        /// Loads executed.
        loads: Events,
        /// Stores executed.
        stores: Events,
        /// Branches executed.
        branches: Events,
        /// Instruction lines fetched: misses of the front end's buffer of decoded lines.
        fetches: Events,
        /// Loads and stores that cross a cache line: two accesses.
        split_lines: Events,
        /// Loads and stores that cross a page: two translations.
        split_pages: Events,
        /// Of accesses that walked: translation from DRAM, data from DRAM (or on its way from there, which without time nothing is).
        dram_translation_dram_data: Events timed,
        /// Of accesses that walked: translation from DRAM, data from a cache.
        dram_translation_cached_data: Events timed,
        /// Of accesses that walked: translation from caches, data from DRAM.
        cached_translation_dram_data: Events timed,
        /// Of accesses that walked: translation from caches, data from a cache.
        cached_translation_cached_data: Events timed,
        /// Data accesses served by DRAM.
        data_from_dram: Events,
        /// Cycles of loads and stores from issue to data, with translation, without a store's wait for commit.
        access_cycles: Cycles timed,
        /// Page faults taken.
        page_faults: Events,
        /// Cycles that the core spent in the operating system.
        os_cycles: Cycles,
        /// Of these, cycles that it waited for another core's lock on the same part of a page table.
        lock_cycles: Cycles timed,
        /// Context switches to another process.
        context_switches: Events,
    }
}

/// The progress of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, State)]
pub(crate) enum CorePhase {
    /// Before the region of interest.
    Setup,
    /// In the region, before its instruction budget is spent.
    Region,
    /// The program ended, or the budget is spent.
    Finished,
}

/// Lines that a front end holds decoded, so that a loop accesses neither the I-TLB nor the L1I again. The
/// cores of the papers hold about 1500 micro-operations, about 64 lines of code; a direct-mapped buffer of
/// that size models this.
pub(crate) const FRONT_END_LINES: usize = 64;

/// What an MMU has counted of how it translates.
#[derive(Clone, Copy)]
pub(crate) struct LookedUp {
    pub l1d_tlb_misses: u64,
    pub l2_tlb_hits: u64,
    pub joined: u64,
    pub walks: u64,
}

pub(crate) struct Core {
    pub window: CoreWindow,
    pub mmu: Mmu,
    pub traffic: WalkTraffic,
    /// Of the latest translation: 1 plus the `Served` of the slowest load of its walk or lookaside, or 0.
    pub slowest_walk_load: u8,
    /// Of the latest translation: the last table line that it read from main memory.
    pub awaited_table: AwaitedTable,
    /// Of walks and searches that wait for several lines.
    pub others: OthersInFlight,
    /// Accesses that have joined walks which wait for walkers.
    pub joined: Vec<Joined>,
    /// Page walks behind the caches.
    pub behind: WalksBehind,
    /// The running process, by the kernel's number.
    pub process: ProcessId,
    /// `(number in the stream, number in the kernel)` of the stream's processes.
    pub processes: Vec<(ProcessId, ProcessId)>,
    /// Generation of the table registers in the MMU.
    pub generation: u64,
    pub hypervisor_generation: u64,
    pub stream: Arc<SharedStream>,
    pub reader: usize,
    pub batch: Arc<Batch>,
    /// Its number in the stream.
    pub batch_number: usize,
    /// Next record of the batch.
    pub at: usize,
    /// When this core's next event or dispatch is due, if it waits for other cores to get there; else 0.
    pub waits_until: u64,
    /// End of this core's records, if a program's threads are placed on several cores.
    pub end: usize,
    /// Next event of the batch.
    pub event_at: usize,
    pub phase: CorePhase,
    /// Lines of code that the front end holds decoded, direct-mapped by line number.
    pub front_end: [u64; FRONT_END_LINES],
    pub look_ahead: LookAhead,
    pub counters: CoreRunCounters,
    /// Total instructions, never reset.
    pub executed: u64,
    /// `executed` at which the core is finished.
    pub budget_end: u64,
    /// `executed` at which the core stops to see what is due: `budget_end`, or in a sampled region, the end of
    /// its share of the current part if that is earlier.
    pub stop_at: u64,
    /// `executed` when time was last switched on or off.
    pub untimed_from: u64,
    /// Without time: what an instruction takes beside those of other cores, in cycles of 1/256 ([`Core::PACE`]).
    pub pace: u64,
    /// Misses of the first-level TLBs, and what else made the MMU work, before the latest access without time.
    pub untimed_misses: u64,
    /// Cycle at which the measured region began on this core.
    pub measured_from: u64,
    /// Cycle at which the core finished.
    pub finished_at: u64,
}

impl Core {
    /// [`Core::pace`] of an instruction that takes a cycle.
    pub const PACE: u64 = 256;

    /// Without time: the cycles since it was switched off.
    #[inline(always)]
    pub fn untimed_cycles(&self) -> u64 {
        (self.executed - self.untimed_from) * self.pace / Core::PACE
    }

    /// Without time: `executed` after that many cycles.
    #[inline(always)]
    pub fn executed_after(&self, cycles: u64) -> u64 {
        self.untimed_from.saturating_add(cycles.saturating_mul(Core::PACE) / self.pace)
    }

    /// What translations have cost on this core so far.
    pub fn misses(&self) -> Misses {
        let (mmu, run) = (&self.mmu.counters, &self.counters);
        Misses {
            l2_tlb_misses: mmu.l2_tlb_misses,
            walks: mmu.walks,
            walk_cycles: mmu.walk_cycles,
            page_faults: run.page_faults,
            fault_cycles: run.os_cycles,
        }
    }

    /// Counts a load or a store.
    #[inline(always)]
    pub fn count_data(&mut self, record: &Record) {
        let count = if record.kind == RecordKind::Load { &mut self.counters.loads } else { &mut self.counters.stores };
        *count += 1;
    }

    /// What served the slowest load of the latest access's translation, as [`InFlight::translation`] has it, and whether
    /// it walked, if there were `walks` page walks before it: all that matters where nothing waits.
    ///
    /// [`InFlight::translation`]: ambulator_hardware::InFlight::translation
    #[inline(always)]
    pub fn walked_since(&self, walks: u64) -> u8 {
        self.slowest_walk_load | if self.mmu.counters.walks == walks { 0 } else { WALKED }
    }

    /// What the MMU has counted so far.
    #[inline(always)]
    pub fn looked_up(&self) -> LookedUp {
        let MmuCounters { l1d_tlb_misses, l2_tlb_hits, joined, walks, .. } = self.mmu.counters;
        LookedUp { l1d_tlb_misses, l2_tlb_hits, joined, walks }
    }

    /// How the latest access was translated, in the terms of [`InFlight::translation`], if `before` it the MMU had
    /// counted so much.
    ///
    /// [`InFlight::translation`]: ambulator_hardware::InFlight::translation
    #[inline(always)]
    pub fn translation_since(&self, before: &LookedUp) -> u8 {
        let (now, loads) = (self.looked_up(), self.slowest_walk_load);
        let without_loads = if loads == 0 { BY_L2_TLB } else { loads };
        if now.walks != before.walks {
            without_loads | WALKED
        } else if now.joined != before.joined {
            BY_JOINED_WALK
        } else if now.l2_tlb_hits != before.l2_tlb_hits {
            BY_L2_TLB
        } else if now.l1d_tlb_misses != before.l1d_tlb_misses {
            without_loads
        } else {
            loads
        }
    }

    /// Counts where a load or a store that asked at `asked` found its line, and if it walked
    /// ([`InFlight::translation`]), where its walk found the entry. A line that another access has asked main memory for
    /// comes from there, too.
    ///
    /// [`InFlight::translation`]: ambulator_hardware::InFlight::translation
    #[inline(always)]
    pub fn count_found(&mut self, hierarchy: &Hierarchy, translation: u8, asked: Cycle, found: Access) {
        let from_dram = found.served == Served::Dram;
        self.counters.data_from_dram += u64::from(from_dram);
        if translation & WALKED != 0 {
            self.count_walked(translation & !WALKED, from_dram || hierarchy.awaits_memory(asked, found.ready));
        }
    }

    /// A load or a store asks for its line, or its two, at `asked`. It waits if there is no MSHR for it in
    /// the first level.
    #[inline(always)]
    pub fn ask(&mut self, number: usize, hierarchy: &mut Hierarchy, place: u32, flight: &InFlightAccess, asked: Cycle) {
        let sent = if self.window.is_forwarded(place) {
            // Nobody waits for the line of a load that has its value from the store queue.
            Ok(hierarchy.access(number, flight.at, AccessKind::Load, flight.pc, asked))
        } else {
            self.request(number, hierarchy, flight, flight.at, asked)
        };
        let (mut found, mut last) = match sent {
            Ok(found) => (found, flight.at),
            Err(free) => return self.window.stall(place, *flight, asked, None, free),
        };
        if flight.crosses {
            match self.request(number, hierarchy, flight, flight.second, asked) {
                Ok(second) => (found, last) = later(hierarchy, flight, found, second),
                Err(free) => return self.window.stall(place, *flight, asked, Some(found), free),
            }
            let place = self.window.place_of_arrival(place);
            self.await_both(hierarchy, place, flight, last);
        }
        self.count_answer(hierarchy, flight, asked, found);
        self.complete(hierarchy, place, last, asked, found);
    }

    /// Asks for a line of a load or a store at `asked`, if it need not wait for an MSHR of the first level: for
    /// a free one, or because others wait already. Otherwise the error says when one is said to be free.
    #[inline(always)]
    pub fn request(
        &mut self,
        number: usize,
        hierarchy: &mut Hierarchy,
        flight: &InFlightAccess,
        at: PhysAddr,
        asked: Cycle,
    ) -> Result<Access, Cycle> {
        let sent = if self.window.has_stalled() && !hierarchy.is_in_first_level(number, at) {
            Err(asked)
        } else {
            hierarchy.try_access(number, at, flight.kind(), flight.pc, asked)
        };
        if sent.is_err() {
            hierarchy.keep_mshrs(number, true);
        }
        hierarchy.learn(number, at, flight.pc, asked);
        sent
    }

    /// Counts what a load or a store found that asked at `asked`.
    #[inline(always)]
    fn count_answer(&mut self, hierarchy: &Hierarchy, flight: &InFlightAccess, asked: Cycle, found: Access) {
        self.count_found(hierarchy, flight.translation, asked, found);
        self.counters.access_cycles += found.ready.since(flight.issued) - asked.since(flight.translated);
    }

    /// An MSHR of the first level was said to be free about now: those that wait longest ask for their lines.
    #[inline(never)]
    pub fn admit(&mut self, number: usize, hierarchy: &mut Hierarchy, now: Cycle) {
        while let Some(Stalled { flight, asked, first, place }) = self.window.first_stalled() {
            let found = first.map(|found| hierarchy.found_before(flight.at, found));
            let mut send = |at| hierarchy.try_access(number, at, flight.kind(), flight.pc, now);
            let first = match found.map_or_else(|| send(flight.at), Ok) {
                Ok(first) => first,
                Err(free) => return self.window.stay_stalled(None, free),
            };
            let (found, last) = match flight.crosses.then(|| send(flight.second)) {
                None => (first, flight.at),
                Some(Ok(second)) => later(hierarchy, &flight, first, second),
                Some(Err(free)) => return self.window.stay_stalled(Some(first), free),
            };
            hierarchy.count_mshr_wait(number, now.since(asked));
            self.count_answer(hierarchy, &flight, asked, found);
            if flight.crosses {
                self.await_both(hierarchy, place, &flight, last);
            }
            self.window.admitted(last, found, hierarchy.awaits_memory(now, found.ready));
        }
        hierarchy.keep_mshrs(number, false);
    }

    /// A load or a store asked for its line at `asked`, and this was found. If the line comes from main memory, the
    /// core asks again then.
    #[inline(always)]
    pub fn complete(&mut self, hierarchy: &Hierarchy, place: u32, at: PhysAddr, asked: Cycle, found: Access) {
        let Access { ready, served } = found;
        if hierarchy.awaits_memory(asked, ready) {
            self.window.await_line(place, at, ready, served);
        } else {
            self.window.complete(place, ready, served);
        }
    }

    /// A line that a load or a store waits for was said to be there now.
    #[inline(always)]
    pub fn arrive(&mut self, number: usize, hierarchy: &mut Hierarchy, event: Event) {
        let told = Cycle(event.at);
        let ready = hierarchy.arrival(number, self.window.awaits(event), false, told);
        self.counters.access_cycles += ready.since(told);
        self.window.arrived(event, ready);
    }

    /// Cycles of the measured region on this core so far, or until it finished.
    pub fn measured_cycles(&self) -> u64 {
        let end = if self.finished_at > 0 { self.finished_at } else { self.window.retired_cycle().0 };
        end.saturating_sub(self.measured_from)
    }

    /// Counts where an access that walked found its translation and its data. `slowest` is
    /// [`Core::slowest_walk_load`] of its translation.
    #[inline(always)]
    pub fn count_walked(&mut self, slowest: u8, data_from_dram: bool) {
        let counters = &mut self.counters;
        match (slowest == 1 + Served::Dram as u8, data_from_dram) {
            (true, true) => counters.dram_translation_dram_data += 1,
            (true, false) => counters.dram_translation_cached_data += 1,
            (false, true) => counters.cached_translation_dram_data += 1,
            (false, false) => counters.cached_translation_cached_data += 1,
        }
    }

    /// The kernel's number of a process of the stream.
    pub fn kernel_process(&self, in_stream: ProcessId) -> Option<ProcessId> {
        self.processes.iter().find(|(stream, _)| *stream == in_stream).map(|(_, kernel)| *kernel)
    }
}

impl Core {
    /// What the operating system must know of before it loads the registers.
    pub fn process_state(&mut self, archive: &mut Archive<'_>) {
        self.process.state(archive);
        self.processes.state(archive);
    }
}

/// The rest of its state. Its MMU has the registers of its process already.
impl State for Core {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let Core {
            window,
            mmu,
            traffic,
            slowest_walk_load,
            // Of a translation that is over.
            awaited_table: _,
            // All walks have ended.
            joined: _,
            behind,
            others: _,
            process: _,
            processes: _,
            generation,
            hypervisor_generation,
            stream: _,
            reader: _,
            batch: _,
            batch_number,
            at,
            waits_until,
            end,
            event_at,
            phase,
            front_end,
            look_ahead: _,
            counters,
            executed,
            // Of the measured region, which has not begun.
            budget_end: _,
            stop_at: _,
            pace: _,
            untimed_from,
            untimed_misses,
            measured_from,
            finished_at,
        } = self;
        window.state(archive);
        mmu.state(archive);
        traffic.state(archive);
        slowest_walk_load.state(archive);
        behind.state(archive);
        generation.state(archive);
        hypervisor_generation.state(archive);
        batch_number.state(archive);
        at.state(archive);
        waits_until.state(archive);
        end.state(archive);
        event_at.state(archive);
        phase.state(archive);
        front_end.state(archive);
        counters.state(archive);
        executed.state(archive);
        untimed_from.state(archive);
        untimed_misses.state(archive);
        measured_from.state(archive);
        finished_at.state(archive);
    }
}

/// What an access of two lines waits for: the later of them, with what served the first. A line whose page is not known yet
/// comes later than is said.
fn later(hierarchy: &Hierarchy, flight: &InFlightAccess, first: Access, second: Access) -> (Access, PhysAddr) {
    let comes = |at, found: Access| (hierarchy.is_unknown(at), found.ready);
    if comes(flight.second, second) > comes(flight.at, first) {
        (Access { ready: second.ready, ..first }, flight.second)
    } else {
        (first, flight.at)
    }
}
