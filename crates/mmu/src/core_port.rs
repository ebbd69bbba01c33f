//! A core's port to the memory hierarchy: the `MemoryPort` of a machine.

use crate::{Loaded, LoadedLine, MemoryPort, Served};
use ambulator_base::watch::{self, LoadedBytes, Step, StepKind};
use ambulator_base::{Cycle, PhysAddr};
use ambulator_hardware::{CopyId, EntryLevel, Hierarchy};
use ambulator_memory::PhysicalMemory;

ambulator_base::counters! {
    /// Where the loads of page walks were served.
    pub struct WalkTraffic {
        /// Walk loads served by the L1 data cache.
        l1: Events,
        /// Walk loads served by the L2 cache.
        l2: Events,
        /// Walk loads served by the last-level cache.
        llc: Events,
        /// Walk loads served by DRAM.
        dram: Events,
        /// Writes of accessed and dirty bits and counters into tables.
        updates: Events,
        /// Table lines prefetched.
        fetches: Events,
    }
}

/// A core's port to the machine's memory: the cache hierarchy provides the time, physical memory the bytes.
pub struct CorePort<'a> {
    /// All cores' caches and DRAM.
    pub hierarchy: &'a mut Hierarchy,
    /// The machine's bytes.
    pub memory: &'a mut PhysicalMemory,
    /// The guest's bytes, by guest-physical address, when nested paging is on.
    pub guest: Option<&'a mut PhysicalMemory>,
    /// The core that owns the port.
    pub core: usize,
    /// Where table accesses enter the hierarchy.
    pub entry: EntryLevel,
    /// Cycles of the way between the core and the level where table accesses enter, which loads save whose
    /// walker stands there; 0 for a walker at the core.
    pub nearer: u64,
    /// Counters of the port's accesses.
    pub traffic: &'a mut WalkTraffic,
    /// 1 plus the [`Served`] of the slowest load so far, or 0.
    pub slowest: &'a mut u8,
}

impl CorePort<'_> {
    #[inline(always)]
    fn timed(&mut self, at: PhysAddr, now: Cycle) -> (Cycle, Served) {
        // The look-up begins and ends earlier by what the way takes: for main memory, as if it were sent
        // earlier.
        let sent = Cycle(now.0.saturating_sub(self.nearer));
        let access = self.hierarchy.access_table(self.core, at, false, self.entry, sent);
        *self.slowest = (*self.slowest).max(access.served as u8 + 1);
        match access.served {
            Served::L1 => self.traffic.l1 += 1,
            Served::L2 => self.traffic.l2 += 1,
            Served::Llc => self.traffic.llc += 1,
            Served::Dram => self.traffic.dram += 1,
        }
        (access.ready.max(now), access.served)
    }

    /// Loads a line while someone watches, and says where it came from. `guest` is the address that the
    /// guest's walker knows, `word` that it wants one word.
    #[cold]
    fn load_watched(&mut self, at: PhysAddr, guest: Option<PhysAddr>, word: bool, now: Cycle) -> LoadedLine {
        let rows = |hierarchy: &Hierarchy| {
            let dram = hierarchy.counters().dram;
            [dram.table_row_hits, dram.table_row_misses, dram.table_row_conflicts]
        };
        let before = rows(self.hierarchy);
        let (ready, served) = self.timed(at, now);
        let after = rows(self.hierarchy);
        // Another request of a table may have been served in the meantime: then the row's state is not known.
        let changed: Vec<usize> = (0..3).filter(|&state| after[state] != before[state]).collect();
        let row = match changed.as_slice() {
            [0] if served == Served::Dram => "row open",
            [1] if served == Served::Dram => "no row open",
            [2] if served == Served::Dram => "another row open",
            _ => "",
        };
        let words = match guest {
            Some(guest) => self.guest_memory().line(guest),
            None => self.memory.line(at),
        };
        let wanted = word_of(guest.unwrap_or(at));
        let wanted = if word { &words[wanted..=wanted] } else { &words };
        tell_load(at, guest, wanted, now, ready, served, row);
        LoadedLine { words, ready, served }
    }

    /// Starts a fetch of a data line (speculation) without waiting.
    pub fn fetch_data(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        self.hierarchy.fetch(self.core, at, false, now).ready
    }

    /// Starts a speculative fetch of a table line or a data line without waiting. It is dropped if no MSHR is
    /// free.
    pub fn guess(&mut self, at: PhysAddr, is_table: bool, now: Cycle) {
        self.traffic.fetches += u64::from(is_table);
        self.hierarchy.guess(self.core, at, is_table, now);
    }

    /// When a copy of a page ended or is expected to end; `None` if it ended so long ago that nothing waits
    /// for it.
    pub fn copy_end(&mut self, copy: CopyId, now: Cycle) -> Option<Cycle> {
        self.hierarchy.copy_end(copy, now)
    }

    fn guest_memory(&mut self) -> &mut PhysicalMemory {
        match &mut self.guest {
            Some(guest) => guest,
            None => self.memory,
        }
    }
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

/// Tells a watch of a load: of one word or a line, with the guest-physical address if a guest's walker loads,
/// and the state of the row in main memory if it is known. For ports; [`CorePort`] does it.
pub fn tell_load(
    at: PhysAddr,
    guest: Option<PhysAddr>,
    words: &[u64],
    now: Cycle,
    ready: Cycle,
    served: Served,
    row: &str,
) {
    watch::step(|| Step {
        loaded: Some(LoadedBytes {
            at: at.0,
            guest: guest.map(|guest| guest.0),
            words: words.to_vec(),
            served: level(served).to_owned(),
            row: row.to_owned(),
        }),
        ..Step::new(StepKind::Load, "bytes of the design", now, ready)
    });
}

fn tell_write(at: PhysAddr, bits: u64, now: Cycle) {
    watch::step(|| {
        Step::new(StepKind::Write, "write into the table", now, now)
            .address("at", at.0)
            .address("bits", bits)
            .behind()
    });
}

impl MemoryPort for CorePort<'_> {
    #[inline]
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        if watch::watched() {
            let LoadedLine { words, ready, served } = self.load_watched(at, None, true, now);
            return Loaded { value: words[word_of(at)], ready, served };
        }
        let (ready, served) = self.timed(at, now);
        Loaded { value: self.memory.read(at), ready, served }
    }

    #[inline]
    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        if watch::watched() {
            return self.load_watched(at, None, false, now);
        }
        let (ready, served) = self.timed(at, now);
        LoadedLine { words: self.memory.line(at), ready, served }
    }

    fn peek_line(&mut self, at: PhysAddr) -> [u64; 8] {
        self.memory.line(at)
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        self.traffic.fetches += 1;
        let access = self.hierarchy.fetch(self.core, at, true, now);
        watch::step(|| {
            let step = Step::new(StepKind::Fetch, "prefetch of a table line", now, access.ready);
            step.says(format!("from {}", level(access.served))).address("at", at.0).behind()
        });
        access.ready
    }

    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle) {
        tell_write(at, bits, now);
        self.traffic.updates += 1;
        self.hierarchy.access_table(self.core, at, true, self.entry, now);
        self.memory.set_bits(at, bits);
    }

    fn replace(&mut self, at: PhysAddr, mask: u64, bits: u64, now: Cycle) {
        tell_write(at, bits, now);
        self.traffic.updates += 1;
        self.hierarchy.access_table(self.core, at, true, self.entry, now);
        let word = self.memory.read(at);
        self.memory.write(at, word & !mask | bits);
    }

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        if watch::watched() {
            let LoadedLine { words, ready, served } = self.load_watched(at, Some(guest), true, now);
            return Loaded { value: words[word_of(guest)], ready, served };
        }
        let (ready, served) = self.timed(at, now);
        Loaded { value: self.guest_memory().read(guest), ready, served }
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        if watch::watched() {
            return self.load_watched(at, Some(guest), false, now);
        }
        let (ready, served) = self.timed(at, now);
        LoadedLine { words: self.guest_memory().line(guest), ready, served }
    }

    fn update_guest(&mut self, guest: PhysAddr, at: PhysAddr, bits: u64, now: Cycle) {
        tell_write(at, bits, now);
        self.traffic.updates += 1;
        self.hierarchy.access_table(self.core, at, true, self.entry, now);
        self.guest_memory().set_bits(guest, bits);
    }
}
