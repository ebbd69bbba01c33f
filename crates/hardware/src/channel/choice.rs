//! Which of a channel's requests goes next: first ready, first come, first served, with the caps of `DramSpec`.

use super::{BankQueue, Channel, NO_ROW, Outcome, Rank, Request, Rules, Shared};

/// A command that can be sent.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub at: usize,
    pub column: u64,
    pub activate: u64,
    pub outcome: Outcome,
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
            return Choice { at: 0, column: column.max(bank.column), activate: 0, outcome: Outcome::Hit };
        }
        let (ready, outcome) = if bank.row == NO_ROW {
            (request.arrival.max(bank.activate), Outcome::Miss)
        } else {
            (request.arrival.max(bank.precharge) + self.rules.rp, Outcome::Conflict)
        };
        let activate = ready.max(group.activate).max(rank.activate).max(rank.activations[0]);
        Choice { at: 0, column: column.max(activate + self.rules.rcd), activate, outcome }
    }

    /// The oldest candidate, if the bus must turn around for it, it has waited for as long as a run takes, and its rank
    /// need not be refreshed first.
    #[cold]
    fn turn(&self) -> Option<Choice> {
        let Rules { turn_cap, burst, .. } = self.rules;
        let oldest = self.candidates.last()?;
        let rank = &self.ranks[oldest.rank as usize];
        let last = self.plan.last_column();
        if self.shared.goes_on_with(oldest)
            || rank.refreshed > last
            || last + burst < oldest.arrival + u64::from(turn_cap) * burst
        {
            return None;
        }
        let choice = Choice { at: self.candidates.len() - 1, ..self.alone(oldest) };
        (choice.column < rank.due).then_some(choice)
    }

    /// The candidate whose column command can be sent first; among equals the oldest. After a long run, the oldest.
    #[inline(always)]
    pub(super) fn best(&mut self) -> Option<Choice> {
        if self.shared.run >= self.rules.turn_cap
            && let Some(oldest) = self.turn()
        {
            return Some(oldest);
        }
        if self.candidates.len() - self.released > self.rules.read_queue {
            return self.best_of_full_window();
        }
        // Most channels have one rank, whose limits are the same for all, and whose turn on the bus it always is.
        if self.ranks.len() == 1 { self.best_of::<true, false>() } else { self.best_of::<false, false>() }
    }

    /// The same where more reads wait than the window holds.
    #[cold]
    fn best_of_full_window(&mut self) -> Option<Choice> {
        self.best_of::<false, true>()
    }

    #[inline(always)]
    fn best_of<const ONE_RANK: bool, const FULL: bool>(&mut self) -> Option<Choice> {
        let Shared { read_floor, write_floor, .. } = self.shared;
        let floor = read_floor.min(write_floor);
        let Channel { rules, banks, groups, ranks, shared, candidates, release, .. } = self;
        let (banks, groups) = (&mut **banks, &**groups);
        let Rules { rcd, rp, turn, row_hit_cap, .. } = *rules;
        self.scan += 1;
        let scan = self.scan;
        let mut reads = 0;
        let limits = |rank: &Rank| (read_floor.max(rank.read), rank.activate.max(rank.activations[0]));
        let (mut rank_read, mut rank_activate) = limits(&ranks[0]);
        // Of the best so far: its place, its command's clock, and its activation's.
        let (mut best_at, mut best_column, mut best_activate) = (0, u64::MAX, 0);
        for (at, request) in candidates.iter().enumerate().rev() {
            let arrival = request.arrival;
            // Nothing later can be sent before.
            if arrival >= best_column {
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
            // Behind an older request for another row, which is precharged for as soon as it can be.
            let behind = *scanned == scan;
            if behind && (!hits || arrival >= *blocked || bank.hits >= row_hit_cap) {
                continue;
            }
            if !ONE_RANK {
                (rank_read, rank_activate) = limits(&ranks[request.rank as usize]);
            }
            let group = &groups[request.group as usize];
            let (mut column, mut activate) = (arrival.max(bank.column), 0);
            if !hits {
                let precharge = arrival.max(bank.precharge);
                (*scanned, *blocked) = (scan, precharge);
                let ready = if bank.row == NO_ROW { arrival.max(bank.activate) } else { precharge + rp };
                activate = rank_activate.max(ready);
                // Most others than the first go no further.
                if activate + rcd >= best_column {
                    continue;
                }
                activate = activate.max(group.activate);
                column = activate + rcd;
            }
            column = column.max(group.column).max(if request.write { write_floor } else { rank_read.max(group.read) });
            if !ONE_RANK && request.rank != shared.rank {
                let latency = if request.write { rules.cwl } else { rules.cl };
                column = column.max((shared.bus + rules.rtrs).saturating_sub(latency));
            }
            if column >= best_column || (behind && column >= *blocked) {
                continue;
            }
            // Row hits that came since the batch go before a write of it only if they do not delay it: or they
            // would go on for ever.
            let late = hits && !request.write && arrival > *release;
            if late && column + turn > best_column && candidates[best_at].write {
                continue;
            }
            (best_at, best_column, best_activate) = (at, column, activate);
            // No command can be sent before.
            if column <= floor {
                break;
            }
        }
        let request = candidates.get(best_at)?;
        let outcome = match banks[request.bank as usize].bank.row {
            row if row == request.row => Outcome::Hit,
            NO_ROW => Outcome::Miss,
            _ => Outcome::Conflict,
        };
        Some(Choice { at: best_at, column: best_column, activate: best_activate, outcome })
    }
}
