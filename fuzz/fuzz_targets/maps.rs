//! Copies of `/proc/PID/maps`, as `layout` reads them.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| ambulator_experiments::fuzz_maps(text));
