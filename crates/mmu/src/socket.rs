//! The hardware halves of the sockets: walker, lookaside, speculator.

use crate::MemoryPort;
use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, Page, PageSize, Pfn, PhysAddr, VirtAddr};

/// A translation as hardware found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// First 4 KiB frame of the page.
    pub frame: Pfn,
    /// The page's size; the page starts at `va.align_down(size)`.
    pub size: PageSize,
    /// Stores are allowed by the entry.
    pub writable: bool,
    /// Fetches are allowed by the entry.
    pub executable: bool,
    /// The entry's dirty bit is set (a store need not set it again).
    pub dirty: bool,
    /// The entry's range bit is set: a range translation holds the page too.
    pub ranged: bool,
}

impl Translation {
    /// The physical address of `va`, which must lie in the page.
    #[inline(always)]
    pub fn physical(&self, va: VirtAddr) -> PhysAddr {
        self.frame.start().offset(va.0 & (self.size.bytes() - 1))
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkOutcome {
    /// A present entry was found.
    Mapped(Translation),
    /// No present entry: a page fault.
    NotMapped,
    /// Nested paging only, made by the pipeline and never by a walker: this guest-physical address has no
    /// page of the hypervisor.
    HypervisorFault(PhysAddr),
}

/// A finished walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// What was found.
    pub outcome: WalkOutcome,
    /// When the answer is there.
    pub ready: Cycle,
    /// Loads that it sent into the memory hierarchy, parallel ones included.
    pub accesses: u32,
}

/// The registers that tell the hardware where a process's table is: CR3 and its relatives. The OS half writes
/// them; what each word means is between the two halves of one design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRegisters(pub Vec<u64>);

/// What must leave the translation caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// One page of one address space (INVLPG): every structure that holds a translation for any address in
    /// it.
    Page {
        /// The address space.
        asid: Asid,
        /// The page; entries of any size that overlap it go.
        page: Page,
    },
    /// Everything of one address space.
    Asid(Asid),
    /// Everything.
    All,
}

/// The hardware half of a page table, one instance per core; the pipeline gives it to one of the core's
/// walkers at a time.
pub trait Walker: Send {
    /// Context switch, or the OS half changed its registers: from now on `walk` serves this address space.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// Finds `va`'s entry, reading memory only through `port`, from `now` on. Sets the accessed bit, and the
    /// dirty bit for a store to a writable page, through `port.update` where they are not set.
    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk;

    /// Where the leaf entry lies that the latest walk found, if the line around it has the entries of the
    /// eight pages around the page, as lines of trees have.
    fn leaf_pte_address(&self) -> Option<PhysAddr> {
        None
    }

    /// Drops what `what` names from the walker's own caches.
    fn invalidate(&mut self, what: Invalidation);

    /// Hands its counters to `sink`, names starting with `prefix`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero (the end of warm-up).
    fn reset_counters(&mut self) {}
}

/// A page walk that has found a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedWalk {
    /// What it found.
    pub found: Translation,
    /// Where the leaf entry lies, if its line holds the entries of the pages around (see
    /// [`Walker::leaf_pte_address`]).
    pub entry: Option<PhysAddr>,
    /// Loads of the walk that DRAM served.
    pub dram_loads: u32,
    /// When it ended.
    pub ready: Cycle,
}

/// What a lookaside answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookasideAnswer {
    /// The translation, if it holds the page.
    pub found: Option<Translation>,
    /// When the answer is there.
    pub ready: Cycle,
    /// A page walk must not start before the answer: the lookaside holds the walk back.
    pub holds_walk: bool,
}

/// A structure probed beside the L2 TLB after an L1 TLB miss: a TLB of ranges or of clusters, a segment, tags
/// in memory.
pub trait Lookaside: Send {
    /// Context switch, or the OS half changed its registers.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// Looks `va` up.
    fn probe(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> LookasideAnswer;

    /// Told of every finished page walk that found a page, so that it may refill itself in the background.
    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort);

    /// A page that the operating system is asked to move to where it is translated faster; each is told once.
    fn take_request(&mut self) -> Option<VirtAddr> {
        None
    }

    /// Whether what it finds is put into the L2 TLB as well as into the L1 TLB.
    fn fills_l2(&self) -> bool {
        false
    }

    /// Whether it is probed only when the L2 TLB has missed (an in-memory TLB), and not beside it.
    fn after_l2(&self) -> bool {
        false
    }

    /// Drops what `what` names, and anything that contains it.
    fn invalidate(&mut self, what: Invalidation);

    /// Hands its counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero.
    fn reset_counters(&mut self) {}
}

/// Physical lines guessed on an L2 TLB miss; the pipeline issues them into the hierarchy beside the walk.
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
}

/// Main memory's buses, as the MMU sees how busy they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bus {
    /// Cycles that data were on them so far, summed over channels.
    pub busy: u64,
    /// Channels.
    pub channels: u32,
}

/// Guesses where data and page-table entries are. It never supplies a translation.
pub trait Speculator: Send {
    /// Context switch, or the OS half changed its registers.
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters);

    /// Candidates for `va`, of which the L2 TLB knows nothing.
    fn speculate(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, bus: Bus) -> Speculation;

    /// Whether it knows where the data is, always: the bound of all speculation. Then nothing is asked of it,
    /// and the data is fetched from the miss on.
    fn perfect(&self) -> bool {
        false
    }

    /// The walk's answer to what was guessed for `va`, and where the entry lies, if it lies in a tree.
    fn learn(&mut self, va: VirtAddr, guessed: &Speculation, found: &Translation, entry: Option<PhysAddr>);

    /// Drops what `what` names.
    fn invalidate(&mut self, what: Invalidation);

    /// Hands its counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}

    /// Sets its counters to zero.
    fn reset_counters(&mut self) {}
}
