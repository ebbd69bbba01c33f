//! A whole machine of any design, with the oracle, on whatever program the bytes make.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ambulator_simulator::fuzz_machine(bytes);
});
