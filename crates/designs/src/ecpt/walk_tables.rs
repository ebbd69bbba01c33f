//! Cuckoo walk tables: the page sizes in each section of memory, so that walks need not probe all tables.

use super::slot::{Header, Headers};
use super::store::{Context, Contiguous, CuckooTable};
use super::{CWT_SECTION_SHIFTS, EcptSpec, HEADERS};
use ambulator_base::{State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, MapError, TableContext};
use ambulator_structures::elastic::{ElasticSpec, Resizing};

/// The walk table for PMDs: sections of 2 MiB.
pub(crate) const PMD: usize = 0;
/// The walk table for PUDs: sections of 1 GiB.
pub(crate) const PUD: usize = 1;

/// A process's two walk tables. Each is an elastic cuckoo table of contiguous ways.
#[derive(State)]
pub(crate) struct WalkTables {
    /// The walk table for PMDs, and the one for PUDs.
    pub(crate) tables: [CuckooTable<Headers>; 2],
    /// Changes of slots that walkers may have cached.
    changes: u64,
}

/// The key of the slot of `va`'s section, and the section's number in the slot.
#[inline(always)]
pub(crate) fn section_of(table: usize, va: VirtAddr) -> (u64, u64) {
    let section = va.0 >> CWT_SECTION_SHIFTS[table];
    (section / HEADERS, section % HEADERS)
}

impl WalkTables {
    /// Creates both tables with their initial memory.
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    pub(crate) fn new(
        spec: &EcptSpec,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Result<WalkTables, MapError> {
        let elastic = |seed: u64| ElasticSpec {
            ways: spec.cwt_ways as usize,
            initial_slots: u64::from(spec.cwt_entries),
            seed,
            // With two ways insertions fail at a lower occupancy than with three.
            upsize_at: spec.upsize_at.min(0.4),
            downsize_at: spec.downsize_at.min(0.15),
            ..spec.elastic(Resizing::AllWays, seed)
        };
        let mut tables = [0, 1].map(|id| CuckooTable::new(id, &elastic(16 + id as u64), spec.hash));
        let mut backing = Contiguous;
        let mut cx = Context { backing: &mut backing, footprint, os };
        tables[PMD].create(&mut cx)?;
        if let Err(error) = tables[PUD].create(&mut cx) {
            tables[PMD].destroy(&mut cx);
            return Err(error);
        }
        Ok(WalkTables { tables, changes: 0 })
    }

    /// Frees all memory.
    pub(crate) fn destroy(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let mut backing = Contiguous;
        let mut cx = Context { backing: &mut backing, footprint, os };
        self.tables.iter_mut().for_each(|table| table.destroy(&mut cx));
    }

    /// Changes whenever a slot that walkers may have cached changes or moves.
    pub(crate) fn generation(&self) -> u64 {
        self.changes + self.tables.iter().map(|table| table.elastic.generation()).sum::<u64>()
    }

    /// The header of `va`'s section.
    pub(crate) fn get(&self, table: usize, va: VirtAddr, memory: &PhysicalMemory) -> Header {
        let (key, section) = section_of(table, va);
        self.tables[table].get(key, memory).map_or(Header::NONE, |words| Headers::get(&words, section))
    }

    /// Whether `which` holds for the header of any 2 MiB section in the gigabyte of `va`.
    pub(crate) fn any_in_gigabyte(
        &self,
        va: VirtAddr,
        memory: &PhysicalMemory,
        which: impl Fn(Header) -> bool,
    ) -> bool {
        let first = va.0 >> 30 << (30 - CWT_SECTION_SHIFTS[PMD]);
        let keys = first / HEADERS..(first + 512) / HEADERS;
        keys.into_iter()
            .any(|key| self.tables[PMD].get(key, memory).is_some_and(|words| Headers::any(&words, 0, HEADERS, &which)))
    }

    /// Sets the header of `va`'s section. Call [`WalkTables::advance`] next.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if a new slot cannot be inserted; then nothing has changed.
    pub(crate) fn set(
        &mut self,
        table: usize,
        va: VirtAddr,
        header: Header,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Result<(), MapError> {
        let (key, section) = section_of(table, va);
        let mut backing = Contiguous;
        let cuckoo = &mut self.tables[table];
        if let Some((place, at)) = cuckoo.find(key, os.memory) {
            let mut words = os.memory.read_words(at);
            if Headers::get(&words, section) == header {
                return Ok(());
            }
            self.changes += 1;
            Headers::set(&mut words, section, header);
            os.memory.write_words(at, &words);
            if Headers::is_empty(&words) {
                let mut cx = Context { backing: &mut backing, footprint, os };
                cuckoo.remove(place, &mut cx);
            }
            return Ok(());
        }
        if header == Header::NONE {
            return Ok(());
        }
        let mut words = Headers::of_key(key);
        Headers::set(&mut words, section, header);
        let mut cx = Context { backing: &mut backing, footprint, os };
        cuckoo.insert(words, &mut cx)
    }

    /// Advances resizes after a completed change.
    pub(crate) fn advance(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let mut backing = Contiguous;
        let mut cx = Context { backing: &mut backing, footprint, os };
        for table in &mut self.tables {
            table.advance(&mut cx);
            table.forget_placed();
        }
    }

    /// Undoes the latest [`WalkTables::set`] of a header that was `before`, including the slot and the resize
    /// that it may have begun.
    pub(crate) fn restore(
        &mut self,
        table: usize,
        va: VirtAddr,
        before: Header,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) {
        // A header that loses bits needs no memory.
        let _never_fails = self.set(table, va, before, footprint, os);
        let mut backing = Contiguous;
        self.tables[table].cancel_new(&mut Context { backing: &mut backing, footprint, os });
    }
}
