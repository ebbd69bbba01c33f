//! A whole machine, with the oracle, on whatever trace the bytes make.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_simulator::fuzz_machine(bytes));
