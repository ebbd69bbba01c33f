//! The hardware halves of the sockets (traits): walker, lookaside, speculator.

use crate::{CorePort, MemoryPort};
use ambulator_base::watch::{Field, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, Page, PageSize, Pfn, PhysAddr, State, VirtAddr};

/// A translation that hardware found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// First 4 KiB frame of the page.
    pub frame: Pfn,
    /// The page's size; the page starts at `va.align_down(size)`.
    pub size: PageSize,
    /// The entry allows stores.
    pub writable: bool,
    /// The entry allows fetches.
    pub executable: bool,
    /// The entry's dirty bit is set (a store need not set it again).
    pub dirty: bool,
    /// The entry's range bit is set: a range translation covers the page too, or it is part of a large
    /// contiguous mapping. Under nested paging: both stages' bits are set.
    pub ranged: bool,
}

impl Translation {
    /// The physical address of `va`, which must lie in the page.
    #[inline(always)]
    pub fn physical(&self, va: VirtAddr) -> PhysAddr {
        self.frame.start().offset(va.0 & (self.size.bytes() - 1))
    }

    /// Adds the translation's fields to a step for a watch.
    #[must_use]
    pub fn fields_of(&self, step: Step) -> Step {
        step.address("frame", self.frame.0)
            .field("page size", self.size.to_string())
            .field("writable", self.writable)
            .field("executable", self.executable)
            .field("dirty", self.dirty)
    }
}

/// The outcome of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkOutcome {
    /// A present entry was found.
    Mapped(Translation),
    /// No present entry: a page fault.
    NotMapped,
    /// Nested paging only, returned by the pipeline and never by a walker: the hypervisor has not mapped this
    /// guest-physical address.
    HypervisorFault(PhysAddr),
}

/// A finished walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Its outcome.
    pub outcome: WalkOutcome,
    /// When the result is known.
    pub ready: Cycle,
    /// Loads that it issued to the memory hierarchy, including parallel ones.
    pub accesses: u32,
}

impl Walk {
    /// Completes the step of this walk of `va`, for a watch.
    pub fn complete(&self, va: VirtAddr, step: &mut Step) {
        step.until = self.ready.0.max(step.from);
        let field = |name: &str, value: String| Field { name: name.into(), value: value.into() };
        step.says = match self.outcome {
            WalkOutcome::Mapped(found) => {
                step.fields.push(field("physical address", found.physical(va).to_string()));
                step.fields.push(field("page size", found.size.to_string()));
                format!("finds the page at {}", found.physical(va))
            }
            WalkOutcome::NotMapped => "finds no present entry: a page fault".into(),
            WalkOutcome::HypervisorFault(guest) => {
                format!("the hypervisor has not mapped guest-physical {guest}: a fault of the hypervisor")
            }
        };
        step.says.push_str(&match self.accesses {
            1 => ", 1 load".to_owned(),
            loads => format!(", {loads} loads"),
        });
    }
}

/// The registers that point the hardware to a process's table, such as CR3. The OS half of a design writes
/// them, and its hardware half interprets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRegisters(pub Vec<u64>);

/// Which translations to invalidate in the translation caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub enum Invalidation {
    /// One page of one address space (INVLPG): every translation of any address in it.
    Page {
        /// The address space.
        asid: Asid,
        /// The page; entries of any size that overlap it are removed.
        page: Page,
    },
    /// Everything of one address space.
    Asid(Asid),
    /// Everything.
    #[default]
    All,
}

/// The hardware half of a page table, one instance per core. The pipeline bounds the number of concurrent
/// walks by the core's walkers.
pub trait Walker: State + Send {
    /// Context switch, or the OS half changed its registers: from now on `walk` serves this address space.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// The register of a virtual machine that only the hypervisor writes: the host-physical address of its
    /// table of host areas, where a guest's walker finds what it may load past the second stage. Loaded before
    /// the registers of a process that depend on it.
    fn load_host_areas(&mut self, _table: PhysAddr) {}

    /// Finds `va`'s entry, reading memory only through `port`, from `now` on. Sets the accessed bit, and the
    /// dirty bit for a store to a writable page, through `port.update` where they are not set.
    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk;

    /// [`Walker::walk`] through a core's own port, as all walks are without nested paging. A walker may have
    /// code for this port, without a dynamic call for each load.
    fn walk_on_core(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut CorePort<'_>) -> Walk {
        self.walk(va, access, now, port)
    }

    /// The address of the leaf entry that the latest walk found, if its line holds the entries of the eight
    /// adjacent pages, as in a radix tree.
    fn leaf_pte_address(&self) -> Option<PhysAddr> {
        None
    }

    /// Removes what `what` selects from the walker's own caches.
    fn invalidate(&mut self, what: Invalidation);

    /// Reports its counters to `sink`, with names that start with `prefix`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero (the end of warm-up).
    fn reset_counters(&mut self) {}
}

/// A finished page walk that found a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedWalk {
    /// The translation.
    pub found: Translation,
    /// The address of the leaf entry, if its line holds the entries of adjacent pages (see
    /// [`Walker::leaf_pte_address`]).
    pub entry: Option<PhysAddr>,
    /// Loads of the walk that DRAM served.
    pub dram_loads: u32,
    /// When it ended.
    pub ready: Cycle,
}

/// The result of a lookaside's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookasideAnswer {
    /// The translation, if the lookaside holds the page.
    pub found: Option<Translation>,
    /// When the result is known.
    pub ready: Cycle,
    /// A page walk must not start before the result is known.
    pub holds_walk: bool,
}

/// A structure probed after an L1 TLB miss, in parallel with the L2 TLB or after it: a TLB of ranges or of
/// clusters, a segment, tags in memory.
pub trait Lookaside: State + Send {
    /// Context switch, or the OS half changed its registers.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// Looks `va` up.
    fn probe(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> LookasideAnswer;

    /// Looks `va` up in parallel with the L2 TLB, which hits. A lookaside that loads from memory abandons its
    /// loads then: they take longer than the L2 TLB. The default is for one that answers from its own
    /// entries.
    fn probe_beside_hit(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> LookasideAnswer {
        self.probe(va, access, now, port)
    }

    /// Called after every page walk that found a page, to refill the structure in the background.
    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort);

    /// A page that the operating system should migrate to where it is translated faster; each is returned
    /// once.
    fn take_migration_hint(&mut self) -> Option<VirtAddr> {
        None
    }

    /// Whether its hits fill the L2 TLB as well as the L1 TLB.
    fn fills_l2(&self) -> bool {
        false
    }

    /// Whether it is probed only after an L2 TLB miss (an in-memory TLB) instead of in parallel with the L2
    /// TLB.
    fn after_l2(&self) -> bool {
        false
    }

    /// Removes what `what` selects, and anything that contains it.
    fn invalidate(&mut self, what: Invalidation);

    /// The core's identifier of this address space goes to another one. What the core has of it must go; what
    /// several cores share tells all address spaces apart, and may keep it.
    fn recycle(&mut self, asid: Asid) {
        self.invalidate(Invalidation::Asid(asid));
    }

    /// Reports its counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero.
    fn reset_counters(&mut self) {}
}

/// Physical lines guessed on an L2 TLB miss; the pipeline fetches them in parallel with the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Candidate addresses of the data; the first `data_count` are valid.
    pub data: [PhysAddr; 8],
    /// How many of `data` are valid.
    pub data_count: u8,
    /// Candidate addresses of table entries; the first `table_count` are valid.
    pub table: [PhysAddr; 16],
    /// How many of `table` are valid.
    pub table_count: u8,
    /// Cycles from the miss to the issue of the candidates.
    pub latency: u8,
    /// Whether a load computes with the data at the first candidate before the walk has verified it, and the
    /// cycles that it loses after the walk if that was wrong. `None`: candidates are only fetched.
    pub computes: Option<u16>,
}

/// What the core must know of the latest walk if a load computed with a prediction before the walk ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Verification {
    /// The load does not commit before: the walk has verified the prediction.
    pub at: Cycle,
    /// The prediction was wrong: what was dispatched after the load is flushed, and dispatch resumes at `at`.
    pub flush: bool,
}

/// The utilisation of main memory's buses, as the MMU observes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bus {
    /// Cycles for which they have carried data so far, summed over channels.
    pub busy: u64,
    /// Number of channels.
    pub channels: u32,
}

/// Guesses where data and page-table entries are. It never supplies a translation: the walk has the last
/// word, also about a guess that a load computes with ([`Speculation::computes`]).
pub trait Speculator: State + Send {
    /// Context switch, or the OS half changed its registers.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// Candidates for `va`, which missed the L2 TLB, for an access by the instruction at `pc` (0: not known).
    fn speculate(&mut self, pc: VirtAddr, va: VirtAddr, access: AccessKind, now: Cycle, bus: Bus) -> Speculation;

    /// Whether it always knows the address of the data: the upper bound of all speculation. The pipeline then
    /// fetches the data from the miss on.
    fn perfect(&self) -> bool {
        false
    }

    /// Trains on the walk's result for a guess of `va`; `entry` is the address of the leaf entry, if it lies
    /// in a tree.
    fn learn(&mut self, va: VirtAddr, guessed: &Speculation, found: &Translation, entry: Option<PhysAddr>);

    /// Trains on the time of the walk that [`Speculator::learn`] was told of last: `cycles` from the L2 TLB
    /// miss to the translation, with the wait for a walker, and the walk's `loads`. 0 cycles if time is not
    /// modelled.
    fn learn_latency(&mut self, _cycles: u64, _loads: u32) {}

    /// Removes what `what` selects.
    fn invalidate(&mut self, what: Invalidation);

    /// Reports its counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero.
    fn reset_counters(&mut self) {}
}
