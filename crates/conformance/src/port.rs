//! A memory port for tests: real bytes, one latency, and a record of what passed.

use ambulator_base::{Cycle, PhysAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served};

/// A port that reads the bytes of a [`PhysicalMemory`], each access taking the same number of cycles, and
/// that remembers every address. An access beyond the memory reads zero and is remembered like any other.
pub struct TestPort<'a> {
    memory: &'a mut PhysicalMemory,
    latency: u64,
    /// Addresses of words and lines that were loaded, in order.
    pub loads: Vec<PhysAddr>,
    /// Addresses that were fetched ahead.
    pub fetches: Vec<PhysAddr>,
    /// Addresses in which bits were set, and the bits.
    pub updates: Vec<(PhysAddr, u64)>,
}

impl TestPort<'_> {
    /// A port into `memory` with that latency, in cycles.
    pub fn new(memory: &mut PhysicalMemory, latency: u64) -> TestPort<'_> {
        TestPort { memory, latency, loads: Vec::new(), fetches: Vec::new(), updates: Vec::new() }
    }

    fn inside(&self, at: PhysAddr) -> bool {
        at.0 < self.memory.bytes()
    }
}

impl MemoryPort for TestPort<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        self.loads.push(at);
        let value = if self.inside(at) { self.memory.read(at) } else { 0 };
        Loaded { value, ready: now.after(self.latency), served: Served::Dram }
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.loads.push(at);
        let words = if self.inside(at) { self.memory.line(at) } else { [0; 8] };
        LoadedLine { words, ready: now.after(self.latency), served: Served::Dram }
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        self.fetches.push(at);
        now.after(self.latency)
    }

    fn replace(&mut self, at: PhysAddr, mask: u64, bits: u64, _now: Cycle) {
        if self.inside(at) {
            let word = self.memory.read(at);
            self.memory.write(at, word & !mask | bits);
        }
    }

    fn update(&mut self, at: PhysAddr, bits: u64, _now: Cycle) {
        self.updates.push((at, bits));
        if self.inside(at) {
            self.memory.set_bits(at, bits);
        }
    }
}
