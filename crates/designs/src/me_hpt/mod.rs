//! Memory-efficient hashed page tables (ME-HPT).
//!
//! Source: Stojkovic et al., "Memory-Efficient Hashed Page Tables", HPCA 2023.
//!
//! - Sec. IV-A and V-A, the L2P table and how its subtables steal from one another; Sec. IV-B and V-B, chunk sizes: `l2p.rs` ([`L2p`]).
//! - Sec. IV-C and IV-D, resizing in place and way by way: [`crate::elastic`].
//! - What it has in common with ECPT (Sec. II-B): [`crate::ecpt`]: slots, walk tables, both halves.
//! - Sec. V-D, hiding the L2P table's latency: [`CuckooWalker::new`](crate::ecpt::CuckooWalker::new).
//! - Sec. VIII, other uses: [`ElasticMap`](crate::elastic::ElasticMap).
//!
//! The four techniques are `l2p`, `dynamic_chunks`, `in_place` and `per_way` of [`MeHptSpec`]; with none of them it is ECPT.
//!
//! Choices, beside those of [`crate::ecpt`].
//! - While a way changes its chunk size both its tables are in the L2P table: those of the new one in whatever entries of the way's row are
//!   free (Fig. 3d to 3e needs a 65th beside 64). If there are too few, all is moved at once.
//! - A 2 MiB subtable may steal from the 1 GiB one as a 4 KiB one may; the paper tells only of the latter. What the 1 GiB subtable then
//!   needs lies in the one that did not steal (Fig. 6c). If that is full, no page of 1 GiB can be mapped: the map fails.
//! - Without resizing in place (`in_place = false`), old and new table must both fit the subtable, as Sec. VII-D reckons.
//! - A way that halves below its one chunk goes to the next smaller chunk size, if the subtable has entries for that many.

mod l2p;
#[cfg(test)]
mod tests;

pub use l2p::{L2p, L2pCounters, Row};

use crate::ecpt::{CuckooPageTable, CuckooWalker, EcptSpec};
use ambulator_base::{Asid, FRAME_BYTES, Invalid, ProcessId};
use ambulator_mmu::Walker;
use ambulator_os::{MapError, PageTable, TableContext, TableFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of memory-efficient hashed page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeHptSpec {
    /// What it has in common with ECPT.
    pub cuckoo: EcptSpec,
    /// Ways are made of chunks behind the L2P table; without it each is one block.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ME-HPT Sec. IV-A"))]
    pub l2p: bool,
    /// Chunk sizes change as a way grows; without it all are of `fixed_chunk_bytes`.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ME-HPT Sec. IV-B"))]
    pub dynamic_chunks: bool,
    /// Ways are resized in place, unless their chunk size changes.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ME-HPT Sec. IV-C"))]
    pub in_place: bool,
    /// Ways are resized one by one.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ME-HPT Sec. IV-D"))]
    pub per_way: bool,
    /// Chunk sizes, smallest first.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "ME-HPT Sec. V-B"))]
    pub chunk_bytes: Vec<u64>,
    /// The chunk size of tables whose chunk sizes do not change.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "ME-HPT Fig. 15: ME-HPT 1MB"))]
    pub fixed_chunk_bytes: u64,
    /// Entries of the L2P table for each way and page size.
    #[schemars(extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub l2p_entries: u32,
    /// Cycles of a shift, an access of the L2P table and a mask. A walk sees what of it exceeds the walk caches' latency; a slot that an
    /// insertion pushes on costs the kernel all of it.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III, Sec. V-D"))]
    pub l2p_latency: u64,
    /// Cycles that a context switch takes to save or restore one L2P entry in use.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "our choice: a load and a store of a cached word"))]
    pub l2p_entry_switch: u64,
}

impl Default for MeHptSpec {
    fn default() -> Self {
        MeHptSpec {
            cuckoo: EcptSpec::default(),
            l2p: true,
            dynamic_chunks: true,
            in_place: true,
            per_way: true,
            chunk_bytes: vec![8 << 10, 1 << 20, 8 << 20, 64 << 20],
            fixed_chunk_bytes: 1 << 20,
            l2p_entries: 32,
            l2p_latency: 4,
            l2p_entry_switch: 2,
        }
    }
}

impl MeHptSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = self.cuckoo.validate(&format!("{at}.cuckoo"));
        if self.in_place && !self.l2p {
            wrong.push(
                Invalid::new(
                    format!("{at}.in_place"),
                    format!("needs `{at}.l2p`: a way that is one block cannot grow where it is; set both or neither"),
                )
                .and(format!("{at}.l2p")),
            );
        }
        let bad = |bytes: u64| !bytes.is_power_of_two() || !(FRAME_BYTES..=1 << 30).contains(&bytes);
        let all = self.chunk_bytes.iter().enumerate().map(|(i, &bytes)| (format!("chunk_bytes[{i}]"), bytes));
        for (key, bytes) in all.chain([("fixed_chunk_bytes".to_owned(), self.fixed_chunk_bytes)]) {
            if bad(bytes) {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is {bytes}: it must be a power of two, {FRAME_BYTES} to {} bytes", 1 << 30),
                ));
            }
        }
        if self.chunk_bytes.is_empty() || !self.chunk_bytes.is_sorted_by(|a, b| a < b) {
            wrong.push(Invalid::new(
                format!("{at}.chunk_bytes"),
                format!("is {:?}: it must name at least one size, each larger than the one before", self.chunk_bytes),
            ));
        }
        if !self.l2p_entries.is_power_of_two() || self.l2p_entries > 1024 {
            wrong.push(Invalid::new(
                format!("{at}.l2p_entries"),
                format!("is {}: it must be a power of two of at most 1024, for ways to fill it", self.l2p_entries),
            ));
        }
        wrong
    }
}

/// Makes memory-efficient hashed page tables.
pub struct MeHptFactory {
    spec: MeHptSpec,
}

impl MeHptFactory {
    /// A factory of tables of a validated spec.
    pub fn new(spec: &MeHptSpec) -> MeHptFactory {
        MeHptFactory { spec: spec.clone() }
    }
}

/// A table of a validated spec.
///
/// # Errors
/// [`MapError::NoMemory`] when its first bytes cannot be had.
pub fn table(spec: &MeHptSpec, os: &mut TableContext<'_>) -> Result<CuckooPageTable<L2p>, MapError> {
    let l2p_latency = if spec.l2p { spec.l2p_latency } else { 0 };
    CuckooPageTable::new(&spec.cuckoo, spec.per_way, os.costs.table_entry + l2p_latency, L2p::new(spec), os)
}

impl TableFactory for MeHptFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        Ok(Box::new(table(&self.spec, os)?))
    }
}

/// A core's walker.
pub fn walker(spec: &MeHptSpec) -> Box<dyn Walker> {
    Box::new(CuckooWalker::new(&spec.cuckoo, if spec.l2p { spec.l2p_latency } else { 0 }))
}
