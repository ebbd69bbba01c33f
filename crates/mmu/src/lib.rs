//! The memory-management unit: TLBs, page-walk caches, the translation pipeline, nesting, and the sockets' hardware
//! halves (traits) that designs plug into. It knows no design.

mod port;
mod socket;

pub use port::{Loaded, LoadedLine, MemoryPort, Served};
pub use socket::{
    Invalidation, Lookaside, LookasideAnswer, Speculation, Speculator, TableRegisters, Translation, Walk, WalkOutcome, Walker,
};
