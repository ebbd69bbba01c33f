//! What main memory's controllers send, command by command, for whoever watches.

use crate::channel::{Request, Rules};
use crate::clock::Clock;

/// Ticks of a cycle: the unit of all times here.
pub const TICKS_PER_CYCLE: u64 = 64;

/// A read or a write of a line, with the commands before and after it. Times are ticks of 1/64 core cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramAccess {
    /// The channel.
    pub channel: usize,
    /// The rank of the channel.
    pub rank: usize,
    /// The bank of the rank.
    pub bank: usize,
    /// The row.
    pub row: u32,
    /// The line's number: its physical address divided by 64.
    pub line: u64,
    /// A write.
    pub write: bool,
    /// Of a page table.
    pub table: bool,
    /// Whether the caches asked for it since the log began; else before.
    pub asked_in_log: bool,
    /// When the controller had the request; of a write, when it was released to be written.
    pub arrival: u64,
    /// Another row is closed: begin and end.
    pub precharge: Option<(u64, u64)>,
    /// The row is opened: begin and end.
    pub activate: Option<(u64, u64)>,
    /// The column command: begin, and when the next may follow.
    pub column: (u64, u64),
    /// Data on the bus: begin and end.
    pub data: (u64, u64),
    /// The row is closed at once, if rows do not stay open: begin and end.
    pub closing: Option<(u64, u64)>,
}

/// What a controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DramEvent {
    /// A line is read or written.
    Access(DramAccess),
    /// A row is opened, and closed again before a line of it is read or written: for a refresh, or for an older request.
    Unused {
        /// The channel.
        channel: usize,
        /// The rank of the channel.
        rank: usize,
        /// The bank of the rank.
        bank: usize,
        /// The row.
        row: u32,
        /// Another row is closed: begin and end, in ticks of 1/64 core cycle.
        precharge: Option<(u64, u64)>,
        /// The row is opened: begin and end.
        activate: (u64, u64),
    },
    /// A rank is refreshed.
    Refresh {
        /// The channel.
        channel: usize,
        /// The rank of the channel.
        rank: usize,
        /// When it was due, in ticks of 1/64 core cycle.
        due: u64,
        /// Its begin.
        from: u64,
        /// Its end.
        until: u64,
    },
}

/// How a row was opened, in clocks of DRAM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub row: u32,
    /// When the request came for which it was.
    #[cfg(test)]
    pub arrival: u64,
    pub activate: u64,
    /// When another row was closed before.
    pub precharge: Option<u64>,
}

/// What a channel has sent, in clocks of DRAM.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent {
    /// A read or a write, with what it needed before.
    Column {
        request: Request,
        column: u64,
        /// If it is the first to use the row.
        row: Option<Opened>,
        /// When the row is closed again, if it does not stay open.
        closed: Option<u64>,
    },
    /// A row of a bank was opened, and closed again before a column command.
    Unused(u16, Opened),
    Refresh {
        rank: usize,
        due: u64,
        begin: u64,
    },
}

/// What a channel keeps of what it has sent until somebody takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Logged {
    Sent(Sent),
    /// A row of a bank is opened, ahead of the column command that uses it.
    Row(u16, Opened),
}

/// The event of what a channel with `banks` banks a rank has sent. Requests up to number `before` came before
/// the log.
pub(crate) fn event(sent: &Sent, channel: usize, banks: usize, rules: &Rules, clock: &Clock, before: u32) -> DramEvent {
    let at = |clocks: u64| (clock.in_cycles(clocks) * TICKS_PER_CYCLE as f64).round() as u64;
    let span = |from: u64, clocks: u64| (at(from), at(from + clocks));
    match *sent {
        Sent::Refresh { rank, due, begin } => {
            let (from, until) = span(begin, rules.rfc);
            DramEvent::Refresh { channel, rank, due: at(due), from, until }
        }
        Sent::Unused(bank, opened) => DramEvent::Unused {
            channel,
            rank: usize::from(bank) / banks,
            bank: usize::from(bank) % banks,
            row: opened.row,
            precharge: opened.precharge.map(|precharge| span(precharge, rules.rp)),
            activate: span(opened.activate, rules.rcd),
        },
        Sent::Column { request, column, row, closed } => {
            let begin = column + if request.write { rules.cwl } else { rules.cl };
            DramEvent::Access(DramAccess {
                channel,
                rank: usize::from(request.rank),
                bank: usize::from(request.bank) % banks,
                row: request.row,
                line: request.line,
                write: request.write,
                table: request.table,
                asked_in_log: (request.number.wrapping_sub(before) as i32) > 0,
                arrival: at(request.arrival),
                precharge: row.and_then(|row: Opened| row.precharge).map(|precharge| span(precharge, rules.rp)),
                activate: row.map(|row| span(row.activate, rules.rcd)),
                // A row may be closed soon after a read.
                column: span(column, if request.write { rules.burst } else { rules.burst.min(rules.rtp).max(1) }),
                data: span(begin, rules.burst),
                closing: closed.map(|closed| span(closed, rules.rp)),
            })
        }
    }
}
