//! The store of finished cells, as `reproduce` reads it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_experiments::fuzz_store(bytes));
