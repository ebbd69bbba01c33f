//! Ambulator beside a cycle-driven model of the same machine: `cycle_driven [INSTRUCTIONS [PROGRAM...]]`.
//!
//! Prints tables in Markdown: instructions per cycle, page walks and speed-ups of both, and the host's speed.

mod model;

use ambulator_base::RecordSource;
use ambulator_simulator::spec::{Spec, SpecRequest, load};
use ambulator_simulator::{Comparison, Job, RunResult, Silent, compare};
use ambulator_workloads::ProgramRequest;
use model::{Choices, Measured, Reference};
use std::sync::Arc;

/// Programs and their footprints in MiB.
const PROGRAMS: [(&str, u64); 5] =
    [("gups", 1024), ("pointer-chase", 1024), ("stream", 512), ("bfs", 512), ("pagerank", 512)];
const DESIGNS: [&str; 3] = ["radix", "thp", "perfect-tlb"];
/// Instructions before anything is counted.
const WARMUP: u64 = 1_000_000;

fn spec(design: &str, instructions: u64) -> Spec {
    let options = vec![
        "memory.bytes=8GiB".to_owned(),
        format!("run.warmup={WARMUP}"),
        format!("run.instructions={instructions}"),
    ];
    let request = SpecRequest {
        machine: Some("lvm-table1".into()),
        design: Some(design.into()),
        options,
        ..SpecRequest::default()
    };
    load(&request).unwrap_or_else(|e| panic!("{e}")).spec
}

fn open(name: &str, mib: u64) -> Box<dyn RecordSource> {
    let request =
        ProgramRequest { name: name.into(), footprint: Some(mib << 20), seed: 1, ..ProgramRequest::default() };
    ambulator_workloads::open(&request).unwrap_or_else(|e| panic!("{e}"))
}

/// How far `ours` is from `theirs`, as text.
fn distance(ours: f64, theirs: f64) -> String {
    format!("{:+.1}%", 100.0 * (ours / theirs - 1.0))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let instructions = arguments.first().map_or(2_000_000, |text| text.parse().expect("a number of instructions"));
    let chosen = |name: &str| arguments.len() < 2 || arguments[1..].iter().any(|asked| asked == name);
    let mut all = Vec::new();
    for (name, mib) in PROGRAMS.into_iter().filter(|(name, _)| chosen(name)) {
        let jobs = DESIGNS.map(|design| Job { design: design.into(), spec: spec(design, instructions) });
        let comparison = Comparison {
            jobs: jobs.into(),
            programs: vec![open(name, mib)],
            threads: 1,
            stop: Arc::default(),
            progress: Arc::new(Silent),
        };
        let ours = compare(comparison).unwrap_or_else(|e| panic!("{e}")).runs;
        let theirs = DESIGNS.map(|design| {
            let spec = spec(design, instructions);
            Reference::new(&spec, open(name, mib), Choices::FAITHFUL).run(WARMUP, instructions)
        });
        if std::env::var_os("CYCLE_DRIVEN_CHOICES").is_some() {
            let f = Choices::FAITHFUL;
            for (what, choices) in [
                ("first come, first served in a bank", Choices { first_ready: false, ..f }),
                ("reads and writes as they come", Choices { reads_first: false, ..f }),
                ("no turn-around", Choices { turn_around: false, ..f }),
                ("stores ask early", Choices { stores_commit_first: false, ..f }),
                (
                    "all",
                    Choices { first_ready: false, reads_first: false, turn_around: false, stores_commit_first: false },
                ),
            ] {
                for design in DESIGNS {
                    let m =
                        Reference::new(&spec(design, instructions), open(name, mib), choices).run(WARMUP, instructions);
                    println!(
                        "{name} {design} {what}: ipc {:.4} dram {:.2} rows {:.3}",
                        m.ipc(),
                        m.dram_latency,
                        m.row_hits
                    );
                }
            }
        }
        for (design, (ours, theirs)) in DESIGNS.iter().zip(ours.iter().zip(&theirs)) {
            detail(name, design, ours, theirs);
        }
        all.push((name, mib, ours, theirs));
    }
    println!("\n| program | design | cycle-driven IPC | Ambulator IPC | difference |\n|---|---|---|---|---|");
    for (name, mib, ours, theirs) in &all {
        for (design, (ours, theirs)) in DESIGNS.iter().zip(ours.iter().zip(theirs)) {
            let (a, b) = (ours.ipc, theirs.ipc());
            println!("| {name}, {mib} MiB | {design} | {b:.4} | {a:.4} | {} |", distance(a, b));
        }
    }
}

fn detail(name: &str, design: &str, ours: &RunResult, theirs: &Measured) {
    let get = |name: &str| ours.counters.get(name).copied().unwrap_or(0);
    println!("{name} {design}: {:?} {:?}", ours.status, ours.outcome);
    println!("  theirs ipc {:.4} {theirs:?}", theirs.ipc());
    let hits = get("memory.dram.data_row_hits") + get("memory.dram.table_row_hits");
    println!(
        "  ours   ipc {:.4} walks {} latency {:.2} loads {:.3} split {} faults {} rowhits {hits}",
        ours.ipc,
        get("mmu.walks"),
        ours.measure("walk_latency_mean"),
        ours.measure("walk_accesses_mean"),
        get("core.split_lines"),
        get("core.page_faults"),
    );
    if std::env::var_os("CYCLE_DRIVEN_COUNTERS").is_some() {
        for (name, value) in ours.counters.iter().filter(|(_, v)| **v != 0) {
            println!("     {name:44} {value}");
        }
    }
}
