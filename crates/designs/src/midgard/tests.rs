use super::front_side::FrontSideCounters;
use super::*;
use ambulator_base::{Asid, Counters, Cycle, Page, PageSize, Pfn, PhysAddr, ProcessId, Random, VirtAddr};
use ambulator_conformance::{TestBed, TestPort};
use ambulator_mmu::{FrontSide, INTERMEDIATE, Invalidation, TableRegisters};
use ambulator_os::{Mapping, PteFlags, Translations};
use std::collections::BTreeMap;

fn table(page_table: &str, bed: &mut TestBed) -> Translations {
    let choice = crate::catalogue().choice(page_table).with(Socket::FrontSide, "midgard");
    crate::catalogue().build(&choice).translations.new_process(ProcessId(0), Asid(1), &mut bed.os()).unwrap()
}

fn page(number: u64, size: PageSize) -> Page {
    Page { start: VirtAddr(number << 12), size }
}

#[test]
fn added_and_removed_areas_and_pages_match_a_map() {
    for page_table in ["radix", "lvm", "ecpt"] {
        let mut bed = TestBed::new(2 << 30).unwrap();
        let free = bed.frames.free_frames();
        let mut table = table(page_table, &mut bed);
        let mut random = Random::new(3);
        let (mut areas, mut pages) = (BTreeMap::new(), BTreeMap::new());
        let mut front = AreaLookaside::new(&MidgardSpec { l1_entries: 16, l2_entries: 4, ..MidgardSpec::default() });
        for step in 0..3000u64 {
            let start = (1 << 20) + (random.below(64) << 10);
            match random.below(4) {
                // Add or remove an area. As in the kernel, its pages are unmapped first.
                0 => {
                    let end = start + 1024;
                    let gone: Vec<u64> = pages.range(start..end).map(|(at, _)| *at).collect();
                    for at in gone {
                        let expected: Mapping = pages.remove(&at).unwrap();
                        assert_eq!(table.unmap(page(at, PageSize::SIZE_4K), &mut bed.os()), Some(expected));
                    }
                    if areas.remove(&start).is_some() {
                        table.vma_removed(VirtAddr(start << 12), 1024 << 12, &mut bed.os());
                    } else {
                        table.vma_added(VirtAddr(start << 12), 1024 << 12, &mut bed.os());
                        areas.insert(start, ());
                    }
                    front.invalidate(Invalidation::Page { asid: Asid(1), page: page(start, PageSize::SIZE_2M) });
                    front.invalidate(Invalidation::Page { asid: Asid(1), page: page(start + 512, PageSize::SIZE_2M) });
                }
                1 | 2 if areas.contains_key(&start) => {
                    let at = start + random.below(1024);
                    if let std::collections::btree_map::Entry::Vacant(free) = pages.entry(at) {
                        let flags = PteFlags { writable: true, user: true, ..PteFlags::default() };
                        let mapping = Mapping { page: page(at, PageSize::SIZE_4K), frame: Pfn(step), flags };
                        table.map(mapping, &mut bed.os()).unwrap();
                        free.insert(mapping);
                    }
                }
                _ => {}
            }
            let at = (1 << 20) + random.below(64 << 10);
            let va = VirtAddr(at << 12 | 0x123);
            assert_eq!(table.lookup(va, &bed.memory), pages.get(&at).copied(), "{va}");
            // The hardware translates exactly the addresses in areas, as the bytes do.
            let registers = TableRegisters(table.intermediate_registers());
            front.load_registers(Asid(1), &registers);
            let located = front.locate(&registers, va, &bed.memory);
            let mut port = TestPort::new(&mut bed.memory, 100);
            let translated = front.translate(va, Cycle(1000 * step), &mut port).map(|(at, _)| at);
            assert_eq!((translated, translated.is_some()), (located, areas.contains_key(&(at >> 10 << 10))), "{va}");
            assert!(translated.is_none_or(|at| INTERMEDIATE.contains(&at) && at.0 & 0xfff == 0x123));
        }
        for &at in pages.keys() {
            table.unmap(page(at, PageSize::SIZE_4K), &mut bed.os()).unwrap();
        }
        table.destroy(&mut bed.os());
        assert_eq!(bed.frames.free_frames(), free, "{page_table}");
    }
}

#[test]
fn midgard_addresses_are_unique_and_keep_the_alignment_of_huge_pages() {
    let mut space = MidgardSpace::default();
    let mut last = 0;
    for (start, pages, vma) in [(5, 10, 10), (1 << 18, 1 << 19, 1 << 20), (700, 3, 9000), (513, 512, 512)] {
        let place = space.allocate(ambulator_base::Vpn(start), pages, vma).unwrap();
        let (low, high) = place.room;
        assert!(low >= last && low + vma <= place.base.0 && place.base.0 + pages + vma <= high, "{place:?}");
        assert_eq!(place.base.0 % 512, start % 512);
        last = high;
    }
    assert_eq!(space.allocate(ambulator_base::Vpn(0), 1 << 30, 1), None, "the space has an end");
}

#[test]
fn areas_grow_in_place_and_split() {
    let mut bed = TestBed::new(1 << 30).unwrap();
    let mut table = table("radix", &mut bed);
    let front = AreaLookaside::new(&MidgardSpec::default());
    let at = |table: &Translations, bed: &TestBed, number: u64| {
        front.locate(&TableRegisters(table.intermediate_registers()), VirtAddr(number << 12), &bed.memory)
    };
    table.vma_added(VirtAddr(100 << 12), 10 << 12, &mut bed.os());
    let first = at(&table, &bed, 100).unwrap();
    for step in 0..50 {
        let start = 110 + 10 * step;
        let vma = (VirtAddr(100 << 12), VirtAddr((start + 10) << 12));
        table.vma_extended(VirtAddr(start << 12), 10 << 12, vma, &mut bed.os());
    }
    assert_eq!(at(&table, &bed, 609), Some(PhysAddr(first.0 + (509 << 12))));
    // Downwards too; another VMA beside it has an area of its own.
    table.vma_extended(VirtAddr(90 << 12), 10 << 12, (VirtAddr(90 << 12), VirtAddr(610 << 12)), &mut bed.os());
    assert_eq!(at(&table, &bed, 90), Some(PhysAddr(first.0 - (10 << 12))));
    table.vma_added(VirtAddr(610 << 12), 10 << 12, &mut bed.os());
    assert_ne!(at(&table, &bed, 610), Some(PhysAddr(first.0 + (510 << 12))));
    table.vma_removed(VirtAddr(200 << 12), 10 << 12, &mut bed.os());
    assert_eq!(at(&table, &bed, 205), None);
    assert_eq!(at(&table, &bed, 210), Some(PhysAddr(first.0 + (110 << 12))));
    // A new area in the hole has new addresses: the old ones may still be in caches.
    table.vma_added(VirtAddr(200 << 12), 10 << 12, &mut bed.os());
    assert_ne!(at(&table, &bed, 205), Some(PhysAddr(first.0 + (105 << 12))));
}

/// A heap of 2 GiB that grows by 132 KiB, and as many mappings downwards: one VMA each for the kernel.
#[test]
fn a_vma_that_grows_piece_by_piece_has_few_areas() {
    for down in [false, true] {
        let mut bed = TestBed::new(1 << 30).unwrap();
        let mut table = table("radix", &mut bed);
        let mut front = AreaLookaside::new(&MidgardSpec::default());
        let (step, steps, base) = (33, 16_000, 1 << 30);
        for i in 0..steps {
            let (start, vma) = match down {
                false => (base + i * step, (base, base + (i + 1) * step)),
                true => (base - (i + 1) * step, (base - (i + 1) * step, base)),
            };
            let vma = (VirtAddr(vma.0 << 12), VirtAddr(vma.1 << 12));
            table.vma_extended(VirtAddr(start << 12), step << 12, vma, &mut bed.os());
        }
        front.load_registers(Asid(1), &TableRegisters(table.intermediate_registers()));
        let mut random = Random::new(7);
        for i in 0..4000u64 {
            let within = random.below(steps * step);
            let page = if down { base - 1 - within } else { base + within };
            let mut port = TestPort::new(&mut bed.memory, 100);
            assert!(front.translate(VirtAddr(page << 12), Cycle(1000 * i), &mut port).is_some());
        }
        // As many walks as areas: the second-level buffer of 16 holds them all.
        let walks = front.counters.walks;
        assert!((2..=12).contains(&walks), "{walks} walks, down: {down}");
    }
}

#[test]
fn an_invalidation_of_any_page_drops_its_area() {
    for changed in [100, 150, 199] {
        let mut bed = TestBed::new(1 << 30).unwrap();
        let mut table = table("radix", &mut bed);
        let mut front = AreaLookaside::new(&MidgardSpec::default());
        let translate = |table: &Translations, bed: &mut TestBed, front: &mut AreaLookaside, number: u64| {
            front.load_registers(Asid(1), &TableRegisters(table.intermediate_registers()));
            let mut port = TestPort::new(&mut bed.memory, 100);
            front.translate(VirtAddr(number << 12), Cycle(1 << 30), &mut port).map(|(at, _)| at)
        };
        table.vma_added(VirtAddr(100 << 12), 100 << 12, &mut bed.os());
        let old = translate(&table, &mut bed, &mut front, 120).unwrap();
        table.vma_removed(VirtAddr(100 << 12), 100 << 12, &mut bed.os());
        table.vma_added(VirtAddr(100 << 12), 100 << 12, &mut bed.os());
        // Pages that are not in the area drop nothing.
        for number in [99, 200] {
            front.invalidate(Invalidation::Page { asid: Asid(1), page: page(number, PageSize::SIZE_4K) });
        }
        assert_eq!(translate(&table, &mut bed, &mut front, 121), Some(old.offset(1 << 12)));
        front.invalidate(Invalidation::Page { asid: Asid(1), page: page(changed, PageSize::SIZE_4K) });
        let new = front.locate(&TableRegisters(table.intermediate_registers()), VirtAddr(122 << 12), &bed.memory);
        assert_ne!(new, Some(old.offset(2 << 12)), "new areas have new addresses");
        assert_eq!(translate(&table, &mut bed, &mut front, 122), new, "page {changed} changed");
    }
}

#[test]
fn a_map_that_fails_for_lack_of_memory_leaves_no_area() {
    let mut bed = TestBed::new(8 << 20).unwrap();
    let free = bed.frames.free_frames();
    let mut table = table("radix", &mut bed);
    let (mut mapped, mut refused, mut others) = (Vec::new(), 0, Vec::new());
    let front = AreaLookaside::new(&MidgardSpec::default());
    // No VMA is announced: each page is its own area and needs its own nodes.
    for number in (0..1 << 35).step_by((1 << 27) + (1 << 18) + 512) {
        let page = page(number, PageSize::SIZE_4K);
        let flags = PteFlags { writable: true, user: true, ..PteFlags::default() };
        match table.map(Mapping { page, frame: Pfn(9), flags }, &mut bed.os()) {
            Ok(()) => mapped.push(page),
            Err(error) => {
                assert!(matches!(error, ambulator_os::MapError::NoMemory { .. }), "{error:?}");
                let registers = TableRegisters(table.intermediate_registers());
                assert_eq!(front.locate(&registers, page.start, &bed.memory), None);
                refused += 1;
            }
        }
        assert_eq!(table.footprint().entries, mapped.len() as u64);
        let taken = free - bed.frames.free_frames() - 8 * others.len() as u64;
        assert_eq!(table.footprint().bytes, taken * FRAME_BYTES);
        // Memory runs out gradually.
        others.extend(bed.frames.allocate(3));
    }
    assert!(mapped.len() > 50 && refused > 20, "{} mapped, {refused} refused", mapped.len());
    for page in mapped {
        table.unmap(page, &mut bed.os()).unwrap();
    }
    table.destroy(&mut bed.os());
    assert_eq!(bed.frames.free_frames(), free - 8 * others.len() as u64);
}

#[test]
fn each_error_of_a_spec_is_reported_and_counters_have_meanings() {
    assert_eq!(MidgardSpec::default().invalid("m"), vec![]);
    let wrong = MidgardSpec { l1_entries: 0, l2_entries: 5000, ..MidgardSpec::default() };
    assert_eq!(wrong.invalid("m").len(), 2, "{:?}", wrong.invalid("m"));
    assert_eq!(MidgardSpec { mlb_entries: 7, ..MidgardSpec::default() }.invalid("m").len(), 1);
    for def in FrontSideCounters::DEFS {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
    }
}
