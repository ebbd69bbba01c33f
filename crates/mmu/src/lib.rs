//! The memory-management unit: TLBs, page-walk caches, the translation pipeline, nesting, and the sockets' hardware
//! halves (traits) that designs plug into. It knows no design.

mod port;
mod socket;
mod spec;

pub use port::{Loaded, LoadedLine, MemoryPort, Served};
pub use spec::{L2TlbOrganization, L2TlbSpec, MmuSpec, TlbSpec, WalkEntry};
pub use socket::{
    Invalidation, Lookaside, LookasideAnswer, Speculation, Speculator, TableRegisters, Translation, Walk, WalkOutcome, Walker,
};
