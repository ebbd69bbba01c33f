//! Records a second that each kernel generates, and how long its graph takes:
//! `cargo run --release -p ambulator-workloads --example generate_bench [footprint in MiB]`.

use ambulator_base::{Batch, Record};
use ambulator_workloads::{ProgramRequest, open};
use serde_json::json;
use std::time::Instant;

fn main() {
    let mebibytes = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1024u64);
    println!("{:<44} {:>9} {:>12} {:>16} {:>14}", "program", "open s", "set-up s", "M records/s", "instr/record");
    for (name, settings) in [
        ("gups", json!({})),
        ("gups", json!({ "streams": 1 })),
        ("gups", json!({ "index": "multiply-shift" })),
        ("pointer-chase", json!({})),
        ("stream", json!({})),
        ("bfs", json!({})),
        ("bfs", json!({ "layout": "csr" })),
        ("pagerank", json!({})),
        ("pagerank", json!({ "layout": "csr" })),
    ] {
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
        // Counted apart, so that the rate is the generator's alone.
        let mut counted = 0;
        while counted < 3_000_000 && source.fill(&mut batch).unwrap_or(false) {
            counted += batch.records.len() as u64;
            instructions += batch.records.iter().map(Record::instructions).sum::<u64>();
        }
        let per_record = instructions as f64 / counted.max(1) as f64;
        println!("{title:<44} {opened:>9.2} {set_up:>12.3} {rate:>16.1} {per_record:>14.2}");
    }
}
