//! The kernel: processes, and what the machine asks of it.

use crate::huge::Reservations;
use crate::migrate::Migration;
use crate::shootdown::Shootdowns;
use crate::truth::PageMap;
use crate::{
    CostTable, Footprint, KernelSpec, Ledger, LedgerCause, OsError, PageTable, PlaceContext, Placement, Shootdown,
    TableContext, Truth, VmaList,
};
use ambulator_base::{Asid, CounterSink, Counters, Page, PageSize, ProcessId, Protection, VirtAddr};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};

ambulator_base::counters! {
    /// What the kernel model counts.
    pub struct KernelCounters {
        /// Page faults that mapped a 4 KiB page.
        faults_4k: Events,
        /// Page faults that mapped a 2 MiB page.
        faults_2m: Events,
        /// Page faults that mapped a 1 GiB page.
        faults_1g: Events,
        /// Faults on pages that were there by then.
        faults_spurious: Events,
        /// Stores that copied a shared page.
        copies_on_write: Events,
        /// Stores to a page that was shared once and is no longer: it became writable again.
        reuses_on_write: Events,
        /// Huge pages that a fault wanted and memory could not give.
        huge_fallbacks: Events,
        /// 2 MiB pages made of base pages, by the daemon or a full reservation.
        promotions: Events,
        /// Huge pages split into base pages.
        demotions: Events,
        /// Reservations of 2 MiB made.
        reservations: Events,
        /// Reservations given up before promotion.
        reservations_broken: Events,
        /// Pages moved into a segment of the placement's, as hardware proposed.
        migrations_in: Events,
        /// Pages moved out of one, to make room.
        migrations_out: Events,
        /// Pages written to swap.
        swap_outs: Events,
        /// Pages read from swap.
        swap_ins: Events,
        /// Clean pages that were dropped after `MADV_FREE`.
        lazy_drops: Events,
        /// Bytes zeroed.
        zeroed_bytes: Bytes,
        /// Bytes copied.
        copied_bytes: Bytes,
        /// Pages shot down one by one.
        shootdowns_page: Events,
        /// Whole address spaces shot down.
        shootdowns_space: Events,
        /// System calls that changed an address space.
        syscalls: Events,
        /// Switches between processes.
        context_switches: Events,
        /// Processes forked.
        forks: Events,
        /// Times that address-space identifiers ran out.
        asid_rollovers: Events,
        /// Rounds of background reclaim.
        background_reclaims: Events,
    }
}

ambulator_base::counters! {
    /// Cycles of the operating system, by cause.
    pub struct OsCycles {
        /// Entry, exit and book-keeping of page faults.
        fault: Cycles,
        /// Zeroing frames.
        zero: Cycles,
        /// Finding contiguous frames.
        allocate: Cycles,
        /// Copying pages.
        copy: Cycles,
        /// Page-table upkeep.
        table: Cycles,
        /// Shootdowns.
        shootdown: Cycles,
        /// Swap traffic.
        swap: Cycles,
        /// System calls.
        syscall: Cycles,
        /// Context switches.
        switch: Cycles,
    }
}

/// One process.
pub(crate) struct Process {
    pub asid: Asid,
    /// Grows when the ASID changes, so that cores load registers anew.
    pub asid_generation: u64,
    pub table: Box<dyn PageTable>,
    pub vmas: VmaList,
    pub pages: PageMap,
    pub reservations: Reservations,
    /// Where reclaim's clock hand is.
    pub clock: VirtAddr,
    /// Where the promotion daemon is.
    pub scan: VirtAddr,
    /// The heap that `brk` moves, once there is one.
    pub heap: Option<Heap>,
}

/// The range that `brk` moves. Its areas may have been unmapped or protected since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap {
    pub start: VirtAddr,
    pub end: VirtAddr,
    pub protection: Protection,
}

/// Free frames at which reclaim begins and ends. All 0 without swap: there is nothing to gain before memory has run out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watermarks {
    /// Below it, faults reclaim before they take a frame: reclaim itself may need what is left.
    pub min: u64,
    /// Below it, the background daemon wakes.
    pub low: u64,
    /// Up to here it reclaims.
    pub high: u64,
}

impl Watermarks {
    fn new(spec: &KernelSpec, frames: u64) -> Watermarks {
        if spec.swap_bytes == 0 {
            return Watermarks::default();
        }
        let of = |share: f64| (share * frames as f64).ceil() as u64;
        Watermarks { min: of(spec.watermark_min), low: of(spec.watermark_low), high: of(spec.watermark_high) }
    }
}

/// Makes the page tables of new processes.
pub trait TableFactory: Send {
    /// An empty table.
    ///
    /// # Errors
    /// [`crate::MapError::NoMemory`] when its first frames cannot be had.
    fn new_table(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, crate::MapError>;
}

/// The kernel model.
pub struct Kernel {
    /// Bytes of physical memory.
    pub memory: PhysicalMemory,
    /// All frames.
    pub frames: BuddyAllocator,
    /// Cycles charged.
    pub ledger: Ledger,
    /// What it counted.
    pub counters: KernelCounters,
    /// Cores of the machine: shootdowns cost more with more of them.
    pub cores: u32,
    pub(crate) spec: KernelSpec,
    pub(crate) costs: CostTable,
    pub(crate) processes: Vec<Option<Process>>,
    pub(crate) placement: Box<dyn Placement>,
    /// Owners of a frame beyond the first.
    pub(crate) sharers: Vec<u16>,
    pub(crate) swap_used: u64,
    pub(crate) shootdowns: Shootdowns,
    pub(crate) migrations: Vec<Migration>,
    pub(crate) next_scan: u64,
    /// The process that reclaim looks at next.
    pub(crate) reclaim_next: usize,
    pub(crate) marks: Watermarks,
    pub(crate) reclaiming: bool,
    pub(crate) in_background: bool,
    /// When background reclaim that found nothing tries again, in cycles.
    pub(crate) next_reclaim: u64,
    /// The process that the promotion daemon looks at next.
    pub(crate) scan_next: usize,
    /// Frames that were taken before there was a kernel.
    pub(crate) taken_before: u64,
    tables: Box<dyn TableFactory>,
    next_asid: u16,
    free_asids: Vec<u16>,
    /// By identifier: live processes that have it. More than one only where there are more processes than identifiers.
    pub(crate) asid_users: Vec<u32>,
    generation: u64,
    /// Peak and largest allocation of tables whose processes have exited.
    departed: Footprint,
}

/// What a table works with, borrowed from the kernel's fields (and not from the kernel, so that the process can be
/// borrowed beside it).
macro_rules! table_context {
    ($kernel:expr) => {
        $crate::TableContext {
            memory: &mut $kernel.memory,
            frames: &mut $kernel.frames,
            ledger: &mut $kernel.ledger,
            costs: &$kernel.costs,
        }
    };
}
pub(crate) use table_context;

/// The process of a live [`ProcessId`], borrowed from the kernel's field.
macro_rules! process_mut {
    ($kernel:expr, $process:expr) => {
        $kernel.processes[$process.0 as usize].as_mut().expect("a live process")
    };
}
pub(crate) use process_mut;

impl Kernel {
    /// A kernel without processes. `memory` and `frames` are of one size; `frames` may be fragmented already.
    pub fn new(
        spec: &KernelSpec,
        costs: CostTable,
        memory: PhysicalMemory,
        frames: BuddyAllocator,
        tables: Box<dyn TableFactory>,
        placement: Box<dyn Placement>,
    ) -> Kernel {
        Kernel {
            sharers: vec![0; frames.total_frames() as usize],
            marks: Watermarks::new(spec, frames.total_frames()),
            taken_before: frames.total_frames() - frames.free_frames(),
            memory,
            frames,
            ledger: Ledger::default(),
            counters: KernelCounters::default(),
            cores: 1,
            shootdowns: Shootdowns::new(spec.flush_ceiling),
            migrations: Vec::new(),
            next_scan: spec.khugepaged_period,
            spec: spec.clone(),
            costs,
            processes: Vec::new(),
            placement,
            swap_used: 0,
            reclaim_next: 0,
            reclaiming: false,
            in_background: false,
            next_reclaim: 0,
            scan_next: 0,
            tables,
            next_asid: 1,
            free_asids: Vec::new(),
            asid_users: vec![0; 1 << spec.asid_bits],
            generation: 1,
            departed: Footprint::default(),
        }
    }

    pub(crate) fn process(&self, process: ProcessId) -> &Process {
        self.processes[process.0 as usize].as_ref().expect("a live process")
    }

    /// Says so where a process has exited, or never was.
    pub(crate) fn alive(&self, process: ProcessId) -> Result<(), OsError> {
        if self.is_alive(process) {
            return Ok(());
        }
        Err(OsError::BadCall(format!("process {process} has exited, or was never made: it cannot do anything")))
    }

    /// Whether the process has not exited.
    pub fn is_alive(&self, process: ProcessId) -> bool {
        self.processes.get(process.0 as usize).is_some_and(Option::is_some)
    }

    /// A new process without any mappings.
    ///
    /// # Errors
    /// No memory for its table.
    pub fn spawn(&mut self) -> Result<ProcessId, OsError> {
        let asid = self.take_asid();
        let process = ProcessId(self.processes.len() as u32);
        let mut os = table_context!(self);
        let table = match self.tables.new_table(process, asid, &mut os) {
            Ok(table) => table,
            Err(error) => {
                self.leave_asid(asid);
                return Err(self.table_error(error, Page { start: VirtAddr(0), size: PageSize::SIZE_4K }));
            }
        };
        self.generation += 1;
        self.processes.push(Some(Process {
            asid,
            asid_generation: self.generation,
            table,
            vmas: VmaList::default(),
            pages: PageMap::default(),
            reservations: Reservations::default(),
            clock: VirtAddr(0),
            scan: VirtAddr(0),
            heap: None,
        }));
        Ok(process)
    }

    /// The next identifier; when they have run out, every live process gets a new one and all TLBs are flushed.
    fn take_asid(&mut self) -> Asid {
        let asid = self.free_asids.pop().map_or_else(|| self.number_asid(), Asid);
        self.asid_users[usize::from(asid.0)] += 1;
        asid
    }

    /// A process does not need its identifier any more, and no TLB has entries of it.
    fn leave_asid(&mut self, asid: Asid) {
        let users = &mut self.asid_users[usize::from(asid.0)];
        *users -= 1;
        if *users == 0 {
            self.free_asids.push(asid.0);
        }
    }

    fn number_asid(&mut self) -> Asid {
        let most = (1u32 << self.spec.asid_bits) - 1;
        if u32::from(self.next_asid) > most {
            self.counters.asid_rollovers += 1;
            self.shootdowns.push_all();
            self.next_asid = 1;
            self.asid_users.fill(0);
            for process in self.processes.iter_mut().flatten() {
                // More live processes than identifiers share them round-robin, and each switch to one of them then flushes.
                process.asid = Asid(self.next_asid);
                self.asid_users[usize::from(self.next_asid)] += 1;
                self.next_asid = if u32::from(self.next_asid) >= most { 1 } else { self.next_asid + 1 };
                self.generation += 1;
                process.asid_generation = self.generation;
            }
        }
        let asid = Asid(self.next_asid);
        self.next_asid += 1;
        asid
    }

    /// Ends a process: everything that it mapped is freed, its table too.
    pub(crate) fn exit(&mut self, process: ProcessId) -> Result<(), OsError> {
        for vma in self.process(process).vmas.as_slice().to_vec() {
            self.unmap_range(process, vma.start, vma.end)?;
        }
        let asid = self.process(process).asid;
        self.shootdowns.push_space(asid);
        let mut gone = self.processes[process.0 as usize].take().expect("a live process");
        let footprint = gone.table.footprint();
        self.departed.peak_bytes = self.departed.peak_bytes.max(footprint.peak_bytes);
        self.departed.largest_contiguous = self.departed.largest_contiguous.max(footprint.largest_contiguous);
        gone.table.destroy(&mut table_context!(self));
        self.leave_asid(asid);
        Ok(())
    }

    /// What is known about the page that holds `va`.
    #[inline(always)]
    pub fn truth(&self, process: ProcessId, va: VirtAddr) -> Truth {
        match &self.processes[process.0 as usize] {
            Some(process) => process.pages.get(va),
            None => Truth::NONE,
        }
    }

    /// What is known about all pages of a process; `None` when it has exited.
    #[inline(always)]
    pub fn page_map(&self, process: ProcessId) -> Option<&PageMap> {
        self.processes[process.0 as usize].as_ref().map(|process| &process.pages)
    }

    /// Processes that have not exited.
    pub fn live_processes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        (0..self.processes.len() as u32).map(ProcessId).filter(|process| self.is_alive(*process))
    }

    /// Every present page of a process, ascending, with the truth of its first 4 KiB.
    pub fn for_each_page(&self, process: ProcessId, mut visit: impl FnMut(Page, Truth)) {
        let mut at = VirtAddr(0);
        while let Some((page, truth)) = self.next_page(process, at, crate::vma::TOP) {
            at = page.end();
            if truth.present() {
                visit(page, truth);
            }
        }
    }

    /// A host hint: the truth about `va` is wanted soon.
    #[inline(always)]
    pub fn prefetch_truth(&self, process: ProcessId, va: VirtAddr) {
        if let Some(process) = &self.processes[process.0 as usize] {
            process.pages.prefetch(va);
        }
    }

    /// A host hint: a walk for `va` comes soon.
    #[inline(always)]
    pub fn prefetch_table(&self, process: ProcessId, va: VirtAddr) {
        if let Some(process) = &self.processes[process.0 as usize] {
            process.table.prefetch_host(va, &self.memory);
        }
    }

    /// The process's address-space identifier.
    pub fn asid(&self, process: ProcessId) -> Asid {
        self.process(process).asid
    }

    /// The words of the process's table registers.
    pub fn registers(&self, process: ProcessId) -> Vec<u64> {
        self.process(process).table.registers()
    }

    /// The words of the registers of the structure beside the L2 TLB for a process.
    pub fn lookaside_registers(&self, process: ProcessId) -> Vec<u64> {
        self.process(process).table.lookaside_registers()
    }

    /// Changes whenever the registers or the identifier do.
    pub fn registers_generation(&self, process: ProcessId) -> u64 {
        match &self.processes[process.0 as usize] {
            Some(process) => process.asid_generation << 32 | (process.table.registers_generation() & 0xffff_ffff),
            None => 0,
        }
    }

    /// Moves what every core's MMU must drop into `into`.
    #[inline]
    pub fn take_shootdowns(&mut self, into: &mut Vec<Shootdown>) {
        self.shootdowns.take(into);
    }

    /// The areas of a process.
    pub fn vmas(&self, process: ProcessId) -> &VmaList {
        &self.process(process).vmas
    }

    /// Charges a switch between two processes. A process that shares its identifier finds none of the others' entries:
    /// the switch flushes them, which is part of its price.
    pub fn context_switch(&mut self, from: ProcessId, to: ProcessId) {
        self.counters.context_switches += 1;
        let both = [from, to].into_iter().filter(|&process| self.is_alive(process));
        let registers: u64 = both.map(|process| self.process(process).table.switch_cycles()).sum();
        self.ledger.charge(LedgerCause::Switch, self.costs.context_switch + registers);
        if self.is_alive(to) && self.asid_users[usize::from(self.asid(to).0)] > 1 {
            self.shootdowns.push_space(self.asid(to));
            self.shootdowns.take_counts();
        }
    }

    /// Page faults served since counters were last reset, set-up touches included.
    pub fn faults_served(&self) -> u64 {
        let c = &self.counters;
        c.faults_4k + c.faults_2m + c.faults_1g + c.copies_on_write + c.reuses_on_write + c.swap_ins
    }

    /// What the process's table takes.
    pub fn footprint(&self, process: ProcessId) -> Footprint {
        self.process(process).table.footprint()
    }

    /// What all tables take. The peak is the sum of live tables' peaks, or an exited process's if that was more.
    pub fn total_table_footprint(&self) -> Footprint {
        let mut sum = Footprint::default();
        for process in self.processes.iter().flatten() {
            let one = process.table.footprint();
            sum.bytes += one.bytes;
            sum.peak_bytes += one.peak_bytes;
            sum.largest_contiguous = sum.largest_contiguous.max(one.largest_contiguous);
            sum.entries += one.entries;
        }
        sum.peak_bytes = sum.peak_bytes.max(self.departed.peak_bytes);
        sum.largest_contiguous = sum.largest_contiguous.max(self.departed.largest_contiguous);
        sum
    }

    /// Hands all counters to `sink`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
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
        self.placement.report(&format!("{prefix}.placement"), sink);
        for process in self.processes.iter().flatten() {
            process.table.report(&format!("{prefix}.table"), sink);
            process.table.inspect(&self.memory, &format!("{prefix}.table"), sink);
        }
    }

    /// Sets counters to zero; the state stays.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.ledger.reset();
    }

    pub(crate) fn place_context(&mut self) -> (&mut dyn Placement, PlaceContext<'_>) {
        let Kernel { placement, memory, frames, ledger, costs, .. } = self;
        (placement.as_mut(), PlaceContext { memory, frames, ledger, costs })
    }

    pub(crate) fn table_error(&self, error: crate::MapError, page: Page) -> OsError {
        let va = page.start;
        match error {
            crate::MapError::NoMemory { bytes } => OsError::TableMemory {
                va,
                bytes,
                largest: self.frames.largest_free_order().map_or(0, |order| ambulator_base::FRAME_BYTES << order),
            },
            crate::MapError::PageSize => OsError::PageSize { va, size: page.size },
            crate::MapError::Occupied => OsError::Table(format!("it says that {va} is mapped already, but it is not")),
        }
    }
}
