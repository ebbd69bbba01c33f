//! A core's port to the memory hierarchy: the `MemoryPort` of a machine.

use crate::recording::{RecordedKind, Recording};
use crate::{AheadLoad, AwaitedTable, Bus, Loaded, LoadedLine, MemoryPort, Served};
use ambulator_base::{Cycle, PhysAddr};
use ambulator_hardware::{Access, CopyId, EntryLevel, Hierarchy};
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
        /// Of these, loads from memory nodes of another socket than the core's, or from slow tiers.
        dram_remote: Events,
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
    /// The loads from main memory that the translation waits for.
    pub awaited: &'a mut AwaitedTable,
    /// Of a machine inside another simulator: accesses are recorded here instead of timed by `hierarchy`.
    pub recording: Option<&'a mut Recording>,
}

impl CorePort<'_> {
    #[inline(always)]
    pub(crate) fn timed(&mut self, at: PhysAddr, now: Cycle) -> (Cycle, Served) {
        if let Some(recording) = &mut self.recording {
            let served = recording.assumed;
            self.traffic.dram += u64::from(served == Served::Dram);
            return (recording.access(RecordedKind::Load, at, now), served);
        }
        // The look-up begins and ends earlier by what the way takes: for main memory, as if it were sent
        // earlier.
        let sent = Cycle(now.0.saturating_sub(self.nearer));
        let access = self.hierarchy.access_table(self.core, at, false, self.entry, sent);
        *self.slowest = (*self.slowest).max(access.served as u8 + 1);
        let mut ready = access.ready;
        if self.awaited.ahead && access.served != Served::Dram {
            ready = self.find_on_its_way(at, now, sent, access);
        } else if self.hierarchy.awaits_memory(sent, ready) {
            // It may be on its way already, for another walk or as a prefetch.
            self.awaited.wait_for(at, now, ready);
        }
        match access.served {
            Served::L1 => self.traffic.l1 += 1,
            Served::L2 => self.traffic.l2 += 1,
            Served::Llc => self.traffic.llc += 1,
            Served::Dram => {
                self.traffic.dram += 1;
                self.load_ahead(AheadLoad { at, asked: now, told: ready }, true);
                self.traffic.dram_remote += u64::from(self.hierarchy.is_remote(self.core, at));
            }
        }
        (ready.max(now), access.served)
    }

    /// A walk that waits for a walker loads a line that is in a cache, or on its way there. If that has been sent, it
    /// arrives when it does, however late the walk begins. Returns when the walk has the line at the earliest.
    fn find_on_its_way(&mut self, at: PhysAddr, now: Cycle, sent: Cycle, access: Access) -> Cycle {
        let (latency, arrives) = self.hierarchy.arrives(self.core, at, access.served);
        if arrives <= self.awaited.asked {
            return access.ready;
        }
        let there = sent.after(latency);
        let own = self.awaited.loads.has(at);
        let ready = if own { access.ready } else { there };
        self.awaited.wait_for(at, now, ready);
        if !own && self.awaited.loads.push_on_its_way(AheadLoad { at, asked: now, told: ready }) {
            self.ask_ahead(false);
        }
        ready
    }

    /// A line is read from main memory: if the walk waits for a walker, it is sent when that is free.
    fn load_ahead(&mut self, load: AheadLoad, decides: bool) {
        if self.awaited.ahead && self.awaited.loads.push(load, decides) {
            self.ask_ahead(false);
        }
    }

    /// A walk waits for a walker, or no longer: it asks ahead for lines that it reads from main memory.
    pub(crate) fn ask_ahead(&mut self, ahead: bool) {
        self.awaited.ahead = ahead;
        self.hierarchy.ask_ahead(ahead);
    }

    /// Starts a fetch of a data line (speculation) without waiting.
    pub fn fetch_data(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        if let Some(recording) = &mut self.recording {
            return recording.access(RecordedKind::FetchData, at, now);
        }
        self.hierarchy.fetch(self.core, at, false, now).ready
    }

    /// Starts a speculative fetch of a table line or a data line without waiting. It is dropped if no MSHR is
    /// free.
    pub fn guess(&mut self, at: PhysAddr, is_table: bool, now: Cycle) {
        self.traffic.fetches += u64::from(is_table);
        if let Some(recording) = &mut self.recording {
            let kind = if is_table { RecordedKind::FetchTable } else { RecordedKind::FetchData };
            recording.access(kind, at, now);
            return;
        }
        self.hierarchy.guess(self.core, at, is_table, now);
    }

    /// When a copy of a page ended or is expected to end; `None` if it ended so long ago that nothing waits
    /// for it.
    pub fn copy_end(&mut self, copy: CopyId, now: Cycle) -> Option<Cycle> {
        self.hierarchy.copy_end(copy, now)
    }

    /// The walkers of a machine inside another simulator are that simulator's: it knows when they are busy.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// The utilisation of main memory's buses.
    pub(crate) fn bus(&self) -> Bus {
        if let Some(recording) = &self.recording {
            return Bus { busy: recording.bus_busy, channels: 1 };
        }
        let (busy, channels) = self.hierarchy.bus();
        Bus { busy, channels }
    }

    /// Writes to a table's line; nobody waits.
    fn write(&mut self, at: PhysAddr, now: Cycle) {
        self.traffic.updates += 1;
        match &mut self.recording {
            Some(recording) => _ = recording.access(RecordedKind::Write, at, now),
            None => _ = self.hierarchy.access_table(self.core, at, true, self.entry, now),
        }
    }

    pub(crate) fn guest_memory(&mut self) -> &mut PhysicalMemory {
        match &mut self.guest {
            Some(guest) => guest,
            None => self.memory,
        }
    }
}

impl MemoryPort for CorePort<'_> {
    #[inline]
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        let (ready, served) = self.timed(at, now);
        Loaded { value: self.memory.read(at), ready, served }
    }

    #[inline]
    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        let (ready, served) = self.timed(at, now);
        LoadedLine { words: self.memory.line(at), ready, served }
    }

    fn peek_line(&mut self, at: PhysAddr) -> [u64; 8] {
        self.memory.line(at)
    }

    fn decide(&mut self, lines: &[(PhysAddr, Cycle)]) {
        self.awaited.decide(lines);
    }

    fn join(&mut self, at: PhysAddr, now: Cycle, arrives: Cycle) {
        if self.recording.is_none() && self.hierarchy.awaits_memory(now, arrives) {
            self.awaited.wait_for(at, now, arrives);
        }
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        self.traffic.fetches += 1;
        if let Some(recording) = &mut self.recording {
            return recording.access(RecordedKind::FetchTable, at, now);
        }
        let Access { ready, served } = self.hierarchy.fetch(self.core, at, true, now);
        if served == Served::Dram {
            self.load_ahead(AheadLoad { at, asked: now, told: ready }, false);
        }
        ready
    }

    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle) {
        self.write(at, now);
        self.memory.set_bits(at, bits);
    }

    fn replace(&mut self, at: PhysAddr, mask: u64, bits: u64, now: Cycle) {
        self.write(at, now);
        let word = self.memory.read(at);
        self.memory.write(at, word & !mask | bits);
    }

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        let (ready, served) = self.timed(at, now);
        Loaded { value: self.guest_memory().read(guest), ready, served }
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        let (ready, served) = self.timed(at, now);
        LoadedLine { words: self.guest_memory().line(guest), ready, served }
    }

    fn update_guest(&mut self, guest: PhysAddr, at: PhysAddr, bits: u64, now: Cycle) {
        self.write(at, now);
        self.guest_memory().set_bits(guest, bits);
    }
}
