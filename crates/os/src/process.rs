//! The process table: processes by number, and their address-space identifiers.

use crate::page_state::PageMap;
use crate::reservations::Reservations;
use crate::{Translations, VmaList};
use ambulator_base::{Asid, ProcessId, Protection, VirtAddr};

/// One process.
pub(crate) struct Process {
    asid: Asid,
    /// Changes with the ASID, so that cores reload registers.
    asid_generation: u64,
    pub translations: Translations,
    pub vmas: VmaList,
    pub pages: PageMap,
    pub reservations: Reservations,
    /// The clock hand of reclaim.
    pub clock: VirtAddr,
    /// The position of the promotion daemon.
    pub scan: VirtAddr,
    /// The heap that `brk` resizes, if there is one.
    pub heap: Option<Heap>,
}

/// The range that `brk` resizes. Its areas may have been unmapped or protected since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap {
    pub start: VirtAddr,
    pub end: VirtAddr,
    pub protection: Protection,
}

impl Process {
    pub fn asid(&self) -> Asid {
        self.asid
    }

    /// Changes whenever the registers or the address-space identifier change.
    pub fn registers_generation(&self) -> u64 {
        self.asid_generation << 32 | (self.translations.registers_generation() & 0xffff_ffff)
    }
}

/// All processes by number. The slot of an exited process stays empty: numbers are not reused. Every live
/// process is counted as a user of its address-space identifier.
pub(crate) struct ProcessTable {
    slots: Vec<Option<Process>>,
    next_asid: u16,
    free_asids: Vec<u16>,
    /// By identifier: the number of live processes with it. More than one only if there are more processes
    /// than identifiers.
    users: Vec<u32>,
    generation: u64,
}

impl ProcessTable {
    /// An empty table. Identifiers have `asid_bits` bits.
    pub fn new(asid_bits: u32) -> ProcessTable {
        ProcessTable {
            slots: Vec::new(),
            next_asid: 1,
            free_asids: Vec::new(),
            users: vec![0; 1 << asid_bits],
            generation: 1,
        }
    }

    /// The number of processes so far, including exited ones.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number of the next process.
    pub fn next_number(&self) -> ProcessId {
        ProcessId(self.slots.len() as u32)
    }

    /// The process, if it has not exited.
    #[inline(always)]
    pub fn find(&self, process: ProcessId) -> Option<&Process> {
        self.slots.get(process.0 as usize)?.as_ref()
    }

    /// A process that has not exited.
    #[inline(always)]
    pub fn get(&self, process: ProcessId) -> &Process {
        self.find(process).expect("a live process")
    }

    /// A process that has not exited.
    #[inline(always)]
    pub fn get_mut(&mut self, process: ProcessId) -> &mut Process {
        self.slots[process.0 as usize].as_mut().expect("a live process")
    }

    /// The live processes, by number.
    pub fn live(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, process)| Some((ProcessId(number as u32), process.as_ref()?)))
    }

    /// Allocates an identifier for a new process. The second result says whether the identifiers rolled over:
    /// every live process then has a new one, and all TLB entries are stale.
    pub fn allocate_asid(&mut self) -> (Asid, bool) {
        let (asid, rolled_over) = match self.free_asids.pop() {
            Some(asid) => (asid, false),
            None => self.assign_asid(),
        };
        self.users[usize::from(asid)] += 1;
        (Asid(asid), rolled_over)
    }

    fn assign_asid(&mut self) -> (u16, bool) {
        let most = self.users.len() - 1;
        let rolled_over = usize::from(self.next_asid) > most;
        if rolled_over {
            self.next_asid = 1;
            self.users.fill(0);
            for process in self.slots.iter_mut().flatten() {
                // If there are more live processes than identifiers, they share them round-robin, and each
                // context switch to one of them flushes.
                process.asid = Asid(self.next_asid);
                self.users[usize::from(self.next_asid)] += 1;
                self.next_asid = if usize::from(self.next_asid) >= most { 1 } else { self.next_asid + 1 };
                self.generation += 1;
                process.asid_generation = self.generation;
            }
        }
        let asid = self.next_asid;
        self.next_asid += 1;
        (asid, rolled_over)
    }

    /// Releases the identifier of a process. No TLB may have entries with it.
    pub fn release_asid(&mut self, asid: Asid) {
        let users = &mut self.users[usize::from(asid.0)];
        *users -= 1;
        if *users == 0 {
            self.free_asids.push(asid.0);
        }
    }

    /// Whether several live processes share the identifier.
    pub fn is_shared(&self, asid: Asid) -> bool {
        self.users[usize::from(asid.0)] > 1
    }

    /// Adds a process without areas, with an identifier allocated for it.
    pub fn add(&mut self, asid: Asid, translations: Translations) -> ProcessId {
        let number = self.next_number();
        self.generation += 1;
        self.slots.push(Some(Process {
            asid,
            asid_generation: self.generation,
            translations,
            vmas: VmaList::default(),
            pages: PageMap::default(),
            reservations: Reservations::default(),
            clock: VirtAddr(0),
            scan: VirtAddr(0),
            heap: None,
        }));
        number
    }

    /// Removes a live process and releases its identifier.
    pub fn remove(&mut self, process: ProcessId) -> Process {
        let removed = self.slots[process.0 as usize].take().expect("a live process");
        self.release_asid(removed.asid);
        removed
    }

    /// Checks the user counts of the identifiers.
    pub fn check(&self) -> Result<(), String> {
        let mut users = vec![0; self.users.len()];
        for (_, process) in self.live() {
            users[usize::from(process.asid.0)] += 1;
        }
        if users == self.users {
            return Ok(());
        }
        Err("the user counts of the address-space identifiers are wrong".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_reused_and_roll_over() {
        let mut table = ProcessTable::new(2);
        let taken: Vec<(u16, bool)> =
            (0..3).map(|_| table.allocate_asid()).map(|(asid, over)| (asid.0, over)).collect();
        assert_eq!(taken, [(1, false), (2, false), (3, false)]);
        table.release_asid(Asid(2));
        assert_eq!(table.allocate_asid(), (Asid(2), false), "a released one is reused first");
        // No process was added, so none keeps its identifier at the rollover.
        assert_eq!(table.allocate_asid(), (Asid(1), true));
        assert!(!table.is_shared(Asid(1)));
    }
}
