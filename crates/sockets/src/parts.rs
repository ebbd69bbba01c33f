//! What a design is told of its machine, and what it puts into it.

use crate::DesignSpec;
use ambulator_base::{Asid, ProcessId};
use ambulator_memory::BuddyAllocator;
use ambulator_mmu::{FrontSide, Lookaside, PwcSpec, Speculator, Walker};
use ambulator_os::{
    CompanionFactory, IntermediateMapFactory, MapError, PageTable, Placement, TableContext, TableFactory,
    TranslationsFactory,
};
use ambulator_structures::tree::Layout;

/// Makes a core's walker; its argument is the core's number.
pub type NewWalker = Box<dyn FnMut(usize) -> Box<dyn Walker> + Send>;
/// Makes a core's lookaside.
pub type NewLookaside = Box<dyn FnMut(usize) -> Box<dyn Lookaside> + Send>;
/// Makes a core's speculator.
pub type NewSpeculator = Box<dyn FnMut(usize) -> Box<dyn Speculator> + Send>;
/// Makes what a core has before its caches, and says how many pages a look-aside buffer behind them has.
pub type NewFrontSide = Box<dyn FnMut(usize) -> (Box<dyn FrontSide>, u32) + Send>;
/// Takes memory at boot, before anything else does; false if it is not there.
pub type Boot = Box<dyn FnOnce(&mut BuddyAllocator) -> bool + Send>;
/// Makes the node layout of a new process's tree.
pub type NewNodes = Box<dyn FnMut(ProcessId, Asid) -> Box<dyn Layout> + Send>;

/// Whose page tables a design is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Those of the machine's own processes.
    #[default]
    Native,
    /// Those of a guest's processes.
    Guest {
        /// The hypervisor's page table lets a design place its nodes.
        hypervisor_takes_nodes: bool,
    },
    /// A hypervisor's, of its virtual machines.
    Hypervisor,
}

/// What a design is told of the machine that it is built for.
pub struct Site {
    /// Bits of a virtual address: 48 or 57.
    pub va_bits: u32,
    /// The page-walk caches of the machine's MMU.
    pub pwc: PwcSpec,
    /// Whose tables.
    pub stage: Stage,
    /// What is in each socket.
    pub design: DesignSpec,
    /// The page table in its socket lets a design place its nodes.
    pub takes_nodes: bool,
    /// Where a tree's nodes go, if another design of the machine places them; for a page table that takes that.
    pub nodes: Option<NewNodes>,
}

/// A page table.
pub struct TableParts {
    /// Makes the processes' tables.
    pub factory: Box<dyn TableFactory>,
    /// Makes a core's walker.
    pub new_walker: NewWalker,
}

impl TableParts {
    /// A page table whose operating-system half `new_table` makes for each process, and `new_walker` the walker of each
    /// core.
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

/// The parts of one design: those of its sockets that it was put into, and what comes with them.
#[derive(Default)]
pub struct Parts {
    /// For the page-table socket.
    pub page_table: Option<TableParts>,
    /// For the lookaside socket.
    pub lookaside: Option<NewLookaside>,
    /// For the speculation socket.
    pub speculator: Option<NewSpeculator>,
    /// For the placement socket.
    pub placement: Option<Box<dyn Placement>>,
    /// For the socket before the caches.
    pub front_side: Option<NewFrontSide>,
    /// The operating system's half of what stands by the page table.
    pub companion: Option<Box<dyn CompanionFactory>>,
    /// The operating system's half of the intermediate address space.
    pub intermediate: Option<Box<dyn IntermediateMapFactory>>,
    /// Where the page table's nodes go.
    pub nodes: Option<NewNodes>,
    /// Memory that is taken at boot.
    pub boot: Option<Boot>,
    /// What the hypervisor around a guest gets.
    pub hypervisor: HypervisorParts,
}

/// What a guest's design puts into the hypervisor.
#[derive(Default)]
pub struct HypervisorParts {
    /// Where the hypervisor places guest memory.
    pub placement: Option<Box<dyn Placement>>,
    /// Where the nodes of its page table go.
    pub nodes: Option<NewNodes>,
}

/// All designs of a machine together: one factory and one placement for the kernel, the others once for each core.
pub struct DesignParts {
    /// Makes the processes' page tables, and what stands beside and in front of them.
    pub translations: TranslationsFactory,
    /// Where the kernel places pages.
    pub placement: Box<dyn Placement>,
    /// Makes a core's walker.
    pub new_walker: NewWalker,
    /// Makes a core's lookaside.
    pub new_lookaside: Option<NewLookaside>,
    /// Makes a core's speculator.
    pub new_speculator: Option<NewSpeculator>,
    /// Makes what a core has before its caches.
    pub new_front_side: Option<NewFrontSide>,
    /// What takes memory at boot.
    pub boot: Vec<Boot>,
}
