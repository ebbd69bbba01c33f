#![doc = include_str!("../README.md")]

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
pub use registry::{has_registered_programs, program, programs, register_descriptor, register_program};
pub use time_shared::TimeShared;
