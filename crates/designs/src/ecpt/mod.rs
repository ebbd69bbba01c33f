//! Elastic cuckoo page tables (ECPT), the hashed baseline of ME-HPT, LVM and Utopia.
//!
//! Sources: Skarlatos et al., "Elastic Cuckoo Page Tables", ASPLOS 2020, as ME-HPT (HPCA 2023) describes it
//! in Sec. II-B and configures it in Table III.
//!
//! - The algorithm, including resizes: [`ambulator_structures::elastic`].
//! - The contents of a slot: `slot.rs` (`Cluster`, eight page-table entries with their tag; `Headers`, 64
//!   section headers).
//! - The table as bytes in memory, and how its memory is allocated: `store.rs` (`CuckooTable`, `Backing`,
//!   `Contiguous`).
//! - OS half: `CuckooPageTable` in `table.rs`, `WalkTables` in `walk_tables.rs`.
//! - Hardware half: `CuckooWalker` in `walker.rs`.
//!
//! Choices, in addition to those of [`ambulator_structures::elastic`].
//! - The table of a page size is created with the first page of that size, so a process without huge pages
//!   does not pay for them.
//! - A section header has three bits, because a section that is one page has no smaller pages. So a slot of a
//!   walk table has 32 bytes for 64 sections: 128 MiB for PMDs, 64 GiB for PUDs.
//! - The walk tables have two ways and double at 0.4: with two ways insertions fail much above that.
//! - Walk caches hold slots of the running process. They are flushed when the kernel changes a slot that they
//!   may hold (the registers include the generation of the walk tables). So a walk that they guide never
//!   misses a mapped page.
//! - A miss of a walk cache refills it after the walk's own probes. The PMD cache is not refilled if the PUD
//!   header indicates that there are only 4 KiB pages: it could not add anything.

mod slot;
mod store;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod walk_tables;
mod walker;

pub(crate) use slot::{Cluster, Slot};
pub(crate) use store::{Backing, Contiguous, Space, StoreParts};
pub(crate) use table::CuckooPageTable;
pub(crate) use walker::CuckooWalker;

use ambulator_base::{FRAME_BYTES, Invalid, PageSize, VirtAddr};
use ambulator_sockets::{Claims, Descriptor, Parts, Settings, Socket, TableParts};
use ambulator_structures::elastic::{ElasticSpec, HashKind, MAX_WAYS, Resizing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The page sizes, in the order of their tables: PTE, PMD, PUD.
pub(crate) const SIZES: [PageSize; 3] = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];
/// Sections of a walk table's slot.
pub(crate) const HEADERS: u64 = 64;
/// log2 of the bytes of a section: in the walk table for PMDs, in the one for PUDs.
pub(crate) const CWT_SECTION_SHIFTS: [u32; 2] = [21, 30];

/// The key of the slot of the page of `size` that contains `va`.
#[inline(always)]
pub(crate) fn key_of(va: VirtAddr, size: PageSize) -> u64 {
    (va.0 >> size.shift()) / Cluster::PAGES
}

/// Settings of elastic cuckoo page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EcptSpec {
    /// Ways of each page size's table.
    #[schemars(range(min = 2, max = MAX_WAYS), extend("x-unit" = "ways", "x-source" = "ME-HPT Sec. VI"))]
    pub ways: u32,
    /// Initial bytes of each way, and its minimum.
    #[schemars(range(min = FRAME_BYTES, max = 1 << 30), extend("x-unit" = "bytes", "x-source" = "ME-HPT Table III: 128 entries of 64 bytes"))]
    pub initial_bytes: u64,
    /// Occupancy above which the table doubles.
    #[schemars(range(min = 0.0, max = 0.9), extend("x-unit" = "ratio", "x-source" = "ME-HPT Table III"))]
    pub upsize_at: f64,
    /// Occupancy below which the table halves.
    #[schemars(range(min = 0.0, max = 0.45), extend("x-unit" = "ratio", "x-source" = "ME-HPT Table III"))]
    pub downsize_at: f64,
    /// Slots by which rehash pointers advance with each slot inserted or removed.
    #[schemars(range(min = 1, max = 1 << 20), extend(
        "x-unit" = "count",
        "x-source" = "our choice: the least that is done before the next upsize is due"
    ))]
    pub rehash_slots: u32,
    /// Slots that one insertion may displace before the table grows instead.
    #[schemars(range(min = 1, max = 1 << 20), extend("x-unit" = "count", "x-source" = "our choice: the paper names no bound"))]
    pub max_reinsertions: u32,
    /// Hash functions of the ways.
    #[schemars(extend("x-unit" = "choice", "x-source" = "ME-HPT Table III: CRC; the mixer is our choice"))]
    pub hash: HashKind,
    /// Cycles of hashing at the start of a walk.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub hash_latency: u64,
    /// Ways of the cuckoo walk tables.
    #[schemars(range(min = 2, max = MAX_WAYS), extend("x-unit" = "ways", "x-source" = "ME-HPT Table III"))]
    pub cwt_ways: u32,
    /// Initial slots of each way of the cuckoo walk tables: a power of two.
    #[schemars(range(min = 128, max = 1 << 20), extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub cwt_entries: u32,
    /// Entries of the PMD's cuckoo walk cache, fully associative; 0 for no such cache.
    #[schemars(range(max = ambulator_hardware::MAX_WAYS), extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub pmd_cwc_entries: u32,
    /// Entries of the PUD's cuckoo walk cache, fully associative; 0 for no such cache.
    #[schemars(range(max = ambulator_hardware::MAX_WAYS), extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub pud_cwc_entries: u32,
    /// Cycles of a look-up in the cuckoo walk caches.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub cwc_latency: u64,
}

impl Default for EcptSpec {
    fn default() -> Self {
        EcptSpec {
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
    /// The parameters of the cuckoo table of a page size.
    fn elastic(&self, resizing: Resizing, seed: u64) -> ElasticSpec {
        ElasticSpec {
            ways: self.ways as usize,
            initial_slots: self.initial_bytes / Cluster::BYTES,
            upsize_at: self.upsize_at,
            downsize_at: self.downsize_at,
            rehash_slots: u64::from(self.rehash_slots),
            max_reinsertions: self.max_reinsertions,
            resizing,
            look_first: false,
            seed,
        }
    }
}

impl Settings for EcptSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !self.initial_bytes.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.initial_bytes"),
                format!("is {}: it must be a power of two", self.initial_bytes),
            ));
        } else {
            wrong.extend(self.elastic(Resizing::AllWays, 0).validate(at));
        }
        if !self.cwt_entries.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.cwt_entries"),
                format!("is {}: it must be a power of two", self.cwt_entries),
            ));
        }
        wrong
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "ecpt",
        "cuckoo hash tables for each page size that resize incrementally, guided by cuckoo walk caches",
        "Skarlatos et al., Elastic Cuckoo Page Tables, ASPLOS 2020",
    )
    .fills(Socket::PageTable, "a cuckoo table for each page size, all ways probed at once")
    .claims(Claims { resizes_on_failure: true, ..Claims::default() })
    .formerly("design.page_table.ecpt.", "ecpt.")
    .settings::<EcptSpec>()
    .build(|spec, _| {
        let (os, hardware) = (spec.clone(), spec.clone());
        let page_table = TableParts::new(
            move |_, _, context| {
                let cost = context.costs.table_entry;
                Ok(Box::new(CuckooPageTable::new(&os, Resizing::AllWays, cost, Contiguous, context)?))
            },
            move |_| Box::new(CuckooWalker::new(&hardware, 0)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
