//! A tree of tables of x86-64 entries, as the radix family shares it: radix, flattened, ASAP and ideal differ in where a
//! node's frames come from and how many entries it has ([`Layout`]), and in what their walkers know.
//!
//! - [`Tree`]: the OS half. All translation state is bytes; beside them it remembers which frames are its nodes and how
//!   full each is (a kernel's `struct page` does that), which also finds the last node of an address quickly.
//! - [`TreeWalker`]: the hardware half, a chain of loads with page-walk caches in front of it.

mod page_table;
mod table;
mod walk_cache;
mod walker;

pub use table::{Terminal, Tree};
pub use walk_cache::{PwcSpec, WalkCaches};
pub use walker::{TreeWalker, WalkStart, WalkerCounters};

use crate::pte::Pte;
use ambulator_base::{CounterSink, Invalid, PageSize, Pfn, VirtAddr};
use ambulator_os::{Footprint, TableContext};

/// log2 of the entries of an ordinary node, which fills a frame.
pub const NODE_BITS: u32 = 9;
/// log2 of the entries of a node of two merged levels, which fills 2 MiB.
pub const FLAT_BITS: u32 = 18;
/// In an entry that points to a node of two merged levels (a software bit of x86-64).
pub const FLAT: u64 = 1 << 9;

/// A node that a tree needs.
#[derive(Clone, Copy, Debug)]
pub struct NodeWanted {
    /// Lowest address that the node covers.
    pub va: VirtAddr,
    /// log2 of the bytes that it covers.
    pub span: u32,
    /// Size of the page for whose sake it is made; the largest for a root.
    pub page: PageSize,
}

/// Where a node lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// Its first frame.
    pub frame: Pfn,
    /// log2 of its entries: [`NODE_BITS`] or [`FLAT_BITS`].
    pub bits: u32,
}

impl NodePlace {
    /// 4 KiB frames that the node takes.
    pub fn frames(self) -> u64 {
        1 << (self.bits - NODE_BITS)
    }
}

/// Where nodes' frames come from, and how large nodes are.
pub trait Layout: Send + Sync {
    /// Zeroed frames for a node; `None` when there is no memory.
    fn allocate(
        &mut self,
        wanted: NodeWanted,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace>;

    /// Takes a node's frames back.
    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        crate::frames::release(node.frame, node.frames(), footprint, os);
    }

    /// A VMA was added.
    fn vma_added(&mut self, _start: VirtAddr, _len: u64, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// A VMA, or a part of one, has gone.
    fn vma_removed(&mut self, _start: VirtAddr, _len: u64, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// The tree is gone: what the layout itself holds goes back.
    fn destroy(&mut self, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// Appends the layout's own registers to the tree's.
    fn registers(&self, _registers: &mut Vec<u64>) {}

    /// Changes whenever the layout's registers do.
    fn generation(&self) -> u64 {
        0
    }

    /// Hands the layout's counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Nodes of one frame each, wherever the allocator has one: what Linux does.
#[derive(Clone, Debug, Default)]
pub struct Plain;

impl Layout for Plain {
    fn allocate(
        &mut self,
        _wanted: NodeWanted,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        let frame = crate::frames::allocate(0, footprint, os)?;
        Some(NodePlace { frame, bits: NODE_BITS })
    }
}

/// The size of the page that a present entry maps in a node whose entries cover `2^shift` bytes each; `None` if it points
/// to another node. In the last level PS means a 2 MiB page whose entry is repeated over the 512 entries that it covers,
/// which only nodes of merged levels have.
#[inline(always)]
pub(crate) fn leaf_size(pte: Pte, shift: u32) -> Option<PageSize> {
    match (shift, pte.large()) {
        (12, false) => Some(PageSize::SIZE_4K),
        (12, true) => Some(PageSize::SIZE_2M),
        (21 | 30, true) => Some(PageSize::from_shift(shift)),
        _ => None,
    }
}

/// A spec's number of levels, in a sentence if it is not one that x86-64 has.
pub(crate) fn validate_levels(levels: u32, at: &str) -> Option<Invalid> {
    (!matches!(levels, 4 | 5)).then(|| {
        Invalid::new(
            format!("{at}.levels"),
            format!("is {levels}: x86-64 has page tables of 4 levels (48-bit virtual addresses) and of 5 (57-bit)"),
        )
    })
}

/// Bits of a virtual address that a table of so many levels translates.
pub(crate) fn va_bits(levels: u32) -> u32 {
    12 + 9 * levels
}
