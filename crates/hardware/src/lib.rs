//! Caches, prefetchers, DRAM and core timing.
//!
//! - [`SetArray`]: a set-associative array with any [`Replacement`] policy, of which TLBs and small tables
//!   are built.
//! - [`Hierarchy`]: private L1I, L1D and L2 of each core, the shared LLC, prefetchers and [`Dram`].
//! - [`CoreWindow`]: when an out-of-order core's instructions dispatch, issue and commit.
//!
//! # Time
//!
//! An access is carried to completion when it issues, and returns the cycle at which its value is there.
//! Caches keep for each line when it was asked for and how long it took, so that a second access to a line in
//! flight waits for the rest and no longer. Accesses do not come in the order of their times (a load that
//! depends on another is carried out long before a younger one that issues sooner), so bounded resources
//! (MSHRs, banks, buses) are reservation tables instead of single "free from" times: what is reserved for
//! later does not hold up what comes now.
//!
//! What this gives up against a model that steps through cycles: tags and replacement change in program
//! order, not in order of time; waits for an MSHR are known to 4 cycles; a memory controller does not reorder
//! requests nor gather writes in batches; there is no coherence traffic between cores, no port or bank
//! contention within caches, and no wrong-path access.
//!
//! # Example
//!
//! ```
//! use ambulator_base::{AccessKind, Cycle, PhysAddr, Record, VirtAddr};
//! use ambulator_hardware::{CoreSpec, CoreWindow, Hierarchy, HierarchySpec, Served};
//!
//! let mut memory = Hierarchy::new(&HierarchySpec::default(), 1, 2000, 1 << 37, true);
//! let mut core = CoreWindow::new(&CoreSpec::default());
//! // Two loads of one line, independent of each other: the second waits for the first one's miss.
//! for va in [0x1000, 0x1008] {
//!     let record = Record { va: VirtAddr(va), size: 8, gap: 3, ..Record::default() };
//!     let issued = core.dispatch(&record);
//!     let access = memory.access(0, PhysAddr(va), AccessKind::Load, record.pc, issued);
//!     core.complete(&record, issued, access.ready);
//! }
//! // 56 cycles to the LLC and back, 10 ns in the controller, 48 DRAM clocks of 0.625 ns for an idle bank; dispatch before, commit after.
//! assert_eq!(memory.counters().l1d.merges, 1);
//! assert!((136..140).contains(&core.retired_cycle().0));
//! ```

mod branch;
mod cache;
mod copies;
mod core_spec;
mod dram;
mod dram_spec;
mod hierarchy;
mod intermediate_map;
mod prefetch;
mod replacement;
mod reservation_table;
mod set_array;
mod sim_host;
mod spec;
mod window;
mod write_queue;

pub use branch::BranchPredictor;
pub use cache::CacheCounters;
pub use copies::CopyId;
pub use core_spec::{CoreSpec, PredictorKind};
pub use dram::{Dram, DramCounters};
pub use dram_spec::{AddressMapping, DramModel, DramSpec, PagePolicy};
pub use hierarchy::{Access, EntryLevel, Hierarchy, HierarchyCounters};
pub use replacement::{MAX_WAYS, Replacement, ReplacementState};
pub use set_array::{NO_KEY, SetArray};
pub use sim_host::matches;
pub use spec::{CacheSpec, HierarchySpec, PrefetcherKind};
pub use window::{CoreCounters, CoreWindow};

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
