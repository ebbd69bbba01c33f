//! The conformance suite: what every page table must do, whatever it is made of.
//!
//! ```
//! use ambulator_conformance as conformance;
//! let designs = ambulator_designs::catalogue();
//! let radix = designs.find("radix").unwrap();
//! let options = conformance::Options { ops: 200, ..conformance::Options::of(radix.claims.clone()) };
//! let summary = conformance::check(|| designs.build(&designs.choice("radix")), &options).unwrap();
//! assert!(summary.maps > 0 && summary.walks > 0);
//! ```
//!
//! [`check`] drives the two halves of a design with random maps, unmaps, changes of flags, moved frames,
//! promotions (512 pages of 4 KiB become one of 2 MiB), demotions, VMAs that come, go and have holes cut,
//! forks, exits and switches between processes and cores, and holds them to a plain ordered map of pages. It
//! fails, with the seed, the step and the latest operations, when
//!
//! - a software look-up or a hardware walk says other than the map: whether there is a page, its frame, size
//!   and rights;
//! - accessed or dirty bits are not those that the walks must have set (dirty only by a store to a writable
//!   page), or are lost by an operation that must keep them;
//! - a walk finds what has been unmapped *and invalidated*, or does not find what was mapped without an
//!   invalidation;
//! - a walk reads or writes a frame that the allocator holds as free (a table that is gone), or beyond the
//!   memory;
//! - a walk that found a page loaded nothing, took less time than one load, or miscounts its loads;
//! - a look-up changes with the mode of access, an entry leaks into another address space, or registers
//!   change without a new generation;
//! - the footprint is not what the allocator gave, or the frames do not all come back after the last exit;
//! - a map that fails for lack of memory leaves anything changed: the frames taken, the footprint, what
//!   look-ups say.

mod bed;
mod failing;
mod lives;
mod model;
mod port;
mod scarce;
mod script;

pub use bed::TestBed;
pub use failing::check_failing;
pub use port::TestPort;

use ambulator_base::PageSize;
use ambulator_sockets::{Claims, DesignParts};

/// What to check, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the script.
    pub seed: u64,
    /// Operations of the script; each one is followed by look-ups and walks, and now and then all is checked.
    pub ops: u32,
    /// Page sizes that the table holds, smallest first; 4 KiB must be among them.
    pub sizes: Vec<PageSize>,
    /// Bits of a virtual address.
    pub va_bits: u32,
    /// Bytes of physical memory.
    pub memory: u64,
    /// Leave no run of free frames of this order: what there is of contiguity ends below.
    pub scatter: Option<u32>,
    /// The most loads that a walk may take.
    pub max_loads: u32,
    /// The tables' footprints must add up to what the allocator gave. Off for tables that share memory among
    /// processes.
    pub exact_footprint: bool,
    /// A large page may have several copies of its entry, each with dirty bits of its own: a walk that is no
    /// store may find a dirty page's entry clean. What the software half says of the page must still be
    /// exact.
    pub copied_entries: bool,
    /// A map that fails for lack of memory may have brought a resize to its end, and given back or kept what
    /// that takes. No frame may be lost all the same, and look-ups say what they said.
    pub resizes_on_failure: bool,
}

impl Options {
    /// The default, for a table that claims this.
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

/// What a check has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pages mapped.
    pub maps: u64,
    /// Pages unmapped.
    pub unmaps: u64,
    /// Walks compared with the map, and the loads that they took.
    pub walks: u64,
    /// Loads that walks took.
    pub loads: u64,
    /// Lines that walks fetched ahead.
    pub fetches: u64,
    /// Maps that failed for lack of memory.
    pub failures: u64,
    /// The most contiguous bytes that a table asked for.
    pub largest_contiguous: u64,
}

/// Holds a design's page table to the map, in ample memory and then in scarce memory. `make` is called for
/// each of them.
///
/// # Errors
/// The first difference, with what led to it.
pub fn check(mut make: impl FnMut() -> DesignParts, options: &Options) -> Result<Summary, String> {
    let mut summary = Summary::default();
    script::run(make(), options, &mut summary)?;
    scarce::run(&mut make, options, &mut summary)?;
    Ok(summary)
}
