use super::*;
use ambulator_base::{Cycle, PageSize, Pfn, PhysAddr, VirtAddr};
use ambulator_conformance::{TestBed, TestPort};
use ambulator_os::PteFlags;
use ambulator_structures::pte::Pte;

const FLAGS: PteFlags =
    PteFlags { writable: true, executable: false, user: true, accessed: true, dirty: false, ranged: false };

fn miss(page: u64, served: Option<i8>) -> TlbMiss {
    TlbMiss { page, frames: 1, pc: VirtAddr(0x40_0000), served }
}

fn after(agile: &mut Agile, page: u64) -> Vec<u64> {
    let mut proposals = Proposals::default();
    agile.miss(&miss(page, None), &mut proposals);
    proposals.pages().to_vec()
}

/// The table of the paper: which answers of the three fake queues (H2P, MASP, STP) move which counter.
#[test]
fn counters_follow_from_who_would_have_had_the_page() {
    let (no, yes): (&[u64], &[u64]) = (&[], &[7]);
    for (fakes, enable, first, second) in [
        ([no, no, no], -1, 0, 0),
        ([no, no, yes], 1, -1, 1),
        ([no, yes, no], 1, -1, -1),
        ([no, yes, yes], 1, -1, 0),
        ([yes, no, no], 1, 1, 0),
        ([yes, no, yes], 1, 0, 1),
        ([yes, yes, no], 1, 0, -1),
        ([yes, yes, yes], 1, 0, 0),
    ] {
        let mut selection = Selection::new(&AgileSpec::default());
        selection.set_counters([100, 20, 2]);
        selection.set_fakes(fakes);
        selection.judge(7);
        let moved = [100 + enable, 20 + first, 2 + second].map(|value| value as u32);
        assert_eq!(selection.counters(), moved, "{fakes:?}");
    }
}

#[test]
fn the_highest_bits_choose_and_counters_saturate() {
    let mut selection = Selection::new(&AgileSpec::default());
    for (counters, expected) in [
        ([127, 63, 3], Choice::None),
        ([128, 32, 0], Choice::Distances),
        ([128, 31, 2], Choice::Neighbours),
        ([255, 31, 1], Choice::Strides),
    ] {
        selection.set_counters(counters);
        assert_eq!(selection.choice(), expected, "{counters:?}");
    }
    selection.set_counters([255, 63, 3]);
    selection.set_fakes([&[7], &[], &[]]);
    selection.judge(7);
    selection.set_fakes([&[], &[], &[7]]);
    (0..70).for_each(|_| _ = selection.judge(7));
    assert_eq!(selection.counters(), [255, 0, 3]);
    selection.set_fakes([&[], &[], &[]]);
    (0..300).for_each(|_| _ = selection.judge(7));
    assert_eq!(selection.counters(), [0, 0, 3]);
}

/// A stream of pages far apart from one instruction: H2P and MASP foresee each page, STP none.
#[test]
fn a_stream_with_a_stride_is_prefetched_once_the_fake_queues_were_right() {
    let mut agile = Agile::new(&AgileSpec::default());
    let mut first = None;
    for number in 0..200 {
        let proposed = after(&mut agile, 10_000 + 100 * number);
        if !proposed.is_empty() {
            first = first.or(Some(number));
            assert_eq!(proposed, [10_000 + 100 * number + 100]);
        }
    }
    // MASP is right from the third miss on, and `enable_pref` needs 128 of its 255.
    assert_eq!(first, Some(2 + 127));
    let counters = &agile.counters;
    assert_eq!((counters.chose_none, counters.chose_strides), (129, 71));
    assert_eq!(
        [counters.fake_hits_strides, counters.fake_hits_distances, counters.fake_hits_neighbours],
        [198, 197, 0]
    );
    agile.switch();
    assert_eq!(after(&mut agile, 50_000), [0; 0], "its pages are forgotten");
}

#[test]
fn pages_without_order_are_not_prefetched() {
    let mut agile = Agile::new(&AgileSpec::default());
    let mut random = ambulator_base::Random::new(5);
    for _ in 0..2000 {
        assert_eq!(after(&mut agile, random.below(1 << 30)), [0; 0]);
    }
    assert_eq!(agile.counters.chose_none, 2000);
}

/// A line of entries at 0x1000, all present and accessed but those of frame 0 (absent) and 1 (not accessed).
fn line(bed: &mut TestBed, frames: [u64; 8]) {
    for (i, frame) in frames.into_iter().enumerate() {
        let flags = PteFlags { accessed: frame != 1, ..FLAGS };
        let pte = if frame == 0 { Pte(0) } else { Pte::leaf(Pfn(frame), flags, false) };
        bed.memory.write(PhysAddr(0x1000 + 8 * i as u64), pte.0);
    }
}

/// Page, frame and mark of what a walk for `page` brings for free.
fn walked(agile: &mut Agile, page: u64, size: PageSize, bed: &mut TestBed) -> Vec<(u64, u64, i8)> {
    let found = Pte::leaf(Pfn(1 << 20), FLAGS, false).translation(size);
    let entry = Some(PhysAddr(0x1000 + 8 * (page % 8)));
    let walk = FinishedWalk { found, entry, dram_loads: 0, ready: Cycle(0) };
    let mut free = FreeTranslations::default();
    agile.walked(page, &walk, &mut TestPort::new(&mut bed.memory, 10), &mut free);
    free.iter().map(|(page, found, mark)| (page, found.frame.0, mark)).collect()
}

#[test]
fn distances_that_were_used_often_come_into_the_queue() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    line(&mut bed, [800, 801, 802, 803, 0, 805, 1, 807]);
    let mut agile = Agile::new(&AgileSpec { sampler_entries: 6, ..AgileSpec::default() });
    agile.free.set_uses(1, 101);
    agile.free.set_uses(2, 101);
    agile.free.set_uses(-3, 100);
    // Page 64 + 3: 1 ahead is absent, 2 ahead is there, 3 ahead is not accessed; 4 ahead and the three before
    // are watched by the sampler.
    assert_eq!(walked(&mut agile, 67, PageSize::SIZE_4K, &mut bed), [(69, 805, 2)]);
    let mut proposals = Proposals::default();
    for (page, served, distance, uses) in
        [(64, None, -3, 101), (64, None, -3, 101), (71, None, 4, 1), (69, Some(2), 2, 102), (70, Some(0), 3, 0)]
    {
        agile.miss(&miss(page, served), &mut proposals);
        assert_eq!(agile.free.uses(distance), uses, "page {page}");
    }
    assert_eq!(agile.counters.sampler_hits, 2, "a page leaves the sampler when it is found there");
    assert_eq!(walked(&mut agile, 67, PageSize::SIZE_4K, &mut bed), [(64, 800, -3), (69, 805, 2)]);
    assert_eq!(walked(&mut agile, 67, PageSize::SIZE_2M, &mut bed), [], "a large page has another line");
}

#[test]
fn all_counters_halve_when_one_reaches_its_maximum() {
    let mut agile = Agile::new(&AgileSpec::default());
    agile.free.set_uses(1, 1021);
    agile.free.set_uses(-7, 9);
    let mut proposals = Proposals::default();
    agile.miss(&miss(5, Some(1)), &mut proposals);
    assert_eq!((agile.free.uses(1), agile.free.uses(-7), agile.counters.halvings), (1022, 9, 0));
    agile.miss(&miss(5, Some(1)), &mut proposals);
    assert_eq!((agile.free.uses(1), agile.free.uses(-7), agile.counters.halvings), (511, 4, 1));
}

#[test]
fn without_sampling_all_or_none_are_free() {
    let mut bed = TestBed::new(64 << 20).unwrap();
    line(&mut bed, [800, 801, 802, 803, 0, 805, 1, 807]);
    let with = |free| Agile::new(&AgileSpec { free, ..AgileSpec::default() });
    assert_eq!(walked(&mut with(Free::None), 64, PageSize::SIZE_4K, &mut bed), []);
    let all: Vec<u64> =
        walked(&mut with(Free::All), 66, PageSize::SIZE_4K, &mut bed).into_iter().map(|(page, ..)| page).collect();
    assert_eq!(all, [64, 65, 67, 69, 71]);
    assert_eq!(AgileSpec { entries: 6, ..AgileSpec::default() }.invalid("tlb_agile").len(), 1);
    for def in AgileCounters::DEFS {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
    }
}
