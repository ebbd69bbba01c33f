//! Invalidation: no structure uses an invalidated translation again, and all other translations stay.

use crate::support::{self, Bench, FakeLookaside, FakeSpeculator, NEARER, Parts};
use ambulator_base::{AccessKind, Asid, Cycle, Page, PageSize, PhysAddr, VirtAddr};
use ambulator_hardware::EntryLevel;
use ambulator_mmu::{INTERMEDIATE, Invalidation, MemoryPort, Translated};

const PAGE: u64 = 0x4000_0000;
/// Pages that share the L1 set of `PAGE` (16 sets), and not its L2 set.
const L1_CONFLICT: u64 = 16 * 4096;

fn page(asid: u16, va: u64, size: PageSize) -> Invalidation {
    Invalidation::Page { asid: Asid(asid), page: Page::containing(VirtAddr(va), size) }
}

fn bench() -> Bench {
    let bench = Bench::new(|_| Parts::default());
    for asid in [1, 2] {
        for i in 0..8 {
            bench.table.map(asid, PAGE + i * L1_CONFLICT, u64::from(asid) * 1000 + i, PageSize::SIZE_4K, true);
        }
    }
    bench
}

#[test]
fn invalidation_reaches_both_levels_and_the_recent_translations() {
    for what in [page(1, PAGE, PageSize::SIZE_4K), Invalidation::Asid(Asid(1)), Invalidation::All] {
        for access in [AccessKind::Load, AccessKind::Fetch] {
            let mut bench = bench();
            for _ in 0..3 {
                assert_eq!(bench.access(PAGE, access, 1 << 40).map(|(at, _)| at), Some(1000 << 12));
            }
            bench.table.map(1, PAGE, 7, PageSize::SIZE_4K, true);
            bench.mmu.invalidate(what);
            assert_eq!(bench.recall(PAGE, access), None, "{what:?}: the recent translation");
            assert_eq!(bench.access(PAGE, access, 1 << 40).map(|(at, _)| at), Some(7 << 12), "{what:?} {access:?}");
        }
    }
}

#[test]
fn invalidation_reaches_entries_of_the_second_level_only() {
    for what in [page(1, PAGE, PageSize::SIZE_4K), Invalidation::Asid(Asid(1)), Invalidation::All] {
        let mut bench = bench();
        for i in 0..8 {
            bench.load(PAGE + i * L1_CONFLICT);
        }
        assert_eq!((bench.load(PAGE), bench.mmu.counters.l2_tlb_hits), (Some(1000 << 12), 1));
        for i in 1..8 {
            bench.load(PAGE + i * L1_CONFLICT);
        }
        bench.table.unmap(1, PAGE);
        bench.mmu.invalidate(what);
        assert_eq!(bench.load(PAGE), None, "{what:?}");
    }
}

#[test]
fn other_translations_stay() {
    let mut bench = bench();
    let all = |bench: &mut Bench| {
        for asid in [1, 2] {
            bench.switch_to(asid);
            for i in 0..2 {
                assert_eq!(bench.load(PAGE + i * L1_CONFLICT), Some((u64::from(asid) * 1000 + i) << 12));
            }
        }
        bench.mmu.counters.walks
    };
    assert_eq!(all(&mut bench), 4);
    bench.mmu.invalidate(page(1, PAGE, PageSize::SIZE_4K));
    assert_eq!(all(&mut bench), 5);
    bench.mmu.invalidate(Invalidation::Asid(Asid(2)));
    assert_eq!(all(&mut bench), 7);
    bench.mmu.invalidate(Invalidation::All);
    assert_eq!(all(&mut bench), 11);
}

#[test]
fn a_large_page_is_invalidated_with_any_part_of_it_and_its_parts_with_it() {
    let mut bench = Bench::new(|_| Parts::default());
    bench.table.map(1, PAGE, 512, PageSize::SIZE_2M, true);
    assert_eq!(bench.load(PAGE + 0x5123), Some((517 << 12) + 0x123));
    bench.table.map(1, PAGE, 1024, PageSize::SIZE_2M, true);
    bench.mmu.invalidate(page(1, PAGE + 0x7000, PageSize::SIZE_4K));
    assert_eq!(bench.load(PAGE + 0x5123), Some((1029 << 12) + 0x123));
    // The reverse: base pages become one large page.
    let base = PAGE + (2 << 20);
    bench.table.map(1, base + 0x3000, 9, PageSize::SIZE_4K, true);
    assert_eq!(bench.load(base + 0x3000), Some(9 << 12));
    bench.table.unmap(1, base + 0x3000);
    bench.table.map(1, base, 2048, PageSize::SIZE_2M, true);
    bench.mmu.invalidate(page(1, base, PageSize::SIZE_2M));
    assert_eq!(bench.load(base + 0x3000), Some(2051 << 12));
}

#[test]
fn a_recent_translation_ends_with_any_event_that_may_change_it() {
    let mut bench = bench();
    let warm = |bench: &mut Bench| {
        bench.switch_to(1);
        bench.load(PAGE);
        bench.load(PAGE);
        assert_eq!(bench.recall(PAGE + 8, AccessKind::Store), Some((1000 << 12) + 8));
    };
    warm(&mut bench);
    assert_eq!(bench.recall(PAGE + L1_CONFLICT, AccessKind::Load), None, "another page of the set");
    // A context switch: the page now belongs to another process.
    bench.switch_to(2);
    assert_eq!(bench.recall(PAGE, AccessKind::Load), None);
    assert_eq!(bench.load(PAGE), Some(2000 << 12));
    // The kernel has run.
    warm(&mut bench);
    bench.mmu.forget_recent();
    assert_eq!(bench.recall(PAGE, AccessKind::Load), None);
    // An eviction from the set of the L1 TLB.
    warm(&mut bench);
    bench.load(PAGE + L1_CONFLICT);
    assert_eq!(bench.recall(PAGE, AccessKind::Load), None);
    // A change of protection: after the shootdown a store is translated again, and faults.
    warm(&mut bench);
    bench.table.map(1, PAGE, 1000, PageSize::SIZE_4K, false);
    bench.mmu.invalidate(page(1, PAGE, PageSize::SIZE_4K));
    bench.load(PAGE);
    bench.load(PAGE);
    assert_eq!(bench.recall(PAGE, AccessKind::Load), Some(1000 << 12));
    assert_eq!(bench.recall(PAGE, AccessKind::Store), None, "what the entry forbids is not remembered as allowed");
    assert_eq!(bench.access(PAGE, AccessKind::Store, 1 << 41), None);
}

#[test]
fn every_socket_receives_an_invalidation() {
    let mut bench = Bench::new(|log| Parts {
        lookaside: Some(FakeLookaside { found: None, latency: 1, holds_walk: false, log: log.clone() }),
        speculator: Some(FakeSpeculator { guess: PhysAddr(0), computes: None, log: log.clone() }),
        ..Parts::default()
    });
    bench.mmu.invalidate(page(1, PAGE, PageSize::SIZE_4K));
    assert_eq!(bench.log.take(), ["walker invalidates", "speculator invalidates", "lookaside invalidates"]);
    assert_eq!(bench.mmu.counters.invalidations, 1);
    // So does an identifier that goes to another address space.
    bench.mmu.recycle(Asid(1));
    assert_eq!(
        bench.log.take(),
        ["walker invalidates address space", "speculator invalidates", "lookaside invalidates"]
    );
}

#[test]
fn an_identifier_that_goes_to_another_address_space_takes_the_entries_of_its_own_with_it() {
    for access in [AccessKind::Load, AccessKind::Fetch] {
        let mut bench = bench();
        for asid in [1, 2, 1] {
            bench.switch_to(asid);
            assert_eq!(bench.access(PAGE, access, 1 << 40).map(|(at, _)| at), Some((u64::from(asid) * 1000) << 12));
        }
        bench.mmu.recycle(Asid(1));
        for asid in [1, 2] {
            bench.table.map(asid, PAGE, 7, PageSize::SIZE_4K, true);
        }
        assert_eq!(bench.recall(PAGE, access), None);
        assert_eq!(bench.access(PAGE, access, 1 << 40).map(|(at, _)| at), Some(7 << 12));
        bench.switch_to(2);
        assert_eq!(bench.access(PAGE, access, 1 << 40).map(|(at, _)| at), Some(2000 << 12), "the other's stay");
    }
}

#[test]
fn a_page_that_the_hypervisor_moves_leaves_the_nested_tlb_and_the_combined_translations() {
    let guest = 0x20_0000_u64;
    for what in [page(9, guest, PageSize::SIZE_4K), Invalidation::Asid(Asid(9)), Invalidation::All] {
        let mut bench = Bench::new(|_| Parts { nested: true, ..Parts::default() });
        bench.table.map(1, PAGE, guest >> 12, PageSize::SIZE_4K, true);
        bench.hypervisor.map(9, support::ENTRY.0, support::ENTRY.0 >> 12, PageSize::SIZE_4K, true);
        bench.hypervisor.map(9, guest, 300, PageSize::SIZE_4K, true);
        for _ in 0..3 {
            assert_eq!(bench.load(PAGE), Some(300 << 12));
        }
        bench.hypervisor.map(9, guest, 400, PageSize::SIZE_4K, true);
        bench.mmu.invalidate_hypervisor(what);
        assert_eq!(bench.recall(PAGE, AccessKind::Load), None);
        assert_eq!(bench.load(PAGE), Some(400 << 12), "{what:?}");
        // A page that the hypervisor unmaps causes a hypervisor fault.
        bench.hypervisor.unmap(9, guest);
        bench.mmu.invalidate_hypervisor(what);
        let fault = bench.with_port(|mmu, port| mmu.translate(VirtAddr(PAGE), AccessKind::Load, Cycle(1 << 40), port));
        let Translated::Fault { cause, .. } = fault else { panic!("{what:?}: {fault:?}") };
        assert_eq!(cause, ambulator_mmu::FaultCause::Hypervisor(PhysAddr(guest)));
    }
}

#[test]
fn what_the_hypervisor_moves_leaves_the_lookaside_which_holds_combined_translations() {
    let mut bench = Bench::new(|log| Parts {
        lookaside: Some(FakeLookaside { found: None, latency: 1, holds_walk: false, log: log.clone() }),
        nested: true,
        ..Parts::default()
    });
    bench.mmu.invalidate_hypervisor(page(9, 0x20_0000, PageSize::SIZE_4K));
    assert!(bench.log.take().contains(&"lookaside invalidates"));
}

#[test]
fn both_sides_of_an_intermediate_address_space_drop_changed_translations() {
    let (old, new) = (INTERMEDIATE.start.0, INTERMEDIATE.start.0 + (1 << 30));
    for what in [page(1, PAGE, PageSize::SIZE_4K), Invalidation::Asid(Asid(1)), Invalidation::All] {
        let mut bench = Bench::new(|_| Parts { front_side: true, ..Parts::default() });
        let front = |bench: &mut Bench| {
            bench.with_port(|mmu, port| mmu.front_side(VirtAddr(PAGE), Cycle(1 << 40), port)).map(|(at, _)| at.0)
        };
        let back = |bench: &mut Bench, at: u64| {
            let at = PhysAddr(at);
            match bench.with_port(|mmu, port| mmu.back_side(at, AccessKind::Load, Cycle(1 << 40), port)) {
                Translated::Physical { at, .. } => Some(at.0),
                Translated::Fault { .. } => None,
            }
        };
        bench.areas.map(1, PAGE, old >> 12, PageSize::SIZE_4K, true);
        bench.table.map(1, old, 50, PageSize::SIZE_4K, true);
        for _ in 0..2 {
            assert_eq!((front(&mut bench), back(&mut bench, old)), (Some(old), Some(50 << 12)));
        }
        assert_eq!(bench.mmu.counters.walks, 1, "the back-side TLB holds the page");
        // The page moves to another frame, and the VMA to another intermediate address.
        bench.table.map(1, old, 60, PageSize::SIZE_4K, true);
        bench.areas.map(1, PAGE, new >> 12, PageSize::SIZE_4K, true);
        bench.log.take();
        bench.mmu.invalidate_sides(what);
        // The walker knows pages by their intermediate addresses, which the shootdown does not name.
        assert!(bench.log.take().contains(&"walker invalidates address space"), "{what:?}");
        assert_eq!(front(&mut bench), Some(new), "{what:?}: before the caches");
        assert_eq!(back(&mut bench, old), Some(60 << 12), "{what:?}: after the caches");
        // So do those of an address space that loses its identifier on this core.
        bench.table.map(1, old, 70, PageSize::SIZE_4K, true);
        bench.areas.map(1, PAGE, old >> 12, PageSize::SIZE_4K, true);
        bench.mmu.recycle(Asid(1));
        assert_eq!((front(&mut bench), back(&mut bench, old)), (Some(old), Some(70 << 12)));
    }
}

#[test]
fn loads_of_a_walker_at_the_last_level_do_not_take_the_way_from_the_core() {
    let at = PhysAddr(0x7_0000);
    let loads = |entry, nearer| {
        let mut bench = Bench::new(|_| Parts::default());
        let mut load = |now: u64| {
            bench.with_port(|_, port| {
                (port.entry, port.nearer) = (entry, nearer);
                port.load(at, Cycle(now)).ready.0 - now
            })
        };
        [load(1 << 20), load(2 << 20)]
    };
    // From main memory, and then from the last level.
    let far = loads(EntryLevel::Llc, 0);
    assert_eq!(loads(EntryLevel::Llc, NEARER), far.map(|cycles| cycles - NEARER));
    assert!(loads(EntryLevel::Llc, 10_000)[1] == 0, "never before it is sent");
    let mut bench = Bench::new(|_| Parts { front_side: true, ..Parts::default() });
    bench.table.map(1, INTERMEDIATE.start.0, 50, PageSize::SIZE_4K, true);
    let near = bench.with_port(|mmu, port| {
        let before = port.nearer;
        mmu.back_side(INTERMEDIATE.start, AccessKind::Load, Cycle(1 << 40), port);
        (before, port.nearer)
    });
    assert_eq!(near, (0, NEARER), "only the walk after the last level is nearer");
}
