//! Makes the result of a machine.

use crate::census::census;
use crate::colours;
use crate::core::CoreRunCounters;
use crate::hardware::Hardware;
use crate::machine::{Machine, Phase};
use crate::os_events::OperatingSystem;
use crate::profile::Profile;
use crate::result::{CoreResult, Gathered, HistogramResult, RunResult, Status};
use crate::spec::Spec;
use crate::stream::SharedStream;
use ambulator_base::{CounterSink, Counters, Histogram};
use ambulator_hardware::{CoreCounters, HierarchyCounters};
use ambulator_mmu::{MmuCounters, WalkTraffic};
use std::collections::BTreeMap;

/// The counters from which measures are derived, summed over cores.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) run: CoreRunCounters,
    pub(crate) mmu: MmuCounters,
    pub(crate) walk_served: WalkTraffic,
    pub(crate) hierarchy: HierarchyCounters,
}

/// Reports every counter of the hardware to `sink`, core by core.
fn report_hardware(hw: &Hardware, sink: &mut dyn CounterSink) {
    for core in &hw.cores {
        core.counters.report("core", sink);
        core.window.report("core.window", sink);
        core.mmu.report("mmu", sink);
        core.traffic.report("mmu.walk_served", sink);
    }
    hw.hierarchy.report("hierarchy", sink);
}

/// Reports every counter to `sink`, core by core, without what must be read from the tables' bytes.
pub(crate) fn report_counters(hw: &Hardware, os: &OperatingSystem, sink: &mut dyn CounterSink) {
    report_hardware(hw, sink);
    os.report_counters(sink);
}

/// Measures of the cycle stack, and the beginnings of the names of the counters `core.window.stack_...` that
/// each has.
const STACK: [(&str, &str); 11] = [
    ("cpi_base", "base"),
    ("cpi_branch", "branch"),
    ("cpi_front", "front"),
    ("cpi_tlb", "tlb"),
    ("cpi_walk", "walk"),
    ("cpi_l1", "l1"),
    ("cpi_l2", "l2"),
    ("cpi_llc", "llc"),
    ("cpi_dram", "dram"),
    ("cpi_stores", "stores"),
    ("cpi_os", "os"),
];

/// The cycle stack of a core.
fn stack_of(core: &crate::core::Core) -> BTreeMap<String, u64> {
    let counters = core.window.counters();
    let all = CoreCounters::DEFS.iter().zip(counters.values());
    all.filter_map(|(def, value)| Some((def.name.strip_prefix("stack_")?.to_owned(), value))).collect()
}

impl Machine {
    fn totals(&self) -> Totals {
        let mut sum = Totals { hierarchy: self.hw.hierarchy.counters(), ..Totals::default() };
        for core in &self.hw.cores {
            sum.run.add(&core.counters);
            sum.mmu.add(&core.mmu.counters);
            sum.walk_served.add(&core.traffic);
        }
        if !self.hw.timing() {
            sum.mmu.mmu_cycles = 0;
        }
        sum
    }

    /// Every counter of the machine, summed over cores.
    pub fn gather(&self) -> Gathered {
        let mut all = Gathered { without_time: !self.hw.timing(), ..Gathered::default() };
        report_hardware(&self.hw, &mut all);
        self.os.report(&mut all);
        all
    }

    /// The program's name, or the names of a mix in the order of the cores.
    fn program_name(&self) -> String {
        let mut names: Vec<&str> = self.hw.cores.iter().map(|core| core.stream.identity().name.as_str()).collect();
        if names.iter().all(|name| *name == names[0]) {
            names.truncate(1);
        }
        names.join("+")
    }

    /// What each core has measured.
    fn core_results(&self) -> Vec<CoreResult> {
        let result = |core: &crate::core::Core| {
            let cycles = if self.hw.timing() { core.measured_cycles() } else { 0 };
            let instructions = core.counters.instructions;
            let ipc = if cycles > 0 { instructions as f64 / cycles as f64 } else { 0.0 };
            let stack = if cycles > 0 { stack_of(core) } else { BTreeMap::new() };
            CoreResult { program: core.stream.identity().name.clone(), instructions, cycles, ipc, stack }
        };
        self.hw.cores.iter().map(result).collect()
    }

    /// Who causes page walks and page faults, with `run.profile`.
    fn profile(&self) -> Option<Profile> {
        let profiler = self.os.profiler.as_ref()?;
        let mut streams: Vec<&SharedStream> = Vec::new();
        for core in &self.hw.cores {
            if !streams.iter().any(|stream| std::ptr::eq(*stream, &*core.stream)) {
                streams.push(&core.stream);
            }
        }
        let names: Vec<_> = streams.into_iter().flat_map(SharedStream::named_ranges).collect();
        Some(profiler.profile(&names))
    }

    fn histogram(&self, of: impl Fn(&crate::core::Core) -> &Histogram) -> Histogram {
        let mut sum = Histogram::default();
        for core in &self.hw.cores {
            sum.merge(of(core));
        }
        sum
    }

    /// The result so far. `design` and `spec` say what ran; the caller fills in the sim-host times.
    pub fn result(&self, design: &str, spec: &Spec) -> (RunResult, Gathered) {
        let all = self.gather();
        let identity = self.hw.cores[0].stream.identity().clone();
        let totals = self.totals();
        let Totals { run, mmu, walk_served, hierarchy } = &totals;
        let instructions = run.instructions;
        let accesses = run.loads + run.stores;
        let cycles = self.hw.measured_cycles();
        let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        let share = |a: u64, b: u64| ratio(a as f64, b as f64);
        let mpki = |n: u64| 1000.0 * share(n, instructions);
        let walk_latency = self.histogram(|core| &core.mmu.walk_latency);
        let walk_loads = self.histogram(|core| &core.mmu.walk_loads);
        let served = [
            ("walk_served_l1", walk_served.l1),
            ("walk_served_l2", walk_served.l2),
            ("walk_served_llc", walk_served.llc),
            ("walk_served_dram", walk_served.dram),
        ];
        let served_sum: u64 = served.iter().map(|(_, n)| n).sum();
        // The source of the translation and of the data of accesses that walked.
        let joint = [
            ("dram_translation_dram_data", run.dram_translation_dram_data),
            ("dram_translation_cached_data", run.dram_translation_cached_data),
            ("cached_translation_dram_data", run.cached_translation_dram_data),
            ("cached_translation_cached_data", run.cached_translation_cached_data),
        ];
        let walked: u64 = joint.iter().map(|(_, n)| n).sum();
        let footprint = self.os.kernel().total_table_footprint();
        let dram = &hierarchy.dram;
        let row_hits = dram.data_row_hits + dram.table_row_hits;
        let row_conflicts = dram.data_row_conflicts + dram.table_row_conflicts;
        let row_accesses = row_hits + row_conflicts + dram.data_row_misses + dram.table_row_misses;
        let epochs = self.statistics.occupancies(&self.hw);
        let (setup_table_cycles, setup_os_cycles) = self.statistics.setup_cycles();

        let mut measures: BTreeMap<String, f64> = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            measures.insert(name.to_owned(), value);
        };
        put("walk_latency_mean", walk_latency.mean());
        put("walk_accesses_mean", walk_loads.mean());
        for (name, n) in served {
            put(name, share(n, served_sum));
        }
        put("mmu_cycles_per_access", share(mmu.mmu_cycles, accesses + run.fetches));
        put("access_latency_mean", share(run.access_cycles, accesses));
        put("l1_tlb_mpki", mpki(mmu.l1d_tlb_misses));
        put("l2_tlb_mpki", mpki(mmu.l2_tlb_misses));
        put("l2_tlb_miss_ratio", share(mmu.l2_tlb_misses, mmu.l2_tlb_hits + mmu.l2_tlb_misses));
        put("l2_cache_mpki", mpki(hierarchy.l2.demand_misses + hierarchy.l2.table_misses));
        put("llc_mpki", mpki(hierarchy.llc.demand_misses + hierarchy.llc.table_misses));
        put("l2_translation_share", ratio(epochs.l2, epochs.samples as f64));
        put("llc_translation_share", ratio(epochs.llc, epochs.samples as f64));
        let found = mmu.walks.saturating_sub(mmu.faults);
        put("lookaside_share", share(mmu.lookaside_hits, mmu.lookaside_hits + found));
        put("table_bytes", footprint.bytes as f64);
        put("table_peak_bytes", footprint.peak_bytes as f64);
        put("table_largest_contiguous", footprint.largest_contiguous as f64);
        put("pages_mapped", footprint.entries as f64);
        put("page_faults", run.page_faults as f64);
        put("setup_page_faults", self.statistics.setup_faults() as f64);
        put("page_faults_all", (self.statistics.setup_faults() + run.page_faults) as f64);
        put("setup_table_cycles", setup_table_cycles as f64);
        put("setup_os_cycles", setup_os_cycles as f64);
        put("table_bytes_per_page", share(footprint.bytes, footprint.entries));
        put("os_cycles_share", share(run.os_cycles, cycles * self.hw.cores.len() as u64));
        let core_cycles = cycles * self.hw.cores.len() as u64;
        let outside = core_cycles.saturating_sub(run.os_cycles) as f64 / self.hw.cores.len() as f64;
        put("ipc_outside_os", ratio(instructions as f64, outside));
        if self.hw.timing() {
            put("cpi", share(all.get("core.window.cycles"), instructions));
            for (name, begin) in STACK {
                let of = |(counter, _): &(&String, &u64)| {
                    counter.strip_prefix("core.window.stack_").is_some_and(|part| part.starts_with(begin))
                };
                put(name, share(all.values.iter().filter(of).map(|(_, cycles)| cycles).sum(), instructions));
            }
        }
        for (name, n) in joint {
            put(name, share(n, walked));
        }
        put("dram_row_hit_ratio", share(row_hits, row_accesses));
        put("dram_row_conflicts", row_conflicts as f64);
        put("dram_row_conflicts_per_kilo_instruction", mpki(row_conflicts));

        if self.hw.timing() {
            let (seconds, ranks) =
                (cycles as f64 / (1e6 * spec.machine.clock_mhz as f64), spec.dram.channels * spec.dram.ranks);

            let energy = spec.energy.of(&totals, seconds, self.hw.cores.len(), ranks);
            energy.into_iter().for_each(|(name, value)| put(name, value));
            put("energy_per_instruction", ratio(1e3 * energy[0].1, instructions as f64));
        }
        if spec.run.census {
            census(self.os.kernel()).into_iter().for_each(|(name, value)| put(name, value));
        }
        colours::measures(self.os.kernel(), self.hw.path(), spec)
            .into_iter()
            .for_each(|(name, value)| put(name, value));
        self.memory.measures().into_iter().for_each(|(name, value)| put(name, value));

        let result = RunResult {
            design: design.to_owned(),
            program: self.program_name(),
            status: if self.phase() == Phase::Done { Status::Done } else { Status::Interrupted },
            outcome: None,
            simulated_instructions: instructions,
            simulated_accesses: accesses,
            cycles,
            ipc: share(instructions, cycles),
            speedup: 1.0,
            weighted_speedup: 1.0,
            windows: if self.hw.timing() { self.statistics.windows(&self.hw) } else { Vec::new() },
            series: self.statistics.series(&self.hw, &self.os),
            profile: self.profile(),
            cores: self.core_results(),
            checked_translations: self.checker.checked(),
            sim_host_seconds: 0.0,
            sim_host_setup_seconds: 0.0,
            measures,
            counters: all.values.clone(),
            histograms: [
                ("walk_latency".to_owned(), HistogramResult::from(&walk_latency)),
                ("walk_loads".to_owned(), HistogramResult::from(&walk_loads)),
            ]
            .into(),
            spec: serde_json::to_value(spec).unwrap_or_default(),
            identity,
            seed: spec.run.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            over_seeds: Vec::new(),
        };
        (result, all)
    }
}
