//! A core's port while someone watches: the same accesses, told step by step.

use crate::{CorePort, Loaded, LoadedLine, MemoryPort, Served};
use ambulator_base::watch::{self, LoadedBytes, Step, StepKind};
use ambulator_base::{Cycle, PhysAddr};

/// A [`CorePort`] that tells a watch of each access. Only it has the cost of telling.
pub(crate) struct WatchedPort<'a, 'p>(pub &'a mut CorePort<'p>);

/// Calls `act` with a port, which is told of if `W`.
#[inline(always)]
pub(crate) fn on_port<const W: bool, T>(port: &mut CorePort<'_>, act: impl FnOnce(&mut dyn MemoryPort) -> T) -> T {
    if W { act(&mut WatchedPort(port)) } else { act(port) }
}

/// The number of a word in its line.
fn word_of(at: PhysAddr) -> usize {
    (at.0 / 8 % 8) as usize
}

/// A level of the memory hierarchy, in words.
pub fn level(served: Served) -> &'static str {
    match served {
        Served::L1 => "L1",
        Served::L2 => "L2",
        Served::Llc => "LLC",
        Served::Dram => "DRAM",
    }
}

fn tell_write(at: PhysAddr, bits: u64, now: Cycle) {
    watch::step(|| {
        let step = Step::new(StepKind::Write, "write into the table", now, now);
        step.address("at", at.0).address("bits", bits).behind()
    });
}

impl WatchedPort<'_, '_> {
    /// Accesses of tables in main memory so far, by the state of their row: open, none open, another one open.
    fn rows(&self) -> [u64; 3] {
        let dram = self.0.hierarchy.counters().dram;
        [dram.table_row_hits, dram.table_row_misses, dram.table_row_conflicts]
    }

    /// Loads a line, and says where it came from. `guest` is the address that the guest's walker knows; `word`
    /// says that it wants one word.
    fn load_told(&mut self, at: PhysAddr, guest: Option<PhysAddr>, word: bool, now: Cycle) -> LoadedLine {
        let before = self.rows();
        let (ready, served) = self.0.timed(at, now);
        let after = self.rows();
        // Another request of a table may have been served in the meantime: then the row's state is not known.
        let changed: Vec<usize> = (0..3).filter(|&state| after[state] != before[state]).collect();
        let row = match changed.as_slice() {
            [0] if served == Served::Dram => "row open",
            [1] if served == Served::Dram => "no row open",
            [2] if served == Served::Dram => "another row open",
            _ => "",
        };
        let words = match guest {
            Some(guest) => self.0.guest_memory().line(guest),
            None => self.0.memory.line(at),
        };
        let wanted = word_of(guest.unwrap_or(at));
        watch::step(|| Step {
            loaded: Some(LoadedBytes {
                at: at.0,
                guest: guest.map(|guest| guest.0),
                words: if word { vec![words[wanted]] } else { words.to_vec() },
                served: level(served).to_owned(),
                row: row.to_owned(),
            }),
            ..Step::new(StepKind::Load, "bytes of the design", now, ready)
        });
        LoadedLine { words, ready, served }
    }

    fn word_told(&mut self, at: PhysAddr, guest: Option<PhysAddr>, now: Cycle) -> Loaded {
        let LoadedLine { words, ready, served } = self.load_told(at, guest, true, now);
        Loaded { value: words[word_of(guest.unwrap_or(at))], ready, served }
    }
}

impl MemoryPort for WatchedPort<'_, '_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        self.word_told(at, None, now)
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.load_told(at, None, false, now)
    }

    fn peek_line(&mut self, at: PhysAddr) -> [u64; 8] {
        self.0.peek_line(at)
    }

    fn decide(&mut self, lines: &[(PhysAddr, Cycle)]) {
        self.0.decide(lines);
    }

    fn join(&mut self, at: PhysAddr, now: Cycle, arrives: Cycle) {
        self.0.join(at, now, arrives);
    }

    fn faulted(&self) -> bool {
        self.0.faulted()
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        let arrives = self.0.fetch(at, now);
        watch::step(|| {
            let step = Step::new(StepKind::Fetch, "prefetch of a table line", now, arrives);
            step.address("at", at.0).behind()
        });
        arrives
    }

    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle) {
        tell_write(at, bits, now);
        self.0.update(at, bits, now);
    }

    fn replace(&mut self, at: PhysAddr, mask: u64, bits: u64, now: Cycle) {
        tell_write(at, bits, now);
        self.0.replace(at, mask, bits, now);
    }

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        self.word_told(at, Some(guest), now)
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.load_told(at, Some(guest), false, now)
    }

    fn update_guest(&mut self, guest: PhysAddr, at: PhysAddr, bits: u64, now: Cycle) {
        tell_write(at, bits, now);
        self.0.update_guest(guest, at, bits, now);
    }
}
