//! Stride TLB prefetching: each instruction's own stride of pages.
//!
//! Source: Kandiraju and Sivasubramaniam, "Going the Distance for TLB Prefetching", ISCA 2002, take
//! *arbitrary stride prefetching* (ASP) from caches (Chen and Baer, IEEE Trans. Computers 1995). Sizes are
//! those of Vavouliotis et al., "Exploiting Page Table Locality for Agile TLB Prefetching", ISCA 2021, who
//! also have a modified kind, MASP.
//!
//! A table has a row for each instruction that misses: its last missing page and the distance to it from the
//! one before. ASP prefetches once the distance has been found again twice. MASP does not wait, and
//! prefetches by both the distance before and the new one.
//!
//! Choices.
//! - Only misses of the L2 TLB train, those that the prefetch queue serves included.
//! - Rows are tagged with the whole address of the instruction.

#[cfg(test)]
mod tests;

use ambulator_base::{Invalid, State};
use ambulator_mmu::{Proposals, TlbMiss, TlbPrefetcher, TlbSpec};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use ambulator_structures::tlb_prefetch::StrideTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of stride TLB prefetching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StrideSpec {
    /// Rows of the table, one for each instruction.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "Vavouliotis et al., ISCA 2021 (64)"))]
    pub(crate) entries: u32,
    /// Associativity of the table; 0 is fully associative.
    #[schemars(range(max = 256), extend("x-unit" = "ways", "x-source" = "Vavouliotis et al., ISCA 2021 (4)"))]
    pub(crate) ways: u32,
    /// How often in a row a stride must be found again before it is used.
    #[schemars(range(max = 15), extend("x-unit" = "count", "x-source" = "Vavouliotis et al., ISCA 2021 (2)"))]
    pub(crate) confirmations: u32,
    /// Does not wait for confirmations, and uses the stride before the new one too.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Vavouliotis et al., ISCA 2021 (MASP)"))]
    pub(crate) modified: bool,
}

impl Default for StrideSpec {
    fn default() -> Self {
        StrideSpec { entries: 64, ways: 4, confirmations: 2, modified: false }
    }
}

impl Settings for StrideSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        TlbSpec::new(self.entries, self.ways).validate(at)
    }
}

/// Proposes pages by the stride of the instruction that missed.
#[derive(State)]
pub(crate) struct Strides {
    #[state(skip)]
    spec: StrideSpec,
    table: StrideTable,
}

impl Strides {
    pub(crate) fn new(spec: &StrideSpec) -> Strides {
        Strides { table: StrideTable::new(spec.entries, spec.ways), spec: spec.clone() }
    }
}

impl TlbPrefetcher for Strides {
    fn switch(&mut self) {
        self.table.clear();
    }

    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals) {
        let Some(stride) = self.table.miss(miss.pc, miss.page) else { return };
        if self.spec.modified {
            stride.old.into_iter().chain([stride.new]).for_each(|distance| proposals.push(miss, distance));
        } else if stride.confirmed >= self.spec.confirmations {
            proposals.push(miss, stride.new);
        }
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "tlb-stride",
        "prefetches translations by the stride of the pages at which an instruction misses",
        "Kandiraju and Sivasubramaniam, ISCA 2002 (ASP); Vavouliotis et al., ISCA 2021 (MASP)",
    )
    .fills(Socket::TlbPrefetch, "a stride for each instruction")
    .settings::<StrideSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts { tlb_prefetcher: Some(Box::new(move |_| Box::new(Strides::new(&spec)))), ..Parts::default() }
    })
}
