#![doc = include_str!("../README.md")]

mod bed;
mod failing;
mod lifecycle;
mod model;
mod port;
mod scarce;
mod script;

pub use bed::{TestBed, scatter};
pub use failing::check_failing;
pub use port::TestPort;

use ambulator_base::PageSize;
use ambulator_sockets::{Claims, DesignParts};

/// The options of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the random script.
    pub seed: u64,
    /// Operations of the script. Look-ups and walks follow each one, and regularly a check of everything.
    pub ops: u32,
    /// Page sizes that the table supports, smallest first, including 4 KiB.
    pub sizes: Vec<PageSize>,
    /// Bits of a virtual address.
    pub va_bits: u32,
    /// Bytes of physical memory.
    pub memory: u64,
    /// If set, no free block of this order or a larger one is available.
    pub scatter: Option<u32>,
    /// The largest number of loads of a walk.
    pub max_loads: u32,
    /// Whether the footprints of all tables must add up to the allocated frames. False for tables that share
    /// memory among processes.
    pub exact_footprint: bool,
    /// Whether the entry of a large page may have several copies, each with its own dirty bit. A walk for a
    /// load may then find a clean copy of a dirty page's entry. The software half must still be exact.
    pub copied_entries: bool,
    /// Whether a map that fails for lack of memory may have completed a resize, and so have freed or
    /// allocated frames. Even so no frame may leak, and look-ups must not change.
    pub resizes_on_failure: bool,
}

impl Options {
    /// The default options for a table with these claims.
    pub fn of(claims: Claims) -> Options {
        let Claims { sizes, max_loads, exact_footprint, copied_entries, resizes_on_failure } = claims;
        Options { sizes, max_loads, exact_footprint, copied_entries, resizes_on_failure, ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            ops: 1500,
            sizes: vec![PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G],
            va_bits: 48,
            memory: 256 << 20,
            scatter: None,
            max_loads: 64,
            exact_footprint: true,
            copied_entries: false,
            resizes_on_failure: false,
        }
    }
}

/// A summary of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pages mapped.
    pub maps: u64,
    /// Pages unmapped.
    pub unmaps: u64,
    /// Walks compared with the reference model.
    pub walks: u64,
    /// Loads of all walks.
    pub loads: u64,
    /// Lines that walks prefetched.
    pub fetches: u64,
    /// Maps that failed for lack of memory.
    pub failures: u64,
    /// The largest contiguous allocation of a table, in bytes.
    pub largest_contiguous: u64,
}

/// Compares a design's page table with the reference model, first in ample and then in scarce memory. `make`
/// creates the parts for each of the two.
///
/// # Errors
/// The first difference, with the operations before it.
pub fn check(mut make: impl FnMut() -> DesignParts, options: &Options) -> Result<Summary, String> {
    let mut summary = Summary::default();
    script::run(make(), options, &mut summary)?;
    scarce::run(&mut make, options, &mut summary)?;
    Ok(summary)
}
