//! Which of a channel's requests goes next: first ready, first come, first served, with the caps of `DramSpec`.

use super::{BankQueue, Channel, NO_ROW, Rank, Request, Rules, Shared};
use crate::plan::Sends;

/// A command that can be sent.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// The place of the candidate.
    pub at: usize,
    pub sends: Sends,
    /// When; of an activation and a column command, the column command.
    pub clock: u64,
    /// When the row is activated, if both are sent.
    pub activate: u64,
}

impl Channel {
    /// When the command of a request can be sent, if no other waits.
    #[inline(always)]
    pub(super) fn alone(&self, request: &Request) -> Choice {
        let bank = &self.banks[request.bank as usize].bank;
        let group = &self.groups[request.group as usize];
        let rank = &self.ranks[request.rank as usize];
        let shared = &self.shared;
        let (floor, latency) = match request.write {
            true => (shared.write_floor, self.rules.cwl),
            false => (shared.read_floor.max(group.read).max(rank.read), self.rules.cl),
        };
        let mut column = request.arrival.max(floor).max(group.column);
        if request.rank != shared.rank {
            column = column.max((shared.bus + self.rules.rtrs).saturating_sub(latency));
        }
        if bank.row == request.row {
            return Choice { at: 0, sends: Sends::Column, clock: column.max(bank.column), activate: 0 };
        }
        let ready = if bank.row == NO_ROW {
            request.arrival.max(bank.activate)
        } else {
            request.arrival.max(bank.precharge) + self.rules.rp
        };
        let activate = ready.max(group.activate).max(rank.activates());
        Choice { at: 0, sends: Sends::Both, clock: column.max(activate + self.rules.rcd), activate }
    }

    /// The clock from which on only the oldest candidate's column command may be sent, because the bus has served others
    /// for long for which it need not turn around. Not before a refresh of its rank has ended.
    #[cold]
    fn turn(&self) -> u64 {
        let Rules { turn_cap, burst, .. } = self.rules;
        let turns = self.candidates.last().filter(|oldest| !self.shared.goes_on_with(oldest));
        turns.map_or(u64::MAX, |oldest| {
            (oldest.arrival + u64::from(turn_cap) * burst).max(self.ranks[oldest.rank as usize].refreshed)
        })
    }

    /// The next command: the column command or activation that can be sent first; among equals a column command, and the
    /// oldest candidate's.
    #[inline(always)]
    pub(super) fn best(&mut self) -> Option<Choice> {
        let turn = if self.shared.run >= self.rules.turn_cap { self.turn() } else { u64::MAX };
        if self.candidates.len() - self.released > self.rules.read_queue {
            return self.best_of_full_window(turn);
        }
        // Most channels have one rank, whose limits are the same for all, and whose turn on the bus it always is.
        if self.ranks.len() == 1 { self.best_of::<true, false>(turn) } else { self.best_of::<false, false>(turn) }
    }

    /// The same where more reads wait than the window holds.
    #[cold]
    fn best_of_full_window(&mut self, turn: u64) -> Option<Choice> {
        self.best_of::<false, true>(turn)
    }

    #[inline(always)]
    fn best_of<const ONE_RANK: bool, const FULL: bool>(&mut self, turn_from: u64) -> Option<Choice> {
        let Shared { read_floor, write_floor, .. } = self.shared;
        let Channel { rules, banks, groups, ranks, shared, candidates, .. } = self;
        let (banks, groups) = (&mut **banks, &**groups);
        let Rules { rcd, rp, turn, row_hit_cap, .. } = *rules;
        self.scan += 1;
        let scan = self.scan;
        let mut reads = 0;
        let limits = |rank: &Rank| (read_floor.max(rank.read), rank.activates());
        let (mut rank_read, mut rank_activate) = limits(&ranks[0]);
        // The best column command so far, and the best activation: the place of its candidate, and its clock.
        let (mut column_at, mut best_column) = (usize::MAX, u64::MAX);
        let (mut row_at, mut best_row) = (usize::MAX, u64::MAX);
        // When the column commands of older writes and reads can be sent, each the first of its bank.
        let (mut oldest_write, mut oldest_read) = (u64::MAX, u64::MAX);
        let oldest = candidates.len().wrapping_sub(1);
        for (at, request) in candidates.iter().enumerate().rev() {
            let arrival = request.arrival;
            // Nothing later can be sent before.
            if arrival >= best_column || arrival > best_row {
                break;
            }
            if FULL && !request.write {
                reads += 1;
                if reads > rules.read_queue {
                    continue;
                }
            }
            let BankQueue { bank, scan: scanned, blocked } = &mut banks[request.bank as usize];
            let hits = bank.row == request.row;
            let is_first = *scanned != scan;
            if is_first {
                (*scanned, *blocked) = (scan, u64::MAX);
            }
            if !ONE_RANK {
                (rank_read, rank_activate) = limits(&ranks[request.rank as usize]);
            }
            let group = &groups[request.group as usize];
            if !hits {
                let precharge = arrival.max(bank.precharge);
                *blocked = precharge.min(*blocked);
                // Another row is opened for the oldest request of a bank alone.
                if !is_first {
                    continue;
                }
                let ready = if bank.row == NO_ROW { arrival.max(bank.activate) } else { precharge + rp };
                let activate = ready.max(rank_activate).max(group.activate);
                let oldest = if request.write { &mut oldest_write } else { &mut oldest_read };
                *oldest = (*oldest).min(activate + rcd);
                if activate < best_row {
                    (row_at, best_row) = (at, activate);
                }
                continue;
            }
            // Behind an older request for another row, which is precharged for as soon as it can be.
            if *blocked != u64::MAX && (arrival >= *blocked || bank.hits >= row_hit_cap) {
                continue;
            }
            let floor = if request.write { write_floor } else { rank_read.max(group.read) };
            let mut column = arrival.max(bank.column).max(group.column).max(floor);
            if !ONE_RANK && request.rank != shared.rank {
                let latency = if request.write { rules.cwl } else { rules.cl };
                column = column.max((shared.bus + rules.rtrs).saturating_sub(latency));
            }
            if column >= *blocked || (column >= turn_from && at != oldest) {
                continue;
            }
            if request.write {
                if is_first {
                    oldest_write = oldest_write.min(column);
                }
            } else {
                // A row hit that came later goes before a write only if it does not delay it: or they would go on for
                // ever. What waits for an older read anyhow is not delayed, nor by one for which the row was opened.
                if column + turn > oldest_write && oldest_write <= oldest_read && bank.opener != request.number {
                    continue;
                }
                oldest_read = oldest_read.min(column);
            }
            if column < best_column {
                (column_at, best_column) = (at, column);
            }
        }
        if best_column <= best_row {
            (column_at < candidates.len()).then_some(Choice {
                at: column_at,
                sends: Sends::Column,
                clock: best_column,
                activate: 0,
            })
        } else {
            Some(Choice { at: row_at, sends: Sends::Row, clock: best_row, activate: best_row })
        }
    }
}
