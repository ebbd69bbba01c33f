//! The run loop without time: its common case.
//!
//! Without time, most records need little: a branch trains its predictor; a load or a store is translated by
//! the TLBs or a page walk and goes to the caches. Runs of such records go through a loop of their own, which
//! counts for many at once and leaves every other record (a page fault, a line that the front end does not
//! hold, the end of a budget) to [`Machine::record`]. What it does to the machine is the same.

use crate::core::FRONT_END_LINES;
use crate::error::Stop;
use crate::execute::{data_access, splits, untimed_flight};
use crate::hardware::Hardware;
use crate::machine::Machine;
use crate::path::{TranslationPath, Translator};
use ambulator_base::{AccessKind, Cycle, Record, RecordKind, VirtAddr, watch};
use ambulator_hardware::Served;
use ambulator_mmu::{FirstLookUp, Translated};

/// What a run of records counts.
#[derive(Default)]
struct Counted {
    instructions: u64,
    stores: u64,
    branches: u64,
    from_dram: u64,
    /// Loads and stores that missed the L1 TLB.
    missed: u64,
    /// Loads and stores of the line of the one before.
    repeated: u64,
}

/// The line of the latest load or store. Another one there hits again in the TLB and in the cache, where nothing
/// has been used since: it changes no order of use, and what the kernel confirmed stays confirmed.
#[derive(Clone, Copy)]
struct Latest {
    /// Virtual line number.
    line: u64,
    /// The TLB's entry and the kernel allow stores, without a walk to set the dirty bit.
    stores: bool,
}

impl Latest {
    /// No line.
    const NONE: Latest = Latest { line: u64::MAX, stores: false };

    #[inline(always)]
    fn new(va: VirtAddr, stores: bool) -> Latest {
        Latest { line: va.0 >> 6, stores }
    }

    #[inline(always)]
    fn serves(&self, va: VirtAddr, access: AccessKind) -> bool {
        va.0 >> 6 == self.line && (access == AccessKind::Load || self.stores)
    }
}

/// A load or a store that the loop has begun and [`Machine::complete_untimed`] completes.
pub(crate) struct Begun {
    /// When it began.
    issued: Cycle,
    /// What the MMU said: a fault, a translation that the kernel does not confirm, or one with a hint.
    first: Translated,
    /// Page walks of the core before it.
    walks: u64,
}

impl Hardware {
    /// Whether records may go through [`Machine::run_common`].
    pub fn has_common_case(&self) -> bool {
        !self.timing()
            && !self.skipping()
            && self.path() == TranslationPath::Conventional
            && self.hosted.is_none()
            && !watch::watched()
    }
}

impl Machine {
    /// Runs the records of a core from `from` on while they are common ones, no check is due, and neither its
    /// time passes `until` nor its budget ends. Returns the first that has not run, at most `to`, and what it
    /// has begun to do.
    pub(crate) fn run_common(
        &mut self,
        number: usize,
        records: &[Record],
        from: usize,
        to: usize,
        until: u64,
    ) -> (usize, Option<Begun>) {
        let Machine { hw, os, checker, scheduler, .. } = self;
        let (mut now, mut next_step, step, step_after_miss) = hw.untimed_steps(number);
        let core = &hw.cores[number];
        let process = core.process;
        let may_miss = os.profiler.is_none();
        let room = core.stop_at.min(core.executed_after(until)).saturating_sub(core.executed);
        let to = to.min(from + scheduler.records_until_check());
        let repeats = checker.checks_pages(os) && hw.hierarchy.repeats_hits(number);
        let mut latest = Latest::NONE;
        // Of the core before its latest access.
        let mut misses = core.mmu.untimed_misses();
        let mut counted = Counted::default();
        let mut begun = None;
        let mut next = from;
        'misses: while let Some(pages) = os.kernel().page_map(process) {
            let Hardware { cores, hierarchy, .. } = &mut *hw;
            let core = &mut cores[number];
            let (mut missed, mut looked_up) = (None, FirstLookUp::Missed);
            for record in &records[next..to.max(next)] {
                core.look_ahead.prefetch(number, process, records, next, os.kernel(), hierarchy);
                let instructions = counted.instructions + record.instructions();
                let line = record.pc.0 >> 6;
                if instructions >= room || core.front_end[line as usize % FRONT_END_LINES] != line {
                    break;
                }
                match record.kind {
                    RecordKind::BranchNotTaken | RecordKind::BranchTaken => {
                        core.window.train(record);
                        counted.branches += 1;
                    }
                    RecordKind::Load | RecordKind::Store if !splits(record) => {
                        let access = data_access(record);
                        let begins = now.after(next_step);
                        if latest.serves(record.va, access) {
                            counted.repeated += 1;
                            hierarchy.repeat_hit(number, access);
                        } else {
                            looked_up = core.mmu.look_up_first(record.va, access, begins);
                            let FirstLookUp::Hit { at, ready, stores } = looked_up else {
                                missed = Some(record);
                                break;
                            };
                            let accepted = checker.accepts_in(os, pages, process, record.va, at, access);
                            let Some(state) = accepted else { break };
                            let found = hierarchy.access_inlined(number, at, access, record.pc, ready);
                            counted.from_dram += u64::from(found.served == Served::Dram);
                            if repeats {
                                latest = Latest::new(record.va, stores && state.writable());
                            }
                        }
                        (now, next_step) = (begins, step);
                        counted.stores += u64::from(record.kind == RecordKind::Store);
                    }
                    _ => break,
                }
                counted.instructions = instructions;
                next += 1;
            }
            let Some(record) = missed.filter(|_| may_miss) else { break 'misses };
            // The rest of its translation, as `Machine::translate_data` does it.
            let (va, access, issued) = (record.va, data_access(record), now.after(next_step));
            (now, next_step) = (issued, step_after_miss);
            misses = core.mmu.untimed_misses();
            core.slowest_walk_load = 0;
            core.mmu.set_instruction(record.pc);
            let walks = core.mmu.counters.walks;
            let first = hw.with_port(number, os.memories_mut(), |mmu, port| match looked_up {
                FirstLookUp::Missed => mmu.translate_missed(va, access, issued, port),
                _ => mmu.translate(va, access, issued, port),
            });
            let Hardware { cores, hierarchy, .. } = &mut *hw;
            let core = &mut cores[number];
            let walked = core.mmu.counters.walks != walks;
            let accepted = match first {
                Translated::Physical { at, ready } if !(walked && core.mmu.hints_migration()) => {
                    let pages = os.kernel().page_map(process);
                    let state = pages.and_then(|pages| checker.accepts_in(os, pages, process, va, at, access));
                    state.map(|state| (at, ready, state))
                }
                _ => None,
            };
            let Some((at, ready, state)) = accepted else {
                begun = Some(Begun { issued, first, walks });
                break 'misses;
            };
            let found = hierarchy.access(number, at, access, record.pc, ready);
            let from_dram = found.served == Served::Dram;
            if walked {
                core.count_walked(core.slowest_walk_load, from_dram);
            }
            if repeats {
                latest = Latest::new(va, state.writable() && core.mmu.recalls_store(va));
            }
            counted.from_dram += u64::from(from_dram);
            counted.stores += u64::from(record.kind == RecordKind::Store);
            counted.missed += 1;
            counted.instructions += record.instructions();
            next += 1;
        }
        let data = (next - from) as u64 - counted.branches;
        checker.count_repeated(counted.repeated);
        let core = &mut hw.cores[number];
        core.at = next;
        core.executed += counted.instructions;
        core.counters.instructions += counted.instructions;
        core.counters.loads += data - counted.stores;
        core.counters.stores += counted.stores;
        core.counters.branches += counted.branches;
        core.counters.data_from_dram += counted.from_dram;
        if begun.is_none() {
            core.slowest_walk_load = 0;
        }
        core.window.count_all(counted.instructions, data - counted.stores, counted.stores);
        core.mmu.count_first_hits(data - counted.missed);
        if data > 0 || begun.is_some() {
            // After a hit the next access need not wait for what the misses before have started.
            let misses = if next_step == step { core.mmu.untimed_misses() } else { misses };
            hw.went_on_to(number, now, misses);
        }
        scheduler.count_records((next - from) as u32);
        (next, begun)
    }

    /// Completes a load or a store that [`Machine::run_common`] has begun; returns the number of its
    /// instructions.
    #[cold]
    pub(crate) fn complete_untimed(&mut self, number: usize, record: &Record, begun: &Begun) -> Result<u64, Stop> {
        let access = data_access(record);
        let core = &mut self.hw.cores[number];
        core.count_data(record);
        core.window.count(record);
        let Machine { hw, os, checker, scheduler, .. } = self;
        let located = Translator { hw, os, checker, phase: scheduler.phase() }.translate_further(
            number,
            record.va,
            access,
            begun.issued,
            begun.first,
        )?;
        let translation = self.hw.cores[number].walked_since(begun.walks);
        let flight = untimed_flight(record, &located, translation);
        self.access(number, &flight, access, located.ready)?;
        Ok(record.instructions())
    }
}
