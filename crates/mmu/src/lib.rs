#![doc = include_str!("../README.md")]

mod awaited_table;
mod core_port;
mod intermediate;
mod levels;
mod lookaside_pair;
mod nested;
mod pipeline;
mod port;
mod prefetch;
mod prefetch_walk;
mod recent;
mod recording;
mod socket;
mod spec;
mod tell;
mod tlb;
mod waiting_walk;
mod walk_cache_spec;
mod walkers;
mod watched_port;

pub use awaited_table::{AwaitedLines, AwaitedTable, WalkOnWalker};
pub use core_port::{CorePort, WalkTraffic};
pub use intermediate::{FrontSide, INTERMEDIATE};
pub use lookaside_pair::LookasidePair;
pub use nested::{HypervisorStage, NestedCounters, NestedSpec};
pub use pipeline::{FaultCause, FirstLookUp, Mmu, MmuCounters, Sockets, Translated};
pub use port::{Loaded, LoadedLine, MemoryPort, Served};
pub use prefetch::{
    FreeTranslations, MOST_PROPOSALS, PrefetchCounters, PrefetchQueue, PrefetchQueueSpec, Prefetched, Proposals,
    TlbMiss, TlbPrefetcher,
};
pub use recording::{ACCESS_SPAN, Recorded, RecordedKind, Recording};
pub use socket::{
    Bus, FinishedWalk, Invalidation, Lookaside, LookasideAnswer, Speculation, Speculator, TableRegisters, Translation,
    Verification, Walk, WalkOutcome, Walker,
};
pub use spec::{L2TlbOrganization, L2TlbSpec, MmuSpec, TlbSpec, WalkEntry};
pub use tlb::{Retime, Tlb, TlbEntry};
pub use waiting_walk::{AheadLoad, AheadLoads, Begin, WaitingWalk};
pub use walk_cache_spec::PwcSpec;
pub use walkers::WalkerPool;
pub use watched_port::level;
