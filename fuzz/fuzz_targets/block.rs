//! The Ambulator trace format: a block's payload under valid checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_block(bytes));
