#![doc = include_str!("../README.md")]

mod awaited;
mod branch;
mod cache;
mod channel;
mod clock;
mod copies;
mod core_counters;
mod core_spec;
mod cycle_stack;
mod dram;
mod dram_log;
mod dram_spec;
mod events;
mod hierarchy;
mod in_flight;
mod intermediate_map;
mod link;
mod main_memory;
mod node_spec;
mod plan;
mod prefetch;
mod queues;
mod replacement;
mod reservation_table;
mod set_array;
mod sim_host;
mod spec;
mod window;
mod zeroing;

use ambulator_base::State;
pub use branch::BranchPredictor;
pub use cache::CacheCounters;
pub use copies::CopyId;
pub use core_counters::CoreCounters;
pub use core_spec::{CoreSpec, PredictorKind, StoreRequest};
pub use cycle_stack::{BY_JOINED_WALK, BY_L2_TLB};
pub use dram::{Dram, DramCounters};
pub use dram_log::{DramAccess, DramEvent, TICKS_PER_CYCLE};
pub use dram_spec::{AddressMapping, DramModel, DramSpec, PagePolicy};
pub use events::{Event, EventKind};
pub use hierarchy::{Access, EntryLevel, Hierarchy, HierarchyCounters};
pub use main_memory::NodeCounters;
pub use node_spec::{MAX_NODE, Medium, NodeSpec, NodesSpec};
pub use replacement::{MAX_WAYS, Replacement, ReplacementState};
pub use set_array::{NO_KEY, SetArray};
pub use sim_host::matches;
pub use spec::{CacheSpec, HierarchySpec, MAX_LATENCY, PrefetcherKind};
pub use window::{AwaitedWalk, CoreWindow, InFlight, InFlightAccess, Stalled, WalkInFlight};
pub use zeroing::ZeroingCounters;

/// The level that served an access to the memory hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, State)]
#[repr(u8)]
pub enum Served {
    /// The first-level cache.
    #[default]
    L1 = 0,
    /// The private second-level cache.
    L2 = 1,
    /// The shared last-level cache.
    Llc = 2,
    /// DRAM.
    Dram = 3,
}
