//! TLB prefetching: walks that nobody waits for, what they cost, and what must not become of them.

use crate::support::{Bench, FakePrefetcher, Parts, WALK};
use ambulator_base::{AccessKind, Asid, CounterDef, CounterSink, Page, PageSize, Pfn, VirtAddr};
use ambulator_mmu::{Invalidation, MmuSpec, PrefetchCounters, PrefetchQueueSpec, TlbMiss, Translation};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const PAGE: u64 = 0x1234_5000;
/// Cycles from an access to its walk: look-ups of the L1 TLB, the L2 TLB, and the prefetch queue.
const BEFORE: u64 = 1 + 12 + 2;

/// Address space 1 has the pages from `PAGE` on in the frames from 70 on.
fn bench_with(distances: &[i64], parts: Parts) -> (Bench, Arc<Mutex<Vec<TlbMiss>>>) {
    let misses = Arc::default();
    let own = FakePrefetcher {
        distances: distances.to_vec(),
        misses: Arc::clone(&misses),
        ..parts.prefetcher.unwrap_or_default()
    };
    let bench = Bench::new(|_| Parts { prefetcher: Some(own), ..parts });
    for page in 0..8 {
        bench.table.map(1, PAGE + page * 4096, 70 + page, PageSize::SIZE_4K, true);
    }
    (bench, misses)
}

fn bench(distances: &[i64]) -> Bench {
    bench_with(distances, Parts::default()).0
}

fn counters(bench: &Bench) -> &PrefetchCounters {
    bench.mmu.prefetch_counters().expect("a prefetcher is in its socket")
}

/// Counters by name.
#[derive(Default)]
struct Reported(BTreeMap<String, u64>);

impl Reported {
    fn of(bench: &Bench) -> Reported {
        let mut all = Reported::default();
        bench.mmu.report("mmu", &mut all);
        all
    }
}

impl CounterSink for Reported {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        self.0.insert(format!("{prefix}.{}", def.name), value);
    }
}

fn load(bench: &mut Bench, page: u64, now: u64) -> Option<(u64, u64)> {
    bench.access(PAGE + page * 4096, AccessKind::Load, now).map(|(at, ready)| (at >> 12, ready))
}

#[test]
fn a_prefetched_page_costs_a_look_up_of_the_queue_and_moves_into_the_tlbs() {
    let (mut bench, misses) = bench_with(&[1], Parts::default());
    // The prefetch walk begins when the walk has ended.
    assert_eq!(load(&mut bench, 0, 0), Some((70, BEFORE + WALK)));
    assert_eq!(load(&mut bench, 1, 1000), Some((71, 1000 + BEFORE)));
    assert_eq!(load(&mut bench, 1, 1100), Some((71, 1100)), "it is in the L1 TLB now");
    // A hit in the queue prefetches too.
    assert_eq!(load(&mut bench, 2, 2000), Some((72, 2000 + BEFORE)));
    let told: Vec<_> = misses.lock().unwrap().iter().map(|miss| (miss.page - (PAGE >> 12), miss.served)).collect();
    assert_eq!(told, [(0, None), (1, Some(0)), (2, Some(0))]);
    let mmu = &bench.mmu.counters;
    assert_eq!((mmu.walks, mmu.walk_accesses, mmu.prefetch_hits, mmu.l2_tlb_misses), (1, 1, 2, 3));
    let own = counters(&bench);
    assert_eq!((own.probes, own.hits, own.late, own.walks, own.walk_accesses, own.filled), (3, 2, 0, 3, 3, 3));
    assert_eq!(own.walk_cycles, 3 * WALK);
}

#[test]
fn a_page_whose_prefetch_walk_is_in_flight_is_waited_for() {
    let mut bench = bench(&[1]);
    load(&mut bench, 0, 0);
    // The prefetch walk lasts from cycle 215 to 415; the queue is looked up until cycle 315.
    assert_eq!(load(&mut bench, 1, 300), Some((71, BEFORE + 2 * WALK)));
    assert_eq!((counters(&bench).late, bench.mmu.counters.walks), (1, 1));
}

#[test]
fn prefetches_of_absent_pages_are_dropped_and_fault_nowhere() {
    let mut bench = bench(&[8, -1, 1 << 35, -(1 << 40)]);
    assert!(load(&mut bench, 0, 0).is_some());
    let own = counters(&bench);
    assert_eq!((own.proposed, own.outside, own.walks, own.unmapped, own.filled), (3, 1, 2, 2, 0), "one is below 0");
    assert_eq!(bench.mmu.counters.faults, 0);
    // A page that faults teaches nothing until it is there.
    assert_eq!(load(&mut bench, 20, 1000), None);
    assert_eq!(counters(&bench).proposed, 3);
}

#[test]
fn a_page_that_forbids_the_access_is_dropped() {
    let mut bench = bench(&[1]);
    bench.table.map(1, PAGE + 4096, 71, PageSize::SIZE_4K, false);
    bench.access(PAGE, AccessKind::Store, 0).unwrap();
    assert_eq!((counters(&bench).forbidden, counters(&bench).filled), (1, 0));
    // After a load it is not; then a store to it faults as it does without prefetching.
    load(&mut bench, 4, 1000);
    bench.table.map(1, PAGE + 5 * 4096, 75, PageSize::SIZE_4K, false);
    bench.mmu.invalidate(page(1, 5));
    load(&mut bench, 3, 2000);
    bench.mmu.invalidate(page(1, 4));
    load(&mut bench, 4, 3000);
    assert_eq!(bench.access(PAGE + 5 * 4096, AccessKind::Store, 5000), None);
    assert_eq!(bench.mmu.counters.faults, 1);
}

fn page(asid: u16, number: u64) -> Invalidation {
    Invalidation::Page { asid: Asid(asid), page: Page::containing(VirtAddr(PAGE + number * 4096), PageSize::SIZE_4K) }
}

#[test]
fn a_store_to_a_clean_prefetched_page_walks_to_set_its_dirty_bit() {
    let mut bench = bench(&[1]);
    bench.table.map_clean(1, PAGE + 4096, 71);
    load(&mut bench, 0, 0);
    assert_eq!(bench.access(PAGE + 4096, AccessKind::Store, 1000), Some((71 << 12, 1000 + BEFORE + WALK)));
    assert_eq!((bench.mmu.counters.dirty_assists, bench.mmu.counters.walks), (1, 1));
}

#[test]
fn a_shootdown_reaches_prefetches_in_flight_and_other_address_spaces_do_not_hit() {
    for what in [page(1, 1), Invalidation::Asid(Asid(1)), Invalidation::All] {
        let mut bench = bench(&[1]);
        load(&mut bench, 0, 0);
        // Until cycle 415 the prefetch walk of the next page is in flight.
        bench.mmu.invalidate(what);
        bench.table.map(1, PAGE + 4096, 99, PageSize::SIZE_4K, true);
        assert_eq!(load(&mut bench, 1, 300).map(|(frame, _)| frame), Some(99), "{what:?}");
        assert_eq!((counters(&bench).invalidated, counters(&bench).hits), (1, 0));
    }
    let mut bench = bench(&[1]);
    load(&mut bench, 0, 0);
    bench.switch_to(2);
    assert_eq!(load(&mut bench, 1, 1000), None, "address space 2 has no pages");
    bench.switch_to(1);
    assert_eq!(load(&mut bench, 1, 2000), Some((71, 2000 + BEFORE)), "its own entry has stayed");
    bench.mmu.recycle(Asid(1));
    bench.table.map(1, PAGE + 2 * 4096, 99, PageSize::SIZE_4K, true);
    assert_eq!(load(&mut bench, 2, 3000).map(|(frame, _)| frame), Some(99));
}

#[test]
fn prefetch_walks_hold_walkers_and_crowd_one_another_out() {
    // One walker: a miss waits for the prefetch walk in flight, and not for those that would come later.
    let queue = PrefetchQueueSpec { walkers: 1, pending: 2, ..PrefetchQueueSpec::default() };
    let one = MmuSpec { walkers: 1, prefetch_queue: queue.clone(), ..MmuSpec::default() };
    let (mut bench, _) = bench_with(&[1], Parts { spec: Some(one), ..Parts::default() });
    load(&mut bench, 0, 0);
    assert_eq!(load(&mut bench, 6, 300), Some((76, BEFORE + 3 * WALK)), "from cycle 415 on");
    assert_eq!(bench.mmu.counters.walker_queue_cycles, BEFORE + 2 * WALK - 300 - BEFORE);
    // Two of four may be held, and two may be in flight: the third proposal is dropped.
    let four = MmuSpec { prefetch_queue: PrefetchQueueSpec { walkers: 2, ..queue.clone() }, ..MmuSpec::default() };
    let (mut bench, _) = bench_with(&[1, 2, 3], Parts { spec: Some(four), ..Parts::default() });
    load(&mut bench, 0, 0);
    let own = counters(&bench);
    assert_eq!((own.walks, own.crowded, own.walker_queue_cycles), (2, 1, 0));
    assert_eq!(load(&mut bench, 6, 300), Some((76, 300 + BEFORE + WALK)), "two walkers are left");
    // One of them at a time: the second prefetch walk waits for the first.
    let four = MmuSpec { prefetch_queue: queue, ..MmuSpec::default() };
    let (mut bench, _) = bench_with(&[1, 2], Parts { spec: Some(four), ..Parts::default() });
    load(&mut bench, 0, 0);
    assert_eq!((counters(&bench).walks, counters(&bench).walker_queue_cycles), (2, WALK));
    assert_eq!(load(&mut bench, 2, 400), Some((72, BEFORE + 3 * WALK)));
}

#[test]
fn pages_in_the_l2_tlb_or_in_the_queue_are_not_walked_for_again() {
    let mut bench = bench(&[1]);
    load(&mut bench, 1, 0);
    load(&mut bench, 0, 1000);
    // Page 1 is in the L2 TLB, page 2 in the queue.
    assert_eq!((counters(&bench).walks, counters(&bench).held), (1, 1));
    bench.mmu.invalidate(page(1, 1));
    load(&mut bench, 1, 2000);
    assert_eq!((counters(&bench).walks, counters(&bench).held), (1, 2));
    assert_eq!(counters(&bench).useless, 0);
}

#[test]
fn unused_translations_leave_for_others() {
    let small = PrefetchQueueSpec { entries: 2, ..PrefetchQueueSpec::default() };
    let spec = MmuSpec { prefetch_queue: small, ..MmuSpec::default() };
    let (mut bench, _) = bench_with(&[1, 2, 3], Parts { spec: Some(spec), ..Parts::default() });
    load(&mut bench, 0, 0);
    assert_eq!(counters(&bench).useless, 1);
    assert_eq!(load(&mut bench, 1, 5000), Some((71, 5000 + BEFORE + WALK)), "it has left");
}

#[test]
fn free_translations_are_usable_when_the_walk_has_ended() {
    let next = Translation {
        frame: Pfn(71),
        size: PageSize::SIZE_4K,
        writable: true,
        executable: true,
        dirty: true,
        ranged: false,
    };
    let own = FakePrefetcher { free: Some(next), ..FakePrefetcher::default() };
    let (mut bench, misses) = bench_with(&[], Parts { prefetcher: Some(own), ..Parts::default() });
    load(&mut bench, 0, 0);
    assert_eq!(load(&mut bench, 1, 100), Some((71, BEFORE + WALK)), "it waits for the walk that brings it");
    assert_eq!(misses.lock().unwrap().last().and_then(|miss| miss.served), Some(1), "with its mark");
    let own = counters(&bench);
    assert_eq!((own.free, own.free_hits, own.filled, own.walks), (1, 1, 0, 0));
}

#[test]
fn the_hypervisor_serves_no_fault_of_a_prefetch() {
    let (mut bench, _) = bench_with(&[1], Parts { nested: true, ..Parts::default() });
    // Guest-physical: frame 70 lies in host frame 500; the hypervisor has not mapped frame 71. The guest's
    // walker loads from 0x5000.
    for (guest, host) in [(5, 5), (70, 500), (72, 502), (73, 503)] {
        bench.hypervisor.map(9, guest << 12, host, PageSize::SIZE_4K, true);
    }
    assert_eq!(load(&mut bench, 0, 0).map(|(frame, _)| frame), Some(500));
    assert_eq!((counters(&bench).unmapped, counters(&bench).filled), (1, 0));
    assert_eq!(Reported::of(&bench).0["mmu.nested.hypervisor_faults"], 0);
    bench.hypervisor.map(9, 71 << 12, 501, PageSize::SIZE_4K, true);
    assert_eq!(load(&mut bench, 1, 10_000).map(|(frame, _)| frame), Some(501));
    assert_eq!(load(&mut bench, 2, 20_000).map(|(frame, _)| frame), Some(502));
    assert_eq!((counters(&bench).hits, counters(&bench).filled), (1, 2));
    // The hypervisor moves the page that is in the queue.
    bench.hypervisor.map(9, 73 << 12, 77, PageSize::SIZE_4K, true);
    bench.mmu.invalidate_hypervisor(Invalidation::All);
    assert_eq!(load(&mut bench, 3, 40_000).map(|(frame, _)| frame), Some(77));
}
