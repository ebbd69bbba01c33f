//! A tree of tables of x86-64 entries, shared by the radix family. Radix, flattened, ASAP and ideal differ in
//! where the frames of a node come from, in the number of its entries ([`Layout`]), and in their walkers.
//!
//! - [`Tree`]: the OS half. All translation state is bytes. In addition, the tree records which frames are
//!   its nodes and how full each is, as the kernel does in `struct page`. The record also finds the last node
//!   of an address quickly.
//! - [`TreeWalker`]: the hardware half: page-walk caches, then a chain of loads.

mod page_table;
mod table;
mod walk_cache;
mod walker;

pub use table::{Terminal, Tree};
use walk_cache::WalkCaches;
pub use walker::{TreeWalker, WalkStart, WalkerCounters, entry_meaning};

use crate::pte::Pte;
use ambulator_base::{CounterSink, Page, PageSize, Pfn, State, VirtAddr};
use ambulator_os::{Footprint, TableContext};

/// log2 of the entries of an ordinary node, which fills a frame.
pub const NODE_BITS: u32 = 9;
/// log2 of the entries of a node of two merged levels, which fills 2 MiB.
pub const FLAT_BITS: u32 = 18;
/// In an entry that points to a node of two merged levels (a software bit of x86-64).
pub const FLAT: u64 = 1 << 9;

/// A request for a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeRequest {
    /// Lowest address that the node covers.
    pub va: VirtAddr,
    /// log2 of the bytes that it covers.
    pub span: u32,
    /// Size of the page that needs the node; the largest size for a root.
    pub page: PageSize,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// Its first frame.
    pub frame: Pfn,
    /// log2 of its entries: [`NODE_BITS`] or [`FLAT_BITS`].
    pub bits: u32,
}

impl NodePlace {
    /// 4 KiB frames of the node.
    pub fn frames(self) -> u64 {
        1 << (self.bits - NODE_BITS)
    }
}

/// A node that moves to another frame, which the layout has allocated and zeroed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, State)]
pub struct NodeMove {
    /// Lowest address that the node covers.
    pub va: VirtAddr,
    /// log2 of the bytes that it covers.
    pub span: u32,
    /// Its new frame.
    pub to: Pfn,
}

/// Where the frames of nodes come from, and how large nodes are.
pub trait Layout: State + Send + Sync {
    /// Allocates zeroed frames for a node; `None` if there is no memory.
    fn allocate(
        &mut self,
        request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace>;

    /// Frees the frames of a node.
    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        crate::frames::release(node.frame, node.frames(), footprint, os);
    }

    /// A VMA was added.
    fn vma_added(&mut self, _start: VirtAddr, _len: u64, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// A VMA, or a part of one, was removed.
    fn vma_removed(&mut self, _start: VirtAddr, _len: u64, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// Nodes of one frame that must move because the VMAs have changed, if they exist. Asked for after each
    /// change of the VMAs. The tree copies their entries.
    fn take_moves(&mut self) -> Vec<NodeMove> {
        Vec::new()
    }

    /// The node has moved; nothing uses `from` any more, where it was.
    fn moved(&mut self, _node: NodeMove, from: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        self.release(from, footprint, os);
    }

    /// All moves of [`Layout::take_moves`] are done.
    fn moves_done(&mut self, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// A page larger than 4 KiB was mapped.
    fn large_page_mapped(&mut self, _page: Page, _os: &mut TableContext<'_>) {}

    /// The hypervisor's answer to a request for contiguous memory ([`ambulator_os::PageTable::area_answered`]).
    fn area_answered(&mut self, _first: Pfn, _slot: Option<u32>) {}

    /// A page larger than 4 KiB was unmapped; its node may be released next.
    fn large_page_unmapped(&mut self, _page: Page) {}

    /// The tree was destroyed: frees the memory of the layout itself.
    fn destroy(&mut self, _footprint: &mut Footprint, _os: &mut TableContext<'_>) {}

    /// Appends the layout's own registers to the tree's.
    fn registers(&self, _registers: &mut Vec<u64>) {}

    /// Changes whenever the layout's registers change.
    fn generation(&self) -> u64 {
        0
    }

    /// Additional cycles of a context switch, for the layout's registers.
    fn switch_cycles(&self) -> u64 {
        0
    }

    /// Reports the layout's counters to `sink`.
    fn report(&self, _prefix: &str, _sink: &mut dyn CounterSink) {}
}

/// Nodes of one frame each, wherever the allocator has one, as in Linux.
#[derive(Clone, Debug, Default, State)]
pub struct Plain;

impl Layout for Plain {
    fn allocate(
        &mut self,
        _request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        let frame = crate::frames::allocate(0, footprint, os)?;
        Some(NodePlace { frame, bits: NODE_BITS })
    }
}

/// The size of the page that a present entry maps in a node whose entries cover `2^shift` bytes each; `None`
/// if it points to another node. In the last level PS means a 2 MiB page whose entry is repeated over the 512
/// entries that it covers. Only nodes of merged levels have such pages.
#[inline(always)]
pub fn leaf_size(pte: Pte, shift: u32) -> Option<PageSize> {
    match (shift, pte.large()) {
        (12, false) => Some(PageSize::SIZE_4K),
        (12, true) => Some(PageSize::SIZE_2M),
        (21 | 30, true) => Some(PageSize::from_shift(shift)),
        _ => None,
    }
}

impl Layout for Box<dyn Layout> {
    fn allocate(
        &mut self,
        request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        (**self).allocate(request, footprint, os)
    }

    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        (**self).release(node, footprint, os);
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        (**self).vma_added(start, len, footprint, os);
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        (**self).vma_removed(start, len, footprint, os);
    }

    fn take_moves(&mut self) -> Vec<NodeMove> {
        (**self).take_moves()
    }

    fn moved(&mut self, node: NodeMove, from: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        (**self).moved(node, from, footprint, os);
    }

    fn moves_done(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        (**self).moves_done(footprint, os);
    }

    fn large_page_mapped(&mut self, page: Page, os: &mut TableContext<'_>) {
        (**self).large_page_mapped(page, os);
    }

    fn area_answered(&mut self, first: Pfn, slot: Option<u32>) {
        (**self).area_answered(first, slot);
    }

    fn large_page_unmapped(&mut self, page: Page) {
        (**self).large_page_unmapped(page);
    }

    fn destroy(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        (**self).destroy(footprint, os);
    }

    fn registers(&self, registers: &mut Vec<u64>) {
        (**self).registers(registers);
    }

    fn generation(&self) -> u64 {
        (**self).generation()
    }

    fn switch_cycles(&self) -> u64 {
        (**self).switch_cycles()
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        (**self).report(prefix, sink);
    }
}
