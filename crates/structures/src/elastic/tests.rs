use super::*;
use ambulator_base::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

/// An arena of vectors that resizes in place or out of place, and checks that it is used correctly.
struct VecArena {
    in_place: bool,
    at_once: bool,
    /// Slots that all tables together may have.
    room: u64,
    sides: [[Vec<Option<u64>>; 2]; MAX_WAYS],
}

impl VecArena {
    fn new(in_place: bool) -> VecArena {
        VecArena { in_place, at_once: false, room: u64::MAX, sides: Default::default() }
    }

    fn slots(&self) -> u64 {
        self.sides.iter().flatten().map(|side| side.len() as u64).sum()
    }

    fn get(&self, at: Place) -> Option<u64> {
        self.sides[at.way][at.side as usize][at.index as usize]
    }
}

impl Arena for VecArena {
    type Entry = u64;
    type Error = ();

    fn hashes_at(&self, at: Place) -> Option<[u32; MAX_WAYS]> {
        self.get(at).map(mixed)
    }

    fn hashes_of(&self, entry: &u64) -> [u32; MAX_WAYS] {
        mixed(*entry)
    }

    fn exchange(&mut self, at: Place, entry: Option<u64>) -> Option<u64> {
        std::mem::replace(&mut self.sides[at.way][at.side as usize][at.index as usize], entry)
    }

    fn begin(&mut self, way: usize, from: u64, to: u64) -> Result<ResizeMode, ()> {
        let [old, new] = &mut self.sides[way];
        assert_eq!((old.len() as u64, new.len()), (from, 0));
        let more = if from == 0 || !self.in_place { to } else { to.saturating_sub(from) };
        if self.slots() + more > self.room {
            return Err(());
        }
        let [old, new] = &mut self.sides[way];
        if from == 0 || self.in_place {
            old.resize(to.max(from) as usize, None);
            return Ok(ResizeMode::InPlace);
        }
        new.resize(to as usize, None);
        Ok(if self.at_once { ResizeMode::AtOnce } else { ResizeMode::OutOfPlace })
    }

    fn end(&mut self, way: usize, to: u64, in_place: bool) {
        let [old, new] = &mut self.sides[way];
        if !in_place {
            std::mem::swap(old, new);
            assert!(new.iter().all(Option::is_none), "an entry was not moved");
            new.clear();
        }
        assert!(old[to as usize..].iter().all(Option::is_none), "an entry was cut off");
        old.truncate(to as usize);
    }

    fn abandon(&mut self, way: usize, from: u64, in_place: bool) {
        let [old, new] = &mut self.sides[way];
        let gone = if in_place { &mut old[from as usize..] } else { &mut new[..] };
        assert!(from == 0 || gone.iter().all(Option::is_none), "an entry was in the memory to free");
        if in_place { old.truncate(from as usize) } else { new.clear() }
    }
}

struct Rig {
    table: Elastic,
    arena: VecArena,
    keys: HashSet<u64>,
}

impl Rig {
    fn new(spec: &ElasticSpec, arena: VecArena) -> Rig {
        let mut rig = Rig { table: Elastic::new(spec), arena, keys: HashSet::new() };
        rig.table.create(&mut rig.arena).unwrap();
        rig
    }

    fn find(&self, key: u64) -> Option<Place> {
        let found: Vec<_> = self.table.places(mixed(key)).filter(|&at| self.arena.get(at) == Some(key)).collect();
        assert!(found.len() <= 1, "{key} is in {found:?}");
        found.first().copied()
    }

    fn insert(&mut self, key: u64) -> bool {
        match self.table.insert(&mut self.arena, key) {
            Ok(()) => {
                self.table.advance(&mut self.arena);
                self.keys.insert(key)
            }
            Err((_, back)) => {
                assert_eq!(back, key);
                false
            }
        }
    }

    fn remove(&mut self, key: u64) {
        let at = self.find(key).unwrap();
        assert_eq!(self.table.remove(&mut self.arena, at), Some(key));
        self.table.advance(&mut self.arena);
        self.keys.remove(&key);
    }

    /// The invariants between any two operations.
    fn check(&self) {
        for &key in &self.keys {
            assert!(self.find(key).is_some(), "{key} is lost");
        }
        let all: Vec<u64> = self.table.slots().filter_map(|at| self.arena.get(at)).collect();
        assert_eq!(all.len(), self.keys.len());
        assert_eq!(self.table.len(), self.keys.len() as u64);
        let sizes: Vec<u64> = self.table.ways().iter().map(Way::target).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(*most <= 2 * least, "{sizes:?}");
        assert!(self.table.ways().iter().all(|way| way.slots.is_power_of_two()));
    }
}

fn spec(resizing: Resizing, initial_slots: u64) -> ElasticSpec {
    ElasticSpec { resizing, initial_slots, ..ElasticSpec::default() }
}

fn any_resizing() -> impl Strategy<Value = Resizing> {
    prop::sample::select(vec![Resizing::AllWays, Resizing::EachWay, Resizing::OneWay])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_entry_is_ever_lost(
        seed in any::<u64>(),
        in_place in any::<bool>(),
        resizing in any_resizing(),
        at_once in prop::bool::weighted(0.2),
        look_first in any::<bool>(),
        ways in 2..=MAX_WAYS,
        rehash_slots in 1u64..6,
        max_reinsertions in 1u32..40,
        room in prop_oneof![Just(u64::MAX), 100u64..2000],
    ) {
        let upsize_at = if ways == 2 { 0.4 } else { 0.6 };
        let spec = ElasticSpec {
            ways,
            rehash_slots,
            max_reinsertions,
            upsize_at,
            downsize_at: 0.15,
            look_first,
            ..spec(resizing, 4)
        };
        let mut rig = Rig::new(&spec, VecArena { at_once, ..VecArena::new(in_place) });
        rig.arena.room = room;
        let mut random = Random::new(seed);
        let mut keys = Vec::new();
        // Grow and shrink in waves, so that resizes of both kinds overlap.
        for _ in 0..12 {
            let (count, grow) = (random.below(400), random.unit());
            for _ in 0..count {
                if keys.is_empty() || random.chance(grow) {
                    let key = random.next_u64();
                    if rig.insert(key) {
                        keys.push(key);
                    }
                } else {
                    let key = keys.swap_remove(random.below(keys.len() as u64) as usize);
                    rig.remove(key);
                }
                if random.chance(0.05) {
                    rig.check();
                }
            }
            rig.check();
        }
        for key in keys {
            rig.remove(key);
        }
        rig.check();
        rig.table.destroy(&mut rig.arena);
        prop_assert_eq!(rig.arena.slots(), 0);
    }

    #[test]
    fn the_map_behaves_as_a_map(
        ops in prop::collection::vec((0u8..10, 0u16..600, any::<u32>()), 1..4000),
        resizing in any_resizing(),
    ) {
        let mut map = ElasticMap::with_spec(&spec(resizing, 8));
        let mut model = BTreeMap::new();
        for (op, key, value) in ops {
            // The map shrinks when few keys are left.
            match op {
                0..=4 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                5..=8 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                _ => prop_assert_eq!(map.get(&key), model.get(&key)),
            }
            prop_assert_eq!(map.len(), model.len());
        }
        let mut all: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn millions_of_operations_with_resizes_both_ways() {
    use Resizing::{AllWays, EachWay, OneWay};
    for (in_place, resizing) in
        [(true, OneWay), (true, EachWay), (false, AllWays), (true, AllWays), (false, EachWay), (false, OneWay)]
    {
        let mut rig = Rig::new(&spec(resizing, 16), VecArena::new(in_place));
        let mut random = Random::new(7);
        let mut keys: Vec<u64> = Vec::new();
        for wave in 0..40 {
            let grow = if wave % 2 == 0 { 0.9 } else { 0.12 };
            for _ in 0..20_000 {
                if keys.is_empty() || random.chance(grow) {
                    let key = random.next_u64();
                    assert!(rig.insert(key));
                    keys.push(key);
                } else {
                    let key = keys.swap_remove(random.below(keys.len() as u64) as usize);
                    rig.remove(key);
                }
            }
            rig.check();
        }
        let counters = &rig.table.counters;
        assert!(
            counters.upsizes.iter().sum::<u64>() > 20 && counters.downsizes.iter().sum::<u64>() > 20,
            "{counters:?}"
        );
        assert_eq!(counters.upsize_stayed > 0, in_place);
    }
}

#[test]
fn half_of_the_entries_stay_in_an_upsize_in_place() {
    let mut rig = Rig::new(&spec(Resizing::EachWay, 128), VecArena::new(true));
    for key in 0..200_000 {
        rig.insert(key);
    }
    let ElasticCounters { upsize_moved, upsize_stayed, .. } = rig.table.counters;
    let share = upsize_moved as f64 / (upsize_moved + upsize_stayed) as f64;
    assert!((0.49..0.51).contains(&share), "{share}");
}

#[test]
fn a_way_that_is_larger_and_full_receives_no_entry() {
    // One way has doubled. The others fill up to the threshold before its own occupancy passes it by more
    // than the displaced entries.
    let mut rig = Rig::new(&spec(Resizing::EachWay, 1024), VecArena::new(true));
    let mut key = 0;
    while rig.table.counters.upsizes.iter().sum::<u64>() < 1 {
        rig.insert(key);
        key += 1;
    }
    let large = rig.table.ways().iter().position(|way| way.target() == 2048).unwrap();
    while rig.table.ways().iter().filter(|way| way.target() == 2048).count() < 2 {
        assert!(rig.table.occupied()[large] as f64 <= 0.6 * 2048.0 + 1.0);
        rig.insert(key);
        key += 1;
    }
}

/// Sizes of the ways of a growing table of page-table slots after each of `inserted` insertions, and the ways
/// that resize.
fn growth(resizing: Resizing, inserted: u64) -> Vec<(Vec<u64>, usize)> {
    let spec = ElasticSpec { rehash_slots: 2, look_first: false, ..spec(resizing, 128) };
    let mut rig = Rig::new(&spec, VecArena::new(true));
    let mut seen = Vec::new();
    for key in 0..inserted {
        rig.insert(key);
        let resizing = rig.table.ways().iter().filter(|way| way.resize.is_some()).count();
        seen.push((rig.table.ways().iter().map(Way::target).collect(), resizing));
    }
    rig.check();
    assert_eq!(rig.table.counters.early_upsizes, 0);
    seen
}

#[test]
fn one_way_at_a_time_never_resizes_two() {
    let most_growing = |resizing| growth(resizing, 200_000).iter().map(|(_, ways)| *ways).max().unwrap();
    assert_eq!((most_growing(Resizing::OneWay), most_growing(Resizing::EachWay)), (1, 3));
    let most_shrinking = |resizing| {
        let mut rig = Rig::new(&spec(resizing, 16), VecArena::new(true));
        (0..50_000).for_each(|key| assert!(rig.insert(key)));
        let ways = (0..50_000).map(|key| {
            rig.remove(key);
            rig.table.ways().iter().filter(|way| way.shrinks()).count()
        });
        ways.max().unwrap()
    };
    assert_eq!((most_shrinking(Resizing::OneWay), most_shrinking(Resizing::EachWay)), (1, 3));
}

#[test]
fn one_way_at_a_time_lets_the_last_way_lag() {
    // Three ways of 16 Ki slots: the first doubles at 1.8 times that many entries (0.6 of each way), the second
    // when the pointer of the first has passed all its slots, two with each insertion, and the third after the
    // second. Ways that need not wait for one another double together.
    let slots = 16 << 10;
    let lag = |resizing| {
        let seen = growth(resizing, 4 * slots);
        let at = |ways: usize| {
            let large = |(sizes, _): &(Vec<u64>, usize)| sizes.iter().filter(|size| **size > slots).count() >= ways;
            seen.iter().position(large).unwrap() as f64 / slots as f64
        };
        [at(1), at(2), at(3)]
    };
    let [first, second, third] = lag(Resizing::OneWay);
    assert!(second - first >= 0.5 && third - second >= 0.5, "{first} {second} {third}");
    let [first, _, third] = lag(Resizing::EachWay);
    assert!(third - first < 0.25, "{first} {third}");
}

#[test]
fn an_entry_that_collides_with_too_many_goes_to_the_overflow_list() {
    #[derive(Default)]
    struct Same;
    impl std::hash::Hasher for Same {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _: &[u8]) {}
    }
    let mut map =
        ElasticMap::with_spec_and_hasher(&ElasticSpec::default(), std::hash::BuildHasherDefault::<Same>::default());
    for key in 0..100u32 {
        assert_eq!(map.insert(key, key + 1), None);
    }
    assert_eq!((map.len(), map.get(&77)), (100, Some(&78)));
    assert_eq!((map.remove(&50), map.get(&50)), (Some(51), None));
    assert!(map.way_slots().iter().all(|&slots| slots <= 256), "growing does not help: {:?}", map.way_slots());
}

#[test]
fn each_error_of_a_spec_is_reported() {
    let wrong = ElasticSpec {
        ways: 5,
        initial_slots: 100,
        upsize_at: 1.0,
        downsize_at: 0.5,
        rehash_slots: 0,
        max_reinsertions: 0,
        ..ElasticSpec::default()
    }
    .validate("t");
    assert_eq!(wrong.len(), 6, "{wrong:?}");
    assert_eq!(ElasticSpec::default().validate("t"), vec![]);
}
