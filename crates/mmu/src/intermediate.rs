//! Translation through an intermediate address space: VMAs before the caches, pages after the last level.
//!
//! With a [`FrontSide`] in its socket, a core accesses its caches by intermediate address. Only an access
//! that misses all caches needs a page translation: the MMU walks the page table, and the walk's accesses
//! enter at the last-level cache.

use crate::pipeline::{FaultCause, Mmu, Translated};
use crate::watched_port::on_port;
use crate::{CorePort, Invalidation, MemoryPort, TableRegisters, Tlb, Translation, WalkOutcome};
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, PageSize, PhysAddr, State, VirtAddr};
use ambulator_hardware::EntryLevel;
use ambulator_memory::PhysicalMemory;
use std::ops::Range;

/// Intermediate addresses, as caches see them: above all physical addresses.
pub const INTERMEDIATE: Range<PhysAddr> = PhysAddr(1 << 42)..PhysAddr(1 << 43);

/// The front-side translation, before the caches.
pub trait FrontSide: State + Send {
    /// Context switch, or the OS half changed its registers.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// The intermediate address of `va`, and when it is known; `None` if no VMA contains `va`.
    fn translate(&mut self, va: VirtAddr, now: Cycle, port: &mut dyn MemoryPort) -> Option<(PhysAddr, Cycle)>;

    /// The intermediate address of `va` according to the table's bytes, untimed.
    fn locate(&self, registers: &TableRegisters, va: VirtAddr, memory: &PhysicalMemory) -> Option<PhysAddr>;

    /// Cycles that a load of the walker after the last level takes less than a core's access to that level,
    /// because the walker stands there: none unless the design says so.
    fn walker_nearer(&self) -> u64 {
        0
    }

    /// Removes what `what` selects.
    fn invalidate(&mut self, what: Invalidation);

    /// Reports its counters to `sink`.
    fn report(&self, prefix: &str, sink: &mut dyn CounterSink);

    /// Sets its counters to zero.
    fn reset_counters(&mut self);
}

/// The translations on the two sides of the caches.
#[derive(State)]
pub(crate) struct Sides {
    pub front: Box<dyn FrontSide>,
    /// A TLB of pages, by intermediate address, after the last-level cache.
    #[state(each)]
    pub back: Option<Tlb>,
}

impl Sides {
    /// Removes what `before` selects before the caches, and what `behind` selects behind them.
    pub fn invalidate(&mut self, before: Invalidation, behind: Invalidation) {
        self.front.invalidate(before);
        if let Some(back) = &mut self.back {
            back.invalidate(behind, &[PageSize::SIZE_4K]);
        }
    }
}

impl Mmu {
    /// Before the caches: the intermediate address of `va`. `None` without a front side, or if no VMA
    /// contains `va`.
    pub fn front_side(&mut self, va: VirtAddr, now: Cycle, port: &mut CorePort<'_>) -> Option<(PhysAddr, Cycle)> {
        let front = &mut self.sides.as_mut()?.front;
        watch::open(|| Step::new(StepKind::Probe, "front side, before the caches", now, now));
        let found = match watch::watched() {
            true => on_port::<true, _>(port, |port| front.translate(va, now, port)),
            false => on_port::<false, _>(port, |port| front.translate(va, now, port)),
        };
        watch::close(|step| match found {
            Some((at, ready)) => {
                step.until = ready.0.max(step.from);
                step.says = format!("intermediate address {at}");
            }
            None => step.says = "no area has the address".into(),
        });
        let found = found?;
        self.counters.mmu_cycles += found.1.since(now);
        Some(found)
    }

    /// After the caches: the physical address of an intermediate address that missed all of them.
    pub fn back_side(&mut self, at: PhysAddr, access: AccessKind, now: Cycle, port: &mut CorePort<'_>) -> Translated {
        port.entry = EntryLevel::Llc;
        port.nearer = self.sides.as_ref().map_or(0, |sides| sides.front.walker_nearer());
        let (asid, intermediate) = (self.asid(), VirtAddr(at.0));
        if let Some(back) = self.sides.as_ref().and_then(|sides| sides.back.as_ref()) {
            let name = "TLB after the last-level cache";
            watch::step(|| back.look_up_step(name, asid, intermediate, PageSize::SIZE_4K, now, now));
        }
        if let Some(back) = self.sides.as_mut().and_then(|sides| sides.back.as_mut())
            && let Some(entry) = back.lookup(asid, intermediate, PageSize::SIZE_4K)
        {
            self.counters.l2_tlb_hits += 1;
            let ready = now.max(entry.ready);
            if ready > now {
                watch::step(|| Step::new(StepKind::Wait, "walk in flight", now, ready).says("the miss joins it"));
            }
            return Translated::Physical { at: entry.translation().physical(intermediate), ready };
        }
        self.counters.l2_tlb_misses += 1;
        self.counters.walks += 1;
        let walk = match watch::watched() {
            true => self.timed_walk::<true>(intermediate, access, now, port),
            false => self.timed_walk::<false>(intermediate, access, now, port),
        };
        let cause = match walk.outcome {
            WalkOutcome::Mapped(found) => {
                let physical = found.physical(intermediate);
                if let Some(back) = self.sides.as_mut().and_then(|sides| sides.back.as_mut()) {
                    let page = Translation { frame: physical.pfn(), size: PageSize::SIZE_4K, ..found };
                    watch::step(|| {
                        let name = "TLB after the last-level cache";
                        back.fill_step(name, asid, intermediate, PageSize::SIZE_4K, walk.ready)
                    });
                    back.fill(asid, intermediate, &page, walk.ready);
                }
                return Translated::Physical { at: physical, ready: walk.ready };
            }
            WalkOutcome::NotMapped => FaultCause::NotMapped,
            WalkOutcome::HypervisorFault(guest) => FaultCause::Hypervisor(guest),
        };
        Translated::Fault { cause, at: walk.ready }
    }

    /// Whether the TLB after the caches holds the page of an intermediate address. Changes nothing.
    pub fn holds_behind(&self, at: PhysAddr) -> bool {
        let back = self.sides.as_ref().and_then(|sides| sides.back.as_ref());
        back.is_some_and(|back| back.peek(self.asid(), VirtAddr(at.0), PageSize::SIZE_4K).is_some())
    }

    /// A walk behind the caches has waited for so many cycles for a walker.
    pub fn wait_behind(&mut self, cycles: u64) {
        self.counters.walker_queue_cycles += cycles;
        self.counters.mmu_cycles += cycles;
    }

    /// A TLB shootdown on a machine with a front side: the page walker's caches and the back-side TLB are
    /// indexed by intermediate address, so the whole address space is invalidated there.
    pub fn invalidate_sides(&mut self, what: Invalidation) {
        self.invalidate(what);
        let all = match what {
            Invalidation::Page { asid, .. } => Invalidation::Asid(asid),
            other => other,
        };
        self.invalidate_walker(all);
        if let Some(sides) = &mut self.sides {
            sides.invalidate(what, all);
        }
    }

    /// Whether the core translates to intermediate addresses before its caches.
    pub fn has_front_side(&self) -> bool {
        self.sides.is_some()
    }

    /// The intermediate address of an address of the process with these registers, untimed.
    pub fn locate(&self, registers: &TableRegisters, va: VirtAddr, memory: &PhysicalMemory) -> Option<PhysAddr> {
        self.sides.as_ref()?.front.locate(registers, va, memory)
    }
}
