//! Specs: how TOML becomes a machine, a design and a run.
//!
//! The types of [`Spec`] and of its parts say everything once: a field's doc comment is its meaning, `x-unit` and
//! `x-source` its unit and origin, `Default` its built-in value. From them [`Setting::tree`] makes a tree of all keys, and
//! everything else reads that tree: [`load`] checks each key of presets, files and `--set` options against it, [`explain`] and
//! [`reference_markdown`] print it, [`show_spec`] annotates a spec with it.
//!
//! Layers, each over those before it: built-in defaults, a machine preset, a design preset, spec files, `--set` options.
//!
//! - `quantity`: sizes and counts with suffixes.
//! - `schema`: the tree of settings.
//! - `problem`: what is wrong, and where, with a caret.
//! - `value`: one TOML value against what its setting takes.
//! - `layer`: one text checked against the tree; the sum of layers.
//! - `settings`: [`Spec`] and the parts that belong to no component.
//! - `preset`: the presets in the binary.
//! - `moved`: keys from before.
//! - `program`: programs, workloads and their settings.
//! - `load`: presets, files and options in their order.
//! - `explain`, `show`: what people read.

mod explain;
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
#[cfg(test)]
mod tests;
mod value;

pub use explain::{CounterInfo, DesignInfo, Explanation, PresetValue, explain, preset_values};
pub use layer::Origins;
pub use load::{DEFAULT_DESIGN, DEFAULT_MACHINE, LoadedSpec, SpecRequest, fuzz_spec, load, parse};
pub use preset::{Preset, PresetKind, preset, presets, register_preset};
pub use problem::{Place, Problem, Source, SpecError};
pub use program::{program_request, program_tree};
pub use quantity::{parse_count, parse_size};
pub use schema::{Choice, Kind, Setting};
pub use settings::{
    HypervisorPageSize, MachineSpec, MemorySpec, RunMode, RunSpec, Spec, VirtualizationMode, VirtualizationSpec, tree,
};
pub use show::{designs_markdown, program_reference_markdown, reference_markdown, show_spec};
