//! The result of a run: every counter with its unit and meaning, and the measures derived from them.

use crate::profile::Profile;
use crate::series::Series;
use ambulator_base::{CounterDef, CounterSink, Histogram, ProgramIdentity, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ran to the requested end, or to the end of the program.
    #[default]
    Done,
    /// It was interrupted; the result is that of the part that ran.
    Interrupted,
    /// The modelled machine could not continue (no memory left, an allocation that fragmented memory cannot
    /// satisfy): an outcome of the design, described in `outcome`.
    Outcome,
    /// It failed: bad input, or a wrong translation found by the oracle. `outcome` says which.
    Failed,
}

/// Unit and meaning of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterMeaning {
    /// Unit of its value.
    pub unit: Unit,
    /// One line: what it counts.
    pub meaning: String,
    /// Whether it depends on when things happen: functional mode has another value, or 0.
    #[serde(skip)]
    pub timed: bool,
    /// Whether it is a state, not a number of events: it may fall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gauge: bool,
}

/// Unit and meaning of counters, by dotted name.
pub type Schema = BTreeMap<String, CounterMeaning>;

/// The schemas of several runs as one. Where designs count different things under one name, the meaning is
/// all of theirs in the order of the runs, with ` / ` between them.
pub fn join_schemas<'a>(schemas: impl IntoIterator<Item = &'a Schema>) -> Schema {
    let mut meanings: BTreeMap<&str, (Unit, bool, bool, Vec<&str>)> = BTreeMap::new();
    for (name, CounterMeaning { unit, meaning, timed, gauge }) in schemas.into_iter().flatten() {
        let (_, any_timed, any_gauge, all) = meanings.entry(name).or_insert((*unit, false, false, Vec::new()));
        *any_timed |= timed;
        *any_gauge |= gauge;
        if !all.contains(&meaning.as_str()) {
            all.push(meaning);
        }
    }
    let joined = |(name, (unit, timed, gauge, all)): (&str, (Unit, bool, bool, Vec<&str>))| {
        (name.to_owned(), CounterMeaning { unit, meaning: all.join(" / "), timed, gauge })
    };
    meanings.into_iter().map(joined).collect()
}

/// A histogram of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramResult {
    /// Number of samples.
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
    /// `[lowest value, samples]` of each nonempty bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// The percentiles of a histogram: their names, and their shares.
pub(crate) const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

impl From<&Histogram> for HistogramResult {
    fn from(h: &Histogram) -> Self {
        let [p50, p90, p99] = PERCENTILES.map(|(_, share)| h.percentile(share));
        HistogramResult {
            count: h.count(),
            mean: h.mean(),
            min: h.min(),
            p50,
            p90,
            p99,
            max: h.max(),
            buckets: h.buckets().collect(),
        }
    }
}

/// What one core has measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreResult {
    /// Name of its program.
    pub program: String,
    /// Instructions of the measured region on this core.
    pub instructions: u64,
    /// Cycles from the region's begin to this core's end of it; 0 in functional mode.
    pub cycles: u64,
    /// Instructions per cycle; 0 in functional mode.
    pub ipc: f64,
    /// The core's cycle stack: cycles by cause, which add up to `cycles`, by the ends of the names of the
    /// counters `core.window.stack_...`. Empty in functional mode.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stack: BTreeMap<String, u64>,
    /// Of several cores: this one's instructions and cycles at the points of the region that
    /// [`RunResult::windows`] has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<(u64, u64)>,
    /// Of several cores: this one's instructions and cycles in each of [`Sampled::intervals`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<(u64, u64)>,
}

/// How a region was sampled (`run.sampling`), and how far its numbers can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampled {
    /// Windows that were measured.
    pub windows: u64,
    /// Instructions of the region, all cores together: measured or not.
    pub covered: u64,
    /// Of these, instructions for which time was simulated: the windows, and what comes before each.
    pub timed: u64,
    /// Half of the width of the 95% interval: of `ipc`, `cycles` and `accesses`, of `measures.NAME`, of counters by
    /// their names, of histograms (`walk_latency.p99`), and of cores (`cores.0.ipc`, `cores.0.stack.walk_dram`).
    /// What is known has none: states at the end, and what is of the set-up; a percentile has none where so few
    /// samples are beyond it that it may be anywhere. Empty if there are too few windows for any.
    pub half: BTreeMap<String, f64>,
    /// The intervals that were measured, where phases were told apart: counters, cycles and instructions are
    /// then estimates for the whole region, in which each counts as often as its weight says. Empty for
    /// windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<MeasuredInterval>,
}

/// An interval of a region that was sampled by its phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredInterval {
    /// Its number among those of the region.
    pub interval: u64,
    /// The number of its phase.
    pub phase: u64,
    /// Intervals of the phase that it stands for, itself among them: those of a phase add up to its size.
    pub weight: u64,
    /// Instructions that it measured, all cores together.
    pub instructions: u64,
    /// Cycles of the core that took longest.
    pub cycles: u64,
}

impl Sampled {
    /// By phase: its intervals, and those of them that were measured. Empty for windows.
    pub fn phases(&self) -> Vec<(u64, u64)> {
        let count = self.intervals.iter().map(|of| of.phase as usize + 1).max().unwrap_or(0);
        let mut phases = vec![(0, 0); count];
        for of in &self.intervals {
            let (intervals, measured) = &mut phases[of.phase as usize];
            *intervals += of.weight;
            *measured += 1;
        }
        phases
    }
}

/// The result of one program on one machine with one design.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
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
    /// Speed-up over the comparison's first design: ratio of instructions per cycle, in sampled regions of
    /// `region_ipc`. 1 for a single run.
    pub speedup: f64,
    /// Weighted speed-up over the comparison's first design: the mean over the cores of the ratio of their
    /// instructions per cycle, so that each program of a mix counts the same. 1 for a single run.
    #[serde(default)]
    pub weighted_speedup: f64,
    /// Points of the measured region: instructions of all cores, and cycles, since its begin. At most 64,
    /// even but for the last; none in functional mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<(u64, u64)>,
    /// The counters over time, with `run.interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// How the region was sampled, with `run.sampling`. Counters and cycles are then those of the windows, or
    /// with phases, estimates for the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Who causes page walks and page faults, with `run.profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What each core has measured.
    #[serde(default)]
    pub cores: Vec<CoreResult>,
    /// Translations compared with the kernel's page state, including set-up and warm-up.
    pub checked_translations: u64,
    /// Sim-host time of this run: simulation, without decoding the input. Seconds.
    #[serde(rename = "host_seconds")]
    pub sim_host_seconds: f64,
    /// Sim-host time of set-up (first touches, warm-up), included in `sim_host_seconds`. Seconds.
    #[serde(rename = "host_setup_seconds")]
    pub sim_host_setup_seconds: f64,
    /// The checkpoint from which this run started, if it did: its set-up and its warm-up ran before. All
    /// other numbers, but for the sim host's times, are those of a run without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
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
    /// If this is the mean over several seeds: the run of each. Otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_seeds: Vec<RunResult>,
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
    "walk_latency_mean", "cycles", "Mean latency of page walks, from their start on a walker to their result.";
    "walk_accesses_mean", "loads", "Mean loads that a page walk issues to the memory hierarchy.";
    "walk_served_l1", "ratio", "Share of walk loads served by the L1 data cache.";
    "walk_served_l2", "ratio", "Share of walk loads served by the L2 cache.";
    "walk_served_llc", "ratio", "Share of walk loads served by the last-level cache.";
    "walk_served_dram", "ratio", "Share of walk loads served by DRAM.";
    "mmu_cycles_per_access", "cycles", "Cycles in the MMU per load, store or fetch translated.";
    "access_latency_mean", "cycles", "Mean time of loads and stores from their issue to their data, including translation.";
    "l1_tlb_mpki", "per 1000 instructions", "L1 data TLB misses per 1000 instructions.";
    "l2_tlb_mpki", "per 1000 instructions", "L2 TLB misses per 1000 instructions.";
    "l2_tlb_miss_ratio", "ratio", "L2 TLB misses per L2 TLB look-up.";
    "l2_cache_mpki", "per 1000 instructions", "L2 cache misses of the core and of walks per 1000 instructions.";
    "llc_mpki", "per 1000 instructions", "Last-level cache misses of the core and of walks per 1000 instructions.";
    "l2_translation_share", "ratio", "Share of L2 lines that hold translations, mean over epochs of a million instructions.";
    "llc_translation_share", "ratio", "Share of last-level lines that hold translations, mean over epochs of a million instructions.";
    "lookaside_share", "ratio", "Share that the lookaside resolves of the L2 TLB misses that found a page.";
    "tlb_prefetch_coverage", "ratio", "Share that the TLB prefetch queue serves of the misses that it and walks served.";
    "tlb_prefetch_accuracy", "ratio", "Share of the translations put into the TLB prefetch queue that were used.";
    "tlb_prefetch_loads_share", "ratio", "Share of prefetch walks in the loads of all page walks.";
    "table_bytes", "bytes", "Bytes of the page tables at the end, all processes.";
    "table_peak_bytes", "bytes", "Maximum of the bytes of the page tables.";
    "table_largest_contiguous", "bytes", "Largest contiguous allocation that a page table made.";
    "pages_mapped", "entries", "Present page-table entries at the end.";
    "page_faults", "events", "Page faults in the measured region.";
    "setup_page_faults", "events", "Page faults before the measured region.";
    "page_faults_all", "events", "Page faults in and before the measured region.";
    "setup_table_cycles", "cycles", "Cycles that the operating system spent on contiguous memory and page-table upkeep before the measured region.";
    "setup_os_cycles", "cycles", "All cycles of the operating system before the measured region.";
    "table_bytes_per_page", "bytes", "Bytes of page tables for each present entry.";
    "os_cycles_share", "ratio", "Share of the region's cycles spent in the operating system.";
    "ipc_outside_os", "instructions", "Instructions per cycle outside the operating system, all cores together: as if its work took no time.";
    "region_ipc", "instructions", "Instructions per cycle with all of the operating system's cycles in the region, those between the windows of a sampled region included.";
    "region_os_share", "ratio", "The operating system's share of the cycles, in the same way.";
    "l2_colour_share", "ratio", "Share of a working set of the L2 cache's size, of pages resident at the end, that fits in it: less than 1 where their frames have few page colours.";
    "llc_colour_share", "ratio", "As `l2_colour_share`, for the last-level cache.";
    "dram_translation_dram_data", "ratio", "Of accesses that walked: translation from DRAM and data from DRAM.";
    "dram_translation_cached_data", "ratio", "Of accesses that walked: translation from DRAM and data from a cache.";
    "cached_translation_dram_data", "ratio", "Of accesses that walked: translation from caches and data from DRAM.";
    "cached_translation_cached_data", "ratio", "Of accesses that walked: translation and data from caches.";
    "energy", "nJ", "Estimate of the region's energy, by the table `energy`; all energies in timing mode only.";
    "energy_instructions", "nJ", "Energy of instructions without their memory accesses.";
    "energy_caches", "nJ", "Energy of accesses to caches.";
    "energy_tlbs", "nJ", "Energy of look-ups of TLBs, lookasides and walk caches.";
    "energy_dram", "nJ", "Energy of accesses to DRAM and of its refreshes.";
    "energy_static", "nJ", "Static energy of cores, and background energy of DRAM.";
    "energy_per_instruction", "pJ", "Energy per instruction.";
    "cpi", "cycles", "Core cycles per instruction. The other measures that begin with `cpi_` are its parts, by cause.";
    "cpi_base", "cycles", "Part of `cpi` in which instructions committed at full width, or waited for operands.";
    "cpi_branch", "cycles", "Part of `cpi` without commit after mispredicted branches.";
    "cpi_front", "cycles", "Part of `cpi` without commit for instruction fetch, its translation included.";
    "cpi_tlb", "cycles", "Part of `cpi` in which the oldest instruction waited for look-ups of TLBs.";
    "cpi_walk", "cycles", "Part of `cpi` in which it waited for page walks or lookasides, its own or those of others that it joined.";
    "cpi_l1", "cycles", "Part of `cpi` in which it waited for data from L1 or the store queue.";
    "cpi_l2", "cycles", "Part of `cpi` in which it waited for data from L2.";
    "cpi_llc", "cycles", "Part of `cpi` in which it waited for data from the last-level cache.";
    "cpi_dram", "cycles", "Part of `cpi` in which it waited for data from DRAM.";
    "cpi_stores", "cycles", "Part of `cpi` without commit because the store queue was full.";
    "cpi_os", "cycles", "Part of `cpi` in the operating system.";
    "census_pages", "4 KiB pages", "Pages mapped at the end, with `run.census`.";
    "census_gap_1_coverage", "ratio", "Share of mapped pages whose successor is the next page number, with `run.census`.";
    "census_virtual_runs", "runs", "Runs of mapped pages with the same permissions, with `run.census`.";
    "census_virtual_runs_99", "runs", "Minimum number of these runs that hold 99% of the pages, with `run.census`.";
    "census_largest_run", "ratio", "Share of mapped pages in the longest of these runs, with `run.census`.";
    "census_entries", "entries", "Mapped pages of all sizes, with `run.census`.";
    "census_ranges", "ranges", "Runs of pages contiguous in both address spaces with the same permissions, with `run.census`.";
    "census_ranges_99", "ranges", "Minimum number of these runs that hold 99% of the pages, with `run.census`.";
    "census_large_share", "ratio", "Share of mapped memory in pages larger than 4 KiB, with `run.census`.";
    "census_blake2_collisions", "ratio", "Share of mapped pages that collide in a hash table under Blake2 at a load factor of 0.6, with `run.census`.";
    "fragmentation_reached", "ratio", "Fragmentation index (FMFI) of memory, at the requested order, before the program started.";
    "fragmentation_free_share", "ratio", "Share of memory that was free after fragmentation.";
    "pressure_free_share", "ratio", "Share of memory that was free after random frames were taken.";
    "dram_row_hit_ratio", "ratio", "Share of DRAM accesses that found their row open.";
    "dram_row_conflicts", "events", "DRAM accesses that had to close another row first.";
    "dram_row_conflicts_per_kilo_instruction", "per 1000 instructions", "DRAM accesses that had to close another row first, per 1000 instructions.";
}

impl RunResult {
    /// The run without its sim-host times and without its checkpoint: the part that equal specs and seeds
    /// reproduce to the byte.
    #[must_use]
    pub fn without_sim_host_times(mut self) -> RunResult {
        self.sim_host_seconds = 0.0;
        self.sim_host_setup_seconds = 0.0;
        self.checkpoint = None;
        self
    }

    /// A measure, or 0 if the run has none of that name.
    pub fn measure(&self, name: &str) -> f64 {
        self.measures.get(name).copied().unwrap_or(0.0)
    }

    /// Whether all of the operating system's cycles in a sampled region are known, those between its windows too.
    pub fn knows_region(&self) -> bool {
        self.sampled.is_some() && self.measure("region_ipc") > 0.0
    }

    /// Instructions per cycle by which runs are compared: in a sampled region those of `region_ipc`, because windows
    /// may meet bursts of the operating system's work too often, or miss them. 0 in functional mode.
    pub fn speed(&self) -> f64 {
        if self.knows_region() { self.measure("region_ipc") } else { self.ipc }
    }

    /// The operating system's share of the cycles, in a sampled region of all of them.
    pub fn os_share(&self) -> f64 {
        self.measure(if self.knows_region() { "region_os_share" } else { "os_cycles_share" })
    }
}

/// Counters by name, with their meanings.
#[derive(Default)]
pub struct Gathered {
    /// Value by dotted name, summed over the cores of a machine.
    pub values: BTreeMap<String, u64>,
    /// Unit and meaning by dotted name.
    pub meanings: BTreeMap<String, CounterMeaning>,
    /// Times mean nothing and are 0: functional mode.
    pub(crate) without_time: bool,
}

impl CounterSink for Gathered {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        let name = if prefix.is_empty() { def.name.to_owned() } else { format!("{prefix}.{}", def.name) };
        self.meanings.entry(name.clone()).or_insert_with(|| CounterMeaning {
            unit: def.unit,
            meaning: def.meaning.to_owned(),
            timed: def.timed,
            gauge: def.gauge,
        });
        let is_time = def.timed && def.unit == Unit::Cycles;
        *self.values.entry(name).or_default() += if self.without_time && is_time { 0 } else { value };
    }
}

impl Gathered {
    /// Counters of a machine that does not model time.
    pub(crate) fn without_time() -> Gathered {
        Gathered { without_time: true, ..Gathered::default() }
    }

    /// Drops the counters of cycles that such a machine cannot know.
    pub(crate) fn drop_timed_cycles(&mut self) {
        self.meanings.retain(|_, meaning| !(meaning.timed && meaning.unit == Unit::Cycles));
        self.values.retain(|name, _| self.meanings.contains_key(name));
    }

    /// The value of a counter, 0 if it was not reported.
    pub fn get(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }
}
