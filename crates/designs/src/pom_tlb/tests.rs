use super::*;
use ambulator_base::{Page, Pfn};
use ambulator_conformance::{TestBed, TestPort};
use ambulator_mmu::Translation;

fn rig(spec: &PomSpec) -> (TestBed, PomLookaside) {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let mut pom = PomTlb::new(spec);
    assert!(pom.reserve(&mut bed.frames));
    (bed, PomLookaside::new(Arc::new(Mutex::new(pom))))
}

fn found(frame: u64, size: PageSize) -> Translation {
    Translation { frame: Pfn(frame), size, writable: true, executable: false, dirty: false, ranged: false }
}

fn fill(tlb: &mut PomLookaside, bed: &mut TestBed, va: u64, found: Translation) {
    let walk = FinishedWalk { found, entry: None, dram_loads: 0, ready: Cycle(0) };
    tlb.refill(VirtAddr(va), &walk, &mut TestPort::new(&mut bed.memory, 100));
}

/// The translation, and the number of lines loaded.
fn probe(tlb: &mut PomLookaside, bed: &mut TestBed, va: u64) -> (Option<u64>, usize) {
    let mut port = TestPort::new(&mut bed.memory, 100);
    let answer = tlb.probe(VirtAddr(va), AccessKind::Load, Cycle(1000), &mut port);
    let loads = port.loads.len();
    assert!(loads == 0 || answer.ready == Cycle(1100), "lines are loaded in parallel");
    (answer.found.map(|found| found.physical(VirtAddr(va)).0), loads)
}

#[test]
fn entries_are_bytes_of_both_page_sizes_in_two_lines_per_set() {
    let (mut bed, mut tlb) = rig(&PomSpec { entries: 64, ..PomSpec::default() });
    fill(&mut tlb, &mut bed, 0x5000, found(77, PageSize::SIZE_4K));
    assert_eq!(probe(&mut tlb, &mut bed, 0x5123), (Some(77 << 12 | 0x123), 2));
    assert_eq!(probe(&mut tlb, &mut bed, 0x6000), (None, 2));
    fill(&mut tlb, &mut bed, 7 << 21, found(512 * 9, PageSize::SIZE_2M));
    assert_eq!(probe(&mut tlb, &mut bed, (7 << 21) + 0x12345).0, Some((9 << 21) + 0x12345));
    // With large pages in use, both sets are probed.
    assert_eq!(probe(&mut tlb, &mut bed, 0x6000), (None, 4));
    tlb.load_registers(Asid(3), &TableRegisters::default());
    assert_eq!(probe(&mut tlb, &mut bed, 0x5123).0, None, "another address space");
}

#[test]
fn full_sets_evict_an_entry_and_shootdowns_clear_theirs() {
    let (mut bed, mut tlb) = rig(&PomSpec { entries: 64, ..PomSpec::default() });
    // Nine pages of one set of eight.
    for i in 0..9u64 {
        fill(&mut tlb, &mut bed, (5 + 8 * i) << 12, found(100 + i, PageSize::SIZE_4K));
    }
    let present = (0..9u64).filter(|i| probe(&mut tlb, &mut bed, (5 + 8 * i) << 12).0.is_some()).count();
    assert_eq!(present, 8);
    assert_eq!(probe(&mut tlb, &mut bed, (5 + 64) << 12).0, Some(108 << 12), "the latest is present");
    tlb.invalidate(Invalidation::Page {
        asid: Asid(0),
        page: Page { start: VirtAddr((5 + 64) << 12), size: PageSize::SIZE_4K },
    });
    assert_eq!(probe(&mut tlb, &mut bed, (5 + 64) << 12).0, None);
    // The same page with another frame: the invalidated entry is cleared, the new one stays.
    fill(&mut tlb, &mut bed, 0x9000, found(1, PageSize::SIZE_4K));
    tlb.invalidate(Invalidation::Page {
        asid: Asid(0),
        page: Page { start: VirtAddr(0x9000), size: PageSize::SIZE_4K },
    });
    fill(&mut tlb, &mut bed, 0x9000, found(2, PageSize::SIZE_4K));
    assert_eq!(probe(&mut tlb, &mut bed, 0x9000).0, Some(2 << 12));
    tlb.invalidate(Invalidation::Asid(Asid(0)));
    assert_eq!(probe(&mut tlb, &mut bed, 0x9000).0, None);
    assert!(tlb.counters.cleared > 8);
}

#[test]
fn an_entry_outlives_the_identifier_that_a_core_had_for_its_address_space() {
    let (mut bed, mut tlb) = rig(&PomSpec { entries: 64, ..PomSpec::default() });
    for asid in [Asid(1), Asid::MAX] {
        tlb.load_registers(asid, &TableRegisters::default());
        fill(&mut tlb, &mut bed, 0x5000, found(u64::from(asid.0), PageSize::SIZE_4K));
    }
    tlb.recycle(Asid(1));
    for (asid, frame) in [(Asid(1), Some(1)), (Asid(2), None), (Asid::MAX, Some(u64::from(Asid::MAX.0)))] {
        tlb.load_registers(asid, &TableRegisters::default());
        assert_eq!(probe(&mut tlb, &mut bed, 0x5000).0, frame.map(|frame| frame << 12), "{asid:?}");
    }
    tlb.invalidate(Invalidation::Asid(Asid::MAX));
    assert_eq!(probe(&mut tlb, &mut bed, 0x5000).0, None);
    tlb.load_registers(Asid(1), &TableRegisters::default());
    assert_eq!(probe(&mut tlb, &mut bed, 0x5000).0, Some(1 << 12));
}

#[test]
fn each_error_of_a_spec_is_reported() {
    assert_eq!(PomSpec::default().invalid("p"), vec![]);
    assert_eq!(PomSpec { ways: 5, ..PomSpec::default() }.invalid("p").len(), 1);
    assert_eq!(PomSpec { entries: 1000, ..PomSpec::default() }.invalid("p").len(), 1);
    for def in PomCounters::DEFS {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
    }
}
