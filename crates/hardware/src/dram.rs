//! DRAM: channels, ranks, bank groups, banks, rows, buses and refresh.
//!
//! Times are in ticks of 1/64 core cycle. Each bank remembers its last seven accesses in order of time. A
//! request finds the access before it, which determines the open row and the tick from which on the bank
//! accepts a command. If the request finishes before the next access begins, it is placed between the two,
//! otherwise after them. Column commands of a bank group, activations of a rank and data on a channel's bus
//! take slots in reservation tables. Requests that arrive out of order in time thus meet the contention of
//! their own time.
//!
//! Approximations. A request placed between two others does not change the time already returned for the
//! later one (whose row may have been open before). Within a bank, service is first come, first served.
//! Turning the bus between reads and writes costs nothing. Writes are performed in order of time among the
//! reads of their bank (see `write_queue.rs`), not in batches. A refresh does not wait for a request that
//! overlaps it. Bus and command slots are aligned (see `reservation_table.rs`).

use crate::reservation_table::{SlotTable, divide};
use crate::write_queue::{Write, WriteQueue};
use crate::channel::{Channel, Request, Rules};
use crate::{AddressMapping, DramModel, DramSpec, PagePolicy};
use ambulator_base::{CounterSink, Counters, LINE_BYTES, counters};

counters! {
    /// Counters of DRAM. Translation accesses are reads by walkers, fetches of table lines, and write-backs
    /// of table lines.
    pub struct DramCounters {
        /// Lines read for data and code.
        data_reads: Events,
        /// Lines read for translation.
        table_reads: Events,
        /// Lines written back, of data.
        data_writes: Events,
        /// Lines written back, of translation tables.
        table_writes: Events,
        /// Data accesses (reads and writes) whose row was open.
        data_row_hits: Events timed,
        /// Data accesses whose bank had no row open.
        data_row_misses: Events timed,
        /// Data accesses whose bank had another row open.
        data_row_conflicts: Events timed,
        /// Translation accesses whose row was open.
        table_row_hits: Events timed,
        /// Translation accesses whose bank had no row open.
        table_row_misses: Events timed,
        /// Translation accesses whose bank had another row open.
        table_row_conflicts: Events timed,
        /// Cycles from request to data, summed over data reads.
        data_read_cycles: Cycles timed,
        /// Cycles from request to data, summed over translation reads.
        table_read_cycles: Cycles timed,
        /// Rows activated (for energy).
        activates: Events timed,
        /// Refreshes of a rank (for energy).
        refreshes: Events timed,
        /// Requests that arrived during a refresh and waited for its end.
        refresh_waits: Events timed,
        /// Cycles for which the buses carried data, summed over channels.
        bus_busy: Cycles timed,
    }
}

/// Number of accesses that a bank remembers.
const KEPT: usize = 7;
const TICK_SHIFT: u32 = 6;
const NO_ROW: u32 = u32::MAX;
/// Width of the data bus, in bytes.
const BUS_BYTES: u64 = 8;

/// One access as a bank remembers it.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// Tick of its first command.
    begin: u64,
    /// Tick of its column command.
    column: u64,
    /// With a row left open: when it can be precharged. Without: when another can be activated.
    free: u64,
    /// The row that it left open.
    row: u32,
    /// The refresh interval in which it left the row open: a later refresh has closed the row.
    interval: u32,
}

/// A bank: with its padding, four sim-host cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bank {
    /// Last accesses, in order of time.
    last: [Past; KEPT],
    /// The contiguous busy time of the forgotten accesses, up to the last of them.
    busy: (u64, u64),
}

impl Bank {
    /// Inserts `served` after the first `before` accesses; the oldest access is forgotten.
    #[inline(always)]
    fn remember(&mut self, before: usize, served: Past) {
        let oldest = self.last[0];
        let begin = if oldest.begin <= self.busy.1 { self.busy.0 } else { oldest.begin };
        self.busy = (begin, oldest.free);
        if before == KEPT {
            // The common case, of a size known at compile time.
            self.last.copy_within(1..KEPT, 0);
        } else {
            self.last.copy_within(1..before, 0);
        }
        self.last[before - 1] = served;
    }
}

#[derive(Clone, Copy, Debug)]
struct Ticks {
    cl: u64,
    cwl: u64,
    rcd: u64,
    rp: u64,
    ras: u64,
    ccd_l: u64,
    rtp: u64,
    wr: u64,
    burst: u64,
    refi: u64,
    rfc: u64,
    controller: u64,
    fixed: u64,
}

/// The DRAM coordinates of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    channel: usize,
    /// Rank over all channels.
    rank: usize,
    /// Bank group over all ranks.
    group: usize,
    /// Bank over all ranks.
    bank: usize,
    row: u32,
}

/// Shift and mask of each field of a line number.
#[derive(Clone, Copy, Debug)]
struct Fields {
    channel: (u32, u64),
    rank: (u32, u64),
    bank: (u32, u64),
    row: u32,
    xor: bool,
}

impl Fields {
    fn new(spec: &DramSpec) -> Fields {
        let bits = |n: u64| n.trailing_zeros();
        let channel = bits(u64::from(spec.channels));
        let rank = bits(u64::from(spec.ranks));
        let bank = bits(u64::from(spec.bank_groups) * u64::from(spec.banks));
        let column = bits(spec.row_bytes / LINE_BYTES);
        let mask = |width: u32| (1u64 << width) - 1;
        let (c, r, b, row) = match spec.mapping {
            AddressMapping::RoBaRaCoCh | AddressMapping::XorBank => {
                (0, channel + column, channel + column + rank, channel + column + rank + bank)
            }
            AddressMapping::RoRaBaChCo => {
                (column, column + channel + bank, column + channel, column + channel + bank + rank)
            }
            AddressMapping::RoCoRaBaCh => (0, channel + bank, channel, channel + bank + rank + column),
        };
        Fields {
            channel: (c, mask(channel)),
            rank: (r, mask(rank)),
            bank: (b, mask(bank)),
            row,
            xor: spec.mapping == AddressMapping::XorBank,
        }
    }
}

/// Main memory.
#[derive(Clone, Debug)]
pub struct Dram {
    fixed: bool,
    closed: bool,
    timing: bool,
    ticks: Ticks,
    refi_reciprocal: u64,
    fields: Fields,
    ranks: usize,
    banks_of_rank: usize,
    groups_of_rank: usize,
    banks: Box<[Bank]>,
    /// Of each bank.
    writes: Box<[WriteQueue]>,
    bus: Box<[SlotTable]>,
    columns: Box<[SlotTable]>,
    activations: Box<[SlotTable]>,
    /// For each rank: how long before the multiples of tREFI its refreshes come.
    refresh_offset: Box<[u64]>,
    counters: DramCounters,
    busy_ticks: u64,
    /// The channels of the new model.
    channels: Box<[Channel]>,
    latest: u64,
    counted_from: u64,
}

impl Dram {
    /// Cycles for which the buses have carried data so far, summed over channels, and the number of channels.
    pub fn bus(&self) -> (u64, u32) {
        (self.busy_ticks >> TICK_SHIFT, self.bus.len() as u32)
    }
    /// Memory with all rows closed. With `timing` false it only counts accesses, and latency is 0.
    ///
    /// The spec must have passed [`DramSpec::validate`].
    pub fn new(spec: &DramSpec, clock_mhz: u64, timing: bool) -> Dram {
        let of_ns = |ns: f64| (ns * clock_mhz as f64 / 1000.0 * (1u64 << TICK_SHIFT) as f64).round() as u64;
        let clock_ns = 2000.0 / spec.data_rate as f64;
        let of_clocks = |clocks: u32| of_ns(f64::from(clocks) * clock_ns);
        let burst_clocks = (LINE_BYTES / BUS_BYTES / 2) as u32;
        let ticks = Ticks {
            cl: of_clocks(spec.t_cl),
            cwl: of_clocks(spec.t_cwl),
            rcd: of_clocks(spec.t_rcd),
            rp: of_clocks(spec.t_rp),
            ras: of_clocks(spec.t_ras),
            ccd_l: of_clocks(spec.t_ccd_l.max(burst_clocks)),
            rtp: of_clocks(spec.t_rtp),
            wr: of_clocks(spec.t_wr),
            burst: of_clocks(burst_clocks),
            refi: of_ns(spec.t_refi_ns),
            rfc: of_ns(spec.t_rfc_ns),
            controller: of_ns(spec.controller_ns),
            fixed: of_ns(spec.fixed_ns),
        };
        let channels = spec.channels as usize;
        let ranks = channels * spec.ranks as usize;
        let groups_of_rank = spec.bank_groups as usize;
        let banks_of_rank = groups_of_rank * spec.banks as usize;
        let idle = Past { begin: 0, column: 0, free: 0, row: NO_ROW, interval: 0 };
        // The refreshes of the ranks are evenly spread.
        let spread = ticks.refi.saturating_sub(2 * ticks.rfc) / ranks as u64;
        let rules = Rules {
            clock: of_clocks(1),
            cl: ticks.cl,
            cwl: ticks.cwl,
            rcd: ticks.rcd,
            rp: ticks.rp,
            ras: ticks.ras,
            ccd_s: ticks.burst,
            ccd_l: ticks.ccd_l,
            rtp: ticks.rtp,
            wr: ticks.wr,
            wtr_s: of_clocks(4),
            wtr_l: of_clocks(12),
            rrd_s: of_clocks(4),
            rrd_l: of_clocks(8),
            rtrs: of_clocks(1),
            faw: of_ns(spec.t_faw_ns),
            burst: ticks.burst,
            refi: ticks.refi,
            rfc: ticks.rfc,
            closed: spec.page_policy == PagePolicy::Closed,
            window: 64,
            high: 32,
            low: 0,
            idle: 8,
            passes: 4,
        };
        let channel = |_| {
            Channel::new(rules, spec.ranks as usize, groups_of_rank, banks_of_rank, |rank| ticks.refi + rank as u64 * spread)
        };
        let new_channels: Box<[Channel]> = (0..channels).map(channel).collect();
        Dram {
            channels: new_channels,
            fixed: spec.model == DramModel::Fixed,
            closed: spec.page_policy == PagePolicy::Closed,
            timing,
            refi_reciprocal: u64::MAX.checked_div(ticks.refi).map_or(0, |n| n + 1),
            fields: Fields::new(spec),
            ranks: spec.ranks as usize,
            banks_of_rank,
            groups_of_rank,
            banks: vec![Bank { last: [idle; KEPT], busy: (0, 0) }; ranks * banks_of_rank].into(),
            writes: vec![WriteQueue::default(); ranks * banks_of_rank].into(),
            bus: vec![SlotTable::new(ticks.burst); channels].into(),
            columns: vec![SlotTable::new(ticks.ccd_l); ranks * groups_of_rank].into(),
            activations: vec![SlotTable::new(of_ns(spec.t_faw_ns) / 4); ranks].into(),
            refresh_offset: (0..ranks as u64).map(|rank| ticks.rfc + rank * spread).collect(),
            counters: DramCounters::default(),
            busy_ticks: 0,
            latest: 0,
            counted_from: 0,
            ticks,
        }
    }

    #[inline(always)]
    fn place(&self, line: u64) -> Place {
        let field = |(shift, mask): (u32, u64)| (line >> shift & mask) as usize;
        let channel = field(self.fields.channel);
        let rank = channel * self.ranks + field(self.fields.rank);
        let row = line >> self.fields.row;
        let mut bank = field(self.fields.bank);
        if self.fields.xor {
            bank ^= (row & self.fields.bank.1) as usize;
        }
        // The lowest bits of a bank's number are its group: adjacent banks alternate between groups.
        let group = rank * self.groups_of_rank + (bank & (self.groups_of_rank - 1));
        Place { channel, rank, group, bank: rank * self.banks_of_rank + bank, row: row as u32 }
    }

    /// Prefetches the bank of `line` into the sim host's caches.
    #[inline(always)]
    pub fn prefetch_sim_host(&self, line: u64) {
        let place = self.place(line);
        crate::sim_host::prefetch(&self.banks, place.bank);
        crate::sim_host::prefetch(&self.writes, place.bank);
    }

    /// Reads the 64-byte line number `line`, requested at cycle `now`; returns the cycle of its arrival.
    #[inline]
    pub fn read(&mut self, line: u64, table: bool, now: u64) -> u64 {
        if table {
            self.counters.table_reads += 1;
        } else {
            self.counters.data_reads += 1;
        }
        if !self.timing {
            return now;
        }
        let at = now << TICK_SHIFT;
        let done = if self.fixed {
            at + self.ticks.fixed
        } else {
            let (place, at) = (self.place(line), at + self.ticks.controller);
            let request = self.request(place, line, table, false, at);
            self.channels[place.channel].read(request)
        };
        let ready = (done + (1 << TICK_SHIFT) - 1) >> TICK_SHIFT;
        if table {
            self.counters.table_read_cycles += ready - now;
        } else {
            self.counters.data_read_cycles += ready - now;
        }
        ready
    }

    /// Writes a line back at cycle `now`. No access waits for it, but it occupies bank and bus.
    #[inline]
    pub fn write(&mut self, line: u64, table: bool, now: u64) {
        if table {
            self.counters.table_writes += 1;
        } else {
            self.counters.data_writes += 1;
        }
        if self.timing && !self.fixed {
            let requested = (now << TICK_SHIFT) + self.ticks.controller;
            let place = self.place(line);
            let request = self.request(place, line, table, true, requested);
            self.channels[place.channel].write(request);
        }
    }

    #[inline(always)]
    fn request(&self, place: Place, line: u64, table: bool, write: bool, arrival: u64) -> Request {
        let base = place.channel * self.ranks;
        Request {
            arrival,
            line,
            row: place.row,
            bank: (place.bank - base * self.banks_of_rank) as u16,
            group: (place.group - base * self.groups_of_rank) as u16,
            rank: (place.rank - base) as u16,
            write,
            table,
        }
    }

    /// Performs the writes of a bank that are due by tick `at`.
    #[inline(always)]
    fn write_due(&mut self, bank: usize, at: u64) {
        while let Some(Write { requested, line, table }) = self.writes[bank].due(at) {
            self.serve(self.place(line), table, true, requested);
        }
    }

    /// Performs all queued writes: no further access comes.
    pub fn drain(&mut self) {
        for bank in 0..self.writes.len() {
            self.write_due(bank, u64::MAX);
        }
    }

    /// Serves a request from tick `at` on; returns the tick at which the last of its data has passed.
    fn serve(&mut self, place: Place, table: bool, write: bool, mut at: u64) -> u64 {
        let ticks = &self.ticks;
        self.latest = self.latest.max(at);
        let mut interval = 0;
        if ticks.refi > 0 {
            let shifted = at + self.refresh_offset[place.rank];
            let count = divide(shifted, self.refi_reciprocal);
            let since = shifted.saturating_sub(count * ticks.refi);
            if since < ticks.rfc {
                at += ticks.rfc - since;
                self.counters.refresh_waits += 1;
            }
            interval = count as u32;
        }
        let Bank { last: bank, busy } = &self.banks[place.bank];
        let latency = if write { ticks.cwl } else { ticks.cl };
        let recovery = if write { ticks.cwl + ticks.burst + ticks.wr } else { ticks.rtp };
        // The access after which this one comes; `before == 0` means before all that are remembered.
        let mut before = KEPT;
        while before > 0 && bank[before - 1].begin > at {
            before -= 1;
        }
        // Older than all that are remembered, and within the busy time of the forgotten ones: placed after
        // that.
        if before == 0 && at >= busy.0 {
            at = at.max(busy.1);
        }
        let (begin, mut activate, outcome) = loop {
            let (begin, activate, outcome) = match before.checked_sub(1).map(|last| bank[last]) {
                None => (at, at, Outcome::Miss),
                Some(last) if last.interval != interval => (at, at, Outcome::Miss),
                Some(last) if last.row == place.row => (at.max(last.column), 0, Outcome::Hit),
                Some(last) if last.row == NO_ROW => {
                    let activate = at.max(last.free);
                    (activate, activate, Outcome::Miss)
                }
                Some(last) => {
                    let precharge = at.max(last.free);
                    (precharge, precharge + ticks.rp, Outcome::Conflict)
                }
            };
            let Some(next) = bank.get(before) else { break (begin, activate, outcome) };
            let column = if outcome == Outcome::Hit { begin } else { activate + ticks.rcd };
            let free = (column + recovery).max(activate + ticks.ras);
            if free <= next.begin || (next.row == place.row && column <= next.column) {
                break (begin, activate, outcome);
            }
            before += 1;
        };
        let mut column = begin;
        if outcome != Outcome::Hit {
            activate = self.activations[place.rank].reserve(activate);
            column = activate + ticks.rcd;
            self.counters.activates += 1;
        }
        column = self.columns[place.group].reserve(column);
        let data = self.bus[place.channel].reserve(column + latency);
        column = data - latency;
        let done = data + ticks.burst;
        self.busy_ticks += ticks.burst;
        let free = (column + recovery).max(if outcome == Outcome::Hit { 0 } else { activate + ticks.ras });
        // A row hit cannot be precharged earlier than the access that opened its row allows.
        let free = match before.checked_sub(1) {
            Some(last) if outcome == Outcome::Hit => free.max(bank[last].free),
            _ => free,
        };
        let served = if self.closed {
            Past { begin, column, free: free + ticks.rp, row: NO_ROW, interval }
        } else {
            Past { begin, column, free, row: place.row, interval }
        };
        // Keep the latest; an access older than all of them is forgotten at once.
        if before > 0 {
            self.banks[place.bank].remember(before, served);
        }
        let counter = match (outcome, table) {
            (Outcome::Hit, false) => &mut self.counters.data_row_hits,
            (Outcome::Miss, false) => &mut self.counters.data_row_misses,
            (Outcome::Conflict, false) => &mut self.counters.data_row_conflicts,
            (Outcome::Hit, true) => &mut self.counters.table_row_hits,
            (Outcome::Miss, true) => &mut self.counters.table_row_misses,
            (Outcome::Conflict, true) => &mut self.counters.table_row_conflicts,
        };
        *counter += 1;
        done
    }

    /// The counters so far.
    pub fn counters(&self) -> DramCounters {
        let refreshes = match self.ticks.refi {
            0 => 0,
            refi => (self.latest - self.counted_from) / refi * self.activations.len() as u64,
        };
        DramCounters { refreshes, bus_busy: self.busy_ticks >> TICK_SHIFT, ..self.counters.clone() }
    }

    /// Reports the counters to `sink` under `prefix`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters().report(prefix, sink);
    }

    /// Sets the counters to zero; open rows stay open.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.busy_ticks = 0;
        self.counted_from = self.latest;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Hit,
    Miss,
    Conflict,
}
