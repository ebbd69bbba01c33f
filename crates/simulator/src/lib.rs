#![doc = include_str!("../README.md")]

mod assemble;
mod awaited;
mod behind;
mod bound;
mod catalogue;
mod census;
mod checkpoint;
mod colours;
#[cfg(test)]
mod common_tests;
mod compare;
mod core;
mod counter_index;
mod energy;
mod error;
mod estimate;
mod execute;
mod explain_walk;
mod fuzz;
mod hardware;
pub mod hosted;
mod locks;
mod look_ahead;
mod machine;
mod measured;
mod memory_setup;
mod oracle;
#[cfg(test)]
mod oracle_tests;
mod os_events;
mod path;
pub mod phases;
mod profile;
mod report;
mod result;
mod sampling;
#[cfg(test)]
mod sampling_tests;
mod scheduler;
mod series;
mod skip;
pub mod spec;
mod statistics;
mod stream;
mod timed;
mod timeline;
mod untimed;
mod waiting_walks;
mod walk_collection;
mod walk_steps;
#[cfg(test)]
mod warmup_tests;
mod windows;

pub use catalogue::{catalogue, has_registered_designs, register_design, register_interactively};
pub use checkpoint::{Checkpoint, CheckpointStart, LoadState, SaveState};
pub use colours::colour_warnings;
pub use compare::{
    Comparison, Job, Outcome, Progress, READ_ONCE, Silent, compare, compare_planned, set_speedups, weighted_speedup,
};
pub use error::{SimError, Stop};
pub use explain_walk::{WalkRequest, explain_walk};
pub use fuzz::{FUZZ_MACHINE_BYTES, FuzzRun, fuzz_designs, fuzz_machine};
pub use machine::{Machine, Phase};
pub use profile::{Misses, Profile, ProfiledCode, ProfiledMapping};
pub use result::{
    CoreResult, CounterMeaning, Gathered, HistogramResult, MEASURES, Measure, MeasuredInterval, RunResult, Sampled,
    Schema, Status, join_schemas,
};
pub use scheduler::{check_mix, open_mix};
pub use series::Series;
pub use stream::SharedStream;
pub use timeline::{RecordedWindow, Timeline, TimelinePart, TimelineRequest, WindowEnd};
pub use walk_collection::{Collected, CollectionRequest, MappedArea, Reason, WalkCollection, collect_walks};
pub use walk_steps::{Attempt, DataAccess, LoadSummary, WalkEnd, WalkSteps};
