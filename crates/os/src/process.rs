//! The process table: processes by number, and the identifiers of their address spaces.

use crate::page_state::PageMap;
use crate::reservations::Reservations;
use crate::{Translations, VmaList};
use ambulator_base::{Archive, Asid, ProcessId, Protection, State, VirtAddr};

/// One process.
pub(crate) struct Process {
    asid: Asid,
    /// The process without a parent that it descends from.
    pub origin: ProcessId,
    /// Another for each process, so that cores reload registers.
    generation: u64,
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
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Heap {
    pub start: VirtAddr,
    pub end: VirtAddr,
    pub protection: Protection,
}

impl Process {
    pub fn asid(&self) -> Asid {
        self.asid
    }

    /// Changes whenever the registers change; no two processes have the same.
    pub fn registers_generation(&self) -> u64 {
        self.generation << 32 | (self.translations.registers_generation() & 0xffff_ffff)
    }
}

/// All processes by number. The slot of an exited process stays empty: numbers are not reused. Every live
/// process has an address-space identifier of its own.
#[derive(Default)]
pub(crate) struct ProcessTable {
    slots: Vec<Option<Process>>,
    /// The largest identifier that was ever in use.
    last_asid: u16,
    free_asids: Vec<u16>,
    generation: u64,
}

impl ProcessTable {
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

    /// Allocates an identifier for a new process: that of the process that exited last, or else one that was
    /// never in use. `None` if live processes have them all.
    pub fn allocate_asid(&mut self) -> Option<Asid> {
        if let Some(asid) = self.free_asids.pop() {
            return Some(Asid(asid));
        }
        if self.last_asid == Asid::MAX.0 {
            return None;
        }
        self.last_asid += 1;
        Some(Asid(self.last_asid))
    }

    /// Releases the identifier of a process. No hardware may have entries with it.
    pub fn release_asid(&mut self, asid: Asid) {
        self.free_asids.push(asid.0);
    }

    /// Adds a process without areas, with an identifier allocated for it.
    pub fn add(&mut self, asid: Asid, translations: Translations) -> ProcessId {
        let number = self.next_number();
        self.generation += 1;
        self.slots.push(Some(Process {
            asid,
            origin: number,
            generation: self.generation,
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

    /// Checks that no two live processes have the same identifier.
    pub fn check(&self) -> Result<(), String> {
        let mut taken: Vec<u16> =
            self.live().map(|(_, process)| process.asid.0).chain(self.free_asids.clone()).collect();
        taken.sort_unstable();
        if taken.into_iter().eq(1..=self.last_asid) {
            return Ok(());
        }
        Err("an address-space identifier is lost, or two processes have it".into())
    }
}

/// Everything but which processes live: those have been made before.
impl State for ProcessTable {
    fn state(&mut self, archive: &mut Archive<'_>) {
        self.last_asid.state(archive);
        self.free_asids.state(archive);
        self.generation.state(archive);
        for process in self.slots.iter_mut().flatten() {
            let Process { origin, asid, generation, translations, vmas, pages, reservations, clock, scan, heap } =
                process;
            origin.state(archive);
            asid.state(archive);
            generation.state(archive);
            translations.state(archive);
            vmas.state(archive);
            pages.state(archive);
            reservations.state(archive);
            clock.state(archive);
            scan.state(archive);
            heap.state(archive);
        }
    }
}

impl ProcessTable {
    /// By number: the identifiers of the processes that live.
    pub fn lives(&self) -> Vec<Option<Asid>> {
        self.slots.iter().map(|process| process.as_ref().map(|process| process.asid)).collect()
    }

    /// The next process is one that has exited.
    pub fn skip_number(&mut self) {
        self.slots.push(None);
    }

    /// Forgets a process without giving anything back.
    pub fn forget(&mut self, number: usize) {
        self.slots[number] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_reused_only_after_its_release() {
        let mut table = ProcessTable::default();
        for asid in 1..=Asid::MAX.0 {
            assert_eq!(table.allocate_asid(), Some(Asid(asid)));
        }
        assert_eq!(table.allocate_asid(), None);
        table.release_asid(Asid(2));
        assert_eq!((table.allocate_asid(), table.allocate_asid()), (Some(Asid(2)), None));
    }
}
