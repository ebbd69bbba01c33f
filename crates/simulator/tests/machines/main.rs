//! Whole machines: programs run on them, and what is counted is compared with what is known.
//!
//! One program, because each one is linked with all of Ambulator. Tests that register something have their own.

mod address_spaces;
mod checkpoint;
mod colours;
mod copying;
mod cycle_driven;
mod cycle_stack;
mod explain_walk;
mod functional;
mod fuzz_smoke;
mod machine;
mod nesting;
mod nodes;
mod recorded;
mod sampling;
mod series;
mod settings_extremes;
mod spread;
mod stores;
mod support;
mod timeline;
mod tlb_prefetch;
mod walks;
mod warmup;
mod zeroing;
