//! Settings of the memory-management unit.

use crate::{PrefetchQueueSpec, PwcSpec};
use ambulator_base::{Invalid, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of entries of an array that is probed in a few cycles.
pub(crate) const MAX_ENTRIES: u32 = 1 << 20;
/// Maximum number of ways of a TLB.
pub(crate) const MAX_TLB_WAYS: u32 = 256;

/// One translation look-aside buffer for one page size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlbSpec {
    /// Entries; 0 omits the TLB.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub entries: u32,
    /// Associativity; 0 is fully associative.
    #[schemars(range(max = MAX_TLB_WAYS), extend("x-unit" = "ways", "x-source" = "LVM Table 1"))]
    pub ways: u32,
}

impl Default for TlbSpec {
    fn default() -> Self {
        TlbSpec { entries: 64, ways: 4 }
    }
}

impl TlbSpec {
    /// A TLB of `entries` and `ways` (0 ways is fully associative).
    pub fn new(entries: u32, ways: u32) -> TlbSpec {
        TlbSpec { entries, ways }
    }

    /// Ways, with 0 resolved to fully associative.
    pub(crate) fn effective_ways(&self) -> u32 {
        if self.ways == 0 { self.entries } else { self.ways }
    }

    /// All problems of the spec; `at` is the key of this TLB.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        self.validate_keys(&format!("{at}.entries"), &format!("{at}.ways"))
    }

    /// All problems of the spec, whose numbers are set by the keys `entries` and `ways`.
    pub fn validate_keys(&self, entries: &str, ways: &str) -> Vec<Invalid> {
        if self.entries == 0 {
            return Vec::new();
        }
        let set = self.effective_ways();
        if set > MAX_TLB_WAYS {
            let message =
                format!(": a set of {set} ways exceeds the maximum of {MAX_TLB_WAYS}; give 1 to {MAX_TLB_WAYS} ways");
            return vec![Invalid::new(ways, message).and(entries)];
        }
        if !self.entries.is_multiple_of(set) {
            let message = format!(
                ": {} entries do not divide into sets of {set} ways; {} or {} would",
                self.entries,
                self.entries / set * set,
                u64::from(self.entries / set + 1) * u64::from(set)
            );
            return vec![Invalid::new(entries, message).and(ways)];
        }
        Vec::new()
    }
}

/// How the second-level TLB stores page sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum L2TlbOrganization {
    /// 4 KiB and 2 MiB pages share `entries`; 1 GiB pages have `entries_1g`.
    Unified,
    /// One array per page size: `entries`, `entries_2m`, `entries_1g`.
    Split,
}

/// The second-level TLB, shared by data and instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct L2TlbSpec {
    /// Whether page sizes share one array.
    #[schemars(extend("x-unit" = "choice", "x-source" = "LVM Table 1 (split)"))]
    pub organization: L2TlbOrganization,
    /// Entries for 4 KiB pages (unified: for 4 KiB and 2 MiB pages); 0 omits the array.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub entries: u32,
    /// Associativity of that array; 0 is fully associative.
    #[schemars(range(max = MAX_TLB_WAYS), extend("x-unit" = "ways", "x-source" = "LVM Table 1"))]
    pub ways: u32,
    /// Entries for 2 MiB pages when split.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub entries_2m: u32,
    /// Associativity for 2 MiB pages; 0 is fully associative.
    #[schemars(range(max = MAX_TLB_WAYS), extend("x-unit" = "ways", "x-source" = "LVM Table 1"))]
    pub ways_2m: u32,
    /// Entries for 1 GiB pages; 0 omits the array.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "ME-HPT Table III"))]
    pub entries_1g: u32,
    /// Associativity for 1 GiB pages; 0 is fully associative.
    #[schemars(range(max = MAX_TLB_WAYS), extend("x-unit" = "ways", "x-source" = "ME-HPT Table III"))]
    pub ways_1g: u32,
    /// Cycles of a look-up, hit or miss, counted from the L1 TLB's miss.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-since" = "time", "x-unit" = "cycles", "x-source" = "ME-HPT Table III, Utopia Table 1 (12 cycles)"))]
    pub latency: u64,
}

impl Default for L2TlbSpec {
    fn default() -> Self {
        L2TlbSpec {
            organization: L2TlbOrganization::Split,
            entries: 2048,
            // The source's 12 ways do not divide 2048; 16 is the nearest number that does.
            ways: 16,
            entries_2m: 2048,
            ways_2m: 16,
            entries_1g: 16,
            ways_1g: 4,
            latency: 12,
        }
    }
}

impl L2TlbSpec {
    /// All problems of the spec; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = TlbSpec::new(self.entries, self.ways).validate(at);
        for (suffix, entries, ways) in [("2m", self.entries_2m, self.ways_2m), ("1g", self.entries_1g, self.ways_1g)] {
            let (entries_key, ways_key) = (format!("{at}.entries_{suffix}"), format!("{at}.ways_{suffix}"));
            wrong.extend(TlbSpec::new(entries, ways).validate_keys(&entries_key, &ways_key));
        }
        wrong
    }
}

/// Where walk accesses enter the cache hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WalkEntry {
    /// The L1 data cache.
    L1,
    /// The private L2.
    L2,
    /// The shared last-level cache.
    Llc,
}

/// The memory-management unit of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MmuSpec {
    /// L1 data TLB for 4 KiB pages (and for sizes below 2 MiB, a 4 KiB entry at a time).
    #[schemars(extend("x-unit" = "group"))]
    pub l1d_4k: TlbSpec,
    /// L1 data TLB for 2 MiB pages.
    #[schemars(extend("x-unit" = "group"))]
    pub l1d_2m: TlbSpec,
    /// L1 data TLB for 1 GiB pages.
    #[schemars(extend("x-unit" = "group"))]
    pub l1d_1g: TlbSpec,
    /// L1 instruction TLB for 4 KiB pages.
    #[schemars(extend("x-unit" = "group"))]
    pub l1i_4k: TlbSpec,
    /// L1 instruction TLB for 2 MiB pages.
    #[schemars(extend("x-unit" = "group"))]
    pub l1i_2m: TlbSpec,
    /// Cycles of an L1 TLB look-up. One cycle of it overlaps the indexing of the L1 cache, so the usual 1
    /// delays nothing.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-since" = "time", "x-unit" = "cycles", "x-source" = "Utopia Table 1 (1), ME-HPT Table III (2)"))]
    pub l1_latency: u64,
    /// The second-level TLB.
    #[schemars(extend("x-unit" = "group"))]
    pub l2_tlb: L2TlbSpec,
    /// Maximum number of concurrent page walks of a core. Further walks wait for one of them to end.
    #[schemars(range(min = 1, max = 64), extend("x-since" = "time", "x-unit" = "count", "x-source" = "ME-HPT Table III (4)"))]
    pub walkers: u32,
    /// The cache level at which walk accesses enter the hierarchy.
    #[schemars(extend("x-unit" = "choice", "x-source" = "LVM Sec. 7.2: L2, with L1 as a study"))]
    pub walk_entry: WalkEntry,
    /// Bits of a virtual address: 48 (four levels in a page table with levels) or 57 (five levels).
    #[schemars(range(min = 48, max = 57), extend("x-unit" = "count", "x-source" = "Intel SDM volume 3, chapter 4"))]
    pub va_bits: u32,
    /// The page-walk caches of tree-shaped tables.
    #[schemars(extend("x-unit" = "group"))]
    pub pwc: PwcSpec,
    /// The queue of translations that a TLB prefetcher has brought.
    #[schemars(extend("x-unit" = "group"))]
    pub prefetch_queue: PrefetchQueueSpec,
    /// Every translation is known at once and costs nothing: the perfect TLB that papers compare with.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Utopia Sec. 7 (P-TLB)"))]
    pub perfect: bool,
}

impl Default for MmuSpec {
    fn default() -> Self {
        MmuSpec {
            l1d_4k: TlbSpec::new(64, 4),
            l1d_2m: TlbSpec::new(32, 4),
            l1d_1g: TlbSpec::new(4, 0),
            l1i_4k: TlbSpec::new(64, 4),
            l1i_2m: TlbSpec::new(32, 4),
            l1_latency: 1,
            l2_tlb: L2TlbSpec::default(),
            walkers: 4,
            walk_entry: WalkEntry::L2,
            va_bits: 48,
            pwc: PwcSpec::default(),
            prefetch_queue: PrefetchQueueSpec::default(),
            perfect: false,
        }
    }
}

impl MmuSpec {
    /// All problems of the spec, one sentence each; `at` is its key (`mmu`).
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        if !wrong.is_empty() {
            return wrong;
        }
        for (name, tlb) in [
            ("l1d_4k", &self.l1d_4k),
            ("l1d_2m", &self.l1d_2m),
            ("l1d_1g", &self.l1d_1g),
            ("l1i_4k", &self.l1i_4k),
            ("l1i_2m", &self.l1i_2m),
        ] {
            wrong.extend(tlb.validate(&format!("{at}.{name}")));
        }
        for name in ["l1d_4k", "l1i_4k"] {
            let tlb = if name == "l1d_4k" { &self.l1d_4k } else { &self.l1i_4k };
            if tlb.entries == 0 {
                wrong.push(Invalid::new(
                    format!("{at}.{name}.entries"),
                    ": a core needs an L1 TLB for 4 KiB pages; give at least 1 entry",
                ));
            }
        }
        wrong.extend(self.l2_tlb.validate(&format!("{at}.l2_tlb")));
        if ![48, 57].contains(&self.va_bits) {
            wrong.push(Invalid::new(
                format!("{at}.va_bits"),
                format!("is {}: x86-64 has virtual addresses of 48 or 57 bits", self.va_bits),
            ));
        }
        wrong.extend(self.pwc.validate(&format!("{at}.pwc")));
        wrong
    }
}
