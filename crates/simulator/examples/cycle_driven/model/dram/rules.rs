//! The rules of a memory controller and its devices, in DRAM clocks.

use ambulator_hardware::{AddressMapping, DramSpec, PagePolicy};

/// DRAM clocks that 64 bytes take on an 8-byte bus with two transfers a clock.
const BURST: u64 = 4;

/// Timings and queue limits. Names are those of JESD79-4 where it has them.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Column command to data.
    pub cl: u64,
    pub cwl: u64,
    pub rcd: u64,
    pub rp: u64,
    pub ras: u64,
    pub rtp: u64,
    /// End of write data to precharge.
    pub wr: u64,
    pub burst: u64,
    /// Between column commands of other bank groups, and of the same.
    pub ccd_s: u64,
    pub ccd_l: u64,
    /// End of write data to a read command of another bank group of the rank, and of the same.
    pub wtr_s: u64,
    pub wtr_l: u64,
    /// Idle clocks of the bus when it changes its direction from read to write, or its rank.
    pub rtrs: u64,
    /// Between activations of other bank groups of a rank, and of the same.
    pub rrd_s: u64,
    pub rrd_l: u64,
    /// Four activations of a rank.
    pub faw: u64,
    /// Between refreshes of a rank (0: none), and the length of one.
    pub refi: u64,
    pub rfc: u64,
    /// Writes that a channel's queue holds.
    pub write_queue: usize,
    /// Waiting writes at which writes are released, always or when no read waits, and down to which.
    pub write_high: usize,
    pub write_idle: usize,
    pub write_low: usize,
    /// Oldest reads among which, beside released writes, the next command is chosen.
    pub window: usize,
    /// Column commands to a row, from its activation, while another row of its bank is waited for.
    pub row_hit_cap: u64,
    /// Column commands in a row to one rank in one direction before the oldest request may turn the bus around.
    pub turn_cap: u64,
    /// Rows are closed after each column command.
    pub closes_rows: bool,
    /// Choices that experiments switch off.
    pub choices: DramChoices,
    ranks: usize,
    groups: usize,
    banks: usize,
    channels: usize,
    columns: u64,
    mapping: AddressMapping,
}

/// Rules of the controller that an experiment can switch off, each alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramChoices {
    /// Requests that are ready precede older ones of their bank.
    pub first_ready: bool,
    /// Writes gather and drain in batches; otherwise each is a candidate when it arrives.
    pub batches: bool,
    /// The bus turns around between reads and writes (tWTR, read to write).
    pub turn_around: bool,
    /// Activations are tRRD apart (tFAW holds in any case).
    pub rrd: bool,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub channel: usize,
    /// Rank, bank group and bank within the channel, each numbered over the whole channel.
    pub rank: usize,
    pub group: usize,
    pub bank: usize,
    pub row: u64,
}

impl Rules {
    /// The rules of a spec.
    pub fn new(spec: &DramSpec, choices: DramChoices) -> Rules {
        let clocks = |ns: f64| (ns * spec.data_rate as f64 / 2000.0).ceil() as u64;
        Rules {
            cl: spec.t_cl.into(),
            cwl: spec.t_cwl.into(),
            rcd: spec.t_rcd.into(),
            rp: spec.t_rp.into(),
            ras: spec.t_ras.into(),
            rtp: spec.t_rtp.into(),
            wr: spec.t_wr.into(),
            burst: BURST,
            ccd_s: BURST,
            ccd_l: BURST.max(spec.t_ccd_l.into()),
            wtr_s: spec.t_wtr_s.into(),
            wtr_l: spec.t_wtr_l.into(),
            rtrs: spec.t_rtrs.into(),
            rrd_s: spec.t_rrd_s.into(),
            rrd_l: spec.t_rrd_l.into(),
            faw: clocks(spec.t_faw_ns),
            refi: clocks(spec.t_refi_ns),
            rfc: clocks(spec.t_rfc_ns),
            write_queue: spec.write_queue as usize,
            write_high: spec.write_high as usize,
            write_idle: spec.write_idle as usize,
            write_low: spec.write_low as usize,
            window: spec.read_queue as usize,
            row_hit_cap: spec.row_hit_cap.into(),
            turn_cap: spec.turn_cap.into(),
            closes_rows: spec.page_policy == PagePolicy::Closed,
            choices,
            ranks: spec.ranks as usize,
            groups: spec.bank_groups as usize,
            banks: spec.banks as usize,
            channels: spec.channels as usize,
            columns: spec.row_bytes / 64,
            mapping: spec.mapping,
        }
    }

    /// Ranks, bank groups and banks of a channel.
    pub fn parts(&self) -> (usize, usize, usize) {
        let groups = self.ranks * self.groups;
        (self.ranks, groups, groups * self.banks)
    }

    /// Least clocks from a column command to that of a write.
    pub fn column_to_write(&self, write: bool, from: Place, to: Place) -> u64 {
        match write {
            false => (self.cl + self.burst + self.rtrs).saturating_sub(self.cwl),
            true if from.rank != to.rank => self.burst + self.rtrs,
            true if from.group == to.group => self.ccd_l,
            true => self.ccd_s,
        }
    }

    /// The place of a line.
    pub fn place(&self, line: u64) -> Place {
        let mut rest = line;
        let mut take = |n: u64| {
            let part = rest % n;
            rest /= n;
            part
        };
        let (channels, ranks, columns) = (self.channels as u64, self.ranks as u64, self.columns);
        let banks = (self.groups * self.banks) as u64;
        let (channel, rank, mut bank) = match self.mapping {
            AddressMapping::RoBaRaCoCh | AddressMapping::XorBank | AddressMapping::HashBank => {
                let channel = take(channels);
                take(columns);
                (channel, take(ranks), take(banks))
            }
            AddressMapping::RoRaBaChCo => {
                take(columns);
                let (channel, bank) = (take(channels), take(banks));
                (channel, take(ranks), bank)
            }
            AddressMapping::RoCoRaBaCh => {
                let (channel, bank, rank) = (take(channels), take(banks), take(ranks));
                take(columns);
                (channel, rank, bank)
            }
        };
        if self.mapping == AddressMapping::XorBank {
            bank ^= rest % banks;
        }
        if self.mapping == AddressMapping::HashBank && banks > 1 {
            let mut row = rest;
            while row > 0 {
                bank ^= row % banks;
                row /= banks;
            }
        }
        // Neighbouring banks are in different groups.
        let (rank, bank) = (rank as usize, bank as usize);
        Place {
            channel: channel as usize,
            rank,
            group: rank * self.groups + bank % self.groups,
            bank: rank * self.groups * self.banks + bank,
            row: rest,
        }
    }
}
