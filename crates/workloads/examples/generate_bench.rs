//! Measures the records per second that each program generates, and the time to build its graph:
//! `cargo run --release -p ambulator-workloads --example generate_bench [footprint in MiB [program ...]]`.

use ambulator_base::{Batch, Record};
use ambulator_workloads::{ProgramRequest, open, programs};
use serde_json::json;
use std::time::Instant;

/// Programs over graphs.
const GRAPHS: [&str; 9] = ["bc", "bfs", "cc", "dc", "dfs", "gc", "pagerank", "sssp", "tc"];

fn main() {
    let mebibytes = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1024u64);
    println!("{:<44} {:>9} {:>12} {:>16} {:>14}", "program", "open s", "set-up s", "M records/s", "instr/record");
    let mut programs: Vec<_> = programs().iter().map(|program| (program.info.name, json!({}))).collect();
    programs.extend([("gups", json!({ "streams": 1 })), ("gups", json!({ "index": "multiply-shift" }))]);
    programs.extend(GRAPHS.map(|name| (name, json!({ "layout": "csr" }))));
    programs.extend(GRAPHS.map(|name| (name, json!({ "layout": "csr", "graph": { "storage": "streaming" } }))));
    let only: Vec<String> = std::env::args().skip(2).collect();
    for (name, settings) in programs.into_iter().filter(|(name, _)| only.is_empty() || only.iter().any(|o| o == name)) {
        let settings = settings.as_object().cloned().unwrap_or_default();
        let title = format!("{name} {}", serde_json::to_string(&settings).unwrap_or_default());
        let request =
            ProgramRequest { name: name.into(), settings, footprint: Some(mebibytes << 20), seed: 1, label: None };
        let start = Instant::now();
        let mut source = match open(&request) {
            Ok(source) => source,
            Err(e) => {
                println!("{title:<44} {e}");
                continue;
            }
        };
        let opened = start.elapsed().as_secs_f64();
        let mut batch = Batch::default();
        let start = Instant::now();
        while batch.records.is_empty() && source.fill(&mut batch).unwrap_or(false) {}
        let set_up = start.elapsed().as_secs_f64();
        let (mut records, mut instructions) = (0u64, 0u64);
        let start = Instant::now();
        while records < 150_000_000 && source.fill(&mut batch).unwrap_or(false) {
            records += batch.records.len() as u64;
        }
        let rate = records as f64 / start.elapsed().as_secs_f64() / 1e6;
        // Counted separately, so that the rate is the generator's alone.
        let mut counted = 0;
        while counted < 3_000_000 && source.fill(&mut batch).unwrap_or(false) {
            counted += batch.records.len() as u64;
            instructions += batch.records.iter().map(Record::instructions).sum::<u64>();
        }
        let per_record = instructions as f64 / counted.max(1) as f64;
        println!("{title:<44} {opened:>9.2} {set_up:>12.3} {rate:>16.1} {per_record:>14.2}");
    }
}
