//! The operating system's half.

use crate::{Buckets, slot_of, tag};
use ambulator::base::{FRAME_BYTES, Page, PageSize, PhysAddr, State, VirtAddr};
use ambulator::memory::PhysicalMemory;
use ambulator::os::{Entry, Footprint, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator::structures::{frames, pte::Pte};

/// A process's table.
#[derive(Default, State)]
pub struct Table {
    buckets: Buckets,
    footprint: Footprint,
}

impl Buckets {
    /// The first slot with the tag `wanted` in the buckets of the page with the tag `page`, and its entry.
    fn find(self, page: u64, wanted: u64, memory: &PhysicalMemory) -> Option<(PhysAddr, Pte)> {
        let lines = if self.count == 0 { None } else { Some(self.of(page)) };
        lines.into_iter().flatten().find_map(|line| {
            let words = memory.line(line);
            slot_of(&words, wanted).map(|at| (line.offset(at as u64 * 8), Pte(words[at + 1])))
        })
    }

    /// Puts an entry where there is room for it. False if there is none.
    fn insert(self, tag: u64, pte: u64, memory: &mut PhysicalMemory) -> bool {
        self.find(tag, 0, memory).map(|(at, _)| memory.write_words(at, &[tag, pte])).is_some()
    }
}

impl Table {
    /// Moves every entry into the next larger table that has room for all.
    fn grow(&mut self, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let old = self.buckets;
        let lines: Vec<_> = (0..old.count).map(|bucket| os.memory.line(old.base.offset(bucket * 64))).collect();
        let mut new = Buckets { count: old.count.max(32), ..old };
        loop {
            new.count *= 2;
            let bytes = new.count * 64;
            let run = frames::allocate_run(bytes / FRAME_BYTES, 0, &mut self.footprint, os);
            new.base = run.ok_or(MapError::NoMemory { bytes })?.start();
            let mut entries = lines.iter().flat_map(|line| line.chunks_exact(2)).filter(|slot| slot[0] != 0);
            if entries.all(|slot| new.insert(slot[0], slot[1], os.memory)) {
                break;
            }
            self.release(new, os);
        }
        os.ledger.charge(LedgerCause::Table, self.footprint.entries * os.costs.table_entry);
        self.release(old, os);
        self.buckets = new;
        Ok(())
    }

    fn release(&mut self, gone: Buckets, os: &mut TableContext<'_>) {
        if gone.count > 0 {
            frames::release(gone.base.pfn(), gone.count * 64 / FRAME_BYTES, &mut self.footprint, os);
        }
    }
}

impl PageTable for Table {
    fn map(&mut self, Mapping { page, frame, flags }: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        if page.size != PageSize::SIZE_4K {
            return Err(MapError::PageSize);
        }
        if self.lookup(page.start, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        while !self.buckets.insert(tag(page.start), Pte::leaf(frame, flags, false).0, os.memory) {
            self.grow(os)?;
        }
        self.footprint.entries += 1;
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let found = self.lookup(page.start, os.memory).filter(|entry| entry.page == page)?;
        os.memory.write_words(self.buckets.find(tag(page.start), tag(page.start), os.memory)?.0, &[0, 0]);
        self.footprint.entries -= 1;
        Some(found)
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let found = self.buckets.find(tag(page.start), tag(page.start), os.memory);
        let found = found.filter(|_| page.size == PageSize::SIZE_4K);
        found.map(|(at, pte)| os.memory.write(at.offset(8), Pte::leaf(pte.frame(), flags, false).0)).is_some()
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let (_, pte) = self.buckets.find(tag(va), tag(va), memory)?;
        Some(Mapping { page: Page::containing(va, PageSize::SIZE_4K), frame: pte.frame(), flags: pte.flags() })
    }

    fn registers(&self) -> Vec<u64> {
        vec![self.buckets.base.0, self.buckets.count]
    }

    fn registers_generation(&self) -> u64 {
        self.buckets.count
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        let gone = std::mem::take(&mut self.buckets);
        self.release(gone, os);
    }
}
