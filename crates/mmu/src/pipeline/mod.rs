//! The translation pipeline of a core: L1 TLBs; the L2 TLB and the lookaside in parallel; speculation;
//! walkers. Every design uses it, so the same event costs the same in all of them.

mod counters;
mod first;
mod invalidate;
mod waits;
mod walks;

pub use counters::MmuCounters;
pub use first::FirstLookUp;

use crate::{
    CorePort, FinishedWalk, HypervisorStage, Lookaside, LookasideAnswer, MmuSpec, Retime, Speculator, TableRegisters,
    Tlb, TlbPrefetcher, TlbSpec, Translation, Verification, Walker, WalkerPool,
    intermediate::{FrontSide, Sides},
    levels::{FirstLevel, SecondLevel},
    prefetch::Prefetched,
    prefetch_walk::TlbPrefetching,
    tell::{first_name, tell_answer, tell_join, tell_rights},
    tlb::{awaits_walker, usable},
    watched_port::on_port,
};
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Asid, Cycle, Histogram, Page, PhysAddr, State, VirtAddr};
use ambulator_hardware::CopyId;

/// Why a translation ended in a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// No present entry.
    NotMapped,
    /// The entry forbids the access.
    Protection,
    /// Nested paging: the hypervisor has not mapped this guest-physical address.
    Hypervisor(PhysAddr),
}

impl FaultCause {
    /// The cause in words.
    pub fn text(self) -> String {
        match self {
            FaultCause::NotMapped => "page fault: no present entry".to_owned(),
            FaultCause::Protection => "page fault: the entry forbids the access".to_owned(),
            FaultCause::Hypervisor(guest) => format!("fault of the hypervisor: guest-physical {guest} is not mapped"),
        }
    }
}

/// The outcome of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// The physical address, and when it is known.
    Physical {
        /// Where the data is.
        at: PhysAddr,
        /// When the address is known.
        ready: Cycle,
    },
    /// The operating system must handle a fault; then the access is retried.
    Fault {
        /// The cause.
        cause: FaultCause,
        /// When the fault is known.
        at: Cycle,
    },
}

/// A core's MMU.
#[derive(State)]
pub struct Mmu {
    asid: Asid,
    data: FirstLevel,
    instructions: FirstLevel,
    second: SecondLevel,
    #[state(skip)]
    l1_latency: u64,
    /// What look-ups of the TLBs of both levels take when time is simulated.
    #[state(skip)]
    latencies: (u64, u64),
    #[state(skip)]
    timing: bool,
    #[state(timed)]
    walkers: WalkerPool,
    walker: Box<dyn Walker>,
    #[state(each)]
    hypervisor: Option<HypervisorStage>,
    #[state(each)]
    lookaside: Option<Box<dyn Lookaside>>,
    #[state(each)]
    speculator: Option<Box<dyn Speculator>>,
    #[state(each)]
    pub(crate) prefetching: Option<Box<TlbPrefetching>>,
    #[state(each)]
    pub(crate) sides: Option<Sides>,
    /// A page that the operating system should migrate.
    migration_hint: Option<VirtAddr>,
    /// Whether anything learns from walks: speculator, lookaside or prefetcher.
    #[state(skip)]
    learns_of_walks: bool,
    /// The instruction whose access is translated.
    pub(crate) pc: VirtAddr,
    /// Of the latest walk.
    verification: Verification,
    /// Pages that are being copied, with their copies.
    holds: Vec<(Asid, Page, CopyId)>,
    /// The counters so far.
    pub counters: MmuCounters,
    /// Latency of page walks, in cycles, from their start on a walker.
    pub walk_latency: Histogram,
    /// Loads of each page walk.
    pub walk_loads: Histogram,
}

/// The components in the sockets of an MMU.
pub struct Sockets {
    /// The page table's hardware half.
    pub walker: Box<dyn Walker>,
    /// The second stage, when nested paging is on.
    pub hypervisor: Option<HypervisorStage>,
    /// The structure probed in parallel with the L2 TLB or after it.
    pub lookaside: Option<Box<dyn Lookaside>>,
    /// Guesses addresses on an L2 TLB miss.
    pub speculator: Option<Box<dyn Speculator>>,
    /// Proposes pages to walk for before they are needed.
    pub tlb_prefetcher: Option<Box<dyn TlbPrefetcher>>,
    /// The front-side translation (before the caches), and the entries of the back-side TLB (after them).
    pub front_side: Option<(Box<dyn FrontSide>, u32)>,
}

pub(crate) fn allowed(found: &Translation, access: AccessKind) -> bool {
    match access {
        AccessKind::Load => true,
        AccessKind::Store => found.writable,
        AccessKind::Fetch => found.executable,
    }
}

/// Whether an access is allowed, and needs no walk first to set the dirty bit.
#[inline(always)]
fn permits_at_once(found: &Translation, access: AccessKind) -> bool {
    allowed(found, access) && (access != AccessKind::Store || found.dirty)
}

impl Mmu {
    /// An MMU with empty TLBs. Without `timing` (functional mode) TLBs take no time and a walker is always
    /// free; each translation must begin after everything that earlier ones left in flight.
    pub fn new(spec: &MmuSpec, sockets: Sockets, timing: bool) -> Mmu {
        let second = SecondLevel::new(&spec.l2_tlb);
        let latencies = (spec.l1_latency, second.latency);
        let mut mmu = Mmu {
            asid: Asid(0),
            data: FirstLevel::new(&spec.l1d_4k, &spec.l1d_2m, &spec.l1d_1g),
            instructions: FirstLevel::new(&spec.l1i_4k, &spec.l1i_2m, &TlbSpec::new(0, 0)),
            second,
            l1_latency: spec.l1_latency,
            latencies,
            timing,
            walkers: WalkerPool::new(spec.walkers),
            learns_of_walks: sockets.lookaside.is_some()
                || sockets.speculator.is_some()
                || sockets.tlb_prefetcher.is_some(),
            walker: sockets.walker,
            hypervisor: sockets.hypervisor,
            lookaside: sockets.lookaside,
            speculator: sockets.speculator,
            prefetching: (sockets.tlb_prefetcher)
                .map(|own| Box::new(TlbPrefetching::new(&spec.prefetch_queue, spec.va_bits, own))),
            sides: sockets
                .front_side
                .map(|(front, entries)| Sides { front, back: (entries > 0).then(|| Tlb::new(entries, 4)) }),
            migration_hint: None,
            pc: VirtAddr(0),
            verification: Verification::default(),
            holds: Vec::new(),
            counters: MmuCounters::default(),
            walk_latency: Histogram::default(),
            walk_loads: Histogram::default(),
        };
        mmu.set_timed(timing);
        mmu
    }

    /// Switches time on or off ([`Mmu::new`]). What TLBs and walk caches hold stays.
    pub fn set_timed(&mut self, timed: bool) {
        self.timing = timed;
        (self.l1_latency, self.second.latency) = if timed { self.latencies } else { (0, 0) };
    }

    /// Context switch, or the OS half changed the registers of the running process: those of the page table,
    /// of the lookaside, and of the front side.
    pub fn load_registers(
        &mut self,
        asid: Asid,
        registers: &TableRegisters,
        lookaside_registers: &TableRegisters,
        front_registers: &TableRegisters,
    ) {
        if let Some(prefetching) = self.prefetching.as_mut().filter(|_| asid != self.asid) {
            prefetching.switch();
        }
        self.asid = asid;
        self.forget_recent();
        self.walker.load_registers(asid, registers);
        if let Some(lookaside) = &mut self.lookaside {
            lookaside.load_registers(asid, lookaside_registers);
        }
        if let Some(sides) = &mut self.sides {
            sides.front.load_registers(asid, front_registers);
        }
        if let Some(speculator) = &mut self.speculator {
            speculator.load_registers(asid, registers);
        }
    }

    /// Loads the address of the hypervisor's table of host areas into the guest's walker.
    pub fn load_host_areas(&mut self, table: PhysAddr) {
        self.walker.load_host_areas(table);
    }

    /// Loads the hypervisor's registers for the virtual machine that runs on this core (nested paging).
    pub fn load_hypervisor_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        if let Some(hypervisor) = &mut self.hypervisor {
            hypervisor.load_registers(asid, registers);
        }
    }

    /// [`Mmu::translate`] of a data access after [`Mmu::look_up_first`] has just found that it misses the L1
    /// TLB.
    #[inline]
    pub fn translate_missed(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Translated {
        self.miss::<false>(va, access, now, port)
    }

    /// Whether a page waits to be taken from [`Mmu::take_migration_hint`].
    #[inline(always)]
    pub fn hints_migration(&self) -> bool {
        self.migration_hint.is_some()
    }

    /// Accesses so far that more than the L1 TLBs served.
    #[inline(always)]
    pub fn untimed_misses(&self) -> u64 {
        self.counters.l1d_tlb_misses + self.counters.l1i_tlb_misses + self.counters.dirty_assists
    }

    /// The instruction at `pc` makes the accesses that are translated next.
    #[inline(always)]
    pub fn set_instruction(&mut self, pc: VirtAddr) {
        self.pc = pc;
    }

    /// What the core must know of the latest walk.
    #[inline]
    pub fn verification(&self) -> Verification {
        self.verification
    }

    /// Finds the physical address of `va` for an access at `now`.
    #[inline]
    pub fn translate(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut CorePort<'_>) -> Translated {
        self.translate_as::<false>(va, access, now, port)
    }

    /// [`Mmu::translate`] on a thread that watches: tells of every step.
    #[cold]
    pub fn translate_watched(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Translated {
        self.translate_as::<true>(va, access, now, port)
    }

    /// Translates; tells a watch of the steps if `W`, and has no code for it otherwise.
    #[inline(always)]
    fn translate_as<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Translated {
        let first = if access == AccessKind::Fetch { &mut self.instructions } else { &mut self.data };
        if W {
            first.tell_look_up(first_name(access), self.asid, va, now, now.after(self.l1_latency));
        }
        if let Some(entry) = first.lookup(self.asid, va) {
            let found = entry.translation();
            if permits_at_once(&found, access) {
                // One cycle of the look-up overlaps the indexing of the L1 cache.
                let answer = now.after(self.l1_latency.saturating_sub(1));
                let ready = usable(answer, entry.ready);
                let joined = u64::from(entry.ready > answer);
                if W {
                    tell_join(now.after(self.l1_latency), ready);
                }
                if access == AccessKind::Fetch {
                    self.counters.joined += joined;
                    self.counters.mmu_cycles += ready.since(now).max(self.l1_latency);
                    self.counters.l1i_tlb_hits += 1 - joined;
                    self.counters.l1i_tlb_misses += joined;
                } else {
                    self.count_first_answer(now, ready);
                }
                return Translated::Physical { at: found.physical(va), ready };
            }
            if access == AccessKind::Fetch {
                self.counters.l1i_tlb_hits += 1;
            } else {
                self.counters.l1d_tlb_hits += 1;
            }
            let answered = now.after(self.l1_latency);
            let now = usable(answered, entry.ready);
            if W {
                tell_join(answered, now);
            }
            return self.restricted_hit::<W>(va, access, &found, now, port);
        }
        self.miss::<W>(va, access, now, port)
    }

    /// A TLB hit whose entry does not permit the access yet: a protection fault, or a dirty bit to set.
    #[cold]
    fn restricted_hit<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        found: &Translation,
        now: Cycle,
        port: &mut CorePort<'_>,
    ) -> Translated {
        if W {
            tell_rights(allowed(found, access), now);
        }
        if !allowed(found, access) {
            self.counters.faults += 1;
            return Translated::Fault { cause: FaultCause::Protection, at: now };
        }
        // A store through a clean entry: the lookaside sets the dirty bit, or else hardware walks again to
        // set it.
        self.counters.dirty_assists += 1;
        let probed = self.probe_lookaside::<W>(va, access, now, false, port);
        if let Some(probed) = probed
            && let Some(found) = probed.found.filter(|found| found.dirty && allowed(found, access))
        {
            self.counters.mmu_cycles += probed.ready.since(now);
            self.fill_first::<W>(va, access, false, &found, probed.ready);
            return Translated::Physical { at: found.physical(va), ready: probed.ready };
        }
        // The walk does not wait for what has been searched.
        port.awaited.settle(None);
        self.walk_and_fill::<W>(va, access, now, now, false, port)
    }

    fn miss<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        began: Cycle,
        port: &mut CorePort<'_>,
    ) -> Translated {
        if access == AccessKind::Fetch {
            self.counters.l1i_tlb_misses += 1;
        } else {
            self.counters.l1d_tlb_misses += 1;
        }
        let now = began.after(self.l1_latency);
        // A copy delays the data of its page, not what translates it.
        let copied = if self.holds.is_empty() { now } else { self.copied_at(va, now, port) };
        if W {
            self.second.tell_look_up(self.asid, va, now);
        }
        let parallel = self.lookaside.as_ref().is_some_and(|lookaside| !lookaside.after_l2());
        let held = self.second.lookup(self.asid, va).map(|entry| (entry.translation(), entry.ready));
        let mut probed = if parallel { self.probe_lookaside::<W>(va, access, now, held.is_some(), port) } else { None };
        let answered = now.after(self.second.latency);
        if let Some((found, held_from)) = held {
            self.counters.l2_tlb_hits += 1;
            self.counters.joined += u64::from(held_from > answered);
            let mut ready = usable(answered, held_from);
            if let Some(probed) = &probed
                && probed.found.is_some()
            {
                ready = ready.min(probed.ready);
            }
            if W {
                tell_join(answered, ready);
            }
            let ready = self.wait_for_copy::<W>(ready, copied);
            self.counters.mmu_cycles += ready.since(began);
            if !permits_at_once(&found, access) {
                return self.restricted_hit::<W>(va, access, &found, ready, port);
            }
            self.fill_first::<W>(va, access, true, &found, ready);
            if awaits_walker(held_from) && access != AccessKind::Fetch {
                self.data.retime(self.asid, va, Retime::Wait(ready));
            }
            return Translated::Physical { at: found.physical(va), ready };
        }
        self.counters.l2_tlb_misses += 1;
        let mut start = answered;
        if probed.is_none() {
            probed = self.probe_lookaside::<W>(va, access, answered, false, port);
        }
        if let Some(probed) = probed {
            if let Some(found) = probed.found {
                self.counters.lookaside_hits += 1;
                port.awaited.settle(None);
                let ready = self.wait_for_copy::<W>(probed.ready, copied);
                self.counters.mmu_cycles += ready.since(began);
                if !permits_at_once(&found, access) {
                    return self.restricted_hit::<W>(va, access, &found, ready, port);
                }
                if self.lookaside.as_ref().is_some_and(|lookaside| lookaside.fills_l2()) {
                    if W {
                        self.second.tell_fill(self.asid, va, &found, ready);
                    }
                    self.second.fill_missed(self.asid, va, &found, ready);
                }
                self.fill_first::<W>(va, access, true, &found, ready);
                return Translated::Physical { at: found.physical(va), ready };
            }
            if probed.holds_walk {
                start = start.max(probed.ready);
            } else {
                // The walk does not wait for what it has searched.
                port.awaited.settle(None);
            }
        }
        if let Some((prefetched, answered)) = self.probe_prefetched::<W>(va, start, port) {
            if let Some(Prefetched { found, ready, mark, .. }) = prefetched {
                let ready = answered.max(ready);
                if W {
                    tell_join(answered, ready);
                }
                let ready = self.wait_for_copy::<W>(ready, copied);
                self.counters.mmu_cycles += ready.since(began);
                return self.prefetched::<W>(va, access, &found, mark, (answered, ready), port);
            }
            start = answered;
        }
        self.counters.walks += 1;
        self.counters.mmu_cycles += start.since(began);
        self.walk_and_fill::<W>(va, access, start, copied, true, port)
    }

    /// A miss that a prefetched translation serves: it moves into the TLBs, and the prefetcher goes on.
    /// `times` are when the queue has answered, and when the translation is known.
    fn prefetched<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        found: &Translation,
        mark: i8,
        times: (Cycle, Cycle),
        port: &mut CorePort<'_>,
    ) -> Translated {
        let (answered, ready) = times;
        let translated = if !permits_at_once(found, access) {
            self.restricted_hit::<W>(va, access, found, ready, port)
        } else {
            if W {
                self.second.tell_fill(self.asid, va, found, ready);
            }
            self.second.fill_missed(self.asid, va, found, ready);
            self.fill_first::<W>(va, access, true, found, ready);
            Translated::Physical { at: found.physical(va), ready }
        };
        if let Translated::Physical { .. } = translated {
            let served = FinishedWalk { found: *found, entry: None, dram_loads: 0, ready: answered };
            self.prefetch_after::<W>(va, access, Some(mark), &served, port);
        }
        translated
    }

    /// `beside_hit`: the L2 TLB hits.
    fn probe_lookaside<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        beside_hit: bool,
        port: &mut CorePort<'_>,
    ) -> Option<LookasideAnswer> {
        let lookaside = self.lookaside.as_mut()?;
        self.counters.lookaside_probes += 1;
        if W {
            watch::open(|| Step::new(StepKind::Probe, "lookaside", now, now));
        }
        let answer = on_port::<W, _>(port, |port| match beside_hit {
            true => lookaside.probe_beside_hit(va, access, now, port),
            false => lookaside.probe(va, access, now, port),
        });
        if W {
            tell_answer(&answer, va);
        }
        Some(answer)
    }

    /// Fills a first-level TLB; `missed` says that it has no entry for `va`.
    #[inline(always)]
    fn fill_first<const W: bool>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        missed: bool,
        found: &Translation,
        ready: Cycle,
    ) {
        let first = if access == AccessKind::Fetch { &mut self.instructions } else { &mut self.data };
        if W {
            first.tell_fill(first_name(access), self.asid, va, found, ready);
        }
        if missed {
            first.fill_missed(self.asid, va, found, ready);
        } else {
            first.fill(self.asid, va, found, ready);
        }
    }

    /// A page is being copied: accesses to it wait for the end of the copy.
    pub fn hold(&mut self, asid: Asid, page: Page, copy: CopyId) {
        self.holds.push((asid, page, copy));
    }

    /// When the copy of the page of `va` ends, or the estimate of that at `now`; `now` if it is not being copied.
    #[cold]
    fn copied_at(&mut self, va: VirtAddr, now: Cycle, port: &mut CorePort<'_>) -> Cycle {
        // Copies end in the order of their requests.
        let ended = self.holds.iter().take_while(|(.., copy)| port.copy_end(*copy, now).is_none()).count();
        self.holds.drain(..ended);
        let asid = self.asid;
        let holds = self.holds.iter().filter(|(own, page, _)| *own == asid && page.start <= va && va < page.end());
        holds.filter_map(|(.., copy)| port.copy_end(*copy, now)).max().unwrap_or(now).max(now)
    }

    /// When an access that is translated at `ready` may go on, if the copy of its page ends at `copied`.
    #[inline(always)]
    fn wait_for_copy<const W: bool>(&mut self, ready: Cycle, copied: Cycle) -> Cycle {
        if copied <= ready {
            return ready;
        }
        self.counters.hold_cycles += copied.since(ready);
        if W {
            watch::step(|| {
                Step::new(StepKind::Wait, "copy of the page", ready, copied).says("the page is being migrated")
            });
        }
        copied
    }

    pub(crate) fn asid(&self) -> Asid {
        self.asid
    }

    /// Whether the L2 TLB holds a page of `va`. Changes nothing.
    pub(crate) fn holds_second(&self, va: VirtAddr) -> bool {
        self.second.holds(self.asid, va)
    }

    /// Whether a TLB, or with a front side the TLB after the caches, holds a page of `va`. Changes nothing.
    pub fn holds(&self, va: VirtAddr, access: AccessKind) -> bool {
        let first = if access == AccessKind::Fetch { &self.instructions } else { &self.data };
        first.holds(self.asid, va) || self.second.holds(self.asid, va)
    }
}
