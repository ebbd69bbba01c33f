//! Generated graphs.
