//! Graphs from files: edge lists, Matrix Market, GAP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_workloads::graph::input::fuzz_graph(bytes));
