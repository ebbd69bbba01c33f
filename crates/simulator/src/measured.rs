//! What a part of the region has measured, and the measures that are derived from it alone. Parts add up.

use crate::core::CoreRunCounters;
use crate::machine::Machine;
use crate::spec::Spec;
use crate::statistics::Occupancies;
use ambulator_base::{Counters, Histogram};
use ambulator_hardware::{CoreCounters, HierarchyCounters};
use ambulator_mmu::{MmuCounters, PrefetchCounters, WalkTraffic};

/// The counters from which measures are derived, summed over cores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) run: CoreRunCounters,
    pub(crate) mmu: MmuCounters,
    pub(crate) walk_served: WalkTraffic,
    pub(crate) prefetch: PrefetchCounters,
    pub(crate) hierarchy: HierarchyCounters,
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

/// What a core has measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfCore {
    pub instructions: u64,
    pub cycles: u64,
    pub window: CoreCounters,
}

impl OfCore {
    /// The core's cycle stack: its parts, and the cycles of each.
    pub fn stack(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = CoreCounters::DEFS.iter().zip(self.window.values());
        all.filter_map(|(def, cycles)| Some((def.name.strip_prefix("stack_")?, cycles)))
    }
}

/// The time of a region, with all of the operating system's work in it: a sampled region has what was charged between
/// its windows too. One growth of a page table, or one compaction, may cost more than all windows together.
pub(crate) struct RegionTime {
    /// Of all cores.
    pub instructions: u64,
    /// Outside the operating system, as it was measured.
    pub ipc_outside_os: f64,
    /// On all cores.
    pub os_cycles: u64,
    pub cores: u64,
}

impl RegionTime {
    /// Cycles of a core in the operating system, and outside it.
    fn cycles(&self) -> (f64, f64) {
        let in_os = self.os_cycles as f64 / self.cores.max(1) as f64;
        (in_os, ratio(self.instructions as f64, self.ipc_outside_os))
    }

    /// Instructions per cycle, all cores together.
    pub fn ipc(&self) -> f64 {
        let (in_os, outside) = self.cycles();
        ratio(self.instructions as f64, in_os + outside)
    }

    /// The operating system's share of the cycles.
    pub fn os_share(&self) -> f64 {
        let (in_os, outside) = self.cycles();
        ratio(in_os, in_os + outside)
    }
}

/// What a part of the region has measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub totals: Totals,
    pub cores: Vec<OfCore>,
    /// Cycles of the core that takes longest.
    pub cycles: u64,
    pub walk_latency: Histogram,
    pub walk_loads: Histogram,
    /// Shares of the caches that hold translations.
    pub epochs: Occupancies,
}

impl Measured {
    /// Adds another part.
    pub fn add(&mut self, other: &Measured) {
        let Measured { totals, cores, cycles, walk_latency, walk_loads, epochs } = other;
        self.totals.run.add(&totals.run);
        self.totals.mmu.add(&totals.mmu);
        self.totals.walk_served.add(&totals.walk_served);
        self.totals.prefetch.add(&totals.prefetch);
        self.totals.hierarchy.add(&totals.hierarchy);
        self.cores.resize(self.cores.len().max(cores.len()), OfCore::default());
        for (sum, core) in self.cores.iter_mut().zip(cores) {
            sum.instructions += core.instructions;
            sum.cycles += core.cycles;
            sum.window.add(&core.window);
        }
        self.cycles += cycles;
        self.walk_latency.merge(walk_latency);
        self.walk_loads.merge(walk_loads);
        self.epochs.samples += epochs.samples;
        self.epochs.l2 += epochs.l2;
        self.epochs.llc += epochs.llc;
    }

    /// The histograms of a result, by name.
    pub fn histograms(&self) -> [(&'static str, &Histogram); 2] {
        [("walk_latency", &self.walk_latency), ("walk_loads", &self.walk_loads)]
    }

    /// Instructions per cycle, all cores together; 0 without time.
    pub fn ipc(&self) -> f64 {
        share(self.totals.run.instructions, self.cycles)
    }

    /// Instructions per cycle outside the operating system, all cores together.
    pub fn ipc_outside_os(&self) -> f64 {
        let (run, cores) = (&self.totals.run, self.cores.len() as u64);
        let outside = (self.cycles * cores).saturating_sub(run.os_cycles) as f64 / cores.max(1) as f64;
        ratio(run.instructions as f64, outside)
    }

    /// The measures, by name: those of [`crate::MEASURES`] that do not depend on the state at the end.
    pub fn measures(&self, spec: &Spec, timing: bool) -> Vec<(&'static str, f64)> {
        let Measured { totals, cycles, epochs, .. } = self;
        let Totals { run, mmu, walk_served, prefetch, hierarchy } = totals;
        let cores = self.cores.len() as u64;
        let instructions = run.instructions;
        let accesses = run.loads + run.stores;
        let mpki = |n: u64| 1000.0 * share(n, instructions);
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
        let dram = &hierarchy.dram;
        let row_hits = dram.data_row_hits + dram.table_row_hits;
        let row_conflicts = dram.data_row_conflicts + dram.table_row_conflicts;
        let row_accesses = row_hits + row_conflicts + dram.data_row_misses + dram.table_row_misses;
        let found = mmu.walks.saturating_sub(mmu.faults);
        let mut all = vec![
            ("walk_latency_mean", self.walk_latency.mean()),
            ("walk_accesses_mean", self.walk_loads.mean()),
            ("mmu_cycles_per_access", share(mmu.mmu_cycles, accesses + run.fetches)),
            ("access_latency_mean", share(run.access_cycles, accesses)),
            ("l1_tlb_mpki", mpki(mmu.l1d_tlb_misses)),
            ("l2_tlb_mpki", mpki(mmu.l2_tlb_misses)),
            ("l2_tlb_miss_ratio", share(mmu.l2_tlb_misses, mmu.l2_tlb_hits + mmu.l2_tlb_misses)),
            ("l2_cache_mpki", mpki(hierarchy.l2.demand_misses + hierarchy.l2.table_misses)),
            ("llc_mpki", mpki(hierarchy.llc.demand_misses + hierarchy.llc.table_misses)),
            ("l2_translation_share", ratio(epochs.l2, epochs.samples as f64)),
            ("llc_translation_share", ratio(epochs.llc, epochs.samples as f64)),
            ("lookaside_share", share(mmu.lookaside_hits, mmu.lookaside_hits + found)),
            ("page_faults", run.page_faults as f64),
            ("os_cycles_share", share(run.os_cycles, cycles * cores)),
            ("ipc_outside_os", self.ipc_outside_os()),
            ("dram_row_hit_ratio", share(row_hits, row_accesses)),
            ("dram_row_conflicts", row_conflicts as f64),
            ("dram_row_conflicts_per_kilo_instruction", mpki(row_conflicts)),
        ];
        all.extend(served.map(|(name, n)| (name, share(n, served_sum))));
        all.extend(joint.map(|(name, n)| (name, share(n, walked))));
        if prefetch.probes > 0 {
            let brought = prefetch.filled + prefetch.free;
            all.push(("tlb_prefetch_coverage", share(mmu.prefetch_hits, mmu.prefetch_hits + found)));
            all.push(("tlb_prefetch_accuracy", share(prefetch.hits, brought).min(1.0)));
            all.push((
                "tlb_prefetch_loads_share",
                share(prefetch.walk_accesses, prefetch.walk_accesses + mmu.walk_accesses),
            ));
        }
        if timing {
            let seconds = *cycles as f64 / (1e6 * spec.machine.clock_mhz as f64);
            let energy = spec.energy.of(totals, seconds, self.cores.len(), spec.nodes.ranks(&spec.dram));
            let mut windows = CoreCounters::default();
            self.cores.iter().for_each(|core| windows.add(&core.window));
            all.push(("cpi", share(windows.cycles, instructions)));
            for (name, begin) in STACK {
                let parts = CoreCounters::DEFS.iter().zip(windows.values());
                let of =
                    parts.filter(|(def, _)| def.name.strip_prefix("stack_").is_some_and(|of| of.starts_with(begin)));
                all.push((name, share(of.map(|(_, cycles)| cycles).sum(), instructions)));
            }
            all.push(("energy_per_instruction", ratio(1e3 * energy[0].1, instructions as f64)));
            all.extend(energy);
        }
        all
    }
}

/// `a / b`, or 0.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// `a / b`, or 0.
pub(crate) fn share(a: u64, b: u64) -> f64 {
    ratio(a as f64, b as f64)
}

impl Machine {
    /// What has been measured since the counters were set to zero.
    pub(crate) fn measured_now(&self) -> Measured {
        let mut totals = Totals { hierarchy: self.hw.hierarchy.counters(), ..Totals::default() };
        let (mut walk_latency, mut walk_loads) = (Histogram::default(), Histogram::default());
        for core in &self.hw.cores {
            totals.run.add(&core.counters);
            totals.mmu.add(&core.mmu.counters);
            totals.walk_served.add(&core.traffic);
            core.mmu.prefetch_counters().into_iter().for_each(|own| totals.prefetch.add(own));
            walk_latency.merge(&core.mmu.walk_latency);
            walk_loads.merge(&core.mmu.walk_loads);
        }
        let timing = self.hw.timing();
        if !timing {
            totals.mmu.mmu_cycles = 0;
        }
        let of_core = |core: &crate::core::Core| OfCore {
            instructions: core.counters.instructions,
            cycles: if timing { core.measured_cycles() } else { 0 },
            window: core.window.counters(),
        };
        Measured {
            totals,
            cores: self.hw.cores.iter().map(of_core).collect(),
            cycles: self.hw.measured_cycles(),
            walk_latency,
            walk_loads,
            epochs: self.statistics.occupancies(&self.hw),
        }
    }
}
