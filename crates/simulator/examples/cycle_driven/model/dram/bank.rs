//! The state of the devices of a channel: which command is allowed when. The clock of a command that was
//! never sent is `None`.

use super::rules::{Place, Rules};

/// A command that goes to a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Activate,
    Precharge,
    Read,
    Write,
}

/// An open row.
#[derive(Clone, Copy, Debug)]
pub struct OpenRow {
    pub row: u64,
    activated: u64,
    /// Column commands since its activation, and the last of each kind.
    pub columns: u64,
    last_read: Option<u64>,
    last_write: Option<u64>,
}

impl OpenRow {
    /// The first clock at which it can be precharged.
    fn precharge(&self, rules: &Rules) -> u64 {
        let read = self.last_read.map_or(0, |read| read + rules.rtp);
        let write = self.last_write.map_or(0, |write| write + rules.cwl + rules.burst + rules.wr);
        (self.activated + rules.ras).max(read).max(write)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    open: Option<OpenRow>,
    /// The clock of its last precharge.
    precharged: Option<u64>,
}

/// The last column command of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    read: Option<u64>,
    write: Option<u64>,
}

impl Columns {
    fn last(&self) -> Option<u64> {
        self.read.max(self.write)
    }
}

#[derive(Clone, Debug, Default)]
struct Rank {
    columns: Columns,
    /// Its last four activations, the oldest first.
    activations: Vec<u64>,
    /// The end of its refresh.
    refreshed: u64,
}

/// The devices on one channel.
pub struct Devices {
    rules: Rules,
    banks: Vec<Bank>,
    /// Of each bank group: its last column commands and its last activation.
    groups: Vec<(Columns, Option<u64>)>,
    ranks: Vec<Rank>,
}

/// `since` clocks after a command, if it was sent.
fn after(command: Option<u64>, since: u64) -> u64 {
    command.map_or(0, |clock| clock + since)
}

impl Devices {
    /// Devices with all rows closed.
    pub fn new(rules: &Rules) -> Devices {
        let (ranks, groups, banks) = rules.parts();
        Devices {
            rules: rules.clone(),
            banks: vec![Bank::default(); banks],
            groups: vec![Default::default(); groups],
            ranks: vec![Rank::default(); ranks],
        }
    }

    /// The row that is open in a bank.
    pub fn open(&self, bank: usize) -> Option<OpenRow> {
        self.banks[bank].open
    }

    /// The first clock at which a column command to the open row of a bank is allowed.
    pub fn column(&self, at: Place, write: bool) -> u64 {
        let rules = &self.rules;
        let Some(open) = self.banks[at.bank].open else { return u64::MAX };
        let latency = if write { rules.cwl } else { rules.cl };
        let mut earliest = open.activated + rules.rcd;
        earliest = earliest.max(after(self.groups[at.group].0.last(), rules.ccd_l));
        for (number, rank) in self.ranks.iter().enumerate() {
            let Columns { read: last_read, write: last_write } = rank.columns;
            let same = number == at.rank;
            if same {
                earliest = earliest.max(after(rank.columns.last(), rules.ccd_s));
            }
            // The data bus, one burst at a time; it rests when the rank changes, and from read to write.
            let changes = |to_other: bool| if to_other { rules.rtrs } else { 0 };
            let turns = write && rules.choices.turn_around;
            let free = |sent: Option<u64>, latency_of: u64, rest: u64| after(sent, latency_of + rules.burst + rest);
            let bus =
                free(last_read, rules.cl, changes(!same || turns)).max(free(last_write, rules.cwl, changes(!same)));
            earliest = earliest.max(bus.saturating_sub(latency));
            if same && !write && rules.choices.turn_around {
                earliest = earliest.max(after(last_write, rules.cwl + rules.burst + rules.wtr_s));
            }
        }
        if !write && rules.choices.turn_around {
            let in_group = self.groups[at.group].0.write;
            earliest = earliest.max(after(in_group, rules.cwl + rules.burst + rules.wtr_l));
        }
        earliest
    }

    /// The first clock at which a row of a closed bank can be activated.
    pub fn activate(&self, at: Place) -> u64 {
        let (rules, rank) = (&self.rules, &self.ranks[at.rank]);
        let mut earliest = after(self.banks[at.bank].precharged, rules.rp).max(rank.refreshed);
        if rules.choices.rrd {
            earliest = earliest.max(after(rank.activations.last().copied(), rules.rrd_s));
            earliest = earliest.max(after(self.groups[at.group].1, rules.rrd_l));
        }
        match rank.activations.first() {
            Some(fourth) if rank.activations.len() == 4 => earliest.max(fourth + rules.faw),
            _ => earliest,
        }
    }

    /// The first clock at which the open row of a bank can be precharged.
    pub fn precharge(&self, bank: usize) -> u64 {
        self.banks[bank].open.map_or(u64::MAX, |open| open.precharge(&self.rules))
    }

    /// Sends a command. Column commands return the clock at which their data end.
    ///
    /// # Panics
    /// If the command is not allowed yet.
    pub fn send(&mut self, command: Command, at: Place, now: u64) -> u64 {
        let allowed = match command {
            Command::Activate => self.activate(at),
            Command::Precharge => self.precharge(at.bank),
            Command::Read => self.column(at, false),
            Command::Write => self.column(at, true),
        };
        assert!(allowed <= now, "{command:?} to {at:?} at clock {now}, allowed from {allowed}");
        let rules = &self.rules;
        let bank = &mut self.banks[at.bank];
        match command {
            Command::Activate => {
                assert!(bank.open.is_none(), "a row is activated in a bank with an open row");
                bank.open =
                    Some(OpenRow { row: at.row, activated: now, columns: 0, last_read: None, last_write: None });
                self.groups[at.group].1 = Some(now);
                let four = &mut self.ranks[at.rank].activations;
                if four.len() == 4 {
                    four.remove(0);
                }
                four.push(now);
                now
            }
            Command::Precharge => {
                *bank = Bank { open: None, precharged: Some(now) };
                now
            }
            Command::Read | Command::Write => {
                let Some(open) = &mut bank.open else { unreachable!("column commands need an open row") };
                assert!(open.row == at.row, "a column command to a row that is not open");
                open.columns += 1;
                let write = command == Command::Write;
                *(if write { &mut open.last_write } else { &mut open.last_read }) = Some(now);
                if rules.closes_rows {
                    *bank = Bank { open: None, precharged: Some(open.precharge(rules)) };
                }
                for columns in [&mut self.groups[at.group].0, &mut self.ranks[at.rank].columns] {
                    *(if write { &mut columns.write } else { &mut columns.read }) = Some(now);
                }
                now + if write { rules.cwl } else { rules.cl } + rules.burst
            }
        }
    }

    fn banks_of(&mut self, rank: usize) -> &mut [Bank] {
        let each = self.banks.len() / self.ranks.len();
        &mut self.banks[rank * each..][..each]
    }

    /// Whether the rank has open rows, and the first clock at which all of them can be precharged.
    pub fn precharge_all(&mut self, rank: usize) -> Option<u64> {
        let rules = self.rules.clone();
        self.banks_of(rank).iter().filter_map(|bank| bank.open.map(|open| open.precharge(&rules))).max()
    }

    /// Precharges all open rows of a rank.
    pub fn send_precharge_all(&mut self, rank: usize, now: u64) {
        for bank in self.banks_of(rank).iter_mut().filter(|bank| bank.open.is_some()) {
            *bank = Bank { open: None, precharged: Some(now) };
        }
    }

    /// The first clock at which a rank without open rows can be refreshed.
    pub fn refresh(&mut self, rank: usize) -> u64 {
        let rp = self.rules.rp;
        self.banks_of(rank).iter().map(|bank| after(bank.precharged, rp)).max().unwrap_or(0)
    }

    /// When a rank's last refresh ends.
    pub fn refreshed(&self, rank: usize) -> u64 {
        self.ranks[rank].refreshed
    }

    /// Refreshes a rank; returns the end of it.
    pub fn send_refresh(&mut self, rank: usize, now: u64) -> u64 {
        self.ranks[rank].refreshed = now + self.rules.rfc;
        self.ranks[rank].refreshed
    }
}
