//! One memory controller per channel: a queue, one command per DRAM clock, banks as state machines.
//!
//! First ready, first come, first served: a column command that is ready issues before older requests that
//! are not. Reads have priority over writes until enough writes wait to drain a batch; the bus turns around
//! between the two.

use super::Choices;
use super::events::{Event, Events};
use ambulator_hardware::{AddressMapping, DramModel, DramSpec, PagePolicy};

/// Numbers of waiting writes at which a channel begins and stops to drain.
const DRAIN: (usize, usize) = (32, 8);
/// DRAM clocks from the end of write data to a read command (JESD79-4, tWTR_L at 3200 MT/s).
const WRITE_TO_READ: u64 = 12;
/// Idle DRAM clocks on the bus between read and write data.
const BUS_GAP: u64 = 2;
/// DRAM clocks that 64 bytes take on an 8-byte bus.
const BURST: u64 = 4;
/// Fractions of a core cycle in which the DRAM clock is kept.
const TICKS: u64 = 64;

#[derive(Clone, Copy)]
struct Queued {
    line: u64,
    write: bool,
    bank: usize,
    row: u64,
}

#[derive(Clone, Default)]
struct Bank {
    row: Option<u64>,
    /// DRAM clocks from which on it can take these commands.
    activate: u64,
    column: u64,
    precharge: u64,
}

struct Channel {
    banks: Vec<Bank>,
    /// Of each bank group: the next column command.
    groups: Vec<u64>,
    /// Of each rank: its last four activations, and its next refresh.
    activations: Vec<[u64; 4]>,
    refresh: Vec<u64>,
    /// The waiting requests, the oldest first.
    queue: Vec<Queued>,
    draining: bool,
    bus: u64,
    /// The next read and write command as the bus turns around.
    next_read: u64,
    next_write: u64,
}

/// Main memory.
pub struct Dram {
    spec: DramSpec,
    choices: Choices,
    channels: Vec<Channel>,
    /// 1/64 core cycles of a DRAM clock, and the clock that comes next.
    period: u64,
    clock: u64,
    faw: u64,
    refi: u64,
    rfc: u64,
    fixed: u64,
}

impl Dram {
    /// Idle memory with all rows closed.
    pub fn new(spec: &DramSpec, clock_mhz: u64, choices: Choices) -> Dram {
        let clocks = |ns: f64| (ns * spec.data_rate as f64 / 2000.0).ceil() as u64;
        let refi = clocks(spec.t_refi_ns);
        let ranks = spec.ranks as usize;
        let groups = ranks * spec.bank_groups as usize;
        let channel = |number: u32| Channel {
            banks: vec![Bank::default(); groups * spec.banks as usize],
            groups: vec![0; groups],
            activations: vec![[0; 4]; ranks],
            refresh: (0..ranks as u64).map(|r| refi / (u64::from(number) + 2) + r * refi / 16).collect(),
            queue: Vec::new(),
            draining: false,
            bus: 0,
            next_read: 0,
            next_write: 0,
        };
        Dram {
            channels: (0..spec.channels).map(channel).collect(),
            period: 2 * TICKS * clock_mhz / spec.data_rate,
            clock: 1,
            faw: clocks(spec.t_faw_ns),
            refi,
            rfc: clocks(spec.t_rfc_ns),
            fixed: (spec.fixed_ns * clock_mhz as f64 / 1000.0).round() as u64,
            spec: spec.clone(),
            choices,
        }
    }

    /// Channel, bank within it, and row of a line.
    fn place(&self, line: u64) -> (usize, usize, u64) {
        let spec = &self.spec;
        let mut rest = line;
        let mut take = |n: u64| {
            let part = rest % n;
            rest /= n;
            part
        };
        let (channels, ranks) = (u64::from(spec.channels), u64::from(spec.ranks));
        let (banks, columns) = (u64::from(spec.bank_groups * spec.banks), spec.row_bytes / 64);
        let (channel, rank, mut bank) = match spec.mapping {
            AddressMapping::RoBaRaCoCh | AddressMapping::XorBank => {
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
        if spec.mapping == AddressMapping::XorBank {
            bank ^= rest % banks;
        }
        (channel as usize, (rank * banks + bank) as usize, rest)
    }

    /// A request has reached the controller.
    pub fn arrive(&mut self, line: u64, write: bool, events: &mut Events) {
        if self.spec.model == DramModel::Fixed {
            if !write {
                events.after(self.fixed, Event::Fill(2, line));
            }
            return;
        }
        let (channel, bank, row) = self.place(line);
        let channel = &mut self.channels[channel];
        if !write && channel.queue.iter().any(|queued| queued.line == line) {
            // The line's newest data wait to be written.
            events.after(1, Event::Fill(2, line));
            return;
        }
        channel.queue.push(Queued { line, write, bank, row });
    }

    /// All DRAM clocks up to this core cycle.
    pub fn step(&mut self, events: &mut Events) {
        while self.clock * self.period <= events.now * TICKS {
            for number in 0..self.channels.len() {
                if !self.channels[number].queue.is_empty() {
                    self.command(number, events);
                }
            }
            self.clock += 1;
        }
    }

    /// At most one command on a channel.
    fn command(&mut self, number: usize, events: &mut Events) {
        let Dram { spec, choices, clock, period, faw, .. } = self;
        let now = *clock;
        let channel = &mut self.channels[number];
        let banks_of_rank = (spec.bank_groups * spec.banks) as usize;
        for (rank, due) in channel.refresh.iter_mut().enumerate().filter(|_| self.refi > 0) {
            while *due <= now {
                for bank in &mut channel.banks[rank * banks_of_rank..][..banks_of_rank] {
                    let closed = if bank.row.take().is_some() { bank.precharge + u64::from(spec.t_rp) } else { 0 };
                    bank.activate = bank.activate.max(closed.max(*due) + self.rfc);
                }
                *due += self.refi;
            }
        }
        let queue = &mut channel.queue;
        let writes = queue.iter().filter(|queued| queued.write).count();
        channel.draining = writes >= DRAIN.0 || (channel.draining && writes > DRAIN.1);
        let write_turn = channel.draining || writes == queue.len();
        let has_turn = |queued: &Queued| !choices.reads_first || queued.write == write_turn;
        let group_of = |bank: usize| {
            let groups = spec.bank_groups as usize;
            bank / banks_of_rank * groups + bank % groups
        };
        // A column command to an open row.
        let ready = |position: &usize| {
            let queued = &queue[*position];
            let bank = &channel.banks[queued.bank];
            let turned = if queued.write { channel.next_write } else { channel.next_read };
            let latency = u64::from(if queued.write { spec.t_cwl } else { spec.t_cl });
            has_turn(queued)
                && bank.row == Some(queued.row)
                && bank.column <= now
                && channel.groups[group_of(queued.bank)] <= now
                && channel.bus <= now + latency
                && (turned <= now || !choices.turn_around)
                && (choices.first_ready
                    || !queue[..*position].iter().any(|older| has_turn(older) && older.bank == queued.bank))
        };
        if let Some(position) = (0..queue.len()).find(ready) {
            let queued = queue.remove(position);
            let write = queued.write;
            let end = now + u64::from(if write { spec.t_cwl } else { spec.t_cl }) + BURST;
            let bank = &mut channel.banks[queued.bank];
            let recovery = if write { end + u64::from(spec.t_wr) } else { now + u64::from(spec.t_rtp) };
            bank.precharge = bank.precharge.max(recovery);
            channel.groups[group_of(queued.bank)] = now + u64::from(spec.t_ccd_l).max(BURST);
            channel.bus = end;
            if write {
                channel.next_read = end + WRITE_TO_READ;
            } else {
                channel.next_write = (end + BUS_GAP).saturating_sub(u64::from(spec.t_cwl));
            }
            if spec.page_policy == PagePolicy::Closed {
                bank.row = None;
                bank.activate = bank.activate.max(bank.precharge + u64::from(spec.t_rp));
            }
            if !write {
                let delay = (end * *period).div_ceil(TICKS) - events.now;
                events.after(delay, Event::Fill(2, queued.line));
            }
            return;
        }
        // Otherwise a row is opened, or closed for the oldest request that needs another row of its bank.
        for position in 0..queue.len() {
            let queued = queue[position];
            let is_oldest = !queue[..position].iter().any(|older| has_turn(older) && older.bank == queued.bank);
            let bank = &mut channel.banks[queued.bank];
            if !has_turn(&queued) || !is_oldest || bank.row == Some(queued.row) {
                continue;
            }
            if bank.row.is_none() {
                let four = &mut channel.activations[queued.bank / banks_of_rank];
                if bank.activate <= now && (four[0] == 0 || four[0] + *faw <= now) {
                    four.rotate_left(1);
                    four[3] = now;
                    bank.row = Some(queued.row);
                    bank.column = now + u64::from(spec.t_rcd);
                    bank.precharge = now + u64::from(spec.t_ras);
                    return;
                }
            } else if bank.precharge <= now
                && !(choices.first_ready
                    && queue
                        .iter()
                        .any(|other| has_turn(other) && other.bank == queued.bank && bank.row == Some(other.row)))
            {
                bank.row = None;
                bank.activate = bank.activate.max(now + u64::from(spec.t_rp));
                return;
            }
        }
    }
}
