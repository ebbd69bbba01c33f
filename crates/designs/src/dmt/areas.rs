//! The VMAs of a process, as far as TEAs need them: disjoint areas, those that touch merged.

use ambulator_base::State;
use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint areas of addresses, by first address.
#[derive(Default, State)]
pub(super) struct Areas(BTreeMap<u64, u64>);

impl Areas {
    /// Adds an area; returns it with what it touches.
    pub fn add(&mut self, start: u64, end: u64) -> Range<u64> {
        let (mut from, mut to) = (start, end);
        let touching: Vec<u64> =
            self.0.range(..=end).rev().take_while(|(_, to)| **to >= start).map(|(from, _)| *from).collect();
        for first in touching {
            let last = self.0.remove(&first).unwrap_or(first);
            (from, to) = (from.min(first), to.max(last));
        }
        self.0.insert(from, to);
        from..to
    }

    /// Removes `[start, end)`.
    pub fn remove(&mut self, start: u64, end: u64) {
        let overlapping: Vec<u64> =
            self.0.range(..end).rev().take_while(|(_, to)| **to > start).map(|(from, _)| *from).collect();
        for first in overlapping {
            let last = self.0.remove(&first).unwrap_or(first);
            if first < start {
                self.0.insert(first, start);
            }
            if last > end {
                self.0.insert(end, last);
            }
        }
    }

    /// The parts of areas within `[start, end)`, in ascending order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.0.range(..start).next_back();
        let from = before.filter(|(_, to)| **to > start).map_or(start, |(from, _)| *from);
        self.0.range(from..end.max(from)).map(move |(from, to)| (*from).max(start)..(*to).min(end))
    }

    /// Bytes of areas within `[start, end)`.
    pub fn bytes(&self, start: u64, end: u64) -> u64 {
        self.within(start, end).map(|area| area.end - area.start).sum()
    }

    /// The tables that cover `2^span` bytes each and hold an entry of an area, of those in `tables`: disjoint
    /// ranges in ascending order.
    pub fn tables(&self, tables: Range<u64>, span: u32) -> Vec<Range<u64>> {
        let mut held: Vec<Range<u64>> = Vec::new();
        for area in self.within(tables.start << span, tables.end << span) {
            let own = area.start >> span..((area.end - 1) >> span) + 1;
            match held.last_mut() {
                Some(last) if own.start <= last.end => last.end = last.end.max(own.end),
                _ => held.push(own),
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn areas_are_a_set_of_addresses(
            changes in prop::collection::vec((0u64..64, 1u64..12, any::<bool>()), 1..40),
            from in 0u64..64,
            len in 1u64..30,
        ) {
            let (mut areas, mut model) = (Areas::default(), [false; 80]);
            for (start, len, adds) in changes {
                // VMAs never overlap.
                areas.remove(start, start + len);
                if adds {
                    let whole = areas.add(start, start + len);
                    prop_assert!(whole.start <= start && start + len <= whole.end);
                }
                model[start as usize..(start + len) as usize].fill(adds);
                let now: Vec<u64> = areas.within(0, 80).flatten().collect();
                let expected: Vec<u64> = (0..80).filter(|at| model[*at as usize]).collect();
                prop_assert_eq!(now, expected);
                // Those that touch are one.
                let ends: Vec<Range<u64>> = areas.within(0, 80).collect();
                prop_assert!(ends.windows(2).all(|two| two[0].end < two[1].start));
            }
            let expected = (from..(from + len).min(80)).filter(|at| model[*at as usize]).count() as u64;
            prop_assert_eq!(areas.bytes(from, from + len), expected);
            let tables: Vec<u64> = areas.tables(1..9, 3).into_iter().flatten().collect();
            let held = |table: &u64| model[(*table as usize) << 3..(*table as usize + 1) << 3].contains(&true);
            prop_assert_eq!(tables, (1..9).filter(held).collect::<Vec<_>>());
        }
    }
}
