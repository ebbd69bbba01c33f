//! Revelator: the kernel places pages by hash, so that the hardware can guess where they are and fetch them while it walks.
//!
//! Source: Kanellopoulos et al., "Revelator: Rapid Data Fetching via OS-Driven Hash-based Speculative Address Translation", 2025.
//!
//! - Sec. 5.1, the hash function with a seed for each tier, and the analytical model: `tiers.rs`.
//! - OS half, Sec. 5.1, 5.2: [`HashPlacement`] for data frames, [`HashedLeaves`] for the last level of radix tables, in `placement.rs`.
//! - Hardware half, Sec. 5.3: the speculation [`Engine`] and its degree filter, in `engine.rs`. The MMU issues what it guesses, beside the walk.
//!
//! Choices.
//! - Pages of 2 MiB are hashed to blocks of 2 MiB, in tiers of their own. The engine orders the tiers of both sizes by how much of memory each gave.
//! - The degree filter issues the likeliest candidates until together they have given the share of pages that `coverage` names (0.9); where DRAM's buses
//!   were busier than `bandwidth_limit` in the last 2000 cycles, the likeliest alone.
//! - Confined speculation asks who owns a candidate's frame before it is fetched, which costs `confine_latency`; what is not the process's own is not
//!   fetched. Frames of tables are the kernel's and are not data candidates of anybody.
//! - Over page tables other than radix only data is guessed.

mod engine;
mod placement;
#[cfg(test)]
mod tests;
mod tiers;

pub use engine::{Engine, EngineCounters};
pub use placement::{HashPlacement, HashedLeaves, HashedLeavesFactory, Shared, TierCounters};
pub use tiers::{Kind, MOST_TIERS, Told, expected_success, frame};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of Revelator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevelatorSpec {
    /// Hash functions that are tried in order: 1 to 8.
    #[schemars(extend("x-unit" = "count", "x-source" = "Revelator Table 1 (6)"))]
    pub tiers: u32,
    /// Whether data lines are guessed.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Revelator Sec. 5.3"))]
    pub data: bool,
    /// Whether table lines of the last level are guessed, and its nodes placed by hash; of radix tables only.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Revelator Sec. 5.2"))]
    pub table: bool,
    /// Candidates for each guess at most; 0 lets the filter choose.
    #[schemars(extend("x-unit" = "count", "x-source" = "Revelator Sec. 5.3.2"))]
    pub degree: u32,
    /// The share of pages that the filter's candidates are to have given.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "our choice; Revelator Sec. 5.3.2 has no number"))]
    pub coverage: f64,
    /// The share of DRAM's bandwidth in use above which only the likeliest candidate is fetched.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "our choice; Revelator Sec. 5.3.2 has no number"))]
    pub bandwidth_limit: f64,
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
            data: true,
            table: true,
            degree: 0,
            coverage: 0.9,
            bandwidth_limit: 0.8,
            latency: 1,
            confine: false,
            confine_latency: 4,
        }
    }
}

impl RevelatorSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(1..=MOST_TIERS as u32).contains(&self.tiers) {
            wrong.push(format!("`{at}.tiers` is {}; there are 1 to {MOST_TIERS} hash functions", self.tiers));
        }
        if self.degree > 8 {
            wrong.push(format!(
                "`{at}.degree` is {}; 8 candidates are issued at most, and 0 lets the filter choose",
                self.degree
            ));
        }
        for (key, share) in [("coverage", self.coverage), ("bandwidth_limit", self.bandwidth_limit)] {
            if !(0.0..=1.0).contains(&share) {
                wrong.push(format!("`{at}.{key}` is {share}; a share lies between 0 and 1"));
            }
        }
        if self.latency > 100 || self.confine_latency > 100 {
            wrong.push(format!(
                "`{at}.latency` and `{at}.confine_latency` are {} and {}; give 100 cycles at most each",
                self.latency, self.confine_latency
            ));
        }
        wrong
    }
}
