//! Elastic cuckoo page tables (ECPT), the hashed baseline of ME-HPT, LVM and Utopia.
//!
//! Sources: Skarlatos et al., "Elastic Cuckoo Page Tables", ASPLOS 2020, as ME-HPT (HPCA 2023) describes it in Sec. II-B and
//! configures it in Table III.
//!
//! - The algorithm, resizing included: [`crate::elastic`].
//! - What a slot holds: `slot.rs` ([`Cluster`], eight page-table entries with their tag; [`Headers`], 64 section headers).
//! - The table as bytes in memory, and who gives it memory: `store.rs` ([`CuckooTable`], [`Backing`], [`Contiguous`]).
//! - OS half: [`CuckooPageTable`] in `table.rs`, [`WalkTables`] in `walk_tables.rs`.
//! - Hardware half: [`CuckooWalker`] in `walker.rs`.
//!
//! Choices, beside those of [`crate::elastic`].
//! - The table of a page size is made with the first page of that size, so that a process without huge pages pays for none.
//! - A section header has three bits: a section that is one page has no smaller ones. So a walk table's slot is 32 bytes for 64
//!   sections: 128 MiB for PMDs, 64 GiB for PUDs.
//! - The walk tables have two ways and double at 0.4: with two ways insertions find no place much above that.
//! - Walk caches hold slots of the process that runs, and are emptied when the kernel changes a slot that a walk may have cached
//!   (the walk tables' generation is among the registers). So a walk that they guide never misses a page that there is.
//! - A miss of a walk cache refills it behind the walk's own probes. The PMD cache is not refilled where the PUD header says that there
//!   are only 4 KiB pages: it could say no more.

mod slot;
mod store;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod walk_tables;
mod walker;

pub use slot::{Cluster, Header, Headers, Slot};
pub use store::{Backing, Contiguous, CuckooTable, Parts, Space, Spaces, View};
pub use table::{CuckooPageTable, CuckooTableCounters, CuckooTableState};
pub use walk_tables::WalkTables;
pub use walker::{CuckooWalker, CuckooWalkerCounters};

use crate::elastic::{ElasticSpec, HashKind, MAX_WAYS};
use ambulator_base::{Asid, FRAME_BYTES, Invalid, PageSize, ProcessId, VirtAddr};
use ambulator_mmu::Walker;
use ambulator_os::{MapError, PageTable, TableContext, TableFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The page sizes, in the order of their tables: PTE, PMD, PUD.
pub const SIZES: [PageSize; 3] = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];
/// Sections of a walk table's slot.
pub const HEADERS: u64 = 64;
/// log2 of the bytes of a section, by walk table: that for PMDs, that for PUDs.
pub const CWT_SECTION_SHIFTS: [u32; 2] = [21, 30];

/// The key of the slot that has the page of `size` around `va`.
#[inline(always)]
pub fn key_of(va: VirtAddr, size: PageSize) -> u64 {
    (va.0 >> size.shift()) / Cluster::PAGES
}

/// Settings of elastic cuckoo page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EcptSpec {
    /// Bits of a virtual address: 48 or 57. The tables themselves have no levels, and do not care.
    #[schemars(extend("x-unit" = "count", "x-source" = "x86-64"))]
    pub va_bits: u32,
    /// Ways of each page size's table.
    #[schemars(extend("x-unit" = "ways", "x-source" = "ME-HPT Sec. VI"))]
    pub ways: u32,
    /// Bytes of each way at the start, and the fewest that it ever has.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "ME-HPT Table III: 128 entries of 64 bytes"))]
    pub initial_bytes: u64,
    /// Share of slots taken above which the table doubles.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "ME-HPT Table III"))]
    pub upsize_at: f64,
    /// Share of slots taken below which the table halves.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "ME-HPT Table III"))]
    pub downsize_at: f64,
    /// Slots over which rehash pointers advance with each slot inserted or removed.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice: the least that is done before the next upsize is due"))]
    pub rehash_slots: u32,
    /// Slots that one insertion may push on before the table grows instead.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice: the paper names no bound"))]
    pub max_reinsertions: u32,
    /// Hash functions of the ways.
    #[schemars(extend("x-unit" = "choice", "x-source" = "ME-HPT Table III: CRC; the mixer is our choice"))]
    pub hash: HashKind,
    /// Cycles of hashing at the start of a walk.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub hash_latency: u64,
    /// Ways of the cuckoo walk tables.
    #[schemars(extend("x-unit" = "ways", "x-source" = "ME-HPT Table III"))]
    pub cwt_ways: u32,
    /// Slots of each way of the cuckoo walk tables at the start: a power of two.
    #[schemars(extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub cwt_entries: u32,
    /// Entries of the PMD's cuckoo walk cache, fully associative; 0 leaves it out.
    #[schemars(extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub pmd_cwc_entries: u32,
    /// Entries of the PUD's cuckoo walk cache, fully associative; 0 leaves it out.
    #[schemars(extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub pud_cwc_entries: u32,
    /// Cycles of a look-up in the cuckoo walk caches.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub cwc_latency: u64,
}

impl Default for EcptSpec {
    fn default() -> Self {
        EcptSpec {
            va_bits: 48,
            ways: 3,
            initial_bytes: 8192,
            upsize_at: 0.6,
            downsize_at: 0.2,
            rehash_slots: 2,
            max_reinsertions: 128,
            hash: HashKind::default(),
            hash_latency: 2,
            cwt_ways: 2,
            cwt_entries: 128,
            pmd_cwc_entries: 16,
            pud_cwc_entries: 2,
            cwc_latency: 4,
        }
    }
}

impl EcptSpec {
    /// How the cuckoo table of a page size behaves.
    pub fn elastic(&self, per_way: bool, seed: u64) -> ElasticSpec {
        ElasticSpec {
            ways: self.ways as usize,
            initial_slots: self.initial_bytes / Cluster::BYTES,
            upsize_at: self.upsize_at,
            downsize_at: self.downsize_at,
            rehash_slots: u64::from(self.rehash_slots),
            max_reinsertions: self.max_reinsertions,
            per_way,
            look_first: false,
            seed,
        }
    }

    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if ![48, 57].contains(&self.va_bits) {
            wrong.push(Invalid::new(format!("{at}.va_bits"), format!("is {}: x86-64 has 48 or 57", self.va_bits)));
        }
        if !(FRAME_BYTES..=1 << 30).contains(&self.initial_bytes) || !self.initial_bytes.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.initial_bytes"),
                format!("is {}: it must be a power of two, {FRAME_BYTES} to {} bytes", self.initial_bytes, 1 << 30),
            ));
        } else {
            wrong.extend(self.elastic(false, 0).validate(at));
        }
        if !(2..=MAX_WAYS as u32).contains(&self.cwt_ways) {
            wrong.push(Invalid::new(
                format!("{at}.cwt_ways"),
                format!("is {}: cuckoo hashing here has 2 to {MAX_WAYS} ways", self.cwt_ways),
            ));
        }
        if !self.cwt_entries.is_power_of_two() || !(128..=1 << 20).contains(&self.cwt_entries) {
            wrong.push(Invalid::new(
                format!("{at}.cwt_entries"),
                format!("is {}: it must be a power of two, 128 (a frame) to {}", self.cwt_entries, 1 << 20),
            ));
        }
        for (key, entries) in [("pmd_cwc_entries", self.pmd_cwc_entries), ("pud_cwc_entries", self.pud_cwc_entries)] {
            if entries as usize > ambulator_hardware::MAX_WAYS {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is {entries}: at most {} entries are compared at once", ambulator_hardware::MAX_WAYS),
                ));
            }
        }
        wrong
    }
}

/// Makes elastic cuckoo page tables.
pub struct EcptFactory {
    spec: EcptSpec,
}

impl EcptFactory {
    /// A factory of tables of a validated spec.
    pub fn new(spec: &EcptSpec) -> EcptFactory {
        EcptFactory { spec: spec.clone() }
    }
}

impl TableFactory for EcptFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        Ok(Box::new(CuckooPageTable::new(&self.spec, false, os.costs.table_entry, Contiguous, os)?))
    }
}

/// A core's walker.
pub fn walker(spec: &EcptSpec) -> Box<dyn Walker> {
    Box::new(CuckooWalker::new(spec, 0))
}
