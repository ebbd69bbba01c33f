//! The OS half: what the kernel calls.

use super::{Block, Buckets, ClusteredPageTableSpec, ENTRIES, NEXT, SIZES, WORD, follow, link};
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Page, PageSize, Pfn, PhysAddr, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext, TableLock};
use ambulator_structures::frames;
use ambulator_structures::pte::Pte;
use std::collections::{BTreeMap, BTreeSet};

ambulator_base::counters! {
    /// What the OS half of clustered page tables counts.
    pub struct ClusteredTableCounters {
        /// Nodes made, each with the first page of its block.
        nodes_made: Events,
        /// Nodes given back, each with the last page of its block.
        nodes_freed: Events,
        /// Times that the buckets of a table were doubled.
        resizes: Events,
        /// Nodes that were linked into other buckets by that.
        nodes_relinked: Events,
        /// Times that buckets were not doubled because memory had no room for them.
        resizes_forgone: Events,
    }
}

ambulator_base::counters! {
    /// What the bytes of a process's clustered page tables show.
    pub struct ClusteredTableState {
        /// Buckets, of all page sizes.
        buckets: Events gauge,
        /// Buckets that no node is linked into.
        empty_buckets: Events gauge,
        /// Nodes, of all page sizes.
        nodes: Events gauge,
        /// Nodes of the longest chain.
        longest_chain: Events gauge,
    }
}

/// The table of one page size.
#[derive(Clone, Copy, Debug, Default, State)]
struct SizeTable {
    buckets: Buckets,
    nodes: u64,
    /// Pages mapped.
    mapped: u64,
}

/// A process's tables. Beside what the bytes say it remembers only how many nodes and pages there are, and
/// what it allocated.
#[derive(State)]
pub struct ClusteredPageTable {
    #[state(skip)]
    block: Block,
    #[state(skip)]
    initial_buckets: u64,
    #[state(skip)]
    load_limit: f64,
    /// Those of [`SIZES`].
    tables: [SizeTable; SIZES.len()],
    slab: Slab,
    generation: u64,
    footprint: Footprint,
    /// What it counted.
    pub counters: ClusteredTableCounters,
}

/// A node, and the bucket or the link of the node before it that leads to it.
struct Found {
    node: PhysAddr,
    linked_at: PhysAddr,
}

fn number_of(size: PageSize) -> Option<usize> {
    SIZES.iter().position(|known| *known == size)
}

impl ClusteredPageTable {
    /// Empty tables: the buckets of 4 KiB pages.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] when the buckets cannot be had.
    pub fn new(spec: &ClusteredPageTableSpec, os: &mut TableContext<'_>) -> Result<ClusteredPageTable, MapError> {
        let mut footprint = Footprint::default();
        let mut tables = [SizeTable::default(); SIZES.len()];
        tables[0].buckets = allocate(spec.initial_buckets, &mut footprint, os)?;
        let block = Block::of_pages(spec.block_pages);
        Ok(ClusteredPageTable {
            block,
            initial_buckets: spec.initial_buckets,
            load_limit: spec.load_limit,
            tables,
            slab: Slab::new(block),
            generation: 0,
            footprint,
            counters: ClusteredTableCounters::default(),
        })
    }

    /// The node of the block, of pages of that size, that holds `va`.
    fn find(&self, number: usize, va: VirtAddr, memory: &PhysicalMemory) -> Option<Found> {
        let buckets = self.tables[number].buckets;
        if !buckets.exist() {
            return None;
        }
        let block = self.block.number(va, SIZES[number]);
        let mut linked_at = buckets.of(block);
        while let Some(node) = follow(memory.read(linked_at)) {
            if memory.read(node) == block {
                return Some(Found { node, linked_at });
            }
            linked_at = node.offset(NEXT);
        }
        None
    }

    /// The entry of a page that is mapped, and where it lies.
    fn find_entry(&self, page: Page, memory: &PhysicalMemory) -> Option<(PhysAddr, Pte)> {
        let found = self.find(number_of(page.size)?, page.start, memory)?;
        let at = self.block.entry(found.node, page.start, page.size);
        let pte = Pte(memory.read(at));
        pte.present().then_some((at, pte))
    }

    /// A number of pages mapped changed. The registers show a table while it has pages.
    fn count(&mut self, number: usize, change: impl Fn(u64) -> u64) {
        let table = &mut self.tables[number];
        let before = table.mapped;
        table.mapped = change(before);
        if (before == 0) != (table.mapped == 0) {
            self.generation += 1;
        }
        self.footprint.entries = self.tables.iter().map(|table| table.mapped).sum();
    }

    /// Makes the node of the block that holds `va`, and the buckets of its size if these are the first.
    /// Nothing has changed if there is no memory.
    fn add_node(&mut self, number: usize, va: VirtAddr, os: &mut TableContext<'_>) -> Result<PhysAddr, MapError> {
        let before = self.footprint;
        let bytes = FRAME_BYTES;
        let node = self.slab.take(&mut self.footprint, os).ok_or(MapError::NoMemory { bytes })?;
        if self.tables[number].buckets.exist() {
            self.make_room(number, os);
        } else {
            match allocate(self.initial_buckets, &mut self.footprint, os) {
                Ok(buckets) => self.tables[number].buckets = buckets,
                Err(error) => {
                    self.slab.give_back(node, &mut self.footprint, os);
                    self.footprint = before;
                    return Err(error);
                }
            }
        }
        let table = &mut self.tables[number];
        table.nodes += 1;
        self.counters.nodes_made += 1;
        os.memory.write(node, self.block.number(va, SIZES[number]));
        push(table.buckets, node, os.memory);
        Ok(node)
    }

    /// Doubles the buckets if one more node passes the load limit. Where memory has no room for that they
    /// stay as they are: chains take any number of nodes.
    fn make_room(&mut self, number: usize, os: &mut TableContext<'_>) {
        let SizeTable { buckets: old, nodes, .. } = self.tables[number];
        if (nodes + 1) as f64 <= self.load_limit * old.len() as f64 {
            return;
        }
        let Ok(new) = allocate(2 * old.len(), &mut self.footprint, os) else {
            self.counters.resizes_forgone += 1;
            return;
        };
        for bucket in 0..old.len() {
            let mut chain = os.memory.read(old.at(bucket));
            while let Some(node) = follow(chain) {
                chain = os.memory.read(node.offset(NEXT));
                push(new, node, os.memory);
            }
        }
        self.release(old, os);
        os.ledger.charge(LedgerCause::Table, nodes * os.costs.table_entry);
        self.tables[number].buckets = new;
        self.generation += 1;
        self.counters.resizes += 1;
        self.counters.nodes_relinked += nodes;
    }

    /// Gives back the node of a block whose last page has gone.
    fn remove_node(&mut self, number: usize, found: &Found, os: &mut TableContext<'_>) {
        let next = os.memory.read(found.node.offset(NEXT));
        os.memory.write(found.linked_at, next);
        self.slab.give_back(found.node, &mut self.footprint, os);
        self.tables[number].nodes -= 1;
        self.counters.nodes_freed += 1;
    }

    /// Whether a node has no entry.
    fn is_empty(&self, node: PhysAddr, memory: &PhysicalMemory) -> bool {
        (0..self.block.pages()).all(|page| memory.read(node.offset(ENTRIES + page * WORD)) == 0)
    }

    fn release(&mut self, buckets: Buckets, os: &mut TableContext<'_>) {
        frames::release(buckets.base.pfn(), buckets.bytes() / FRAME_BYTES, &mut self.footprint, os);
    }
}

/// As many empty buckets.
fn allocate(buckets: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Result<Buckets, MapError> {
    let bytes = buckets * WORD;
    let frame = frames::allocate_bytes(bytes, footprint, os).ok_or(MapError::NoMemory { bytes })?;
    Ok(Buckets { base: frame.start(), mask: buckets - 1 })
}

/// Makes a node the first of its chain.
fn push(buckets: Buckets, node: PhysAddr, memory: &mut PhysicalMemory) {
    let bucket = buckets.of(memory.read(node));
    let first = memory.read(bucket);
    memory.write(node.offset(NEXT), first);
    memory.write(bucket, link(node));
}

/// The frames of the nodes. It remembers which nodes of its frames are free, and nothing of what is in them.
#[derive(State)]
struct Slab {
    #[state(skip)]
    block: Block,
    /// For each frame a bit for each node of it that is free.
    free: BTreeMap<Pfn, u128>,
    /// The frames that have a free node.
    with_room: BTreeSet<Pfn>,
}

impl Slab {
    fn new(block: Block) -> Slab {
        Slab { block, free: BTreeMap::new(), with_room: BTreeSet::new() }
    }

    /// The bits of a frame all of whose nodes are free.
    fn all_free(&self) -> u128 {
        u128::MAX >> (u128::BITS - self.block.nodes_per_frame() as u32)
    }

    /// A node without entries, from another frame if there is none; `None` when there is no frame.
    fn take(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<PhysAddr> {
        let frame = match self.with_room.first() {
            Some(&frame) => frame,
            None => {
                let frame = frames::allocate(0, footprint, os)?;
                self.with_room.insert(frame);
                frame
            }
        };
        let all_free = self.all_free();
        let free = self.free.entry(frame).or_insert(all_free);
        let node = free.trailing_zeros();
        *free &= !(1 << node);
        if *free == 0 {
            self.with_room.remove(&frame);
        }
        Some(frame.start().offset(u64::from(node) * self.block.node_bytes()))
    }

    /// Takes back a node without entries, and its frame with the last node of it.
    fn give_back(&mut self, node: PhysAddr, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let frame = node.pfn();
        let number = (node.0 - frame.start().0) / self.block.node_bytes();
        let all_free = self.all_free();
        let Some(free) = self.free.get_mut(&frame) else { panic!("the node at {node} is in no frame of the table") };
        *free |= 1 << number;
        if *free == all_free {
            self.free.remove(&frame);
            self.with_room.remove(&frame);
            frames::release(frame, 1, footprint, os);
        } else {
            self.with_room.insert(frame);
        }
    }

    /// Gives all frames back.
    fn destroy(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for frame in std::mem::take(&mut self.free).into_keys() {
            frames::release(frame, 1, footprint, os);
        }
        self.with_room.clear();
    }
}

impl PageTable for ClusteredPageTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let Page { start, size } = mapping.page;
        let number = number_of(size).ok_or(MapError::PageSize)?;
        if self.lookup(start, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        let node = match self.find(number, start, os.memory) {
            Some(found) => found.node,
            None => self.add_node(number, start, os)?,
        };
        let pte = Pte::leaf(mapping.frame, mapping.flags, size > PageSize::SIZE_4K);
        os.memory.write(self.block.entry(node, start, size), pte.0);
        self.count(number, |mapped| mapped + 1);
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let (at, pte) = self.find_entry(page, os.memory)?;
        os.memory.write(at, 0);
        let number = number_of(page.size)?;
        let found = self.find(number, page.start, os.memory)?;
        if self.is_empty(found.node, os.memory) {
            self.remove_node(number, &found, os);
        }
        self.count(number, |mapped| mapped - 1);
        Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let Some((at, pte)) = self.find_entry(page, os.memory) else { return false };
        os.memory.write(at, Pte::leaf(pte.frame(), flags, pte.large()).0);
        true
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let sizes = SIZES.into_iter().zip(&self.tables).filter(|(_, table)| table.mapped > 0);
        sizes.map(|(size, _)| Page::containing(va, size)).find_map(|page| {
            let (_, pte) = self.find_entry(page, memory)?;
            Some(Mapping { page, frame: pte.frame(), flags: pte.flags() })
        })
    }

    /// A bucket has a lock of its own.
    fn lock_of(&self, page: Page) -> TableLock {
        let buckets = number_of(page.size).map(|number| self.tables[number].buckets);
        match buckets.filter(|buckets| buckets.exist()) {
            Some(buckets) => TableLock::Part(buckets.of(self.block.number(page.start, page.size)).0),
            None => TableLock::Whole,
        }
    }

    fn registers(&self) -> Vec<u64> {
        let shown = |table: &SizeTable| if table.mapped > 0 { table.buckets } else { Buckets::default() };
        self.tables.iter().map(shown).flat_map(|buckets| [buckets.base.0, buckets.mask]).collect()
    }

    fn registers_generation(&self) -> u64 {
        self.generation
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.slab.destroy(&mut self.footprint, os);
        for table in std::mem::take(&mut self.tables) {
            if table.buckets.exist() {
                self.release(table.buckets, os);
            }
        }
        self.footprint.entries = 0;
        self.generation += 1;
    }

    fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        let buckets = self.tables[0].buckets;
        if buckets.exist() {
            memory.prefetch(buckets.of(self.block.number(va, SIZES[0])));
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn inspect(&self, memory: &PhysicalMemory, prefix: &str, sink: &mut dyn CounterSink) {
        let mut state = ClusteredTableState::default();
        for buckets in self.tables.iter().map(|table| table.buckets).filter(|buckets| buckets.exist()) {
            state.buckets += buckets.len();
            for bucket in 0..buckets.len() {
                let mut nodes = 0;
                let mut chain = memory.read(buckets.at(bucket));
                while let Some(node) = follow(chain) {
                    nodes += 1;
                    chain = memory.read(node.offset(NEXT));
                }
                state.empty_buckets += u64::from(nodes == 0);
                state.nodes += nodes;
                state.longest_chain = state.longest_chain.max(nodes);
            }
        }
        state.report(prefix, sink);
    }
}
