//! The Ambulator trace format: a header's body under a valid checksum.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_header(bytes));
