//! Page walks of a core: speculation beside them, walkers that are busy, and what a walk fills.

use super::{FaultCause, Mmu, Translated, allowed};
use crate::{
    CorePort, FinishedWalk, HypervisorStage, MemoryPort, Retime, Speculation, Verification, Walk, WalkOnWalker,
    WalkOutcome, WalkerPool,
    tell::{tell_computed, tell_guess, tell_hint, tell_known_line, tell_verdict},
    tlb::awaits_walker,
    watched_port::on_port,
};
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};

impl Mmu {
    /// `copied`: when the copy of the page ends, if it is being copied. `missed`: for an L2 TLB miss, and not to set
    /// a dirty bit.
    pub(super) fn walk_and_fill<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        copied: Cycle,
        missed: bool,
        port: &mut CorePort<'_>,
    ) -> Translated {
        self.verification = Verification::default();
        let guess = self.speculate::<W>(va, access, now, port);
        let dram = port.traffic.dram;
        let walk = self.timed_walk::<W>(va, access, now, port);
        let cause = match walk.outcome {
            WalkOutcome::Mapped(found) => {
                let entry = if self.learns_of_walks { self.leaf_entry() } else { None };
                if W {
                    tell_verdict(found.physical(va));
                }
                if let (Some(speculator), Some(guess)) = (&mut self.speculator, &guess) {
                    speculator.learn(va, guess, &found, entry);
                    let cycles = if self.timing { walk.ready.since(now) } else { 0 };
                    speculator.learn_latency(cycles, walk.accesses);
                    if speculator.perfect() {
                        let at = found.physical(va);
                        let arrives = port.fetch_data(at, now);
                        if W {
                            tell_known_line(at, now, arrives);
                        }
                        self.counters.speculated_data += 1;
                    }
                }
                let dram_loads = (port.traffic.dram - dram) as u32;
                let finished = FinishedWalk { found, entry, dram_loads, ready: walk.ready };
                if let Some(lookaside) = &mut self.lookaside {
                    if W {
                        watch::open(|| {
                            Step::new(StepKind::Probe, "lookaside, refill", walk.ready, walk.ready).behind()
                        });
                    }
                    on_port::<W, _>(port, |port| lookaside.refill(va, &finished, port));
                    self.migration_hint = lookaside.take_migration_hint();
                    if W {
                        watch::close_if_any();
                        tell_hint(self.migration_hint, walk.ready);
                    }
                }
                if allowed(&found, access) {
                    let ready = self.wait_for_copy::<W>(walk.ready, copied);
                    self.counters.mmu_cycles += ready.since(walk.ready);
                    if W {
                        self.second.tell_fill(self.asid, va, &found, ready);
                    }
                    if missed {
                        self.second.fill_missed(self.asid, va, &found, ready);
                    } else {
                        self.second.fill(self.asid, va, &found, ready);
                    }
                    let at = found.physical(va);
                    let ready = match &guess {
                        Some(guess) if access == AccessKind::Load && self.timing && !port.is_recorded() => {
                            self.compute_ahead::<W>(guess, at, now, ready)
                        }
                        _ => ready,
                    };
                    self.fill_first::<W>(va, access, missed, &found, ready);
                    if missed && self.prefetching.is_some() {
                        self.prefetch_after::<W>(va, access, None, &finished, port);
                    }
                    return Translated::Physical { at, ready };
                }
                FaultCause::Protection
            }
            WalkOutcome::NotMapped => FaultCause::NotMapped,
            WalkOutcome::HypervisorFault(guest) => FaultCause::Hypervisor(guest),
        };
        self.counters.faults += 1;
        Translated::Fault { cause, at: walk.ready }
    }

    /// When a load whose data are `at` may ask for them: at once, if it computes with a prediction that the
    /// walk verifies at `verified`; after the flush, if the prediction was wrong.
    fn compute_ahead<const W: bool>(
        &mut self,
        guess: &Speculation,
        at: PhysAddr,
        now: Cycle,
        verified: Cycle,
    ) -> Cycle {
        let Some(lost) = guess.computes.filter(|_| guess.data_count > 0) else { return verified };
        let right = guess.data[0] == at;
        let ready =
            if right { now.after(u64::from(guess.latency)).min(verified) } else { verified.after(u64::from(lost)) };
        self.verification = Verification { at: verified.max(ready), flush: !right };
        // The MMU's time is what the access waits for.
        self.counters.mmu_cycles = self.counters.mmu_cycles + ready.since(now) - verified.since(now);
        if W {
            tell_computed(right, ready, verified);
        }
        ready
    }

    /// Performs a walk on one of the core's walkers and counts it.
    #[inline]
    pub(crate) fn timed_walk<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Walk {
        if !self.timing {
            let walk = self.page_walk::<W>(va, access, now, port);
            self.counters.walk_accesses += u64::from(walk.accesses);
            self.walk_loads.add(u64::from(walk.accesses));
            return walk;
        }
        // Of a walk before, of the same access.
        port.awaited.loads.send(port.hierarchy);
        port.awaited.begin_walk();
        let (start, waits) = if port.is_recorded() {
            (now, false)
        } else if port.awaited.may_wait {
            let (start, waits) = self.walkers.earliest_start(now);
            (start, waits || !port.awaited.search.is_empty())
        } else {
            (self.walkers.turn(now), false)
        };
        if W && start > now {
            watch::step(|| Step::new(StepKind::Wait, "page walkers", now, start).says("all are busy"));
        }
        if waits {
            port.awaited.asked = now;
            port.ask_ahead(true);
        }
        let walk = self.page_walk::<W>(va, access, start, port);
        if port.awaited.ahead {
            port.ask_ahead(false);
        }
        let waited = waits && matches!(walk.outcome, WalkOutcome::Mapped(_));
        if !waited {
            port.awaited.loads.send(port.hierarchy);
        }
        let on_walker = (!port.is_recorded()).then(|| {
            // After a search, it may turn out to ask later, behind others.
            let known = if waited && !port.awaited.search.is_empty() { start } else { walk.ready };
            let number = self.walkers.occupy(now, start, known);
            WalkOnWalker { number, begins: start, ends: walk.ready, waited }
        });
        port.awaited.settle(on_walker);
        self.counters.walker_queue_cycles += start.since(now);
        self.counters.walk_cycles += walk.ready.since(start);
        self.counters.walk_accesses += u64::from(walk.accesses);
        self.counters.mmu_cycles += walk.ready.since(now);
        self.walk_latency.add(walk.ready.since(start));
        self.walk_loads.add(u64::from(walk.accesses));
        walk
    }

    /// Walk `number`, or the lookaside's search, for `va`, has come to its end, as was said, so that an access is translated
    /// at `told`. It waited for main memory, which serves it `late` cycles later than was said: the entries that it fills
    /// are usable only then.
    pub fn delay_walk(&mut self, number: Option<u16>, va: VirtAddr, told: Cycle, late: u64) {
        if let Some(number) = number {
            self.raise_walk(number, late);
        }
        self.counters.mmu_cycles += late;
        self.retime(va, Retime::Delay { told, ready: told.after(late) });
    }

    /// Walk `number` ends `late` cycles later than was said, because main memory serves it then.
    pub(super) fn raise_walk(&mut self, number: u16, late: u64) {
        let cycles = self.walkers.delay(number, late);
        self.counters.walk_cycles += late;
        self.walk_latency.raise(cycles, cycles + late);
    }

    /// Changes when the entries of the data TLBs for `va` are usable.
    pub(super) fn retime(&mut self, va: VirtAddr, change: Retime) {
        self.data.retime(self.asid, va, change);
        self.second.retime(self.asid, va, change);
    }

    /// By how many cycles an access of `va` that has joined another's walk is translated later than at `told`: that
    /// walk is late ([`Mmu::delay_walk`]). `None` if that walk waits for a walker.
    pub fn joined_late(&mut self, va: VirtAddr, told: Cycle) -> Option<u64> {
        let entry = self.data.peek(self.asid, va).or_else(|| self.second.peek(self.asid, va));
        let ready = entry.map_or(Cycle(0), |entry| entry.ready);
        if awaits_walker(ready) {
            return None;
        }
        let late = ready.since(told);
        self.counters.mmu_cycles += late;
        Some(late)
    }

    fn page_walk<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Walk {
        if W {
            watch::open(|| Step::new(StepKind::Walk, "page walk", now, now));
        }
        let walk = self.walk_once::<W>(va, access, now, port);
        if W {
            watch::close(|step| walk.complete(va, step));
        }
        walk
    }

    /// A walk of the page table, of both stages with nested paging.
    #[inline]
    pub(crate) fn walk_once<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Walk {
        let (walker, hypervisor) = (self.walker.as_mut(), self.hypervisor.as_mut());
        if !W && hypervisor.is_none() {
            return walker.walk_on_core(va, access, now, port);
        }
        on_port::<W, _>(port, |port| match hypervisor {
            Some(hypervisor) => hypervisor.walk(walker, va, access, now, port),
            None => walker.walk(va, access, now, port),
        })
    }

    /// The address of the leaf entry of the latest walk, if its line holds those of adjacent pages.
    pub(crate) fn leaf_entry(&self) -> Option<PhysAddr> {
        if self.hypervisor.is_some() { None } else { self.walker.leaf_pte_address() }
    }

    /// When a walk at `now` would get a walker, which it occupies by [`Mmu::occupy_walker`]; `None` where
    /// walkers are always free.
    pub(crate) fn bounded_walkers(&self, port: &CorePort<'_>) -> Option<&WalkerPool> {
        (self.timing && !port.is_recorded()).then_some(&self.walkers)
    }

    /// When a walk that asks at `now` gets a walker.
    pub fn walker_free(&self, now: Cycle) -> Cycle {
        self.walkers.earliest_start(now).0
    }

    /// A walk for which nobody waits takes so many cycles of a walker.
    pub(crate) fn occupy_walker(&mut self, asked: Cycle, cycles: u64) {
        self.walkers.occupy_behind(asked, cycles);
    }

    /// The second stage of nested paging.
    pub(crate) fn stage(&mut self) -> Option<&mut HypervisorStage> {
        self.hypervisor.as_mut()
    }

    fn speculate<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Option<Speculation> {
        let guess = self.speculator.as_mut()?.speculate(self.pc, va, access, now, port.bus());
        let issue = now.after(u64::from(guess.latency));
        if W {
            tell_guess(&guess, issue);
        }
        for &at in &guess.table[..usize::from(guess.table_count)] {
            port.guess(at, true, issue);
        }
        // Hardware drops an address beyond the memory.
        let end = port.memory.bytes();
        for &at in guess.data[..usize::from(guess.data_count)].iter().filter(|at| at.0 < end) {
            port.guess(at, false, issue);
            self.counters.speculated_data += 1;
        }
        self.counters.speculated_table += u64::from(guess.table_count);
        Some(guess)
    }

    /// A walk outside the run, to show what a walker does for an address. It sees the walk caches as they are
    /// now.
    pub fn walk_untimed(&mut self, va: VirtAddr, port: &mut dyn MemoryPort) -> Walk {
        match &mut self.hypervisor {
            Some(hypervisor) => hypervisor.walk(self.walker.as_mut(), va, AccessKind::Load, Cycle(0), port),
            None => self.walker.walk(va, AccessKind::Load, Cycle(0), port),
        }
    }

    /// A page that the operating system should migrate to where it is translated faster; returned once.
    #[inline]
    pub fn take_migration_hint(&mut self) -> Option<VirtAddr> {
        self.migration_hint.take()
    }
}
