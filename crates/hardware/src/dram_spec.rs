//! Settings of main memory.

use ambulator_base::Invalid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How main memory is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DramModel {
    /// Banks, rows, buses and refresh.
    #[default]
    Banked,
    /// Every access takes `fixed_ns`, regardless of load.
    Fixed,
}

/// Which bits of a physical address select what, from the most significant to the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddressMapping {
    /// Row, bank, rank, column, channel: adjacent lines on adjacent channels, a row's lines in one bank.
    #[default]
    RoBaRaCoCh,
    /// Row, rank, bank, channel, column: a whole row on one channel, the next row on the next channel.
    RoRaBaChCo,
    /// Row, column, rank, bank, channel: adjacent lines on adjacent channels, then adjacent banks.
    RoCoRaBaCh,
    /// As `ro-ba-ra-co-ch`, the bank xored with the low bits of the row (Zhang et al., MICRO 2000).
    XorBank,
}

/// What happens to a row after an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PagePolicy {
    /// It stays open until an access needs another row or a refresh closes it.
    #[default]
    Open,
    /// It is closed at once (auto-precharge).
    Closed,
}

/// Main memory. Timings in clocks are in DRAM clocks, one for every two transfers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DramSpec {
    /// How main memory is modelled.
    #[schemars(extend("x-unit" = "choice"))]
    pub model: DramModel,
    /// Latency of every access with `model = "fixed"`.
    #[schemars(extend("x-unit" = "ns"))]
    pub fixed_ns: f64,
    /// Independent channels, a power of two.
    #[schemars(extend("x-unit" = "count", "x-source" = "LVM Table 1"))]
    pub channels: u32,
    /// Ranks of each channel, a power of two.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice"))]
    pub ranks: u32,
    /// Bank groups of each rank, a power of two.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice: LVM Table 1 says 8 banks"))]
    pub bank_groups: u32,
    /// Banks of each bank group, a power of two.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice: LVM Table 1 says 8 banks"))]
    pub banks: u32,
    /// Bytes of a row over all devices of a rank, a power of two.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "JESD79-4, eight x8 devices with 1 KiB pages"))]
    pub row_bytes: u64,
    /// Transfers per second of the 8-byte data bus.
    #[schemars(extend("x-unit" = "MT/s", "x-source" = "LVM Table 1"))]
    pub data_rate: u64,
    /// Which address bits select channel, rank, bank, row and column.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub mapping: AddressMapping,
    /// What happens to a row after an access.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub page_policy: PagePolicy,
    /// Read latency: column command to the first data.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200AA"))]
    pub t_cl: u32,
    /// Write latency: column command to the first data.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200"))]
    pub t_cwl: u32,
    /// Activate to column command.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200AA"))]
    pub t_rcd: u32,
    /// Precharge to activate.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200AA"))]
    pub t_rp: u32,
    /// Activate to precharge, minimum.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (32 ns)"))]
    pub t_ras: u32,
    /// Column command to column command in the same bank group.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (5 ns)"))]
    pub t_ccd_l: u32,
    /// Read to precharge.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (7.5 ns)"))]
    pub t_rtp: u32,
    /// End of write data to precharge.
    #[schemars(extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (15 ns)"))]
    pub t_wr: u32,
    /// Window in which a rank can activate four rows.
    #[schemars(extend("x-unit" = "ns", "x-source" = "JESD79-4, DDR4-3200 with 1 KiB pages"))]
    pub t_faw_ns: f64,
    /// Average time between refreshes of a rank; 0 switches refresh off.
    #[schemars(extend("x-unit" = "ns", "x-source" = "JESD79-4"))]
    pub t_refi_ns: f64,
    /// Length of a refresh, in which the rank serves nothing and after which all its rows are closed.
    #[schemars(extend("x-unit" = "ns", "x-source" = "JESD79-4, 8 Gb devices"))]
    pub t_rfc_ns: f64,
    /// Latency that the controller, the PHY and the path from the last-level cache to memory add to each
    /// read.
    #[schemars(extend("x-unit" = "ns", "x-source" = "our choice"))]
    pub controller_ns: f64,
}

impl Default for DramSpec {
    fn default() -> Self {
        DramSpec {
            model: DramModel::Banked,
            fixed_ns: 60.0,
            channels: 4,
            ranks: 1,
            bank_groups: 2,
            banks: 4,
            row_bytes: 8192,
            data_rate: 3200,
            mapping: AddressMapping::RoBaRaCoCh,
            page_policy: PagePolicy::Open,
            t_cl: 22,
            t_cwl: 16,
            t_rcd: 22,
            t_rp: 22,
            t_ras: 52,
            t_ccd_l: 8,
            t_rtp: 12,
            t_wr: 24,
            t_faw_ns: 21.0,
            t_refi_ns: 7800.0,
            t_rfc_ns: 350.0,
            controller_ns: 10.0,
        }
    }
}

impl DramSpec {
    /// All problems of the spec, one sentence each; `at` is the key of this memory.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        for (key, value, most) in [
            ("channels", u64::from(self.channels), 64),
            ("ranks", u64::from(self.ranks), 16),
            ("bank_groups", u64::from(self.bank_groups), 16),
            ("banks", u64::from(self.banks), 64),
            ("row_bytes", self.row_bytes, 1 << 20),
        ] {
            let least = if key == "row_bytes" { 64 } else { 1 };
            if !(least..=most).contains(&value) || !value.is_power_of_two() {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is {value}; it must be a power of two from {least} to {most}"),
                ));
            }
        }
        if !(100..=100_000).contains(&self.data_rate) {
            wrong.push(Invalid::new(
                format!("{at}.data_rate"),
                format!("is {} MT/s; it must be 100 to 100000 (DDR4-3200 has 3200)", self.data_rate),
            ));
        }
        for (key, value) in [
            ("t_cl", self.t_cl),
            ("t_cwl", self.t_cwl),
            ("t_rcd", self.t_rcd),
            ("t_rp", self.t_rp),
            ("t_ras", self.t_ras),
            ("t_ccd_l", self.t_ccd_l),
            ("t_rtp", self.t_rtp),
            ("t_wr", self.t_wr),
        ] {
            if value > 10_000 {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is {value} DRAM clocks; it must be at most 10000"),
                ));
            }
        }
        for (key, value) in [
            ("fixed_ns", self.fixed_ns),
            ("t_faw_ns", self.t_faw_ns),
            ("t_refi_ns", self.t_refi_ns),
            ("t_rfc_ns", self.t_rfc_ns),
            ("controller_ns", self.controller_ns),
        ] {
            if !(0.0..=1e6).contains(&value) {
                wrong.push(Invalid::new(format!("{at}.{key}"), format!("is {value} ns; it must be 0 to 1000000")));
            }
        }
        if self.t_refi_ns > 0.0 && self.t_refi_ns < 2.0 * self.t_rfc_ns {
            wrong.push(
                Invalid::new(
                    format!("{at}.t_refi_ns"),
                    format!(
                        "({} ns) leaves less than half of the time outside refreshes of {} ns (`{at}.t_rfc_ns`); \
                         DDR4 has 7800 and 350, and 0 switches refresh off",
                        self.t_refi_ns, self.t_rfc_ns
                    ),
                )
                .and(format!("{at}.t_rfc_ns")),
            );
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_memories_are_rejected() {
        assert_eq!(DramSpec::default().validate("dram"), vec![]);
        let spec =
            DramSpec { channels: 3, data_rate: 0, t_refi_ns: 400.0, controller_ns: f64::NAN, ..DramSpec::default() };
        let wrong = spec.validate("dram");
        assert_eq!(wrong.len(), 4, "{wrong:?}");
        assert!(wrong[0].to_string().contains("`dram.channels` is 3"));
    }
}
