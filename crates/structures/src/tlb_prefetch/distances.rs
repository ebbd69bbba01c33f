//! Which distance between missing pages follows which.

use ambulator_base::State;
use ambulator_hardware::{Replacement, SetArray};

/// Most distances that a row holds.
pub const MOST_SUCCESSORS: usize = 8;

/// The distances that followed one, the latest first.
#[derive(Clone, Copy, Default, State)]
struct Row {
    next: [i64; MOST_SUCCESSORS],
    count: usize,
}

impl Row {
    /// `next` has followed: it becomes the first, and what has not followed for longest leaves a full row.
    fn put(&mut self, next: i64, most: usize) {
        let known = self.next[..self.count].iter().position(|own| *own == next);
        if known.is_none() && self.count < most {
            self.count += 1;
        }
        let at = known.unwrap_or(self.count - 1);
        self.next[..=at].rotate_right(1);
        self.next[0] = next;
    }
}

/// A set-associative table with a row for each distance, replaced by LRU; the lowest bits of the distance
/// select the set.
#[derive(State)]
pub struct DistanceTable {
    rows: SetArray<Row>,
    #[state(skip)]
    slots: usize,
}

impl DistanceTable {
    /// An empty table of `entries` rows in sets of `ways` (0: fully associative), each with `slots`
    /// distances, 1 to [`MOST_SUCCESSORS`].
    pub fn new(entries: u32, ways: u32, slots: u32) -> DistanceTable {
        let ways = if ways == 0 { entries } else { ways };
        DistanceTable {
            rows: SetArray::new((entries / ways) as usize, ways as usize, Replacement::Lru),
            slots: (slots as usize).clamp(1, MOST_SUCCESSORS),
        }
    }

    fn set_and_key(&self, distance: i64) -> (usize, u64) {
        // The sign goes to the lowest bit of the key: no distance between pages has that of empty ways.
        ((distance as u64 % self.rows.sets() as u64) as usize, (distance << 1 ^ distance >> 63) as u64)
    }

    /// The distances that followed `distance`, the latest first.
    pub fn after(&mut self, distance: i64) -> impl Iterator<Item = i64> + use<> {
        let (set, key) = self.set_and_key(distance);
        let row = self.rows.lookup(set, key).copied().unwrap_or_default();
        row.next.into_iter().take(row.count)
    }

    /// `next` has followed `distance`.
    pub fn learn(&mut self, distance: i64, next: i64) {
        let ((set, key), slots) = (self.set_and_key(distance), self.slots);
        if let Some(row) = self.rows.lookup(set, key) {
            row.put(next, slots);
        } else {
            let mut row = Row::default();
            row.put(next, slots);
            self.rows.insert(set, key, row);
        }
    }

    /// Forgets all distances.
    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn after(table: &mut DistanceTable, distance: i64) -> Vec<i64> {
        table.after(distance).collect()
    }

    #[test]
    fn a_row_has_the_latest_successors_first() {
        let mut table = DistanceTable::new(64, 4, 2);
        assert_eq!(after(&mut table, 4), [0; 0]);
        for next in [1, 7, 1, -3] {
            table.learn(4, next);
        }
        assert_eq!(after(&mut table, 4), [-3, 1], "7 has not followed for longest");
        for distance in [-60, -1, i64::MIN / 4, i64::MAX / 4] {
            table.learn(distance, 2);
            let both = (after(&mut table, distance), after(&mut table, -distance));
            assert_eq!(both, (vec![2], Vec::new()), "distances have a sign");
        }
        table.clear();
        assert_eq!(after(&mut table, 4), [0; 0]);
    }

    #[test]
    fn a_table_with_room_agrees_with_a_map() {
        let mut random = ambulator_base::Random::new(4);
        let mut table = DistanceTable::new(64, 0, 3);
        let mut map: HashMap<i64, Vec<i64>> = HashMap::new();
        for _ in 0..5000 {
            let (distance, next) = (random.below(20) as i64 - 10, random.below(6) as i64 - 3);
            assert_eq!(after(&mut table, distance), map.get(&distance).cloned().unwrap_or_default());
            table.learn(distance, next);
            let row = map.entry(distance).or_default();
            row.retain(|known| *known != next);
            row.insert(0, next);
            row.truncate(3);
        }
    }

    #[test]
    fn the_distance_that_was_used_longest_ago_loses_its_row() {
        // Sixteen sets: multiples of 16 share one.
        let mut table = DistanceTable::new(64, 4, 1);
        for distance in [0, 16, 32, 48] {
            table.learn(distance, distance + 1);
        }
        assert_eq!(after(&mut table, 0), [1]);
        table.learn(64, 65);
        let kept: Vec<i64> = [0, 16, 32, 48, 64].into_iter().filter(|of| !after(&mut table, *of).is_empty()).collect();
        assert_eq!(kept, [0, 32, 48, 64]);
    }
}
