//! Page-table locks: cores that run threads of one process wait for each other's updates.

use ambulator_base::{Cycle, ProcessId, State};
use ambulator_os::TableLock;
use std::collections::HashMap;

/// The times until which locks are held.
#[derive(Default, State)]
pub(crate) struct Locks {
    parts: HashMap<(ProcessId, TableLock), Cycle>,
    /// By process: the times until which its whole table, and any part of it, is held.
    tables: HashMap<ProcessId, (Cycle, Cycle)>,
}

impl Locks {
    /// An action at `now` holds `locks`, one after the other, for `hold` cycles each. Returns its waiting
    /// time in cycles.
    pub fn acquire(&mut self, process: ProcessId, locks: &[TableLock], now: Cycle, hold: u64) -> u64 {
        let mut at = now;
        for lock in locks {
            let (whole, any) = self.tables.entry(process).or_default();
            let free = match lock {
                TableLock::Whole => *any,
                part => self.parts.get(&(process, *part)).copied().unwrap_or_default(),
            };
            let begin = at.max(free).max(*whole);
            let end = begin.after(hold);
            match lock {
                TableLock::Whole => *whole = end,
                part => {
                    self.parts.insert((process, *part), end);
                }
            }
            *any = (*any).max(end);
            at = end;
        }
        at.since(now) - hold * locks.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_the_same_part_wait_and_others_do_not() {
        let mut locks = Locks::default();
        let (one, other) = (ProcessId(1), ProcessId(2));
        let part = TableLock::Part;
        assert_eq!(locks.acquire(one, &[part(7)], Cycle(1000), 100), 0);
        assert_eq!(locks.acquire(one, &[part(7)], Cycle(1040), 100), 60);
        assert_eq!(locks.acquire(one, &[part(8)], Cycle(1040), 100), 0);
        assert_eq!(locks.acquire(other, &[part(7)], Cycle(1040), 100), 0);
        // The whole table waits for all its parts, and all its parts for it.
        assert_eq!(locks.acquire(one, &[TableLock::Whole], Cycle(1050), 1000), 150);
        assert_eq!(locks.acquire(one, &[part(9)], Cycle(1100), 100), 1100);
        assert_eq!(locks.acquire(other, &[part(9)], Cycle(1100), 100), 0);
    }
}
