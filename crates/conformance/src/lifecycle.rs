//! The part of the script that creates and removes processes and VMAs, and the check of everything.

use super::model::Process;
use super::script::Script;
use ambulator_base::{Asid, FRAME_BYTES, Page, ProcessId, VirtAddr};
use ambulator_mmu::Invalidation;
use ambulator_os::Mapping;

impl Script<'_> {
    pub(super) fn spawn(&mut self) -> Result<usize, String> {
        let number = self.processes.len();
        let asid = Asid(number as u16 + 1);
        self.record(format!("spawn {asid:?}"));
        let translations = self
            .translations
            .new_process(ProcessId(number as u32), asid, &mut self.bed.os())
            .map_err(|error| format!("a new process gets no table: {error:?}"))?;
        let mut process = Process::new(translations, asid);
        let (mib, gib) = (1u64 << 20, 1u64 << 30);
        process.areas = vec![
            (4 * mib, 10 * mib + 12288),
            ((512 * gib) - 4 * mib, 512 * gib + 12 * mib),
            (0x5555_4000_0000, 0x5555_4000_0000 + 3 * gib),
            ((1 << self.options.va_bits) - 32 * mib, 1 << self.options.va_bits),
        ];
        for &(start, end) in &process.areas {
            let os = &mut self.bed.os();
            process.translations.vma_added(VirtAddr(start), end - start, os);
        }
        self.processes.push(Some(process));
        Ok(number)
    }

    /// Removes a VMA or a part of it, and adds it again.
    pub(super) fn cut_vma(&mut self, number: usize) -> Result<(), String> {
        let area = self.random.below(4) as usize;
        let (start, end) = self.process(number)?.areas[area];
        let from = start + (self.random.below(end - start) & !0xfff);
        let to = end.min(from + (1 + self.random.below(2048)) * FRAME_BYTES);
        let whole = self.random.chance(0.2);
        let (from, to) = if whole { (start, end) } else { (from, to) };
        self.record(format!("cut {from:#x} to {to:#x} from process {number}"));
        let process = self.process(number)?;
        let straddled = process.find(VirtAddr(from)).is_some_and(|m| m.page.start.0 < from)
            || process.find(VirtAddr(to - 1)).is_some_and(|m| m.page.end().0 > to);
        if straddled {
            return Ok(());
        }
        let pages: Vec<Page> = process.pages.range(from..to).map(|(_, mapping)| mapping.page).collect();
        for page in pages {
            self.unmap(number, page)?;
            self.invalidate(number, page)?;
        }
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        let os = &mut self.bed.os();
        process.translations.vma_removed(VirtAddr(from), to - from, os);
        process.check_registers()?;
        self.probe(number, VirtAddr(from))?;
        let process = self.processes[number].as_mut().ok_or("the process has exited")?;
        let os = &mut self.bed.os();
        process.translations.vma_added(VirtAddr(from), to - from, os);
        Ok(())
    }

    pub(super) fn fork(&mut self, number: usize) -> Result<(), String> {
        let child = self.spawn()?;
        self.record(format!("fork of process {number} into {child}"));
        let pages: Vec<Mapping> = self.process(number)?.pages.values().copied().collect();
        for mapping in pages {
            let mut flags = mapping.flags;
            flags.writable = false;
            self.map(child, Mapping { flags, ..mapping })?;
        }
        for _ in 0..4 {
            if let Some(mapping) = self.random_page(child)? {
                self.probe(child, mapping.page.start)?;
                self.probe(number, mapping.page.start)?;
            }
        }
        Ok(())
    }

    pub(super) fn exit(&mut self, number: usize) -> Result<(), String> {
        self.record(format!("exit of process {number}"));
        let pages: Vec<Page> = self.process(number)?.pages.values().map(|mapping| mapping.page).collect();
        for page in pages {
            self.unmap(number, page)?;
        }
        let Some(mut process) = self.processes[number].take() else {
            return Ok(());
        };
        let os = &mut self.bed.os();
        let announced = self.random.chance(0.5);
        for &(start, end) in process.areas.iter().filter(|_| announced) {
            process.translations.vma_removed(VirtAddr(start), end - start, os);
        }
        process.translations.destroy(os);
        let left = process.translations.footprint();
        if self.options.exact_footprint && (left.bytes, left.entries) != (0, 0) {
            return Err(format!("a destroyed table still reports the footprint {left:?}"));
        }
        self.summary.largest_contiguous = self.summary.largest_contiguous.max(left.largest_contiguous);
        for core in &mut self.cores {
            core.walker.invalidate(Invalidation::Asid(process.asid));
            if core.loaded.is_some_and(|(loaded, _)| loaded == number) {
                core.loaded = None;
            }
        }
        Ok(())
    }

    /// Checks everything: every page by look-up and walk, footprints and frames.
    pub(super) fn audit(&mut self) -> Result<(), String> {
        self.record("audit".into());
        let mut bytes = 0;
        for number in self.live() {
            let pages: Vec<Page> = self.process(number)?.pages.values().map(|mapping| mapping.page).collect();
            for (i, page) in pages.iter().enumerate() {
                self.probe(number, page.start)?;
                if i % 16 == 0 {
                    self.probe_around(number, *page)?;
                }
            }
            let footprint = self.process(number)?.translations.footprint();
            bytes += footprint.bytes;
            let plausible = footprint.entries == pages.len() as u64
                && footprint.peak_bytes >= footprint.bytes
                && footprint.largest_contiguous <= footprint.peak_bytes;
            if !plausible {
                return Err(format!("with {} pages mapped the footprint is {footprint:?}", pages.len()));
            }
        }
        let taken = (self.initially_free - self.bed.frames.free_frames()) * FRAME_BYTES;
        if self.options.exact_footprint && taken != bytes {
            return Err(format!("the tables report {bytes} bytes, but {taken} are allocated"));
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        self.audit()?;
        for number in self.live() {
            self.exit(number)?;
        }
        let free = self.bed.frames.free_frames();
        if self.options.exact_footprint && free != self.initially_free {
            return Err(format!("after the last exit only {free} of {} frames are free", self.initially_free));
        }
        Ok(())
    }
}
