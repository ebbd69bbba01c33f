//! A program's name and its settings, as `--program-set` takes them.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| ambulator_simulator::spec::fuzz_program(text));
