//! RMM: redundant memory mappings. Ranges of pages that follow each other in both address spaces are
//! translated as one, beside a page table that holds every page too.
//!
//! Source: Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015.
//!
//! - A node of the range table in bytes: `node.rs` (Sec. 4.2, Fig. 4).
//! - The range table, a B-tree of them: `range_table.rs` (Sec. 4.2).
//! - OS half: [`RangesBeside`] in `table.rs` keeps ranges beside any page table (Sec. 5.1).
//! - OS half: [`EagerPlacement`] in `eager.rs` (Sec. 5.2, Fig. 5).
//! - Direct segments, one range in registers: [`DirectSegment`] in `segment.rs` (Sec. 3, 8.1).
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
mod segment;
mod table;
#[cfg(test)]
mod tests;

pub use curve::CurveCounters;
pub use eager::{EagerCounters, EagerPlacement};
pub use range_tlb::{RangeTlb, RangeTlbCounters};
pub use segment::{DirectSegment, SegmentCounters};
pub use table::{RangeTableCounters, RangesBeside, RangesNow};

use ambulator_base::{Asid, FRAME_BYTES, ProcessId};
use ambulator_os::{Companion, CompanionFactory, MapError, TableContext};
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
    /// Cycles of a direct segment's comparison, counted from the L1 TLB's miss.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "Basu et al., ISCA 2013: beside the L1 TLB; one cycle more is our choice"))]
    pub segment_latency: u64,
    /// Bits of a virtual address: 48 or 57. They decide how many bits BASE and LIMIT have.
    #[schemars(extend("x-unit" = "count", "x-source" = "RMM Sec. 4.2 (48)"))]
    pub va_bits: u32,
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
            segment_latency: 1,
            va_bits: 48,
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

impl RmmSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(1..=4096).contains(&self.entries) {
            wrong.push(format!(
                "`{at}.entries` is {}; a range TLB has 1 to 4096 entries (the paper's has 32)",
                self.entries
            ));
        }
        if ![48, 57].contains(&self.va_bits) {
            wrong.push(format!("`{at}.va_bits` is {}; it must be 48 or 57", self.va_bits));
        }
        if !(2..=1 << 20).contains(&self.threshold) {
            wrong
                .push(format!("`{at}.threshold` is {}; it must be 2 to 2^20 pages (the paper's is 8)", self.threshold));
        }
        if !(0.0..=1.0).contains(&self.fragmentation_limit) {
            wrong.push(format!("`{at}.fragmentation_limit` is {}; it must be 0 to 1", self.fragmentation_limit));
        }
        wrong
    }
}

/// Makes ranges beside page tables.
pub struct RangesFactory {
    spec: RmmSpec,
    in_registers: bool,
}

impl RangesFactory {
    /// `spec` has been validated.
    pub fn new(spec: &RmmSpec) -> RangesFactory {
        RangesFactory { spec: spec.clone(), in_registers: false }
    }

    /// The same for a direct segment: the largest range is in registers.
    pub fn for_segment(spec: &RmmSpec) -> RangesFactory {
        RangesFactory { in_registers: true, ..RangesFactory::new(spec) }
    }
}

impl CompanionFactory for RangesFactory {
    fn new_companion(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError> {
        match RangesBeside::new(&self.spec, self.in_registers, os) {
            Some(ranges) => Ok(Box::new(ranges)),
            None => Err(MapError::NoMemory { bytes: FRAME_BYTES }),
        }
    }
}
