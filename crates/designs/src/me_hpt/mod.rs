//! Memory-efficient hashed page tables (ME-HPT).
//!
//! Source: Stojkovic et al., "Memory-Efficient Hashed Page Tables", HPCA 2023.
//!
//! - Sec. IV-A and V-A, the L2P table and how its subtables steal entries from one another; Sec. IV-B and
//!   V-B, chunk sizes: `l2p.rs` (`L2p`).
//! - Sec. IV-C and IV-D, resizing in place and way by way: [`ambulator_structures::elastic`].
//! - Slots, walk tables and both halves, which it shares with ECPT (Sec. II-B): [`crate::ecpt`].
//! - Sec. V-D, hiding the L2P table's latency: `CuckooWalker::new` in [`crate::ecpt`].
//! - Sec. VIII, other uses: [`ElasticMap`](ambulator_structures::elastic::ElasticMap).
//!
//! The four techniques are `l2p`, `dynamic_chunks`, `in_place` and `per_way` of [`MeHptSpec`]; without them
//! it is ECPT.
//!
//! Choices, in addition to those of [`crate::ecpt`].
//! - While a way changes its chunk size, both its tables are in the L2P table: the new one in any free
//!   entries of the way's row (Fig. 3d to 3e needs a 65th entry in addition to 64). If there are too few, all
//!   slots move at once.
//! - A 2 MiB subtable may steal from the 1 GiB one as a 4 KiB one may; the paper describes only the latter.
//!   The entries that the 1 GiB subtable then needs are in the one that did not steal (Fig. 6c). If that is
//!   full, mapping a 1 GiB page fails.
//! - Without resizing in place (`in_place = false`), the old and the new table must both fit the subtable, as
//!   Sec. VII-D assumes.
//! - "Only one way at a time" (Sec. IV-D): a full way waits until no other way resizes, and takes entries
//!   until then. Of several that have waited, the one with the least number is next. An insertion that finds
//!   no slot does not wait; the paper does not speak of it.
//! - The table of a page size comes with its first page, as in ECPT, where Table III names an initial table
//!   for each size. With a 1 GiB table from the start no subtable could steal (Sec. V-A: only "if no entry in
//!   the 1GB subtable is in use"), and GUPS with its 192 entries would have six more, where Sec. VII-E4's most
//!   are 195.
//! - A way that halves below its only chunk uses the next smaller chunk size, if the subtable has enough
//!   entries.

mod l2p;
#[cfg(test)]
mod tests;

use l2p::L2p;

use crate::ecpt::{CuckooPageTable, CuckooWalker, EcptSpec};
use ambulator_base::{FRAME_BYTES, Invalid};
use ambulator_os::{MapError, TableContext};
use ambulator_sockets::{Claims, Descriptor, Parts, Settings, Socket, TableParts};
use ambulator_structures::elastic::Resizing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of memory-efficient hashed page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeHptSpec {
    /// The settings shared with ECPT.
    pub cuckoo: EcptSpec,
    /// Ways consist of chunks listed in the L2P table; without it each way is one block.
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
    /// Of ways that are resized one by one, the next begins when the last is done; without it each begins
    /// when it is full or empty, also beside others.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ME-HPT Sec. IV-D: \"only one way at a time\""))]
    pub one_way_at_a_time: bool,
    /// Chunk sizes, smallest first.
    #[schemars(inner(range(min = FRAME_BYTES, max = 1 << 30)), extend("x-unit" = "bytes", "x-source" = "ME-HPT Sec. V-B"))]
    pub chunk_bytes: Vec<u64>,
    /// The chunk size of tables whose chunk sizes do not change.
    #[schemars(range(min = FRAME_BYTES, max = 1 << 30), extend("x-unit" = "bytes", "x-source" = "ME-HPT Fig. 15: ME-HPT 1MB"))]
    pub fixed_chunk_bytes: u64,
    /// Entries of the L2P table for each way and page size.
    #[schemars(range(min = 1, max = 1024), extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub l2p_entries: u32,
    /// Cycles of a shift, an access of the L2P table and a mask. A walk pays the part that exceeds the
    /// latency of the walk caches; the kernel pays all of it for each slot that an insertion displaces.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III, Sec. V-D"))]
    pub l2p_latency: u64,
    /// Cycles of a context switch to save or restore one L2P entry in use.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "our choice: a load and a store of a cached word"))]
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
            one_way_at_a_time: true,
            chunk_bytes: vec![8 << 10, 1 << 20, 8 << 20, 64 << 20],
            fixed_chunk_bytes: 1 << 20,
            l2p_entries: 32,
            l2p_latency: 4,
            l2p_entry_switch: 2,
        }
    }
}

impl MeHptSpec {
    fn resizing(&self) -> Resizing {
        match (self.per_way, self.one_way_at_a_time) {
            (false, _) => Resizing::AllWays,
            (true, false) => Resizing::EachWay,
            (true, true) => Resizing::OneWay,
        }
    }
}

impl Settings for MeHptSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = self.cuckoo.validate(&format!("{at}.cuckoo"));
        if self.in_place && !self.l2p {
            wrong.push(
                Invalid::new(
                    format!("{at}.in_place"),
                    format!("needs `{at}.l2p`: a way that is one block cannot grow in place; set both or neither"),
                )
                .and(format!("{at}.l2p")),
            );
        }
        let all = self.chunk_bytes.iter().enumerate().map(|(i, &bytes)| (format!("chunk_bytes[{i}]"), bytes));
        for (key, bytes) in all.chain([("fixed_chunk_bytes".to_owned(), self.fixed_chunk_bytes)]) {
            if !bytes.is_power_of_two() {
                wrong.push(Invalid::new(format!("{at}.{key}"), format!("is {bytes}: it must be a power of two")));
            }
        }
        if self.chunk_bytes.is_empty() || !self.chunk_bytes.is_sorted_by(|a, b| a < b) {
            wrong.push(Invalid::new(
                format!("{at}.chunk_bytes"),
                format!("is {:?}: it must list at least one size, in ascending order", self.chunk_bytes),
            ));
        }
        if !self.l2p_entries.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.l2p_entries"),
                format!("is {}: it must be a power of two, for ways to fill it", self.l2p_entries),
            ));
        }
        wrong
    }
}

/// A table of a validated spec.
///
/// # Errors
/// [`MapError::NoMemory`] if its initial memory cannot be allocated.
fn table(spec: &MeHptSpec, os: &mut TableContext<'_>) -> Result<CuckooPageTable<L2p>, MapError> {
    let l2p_latency = if spec.l2p { spec.l2p_latency } else { 0 };
    CuckooPageTable::new(&spec.cuckoo, spec.resizing(), os.costs.table_entry + l2p_latency, L2p::new(spec), os)
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "me-hpt",
        "ECPT in discontiguous chunks listed in an L2P table, resized in place and way by way",
        "Stojkovic et al., Memory-Efficient Hashed Page Tables, HPCA 2023",
    )
    .fills(Socket::PageTable, "cuckoo tables in chunks, found through the L2P table")
    .claims(Claims { resizes_on_failure: true, ..Claims::default() })
    .formerly("design.page_table.me_hpt.", "me_hpt.")
    .settings::<MeHptSpec>()
    .build(|spec, _| {
        let (os, hardware) = (spec.clone(), spec.cuckoo.clone());
        let l2p_latency = if spec.l2p { spec.l2p_latency } else { 0 };
        let page_table = TableParts::new(
            move |_, _, context| Ok(Box::new(table(&os, context)?)),
            move |_| Box::new(CuckooWalker::new(&hardware, l2p_latency)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
