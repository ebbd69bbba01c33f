//! The compiled half of the Python package `ambulator`: `python/ambulator` has the classes that people use.

mod accesses;
mod borrowed;
mod catalogue;
mod charts;
mod conversion;
mod design;
mod failure;
mod polled;
mod programs;
mod run;
mod settings;
mod streams;
mod study;
mod summary;
mod table;
mod threads;
mod walker;

use pyo3::prelude::*;

/// The compiled half of the package `ambulator`; use that package instead.
#[pymodule]
mod _ambulator {
    #[pymodule_export]
    use crate::accesses::Accesses;
    #[pymodule_export]
    use crate::borrowed::{Frames, Memory, Port};
    #[pymodule_export]
    use crate::catalogue::{counters, explain, preset_text, presets, programs};
    #[pymodule_export]
    use crate::charts::{charts, report};
    #[pymodule_export]
    use crate::design::{conformance, page_tables};
    #[pymodule_export]
    use crate::run::run_cells;
    #[pymodule_export]
    use crate::settings::{check_option, settings_tree, show_spec, spec_of};
    #[pymodule_export]
    use crate::study::run_study;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
