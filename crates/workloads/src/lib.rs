//! Programs as streams of access records and VM events.
//!
//! [`open`] turns a [`ProgramRequest`] (a kernel's name or a trace file's path, and settings) into a
//! [`RecordSource`](ambulator_base::RecordSource). Native [`kernels`](mod@kernels) run the real algorithm on real data laid out in a
//! modelled address space ([`layout`]); what does not depend on data needs no host memory, whatever the footprint.

mod error;
pub mod graph;
mod heap;
pub mod kernels;
pub mod layout;
mod permutation;
mod registry;
pub mod regularity;
mod time_shared;
pub mod trace;

pub use error::OpenError;
pub use heap::HeapModel;
pub use kernels::KernelInfo;
pub use permutation::Permutation;
pub use registry::{KernelSettings, ProgramRequest, ProgramSpec, kernel_settings, kernels, open};
pub use time_shared::TimeShared;
