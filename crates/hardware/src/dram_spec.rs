//! Settings of main memory.

use ambulator_base::{Invalid, out_of_range};
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
    /// As `ro-ba-ra-co-ch`, the bank xored with all bits of the row, folded to its width. Arrays that begin
    /// at multiples of any power of two are in different banks. It stands for the unpublished hash functions
    /// of server processors, which take in high address bits (Pessl et al., USENIX Security 2016, found such
    /// by measuring).
    HashBank,
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
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns"))]
    pub fixed_ns: f64,
    /// Independent channels, a power of two.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "LVM Table 1"))]
    pub channels: u32,
    /// Ranks of each channel, a power of two.
    #[schemars(range(min = 1, max = 16), extend("x-unit" = "count", "x-source" = "our choice"))]
    pub ranks: u32,
    /// Bank groups of each rank, a power of two.
    #[schemars(range(min = 1, max = 16), extend("x-unit" = "count", "x-source" = "our choice: LVM Table 1 says 8 banks"))]
    pub bank_groups: u32,
    /// Banks of each bank group, a power of two.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "our choice: LVM Table 1 says 8 banks"))]
    pub banks: u32,
    /// Bytes of a row over all devices of a rank, a power of two.
    #[schemars(range(min = 64, max = 1 << 20), extend("x-unit" = "bytes", "x-source" = "JESD79-4, eight x8 devices with 1 KiB pages"))]
    pub row_bytes: u64,
    /// Transfers per second of the 8-byte data bus.
    #[schemars(range(min = 100, max = 100_000), extend("x-unit" = "MT/s", "x-source" = "LVM Table 1"))]
    pub data_rate: u64,
    /// Which address bits select channel, rank, bank, row and column.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub mapping: AddressMapping,
    /// What happens to a row after an access.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub page_policy: PagePolicy,
    /// Read latency: column command to the first data.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200AA"))]
    pub t_cl: u32,
    /// Write latency: column command to the first data.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200"))]
    pub t_cwl: u32,
    /// Activate to column command.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200AA"))]
    pub t_rcd: u32,
    /// Precharge to activate.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200AA"))]
    pub t_rp: u32,
    /// Activate to precharge, minimum.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (32 ns)"))]
    pub t_ras: u32,
    /// Column command to column command in the same bank group.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (5 ns)"))]
    pub t_ccd_l: u32,
    /// Read to precharge.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (7.5 ns)"))]
    pub t_rtp: u32,
    /// End of write data to precharge.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (15 ns)"))]
    pub t_wr: u32,
    /// Activate to activate in another bank group of the rank.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 with 1 KiB pages (2.5 ns)"))]
    pub t_rrd_s: u32,
    /// Activate to activate in the same bank group.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 with 1 KiB pages (4.9 ns)"))]
    pub t_rrd_l: u32,
    /// End of write data to a read's column command in another bank group.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (2.5 ns)"))]
    pub t_wtr_s: u32,
    /// End of write data to a read's column command in the same bank group.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, DDR4-3200 (7.5 ns)"))]
    pub t_wtr_l: u32,
    /// Time for which the bus is idle between data of two ranks, and between a read's data and a write's.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks", "x-source" = "JESD79-4, read to write: CL + 4 + 2 - CWL"))]
    pub t_rtrs: u32,
    /// Window in which a rank can activate four rows.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "JESD79-4, DDR4-3200 with 1 KiB pages"))]
    pub t_faw_ns: f64,
    /// Average time between refreshes of a rank; 0 switches refresh off.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "JESD79-4"))]
    pub t_refi_ns: f64,
    /// Length of a refresh, in which the rank serves nothing and after which all its rows are closed.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "JESD79-4, 8 Gb devices"))]
    pub t_rfc_ns: f64,
    /// Requests of a channel among which its scheduler chooses, beside the writes of a batch: the oldest.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "ChampSim: a read queue of 64"))]
    pub read_queue: u32,
    /// Writes that wait in a channel, at most, those of a batch among them. Evicted lines, which keep an MSHR of the last
    /// level, copies of pages and zeroing wait for room.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "gem5, MemCtrl: a write buffer of 64"))]
    pub write_queue: u32,
    /// Writes that wait in a channel when it releases a batch of them, although reads wait.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "gem5, MemCtrl: 85% of 64"))]
    pub write_high: u32,
    /// Writes that a batch leaves in the queue.
    #[schemars(range(max = 4096), extend("x-unit" = "count", "x-source" = "our choice: gem5's 50% of 64, less the 16 of its least batch"))]
    pub write_low: u32,
    /// A channel without other requests releases a batch when more writes than these wait.
    #[schemars(range(max = 4096), extend("x-unit" = "count", "x-source" = "gem5, MemCtrl: 50% of 64"))]
    pub write_idle: u32,
    /// Column commands to a row, from its activation on, after which a request for another row of the bank
    /// is not passed over any more.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "gem5, DRAMInterface: max_accesses_per_row"))]
    pub row_hit_cap: u32,
    /// Column commands in a row that all read one rank, or all write it: after so many, and when it has waited for as
    /// long as they take, the oldest request goes next, for which the bus must turn to the other direction or rank.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "count", "x-source" = "our choice: more than three batches of writes, so that it helps only who would starve"))]
    pub turn_cap: u32,
    /// Latency that the controller, the PHY and the path from the last-level cache to memory add to each
    /// read.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "our choice"))]
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
            t_rrd_s: 4,
            t_rrd_l: 8,
            t_wtr_s: 4,
            t_wtr_l: 12,
            t_rtrs: 2,
            t_faw_ns: 21.0,
            t_refi_ns: 7800.0,
            t_rfc_ns: 350.0,
            read_queue: 64,
            write_queue: 64,
            write_high: 54,
            write_low: 16,
            write_idle: 32,
            row_hit_cap: 16,
            turn_cap: 128,
            controller_ns: 10.0,
        }
    }
}

impl DramSpec {
    /// All problems of the spec, one sentence each; `at` is the key of this memory.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        for (key, value) in [
            ("channels", u64::from(self.channels)),
            ("ranks", u64::from(self.ranks)),
            ("bank_groups", u64::from(self.bank_groups)),
            ("banks", u64::from(self.banks)),
            ("row_bytes", self.row_bytes),
        ] {
            let key = format!("{at}.{key}");
            if !value.is_power_of_two() && wrong.iter().all(|other| other.key != key) {
                wrong.push(Invalid::new(key, format!("is {value}; it must be a power of two")));
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
        let clock_ns = 2000.0 / self.data_rate.max(1) as f64;
        let open_ns = self.t_rfc_ns + f64::from(self.t_rcd) * clock_ns;
        if self.t_refi_ns >= 2.0 * self.t_rfc_ns && self.t_refi_ns > 0.0 && self.t_refi_ns <= open_ns {
            wrong.push(
                Invalid::new(
                    format!("{at}.t_refi_ns"),
                    format!(
                        "({} ns) is not longer than a refresh and the activation after it ({open_ns} ns, `{at}.t_rfc_ns` \
                         and `{at}.t_rcd`): no row could ever be used",
                        self.t_refi_ns
                    ),
                )
                .and(format!("{at}.t_rfc_ns"))
                .and(format!("{at}.t_rcd")),
            );
        }
        if self.write_queue < self.write_high {
            wrong.push(
                Invalid::new(
                    format!("{at}.write_queue"),
                    format!(
                        "is {}; it must be at least `{at}.write_high` ({}), or a full queue does not begin a batch",
                        self.write_queue, self.write_high
                    ),
                )
                .and(format!("{at}.write_high")),
            );
        }
        if self.write_low >= self.write_high {
            wrong.push(
                Invalid::new(
                    format!("{at}.write_low"),
                    format!(
                        "is {}; it must be below `{at}.write_high` ({}), or a batch has no writes",
                        self.write_low, self.write_high
                    ),
                )
                .and(format!("{at}.write_high")),
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
        assert!(wrong.iter().any(|wrong| wrong.to_string().contains("`dram.channels` is 3")), "{wrong:?}");
        let never_open = DramSpec { t_refi_ns: 100.0, t_rfc_ns: 50.0, t_rcd: 80, ..DramSpec::default() };
        assert!(never_open.validate("dram")[0].to_string().contains("no row could ever be used"));
        let no_room = DramSpec { write_queue: 53, ..DramSpec::default() };
        assert!(no_room.validate("dram")[0].to_string().contains("must be at least `dram.write_high` (54)"));
        let no_batch = DramSpec { write_high: 16, write_low: 16, ..DramSpec::default() };
        assert!(no_batch.validate("dram")[0].to_string().contains("must be below `dram.write_high` (16)"));
    }
}
