//! The Ambulator trace format, a whole file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_trace(bytes));
