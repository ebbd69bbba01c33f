//! A comparison as a table in the terminal.

use crate::number::{bytes, count, short};
use ambulator_simulator::{RunResult, Status};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

type Value = fn(&RunResult) -> String;

fn percent(run: &RunResult, name: &str) -> String {
    format!("{:.0}", 100.0 * run.measure(name))
}

fn served(run: &RunResult) -> String {
    if run.measure("walk_accesses_mean") == 0.0 {
        return "-".into();
    }
    let mut shares = Vec::new();
    if run.measure("walk_served_l1") > 0.0 {
        shares.push(percent(run, "walk_served_l1"));
    }
    shares.extend(["walk_served_l2", "walk_served_llc", "walk_served_dram"].map(|name| percent(run, name)));
    shares.join("/")
}

fn of_walks(run: &RunResult, measure: &str) -> String {
    if run.counters.get("mmu.walks").is_none_or(|n| *n == 0) { "-".into() } else { short(run.measure(measure)) }
}

/// Rows of the table: label and value. All are simulated quantities.
const ROWS: [(&str, Value); 14] = [
    ("speed-up", |run| if run.ipc > 0.0 { format!("{:.3}x", run.speedup) } else { "-".into() }),
    ("instructions per cycle", |run| if run.ipc > 0.0 { format!("{:.3}", run.ipc) } else { "-".into() }),
    (
        "MMU cycles per access",
        |run| if run.ipc > 0.0 { short(run.measure("mmu_cycles_per_access")) } else { "-".into() },
    ),
    ("page walks", |run| count(run.counters.get("mmu.walks").copied().unwrap_or(0) as f64)),
    ("cycles a walk", |run| if run.ipc > 0.0 { of_walks(run, "walk_latency_mean") } else { "-".into() }),
    ("loads a walk", |run| of_walks(run, "walk_accesses_mean")),
    ("  from L2/LLC/DRAM, %", served),
    ("L1 TLB misses per 1000 instr.", |run| short(run.measure("l1_tlb_mpki"))),
    ("L2 TLB misses per 1000 instr.", |run| short(run.measure("l2_tlb_mpki"))),
    ("LLC misses per 1000 instr.", |run| short(run.measure("llc_mpki"))),
    ("page tables", |run| bytes(run.measure("table_bytes"))),
    ("largest contiguous allocation", |run| bytes(run.measure("table_largest_contiguous"))),
    ("page faults, set-up/measured", |run| {
        format!("{}/{}", count(run.measure("setup_page_faults")), count(run.measure("page_faults")))
    }),
    ("OS share of cycles", |run| {
        if run.ipc > 0.0 { format!("{:.1}%", 100.0 * run.measure("os_cycles_share")) } else { "-".into() }
    }),
];

/// The table: a row for each quantity, a column for each design. The simulator's own speed is reported
/// elsewhere.
pub fn comparison_table(runs: &[RunResult]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![Cell::new("simulated")];
    header.extend(runs.iter().map(|run| Cell::new(&run.design).set_alignment(CellAlignment::Right)));
    table.set_header(header);
    if runs.iter().any(|run| run.status != Status::Done) {
        let mut row = vec![Cell::new("status")];
        row.extend(runs.iter().map(|run| Cell::new(status_word(run.status)).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    for (name, value) in ROWS {
        let mut row = vec![Cell::new(name)];
        row.extend(runs.iter().map(|run| {
            let text = if run.simulated_instructions == 0 { "-".to_owned() } else { value(run) };
            Cell::new(text).set_alignment(CellAlignment::Right)
        }));
        table.add_row(row);
    }
    table.to_string()
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Done => "done",
        Status::Interrupted => "interrupted",
        Status::Outcome => "stopped",
        Status::Failed => "failed",
    }
}
