//! An energy estimate: the number of events of a run times the energy of each.
//!
//! Source: Revelator Sec. 7.1 (Fig. 17) compares energies by McPAT, whose inputs it does not give. Ours is a
//! table of energies per access, each a setting with its source, and of static powers. It distinguishes
//! designs by their numbers of events; it is not a model of a chip.
//!
//! DRAM: Micron TN-40-07, *Calculating Memory Power for DDR4 SDRAM*. Its powers, each times the duration of
//! its event, are energies of events. For a device, with standby in IDD3N all the time (rows are left open):
//!
//! | event | energy |
//! |---|---|
//! | activation and precharge | VDD (IDD0 tRC - IDD3N tRAS - IDD2N (tRC - tRAS)) |
//! | read, write | VDD (IDD4R - IDD3N) 4 tCK, VDD (IDD4W - IDD3N) 4 tCK |
//! | refresh | (VDD (IDD5B - IDD3N) + VPP (IPP5B - IPP3N)) tRFC |
//! | standby, a second | VDD IDD3N + VPP IPP3N |
//!
//! An activation takes nothing more from VPP: IPP0 is IPP3N. Eight devices of eight bits are a rank. Values
//! are those of 8 Gb x8 devices at DDR4-3200: VDD 1.2 V, VPP 2.5 V, tCK 0.625 ns, tRAS 52 and tRC 74 clocks,
//! tRFC 350 ns, IDD0 57, IDD2N 37, IDD3N 52, IDD4R 168, IDD4W 150, IDD5B 250 mA (Micron's 8 Gb data sheet,
//! MT40A1G8, as in DRAMsim3's `DDR4_8Gb_x8_3200.ini`), IPP3N 3 and IPP5B 28 mA (its module data sheet of
//! MTA18ASF2G72HZ, divided by devices). IDD4R leaves out what the drivers put on the bus. There a line that
//! is low draws VDD / (driver + termination) in the pseudo open drain of JESD79-4. Half of the data bits are
//! low, and one of each pair of strobes.

use crate::measured::Totals;
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
    /// Opening and closing a row of DRAM: in all devices of a rank, beyond standby.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "Micron TN-40-07: 8 devices x 1.2 V x (IDD0 57 mA x 46.25 ns - IDD3N 52 mA x 32.5 ns - IDD2N 37 mA x 13.75 ns)"))]
    pub dram_activate: f64,
    /// Reading a line from an open row, without its transfer.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "Micron TN-40-07: 8 devices x 1.2 V x (IDD4R 168 mA - IDD3N 52 mA) x 2.5 ns"))]
    pub dram_read: f64,
    /// Writing a line to an open row, without its transfer.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "Micron TN-40-07: 8 devices x 1.2 V x (IDD4W 150 mA - IDD3N 52 mA) x 2.5 ns"))]
    pub dram_write: f64,
    /// A line on the data bus: drivers and termination.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "JESD79-4: 34 ohm drivers; our choice: 48 ohm terminations; 8 x (64 data + 16 strobe lines) x half of (1.2 V)^2 / 82 ohm x 0.3125 ns"))]
    pub dram_bus: f64,
    /// A refresh of a rank, beyond standby.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "Micron TN-40-07: 8 devices x 350 ns x (1.2 V x (IDD5B 250 mA - IDD3N 52 mA) + 2.5 V x (IPP5B 28 mA - IPP3N 3 mA))"))]
    pub dram_refresh: f64,
    /// A look-up of the L1 TLBs.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: a small array of 64 entries"))]
    pub l1_tlb: f64,
    /// A look-up of the L2 TLB, of the lookaside, or of the prefetch queue.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: 16 KB, between the L1 cache and the L1 TLB"))]
    pub l2_tlb: f64,
    /// A look-up of a walker's caches.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "pJ", "x-source" = "our choice: as the L1 TLB"))]
    pub walk_cache: f64,
    /// Static power of a core and its caches.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "mW", "x-source" = "our choice"))]
    pub core_static: f64,
    /// Background power of a rank of DRAM: active standby.
    #[schemars(range(min = 0.0, max = 1e9), extend("x-unit" = "mW", "x-source" = "Micron TN-40-07: 8 devices x (IDD3N 52 mA x 1.2 V + IPP3N 3 mA x 2.5 V)"))]
    pub rank_static: f64,
}

impl Default for EnergySpec {
    fn default() -> Self {
        EnergySpec {
            instruction: 900.0,
            l1: 20.0,
            l2: 200.0,
            llc: 400.0,
            dram_activate: 4200.0,
            dram_read: 2784.0,
            dram_write: 2352.0,
            dram_bus: 1756.0,
            dram_refresh: 840_280.0,
            l1_tlb: 3.0,
            l2_tlb: 15.0,
            walk_cache: 3.0,
            core_static: 1500.0,
            rank_static: 559.2,
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
        let Totals { run, mmu, hierarchy, prefetch, .. } = counted;
        let cache = |cache: &CacheCounters, each: f64| accesses(cache) as f64 * each;
        let caches = cache(&hierarchy.l1d, self.l1)
            + cache(&hierarchy.l1i, self.l1)
            + cache(&hierarchy.l2, self.l2)
            + cache(&hierarchy.llc, self.llc);
        let first = mmu.l1d_tlb_hits + mmu.l1d_tlb_misses + mmu.l1i_tlb_hits + mmu.l1i_tlb_misses;
        let second = mmu.l2_tlb_hits + mmu.l2_tlb_misses + mmu.lookaside_probes + prefetch.probes;
        let walks = mmu.walks + mmu.dirty_assists + prefetch.walks;
        let counted = &hierarchy.dram;
        // What the write queues served or merged has not touched the devices.
        let reads = (counted.data_reads + counted.table_reads).saturating_sub(counted.reads_forwarded) as f64;
        let writes = (counted.data_writes + counted.table_writes).saturating_sub(counted.writes_merged) as f64;
        let dram = counted.activates as f64 * self.dram_activate
            + counted.refreshes as f64 * self.dram_refresh
            + reads * (self.dram_read + self.dram_bus)
            + writes * (self.dram_write + self.dram_bus);
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
        counted.hierarchy.dram.refreshes = 5;
        counted.mmu.l1d_tlb_hits = 100;
        counted.mmu.l2_tlb_misses = 20;
        counted.mmu.walks = 20;
        let spec = EnergySpec::default();
        let found = spec.of(&counted, 1e-6, 1, 4);
        let expected = [
            ("energy_instructions", 900.0),
            ("energy_caches", 0.3 * 20.0 + 2.0 + 2.0),
            ("energy_tlbs", 0.3 + 0.3 + 0.06),
            ("energy_dram", 2.0 * 4.2 + 3.0 * (2.784 + 1.756) + (2.352 + 1.756) + 5.0 * 840.28),
            ("energy_static", 1500.0 + 4.0 * 559.2),
        ];
        for ((name, value), (expected_name, expected)) in found[1..].iter().zip(expected) {
            assert_eq!(*name, expected_name);
            assert!((value - expected).abs() < 1e-9, "{name}: {value}, not {expected}");
        }
        assert!((found[0].1 - expected.iter().map(|(_, value)| value).sum::<f64>()).abs() < 1e-9);
        counted.hierarchy.dram.reads_forwarded = 1;
        counted.hierarchy.dram.writes_merged = 1;
        let without = spec.of(&counted, 1e-6, 1, 4)[4].1;
        assert!((found[4].1 - without - (2.784 + 1.756) - (2.352 + 1.756)).abs() < 1e-9, "no device was touched");
        counted.mmu.lookaside_probes = 7;
        assert!((spec.of(&counted, 1e-6, 1, 4)[3].1 - found[3].1 - 7.0 * 0.015).abs() < 1e-9);
        assert_eq!(EnergySpec { l2: -1.0, llc: f64::NAN, ..spec }.validate("energy").len(), 2);
    }
    /// The formulae of TN-40-07 on the data sheet's values: mA, V and ns are pJ, mA and V are mW.
    #[test]
    fn energies_of_dram_follow_from_currents() {
        let (vdd, vpp, devices) = (1.2, 2.5, 8.0);
        let (idd0, idd2n, idd3n, idd4r, idd4w, idd5b) = (57.0, 37.0, 52.0, 168.0, 150.0, 250.0);
        let (ipp3n, ipp5b) = (3.0, 28.0);
        let clock = 0.625;
        let (ras, rc, rfc, burst) = (52.0 * clock, 74.0 * clock, 350.0, 4.0 * clock);
        let low_line = vdd * vdd / (34.0 + 48.0) * 1e3;
        let spec = EnergySpec::default();
        for (name, found, expected) in [
            ("activate", spec.dram_activate, devices * vdd * (idd0 * rc - idd3n * ras - idd2n * (rc - ras))),
            ("read", spec.dram_read, devices * vdd * (idd4r - idd3n) * burst),
            ("write", spec.dram_write, devices * vdd * (idd4w - idd3n) * burst),
            ("bus", spec.dram_bus, (64.0 + 16.0) / 2.0 * low_line * burst),
            ("refresh", spec.dram_refresh, devices * rfc * (vdd * (idd5b - idd3n) + vpp * (ipp5b - ipp3n))),
            ("standby", spec.rank_static, devices * (vdd * idd3n + vpp * ipp3n)),
        ] {
            assert!((found / expected - 1.0).abs() < 1e-3, "{name}: {found}, not {expected}");
        }
    }
}
