#![doc = include_str!("../README.md")]

mod document;
mod figure;
mod fuzz;
pub mod layout;
mod number;
mod reproduce;
#[cfg(test)]
mod resume_tests;
mod store;
mod table;
mod why;

pub use document::{Document, MeasureMeaning, counter_catalogue};
pub use figure::{Figure, FigureProgram, Metric, MetricKind, Published, figures, figures_of};
pub use fuzz::{fuzz_maps, fuzz_store};
pub use number::{bytes, count, seconds, short};
pub use reproduce::{FigureResult, MetricResult, Reproduction, Size, reproduce, traces_of};
pub use store::Store;
pub use table::comparison_table;
pub use why::reasons;
