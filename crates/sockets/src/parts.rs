//! What a design knows of its machine, and the parts that it provides.

use crate::DesignSpec;
use ambulator_base::{Asid, ProcessId};
use ambulator_memory::BuddyAllocator;
use ambulator_mmu::{FrontSide, Lookaside, PwcSpec, Speculator, TlbPrefetcher, Walker};
use ambulator_os::{
    CompanionFactory, IntermediateMapFactory, MapError, PageTable, Placement, TableContext, TableFactory,
    TranslationsFactory,
};
use ambulator_structures::tree::Layout;

/// Creates a core's walker; the argument is the core's number.
pub type NewWalker = Box<dyn FnMut(usize) -> Box<dyn Walker> + Send>;
/// Creates a core's lookaside.
pub type NewLookaside = Box<dyn FnMut(usize) -> Box<dyn Lookaside> + Send>;
/// Creates a core's speculator.
pub type NewSpeculator = Box<dyn FnMut(usize) -> Box<dyn Speculator> + Send>;
/// Creates a core's TLB prefetcher.
pub type NewTlbPrefetcher = Box<dyn FnMut(usize) -> Box<dyn TlbPrefetcher> + Send>;
/// Creates a core's front side, which translates before the caches, and returns the reach in pages of its
/// look-aside buffer after them.
pub type NewFrontSide = Box<dyn FnMut(usize) -> (Box<dyn FrontSide>, u32) + Send>;
/// Reserves the machine's own memory at boot, before anything else, also if the design is that of a guest;
/// false if there is not enough.
pub type Boot = Box<dyn FnOnce(&mut BuddyAllocator) -> bool + Send>;
/// Creates the node layout of a new process's tree.
pub type NewNodes = Box<dyn FnMut(ProcessId, Asid) -> Box<dyn Layout> + Send>;

/// The stage of translation that a design is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The processes of the machine itself.
    #[default]
    Native,
    /// The processes of a guest.
    Guest {
        /// The hypervisor's page table lets a design place its nodes.
        hypervisor_takes_nodes: bool,
    },
    /// The virtual machines of a hypervisor.
    Hypervisor,
}

/// The machine that a design is built for.
pub struct Site {
    /// Bits of a virtual address: 48 or 57.
    pub va_bits: u32,
    /// The page-walk caches of the machine's MMU.
    pub pwc: PwcSpec,
    /// The stage of translation.
    pub stage: Stage,
    /// The design in each socket.
    pub design: DesignSpec,
    /// The chosen page table lets a design place its nodes.
    pub takes_nodes: bool,
    /// The layout of a tree's nodes, if another design places them; only for a page table that allows it.
    pub nodes: Option<NewNodes>,
}

/// The parts of a page table.
pub struct TableParts {
    /// Creates the tables of processes.
    pub factory: Box<dyn TableFactory>,
    /// Creates a core's walker.
    pub new_walker: NewWalker,
}

impl TableParts {
    /// A page table: `new_table` creates the OS half for each process, `new_walker` the walker of each core.
    pub fn new(
        new_table: impl FnMut(ProcessId, Asid, &mut TableContext<'_>) -> Result<Box<dyn PageTable>, MapError>
        + Send
        + 'static,
        new_walker: impl FnMut(usize) -> Box<dyn Walker> + Send + 'static,
    ) -> TableParts {
        TableParts { factory: Box::new(TableFn(new_table)), new_walker: Box::new(new_walker) }
    }
}

/// A function as a factory.
struct TableFn<F>(F);

impl<F> TableFactory for TableFn<F>
where
    F: FnMut(ProcessId, Asid, &mut TableContext<'_>) -> Result<Box<dyn PageTable>, MapError> + Send,
{
    fn new_table(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        (self.0)(process, asid, os)
    }
}

/// The parts of one design: those for the sockets that hold it, and the parts that accompany them.
#[derive(Default)]
pub struct Parts {
    /// For the page-table socket.
    pub page_table: Option<TableParts>,
    /// For the lookaside socket.
    pub lookaside: Option<NewLookaside>,
    /// For the speculation socket.
    pub speculator: Option<NewSpeculator>,
    /// For the socket of TLB prefetching.
    pub tlb_prefetcher: Option<NewTlbPrefetcher>,
    /// For the placement socket.
    pub placement: Option<Box<dyn Placement>>,
    /// For the front-side socket.
    pub front_side: Option<NewFrontSide>,
    /// The OS half of a structure alongside the page table.
    pub companion: Option<Box<dyn CompanionFactory>>,
    /// The OS half of the intermediate address space.
    pub intermediate: Option<Box<dyn IntermediateMapFactory>>,
    /// The layout of the page table's nodes.
    pub nodes: Option<NewNodes>,
    /// Memory to reserve at boot.
    pub boot: Option<Boot>,
    /// Parts for the hypervisor below a guest.
    pub hypervisor: HypervisorParts,
}

/// Parts that a guest's design provides to the hypervisor.
#[derive(Default)]
pub struct HypervisorParts {
    /// The hypervisor's placement of guest memory.
    pub placement: Option<Box<dyn Placement>>,
    /// The layout of the nodes of its page table.
    pub nodes: Option<NewNodes>,
    /// The OS half of a structure alongside its page table.
    pub companion: Option<Box<dyn CompanionFactory>>,
    /// Slots of its table of host areas (`ambulator_os::HostAreas`), for guests' page tables that ask for
    /// contiguous memory; 0 if they do not.
    pub host_areas: u32,
}

/// The parts of all designs of a machine: one factory and one placement for the kernel; the others are
/// created once for each core.
pub struct DesignParts {
    /// Creates the processes' page tables with their companions and intermediate address maps.
    pub translations: TranslationsFactory,
    /// The kernel's placement of pages.
    pub placement: Box<dyn Placement>,
    /// Creates a core's walker.
    pub new_walker: NewWalker,
    /// Creates a core's lookaside.
    pub new_lookaside: Option<NewLookaside>,
    /// Creates a core's speculator.
    pub new_speculator: Option<NewSpeculator>,
    /// Creates a core's TLB prefetcher.
    pub new_tlb_prefetcher: Option<NewTlbPrefetcher>,
    /// Creates a core's front side.
    pub new_front_side: Option<NewFrontSide>,
    /// Reservations of memory at boot.
    pub boot: Vec<Boot>,
    /// Of a hypervisor: slots of its table of host areas.
    pub host_areas: u32,
}
