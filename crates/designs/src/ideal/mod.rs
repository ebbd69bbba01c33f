//! The ideal page table: always exactly one load, of the entry at which a radix walk would have ended (LVM
//! section 6.3: "an Ideal page table scheme that always requires only a single memory access to locate the
//! page table entry").
//!
//! It cannot be built, by definition. Exactly one thing is idealised: the walker knows the address of the
//! entry, because it shares the kernel's directory of nodes with the OS half. The entry itself is bytes in
//! simulated memory, loaded through the port like any other. The tables' bytes, their frames and the
//! footprint are those of radix.
//!
//! - OS half: [`Tree`] with [`Plain`] nodes, protected by a lock that the walkers share.
//! - Hardware half: `IdealWalker`. It has no page-walk caches, since it skips all levels anyway.

#[cfg(test)]
mod tests;

use ambulator_base::watch;
use ambulator_base::{AccessKind, Archive, Asid, CounterSink, Counters, Cycle, Page, State, VirtAddr, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator_sockets::{Claims, Descriptor, NoSettings, Parts, Socket, TableParts};
use ambulator_structures::pte::Pte;
use ambulator_structures::tree::{NODE_BITS, Plain, Tree, entry_meaning, leaf_size};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type SharedTree = Arc<RwLock<Tree<Plain>>>;

/// All tables, shared by the two halves. The registers hold a table's number, which is never reused.
#[derive(Clone, Default)]
struct IdealDirectory(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    by_number: BTreeMap<u64, SharedTree>,
    created: u64,
}

impl IdealDirectory {
    fn add(&self, tree: SharedTree) -> u64 {
        let mut tables = lock(&self.0);
        tables.created += 1;
        let number = tables.created;
        tables.by_number.insert(number, tree);
        number
    }

    fn find(&self, number: u64) -> Option<SharedTree> {
        let tables = lock(&self.0);
        tables.by_number.get(&number).cloned()
    }

    fn remove(&self, number: u64) {
        let mut tables = lock(&self.0);
        tables.by_number.remove(&number);
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "ideal",
        "exactly one load per walk, idealised: the bound of every page table",
        "LVM section 6.3, MICRO 2025",
    )
    .fills(Socket::PageTable, "one load of the entry at which a radix walk would have ended")
    .idealised()
    .claims(Claims { max_loads: 1, ..Claims::default() })
    .formerly("design.page_table.ideal.levels", "mmu.va_bits")
    .settings::<NoSettings>()
    .build(|_, site| {
        let (os, va_bits) = (IdealDirectory::default(), site.va_bits);
        let hardware = os.clone();
        let page_table = TableParts::new(
            move |_, _, context| {
                let tree = Arc::new(RwLock::new(Tree::new(Plain, va_bits, context)?));
                let number = os.add(Arc::clone(&tree));
                Ok(Box::new(IdealTable { tree, number, directory: os.clone() }))
            },
            move |_| Box::new(IdealWalker::new(hardware.clone())),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}

struct IdealTable {
    tree: SharedTree,
    number: u64,
    directory: IdealDirectory,
}

impl IdealTable {
    fn read(&self) -> RwLockReadGuard<'_, Tree<Plain>> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tree<Plain>> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory knows the table by the number that it had when it was saved.
impl State for IdealTable {
    fn state(&mut self, archive: &mut Archive<'_>) {
        self.number.state(archive);
        let mut tables = lock(&self.directory.0);
        tables.created.state(archive);
        tables.by_number.insert(self.number, Arc::clone(&self.tree));
        drop(tables);
        self.write().state(archive);
    }
}

impl PageTable for IdealTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        self.write().map(mapping, os)
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        self.write().unmap(page, os)
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        self.write().set_flags(page, flags, os)
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        self.read().lookup(va, memory)
    }

    fn registers(&self) -> Vec<u64> {
        vec![self.number]
    }

    fn footprint(&self) -> Footprint {
        self.read().footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.directory.remove(self.number);
        self.write().destroy(os);
    }

    fn prefetch_sim_host(&self, va: VirtAddr, memory: &PhysicalMemory) {
        self.read().prefetch_sim_host(va, memory);
    }
}

ambulator_base::counters! {
    /// Counters of the ideal walker.
    struct IdealCounters {
        /// Entries loaded by walks.
        loads: Events,
        /// Accessed and dirty bits written into entries.
        bit_updates: Events,
    }
}

/// A walker that knows the address of each entry.
#[derive(State)]
struct IdealWalker {
    #[state(skip)]
    directory: IdealDirectory,
    #[state(skip)]
    tree: Option<SharedTree>,
    counters: IdealCounters,
}

impl IdealWalker {
    /// A walker for the tables of `directory`.
    pub(crate) fn new(directory: IdealDirectory) -> IdealWalker {
        IdealWalker { directory, tree: None, counters: IdealCounters::default() }
    }
}

impl Walker for IdealWalker {
    fn load_registers(&mut self, _asid: Asid, registers: &TableRegisters) {
        let number = registers.0.first();
        self.tree = number.and_then(|&number| self.directory.find(number));
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let end = self.tree.as_ref().and_then(|tree| {
            let tree = tree.read().unwrap_or_else(PoisonError::into_inner);
            tree.terminal(va)
        });
        let Some(end) = end else {
            return Walk { outcome: WalkOutcome::NotMapped, ready: now, accesses: 0 };
        };
        let loaded = port.load(end.at, now);
        self.counters.loads += 1;
        let mut pte = Pte(loaded.value);
        watch::meaning(end.at, || entry_meaning(pte, end.at.0 / 8 % (1 << NODE_BITS), NODE_BITS, end.shift));
        let outcome = match leaf_size(pte, end.shift) {
            Some(size) if pte.present() => {
                let bits = pte.missing_bits(access == AccessKind::Store);
                if bits != 0 {
                    self.counters.bit_updates += 1;
                    port.update(end.at, bits, loaded.ready);
                    pte.0 |= bits;
                }
                WalkOutcome::Mapped(pte.translation(size))
            }
            _ => WalkOutcome::NotMapped,
        };
        Walk { outcome, ready: loaded.ready, accesses: 1 }
    }

    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
