//! The operating system's half: beside any page table a range table that says the same where it can.
//!
//! Runs of pages that follow each other in both address spaces, with the same rights, are ranges from the
//! contiguity threshold on (RMM Sec. 5.1): a page that is mapped joins its neighbours, a page that goes or
//! changes its rights leaves them, and what is left of its range stays one, or two, or is dissolved. So at
//! any time the ranges are the maximal runs, except where memory for a node was lacking. Pages of ranges have
//! the range bit in their entries and, if asked for, the accessed and dirty bits from the start (Sec. 6,
//! "Accessed & Dirty bits"): hardware that hits a range sets none.

use super::{Range, RangeRules, RangeTable, segment_registers};
use ambulator_base::{Asid, CounterSink, Counters, FRAME_BYTES, Page, PhysAddr, ProcessId, VirtAddr, Vpn};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{
    Companion, CompanionFactory, Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext,
};

ambulator_base::counters! {
    /// What the software half of ranges counts.
    pub struct RangeTableCounters {
        /// Ranges made of pages that became enough.
        created: Events,
        /// Times that a range grew by a page at its end or beginning.
        extended: Events,
        /// Pairs of ranges that became one.
        joined: Events,
        /// Ranges that a page left in the middle: two ranges from then on.
        split: Events,
        /// Ranges, or parts of split ones, that became too small and are pages alone again.
        dissolved: Events,
        /// Times that there was no frame for a node of the range table.
        no_memory: Events,
        /// Range bits written into entries that were there already.
        bits_written: Events,
    }
}

ambulator_base::counters! {
    /// The ranges as they are.
    pub struct RangesNow {
        /// Ranges in the range table.
        ranges: Events,
        /// 4 KiB pages that they hold.
        pages: Events,
        /// 4 KiB pages mapped in all.
        mapped: Events,
        /// Fewest ranges that hold 99% of all mapped memory; 0 if all of them do not.
        for_99_percent: Events,
        /// 4 KiB pages of the largest range.
        largest: Events,
        /// Bytes of the range table.
        table_bytes: Bytes,
        /// Levels of the range table.
        levels: Events,
    }
}

/// The ranges beside a page table.
pub struct RangeCompanion {
    ranges: RangeTable,
    /// The root of the range table as the registers were last said to have changed.
    root: PhysAddr,
    rules: RangeRules,
    /// The range that was changed last: where the next page is likely to join.
    last: Option<Range>,
    generation: u64,
    mapped: u64,
    /// The largest range: what a direct segment holds.
    largest: Option<Range>,
    /// The hardware has the largest range in registers, and is told of every change.
    in_registers: bool,
    /// The hardware may use the ranges.
    enabled: bool,
    counters: RangeTableCounters,
}

fn same_rights(range: &Range, flags: PteFlags) -> bool {
    range.writable == flags.writable && range.executable == flags.executable
}

fn pages_of(page: Page) -> (Vpn, Vpn) {
    (page.start.vpn(), Vpn(page.start.vpn().0 + page.size.frames()))
}

impl RangeCompanion {
    /// Ranges beside an empty table; `in_registers` if the hardware has the largest of them in registers. `None` when there is no frame for the root.
    pub fn new(rules: &RangeRules, in_registers: bool, os: &mut TableContext<'_>) -> Option<RangeCompanion> {
        let ranges = RangeTable::new(rules.va_bits - 12, os)?;
        Some(RangeCompanion {
            root: ranges.root(),
            ranges,
            rules: rules.clone(),
            last: None,
            generation: 0,
            mapped: 0,
            largest: None,
            in_registers,
            enabled: rules.enable_above_bytes == 0,
            counters: RangeTableCounters::default(),
        })
    }

    fn find(&self, page: Vpn, os: &TableContext<'_>) -> Option<Range> {
        match self.last {
            Some(last) if last.contains(page) => Some(last),
            _ => self.ranges.find(page, os.memory),
        }
    }

    /// The entry next to a run, if it goes on with it: `at` is the run's first or last page, `frame` its
    /// frame.
    fn neighbour(table: &dyn PageTable, va: u64, frame: u64, flags: PteFlags, os: &TableContext<'_>) -> Option<Entry> {
        let va = VirtAddr(va);
        let entry = table.lookup(va, os.memory)?;
        let within = (va.0 - entry.page.start.0) >> 12;
        let same = entry.flags.writable == flags.writable && entry.flags.executable == flags.executable;
        (same && entry.frame.0 + within == frame).then_some(entry)
    }

    /// A page that is mapped, its range bit clear, joins its neighbours.
    fn join(&mut self, mapping: Mapping, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        let (first, end) = pages_of(mapping.page);
        let flags = mapping.flags;
        let mut run = Range {
            base: first,
            limit: end,
            frame: mapping.frame,
            writable: flags.writable,
            executable: flags.executable,
        };
        let mut loose = vec![mapping.page];
        let (mut before, mut after) = (None, None);
        // Pages that are in no range come in runs below the threshold.
        for _ in 0..self.rules.threshold {
            let Some(below) = run.base.0.checked_sub(1) else { break };
            let Some(frame) = run.frame.0.checked_sub(1) else { break };
            let Some(entry) = RangeCompanion::neighbour(table, below << 12, frame, flags, os) else { break };
            if entry.flags.ranged
                && let Some(range) = self.find(Vpn(below), os)
            {
                run.base = range.base;
                run.frame = range.frame;
                before = Some(range);
                break;
            }
            run.base = entry.page.start.vpn();
            run.frame = entry.frame;
            loose.push(entry.page);
        }
        for _ in 0..self.rules.threshold {
            let frame = run.frame_of(run.limit).0;
            let Some(entry) = RangeCompanion::neighbour(table, run.limit.0 << 12, frame, flags, os) else { break };
            if entry.flags.ranged
                && let Some(range) = self.find(run.limit, os)
            {
                run.limit = range.limit;
                after = Some(range);
                break;
            }
            run.limit = pages_of(entry.page).1;
            loose.push(entry.page);
        }
        if run.pages() < self.rules.threshold {
            return;
        }
        match (before, after) {
            (Some(before), Some(after)) => {
                self.ranges.remove(after.base, os);
                self.ranges.update(before.base, run, os);
                self.counters.joined += 1;
            }
            (Some(range), None) | (None, Some(range)) => {
                self.ranges.update(range.base, run, os);
                self.counters.extended += 1;
            }
            (None, None) => {
                if !self.ranges.prepare(1, os) {
                    self.counters.no_memory += 1;
                    return;
                }
                self.ranges.insert(run, os);
                self.counters.created += 1;
            }
        }
        self.last = Some(run);
        self.grown(run);
        for page in loose {
            self.mark(page, true, table, os);
        }
    }

    /// The last range that changed, where the page goes on behind it with nothing behind itself: the common case of
    /// [`RangeCompanion::join`], with the range bit in the entry from the start.
    fn appended_to(&self, mapping: &Mapping, table: &dyn PageTable, memory: &PhysicalMemory) -> Option<Range> {
        let (first, end) = pages_of(mapping.page);
        let last = self.last.filter(|last| last.limit == first && last.frame_of(first) == mapping.frame)?;
        let alone = || table.lookup(VirtAddr(end.0 << 12), memory).is_none();
        (same_rights(&last, mapping.flags) && alone()).then_some(last)
    }

    /// The page behind the last range that changed has been mapped.
    fn append(&mut self, page: Page, os: &mut TableContext<'_>) {
        let Some(last) = self.last else { return };
        let run = Range { limit: pages_of(page).1, ..last };
        self.ranges.update(last.base, run, os);
        self.counters.extended += 1;
        self.last = Some(run);
        self.grown(run);
    }

    /// A range has grown: it may be the largest now.
    fn grown(&mut self, run: Range) {
        if self.largest.is_none_or(|largest| run.pages() > largest.pages() || run.contains(largest.base)) {
            self.largest = Some(run);
            self.generation += u64::from(self.in_registers);
        }
    }

    /// The flags of a page that is in a range.
    fn in_range(&self, flags: PteFlags) -> PteFlags {
        let eager = self.rules.eager_bits;
        PteFlags { ranged: true, accessed: flags.accessed || eager, dirty: flags.dirty || eager, ..flags }
    }

    /// Sets or clears the range bit of a page's entry.
    fn mark(&mut self, page: Page, ranged: bool, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        let Some(entry) = table.lookup(page.start, os.memory) else { return };
        self.counters.bits_written += 1;
        let flags = if ranged { self.in_range(entry.flags) } else { PteFlags { ranged, ..entry.flags } };
        table.set_flags(page, flags, os);
    }

    /// A page leaves its range: what is on its two sides stays a range if it is enough.
    fn leave(&mut self, page: Page, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        let (first, end) = pages_of(page);
        let Some(range) = self.find(first, os) else { return };
        self.last = None;
        let left = Range { limit: first, ..range };
        let right = Range { base: end, frame: range.frame_of(end), ..range };
        let enough = |part: &Range| part.pages() >= self.rules.threshold;
        let (mut keep_left, mut keep_right) = (enough(&left), enough(&right));
        if keep_left && keep_right && !self.ranges.prepare(1, os) {
            self.counters.no_memory += 1;
            // The larger part stays.
            (keep_left, keep_right) = (left.pages() >= right.pages(), left.pages() < right.pages());
        }
        match (keep_left, keep_right) {
            (true, true) => {
                self.ranges.update(first, left, os);
                self.ranges.insert(right, os);
                self.counters.split += 1;
            }
            (true, false) => {
                self.ranges.update(first, left, os);
            }
            (false, true) => {
                self.ranges.update(first, right, os);
            }
            (false, false) => {
                self.ranges.remove(first, os);
            }
        }
        if self.largest.is_some_and(|largest| largest.contains(first)) {
            // LIMIT has no bit for the end of the whole address space: a range up to there is none that
            // hardware finds.
            let pages = |range: &Range| range.limit.0.saturating_sub(range.base.0);
            self.largest = self.ranges.all(os.memory).into_iter().max_by_key(pages);
            self.generation += 1;
        }
        for (part, kept) in [(left, keep_left), (right, keep_right)] {
            if !kept && part.pages() > 0 {
                self.counters.dissolved += 1;
                self.dissolve(part, table, os);
            }
        }
    }

    /// The pages of what was part of a range are pages alone.
    fn dissolve(&mut self, part: Range, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        let mut at = part.base;
        while at < part.limit {
            match table.lookup(VirtAddr(at.0 << 12), os.memory) {
                Some(entry) => {
                    self.mark(entry.page, false, table, os);
                    at = pages_of(entry.page).1;
                }
                None => at = Vpn(at.0 + 1),
            }
        }
    }

    /// The operating system looks at how much the program has mapped, and lets the hardware use its ranges or
    /// not.
    fn monitor(&mut self) {
        let enabled = self.mapped * FRAME_BYTES >= self.rules.enable_above_bytes;
        if enabled != self.enabled {
            self.enabled = enabled;
            self.generation += 1;
        }
    }

    fn after_change(&mut self) {
        if self.ranges.root() != self.root {
            self.root = self.ranges.root();
            self.generation += 1;
        }
        self.monitor();
    }

    /// Whether a page may stay in its range, or out of one, when its flags change.
    fn stays(&self, entry: &Mapping, flags: PteFlags) -> bool {
        let same_rights = entry.flags.writable == flags.writable && entry.flags.executable == flags.executable;
        same_rights && !(self.cleans(entry, flags) && entry.flags.ranged)
    }

    /// Hardware that hits a range sees no page's own dirty bit: a page that must be seen as clean is in no
    /// range.
    fn cleans(&self, entry: &Mapping, flags: PteFlags) -> bool {
        self.rules.eager_bits && entry.flags.dirty && !flags.dirty
    }
}

impl Companion for RangeCompanion {
    fn new_entry_flags(&self, mapping: &Mapping, table: &dyn PageTable, memory: &PhysicalMemory) -> PteFlags {
        match self.appended_to(mapping, table, memory) {
            Some(_) => self.in_range(mapping.flags),
            None => mapping.flags,
        }
    }

    fn mapped(&mut self, entry: &Mapping, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        self.mapped += entry.page.size.frames();
        // The range bit is in the entry already where it was decided before the entry was written.
        if entry.flags.ranged {
            self.append(entry.page, os);
        } else {
            self.join(*entry, table, os);
        }
        self.after_change();
    }

    fn unmapping(&mut self, entry: &Mapping, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        if entry.flags.ranged {
            self.leave(entry.page, table, os);
        }
        self.mapped -= entry.page.size.frames();
        self.after_change();
    }

    fn changing_flags(
        &mut self,
        entry: &Mapping,
        flags: PteFlags,
        table: &mut dyn PageTable,
        os: &mut TableContext<'_>,
    ) -> PteFlags {
        if self.stays(entry, flags) {
            return PteFlags { ranged: entry.flags.ranged, ..flags };
        }
        if entry.flags.ranged {
            self.leave(entry.page, table, os);
        }
        flags
    }

    fn changed_flags(
        &mut self,
        entry: &Mapping,
        flags: PteFlags,
        table: &mut dyn PageTable,
        os: &mut TableContext<'_>,
    ) {
        if self.stays(entry, flags) {
            return;
        }
        if !self.cleans(entry, flags) {
            self.join(Mapping { flags, ..*entry }, table, os);
        }
        self.after_change();
    }

    /// CR-RT: the root's physical address, bit 0 set where the hardware is to use the ranges; for a direct
    /// segment the largest range behind it.
    fn registers(&self) -> Vec<u64> {
        let mut words = vec![self.ranges.root().0 | u64::from(self.enabled)];
        if self.in_registers {
            words.extend(segment_registers(self.largest));
        }
        words
    }

    fn registers_generation(&self) -> u64 {
        self.generation
    }

    fn footprint(&self) -> Footprint {
        Footprint { entries: 0, ..self.ranges.footprint }
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.ranges.destroy(os);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.ranges"), sink);
    }

    fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        let mut sizes: Vec<u64> = self.ranges.all(memory).iter().map(Range::pages).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        RangesNow {
            ranges: sizes.len() as u64,
            pages: sizes.iter().sum(),
            mapped: self.mapped,
            for_99_percent: ranges_for(&sizes, self.mapped, 0.99),
            largest: sizes.first().copied().unwrap_or(0),
            table_bytes: self.ranges.footprint.bytes,
            levels: u64::from(self.ranges.levels(memory)),
        }
        .report(&format!("{prefix}.ranges_now"), sink);
    }
}

/// How many of the ranges, the largest first, hold that share of `mapped` pages; 0 if all of them do not.
fn ranges_for(largest_first: &[u64], mapped: u64, share: f64) -> u64 {
    let wanted = (mapped as f64 * share).ceil() as u64;
    let mut held = 0;
    for (i, pages) in largest_first.iter().enumerate() {
        held += pages;
        if held >= wanted {
            return i as u64 + 1;
        }
    }
    0
}

/// Makes ranges by page tables.
pub struct RangeCompanionFactory {
    rules: RangeRules,
    in_registers: bool,
}

impl RangeCompanionFactory {
    /// Ranges by these rules.
    pub fn new(rules: &RangeRules) -> RangeCompanionFactory {
        RangeCompanionFactory { rules: rules.clone(), in_registers: false }
    }

    /// The same for a direct segment: the largest range is in registers.
    pub fn for_segment(rules: &RangeRules) -> RangeCompanionFactory {
        RangeCompanionFactory { in_registers: true, ..RangeCompanionFactory::new(rules) }
    }
}

impl CompanionFactory for RangeCompanionFactory {
    fn new_companion(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError> {
        match RangeCompanion::new(&self.rules, self.in_registers, os) {
            Some(ranges) => Ok(Box::new(ranges)),
            None => Err(MapError::NoMemory { bytes: FRAME_BYTES }),
        }
    }
}
