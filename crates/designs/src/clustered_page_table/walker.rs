//! The hardware half: what a core does on a TLB miss.
//!
//! The buckets of all page sizes are loaded at once. Then each chain is followed, one node after the other: a
//! load of the line with the node's tag and link and, if the entry lies in another line of the node, a load
//! of that line next to it. The walker knows where the entry would be before it knows the tag, so the two go
//! out together.

use super::{Block, Buckets, ClusteredPageTableSpec, NEXT, SIZES, WORD, follow};
use ambulator_base::watch::{self, Meaning, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, LINE_BYTES, PageSize, PhysAddr, State, VirtAddr};
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_structures::pte::Pte;

ambulator_base::counters! {
    /// What a walker of clustered page tables counts.
    pub struct ClusteredWalkerCounters {
        /// Buckets loaded by walks.
        bucket_loads: Events,
        /// Nodes whose tags were compared.
        nodes_visited: Events,
        /// Nodes passed on the way to another node of their chain or to its end.
        nodes_passed: Events,
        /// Entries loaded next to the tag of their node, from another line of it.
        entry_loads: Events,
        /// Those of them whose node turned out to be another block's.
        useless_entry_loads: Events,
        /// Accessed and dirty bits written into entries.
        bit_updates: Events,
    }
}

/// Where the layout is published.
const SOURCE: &str = "Talluri, Hill and Khalidi, SOSP 1995";

/// A walker. It has no caches: what it needs of the tables is in six registers.
#[derive(State)]
pub struct ClusteredWalker {
    #[state(skip)]
    block: Block,
    #[state(skip)]
    hash_latency: u64,
    /// Those of each of [`SIZES`].
    buckets: [Buckets; SIZES.len()],
    /// What it counted.
    pub counters: ClusteredWalkerCounters,
}

impl ClusteredWalker {
    /// A walker that has not yet been given a table.
    pub fn new(spec: &ClusteredPageTableSpec) -> ClusteredWalker {
        ClusteredWalker {
            block: Block::of_pages(spec.block_pages),
            hash_latency: spec.hash_latency,
            buckets: [Buckets::default(); SIZES.len()],
            counters: ClusteredWalkerCounters::default(),
        }
    }

    /// Loads a node's tag, its link and the entry that `search` wants.
    fn visit(&mut self, node: PhysAddr, search: Search, va: VirtAddr, port: &mut dyn MemoryPort) -> Visit {
        let at = self.block.entry(node, va, search.size);
        let head = port.load_line(node, search.now);
        let word = |at: PhysAddr| head.words[(at.0 % LINE_BYTES / WORD) as usize];
        let same_block = word(node) == search.block;
        self.counters.nodes_visited += 1;
        watch::meaning(node, || {
            let link = follow(word(node.offset(NEXT)));
            let meaning = Meaning::new(format!("node of a block of {} pages", self.block.pages()), SOURCE)
                .address("block (tag)", word(node))
                .address("block wanted", search.block)
                .field("next node", link.map_or("none".to_owned(), |next| next.to_string()))
                .shape(Shape::ChainNode { found: same_block, last: link.is_none() })
                .touches([node, node.offset(NEXT)].map(|at| (at.0 % LINE_BYTES / WORD) as usize));
            if same_block && at.line() == node.line() {
                meaning.touches([(at.0 % LINE_BYTES / WORD) as usize]).fields(Pte(word(at)).fields())
            } else {
                meaning
            }
        });
        let (entry, entry_ready, loads) = if at.line() == node.line() {
            (word(at), head.ready, 1)
        } else {
            let loaded = port.load(at, search.now);
            let says = if same_block { "entry of the page" } else { "entry of another block's page" };
            watch::meaning(at, || {
                let shape = Shape::ChainNode { found: same_block, last: true };
                Meaning::new(says, SOURCE).fields(Pte(loaded.value).fields()).shape(shape).touches([0])
            });
            self.counters.entry_loads += 1;
            self.counters.useless_entry_loads += u64::from(!same_block);
            (loaded.value, loaded.ready, 2)
        };
        if same_block {
            let lines = [(node, head.ready), (at, entry_ready)];
            return Visit { loads, ready: head.ready.max(entry_ready), seen: Seen::Entry(at, Pte(entry), lines) };
        }
        self.counters.nodes_passed += 1;
        Visit { loads, ready: head.ready, seen: Seen::Next(follow(word(node.offset(NEXT)))) }
    }
}

/// What a search loads next.
#[derive(Clone, Copy)]
enum Next {
    Bucket(PhysAddr),
    Node(PhysAddr),
}

/// A search that is under way, for a page of one size.
#[derive(Clone, Copy)]
struct Search {
    size: PageSize,
    block: u64,
    next: Next,
    /// When its next load may go out.
    now: Cycle,
}

/// What was found in a bucket or a node.
enum Seen {
    /// The entry of the page, where it lies, and the lines that it needed, with the cycles at which they arrive.
    Entry(PhysAddr, Pte, [(PhysAddr, Cycle); 2]),
    /// The next node of the chain, if there is one.
    Next(Option<PhysAddr>),
}

/// A step of a search.
struct Visit {
    loads: u32,
    /// When the search knows it.
    ready: Cycle,
    seen: Seen,
}

impl Walker for ClusteredWalker {
    fn load_registers(&mut self, _asid: Asid, registers: &TableRegisters) {
        // No registers, no table: nothing is mapped.
        let mut words = registers.0.chunks_exact(2);
        self.buckets = SIZES.map(|_| match words.next() {
            Some(&[base, mask]) => Buckets { base: PhysAddr(base), mask },
            _ => Buckets::default(),
        });
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let began = now;
        let now = now.after(self.hash_latency);
        watch::step(|| Step::compute("hash of the block number", began, now));
        let mut searches = [0, 1, 2].map(|number| {
            let (size, buckets) = (SIZES[number], self.buckets[number]);
            let block = self.block.number(va, size);
            buckets.exist().then(|| Search { size, block, next: Next::Bucket(buckets.of(block)), now })
        });
        let (mut accesses, mut ready) = (0, now);
        let (mut outcome, mut found) = (WalkOutcome::NotMapped, None);
        // Whichever search can load first does; of those at the same time, that of the smaller pages.
        while let Some(going) = searches.iter_mut().filter(|s| s.is_some()).min_by_key(|s| s.map(|s| s.now)) {
            let Some(search) = going.take() else { break };
            if outcome != WalkOutcome::NotMapped && search.now >= ready {
                break;
            }
            let visit = match search.next {
                Next::Bucket(at) => {
                    self.counters.bucket_loads += 1;
                    let loaded = port.load(at, search.now);
                    watch::meaning(at, || {
                        let first = follow(loaded.value).map_or("none".to_owned(), |node| node.to_string());
                        let own = SIZES.iter().position(|size| *size == search.size).unwrap_or(0);
                        let [bucket, buckets] = self.buckets[own].number(at);
                        let found = follow(loaded.value).is_some();
                        Meaning::new(format!("bucket of {} pages", search.size), SOURCE)
                            .field("first node", first)
                            .shape(Shape::Bucket { way: 0, ways: 1, bucket, buckets, found })
                            .touches([0])
                    });
                    Visit { loads: 1, ready: loaded.ready, seen: Seen::Next(follow(loaded.value)) }
                }
                Next::Node(node) => self.visit(node, search, va, port),
            };
            accesses += visit.loads;
            match visit.seen {
                Seen::Entry(at, mut pte, lines) if pte.present() => {
                    let bits = pte.missing_bits(access == AccessKind::Store);
                    if bits != 0 {
                        self.counters.bit_updates += 1;
                        port.update(at, bits, visit.ready);
                        pte.0 |= bits;
                    }
                    outcome = WalkOutcome::Mapped(pte.translation(search.size));
                    // The answer is there, whatever the other searches still wait for.
                    ready = visit.ready;
                    found = Some(lines);
                }
                Seen::Next(Some(node)) => {
                    *going = Some(Search { next: Next::Node(node), now: visit.ready, ..search });
                }
                // No page of this size. That there is none of any size is known when the last search ends.
                Seen::Entry(..) | Seen::Next(None) if outcome == WalkOutcome::NotMapped => {
                    ready = ready.max(visit.ready);
                }
                Seen::Entry(..) | Seen::Next(None) => {}
            }
        }
        if let Some(lines) = found {
            port.decide(&lines);
        }
        Walk { outcome, ready, accesses }
    }

    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
