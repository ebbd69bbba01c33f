//! The hardware of a machine: its cores with their programs' state, and the caches and main memory that they
//! share.

use crate::core::Core;
use crate::machine::Phase;
use crate::path::TranslationPath;
use ambulator_base::{Counters, Cycle};
use ambulator_hardware::{EntryLevel, Hierarchy};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{CorePort, Mmu};
use ambulator_os::Migration;

/// Cores, caches and main memory.
pub(crate) struct Hardware {
    pub cores: Vec<Core>,
    pub hierarchy: Hierarchy,
    path: TranslationPath,
    /// Where walkers' accesses enter the hierarchy.
    entry: EntryLevel,
    timing: bool,
}

/// The bytes that walkers read: the machine's, and the guest's with nested paging.
pub(crate) type Memories<'a> = (&'a mut PhysicalMemory, Option<&'a mut PhysicalMemory>);

impl Hardware {
    /// Cores on a hierarchy. Without `timing`, nothing takes time.
    pub fn new(
        cores: Vec<Core>,
        hierarchy: Hierarchy,
        path: TranslationPath,
        entry: EntryLevel,
        timing: bool,
    ) -> Hardware {
        Hardware { cores, hierarchy, path, entry, timing }
    }

    /// The translation path.
    #[inline(always)]
    pub fn path(&self) -> TranslationPath {
        self.path
    }

    /// Whether time is simulated; in functional mode it is not.
    #[inline(always)]
    pub fn timing(&self) -> bool {
        self.timing
    }

    /// A core's time, by which the scheduler selects the next core. In functional mode, an instruction counts
    /// as a cycle.
    #[inline(always)]
    pub fn local_time(&self, number: usize) -> Cycle {
        let core = &self.cores[number];
        if self.timing { core.window.now() } else { Cycle(core.executed) }
    }

    /// Calls `act` with a core's MMU and its port to memory.
    #[inline(always)]
    pub fn with_port<T>(
        &mut self,
        number: usize,
        (memory, guest): Memories<'_>,
        act: impl FnOnce(&mut Mmu, &mut CorePort<'_>) -> T,
    ) -> T {
        let core = &mut self.cores[number];
        let mut port = CorePort {
            hierarchy: &mut self.hierarchy,
            memory,
            guest,
            core: number,
            entry: self.entry,
            traffic: &mut core.traffic,
        };
        act(&mut core.mmu, &mut port)
    }

    /// Charges operating-system work to a core, which stalls for `cycles` in the region of interest. Set-up
    /// is untimed.
    pub fn charge(&mut self, phase: Phase, number: usize, cycles: u64) {
        if phase == Phase::Setup || cycles == 0 {
            return;
        }
        let core = &mut self.cores[number];
        core.counters.os_cycles += cycles;
        if self.timing {
            core.window.serialize(cycles);
        }
    }

    /// Copies a page that the kernel has moved for a core, in the background. Accesses to the page wait for
    /// the end of the copy.
    pub fn copy_page(&mut self, number: usize, moved: &Migration) {
        let now = self.cores[number].window.now();
        let copy = self.hierarchy.copy(moved.from.start(), moved.to.start(), moved.page.size.bytes(), now);
        for core in &mut self.cores {
            core.mmu.hold(moved.asid, moved.page, copy);
        }
    }

    /// Sets every counter to zero; caches and TLBs keep their contents.
    pub fn reset_counters(&mut self) {
        self.hierarchy.reset_counters();
        for core in &mut self.cores {
            core.mmu.reset_counters();
            core.window.reset_counters();
            core.traffic.reset();
            core.counters.reset();
            core.measured_from = core.window.retired_cycle().0;
        }
    }

    /// Instructions of all cores since counting began.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|core| core.counters.instructions).sum()
    }
}
