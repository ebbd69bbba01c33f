//! Sequential TLB prefetching: the pages next to the one that missed.
//!
//! Source: Vanderwiel and Lilja, "Data Prefetch Mechanisms", ACM Computing Surveys 2000, for caches;
//! Kandiraju and Sivasubramaniam, "Going the Distance for TLB Prefetching", ISCA 2002, for TLBs, where it is
//! the *tagged* kind: a hit in the prefetch buffer prefetches as a miss does. Vavouliotis et al., "Exploiting
//! Page Table Locality for Agile TLB Prefetching", ISCA 2021, have it as SP, and the pages on both sides as
//! STP (±1, ±2).
//!
//! Choices.
//! - Nearest pages first.
//! - After a miss on a large page, the next page is the next large one.

#[cfg(test)]
mod tests;

use ambulator_base::State;
use ambulator_mmu::{Proposals, TlbMiss, TlbPrefetcher};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of sequential TLB prefetching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SequentialSpec {
    /// Pages that are prefetched after the one that missed.
    #[schemars(range(min = 1, max = 8), extend("x-unit" = "4 KiB pages", "x-source" = "Kandiraju and Sivasubramaniam, ISCA 2002 (1)"))]
    pub(crate) degree: u32,
    /// As many pages before it are prefetched too.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Vavouliotis et al., ISCA 2021: STP has both sides, SP has not"))]
    pub(crate) both_sides: bool,
}

impl Default for SequentialSpec {
    fn default() -> Self {
        SequentialSpec { degree: 1, both_sides: false }
    }
}

impl Settings for SequentialSpec {}

/// Proposes the pages next to the one that missed.
#[derive(State)]
pub(crate) struct Sequential(#[state(skip)] SequentialSpec);

impl TlbPrefetcher for Sequential {
    fn switch(&mut self) {}

    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals) {
        for step in 1..=i64::from(self.0.degree) {
            let distance = step * miss.frames as i64;
            proposals.push(miss, distance);
            if self.0.both_sides {
                proposals.push(miss, -distance);
            }
        }
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "tlb-sequential",
        "prefetches the translations of the pages next to the one that missed",
        "Vanderwiel and Lilja, ACM Computing Surveys 2000; Kandiraju and Sivasubramaniam, ISCA 2002 (SP)",
    )
    .fills(Socket::TlbPrefetch, "the next pages")
    .settings::<SequentialSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts { tlb_prefetcher: Some(Box::new(move |_| Box::new(Sequential(spec.clone())))), ..Parts::default() }
    })
}
