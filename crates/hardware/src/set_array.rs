//! A set-associative array of keys with payloads: the building block of TLBs, page-walk caches and small
//! tables.

use crate::{Replacement, ReplacementState, sim_host};
use ambulator_base::State;

/// The key that marks an empty way; no entry can have it.
pub const NO_KEY: u64 = u64::MAX;

/// The tag of empty ways, and of places beyond the ways.
const NO_TAG: u32 = u32::MAX;

/// Tags compared between two branches in sets of more: a hit's way is unpredictable, a comparison is not.
const TAGS_PER_BRANCH: usize = 16;

/// A summary of a key, which is compared with many at once. Keys with the same tag are told apart by
/// themselves.
#[inline(always)]
fn tag_of(key: u64) -> u32 {
    ((key ^ key >> 32) as u32).min(NO_TAG - 1)
}

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
    /// `stride` for each set: 4, 8, or a multiple of 16.
    tags: Box<[u32]>,
    #[state(skip)]
    stride: usize,
    keys: Box<[u64]>,
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
        let stride = match ways {
            0..=4 => 4,
            5..=8 => 8,
            _ => ways.next_multiple_of(TAGS_PER_BRANCH),
        };
        SetArray {
            tags: vec![NO_TAG; sets * stride].into(),
            stride,
            keys: vec![NO_KEY; sets * ways].into(),
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

    /// The first way of `set` with that tag of which `is` holds, in ascending order.
    #[inline(always)]
    fn first(&self, set: usize, tag: u32, is: impl Fn(usize) -> bool) -> Option<usize> {
        let tags = &self.tags[set * self.stride..][..self.stride];
        // Comparisons, not a jump table: these are the sizes that machines have.
        if self.stride == 4 {
            return tags.first_chunk().and_then(|tags| first_of(sim_host::matches::<4>(tags, tag), 0, is));
        }
        if self.stride == 8 {
            return tags.first_chunk().and_then(|tags| first_of(sim_host::matches::<8>(tags, tag), 0, is));
        }
        let (chunks, _) = tags.as_chunks::<TAGS_PER_BRANCH>();
        let mut chunks = chunks.iter().enumerate();
        chunks.find_map(|(i, tags)| first_of(sim_host::matches(tags, tag), i * TAGS_PER_BRANCH, &is))
    }

    #[inline(always)]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        let keys = &self.keys[set * self.ways..][..self.ways];
        self.first(set, tag_of(key), |way| keys.get(way) == Some(&key))
    }

    /// Puts a key into a way, or [`NO_KEY`].
    #[inline(always)]
    fn set_key(&mut self, set: usize, way: usize, key: u64) {
        self.keys[set * self.ways + way] = key;
        self.tags[set * self.stride + way] = if key == NO_KEY { NO_TAG } else { tag_of(key) };
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
        if let Some(way) = self.find(set, key) {
            self.values[set * self.ways + way] = value;
            self.state.touch(set, way);
            return None;
        }
        self.insert_new(set, key, value)
    }

    /// [`SetArray::insert`] of a key that is not in `set`.
    #[inline(always)]
    pub fn insert_new(&mut self, set: usize, key: u64, value: T) -> Option<(u64, T)> {
        debug_assert!(key != NO_KEY && !self.contains(set, key), "the key is new");
        if self.values.is_empty() {
            self.values = vec![value; self.capacity()];
        }
        let base = set * self.ways;
        let empty = if self.len < self.capacity() { self.first(set, NO_TAG, |_| true) } else { None }
            .filter(|&way| way < self.ways);
        let (way, victim) = match empty {
            Some(way) => {
                self.len += 1;
                self.state.fill(set, way);
                (way, None)
            }
            None => {
                let way = self.state.replace(set);
                (way, Some((self.keys[base + way], self.values[base + way])))
            }
        };
        self.set_key(set, way, key);
        self.values[base + way] = value;
        victim
    }

    /// Removes `key` from `set`.
    #[inline]
    pub fn remove(&mut self, set: usize, key: u64) -> Option<T> {
        debug_assert_ne!(key, NO_KEY, "the key of empty ways cannot be removed");
        let way = self.find(set, key)?;
        self.set_key(set, way, NO_KEY);
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
            for way in 0..self.ways {
                let at = set * self.ways + way;
                if self.keys[at] != NO_KEY && !keep(self.keys[at], &mut self.values[at]) {
                    self.set_key(set, way, NO_KEY);
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
        self.tags.fill(NO_TAG);
        self.keys.fill(NO_KEY);
        self.len = 0;
    }

    /// All entries as `(set, key, payload)`, set by set.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64, &T)> + '_ {
        let entries = self.keys.iter().zip(&self.values).enumerate().filter(|(_, (key, _))| **key != NO_KEY);
        entries.map(|(at, (key, value))| (at / self.ways, *key, value))
    }

    /// Prefetches into the sim host's caches what a look-up in `set` reads. Affects speed only.
    #[inline(always)]
    pub fn prefetch_sim_host(&self, set: usize) {
        sim_host::prefetch(&self.tags, set * self.stride);
        sim_host::prefetch(&self.keys, set * self.ways);
        sim_host::prefetch(&self.values, set * self.ways);
        self.state.prefetch_sim_host(set);
    }
}

/// The first way that `mask` marks, counted from `base`, of which `is` holds.
#[inline(always)]
fn first_of(mut mask: u32, base: usize, is: impl Fn(usize) -> bool) -> Option<usize> {
    while mask != 0 {
        let way = base + mask.trailing_zeros() as usize;
        if is(way) {
            return Some(way);
        }
        mask &= mask - 1;
    }
    None
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

    #[test]
    fn keys_of_one_tag_are_told_apart() {
        let keys = [5u64, 4 | 1 << 32, 6 | 3 << 32, u64::from(u32::MAX), u64::from(u32::MAX - 1), 1 << 63 | 1 << 31];
        for ways in [3, 6, 12, 32] {
            let mut array = SetArray::new(2, ways, Replacement::Lru);
            for (i, &key) in keys.iter().enumerate() {
                array.insert(1, key, i);
            }
            for (i, &key) in keys.iter().enumerate() {
                let kept = keys.len() - i <= ways;
                assert_eq!(array.peek(1, key).copied(), kept.then_some(i), "{key:#x} among {ways}");
                assert_eq!(array.peek(0, key), None);
            }
            assert_eq!(array.remove(1, 6 | 3 << 32), Some(2).filter(|_| ways > 3));
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
