//! What a design puts into a machine.

use ambulator_memory::BuddyAllocator;
use ambulator_mmu::{FrontSide, Lookaside, Speculator, Walker};
use ambulator_os::{Placement, TranslationsFactory};

/// Makes a core's walker; its argument is the core's number.
pub type NewWalker = Box<dyn FnMut(usize) -> Box<dyn Walker> + Send>;
/// Makes a core's lookaside, if the design has one.
pub type NewLookaside = Box<dyn FnMut(usize) -> Option<Box<dyn Lookaside>> + Send>;
/// Makes what a core has before its caches, if the design has that, and says how many pages a look-aside
/// buffer behind them has.
pub type NewFrontSide = Box<dyn FnMut(usize) -> Option<(Box<dyn FrontSide>, u32)> + Send>;
/// Takes memory at boot.
pub type Boot = Box<dyn FnOnce(&mut BuddyAllocator) -> bool + Send>;
/// Makes a core's speculator, if the design has one.
pub type NewSpeculator = Box<dyn FnMut(usize) -> Option<Box<dyn Speculator>> + Send>;

/// What a design puts into a machine: one factory and one placement for the kernel, the others once for each
/// core.
pub struct DesignParts {
    /// Makes the processes' page tables, and what stands beside and in front of them.
    pub translations: TranslationsFactory,
    /// Where the kernel places pages.
    pub placement: Box<dyn Placement>,
    /// Makes a core's walker.
    pub new_walker: NewWalker,
    /// Makes a core's lookaside.
    pub new_lookaside: NewLookaside,
    /// Makes a core's speculator.
    pub new_speculator: NewSpeculator,
    /// Makes what a core has before its caches.
    pub new_front_side: NewFrontSide,
    /// Takes memory at boot, before anything else does; false if it is not there.
    pub boot: Option<Boot>,
}
