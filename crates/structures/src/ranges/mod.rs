//! Range translations: runs of pages that follow each other in both address spaces, kept in a B-tree of two-line nodes.
//!
//! Source: Karakostas et al., "Redundant Memory Mappings for Fast Access to Large Memories", ISCA 2015, Sec. 4.2.

mod node;
mod range_table;

pub use node::{Node, NodeWords, Range};
pub use range_table::RangeTable;
