//! What the simulator around a machine asks for, and what it gets.

use crate::error::Stop;
use ambulator_base::PhysAddr;
use ambulator_mmu::Served;
use ambulator_os::OsError;

/// What a simulator wants besides a spec.
#[derive(Clone, Debug)]
pub struct HostedOptions {
    /// Cores, 1 to 256. At first core `i` runs process `i`.
    pub cores: usize,
    /// The TLBs of both levels are the simulator's: every translation goes to the lookaside and the walker.
    pub host_tlbs: bool,
    /// Effects are kept for [`super::HostedMachine::take_effects`].
    pub effects: bool,
    /// An access outside all areas maps this many bytes around it, a multiple of 4 KiB; 0 makes it an error.
    pub auto_map: u64,
    /// The level that is assumed to serve the loads of walks, for designs that count those from DRAM.
    pub assumed: Served,
}

impl Default for HostedOptions {
    fn default() -> Self {
        HostedOptions { cores: 1, host_tlbs: false, effects: false, auto_map: 0, assumed: Served::Dram }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostedError {
    /// The program may not access the address. The machine goes on.
    Segfault(String),
    /// The call is wrong: a bad core, process, walk or range. The machine goes on.
    Call(String),
    /// The modelled machine ran out of memory. It stops.
    Memory(String),
    /// A translation disagrees with the kernel, or the machine violated an invariant. It stops.
    Failed(String),
}

impl From<OsError> for HostedError {
    fn from(error: OsError) -> HostedError {
        let text = error.to_string();
        match error {
            OsError::Segfault { .. } => HostedError::Segfault(text),
            OsError::BadCall(_) | OsError::Processes => HostedError::Call(text),
            error if error.is_outcome() => HostedError::Memory(text),
            _ => HostedError::Failed(text),
        }
    }
}

impl From<Stop> for HostedError {
    fn from(stop: Stop) -> HostedError {
        match stop {
            Stop::Outcome(text) => HostedError::Memory(text),
            Stop::Failed(text) => HostedError::Failed(text),
        }
    }
}

/// What answered a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// An L1 TLB.
    L1Tlb,
    /// The L2 TLB.
    L2Tlb,
    /// The lookaside, or the queue of prefetched translations.
    Lookaside,
    /// A page walk.
    Walk,
    /// The kernel itself: the machine has a perfect TLB.
    Perfect,
}

/// A translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedTranslation {
    /// The physical address.
    pub at: PhysAddr,
    /// Bytes of the page.
    pub page_bytes: u64,
    /// What answered.
    pub answered: Answered,
    /// The walk to complete; 0 if nothing is to be waited for but `latency` cycles.
    pub walk: u64,
    /// Groups of steps that the translation waits for, one after the other.
    pub groups: u32,
    /// Fixed cycles after the last group, or after the begin if there is none.
    pub latency: u64,
    /// Page faults served.
    pub faults: u32,
    /// Cycles of the operating system, which are in its steps.
    pub os_cycles: u64,
}
