//! The random script of operations on page tables.

use super::model::{Core, Process};
use super::{Options, Summary, TestBed};
use ambulator_base::{AccessKind, Asid, FRAME_BYTES, Page, PageSize, Pfn, Random, VirtAddr};
use ambulator_mmu::Invalidation;
use ambulator_os::{MapError, Mapping, PteFlags, TranslationsFactory};
use ambulator_sockets::{DesignParts, NewWalker};
use std::collections::VecDeque;

const CORES: usize = 2;
/// The largest number of live processes.
const PROCESSES: usize = 3;
/// Operations between two checks of everything.
const AUDIT: u32 = 250;
/// Operations that an error reports.
const REPORTED: usize = 10;

pub fn run(parts: DesignParts, options: &Options, summary: &mut Summary) -> Result<(), String> {
    let mut bed = TestBed::new(options.memory).map_err(|error| error.to_string())?;
    if let Some(order) = options.scatter {
        super::scatter(&mut bed.frames, order);
    }
    for boot in parts.boot {
        if !boot(&mut bed.frames) {
            return Err("there is no memory at boot".into());
        }
    }
    let mut new_walker: NewWalker = parts.new_walker;
    let mut script = Script {
        options,
        random: Random::for_purpose(options.seed, "conformance"),
        initially_free: bed.frames.free_frames(),
        bed,
        translations: parts.translations,
        processes: Vec::new(),
        cores: (0..CORES).map(|i| Core::new(new_walker(i))).collect(),
        summary,
        recent: VecDeque::new(),
    };
    for step in 0..options.ops {
        script.step(step).map_err(|error| {
            let recent = script.recent.iter().cloned().collect::<Vec<_>>().join("\n  ");
            format!("seed {}, step {step}: {error}\nthe latest operations:\n  {recent}", options.seed)
        })?;
    }
    script.end().map_err(|error| format!("seed {}, at the end: {error}", options.seed))
}

pub(super) struct Script<'a> {
    pub(super) options: &'a Options,
    pub(super) random: Random,
    pub(super) bed: TestBed,
    /// Free frames before the first table is created.
    pub(super) initially_free: u64,
    pub(super) translations: TranslationsFactory,
    /// By number. The slot of an exited process stays empty: numbers and ASIDs are not reused.
    pub(super) processes: Vec<Option<Process>>,
    pub(super) cores: Vec<Core>,
    pub(super) summary: &'a mut Summary,
    recent: VecDeque<String>,
}

impl Script<'_> {
    /// Records an operation for error messages.
    pub(super) fn record(&mut self, operation: String) {
        if self.recent.len() == REPORTED {
            self.recent.pop_front();
        }
        self.recent.push_back(operation);
    }

    pub(super) fn live(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|&number| self.processes[number].is_some()).collect()
    }

    pub(super) fn process(&mut self, number: usize) -> Result<&mut Process, String> {
        self.processes[number].as_mut().ok_or_else(|| format!("process {number} of the script has exited"))
    }

    fn step(&mut self, step: u32) -> Result<(), String> {
        let live = self.live();
        if live.is_empty() {
            return self.spawn().map(drop);
        }
        let number = live[self.random.below(live.len() as u64) as usize];
        match self.random.below(100) {
            0..30 => self.map_pages(number)?,
            30..42 => self.unmap_pages(number)?,
            42..52 => self.change_flags(number)?,
            52..58 => self.move_page(number)?,
            58..63 => self.promote(number)?,
            63..68 => self.demote(number)?,
            68..72 => self.cut_vma(number)?,
            72..74 if live.len() < PROCESSES => self.fork(number)?,
            74..75 if live.len() > 1 => self.exit(number)?,
            75 => self.flush(number),
            _ => self.probe_randomly(number)?,
        }
        if let Some(process) = &mut self.processes[number] {
            process.check_registers()?;
        }
        if step % AUDIT == AUDIT - 1 {
            self.audit()?;
        }
        Ok(())
    }

    /// A random address in a VMA of the process, more often than not near earlier ones.
    pub(super) fn random_address(&mut self, number: usize) -> Result<VirtAddr, String> {
        let area = self.random.below(4) as usize;
        let (start, end) = self.process(number)?.areas[area];
        let span = match self.random.below(4) {
            0 => end - start,
            1 => (64 << 10).min(end - start),
            _ => (6 << 20).min(end - start),
        };
        let from_end = self.random.chance(0.2);
        let offset = self.random.below(span);
        Ok(VirtAddr(if from_end { end - 1 - offset } else { start + offset }))
    }

    fn random_size(&mut self) -> PageSize {
        let sizes = &self.options.sizes;
        // Large pages leave little room for small ones, so there are fewer of them.
        let mut at = 0;
        while at + 1 < sizes.len() && self.random.chance(0.25) {
            at += 1;
        }
        sizes[at]
    }

    fn random_flags(&mut self) -> PteFlags {
        PteFlags {
            writable: self.random.chance(0.6),
            executable: self.random.chance(0.3),
            user: self.random.chance(0.9),
            accessed: self.random.chance(0.2),
            dirty: self.random.chance(0.2),
            ranged: false,
        }
    }

    /// A random data frame past the end of memory, because no table may access it.
    fn random_frame(&mut self, size: PageSize) -> Pfn {
        let first = (self.options.memory / FRAME_BYTES).next_multiple_of(size.frames());
        let blocks = ((1 << 32) - first) >> size.order();
        Pfn(first + (self.random.below(blocks) << size.order()))
    }

    /// A random mapped page, if there is any.
    pub(super) fn random_page(&mut self, number: usize) -> Result<Option<Mapping>, String> {
        let from = self.random_address(number)?.0;
        let pages = &self.process(number)?.pages;
        let next = pages.range(from..).next().or_else(|| pages.iter().next());
        Ok(next.map(|(_, mapping)| *mapping))
    }

    fn lies_in_area(&mut self, number: usize, page: Page) -> Result<bool, String> {
        let areas = &self.process(number)?.areas;
        Ok(areas.iter().any(|&(start, end)| page.start.0 >= start && page.end().0 <= end))
    }

    /// Maps a page in a free range. False if the table lacks memory.
    pub(super) fn map(&mut self, number: usize, mapping: Mapping) -> Result<bool, String> {
        let page = mapping.page;
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        match process.translations.map(mapping, &mut self.bed.os()) {
            Ok(()) => {
                process.pages.insert(page.start.0, mapping);
                self.summary.maps += 1;
                Ok(true)
            }
            Err(MapError::NoMemory { .. }) => {
                self.summary.failures += 1;
                process.check_lookup(page.start, &self.bed)?;
                Ok(false)
            }
            Err(error) => Err(format!("map of {mapping:?} failed: {error:?}")),
        }
    }

    /// Unmaps a mapped page, without an invalidation.
    pub(super) fn unmap(&mut self, number: usize, page: Page) -> Result<Mapping, String> {
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        let expected = process.pages.remove(&page.start.0);
        let found = process.translations.unmap(page, &mut self.bed.os());
        self.summary.unmaps += 1;
        match (found, expected) {
            (Some(found), Some(expected)) if found == expected => Ok(found),
            _ => Err(format!("unmap of {page:?} returned {found:?} instead of {expected:?}")),
        }
    }

    pub(super) fn invalidate(&mut self, number: usize, page: Page) -> Result<(), String> {
        let asid = self.process(number)?.asid;
        for core in &mut self.cores {
            core.walker.invalidate(Invalidation::Page { asid, page });
        }
        Ok(())
    }

    fn flush(&mut self, number: usize) {
        self.record(format!("flush of process {number}"));
        let asid = Asid(number as u16 + 1);
        let all = self.random.chance(0.3);
        for core in &mut self.cores {
            core.walker.invalidate(if all { Invalidation::All } else { Invalidation::Asid(asid) });
        }
    }

    /// Checks one address by look-up and walk.
    pub(super) fn probe(&mut self, number: usize, va: VirtAddr) -> Result<(), String> {
        let access = match self.random.below(4) {
            0 => AccessKind::Store,
            1 => AccessKind::Fetch,
            _ => AccessKind::Load,
        };
        let core = &mut self.cores[self.random.below(CORES as u64) as usize];
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        process.check_lookup(va, &self.bed)?;
        core.run(number, process);
        core.check_walk(process, va, access, &mut self.bed, self.options, self.summary)?;
        process.check_lookup(va, &self.bed)
    }

    /// Checks addresses in and around a page by look-ups and walks.
    pub(super) fn probe_around(&mut self, number: usize, page: Page) -> Result<(), String> {
        let (start, end) = (page.start.0, page.end().0);
        let inside = start + self.random.below(page.size.bytes());
        let limit = 1u64 << self.options.va_bits;
        for va in [start, inside, end - 1, start.wrapping_sub(1), end] {
            if va < limit {
                self.probe(number, VirtAddr(va))?;
            }
        }
        Ok(())
    }

    fn probe_randomly(&mut self, number: usize) -> Result<(), String> {
        let va = match self.random.below(3) {
            0 => VirtAddr(self.random.below(1 << self.options.va_bits)),
            1 => self.random_address(number)?,
            _ => match self.random_page(number)? {
                Some(mapping) => {
                    let offset = self.random.below(mapping.page.size.bytes());
                    mapping.page.start.offset(offset)
                }
                None => self.random_address(number)?,
            },
        };
        self.record(format!("probe of {va:?} in process {number}"));
        self.probe(number, va)
    }

    fn map_pages(&mut self, number: usize) -> Result<(), String> {
        let size = self.random_size();
        let first = Page::containing(self.random_address(number)?, size);
        let run = if size == PageSize::SIZE_4K && self.random.chance(0.5) { 1 + self.random.below(40) } else { 1 };
        let flags = self.random_flags();
        let frame = self.random_frame(size);
        let contiguous = self.random.chance(0.5);
        self.record(format!("map {run} from {first:?} in process {number}"));
        for i in 0..run {
            let start = first.start.offset(i * size.bytes());
            let page = Page { start, size };
            let free = self.lies_in_area(number, page)? && !self.process(number)?.overlaps(page);
            if !free {
                continue;
            }
            let frame = if contiguous { frame.offset(i * size.frames()) } else { self.random_frame(size) };
            // Earlier walks found the page unmapped, which hardware does not cache: no invalidation is
            // needed.
            let walked = self.random.chance(0.2);
            if walked {
                self.probe(number, start)?;
            }
            self.map(number, Mapping { page, frame, flags })?;
            if i == 0 || i + 1 == run || walked {
                self.probe_around(number, page)?;
            }
        }
        Ok(())
    }

    fn unmap_pages(&mut self, number: usize) -> Result<(), String> {
        let Some(first) = self.random_page(number)? else {
            return Ok(());
        };
        let run = if self.random.chance(0.5) { 1 + self.random.below(60) as usize } else { 1 };
        let pages: Vec<Page> = self
            .process(number)?
            .pages
            .range(first.page.start.0..)
            .take(run)
            .map(|(_, mapping)| mapping.page)
            .collect();
        self.record(format!("unmap {} from {:?} in process {number}", pages.len(), first.page));
        for &page in &pages {
            self.unmap(number, page)?;
            self.invalidate(number, page)?;
        }
        for page in [pages[0], pages[pages.len() - 1]] {
            self.probe_around(number, page)?;
            self.check_unmapped(number, page)?;
        }
        Ok(())
    }

    /// Checks that a page that is not mapped cannot be unmapped or changed.
    fn check_unmapped(&mut self, number: usize, page: Page) -> Result<(), String> {
        let flags = self.random_flags();
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        let os = &mut self.bed.os();
        if let Some(found) = process.translations.unmap(page, os) {
            return Err(format!("{page:?} is not mapped, but unmap returned {found:?}"));
        }
        if process.translations.set_flags(page, flags, os) {
            return Err(format!("{page:?} is not mapped, but set_flags succeeded"));
        }
        Ok(())
    }

    fn change_flags(&mut self, number: usize) -> Result<(), String> {
        let flags = self.random_flags();
        let Some(mapping) = self.random_page(number)? else {
            return Ok(());
        };
        let page = mapping.page;
        self.record(format!("{flags:?} for {page:?} in process {number}"));
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        if !process.translations.set_flags(page, flags, &mut self.bed.os()) {
            return Err(format!("{page:?} is mapped, but set_flags failed"));
        }
        process.pages.insert(page.start.0, Mapping { flags, ..mapping });
        process.check_lookup(page.start, &self.bed)?;
        self.invalidate(number, page)?;
        self.probe_around(number, page)
    }

    fn move_page(&mut self, number: usize) -> Result<(), String> {
        let Some(mapping) = self.random_page(number)? else {
            return Ok(());
        };
        let page = mapping.page;
        let frame = self.random_frame(page.size);
        self.record(format!("move {page:?} to {frame:?} in process {number}"));
        let removed = self.unmap(number, page)?;
        self.map(number, Mapping { frame, ..removed })?;
        self.invalidate(number, page)?;
        self.probe_around(number, page)
    }

    fn holds(&self, size: PageSize) -> bool {
        self.options.sizes.contains(&size)
    }

    /// Promotes as khugepaged does: one 2 MiB page replaces the small pages in its range, with one
    /// invalidation for all.
    fn promote(&mut self, number: usize) -> Result<(), String> {
        let size = PageSize::SIZE_2M;
        let page = Page::containing(self.random_address(number)?, size);
        let process = self.process(number)?;
        let covered = process.find(page.start);
        let blocked = covered.is_some_and(|mapping| mapping.page.size >= size);
        if !self.holds(size) || blocked || !self.lies_in_area(number, page)? {
            return Ok(());
        }
        let small: Vec<Page> =
            self.process(number)?.pages.range(page.start.0..page.end().0).map(|(_, mapping)| mapping.page).collect();
        self.record(format!("promote {} pages of {page:?} in process {number}", small.len()));
        for &small in &small {
            if self.random.chance(0.1) {
                self.probe(number, small.start)?;
            }
        }
        for small in small {
            self.unmap(number, small)?;
        }
        let (frame, flags) = (self.random_frame(size), self.random_flags());
        self.map(number, Mapping { page, frame, flags })?;
        self.invalidate(number, page)?;
        self.probe_around(number, page)
    }

    /// Splits: up to 512 small pages with the same frames replace a large page.
    fn demote(&mut self, number: usize) -> Result<(), String> {
        let large = PageSize::SIZE_2M;
        let found = self.process(number)?.pages.values().find(|mapping| mapping.page.size == large).copied();
        let Some(mapping) = found else { return Ok(()) };
        let page = mapping.page;
        self.record(format!("demote {page:?} in process {number}"));
        self.probe(number, page.start)?;
        let removed = self.unmap(number, page)?;
        let keep = self.random.chance(0.5);
        for i in 0..large.frames() {
            if !keep && self.random.chance(0.5) {
                continue;
            }
            let small = Page { start: page.start.offset(i * FRAME_BYTES), size: PageSize::SIZE_4K };
            let part = Mapping { page: small, frame: removed.frame.offset(i), flags: removed.flags };
            self.map(number, part)?;
        }
        self.invalidate(number, page)?;
        self.probe_around(number, page)
    }
}
