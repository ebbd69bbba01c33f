//! The hardware half of a tree of tables.

use super::{FLAT, FLAT_BITS, NODE_BITS, WalkCaches, leaf_size};
use crate::pte::Pte;
use ambulator_base::watch::{self, Meaning, Shape};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PhysAddr, State, VirtAddr};
use ambulator_mmu::{CorePort, Invalidation, MemoryPort, PwcSpec, TableRegisters, Walk, WalkOutcome, Walker};

ambulator_base::counters! {
    /// Counters of a walker of a tree of tables.
    pub struct WalkerCounters {
        /// Walks that began at the table of a cached page-directory entry (one load left).
        pwc_pde_hits: Events,
        /// Walks that began at the table of a cached page-directory-pointer entry.
        pwc_pdpte_hits: Events,
        /// Walks that began at the table of a cached PML4 entry.
        pwc_pml4e_hits: Events,
        /// Walks that began at the table of a cached PML5 entry.
        pwc_pml5e_hits: Events,
        /// Walks that began at the root.
        pwc_misses: Events,
        /// Entries loaded by walks.
        loads: Events,
        /// Accessed and dirty bits written into entries.
        bit_updates: Events,
    }
}

/// Where a walk begins after the page-walk caches were probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkStart {
    /// The first table to read.
    pub node: PhysAddr,
    /// log2 of that table's entries.
    pub bits: u32,
    /// log2 of the bytes that an entry of it covers.
    pub shift: u32,
    /// The cycle at which the look-up completes.
    pub now: Cycle,
}

/// A page-table walker: page-walk caches, then one load for each remaining level.
#[derive(State)]
pub struct TreeWalker {
    asid: Asid,
    root: PhysAddr,
    root_bits: u32,
    #[state(skip)]
    va_bits: u32,
    caches: WalkCaches,
    /// Address of the leaf entry of the latest walk.
    entry: PhysAddr,
    /// Its counters.
    pub counters: WalkerCounters,
}

impl TreeWalker {
    /// A walker with empty page-walk caches.
    pub fn new(pwc: &PwcSpec) -> TreeWalker {
        TreeWalker {
            asid: Asid(0),
            root: PhysAddr(0),
            root_bits: NODE_BITS,
            va_bits: 0,
            caches: WalkCaches::new(pwc),
            entry: PhysAddr(0),
            counters: WalkerCounters::default(),
        }
    }

    /// Probes the page-walk caches at `now`; `None` for an address beyond the table's width.
    #[inline]
    pub fn start(&mut self, va: VirtAddr, now: Cycle) -> Option<WalkStart> {
        if va.0 >> self.va_bits != 0 {
            return None;
        }
        let began = now;
        let now = now.after(self.caches.latency());
        if watch::watched() {
            self.caches.tell(self.asid, va, began, now);
        }
        let Some(hit) = self.caches.lookup(self.asid, va, now) else {
            self.counters.pwc_misses += 1;
            let (bits, shift) = (self.root_bits, self.va_bits - self.root_bits);
            return Some(WalkStart { node: self.root, bits, shift, now });
        };
        match hit.level {
            0 => self.counters.pwc_pde_hits += 1,
            1 => self.counters.pwc_pdpte_hits += 1,
            2 => self.counters.pwc_pml4e_hits += 1,
            _ => self.counters.pwc_pml5e_hits += 1,
        }
        Some(WalkStart { node: hit.at, bits: hit.bits, shift: hit.shift, now })
    }

    /// Probes the page-walk caches and completes the walk.
    #[inline(always)]
    fn walk_through<P: MemoryPort + ?Sized>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut P,
    ) -> Walk {
        match self.start(va, now) {
            Some(start) => self.finish(va, access, start, port),
            None => Walk { outcome: WalkOutcome::NotMapped, ready: now, accesses: 0 },
        }
    }

    /// Completes the walk from `start`.
    #[inline]
    pub fn finish<P: MemoryPort + ?Sized>(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        start: WalkStart,
        port: &mut P,
    ) -> Walk {
        let WalkStart { mut node, mut bits, mut shift, mut now } = start;
        let mut accesses = 0;
        let outcome = loop {
            let index = va.0 >> shift & ((1 << bits) - 1);
            let at = node.offset(index * 8);
            let loaded = port.load(at, now);
            accesses += 1;
            now = loaded.ready;
            let mut pte = Pte(loaded.value);
            watch::meaning(at, || entry_meaning(pte, index, bits, shift));
            if !pte.present() {
                break WalkOutcome::NotMapped;
            }
            if let Some(size) = leaf_size(pte, shift) {
                self.entry = at;
                let bits = pte.missing_bits(access == AccessKind::Store);
                if bits != 0 {
                    self.counters.bit_updates += 1;
                    port.update(at, bits, now);
                    pte.0 |= bits;
                }
                break WalkOutcome::Mapped(pte.translation(size));
            }
            self.caches.fill(self.asid, va, shift, pte, now);
            node = pte.frame().start();
            bits = if pte.0 & FLAT != 0 { FLAT_BITS } else { NODE_BITS };
            shift -= bits;
        };
        self.counters.loads += u64::from(accesses);
        Walk { outcome, ready: now, accesses }
    }
}

/// What entry number `index` is, in a node of `2^bits` entries that cover `2^shift` bytes each.
pub fn entry_meaning(pte: Pte, index: u64, bits: u32, shift: u32) -> Meaning {
    let name = match shift {
        12 => "PTE",
        21 => "PDE",
        30 => "PDPTE",
        39 => "PML4E",
        _ => "PML5E",
    };
    let (name, source) = if bits == FLAT_BITS {
        (format!("{name} of a merged node of 2^18 entries"), "Flattened page tables, Park et al., ASPLOS 2022")
    } else {
        (name.to_owned(), "Intel SDM volume 3, Sec. 4.5")
    };
    let shape = Shape::TreeEntry { index, entries: 1 << bits, low_bit: u64::from(shift) };
    let meaning = Meaning::new(name, source).fields(pte.fields()).shape(shape).touches([0]);
    match leaf_size(pte, shift) {
        _ if !pte.present() => meaning,
        Some(size) => meaning.field("maps a page of", size.to_string()),
        None if pte.0 & FLAT != 0 => meaning.address("points to a merged node at", pte.frame().start().0),
        None => meaning.address("points to the table at", pte.frame().start().0),
    }
}

impl Walker for TreeWalker {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        let &[root, va_bits, ..] = registers.0.as_slice() else {
            // No table yet: nothing is mapped.
            self.va_bits = 0;
            return;
        };
        self.asid = asid;
        self.root = PhysAddr(root & !0xfff);
        self.root_bits = (root & 0xfff) as u32;
        self.va_bits = va_bits as u32;
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        self.walk_through(va, access, now, port)
    }

    fn walk_on_core(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut CorePort<'_>) -> Walk {
        self.walk_through(va, access, now, port)
    }

    fn leaf_pte_address(&self) -> Option<PhysAddr> {
        Some(self.entry)
    }

    fn invalidate(&mut self, what: Invalidation) {
        self.caches.invalidate(what);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
