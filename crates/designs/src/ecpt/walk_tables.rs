//! Cuckoo walk tables: what pages each section of memory has, so that walks need not look everywhere.

use super::slot::{Header, Headers};
use super::store::{Context, Contiguous, CuckooTable};
use super::{CWT_SECTION_SHIFTS, EcptSpec, HEADERS};
use ambulator_base::VirtAddr;
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, MapError, TableContext};
use ambulator_structures::elastic::ElasticSpec;

/// The walk table for PMDs: sections of 2 MiB.
pub const PMD: usize = 0;
/// The walk table for PUDs: sections of 1 GiB.
pub const PUD: usize = 1;

/// A process's two walk tables. Each is an elastic cuckoo table of contiguous ways.
pub struct WalkTables {
    /// That of PMDs, and that of PUDs.
    pub tables: [CuckooTable<Headers>; 2],
    /// Times that a slot changed that walkers may have cached.
    changes: u64,
}

/// The key of the slot that holds the section of `va`, and the section's number in it.
#[inline(always)]
pub fn section_of(table: usize, va: VirtAddr) -> (u64, u64) {
    let section = va.0 >> CWT_SECTION_SHIFTS[table];
    (section / HEADERS, section % HEADERS)
}

impl WalkTables {
    /// Tables with their first memory.
    ///
    /// # Errors
    /// [`MapError::NoMemory`]; then nothing has changed.
    pub fn new(spec: &EcptSpec, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Result<WalkTables, MapError> {
        let elastic = |seed: u64| ElasticSpec {
            ways: spec.cwt_ways as usize,
            initial_slots: u64::from(spec.cwt_entries),
            per_way: false,
            seed,
            // Two ways hold less than three before insertions find no place.
            upsize_at: spec.upsize_at.min(0.4),
            downsize_at: spec.downsize_at.min(0.15),
            ..spec.elastic(false, seed)
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

    /// Gives all memory back.
    pub fn destroy(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let mut backing = Contiguous;
        let mut cx = Context { backing: &mut backing, footprint, os };
        self.tables.iter_mut().for_each(|table| table.destroy(&mut cx));
    }

    /// Changes whenever a slot does that walkers may have cached, or where slots are.
    pub fn generation(&self) -> u64 {
        self.changes + self.tables.iter().map(|table| table.elastic.generation()).sum::<u64>()
    }

    /// What the table says of the section of `va`.
    pub fn get(&self, table: usize, va: VirtAddr, memory: &PhysicalMemory) -> Header {
        let (key, section) = section_of(table, va);
        self.tables[table].get(key, memory).map_or(Header::NONE, |words| Headers::get(&words, section))
    }

    /// Whether any section of 2 MiB in the gigabyte of `va` has a header of which `which` is true.
    pub fn any_in_gigabyte(&self, va: VirtAddr, memory: &PhysicalMemory, which: impl Fn(Header) -> bool) -> bool {
        let first = va.0 >> 30 << (30 - CWT_SECTION_SHIFTS[PMD]);
        let keys = first / HEADERS..(first + 512) / HEADERS;
        keys.into_iter()
            .any(|key| self.tables[PMD].get(key, memory).is_some_and(|words| Headers::any(&words, 0, HEADERS, &which)))
    }

    /// Sets what the table says of the section of `va`. [`WalkTables::advance`] should follow.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when a new slot has no place; then nothing has changed.
    pub fn set(
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
            if Headers::says_nothing(&words) {
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

    /// After a change that has been carried through: resizes go on.
    pub fn advance(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let mut backing = Contiguous;
        let mut cx = Context { backing: &mut backing, footprint, os };
        for table in &mut self.tables {
            table.advance(&mut cx);
            table.forget_placed();
        }
    }

    /// Takes back what [`WalkTables::set`] has just set where it was `before`, with the slot and the resize that it may have begun.
    pub fn take_back(
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
