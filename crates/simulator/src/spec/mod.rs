//! Specs: TOML that describes a machine, a design and a run.
//!
//! The types of [`Spec`] and of its parts define every setting once: a field's doc comment is its meaning,
//! `x-unit` and `x-source` its unit and origin, `Default` its built-in value. [`Setting::tree`] makes a tree
//! of all keys from them, and everything else reads that tree: [`load`] checks each key of presets, files and
//! `--set` options against it, [`explain`] and [`reference_markdown`] print it, [`show_spec`] annotates a
//! spec with it.
//!
//! Layers, each of which overrides those before it: built-in defaults, a machine preset, a design preset,
//! spec files, `--set` options.
//!
//! - `quantity`: sizes and counts with suffixes.
//! - `schema`: the tree of settings.
//! - `problem`: an error in a spec and its place, with a caret.
//! - `value`: checks one TOML value against its setting.
//! - `layer`: checks one text against the tree; combines layers.
//! - `joined`: presets joined with `+`.
//! - `unused`: settings without effect.
//! - `daemons`: what runs in the background by time.
//! - `settings`: [`Spec`] and the parts that belong to no component.
//! - `preset`: the presets in the binary.
//! - `moved`: former keys.
//! - `program`: programs, workloads and their settings.
//! - `load`: combines presets, files and options.
//! - `explain`, `show`: output for readers.
//! - `fuzz`: entry points for fuzzing.

mod daemons;
mod explain;
mod fuzz;
mod joined;
mod layer;
mod load;
mod moved;
mod preset;
mod problem;
mod program;
mod quantity;
pub(crate) use quantity::show_size;
mod schema;
mod settings;
mod show;
mod since;
#[cfg(test)]
mod tests;
mod unused;
mod unused_program;
mod value;

pub use daemons::daemon_periods;
pub use explain::{CounterInfo, DesignInfo, Explanation, PresetValue, explain, preset_values};
pub use fuzz::{fuzz_program, fuzz_spec};
pub use layer::Origins;
pub use load::{
    DEFAULT_MACHINE, LoadedSpec, SpecRequest, check_option, default_design, load, load_with, option_settings, parse,
};
pub use preset::{Preset, PresetKind, preset, presets, register_preset};
pub use problem::{Place, Problem, Source, SpecError};
pub use program::{option_program, program_request, program_tree};
pub use quantity::{parse_count, parse_size};
pub use schema::{Choice, Kind, Setting, Since};
pub use settings::{
    HypervisorPageSize, MachineSpec, MemorySpec, RunMode, RunSpec, Sampling, Spec, VirtualizationMode,
    VirtualizationSpec, WarmupMode, tree,
};
pub use show::{designs_markdown, program_reference_markdown, reference_markdown, show_spec};
pub use unused::unused;
pub use unused_program::unused_by_program;
