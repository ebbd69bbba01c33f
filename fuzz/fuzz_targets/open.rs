//! The foreign formats, recognised and decompressed (gz, xz, zstd) as a file would be.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_open(bytes));
