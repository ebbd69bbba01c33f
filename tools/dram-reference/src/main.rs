//! Feeds DRAMsim3 and Ambulator's DRAM the same streams.
//!
//! `dram-reference [TEXT]` shows both models' results for the memories and streams whose names have TEXT (as
//! `"DDR4-3200, a triad"`). `dram-reference --record` runs all streams, and writes DRAMsim3's results to the
//! file with which the tests of `ambulator-hardware` compare, and both models' to a page of the book.

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

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/dramsim3.md");
const HEAD: &str = "\
# All streams beside DRAMsim3

`make dram-reference` writes this page. What the streams are, how far the models may be apart, and which rules differ,
says [the machine model](machine-model.md#measured-against-dramsim3). Loads are in percent of the bus, those of one bank in
percent of a row each tRC.
";

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let record = argument == "--record";
    let filter = if record { "" } else { &argument };
    let mut memories = BTreeMap::new();
    let mut page = HEAD.to_owned();
    let mut say = |line: String| {
        println!("{line}");
        page += &line;
        page.push('\n');
    };
    for memory in &MEMORIES {
        let mut results = BTreeMap::new();
        say(format!("\n## {}\n", memory.name));
        say("| stream | DRAMsim3, mean ns | Ambulator, mean ns | difference | DRAMsim3, p99 ns | Ambulator, p99 ns | \
             difference | DRAMsim3, GB/s | Ambulator, GB/s | difference |"
            .to_owned());
        say("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|".to_owned());
        let mut unsustained = Vec::new();
        let streams = streams(memory);
        let fingerprint = fingerprint(memory, &streams);
        for stream in streams {
            if !format!("{}, {}", memory.name, stream.name).contains(filter) {
                continue;
            }
            let name = stream.name.clone();
            let reference = match reference::measure(memory, stream.clone()) {
                Ok(measured) => {
                    say(row(&name, measured, harness::ours::measure(memory, stream)));
                    Some(measured)
                }
                Err(message) => {
                    eprintln!("{message}");
                    unsustained.push(name.clone());
                    None
                }
            };
            results.insert(name, reference);
        }
        if !unsustained.is_empty() {
            say(format!("\nDRAMsim3 does not sustain: {}.", unsustained.join("; ")));
        }
        memories.insert(memory.name.to_owned(), OfMemory { fingerprint, streams: results });
    }
    if !record {
        return ExitCode::SUCCESS;
    }
    let recorded = Recorded { version: "0.2.2".to_owned(), command: "make dram-reference".to_owned(), memories };
    let text = serde_json::to_string_pretty(&recorded).expect("a tree of names and numbers") + "\n";
    for (file, text) in [(FILE, text), (PAGE, page)] {
        if let Err(error) = std::fs::write(file, text) {
            eprintln!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn row(name: &str, reference: Measured, ours: Measured) -> String {
    let off = |reference: f64, ours: f64| format!("{:+.1}%", 100.0 * (ours / reference - 1.0));
    format!(
        "| {name} | {:.1} | {:.1} | {} | {:.1} | {:.1} | {} | {:.2} | {:.2} | {} |",
        reference.mean_ns,
        ours.mean_ns,
        off(reference.mean_ns, ours.mean_ns),
        reference.p99_ns,
        ours.p99_ns,
        off(reference.p99_ns, ours.p99_ns),
        reference.bandwidth,
        ours.bandwidth,
        off(reference.bandwidth, ours.bandwidth),
    )
}
