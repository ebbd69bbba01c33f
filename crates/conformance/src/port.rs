//! A memory port for tests: real bytes, one latency, and a record of all accesses.

use ambulator_base::{Cycle, PhysAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served};

/// A port to the bytes of a [`PhysicalMemory`]. Each access takes the same number of cycles, and its address
/// is recorded. A read past the end of memory returns zero.
pub struct TestPort<'a> {
    memory: &'a mut PhysicalMemory,
    latency: u64,
    /// Addresses of loaded words and lines, in order.
    pub loads: Vec<PhysAddr>,
    /// Addresses of prefetches.
    pub fetches: Vec<PhysAddr>,
    /// Addresses of updates, and the bits set.
    pub updates: Vec<(PhysAddr, u64)>,
}

impl TestPort<'_> {
    /// A port to `memory` with this latency in cycles.
    pub fn new(memory: &mut PhysicalMemory, latency: u64) -> TestPort<'_> {
        TestPort { memory, latency, loads: Vec::new(), fetches: Vec::new(), updates: Vec::new() }
    }

    fn exists(&self, at: PhysAddr) -> bool {
        at.0 < self.memory.bytes()
    }
}

impl MemoryPort for TestPort<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        self.loads.push(at);
        let value = if self.exists(at) { self.memory.read(at) } else { 0 };
        Loaded { value, ready: now.after(self.latency), served: Served::Dram }
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.loads.push(at);
        let words = if self.exists(at) { self.memory.line(at) } else { [0; 8] };
        LoadedLine { words, ready: now.after(self.latency), served: Served::Dram }
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        self.fetches.push(at);
        now.after(self.latency)
    }

    fn replace(&mut self, at: PhysAddr, mask: u64, bits: u64, _now: Cycle) {
        if self.exists(at) {
            let word = self.memory.read(at);
            self.memory.write(at, word & !mask | bits);
        }
    }

    fn update(&mut self, at: PhysAddr, bits: u64, _now: Cycle) {
        self.updates.push((at, bits));
        if self.exists(at) {
            self.memory.set_bits(at, bits);
        }
    }
}
