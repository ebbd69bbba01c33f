//! The OS half of a tree of tables.

use super::{FLAT, FLAT_BITS, Layout, NODE_BITS, NodeMove, NodePlace, NodeRequest, leaf_size};
use crate::pte::Pte;
use ambulator_base::{FRAME_BYTES, Page, PageSize, Pfn, PhysAddr, State, VirtAddr};
use ambulator_memory::{FrameSlot, PhysicalMemory};
use ambulator_os::{Entry, Footprint, LedgerCause, MapError, Mapping, PteFlags, TableContext};

/// A node's number among a tree's nodes.
type NodeId = u32;

const ROOT: NodeId = 0;
/// No child: the root is never a child.
const NO_NODE: NodeId = ROOT;

/// What the kernel records about a node in addition to its bytes.
#[derive(Default, State)]
struct Node {
    /// Present entries.
    used: u32,
    parent: NodeId,
    bits: u8,
    /// log2 of the bytes that an entry covers.
    shift: u8,
    /// By entry: the child node. Empty for nodes of the last level.
    children: Box<[NodeId]>,
}

impl Node {
    #[inline(always)]
    fn index(&self, va: VirtAddr) -> usize {
        (va.0 >> self.shift) as usize & ((1 << self.bits) - 1)
    }

    /// The child on the path to `va`.
    #[inline(always)]
    fn child(&self, va: VirtAddr) -> NodeId {
        // As many as entries, a power of two; none in the last level.
        let last = self.children.len().wrapping_sub(1);
        self.children.get((va.0 >> self.shift) as usize & last).copied().unwrap_or(NO_NODE)
    }

    fn span(&self) -> u32 {
        u32::from(self.shift + self.bits)
    }
}

/// The entry at which a walk for an address ends, and the level that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Address of the entry.
    pub at: PhysAddr,
    /// log2 of the bytes that an entry of its node covers.
    pub shift: u32,
}

/// A page's entries: usually one.
struct Run {
    node: NodeId,
    at: PhysAddr,
    entries: u64,
}

/// A tree of tables of one process.
///
/// In addition to the bytes, the tree records the fill and the children of each node, so that it frees empty
/// nodes without a scan. It also records the last-level node of the latest change, so that each of a series
/// of ascending mappings costs a single write.
#[derive(State)]
pub struct Tree<L> {
    /// Where nodes come from.
    pub layout: L,
    /// Memory of the tree.
    pub footprint: Footprint,
    #[state(skip)]
    va_bits: u32,
    nodes: Vec<Node>,
    /// By node: its first frame. A separate array, because look-ups need nothing else of the last node.
    frames: Vec<Pfn>,
    /// By node: where the simulator keeps the first frame.
    places: Vec<FrameSlot>,
    spare: Vec<NodeId>,
    /// The last-level node of the latest change: lowest address (all ones: none), log2 of its span, number.
    recent: (u64, u32, NodeId),
}

const NONE_RECENT: (u64, u32, NodeId) = (u64::MAX, 0, ROOT);

impl<L: Layout> Tree<L> {
    /// An empty tree for addresses of `va_bits` bits: its root.
    ///
    /// # Errors
    /// No memory for the root.
    pub fn new(mut layout: L, va_bits: u32, os: &mut TableContext<'_>) -> Result<Self, MapError> {
        let mut footprint = Footprint::default();
        let request = NodeRequest { va: VirtAddr(0), span: va_bits, page: PageSize::SIZE_1G };
        let place = layout.allocate(request, &mut footprint, os).ok_or(MapError::NoMemory { bytes: 4096 })?;
        let mut tree = Tree {
            layout,
            footprint,
            va_bits,
            nodes: Vec::new(),
            frames: Vec::new(),
            places: Vec::new(),
            spare: Vec::new(),
            recent: NONE_RECENT,
        };
        tree.adopt(place, va_bits, ROOT, os.memory);
        Ok(tree)
    }

    /// The registers of a [`TreeWalker`](super::TreeWalker): the root's address with log2 of its entries in
    /// the low bits (CR3 has 12 of them), and the width of virtual addresses. Neither ever changes.
    pub fn registers(&self) -> [u64; 2] {
        let root = self.frames.first().map_or(0, |frame| frame.start().0);
        let bits = self.nodes.first().map_or(0, |node| u64::from(node.bits));
        [root | bits, u64::from(self.va_bits)]
    }

    /// Records a new node, whose frames are zeroed.
    fn adopt(&mut self, place: NodePlace, span: u32, parent: NodeId, memory: &mut PhysicalMemory) -> NodeId {
        let home = memory.assign_slot(place.frame.start());
        let shift = span - place.bits;
        let children = if shift > 12 { 1 << place.bits } else { 0 };
        let node = Node {
            used: 0,
            parent,
            bits: place.bits as u8,
            shift: shift as u8,
            children: vec![NO_NODE; children].into_boxed_slice(),
        };
        match self.spare.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                self.frames[id as usize] = place.frame;
                self.places[id as usize] = home;
                id
            }
            None => {
                self.nodes.push(node);
                self.frames.push(place.frame);
                self.places.push(home);
                (self.nodes.len() - 1) as NodeId
            }
        }
    }

    #[inline(always)]
    fn entry(&self, node: NodeId, va: VirtAddr) -> PhysAddr {
        let index = self.nodes[node as usize].index(va);
        self.frames[node as usize].start().offset(index as u64 * 8)
    }

    #[inline(always)]
    fn within(&self, va: VirtAddr) -> bool {
        va.0 >> self.va_bits == 0 && !self.nodes.is_empty()
    }

    /// The node at which a walk for `va` ends if it does not go below entries of `2^shift` bytes. `va` is
    /// within the tree.
    #[inline(always)]
    fn descend(&self, va: VirtAddr, shift: u32) -> NodeId {
        let mut id = ROOT;
        loop {
            let node = &self.nodes[id as usize];
            if u32::from(node.shift) <= shift {
                return id;
            }
            match node.child(va) {
                NO_NODE => return id,
                child => id = child,
            }
        }
    }

    /// As [`Tree::descend`], but tries the node of the latest change first.
    #[inline(always)]
    fn descend_recent(&mut self, va: VirtAddr, shift: u32) -> NodeId {
        let (base, span, id) = self.recent;
        if shift == 12 && (va.0 ^ base) >> span == 0 {
            return id;
        }
        let id = self.descend(va, shift);
        self.note_recent(va, id);
        id
    }

    #[inline(always)]
    fn note_recent(&mut self, va: VirtAddr, id: NodeId) {
        let node = &self.nodes[id as usize];
        if node.shift == 12 {
            self.recent = (va.0, node.span(), id);
        }
    }

    /// The entry at which a walk for `va` ends, present or not; `None` beyond the address width.
    #[inline(always)]
    pub fn terminal(&self, va: VirtAddr) -> Option<Terminal> {
        if !self.within(va) {
            return None;
        }
        Some(match self.last_level(va) {
            Ok(node) => Terminal { at: self.last_entry(node, va), shift: 12 },
            Err(above) => Terminal { at: self.entry(above, va), shift: u32::from(self.nodes[above as usize].shift) },
        })
    }

    /// The last-level node of `va`, below a directory of 2 MiB entries. `Err` has the node at which the walk
    /// ends if there is none. Only last-level tables are below a directory, so the frame number suffices; the
    /// [`Node`] itself, one of very many, need not enter the caches of the machine that simulates.
    #[inline(always)]
    fn last_level(&self, va: VirtAddr) -> Result<NodeId, NodeId> {
        let id = self.descend(va, 21);
        let node = &self.nodes[id as usize];
        if node.shift == 21 {
            let child = node.child(va);
            if child != NO_NODE {
                return Ok(child);
            }
        }
        Err(id)
    }

    /// The entry for `va` in a node of the last level.
    #[inline(always)]
    fn last_entry(&self, node: NodeId, va: VirtAddr) -> PhysAddr {
        let index = va.vpn().0 & ((1 << super::NODE_BITS) - 1);
        self.frames[node as usize].start().offset(index * 8)
    }

    /// Prefetches the last entry of a walk for `va` (simulator speed only).
    #[inline(always)]
    pub fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        if !self.within(va) {
            return;
        }
        match self.last_level(va) {
            Ok(node) => memory.prefetch_slot(self.last_entry(node, va), self.places[node as usize]),
            Err(above) => memory.prefetch(self.entry(above, va)),
        }
    }

    /// Maps a page. See [`ambulator_os::PageTable::map`].
    ///
    /// # Errors
    /// `NoMemory` leaves the tree unchanged. `PageSize` for sizes other than 4 KiB, 2 MiB and 1 GiB, and for
    /// pages beyond the address width.
    #[inline]
    pub fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let (va, shift) = (mapping.page.start, mapping.page.size.shift());
        if !matches!(shift, 12 | 21 | 30) || !self.within(va) {
            return Err(MapError::PageSize);
        }
        let mut node = self.descend_recent(va, shift);
        if u32::from(self.nodes[node as usize].shift) > shift {
            node = self.grow(node, va, mapping.page.size, os)?;
        }
        let at = self.entry(node, va);
        let entries = 1u64 << (shift - u32::from(self.nodes[node as usize].shift));
        let occupied = (0..entries).any(|i| Pte(os.memory.read(at.offset(i * 8))).present());
        if occupied {
            return Err(MapError::Occupied);
        }
        let pte = Pte::leaf(mapping.frame, mapping.flags, shift > 12);
        for i in 0..entries {
            os.memory.write(at.offset(i * 8), pte.0);
        }
        self.nodes[node as usize].used += entries as u32;
        self.footprint.entries += 1;
        if shift > 12 {
            self.layout.large_page_mapped(mapping.page, os);
        }
        Ok(())
    }

    /// Creates the missing nodes below `from` on the path to `va`, down to the entry of a page of size
    /// `page`.
    #[cold]
    #[inline(never)]
    fn grow(
        &mut self,
        from: NodeId,
        va: VirtAddr,
        page: PageSize,
        os: &mut TableContext<'_>,
    ) -> Result<NodeId, MapError> {
        let mut id = from;
        while u32::from(self.nodes[id as usize].shift) > page.shift() {
            let at = self.entry(id, va);
            if Pte(os.memory.read(at)).present() {
                // A larger page, which can only be in a node that existed before.
                return Err(MapError::Occupied);
            }
            let span = u32::from(self.nodes[id as usize].shift);
            let request = NodeRequest { va: VirtAddr(va.0 >> span << span), span, page };
            let Some(place) = self.layout.allocate(request, &mut self.footprint, os) else {
                self.prune(id, va, os);
                return Err(MapError::NoMemory { bytes: 4096 });
            };
            let child = self.adopt(place, span, id, os.memory);
            let flat = if place.bits == FLAT_BITS { FLAT } else { 0 };
            os.memory.write(at, Pte::table(place.frame).0 | flat);
            let node = &mut self.nodes[id as usize];
            let index = node.index(va);
            node.children[index] = child;
            node.used += 1;
            id = child;
        }
        self.note_recent(va, id);
        Ok(id)
    }

    /// Frees `id` if it is empty, and then its parents if they are. `va` is in it.
    fn prune(&mut self, mut id: NodeId, va: VirtAddr, os: &mut TableContext<'_>) {
        while id != ROOT && self.nodes[id as usize].used == 0 {
            let parent = self.nodes[id as usize].parent;
            os.memory.write(self.entry(parent, va), 0);
            let node = &mut self.nodes[parent as usize];
            let index = node.index(va);
            node.children[index] = NO_NODE;
            node.used -= 1;
            let place = self.place(id);
            self.layout.release(place, &mut self.footprint, os);
            self.nodes[id as usize].children = Box::default();
            self.spare.push(id);
            self.recent = NONE_RECENT;
            id = parent;
        }
    }

    /// Moves the nodes that the layout wants elsewhere.
    pub(super) fn move_nodes(&mut self, os: &mut TableContext<'_>) {
        let moves = self.layout.take_moves();
        if moves.is_empty() {
            return;
        }
        for node in moves {
            if let Some(from) = self.move_node(node, os) {
                self.layout.moved(node, from, &mut self.footprint, os);
            }
        }
        self.layout.moves_done(&mut self.footprint, os);
    }

    /// Moves a node, if it exists and is not there already; returns where it was. The walk caches of
    /// hardware still point there: the layout must see to them.
    fn move_node(&mut self, NodeMove { va, span, to }: NodeMove, os: &mut TableContext<'_>) -> Option<NodePlace> {
        let parent = self.descend(va, span);
        let above = &self.nodes[parent as usize];
        if u32::from(above.shift) != span {
            return None;
        }
        let child = above.children[above.index(va)];
        let from = self.place(child);
        if child == NO_NODE || from.frame == to || from.bits != NODE_BITS {
            return None;
        }
        os.memory.copy(from.frame.start(), to.start(), FRAME_BYTES);
        os.memory.write(self.entry(parent, va), Pte::table(to).0);
        self.frames[child as usize] = to;
        self.places[child as usize] = os.memory.assign_slot(to.start());
        os.ledger.charge(LedgerCause::Table, os.costs.copy_4k + os.costs.table_entry);
        Some(from)
    }

    fn place(&self, id: NodeId) -> NodePlace {
        NodePlace { frame: self.frames[id as usize], bits: u32::from(self.nodes[id as usize].bits) }
    }

    /// The entries of exactly this page, if it is mapped.
    #[inline]
    fn run(&mut self, page: Page, memory: &PhysicalMemory) -> Option<Run> {
        let shift = page.size.shift();
        if !self.within(page.start) {
            return None;
        }
        let node = self.descend_recent(page.start, shift);
        let at = self.entry(node, page.start);
        let pte = Pte(memory.read(at));
        let node_shift = u32::from(self.nodes[node as usize].shift);
        let mapped = pte.present() && leaf_size(pte, node_shift) == Some(page.size);
        // A page has one entry, except a large page whose entry is repeated.
        mapped.then(|| Run { node, at, entries: 1 << (shift - node_shift) })
    }

    /// Unmaps exactly this page. See [`ambulator_os::PageTable::unmap`].
    pub fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let run = self.run(page, os.memory)?;
        let pte = merged(&run, os.memory);
        for i in 0..run.entries {
            os.memory.write(run.at.offset(i * 8), 0);
        }
        if page.size > PageSize::SIZE_4K {
            self.layout.large_page_unmapped(page);
        }
        let node = &mut self.nodes[run.node as usize];
        node.used -= run.entries as u32;
        if node.used == 0 {
            self.prune(run.node, page.start, os);
        }
        self.footprint.entries -= 1;
        Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
    }

    /// Rewrites a mapped page's flags. False if it is not mapped.
    pub fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        self.rewrite(page, os, |pte| Pte::leaf(pte.frame(), flags, pte.large()))
    }

    fn rewrite(&mut self, page: Page, os: &mut TableContext<'_>, change: impl Fn(Pte) -> Pte) -> bool {
        let Some(run) = self.run(page, os.memory) else {
            return false;
        };
        for i in 0..run.entries {
            let at = run.at.offset(i * 8);
            let pte = change(Pte(os.memory.read(at)));
            os.memory.write(at, pte.0);
        }
        true
    }

    /// Looks up `va` in the bytes, starting at the root.
    pub fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        if !self.within(va) {
            return None;
        }
        let mut node = self.frames[ROOT as usize].start();
        let mut bits = u32::from(self.nodes[ROOT as usize].bits);
        let mut shift = self.va_bits - bits;
        loop {
            let index = va.0 >> shift & ((1 << bits) - 1);
            let at = node.offset(index * 8);
            let mut pte = Pte(memory.read(at));
            if !pte.present() {
                return None;
            }
            if let Some(size) = leaf_size(pte, shift) {
                let entries = 1u64 << (size.shift() - shift);
                if entries > 1 {
                    let first = PhysAddr(at.0 & !(entries * 8 - 1));
                    pte = merged_at(first, entries, memory);
                }
                return Some(Mapping { page: Page::containing(va, size), frame: pte.frame(), flags: pte.flags() });
            }
            node = pte.frame().start();
            bits = if pte.0 & FLAT != 0 { FLAT_BITS } else { super::NODE_BITS };
            shift -= bits;
        }
    }

    /// Frees all nodes, the root last. The tree is empty and unusable afterwards.
    pub fn destroy(&mut self, os: &mut TableContext<'_>) {
        let mut spare = vec![false; self.nodes.len()];
        for &id in &self.spare {
            spare[id as usize] = true;
        }
        for id in (0..self.nodes.len() as NodeId).rev() {
            if !spare[id as usize] {
                let place = self.place(id);
                self.layout.release(place, &mut self.footprint, os);
            }
        }
        self.nodes = Vec::new();
        self.frames = Vec::new();
        self.places = Vec::new();
        self.spare = Vec::new();
        self.recent = NONE_RECENT;
        self.footprint.entries = 0;
        self.layout.destroy(&mut self.footprint, os);
    }
}

/// The entry of a run: the first entry, accessed and dirty if any of the repeated entries is.
#[inline(always)]
fn merged(run: &Run, memory: &PhysicalMemory) -> Pte {
    merged_at(run.at, run.entries, memory)
}

#[inline(always)]
fn merged_at(at: PhysAddr, entries: u64, memory: &PhysicalMemory) -> Pte {
    (0..entries).fold(Pte(0), |all, i| Pte(all.0 | memory.read(at.offset(i * 8))))
}
