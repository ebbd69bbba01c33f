//! Feeds DRAMsim3 and Ambulator's DRAM the same streams.
//!
//! `dram-reference [TEXT]` shows both models' results for the memories and streams whose names have TEXT (as
//! `"DDR4-3200, a triad"`). `dram-reference --record` runs all streams, and writes DRAMsim3's results to the
//! file with which the tests of `ambulator-hardware` compare.

#[path = "../../../crates/hardware/tests/integration/dram_reference/harness.rs"]
mod harness;
mod reference;

use harness::measured::{Measured, OfMemory, Recorded, fingerprint};
use harness::memories::MEMORIES;
use harness::streams::streams;
use std::collections::BTreeMap;
use std::process::ExitCode;

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/hardware/tests/integration/dram_reference/dramsim3.json");

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let record = argument == "--record";
    let filter = if record { "" } else { &argument };
    let mut memories = BTreeMap::new();
    for memory in &MEMORIES {
        let mut results = BTreeMap::new();
        println!("\n{}\n", memory.name);
        println!(
            "| {:46} | mean, ns: DRAMsim3 | ours | | p99, ns: DRAMsim3 | ours | | GB/s: DRAMsim3 | ours | |",
            "stream"
        );
        println!("|{}|--:|--:|--:|--:|--:|--:|--:|--:|--:|", "-".repeat(48));
        let streams = streams(memory);
        let fingerprint = fingerprint(memory, &streams);
        for stream in streams {
            if !format!("{}, {}", memory.name, stream.name).contains(filter) {
                continue;
            }
            let name = stream.name.clone();
            let reference = match reference::measure(memory, stream.clone()) {
                Ok(measured) => {
                    row(&name, measured, harness::ours::measure(memory, stream));
                    Some(measured)
                }
                Err(message) => {
                    eprintln!("{message}");
                    None
                }
            };
            results.insert(name, reference);
        }
        memories.insert(memory.name.to_owned(), OfMemory { fingerprint, streams: results });
    }
    if !record {
        return ExitCode::SUCCESS;
    }
    let recorded = Recorded { version: "0.2.2".to_owned(), command: "make dram-reference".to_owned(), memories };
    let text = serde_json::to_string_pretty(&recorded).expect("a tree of names and numbers") + "\n";
    match std::fs::write(FILE, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{FILE}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn row(name: &str, reference: Measured, ours: Measured) {
    let off = |reference: f64, ours: f64| format!("{:+.1}%", 100.0 * (ours / reference - 1.0));
    println!(
        "| {name:46} | {:7.1} | {:7.1} | {:>7} | {:7.1} | {:7.1} | {:>7} | {:6.2} | {:6.2} | {:>7} |",
        reference.mean_ns,
        ours.mean_ns,
        off(reference.mean_ns, ours.mean_ns),
        reference.p99_ns,
        ours.p99_ns,
        off(reference.p99_ns, ours.p99_ns),
        reference.bandwidth,
        ours.bandwidth,
        off(reference.bandwidth, ours.bandwidth),
    );
}
