//! Prefetch walks: walks of the configured page table that nobody waits for. They use the walk caches, the
//! data caches, main memory and the core's walkers like all others.

use crate::pipeline::allowed;
use crate::prefetch::{
    FreeTranslations, PrefetchQueue, PrefetchQueueSpec, Prefetched, Proposals, TlbMiss, TlbPrefetcher,
};
use crate::tlb::tlb_page_size;
use crate::{CorePort, FinishedWalk, Mmu, PrefetchCounters, Walk, WalkOutcome, WalkTraffic, WalkerPool};
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, CounterSink, Counters, Cycle, Page, State, VirtAddr};

/// TLB prefetching of a core.
#[derive(State)]
pub(crate) struct TlbPrefetching {
    prefetcher: Box<dyn TlbPrefetcher>,
    pub queue: PrefetchQueue,
    /// The bound on prefetch walks; each takes one of the core's walkers too.
    walkers: WalkerPool,
    /// When prefetch walks in flight end.
    pending: Vec<Cycle>,
    #[state(skip)]
    most_pending: usize,
    /// log2 of the 4 KiB pages of half an address space.
    #[state(skip)]
    half: u32,
    /// Where the loads of prefetch walks were served.
    served: WalkTraffic,
}

impl TlbPrefetching {
    pub fn new(spec: &PrefetchQueueSpec, va_bits: u32, prefetcher: Box<dyn TlbPrefetcher>) -> TlbPrefetching {
        TlbPrefetching {
            prefetcher,
            queue: PrefetchQueue::new(spec),
            walkers: WalkerPool::new(spec.walkers),
            pending: Vec::with_capacity(spec.pending as usize),
            most_pending: spec.pending as usize,
            half: va_bits - 13,
            served: WalkTraffic::default(),
        }
    }

    /// Another address space runs from now on. The queue keeps what it holds of the others.
    pub fn switch(&mut self) {
        self.prefetcher.switch();
    }

    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.queue.counters.report(prefix, sink);
        self.served.report(&format!("{prefix}.walk_served"), sink);
        self.prefetcher.report(prefix, sink);
    }

    pub fn reset_counters(&mut self) {
        self.queue.counters.reset();
        self.served.reset();
        self.prefetcher.reset_counters();
    }

    /// When a prefetch walk proposed at `now` gets a walker; `None` if too many are in flight.
    fn start(&mut self, now: Cycle, walkers: &WalkerPool) -> Option<Cycle> {
        self.pending.retain(|end| *end > now);
        if self.pending.len() == self.most_pending {
            return None;
        }
        let mut at = self.walkers.start(walkers.turn(now));
        loop {
            let free = walkers.start(at);
            if free == at {
                return Some(at);
            }
            at = self.walkers.start(free);
        }
    }
}

impl Mmu {
    /// The counters of TLB prefetching; `None` without a prefetcher.
    pub fn prefetch_counters(&self) -> Option<&PrefetchCounters> {
        self.prefetching.as_ref().map(|unit| &unit.queue.counters)
    }

    /// Looks a page up that missed the L2 TLB: its translation, if it was prefetched, and when the queue has
    /// answered.
    pub(crate) fn probe_prefetched<const W: bool>(
        &mut self,
        va: VirtAddr,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Option<(Option<Prefetched>, Cycle)> {
        let asid = self.asid();
        let unit = self.prefetching.as_mut()?;
        let answered = now.after(unit.queue.latency);
        if W {
            watch::step(|| unit.queue.look_up_step(asid, va.vpn().0, now, answered));
        }
        let found = unit.queue.take(asid, va.vpn().0);
        if let Some(prefetched) = &found {
            if prefetched.ready > answered {
                unit.queue.counters.late += 1;
                // The access waits for that walk.
                *port.slowest = (*port.slowest).max(prefetched.slowest);
            }
            self.counters.prefetch_hits += 1;
        }
        Some((found, answered))
    }

    /// A miss has been served, by the queue (whose entry has the mark `served`) or by `walk`: trains the
    /// prefetcher, and walks for what it proposes from `now` on.
    pub(crate) fn prefetch_after<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        served: Option<i8>,
        walk: &FinishedWalk,
        port: &mut CorePort<'_>,
    ) {
        let Some(mut unit) = self.prefetching.take() else { return };
        let page = Page::containing(va, tlb_page_size(walk.found.size));
        let miss = TlbMiss { page: page.start.vpn().0, frames: page.size.frames(), pc: self.pc, served };
        let mut proposals = Proposals::default();
        unit.prefetcher.miss(&miss, &mut proposals);
        unit.queue.counters.proposed += proposals.pages().len() as u64;
        if served.is_none() {
            let slowest = *port.slowest;
            self.take_free(&mut unit, va, walk, slowest, port);
        }
        for &page in proposals.pages() {
            if (page ^ miss.page) >> unit.half != 0 {
                unit.queue.counters.outside += 1;
            } else {
                self.prefetch_page::<W>(&mut unit, VirtAddr(page << 12), access, walk.ready, port);
            }
        }
        self.prefetching = Some(unit);
    }

    /// Puts translations into the queue that came with a walk of `va` for free.
    fn take_free(
        &self,
        unit: &mut TlbPrefetching,
        va: VirtAddr,
        walk: &FinishedWalk,
        slowest: u8,
        port: &mut CorePort<'_>,
    ) {
        let mut free = FreeTranslations::default();
        unit.prefetcher.walked(va.vpn().0, walk, port, &mut free);
        for (page, found, mark) in free.iter() {
            if !self.holds_second(VirtAddr(page << 12)) && !unit.queue.holds(self.asid(), page) {
                unit.queue.put(self.asid(), page, &Prefetched { found, ready: walk.ready, mark, slowest });
                watch::step(|| {
                    let step =
                        Step::fill("TLB prefetch queue", walk.ready).says("gets an entry of the walk's line for free");
                    found.fields_of(step.address("page", page << 12)).behind()
                });
            }
        }
    }

    /// Walks the page table for a page that is proposed, unless it is held already, and puts it into the
    /// queue if it is there.
    fn prefetch_page<const W: bool>(
        &mut self,
        unit: &mut TlbPrefetching,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) {
        if self.holds_second(va) || unit.queue.holds(self.asid(), va.vpn().0) {
            unit.queue.counters.held += 1;
            return;
        }
        // A simulator around the machine has the walkers.
        let walkers = self.bounded_walkers(port);
        let bounded = walkers.is_some();
        let start = walkers.map_or(Some(now), |walkers| unit.start(now, walkers));
        let Some(start) = start else {
            unit.queue.counters.crowded += 1;
            return;
        };
        let dram = unit.served.dram;
        let (walk, slowest) = self.walk_behind::<W>(unit, va, start, port);
        if bounded {
            self.occupy_walker(now, walk.ready.since(start));
            unit.walkers.occupy(start, start, walk.ready);
            unit.pending.push(walk.ready);
        }
        let counters = &mut unit.queue.counters;
        counters.walks += 1;
        counters.walk_accesses += u64::from(walk.accesses);
        counters.walk_cycles += walk.ready.since(start);
        counters.walker_queue_cycles += start.since(now);
        match walk.outcome {
            WalkOutcome::Mapped(found) if allowed(&found, access) => {
                unit.queue.put(self.asid(), va.vpn().0, &Prefetched { found, ready: walk.ready, mark: 0, slowest });
                watch::step(|| Step::fill("TLB prefetch queue", walk.ready).says("gets the entry").behind());
                let dram_loads = (unit.served.dram - dram) as u32;
                let walk = FinishedWalk { found, entry: self.leaf_entry(), dram_loads, ready: walk.ready };
                self.take_free(unit, va, &walk, slowest, port);
            }
            WalkOutcome::Mapped(_) => counters.forbidden += 1,
            WalkOutcome::NotMapped | WalkOutcome::HypervisorFault(_) => counters.unmapped += 1,
        }
    }

    /// A walk whose loads are not those of TLB misses, and which faults nowhere; with 1 plus the level of its
    /// slowest load.
    fn walk_behind<const W: bool>(
        &mut self,
        unit: &mut TlbPrefetching,
        va: VirtAddr,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> (Walk, u8) {
        if W {
            watch::open(|| Step::new(StepKind::Walk, "prefetch walk", now, now).address("address", va.0).behind());
        }
        let of_miss = std::mem::take(port.slowest);
        std::mem::swap(port.traffic, &mut unit.served);
        let walk = self.walk_once::<W>(va, AccessKind::Load, now, port);
        std::mem::swap(port.traffic, &mut unit.served);
        let slowest = std::mem::replace(port.slowest, of_miss);
        if let (WalkOutcome::HypervisorFault(_), Some(stage)) = (walk.outcome, self.stage()) {
            // Nothing traps to the hypervisor.
            stage.counters.hypervisor_faults -= 1;
        }
        if W {
            watch::close(|step| {
                walk.complete(va, step);
                if !matches!(walk.outcome, WalkOutcome::Mapped(_)) {
                    step.says = "finds no page: the prefetch is dropped".into();
                }
            });
        }
        (walk, slowest)
    }
}
