//! What a run found out: every counter with its unit and meaning, and the measures derived from them.

use ambulator_base::{CounterDef, CounterSink, Histogram, ProgramIdentity, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ran to the end that was asked for, or to the end of the program.
    #[default]
    Done,
    /// It was interrupted; what is there is of the part that ran.
    Interrupted,
    /// The modelled machine could not go on (no memory left, an allocation that fragmented memory cannot
    /// give): an outcome of the design, told in `outcome`.
    Outcome,
    /// It could not run: bad input, or a mistake found by the oracle. `outcome` says which.
    Failed,
}

/// Unit and meaning of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterMeaning {
    /// Unit of its value.
    pub unit: Unit,
    /// One line: what is counted.
    pub meaning: String,
}

/// A histogram as a result keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramResult {
    /// Samples.
    pub count: u64,
    /// Mean of the samples.
    pub mean: f64,
    /// Least sample.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest sample.
    pub max: u64,
    /// `[lowest value, samples]` of each bucket that has any.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&Histogram> for HistogramResult {
    fn from(h: &Histogram) -> Self {
        HistogramResult {
            count: h.count(),
            mean: h.mean(),
            min: h.min(),
            p50: h.percentile(0.5),
            p90: h.percentile(0.9),
            p99: h.percentile(0.99),
            max: h.max(),
            buckets: h.buckets().collect(),
        }
    }
}

/// The result of one program on one machine with one design.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the design preset.
    pub design: String,
    /// Name of the program.
    pub program: String,
    /// How the run ended.
    pub status: Status,
    /// A sentence for any status but done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Instructions of the measured region, all cores together.
    pub simulated_instructions: u64,
    /// Loads and stores of the measured region.
    pub simulated_accesses: u64,
    /// Core cycles of the measured region (the longest core's); 0 in functional mode.
    pub cycles: u64,
    /// Instructions per cycle, all cores together; 0 in functional mode.
    pub ipc: f64,
    /// Speed-up over the comparison's first design: ratio of instructions per cycle. 1 for a run by itself.
    pub speedup: f64,
    /// Translations compared with the kernel's truth, set-up and warm-up included.
    pub checked_translations: u64,
    /// Sim-host time of this run: simulating, without decoding the input. Seconds.
    pub host_seconds: f64,
    /// Sim-host time of set-up (first touches, warm-up) within `host_seconds`. Seconds.
    pub host_setup_seconds: f64,
    /// Derived measures, by name. Units and meanings are in [`MEASURES`].
    pub measures: BTreeMap<String, f64>,
    /// Every counter, by dotted name; the file's `schema` has units and meanings.
    pub counters: BTreeMap<String, u64>,
    /// Histograms by name.
    pub histograms: BTreeMap<String, HistogramResult>,
    /// The whole spec after presets and overrides.
    pub spec: serde_json::Value,
    /// The program's identity.
    pub identity: ProgramIdentity,
    /// The seed of everything random.
    pub seed: u64,
    /// Version of Ambulator.
    pub version: String,
}

/// A derived measure: name, unit, meaning.
pub struct Measure {
    /// Name in [`RunResult::measures`].
    pub name: &'static str,
    /// Unit, as text.
    pub unit: &'static str,
    /// One line.
    pub meaning: &'static str,
}

macro_rules! measures {
    ($($name:literal, $unit:literal, $meaning:literal;)*) => {
        /// Every derived measure.
        pub const MEASURES: &[Measure] = &[$(Measure { name: $name, unit: $unit, meaning: $meaning }),*];
    };
}

measures! {
    "walk_latency_mean", "cycles", "Mean latency of page walks, from their start on a walker to their answer.";
    "walk_accesses_mean", "loads", "Mean loads that a page walk sends into the memory hierarchy.";
    "walk_served_l1", "ratio", "Share of walk loads served by the L1 data cache.";
    "walk_served_l2", "ratio", "Share of walk loads served by the L2 cache.";
    "walk_served_llc", "ratio", "Share of walk loads served by the last-level cache.";
    "walk_served_dram", "ratio", "Share of walk loads served by DRAM.";
    "mmu_cycles_per_access", "cycles", "Cycles in the MMU per load, store or fetch translated.";
    "access_latency_mean", "cycles", "Mean time of loads and stores from their issue to their data, translation included.";
    "l1_tlb_mpki", "per 1000 instructions", "L1 data TLB misses per 1000 instructions.";
    "l2_tlb_mpki", "per 1000 instructions", "L2 TLB misses per 1000 instructions.";
    "l2_tlb_miss_ratio", "ratio", "L2 TLB misses per L2 TLB look-up.";
    "l2_cache_mpki", "per 1000 instructions", "Demand L2 cache misses per 1000 instructions, walks included.";
    "llc_mpki", "per 1000 instructions", "Demand last-level cache misses per 1000 instructions, walks included.";
    "l2_translation_share", "ratio", "Share of L2 lines that hold translations, mean over epochs of a million instructions.";
    "llc_translation_share", "ratio", "Share of last-level lines that hold translations, mean over epochs of a million instructions.";
    "table_bytes", "bytes", "Bytes of the page tables at the end, all processes.";
    "table_peak_bytes", "bytes", "The most bytes that page tables ever held at once.";
    "table_largest_contiguous", "bytes", "Largest contiguous allocation that a page table made.";
    "pages_mapped", "entries", "Present page-table entries at the end.";
    "page_faults", "events", "Page faults in the measured region.";
    "setup_page_faults", "events", "Page faults before it.";
    "page_faults_all", "events", "Page faults in and before it.";
    "setup_table_cycles", "cycles", "Cycles that the operating system spent before it on contiguous memory and on page tables' upkeep.";
    "setup_os_cycles", "cycles", "All cycles of the operating system before it.";
    "table_bytes_per_page", "bytes", "Bytes of page tables for each present entry.";
    "os_cycles_share", "ratio", "Share of the region's cycles that the operating system took.";
    "dram_translation_dram_data", "ratio", "Of accesses that walked: translation from DRAM and data from DRAM.";
    "dram_translation_cached_data", "ratio", "Of accesses that walked: translation from DRAM and data from a cache.";
    "cached_translation_dram_data", "ratio", "Of accesses that walked: translation from caches and data from DRAM.";
    "cached_translation_cached_data", "ratio", "Of accesses that walked: translation and data from caches.";
    "energy", "nJ", "Estimate of the energy that the region took, by the table `energy`; timing mode only, as all of these.";
    "energy_instructions", "nJ", "Of it, instructions without their memory accesses.";
    "energy_caches", "nJ", "Of it, accesses to caches.";
    "energy_tlbs", "nJ", "Of it, look-ups of TLBs, of what is beside them and of walk caches.";
    "energy_dram", "nJ", "Of it, accesses to DRAM.";
    "energy_static", "nJ", "Of it, what cores and DRAM draw whatever they do.";
    "energy_per_instruction", "pJ", "Energy for each instruction.";
    "census_pages", "4 KiB pages", "Pages mapped at the end, with `run.census`.";
    "census_gap_1_coverage", "ratio", "Share of mapped pages whose successor is the next page number, with `run.census`.";
    "census_virtual_runs", "runs", "Runs of mapped pages with the same rights, with `run.census`.";
    "census_virtual_runs_99", "runs", "Fewest of them that hold 99% of the pages, with `run.census`.";
    "census_largest_run", "ratio", "Share of mapped pages in the longest of them, with `run.census`.";
    "census_entries", "entries", "Mapped pages of all sizes, with `run.census`.";
    "census_ranges", "ranges", "Runs of pages that are contiguous in both address spaces with the same rights, with `run.census`.";
    "census_ranges_99", "ranges", "Fewest of them that hold 99% of the pages, with `run.census`.";
    "census_large_share", "ratio", "Share of mapped memory in pages larger than 4 KiB, with `run.census`.";
    "census_blake2_collisions", "ratio", "Share of mapped pages whose slot is another's in a hash table under Blake2 at a load factor of 0.6, with `run.census`.";
    "fragmentation_reached", "ratio", "Fragmentation index (FMFI), at the order that was asked about, that memory was brought to before the program started.";
    "fragmentation_free_share", "ratio", "Share of memory that was free after it was fragmented.";
    "pressure_free_share", "ratio", "Share of memory that was free after random frames were taken.";
    "dram_row_hit_ratio", "ratio", "DRAM accesses that found their row open.";
    "dram_row_conflicts", "events", "DRAM accesses that had to close another row first.";
    "dram_row_conflicts_per_kilo_instruction", "per 1000 instructions", "DRAM accesses that had to close another row first, per 1000 instructions.";
}

impl RunResult {
    /// The run without what depends on the sim host: the part that equal specs and seeds reproduce to the
    /// byte.
    #[must_use]
    pub fn without_host(mut self) -> RunResult {
        self.host_seconds = 0.0;
        self.host_setup_seconds = 0.0;
        self
    }

    /// A measure, or 0 where the run has none of that name.
    pub fn measure(&self, name: &str) -> f64 {
        self.measures.get(name).copied().unwrap_or(0.0)
    }
}

/// Gathers counters by name, with their meanings.
#[derive(Default)]
pub struct Gathered {
    /// Value by dotted name; cores of one machine add up under one name.
    pub values: BTreeMap<String, u64>,
    /// Unit and meaning by dotted name.
    pub meanings: BTreeMap<String, CounterMeaning>,
}

impl CounterSink for Gathered {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        let name = if prefix.is_empty() { def.name.to_owned() } else { format!("{prefix}.{}", def.name) };
        self.meanings
            .entry(name.clone())
            .or_insert_with(|| CounterMeaning { unit: def.unit, meaning: def.meaning.to_owned() });
        *self.values.entry(name).or_default() += value;
    }
}

impl Gathered {
    /// The value of a counter, 0 if nobody reported it.
    pub fn get(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }
}
