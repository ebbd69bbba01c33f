//! DRAM: where each line lies, and the controllers of its channels (`channel.rs`).
//!
//! Its times are in clocks of DRAM, at whose edges it takes requests and sends commands.
//!
//! Left out: the command bus (commands are as many as fit the other rules), power states, refresh postponed or
//! of single banks, and data errors.

use crate::awaited::Told;
use crate::channel::{Channel, Request, Rules, Tally};
use crate::clock::Clock;
use crate::dram_log::{DramEvent, event};
use crate::{AddressMapping, DramModel, DramSpec, PagePolicy};
use ambulator_base::{CounterSink, Counters, LINE_BYTES, State, counters};

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
        /// Requests that a refresh held: they had arrived before its end, and were served after it.
        refresh_waits: Events timed,
        /// Reads whose line was in a write queue.
        reads_forwarded: Events timed,
        /// Writes of a line that was in a write queue already.
        writes_merged: Events timed,
        /// Batches of writes.
        write_batches: Events timed,
        /// Cycles for which the buses carried data, summed over channels.
        bus_busy: Cycles timed,
    }
}

/// Width of the data bus, in bytes.
pub(crate) const BUS_BYTES: u64 = 8;

/// The DRAM coordinates of a line, each within the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    channel: usize,
    rank: usize,
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
    /// Mask of the row's bits with which the bank is xored, and how often the next `width` bits are.
    xor: u64,
    folds: u32,
    width: u32,
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
            AddressMapping::RoBaRaCoCh | AddressMapping::XorBank | AddressMapping::HashBank => {
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
            xor: match spec.mapping {
                AddressMapping::XorBank | AddressMapping::HashBank => mask(bank),
                _ => 0,
            },
            folds: if spec.mapping == AddressMapping::HashBank { u32::BITS.div_ceil(bank.max(1)) - 1 } else { 0 },
            width: bank,
        }
    }
}

/// Main memory.
#[derive(Clone, Debug, State)]
#[state(timed)]
pub struct Dram {
    fixed: bool,
    #[state(skip)]
    timing: bool,
    /// Cycles of the path to the controller, and of `model = "fixed"`.
    controller: u64,
    latency: u64,
    #[state(skip)]
    clock: Clock,
    #[state(skip)]
    fields: Fields,
    ranks: usize,
    banks_of_rank: usize,
    groups_of_rank: usize,
    #[state(each)]
    channels: Box<[Channel]>,
    #[state(skip)]
    rules: Rules,
    /// [`Dram::ask_ahead`].
    #[state(skip)]
    ahead: bool,
    /// While commands are logged: the number of each channel's latest request before that.
    #[state(skip)]
    before_log: Vec<u32>,
    #[state(always)]
    counters: DramCounters,
    /// The clock of the latest request.
    latest: u64,
    /// [`Dram::refreshes`] when the counters were set to zero.
    refreshes_before: i64,
}

impl Dram {
    /// Memory with all rows closed. With `timing` false it only counts accesses, and latency is 0.
    ///
    /// The spec must have passed [`DramSpec::validate`].
    pub fn new(spec: &DramSpec, clock_mhz: u64, timing: bool) -> Dram {
        let cycles = |ns: f64| (ns * clock_mhz as f64 / 1000.0).round() as u64;
        let clocks = |ns: f64| (ns * spec.data_rate as f64 / 2000.0).ceil() as u64;
        let burst = (LINE_BYTES / BUS_BYTES / 2) as u32;
        let rules = Rules {
            cl: spec.t_cl.into(),
            cwl: spec.t_cwl.into(),
            rcd: spec.t_rcd.into(),
            rp: spec.t_rp.into(),
            ras: spec.t_ras.into(),
            ccd_l: spec.t_ccd_l.max(burst).into(),
            rtp: spec.t_rtp.into(),
            wr: spec.t_wr.into(),
            wtr_s: spec.t_wtr_s.into(),
            wtr_l: spec.t_wtr_l.max(spec.t_wtr_s).into(),
            rrd_s: spec.t_rrd_s.into(),
            rrd_l: spec.t_rrd_l.max(spec.t_rrd_s).into(),
            rtrs: spec.t_rtrs.into(),
            faw: clocks(spec.t_faw_ns),
            burst: burst.into(),
            refi: clocks(spec.t_refi_ns),
            rfc: clocks(spec.t_rfc_ns),
            closed: spec.page_policy == PagePolicy::Closed,
            read_queue: spec.read_queue as usize,
            write_queue: spec.write_queue as usize,
            write_high: spec.write_high as usize,
            write_low: spec.write_low as usize,
            write_idle: spec.write_idle as usize,
            row_hit_cap: spec.row_hit_cap,
            turn_cap: spec.turn_cap,
            turn: (spec.t_cl + burst + spec.t_rtrs).saturating_sub(spec.t_cwl).max(burst).into(),
        };
        let (channels, ranks) = (spec.channels as usize, spec.ranks as usize);
        let groups_of_rank = spec.bank_groups as usize;
        let banks_of_rank = groups_of_rank * spec.banks as usize;
        // The refreshes of all ranks are evenly spread.
        let apart = rules.refi / (channels * ranks) as u64;
        let channel = |channel: usize| {
            let first_refresh = |rank| rules.refi - (channel * ranks + rank) as u64 * apart;
            Channel::new(rules, ranks, groups_of_rank, banks_of_rank, first_refresh)
        };
        Dram {
            fixed: spec.model == DramModel::Fixed,
            timing,
            controller: cycles(spec.controller_ns),
            latency: cycles(spec.fixed_ns),
            clock: Clock::new(clock_mhz, spec.data_rate),
            fields: Fields::new(spec),
            ranks,
            banks_of_rank,
            groups_of_rank,
            channels: (0..channels).map(channel).collect(),
            rules,
            ahead: false,
            before_log: Vec::new(),
            counters: DramCounters::default(),
            latest: 0,
            refreshes_before: 0,
        }
    }

    /// Switches time on or off. With it, time goes on at cycle `now`, which is later than any request so far:
    /// rows stay open and writes queued.
    pub fn set_timed(&mut self, timed: bool, now: u64) {
        self.timing = timed;
        if timed {
            // The time that was skipped has no refreshes.
            let skipped = self.clock.at(now).saturating_sub(self.latest);
            self.latest += skipped;
            self.channels.iter_mut().for_each(|channel| channel.skip(skipped));
        }
    }

    #[inline(always)]
    fn place(&self, line: u64) -> Place {
        let field = |(shift, mask): (u32, u64)| (line >> shift & mask) as usize;
        let row = line >> self.fields.row;
        let mut bank = field(self.fields.bank);
        let Fields { xor, folds, width, .. } = self.fields;
        (0..=folds).for_each(|fold| bank ^= (row >> (fold * width) & xor) as usize);
        Place { channel: field(self.fields.channel), rank: field(self.fields.rank), bank, row: row as u32 }
    }

    #[inline(always)]
    fn request(&mut self, line: u64, table: bool, write: bool, now: u64) -> (&mut Channel, Request) {
        let Place { channel, rank, bank, row } = self.place(line);
        let arrival = self.clock.at(now + self.controller);
        self.latest = self.latest.max(arrival);
        let request = Request {
            arrival,
            line,
            row,
            number: 0,
            sent: 0,
            bank: (rank * self.banks_of_rank + bank) as u16,
            // The lowest bits of a bank's number are its group: adjacent banks alternate between groups.
            group: (rank * self.groups_of_rank + (bank & (self.groups_of_rank - 1))) as u16,
            rank: rank as u8,
            write,
            table,
            batch: 0,
        };
        (&mut self.channels[channel], request)
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
        let ahead = self.ahead;
        let ready = if self.fixed {
            now + self.latency
        } else {
            let reaches = now + self.controller;
            let (channel, request) = self.request(line, table, false, now);
            let done = if ahead { channel.read_ahead(request, reaches) } else { channel.read(request) };
            self.clock.cycle(done)
        };
        self.count_read_cycles(table, ready - now);
        ready
    }

    #[inline(always)]
    fn count_read_cycles(&mut self, table: bool, cycles: u64) {
        let DramCounters { table_read_cycles, data_read_cycles, .. } = &mut self.counters;
        *if table { table_read_cycles } else { data_read_cycles } += cycles;
    }

    /// From now on lines are read ahead, or no longer: they are sent by [`Dram::send_ahead`]. Who reads is told the earliest
    /// time that there can be.
    pub fn ask_ahead(&mut self, ahead: bool) {
        self.ahead = ahead;
    }

    /// The line that has just been read goes on a way of so many cycles, which [`Dram::arrival`] adds.
    pub fn set_way(&mut self, line: u64, cycles: u64) {
        if self.timing && !self.fixed {
            let channel = self.place(line).channel;
            self.channels[channel].set_way(line, cycles);
        }
    }

    /// The cycle in which a line arrives that was read, as far as the requests say that have come so far. `None` for a
    /// read of long ago.
    #[inline]
    pub fn arrival(&mut self, line: u64, table: bool) -> Option<u64> {
        if !self.timing || self.fixed {
            return None;
        }
        let channel = self.place(line).channel;
        let Told { told, planned, way } = self.channels[channel].arrival(line)?;
        let (told, planned) = (self.clock.cycle(told), self.clock.cycle(planned));
        self.count_read_cycles(table, planned.saturating_sub(told));
        Some(planned + way)
    }

    /// Whether lines are read ahead now.
    #[inline(always)]
    pub fn asks_ahead(&self) -> bool {
        self.ahead
    }

    /// Whether a line was read ahead and is not sent yet.
    pub fn is_ahead(&self, line: u64) -> bool {
        self.channels[self.place(line).channel].is_ahead(line)
    }

    /// A line that was read ahead is read `later` cycles after the time that was said. [`Dram::arrival`] says when it
    /// arrives.
    pub fn send_ahead(&mut self, line: u64, later: u64) {
        if self.timing && !self.fixed {
            let channel = self.place(line).channel;
            let arrival = self.channels[channel].send_ahead(line, |cycle| self.clock.at(cycle + later));
            self.latest = self.latest.max(arrival.unwrap_or(0));
        }
    }

    /// Counts a line that is written back.
    #[inline(always)]
    pub fn count_write(&mut self, table: bool) {
        let DramCounters { table_writes, data_writes, .. } = &mut self.counters;
        *if table { table_writes } else { data_writes } += 1;
    }

    /// Writes a line back at cycle `now`. It waits in its channel's write queue. Returns the cycle in which that has
    /// room for it.
    #[inline]
    pub fn write(&mut self, line: u64, table: bool, now: u64) -> u64 {
        self.count_write(table);
        self.send_write(line, table, now)
    }

    /// [`Dram::write`] of a line that [`Dram::count_write`] has counted.
    #[inline]
    pub fn send_write(&mut self, line: u64, table: bool, now: u64) -> u64 {
        if !self.timing || self.fixed {
            return now;
        }
        let (channel, request) = self.request(line, table, true, now);
        let enters = channel.write(request);
        now + self.cycles_between(request.arrival, enters)
    }

    /// The cycle in which a write of a line enters its channel's write queue, which was said to be `told`, as far as the
    /// requests say that have come so far.
    pub fn entry(&mut self, line: u64, told: u64) -> u64 {
        if !self.timing || self.fixed {
            return told;
        }
        let arrival = self.clock.at(told + self.controller);
        let channel = self.place(line).channel;
        let enters = self.channels[channel].entry(line, arrival);
        told + self.cycles_between(arrival, enters)
    }

    #[inline(always)]
    fn cycles_between(&self, from: u64, until: u64) -> u64 {
        if from == until { 0 } else { self.clock.cycle(until) - self.clock.cycle(from) }
    }

    /// Writes that wait in the channels' queues.
    #[cfg(test)]
    pub(crate) fn queued_writes(&self) -> u64 {
        self.channels.iter().map(Channel::queued_writes).sum()
    }

    /// From now on keeps what the controllers send until it is taken, or no longer.
    pub fn keep_log(&mut self, keep: bool) {
        self.before_log = self.channels.iter().map(Channel::latest_request).collect();
        self.channels.iter_mut().for_each(|channel| channel.keep_log(keep));
    }

    /// Moves what the controllers have sent to `to`, channel by channel: what stays for certain, and with `all`
    /// also the latest, which a request that comes later may still precede.
    pub fn take_log(&mut self, all: bool, to: &mut Vec<DramEvent>) {
        let mut sent = Vec::new();
        for (number, (channel, before)) in self.channels.iter_mut().zip(&self.before_log).enumerate() {
            channel.take_log(all, &mut sent);
            to.extend(
                sent.drain(..).map(|one| event(&one, number, self.banks_of_rank, &self.rules, &self.clock, *before)),
            );
        }
    }

    /// Performs all queued writes: no further access comes.
    pub fn drain(&mut self) {
        self.channels.iter_mut().for_each(Channel::drain);
    }

    /// Cycles for which the buses have carried data so far, summed over channels, and the number of channels.
    pub fn bus(&self) -> (u64, u32) {
        let bursts = self.channels.iter().map(|channel| channel.tally.bursts()).sum::<i64>();
        (self.clock.cycle(bursts.max(0) as u64 * self.rules.burst), self.channels.len() as u32)
    }

    /// Refreshes up to the latest request.
    fn refreshes(&self) -> i64 {
        self.channels.iter().map(|channel| channel.tally.refreshes + channel.idle_refreshes(self.latest)).sum()
    }

    /// The counters so far.
    pub fn counters(&self) -> DramCounters {
        // What was counted before the counters were set to zero may have been taken back after it.
        let sum =
            |of: fn(&Tally) -> i64| self.channels.iter().map(|channel| of(&channel.tally)).sum::<i64>().max(0) as u64;
        DramCounters {
            data_row_hits: sum(|tally| tally.outcomes[0]),
            data_row_misses: sum(|tally| tally.outcomes[1]),
            data_row_conflicts: sum(|tally| tally.outcomes[2]),
            table_row_hits: sum(|tally| tally.outcomes[3]),
            table_row_misses: sum(|tally| tally.outcomes[4]),
            table_row_conflicts: sum(|tally| tally.outcomes[5]),
            activates: sum(|tally| tally.activates),
            refresh_waits: sum(|tally| tally.held),
            reads_forwarded: sum(|tally| tally.forwarded),
            writes_merged: sum(|tally| tally.merged),
            write_batches: sum(|tally| tally.batches),
            refreshes: (self.refreshes() - self.refreshes_before).max(0) as u64,
            bus_busy: self.bus().0,
            ..self.counters.clone()
        }
    }

    /// Reports the counters to `sink` under `prefix`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters().report(prefix, sink);
    }

    /// Sets the counters to zero; open rows stay open, and queued writes queued.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.channels.iter_mut().for_each(|channel| channel.tally = Tally::default());
        self.refreshes_before = self.refreshes();
    }
}
