use super::*;
use ambulator_base::{Page, PhysAddr};
use ambulator_conformance::{TestBed, TestPort};
use ambulator_os::PteFlags;

const FLAGS: PteFlags =
    PteFlags { writable: true, executable: false, user: true, accessed: true, dirty: false, ranged: false };

/// A line of entries at 0x1000, and the translation that a walk for its page `at` finds.
fn line(bed: &mut TestBed, frames: [u64; 8], flags: PteFlags, at: usize) -> Translation {
    for (i, frame) in frames.into_iter().enumerate() {
        let pte = if frame == 0 { Pte(0) } else { Pte::leaf(Pfn(frame), flags, false) };
        bed.memory.write(PhysAddr(0x1000 + 8 * i as u64), pte.0);
    }
    Pte::leaf(Pfn(frames[at]), flags, false).translation(PageSize::SIZE_4K)
}

fn frame_of(tlb: &mut ClusteredTlb, page: u64, bed: &mut TestBed) -> Option<u64> {
    let mut port = TestPort::new(&mut bed.memory, 10);
    let answer = tlb.probe(VirtAddr(page << 12 | 0x321), AccessKind::Load, Cycle(1000), &mut port);
    assert_eq!(answer.ready, Cycle(1007));
    answer.found.map(|found| found.frame.0)
}

fn fill(tlb: &mut ClusteredTlb, page: u64, found: &Translation, bed: &mut TestBed) {
    let mut port = TestPort::new(&mut bed.memory, 10);
    let walk = FinishedWalk { found: *found, entry: Some(PhysAddr(0x1000)), dram_loads: 0, ready: Cycle(0) };
    tlb.refill(VirtAddr(page << 12), &walk, &mut port);
}

#[test]
fn pages_of_one_cluster_share_an_entry_in_any_order() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let mut tlb = ClusteredTlb::new(&ClusteredSpec::default());
    // Frames 800 to 807 in another order, one absent, one elsewhere.
    let frames = [803, 801, 0, 900, 807, 800, 806, 802];
    let found = line(&mut bed, frames, FLAGS, 5);
    fill(&mut tlb, 64 + 5, &found, &mut bed);
    for (i, frame) in frames.into_iter().enumerate() {
        let expected = (800..808).contains(&frame).then_some(frame);
        assert_eq!(frame_of(&mut tlb, 64 + i as u64, &mut bed), expected, "page {i}");
    }
    assert_eq!((tlb.counters.fills, tlb.counters.pages), (1, 6));
    // The page with a frame elsewhere gets its own entry.
    let other = line(&mut bed, frames, FLAGS, 3);
    fill(&mut tlb, 64 + 3, &other, &mut bed);
    assert_eq!((frame_of(&mut tlb, 64 + 3, &mut bed), frame_of(&mut tlb, 64, &mut bed)), (Some(900), Some(803)));
    // One page is invalidated; the others stay.
    tlb.invalidate(Invalidation::Page {
        asid: Asid(0),
        page: Page { start: VirtAddr(64 << 12), size: PageSize::SIZE_4K },
    });
    assert_eq!((frame_of(&mut tlb, 64, &mut bed), frame_of(&mut tlb, 65, &mut bed)), (None, Some(801)));
    tlb.invalidate(Invalidation::Page { asid: Asid(0), page: Page { start: VirtAddr(0), size: PageSize::SIZE_2M } });
    assert_eq!(frame_of(&mut tlb, 65, &mut bed), None);
}

#[test]
fn pages_not_accessed_or_with_other_rights_are_left_out() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let mut tlb = ClusteredTlb::new(&ClusteredSpec::default());
    let frames = [800, 801, 802, 803, 804, 805, 806, 807];
    let found = line(&mut bed, frames, FLAGS, 0);
    let unused = Pte::leaf(Pfn(801), PteFlags { accessed: false, ..FLAGS }, false);
    let fixed = Pte::leaf(Pfn(802), PteFlags { writable: false, ..FLAGS }, false);
    let dirty = Pte::leaf(Pfn(803), PteFlags { dirty: true, ..FLAGS }, false);
    for (i, pte) in [(1, unused), (2, fixed), (3, dirty)] {
        bed.memory.write(PhysAddr(0x1000 + 8 * i), pte.0);
    }
    fill(&mut tlb, 64, &found, &mut bed);
    assert_eq!((frame_of(&mut tlb, 65, &mut bed), frame_of(&mut tlb, 66, &mut bed)), (None, None));
    let mut dirty_of = |page: u64| {
        let mut port = TestPort::new(&mut bed.memory, 10);
        tlb.probe(VirtAddr(page << 12), AccessKind::Store, Cycle(1000), &mut port).found.map(|found| found.dirty)
    };
    assert_eq!((dirty_of(67), dirty_of(68)), (Some(true), Some(false)));
}

#[test]
fn the_least_recently_used_entry_is_evicted_and_another_process_hits_nothing() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    let mut tlb = ClusteredTlb::new(&ClusteredSpec { entries: 4, ..ClusteredSpec::default() });
    for cluster in 0..4u64 {
        let base = 800 + 8 * cluster;
        let found = line(&mut bed, std::array::from_fn(|i| base + i as u64), FLAGS, 0);
        fill(&mut tlb, 8 * cluster, &found, &mut bed);
    }
    assert_eq!(frame_of(&mut tlb, 3, &mut bed), Some(803));
    let found = line(&mut bed, std::array::from_fn(|i| 1600 + i as u64), FLAGS, 0);
    fill(&mut tlb, 8000, &found, &mut bed);
    assert_eq!((frame_of(&mut tlb, 3, &mut bed), frame_of(&mut tlb, 9, &mut bed)), (Some(803), None));
    tlb.load_registers(Asid(2), &TableRegisters::default());
    assert_eq!(frame_of(&mut tlb, 3, &mut bed), None);
    tlb.load_registers(Asid(0), &TableRegisters::default());
    tlb.invalidate(Invalidation::Asid(Asid(0)));
    assert_eq!(frame_of(&mut tlb, 3, &mut bed), None);
    assert_eq!(ClusteredSpec { entries: 0, ..ClusteredSpec::default() }.invalid("c").len(), 1);
    for def in ClusteredCounters::DEFS {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
    }
}
