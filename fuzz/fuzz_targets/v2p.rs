//! drmemtrace's `v2p.textproto`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_v2p(bytes));
