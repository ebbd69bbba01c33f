//! How fast traces are written and read, and how small they are.
//!
//! ```sh
//! cargo run --release -p ambulator-trace --example trace_bench [TRACE]
//! ```
//!
//! Without a trace it uses a synthetic stream: a loop over an array, with a random access every third record.
//! With one it also prints a summary and the misses of a fully associative LRU TLB with 1,536 entries of 4
//! KiB, the best case for the second-level TLB of a desktop core.

use ambulator_base::{Batch, ProgramIdentity, Random, Record, RecordKind, RecordSource, VirtAddr};
use ambulator_trace::{TraceHeader, TraceOptions, TraceReader, TraceWriter, TraceWriterSpec, info, open_trace};
use std::error::Error;
use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

const ENTRIES: usize = 1536;

fn generated(records: u64) -> Vec<Record> {
    let mut random = Random::new(1);
    (0..records)
        .map(|i| Record {
            pc: VirtAddr(0x40_1000 + i % 12 * 4),
            va: VirtAddr(if i % 3 == 0 { random.below(1 << 30) & !7 } else { 0x7000_0000_0000 + i * 8 }),
            gap: (i % 4) as u32,
            dep1: u16::from(i % 3 == 1),
            dep2: 0,
            size: 8,
            kind: if i % 12 == 11 { RecordKind::Store } else { RecordKind::Load },
        })
        .collect()
}

fn measure(records: &[Record], level: i32) -> Result<(), Box<dyn Error>> {
    let header = TraceHeader { identity: ProgramIdentity::default(), ..TraceHeader::default() };
    let begun = Instant::now();
    let mut writer = TraceWriter::new(Vec::new(), header, &TraceWriterSpec { level, va_bits: 57 })?;
    records.iter().try_for_each(|record| writer.push(record))?;
    let bytes = writer.finish()?;
    let encode = begun.elapsed().as_secs_f64();
    let size = bytes.len();
    let mut reader = TraceReader::new(Cursor::new(bytes), "memory")?;
    let mut batch = Batch::default();
    let mut best = f64::MAX;
    for _ in 0..5 {
        reader.seek_record(0);
        let begun = Instant::now();
        let mut count = 0;
        while reader.fill(&mut batch)? {
            count += batch.records.len();
        }
        assert_eq!(count, records.len());
        best = best.min(begun.elapsed().as_secs_f64());
    }
    let millions = records.len() as f64 / 1e6;
    println!(
        "zstd {level:>2}: {:.3} bytes a record, {:>5.1} M records/s written, {:>6.1} M records/s read",
        size as f64 / records.len() as f64,
        millions / encode,
        millions / best
    );
    Ok(())
}

/// Misses of an LRU TLB, kept as a list by last use.
fn tlb_misses(records: &[Record]) -> u64 {
    let mut last_use = std::collections::HashMap::new();
    let mut by_use = std::collections::BTreeMap::new();
    let mut misses = 0;
    for (now, record) in records.iter().filter(|r| r.is_data()).enumerate() {
        let page = record.va.vpn().0;
        match last_use.insert(page, now) {
            Some(before) => drop(by_use.remove(&before)),
            None => {
                misses += 1;
                if by_use.len() == ENTRIES
                    && let Some((_, oldest)) = by_use.pop_first()
                {
                    last_use.remove(&oldest);
                }
            }
        }
        by_use.insert(now, page);
    }
    misses
}

fn main() -> Result<(), Box<dyn Error>> {
    let records = match std::env::args().nth(1) {
        None => generated(4 << 20),
        Some(path) => {
            let options = TraceOptions::default();
            let summary = info(Path::new(&path), &options)?;
            println!("{summary:#?}");
            let mut source = open_trace(Path::new(&path), &options)?;
            let (mut records, mut batch) = (Vec::new(), Batch::default());
            while source.fill(&mut batch)? {
                records.append(&mut batch.records);
            }
            let misses = tlb_misses(&records) as f64;
            println!("{:.2} TLB misses in 1,000 instructions", misses * 1e3 / summary.instructions.max(1) as f64);
            records
        }
    };
    for level in [1, 9, 19] {
        measure(&records, level)?;
    }
    Ok(())
}
