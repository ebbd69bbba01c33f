//! An energy estimate: the number of events of a run times the energy of each.
//!
//! Source: Revelator Sec. 7.1 (Fig. 17) compares energies by McPAT, whose inputs it does not give. Ours is a
//! table of energies per access, each a setting with its source, and of static powers. It distinguishes
//! designs by their numbers of events; it is not a model of a chip.

use crate::report::Totals;
use ambulator_base::{Invalid, out_of_range};
use ambulator_hardware::CacheCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Energies of events, and static powers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnergySpec {
    /// An instruction, without its memory accesses.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: about 4 W at 2.9 GHz and 1.5 instructions a cycle; Horowitz, ISSCC 2014, has 70 pJ for a simple core"))]
    pub instruction: f64,
    /// An access to an L1 cache.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "Horowitz, ISSCC 2014: 20 pJ for 8 bytes of 32 KB"))]
    pub l1: f64,
    /// An access to an L2 cache: a line.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: twice Horowitz's 100 pJ for 8 bytes of 1 MB, for a line"))]
    pub l2: f64,
    /// An access to the last-level cache: a line, and its transfer.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: twice the L2's"))]
    pub llc: f64,
    /// Opening and closing a row of DRAM, of all chips of a rank.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "8 chips of DDR4-2400: (IDD0 55 mA - IDD3N 38 mA) x 1.2 V x tRC 45.75 ns"))]
    pub dram_activate: f64,
    /// Reading a line from an open row, and its transfer.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "8 chips: (IDD4R 150 mA - IDD3N 38 mA) x 1.2 V x 3.33 ns, and 5 pJ a bit on the bus"))]
    pub dram_read: f64,
    /// Writing a line to an open row.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "as reading"))]
    pub dram_write: f64,
    /// A look-up of the L1 TLBs.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: a small array of 64 entries"))]
    pub l1_tlb: f64,
    /// A look-up of the L2 TLB, or of the lookaside.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: 16 KB, between the L1 cache and the L1 TLB"))]
    pub l2_tlb: f64,
    /// A look-up of a walker's caches.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: as the L1 TLB"))]
    pub walk_cache: f64,
    /// Static power of a core and its caches.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "mW", "x-source" = "our choice"))]
    pub core_static: f64,
    /// Static power of a rank of DRAM.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "mW", "x-source" = "8 chips: IDD3N 38 mA x 1.2 V"))]
    pub rank_static: f64,
}

impl Default for EnergySpec {
    fn default() -> Self {
        EnergySpec {
            instruction: 900.0,
            l1: 20.0,
            l2: 200.0,
            llc: 400.0,
            dram_activate: 7470.0,
            dram_read: 6140.0,
            dram_write: 6140.0,
            l1_tlb: 3.0,
            l2_tlb: 15.0,
            walk_cache: 3.0,
            core_static: 1500.0,
            rank_static: 365.0,
        }
    }
}

impl EnergySpec {
    /// All problems of the spec, one sentence each; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        out_of_range(self, at)
    }

    /// Energies of a run in nanojoules, by the name of their measure; `seconds` is the simulated time.
    pub(crate) fn of(&self, counted: &Totals, seconds: f64, cores: usize, ranks: u32) -> [(&'static str, f64); 6] {
        let Totals { run, mmu, hierarchy, .. } = counted;
        let cache = |cache: &CacheCounters, each: f64| accesses(cache) as f64 * each;
        let caches = cache(&hierarchy.l1d, self.l1)
            + cache(&hierarchy.l1i, self.l1)
            + cache(&hierarchy.l2, self.l2)
            + cache(&hierarchy.llc, self.llc);
        let first = mmu.l1d_tlb_hits + mmu.l1d_tlb_misses + mmu.l1i_tlb_hits + mmu.l1i_tlb_misses;
        let second = mmu.l2_tlb_hits + mmu.l2_tlb_misses + mmu.lookaside_probes;
        let walks = mmu.walks + mmu.dirty_assists;
        let dram = hierarchy.dram.activates as f64 * self.dram_activate
            + (hierarchy.dram.data_reads + hierarchy.dram.table_reads) as f64 * self.dram_read
            + (hierarchy.dram.data_writes + hierarchy.dram.table_writes) as f64 * self.dram_write;
        // A milliwatt for a second is a million nanojoules.
        let idle = seconds * 1e6 * (self.core_static * cores as f64 + self.rank_static * f64::from(ranks));
        let instructions = run.instructions as f64 * self.instruction;
        let translation = first as f64 * self.l1_tlb + second as f64 * self.l2_tlb + walks as f64 * self.walk_cache;
        let all = [instructions / 1e3, caches / 1e3, translation / 1e3, dram / 1e3, idle];
        let [instructions, caches, translation, dram, idle] = all;
        [
            ("energy", all.iter().sum()),
            ("energy_instructions", instructions),
            ("energy_caches", caches),
            ("energy_tlbs", translation),
            ("energy_dram", dram),
            ("energy_static", idle),
        ]
    }
}

/// All look-ups of a cache.
fn accesses(cache: &CacheCounters) -> u64 {
    let hits = cache.demand_hits + cache.table_hits + cache.speculative_hits + cache.prefetch_hits;
    let misses = cache.demand_misses + cache.table_misses + cache.speculative_misses + cache.prefetch_misses;
    hits + misses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_the_number_of_events_times_their_energies() {
        let mut counted = Totals::default();
        counted.run.instructions = 1000;
        counted.hierarchy.l1d.demand_hits = 300;
        counted.hierarchy.l2.table_misses = 10;
        counted.hierarchy.llc.speculative_hits = 5;
        counted.hierarchy.dram.activates = 2;
        counted.hierarchy.dram.table_reads = 3;
        counted.hierarchy.dram.data_writes = 1;
        counted.mmu.l1d_tlb_hits = 100;
        counted.mmu.l2_tlb_misses = 20;
        counted.mmu.walks = 20;
        let spec = EnergySpec::default();
        let found = spec.of(&counted, 1e-6, 1, 4);
        let expected = [
            ("energy_instructions", 900.0),
            ("energy_caches", 0.3 * 20.0 + 2.0 + 2.0),
            ("energy_tlbs", 0.3 + 0.3 + 0.06),
            ("energy_dram", 2.0 * 7.47 + 4.0 * 6.14),
            ("energy_static", 1500.0 + 4.0 * 365.0),
        ];
        for ((name, value), (expected_name, expected)) in found[1..].iter().zip(expected) {
            assert_eq!(*name, expected_name);
            assert!((value - expected).abs() < 1e-9, "{name}: {value}, not {expected}");
        }
        assert!((found[0].1 - expected.iter().map(|(_, value)| value).sum::<f64>()).abs() < 1e-9);
        counted.mmu.lookaside_probes = 7;
        assert!((spec.of(&counted, 1e-6, 1, 4)[3].1 - found[3].1 - 7.0 * 0.015).abs() < 1e-9);
        assert_eq!(EnergySpec { l2: -1.0, llc: f64::NAN, ..spec }.validate("energy").len(), 2);
    }
}
