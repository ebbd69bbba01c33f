//! What a model made of a stream, and the file of it.

use super::memories::Memory;
use super::streams::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a model made of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Mean time from a read's request to its data, in ns.
    pub mean_ns: f64,
    /// The time that one read in a hundred exceeds, in ns.
    pub p99_ns: f64,
    /// Lines read and written, in GB/s.
    pub bandwidth: f64,
}

impl Measured {
    /// Of the latencies of all reads in ns, and of `lines` read and written in `ns`. Rounded to picoseconds
    /// and MB/s.
    pub fn new(mut latencies: Vec<f64>, lines: usize, ns: f64) -> Measured {
        latencies.sort_by(f64::total_cmp);
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        Measured {
            mean_ns: round(latencies.iter().sum::<f64>() / latencies.len() as f64),
            p99_ns: round(latencies[latencies.len() * 99 / 100]),
            bandwidth: round(lines as f64 * 64.0 / ns),
        }
    }
}

/// The file of DRAMsim3's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The version of the crate `dramsim3`.
    pub version: String,
    /// The command that made the file.
    pub command: String,
    pub memories: BTreeMap<String, OfMemory>,
}

/// Results of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfMemory {
    /// Of the memory and the streams that DRAMsim3 was given: other ones have other results.
    pub fingerprint: u64,
    /// By stream. None: DRAMsim3 does not sustain this load.
    pub streams: BTreeMap<String, Option<Measured>>,
}

/// FNV-1a of a memory and its streams, before their first request.
pub fn fingerprint(memory: &Memory, streams: &[Stream]) -> u64 {
    let told = format!("{memory:?} {streams:?}");
    told.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
