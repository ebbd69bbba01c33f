use super::engine::EngineCounters;
use super::placement::{Hashing, TierCounters};
use super::tiers::{FrameUse, Kind, Space, expected_success, frame};
use super::*;
use ambulator_base::{AccessKind, Asid, Counters, Cycle, PageSize, Pfn, PhysAddr, Random, VirtAddr};
use ambulator_memory::{BuddyAllocator, BuddySpec};
use ambulator_mmu::{Bus, Speculator, TableRegisters, Translation};
use std::collections::BTreeMap;

const FRAMES: u64 = 1 << 15;

fn va(page: u64) -> VirtAddr {
    VirtAddr((1 << 30) + (page << 12))
}

#[test]
fn allocation_takes_free_frames_in_the_order_of_the_tiers() {
    let mut random = Random::new(7);
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), FRAMES);
    let all = frames.free_frames();
    let mut space = Space::default();
    let hashing = Hashing::new(&RevelatorSpec { tiers: 3, ..RevelatorSpec::default() });
    let mut allocated: BTreeMap<u64, VirtAddr> = BTreeMap::new();
    for step in 0..40_000 {
        if random.chance(0.7) {
            let va = va(random.below(1 << 20));
            let free: Vec<bool> = (0..3).map(|tier| frames.is_free(frame(Kind::Small, va, tier, FRAMES))).collect();
            let given = hashing.allocate(Kind::Small, va, &mut space, &mut frames);
            // Exactly the first tier whose frame is free, and none if none is.
            let expected = free.iter().position(|free| *free).map(|tier| frame(Kind::Small, va, tier, FRAMES));
            assert_eq!(given, expected, "step {step}");
            if let Some(given) = given {
                assert!(allocated.insert(given.0, va).is_none(), "an allocated frame was allocated again");
            }
        } else if let Some((&at, _)) = allocated.range(random.below(FRAMES)..).next() {
            allocated.remove(&at);
            frames.free(Pfn(at), 0);
        }
    }
    assert_eq!(all - frames.free_frames(), allocated.len() as u64);
}

#[test]
fn shares_of_tiers_are_those_of_the_analytical_model() {
    for pressure in [0.2, 0.5, 0.8] {
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), FRAMES);
        let mut random = Random::new(3);
        while (frames.free_frames() as f64) > (1.0 - pressure) * FRAMES as f64 {
            frames.allocate_at(Pfn(random.below(FRAMES)), 0);
        }
        let mut space = Space::default();
        let hashing = Hashing::new(&RevelatorSpec { tiers: 3, ..RevelatorSpec::default() });
        for page in 0..8000 {
            if let Some(at) = hashing.allocate(Kind::Small, va(page), &mut space, &mut frames) {
                // Free it again: the pressure stays constant.
                frames.free(at, 0);
            }
        }
        for tier in 0..3 {
            let expected = f64::powi(pressure, tier as i32) * (1.0 - pressure);
            assert!((space.share(Kind::Small, tier) - expected).abs() < 0.03, "{pressure} {tier}");
        }
        let all: f64 = (0..3).map(|tier| space.share(Kind::Small, tier)).sum();
        assert!((all - expected_success(pressure, 3)).abs() < 0.03);
    }
}

fn engine(spec: &RevelatorSpec, given: [[u64; MOST_TIERS + 1]; 4]) -> (Engine, Shared) {
    let shared = Shared::default();
    let mut hints = shared.lock().unwrap();
    hints.machine.frames = FRAMES;
    hints.machine.given = given;
    drop(hints);
    let mut engine = Engine::new(spec, false, Shared::clone(&shared));
    engine.load_registers(Asid(1), &TableRegisters::default());
    (engine, shared)
}

fn data(engine: &mut Engine, page: u64, now: u64, bus: Bus) -> Vec<PhysAddr> {
    let guess = engine.speculate(VirtAddr(0), va(page).offset(0x123), AccessKind::Load, Cycle(now), bus);
    guess.data[..usize::from(guess.data_count)].to_vec()
}

#[test]
fn the_engine_predicts_the_frames_of_the_tiers_that_are_likely_enough() {
    let small = |tiers: [u64; 3]| {
        [[tiers[0], tiers[1], tiers[2], 0, 0, 0, 0, 0, 0], [0; 9], [50, 0, 0, 0, 0, 0, 0, 0, 0], [0; 9]]
    };
    let at = |tier: usize| frame(Kind::Small, va(77), tier, FRAMES).start().offset(0x123);
    // Nearly all frames are from the first tier; then more tiers are needed; the likeliest is first.
    for (tiers, expected) in [([95, 4, 1], vec![0]), ([60, 35, 5], vec![0, 1]), ([30, 33, 37], vec![2, 1, 0])] {
        let spec = RevelatorSpec { wrong_data_cost: 50.0, wrong_entry_cost: 200.0, ..RevelatorSpec::default() };
        let (mut engine, _) = engine(&spec, small(tiers));
        // Walks take three times what a wrong line costs, so one candidate in four must be right.
        (0..2000).for_each(|_| engine.learn_latency(150, 2));
        let expected: Vec<PhysAddr> = expected.into_iter().map(at).collect();
        assert_eq!(data(&mut engine, 77, 10_000, Bus::default()), expected, "{tiers:?}");
        // With buses busy for 40% of the time a wrong line costs more, and 36 in 100 must be right.
        let busy = Bus { busy: 4_000, channels: 1 };
        let worth = tiers.iter().filter(|share| **share > 36).count();
        assert_eq!(data(&mut engine, 77, 20_000, busy), expected[..worth], "{tiers:?}");
        // A miss at an earlier time, simulated later, does not change the sample of the bandwidth.
        let later = Bus { busy: 4_400, channels: 1 };
        assert_eq!(data(&mut engine, 77, 19_500, later), expected[..worth], "{tiers:?}");
    }
    let fixed = RevelatorSpec { filter: DegreeFilter::None, tiers: 2, ..RevelatorSpec::default() };
    let (mut two, _) = engine(&fixed, small([98, 1, 1]));
    assert_eq!(data(&mut two, 77, 10_000, Bus::default()).len(), 2);
    // The table line has the entry in the last-level node.
    let guess = two.speculate(VirtAddr(0), va(77), AccessKind::Load, Cycle(10_000), Bus::default());
    let leaf = frame(Kind::Leaf, va(77), 0, FRAMES).start().offset((va(77).0 >> 12 & 511) * 8);
    assert_eq!((guess.table_count, guess.table[0]), (1, leaf));
    let found = |frame: Pfn| Translation {
        frame,
        size: PageSize::SIZE_4K,
        writable: true,
        executable: false,
        dirty: false,
        ranged: false,
    };
    two.learn(va(77), &guess, &found(at(1).pfn()), Some(leaf));
    two.learn(va(77), &guess, &found(Pfn(12345)), None);
    let counters = verification_counters(&two);
    assert_eq!(counters, (1, 3, 1), "right, wrong, table right");
}

fn verification_counters(engine: &Engine) -> (u64, u64, u64) {
    struct Seen(BTreeMap<&'static str, u64>);
    impl ambulator_base::CounterSink for Seen {
        fn counter(&mut self, _prefix: &str, def: &'static ambulator_base::CounterDef, value: u64) {
            self.0.insert(def.name, value);
        }
    }
    let mut seen = Seen(BTreeMap::new());
    engine.report("e", &mut seen);
    (seen.0["data_right"], seen.0["data_wrong"], seen.0["table_right"])
}

#[test]
fn the_perfect_filter_fetches_only_correct_lines() {
    let given = [[50, 30, 20, 0, 0, 0, 0, 0, 0], [0; 9], [9, 1, 0, 0, 0, 0, 0, 0, 0], [0; 9]];
    let spec = RevelatorSpec { filter: DegreeFilter::Perfect, ..RevelatorSpec::default() };
    let (mut engine, shared) = engine(&spec, given);
    assert_eq!(data(&mut engine, 5, 0, Bus::default()), vec![]);
    let at = |kind, tier| frame(kind, va(5), tier, FRAMES);
    let of = |kind: Kind, asid| {
        let of = if kind.is_data() { PageSize::SIZE_4K } else { PageSize::SIZE_2M };
        Some(FrameUse { kind, asid: Asid(asid), va: va(5).align_down(of) })
    };
    shared.lock().unwrap().machine.set_use(at(Kind::Small, 0), 1, of(Kind::Small, 2));
    shared.lock().unwrap().machine.set_use(at(Kind::Small, 2), 1, of(Kind::Small, 1));
    shared.lock().unwrap().machine.set_use(at(Kind::Leaf, 1), 1, of(Kind::Leaf, 1));
    assert_eq!(data(&mut engine, 5, 0, Bus::default()), vec![at(Kind::Small, 2).start().offset(0x123)]);
    let guess = engine.speculate(VirtAddr(0), va(5), AccessKind::Load, Cycle(0), Bus::default());
    assert_eq!((guess.table_count, guess.table[0].pfn()), (1, at(Kind::Leaf, 1)));
}

#[test]
fn frames_treated_as_allocated_are_skipped() {
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), FRAMES);
    let (mut space, spec) = (Space::default(), RevelatorSpec { tiers: 3, taken: 0.6, ..RevelatorSpec::default() });
    let hashing = Hashing::new(&spec);
    for page in 0..8000 {
        if let Some(at) = hashing.allocate(Kind::Small, va(page), &mut space, &mut frames) {
            frames.free(at, 0);
        }
    }
    let expected = hashing.expected(&frames);
    assert!((expected - expected_success(0.6, 3)).abs() < 0.005, "{expected}");
    for tier in 0..3 {
        let expected = f64::powi(0.6, tier as i32) * 0.4;
        assert!((space.share(Kind::Small, tier) - expected).abs() < 0.03, "{tier}");
    }
}

#[test]
fn hashing_places_the_shares_of_pages_and_of_nodes_that_it_may() {
    for (hashable, hashable_nodes) in [(0.25, 1.0), (0.6, 0.1)] {
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), FRAMES);
        let (mut space, spec) =
            (Space::default(), RevelatorSpec { hashable, hashable_nodes, ..RevelatorSpec::default() });
        for page in 0..4000 {
            for (kind, va) in
                [(Kind::Small, va(page)), (Kind::Leaf, va(page << 9)), (Kind::HypervisorLeaf, va(page << 9))]
            {
                Hashing::new(&spec).allocate(kind, va, &mut space, &mut frames);
            }
        }
        for (kind, share) in
            [(Kind::Small, hashable), (Kind::Leaf, hashable_nodes), (Kind::HypervisorLeaf, hashable_nodes)]
        {
            let given: f64 = (0..6).map(|tier| space.share(kind, tier)).sum();
            assert!((given - share).abs() < 0.03, "{kind:?}: {given} instead of {share}");
        }
    }
}

#[test]
fn confined_speculation_fetches_only_frames_of_the_process() {
    let given = [[50, 50, 0, 0, 0, 0, 0, 0, 0], [0; 9], [0; 9], [0; 9]];
    let spec = RevelatorSpec { confine: true, ..RevelatorSpec::default() };
    let (mut engine, shared) = engine(&spec, given);
    assert_eq!(data(&mut engine, 5, 0, Bus::default()), vec![]);
    let own = frame(Kind::Small, va(5), 1, FRAMES);
    let of = |asid| Some(FrameUse { kind: Kind::Small, asid: Asid(asid), va: va(5) });
    shared.lock().unwrap().machine.set_use(own, 1, of(1));
    shared.lock().unwrap().machine.set_use(frame(Kind::Small, va(5), 0, FRAMES), 1, of(2));
    assert_eq!(data(&mut engine, 5, 0, Bus::default()), vec![own.start().offset(0x123)]);
    let guess = engine.speculate(VirtAddr(0), va(5), AccessKind::Load, Cycle(0), Bus::default());
    assert_eq!(guess.latency, spec.latency + spec.confine_latency);
}

#[test]
fn each_error_of_a_spec_is_reported() {
    assert_eq!(RevelatorSpec::default().invalid("r"), vec![]);
    let wrong = RevelatorSpec { tiers: 0, taken: 2.0, wrong_data_cost: -1.0, latency: 200, ..RevelatorSpec::default() };
    assert_eq!(wrong.invalid("r").len(), 4, "{:?}", wrong.invalid("r"));
    for def in EngineCounters::DEFS.iter().chain(TierCounters::DEFS) {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
    }
}
