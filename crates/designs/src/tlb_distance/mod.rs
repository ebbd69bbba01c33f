//! Distance TLB prefetching: which distance between missing pages follows which.
//!
//! Source: Kandiraju and Sivasubramaniam, "Going the Distance for TLB Prefetching", ISCA 2002. A table has a
//! row for each distance between two pages that missed one after the other; the row holds the distances that
//! came next. At a miss, the row of the latest distance says where the next misses may be. Then the row of
//! the distance before learns the latest.
//!
//! The table's size is that of Vavouliotis et al., ISCA 2021; the first paper has tables of 32 to 1024 rows.
//!
//! Choices.
//! - Distances of all instructions are one sequence, as in the paper.
//! - A row is made when it first learns a distance; those of a row are proposed with the latest first.

#[cfg(test)]
mod tests;

use ambulator_base::{Invalid, State};
use ambulator_mmu::{Proposals, TlbMiss, TlbPrefetcher, TlbSpec};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use ambulator_structures::tlb_prefetch::{DistanceTable, LatestDistances, MOST_SUCCESSORS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of distance TLB prefetching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DistanceSpec {
    /// Rows of the table, one for each distance.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "Vavouliotis et al., ISCA 2021 (64)"))]
    pub(crate) entries: u32,
    /// Associativity of the table; 0 is fully associative.
    #[schemars(range(max = 256), extend("x-unit" = "ways", "x-source" = "Vavouliotis et al., ISCA 2021 (4)"))]
    pub(crate) ways: u32,
    /// Distances that a row holds.
    #[schemars(range(min = 1, max = MOST_SUCCESSORS), extend("x-unit" = "count", "x-source" = "Kandiraju and Sivasubramaniam, ISCA 2002 (2)"))]
    pub(crate) slots: u32,
}

impl Default for DistanceSpec {
    fn default() -> Self {
        DistanceSpec { entries: 64, ways: 4, slots: 2 }
    }
}

impl Settings for DistanceSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        TlbSpec::new(self.entries, self.ways).validate(at)
    }
}

/// Proposes pages by the distances that followed the latest one.
#[derive(State)]
pub(crate) struct Distances {
    table: DistanceTable,
    latest: LatestDistances,
}

impl Distances {
    pub(crate) fn new(spec: &DistanceSpec) -> Distances {
        Distances { table: DistanceTable::new(spec.entries, spec.ways, spec.slots), latest: LatestDistances::default() }
    }
}

impl TlbPrefetcher for Distances {
    fn switch(&mut self) {
        self.table.clear();
        self.latest.clear();
    }

    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals) {
        let (distance, before) = self.latest.to(miss.page);
        if let Some(distance) = distance {
            self.table.after(distance).for_each(|next| proposals.push(miss, next));
            if let Some(before) = before {
                self.table.learn(before, distance);
            }
        }
        self.latest.push(miss.page);
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "tlb-distance",
        "prefetches translations by the distances that followed the latest distance between missing pages",
        "Kandiraju and Sivasubramaniam, Going the Distance for TLB Prefetching, ISCA 2002",
    )
    .fills(Socket::TlbPrefetch, "a table of distances")
    .settings::<DistanceSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts { tlb_prefetcher: Some(Box::new(move |_| Box::new(Distances::new(&spec)))), ..Parts::default() }
    })
}
