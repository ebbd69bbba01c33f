//! gem5's packet and elastic traces.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_gem5(bytes));
