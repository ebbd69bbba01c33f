//! The memories that are compared: one description for both models.

use ambulator_hardware::{DramSpec, PagePolicy};

/// One channel of memory, of 64 data bits. Times are in DRAM clocks.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub name: &'static str,
    /// Transfers per second, in millions: two a clock.
    pub data_rate: u64,
    pub ranks: u32,
    pub bank_groups: u32,
    /// Of each group.
    pub banks: u32,
    /// Of each bank.
    pub rows: u32,
    pub t_cl: u32,
    pub t_cwl: u32,
    pub t_rcd: u32,
    pub t_rp: u32,
    pub t_ras: u32,
    pub t_ccd_l: u32,
    pub t_rtp: u32,
    pub t_wr: u32,
    pub t_rrd_s: u32,
    pub t_rrd_l: u32,
    pub t_wtr_s: u32,
    pub t_wtr_l: u32,
    pub t_faw: u32,
    pub t_refi: u32,
    pub t_rfc: u32,
}

/// Lines of a row: 8 KiB, of eight devices with pages of 1 KiB.
pub const ROW_LINES: u64 = 128;
/// Clocks of a burst of eight transfers.
pub const BURST: u32 = 4;
/// DRAMsim3's bubble on the bus, of one clock in all of its files for DDR3 and DDR4.
pub const RTRS: u32 = 1;
/// Clocks of DRAMsim3 that are neither DRAM timing nor queueing: one from the transaction queue to the
/// command queue (`Controller::ScheduleTransaction` comes after the commands of its clock), one until the
/// caller of `ClockTick` can act on the data.
pub const PIPELINE: u32 = 2;
/// DRAMsim3's `trans_queue_size`: of reads, and of writes.
pub const TRANSACTIONS: u32 = 32;
/// DRAMsim3's `cmd_queue_size`, of each bank.
pub const COMMANDS: u32 = 8;
/// `Controller::ScheduleTransaction`: an idle channel turns to its writes when there are more than these.
pub const IDLE_WRITES: u32 = 8;
/// `CommandQueue::ArbitratePrecharge`: after so many column commands the open row is not kept open for
/// others.
pub const ROW_HITS: u32 = 4;

/// JESD79-4, DDR4-3200AA, 8 Gb x8 devices; `DDR4_8Gb_x8_3200.ini` of DRAMsim3 has the same numbers.
const DDR4_3200: Memory = Memory {
    name: "DDR4-3200",
    data_rate: 3200,
    ranks: 1,
    bank_groups: 4,
    banks: 4,
    rows: 65536,
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
    t_faw: 34,
    t_refi: 12480,
    t_rfc: 560,
};

/// All of them.
pub const MEMORIES: [Memory; 4] = [
    DDR4_3200,
    // JESD79-4, DDR4-2400T; `DDR4_8Gb_x8_2400.ini`.
    Memory {
        name: "DDR4-2400",
        data_rate: 2400,
        t_cl: 17,
        t_cwl: 12,
        t_rcd: 17,
        t_rp: 17,
        t_ras: 39,
        t_ccd_l: 6,
        t_rtp: 9,
        t_wr: 18,
        t_rrd_s: 4,
        t_rrd_l: 6,
        t_wtr_s: 3,
        t_wtr_l: 9,
        t_faw: 26,
        t_refi: 9360,
        t_rfc: 420,
        ..DDR4_3200
    },
    // JESD79-3F, DDR3-1066F with pages of 1 KiB, 4 Gb devices (tRFC 260 ns): the structure of DRAMsim3's
    // `DDR3_4Gb_x8_1600.ini`. Its files for 4 and 8 Gb spell tREFI `REFI`, which DRAMsim3 does not read: they
    // refresh every 7800 clocks.
    Memory {
        name: "DDR3-1066",
        data_rate: 1066,
        bank_groups: 1,
        banks: 8,
        t_cl: 7,
        t_cwl: 6,
        t_rcd: 7,
        t_rp: 7,
        t_ras: 20,
        t_ccd_l: 4,
        t_rtp: 4,
        t_wr: 8,
        t_rrd_s: 4,
        t_rrd_l: 4,
        t_wtr_s: 4,
        t_wtr_l: 4,
        t_faw: 20,
        t_refi: 4160,
        t_rfc: 139,
        ..DDR4_3200
    },
    Memory { name: "DDR4-3200, two ranks", ranks: 2, ..DDR4_3200 },
];

impl Memory {
    pub fn clock_ns(&self) -> f64 {
        2000.0 / self.data_rate as f64
    }

    /// Lines from a row to the next row of the same bank.
    pub fn row_stride(&self) -> u64 {
        ROW_LINES * u64::from(self.ranks * self.bank_groups * self.banks)
    }

    /// What our model is told. What DRAMsim3 has as constants of its code is here too.
    pub fn spec(&self) -> DramSpec {
        let ns = |clocks: u32| f64::from(clocks) * self.clock_ns();
        DramSpec {
            channels: 1,
            ranks: self.ranks,
            bank_groups: self.bank_groups,
            banks: self.banks,
            row_bytes: ROW_LINES * 64,
            data_rate: self.data_rate,
            page_policy: PagePolicy::Open,
            t_cl: self.t_cl,
            t_cwl: self.t_cwl,
            t_rcd: self.t_rcd,
            t_rp: self.t_rp,
            t_ras: self.t_ras,
            t_ccd_l: self.t_ccd_l,
            t_rtp: self.t_rtp,
            t_wr: self.t_wr,
            t_rrd_s: self.t_rrd_s,
            t_rrd_l: self.t_rrd_l,
            t_wtr_s: self.t_wtr_s,
            t_wtr_l: self.t_wtr_l,
            t_rtrs: RTRS,
            t_faw_ns: ns(self.t_faw),
            t_refi_ns: ns(self.t_refi),
            t_rfc_ns: ns(self.t_rfc),
            read_queue: COMMANDS * self.ranks * self.bank_groups * self.banks,
            // Those of the queue in front of the banks' queues, and these.
            write_queue: TRANSACTIONS + COMMANDS * self.ranks * self.bank_groups * self.banks,
            write_high: TRANSACTIONS,
            write_low: 0,
            write_idle: IDLE_WRITES,
            row_hit_cap: ROW_HITS,
            controller_ns: ns(PIPELINE),
            ..DramSpec::default()
        }
    }
}
