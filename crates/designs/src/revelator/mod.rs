//! Revelator: the kernel places pages by hash, so that the hardware can predict their frames and fetch data
//! during the walk.
//!
//! Source: Kanellopoulos et al., "Revelator: Rapid Data Fetching via OS-Driven Hash-based Speculative Address
//! Translation", 2025.
//!
//! - Sec. 5.1, the hash function with a seed for each tier, and the analytical model: `tiers.rs`.
//! - OS half, Sec. 5.1, 5.2: `HashPlacement` for data frames, `HashedLeaves` for the last level of radix
//!   tables, in `placement.rs`.
//! - Hardware half, Sec. 5.3: the speculation `Engine` and its degree filter, in `engine.rs`. The MMU issues
//!   its predictions in parallel with the walk.
//! - Virtual machines, Sec. 5.5: the guest passes the page of each of its frames to the hypervisor, whose
//!   `HypervisorPlacement` hashes the guest-virtual page, so the engine predicts system-physical from
//!   guest-virtual addresses. Unused guest frames are released at once.
//! - Beyond the paper (its Sec. 7.3 leaves it open), `nested`: the guest hashes its frames in its own memory
//!   too, and the hypervisor hashes the last-level nodes of its tree by guest-physical address. So the lines
//!   of a nested walk's last entries are predicted by two hashes: the guest's, then the hypervisor's. The
//!   guest hashes runs of 512 pages, so that the hypervisor's entries for adjacent pages stay adjacent.
//!
//! Choices.
//! - 2 MiB pages are hashed to 2 MiB blocks, in separate tiers. The engine orders the tiers of both sizes by
//!   the amount of memory allocated through each.
//! - The degree filter fetches a candidate if its tier's share of allocations makes it save more than it
//!   costs, by the walks and the DRAM bandwidth that it sees (`benefit.rs`). Predictions that would wait for
//!   an MSHR of the L2 are dropped.
//! - The perfect filter fetches a candidate only if the placement hints confirm that its frame belongs to the
//!   process and page. It is an ideal for comparison. Pages shared after a fork count as the parent's.
//! - Confined speculation checks the owner of a candidate's frame before the fetch, which costs
//!   `confine_latency`; only the process's own frames are fetched. Frames of page tables belong to the kernel
//!   and never match as data.
//! - With page tables other than radix, only data is predicted.

mod benefit;
mod engine;
mod placement;
#[cfg(test)]
mod tests;
mod tiers;

use engine::Engine;
use placement::{HashPlacement, HashedLeaves, HypervisorPlacement, LeavesOf, Shared};
use tiers::MOST_TIERS;

use ambulator_sockets::{Descriptor, Parts, Settings, Site, Socket, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The degree filter: which candidates are not fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DegreeFilter {
    /// Those that are expected to cost more than they save.
    #[default]
    Adaptive,
    /// None.
    None,
    /// All wrong ones.
    Perfect,
}

/// Settings of Revelator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevelatorSpec {
    /// Hash functions, tried in order: 1 to 8.
    #[schemars(range(min = 1, max = MOST_TIERS), extend("x-unit" = "count", "x-source" = "Revelator Table 1 (6)"))]
    pub tiers: u32,
    /// Share of all frames that hashing treats as allocated although they are free: emulates higher memory
    /// pressure.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Revelator Sec. 6.3 (memory pressure)"))]
    pub taken: f64,
    /// Share of pages that hashing may place; the others go wherever the buddy allocator has room.
    #[schemars(range(min = 0.0, max = 1.0), extend(
        "x-unit" = "ratio",
        "x-source" = "Revelator Sec. 6.3 (0.7 to 0.8 at low, 0.1 to 0.2 at high pressure)"
    ))]
    pub hashable: f64,
    /// Share of last-level table nodes that hashing may place.
    #[schemars(range(min = 0.0, max = 1.0), extend(
        "x-unit" = "ratio",
        "x-source" = "Revelator Sec. 5.2 (likelier than pages) without a number; Fig. 15 suggests 0.47 at high pressure"
    ))]
    pub hashable_nodes: f64,
    /// Whether data lines are predicted.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Revelator Sec. 5.3"))]
    pub data: bool,
    /// Whether last-level table lines are predicted, and its nodes placed by hash; only for radix tables.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Revelator Sec. 5.2"))]
    pub table: bool,
    /// Whether, in a virtual machine, lines of the hypervisor's table are predicted too; only for radix
    /// tables.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ours: Revelator Sec. 7.3 leaves it open"))]
    pub nested: bool,
    /// The degree filter: which candidates are not fetched.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 5.3.2, Fig. 16"))]
    pub filter: DegreeFilter,
    /// What a wrong data line costs other accesses while buses are idle: the adaptive filter fetches a
    /// candidate if it expects to save more.
    #[schemars(range(min = 0.0, max = 100_000.0), extend(
        "x-unit" = "cycles",
        "x-source" = "our choice: measured, 43 (BFS, DLRM 46) to 99 (GUPS, whose buses are busy) on the paper's machine; Revelator Sec. 5.3.2 has no number"
    ))]
    pub wrong_data_cost: f64,
    /// What a wrong line of the last-level table costs other accesses while buses are idle.
    #[schemars(range(min = 0.0, max = 100_000.0), extend(
        "x-unit" = "cycles",
        "x-source" = "our choice: with 45, BC fetches two lines of the table for each miss, and loses 7% by it; Revelator Sec. 5.3.2 has no number"
    ))]
    pub wrong_entry_cost: f64,
    /// The most that the adaptive filter expects a right data line to save: its latency from main memory.
    #[schemars(range(min = 0.0, max = 100_000.0), extend(
        "x-unit" = "cycles",
        "x-source" = "our choice: the path through the caches and a row miss of DDR4-2400 at 2.9 GHz, about 150"
    ))]
    pub line_latency: f64,
    /// Cycles from the L2 TLB miss to the issue of the candidates.
    #[schemars(range(max = 100), extend("x-unit" = "cycles", "x-source" = "our choice: a hash in one cycle"))]
    pub latency: u8,
    /// Whether only frames of the process are fetched.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ours: the paper does not confine"))]
    pub confine: bool,
    /// Cycles to check the owner of a frame in confined speculation.
    #[schemars(range(max = 100), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub confine_latency: u8,
}

impl Default for RevelatorSpec {
    fn default() -> Self {
        RevelatorSpec {
            tiers: 6,
            taken: 0.0,
            hashable: 1.0,
            hashable_nodes: 1.0,
            data: true,
            table: true,
            nested: false,
            filter: DegreeFilter::Adaptive,
            wrong_data_cost: 45.0,
            wrong_entry_cost: 65.0,
            line_latency: 150.0,
            latency: 1,
            confine: false,
            confine_latency: 4,
        }
    }
}

impl Settings for RevelatorSpec {}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "revelator",
        "predicts data and table lines with the hash functions by which the kernel places pages",
        "Kanellopoulos et al., Revelator, 2025",
    )
    .fills(Socket::Speculation, "candidate lines of the data and of the last table entry, tier by tier")
    .fills(Socket::Placement, "the frame given by a hash of the page, tier by tier")
    .formerly_called("tiered-hash")
    .formerly("design.speculation.revelator.", "revelator.")
    .formerly("revelator.least_share", "revelator.wrong_data_cost")
    .formerly("revelator.wrong_cost", "revelator.wrong_data_cost")
    .settings::<RevelatorSpec>()
    .build(parts)
}

fn parts(spec: &RevelatorSpec, site: Site) -> Parts {
    let tiers = Shared::default();
    let is_in = |socket| site.design.holds(socket, "revelator");
    let (guest, of, hypervisor_takes_nodes) = match site.stage {
        Stage::Guest { hypervisor_takes_nodes } => (true, LeavesOf::Guest, hypervisor_takes_nodes),
        _ => (false, LeavesOf::Machine, false),
    };
    // Lines of tables are predicted only if their nodes are placed by hash.
    let nested = spec.nested && hypervisor_takes_nodes;
    let own = RevelatorSpec { nested, ..spec.clone() };
    let predicts_table = is_in(Socket::Speculation) && site.takes_nodes;
    let engine = RevelatorSpec { table: own.table && predicts_table, ..own.clone() };
    let mut parts = Parts::default();
    if predicts_table && (own.table || own.nested) {
        parts.nodes = Some(HashedLeaves::of_processes(of, &own, Shared::clone(&tiers)));
    }
    parts.placement = Some(match guest {
        true => Box::new(HashPlacement::of_guest(&own, Shared::clone(&tiers))),
        false => Box::new(HashPlacement::new(&own, Shared::clone(&tiers))),
    });
    if guest && is_in(Socket::Placement) {
        parts.hypervisor.placement = Some(Box::new(HypervisorPlacement::new(spec, Shared::clone(&tiers))));
        if nested {
            let nodes = HashedLeaves::of_processes(LeavesOf::Hypervisor, spec, Shared::clone(&tiers));
            parts.hypervisor.nodes = Some(nodes);
        }
    }
    parts.speculator = Some(Box::new(move |_| Box::new(Engine::new(&engine, guest, Shared::clone(&tiers)))));
    parts
}
