//! Learned virtual memory (LVM): a learned index as page table.
//!
//! Source: "Learned Virtual Memory", MICRO 2025.
//!
//! - Sec. 4.2.1, 4.5, nodes as 16 bytes in 44.20 fixed point, and entries with tag and size: `node.rs`.
//! - Sec. 4.2.3, 4.3, cost model and training in integers: `train.rs`.
//! - Sec. 4.2.2, gapped page tables and their memory: `store.rs`.
//! - Sec. 4.3.4, 5.2, keys that are not mapped yet: `areas.rs`.
//! - OS half: `LvmTable` in `table.rs`; Sec. 4.3.1 and 4.3.2, building in `build.rs`; Sec. 4.3.4, insertions
//!   of all kinds in `insert.rs`.
//! - Sec. 5.2, the kernel's range, one index for all processes: `kernel_range.rs`.
//! - Hardware half, Sec. 4.6.2: `LvmWalker` in `walker.rs`.
//!
//! Choices.
//! - Segment registers (Sec. 5.2, ASLR) hold the first page and the length of up to 16 parts of the address
//!   space, divided at gaps of more than 64 MiB. Each has a root, and models count pages from its start. Page
//!   sizes share segments and, where the error bound holds, leaves. Where no leaf holds both, and the cost
//!   model prefers it to many children, segments are divided by page size too (`divide_by_page_size`).
//! - A node's children divide its pages as evenly as a slope of 20 fractional bits does. The cost model tries
//!   numbers within two of the spline points, powers of two of pages first, and leaves out those whose
//!   borders divide a page. A node has at least one child for each 2^20 pages, its slope being 2^-20 or more.
//! - A segment grows by the minimum insertion distance while its root is a leaf. The range of an inner node
//!   cannot be extended, so it is built with a quarter of its pages in addition. A table that must move has
//!   room for a quarter more.
//! - A leaf's table has room for the predictions of all pages of the leaf, and for a search around them, so
//!   hardware needs no bounds.
//! - A search reads the predicted line, then the next, the previous, and the one after the next: at most
//!   three more lines.
//! - Tags are 12 bits. A leaf's slope is large enough that no search covers two pages with the same tag
//!   (`least_slope` in `train.rs`).
//! - All look-ups in a large page are rounded down to one position (Sec. 4.4). So leaves of large pages have a whole
//!   number of slots for each place for such a page, in place of 1.3 for each page: one, or with smaller pages
//!   among them a line (tags of 4 KiB pages need six slots in the place of 2 MiB).
//! - A leaf whose table would be more than 16 times as large as its pages need is divided if three levels
//!   permit. So are pages beyond the error bound, down to eight pages per child. The cost is that of the
//!   paper: depth, bytes of the index, collisions.

mod areas;
mod build;
mod insert;
mod kernel_range;
mod node;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod train;
mod walker;

use kernel_range::{KernelIndex, ProcessTable, kernel_base};
use table::LvmTable;
use walker::LvmWalker;

use ambulator_base::FRAME_BYTES;
use ambulator_sockets::{Descriptor, Parts, Settings, Socket, TableParts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Levels of models: the depth limit (Sec. 5.1).
pub(crate) const LEVELS: usize = 3;
/// Segment registers.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// Settings of learned page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LvmSpec {
    /// Weight of the index's depth in the cost model.
    #[schemars(range(max = 10_000), extend("x-unit" = "count", "x-source" = "LVM Sec. 5.1"))]
    pub(crate) x1: u64,
    /// Weight of the index's bytes.
    #[schemars(range(max = 10_000), extend("x-unit" = "count", "x-source" = "LVM Sec. 5.1"))]
    pub(crate) x2: u64,
    /// Weight of collisions times the accesses of each.
    #[schemars(range(max = 10_000), extend("x-unit" = "count", "x-source" = "LVM Sec. 5.1"))]
    pub(crate) x3: u64,
    /// Slots of a gapped table for each thousand pages (`ga_scale`).
    #[schemars(range(min = 1000, max = 1900), extend("x-unit" = "count", "x-source" = "LVM Sec. 5.1: 1.3"))]
    pub(crate) gap_permille: u64,
    /// Lines that a search may read beyond the predicted one (`C_err`).
    #[schemars(range(min = 1, max = 3), extend("x-unit" = "count", "x-source" = "LVM Sec. 4.3.3; 3 is our choice"))]
    pub(crate) max_extra: u32,
    /// Least growth of a segment in 4 KiB pages (the minimum insertion distance).
    #[schemars(range(min = 512, max = 1 << 30), extend("x-unit" = "pages", "x-source" = "LVM Sec. 5.1: 64 MB"))]
    pub(crate) insertion_pages: u64,
    /// Pages of an announced area for which the index makes room ahead of time, for each mapped page of the
    /// area (plus the minimum insertion distance); 0 makes room only for mapped pages.
    #[schemars(range(max = 1 << 30), extend(
        "x-unit" = "pages",
        "x-source" = "LVM Sec. 4.3.4: page tables are built ahead of time; how far is our choice"
    ))]
    pub(crate) plan_ahead: u64,
    /// Unmapped 4 KiB pages that separate two segments.
    #[schemars(range(min = 512, max = 1 << 30), extend("x-unit" = "pages", "x-source" = "our choice: 64 MiB, beyond which an insertion is not near the edge"))]
    pub(crate) segment_gap_pages: u64,
    /// Whether segments are also divided where the page size changes, if the cost model prefers that. Without
    /// it, segments are for address-space randomisation alone, and an even division separates the sizes.
    #[schemars(extend(
        "x-unit" = "choice",
        "x-source" = "LVM Sec. 5.2 has segments for ASLR alone; true is our choice, nearer to Table 2's index sizes"
    ))]
    pub(crate) divide_by_page_size: bool,
    /// The most contiguous bytes of a gapped table.
    #[schemars(range(min = FRAME_BYTES, max = 1_u64 << 40), extend(
        "x-unit" = "bytes",
        "x-source" = "our choice: as the allocator permits; LVM Sec. 7.3 limits it to 256 KiB"
    ))]
    pub(crate) max_table_bytes: u64,
    /// The most bytes of a node's children.
    #[schemars(range(min = 1 << 20, max = 1 << 30), extend("x-unit" = "bytes", "x-source" = "our choice: bounds the index of any address space"))]
    pub(crate) max_level_bytes: u64,
    /// Entries of the LVM walk cache, fully associative; 0 for no such cache.
    #[schemars(range(max = ambulator_hardware::MAX_WAYS), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub(crate) lwc_entries: u32,
    /// Cycles of a look-up in it.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend(
        "x-unit" = "cycles",
        "x-source" = "LVM Sec. 7.4: 2 cycles for look-up and calculation together; one for each is our choice"
    ))]
    pub(crate) lwc_latency: u64,
    /// Cycles of a model's calculation: a multiplication and an addition.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend(
        "x-unit" = "cycles",
        "x-source" = "LVM Sec. 7.4: 2 cycles for look-up and calculation together; one for each is our choice"
    ))]
    pub(crate) evaluation_latency: u64,
}

impl Default for LvmSpec {
    fn default() -> Self {
        LvmSpec {
            x1: 10,
            x2: 5,
            x3: 200,
            gap_permille: 1300,
            max_extra: 3,
            insertion_pages: 16384,
            plan_ahead: 64,
            segment_gap_pages: 1 << 14,
            divide_by_page_size: true,
            max_table_bytes: 1 << 40,
            max_level_bytes: 1 << 22,
            lwc_entries: 16,
            lwc_latency: 1,
            evaluation_latency: 1,
        }
    }
}

impl Settings for LvmSpec {}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "lvm",
        "a learned index of linear models that predicts where each entry is",
        "Learned Virtual Memory, MICRO 2025",
    )
    .fills(Socket::PageTable, "models that predict the address of an entry, and gapped tables that hold it")
    .formerly("design.page_table.lvm.", "lvm.")
    .settings::<LvmSpec>()
    .build(|spec, site| {
        let (os, hardware, va_bits) = (spec.clone(), spec.clone(), site.va_bits);
        let kernel = KernelIndex::new(LvmTable::new(spec, va_bits).into());
        let page_table = TableParts::new(
            move |_, _, _| Ok(Box::new(ProcessTable::new(&os, va_bits, KernelIndex::clone(&kernel)))),
            move |_| Box::new(LvmWalker::new(&hardware, va_bits)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
