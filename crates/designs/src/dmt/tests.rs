use super::*;
use ambulator_base::{
    AccessKind, Asid, CounterDef, CounterSink, Cycle, FRAME_BYTES, Page, PageSize, Pfn, PhysAddr, Protection, VirtAddr,
};
use ambulator_conformance::{Options, TestBed, TestPort};
use ambulator_mmu::{HypervisorStage, Invalidation, NestedSpec, PwcSpec, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{LedgerCause, Mapping, PageTable, PteFlags};
use proptest::prelude::*;
use std::collections::BTreeMap;

const START: u64 = 0x5555_4000_0000;
const LATENCY: u64 = 100;
const MIB: u64 = 1 << 20;
const TABLE: u64 = 2 * MIB;

struct Rig {
    bed: TestBed,
    tree: Box<dyn PageTable>,
    walker: DmtWalker,
    now: u64,
}

/// TEAs for all VMAs of 4 MiB and more.
fn small() -> DmtSpec {
    DmtSpec { min_vma: 4 * MIB, ..DmtSpec::default() }
}

fn rig(spec: &DmtSpec) -> Rig {
    let bed = TestBed::new(512 * MIB).unwrap();
    rig_in(spec, bed)
}

fn rig_in(spec: &DmtSpec, mut bed: TestBed) -> Rig {
    let tree = Box::new(Tree::new(Teas::new(spec, None), 48, &mut bed.os()).unwrap());
    Rig { bed, tree, walker: DmtWalker::new(spec, &PwcSpec::default()), now: 0 }
}

#[derive(Default)]
struct Reported(BTreeMap<&'static str, u64>);

impl CounterSink for Reported {
    fn counter(&mut self, _prefix: &str, def: &'static CounterDef, value: u64) {
        self.0.insert(def.name, value);
    }
}

impl Rig {
    fn vma(&mut self, start: u64, len: u64) {
        self.tree.vma_added(VirtAddr(start), len, &mut self.bed.os());
    }

    fn gone(&mut self, start: u64, len: u64) {
        self.tree.vma_removed(VirtAddr(start), len, &mut self.bed.os());
    }

    fn map(&mut self, va: u64, size: PageSize) {
        let page = Page::containing(VirtAddr(va), size);
        let frame = Pfn((1 << 30) + page.start.vpn().0 % (1 << 20));
        let flags = PteFlags { accessed: true, ..PteFlags::user(Protection::READ_WRITE) };
        self.tree.map(Mapping { page, frame, flags }, &mut self.bed.os()).unwrap();
    }

    fn unmap(&mut self, va: u64, size: PageSize) {
        let page = Page::containing(VirtAddr(va), size);
        self.tree.unmap(page, &mut self.bed.os()).unwrap();
        // The kernel's shootdown.
        self.walker.invalidate(Invalidation::Page { asid: Asid(1), page });
    }

    /// A walk, and the addresses of its loads.
    fn walk(&mut self, va: u64) -> (Walk, Vec<PhysAddr>) {
        self.now += 10_000;
        self.walker.load_registers(Asid(1), &TableRegisters(self.tree.registers()));
        let mut port = TestPort::new(&mut self.bed.memory, LATENCY);
        let walk = self.walker.walk(VirtAddr(va), AccessKind::Load, Cycle(self.now), &mut port);
        (walk, port.loads)
    }

    /// The registers that the kernel loads, behind the epoch.
    fn registers(&self) -> Vec<[u64; 3]> {
        self.tree.registers()[3..].as_chunks::<3>().0.to_vec()
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counters = Reported::default();
        self.tree.report("t", &mut counters);
        counters.0[name]
    }
}

#[test]
fn a_walk_is_one_load_at_the_computed_address() {
    let mut rig = rig(&small());
    rig.vma(START, 64 * MIB);
    for offset in [5 * 4096, 40 * MIB, 0, 64 * MIB - 4096] {
        rig.map(START + offset, PageSize::SIZE_4K);
    }
    let [[start, end, tea]] = rig.registers()[..] else { panic!("{:?}", rig.registers()) };
    // Present, pages of 4 KiB.
    assert_eq!((start, end), (START | 1, START + 64 * MIB));
    for offset in [5 * 4096, 40 * MIB, 0, 64 * MIB - 4096] {
        let (walk, loads) = rig.walk(START + offset + 0x123);
        // The entry of page n is 8n bytes behind that of page 0.
        assert_eq!(loads, [PhysAddr(tea + offset / 4096 * 8)]);
        // One cycle for the registers, one load.
        assert_eq!((walk.accesses, walk.ready), (1, Cycle(rig.now + 1 + LATENCY)));
        let WalkOutcome::Mapped(found) = walk.outcome else { panic!("{walk:?}") };
        assert_eq!(found.frame, Pfn((1 << 30) + ((START + offset) >> 12) % (1 << 20)));
        assert_eq!(rig.walker.leaf_pte_address(), Some(loads[0]), "the line has the entries of neighbours");
    }
    // 32 frames of entries, and one directory and one table of directory pointers, which are TEAs too.
    assert_eq!(rig.counter("tea_bytes"), (32 + 1 + 1) * FRAME_BYTES);
    assert_eq!(rig.counter("tables_in_tea"), 3 + 1 + 1);
    assert_eq!(rig.counter("tables_scattered"), 0);
}

#[test]
fn both_page_sizes_are_loaded_at_once_where_both_are_in_use() {
    let mut rig = rig(&small());
    rig.vma(START, 64 * MIB);
    rig.map(START, PageSize::SIZE_4K);
    assert_eq!(rig.walk(START).1.len(), 1, "no page of 2 MiB yet");
    rig.map(START + 6 * MIB, PageSize::SIZE_2M);
    for (va, size) in [(START, PageSize::SIZE_4K), (START + 7 * MIB, PageSize::SIZE_2M)] {
        let (walk, loads) = rig.walk(va);
        assert_eq!((walk.accesses, loads.len(), walk.ready), (2, 2, Cycle(rig.now + 1 + LATENCY)));
        assert!(matches!(walk.outcome, WalkOutcome::Mapped(found) if found.size == size));
    }
    rig.unmap(START, PageSize::SIZE_4K);
    assert_eq!(rig.walk(START + 7 * MIB).1.len(), 1, "no page of 4 KiB any more");
    // Without a page: one load that finds nothing, and the three of the x86 walk down to the directory.
    let (walk, loads) = rig.walk(START);
    assert_eq!((walk.outcome, loads.len()), (WalkOutcome::NotMapped, 1 + 3));
}

#[test]
fn what_no_register_covers_is_walked() {
    let spec = DmtSpec { registers: 1, ..small() };
    let mut rig = rig(&spec);
    let (large, little) = (START, START + (1 << 36));
    rig.vma(little, 8 * MIB);
    rig.vma(large, 64 * MIB);
    let tiny = START + (1 << 37);
    rig.vma(tiny, 2 * MIB);
    for va in [large, little, tiny] {
        rig.map(va, PageSize::SIZE_4K);
    }
    assert_eq!(rig.registers().len(), 1, "the largest has the only register");
    assert_eq!(rig.walk(large).1.len(), 1);
    assert_eq!(rig.walk(little).1.len(), 4, "cold: four levels");
    // The second and third walk share the PML4 entry, which a walk cache holds.
    assert_eq!(rig.walk(tiny).1.len(), 3);
    assert_eq!(rig.walker.counters_for_test(), [1, 2, 1, 1, 2]);
    assert_eq!(rig.counter("tables_scattered"), 2, "a VMA below the threshold, its last table and its directory");
}

#[test]
fn a_vma_grows_in_place_or_its_tables_move() {
    let mut rig = rig(&small());
    rig.vma(START, 8 * MIB);
    rig.map(START, PageSize::SIZE_4K);
    rig.map(START + 7 * MIB, PageSize::SIZE_4K);
    let before = rig.registers()[0][2];
    let (base, end) = (Pfn(before >> 12), Pfn((before >> 12) + 4));
    // The directory and the directory pointers are next to it: it must move.
    assert!(!rig.bed.frames.is_free(end));
    rig.walk(START + (1 << 30)); // nothing: fills the walk caches down to the directory
    rig.vma(START + 8 * MIB, 4 * MIB);
    assert_eq!((rig.counter("migrations"), rig.counter("grown_in_place"), rig.counter("tables_moved")), (1, 0, 2));
    // 6 tables, and room for as many again.
    assert_eq!(rig.counter("tea_bytes"), (12 + 1 + 1) * FRAME_BYTES);
    assert!((0..4).all(|i| rig.bed.frames.is_free(base.offset(i))), "the former frames are free");
    let [_, limit, tea] = rig.registers()[0];
    assert_eq!((limit, tea == before), (START + 12 * MIB, false));
    for offset in [0, 7 * MIB] {
        assert_eq!(rig.walk(START + offset).1, [PhysAddr(tea + offset / 4096 * 8)]);
        // The radix tree has the same entry.
        let mut x86 = ambulator_structures::tree::TreeWalker::new(&PwcSpec::default());
        x86.load_registers(Asid(1), &TableRegisters(rig.tree.registers()));
        let mut port = TestPort::new(&mut rig.bed.memory, LATENCY);
        x86.walk(VirtAddr(START + offset), AccessKind::Load, Cycle(0), &mut port);
        assert_eq!(port.loads[3], PhysAddr(tea + offset / 4096 * 8));
    }
    // Within the room: nothing moves.
    rig.vma(START + 12 * MIB, 12 * MIB);
    assert_eq!((rig.counter("migrations"), rig.counter("grown_in_place")), (1, 1));
    assert_eq!(rig.registers()[0][1..], [START + 24 * MIB, tea]);
    // Beyond it: the frames behind it are free, and become part of it.
    assert!(rig.bed.frames.is_free(Pfn((tea >> 12) + 12)));
    rig.vma(START + 24 * MIB, 2 * MIB);
    assert_eq!((rig.counter("migrations"), rig.counter("grown_in_place")), (1, 2));
    assert_eq!(rig.registers()[0][1..], [START + 26 * MIB, tea]);
}

#[test]
fn walk_caches_forget_tables_that_moved() {
    // No registers: every walk is one of the tree.
    let mut rig = rig(&DmtSpec { registers: 0, ..small() });
    rig.vma(START, 8 * MIB);
    rig.map(START, PageSize::SIZE_4K);
    assert_eq!(rig.walk(START).1.len(), 4);
    assert_eq!(rig.walk(START).1.len(), 1, "the walk caches hold the directory's entry");
    rig.vma(START + 8 * MIB, 8 * MIB);
    assert_eq!(rig.counter("migrations"), 1);
    let (walk, loads) = rig.walk(START);
    assert!(matches!(walk.outcome, WalkOutcome::Mapped(_)), "not the frame where the table was");
    assert_eq!(loads.len(), 4);
}

#[test]
fn tables_that_moved_cost_the_cores_that_there_are() {
    let paid_on = |cores| {
        let mut rig = rig(&small());
        rig.bed.cores = cores;
        rig.vma(START, 8 * MIB);
        rig.map(START, PageSize::SIZE_4K);
        let before = rig.bed.ledger.total(LedgerCause::Shootdown);
        rig.vma(START + 8 * MIB, 8 * MIB);
        assert_eq!(rig.counter("migrations"), 1);
        rig.bed.ledger.total(LedgerCause::Shootdown) - before
    };
    let costs = ambulator_os::CostTable::default();
    assert_eq!(paid_on(1), costs.invalidate);
    assert_eq!(paid_on(4), costs.shootdown + 3 * costs.shootdown_core);
}

#[test]
fn neighbours_share_a_tea_up_to_the_bubble_threshold() {
    // 50 tables, a hole of one, 49 tables: 1% of bubbles.
    let mut rig = rig(&small());
    rig.vma(START, 50 * TABLE);
    rig.map(START, PageSize::SIZE_4K);
    rig.vma(START + 51 * TABLE, 49 * TABLE);
    rig.map(START + 51 * TABLE, PageSize::SIZE_4K);
    assert_eq!(
        rig.registers().iter().map(|own| own[..2].to_vec()).collect::<Vec<_>>(),
        [[START | 1, START + 100 * TABLE]]
    );
    assert_eq!(rig.walk(START + 51 * TABLE).1.len(), 1);
    // A hole of three: 3 of 112 is too many.
    rig.vma(START + 103 * TABLE, 9 * TABLE);
    rig.map(START + 103 * TABLE, PageSize::SIZE_4K);
    assert_eq!(rig.registers().len(), 2);
    assert_eq!((rig.counter("migrations"), rig.counter("teas_created")), (1, 1 + 1 + 2));
}

#[test]
fn a_tea_shrinks_and_splits_with_its_vma() {
    let mut rig = rig(&small());
    let free = rig.bed.frames.free_frames();
    rig.vma(START, 100 * TABLE);
    let pages = [0, 30 * TABLE, 70 * TABLE, 99 * TABLE];
    for offset in pages {
        rig.map(START + offset, PageSize::SIZE_4K);
    }
    let [_, _, tea] = rig.registers()[0];
    // One table of a hundred: the bubble stays.
    rig.gone(START + 40 * TABLE, TABLE);
    assert_eq!((rig.counter("shrunk"), rig.registers().len()), (0, 1));
    // Ten of them: two TEAs, where they were.
    rig.gone(START + 41 * TABLE, 9 * TABLE);
    assert_eq!(rig.counter("tea_bytes"), (90 + 2) * FRAME_BYTES);
    let expected =
        [[(START + 50 * TABLE) | 1, START + 100 * TABLE, tea + 50 * FRAME_BYTES], [START | 1, START + 40 * TABLE, tea]];
    assert_eq!(rig.registers(), expected);
    for offset in pages {
        assert_eq!(rig.walk(START + offset).1, [PhysAddr(tea + offset / 4096 * 8)]);
    }
    // The hole fills again.
    rig.vma(START + 40 * TABLE, 10 * TABLE);
    assert_eq!(rig.registers().len(), 1);
    for offset in pages {
        assert_eq!(rig.walk(START + offset).1.len(), 1);
        rig.unmap(START + offset, PageSize::SIZE_4K);
    }
    rig.gone(START, 100 * TABLE);
    assert_eq!((rig.counter("teas"), rig.counter("tea_bytes")), (0, 0));
    assert_eq!(rig.bed.frames.free_frames(), free);
}

#[test]
fn without_contiguous_memory_a_tea_is_halved_and_at_last_there_is_none() {
    // No 16 adjacent free frames: at most 15.
    let mut bed = TestBed::new(64 * MIB).unwrap();
    ambulator_conformance::scatter(&mut bed.frames, 4);
    let spec = small();
    let mut rig = rig_in(&spec, bed);
    rig.vma(START, 24 * TABLE);
    for table in 0..24 {
        rig.map(START + table * TABLE, PageSize::SIZE_4K);
    }
    assert_eq!((rig.counter("halved"), rig.registers().len()), (1, 2));
    assert!((0..24).all(|table| rig.walk(START + table * TABLE).1.len() == 1));
    // Not two adjacent ones: the parts would be below the smallest VMA. Directories are single frames.
    let mut bed = TestBed::new(16 * MIB).unwrap();
    for frame in (1..bed.frames.total_frames()).step_by(2) {
        bed.frames.allocate_at(Pfn(frame), 0);
    }
    let mut rig = rig_in(&spec, bed);
    rig.vma(START, 8 * TABLE);
    rig.map(START, PageSize::SIZE_4K);
    assert_eq!((rig.counter("tables_without_tea"), rig.registers().len()), (8, 0));
    assert_eq!(rig.walk(START).1.len(), 4);
}

/// A VMA that appears, goes, or gets and loses pages.
#[derive(Clone, Debug)]
enum Step {
    Add(u64, u64),
    Remove(u64, u64),
    Map(u64, bool),
    Unmap(u64),
}

/// Addresses by halves of tables, in 40 tables.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u64..80, 1u64..40).prop_map(|(at, len)| Step::Add(at, len)),
        1 => (0u64..80, 1u64..30).prop_map(|(at, len)| Step::Remove(at, len)),
        6 => (0u64..80, any::<bool>()).prop_map(|(at, large)| Step::Map(at, large)),
        2 => (0u64..80).prop_map(Step::Unmap),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_registers_cover_is_one_load_for_each_size_and_all_else_is_walked(
        steps in prop::collection::vec(step(), 1..80),
        registers in prop_oneof![Just(16u32), Just(2)],
        bubbles in prop_oneof![Just(0.02), Just(0.3)],
        scatter in prop_oneof![Just(None), Just(Some(3u32))],
    ) {
        let spec = DmtSpec { registers, bubbles, ..small() };
        let mut bed = TestBed::new(64 * MIB).unwrap();
        if let Some(order) = scatter {
            ambulator_conformance::scatter(&mut bed.frames, order);
        }
        let free = bed.frames.free_frames();
        let mut rig = rig_in(&spec, bed);
        // By half of a table: it belongs to a VMA. By address: the size of the page.
        let (mut vmas, mut pages) = ([false; 130], BTreeMap::<u64, PageSize>::new());
        let at = |half: u64| START - 3 * MIB + half * MIB;
        for step in steps {
            match step {
                Step::Add(from, len) => {
                    let to = (from + len).min(120);
                    if !vmas[from as usize..to as usize].contains(&true) {
                        vmas[from as usize..to as usize].fill(true);
                        rig.vma(at(from), at(to) - at(from));
                    }
                }
                Step::Remove(from, len) => {
                    for half in from..(from + len).min(120) {
                        if !std::mem::replace(&mut vmas[half as usize], false) {
                            continue;
                        }
                        let inside: Vec<(u64, PageSize)> = pages.range(at(half)..at(half + 1)).map(|(va, size)| (*va, *size)).collect();
                        for (va, size) in inside {
                            pages.remove(&va);
                            rig.unmap(va, size);
                        }
                        rig.gone(at(half), MIB);
                    }
                }
                Step::Map(half, large) => {
                    let va = at(half);
                    let size = if large && va.is_multiple_of(TABLE) { PageSize::SIZE_2M } else { PageSize::SIZE_4K };
                    let covered = va & !(TABLE - 1);
                    let free = match size {
                        PageSize::SIZE_2M => vmas[half as usize + 1] && pages.range(covered..covered + TABLE).next().is_none(),
                        _ => !pages.contains_key(&va) && pages.get(&covered) != Some(&PageSize::SIZE_2M),
                    };
                    if vmas[half as usize] && free {
                        pages.insert(va, size);
                        rig.map(va, size);
                    }
                }
                Step::Unmap(half) => {
                    if let Some(size) = pages.remove(&at(half)) {
                        rig.unmap(at(half), size);
                    }
                }
            }
            let registers = rig.registers();
            for half in 0..80 {
                let va = at(half);
                let covering = registers.iter().filter(|own| own[0] & !0xfff <= va && va < own[1]);
                let sizes: Vec<u64> = covering.map(|own| own[0] >> 1 & 3).collect();
                let held = pages.get(&va).or_else(|| {
                    pages.get(&(va & !(TABLE - 1))).filter(|size| **size == PageSize::SIZE_2M)
                });
                let (walk, loads) = rig.walk(va);
                match (&walk.outcome, held) {
                    (WalkOutcome::NotMapped, None) => {}
                    (WalkOutcome::Mapped(found), Some(size)) => {
                        prop_assert_eq!(found.size, *size);
                        let page = Page::containing(VirtAddr(va), *size);
                        prop_assert_eq!(found.frame, Pfn((1 << 30) + page.start.vpn().0 % (1 << 20)));
                        let direct = sizes.contains(&u64::from(*size == PageSize::SIZE_2M));
                        if direct {
                            prop_assert_eq!(loads.len(), sizes.len());
                        } else {
                            prop_assert!(loads.len() > sizes.len());
                        }
                    }
                    other => prop_assert!(false, "{va:#x}: {other:?}"),
                }
            }
        }
        for (va, size) in std::mem::take(&mut pages) {
            rig.unmap(va, size);
        }
        rig.tree.destroy(&mut rig.bed.os());
        prop_assert_eq!(rig.bed.frames.free_frames(), free);
        prop_assert_eq!(rig.tree.footprint().bytes, 0);
    }

    #[test]
    fn conforms(
        seed in any::<u64>(),
        five in any::<bool>(),
        registers in 0u32..20,
        min_vma in prop_oneof![Just(4096u64), Just(4 << 20)],
        scatter in prop::option::of(3u32..12),
    ) {
        let mut choice = crate::catalogue().choice("dmt");
        choice.va_bits = if five { 57 } else { 48 };
        choice.settings.put("dmt", &DmtSpec { registers, min_vma, ..DmtSpec::default() });
        let options = Options { seed, ops: 300, va_bits: choice.va_bits, max_loads: 8, scatter, ..Options::default() };
        let summary = ambulator_conformance::check(|| crate::catalogue().build(&choice), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}

#[test]
fn in_a_virtual_machine_a_walk_is_three_loads() {
    // Guest-physical and host-physical addresses are equal, so that one memory has the bytes of both.
    let mut bed = TestBed::new(512 * MIB).unwrap();
    let spec = small();
    let new = |bed: &mut TestBed| -> Box<dyn PageTable> {
        Box::new(Tree::new(Teas::new(&spec, None), 48, &mut bed.os()).unwrap())
    };
    let (mut guest, mut host) = (new(&mut bed), new(&mut bed));
    host.vma_added(VirtAddr(0), 512 * MIB, &mut bed.os());
    guest.vma_added(VirtAddr(START), 64 * MIB, &mut bed.os());
    let flags = PteFlags { accessed: true, ..PteFlags::user(Protection::READ_WRITE) };
    let page = Page::containing(VirtAddr(START + 5 * MIB), PageSize::SIZE_4K);
    guest.map(Mapping { page, frame: Pfn(0x1_2345), flags }, &mut bed.os()).unwrap();
    let guest_registers = guest.registers();
    let guest_entry = guest_registers[5] + 5 * MIB / 4096 * 8;
    for frame in [Pfn(guest_entry >> 12), Pfn(0x1_2345)] {
        let page = Page { start: VirtAddr(frame.start().0), size: PageSize::SIZE_4K };
        host.map(Mapping { page, frame, flags }, &mut bed.os()).unwrap();
    }
    let host_registers = host.registers();
    let host_tea = host_registers[5];
    let nested = NestedSpec { tlb_entries: 0, ..NestedSpec::default() };
    let walker = || Box::new(DmtWalker::new(&spec, &PwcSpec::default()));
    let mut stage = HypervisorStage::new(&nested, walker());
    stage.load_registers(Asid(1), &TableRegisters(host_registers));
    let mut own = walker();
    own.load_registers(Asid(1), &TableRegisters(guest_registers));
    let mut port = TestPort::new(&mut bed.memory, LATENCY);
    let walk = stage.walk(own.as_mut(), page.start, AccessKind::Load, Cycle(0), &mut port);
    assert!(matches!(walk.outcome, WalkOutcome::Mapped(found) if found.frame == Pfn(0x1_2345)), "{walk:?}");
    // The host's entry for the guest's TEA, the guest's entry, and the host's entry for the page.
    let expected = [host_tea + (guest_entry >> 12) * 8, guest_entry, host_tea + 0x1_2345 * 8];
    assert_eq!(port.loads, expected.map(PhysAddr));
    // A cycle for the registers of each of the three.
    assert_eq!((walk.accesses, walk.ready), (3, Cycle(3 * (1 + LATENCY))));
}
