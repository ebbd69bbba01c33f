//! What TLB prefetchers learn with: tables of strides by instruction, of distances by distance, and the
//! latest distances. Page numbers count pages of 4 KiB; distances between them have a sign.

mod distances;
mod latest;
mod strides;

pub use distances::{DistanceTable, MOST_SUCCESSORS};
pub use latest::LatestDistances;
pub use strides::{Stride, StrideTable};

/// The distance from page `from` to page `to`.
pub(crate) fn distance(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from) as i64
}
