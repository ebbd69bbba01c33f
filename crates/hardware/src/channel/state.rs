//! What a channel consists of: its rules, its requests, and the state of its banks, ranks and bus.

use ambulator_base::State;

/// Timing in clocks of DRAM, and the controller's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub cl: u64,
    pub cwl: u64,
    pub rcd: u64,
    pub rp: u64,
    pub ras: u64,
    pub ccd_l: u64,
    pub rtp: u64,
    pub wr: u64,
    pub wtr_s: u64,
    pub wtr_l: u64,
    pub rrd_s: u64,
    pub rrd_l: u64,
    pub rtrs: u64,
    pub faw: u64,
    pub burst: u64,
    pub refi: u64,
    pub rfc: u64,
    pub closed: bool,
    pub read_queue: usize,
    pub write_queue: usize,
    pub write_high: usize,
    pub write_low: usize,
    pub write_idle: usize,
    pub row_hit_cap: u32,
    pub turn_cap: u32,
    /// From a read's column command to a write's, at least.
    pub turn: u64,
}

impl Rules {
    /// Up to so many writes wait without a batch: it begins when there are more, and has a write at least.
    pub(super) fn quiet(&self) -> usize {
        self.write_idle.max(self.write_low).min(self.write_high - 1)
    }
}

pub(crate) const NO_ROW: u32 = u32::MAX;

/// A request in the queues of a channel. Banks, groups and ranks are numbered within the channel.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Request {
    /// When it arrived, or when the batch of a write was released.
    pub arrival: u64,
    pub line: u64,
    pub row: u32,
    /// Tells requests for the same line apart.
    pub number: u32,
    /// Its place in the order of those that arrive in the same clock: its number, or a later one if it was sent later.
    pub sent: u32,
    pub bank: u16,
    pub group: u16,
    pub rank: u8,
    pub write: bool,
    pub table: bool,
    /// Of a released write: the number of its batch.
    pub batch: u8,
}

impl Request {
    #[inline(always)]
    pub fn precedes(&self, other: &Request) -> bool {
        self.arrival < other.arrival
            || (self.arrival == other.arrival && (self.sent.wrapping_sub(other.sent) as i32) < 0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) enum Outcome {
    #[default]
    Hit,
    Miss,
    Conflict,
}

#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Bank {
    pub row: u32,
    /// Column commands to the open row.
    pub(super) hits: u32,
    /// The number of the request for which it was opened, and what that met.
    pub(super) opener: u32,
    pub(super) outcome: Outcome,
    /// When a row can be activated, while none is open.
    pub(super) activate: u64,
    /// When the open row takes a column command.
    pub(super) column: u64,
    /// When the open row can be precharged.
    pub precharge: u64,
}

/// A bank, and what a scan of the candidates has seen of its queue.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(64))]
pub(super) struct BankQueue {
    pub(super) bank: Bank,
    /// The scan that last met a request of the bank, and when the oldest one for another row than the open one can
    /// precharge; `u64::MAX` if it met none.
    pub(super) scan: u64,
    pub(super) blocked: u64,
}

#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Group {
    /// When it takes a column command, a read, an activation.
    pub column: u64,
    pub read: u64,
    pub(super) activate: u64,
}

#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Rank {
    /// Its last four activations, the oldest first, each as the end of its tFAW.
    pub(super) activations: [u64; 4],
    pub(super) activate: u64,
    /// When it takes a read after its last write.
    pub(super) read: u64,
    /// When its next refresh is due, and when the last one ended.
    pub(super) due: u64,
    pub(super) refreshed: u64,
}

impl Rank {
    /// When it takes an activation, whatever its banks and groups do.
    #[inline(always)]
    pub(super) fn activates(&self) -> u64 {
        self.activate.max(self.activations[0])
    }
}

/// What all requests of the channel share.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Shared {
    /// No read's column command can be sent before, no write's, whatever their banks do.
    pub read_floor: u64,
    pub(super) write_floor: u64,
    /// When the bus is free, which rank used it last, and whether for a write.
    pub(super) bus: u64,
    pub(super) rank: u8,
    pub(super) write: bool,
    /// Column commands in a row since it turned around.
    pub run: u32,
}

impl Shared {
    /// Whether the bus need not turn around for a request.
    #[inline(always)]
    pub(super) fn goes_on_with(&self, request: &Request) -> bool {
        (request.rank, request.write) == (self.rank, self.write)
    }
}

/// What a channel has done, as differences of what was planned and what was taken back.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Tally {
    /// Hits, misses and conflicts of data, then of tables.
    pub outcomes: [i64; 6],
    /// Rows activated, also those that a refresh closed before their column commands.
    pub activates: i64,
    pub held: i64,
    pub forwarded: i64,
    pub merged: i64,
    pub batches: i64,
    pub refreshes: i64,
}

impl Tally {
    /// Counts a command `by` times.
    #[inline(always)]
    pub(super) fn count(&mut self, table: bool, outcome: Outcome, held: bool, by: i64) {
        self.outcomes[outcome as usize + 3 * usize::from(table)] += by;
        if held {
            self.held += by;
        }
    }

    /// Lines that the bus has carried.
    pub fn bursts(&self) -> i64 {
        self.outcomes.iter().sum()
    }
}
