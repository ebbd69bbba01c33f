//! The same streams for DRAMsim3 and for this crate's DRAM.
//!
//! The test next to this folder compares our DRAM with what DRAMsim3 measured, in `dramsim3.json`.
//! `tools/dram-reference` includes this module too: it runs DRAMsim3 and writes that file
//! (`make dram-reference`). So both models are fed by one code, and told the same numbers.

pub mod measured;
pub mod memories;
pub mod ours;
pub mod streams;
