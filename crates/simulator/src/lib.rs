//! placeholder

pub mod spec;
