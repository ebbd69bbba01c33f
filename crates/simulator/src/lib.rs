#![doc = include_str!("../README.md")]

mod assemble;
mod bound;
mod catalogue;
mod census;
mod colours;
mod compare;
mod core;
mod energy;
mod error;
mod execute;
mod explain_walk;
mod fuzz;
mod hardware;
pub mod hosted;
mod locks;
mod look_ahead;
mod machine;
mod memory_setup;
mod oracle;
#[cfg(test)]
mod oracle_tests;
mod os_events;
mod path;
mod report;
mod result;
mod scheduler;
mod series;
pub mod spec;
mod statistics;
mod stream;
mod walk_steps;
#[cfg(test)]
mod warmup_tests;
mod windows;

pub use catalogue::{catalogue, has_registered_designs, register_design, register_interactively};
pub use colours::colour_warnings;
pub use compare::{Comparison, Job, Outcome, Progress, Silent, compare, set_speedups};
pub use error::{SimError, Stop};
pub use explain_walk::{WalkRequest, explain_walk};
pub use fuzz::{FUZZ_MACHINE_BYTES, FuzzRun, fuzz_designs, fuzz_machine};
pub use machine::{Machine, Phase};
pub use result::{
    CoreResult, CounterMeaning, Gathered, HistogramResult, MEASURES, Measure, RunResult, Schema, Status, join_schemas,
};
pub use scheduler::{check_mix, open_mix};
pub use series::Series;
pub use stream::SharedStream;
pub use walk_steps::{Attempt, DataAccess, LoadSummary, WalkEnd, WalkSteps};
