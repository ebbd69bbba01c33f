//! Operations whose allocations fail: each is repeated with the first, the second, the third allocation that
//! it makes failing, until it makes no more. Of operations that make dozens (an index that is built), later
//! ones are sampled.

use super::model::{Core, Process};
use super::{Options, Summary, TestBed};
use ambulator_base::{AccessKind, Asid, FRAME_BYTES, Page, PageSize, Pfn, ProcessId, Protection, Random, VirtAddr};
use ambulator_os::{Footprint, MapError, Mapping, PteFlags, TranslationsFactory};
use ambulator_sockets::DesignParts;

/// Allocations of one operation, at the most: none makes as many.
const MANY: u64 = 10_000;
/// Allocations of one operation that fail each in turn.
const EACH: u64 = 16;
/// Areas of the process.
const AREAS: usize = 4;
/// Pages of the process that are looked up after each failure, next to those that are concerned.
const LOOKUPS: usize = 8;

/// Holds translations to what they must do when allocations fail: the operation succeeds, or it fails and has
/// changed nothing; what the kernel cannot be refused (unmaps, changes of flags, VMAs that come and go) is
/// done; all frames come back at the end. `operations` is the length of the script.
///
/// # Errors
/// The first difference.
pub fn check_failing(parts: DesignParts, operations: u32, options: &Options) -> Result<Summary, String> {
    let mut bed = TestBed::new(options.memory).map_err(|e| e.to_string())?;
    let mut new_walker = parts.new_walker;
    for boot in parts.boot {
        if !boot(&mut bed.frames) {
            return Err("there is no memory at boot".into());
        }
    }
    let at_first = bed.frames.free_frames();
    let core = parts.new_front_side.is_none().then(|| Core::new(new_walker(0)));
    let mut summary = Summary::default();
    let mut factory = parts.translations;
    let process = new_process(&mut factory, &mut bed, options, &mut summary)?;
    let random = Random::for_purpose(options.seed, "failing");
    let mut script = Script { options, bed, at_first, process, core, random, summary: &mut summary };
    for step in 0..operations {
        script.step(step).map_err(|error| format!("seed {}, step {step}: {error}", options.seed))?;
    }
    script.end()?;
    Ok(summary)
}

/// A process whose translations were refused memory at each of their first allocations.
fn new_process(
    factory: &mut TranslationsFactory,
    bed: &mut TestBed,
    options: &Options,
    summary: &mut Summary,
) -> Result<Process, String> {
    let free = bed.frames.free_frames();
    for (served, failing) in (0..MANY).flat_map(|served| [(served, 1), (served, u64::MAX)]) {
        bed.frames.refuse(served, failing);
        let made = factory.new_process(ProcessId(0), Asid(1), &mut bed.os());
        let refused = bed.frames.refuse(0, 0);
        let mut translations = match made {
            Ok(translations) if refused == 0 => return Ok(Process::new(translations, Asid(1))),
            Ok(translations) => Some(translations),
            Err(MapError::NoMemory { .. }) if refused > 0 => None,
            Err(error) => return Err(format!("no table for a new process: {error:?}")),
        };
        summary.failures += 1;
        let bytes = translations.as_ref().map_or(0, |made| made.footprint().bytes);
        let taken = (free - bed.frames.free_frames()) * FRAME_BYTES;
        if options.exact_footprint && taken != bytes {
            return Err(format!("with allocation {served} refused a new process has {bytes} bytes and took {taken}"));
        }
        if let Some(made) = &mut translations {
            made.destroy(&mut bed.os());
        }
        if bed.frames.free_frames() != free {
            let lost = free - bed.frames.free_frames();
            return Err(format!("a new process to which allocation {served} was refused kept {lost} frames"));
        }
    }
    Err(format!("a new process makes {MANY} allocations"))
}

struct Script<'a> {
    options: &'a Options,
    bed: TestBed,
    at_first: u64,
    process: Process,
    /// Absent where an intermediate address space lies between.
    core: Option<Core>,
    random: Random,
    summary: &'a mut Summary,
}

impl Script<'_> {
    /// Areas that are dense, sparse, wide, at the end of the address space.
    fn areas(&self) -> [(u64, u64); AREAS] {
        let (mib, gib) = (1 << 20, 1 << 30);
        let end = 1 << self.options.va_bits;
        let sparse = 0x5555_4000_0000;
        [(4 * mib, 20 * mib), (sparse, sparse + 3 * gib), (1 << 40, (1 << 40) + 700 * gib), (end - 32 * mib, end)]
    }

    fn step(&mut self, step: u32) -> Result<(), String> {
        if let Some((start, end)) = self.areas().get(step as usize).copied() {
            return self.announce(start, end);
        }
        match self.random.below(10) {
            0..5 => self.map_some(),
            5..7 => self.unmap_some(),
            7 | 8 => self.change_flags(),
            _ => self.cut_area(),
        }
    }

    /// The operation with its first allocation failing, its second and so on, and then with none. `operation`
    /// is repeated on its own result, which it undoes before the next time if something was
    /// refused.
    fn repeat(
        &mut self,
        what: &str,
        mut operation: impl FnMut(&mut Self, (u64, u64)) -> Result<u64, String>,
    ) -> Result<(), String> {
        let failing = if self.random.chance(0.5) { 1 } else { u64::MAX };
        let mut served = 0;
        while served < MANY {
            let refused = operation(self, (served, failing))
                .map_err(|error| format!("{what} with {failing} allocations refused after {served}: {error}"))?;
            if refused == 0 {
                return Ok(());
            }
            self.summary.failures += 1;
            served += 1 + if served < EACH { 0 } else { served / 2 };
        }
        Err(format!("{what} makes {MANY} allocations"))
    }

    /// Frames and footprint agree, and there are as many entries as pages.
    fn check_frames(&self) -> Result<(), String> {
        let footprint = self.process.translations.footprint();
        let taken = (self.at_first - self.bed.frames.free_frames()) * FRAME_BYTES;
        let pages = self.process.pages.len() as u64;
        if footprint.entries != pages {
            return Err(format!("{} entries with {pages} pages", footprint.entries));
        }
        if self.options.exact_footprint && taken != footprint.bytes {
            return Err(format!("the footprint is {} bytes, and {taken} were taken", footprint.bytes));
        }
        Ok(())
    }

    /// Look-ups and walks of the page, around it and elsewhere, against the plain map.
    fn check(&mut self, page: Page) -> Result<(), String> {
        self.process.check_registers()?;
        self.check_frames()?;
        let limit = 1 << self.options.va_bits;
        let from = self.random.below(limit);
        let others =
            self.process.pages.range(from..).take(LOOKUPS / 2).chain(self.process.pages.iter().take(LOOKUPS / 2));
        let mut all: Vec<u64> = others.map(|(&va, _)| va).collect();
        let (start, end) = (page.start.0, page.end().0);
        all.extend([start, end - 1, start.wrapping_sub(1), end].into_iter().filter(|va| *va < limit));
        for va in all.into_iter().map(VirtAddr) {
            self.process.check_lookup(va, &self.bed)?;
            if let Some(core) = &mut self.core {
                core.run(0, &self.process);
                let access = AccessKind::Load;
                core.check_walk(&mut self.process, va, access, &mut self.bed, self.options, self.summary)?;
            }
        }
        Ok(())
    }

    /// The page's entry changed: no walk knows it from before.
    fn invalidate(&mut self, page: Page) {
        if let Some(core) = &mut self.core {
            core.walker.invalidate(ambulator_mmu::Invalidation::Page { asid: self.process.asid, page });
        }
    }

    fn announce(&mut self, start: u64, end: u64) -> Result<(), String> {
        let page = Page::containing(VirtAddr(start), PageSize::SIZE_4K);
        let len = end - start;
        self.repeat(&format!("a VMA at {start:#x}"), |own, (served, failing)| {
            own.bed.frames.refuse(served, failing);
            own.process.translations.vma_added(page.start, len, &mut own.bed.os());
            let refused = own.bed.frames.refuse(0, 0);
            own.check(page)?;
            if refused > 0 {
                own.process.translations.vma_removed(page.start, len, &mut own.bed.os());
                own.check(page)?;
            }
            Ok(refused)
        })
    }

    fn map_some(&mut self) -> Result<(), String> {
        let (start, end) = self.areas()[self.random.below(AREAS as u64) as usize];
        let sizes = &self.options.sizes;
        let size =
            if self.random.chance(0.1) { sizes[self.random.below(sizes.len() as u64) as usize] } else { sizes[0] };
        let first = Page::containing(VirtAddr(start + self.random.below(end - start)), size);
        // Runs of neighbours, and pages that have nodes of their own.
        let (run, apart) =
            if self.random.chance(0.5) { (64, 1) } else { (8, 1 + self.random.below((end - start) >> 15)) };
        for i in 0..if size == sizes[0] { run } else { 1 } {
            let page = Page { start: VirtAddr(first.start.0 + i * apart * size.bytes()), size };
            if page.start.0 < start || page.end().0 > end || self.process.overlaps(page) {
                continue;
            }
            let frame = Pfn((self.random.below(1 << 20) + (1 << 20)) << size.order() & 0xffff_ffff);
            let mapping = Mapping { page, frame, flags: PteFlags::user(Protection::READ_WRITE) };
            self.map(mapping)?;
        }
        Ok(())
    }

    fn map(&mut self, mapping: Mapping) -> Result<(), String> {
        let page = mapping.page;
        self.repeat(&format!("a map of {page:?}"), |own, (served, failing)| {
            let before = (own.bed.frames.free_frames(), own.process.translations.footprint());
            own.bed.frames.refuse(served, failing);
            let done = own.process.translations.map(mapping, &mut own.bed.os());
            let refused = own.bed.frames.refuse(0, 0);
            match done {
                Ok(()) => {
                    own.process.pages.insert(page.start.0, mapping);
                    own.summary.maps += 1;
                    if refused > 0 {
                        own.check(page)?;
                        own.unmap(page)?;
                        own.check(page)?;
                    }
                }
                Err(MapError::NoMemory { .. }) if refused > 0 => {
                    let after = (own.bed.frames.free_frames(), own.process.translations.footprint());
                    let held = |(free, footprint): (u64, Footprint)| free + footprint.bytes / FRAME_BYTES;
                    let same = before.0 == after.0 || own.options.resizes_on_failure;
                    let balanced = !own.options.exact_footprint || held(before) == held(after);
                    if !same || !balanced {
                        return Err(format!(
                            "it failed and changed free frames and footprint from {before:?} to {after:?}"
                        ));
                    }
                    own.check(page)?;
                }
                // A page over the seam of two areas of an intermediate address space.
                Err(MapError::PageSize) if own.core.is_none() => {
                    own.check(page)?;
                    return Ok(0);
                }
                Err(error) => return Err(format!("{error:?}")),
            }
            Ok(refused)
        })
    }

    /// Unmaps without a failure.
    fn unmap(&mut self, page: Page) -> Result<Mapping, String> {
        let truth = self.process.pages.remove(&page.start.0);
        let said = self.process.translations.unmap(page, &mut self.bed.os());
        self.invalidate(page);
        self.summary.unmaps += 1;
        match said {
            Some(said) if truth == Some(said) => Ok(said),
            said => Err(format!("unmap says {said:?}, and it must be {truth:?}")),
        }
    }

    fn unmap_failing(&mut self, page: Page) -> Result<(), String> {
        self.repeat(&format!("an unmap of {page:?}"), |own, (served, failing)| {
            own.bed.frames.refuse(served, failing);
            let gone = own.unmap(page);
            let refused = own.bed.frames.refuse(0, 0);
            let gone = gone?;
            if refused > 0 {
                own.check(page)?;
                let again = own.process.translations.map(gone, &mut own.bed.os());
                again.map_err(|error| format!("the page cannot come back: {error:?}"))?;
                own.process.pages.insert(page.start.0, gone);
                own.check(page)?;
            }
            Ok(refused)
        })
    }

    fn some_pages(&mut self, count: u64) -> Vec<Page> {
        let (start, end) = self.areas()[self.random.below(AREAS as u64) as usize];
        let from = if self.random.chance(0.2) { start } else { start + self.random.below(end - start) };
        self.process.pages.range(from..).take(count as usize).map(|(_, mapping)| mapping.page).collect()
    }

    fn unmap_some(&mut self) -> Result<(), String> {
        let count = 1 + self.random.below(64);
        for page in self.some_pages(count) {
            self.unmap_failing(page)?;
        }
        Ok(())
    }

    fn change_flags(&mut self) -> Result<(), String> {
        for page in self.some_pages(4) {
            self.repeat(&format!("a change of {page:?}"), |own, (served, failing)| {
                let Some(mapping) = own.process.pages.get_mut(&page.start.0) else { return Ok(0) };
                mapping.flags.writable = !mapping.flags.writable;
                let flags = mapping.flags;
                own.bed.frames.refuse(served, failing);
                let done = own.process.translations.set_flags(page, flags, &mut own.bed.os());
                let refused = own.bed.frames.refuse(0, 0);
                own.invalidate(page);
                if !done {
                    return Err("it is mapped, and set_flags says no".into());
                }
                own.check(page)?;
                Ok(refused)
            })?;
        }
        Ok(())
    }

    /// Part of an area goes, and comes again.
    fn cut_area(&mut self) -> Result<(), String> {
        let (start, end) = self.areas()[self.random.below(AREAS as u64) as usize];
        let from = start + (self.random.below(end - start) & !0xfff);
        let to = end.min(from + (1 + self.random.below(64)) * FRAME_BYTES);
        let straddles =
            |va: u64| self.process.find(VirtAddr(va)).is_some_and(|m| m.page.start.0 < from || m.page.end().0 > to);
        if straddles(from) || straddles(to - 1) {
            return Ok(());
        }
        let pages: Vec<Page> = self.process.pages.range(from..to).map(|(_, mapping)| mapping.page).collect();
        for page in pages {
            self.unmap_failing(page)?;
        }
        let page = Page { start: VirtAddr(from), size: PageSize::SIZE_4K };
        self.repeat(&format!("a hole at {from:#x}"), |own, (served, failing)| {
            own.bed.frames.refuse(served, failing);
            own.process.translations.vma_removed(page.start, to - from, &mut own.bed.os());
            let refused = own.bed.frames.refuse(0, 0);
            own.check(page)?;
            if refused > 0 {
                own.process.translations.vma_added(page.start, to - from, &mut own.bed.os());
                own.check(page)?;
            }
            Ok(refused)
        })?;
        self.announce(from, to)
    }

    fn end(mut self) -> Result<(), String> {
        let pages: Vec<Page> = self.process.pages.values().map(|mapping| mapping.page).collect();
        for page in pages {
            self.unmap_failing(page)?;
        }
        for (start, end) in self.areas() {
            self.process.translations.vma_removed(VirtAddr(start), end - start, &mut self.bed.os());
        }
        self.process.translations.destroy(&mut self.bed.os());
        let free = self.bed.frames.free_frames();
        if free != self.at_first {
            return Err(format!("after the exit {free} of {} frames are free", self.at_first));
        }
        Ok(())
    }
}
