use super::*;
use ambulator_base::{AccessKind, Asid, CounterDef, CounterSink, Counters, Cycle, Page, Pfn, Protection};
use ambulator_conformance::{Options, TestBed, TestPort, scatter};
use ambulator_mmu::{TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{LedgerCause, MapError, Mapping, PageTable, PteFlags, TableLock};
use proptest::prelude::*;

const LATENCY: u64 = 100;
const BLOCK_BYTES: u64 = 16 << 12;
const MEMORY: u64 = 64 << 20;

fn mapping(va: u64, size: PageSize) -> Mapping {
    Mapping {
        page: Page::containing(VirtAddr(va), size),
        frame: Pfn(1 << 20),
        flags: PteFlags::user(Protection::READ_WRITE),
    }
}

fn small(va: u64) -> Page {
    Page::containing(VirtAddr(va), PageSize::SIZE_4K)
}

/// A table and a walker that knows its registers.
struct Rig {
    bed: TestBed,
    table: ClusteredPageTable,
    walker: ClusteredWalker,
}

/// The sums of counters that a table hands out.
struct Shown(Vec<(&'static str, u64)>);

impl CounterSink for Shown {
    fn counter(&mut self, _prefix: &str, def: &'static CounterDef, value: u64) {
        self.0.push((def.name, value));
    }
}

impl Rig {
    fn new(spec: &ClusteredPageTableSpec) -> Rig {
        Rig::on(TestBed::new(MEMORY).unwrap(), spec)
    }

    fn on(mut bed: TestBed, spec: &ClusteredPageTableSpec) -> Rig {
        let table = ClusteredPageTable::new(spec, &mut bed.os()).unwrap();
        Rig { bed, table, walker: ClusteredWalker::new(spec) }
    }

    fn map(&mut self, va: u64, size: PageSize) {
        self.table.map(mapping(va, size), &mut self.bed.os()).unwrap();
    }

    fn unmap(&mut self, va: u64) {
        assert!(self.table.unmap(small(va), &mut self.bed.os()).is_some(), "{va:#x} is mapped");
    }

    fn access(&mut self, va: u64, access: AccessKind) -> Walk {
        self.walker.load_registers(Asid(1), &TableRegisters(self.table.registers()));
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        self.walker.walk(VirtAddr(va), access, Cycle(0), &mut port)
    }

    fn walk(&mut self, va: u64) -> Walk {
        self.access(va, AccessKind::Load)
    }

    /// Loads, and how many of them followed one after the other.
    fn loads(&mut self, va: u64) -> (u32, u64) {
        let walk = self.walk(va);
        assert_eq!((walk.ready.0 - 2) % LATENCY, 0);
        (walk.accesses, (walk.ready.0 - 2) / LATENCY)
    }

    fn finds(&mut self, va: u64) -> bool {
        matches!(self.walk(va).outcome, WalkOutcome::Mapped(_))
    }

    fn state(&self) -> Vec<(&'static str, u64)> {
        let mut shown = Shown(Vec::new());
        self.table.inspect(&self.bed.memory, "", &mut shown);
        shown.0
    }
}

/// First addresses of blocks of sixteen pages that are in one bucket of 512; the first is 0.
fn blocks_of_one_bucket(count: usize) -> Vec<u64> {
    let buckets = Buckets { base: PhysAddr(0), mask: 511 };
    (0..).filter(|&block| buckets.of(block) == buckets.of(0)).map(|block| block * BLOCK_BYTES).take(count).collect()
}

#[test]
fn a_node_is_a_tag_a_link_and_the_entries_of_its_block() {
    for (pages, bytes, per_frame) in [(1, 32, 128), (2, 32, 128), (4, 48, 85), (16, 144, 28), (256, 2064, 1)] {
        let block = Block::of_pages(pages);
        assert_eq!((block.pages(), block.node_bytes(), block.nodes_per_frame()), (pages, bytes, per_frame));
        // The walker takes tag and link from one line.
        for node in (0..per_frame).map(|number| PhysAddr(number * bytes)) {
            assert_eq!(node.line(), node.offset(NEXT).line());
        }
    }
    let block = Block::of_pages(16);
    let node = PhysAddr(0x1000);
    assert_eq!(block.entry(node, VirtAddr(0x10_0000), PageSize::SIZE_4K), PhysAddr(0x1010));
    assert_eq!(block.entry(node, VirtAddr(0x10_ffff), PageSize::SIZE_4K), PhysAddr(0x1088));
    assert_eq!(block.number(VirtAddr(0x10_ffff), PageSize::SIZE_4K), 0x10);
    assert_eq!(block.number(VirtAddr(0x4_0000_0000), PageSize::SIZE_2M), 0x200);
    // Frame 0 can hold a node.
    assert_eq!((follow(link(PhysAddr(0))), follow(0)), (Some(PhysAddr(0)), None));
}

#[test]
fn a_walk_is_a_bucket_and_then_the_lines_of_a_node_at_once() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    assert_eq!(rig.loads(0x10_0000), (0, 0), "nothing is mapped, and the registers say so");
    rig.map(0x10_0000, PageSize::SIZE_4K);
    // The first node of a frame: its first line has the tag, the link and six entries.
    assert_eq!(rig.loads(0x10_0000), (2, 2));
    rig.map(0x10_5000, PageSize::SIZE_4K);
    assert_eq!(rig.loads(0x10_5000), (2, 2));
    rig.map(0x10_6000, PageSize::SIZE_4K);
    assert_eq!(rig.loads(0x10_6000), (3, 2), "the entry's line is loaded with the tag's");
    assert!(rig.finds(0x10_6000));
    // The block has a node, and the page has no entry: one load less if the entry's word is next to the tag.
    assert_eq!((rig.loads(0x10_1000), rig.loads(0x10_f000)), ((2, 2), (3, 2)));
    assert_eq!(rig.walk(0x10_1000).outcome, WalkOutcome::NotMapped);
    // No node at all: the bucket says so.
    assert_eq!(rig.loads(0x20_0000), (1, 1));
    assert_eq!(rig.walk(0x20_0000).outcome, WalkOutcome::NotMapped);
    assert_eq!(rig.table.footprint().bytes, 8192, "a frame of buckets and a frame of nodes");
    assert_eq!(rig.table.counters.nodes_made, 1);
}

#[test]
fn all_sizes_are_looked_for_at_once() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    let pages = [
        (0x5000, 0x5123, PageSize::SIZE_4K),
        (0x1_4020_0000, 0x1_4020_1000, PageSize::SIZE_2M),
        (0x80_8000_0000, 0x80_8123_4000, PageSize::SIZE_1G),
    ];
    for (va, _, size) in pages {
        rig.map(va, size);
    }
    for (_, va, size) in pages {
        // Three buckets, and the one node; the node's entry is in the line of its tag for the first of the
        // frame alone.
        let (loads, steps) = rig.loads(va);
        assert!((4..=5).contains(&loads) && steps == 2, "{loads} loads in {steps} steps");
        assert!(matches!(rig.walk(va).outcome, WalkOutcome::Mapped(found) if found.size == size));
    }
    assert_eq!(rig.loads(0x10_0000_0000), (3, 1));
    // A table whose last page goes is not looked into any more.
    let huge = Page::containing(VirtAddr(0x80_8000_0000), PageSize::SIZE_1G);
    assert!(rig.table.unmap(huge, &mut rig.bed.os()).is_some());
    assert_eq!(rig.loads(0x10_0000_0000), (2, 1));
}

#[test]
fn the_chain_of_another_size_holds_no_page_back_and_is_followed_to_its_end_for_none() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    let blocks = blocks_of_one_bucket(4);
    // Three nodes where a page of 2 MiB at 0 would be; a block of those has 512 times the bytes.
    for block in &blocks[1..] {
        rig.map(block << 9, PageSize::SIZE_2M);
    }
    rig.map(0, PageSize::SIZE_4K);
    // Two buckets, then a node of either table. The fourth node of a frame has its first entry behind a
    // line's end.
    assert_eq!(rig.loads(0), (2 + 2 + 1, 2));
    assert!(rig.finds(0));
    assert_eq!(rig.loads(0x1000).1, 4, "a bucket and three nodes");
    assert!(!rig.finds(0x1000));
}

#[test]
fn a_chain_is_followed_node_by_node_and_loses_any_of_them() {
    let blocks = blocks_of_one_bucket(4);
    for gone in 0..4 {
        let mut rig = Rig::new(&ClusteredPageTableSpec::default());
        for &block in &blocks {
            rig.map(block, PageSize::SIZE_4K);
            rig.map(block + 0xf000, PageSize::SIZE_4K);
        }
        // The newest is the first.
        for (behind, &block) in blocks.iter().rev().enumerate() {
            assert_eq!(rig.loads(block).1, 2 + behind as u64);
            // Wherever nodes lie, their last entry is not next to their tag: both are loaded from every node
            // passed.
            assert_eq!(rig.loads(block + 0xf000), (1 + 2 * (1 + behind as u32), 2 + behind as u64));
        }
        assert!(rig.state().contains(&("longest_chain", 4)));
        rig.unmap(blocks[gone] + 0xf000);
        assert!(rig.finds(blocks[gone]), "the node stays while its block has a page");
        rig.unmap(blocks[gone]);
        assert!(rig.state().contains(&("longest_chain", 3)), "{:?}", rig.state());
        for (number, &block) in blocks.iter().enumerate() {
            assert_eq!(rig.finds(block + 0xf000), number != gone);
        }
        assert_eq!((rig.table.counters.nodes_made, rig.table.counters.nodes_freed), (4, 1));
    }
}

#[test]
fn walkers_count_what_they_load() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    let blocks = blocks_of_one_bucket(2);
    for &block in &blocks {
        rig.map(block + 0xf000, PageSize::SIZE_4K);
    }
    assert!(rig.finds(blocks[0] + 0xf000));
    let expected = ClusteredWalkerCounters {
        bucket_loads: 1,
        nodes_visited: 2,
        nodes_passed: 1,
        entry_loads: 2,
        useless_entry_loads: 1,
        bit_updates: 1,
    };
    assert_eq!(rig.walker.counters, expected);
    assert!(rig.finds(blocks[0] + 0xf000));
    assert_eq!(rig.walker.counters.bit_updates, 1, "the page is accessed already");
    rig.access(blocks[0] + 0xf000, AccessKind::Store);
    assert_eq!(rig.walker.counters.bit_updates, 2);
    let entry = rig.table.lookup(VirtAddr(blocks[0] + 0xf000), &rig.bed.memory).unwrap();
    assert!(entry.flags.accessed && entry.flags.dirty);
}

#[test]
fn doubling_the_buckets_relinks_all_nodes_and_charges_them() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    for block in 0..512 {
        rig.map(block * BLOCK_BYTES, PageSize::SIZE_4K);
    }
    rig.walk(0);
    let node_frames = 512_u64.div_ceil(28);
    assert_eq!(rig.table.footprint().bytes, (1 + node_frames) * 4096);
    assert_eq!(rig.bed.ledger.total(LedgerCause::Table), 0);
    let generation = rig.table.registers_generation();
    // More pages of those blocks need no room; one more block does.
    rig.map(0x1000, PageSize::SIZE_4K);
    assert_eq!(rig.table.registers_generation(), generation);
    rig.map(512 * BLOCK_BYTES, PageSize::SIZE_4K);
    assert_ne!(rig.table.registers_generation(), generation);
    assert_eq!((rig.table.counters.resizes, rig.table.counters.nodes_relinked), (1, 512));
    assert_eq!(rig.bed.ledger.total(LedgerCause::Table), 512 * rig.bed.costs.table_entry);
    let footprint = rig.table.footprint();
    assert_eq!(footprint.bytes, (2 + node_frames) * 4096);
    assert_eq!(footprint.largest_contiguous, 8192);
    for block in 0..=512 {
        assert!(rig.finds(block * BLOCK_BYTES), "block {block}");
    }
    let state = rig.state();
    assert!(state.contains(&("buckets", 1024)) && state.contains(&("nodes", 513)), "{state:?}");
    assert!(rig.table.lookup(VirtAddr(0), &rig.bed.memory).unwrap().flags.accessed, "entries stay where they are");
    rig.table.destroy(&mut rig.bed.os());
    assert_eq!(rig.table.footprint().bytes, 0);
}

#[test]
fn without_contiguous_memory_chains_grow_and_no_map_fails() {
    let mut bed = TestBed::new(MEMORY).unwrap();
    scatter(&mut bed.frames, 1);
    let mut rig = Rig::on(bed, &ClusteredPageTableSpec { load_limit: 0.5, ..ClusteredPageTableSpec::default() });
    for block in 0..2048 {
        rig.map(block * BLOCK_BYTES, PageSize::SIZE_4K);
    }
    assert_eq!((rig.table.counters.resizes, rig.table.counters.resizes_forgone), (0, 2048 - 256));
    assert_eq!(rig.table.footprint().largest_contiguous, 4096);
    assert!((0..2048).all(|block| rig.finds(block * BLOCK_BYTES)));
}

#[test]
fn nodes_share_frames_and_give_them_back() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    for block in 0..29 {
        rig.map(block * BLOCK_BYTES, PageSize::SIZE_4K);
        let frames = 1 + (block + 1_u64).div_ceil(28);
        assert_eq!(rig.table.footprint().bytes, frames * 4096, "{block}");
    }
    // A node in the midst goes; the next takes its place, and sees nothing of what was there.
    rig.unmap(7 * BLOCK_BYTES);
    assert_eq!(rig.table.footprint().bytes, 3 * 4096);
    rig.map(100 * BLOCK_BYTES + 0x3000, PageSize::SIZE_4K);
    assert!(!rig.finds(100 * BLOCK_BYTES) && rig.finds(100 * BLOCK_BYTES + 0x3000));
    for block in (0..29).filter(|&block| block != 7) {
        rig.unmap(block * BLOCK_BYTES);
    }
    assert_eq!(rig.table.footprint().bytes, 2 * 4096, "one node is left, and its frame");
    rig.unmap(100 * BLOCK_BYTES + 0x3000);
    assert_eq!(rig.table.footprint().bytes, 4096, "the buckets stay");
}

#[test]
fn a_first_large_page_without_memory_changes_nothing() {
    let mut rig = Rig::new(&ClusteredPageTableSpec::default());
    rig.map(0, PageSize::SIZE_4K);
    for block in 1..28 {
        rig.map(block * BLOCK_BYTES, PageSize::SIZE_4K);
    }
    // One frame is left. The node takes it, and there is none for the buckets.
    let mut last = None;
    while let Some(frame) = rig.bed.frames.allocate(0) {
        last = Some(frame);
    }
    rig.bed.frames.free(last.unwrap(), 0);
    let before = (rig.table.footprint(), rig.table.registers(), rig.table.registers_generation(), rig.state());
    let said = rig.table.map(mapping(0x4000_0000, PageSize::SIZE_2M), &mut rig.bed.os());
    assert_eq!(said, Err(MapError::NoMemory { bytes: 4096 }));
    assert_eq!(rig.bed.frames.free_frames(), 1);
    let after = (rig.table.footprint(), rig.table.registers(), rig.table.registers_generation(), rig.state());
    assert_eq!(before, after);
    assert!((0..28).all(|block| rig.finds(block * BLOCK_BYTES)));
}

#[test]
fn pages_of_a_bucket_share_a_lock() {
    let rig = Rig::new(&ClusteredPageTableSpec::default());
    let lock = |va| rig.table.lock_of(small(va));
    let blocks = blocks_of_one_bucket(2);
    assert_eq!(lock(0), lock(0xf000));
    assert_eq!(lock(0), lock(blocks[1]));
    assert_ne!(lock(0), lock(BLOCK_BYTES));
    // There are no buckets for these yet.
    assert_eq!(rig.table.lock_of(Page::containing(VirtAddr(0), PageSize::SIZE_2M)), TableLock::Whole);
}

#[test]
fn every_counter_has_a_meaning() {
    let table = ClusteredTableCounters::DEFS.iter().chain(ClusteredTableState::DEFS);
    for def in ClusteredWalkerCounters::DEFS.iter().chain(table) {
        assert!(def.meaning.ends_with('.'), "{}: {}", def.name, def.meaning);
    }
}

#[test]
fn what_is_wrong_with_a_spec_is_said() {
    let spec =
        ClusteredPageTableSpec { block_pages: 512, initial_buckets: 256, load_limit: f64::NAN, hash_latency: u64::MAX };
    let wrong = spec.invalid("t");
    let keys = [
        "`t.block_pages` is 512",
        "`t.initial_buckets` is 256",
        "`t.load_limit` is not a finite number",
        "`t.hash_latency` is 1",
    ];
    assert_eq!(wrong.len(), keys.len(), "{wrong:?}");
    for key in keys {
        assert!(wrong.iter().any(|said| said.to_string().contains(key)), "{key}: {wrong:?}");
    }
    let odd = ClusteredPageTableSpec { block_pages: 24, initial_buckets: 1000, ..ClusteredPageTableSpec::default() };
    assert_eq!(odd.invalid("t").len(), 2, "{:?}", odd.invalid("t"));
    let spec = |block_pages, initial_buckets, load_limit| ClusteredPageTableSpec {
        block_pages,
        initial_buckets,
        load_limit,
        ..ClusteredPageTableSpec::default()
    };
    for (wrong, spec) in [
        (0, ClusteredPageTableSpec::default()),
        (0, spec(1, 512, 0.1)),
        (0, spec(256, 1 << 27, 16.0)),
        (3, spec(0, 0, 0.0)),
        (3, spec(512, 1 << 28, 16.5)),
        (3, spec(u64::MAX, u64::MAX, f64::INFINITY)),
    ] {
        assert_eq!(spec.invalid("t").len(), wrong, "{spec:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(
        seed in any::<u64>(),
        log_block in 0..=8u32,
        log_buckets in 9..=13u32,
        load_limit in 0.1..=16.0,
        scatter in prop::option::of(1..=9u32),
        va_bits in prop::sample::select(vec![48, 57]),
    ) {
        let name = "clustered-page-table";
        let mut choice = crate::catalogue().choice(name);
        choice.va_bits = va_bits;
        let spec = ClusteredPageTableSpec {
            block_pages: 1 << log_block,
            initial_buckets: 1 << log_buckets,
            load_limit,
            ..ClusteredPageTableSpec::default()
        };
        prop_assert_eq!(spec.invalid("t"), vec![]);
        choice.settings.put("clustered_page_table", &spec);
        // The first buckets need a block of their size.
        let scatter = scatter.map(|order| order.max(log_buckets - 8));
        let claims = crate::catalogue().find(name).unwrap().claims.clone();
        let options = Options { seed, ops: 600, scatter, va_bits, ..Options::of(claims) };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
