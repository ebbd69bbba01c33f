//! Range translations: runs of pages that are contiguous in both address spaces, kept in a B-tree of two-line
//! nodes.
//!
//! Source: Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015, Sec.
//! 4.2.

mod companion;
mod node;
mod range_table;

pub use companion::RangeCompanionFactory;
pub use node::{Node, NodeWords, Range};
pub use range_table::RangeTable;

/// Which runs of pages become ranges, and what the entries of their pages look like.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeRules {
    /// The fewest pages of a range.
    pub threshold: u64,
    /// Pages of ranges are accessed and dirty from the start.
    pub eager_bits: bool,
    /// The hardware uses ranges once this much memory is mapped, bytes; 0 for always.
    pub enable_above_bytes: u64,
    /// Bits of a virtual address: 48 or 57. It sets the width of BASE and LIMIT.
    pub va_bits: u32,
}

/// The registers of a segment as words: BASE, LIMIT, and OFFSET with rights. All are zero for no segment.
fn segment_registers(range: Option<Range>) -> [u64; 3] {
    let Some(range) = range else { return [0; 3] };
    let rights = u64::from(range.writable) << 63 | u64::from(range.executable) << 62;
    [range.base.0, range.limit.0, range.frame.0 | rights]
}
