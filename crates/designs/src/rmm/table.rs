//! The operating system's half: any page table, and beside it a range table that says the same where it can.
//!
//! Runs of pages that follow each other in both address spaces, with the same rights, are ranges from the contiguity
//! threshold on (RMM Sec. 5.1): a page that is mapped joins its neighbours, a page that goes or changes its rights leaves
//! them, and what is left of its range stays one, or two, or is dissolved. So at any time the ranges are the maximal runs,
//! except where memory for a node was lacking. Pages of ranges have the range bit in their entries and, if asked for,
//! the accessed and dirty bits from the start (Sec. 6, "Accessed & Dirty bits"): hardware that hits a range sets none.

use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Page, PhysAddr, VirtAddr, Vpn};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableLock};
use ambulator_structures::ranges::{Range, RangeRules, RangeTable, segment_registers};

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

/// A page table with ranges beside it.
pub struct RangedTable {
    inner: Box<dyn PageTable>,
    ranges: RangeTable,
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

impl RangedTable {
    /// Ranges beside `inner`, an empty table; `in_registers` if the hardware has the largest of them in registers. `None` when there is no frame for the root.
    pub fn new(
        inner: Box<dyn PageTable>,
        rules: &RangeRules,
        in_registers: bool,
        os: &mut TableContext<'_>,
    ) -> Option<RangedTable> {
        Some(RangedTable {
            ranges: RangeTable::new(rules.va_bits - 12, os)?,
            inner,
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

    /// The ranges, ascending.
    pub fn ranges(&self, memory: &PhysicalMemory) -> Vec<Range> {
        self.ranges.all(memory)
    }

    fn find(&self, page: Vpn, os: &TableContext<'_>) -> Option<Range> {
        match self.last {
            Some(last) if last.contains(page) => Some(last),
            _ => self.ranges.find(page, os.memory),
        }
    }

    /// The entry next to a run, if it goes on with it: `at` is the run's first or last page, `frame` its frame.
    fn neighbour(&self, va: u64, frame: u64, flags: PteFlags, os: &TableContext<'_>) -> Option<Entry> {
        let va = VirtAddr(va);
        let entry = self.inner.lookup(va, os.memory)?;
        let within = (va.0 - entry.page.start.0) >> 12;
        let same = entry.flags.writable == flags.writable && entry.flags.executable == flags.executable;
        (same && entry.frame.0 + within == frame).then_some(entry)
    }

    /// A page that is mapped, its range bit clear, joins its neighbours.
    fn join(&mut self, mapping: Mapping, os: &mut TableContext<'_>) {
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
            let Some(entry) = self.neighbour(below << 12, frame, flags, os) else { break };
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
            let Some(entry) = self.neighbour(run.limit.0 << 12, frame, flags, os) else { break };
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
                if !self.ranges.prepare(os) {
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
            self.mark(page, true, os);
        }
    }

    /// The common case of [`RangedTable::join`], with the range bit in the entry from the start: a page behind the last range
    /// that changed, with nothing behind itself. False, and nothing done, if it is another case.
    fn append(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<bool, MapError> {
        let (first, end) = pages_of(mapping.page);
        let Some(last) = self.last else { return Ok(false) };
        let follows = last.limit == first && last.frame_of(first) == mapping.frame;
        if !follows
            || !same_rights(&last, mapping.flags)
            || self.inner.lookup(VirtAddr(end.0 << 12), os.memory).is_some()
        {
            return Ok(false);
        }
        let flags = self.in_range(mapping.flags);
        self.inner.map(Mapping { flags, ..mapping }, os)?;
        self.mapped += mapping.page.size.frames();
        let run = Range { limit: end, ..last };
        self.ranges.update(last.base, run, os);
        self.counters.extended += 1;
        self.last = Some(run);
        self.grown(run);
        self.monitor();
        Ok(true)
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
    fn mark(&mut self, page: Page, ranged: bool, os: &mut TableContext<'_>) {
        let Some(entry) = self.inner.lookup(page.start, os.memory) else { return };
        self.counters.bits_written += 1;
        let flags = if ranged { self.in_range(entry.flags) } else { PteFlags { ranged, ..entry.flags } };
        self.inner.set_flags(page, flags, os);
    }

    /// A page leaves its range: what is on its two sides stays a range if it is enough.
    fn leave(&mut self, page: Page, os: &mut TableContext<'_>) {
        let (first, end) = pages_of(page);
        let Some(range) = self.find(first, os) else { return };
        self.last = None;
        let left = Range { limit: first, ..range };
        let right = Range { base: end, frame: range.frame_of(end), ..range };
        let enough = |part: &Range| part.pages() >= self.rules.threshold;
        let (mut keep_left, mut keep_right) = (enough(&left), enough(&right));
        if keep_left && keep_right && !self.ranges.prepare(os) {
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
            // LIMIT has no bit for the end of the whole address space: a range up to there is none that hardware finds.
            let pages = |range: &Range| range.limit.0.saturating_sub(range.base.0);
            self.largest = self.ranges.all(os.memory).into_iter().max_by_key(pages);
            self.generation += 1;
        }
        for (part, kept) in [(left, keep_left), (right, keep_right)] {
            if !kept && part.pages() > 0 {
                self.counters.dissolved += 1;
                self.dissolve(part, os);
            }
        }
    }

    /// The pages of what was part of a range are pages alone.
    fn dissolve(&mut self, part: Range, os: &mut TableContext<'_>) {
        let mut at = part.base;
        while at < part.limit {
            match self.inner.lookup(VirtAddr(at.0 << 12), os.memory) {
                Some(entry) => {
                    self.mark(entry.page, false, os);
                    at = pages_of(entry.page).1;
                }
                None => at = Vpn(at.0 + 1),
            }
        }
    }

    /// The operating system looks at how much the program has mapped, and lets the hardware use its ranges or not.
    fn monitor(&mut self) {
        let enabled = self.mapped * FRAME_BYTES >= self.rules.enable_above_bytes;
        if enabled != self.enabled {
            self.enabled = enabled;
            self.generation += 1;
        }
    }

    fn after_change(&mut self, root: PhysAddr) {
        if self.ranges.root() != root {
            self.generation += 1;
        }
        self.monitor();
    }
}

/// The kernel does not know of ranges.
fn plain(entry: Entry) -> Entry {
    Entry { flags: PteFlags { ranged: false, ..entry.flags }, ..entry }
}

impl PageTable for RangedTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let mapping = plain(mapping);
        let root = self.ranges.root();
        if self.append(mapping, os)? {
            return Ok(());
        }
        self.inner.map(mapping, os)?;
        self.mapped += mapping.page.size.frames();
        self.join(mapping, os);
        self.after_change(root);
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let entry = self.inner.lookup(page.start, os.memory).filter(|entry| entry.page == page)?;
        let root = self.ranges.root();
        if entry.flags.ranged {
            self.leave(page, os);
        }
        let gone = self.inner.unmap(page, os)?;
        self.mapped -= page.size.frames();
        self.after_change(root);
        Some(plain(gone))
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let Some(entry) = self.inner.lookup(page.start, os.memory).filter(|entry| entry.page == page) else {
            return false;
        };
        let same_rights = entry.flags.writable == flags.writable && entry.flags.executable == flags.executable;
        // Hardware that hits a range sees no page's own dirty bit: a page that must be seen as clean is in no range.
        let cleaned = self.rules.eager_bits && entry.flags.dirty && !flags.dirty;
        if same_rights && !(cleaned && entry.flags.ranged) {
            return self.inner.set_flags(page, PteFlags { ranged: entry.flags.ranged, ..flags }, os);
        }
        let root = self.ranges.root();
        if entry.flags.ranged {
            self.leave(page, os);
        }
        let flags = PteFlags { ranged: false, ..flags };
        let done = self.inner.set_flags(page, flags, os);
        if !cleaned {
            self.join(Mapping { flags, ..entry }, os);
        }
        self.after_change(root);
        done
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        self.inner.lookup(va, memory).map(plain)
    }

    fn lock_of(&self, page: Page) -> TableLock {
        self.inner.lock_of(page)
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.inner.vma_added(start, len, os);
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, os: &mut TableContext<'_>) {
        self.inner.vma_removed(start, len, os);
    }

    fn registers(&self) -> Vec<u64> {
        self.inner.registers()
    }

    /// CR-RT: the root's physical address, bit 0 set where the hardware is to use the ranges; then the largest range, for a direct segment.
    fn lookaside_registers(&self) -> Vec<u64> {
        let root = self.ranges.root().0 | u64::from(self.enabled);
        std::iter::once(root).chain(segment_registers(self.largest)).collect()
    }

    fn registers_generation(&self) -> u64 {
        self.inner.registers_generation() + self.generation
    }

    fn footprint(&self) -> Footprint {
        self.inner.footprint().beside(self.ranges.footprint)
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.ranges.destroy(os);
        self.inner.destroy(os);
    }

    fn prefetch_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        self.inner.prefetch_host(va, memory);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.inner.report(prefix, sink);
        self.counters.report(&format!("{prefix}.ranges"), sink);
    }

    fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        self.inner.inspect(memory, prefix, sink);
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
