//! The memory that a captured program shares with its recorder.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_wire(bytes));
