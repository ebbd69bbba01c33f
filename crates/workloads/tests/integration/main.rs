//! All programs, as other crates use them.

mod linked;
mod programs;
mod settings_extremes;
mod streaming;
