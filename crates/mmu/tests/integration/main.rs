//! The pipeline of a translation, with tables, ranges and speculators that tests control.

mod invalidation;
mod pipeline;
mod prefetching;
mod support;
