//! The timed path from walkers to memory.

use ambulator_base::{Cycle, PhysAddr};

pub use ambulator_hardware::Served;

/// What a load through a [`MemoryPort`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The little-endian 64-bit word.
    pub value: u64,
    /// When it arrives.
    pub ready: Cycle,
    /// Who served it.
    pub served: Served,
}

/// What a line load through a [`MemoryPort`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedLine {
    /// The line's eight words.
    pub words: [u64; 8],
    /// When it arrives.
    pub ready: Cycle,
    /// Who served it.
    pub served: Served,
}

/// A timed path to memory. Cycles ride along: what a load returns arrives at `ready`. Sequential loads chain
/// their cycles; parallel loads are issued at one `now` and the walker takes the latest `ready` that it
/// needs.
pub trait MemoryPort {
    /// Loads the 8-byte word at `at` (8-byte aligned).
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded;

    /// Loads the 64-byte line that holds `at`.
    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine;

    /// The line that a walk has just loaded: hardware has it at hand, so that this is no further access. Only
    /// the ports that machines are built with know that; any other loads it again.
    fn peek_line(&mut self, at: PhysAddr) -> [u64; 8] {
        self.load_line(at, Cycle(0)).words
    }

    /// Whether a load of this walk did not get through, because the hypervisor has no page there (nested
    /// paging): what it returned is nothing that a walker may remember. The walk ends at its next occasion,
    /// and its outcome is void.
    fn faulted(&self) -> bool {
        false
    }

    /// Starts bringing the line of `at` into the caches; nobody waits. Returns when it will be there.
    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle;

    /// Sets `bits` in the word at `at` (accessed and dirty bits, counters in PTEs): a write nobody waits for.
    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle);

    /// Writes `bits` into those bits of the word at `at` that `mask` names (counters in PTEs, entries of
    /// in-memory TLBs): nobody waits. Only the ports that machines are built with, and those of tests, have
    /// memory to write; for any other it is an update.
    fn replace(&mut self, at: PhysAddr, _mask: u64, bits: u64, now: Cycle) {
        self.update(at, bits, now);
    }

    /// Loads a word of a guest's memory: the value is that of guest-physical `guest`, the time that of
    /// host-physical `at`. Only the ports that machines are built with keep guests apart; for any other, a
    /// guest's bytes are where `at` says.
    fn load_guest(&mut self, _guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        self.load(at, now)
    }

    /// Loads a line of a guest's memory, as [`MemoryPort::load_guest`] does a word.
    fn load_line_guest(&mut self, _guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.load_line(at, now)
    }

    /// Sets bits in a word of a guest's memory, as [`MemoryPort::update`] does in the machine's.
    fn update_guest(&mut self, _guest: PhysAddr, at: PhysAddr, bits: u64, now: Cycle) {
        self.update(at, bits, now);
    }
}
