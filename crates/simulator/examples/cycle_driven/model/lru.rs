//! Sets of entries in the order of their last use: the arrays of caches, TLBs and page-walk caches.

/// Sets of at most `ways` entries with a key each, the most recently used first.
pub struct LruSets<T> {
    sets: Vec<Vec<(u64, T)>>,
    ways: usize,
}

impl<T> LruSets<T> {
    /// Empty sets. `entries` is a multiple of `ways`; with 0 ways all entries are one set.
    pub fn new(entries: usize, ways: usize) -> LruSets<T> {
        let ways = if ways == 0 { entries } else { ways };
        let sets = entries.checked_div(ways).unwrap_or(0);
        LruSets { sets: (0..sets).map(|_| Vec::with_capacity(ways)).collect(), ways }
    }

    /// The set in which `number` is looked up, if there are any.
    fn set(&mut self, number: u64) -> Option<&mut Vec<(u64, T)>> {
        let sets = self.sets.len() as u64;
        self.sets.get_mut(number.checked_rem(sets)? as usize)
    }

    /// The entry of `key` in the set of `number`; it becomes the most recently used.
    pub fn lookup(&mut self, number: u64, key: u64) -> Option<&mut T> {
        let set = self.set(number)?;
        let place = set.iter().position(|(held, _)| *held == key)?;
        set[..=place].rotate_right(1);
        set.first_mut().map(|(_, value)| value)
    }

    /// The entry of `key` in the set of `number`, without a use.
    pub fn peek(&mut self, number: u64, key: u64) -> Option<&mut T> {
        self.set(number)?.iter_mut().find(|(held, _)| *held == key).map(|(_, value)| value)
    }

    /// Inserts or replaces the entry of `key` as the most recently used; returns the entry that it evicts.
    pub fn insert(&mut self, number: u64, key: u64, value: T) -> Option<(u64, T)> {
        let ways = self.ways;
        let set = self.set(number)?;
        set.retain(|(held, _)| *held != key);
        let evicted = if set.len() == ways { set.pop() } else { None };
        set.insert(0, (key, value));
        evicted
    }

    /// Drops the entries for which `drops` holds.
    pub fn remove(&mut self, drops: impl Fn(u64, &T) -> bool) {
        for set in &mut self.sets {
            set.retain(|(key, value)| !drops(*key, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_a_full_set_is_evicted() {
        let mut sets = LruSets::new(4, 2);
        for key in [0, 2, 1] {
            assert_eq!(sets.insert(key, key, ()), None, "two even keys and an odd one fit");
        }
        assert!(sets.lookup(0, 0).is_some());
        assert_eq!(sets.insert(4, 4, ()), Some((2, ())), "0 was used after 2");
        assert!(sets.peek(0, 0).is_some());
        assert_eq!(sets.insert(6, 6, ()), Some((0, ())), "a peek is no use");
    }

    #[test]
    fn no_entries_hold_nothing() {
        let mut sets = LruSets::new(0, 0);
        assert_eq!(sets.insert(3, 3, ()), None);
        assert!(sets.lookup(3, 3).is_none());
    }
}
