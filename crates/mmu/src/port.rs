//! The timed path from walkers to memory.

use ambulator_base::{Cycle, PhysAddr};

pub use ambulator_hardware::Served;

/// The result of a load through a [`MemoryPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The little-endian 64-bit word.
    pub value: u64,
    /// When it arrives.
    pub ready: Cycle,
    /// The level that served it.
    pub served: Served,
}

/// The result of a line load through a [`MemoryPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedLine {
    /// The line's eight words.
    pub words: [u64; 8],
    /// When it arrives.
    pub ready: Cycle,
    /// The level that served it.
    pub served: Served,
}

/// A timed path to memory. A load returns its value with the cycle `ready` at which the value arrives.
/// Sequential loads chain their cycles; parallel loads issue at the same `now` and the walker takes the
/// latest `ready` that it needs.
pub trait MemoryPort {
    /// Loads the 8-byte word at `at` (8-byte aligned).
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded;

    /// Loads the 64-byte line that holds `at`.
    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine;

    /// The line that a walk has just loaded. Hardware still holds it, so this is not another access. The
    /// default loads the line again; the ports of machines override it.
    fn peek_line(&mut self, at: PhysAddr) -> [u64; 8] {
        self.load_line(at, Cycle(0)).words
    }

    /// Of all lines that were loaded, the caller waits for these, which are said to be there then: up to four. It says so
    /// last, and only if it does not wait for all.
    fn decide(&mut self, _lines: &[(PhysAddr, Cycle)]) {}

    /// A line that is on its way already for another search, and that this one, which finds it in a cache of its own at
    /// `now`, waits for as well: it is said to be there at `arrives`.
    fn join(&mut self, _at: PhysAddr, _now: Cycle, _arrives: Cycle) {}

    /// Whether a load of this walk failed because the hypervisor has not mapped its address (nested paging).
    /// The walker must not cache the value that such a load returned. The walk ends as soon as possible, and
    /// its outcome is ignored.
    fn faulted(&self) -> bool {
        false
    }

    /// Starts a fetch of the line of `at` into the caches without waiting. Returns when the line arrives.
    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle;

    /// Sets `bits` in the word at `at` (accessed and dirty bits, counters in PTEs) without waiting.
    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle);

    /// Writes `bits` into the bits of the word at `at` that `mask` selects (counters in PTEs, entries of
    /// in-memory TLBs) without waiting. The default, for ports without memory to write, is an update.
    fn replace(&mut self, at: PhysAddr, _mask: u64, bits: u64, now: Cycle) {
        self.update(at, bits, now);
    }

    /// Loads a word of a guest's memory: the value is that of guest-physical `guest`, the time that of
    /// host-physical `at`, which no second stage translates: the caller knows where `guest` is. The default,
    /// for ports that do not separate guests, reads the bytes at `at`.
    fn load_guest(&mut self, _guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        self.load(at, now)
    }

    /// Loads a line of a guest's memory, as [`MemoryPort::load_guest`] loads a word.
    fn load_line_guest(&mut self, _guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.load_line(at, now)
    }

    /// Loads a line of the machine's own memory, also for a guest's walker: no second stage translates `at`.
    /// Hardware does so only for what the hypervisor has put there.
    fn load_line_host(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.load_line(at, now)
    }

    /// Sets bits in a word of a guest's memory, as [`MemoryPort::update`] does in the machine's memory.
    fn update_guest(&mut self, _guest: PhysAddr, at: PhysAddr, bits: u64, now: Cycle) {
        self.update(at, bits, now);
    }
}
