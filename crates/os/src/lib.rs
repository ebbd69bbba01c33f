#![doc = include_str!("../README.md")]

mod calls;
mod check;
mod companion;
mod contiguous;
mod costs;
mod counters;
mod error;
mod fault;
mod fork;
mod host_areas;
mod huge;
mod hypercalls;
mod identifiers;
mod intermediate;
mod kernel;
mod ledger;
mod lifecycle;
mod migrate;
mod numa;
mod owned_context;
mod page_state;
mod pages;
mod pinned;
mod placement;
mod process;
mod promotion;
mod reclaim;
mod recorded;
mod reservations;
mod sharing;
mod shootdown;
mod spec;
mod state;
mod swap;
mod table;
mod translations;
mod vma;
mod watermarks;
mod zeroing;

pub use companion::{Companion, CompanionFactory};
pub use costs::CostTable;
pub use counters::{KernelCounters, OsCycles};
pub use error::OsError;
pub use fault::FaultKind;
pub use host_areas::{HostAreaCounters, HostAreas, HostAreasNow, MAX_HOST_AREAS, host_area_slot, read_host_area};
pub use hypercalls::Hypercall;
pub use intermediate::{IntermediateMap, IntermediateMapFactory};
pub use kernel::Kernel;
pub use ledger::{Ledger, LedgerCause, TableLock};
pub use migrate::Migration;
pub use numa::{
    Balancing, HugeMigration, MachineNodes, MemoryPolicy, NodeInfo, NodePageCounters, NumaCounters, NumaSpec,
    TablePolicy,
};
pub use owned_context::OwnedContext;
pub use page_state::{PageMap, PageState};
pub use placement::{BuddyPlacement, EagerRange, PlaceContext, PlaceRequest, Placement, RecordedPlace};
pub use recorded::RecordedPlacement;
pub use shootdown::Shootdown;
pub use spec::{Copying, HugeAllocation, KernelSpec, PageSizePolicy};
pub use table::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableFactory};
pub use translations::{Translations, TranslationsFactory};
pub use vma::{HugeAdvice, Vma, VmaList};
pub use zeroing::{Zeroed, Zeroing};
