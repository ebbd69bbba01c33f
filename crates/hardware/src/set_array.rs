//! A set-associative array of keys with payloads: the building block of TLBs, page-walk caches and small
//! tables.

use crate::{Replacement, ReplacementState, sim_host};
use ambulator_base::State;

/// The key that marks an empty way; no entry can have it.
pub const NO_KEY: u64 = u64::MAX;

/// Keys are compared four at a time.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(32))]
struct Four([u64; 4]);

/// Groups of keys compared between two branches: a hit's way is unpredictable, a comparison is not.
const GROUPS_PER_BRANCH: usize = 8;

/// A set-associative array: `sets` sets of `ways` entries, each a `u64` key with a payload.
///
/// The caller chooses the set, so any index function and any number of sets will do. It puts into the key
/// whatever must match: tag, ASID, page size. One set and many ways make the array fully associative.
///
/// ```
/// use ambulator_hardware::{Replacement, SetArray};
/// let mut array = SetArray::new(1, 2, Replacement::Lru);
/// assert_eq!(array.insert(0, 10, 'a'), None);
/// assert_eq!(array.insert(0, 20, 'b'), None);
/// assert_eq!(array.lookup(0, 10).copied(), Some('a'));
/// assert_eq!(array.insert(0, 30, 'c'), Some((20, 'b'))); // 20 was the least recently used
/// ```
#[derive(Clone, Debug, State)]
pub struct SetArray<T> {
    /// `groups` for each set; places beyond the ways never hold a key.
    keys: Box<[Four]>,
    #[state(skip)]
    groups: usize,
    /// Empty until the first insertion, whose value also fills the empty places.
    values: Vec<T>,
    #[state(skip)]
    sets: usize,
    #[state(skip)]
    ways: usize,
    len: usize,
    state: ReplacementState,
}

impl<T: Copy> SetArray<T> {
    /// An empty array, with seed 0 for random replacement.
    ///
    /// # Panics
    /// When `ways` is 0 or above [`MAX_WAYS`](crate::MAX_WAYS), or `sets` is 0: specs are validated before
    /// anything is built.
    pub fn new(sets: usize, ways: usize, replacement: Replacement) -> SetArray<T> {
        SetArray::with_seed(sets, ways, replacement, 0)
    }

    /// An empty array; `seed` feeds random replacement.
    ///
    /// # Panics
    /// As [`SetArray::new`].
    pub fn with_seed(sets: usize, ways: usize, replacement: Replacement, seed: u64) -> SetArray<T> {
        assert!(sets > 0, "an array has at least one set");
        SetArray {
            keys: vec![Four([NO_KEY; 4]); sets * ways.div_ceil(4)].into(),
            groups: ways.div_ceil(4),
            values: Vec::new(),
            sets,
            ways,
            len: 0,
            state: ReplacementState::new(replacement, sets, ways, seed),
        }
    }

    /// Number of sets.
    #[inline(always)]
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// Ways of each set.
    #[inline(always)]
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// Maximum number of entries: sets times ways.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.sets * self.ways
    }

    /// Number of valid entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no valid entry.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let groups = &self.keys[set * self.groups..][..self.groups];
        let mut base = 0;
        for chunk in groups.chunks(GROUPS_PER_BRANCH) {
            let mut mask = 0;
            for (i, four) in chunk.iter().enumerate() {
                mask |= sim_host::matches_wide(&four.0, key) << (4 * i);
            }
            if mask != 0 {
                return Some(base + mask.trailing_zeros() as usize);
            }
            base += 4 * GROUPS_PER_BRANCH;
        }
        None
    }

    /// The key in a way.
    #[inline(always)]
    fn key(&mut self, set: usize, way: usize) -> &mut u64 {
        &mut self.keys[set * self.groups + way / 4].0[way % 4]
    }

    /// The payload of `key` in `set`; counts as a use for the replacement policy.
    #[inline(always)]
    pub fn lookup(&mut self, set: usize, key: u64) -> Option<&mut T> {
        debug_assert_ne!(key, NO_KEY, "the key of empty ways cannot be looked up");
        let way = self.find(set, key)?;
        self.state.touch(set, way);
        Some(&mut self.values[set * self.ways + way])
    }

    /// The payload of `key` in `set`, without updating the replacement policy.
    #[inline(always)]
    pub fn peek(&self, set: usize, key: u64) -> Option<&T> {
        debug_assert_ne!(key, NO_KEY, "the key of empty ways cannot be looked up");
        self.find(set, key).map(|way| &self.values[set * self.ways + way])
    }

    /// The payload of `key` in `set` for update, without updating the replacement policy.
    #[inline(always)]
    pub fn peek_mut(&mut self, set: usize, key: u64) -> Option<&mut T> {
        debug_assert_ne!(key, NO_KEY, "the key of empty ways cannot be looked up");
        let way = self.find(set, key)?;
        Some(&mut self.values[set * self.ways + way])
    }

    /// Whether `key` is in `set`, without updating the replacement policy.
    #[inline(always)]
    pub fn contains(&self, set: usize, key: u64) -> bool {
        self.find(set, key).is_some()
    }

    /// Inserts `key` into `set`: over its own entry if it is present (counts as a use), into an empty way, or
    /// in place of the policy's victim, which is returned.
    #[inline]
    pub fn insert(&mut self, set: usize, key: u64, value: T) -> Option<(u64, T)> {
        debug_assert_ne!(key, NO_KEY, "the key of empty ways cannot be inserted");
        if self.values.is_empty() {
            self.values = vec![value; self.capacity()];
        }
        let base = set * self.ways;
        if let Some(way) = self.find(set, key) {
            self.values[base + way] = value;
            self.state.touch(set, way);
            return None;
        }
        let empty =
            if self.len < self.capacity() { self.find(set, NO_KEY).filter(|&way| way < self.ways) } else { None };
        let (way, victim) = match empty {
            Some(way) => {
                self.len += 1;
                (way, None)
            }
            None => {
                let way = self.state.victim(set);
                (way, Some((*self.key(set, way), self.values[base + way])))
            }
        };
        *self.key(set, way) = key;
        self.values[base + way] = value;
        self.state.fill(set, way);
        victim
    }

    /// Removes `key` from `set`.
    #[inline]
    pub fn remove(&mut self, set: usize, key: u64) -> Option<T> {
        debug_assert_ne!(key, NO_KEY, "the key of empty ways cannot be removed");
        let way = self.find(set, key)?;
        *self.key(set, way) = NO_KEY;
        self.len -= 1;
        Some(self.values[set * self.ways + way])
    }

    /// Keeps the entries for which `keep` holds; returns the number removed.
    pub fn retain(&mut self, mut keep: impl FnMut(u64, &mut T) -> bool) -> usize {
        if self.len == 0 {
            return 0;
        }
        let before = self.len;
        for set in 0..self.sets {
            let values = &mut self.values[set * self.ways..][..self.ways];
            let keys = self.keys[set * self.groups..][..self.groups].iter_mut().flat_map(|four| &mut four.0);
            for (key, value) in keys.zip(values) {
                if *key != NO_KEY && !keep(*key, value) {
                    *key = NO_KEY;
                    self.len -= 1;
                }
            }
        }
        before - self.len
    }

    /// Removes the entries for which `stale` holds; returns the number removed.
    pub fn invalidate(&mut self, mut stale: impl FnMut(u64, &T) -> bool) -> usize {
        self.retain(|key, value| !stale(key, value))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.keys.fill(Four([NO_KEY; 4]));
        self.len = 0;
    }

    /// All entries as `(set, key, payload)`, set by set.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64, &T)> + '_ {
        (0..if self.is_empty() { 0 } else { self.sets }).flat_map(move |set| {
            let keys = self.keys[set * self.groups..][..self.groups].iter().flat_map(|four| four.0);
            let entries = keys.zip(&self.values[set * self.ways..][..self.ways]);
            entries.filter(|entry| entry.0 != NO_KEY).map(move |(key, value)| (set, key, value))
        })
    }

    /// Prefetches into the sim host's caches what a look-up in `set` reads. Affects speed only.
    #[inline(always)]
    pub fn prefetch_sim_host(&self, set: usize) {
        sim_host::prefetch(&self.keys, set * self.groups);
        if self.groups > 2 {
            sim_host::prefetch(&self.keys, set * self.groups + 2);
        }
        sim_host::prefetch(&self.values, set * self.ways);
        self.state.prefetch_sim_host(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conflicts_evict_the_least_recent_and_only_within_the_set() {
        let mut array = SetArray::new(4, 3, Replacement::Lru);
        for set in 0..4 {
            for key in 0..3u64 {
                assert_eq!(array.insert(set, key, key), None);
            }
        }
        assert_eq!(array.len(), 12);
        array.lookup(1, 0);
        assert_eq!(array.insert(1, 9, 9), Some((1, 1)));
        assert!(array.contains(0, 1) && array.contains(2, 1) && !array.contains(1, 1));
    }

    #[test]
    fn retain_and_remove_keep_the_count() {
        let mut array = SetArray::new(2, 16, Replacement::Lru);
        (0..32u64).for_each(|k| {
            array.insert(k as usize % 2, k, k);
        });
        assert_eq!(array.retain(|key, _| key % 3 == 0), 21);
        assert_eq!((array.len(), array.iter().count()), (11, 11));
        assert_eq!(array.remove(1, 3), Some(3));
        assert_eq!(array.invalidate(|key, _| key % 2 == 0), 6);
        assert_eq!(array.len(), 4);
        array.clear();
        assert!(array.is_empty() && array.iter().next().is_none());
    }

    #[test]
    fn inserting_a_present_key_updates_it_in_place() {
        let mut array = SetArray::new(1, 2, Replacement::Lru);
        array.insert(0, 1, 'a');
        array.insert(0, 2, 'b');
        assert_eq!(array.insert(0, 1, 'c'), None);
        assert_eq!(array.len(), 2);
        assert_eq!(array.insert(0, 3, 'd'), Some((2, 'b')));
        assert_eq!(array.peek(0, 1), Some(&'c'));
    }

    /// The reference model: each set is a list, most recent first.
    struct Lists {
        sets: Vec<Vec<(u64, u32)>>,
        ways: usize,
    }

    impl Lists {
        fn lookup(&mut self, set: usize, key: u64) -> Option<u32> {
            let at = self.sets[set].iter().position(|e| e.0 == key)?;
            let entry = self.sets[set].remove(at);
            self.sets[set].insert(0, entry);
            Some(entry.1)
        }

        fn insert(&mut self, set: usize, key: u64, value: u32) -> Option<(u64, u32)> {
            if self.lookup(set, key).is_some() {
                self.sets[set][0].1 = value;
                return None;
            }
            let victim = (self.sets[set].len() == self.ways).then(|| self.sets[set].pop()).flatten();
            self.sets[set].insert(0, (key, value));
            victim
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lru_equals_lists(
            ways in 1usize..40,
            sets in 1usize..4,
            steps in prop::collection::vec((0u8..8, 0u64..60, any::<u32>()), 1..600),
        ) {
            let mut array = SetArray::new(sets, ways, Replacement::Lru);
            let mut lists = Lists { sets: vec![Vec::new(); sets], ways };
            for (what, key, value) in steps {
                let set = value as usize % sets;
                match what {
                    0..4 => prop_assert_eq!(array.lookup(set, key).copied(), lists.lookup(set, key)),
                    4..7 => prop_assert_eq!(array.insert(set, key, value), lists.insert(set, key, value)),
                    _ => {
                        let there = lists.sets[set].iter().position(|e| e.0 == key);
                        let expected = there.map(|at| lists.sets[set].remove(at).1);
                        prop_assert_eq!(array.remove(set, key), expected);
                    }
                }
                prop_assert_eq!(array.len(), lists.sets.iter().map(Vec::len).sum::<usize>());
            }
        }

        #[test]
        fn every_policy_keeps_the_reported_entries(ways in 1usize..70, keys in prop::collection::vec(0u64..200, 1..400)) {
            for policy in [Replacement::Lru, Replacement::TreePlru, Replacement::Srrip, Replacement::Drrip, Replacement::Random] {
                let mut array = SetArray::new(2, ways, policy);
                let mut there = std::collections::HashSet::new();
                for &key in &keys {
                    let set = (key & 1) as usize;
                    if let Some((gone, _)) = array.insert(set, key, ()) {
                        prop_assert!(there.remove(&gone));
                        prop_assert_eq!(gone & 1, key & 1);
                    }
                    there.insert(key);
                    prop_assert!(array.contains(set, key));
                }
                prop_assert_eq!(there.len(), array.len());
                prop_assert!(there.iter().all(|&key| array.contains((key & 1) as usize, key)));
            }
        }
    }
}
