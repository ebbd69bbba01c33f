//! RMM: redundant memory mappings. Ranges of pages that follow each other in both address spaces are
//! translated as one, beside a page table that holds every page too.
//!
//! Source: Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015.
//!
//! - A node of the range table in bytes: `node.rs` (Sec. 4.2, Fig. 4).
//! - The range table, a B-tree of them: `range_table.rs` (Sec. 4.2).
//! - OS half: [`ambulator_structures::ranges::RangeCompanion`] keeps ranges by any page table (Sec. 5.1), in the range table, a
//!   B-tree (Sec. 4.2, Fig. 4).
//! - OS half: [`EagerPlacement`] in `eager.rs` (Sec. 5.2, Fig. 5).
//! - The sensitivity to the number of entries in one pass: `curve.rs` (Fig. 7).
//! - Hardware half: [`RangeTlb`] in `range_tlb.rs`, with the walker of the range table (Sec. 4.1, 4.3).
//!
//! Choices.
//! - A page walk first, always; the range table is walked in the background when the entry that it found has
//!   its range bit set (Sec. 4.3). There is one such walker; while it is busy, further misses leave the range
//!   TLB as it is.
//! - A hit fills a 4 KiB entry into the L1 TLB (Sec. 4.1), also where the page table has a larger page.
//! - "Memory fragmentation" in Fig. 5 is the unusable free space index at `fragmentation_order`.
//! - A page that the kernel marks clean leaves its range, since no dirty bit of its own would come back (with
//!   `eager_bits`).
//! - Under nested paging ranges are kept and not used: they would end at guest-physical addresses.

mod curve;
mod eager;
mod range_tlb;
#[cfg(test)]
mod tests;

pub use curve::CurveCounters;
pub use eager::{EagerCounters, EagerPlacement};
pub use range_tlb::{RangeTlb, RangeTlbCounters};
use ambulator_base::Invalid;
use ambulator_os::CompanionFactory;
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use ambulator_structures::ranges::{RangeCompanionFactory, RangeRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of redundant memory mappings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RmmSpec {
    /// Entries of the range TLB.
    #[schemars(extend("x-unit" = "entries", "x-source" = "RMM Sec. 4.1 and 8.1 (32)"))]
    pub entries: u32,
    /// Cycles of a look-up; the L2 TLB is looked up meanwhile.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "RMM Sec. 4.1 (about 7, as the L2 TLB)"))]
    pub latency: u64,
    /// Whether a pointer to the most recently used range is tried before all ranges are searched. It saves
    /// energy, not time.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 4.1, Optimization"))]
    pub mru_pointer: bool,
    /// Whether the range TLB also counts what tables of 1 to 128 entries would have answered
    /// (`lookaside.curve`), from the same look-ups.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Fig. 7"))]
    pub curve: bool,
    /// Pages from which a run is a range, and a request is served eagerly.
    #[schemars(extend("x-unit" = "count", "x-source" = "RMM Sec. 5.1 (8)"))]
    pub threshold: u64,
    /// Whether pages of ranges are accessed and dirty from the start.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 6, Accessed & Dirty bits"))]
    pub eager_bits: bool,
    /// Mapped memory from which the operating system lets the hardware use its ranges; 0 for always.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "RMM Sec. 6, TLB friendly workloads"))]
    pub enable_above_bytes: u64,
    /// Greatest unusable free space index at which requests are served eagerly.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "RMM Fig. 5 names a threshold and no value: our choice"))]
    pub fragmentation_limit: f64,
    /// Order of the blocks for which that index is taken; orders above the greatest block's mean the
    /// greatest.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice: 2 MiB"))]
    pub fragmentation_order: u32,
    /// Whether a block is taken that follows the one before it, where there is one.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 5.2, the first optimization, not in its prototype"))]
    pub join_blocks: bool,
    /// Whether a request that is no power of two is cut from a larger block, whose rest goes back.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 5.2, the second optimization, not in its prototype"))]
    pub cut_blocks: bool,
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
            join_blocks: false,
            cut_blocks: false,
        }
    }
}

impl Settings for RmmSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !(1..=4096).contains(&self.entries) {
            wrong.push(Invalid::new(
                format!("{at}.entries"),
                format!("is {}; a range TLB has 1 to 4096 entries (the paper's has 32)", self.entries),
            ));
        }
        if !(2..=1 << 20).contains(&self.threshold) {
            wrong.push(Invalid::new(
                format!("{at}.threshold"),
                format!("is {}; it must be 2 to 2^20 pages (the paper's is 8)", self.threshold),
            ));
        }
        if !(0.0..=1.0).contains(&self.fragmentation_limit) {
            wrong.push(Invalid::new(
                format!("{at}.fragmentation_limit"),
                format!("is {}; it must be 0 to 1", self.fragmentation_limit),
            ));
        }
        wrong
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "rmm",
        "ranges of any length with pages: a range TLB, a B-tree that the operating system keeps, and eager paging",
        "Karakostas et al., Redundant Memory Mappings, ISCA 2015",
    )
    .fills(Socket::Lookaside, "a range TLB, refilled in the background from the range table")
    .formerly_called("range-tlb")
    .fills(Socket::Placement, "all pages of a request at once, in blocks as large as there are")
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
        let (hardware, key_bits) = (spec.clone(), site.va_bits - 12);
        // Eager paging alone keeps no ranges.
        let is_probed = site.design.holds(Socket::Lookaside, "rmm");
        let ranges = is_probed.then(|| Box::new(RangeCompanionFactory::new(&rules)) as Box<dyn CompanionFactory>);
        Parts {
            companion: ranges,
            lookaside: Some(Box::new(move |_| Box::new(RangeTlb::new(&hardware, key_bits)))),
            placement: Some(Box::new(EagerPlacement::new(spec))),
            ..Parts::default()
        }
    })
}
