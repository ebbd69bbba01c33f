//! The OS half: the contiguity bit in entries. Large contiguous mappings alone are worth an entry of the
//! predictor.

use super::SpotSpec;
use ambulator_base::{Asid, CounterSink, Counters, ProcessId, State};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Companion, CompanionFactory, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext};
use std::collections::BTreeMap;

ambulator_base::counters! {
    /// Counters of the contiguity bit.
    struct MarkCounters {
        /// Entries written with the contiguity bit.
        marked: Events,
        /// Entries written without it: their offset had too few pages.
        unmarked: Events,
    }
}

ambulator_base::counters! {
    /// The current offsets between pages and frames.
    struct OffsetsNow {
        /// Different offsets.
        offsets: Events gauge,
        /// Fewest offsets that 99% of the mapped pages have.
        for_99_percent: Events gauge,
        /// 4 KiB pages with the most frequent offset.
        largest: Events gauge,
        /// Mapped 4 KiB pages.
        mapped: Events gauge,
    }
}

/// The offsets of one page table.
#[derive(State)]
struct Marks {
    #[state(skip)]
    threshold: u64,
    /// By offset (number of the page minus number of its frame): 4 KiB pages with it.
    pages: BTreeMap<i64, u64>,
    counters: MarkCounters,
}

/// The offset between a page and its frame, in pages.
fn offset_of(mapping: &Mapping) -> i64 {
    mapping.page.start.vpn().0 as i64 - mapping.frame.0 as i64
}

impl Companion for Marks {
    fn new_entry_flags(&self, mapping: &Mapping, _table: &dyn PageTable, _memory: &PhysicalMemory) -> PteFlags {
        let known = self.pages.get(&offset_of(mapping)).copied().unwrap_or(0);
        let ranged = known + mapping.page.size.frames() >= self.threshold;
        PteFlags { ranged, ..mapping.flags }
    }

    fn mapped(&mut self, entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {
        *self.pages.entry(offset_of(entry)).or_default() += entry.page.size.frames();
        if entry.flags.ranged {
            self.counters.marked += 1;
        } else {
            self.counters.unmarked += 1;
        }
    }

    /// Entries that stay keep their bit: it is a hint.
    fn unmapping(&mut self, entry: &Mapping, _table: &mut dyn PageTable, _os: &mut TableContext<'_>) {
        let offset = offset_of(entry);
        if let Some(pages) = self.pages.get_mut(&offset) {
            *pages = pages.saturating_sub(entry.page.size.frames());
            if *pages == 0 {
                self.pages.remove(&offset);
            }
        }
    }

    fn changing_flags(
        &mut self,
        entry: &Mapping,
        flags: PteFlags,
        _table: &mut dyn PageTable,
        _os: &mut TableContext<'_>,
    ) -> PteFlags {
        PteFlags { ranged: entry.flags.ranged, ..flags }
    }

    fn has_registers(&self) -> bool {
        false
    }

    fn registers(&self) -> Vec<u64> {
        Vec::new()
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn destroy(&mut self, _os: &mut TableContext<'_>) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.contiguity"), sink);
    }

    fn inspect(&self, _memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        let mut sizes: Vec<u64> = self.pages.values().copied().collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mapped: u64 = sizes.iter().sum();
        let covered = sizes.iter().scan(0, |sum, pages| {
            *sum += pages;
            Some(*sum)
        });
        let before = covered.take_while(|covered| covered * 100 < mapped * 99).count() as u64;
        let now = OffsetsNow {
            offsets: sizes.len() as u64,
            for_99_percent: (before + 1).min(sizes.len() as u64),
            largest: sizes.first().copied().unwrap_or(0),
            mapped,
        };
        now.report(&format!("{prefix}.contiguity_now"), sink);
    }
}

/// Creates the companions that mark the entries of processes.
pub(super) struct MarksFactory {
    threshold: u64,
}

impl MarksFactory {
    pub fn new(spec: &SpotSpec) -> MarksFactory {
        MarksFactory { threshold: spec.contiguity_pages }
    }
}

impl CompanionFactory for MarksFactory {
    fn new_companion(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        _os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError> {
        let (pages, counters) = (BTreeMap::new(), MarkCounters::default());
        Ok(Box::new(Marks { threshold: self.threshold, pages, counters }))
    }
}
