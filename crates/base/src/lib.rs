#![doc = include_str!("../README.md")]

// What is derived names this crate.
extern crate self as ambulator_base;

mod abandoned;
mod address;
mod counter;
mod histogram;
mod invalid;
mod lock;
mod names;
mod output;
mod page;
mod part_file;
mod pipe;
mod random;
mod ranges;
mod record;
mod runs;
mod same_file;
mod sim_host;
mod sim_host_limits;
mod source;
mod state;
mod student_t;
mod text_file;
pub mod watch;

pub use abandoned::{Abandoned, unless_stopped};
pub use address::{Asid, CoreId, Cycle, LINE_BYTES, PhysAddr, ProcessId, VirtAddr};
pub use ambulator_derive::State;
pub use counter::{CounterDef, CounterSink, Counters, Unit};
pub use histogram::Histogram;
pub use invalid::Invalid;
pub use lock::lock;
pub use names::{RegisterError, RegisterReason, edits, nearest, nearest_names, split_names};
pub use output::{OutputError, OutputFile};
pub use page::{FRAME_BYTES, FRAME_SHIFT, Page, PageSize, Pfn, Vpn};
pub use random::{Random, falls_within, mix64, mul_high};
pub use ranges::{Range, out_of_range, show_size, values_out_of_range};
pub use record::{AccessKind, Advice, MapKind, Protection, Record, RecordKind, VmEvent};
pub use runs::PageRuns;
pub use same_file::InputFiles;
pub use sim_host::{on_huge_pages, prefetch_sim_host};
pub use sim_host_limits::{SimHostRefusal, address_space_left, sim_host_limits};
pub use source::{Batch, NamedRange, ProgramIdentity, RecordSource, SourceError, distinct_notes};
pub use state::{Archive, Each, State, sparse, sparse_by};
pub use student_t::student_t;
pub use text_file::{excerpt, read_text};
