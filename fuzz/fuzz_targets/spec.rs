//! Spec files, options, sizes and counts: everything that parses user input.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| ambulator_simulator::spec::fuzz_spec(text));
