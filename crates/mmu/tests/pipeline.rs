//! The pipeline: the order of its components, and which results may become translations.

mod support;
use ambulator_base::{AccessKind, PageSize, Pfn, PhysAddr};
use ambulator_mmu::Translation;
use support::{Bench, FakeLookaside, FakeSpeculator, Log, Parts, WALK};

const PAGE: u64 = 0x1234_5000;

fn bench(parts: impl FnOnce(&Log) -> Parts) -> Bench {
    let bench = Bench::new(parts);
    bench.table.map(1, PAGE, 77, PageSize::SIZE_4K, true);
    bench
}

fn lookaside(log: &Log, found: Option<Translation>, latency: u64, holds_walk: bool) -> Parts {
    let lookaside = FakeLookaside { found, latency, holds_walk, log: log.clone() };
    Parts { lookaside: Some(lookaside), ..Parts::default() }
}

#[test]
fn a_miss_joins_the_walk_of_its_page_that_is_in_flight() {
    let mut bench = bench(|_| Parts::default());
    let (at, ready) = bench.access(PAGE + 8, AccessKind::Load, 100).expect("mapped");
    assert_eq!(at, (77 << 12) + 8);
    assert!(ready >= 100 + WALK);
    // In the L1 TLB, and for a fetch, which misses its L1 TLB, in the L2 TLB.
    assert_eq!(bench.access(PAGE + 16, AccessKind::Load, 110), Some(((77 << 12) + 16, ready)));
    assert_eq!(bench.access(PAGE, AccessKind::Fetch, 110), Some((77 << 12, ready)));
    let counters = &bench.mmu.counters;
    assert_eq!((counters.walks, counters.joined, counters.l1d_tlb_hits), (1, 2, 0));
    // The recent translation is not used before the walk has ended, either.
    assert_eq!(bench.mmu.recall(ambulator_base::VirtAddr(PAGE), AccessKind::Load, ambulator_base::Cycle(110)), None);
    assert_eq!(bench.access(PAGE, AccessKind::Load, ready + 10).map(|(_, ready)| ready), Some(ready + 10));
}

#[test]
fn only_a_lookaside_that_holds_the_walk_delays_it() {
    for (holds, start) in [(true, 1000), (false, 0)] {
        let mut bench = bench(|log| lookaside(log, None, 1000, holds));
        let (_, ready) = bench.access(PAGE, AccessKind::Load, 0).expect("mapped");
        assert!((start + WALK..start + WALK + 50).contains(&ready), "holds {holds}: {ready}");
    }
}

#[test]
fn the_sockets_are_called_in_order_and_the_refill_follows_the_walk() {
    let mut bench = bench(|log| Parts {
        speculator: Some(FakeSpeculator { guess: PhysAddr(0x9000), log: log.clone() }),
        ..lookaside(log, None, 10, false)
    });
    bench.load(PAGE);
    assert_eq!(bench.log.take(), ["probe", "speculate", "walk", "learn", "refill"]);
    // A TLB hit calls no socket.
    bench.load(PAGE);
    assert!(bench.log.take().is_empty());
    // A walk that finds no page neither trains nor refills.
    assert_eq!(bench.load(PAGE + 4096), None);
    assert_eq!(bench.log.take(), ["probe", "speculate", "walk"]);
}

#[test]
fn a_lookaside_hit_replaces_a_walk_but_respects_protection() {
    let page = Translation {
        frame: Pfn(5),
        size: PageSize::SIZE_4K,
        writable: false,
        executable: false,
        dirty: false,
        ranged: false,
    };
    let mut bench = bench(|log| lookaside(log, Some(page), 3, true));
    assert_eq!(bench.access(PAGE, AccessKind::Load, 0).map(|(at, _)| at), Some(5 << 12));
    assert_eq!(bench.access(PAGE, AccessKind::Store, 500), None);
    assert_eq!(bench.access(PAGE, AccessKind::Fetch, 500), None);
    assert_eq!((bench.mmu.counters.walks, bench.log.take()), (0, vec!["probe", "probe"]));
}

#[test]
fn a_guess_never_becomes_a_translation() {
    let guessed = 0x77_7000;
    let mut bench = bench(|log| Parts {
        speculator: Some(FakeSpeculator { guess: PhysAddr(guessed), log: log.clone() }),
        ..Parts::default()
    });
    let (at, ready) = bench.access(PAGE, AccessKind::Load, 0).expect("mapped");
    assert_eq!(at, 77 << 12, "the guess was wrong, and the walk's result is used");
    assert!(ready >= WALK, "a guess provides no address before the walk ends: {ready}");
    assert_eq!(bench.load(PAGE), Some(77 << 12));
    assert_eq!(bench.load(PAGE + 4096), None, "a page that is not mapped faults whatever is guessed");
    // Even a correct guess is used only after the walk.
    bench.table.map(1, PAGE + 8192, guessed >> 12, PageSize::SIZE_4K, true);
    let (at, ready) = bench.access(PAGE + 8192, AccessKind::Load, 10_000).expect("mapped");
    assert!(at == guessed && ready >= 10_000 + WALK);
}
