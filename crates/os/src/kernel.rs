//! The kernel: its parts, and its interface to the machine.

use crate::counters::OsCycles;
use crate::identifiers::Identifiers;
use crate::migrate::Migrations;
use crate::numa::Numa;
use crate::pinned::PinnedPages;
use crate::process::{Process, ProcessTable};
use crate::promotion::PromotionSchedule;
use crate::sharing::FrameOwners;
use crate::shootdown::Shootdowns;
use crate::swap::SwapSpace;
use crate::watermarks::ReclaimSchedule;
use crate::zeroing::ZeroedFrames;
use crate::{
    CostTable, Footprint, KernelCounters, KernelSpec, Ledger, LedgerCause, MapError, OsError, PageState, PlaceContext,
    Placement, Shootdown, TableContext, Translations, TranslationsFactory, VmaList,
};
use ambulator_base::{Asid, CounterSink, Counters, FRAME_BYTES, Page, ProcessId, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

/// The modelled kernel: a coordinator of parts, each with its own state.
pub struct Kernel {
    /// Bytes of physical memory.
    pub memory: PhysicalMemory,
    /// All frames.
    pub frames: BuddyAllocator,
    /// Cycles charged.
    pub ledger: Ledger,
    /// Counters.
    pub counters: KernelCounters,
    /// Cores of the machine. TLB shootdowns cost more with more cores.
    pub cores: u32,
    pub(crate) spec: KernelSpec,
    pub(crate) costs: CostTable,
    pub(crate) processes: ProcessTable,
    pub(crate) identifiers: Identifiers,
    pub(crate) factory: TranslationsFactory,
    pub(crate) placement: Box<dyn Placement>,
    pub(crate) owners: FrameOwners,
    pub(crate) swap: SwapSpace,
    pub(crate) reclaim_schedule: ReclaimSchedule,
    pub(crate) promotion_schedule: PromotionSchedule,
    pub(crate) shootdowns: Shootdowns,
    pub(crate) migrations: Migrations,
    pub(crate) zeroed: ZeroedFrames,
    pub(crate) pinned: PinnedPages,
    /// On a machine with several memory nodes.
    pub(crate) numa: Option<Box<Numa>>,
    /// Huge pages handed out.
    pub(crate) huge_pages: u64,
    /// Frames taken before the kernel started.
    pub(crate) initially_taken: u64,
    /// Peak and largest allocation of the tables of exited processes.
    pub(crate) exited: Footprint,
}

impl Kernel {
    /// A kernel without processes. `memory` and `frames` have the same size; `frames` may be fragmented.
    pub fn new(
        spec: &KernelSpec,
        costs: CostTable,
        memory: PhysicalMemory,
        frames: BuddyAllocator,
        factory: TranslationsFactory,
        placement: Box<dyn Placement>,
    ) -> Kernel {
        Kernel {
            processes: ProcessTable::default(),
            identifiers: Identifiers::new(spec.asid_bits),
            owners: FrameOwners::new(frames.total_frames()),
            swap: SwapSpace::new(spec.swap_bytes),
            reclaim_schedule: ReclaimSchedule::new(spec, frames.total_frames()),
            promotion_schedule: PromotionSchedule::new(spec.khugepaged_period),
            shootdowns: Shootdowns::new(spec.flush_ceiling),
            migrations: Migrations::default(),
            zeroed: ZeroedFrames::default(),
            pinned: PinnedPages::default(),
            numa: None,
            initially_taken: frames.total_frames() - frames.free_frames(),
            exited: Footprint::default(),
            memory,
            frames,
            ledger: Ledger::default(),
            counters: KernelCounters::default(),
            cores: 1,
            huge_pages: 0,
            spec: spec.clone(),
            costs,
            factory,
            placement,
        }
    }

    pub(crate) fn process(&self, process: ProcessId) -> &Process {
        self.processes.get(process)
    }

    pub(crate) fn process_mut(&mut self, process: ProcessId) -> &mut Process {
        self.processes.get_mut(process)
    }

    /// The translations of a process, and their context.
    #[inline]
    pub(crate) fn translations(&mut self, process: ProcessId) -> (&mut Translations, TableContext<'_>) {
        self.prefer_nodes_of_tables();
        let Kernel { processes, memory, frames, ledger, costs, cores, .. } = self;
        let os = TableContext { memory, frames, ledger, costs, cores: *cores };
        (&mut processes.get_mut(process).translations, os)
    }

    /// The placement, and its context.
    pub(crate) fn place_context(&mut self) -> (&mut dyn Placement, PlaceContext<'_>) {
        let Kernel { placement, memory, frames, ledger, costs, .. } = self;
        (placement.as_mut(), PlaceContext { memory, frames, ledger, costs })
    }

    /// An error if the process has exited or never existed.
    pub(crate) fn alive(&self, process: ProcessId) -> Result<(), OsError> {
        if self.is_alive(process) {
            return Ok(());
        }
        Err(OsError::BadCall(format!("process {process} has exited or never existed")))
    }

    /// Whether the process exists and has not exited.
    pub fn is_alive(&self, process: ProcessId) -> bool {
        self.processes.find(process).is_some()
    }

    /// The state of the page at `va`.
    #[inline(always)]
    pub fn page_state(&self, process: ProcessId, va: VirtAddr) -> PageState {
        match self.processes.find(process) {
            Some(process) => process.pages.get(va),
            None => PageState::NONE,
        }
    }

    /// The states of all pages of a process, or `None` if it has exited.
    #[inline(always)]
    pub fn page_map(&self, process: ProcessId) -> Option<&crate::PageMap> {
        self.processes.find(process).map(|process| &process.pages)
    }

    /// Processes that have not exited.
    pub fn live_processes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.processes.live().map(|(process, _)| process)
    }

    /// Visits every present page of a process in ascending order, with the state of its first 4 KiB.
    pub fn for_each_page(&self, process: ProcessId, mut visit: impl FnMut(Page, PageState)) {
        let mut at = VirtAddr(0);
        while let Some((page, state)) = self.next_page(process, at, crate::vma::TOP) {
            at = page.end();
            if state.present() {
                visit(page, state);
            }
        }
    }

    /// Prefetches the page state of `va` (simulator speed only).
    #[inline(always)]
    pub fn prefetch_page_state(&self, process: ProcessId, va: VirtAddr) {
        if let Some(process) = self.processes.find(process) {
            process.pages.prefetch(va);
        }
    }

    /// Prefetches the table entry of `va` (simulator speed only).
    #[inline(always)]
    pub fn prefetch_table(&self, process: ProcessId, va: VirtAddr) {
        if let Some(process) = self.processes.find(process) {
            process.translations.prefetch_sim_host(va, &self.memory);
        }
    }

    /// The process's address-space identifier, which no other live process has.
    pub fn asid(&self, process: ProcessId) -> Asid {
        self.process(process).asid()
    }

    /// The contents of the page table's registers for a process.
    pub fn registers(&self, process: ProcessId) -> Vec<u64> {
        self.process(process).translations.registers()
    }

    /// The contents of the companions' registers for a process.
    pub fn companion_registers(&self, process: ProcessId) -> Vec<u64> {
        self.process(process).translations.companion_registers()
    }

    /// The contents of the registers of the intermediate address map for a process.
    pub fn intermediate_registers(&self, process: ProcessId) -> Vec<u64> {
        self.process(process).translations.intermediate_registers()
    }

    /// Changes whenever the registers change; no two processes have the same.
    pub fn registers_generation(&self, process: ProcessId) -> u64 {
        match self.processes.find(process) {
            Some(process) => process.registers_generation(),
            None => 0,
        }
    }

    /// Moves the pending TLB shootdowns to `into`.
    #[inline]
    pub fn take_shootdowns(&mut self, into: &mut Vec<Shootdown>) {
        self.shootdowns.take(into);
    }

    /// The areas of a process.
    pub fn vmas(&self, process: ProcessId) -> &VmaList {
        &self.process(process).vmas
    }

    /// Whether the placement heeds the places that a trace records.
    #[inline]
    pub fn heeds_places(&self) -> bool {
        self.placement.heeds_places()
    }

    /// Page faults served since the last reset of the counters, including set-up touches.
    pub fn faults_served(&self) -> u64 {
        let c = &self.counters;
        c.faults_4k
            + c.faults_2m
            + c.faults_1g
            + c.copies_on_write
            + c.reuses_on_write
            + c.swap_ins
            + self.hint_faults()
    }

    /// The footprint of the process's translations.
    pub fn footprint(&self, process: ProcessId) -> Footprint {
        self.process(process).translations.footprint()
    }

    /// The footprint of the translations of all processes. The peak is the sum of the live processes' peaks,
    /// or the peak of an exited process if that is larger.
    pub fn total_table_footprint(&self) -> Footprint {
        let mut sum = Footprint::default();
        for (_, process) in self.processes.live() {
            let one = process.translations.footprint();
            sum.bytes += one.bytes;
            sum.peak_bytes += one.peak_bytes;
            sum.largest_contiguous = sum.largest_contiguous.max(one.largest_contiguous);
            sum.entries += one.entries;
        }
        sum.peak_bytes = sum.peak_bytes.max(self.exited.peak_bytes);
        sum.largest_contiguous = sum.largest_contiguous.max(self.exited.largest_contiguous);
        sum
    }

    /// Reports all counters to `sink`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.report_counters(prefix, sink);
        for (_, process) in self.processes.live() {
            process.translations.inspect(&self.memory, &format!("{prefix}.table"), sink);
        }
    }

    /// As [`Kernel::report`], without what must be read from the tables' bytes: cheap enough to be called
    /// often during a run.
    pub fn report_counters(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
        let total = |cause| self.ledger.total(cause);
        OsCycles {
            fault: total(LedgerCause::Fault),
            zero: total(LedgerCause::Zero),
            allocate: total(LedgerCause::Allocate),
            copy: total(LedgerCause::Copy),
            table: total(LedgerCause::Table),
            shootdown: total(LedgerCause::Shootdown),
            swap: total(LedgerCause::Swap),
            syscall: total(LedgerCause::Syscall),
            switch: total(LedgerCause::Switch),
        }
        .report(&format!("{prefix}.cycles"), sink);
        self.report_numa(prefix, sink);
        self.placement.report(&format!("{prefix}.placement"), sink);
        for (_, process) in self.processes.live() {
            process.translations.report(&format!("{prefix}.table"), sink);
        }
    }

    /// Sets all counters to zero and keeps the state.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.ledger.reset();
        self.reset_numa_counters();
    }

    pub(crate) fn table_error(&self, error: MapError, page: Page) -> OsError {
        let va = page.start;
        match error {
            MapError::NoMemory { bytes } => OsError::TableMemory {
                va,
                bytes,
                largest: self.frames.largest_free_order().map_or(0, |order| FRAME_BYTES << order),
            },
            MapError::PageSize => OsError::PageSize { va, size: page.size },
            MapError::Occupied => OsError::Table(format!("it reports {va} as mapped already, but it is not")),
        }
    }
}
