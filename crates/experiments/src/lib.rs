#![doc = include_str!("../README.md")]

pub mod advice;
mod bounds;
mod cautions;
mod cell;
mod checkpoints;
mod claims;
mod deviation;
mod difference;
mod document;
mod estimate;
mod figure;
mod fuzz;
mod grid;
mod interval;
pub mod layout;
mod measure;
mod memory;
mod number;
mod over_time;
mod phases;
mod profile_columns;
mod reproduce;
#[cfg(test)]
mod resume_tests;
pub mod row;
mod runner;
mod sampling;
pub mod seed_row;
mod selection;
mod series_columns;
mod stack;
mod store;
mod study;
mod study_file;
mod study_table;
mod table;
mod verdict;
mod vocabulary;
mod weighted;
mod whole;
mod why;
mod worker;

pub use bounds::{BOUND, Bounds};
pub use cautions::{cautions, untimed_daemons};
pub use cell::{
    Cell, GivenProgram, ProgramSource, Programs, build, difference_from_presets, is_of_this_build, short_hash,
};
pub use checkpoints::{Checkpoints, Header as CheckpointHeader, OfCell as CellCheckpoint};
pub use claims::{CLAIM_TIMEOUT, Claim, Claims, Holder};
pub use deviation::{Cause, Deviation, Reason};
pub use difference::{DiffDocument, Difference, JudgedBy, Moved, Runs, SettingChange, differences_grid, pairs};
pub use document::{Bound, Document, MeasureMeaning, counter_catalogue, sample_runs};
pub use estimate::{Estimate, Trials, estimate};
pub use figure::{
    ChartForm, Figure, FigureCell, FigureProgram, Metric, MetricKind, Published, Seeds, figures, figures_of,
};
pub use fuzz::{fuzz_maps, fuzz_store};
pub use grid::{Entry, Grid, Head};
pub use interval::{Over, SpeedUp, Spread, mean_over_seeds};
pub use memory::{memory_available, sim_host_bytes};
pub use number::{bytes, count, numbered, seconds, short};
pub use over_time::{OverTime, Parted};
pub use reproduce::{FigureResult, MetricResult, Size, WholeNumber, cells_of, reproduce, traces_of};
pub use runner::{Ended, Finished, Reuse, Runner};
pub use sampling::{SAMPLING_COLUMNS, about_sampling, sampled_as};
pub use selection::{Selected, Selection};
pub use stack::{CycleStack, Family};
pub use store::{Compacted, DEFAULT_STORE, Store, is_final};
pub use study::{Place, Point, Study};
pub use study_table::{Extent, runs_grid};
pub use table::{comparison_grid, comparison_table, core_table, stack_table};
pub use verdict::{Candidate, Verdict};
pub use vocabulary::{Found, Term, TermKind, Vocabulary, keys};
pub use whole::{Whole, WholeProgram};
pub use why::reasons;
pub use worker::{LEAST_BATCH, Progression, Worked, Worker, shard_of};
