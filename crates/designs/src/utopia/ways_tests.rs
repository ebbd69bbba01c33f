//! Where the pages of RestSegs are in the caches, and what a full set does at a fault.

use super::tests::{Rig, START, small};
use super::*;
use ambulator_base::{FRAME_BYTES, MapKind, Page, Protection, VirtAddr, VmEvent};
use ambulator_memory::{BuddySpec, PhysicalMemory};
use ambulator_os::PageSizePolicy;

/// Pages of each colour, of `colours`, in a RestSeg of 512 MiB that `pages` neighbouring pages have entered.
fn colours(spec: &UtopiaSpec, pages: u64, colours: u64) -> Vec<u64> {
    let bytes = 1u64 << 30;
    let spec = UtopiaSpec { segments: vec![RestSegSpec::default()], ..spec.clone() };
    let mut segments = Segments::new(&spec, 48);
    let mut memory = PhysicalMemory::new(bytes).unwrap();
    assert!(segments.reserve(&mut BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES)));
    let mut of = vec![0; colours as usize];
    for number in 0..pages {
        let page = Page { start: VirtAddr(START + (number << 12)), size: PageSize::SIZE_4K };
        let frame = segments.take(ProcessId(0), page, false, &mut memory).unwrap();
        let (at, set, way, rest) = segments.locate(frame).unwrap();
        assert_eq!((at, rest, segments.list[0].shape.frame(segments.list[0].base, set, way)), (0, 0, frame));
        of[(frame.0 % colours) as usize] += 1;
    }
    of
}

#[test]
fn resident_pages_use_all_colours_of_the_caches() {
    let scattered = UtopiaSpec::default();
    let way_major = UtopiaSpec { free_way: FreeWay::First, frame_order: FrameOrder::WayMajor, ..scattered.clone() };
    // The 16 colours of a 1 MiB cache of 16 ways, the 32 of one of 2 MiB, and the 512 of a row of banks.
    for (pages, number) in [(2048, 16), (8192, 16), (12288, 16), (4096, 32), (65536, 512)] {
        for spec in [&scattered, &way_major] {
            let of = colours(spec, pages, number);
            let mean = pages / number;
            let even = of.iter().all(|n| (mean / 2..=2 * mean).contains(n));
            assert!(even, "{:?}, {pages} pages, {number} colours: {of:?}", spec.free_way);
        }
    }
    // What the setting is there for: the first way of every set has one offset.
    let first = UtopiaSpec { free_way: FreeWay::First, ..scattered };
    assert_eq!(colours(&first, 8192, 16).iter().filter(|n| **n > 0).count(), 1);
}

#[test]
fn a_fault_whose_set_is_full_evicts_only_if_the_spec_says_so() {
    for fault_eviction in [true, false] {
        let mut rig = Rig::new(&UtopiaSpec { fault_eviction, ..small() }, PageSizePolicy::Never, 0, 1);
        let process = rig.kernel.spawn().unwrap();
        let (start, protection, kind) = (VirtAddr(START), Protection::READ_WRITE, MapKind::Anonymous);
        rig.event(process, VmEvent::Map { start, len: 4 << 20, protection, kind });
        // The RestSeg's 2 MiB, which fill all its sets, and then as much again.
        rig.event(process, VmEvent::Touch { start, len: 4 << 20, write: true });
        rig.check();
        let is_held = |rig: &Rig, number: u64| {
            let frame = rig.kernel.page_state(process, start.offset(number << 12)).frame();
            rig.segments.lock().unwrap().locate(frame).is_some()
        };
        let held = |rig: &Rig, numbers: std::ops::Range<u64>| numbers.filter(|n| is_held(rig, *n)).count();
        assert_eq!((held(&rig, 0..512), held(&rig, 512..1024)), if fault_eviction { (0, 512) } else { (512, 0) });
        let evicted = rig.kernel.counters.migrations_out;
        assert_eq!(evicted, if fault_eviction { 512 } else { 0 });
        // A migration evicts in any case.
        let outside = if fault_eviction { start } else { start.offset(600 << 12) };
        assert!(rig.kernel.migration_hint(process, outside).unwrap());
        assert_eq!(rig.kernel.counters.migrations_out, evicted + 1);
        rig.check();
    }
}

#[test]
fn restrictive_memory_needs_evictions() {
    let spec = UtopiaSpec { restrictive_only: true, fault_eviction: false, ..small() };
    assert!(ambulator_base::Invalid::lines(&spec.invalid("u")).contains("needs `u.fault_eviction`"));
}
