//! Settings of the cache hierarchy: [`HierarchySpec`] and [`CacheSpec`].

use crate::{DramSpec, Replacement};
use ambulator_base::{Invalid, LINE_BYTES, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of ways of a cache.
const MAX_CACHE_WAYS: u32 = 32;
/// Maximum of a latency setting, in cycles; a greater value is a mistake.
pub const MAX_LATENCY: u64 = 10_000;
/// Maximum capacity of all caches of a machine: the sim host keeps 16 to 24 bytes for each line of a set with 8
/// ways or more.
const MAX_ALL_CACHES_BYTES: u64 = 16 << 30;
/// A tag is 32 bits, one value of which marks an empty way; the tags of all physical addresses must fit.
const TAG_BITS: u32 = 32;

/// The prefetcher of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// No prefetcher.
    #[default]
    None,
    /// A stride for each load instruction, known by its address (Baer and Chen, SC 1991).
    IpStride,
    /// Ascending or descending runs of lines within a 4 KiB page.
    Stream,
}

/// One cache. Lines have 64 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSpec {
    /// Capacity. For the last-level cache this is the share of one core; the total is cores times this. All
    /// caches of a machine have at most 16 GiB.
    #[schemars(range(min = 64, max = 1 << 30), extend("x-unit" = "bytes", "x-source" = "LVM Table 1"))]
    pub bytes: u64,
    /// Associativity, 1 to 32. It need not be a power of two, but the number of sets must be (for the
    /// last-level cache: of one core's share; if the number of cores is not a power of two, the set is the
    /// line number modulo the number of sets).
    #[schemars(range(min = 1, max = MAX_CACHE_WAYS), extend("x-unit" = "ways", "x-source" = "LVM Table 1"))]
    pub ways: u32,
    /// Round trip of a hit as the requester sees it: from issue at the core (or walker) to the arrival of the
    /// value, including the look-ups of the levels above. A DRAM access costs the last level's round trip
    /// plus DRAM's own time.
    #[schemars(range(min = 1, max = MAX_LATENCY), extend("x-since" = "time", "x-unit" = "cycles", "x-source" = "LVM Table 1"))]
    pub latency: u64,
    /// Maximum number of outstanding misses (for the last level: for each core's share of it). Further misses
    /// wait.
    #[schemars(range(min = 1, max = 1024), extend("x-since" = "time", "x-unit" = "entries", "x-source" = "our choice; no paper states it"))]
    pub mshrs: u32,
    /// Which line of a full set is evicted.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice; no paper states it"))]
    pub replacement: Replacement,
    /// The prefetcher that learns from this cache's accesses and fills it.
    #[schemars(extend("x-unit" = "choice", "x-source" = "LVM Table 1 names none"))]
    pub prefetcher: PrefetcherKind,
    /// Maximum number of prefetches that one access triggers.
    #[schemars(range(max = 64), extend("x-unit" = "count"))]
    pub prefetch_degree: u32,
    /// How far ahead of the access prefetches reach: in strides (ip-stride) or lines (stream).
    #[schemars(range(max = 64), extend("x-unit" = "count"))]
    pub prefetch_distance: u32,
    /// Instructions (ip-stride, a power of two) or runs (stream) that the prefetcher follows at a time.
    #[schemars(range(max = 65_536), extend("x-unit" = "entries"))]
    pub prefetch_entries: u32,
}

impl Default for CacheSpec {
    fn default() -> Self {
        CacheSpec::of(32 << 10, 8, 1, 16)
    }
}

impl CacheSpec {
    /// An LRU cache without a prefetcher.
    pub fn of(bytes: u64, ways: u32, latency: u64, mshrs: u32) -> CacheSpec {
        CacheSpec {
            bytes,
            ways,
            latency,
            mshrs,
            replacement: Replacement::Lru,
            prefetcher: PrefetcherKind::None,
            prefetch_degree: 2,
            prefetch_distance: 8,
            prefetch_entries: 64,
        }
    }

    /// Number of sets of the cache when it is built for `shares` cores.
    pub(crate) fn sets(&self, shares: u64) -> u64 {
        self.bytes * shares / (u64::from(self.ways) * LINE_BYTES)
    }

    /// All problems of the spec, one sentence each; `at` is the key of this cache.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        if wrong.is_empty() {
            let way_bytes = u64::from(self.ways) * LINE_BYTES;
            let sets = self.bytes / way_bytes;
            if !self.bytes.is_multiple_of(way_bytes) || !sets.is_power_of_two() {
                let below = if sets == 0 { 1 } else { 1 << sets.ilog2() };
                wrong.push(
                    Invalid::new(
                        format!("{at}.bytes"),
                        format!(
                            ": {} bytes in {} ways of {LINE_BYTES}-byte lines make {:.2} sets, and the number of \
                         sets must be a power of two: {} or {} bytes would do",
                            self.bytes,
                            self.ways,
                            self.bytes as f64 / way_bytes as f64,
                            below * way_bytes,
                            2 * below * way_bytes
                        ),
                    )
                    .and(format!("{at}.ways")),
                );
            }
        }
        if self.prefetcher != PrefetcherKind::None {
            for (key, value) in
                [("prefetch_degree", self.prefetch_degree), ("prefetch_distance", self.prefetch_distance)]
            {
                if value == 0 {
                    wrong.push(Invalid::new(
                        format!("{at}.{key}"),
                        "is 0; a prefetcher needs at least 1 (or `prefetcher = \"none\"`)",
                    ));
                }
            }
            let entries = self.prefetch_entries;
            if !entries.is_power_of_two() {
                wrong.push(Invalid::new(
                    format!("{at}.prefetch_entries"),
                    format!("is {entries}; it must be a power of two"),
                ));
            }
        }
        wrong
    }
}

/// The memory hierarchy of the machine: private L1I, L1D and L2 of each core, one LLC and DRAM for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HierarchySpec {
    /// First-level instruction cache of each core.
    pub l1i: CacheSpec,
    /// First-level data cache of each core.
    pub l1d: CacheSpec,
    /// Second-level cache of each core.
    pub l2: CacheSpec,
    /// Last-level cache, shared by all cores; `bytes` and `mshrs` are for each core.
    pub llc: CacheSpec,
    /// Main memory.
    pub dram: DramSpec,
}

impl Default for HierarchySpec {
    fn default() -> Self {
        HierarchySpec {
            l1i: CacheSpec::of(32 << 10, 8, 1, 8),
            l1d: CacheSpec::of(32 << 10, 8, 1, 16),
            l2: CacheSpec::of(1 << 20, 8, 20, 32),
            llc: CacheSpec::of(2 << 20, 16, 56, 64),
            dram: DramSpec::default(),
        }
    }
}

impl HierarchySpec {
    /// All problems of the spec, one sentence each.
    pub fn validate(&self) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        for (name, cache) in self.caches() {
            wrong.extend(cache.validate(name));
        }
        for (upper, lower) in [(("l1d", &self.l1d), ("l2", &self.l2)), (("l2", &self.l2), ("llc", &self.llc))] {
            if upper.1.latency > lower.1.latency {
                let message = format!(
                    "({} cycles) is below that of `{}` ({}): a latency is the whole round trip from the core, so it \
                     grows from level to level",
                    lower.1.latency, upper.0, upper.1.latency
                );
                wrong.push(Invalid::new(format!("{}.latency", lower.0), message).and(format!("{}.latency", upper.0)));
            }
        }
        wrong.extend(self.dram.validate("dram"));
        wrong
    }

    /// The problems of the spec on a machine of `cores` cores and `physical_bytes` of memory, in addition to
    /// those of [`HierarchySpec::validate`].
    pub fn validate_machine(&self, cores: usize, physical_bytes: u64) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if cores == 0 {
            wrong.push(Invalid::new("machine.cores", "is 0; a machine has at least one core"));
        }
        let all = self.caches().iter().map(|(_, cache)| cache.bytes).fold(0, u64::saturating_add);
        let all = all.saturating_mul(cores as u64);
        if all > MAX_ALL_CACHES_BYTES {
            let message =
                format!(": the caches of all cores have {} MiB; at most 16384 MiB can be simulated", all >> 20);
            let largest =
                self.caches().into_iter().max_by_key(|(_, cache)| cache.bytes).map_or("llc", |(name, _)| name);
            wrong.push(Invalid::new(format!("{largest}.bytes"), message));
        }
        for (name, cache) in self.caches() {
            let sets = if cache.ways == 0 { 0 } else { cache.sets(1) };
            if sets > 0 && physical_bytes / LINE_BYTES / sets >= (1 << TAG_BITS) - 1 {
                wrong.push(Invalid::new(
                    name,
                    format!(
                        ": {physical_bytes} bytes of memory over {sets} sets need tags of more than {TAG_BITS} \
                         bits; at most {} bytes of memory would fit, or more sets (fewer ways)",
                        (((1u64 << TAG_BITS) - 2) * LINE_BYTES).saturating_mul(sets)
                    ),
                ));
            }
        }
        wrong
    }

    fn caches(&self) -> [(&'static str, &CacheSpec); 4] {
        [("l1i", &self.l1i), ("l1d", &self.l1d), ("l2", &self.l2), ("llc", &self.llc)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        assert_eq!(HierarchySpec::default().validate(), vec![]);
        assert_eq!(HierarchySpec::default().validate_machine(16, 128 << 30), vec![]);
    }

    #[test]
    fn invalid_caches_are_rejected_with_a_valid_size() {
        let wrong = CacheSpec { ways: 0, ..CacheSpec::default() }.validate("l1d");
        assert!(wrong[0].to_string().contains("`l1d.ways` is 0"), "{wrong:?}");
        let wrong = CacheSpec { bytes: 48 << 10, ways: 8, ..CacheSpec::default() }.validate("l1d");
        assert!(wrong[0].message.contains("32768 or 65536 bytes would do"), "{wrong:?}");
        assert!(CacheSpec { bytes: 48 << 10, ways: 12, ..CacheSpec::default() }.validate("l1d").is_empty());
        let wrong = CacheSpec { bytes: 1 << 40, ..CacheSpec::default() }.validate("l2");
        assert_eq!(wrong[0].to_string(), "`l2.bytes` is 1TiB; it must be from 64 to 1GiB");
        let large = HierarchySpec { llc: CacheSpec::of(1 << 30, 16, 56, 64), ..HierarchySpec::default() };
        assert_eq!(large.validate(), vec![]);
        assert_eq!(large.validate_machine(2, 1 << 30), vec![]);
        let wrong = large.validate_machine(32, 1 << 30);
        assert!(wrong[0].to_string().starts_with("`llc.bytes`: the caches of all cores have 32"), "{wrong:?}");
        assert_eq!(CacheSpec { bytes: 0, ..CacheSpec::default() }.validate("l1d").len(), 1);
        assert_eq!(CacheSpec { latency: 0, mshrs: 0, ..CacheSpec::default() }.validate("l1d").len(), 2);
        let with = CacheSpec { prefetcher: PrefetcherKind::Stream, prefetch_degree: 0, ..CacheSpec::default() };
        assert_eq!(with.validate("l2").len(), 1);
    }

    #[test]
    fn memory_beyond_the_tags_is_rejected() {
        let spec = HierarchySpec::default();
        assert!(spec.validate_machine(1, 16 << 40)[0].message.contains("32 bits"));
        assert!(spec.validate_machine(3, 1 << 30).is_empty());
        assert_eq!(spec.validate_machine(0, 1 << 30).len(), 1);
    }
}
