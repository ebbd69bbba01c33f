//! DynamoRIO's drmemtrace.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_drmemtrace(bytes));
