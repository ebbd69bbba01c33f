//! Settings of page-walk caches.

use crate::spec::MAX_ENTRIES;
use ambulator_base::{Invalid, out_of_range};
use ambulator_hardware::MAX_WAYS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Page-walk caches: one for each level of entries that point to tables. All are probed in parallel, and the
/// walk resumes at the hit closest to the leaf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PwcSpec {
    /// Entries for page-directory entries, each covering 2 MiB; 0 omits the level.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub pde_entries: u32,
    /// Entries for page-directory-pointer entries, each covering 1 GiB; 0 omits the level.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub pdpte_entries: u32,
    /// Entries for PML4 entries, each covering 512 GiB; 0 omits the level.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub pml4e_entries: u32,
    /// Entries for PML5 entries, each covering 256 TiB; 0 omits the level. Four-level tables do not use it.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "our choice: as for the other levels"))]
    pub pml5e_entries: u32,
    /// Associativity of each level; 0 is fully associative.
    #[schemars(range(max = MAX_WAYS), extend("x-unit" = "ways", "x-source" = "our choice: LVM Table 1 names none"))]
    pub ways: u32,
    /// Cycles of the parallel look-up, which every walk pays, hit or miss.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-since" = "time", "x-unit" = "cycles", "x-source" = "LVM Table 1"))]
    pub latency: u64,
}

impl Default for PwcSpec {
    fn default() -> Self {
        PwcSpec { pde_entries: 32, pdpte_entries: 32, pml4e_entries: 32, pml5e_entries: 32, ways: 0, latency: 2 }
    }
}

impl PwcSpec {
    /// No page-walk caches: every walk loads an entry of each level.
    pub fn none() -> PwcSpec {
        PwcSpec { pde_entries: 0, pdpte_entries: 0, pml4e_entries: 0, pml5e_entries: 0, ..PwcSpec::default() }
    }

    /// Entries of each level with their keys, the level closest to the leaf first.
    pub fn levels(&self) -> [(&'static str, u32); 4] {
        [
            ("pde_entries", self.pde_entries),
            ("pdpte_entries", self.pdpte_entries),
            ("pml4e_entries", self.pml4e_entries),
            ("pml5e_entries", self.pml5e_entries),
        ]
    }

    /// All problems of the spec at key `at`, one sentence each.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        if !wrong.is_empty() {
            return wrong;
        }
        for (key, entries) in self.levels() {
            if self.ways == 0 && entries as usize > MAX_WAYS {
                wrong.push(
                    Invalid::new(
                        format!("{at}.{key}"),
                        format!(
                            "is {entries}, fully associative: at most {MAX_WAYS} entries are compared at once; \
                             state `{at}.ways` for more"
                        ),
                    )
                    .and(format!("{at}.ways")),
                );
            } else if self.ways != 0 && !entries.is_multiple_of(self.ways) {
                wrong.push(
                    Invalid::new(
                        format!("{at}.{key}"),
                        format!("is {entries}: it must be a multiple of `{at}.ways`, which is {}", self.ways),
                    )
                    .and(format!("{at}.ways")),
                );
            }
        }
        wrong
    }
}
