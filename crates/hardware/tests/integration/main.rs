//! Cores, caches and main memory, as other crates use them.

mod core;
mod dram;
mod dram_reference;
mod hierarchy;
mod lines_under_way;
mod memory_controller;
mod nodes;
