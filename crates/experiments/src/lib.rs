#![doc = include_str!("../README.md")]

mod cautions;
mod cell;
mod document;
mod figure;
mod fuzz;
mod interval;
pub mod layout;
mod memory;
mod number;
mod reproduce;
pub mod row;
mod runner;
#[cfg(test)]
mod resume_tests;
mod stack;
mod store;
mod table;
mod verdict;
mod why;

pub use cautions::cautions;
pub use cell::{Cell, Programs, build, difference_from_presets};
pub use document::{Bound, Document, MeasureMeaning, counter_catalogue};
pub use figure::{Figure, FigureProgram, Metric, MetricKind, Published, figures, figures_of};
pub use fuzz::{fuzz_maps, fuzz_store};
pub use interval::SpeedUp;
pub use number::{bytes, count, seconds, short};
pub use reproduce::{FigureResult, MetricResult, Size, reproduce, traces_of};
pub use memory::{memory_available, sim_host_bytes};
pub use runner::{Ended, Finished, Reuse, Runner};
pub use stack::CycleStack;
pub use store::{DEFAULT_STORE, Store, is_final};
pub use table::{comparison_table, core_table};
pub use verdict::{Candidate, Verdict};
pub use why::reasons;
