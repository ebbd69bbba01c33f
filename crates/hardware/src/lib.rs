//! Caches, prefetchers, DRAM and core timing.

mod host;
mod replacement;
mod set_array;

pub use replacement::{MAX_WAYS, Replacement, ReplacementState};
pub use set_array::{NO_KEY, SetArray};

/// Who served an access to the memory hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Served {
    /// The first-level cache.
    L1 = 0,
    /// The private second-level cache.
    L2 = 1,
    /// The shared last-level cache.
    Llc = 2,
    /// DRAM.
    Dram = 3,
}
