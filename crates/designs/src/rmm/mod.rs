//! RMM: redundant memory mappings. Ranges of pages that are contiguous in both address spaces have a single
//! range translation, in addition to a page table that maps every page.
//!
//! Source: Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015.
//!
//! - OS half: [`ambulator_structures::ranges`] maintains ranges alongside any page table (Sec. 5.1), in the
//!   range table, a B-tree (Sec. 4.2, Fig. 4).
//! - OS half: `EagerPlacement` in `eager.rs` (Sec. 5.2, Fig. 5).
//! - The sensitivity to the number of entries, in one pass: `curve.rs` (Fig. 7).
//! - Hardware half: `RangeTlb` in `range_tlb.rs`, with the walker of the range table (Sec. 4.1, 4.3).
//!
//! Choices.
//! - The page walk always comes first. The range table is walked in the background if the page-table entry
//!   has its range bit set (Sec. 4.3). There is one such walker; while it is busy, further misses do not
//!   refill the range TLB.
//! - A hit fills a 4 KiB entry into the L1 TLB (Sec. 4.1), even if the page table has a larger page.
//! - "Memory fragmentation" in Fig. 5 is the unusable free space index at `fragmentation_order`.
//! - With `eager_bits`, a page that the kernel marks clean leaves its range, since hardware would not set its
//!   dirty bit again.
//! - Under nested paging ranges are maintained but not used: they would yield guest-physical addresses.

mod curve;
mod eager;
mod range_tlb;
#[cfg(test)]
mod tests;

use eager::{EagerPlacement, Reserve};
use range_tlb::RangeTlb;

use ambulator_base::{FRAME_BYTES, lock};
use ambulator_memory::BuddyAllocator;
use ambulator_os::CompanionFactory;
use ambulator_sockets::{Boot, Descriptor, Parts, Settings, Socket, Stage};
use ambulator_structures::ranges::{RangeCompanionFactory, RangeRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Settings of redundant memory mappings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RmmSpec {
    /// Entries of the range TLB.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "entries", "x-source" = "RMM Sec. 4.1 and 8.1 (32)"))]
    pub(crate) entries: u32,
    /// Cycles of a look-up, in parallel with the L2 TLB.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "RMM Sec. 4.1 (about 7, as the L2 TLB)"))]
    pub(crate) latency: u64,
    /// Whether a pointer to the most recently used range is tried before all ranges are searched. It saves
    /// energy, not time.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 4.1, Optimization"))]
    pub(crate) mru_pointer: bool,
    /// Whether the range TLB also counts the hits that tables of 1 to 128 entries would have had
    /// (`lookaside.curve`).
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Fig. 7"))]
    pub(crate) curve: bool,
    /// The fewest pages of a range, and of a request placed eagerly.
    #[schemars(range(min = 2, max = 1 << 20), extend("x-unit" = "count", "x-source" = "RMM Sec. 5.1 (8)"))]
    pub(crate) threshold: u64,
    /// Whether pages of ranges are accessed and dirty from the start.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 6, Accessed & Dirty bits"))]
    pub(crate) eager_bits: bool,
    /// The hardware uses ranges once this much memory is mapped; 0 for always.
    #[schemars(range(max = 1_u64 << 57), extend("x-unit" = "bytes", "x-source" = "RMM Sec. 6, TLB friendly workloads"))]
    pub(crate) enable_above_bytes: u64,
    /// Highest unusable free space index at which requests are placed eagerly.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "RMM Fig. 5 names a threshold and no value: our choice"))]
    pub(crate) fragmentation_limit: f64,
    /// Order of the blocks for that index; at most the order of the largest block.
    #[schemars(range(max = 29), extend("x-unit" = "count", "x-source" = "our choice: 2 MiB"))]
    pub(crate) fragmentation_order: u32,
    /// Contiguous memory that is set aside at boot, before memory is fragmented, and given to eager requests in
    /// order until it is used up. Rounded down to pages of 2 MiB; 0 for none.
    #[schemars(range(max = 1u64 << 40), extend("x-unit" = "bytes", "x-source" = "Utopia Sec. 7 gives RMM 1 GiB from the get-go; RMM has none"))]
    pub(crate) reserved_bytes: u64,
    /// Whether to prefer a block contiguous with the previous one.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 5.2, the first optimization, not in its prototype"))]
    pub(crate) join_blocks: bool,
    /// Whether a request that is not a power of two is cut from a larger block, whose rest is freed.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 5.2, the second optimization, not in its prototype"))]
    pub(crate) cut_blocks: bool,
}

impl Default for RmmSpec {
    fn default() -> Self {
        RmmSpec {
            entries: 32,
            latency: 7,
            mru_pointer: true,
            curve: false,
            threshold: 8,
            eager_bits: true,
            enable_above_bytes: 0,
            fragmentation_limit: 0.5,
            fragmentation_order: 9,
            reserved_bytes: 0,
            join_blocks: false,
            cut_blocks: false,
        }
    }
}

impl Settings for RmmSpec {}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "rmm",
        "ranges of any length with pages: a range TLB, a B-tree that the operating system keeps, and eager paging",
        "Karakostas et al., Redundant Memory Mappings, ISCA 2015",
    )
    .fills(Socket::Lookaside, "a range TLB, refilled in the background from the range table")
    .formerly_called("range-tlb")
    .fills(Socket::Placement, "all pages of a request at once, in blocks as large as available")
    .formerly_called("eager")
    .formerly("design.lookaside.rmm.va_bits", "mmu.va_bits")
    .formerly("design.lookaside.rmm.", "rmm.")
    .settings::<RmmSpec>()
    .build(|spec, site| {
        let rules = RangeRules {
            threshold: spec.threshold,
            eager_bits: spec.eager_bits,
            enable_above_bytes: spec.enable_above_bytes,
            va_bits: site.va_bits,
        };
        let (hardware, key_bits, nested) = (spec.clone(), site.va_bits - 12, site.stage != Stage::Native);
        // Eager paging alone needs no ranges.
        let is_probed = site.design.holds(Socket::Lookaside, "rmm");
        let is_placed = site.design.holds(Socket::Placement, "rmm");
        let reserve = Arc::new(Mutex::new(Reserve::default()));
        let (at_boot, frames_at_boot) = (Arc::clone(&reserve), spec.reserved_bytes / FRAME_BYTES / 512 * 512);
        let ranges = is_probed.then(|| Box::new(RangeCompanionFactory::new(&rules)) as Box<dyn CompanionFactory>);
        Parts {
            boot: (is_placed && frames_at_boot > 0).then(|| {
                Box::new(move |frames: &mut BuddyAllocator| lock(&at_boot).fill(frames_at_boot, frames)) as Boot
            }),
            companion: ranges,
            lookaside: Some(Box::new(move |_| Box::new(RangeTlb::new(&hardware, key_bits, nested)))),
            placement: Some(Box::new(EagerPlacement::new(spec, reserve))),
            ..Parts::default()
        }
    })
}
