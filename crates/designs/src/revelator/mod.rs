//! Revelator: the kernel places pages by hash, so that the hardware can guess where they are and fetch them while it walks.
//!
//! Source: Kanellopoulos et al., "Revelator: Rapid Data Fetching via OS-Driven Hash-based Speculative Address Translation", 2025.
//!
//! - Sec. 5.1, the hash function with a seed for each tier, and the analytical model: `tiers.rs`.
//! - OS half, Sec. 5.1, 5.2: [`HashPlacement`] for data frames, [`HashedLeaves`] for the last level of radix tables, in `placement.rs`.
//! - Hardware half, Sec. 5.3: the speculation [`Engine`] and its degree filter, in `engine.rs`. The MMU issues what it guesses, beside the walk.
//!
//! - Virtual machines, Sec. 5.5: the guest tells which page each of its frames holds, and the hypervisor's [`HypervisorPlacement`] hashes the guest-virtual page, so that
//!   the engine guesses host-physical from guest-virtual. Guest frames that are used no more are given back at once.
//! - Past the paper (its Sec. 7.3 leaves it open), `nested`: the guest hashes its frames in its own memory too, and the hypervisor the last-level nodes of its own
//!   tree by guest-physical address; so the lines of a nested walk's own last entries are guessed, through two hashes: the guest's, then the hypervisor's. The guest
//!   hashes runs of 512 pages, so that the hypervisor's entries for neighbours stay neighbours.
//!
//! Choices.
//! - Pages of 2 MiB are hashed to blocks of 2 MiB, in tiers of their own. The engine orders the tiers of both sizes by how much of memory each gave.
//! - The degree filter fetches a candidate that is right at least as often as `least_share` says, and as often as buses are in use: the share of its tier
//!   among allocations against the share of DRAM's bandwidth used in the last 2000 cycles. Guesses that would wait for a line's register of the L2 are dropped.
//! - The perfect filter fetches a candidate only if its frame is told to be the process's own for that page. It is an ideal to compare with; pages that a fork left
//!   shared are told as the parent's.
//! - Confined speculation asks who owns a candidate's frame before it is fetched, which costs `confine_latency`; what is not the process's own is not
//!   fetched. Frames of tables are the kernel's and are not data candidates of anybody.
//! - Over page tables other than radix only data is guessed.

mod engine;
mod placement;
#[cfg(test)]
mod tests;
mod tiers;

pub use engine::{Engine, EngineCounters};
pub use placement::{HashPlacement, HashedLeaves, HypervisorPlacement, LeavesOf, Shared, TierCounters};
pub use tiers::{Kind, MOST_TIERS, Space, Told, Use, expected_success, frame, frame_of_run};

use ambulator_base::Invalid;
use ambulator_sockets::{Descriptor, Parts, Settings, Site, Socket, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What keeps candidates back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DegreeFilter {
    /// Tiers that give little, and buses that are busy.
    #[default]
    Adaptive,
    /// Nothing.
    None,
    /// That a candidate is wrong.
    Perfect,
}

/// Settings of Revelator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevelatorSpec {
    /// Hash functions that are tried in order: 1 to 8.
    #[schemars(extend("x-unit" = "count", "x-source" = "Revelator Table 1 (6)"))]
    pub tiers: u32,
    /// Share of all frames that hashing finds taken though they are not, as if by others: pressure of a memory that is fuller than the modelled one.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "Revelator Sec. 6.3 (memory pressure)"))]
    pub taken: f64,
    /// Share of pages, and of nodes, that hashing may place; the others go wherever the buddy allocator has room.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "Revelator Sec. 6.3 (0.7 to 0.8 under low, 0.1 to 0.2 under high pressure)"))]
    pub hashable: f64,
    /// Whether data lines are guessed.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Revelator Sec. 5.3"))]
    pub data: bool,
    /// Whether table lines of the last level are guessed, and its nodes placed by hash; of radix tables only.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Revelator Sec. 5.2"))]
    pub table: bool,
    /// Whether, in a virtual machine, lines of the hypervisor's table are guessed too; of radix tables only.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ours: Revelator Sec. 7.3 leaves it open"))]
    pub nested: bool,
    /// What keeps candidates back.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 5.3.2, Fig. 16"))]
    pub filter: DegreeFilter,
    /// The adaptive filter fetches only candidates of tiers that gave at least this share.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "our choice, by trial; Revelator Sec. 5.3.2 has no number"))]
    pub least_share: f64,
    /// Cycles from the L2 TLB's miss to the issue of the candidates.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "our choice: a hash in one cycle"))]
    pub latency: u8,
    /// Whether only frames of the process are fetched.
    #[schemars(extend("x-unit" = "flag", "x-source" = "ours: the paper does not confine"))]
    pub confine: bool,
    /// Cycles of asking who owns a frame, where speculation is confined.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub confine_latency: u8,
}

impl Default for RevelatorSpec {
    fn default() -> Self {
        RevelatorSpec {
            tiers: 6,
            taken: 0.0,
            hashable: 1.0,
            data: true,
            table: true,
            nested: false,
            filter: DegreeFilter::Adaptive,
            least_share: 0.3,
            latency: 1,
            confine: false,
            confine_latency: 4,
        }
    }
}

impl Settings for RevelatorSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !(1..=MOST_TIERS as u32).contains(&self.tiers) {
            wrong.push(Invalid::new(
                format!("{at}.tiers"),
                format!("is {}; there are 1 to {MOST_TIERS} hash functions", self.tiers),
            ));
        }
        for (key, share) in [("taken", self.taken), ("hashable", self.hashable), ("least_share", self.least_share)] {
            if !(0.0..=1.0).contains(&share) {
                wrong.push(Invalid::new(format!("{at}.{key}"), format!("is {share}; a share lies between 0 and 1")));
            }
        }
        if self.latency > 100 || self.confine_latency > 100 {
            wrong.push(
                Invalid::new(
                    format!("{at}.latency"),
                    format!(
                        "and `{at}.confine_latency` are {} and {}; give 100 cycles at most each",
                        self.latency, self.confine_latency
                    ),
                )
                .and(format!("{at}.confine_latency")),
            );
        }
        wrong
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "revelator",
        "guesses data and table lines by the hash functions that the kernel places by",
        "Kanellopoulos et al., Revelator, 2025",
    )
    .fills(Socket::Speculation, "candidate lines of the data and of the last table entry, tier by tier")
    .fills(Socket::Placement, "the frame that a hash of the page names, tier by tier")
    .formerly_called("tiered-hash")
    .formerly("design.speculation.revelator.", "revelator.")
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
    // Of tables whose nodes it does not place no lines are guessed.
    let nested = spec.nested && hypervisor_takes_nodes;
    let own = RevelatorSpec { nested, ..spec.clone() };
    let guesses = is_in(Socket::Speculation) && site.takes_nodes;
    let engine = RevelatorSpec { table: own.table && guesses, ..own.clone() };
    let mut parts = Parts::default();
    if guesses && (own.table || own.nested) {
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
