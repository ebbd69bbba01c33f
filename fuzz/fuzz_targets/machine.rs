//! A whole machine, with the oracle, on a trace made of the bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ambulator_simulator::fuzz_machine(bytes));
