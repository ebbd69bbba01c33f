//! Processes and threads of formats that only name them, as events of a stream.
//!
//! The first process is process 0 of the stream. Another one is a fork of the process that runs when it first
//! appears, without that one's memory: what it has mapped is unmapped in the child at once. Processes that
//! are known before the first record are forked before anything is mapped.

use crate::implicit_maps::ImplicitMaps;
use ambulator_base::{Batch, ProcessId, Record, VmEvent};
use rustc_hash::FxHashMap;

/// Most processes and threads of a trace: what is kept for each of them has a bound.
pub(crate) const MOST_PROCESSES: usize = 1 << 10;
pub(crate) const MOST_THREADS: usize = 1 << 16;

/// A process of the stream.
struct Process {
    maps: Option<ImplicitMaps>,
    threads: u32,
}

/// The processes and threads that have appeared, and the one that runs.
pub(crate) struct Processes {
    /// Bytes of the regions that are mapped at first touch, if any.
    granularity: Option<u64>,
    /// The stream's number of each process, by the trace's.
    numbers: FxHashMap<u64, usize>,
    /// The stream's number of each thread within its process.
    threads: FxHashMap<(u64, u64), u32>,
    processes: Vec<Process>,
    /// Number of the process that runs, and the trace's names of it and of its thread.
    running: usize,
    name: Option<(u64, u64)>,
    /// The stream's numbers, as the last `Switch` said.
    said: (usize, u32),
}

impl Processes {
    pub(crate) fn new(granularity: Option<u64>) -> Processes {
        Processes {
            granularity,
            numbers: FxHashMap::default(),
            threads: FxHashMap::default(),
            processes: Vec::new(),
            running: 0,
            name: None,
            said: (0, 0),
        }
    }

    /// The stream's number of a process; forks it where it is new.
    fn process(&mut self, process: u64, batch: &mut Batch) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(&process) {
            return Ok(*number);
        }
        let number = self.processes.len();
        if number == MOST_PROCESSES {
            return Err(format!("has more than {MOST_PROCESSES} processes"));
        }
        if number > 0 {
            let child = ProcessId(number as u32);
            batch.push_event(VmEvent::Fork { child });
            let inherited = self.processes[self.running].maps.as_ref().map(ImplicitMaps::ranges).unwrap_or_default();
            if !inherited.is_empty() {
                batch.push_event(VmEvent::Switch { process: child, thread: 0 });
                self.said = (number, 0);
                for (start, len) in inherited {
                    batch.push_event(VmEvent::Unmap { start, len });
                }
            }
        }
        self.processes.push(Process { maps: self.granularity.map(ImplicitMaps::new), threads: 0 });
        self.numbers.insert(process, number);
        Ok(number)
    }

    /// Makes the processes known, in this order, before the first record.
    pub(crate) fn declare(
        &mut self,
        processes: impl IntoIterator<Item = u64>,
        batch: &mut Batch,
    ) -> Result<(), String> {
        processes.into_iter().try_for_each(|process| self.process(process, batch).map(|_| ()))
    }

    /// The following records belong to this thread.
    ///
    /// # Errors
    /// There are more processes or threads than a trace may have.
    #[inline]
    pub(crate) fn enter(&mut self, process: u64, thread: u64, batch: &mut Batch) -> Result<(), String> {
        if self.name == Some((process, thread)) { Ok(()) } else { self.switch(process, thread, batch) }
    }

    fn switch(&mut self, process: u64, thread: u64, batch: &mut Batch) -> Result<(), String> {
        let number = self.process(process, batch)?;
        let known = self.threads.len();
        let place = match self.threads.entry((process, thread)) {
            std::collections::hash_map::Entry::Occupied(place) => *place.get(),
            std::collections::hash_map::Entry::Vacant(_) if known == MOST_THREADS => {
                return Err(format!("has more than {MOST_THREADS} threads"));
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                let threads = &mut self.processes[number].threads;
                *threads += 1;
                *place.insert(*threads - 1)
            }
        };
        if self.said != (number, place) {
            batch.push_event(VmEvent::Switch { process: ProcessId(number as u32), thread: place });
            self.said = (number, place);
        }
        self.running = number;
        self.name = Some((process, thread));
        Ok(())
    }

    /// The stream's number of the process that runs.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// The synthesised mappings of the process that runs.
    pub(crate) fn maps(&mut self) -> Option<&mut ImplicitMaps> {
        self.processes.get_mut(self.running)?.maps.as_mut()
    }

    /// Appends a record of the thread that runs, after the mappings that it needs.
    #[inline]
    pub(crate) fn push(&mut self, record: Record, batch: &mut Batch) {
        match self.processes.get_mut(self.running).and_then(|process| process.maps.as_mut()) {
            Some(maps) => maps.push(record, batch),
            None => batch.records.push(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::VirtAddr;

    #[test]
    fn a_late_process_starts_with_an_empty_address_space() {
        let (mut all, mut batch) = (Processes::new(Some(4096)), Batch::default());
        let record = |va| Record { pc: VirtAddr(0x1000), va: VirtAddr(va), size: 8, ..Record::default() };
        for (process, thread, va) in [(70, 70, 0x8000), (70, 71, 0x9000), (80, 80, 0x8000), (70, 71, 0x8000)] {
            all.enter(process, thread, &mut batch).unwrap();
            all.push(record(va), &mut batch);
        }
        let switch = |process, thread| VmEvent::Switch { process: ProcessId(process), thread };
        let rest: Vec<_> = batch
            .events
            .iter()
            .filter(|(_, event)| !matches!(event, VmEvent::Map { .. }))
            .map(|(at, event)| (*at, event.clone()))
            .collect();
        assert_eq!(
            rest,
            [
                (1, switch(0, 1)),
                (2, VmEvent::Fork { child: ProcessId(1) }),
                (2, switch(1, 0)),
                (2, VmEvent::Unmap { start: VirtAddr(0x1000), len: 0x1000 }),
                (2, VmEvent::Unmap { start: VirtAddr(0x8000), len: 0x2000 }),
                (3, switch(0, 1)),
            ]
        );
        assert_eq!(batch.events.iter().filter(|(_, event)| matches!(event, VmEvent::Map { .. })).count(), 5);
        for process in 0..MOST_PROCESSES as u64 + 1 {
            all.enter(process, 0, &mut batch).ok();
        }
        assert!(all.enter(1 << 40, 0, &mut batch).unwrap_err().contains("more than 1024 processes"));
    }
}
