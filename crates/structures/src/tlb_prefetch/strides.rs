//! The stride of the pages at which an instruction misses.

use super::distance;
use ambulator_base::{State, VirtAddr, mix64};
use ambulator_hardware::{Replacement, SetArray};

/// What the table knew of an instruction when it missed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    /// The distance from its last missing page to this one.
    pub new: i64,
    /// The distance before that one, if there was one.
    pub old: Option<i64>,
    /// How often in a row the distance has been found again; 0 if it is not the old one.
    pub confirmed: u32,
}

#[derive(Clone, Copy, Default, State)]
struct Row {
    page: u64,
    stride: Option<i64>,
    confirmed: u32,
}

/// A set-associative table with a row for each instruction, replaced by LRU. A hash of the instruction's
/// address selects the set, because compilers align instructions in different ways.
#[derive(State)]
pub struct StrideTable {
    rows: SetArray<Row>,
}

impl StrideTable {
    /// An empty table of `entries` rows in sets of `ways` (0: fully associative).
    pub fn new(entries: u32, ways: u32) -> StrideTable {
        let ways = if ways == 0 { entries } else { ways };
        StrideTable { rows: SetArray::new((entries / ways) as usize, ways as usize, Replacement::Lru) }
    }

    /// The instruction at `pc` has missed at `page`: what the table knew of it before it learnt that. `None`
    /// at its first miss.
    pub fn miss(&mut self, pc: VirtAddr, page: u64) -> Option<Stride> {
        // A trace may name any address as an instruction's; that of empty ways is none of a program.
        let key = pc.0 & (u64::MAX >> 1);
        let set = (mix64(key) % self.rows.sets() as u64) as usize;
        let Some(row) = self.rows.lookup(set, key) else {
            self.rows.insert(set, key, Row { page, stride: None, confirmed: 0 });
            return None;
        };
        let (old, new) = (row.stride, distance(row.page, page));
        row.confirmed = if old == Some(new) { row.confirmed.saturating_add(1) } else { 0 };
        (row.page, row.stride) = (page, Some(new));
        Some(Stride { new, old, confirmed: row.confirmed })
    }

    /// Forgets all instructions.
    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn strides_are_those_of_each_instruction() {
        let mut table = StrideTable::new(64, 4);
        let (a, b) = (VirtAddr(0x40_1000), VirtAddr(0x40_1007));
        let mut told = Vec::new();
        for step in 0..4 {
            told.push((table.miss(a, 100 + 4 * step), table.miss(b, 1000 - 16 * step)));
        }
        let stride = |new, old, confirmed| Some(Stride { new, old, confirmed });
        assert_eq!(
            told,
            [
                (None, None),
                (stride(4, None, 0), stride(-16, None, 0)),
                (stride(4, Some(4), 1), stride(-16, Some(-16), 1)),
                (stride(4, Some(4), 2), stride(-16, Some(-16), 2)),
            ]
        );
        assert_eq!(table.miss(a, 115), stride(3, Some(4), 0), "another stride confirms nothing");
        assert_eq!(table.miss(a, 118), stride(3, Some(3), 1));
        table.clear();
        assert_eq!(table.miss(a, 121), None);
        assert_eq!(table.miss(VirtAddr(u64::MAX), 121), None, "any address is one");
    }

    #[test]
    fn a_table_with_room_agrees_with_a_map() {
        let mut random = ambulator_base::Random::new(8);
        let mut table = StrideTable::new(64, 0);
        let mut map: HashMap<u64, Vec<u64>> = HashMap::new();
        for _ in 0..5000 {
            let (pc, page) = (random.below(30), random.below(4) * 10);
            let pages = map.entry(pc).or_default();
            let known = table.miss(VirtAddr(pc), page);
            let distances: Vec<i64> = pages.windows(2).map(|two| two[1] as i64 - two[0] as i64).collect();
            let expected = pages.last().map(|last| {
                let new = page as i64 - *last as i64;
                let confirmed = distances.iter().rev().take_while(|old| **old == new).count() as u32;
                Stride { new, old: distances.last().copied(), confirmed }
            });
            assert_eq!(known, expected);
            pages.push(page);
        }
    }

    #[test]
    fn the_instruction_that_missed_longest_ago_loses_its_row() {
        let mut table = StrideTable::new(2, 0);
        for pc in [1, 2, 1, 3] {
            table.miss(VirtAddr(pc), 7);
        }
        assert!(table.miss(VirtAddr(1), 7).is_some());
        assert!(table.miss(VirtAddr(2), 7).is_none(), "1 was used after it");
    }
}
