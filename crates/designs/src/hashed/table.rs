//! The OS half.

use super::{EMPTY, HashedSpec, LINE_SLOTS, LineSearch, Lines, REMOVED, SIZES, SLOT_BYTES, search, tag};
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, LINE_BYTES, Page, PageSize, PhysAddr, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator_structures::frames;
use ambulator_structures::pte::Pte;

ambulator_base::counters! {
    /// Counters of the OS half of hashed page tables.
    pub(crate) struct HashedTableCounters {
        /// Resizes of tables.
        resizes: Events,
        /// Entries moved by resizes.
        entries_moved: Events,
    }
}

/// A process's table. In addition to its bytes it records only the number of occupied slots and its
/// footprint.
#[derive(State)]
pub(crate) struct HashedTable {
    lines: Lines,
    #[state(skip)]
    load_limit: f64,
    /// Pages mapped, by size.
    mapped: [u64; SIZES.len()],
    /// Slots with a tombstone.
    tombstones: u64,
    generation: u64,
    footprint: Footprint,
    counters: HashedTableCounters,
}

impl HashedTable {
    /// An empty table.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if its initial memory cannot be allocated.
    pub(crate) fn new(spec: &HashedSpec, os: &mut TableContext<'_>) -> Result<HashedTable, MapError> {
        let mut footprint = Footprint::default();
        let lines = allocate(spec.initial_bytes, &mut footprint, os)?;
        Ok(HashedTable {
            lines,
            load_limit: spec.load_limit,
            mapped: [0; SIZES.len()],
            tombstones: 0,
            generation: 0,
            footprint,
            counters: HashedTableCounters::default(),
        })
    }

    fn bytes(&self) -> u64 {
        (self.lines.mask + 1) * LINE_BYTES
    }

    fn is_destroyed(&self) -> bool {
        self.footprint.bytes == 0
    }

    /// Changes the number of mapped pages of a size, and with it possibly the registers.
    fn count(&mut self, size: usize, change: impl Fn(u64) -> u64) {
        let before = self.mapped[size];
        self.mapped[size] = change(before);
        self.footprint.entries = self.mapped.iter().sum();
        if (before == 0) != (self.mapped[size] == 0) {
            self.generation += 1;
        }
    }

    // ANCHOR: find
    /// The address of the slot with `tag`.
    fn find(&self, tag: u64, memory: &PhysicalMemory) -> Option<PhysAddr> {
        if self.is_destroyed() {
            return None;
        }
        let mut line = self.lines.home(tag);
        loop {
            match search(&memory.line(line), tag) {
                LineSearch::Found(slot) => return Some(line.offset(slot as u64 * SLOT_BYTES)),
                LineSearch::Ends => return None,
                LineSearch::Continues => line = self.lines.after(line),
            }
        }
    }

    fn find_page(&self, page: Page, memory: &PhysicalMemory) -> Option<PhysAddr> {
        self.find(tag(page.start, page.size), memory)
    }

    /// The page sizes in use.
    fn sizes(&self) -> impl Iterator<Item = PageSize> {
        SIZES.into_iter().zip(self.mapped).filter(|(_, mapped)| *mapped > 0).map(|(size, _)| size)
    }
    // ANCHOR_END: find

    // ANCHOR: resize
    /// Moves every entry into a new table, twice as large unless tombstones filled the old one.
    fn resize(&mut self, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let slots = self.bytes() / SLOT_BYTES;
        let crowded = self.footprint.entries as f64 >= 0.5 * self.load_limit * slots as f64;
        let bytes = if crowded { 2 * self.bytes() } else { self.bytes() };
        // If there is no memory, nothing has changed.
        let new = allocate(bytes, &mut self.footprint, os)?;
        let mut moved = 0;
        for line in 0..=self.lines.mask {
            let words = os.memory.line(self.lines.base.offset(line * LINE_BYTES));
            for slot in words.chunks_exact(2).filter(|slot| slot[0] > REMOVED) {
                insert(new, slot[0], Pte(slot[1]), os.memory);
                moved += 1;
            }
        }
        frames::release(self.lines.base.pfn(), self.bytes() / FRAME_BYTES, &mut self.footprint, os);
        os.ledger.charge(LedgerCause::Table, moved * os.costs.table_entry);
        self.lines = new;
        self.tombstones = 0;
        self.generation += 1;
        self.counters.resizes += 1;
        self.counters.entries_moved += moved;
        Ok(())
    }
    // ANCHOR_END: resize
}

/// Zeroed frames for a table of `bytes`.
fn allocate(bytes: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Result<Lines, MapError> {
    let frame = frames::allocate_bytes(bytes, footprint, os).ok_or(MapError::NoMemory { bytes })?;
    Ok(Lines { base: frame.start(), mask: bytes / LINE_BYTES - 1 })
}

/// Inserts an entry, whose tag is not in the table, into the first free slot of its search. Returns whether
/// that slot had a tombstone.
fn insert(lines: Lines, tag: u64, pte: Pte, memory: &mut PhysicalMemory) -> bool {
    let mut line = lines.home(tag);
    loop {
        let words = memory.line(line);
        if let Some(slot) = words.iter().step_by(2).position(|&there| there <= REMOVED) {
            let at = line.offset(slot as u64 * SLOT_BYTES);
            memory.write(at.offset(8), pte.0);
            memory.write(at, tag);
            return words[2 * slot] == REMOVED;
        }
        line = lines.after(line);
    }
}

impl PageTable for HashedTable {
    // ANCHOR: map
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let Page { start, size } = mapping.page;
        let number = SIZES.iter().position(|known| *known == size).ok_or(MapError::PageSize)?;
        if self.lookup(start, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        let slots = self.bytes() / SLOT_BYTES;
        let occupied = self.footprint.entries + self.tombstones + 1;
        if occupied as f64 > self.load_limit * slots as f64 {
            self.resize(os)?;
        }
        let pte = Pte::leaf(mapping.frame, mapping.flags, size > PageSize::SIZE_4K);
        if insert(self.lines, tag(start, size), pte, os.memory) {
            self.tombstones -= 1;
        }
        self.count(number, |mapped| mapped + 1);
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let number = SIZES.iter().position(|known| *known == page.size)?;
        let at = self.find_page(page, os.memory)?;
        let pte = Pte(os.memory.read(at.offset(8)));
        // Searches for other tags continue past this line only if it was full; then they still must.
        let full = !os.memory.line(at).iter().step_by(2).any(|&there| there == EMPTY);
        os.memory.write(at, if full { REMOVED } else { EMPTY });
        os.memory.write(at.offset(8), 0);
        self.tombstones += u64::from(full);
        self.count(number, |mapped| mapped - 1);
        Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
    }
    // ANCHOR_END: map

    // ANCHOR: rest
    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let Some(at) = self.find_page(page, os.memory).map(|slot| slot.offset(8)) else { return false };
        let pte = Pte(os.memory.read(at));
        os.memory.write(at, Pte::leaf(pte.frame(), flags, pte.large()).0);
        true
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        self.sizes().find_map(|size| {
            let page = Page::containing(va, size);
            let pte = Pte(memory.read(self.find_page(page, memory)?.offset(8)));
            Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
        })
    }

    fn registers(&self) -> Vec<u64> {
        if self.is_destroyed() {
            return Vec::new();
        }
        let bits = self.mapped.iter().enumerate().map(|(size, mapped)| u64::from(*mapped > 0) << size);
        vec![self.lines.base.0, self.lines.mask, bits.sum()]
    }

    fn registers_generation(&self) -> u64 {
        self.generation
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        if !self.is_destroyed() {
            frames::release(self.lines.base.pfn(), self.bytes() / FRAME_BYTES, &mut self.footprint, os);
            self.generation += 1;
        }
    }

    fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        if !self.is_destroyed() {
            memory.prefetch(self.lines.home(tag(va, PageSize::SIZE_4K)));
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }
    // ANCHOR_END: rest
}

/// A frame holds a whole number of lines.
const _: () = assert!(FRAME_BYTES.is_multiple_of(LINE_SLOTS * SLOT_BYTES));
