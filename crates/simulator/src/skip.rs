//! The parts of a sampled region that are skipped: pages are mapped, and nothing else happens.

use crate::error::Stop;
use crate::execute::{data_access, last_byte};
use crate::machine::Machine;
use ambulator_base::{AccessKind, Record, RecordKind, VirtAddr};
use std::ops::Range;

/// Distance, in records, at which the kernel's page state is prefetched into the sim host's caches.
const AHEAD: usize = 24;
/// Pages that are known to need no fault, direct-mapped by their numbers.
const KNOWN: usize = 256;

/// What a record accesses: data, or the code of a branch.
#[inline(always)]
fn access_of(record: &Record) -> (VirtAddr, AccessKind) {
    match record.kind {
        RecordKind::Load | RecordKind::Store => (record.va, data_access(record)),
        RecordKind::Fetch => (record.va, AccessKind::Fetch),
        _ => (record.pc, AccessKind::Fetch),
    }
}

impl Machine {
    /// Skips records of a core; returns how many, before its time passed `until` or its part of the region
    /// ended. An access needs no fault if another one of the same kind to its page needed none, until the
    /// kernel changes something.
    pub(crate) fn skip_records(
        &mut self,
        number: usize,
        records: &[Record],
        range: Range<usize>,
        until: u64,
    ) -> Result<usize, Stop> {
        let mut known = [u64::MAX; KNOWN];
        let core = &self.hw.cores[number];
        let (process, from, stop_at) = (core.process, range.start, core.stop_at);
        let until = core.executed_after(until);
        for (i, record) in records.iter().enumerate().take(range.end).skip(from) {
            if let Some(far) = records.get(i + AHEAD)
                && far.is_data()
                && known[(far.va.0 >> 12) as usize % KNOWN] >> 2 != far.va.0 >> 12
            {
                self.os.kernel().prefetch_page_state(process, far.va);
            }
            let (at, access) = access_of(record);
            let (page, last) = (at.0 >> 12, last_byte(record).0 >> 12);
            let slot = &mut known[page as usize % KNOWN];
            let key = page << 2 | access as u64;
            let crosses = record.is_data() && last != page;
            if (*slot != key || crosses) && self.skip(number, record, at, access)? {
                known = [u64::MAX; KNOWN];
            } else {
                *slot = key;
            }
            let core = &mut self.hw.cores[number];
            let executed = record.instructions();
            core.at = i + 1;
            core.executed += executed;
            core.counters.instructions += executed;
            if core.executed >= stop_at {
                self.finish_at_budget(number)?;
                return Ok(i + 1 - from);
            }
            let passed = core.executed > until;
            if self.scheduler.check_is_due() {
                self.run_due_daemons(number)?;
                known = [u64::MAX; KNOWN];
            }
            if passed {
                return Ok(i + 1 - from);
            }
        }
        Ok(range.len())
    }

    /// Carries a record out if it needs a page fault; returns whether it did.
    #[inline(never)]
    fn skip(&mut self, number: usize, record: &Record, at: VirtAddr, access: AccessKind) -> Result<bool, Stop> {
        let last = last_byte(record);
        let crosses = record.is_data() && (last.0 ^ at.0) >> 12 != 0;
        if self.is_mapped(number, at, access) && (!crosses || self.is_mapped(number, last, access)) {
            return Ok(false);
        }
        match access {
            AccessKind::Fetch => self.fetch(number, at)?,
            _ => self.execute_untimed(number, record)?,
        }
        Ok(true)
    }
}
