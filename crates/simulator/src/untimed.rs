//! The run loop without time: its common case.
//!
//! Without time, most records need little: a branch trains its predictor; a load or a store of a page that the
//! L1 TLB holds goes to the caches. Runs of such records go through a loop of their own, which counts for
//! many at once and leaves every other record (a TLB miss, a page fault, a line that the front end does not
//! hold, the end of a budget) to [`Machine::record`]. What it does to the machine is the same.

use crate::core::FRONT_END_LINES;
use crate::execute::{data_access, splits};
use crate::hardware::Hardware;
use crate::machine::Machine;
use crate::path::TranslationPath;
use ambulator_base::{Record, RecordKind, watch};
use ambulator_hardware::Served;

/// What a run of records counts.
#[derive(Default)]
struct Counted {
    records: u32,
    instructions: u64,
    loads: u64,
    stores: u64,
    branches: u64,
    from_dram: u64,
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
    /// time passes `until` nor its budget ends. Returns the first that has not run, at most `to`.
    pub(crate) fn run_common(
        &mut self,
        number: usize,
        records: &[Record],
        from: usize,
        to: usize,
        until: u64,
    ) -> usize {
        let Machine { hw, os, checker, scheduler, .. } = self;
        let (mut now, mut first_step, step) = hw.untimed_steps(number);
        let Hardware { cores, hierarchy, .. } = hw;
        let core = &mut cores[number];
        let process = core.process;
        let Some(pages) = os.kernel().page_map(process) else { return from };
        let room = core.stop_at.min(until.saturating_add(core.untimed_from)).saturating_sub(core.executed);
        let to = to.min(from + scheduler.records_until_check());
        let mut counted = Counted::default();
        for (i, record) in records.iter().enumerate().take(to).skip(from) {
            core.look_ahead.prefetch(number, process, records, i, os.kernel(), hierarchy);
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
                    let begins = now.after(first_step);
                    let Some((at, ready)) = core.mmu.first_hit(record.va, access, begins) else { break };
                    if !checker.accepts_page(os, pages, process, record.va, at, access) {
                        break;
                    }
                    (now, first_step) = (begins, step);
                    let found = hierarchy.access(number, at, access, record.pc, ready);
                    counted.from_dram += u64::from(found.served == Served::Dram);
                    counted.loads += u64::from(record.kind == RecordKind::Load);
                    counted.stores += u64::from(record.kind == RecordKind::Store);
                }
                _ => break,
            }
            counted.instructions = instructions;
            counted.records += 1;
        }
        core.at = from + counted.records as usize;
        core.executed += counted.instructions;
        core.counters.instructions += counted.instructions;
        core.counters.loads += counted.loads;
        core.counters.stores += counted.stores;
        core.counters.branches += counted.branches;
        core.counters.data_from_dram += counted.from_dram;
        core.slowest_walk_load = 0;
        core.window.count_all(counted.instructions, counted.loads, counted.stores);
        core.mmu.count_first_hits(counted.loads + counted.stores);
        let at = core.at;
        if counted.loads + counted.stores > 0 {
            hw.went_on_to(number, now);
        }
        self.scheduler.count_records(counted.records);
        at
    }
}
