//! Range translations: runs of pages that follow each other in both address spaces, kept in a B-tree of two-line nodes.
//!
//! Source: Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015, Sec. 4.2.

mod companion;
mod node;
mod range_table;

pub use companion::{RangeCompanion, RangeCompanionFactory, RangeTableCounters, RangesNow};
pub use node::{Node, NodeWords, Range};
pub use range_table::RangeTable;

/// When runs of pages are ranges, and how the entries of their pages are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeRules {
    /// Pages from which a run is a range.
    pub threshold: u64,
    /// Pages of ranges are accessed and dirty from the start.
    pub eager_bits: bool,
    /// Mapped memory, bytes, from which the hardware may use ranges; 0 for always.
    pub enable_above_bytes: u64,
    /// Bits of a virtual address: 48 or 57. They decide how many bits BASE and LIMIT have.
    pub va_bits: u32,
}

/// The registers of a segment, BASE, LIMIT and OFFSET with rights, as words; all zero for none.
pub fn segment_registers(range: Option<Range>) -> [u64; 3] {
    let Some(range) = range else { return [0; 3] };
    let rights = u64::from(range.writable) << 63 | u64::from(range.executable) << 62;
    [range.base.0, range.limit.0, range.frame.0 | rights]
}
