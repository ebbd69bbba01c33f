//! What limits a program: its cycle stack, and what a perfect TLB would gain.

use super::{Headroom, Part};
use ambulator_simulator::RunResult;
use serde::Serialize;

/// A share of the time from which on something is a limit.
pub(super) const WORTH_NAMING: f64 = 0.1;
/// Share of the time in which the memory buses carry data, from which on bandwidth is the limit and not
/// latency: turn-arounds, refreshes and row conflicts take much of the rest.
const BUSES_FULL: f64 = 0.5;

/// What limits a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Translation: its pages are more than the TLBs hold, and walks are short.
    TlbReach,
    /// Translation: walks are long, because caches do not hold the page tables.
    WalkLatency,
    /// Page faults, and other work of the kernel.
    Faults,
    /// Main memory transfers as much as it can.
    Bandwidth,
    /// Data come late, from caches or main memory.
    DataLatency,
    /// Branches are mispredicted.
    Branches,
    /// Instructions are fetched late.
    InstructionFetch,
}

/// Something that limits a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// What.
    pub kind: LimitKind,
    /// The share of the time that would be gone without it, at most.
    pub share: f64,
    /// A sentence with the numbers that say so.
    pub because: String,
}

/// The parts of a cycle stack: measure and words.
const PARTS: [(&str, &str); 11] = [
    ("cpi_base", "instructions that nothing delays"),
    ("cpi_branch", "mispredicted branches"),
    ("cpi_front", "instruction fetch"),
    ("cpi_tlb", "look-ups of TLBs"),
    ("cpi_walk", "page walks"),
    ("cpi_l1", "data from the L1 cache"),
    ("cpi_l2", "data from the L2 cache"),
    ("cpi_llc", "data from the last-level cache"),
    ("cpi_dram", "data from main memory"),
    ("cpi_stores", "stores"),
    ("cpi_os", "the operating system"),
];

/// Where the cycles go, the largest part first.
pub(super) fn parts(run: &RunResult) -> Vec<Part> {
    let all = run.measure("cpi");
    let part = |(measure, part): (&str, &'static str)| {
        let cycles = run.measure(measure);
        Part { part, share: if all > 0.0 { cycles / all } else { 0.0 }, cycles }
    };
    let mut parts: Vec<Part> = PARTS.into_iter().map(part).filter(|part| part.cycles > 0.0).collect();
    parts.sort_by(|a, b| b.cycles.total_cmp(&a.cycles));
    parts
}

/// The share of the cycles in these measures.
fn share(run: &RunResult, measures: &[&str]) -> f64 {
    let all = run.measure("cpi");
    let of: f64 = measures.iter().map(|name| run.measure(name)).sum();
    if all > 0.0 { of / all } else { 0.0 }
}

/// The share of the cycles that wait for TLBs and walks.
pub(super) fn translation_share(run: &RunResult) -> f64 {
    share(run, &["cpi_tlb", "cpi_walk"])
}

fn counter(run: &RunResult, name: &str) -> f64 {
    run.counters.get(name).copied().unwrap_or(0) as f64
}

/// The share of the time in which the memory buses carry data.
fn buses_busy(run: &RunResult) -> f64 {
    let channels = run.spec.pointer("/dram/channels").and_then(serde_json::Value::as_f64).unwrap_or(1.0);
    let time = run.cycles as f64 * channels.max(1.0);
    if time > 0.0 { counter(run, "hierarchy.dram.bus_busy") / time } else { 0.0 }
}

/// What limits a run, the largest first.
pub(super) fn limits(run: &RunResult, headroom: Option<&Headroom>) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut add = |kind: LimitKind, share: f64, because: String| {
        if share >= WORTH_NAMING {
            limits.push(Limit { kind, share, because });
        }
    };
    // Without the bound, the waits that nothing overlaps.
    let translation = match headroom {
        Some(of) if of.differs && of.speed_up > 1.0 => 1.0 - 1.0 / of.speed_up,
        Some(_) => 0.0,
        None => translation_share(run),
    };
    let (misses, latency) = (run.measure("l2_tlb_mpki"), run.measure("walk_latency_mean"));
    let far = ["walk_served_llc", "walk_served_dram"].map(|name| run.measure(name)).iter().sum::<f64>();
    let stack = |part: &str| counter(run, &format!("core.window.stack_{part}"));
    let near = stack("tlb_l1") + stack("tlb_l2") + stack("walk_l1") + stack("walk_l2");
    let long = stack("walk_llc") + stack("walk_dram");
    let (kind, because) = if long > near {
        let because = format!(
            "A page walk takes {latency:.0} cycles: {:.0}% of its loads come from the last-level cache or main memory. \
             There are {misses:.1} L2 TLB misses per 1000 instructions.",
            100.0 * far
        );
        (LimitKind::WalkLatency, because)
    } else if misses < 1.0 {
        let because = format!(
            "Its pages are more than the first-level TLB holds, and within the second: there are {:.1} misses of the first \
             per 1000 instructions, and {misses:.1} of the second.",
            run.measure("l1_tlb_mpki")
        );
        (LimitKind::TlbReach, because)
    } else {
        let because = format!(
            "Its pages are more than the TLBs hold: there are {misses:.1} L2 TLB misses per 1000 instructions. Walks are \
             short, {latency:.0} cycles."
        );
        (LimitKind::TlbReach, because)
    };
    add(kind, translation, because);
    let faults = 1000.0 * run.measure("page_faults") / run.simulated_instructions.max(1) as f64;
    let because = format!("There are {faults:.2} page faults per 1000 instructions.");
    add(LimitKind::Faults, share(run, &["cpi_os"]), because);
    let memory = share(run, &["cpi_dram", "cpi_stores"]);
    let caches = share(run, &["cpi_l1", "cpi_l2", "cpi_llc"]);
    let busy = buses_busy(run);
    if busy >= BUSES_FULL {
        let because = format!("The memory buses carry data {:.0}% of the time.", 100.0 * busy);
        add(LimitKind::Bandwidth, memory, because);
        add(
            LimitKind::DataLatency,
            caches,
            "Its data come from the caches, and its instructions wait for them.".into(),
        );
    } else {
        let because = format!(
            "Its instructions wait for data: {:.0}% of the time for main memory, {:.0}% for caches, while the memory buses \
             carry data {:.0}% of the time.",
            100.0 * memory,
            100.0 * caches,
            100.0 * busy
        );
        add(LimitKind::DataLatency, memory + caches, because);
    }
    let missed = 1000.0 * counter(run, "core.window.mispredictions") / run.simulated_instructions.max(1) as f64;
    let because = format!("{missed:.1} branches per 1000 instructions are mispredicted.");
    add(LimitKind::Branches, share(run, &["cpi_branch"]), because);
    let because = "Instructions, or their translations, come late.".to_owned();
    add(LimitKind::InstructionFetch, share(run, &["cpi_front"]), because);
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    limits
}
