//! The other formats, told apart and unpacked (gz, xz, zstd) as for a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_trace::fuzz_open(bytes));
