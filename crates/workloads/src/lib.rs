//! Programs as streams of access records and VM events.
//!
//! [`open`] turns a [`ProgramRequest`] into a [`RecordSource`](ambulator_base::RecordSource): a program by its name, or a
//! trace file by its path. Programs run the real algorithm on real data laid out in a modelled address space; what does not
//! depend on data needs no host memory, whatever the footprint.
//!
//! ```text
//!  ProgramRequest ── open ─┬─ registry: programs() ── ProgramDescriptor ── BenchmarkSpec ── RecordSource
//!                          │     built in: benchmarks (graph, heap, layout)
//!                          │     of other crates: register_program
//!                          └─ ambulator_trace::open_trace
//! ```
//!
//! Start reading at [`BenchmarkSpec`], then `benchmarks/gups.rs`, a small one that computes its addresses, and
//! `benchmarks/astar.rs`, one written as plain code. [`TimeShared`] joins several streams on one core.

pub mod benchmarks;
mod error;
pub mod graph;
mod heap;
pub mod layout;
mod nearest;
mod open;
mod permutation;
mod program;
mod registry;
mod time_shared;

pub use error::OpenError;
pub use heap::HeapModel;
pub use open::{ProgramRequest, open};
pub use permutation::Permutation;
pub use program::{BenchmarkSpec, Program, ProgramDescriptor, ProgramInfo};
pub use registry::{RegisterError, program, programs, register_descriptor, register_program};
pub use time_shared::TimeShared;
