//! Translation through an intermediate address space: areas before the caches, pages behind the last level.
//!
//! With a [`FrontSide`] in its socket, a core asks the caches for intermediate addresses. Only what none of
//! them holds needs a page: the MMU walks the page table for it, with the walk's accesses entering at the
//! last-level cache.

use crate::pipeline::{FaultCause, Mmu, Translated};
use crate::{CorePort, Invalidation, MemoryPort, TableRegisters, Tlb, Translation, WalkOutcome};
use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, PageSize, PhysAddr, VirtAddr};
use ambulator_hardware::EntryLevel;
use ambulator_memory::PhysicalMemory;
use std::ops::Range;

/// Intermediate addresses, as caches see them: above all physical ones.
pub const INTERMEDIATE: Range<PhysAddr> = PhysAddr(1 << 42)..PhysAddr(1 << 43);

/// Translates before the caches.
pub trait FrontSide: Send {
    /// Context switch, or the OS half changed its registers.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// The intermediate address of `va`, and when it is known; `None` where no area is.
    fn translate(&mut self, va: VirtAddr, now: Cycle, port: &mut dyn MemoryPort) -> Option<(PhysAddr, Cycle)>;

    /// What the table's bytes say about `va`, outside time.
    fn locate(&self, registers: &TableRegisters, va: VirtAddr, memory: &PhysicalMemory) -> Option<PhysAddr>;

    /// Drops what `what` names.
    fn invalidate(&mut self, what: Invalidation);

    /// Hands its counters to `sink`.
    fn report(&self, prefix: &str, sink: &mut dyn CounterSink);

    /// Sets its counters to zero.
    fn reset_counters(&mut self);
}

/// The two sides of the caches.
pub(crate) struct Sides {
    pub front: Box<dyn FrontSide>,
    /// A TLB of pages, by intermediate address, behind the last-level cache.
    pub back: Option<Tlb>,
}

impl Mmu {
    /// Before the caches: the intermediate address of `va`. `None` without a front side, or where no area is.
    pub fn front_side(&mut self, va: VirtAddr, now: Cycle, port: &mut CorePort<'_>) -> Option<(PhysAddr, Cycle)> {
        let found = self.sides.as_mut()?.front.translate(va, now, port)?;
        self.counters.mmu_cycles += found.1.since(now);
        Some(found)
    }

    /// Behind the caches: the physical address of an intermediate address that none of them holds.
    pub fn back_side(&mut self, at: PhysAddr, access: AccessKind, now: Cycle, port: &mut CorePort<'_>) -> Translated {
        port.entry = EntryLevel::Llc;
        let (asid, name) = (self.asid(), VirtAddr(at.0));
        if let Some(back) = self.sides.as_mut().and_then(|sides| sides.back.as_mut())
            && let Some(entry) = back.lookup(asid, name, PageSize::SIZE_4K)
        {
            self.counters.l2_tlb_hits += 1;
            let ready = now.max(entry.ready);
            return Translated::Physical { at: entry.translation().physical(name), ready };
        }
        self.counters.l2_tlb_misses += 1;
        self.counters.walks += 1;
        let walk = self.timed_walk(name, access, now, now, port);
        let cause = match walk.outcome {
            WalkOutcome::Mapped(found) => {
                let physical = found.physical(name);
                if let Some(back) = self.sides.as_mut().and_then(|sides| sides.back.as_mut()) {
                    let page = Translation { frame: physical.pfn(), size: PageSize::SIZE_4K, ..found };
                    back.fill(asid, name, &page, walk.ready);
                }
                return Translated::Physical { at: physical, ready: walk.ready };
            }
            WalkOutcome::NotMapped => FaultCause::NotMapped,
            WalkOutcome::HypervisorFault(guest) => FaultCause::Hypervisor(guest),
        };
        Translated::Fault { cause, at: walk.ready }
    }

    /// A TLB shootdown on a machine with two sides: the page walker's caches and the TLB behind the caches
    /// know intermediate addresses, so they drop the whole address space.
    pub fn invalidate_sides(&mut self, what: Invalidation) {
        self.invalidate(what);
        let all = match what {
            Invalidation::Page { asid, .. } => Invalidation::Asid(asid),
            other => other,
        };
        self.invalidate_walker(all);
        if let Some(sides) = &mut self.sides {
            sides.front.invalidate(what);
            if let Some(back) = &mut sides.back {
                back.invalidate(all, &[PageSize::SIZE_4K]);
            }
        }
    }

    /// Whether the core translates areas before its caches.
    pub fn has_front_side(&self) -> bool {
        self.sides.is_some()
    }

    /// The intermediate address of an address of the process with these registers, outside time.
    pub fn locate(&self, registers: &TableRegisters, va: VirtAddr, memory: &PhysicalMemory) -> Option<PhysAddr> {
        self.sides.as_ref()?.front.locate(registers, va, memory)
    }
}
