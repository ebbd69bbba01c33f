//! The OS half: a range table kept consistent with the page table of a process.
//!
//! A run of pages that are contiguous in both address spaces and have the same rights becomes a range at the
//! contiguity threshold (RMM Sec. 5.1). A newly mapped page is merged with adjacent pages. A page that is
//! unmapped, or whose rights change, leaves its range, whose rest becomes one range, two ranges, or single
//! pages. So the ranges are always the maximal runs, unless there was no memory for a node. Pages in ranges
//! have the range bit set in their entries. With `eager_bits` they also have the accessed and dirty bits set
//! from the start (Sec. 6, "Accessed & Dirty bits"), because hardware that hits a range sets neither.

use super::{Range, RangeRules, RangeTable, segment_registers};
use ambulator_base::{Asid, CounterSink, Counters, FRAME_BYTES, Page, PhysAddr, ProcessId, State, VirtAddr, Vpn};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{
    Companion, CompanionFactory, Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext,
};

ambulator_base::counters! {
    /// Counters of the OS half of ranges.
    struct RangeTableCounters {
        /// Ranges created from runs that reached the threshold.
        created: Events,
        /// Times that a range grew by a page at either end.
        extended: Events,
        /// Pairs of ranges that were merged.
        joined: Events,
        /// Ranges that were split in two because a page in the middle left.
        split: Events,
        /// Ranges, or parts of split ones, that became too small and are single pages again.
        dissolved: Events,
        /// Times that there was no frame for a node of the range table.
        no_memory: Events,
        /// Range bits written into existing entries.
        bits_written: Events,
    }
}

ambulator_base::counters! {
    /// The current ranges.
    struct RangesNow {
        /// Ranges in the range table.
        ranges: Events gauge,
        /// 4 KiB pages in ranges.
        pages: Events gauge,
        /// All mapped 4 KiB pages.
        mapped: Events gauge,
        /// Fewest ranges that cover 99% of all mapped memory; 0 if all ranges together do not.
        for_99_percent: Events gauge,
        /// 4 KiB pages of the largest range.
        largest: Events gauge,
        /// Bytes of the range table.
        table_bytes: Bytes gauge,
        /// Levels of the range table.
        levels: Events gauge,
    }
}

/// The ranges of one page table.
#[derive(State)]
struct RangeCompanion {
    ranges: RangeTable,
    /// The root of the range table when the registers' generation last changed.
    root: PhysAddr,
    #[state(skip)]
    rules: RangeRules,
    /// The range changed last, which the next page is likely to extend.
    last: Option<Range>,
    generation: u64,
    mapped: u64,
    /// The largest range, which a direct segment holds.
    largest: Option<Range>,
    /// The largest range is in registers, so every change of it changes the registers.
    #[state(skip)]
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
    /// No ranges yet. `in_registers` if the hardware has the largest range in registers. `None` if there is
    /// no frame for the root.
    fn new(rules: &RangeRules, in_registers: bool, os: &mut TableContext<'_>) -> Option<RangeCompanion> {
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

    /// The entry of the page at `va`, if it has these rights and maps that page to `frame`, so that it
    /// extends a run.
    fn adjacent_entry(
        table: &dyn PageTable,
        va: u64,
        frame: u64,
        flags: PteFlags,
        os: &TableContext<'_>,
    ) -> Option<Entry> {
        let va = VirtAddr(va);
        let entry = table.lookup(va, os.memory)?;
        let within = (va.0 - entry.page.start.0) >> 12;
        let same = entry.flags.writable == flags.writable && entry.flags.executable == flags.executable;
        (same && entry.frame.0 + within == frame).then_some(entry)
    }

    /// Merges a mapped page, whose range bit is clear, with adjacent pages.
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
        let mut unmarked = vec![mapping.page];
        let (mut before, mut after) = (None, None);
        // Runs of pages outside ranges are shorter than the threshold.
        for _ in 0..self.rules.threshold {
            let Some(below) = run.base.0.checked_sub(1) else { break };
            let Some(frame) = run.frame.0.checked_sub(1) else { break };
            let Some(entry) = RangeCompanion::adjacent_entry(table, below << 12, frame, flags, os) else { break };
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
            unmarked.push(entry.page);
        }
        for _ in 0..self.rules.threshold {
            let frame = run.frame_of(run.limit).0;
            let Some(entry) = RangeCompanion::adjacent_entry(table, run.limit.0 << 12, frame, flags, os) else { break };
            if entry.flags.ranged
                && let Some(range) = self.find(run.limit, os)
            {
                run.limit = range.limit;
                after = Some(range);
                break;
            }
            run.limit = pages_of(entry.page).1;
            unmarked.push(entry.page);
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
                if !self.ranges.reserve(1, os) {
                    self.counters.no_memory += 1;
                    return;
                }
                self.ranges.insert(run, os);
                self.counters.created += 1;
            }
        }
        self.last = Some(run);
        self.grown(run);
        for page in unmarked {
            self.mark(page, true, table, os);
        }
    }

    /// The range changed last, if the page extends it and nothing is mapped after the page. This is the
    /// common case of [`RangeCompanion::join`], with the range bit in the entry from the start.
    fn appended_to(&self, mapping: &Mapping, table: &dyn PageTable, memory: &PhysicalMemory) -> Option<Range> {
        let (first, end) = pages_of(mapping.page);
        let last = self.last.filter(|last| last.limit == first && last.frame_of(first) == mapping.frame)?;
        let is_end = || table.lookup(VirtAddr(end.0 << 12), memory).is_none();
        (same_rights(&last, mapping.flags) && is_end()).then_some(last)
    }

    /// Extends the range changed last by a mapped page.
    fn append(&mut self, page: Page, os: &mut TableContext<'_>) {
        let Some(last) = self.last else { return };
        let run = Range { limit: pages_of(page).1, ..last };
        self.ranges.update(last.base, run, os);
        self.counters.extended += 1;
        self.last = Some(run);
        self.grown(run);
    }

    /// Updates the largest range after `run` has grown.
    fn grown(&mut self, run: Range) {
        if self.largest.is_none_or(|largest| run.pages() > largest.pages() || run.contains(largest.base)) {
            self.largest = Some(run);
            self.generation += u64::from(self.in_registers);
        }
    }

    /// The flags of a page in a range.
    fn in_range(&self, flags: PteFlags) -> PteFlags {
        let eager = self.rules.eager_bits;
        PteFlags { ranged: true, accessed: flags.accessed || eager, dirty: flags.dirty || eager, ..flags }
    }

    /// Sets or clears the range bit in the entry of a page.
    fn mark(&mut self, page: Page, ranged: bool, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        let Some(entry) = table.lookup(page.start, os.memory) else { return };
        self.counters.bits_written += 1;
        let flags = if ranged { self.in_range(entry.flags) } else { PteFlags { ranged, ..entry.flags } };
        table.set_flags(page, flags, os);
    }

    /// Removes a page from its range. Each side stays a range if it reaches the threshold.
    fn leave(&mut self, page: Page, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        let (first, end) = pages_of(page);
        let Some(range) = self.find(first, os) else { return };
        self.last = None;
        let left = Range { limit: first, ..range };
        let right = Range { base: end, frame: range.frame_of(end), ..range };
        let is_range = |part: &Range| part.pages() >= self.rules.threshold;
        let (mut keep_left, mut keep_right) = (is_range(&left), is_range(&right));
        if keep_left && keep_right && !self.ranges.reserve(1, os) {
            self.counters.no_memory += 1;
            // Only the larger part stays a range.
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
            // LIMIT has no bit for the end of the whole address space: the hardware never hits a range that
            // ends there.
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

    /// Turns a part of a range into single pages.
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

    /// Lets the hardware use the ranges, or not, depending on how much the process has mapped.
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

    /// Whether a page may stay in its range, or outside ranges, when its flags change.
    fn stays(&self, entry: &Mapping, flags: PteFlags) -> bool {
        let same_rights = entry.flags.writable == flags.writable && entry.flags.executable == flags.executable;
        same_rights && !(self.cleans(entry, flags) && entry.flags.ranged)
    }

    /// Whether the change clears the dirty bit. Hardware that hits a range does not see the dirty bits of
    /// pages, so a page that must appear clean cannot be in a range.
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
        // The range bit is set if `new_entry_flags` found that the page extends a range.
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

    /// CR-RT: the root's physical address, with bit 0 set if the hardware may use the ranges; for a direct
    /// segment, followed by the largest range.
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

/// How many ranges, largest first, cover that share of `mapped` pages; 0 if all together do not.
fn ranges_for(largest_first: &[u64], mapped: u64, share: f64) -> u64 {
    let needed = (mapped as f64 * share).ceil() as u64;
    let mut covered = 0;
    for (i, pages) in largest_first.iter().enumerate() {
        covered += pages;
        if covered >= needed {
            return i as u64 + 1;
        }
    }
    0
}

/// Creates the ranges of each process.
pub struct RangeCompanionFactory {
    rules: RangeRules,
    in_registers: bool,
}

impl RangeCompanionFactory {
    /// A factory of ranges with these rules.
    pub fn new(rules: &RangeRules) -> RangeCompanionFactory {
        RangeCompanionFactory { rules: rules.clone(), in_registers: false }
    }

    /// As [`RangeCompanionFactory::new`], for a direct segment: the largest range is in registers.
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
